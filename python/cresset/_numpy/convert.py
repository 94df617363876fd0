"""Tensors, dtypes and NumPy's arrays of each other."""
import functools

import numpy as np

from .. import _C
from .._C import Tensor, from_numpy
from .literals import follow

# The dtypes that operators compute in.  Arrays of others stay NumPy's.
COMPUTED = {np.dtype(name): getattr(_C, theirs) for name, theirs in (
    ("bool", "bool"), ("uint8", "uint8"), ("int8", "int8"), ("int16", "int16"), ("int32", "int32"), ("int64", "int64"),
    ("float16", "float16"), ("float32", "float32"), ("float64", "float64"), ("complex64", "complex64"),
    ("complex128", "complex128"))}
NUMPYS = {theirs: ours for ours, theirs in COMPUTED.items()}


class InNumpy(Exception):
    """Raised by a function that has no operators for its arguments: the call then runs in NumPy."""


def torch_dtype(dtype):
    """Returns the tensors' dtype of one of NumPy's."""
    found = COMPUTED.get(np.dtype(dtype))
    if found is None:
        raise InNumpy(f"arrays of {np.dtype(dtype)} have no operators")
    return found


def is_computed(x):
    """Returns whether operators compute with a NumPy array of this kind."""
    return x.dtype in COMPUTED and x.dtype.isnative


def from_array(x, device=None):
    """Returns a tensor that shares the memory of a NumPy array where strides and flags allow it."""
    if not is_computed(x):
        raise InNumpy(f"arrays of {x.dtype} have no operators")
    if not x.flags.writeable or any(stride < 0 for stride in x.strides) or any(s % x.itemsize for s in x.strides):
        x = x.copy()
    t = from_numpy(x)
    return t if device is None or t.device == device else t.to(device)


def to_array(t):
    """Returns the NumPy array of a tensor; on the host it shares the memory."""
    return (t.detach() if t.requires_grad else t).cpu().resolve_conj().resolve_neg().numpy()


def _literal(array):
    """Returns a tensor of an array's elements.  While a call is recorded they are a constant of the graph."""
    t = from_array(array)
    copy = _C._literal(t)
    if copy is not t:
        follow(array)
    return copy


def tensor_of(x, device=None):
    """Returns the tensor of anything that NumPy takes as an array, to read it."""
    from .array import ndarray
    kind = type(x)
    if kind is ndarray:
        return x._t
    if kind is Tensor:
        return x
    if not isinstance(x, np.ndarray):
        if _has_wrapped(x):
            return _stacked(x)
        x = np.asarray(x)
    t = _literal(x)
    return t if device is None or t.device == device else t.to(device)


def _has_wrapped(x):
    from .array import ndarray
    return isinstance(x, (list, tuple)) and any(type(item) is ndarray or _has_wrapped(item) for item in x)


def _stacked(items):
    """Returns the tensor of nested lists that contain wrapped arrays."""
    parts = [tensor_of(item) for item in items]
    dtype = torch_dtype(np.result_type(*(NUMPYS[p.dtype] for p in parts)))
    return _C.stack([p.to(dtype) for p in parts])


def numpy_dtype(t):
    return NUMPYS[t.dtype]


def device_of(values):
    """Returns the device of the first wrapped array of a tree of arguments."""
    from .array import ndarray
    for x in values:
        if type(x) is ndarray:
            return x._t.device
        if isinstance(x, (list, tuple)):
            found = device_of(x)
            if found is not None:
                return found
    return None


@functools.lru_cache(maxsize=4096)
def result_dtype(*dtypes):
    """Returns NumPy's promotion of dtypes and of the types int, float and complex, which are weak."""
    return np.result_type(*(d(1) if isinstance(d, type) and d in (int, float, complex) else d for d in dtypes))


def kind_for_promotion(x):
    """Returns what result_dtype() takes for an operand."""
    from .array import ndarray
    if type(x) is ndarray:
        return NUMPYS[x._t.dtype]
    if type(x) in (int, float, complex):
        return type(x)
    if isinstance(x, np.generic):
        return x.dtype
    return np.asarray(x).dtype if not _has_wrapped(x) else NUMPYS[tensor_of(x).dtype]


def promoted(*operands):
    """Returns tensors of the operands in their common dtype."""
    dtype = torch_dtype(result_dtype(*map(kind_for_promotion, operands)))
    device = device_of(operands)
    return [tensor_of(x, device).to(dtype) for x in operands]


def axis_of(axis, ndim):
    """Returns a non-negative axis; raises NumPy's error."""
    import operator
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis + ndim if axis < 0 else axis


def axes_of(axis, ndim):
    """Returns the tuple of non-negative axes of None (all), an int or a tuple."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis_of(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes
