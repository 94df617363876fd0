"""RemoteModule: a module that another process has, called by remote procedure calls."""
import cresset

from .... import nn
from ....utils._pytree import tree_map
from ... import rpc
from ...remote_device import _remote_device
from ...rpc.internal import _internal_rpc_pickler

__all__ = ["RemoteModule"]


def _create_module(module_cls, args, kwargs, device):
    module = module_cls(*args, **kwargs)
    if not isinstance(module, nn.Module):
        raise ValueError("Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an instance of "
                         f"{type(module)}.")
    return module.to(device)


def _param_rrefs(module_rref, recurse):
    return [rpc.RRef(param) for param in module_rref.local_value().parameters(recurse)]


def _moved(values, device):
    return tree_map(lambda x: x.to(device) if isinstance(x, cresset.Tensor) else x, values)


def _remote_forward(module_rref, is_device_map_set, device, *args, **kwargs):
    """Calls the module.  Without a map of devices messages have tensors of the host, which go to the module's device and back."""
    module, device = module_rref.local_value(), cresset.device(device)
    if device.type != "cuda":
        return module.forward(*args, **kwargs)
    made = module.forward(*_moved(args, device), **_moved(kwargs, device))
    return made if is_device_map_set else _moved(made, "cpu")


class RemoteModule(nn.Module):
    """A module that is made in the process of `remote_device` ("worker/device"), and called there: forward() waits, forward_async()
    returns a future.  Its parameters are there, too (remote_parameters()); most methods of modules are refused."""

    def __init__(self, remote_device, module_cls, args=None, kwargs=None):
        super().__init__()
        self._place(remote_device)
        self.module_rref = rpc.remote(self.on, _create_module, (module_cls, tuple(args or ()), dict(kwargs or {}), self.device))

    def _place(self, remote_device):
        if not rpc._is_current_rpc_agent_set():
            raise AssertionError("RemoteModule only works in RPC.")
        place = _remote_device(remote_device)
        self.on = place.worker_name() if place.worker_name() is not None else place.rank()
        self.device = str(place.device())
        agent = rpc._get_current_rpc_agent()
        self.is_device_map_set = bool(agent._get_device_map(agent.get_worker_info(self.on)))

    @staticmethod
    def init_from_module_rref(remote_device, module_rref):
        """Returns the RemoteModule of a module that another RemoteModule has made."""
        made = RemoteModule.__new__(RemoteModule)
        nn.Module.__init__(made)
        made._place(remote_device)
        if made.on not in (module_rref.owner_name(), module_rref.owner().id):
            raise ValueError(f"the module is in the process {module_rref.owner_name()}, not in {made.on}")
        made.module_rref = module_rref
        return made

    def forward(self, *args, **kwargs):
        """Returns the result of the module's forward."""
        return self.forward_async(*args, **kwargs).wait()

    def forward_async(self, *args, **kwargs):
        """Returns a future of it."""
        return rpc.rpc_async(self.module_rref.owner(), _remote_forward,
                             (self.module_rref, self.is_device_map_set, self.device, *args), kwargs)

    def remote_parameters(self, recurse=True):
        """Returns references to the parameters, as distributed optimizers take them."""
        return rpc.rpc_sync(self.on, _param_rrefs, (self.module_rref, recurse))

    def get_module_rref(self):
        """Returns the reference to the module."""
        return self.module_rref

    def train(self, mode=True):
        """Sets the mode of the module; returns its reference."""
        return self.module_rref.rpc_sync().train(mode)

    def eval(self):
        """Sets the mode of the module to evaluation."""
        return self.module_rref.rpc_sync().eval()

    def parameters(self, recurse=True):
        """Refused."""
        raise ValueError("Method ``parameters`` not supported for RemoteModule. Please use ``remote_parameters`` instead.")

    def __getstate__(self):
        raise RuntimeError("Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC")

    def __setstate__(self, state):
        raise RuntimeError("Cannot unpickle RemoteModule in python pickler. RemoteModule can only be unpickled when using RPC")


def _refuses(name):
    def method(self, *args, **kwargs):
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")
    method.__name__, method.__doc__ = name, "Refused: the module is in another process."
    return method


for _name in ("register_buffer", "register_parameter", "add_module", "apply", "cuda", "ipu", "xpu", "cpu", "type", "float", "double", "half",
              "bfloat16", "to", "register_backward_hook", "register_forward_pre_hook", "register_forward_hook", "state_dict",
              "load_state_dict", "named_parameters", "buffers", "named_buffers", "children", "named_children", "modules", "named_modules",
              "requires_grad_", "zero_grad", "share_memory", "extra_repr"):
    setattr(RemoteModule, _name, _refuses(_name))


def _received(on, device, is_device_map_set, module_rref):
    made = RemoteModule.__new__(RemoteModule)
    nn.Module.__init__(made)
    made.on, made.device, made.is_device_map_set, made.module_rref = on, device, is_device_map_set, module_rref
    return made


_internal_rpc_pickler._register_reducer(
    RemoteModule, lambda m: (_received, (m.on, m.device, m.is_device_map_set, m.module_rref)))
