"""Names of torch._C that are written in Python.  Each is loaded when it is first read."""
from . import _C

_HOMES = {"DispatchKey": "_dispatch_keys", "DispatchKeySet": "_dispatch_keys",
          "_ExcludeDispatchKeyGuard": "_dispatch_keys", "PyTorchFileReader": "_archive",
          "_get_tracing_state": "jit"}


def _find(name):
    if name not in _HOMES:
        raise AttributeError(f"module '{_C.__name__}' has no attribute '{name}'")
    from importlib import import_module
    value = getattr(import_module(f"{__package__}.{_HOMES[name]}"), name)
    setattr(_C, name, value)
    return value


def _log_api_usage_once(event):
    """Torch's hook for counting events, which nothing listens to."""


_C.__getattr__ = _find
_C._log_api_usage_once = _log_api_usage_once
