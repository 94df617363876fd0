"""x[index] and x[index] = value by NumPy's rules, which differ from tensors' in negative steps and in ints beside arrays."""
import operator

import numpy as np

from .. import _C
from .._C import Tensor
from .convert import InNumpy, NUMPYS, tensor_of


class InItem(IndexError):
    """NumPy's error about an index."""


def _entry(i, device):
    """Returns an int, a slice, None or a tensor for one entry of an index."""
    from .array import ndarray
    if i is None or isinstance(i, slice):
        return i if i is None else slice(*(None if x is None else operator.index(x) for x in (i.start, i.stop, i.step)))
    if isinstance(i, (bool, np.bool_)):
        raise InNumpy("an index that is one bool")
    if type(i) is not ndarray and not isinstance(i, (list, tuple, np.ndarray, Tensor)):
        try:
            return operator.index(i)
        except TypeError:
            raise InNumpy("an index of another kind") from None
    if isinstance(i, (list, tuple)) and not len(i):
        return _C.tensor([], dtype=_C.int64, device=device)
    t = tensor_of(i, device)
    if t.is_floating_point() or t.is_complex():
        raise InNumpy("an index that is no integer")
    if t.dtype == _C.bool:
        if t.dim() == 0:
            raise InNumpy("an index that is one bool")
        return t
    return t.to(_C.int64) if t.dtype != _C.int64 else t


def _consumed(i):
    """Returns how many dims of the array an entry takes."""
    return 0 if i is None else i.dim() if isinstance(i, Tensor) and i.dtype == _C.bool else 1


def _expanded(index, t):
    """Returns the entries of an index without Ellipsis, for every dim of the array."""
    entries = index if isinstance(index, tuple) else (index,)
    dots = [k for k, i in enumerate(entries) if i is Ellipsis]
    if len(dots) > 1:
        raise InItem("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(entries)
    before = [_entry(i, t.device) for i in entries[:at]]
    after = [_entry(i, t.device) for i in entries[at + 1:]]
    used = sum(map(_consumed, before + after))
    if used > t.dim():
        raise InItem(f"too many indices for array: array is {t.dim()}-dimensional, but {used} were indexed")
    return before + [slice(None)] * (t.dim() - used) + after


def _is_array(i):
    return isinstance(i, Tensor) and (i.dim() > 0 or i.dtype == _C.bool)


def _dims(entries):
    """Returns for every entry the dim of the array at which it starts."""
    out, d = [], 0
    for i in entries:
        out.append(d)
        d += _consumed(i)
    return out


def _ascending(s, n):
    """Returns the slice with a positive step that has the items of one with a negative step, in the other order."""
    start, stop, step = s.indices(n)
    count = max(0, (stop - start + step + 1) // step)
    return slice(start + (count - 1) * step, start + 1, -step) if count else slice(0, 0)


def _check_int(i, n, d):
    if isinstance(i, int) and not -n <= i < n:
        raise InItem(f"index {i} is out of bounds for axis {d} with size {n}")


def _prepared(index, t):
    """Returns (entries, dims of the array that are reversed, whether there are arrays)."""
    entries = _expanded(index, t)
    with_arrays, reversed_dims = any(_is_array(i) for i in entries), []
    for k, (i, d) in enumerate(zip(entries, _dims(entries))):
        if isinstance(i, slice) and i.step is not None and i.step < 0:
            entries[k] = _ascending(i, t.size(d))
            reversed_dims.append(k)
        elif isinstance(i, int):
            _check_int(i, t.size(d), d)
            if with_arrays:  # NumPy broadcasts ints with the arrays
                entries[k] = _C.tensor([i], device=t.device)
        elif isinstance(i, Tensor) and with_arrays and i.dim() == 0:
            entries[k] = i.reshape(1)
    return entries, reversed_dims, with_arrays


def get(t, index):
    """Returns (the items, whether they are a copy that NumPy has as a view)."""
    entries, reversed_entries, with_arrays = _prepared(index, t)
    dims = _dims(entries)
    for k in reversed_entries:
        whole = [slice(None)] * t.dim()
        whole[dims[k]] = entries[k]
        t, entries[k] = t[tuple(whole)].flip(dims[k]), slice(None)
    for k, i in enumerate(entries):  # an array without dims is an int whose value is not read
        if isinstance(i, Tensor) and not with_arrays:
            n = t.size(dims[k])
            t, entries[k] = t.index_select(dims[k], _C.where(i < 0, i + n, i).reshape(1)), 0
    return t[tuple(entries)], bool(reversed_entries) and not with_arrays


def put(t, index, value):
    """Stores values, converted as NumPy does."""
    entries, reversed_entries, with_arrays = _prepared(index, t)
    if reversed_entries and with_arrays:
        raise InNumpy("a negative step beside an array")
    value = _value(value, t)
    if reversed_entries:
        made = [k for k, i in enumerate(entries) if not isinstance(i, (int, Tensor))]
        target = t[tuple(entries)]
        value = value.broadcast_to(target.shape).flip([made.index(k) for k in reversed_entries])
    while value.dim() and value.size(0) == 1 and value.dim() > t.dim():
        value = value.squeeze(0)
    t[tuple(entries)] = value


def _value(value, t):
    from .array import ndarray
    if type(value) in (bool, int, float, complex):
        value = np.asarray(value, dtype=None if not isinstance(value, int) else NUMPYS[t.dtype])
    if isinstance(value, (list, tuple)) and not any(type(x) is ndarray for x in value):
        value = np.asarray(value)
    value = tensor_of(value, t.device)
    if value.is_complex() and not t.is_complex():
        raise InNumpy("a complex value for a real array")
    return value.to(t.dtype)
