"""NumPy's element functions as operators.

`CALLS` has a function of tensors for each name.  NumPy's own resolution (`ufunc.resolve_dtypes`) gives the
dtypes of the operands and of the result, so these functions see operands of the right dtypes, and their
result is converted to the right one.
"""
import functools
import math

import numpy as np

from .. import _C, special
from .._C import Tensor
from .convert import COMPUTED, InNumpy, NUMPYS, axes_of, axis_of, device_of, from_array, tensor_of, torch_dtype

Symbol = _C.Symbol  # a number of a recording, which may vary
_INTEGERS = (_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64)


def _is_integer(x):
    return isinstance(x, int) if not isinstance(x, Tensor) else x.dtype in _INTEGERS


def _tensor(x, like):
    return x if isinstance(x, Tensor) else _C.tensor(x, dtype=like.dtype, device=like.device)


def _both(a, b):
    """Both as tensors: functions without a form for numbers."""
    return (a, _tensor(b, a)) if isinstance(a, Tensor) else (_tensor(a, b), b)


def _guarded(function):
    """Integer division: NumPy's result for a divisor 0 is 0."""
    def divide(a, b):
        a, b = _both(a, b)
        if not _is_integer(a):
            return function(a, b)
        zero = b == 0
        return function(a, b.masked_fill(zero, 1)).masked_fill(zero, 0)
    return divide


floor_divide = _guarded(lambda a, b: _C.div(a, b, rounding_mode="floor"))
remainder = _guarded(_C.remainder)
fmod = _guarded(_C.fmod)


def power(a, b):
    if _is_integer(a) and _is_integer(b):
        if (b < 0) if isinstance(b, int) else bool((b < 0).any()):
            raise ValueError("Integers to negative integer powers are not allowed.")
    return _C.pow(*(_both(a, b) if not isinstance(a, Tensor) else (a, b)))


def _binary(function):
    return lambda a, b: function(*_both(a, b))


def _logical(function):
    return lambda a, b: function(*(x != 0 if x.dtype != _C.bool else x for x in _both(a, b)))


def _not(x):
    return x == 0


def sign(x):
    return _C.sgn(x) if x.is_complex() else _C.where(x != x, x, _C.sign(x)) if x.is_floating_point() else _C.sign(x)


def absolute(x):
    return x if x.dtype == _C.bool else _C.abs(x)


def reciprocal(x):
    if _is_integer(x):
        raise InNumpy("integers, whose reciprocal of 0 is the processor's")
    return _C.reciprocal(x)


def rint(x):
    return _C.complex(_C.round(x.real), _C.round(x.imag)) if x.is_complex() else _rounding(_C.round)(x)


def _shift(function):
    def shift(a, b):
        a, b = _both(a, b)
        bits = a.element_size() * 8
        inside = (b >= 0) & (b < bits)
        rest = _C.where(a < 0, -1, 0).to(a.dtype) if function is _C.bitwise_right_shift else _C.zeros_like(a)
        return _C.where(inside, function(a, b.masked_fill(~inside, 0)), rest)
    return shift


def _rounding(function):
    """floor, ceil, trunc and rint of integers are the integers."""
    return lambda x: function(x) if x.is_floating_point() else x


def modf(x):
    whole = _C.trunc(x)
    return _C.copysign(_C.where(_C.isinf(x), 0., x - whole), x), whole


def frexp(x):
    mantissa, exponent = _C.frexp(x)
    return mantissa, exponent


def ldexp(a, b):
    return _C.ldexp(*_both(a, b))


def heaviside(a, b):
    a, b = _both(a, b)
    return _C.where(a != a, a, _C.heaviside(a, b))


def cbrt(x):
    return _C.copysign(_C.pow(_C.abs(x), 1 / 3), x)


def divmod_(a, b):
    return floor_divide(a, b), remainder(a, b)


def _at_complex(x):
    if x.is_complex():
        raise InNumpy("not defined for complex operands here")
    return x


def _real_only(function):
    return lambda *xs: function(*(_at_complex(x) if isinstance(x, Tensor) else x for x in xs))


def _matvec(a, b):
    return (a @ b.unsqueeze(-1)).squeeze(-1)


def _vecmat(a, b):
    return (a.conj().unsqueeze(-2) @ b).squeeze(-2)


def _vecdot(a, b):
    return (a.conj() * b).sum(-1)


def _of_one_name():
    """NumPy's functions of one operand that an operator has the name of."""
    found = {name: getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc) and hasattr(_C, name)}
    return {name: getattr(_C, name) for name, f in found.items() if f.__name__ == name and f.nin == f.nout == 1}


CALLS = {
    **_of_one_name(),  # those below replace operators of another meaning
    "arcsin": _C.asin, "arccos": _C.acos, "arctan": _C.atan, "arcsinh": _C.asinh, "arccosh": _C.acosh,
    "arctanh": _C.atanh, "degrees": _C.rad2deg, "radians": _C.deg2rad,
    "absolute": absolute, "fabs": _C.abs, "negative": _C.neg, "positive": _C.clone, "conjugate": _C.conj_physical,
    "sign": sign, "reciprocal": reciprocal, "invert": _C.bitwise_not, "logical_not": _not, "cbrt": cbrt,
    "floor": _rounding(_C.floor), "ceil": _rounding(_C.ceil), "trunc": _rounding(_C.trunc), "rint": rint,
    "modf": modf, "frexp": frexp, "ldexp": ldexp,
    "add": _C.add, "subtract": lambda a, b: _C.sub(*_both(a, b)), "multiply": _C.mul, "divide": _binary(_C.div),
    "floor_divide": floor_divide, "remainder": remainder, "fmod": fmod, "divmod": divmod_, "power": power,
    "float_power": power, "hypot": _binary(_C.hypot), "arctan2": _binary(_C.atan2), "copysign": _binary(_C.copysign),
    "nextafter": _binary(_C.nextafter), "logaddexp": _binary(_C.logaddexp), "logaddexp2": _binary(_C.logaddexp2),
    "heaviside": heaviside, "gcd": _binary(_C.gcd), "lcm": _binary(_C.lcm),
    "maximum": _real_only(_binary(_C.maximum)), "minimum": _real_only(_binary(_C.minimum)),
    "fmax": _real_only(_binary(_C.fmax)), "fmin": _real_only(_binary(_C.fmin)),
    "equal": _C.eq, "not_equal": _C.ne, "less": _real_only(_C.lt), "less_equal": _real_only(_C.le),
    "greater": _real_only(_C.gt), "greater_equal": _real_only(_C.ge),
    "logical_and": _logical(_C.bitwise_and), "logical_or": _logical(_C.bitwise_or), "logical_xor": _logical(_C.bitwise_xor),
    "bitwise_and": _binary(_C.bitwise_and), "bitwise_or": _binary(_C.bitwise_or), "bitwise_xor": _binary(_C.bitwise_xor),
    "left_shift": _shift(_C.bitwise_left_shift), "right_shift": _shift(_C.bitwise_right_shift),
    "matmul": _C.matmul, "matvec": _matvec, "vecmat": _vecmat, "vecdot": _vecdot,
}

_PRODUCTS = ("matmul", "matvec", "vecmat", "vecdot")  # take no numbers
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


@functools.lru_cache(maxsize=4096)
def _resolve(ufunc, kinds, dtype):
    """Returns the dtypes of operands and results; raises NumPy's error."""
    options = {} if dtype is None else {"signature": (None,) * ufunc.nin + (dtype,) * ufunc.nout}
    found = ufunc.resolve_dtypes(kinds, **options)
    for d in found:
        torch_dtype(d)
    return found[:ufunc.nin], found[ufunc.nin:]


def _kind(x):
    from .array import ndarray
    if type(x) is ndarray:
        return NUMPYS[x._t.dtype]
    if type(x) in (int, float, complex):
        return type(x)
    if type(x) is Symbol:
        return x.__class__
    return None


def _operand(x, dtype, device, numbers):
    """Returns an operand in a dtype: a number if it is one and may be."""
    if type(x) is Symbol:
        if numbers:
            return x
        x = x.__class__(x)  # the recording is then fixed to the number
    if type(x) in (bool, int, float, complex):
        value = dtype.type(x)  # OverflowError, and the rounding of halves
        if numbers and not isinstance(value, (np.bool_, np.complexfloating)):
            return value.item()
        return _C.tensor(value.item(), dtype=COMPUTED[dtype], device=device)
    t = tensor_of(x, device)
    return t if t.dtype == COMPUTED[dtype] else t.to(COMPUTED[dtype])


def _operands(ufunc, inputs, dtype, outs):
    """Returns the operands in NumPy's dtypes and the dtypes of the results."""
    kinds, values, device = [], [], device_of((*inputs, *outs))
    for x in inputs:
        kind = _kind(x)
        if kind is None:
            x = tensor_of(x, device)
            kind = NUMPYS[x.dtype]
        kinds.append(kind)
        values.append(x)
    wanted = tuple(None if o is None else o.dtype for o in outs) or (None,) * ufunc.nout
    ins, results = _resolve(ufunc, (*kinds, *wanted), dtype)
    numbers = ufunc.__name__ not in _PRODUCTS and len(set(ins)) == 1 and any(type(v) not in (int, float, complex, Symbol) for v in values)
    return [_operand(v, d, device, numbers) for v, d in zip(values, ins)], results


def _store(result, out, where):
    """Writes a result to `out`, of NumPy or wrapped, and returns `out`."""
    from .array import ndarray
    target = out._t if type(out) is ndarray else from_array(out)
    result = result.to(target.dtype)
    if where is not True:
        mask = tensor_of(where, target.device)
        result = _C.where(mask, result, target)
    if np.broadcast_shapes(result.shape, target.shape) != tuple(target.shape):
        raise ValueError(f"non-broadcastable output operand with shape {_shape(target)} doesn't match the broadcast shape "
                         f"{_shape(result)}")
    target.copy_(result)
    return out


def _shape(t):
    return "(" + ",".join(map(str, t.shape)) + ("," if t.dim() == 1 else "") + ")"


def call(ufunc, inputs, outs, where=True, dtype=None, casting="same_kind", order="K", subok=True, **more):
    """Calls a ufunc of tensors."""
    from .array import wrap
    function = CALLS.get(ufunc.__name__)
    if function is None or more or casting != "same_kind":
        raise InNumpy("no operator" if function is None else f"arguments {[*more] or ['casting']}")
    try:
        operands, results = _operands(ufunc, inputs, None if dtype is None else np.dtype(dtype), outs)
    except OverflowError:
        if ufunc.__name__ in _COMPARISONS:
            raise InNumpy("a number beyond the dtype's range") from None
        raise
    made = function(*operands)
    made = made if isinstance(made, tuple) else (made,)
    made = [m.to(COMPUTED[d]) for m, d in zip(made, results)]
    if not outs:
        outs = (None,) * len(made)
    done = [wrap(m) if o is None else _store(m, o, where) for m, o in zip(made, outs)]
    return done[0] if len(done) == 1 else tuple(done)


# --- methods of ufuncs ---

def _in_dtype(ufunc, t, dtype):
    """Returns the array in the dtype in which NumPy reduces it."""
    kind = NUMPYS[t.dtype]
    if dtype is None:
        dtype = _reduced_dtype(ufunc, kind)
    return t.to(torch_dtype(dtype))


@functools.lru_cache(maxsize=1024)
def _reduced_dtype(ufunc, kind):
    return ufunc.reduce(np.ones(1, kind)).dtype


def _fold(step):
    """A reduction over several dims by one over a dim."""
    def fold(t, dims, keep):
        for d in sorted(dims, reverse=True):
            t = step(t, d, keep)
        return t
    return fold


_REDUCTIONS = {
    "add": lambda t, dims, keep: _C.sum(t, dims, keep, dtype=t.dtype) if t.dtype != _C.bool else _C.any(t, dims, keep),
    "multiply": _fold(lambda t, d, keep: _C.prod(t, d, keep, dtype=t.dtype)),
    "maximum": lambda t, dims, keep: _C.amax(_at_complex(t), dims, keep),
    "minimum": lambda t, dims, keep: _C.amin(_at_complex(t), dims, keep),
    "logical_and": lambda t, dims, keep: _C.all(t != 0, dims, keep),
    "logical_or": lambda t, dims, keep: _C.any(t != 0, dims, keep),
}
_NEUTRAL = {"add": 0, "multiply": 1, "logical_and": True, "logical_or": False}
_EMPTY = {"maximum": "zero-size array to reduction operation maximum which has no identity",
          "minimum": "zero-size array to reduction operation minimum which has no identity"}


def reduce(ufunc, array, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue, where=True):
    """ufunc.reduce, and with it sum, prod, max, min, any, all."""
    from .array import wrap
    function = _REDUCTIONS.get(ufunc.__name__)
    if function is None:
        raise InNumpy("no operator")
    t = tensor_of(array)
    dims = axes_of(axis, t.dim())
    logical = ufunc.__name__.startswith("logical")
    if not logical:
        t = _in_dtype(ufunc, t, dtype)
    if where is not True:
        fill = initial if initial is not np._NoValue else _NEUTRAL.get(ufunc.__name__)
        if fill is None:
            raise ValueError(f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has to "
                             "specify 'initial'")
        t = _C.where(tensor_of(where, t.device), t, _C.tensor(fill, dtype=t.dtype, device=t.device))
    if ufunc.__name__ in _EMPTY and initial is np._NoValue and any(t.size(d) == 0 for d in dims):
        raise ValueError(_EMPTY[ufunc.__name__])
    made = function(t, dims, bool(keepdims)) if dims else (t != 0 if logical else t.clone())
    if initial is not np._NoValue and ufunc.__name__ not in _NEUTRAL or initial not in (np._NoValue, _NEUTRAL.get(ufunc.__name__)):
        made = CALLS[ufunc.__name__](made, _C.tensor(initial, dtype=made.dtype, device=made.device))
    return wrap(made) if out is None else _store(made, out, True)


_SCANS = {"add": _C.cumsum, "multiply": _C.cumprod, "maximum": lambda t, d: _C.cummax(t, d)[0],
          "minimum": lambda t, d: _C.cummin(t, d)[0]}


def accumulate(ufunc, array, axis=0, dtype=None, out=None):
    from .array import wrap
    function = _SCANS.get(ufunc.__name__)
    t = tensor_of(array)
    if function is None:
        raise InNumpy("no operator")
    t = _in_dtype(ufunc, t, dtype)
    made = function(t, axis_of(axis, t.dim())).to(t.dtype)
    return wrap(made) if out is None else _store(made, out, True)


def outer(ufunc, a, b, **more):
    from .array import wrap
    a, b = (tensor_of(x, device_of((a, b))) for x in (a, b))
    return ufunc(wrap(a.reshape(*a.shape, *[1] * b.dim())), wrap(b), **more)


def at(ufunc, array, index, values=None):
    """array[index] = ufunc(array[index], values), once for each index."""
    from .array import ndarray
    if ufunc.__name__ != "add" or type(array) is not ndarray:
        raise InNumpy("no operator")
    t = array._t
    index = tuple(tensor_of(i, t.device) for i in (index if isinstance(index, tuple) else (index,)))
    if not all(i.dtype == _C.int64 for i in index):
        raise InNumpy("an index that is no array of integers")
    t.index_put_(index, tensor_of(values, t.device).to(t.dtype), accumulate=True)


METHODS = {"reduce": reduce, "accumulate": accumulate, "outer": outer, "at": at}


def run(ufunc, method, inputs, options):
    """Runs a ufunc or one of its methods on tensors."""
    out = options.pop("out", None)
    if method == "__call__":
        return call(ufunc, inputs, out if isinstance(out, tuple) else () if out is None else (out,), **options)
    if method not in METHODS:
        raise InNumpy("no operator")
    if out is not None:
        options["out"] = out[0] if isinstance(out, tuple) else out
    return METHODS[method](ufunc, *inputs, **options)
