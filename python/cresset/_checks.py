"""torch._check() and its variants, sym_int() and its like, and get_device_module()."""
import math

from . import _C, _root
from ._features import SymBool

_FAILED = ("Expected cond to be True, but got False. (Could this error message be improved? If so, "
           "please report an enhancement request to PyTorch.)")


def _check_with(error_type, cond, message):
    """Raises error_type with the text of `message()` unless cond is true."""
    if isinstance(cond, SymBool):
        return cond.assume(error_type, message)
    if not isinstance(cond, (bool, _C.Symbol)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(_FAILED)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond, message=None):
    """Raises a RuntimeError unless cond is true.

    Example::

        >>> torch._check(1 < 2, lambda: "too small")
    """
    _check_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Raises a RuntimeError unless 0 <= i <= max."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond, message=None):
    """Raises an IndexError unless cond is true."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raises a ValueError unless cond is true."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raises a TypeError unless cond is true."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raises a NotImplementedError unless cond is true."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None):
    """Raises error_type with the text of `message()` unless all elements are true."""
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond, message=None):
    """Raises a RuntimeError unless all elements are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


# --- numbers that may be symbols ---

def sym_int(a):
    """The number without its fraction."""
    return a if isinstance(a, int) else math.trunc(a)


def sym_float(a):
    return a if isinstance(a, float) else float(a)


def sym_not(a):
    return not a


def _larger(a, b, choose):
    if isinstance(a, float) or isinstance(b, float):
        return choose(float(a), float(b))
    return choose(a, b)


def sym_max(a, b):
    """The larger number; a float if one of the two is."""
    return _larger(a, b, max)


def sym_min(a, b):
    """The smaller number; a float if one of the two is."""
    return _larger(a, b, min)


def sym_sum(args):
    """The sum of a list of numbers."""
    return sum(args)


def sym_sqrt(a):
    """The square root."""
    return a.__sym_sqrt__() if hasattr(a, "__sym_sqrt__") else math.sqrt(a)


def sym_ite(b, t, f):
    """t if b is true, else f.  t and f must have the same type."""
    assert isinstance(b, (bool, _C.Symbol)), f"expected SymBool or bool, got {type(b)}"
    assert type(t) is type(f), f"type mismatch: {type(t)} vs {type(f)}"
    return t if b else f


# --- devices ---

def get_device_module(device=None):
    """The module torch.<type> of a device; without a device, of the accelerator or the CPU.

    Example::

        >>> torch.get_device_module("cpu").__name__.split(".")[-1]
        'cpu'
    """
    import importlib
    if device is None:
        from . import accelerator
        device = accelerator.current_accelerator() or "cpu"
    if not isinstance(device, (str, _C.device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = _C.device(device).type
    module = getattr(importlib.import_module(_root.NAME), kind, None)
    if module is None:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return module
