"""replicate(module): data parallelism as in DistributedDataParallel, without a wrapper."""
import weakref

import cresset

from ...nn import ParameterList
from .contract import _get_registry, contract

__all__ = ["replicate"]


class _ReplicateState:
    """Averages the gradients of a module by a DistributedDataParallel of its parameters."""

    def __init__(self):
        self.module = self._ddp = self._options = None
        self._ddp_weakref = lambda: None

    def begin(self, module, ignored, options):
        self.module, self._ignored, self._options = weakref.ref(module), ignored, options
        module.register_forward_pre_hook(self._before, with_kwargs=True)
        module.register_forward_hook(self._after)

    def _parameters(self, module):
        """Returns the parameters, except those of modules that are ignored or were replicated themselves."""
        if module in self._ignored or (module is not self.module() and "replicate" in (_get_registry(module) or ())):
            return []
        own = list(module.parameters(recurse=False))
        return own + [p for child in module.children() for p in self._parameters(child)]

    def _make(self):
        from ...nn.parallel import DistributedDataParallel
        options = dict(self._options)
        device = options.pop("device_id", None)
        if device is not None and cresset.device(device).type != "cpu":
            options["device_ids"] = [device]
        self._ddp = DistributedDataParallel(ParameterList(dict.fromkeys(self._parameters(self.module()))), **options)
        self._ddp_weakref = weakref.ref(self._ddp)

    def _before(self, module, args, kwargs):
        if self._ddp is None:
            self._make()
        return self._ddp._pre_forward(*args, **kwargs)

    def _after(self, module, args, output):
        return self._ddp._post_forward(output)


@contract(state_cls=_ReplicateState)
def replicate(module, ignored_modules=None, **kwargs):
    """Averages a module's gradients over the ranks of a group.  Options are those of DistributedDataParallel, and `device_id`."""
    device = kwargs.get("device_id")
    if device is not None and not isinstance(device, (int, cresset.device)):
        raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(device)}")
    replicate.state(module).begin(module, set(ignored_modules or ()), kwargs)
    return module
