"""Names of torch._C that are written in Python.  Each is loaded when it is first read."""
from . import _C

_HOMES = {"DispatchKey": "_dispatch_keys", "DispatchKeySet": "_dispatch_keys",
          "_ExcludeDispatchKeyGuard": "_dispatch_keys", "PyTorchFileReader": "_archive",
          "_get_tracing_state": "jit"}


_NN_HOMES = {"_parse_to": "nn.modules.module"}


def _finder(module, homes):
    def find(name):
        if name not in homes:
            raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
        from importlib import import_module
        value = getattr(import_module(f"{__package__}.{homes[name]}"), name)
        setattr(module, name, value)
        return value
    return find


def _log_api_usage_once(event):
    """Does nothing; torch counts events here."""


def _get_accelerator(check=None):
    """Returns the device of the accelerator; the host without one."""
    from . import accelerator
    return accelerator.current_accelerator() or _C.device("cpu")


_C._get_accelerator = _get_accelerator
_C.__getattr__ = _finder(_C, _HOMES)
_C._nn.__getattr__ = _finder(_C._nn, _NN_HOMES)
_C._log_api_usage_once = _log_api_usage_once
