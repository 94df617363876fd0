"""NumPy's functions as compositions of operators, by NumPy's names.

`FUNCTIONS` has a function with NumPy's parameters for each name.  It takes anything that NumPy takes, and
raises InNumpy for arguments that have no composition.
"""
import functools
import math
import operator

import numpy as np

from .. import _C
from .. import unique as unique_
from .._C import Tensor
from . import ufuncs
from .array import ndarray, wrap
from .convert import (InNumpy, NUMPYS, axes_of, axis_of, device_of, from_array, kind_for_promotion, promoted, result_dtype, tensor_of,
                      torch_dtype)

FUNCTIONS = {}
_NO = np._NoValue


def function(*names):
    """Registers a function under its own name, or under others."""
    def register(f):
        for name in names or (f.__name__.rstrip("_"),):
            FUNCTIONS[name] = f
        return f
    return register


def array_of(x):
    """Returns a wrapped array of anything that NumPy takes as an array."""
    return x if type(x) is ndarray else ndarray(from_array(x) if isinstance(x, np.ndarray) else tensor_of(x))


def view_of(a, make):
    """Returns the view that `make` makes of an array's tensor."""
    return array_of(a)._view(make)


def stored(made, out):
    """Returns a result, or `out` with the result's values."""
    if out is None:
        return made
    return ufuncs._store(made._t, out, True)


def unsupported(**values):
    """Refuses parameters that are set."""
    given = [name for name, value in values.items() if value is not None and value is not _NO and value is not False]
    if given:
        raise InNumpy(f"the parameter {', '.join(given)}")


@functools.lru_cache(maxsize=1024)
def dtype_after(f, *dtypes):
    """Returns the dtype of f(arrays of these dtypes)."""
    return f(*(np.ones(1, d) for d in dtypes)).dtype


# --- reductions ---

def _reduction(name, ufunc):
    def reduce(a, axis=None, dtype=None, out=None, keepdims=False, initial=_NO, where=True):
        return ufuncs.reduce(ufunc, array_of(a), axis, dtype, out, keepdims is not _NO and keepdims, initial,
                             True if where is _NO else where)
    FUNCTIONS[name] = reduce


for _name, _ufunc in (("sum", np.add), ("prod", np.multiply)):
    _reduction(_name, _ufunc)


def _without_dtype(name, ufunc):
    def reduce(a, axis=None, out=None, keepdims=False, initial=_NO, where=True):
        return ufuncs.reduce(ufunc, array_of(a), axis, None, out, keepdims is not _NO and keepdims, initial,
                             True if where is _NO else where)
    FUNCTIONS[name] = reduce


for _name, _ufunc in (("max", np.maximum), ("amax", np.maximum), ("min", np.minimum), ("amin", np.minimum)):
    _without_dtype(_name, _ufunc)


def _truth(name, ufunc):
    def reduce(a, axis=None, out=None, keepdims=False, *, where=True):
        return ufuncs.reduce(ufunc, array_of(a), axis, None, out, keepdims is not _NO and keepdims, _NO,
                             True if where is _NO else where)
    FUNCTIONS[name] = reduce


for _name, _ufunc in (("all", np.logical_and), ("any", np.logical_or)):
    _truth(_name, _ufunc)


def _keeps(keepdims):
    return keepdims is not _NO and bool(keepdims)


@function("mean")
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    unsupported(where=None if where is True else where)
    a = array_of(a)
    t, dims = a._t, axes_of(axis, a.ndim)
    kind = dtype_after(lambda x: np.mean(x, axis=0, keepdims=True), a.dtype) if dtype is None else np.dtype(dtype)
    if not all(t.size(d) for d in dims):
        raise InNumpy("an empty axis, of which NumPy warns")
    made = _C.mean(t.to(torch_dtype(kind)), dims, _keeps(keepdims)) if dims else t.to(torch_dtype(kind), copy=True)
    return stored(wrap(made), out)


def _variance(a, axis, dtype, out, ddof, keepdims, where, mean_, correction, root):
    unsupported(where=None if where is True else where, mean=mean_)
    a = array_of(a)
    dims = axes_of(axis, a.ndim)
    kind = dtype_after(lambda x: np.var(x, axis=0, keepdims=True), a.dtype) if dtype is None else np.dtype(dtype)
    ddof = ddof if correction is _NO else correction
    if not dims or math.prod(a._t.size(d) for d in dims) <= ddof:
        raise InNumpy("no degrees of freedom, of which NumPy warns")
    compute = a._t if a._t.is_complex() else a._t.to(torch_dtype(kind))
    made = _C.var(compute, dims, correction=ddof, keepdim=_keeps(keepdims))
    return stored(wrap(_C.sqrt(made) if root else made), out)


@function("var")
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None, correction=_NO):
    return _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, False)


@function("std")
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None, correction=_NO):
    return _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, True)


@function("average")
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    unsupported(returned=returned)
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    a, w = array_of(a), array_of(weights)
    if w.shape != a.shape:
        if not isinstance(axis, int) or w.ndim != 1 or w.size != a.shape[axis]:
            raise InNumpy("weights of another shape")
        w = w.reshape([-1 if d == axis % a.ndim else 1 for d in range(a.ndim)])
    kind = a.dtype if a.dtype.kind in "fc" else np.dtype(float)
    kind = np.result_type(a.dtype, w.dtype, *(("f8",) if a.dtype.kind in "bui" else ()))
    w = np.broadcast_to(w.astype(kind), a.shape)
    return np.sum(a * w, axis=axis, keepdims=_keeps(keepdims)) / np.sum(w, axis=axis, keepdims=_keeps(keepdims))


def _extreme(name, choose):
    def find(a, axis=None, out=None, *, keepdims=False):
        a = array_of(a)
        t = a._t
        if t.numel() == 0 or t.is_complex():
            raise InNumpy("empty or complex values")
        t = t.to(_C.uint8) if t.dtype == _C.bool else t
        if axis is None:
            made = choose(t)
            made = made.reshape([1] * t.dim()) if _keeps(keepdims) else made
        else:
            made = choose(t, axis_of(axis, t.dim()), _keeps(keepdims))
        return stored(wrap(made), out)
    FUNCTIONS[name] = find


_extreme("argmax", _C.argmax)
_extreme("argmin", _C.argmin)


@function()
def count_nonzero(a, axis=None, *, keepdims=False):
    a = array_of(a)
    dims = axes_of(axis, a.ndim)
    made = (a._t != 0).sum(dims, _keeps(keepdims)) if dims else (a._t != 0).long()
    return wrap(made)


@function()
def ptp(a, axis=None, out=None, keepdims=False):
    return stored(np.max(a, axis=axis, keepdims=_keeps(keepdims)) - np.min(a, axis=axis, keepdims=_keeps(keepdims)), out)


def _cumulative(name, ufunc):
    def scan(a, axis=None, dtype=None, out=None):
        a = array_of(a)
        if axis is None:
            a, axis = a.reshape(-1), 0
        return ufuncs.accumulate(ufunc, a, axis, dtype, out)
    FUNCTIONS[name] = scan


_cumulative("cumsum", np.add)
_cumulative("cumprod", np.multiply)


def _cumulative_with_initial(name, ufunc, first):
    def scan(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
        a = array_of(x)
        if axis is None:
            if a.ndim > 1:
                raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
            axis = 0
        made = ufuncs.accumulate(ufunc, a, axis, dtype)
        if include_initial:
            shape = [*made.shape]
            shape[axis] = 1
            made = wrap(_C.cat([_C.full(shape, first, dtype=made._t.dtype, device=made._t.device), made._t],
                               axis_of(axis, a.ndim)))
        return stored(made, out)
    FUNCTIONS[name] = scan


_cumulative_with_initial("cumulative_sum", np.add, 0)
_cumulative_with_initial("cumulative_prod", np.multiply, 1)


def _median_of(t, dim, keep):
    """The middle of sorted values, NaN where there is one."""
    n = t.size(dim)
    ordered = _C.sort(t, dim)[0]
    middle = ordered.narrow(dim, (n - 1) // 2, 1 + (n + 1) % 2)
    made = _C.mean(middle, dim, keep)
    if not t.is_floating_point():
        return made
    return _C.where(_C.isnan(ordered.select(dim, n - 1).unsqueeze(dim) if keep else ordered.select(dim, n - 1)), math.nan, made)


def _flat_axis(a, axis, keepdims):
    """Returns the tensor with the reduced dims as its last one, and the shape of the result."""
    dims = axes_of(axis, a.ndim)
    rest = [d for d in range(a.ndim) if d not in dims]
    t = a._t.permute(*rest, *dims)
    kept = [1 if d in dims else n for d, n in enumerate(a.shape)] if keepdims else [a.shape[d] for d in rest]
    return t.reshape(*[a.shape[d] for d in rest], -1), kept


def _floating(t):
    return t if t.is_floating_point() or t.is_complex() else t.to(_C.float64)


@function()
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    a = array_of(a)
    t, kept = _flat_axis(a, axis, _keeps(keepdims))
    if t.size(-1) == 0 or t.is_complex():
        raise InNumpy("empty or complex values")
    return stored(wrap(_median_of(_floating(t), -1, False).reshape(kept)), out)


def _quantile(a, q, axis, out, method, keepdims, weights, scale):
    unsupported(weights=weights)
    a = array_of(a)
    t, kept = _flat_axis(a, axis, _keeps(keepdims))
    if method != "linear" or t.size(-1) == 0 or t.is_complex() or type(q) is ndarray:
        raise InNumpy("another method, or values that NumPy treats apart")
    kind = NUMPYS[_floating(t).dtype]
    kind = torch_dtype(kind if isinstance(q, (int, float)) else result_dtype(kind, np.dtype(float)))
    qs = np.asarray(q, dtype=float) / scale
    if np.any((qs < 0) | (qs > 1)):
        raise ValueError("Quantiles must be in the range [0, 1]" if scale == 1 else "Percentiles must be in the range [0, 100]")
    t = _C.sort(_floating(t), -1)[0]
    places = qs.reshape(-1) * (t.size(-1) - 1)
    low = np.floor(places).astype(int)
    rest = _C.tensor(places - low, dtype=kind, device=t.device)
    below, above = (t[..., _C.tensor(i, device=t.device)] for i in (low, np.minimum(low + 1, t.size(-1) - 1)))
    step = above - below
    made = _C.where(rest >= 0.5, above - step * (1 - rest), below + step * rest)
    made = _C.where(_C.isnan(t[..., -1:]), math.nan, made).movedim(-1, 0).reshape((*qs.shape, *kept))
    return stored(wrap(made), out)


@function()
def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    return _quantile(a, q, axis, out, method, keepdims, weights, 1)


@function()
def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    return _quantile(a, q, axis, out, method, keepdims, weights, 100)


# --- reductions that leave out NaN ---

def _without_nan(a, fill):
    a = array_of(a)
    return np.where(np.isnan(a), a.dtype.type(fill), a) if a.dtype.kind in "fc" else a


@function()
def nansum(a, axis=None, dtype=None, out=None, keepdims=False, initial=_NO, where=True):
    return FUNCTIONS["sum"](_without_nan(a, 0), axis, dtype, out, keepdims, initial, where)


@function()
def nanprod(a, axis=None, dtype=None, out=None, keepdims=False, initial=_NO, where=True):
    return FUNCTIONS["prod"](_without_nan(a, 1), axis, dtype, out, keepdims, initial, where)


@function()
def nancumsum(a, axis=None, dtype=None, out=None):
    return FUNCTIONS["cumsum"](_without_nan(a, 0), axis, dtype, out)


@function()
def nancumprod(a, axis=None, dtype=None, out=None):
    return FUNCTIONS["cumprod"](_without_nan(a, 1), axis, dtype, out)


@function()
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    unsupported(where=None if where is True else where)
    a = array_of(a)
    if a.dtype.kind not in "fc":
        return mean(a, axis, dtype, out, keepdims)
    keep = _keeps(keepdims)
    total = np.sum(_without_nan(a, 0), axis=axis, dtype=dtype, keepdims=keep)
    counts = np.sum(~np.isnan(a), axis=axis, keepdims=keep)
    return stored((total / counts.astype(total.dtype)), out)


def _nan_variance(a, axis, dtype, out, ddof, keepdims, where, root):
    unsupported(where=None if where is True else where, dtype=dtype)
    a = array_of(a)
    if a._t.is_complex():
        raise InNumpy("complex values")
    if a.dtype.kind != "f":
        return _variance(a, axis, dtype, out, ddof, keepdims, True, None, _NO, root)
    middle = nanmean(a, axis, keepdims=True)
    squares = np.square(_without_nan(a - middle, 0))
    counts = np.sum(~np.isnan(a), axis=axis, keepdims=_keeps(keepdims)) - ddof
    made = np.sum(squares, axis=axis, keepdims=_keeps(keepdims)) / np.where(counts > 0, counts, 0).astype(a.dtype)
    made = np.where(counts > 0, made, a.dtype.type(math.nan))
    return stored(np.sqrt(made) if root else made, out)


@function()
def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=_NO, correction=_NO):
    return _nan_variance(a, axis, dtype, out, ddof if correction is _NO else correction, keepdims, where, False)


@function()
def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=_NO, correction=_NO):
    return _nan_variance(a, axis, dtype, out, ddof if correction is _NO else correction, keepdims, where, True)


def _nan_extreme(name, ufunc, worst):
    def find(a, axis=None, out=None, keepdims=False, initial=_NO, where=True):
        a = array_of(a)
        made = ufuncs.reduce(ufunc, a, axis, None, None, _keeps(keepdims), initial, True if where is _NO else where)
        return stored(made, out)
    FUNCTIONS[name] = find


_nan_extreme("nanmax", np.fmax, -math.inf)
_nan_extreme("nanmin", np.fmin, math.inf)
ufuncs._REDUCTIONS["fmax"] = ufuncs._fold(lambda t, d, keep: _fmax(t, d, keep, -math.inf, _C.amax))
ufuncs._REDUCTIONS["fmin"] = ufuncs._fold(lambda t, d, keep: _fmax(t, d, keep, math.inf, _C.amin))
ufuncs._EMPTY["fmax"] = "zero-size array to reduction operation fmax which has no identity"
ufuncs._EMPTY["fmin"] = "zero-size array to reduction operation fmin which has no identity"


def _fmax(t, d, keep, worst, choose):
    if not t.is_floating_point():
        return choose(t, d, keep)
    nans = _C.isnan(t)
    return choose(t.masked_fill(nans, worst), d, keep).masked_fill(nans.all(d, keep), math.nan)


# --- shapes ---

@function()
def reshape(a, /, shape=None, order="C", *, copy=None):
    shape = (shape,) if not isinstance(shape, (tuple, list)) else shape
    shape = [n if type(n) is _C.Symbol else operator.index(n) for n in shape]
    a = array_of(a)
    if copy:
        a = a.copy()
    if order == "F":
        turned = a._view(lambda t: t.permute(*reversed(range(t.dim()))).reshape(shape[::-1]))
        return ndarray(turned._t.permute(*reversed(range(len(shape)))))
    if order != "C":
        raise InNumpy("another order")
    try:
        return a._view(lambda t: t.reshape(shape))
    except RuntimeError:
        text = "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"cannot reshape array of size {a.size} into shape {text}") from None


@function()
def ravel(a, order="C"):
    return reshape(a, -1, order="C" if order in "KA" else order)


@function("transpose", "permute_dims")
def transpose(a, axes=None):
    a = array_of(a)
    axes = tuple(reversed(range(a.ndim))) if axes is None else tuple(axis_of(x, a.ndim) for x in axes)
    if sorted(axes) != list(range(a.ndim)):
        raise ValueError("axes don't match array" if len(axes) != a.ndim else "repeated axis in transpose")
    return a._view(lambda t: t.permute(*axes))


@function("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x, /):
    return view_of(x, lambda t: t.transpose(-2, -1))


@function()
def swapaxes(a, axis1, axis2):
    a = array_of(a)
    i, j = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    return a._view(lambda t: t.transpose(i, j))


@function()
def moveaxis(a, source, destination):
    a = array_of(a)
    source, destination = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    return a._view(lambda t: t.movedim(source, destination))


@function()
def rollaxis(a, axis, start=0):
    a = array_of(a)
    axis, start = axis_of(axis, a.ndim), start + a.ndim if start < 0 else start
    return a._view(lambda t: t.movedim(axis, start - (axis < start)))


@function()
def expand_dims(a, axis):
    a = array_of(a)
    axes = sorted(axes_of(axis, a.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)))

    def make(t):
        for d in axes:
            t = t.unsqueeze(d)
        return t
    return a._view(make)


@function()
def squeeze(a, axis=None):
    a = array_of(a)
    dims = [d for d, n in enumerate(a.shape) if n == 1] if axis is None else axes_of(axis, a.ndim)
    if any(a.shape[d] != 1 for d in dims):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    made = a._view(lambda t: t.squeeze(tuple(dims)) if dims else t.view(t.shape))
    made._is_scalar = a._is_scalar
    return made


@function()
def broadcast_to(array, shape, subok=False):
    shape = (shape,) if not isinstance(shape, (tuple, list)) else tuple(shape)
    return view_of(array, lambda t: t.expand(shape))


@function()
def broadcast_arrays(*args, subok=False):
    arrays = [array_of(x) for x in args]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


def _at_least(n, make):
    def change(*arys):
        made = [a if a.ndim >= n else a._view(make) for a in map(array_of, arys)]
        return made[0] if len(made) == 1 else tuple(made)
    return change


FUNCTIONS["atleast_1d"] = _at_least(1, lambda t: t.reshape(1))
FUNCTIONS["atleast_2d"] = _at_least(2, lambda t: t.reshape(1, -1) if t.dim() else t.reshape(1, 1))
FUNCTIONS["atleast_3d"] = _at_least(3, lambda t: {0: lambda: t.reshape(1, 1, 1), 1: lambda: t[None, :, None],
                                                  2: lambda: t[:, :, None]}[t.dim()]())


@function()
def flip(m, axis=None):
    a = array_of(m)
    dims = axes_of(axis, a.ndim)
    return a[tuple(slice(None, None, -1) if d in dims else slice(None) for d in range(a.ndim))]


FUNCTIONS["flipud"] = lambda m: flip(m, 0)
FUNCTIONS["fliplr"] = lambda m: flip(m, 1)


@function()
def rot90(m, k=1, axes=(0, 1)):
    return wrap(_C.rot90(array_of(m)._t, k, axes))


@function()
def roll(a, shift, axis=None):
    return wrap(_C.roll(array_of(a)._t, shift, axis if axis is not None else ()))


@function()
def tile(A, reps):
    reps = (reps,) if not isinstance(reps, (tuple, list)) else tuple(reps)
    return wrap(_C.tile(array_of(A)._t, tuple(map(int, reps))))


@function()
def repeat(a, repeats, axis=None):
    a = array_of(a)
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, a.ndim))
    n = tensor_of(repeats) if not isinstance(repeats, int) else repeats
    if isinstance(n, Tensor):
        n = n.reshape(1) if n.dim() == 0 else n
        n = n.expand(a.shape[axis]) if n.numel() == 1 else n
        n = n.to(a._t.device)
    return wrap(_C.repeat_interleave(a._t, n, axis))


@function("concatenate", "concat")
def concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    unsupported(out=out, casting=None if casting == "same_kind" else casting)
    parts = [array_of(x) for x in arrays]
    if not parts or any(p.ndim == 0 for p in parts) and axis is not None:
        raise InNumpy("arrays that cannot be concatenated")
    parts, axis = ([p.reshape(-1) for p in parts], 0) if axis is None else (parts, axis)
    kind = np.dtype(dtype) if dtype is not None else result_dtype(*(p.dtype for p in parts))
    ndims = {p.ndim for p in parts}
    if len(ndims) > 1:
        raise InNumpy("arrays of other numbers of dims")
    device = device_of(list(arrays))
    return wrap(_C.cat([p._t.to(device).to(torch_dtype(kind)) for p in parts], axis_of(axis, parts[0].ndim)))


@function()
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    parts = [array_of(x) for x in arrays]
    if len({p.shape for p in parts}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = axis_of(axis, parts[0].ndim + 1)
    return concatenate([expand_dims(p, axis) for p in parts], axis, out, dtype=dtype, casting=casting)


@function()
def vstack(tup, *, dtype=None, casting="same_kind"):
    return concatenate([FUNCTIONS["atleast_2d"](x) for x in tup], 0, dtype=dtype, casting=casting)


@function()
def hstack(tup, *, dtype=None, casting="same_kind"):
    parts = [FUNCTIONS["atleast_1d"](x) for x in tup]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@function()
def dstack(tup):
    return concatenate([FUNCTIONS["atleast_3d"](x) for x in tup], 2)


@function()
def column_stack(tup):
    return concatenate([a if a.ndim > 1 else a.reshape(-1, 1) for a in map(array_of, tup)], 1)


@function()
def array_split(ary, indices_or_sections, axis=0):
    a = array_of(ary)
    axis = axis_of(axis, a.ndim)
    n = a.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        size, extra = divmod(n, sections)
        ends = [(size + 1) * i if i <= extra else size * i + extra for i in range(1, sections)]
    else:
        ends = [int(i) for i in indices_or_sections]
    at = [0, *ends, n]
    return [a[(slice(None),) * axis + (slice(start, stop),)] for start, stop in zip(at, at[1:])]


@function()
def split(ary, indices_or_sections, axis=0):
    a = array_of(ary)
    if isinstance(indices_or_sections, (int, np.integer)) and a.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(a, indices_or_sections, axis)


FUNCTIONS["vsplit"] = lambda ary, indices_or_sections: split(ary, indices_or_sections, 0)
FUNCTIONS["hsplit"] = lambda ary, indices_or_sections: split(ary, indices_or_sections, 0 if array_of(ary).ndim == 1 else 1)
FUNCTIONS["dsplit"] = lambda ary, indices_or_sections: split(ary, indices_or_sections, 2)


@function()
def unstack(x, /, *, axis=0):
    return tuple(array_of(x).__iter__() if axis == 0 else moveaxis(x, axis, 0).__iter__())


@function()
def append(arr, values, axis=None):
    a, v = array_of(arr), array_of(values)
    return concatenate((a, v), axis) if axis is not None else concatenate((a.reshape(-1), v.reshape(-1)), 0)


def _pad_places(n, before, after, mode, device):
    """Returns the index of the item at every place of a padded axis."""
    places = _C.arange(-before, n + after, device=device)
    if mode == "edge":
        return places.clamp(0, n - 1)
    if mode == "wrap":
        return _C.remainder(places, n)
    period = 2 * n - 2 if mode == "reflect" else 2 * n
    places = _C.remainder(places, max(period, 1))
    return _C.where(places < n, places, (period if mode == "reflect" else period - 1) - places)


@function()
def pad(array, pad_width, mode="constant", **kwargs):
    a = array_of(array)
    widths = [tuple(map(int, w)) for w in np.broadcast_to(np.asarray(pad_width, dtype=int), (a.ndim, 2))]
    if mode == "constant" and set(kwargs) <= {"constant_values"} and np.ndim(kwargs.get("constant_values", 0)) == 0:
        value = a.dtype.type(kwargs.get("constant_values", 0)).item()
        shape = [n + low + high for n, (low, high) in zip(a.shape, widths)]
        made = _C.full(shape, value, dtype=a._t.dtype, device=a._t.device)
        made[tuple(slice(low, low + n) for n, (low, _) in zip(a.shape, widths))] = a._t
        return wrap(made)
    if kwargs or mode not in ("edge", "wrap", "reflect", "symmetric") or not all(a.shape):
        raise InNumpy("another mode of padding")
    t = a._t
    for d, (low, high) in enumerate(widths):
        if low or high:
            t = t.index_select(d, _pad_places(t.size(d), low, high, mode, t.device))
    return wrap(t)


@function()
def copy(a, order="K", subok=False):
    return array_of(a).copy()


@function()
def diag(v, k=0):
    a = array_of(v)
    if a.ndim not in (1, 2):
        raise ValueError("Input must be 1- or 2-d.")
    return a._view(lambda t: t.diagonal(k)) if a.ndim == 2 else wrap(_C.diag(a._t, k))


@function()
def diagflat(v, k=0):
    return wrap(_C.diagflat(array_of(v)._t, k))


@function("diagonal")
def diagonal(a, offset=0, axis1=0, axis2=1):
    return view_of(a, lambda t: t.diagonal(offset, axis1, axis2))


@function("trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    return FUNCTIONS["sum"](diagonal(a, offset, axis1, axis2), -1, dtype, out)


@function()
def tril(m, k=0):
    return wrap(_C.tril(array_of(m)._t, k))


@function()
def triu(m, k=0):
    return wrap(_C.triu(array_of(m)._t, k))


@function()
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if sparse or indexing not in ("xy", "ij"):
        raise InNumpy("a sparse grid")
    device = device_of(xi)
    arrays = [array_of(x)._t.to(device).reshape(-1) for x in xi]
    n = len(arrays)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shape = [arrays[k].numel() for k in order]
    made = [x.reshape([-1 if d == order.index(k) else 1 for d in range(n)]).expand(shape) for k, x in enumerate(arrays)]
    return tuple(wrap(x.contiguous() if copy else x) for x in made)


# --- new arrays ---

def _like(name, fill):
    def make(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
        a = array_of(a)
        shape = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        return ndarray(_C.full(shape, fill, dtype=torch_dtype(a.dtype if dtype is None else dtype), device=a._t.device))
    FUNCTIONS[name] = make


_like("zeros_like", 0)
_like("ones_like", 1)
_like("empty_like", 0)


@function()
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    made = FUNCTIONS["empty_like"](a, dtype, order, subok, shape)
    made[...] = fill_value
    return made


@function()
def copyto(dst, src, casting="same_kind", where=True):
    if type(dst) is not ndarray or casting != "same_kind" or not np.can_cast(array_of(src).dtype, dst.dtype, "same_kind"):
        raise InNumpy("another destination or cast")
    ufuncs._store(tensor_of(src, dst._t.device), dst, where)


@function()
def fill_diagonal(a, val, wrap=False):
    if type(a) is not ndarray or a.ndim != 2 or wrap:
        raise InNumpy("another kind of diagonal")
    diagonal(a)[...] = val


@function()
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    kind = result_dtype(kind_for_promotion(start), kind_for_promotion(stop), float)
    start, stop = (array_of(x).astype(kind) for x in (start, stop))
    steps = max(num - 1 if endpoint else num, 1)
    t = _C.arange(num, dtype=start._t.dtype, device=start._t.device)
    delta = stop - start
    made = wrap(t.reshape(-1, *[1] * delta.ndim)) * (delta / steps) + start
    if endpoint and num > 1:
        made[-1] = stop
    made = moveaxis(made, 0, axis) if axis else made
    made = made if dtype is None else (np.floor(made) if np.dtype(dtype).kind in "iu" else made).astype(dtype)
    return (made, delta / steps) if retstep else made


# --- search, order, choice ---

@function()
def where(condition, x=None, y=None, /):
    if x is None and y is None:
        return nonzero(condition)
    mask = tensor_of(condition, device_of((condition, x, y)))
    a, b = promoted(x, y)
    device = device_of((condition, x, y))
    return wrap(_C.where((mask if mask.dtype == _C.bool else mask != 0).to(device), a.to(device), b.to(device)))


@function()
def nonzero(a):
    return tuple(wrap(x) for x in _C.nonzero(array_of(a)._t).unbind(1))


@function()
def argwhere(a):
    return wrap(_C.nonzero(array_of(a)._t))


@function()
def flatnonzero(a):
    return nonzero(array_of(a).reshape(-1))[0]


@function()
def take(a, indices, axis=None, out=None, mode="raise"):
    a = array_of(a)
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, a.ndim))
    t = tensor_of(indices, a._t.device)
    n = a.shape[axis]
    if mode == "wrap":
        t = _C.remainder(t, n)
    elif mode == "clip":
        t = t.clamp(0, n - 1)
    made = a[(slice(None),) * axis + (wrap(t),)]
    return stored(made, out)


@function()
def take_along_axis(arr, indices, axis=-1):
    a, i = array_of(arr), array_of(indices)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = axis_of(axis, a.ndim)
    if a.ndim != i.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    shape = np.broadcast_shapes(*([1 if d == axis else n for d, n in enumerate(x.shape)] for x in (a, i)))
    t, index = (x._t.expand([x.shape[axis] if d == axis else n for d, n in enumerate(shape)]) for x in (a, i))
    index = index.long()
    return wrap(_C.gather(t, axis, _C.where(index < 0, index + t.size(axis), index)))


@function()
def compress(condition, a, axis=None, out=None):
    a, mask = array_of(a), array_of(condition)
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, a.ndim))
    return take(a, flatnonzero(mask), axis, out)


@function()
def extract(condition, arr):
    return take(array_of(arr).reshape(-1), flatnonzero(condition))


@function()
def select(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist) or not condlist:
        raise InNumpy("lists that NumPy refuses")
    kind = result_dtype(*map(kind_for_promotion, choicelist), kind_for_promotion(default))
    made = array_of(default).astype(kind)
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        made = where(condition, array_of(choice).astype(kind), made)
    return made


def _along(a, axis):
    a = array_of(a)
    return (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, a.ndim))


@function()
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    unsupported(order=order)
    a, axis = _along(a, axis)
    if a._t.is_complex():
        raise InNumpy("complex values")
    return ndarray(_C.sort(a._t, axis)[0])


@function()
def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    unsupported(order=order)
    a, axis = _along(a, axis)
    if a._t.is_complex():
        raise InNumpy("complex values")
    return ndarray(_C.sort(a._t, dim=axis, stable=True)[1])


@function()
def partition(a, kth, axis=-1, kind="introselect", order=None):
    return sort(a, axis, order=order)


@function()
def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    return argsort(a, axis, order=order)


@function()
def searchsorted(a, v, side="left", sorter=None):
    unsupported(sorter=sorter)
    a, b = promoted(a, v)
    made = _C.searchsorted(a.contiguous(), b.contiguous().to(a.device), side=side)
    return wrap(made)


@function()
def digitize(x, bins, right=False):
    b = np.asarray(bins) if type(bins) is not ndarray else bins
    if type(b) is ndarray or len(b) < 1 or not (np.all(np.diff(b) >= 0)):
        raise InNumpy("bins that do not increase, or are computed")
    return searchsorted(b, array_of(x), "left" if right else "right")


@function()
def bincount(x, /, weights=None, minlength=0):
    a = array_of(x)
    if a.ndim != 1 or a.dtype.kind not in "bui" or a.size == 0:
        raise InNumpy("values that NumPy refuses or treats apart")
    w = None if weights is None else tensor_of(weights, a._t.device).double()
    return ndarray(_C.bincount(a._t.long(), w, minlength))


@function()
def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True):
    unsupported(return_index=return_index, axis=axis)
    a = array_of(ar)
    if a._t.is_complex() or a.dtype.kind == "f" and bool(np.isnan(a).any()):
        raise InNumpy("complex values, or NaN")
    made = unique_(a._t, sorted=True, return_inverse=return_inverse, return_counts=return_counts)
    if not isinstance(made, tuple):
        return ndarray(made)
    return tuple(ndarray(x) for x in made)


@function("isin")
def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    a, b = promoted(element, test_elements)
    return wrap(_C.isin(a, b.to(a.device), invert=invert))


# --- elementwise ---

@function("round", "around")
def round_(a, decimals=0, out=None):
    a = array_of(a)
    if a.dtype.kind in "bui" and decimals >= 0:
        made = a.copy() if a.dtype != bool else a.astype(np.float16)
    elif a.dtype.kind == "f":
        made = np.rint(a) if decimals == 0 else np.rint(a * 10. ** decimals) / 10. ** decimals if decimals > 0 else \
            np.rint(a / 10. ** -decimals) * 10. ** -decimals
    else:
        raise InNumpy("complex values, or tens of integers")
    return stored(made, out)


@function("fix")
def fix(x, out=None):
    return stored(np.trunc(x), out)


@function()
def clip(a, a_min=_NO, a_max=_NO, out=None, *, min=_NO, max=_NO, **kwargs):
    low, high = a_min if min is _NO else min, a_max if max is _NO else max
    low, high = (None if x is _NO else x for x in (low, high))
    if kwargs or low is None and high is None:
        raise InNumpy("arguments of a ufunc" if kwargs else "no bounds")
    made = array_of(a)
    made = made if low is None else np.maximum(made, low)
    made = made if high is None else np.minimum(made, high)
    return stored(made, out)


@function()
def real(val):
    return array_of(val).real


@function()
def imag(val):
    return array_of(val).imag


@function()
def angle(z, deg=False):
    z = array_of(z)
    made = np.arctan2(z.imag, z.real) if z.dtype.kind == "c" else np.arctan2(0, z)
    return made * (180 / math.pi) if deg else made


@function()
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    a = array_of(x)
    if a.dtype.kind not in "fc":
        return a.copy() if copy else a
    if a._t.is_complex():
        raise InNumpy("complex values")
    made = wrap(_C.nan_to_num(a._t, nan, posinf, neginf))
    return made if copy else ufuncs._store(made._t, x, True)


@function()
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    a, b = array_of(a), array_of(b)
    near = np.abs(a - b) <= atol + rtol * np.abs(b)
    made = near & np.isfinite(b) | (a == b)
    return made | (np.isnan(a) & np.isnan(b)) if equal_nan else made


@function()
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


@function()
def array_equal(a1, a2, equal_nan=False):
    a, b = array_of(a1), array_of(a2)
    if a.shape != b.shape:
        return False
    same = a == b
    return bool(np.all(same | (np.isnan(a) & np.isnan(b)) if equal_nan else same))


@function()
def array_equiv(a1, a2):
    a, b = array_of(a1), array_of(a2)
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return bool(np.all(a == b))


FUNCTIONS["iscomplexobj"] = lambda x: array_of(x).dtype.kind == "c"
FUNCTIONS["isrealobj"] = lambda x: array_of(x).dtype.kind != "c"


@function()
def iscomplex(x):
    a = array_of(x)
    return a.imag != 0 if a.dtype.kind == "c" else np.zeros_like(a, dtype=bool)


@function()
def isreal(x):
    return array_of(x).imag == 0


@function()
def isposinf(x, out=None):
    return stored(array_of(x) == math.inf, out)


@function()
def isneginf(x, out=None):
    return stored(array_of(x) == -math.inf, out)


@function()
def sinc(x):
    a = array_of(x)
    return wrap(_C.sinc(_floating(a._t)))


@function()
def i0(x):
    return wrap(_C.i0(_floating(array_of(x)._t)))


@function()
def diff(a, n=1, axis=-1, prepend=_NO, append=_NO):
    a = array_of(a)
    axis = axis_of(axis, a.ndim)
    ends = [x if np.ndim(x) else broadcast_to(x, [1 if d == axis else s for d, s in enumerate(a.shape)])
            for x in (prepend, append) if x is not _NO]
    if ends:
        a = concatenate(([ends[0]] if prepend is not _NO else []) + [a] + ([ends[-1]] if append is not _NO else []), axis)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    for _ in range(n):
        after, before = ((slice(None),) * axis + (s,) for s in (slice(1, None), slice(None, -1)))
        a = np.not_equal(a[after], a[before]) if a.dtype == bool else a[after] - a[before]
    return a


@function()
def ediff1d(ary, to_end=None, to_begin=None):
    unsupported(to_end=to_end, to_begin=to_begin)
    a = array_of(ary).reshape(-1)
    return a[1:] - a[:-1]


@function()
def gradient(f, *varargs, axis=None, edge_order=1):
    a = array_of(f)
    axes = axes_of(axis, a.ndim)
    steps = [1.] * len(axes) if not varargs else list(varargs) * (len(axes) if len(varargs) == 1 else 1)
    if len(steps) != len(axes) or any(np.ndim(h) for h in steps) or edge_order != 1 or a.dtype.kind not in "fiu":
        raise InNumpy("distances that vary, or another order at the edges")
    a = a if a.dtype.kind == "f" else a.astype(float)
    made = []
    for d, h in zip(axes, steps):
        if a.shape[d] < 2:
            raise ValueError("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
                             "required.")

        def at(start, stop):
            return a[(slice(None),) * d + (slice(start, stop),)]
        made.append(concatenate([(at(1, 2) - at(0, 1)) / h, (at(2, None) - at(None, -2)) / (2. * h),
                                 (at(-1, None) - at(-2, -1)) / h], d))
    return made[0] if len(made) == 1 else tuple(made)


@function()
def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = array_of(y)
    axis = axis_of(axis, y.ndim)
    after, before = ((slice(None),) * axis + (s,) for s in (slice(1, None), slice(None, -1)))
    if x is not None:
        x = array_of(x)
        dx = diff(x) if x.ndim == 1 else diff(x, axis=axis)
        dx = dx.reshape([-1 if d == axis else 1 for d in range(y.ndim)]) if dx.ndim == 1 else dx
    return (dx * (y[after] + y[before]) / 2.0).sum(axis)


@function()
def interp(x, xp, fp, left=None, right=None, period=None):
    unsupported(period=period)
    if any(type(v) is ndarray and v.dtype.kind == "c" for v in (x, xp, fp)):
        raise InNumpy("complex values")
    device = device_of((x, xp, fp))
    x, xp, fp = (tensor_of(v, device).double().to(device) for v in (x, xp, fp))
    if xp.numel() < 2:
        raise InNumpy("one point")
    i = (_C.searchsorted(xp.contiguous(), x.contiguous(), side="right") - 1).clamp(0, xp.numel() - 2)
    slope = (fp[i + 1] - fp[i]) / (xp[i + 1] - xp[i])
    made = slope * (x - xp[i]) + fp[i]
    made = _C.where(x == xp[i + 1], fp[i + 1], made)
    made = _C.where(x < xp[0], fp[0] if left is None else float(left), made)
    made = _C.where(x > xp[-1], fp[-1] if right is None else float(right), made)
    return wrap(_C.where(_C.isnan(x), x, made))


@function()
def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    unsupported(discont=discont)
    p = array_of(p)
    axis = axis_of(axis, p.ndim)
    if p.dtype.kind != "f":
        raise InNumpy("integers")
    d = diff(p, axis=axis)
    half = period / 2
    turned = np.mod(d + half, period) - half
    turned = np.where((turned == -half) & (d > 0), half, turned)
    fixes = np.where(np.abs(d) < half, 0., turned - d).astype(p.dtype)
    first = (slice(None),) * axis
    return concatenate([p[(*first, slice(0, 1))], p[(*first, slice(1, None))] + np.cumsum(fixes, axis=axis)], axis)


@function()
def polyval(p, x):
    p, x = array_of(p), array_of(x)
    y = np.zeros_like(x, dtype=result_dtype(p.dtype, x.dtype))
    for i in range(p.size):
        y = y * x + p[i]
    return y


@function()
def vander(x, N=None, increasing=False):
    a = array_of(x)
    kind = np.promote_types(a.dtype, int)
    return wrap(_C.vander(a._t.to(torch_dtype(kind)), N, increasing))


@function("cross", "linalg.cross")
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    a, b = array_of(a), array_of(b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise InNumpy("vectors of two elements")
    i, j = [1, 2, 0], [2, 0, 1]
    made = a[..., i] * b[..., j] - a[..., j] * b[..., i]
    return moveaxis(made, -1, axisc) if made.ndim > 1 else made


# --- products ---

@function("dot")
def dot(a, b, out=None):
    a, b = array_of(a), array_of(b)
    if a.ndim == 0 or b.ndim == 0:
        return stored(a * b, out)
    if b.ndim <= 2:
        return stored(np.matmul(a, b), out)
    return stored(tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 2,))), out)


@function("vdot")
def vdot(a, b, /):
    return np.matmul(array_of(a).reshape(-1).conj(), array_of(b).reshape(-1))


@function("inner")
def inner(a, b, /):
    a, b = array_of(a), array_of(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


@function("outer")
def outer(a, b, out=None):
    return stored(array_of(a).reshape(-1, 1) * array_of(b).reshape(1, -1), out)


FUNCTIONS["linalg.outer"] = lambda x1, x2, /: outer(x1, x2)


@function("tensordot", "linalg.tensordot")
def tensordot(a, b, axes=2):
    x, y = promoted(a, b)
    if isinstance(axes, int):
        axes = list(range(x.dim() - axes, x.dim())), list(range(axes))
    first, second = (list(v) if isinstance(v, (tuple, list)) else [v] for v in axes)
    return wrap(_C.tensordot(x, y, first, second))


@function("einsum")
def einsum(*operands, out=None, optimize=False, **kwargs):
    if kwargs or not isinstance(operands[0], str):
        raise InNumpy("operands as lists of labels")
    text, tensors = operands[0].replace(" ", ""), promoted(*operands[1:])
    if tensors[0].dtype == _C.bool:
        raise InNumpy("bools")
    return stored(wrap(_C.einsum(text, tensors).to(tensors[0].dtype)), out)


@function("kron")
def kron(a, b):
    x, y = promoted(a, b)
    return wrap(_C.kron(x, y))


def _full_products(a, v):
    """Returns sums of products of all shifts of two vectors."""
    x, w = promoted(a, v)
    if x.dim() != 1 or w.dim() != 1 or not x.numel() or not w.numel() or x.dtype == _C.bool:
        raise InNumpy("values that NumPy refuses or treats apart")
    if not x.is_floating_point():
        padded = _C.cat([x.new_zeros(w.numel() - 1), x, x.new_zeros(w.numel() - 1)]) if w.numel() > 1 else x
        return _C.mv(padded.unfold(0, w.numel(), 1), w.flip(0)) if not x.is_complex() else \
            (padded.unfold(0, w.numel(), 1) * w.flip(0)).sum(-1)
    return _C.conv1d(x.reshape(1, 1, -1), w.flip(0).reshape(1, 1, -1), padding=w.numel() - 1).reshape(-1)


def _part(full, n, m, mode):
    long, short = max(n, m), min(n, m)
    if mode == "full":
        return full
    if mode == "same":
        return full.narrow(0, (short - 1) // 2, long)
    if mode == "valid":
        return full.narrow(0, short - 1, long - short + 1)
    raise InNumpy("another mode")


@function()
def convolve(a, v, mode="full"):
    n, m = array_of(a).size, array_of(v).size
    a, v = (v, a) if m > n else (a, v)
    return wrap(_part(_full_products(a, v), n, m, mode))


@function()
def correlate(a, v, mode="valid"):
    n, m = array_of(a).size, array_of(v).size
    turned = array_of(v).conj()[::-1]
    if m > n:
        if mode != "full":
            raise InNumpy("a second vector that is longer")
        return wrap(_full_products(turned, a))
    full = _full_products(a, turned)
    return wrap(_part(full, n, m, mode))


@function()
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    unsupported(y=y, fweights=fweights, aweights=aweights)
    a = array_of(m)
    kind = np.dtype(dtype) if dtype is not None else np.result_type(a.dtype, np.float64)
    x = a.astype(kind).reshape(1, -1) if a.ndim < 2 else a.astype(kind)
    x = x if rowvar or a.ndim < 2 else x.T
    ddof = (0 if bias else 1) if ddof is None else ddof
    x = x - np.mean(x, axis=1, keepdims=True)
    made = np.matmul(x, x.T.conj()) / (x.shape[1] - ddof)
    return squeeze(made)


@function()
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    d = np.sqrt(diagonal(c).real)
    return np.clip(c / d[:, None] / d[None, :], -1, 1)


# --- facts ---

FUNCTIONS["ndim"] = lambda a: array_of(a).ndim
FUNCTIONS["shape"] = lambda a: array_of(a).shape
FUNCTIONS["size"] = lambda a, axis=None: array_of(a).size if axis is None else math.prod(
    array_of(a).shape[d] for d in axes_of(axis, array_of(a).ndim))


def _dtypes_of(args):
    return [x.dtype if type(x) is ndarray else x for x in args]


FUNCTIONS["result_type"] = lambda *args: np.result_type(*_dtypes_of(args))
FUNCTIONS["common_type"] = lambda *args: np.common_type(*(np.ones(1, x.dtype) for x in args))
FUNCTIONS["can_cast"] = lambda from_, to, casting="safe": np.can_cast(_dtypes_of([from_])[0], to, casting)
FUNCTIONS["min_scalar_type"] = lambda a, /: a.dtype if a.ndim else np.min_scalar_type(np.asarray(a))


@function("shares_memory", "may_share_memory")
def shares_memory(a, b, /, max_work=None):
    return type(a) is ndarray and type(b) is ndarray and np.may_share_memory(np.asarray(a), np.asarray(b))


@function()
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    a = moveaxis(arr, axis, -1)
    rows = a.reshape(-1, a.shape[-1])
    made = [array_of(func1d(rows[i], *args, **kwargs)) for i in range(rows.shape[0])]
    shape = made[0].shape
    out = stack(made).reshape(*a.shape[:-1], *shape)
    n = len(a.shape) - 1
    axis = axis_of(axis, a.ndim)
    return wrap(out._t.permute(*range(axis), *range(n, n + len(shape)), *range(axis, n)))


from . import fft, linalg  # noqa: E402,F401  they register theirs
