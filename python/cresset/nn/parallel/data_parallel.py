"""Data parallelism over the accelerator's devices; without an accelerator the module runs as it is."""
from ... import accelerator
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Splits the batch over devices, runs a copy of the module on each, and joins the results."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids = []
        if not accelerator.is_available():
            return
        self.dim = dim
        self.device_ids = list(range(accelerator.device_count())) if device_ids is None else list(device_ids)
        if not self.device_ids:
            raise RuntimeError("no available devices were found")
        self.output_device = self.device_ids[0] if output_device is None else output_device
        if len(self.device_ids) == 1:
            self.module.to(self.device_ids[0])

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return data_parallel(self.module, inputs, self.device_ids, self.output_device, self.dim, kwargs)

    def replicate(self, module, device_ids):
        """Returns a copy of the module for each device."""
        return replicate(module, device_ids)

    def scatter(self, inputs, kwargs, device_ids):
        """Splits the arguments over the devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """Calls the copies."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[:len(replicas)])

    def gather(self, outputs, output_device):
        """Joins the results."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Evaluates module(*inputs, **module_kwargs), in parallel over the devices."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    if device_ids is None:
        device_ids = list(range(accelerator.device_count()))
    if not device_ids:
        return module(*inputs, **(module_kwargs or {}))
    output_device = device_ids[0] if output_device is None else output_device
    rows, named = scatter_kwargs(inputs, module_kwargs, device_ids, dim)
    if not rows:  # a module without arguments
        rows, named = ((),), ({},)
    if len(device_ids) == 1:
        return module(*rows[0], **named[0])
    used = device_ids[:len(rows)]
    outputs = parallel_apply(replicate(module, used), rows, named, used)
    return gather(outputs, output_device, dim)
