"""The array type that stands for NumPy's arrays."""
import collections
import operator

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .. import _C
from .._C import Tensor
from . import convert
from .convert import InNumpy, NUMPYS, tensor_of

in_numpy = collections.Counter()  # calls that ran in NumPy, by name


def _log(name, why):
    in_numpy[name] += 1
    _C._log("numpy", 1, f"{name} runs in NumPy: {why}")


class ndarray(NDArrayOperatorsMixin):  # noqa: N801
    """A tensor with the interface of numpy.ndarray.

    NumPy's functions and ufuncs give calls that contain such an array to `__array_function__` and
    `__array_ufunc__`.  isinstance(x, numpy.ndarray) holds.  An array of no dims that a NumPy call returns
    is one of NumPy's scalars when it leaves.
    """

    __slots__ = ("_tensor", "_source", "_is_scalar")
    __array_priority__ = 1000

    def __init__(self, tensor, is_scalar=False, source=None):
        self._tensor, self._is_scalar, self._source = tensor, is_scalar, source

    @property
    def __class__(self):
        return np.ndarray

    @property
    def _t(self):
        """The tensor.  A view that tensors do not have, of a reversed slice, is a copy that is made again
        after its base was written."""
        source = self._source
        if source is not None and source.writes != _writes.count:
            source.writes, self._tensor = _writes.count, source.make(source.base)
        return self._tensor

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        from . import ufuncs
        name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        for out in options.get("out") or ():
            check_writable(out)
        return _attempt(name, lambda: ufuncs.run(ufunc, method, inputs, dict(options)),
                        lambda: _run_in_numpy(getattr(ufunc, method), inputs, options))

    def __array_function__(self, function, types, args, kwargs):
        from . import functions
        name = name_of(function)
        found = functions.FUNCTIONS.get(name)
        if found is None:
            _log(f"numpy.{name}", "it has no composition of operators")
            return _run_in_numpy(function, args, kwargs)
        return _attempt(f"numpy.{name}", lambda: found(*args, **kwargs), lambda: _run_in_numpy(function, args, kwargs))

    def __array__(self, dtype=None, copy=None):
        array = convert.to_array(self._t)
        return np.array(array, dtype=dtype, copy=copy) if copy or dtype is not None else array

    # --- facts ---

    @property
    def dtype(self):
        return NUMPYS[self._t.dtype]

    @property
    def shape(self):
        return tuple(self._t.shape)

    @shape.setter
    def shape(self, shape):
        self._tensor = self._t.view(shape)

    ndim = property(lambda self: self._t.dim())
    size = property(lambda self: self._t.numel())
    itemsize = property(lambda self: self._t.element_size())
    nbytes = property(lambda self: self._t.numel() * self._t.element_size())
    strides = property(lambda self: tuple(s * self._t.element_size() for s in self._t.stride()))
    flags = property(lambda self: convert.to_array(self._t).flags)
    data = property(lambda self: convert.to_array(self._t).data)
    flat = property(lambda self: convert.to_array(self._t).flat)
    base = property(lambda self: None)
    device = property(lambda self: "cpu")
    T = property(lambda self: self._view(lambda t: t.permute(*reversed(range(t.dim())))))
    mT = property(lambda self: self._view(lambda t: t.transpose(-2, -1)))

    @property
    def real(self):
        return self._view(lambda t: t.real) if self._t.is_complex() else self

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return self._view(lambda t: t.imag) if self._t.is_complex() else wrap(_C.zeros_like(self._t))

    @imag.setter
    def imag(self, value):
        if not self._t.is_complex():
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    def __len__(self):
        if not self._t.dim():
            raise TypeError("len() of unsized object")
        return self._t.size(0)

    def __iter__(self):
        if not self._t.dim():
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self._t.size(0)))

    def __contains__(self, value):
        return bool((self == value).any())

    # --- values, which are read ---

    def __bool__(self):
        return bool(convert.to_array(self._t))

    def __int__(self):
        return int(convert.to_array(self._t))

    def __float__(self):
        return float(convert.to_array(self._t))

    def __complex__(self):
        return complex(convert.to_array(self._t))

    def __index__(self):
        return operator.index(convert.to_array(self._t))

    def __repr__(self):
        return repr(leave(self))

    def __str__(self):
        return str(leave(self))

    def __format__(self, spec):
        return format(leave(self), spec)

    def __hash__(self):
        if not self._is_scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(leave(self))

    def __round__(self, ndigits=None):
        return round(leave(self), ndigits)

    def __reduce__(self):
        return leave(self).__reduce__()

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    # --- views and items ---

    def _view(self, make):
        """Returns the view that `make` makes of the tensor."""
        source, t = self._source, make(self._t)
        if source is not None:
            source = _Source(source.base, lambda base, before=source.make: make(before(base)))
        return ndarray(t, self._is_scalar and t.dim() == 0, source)

    def __getitem__(self, index):
        from .indexing import InItem, get
        if isinstance(index, str):
            raise IndexError("only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
                             "arrays are valid indices")

        def items():
            made, is_copy = get(self._t, index)
            source, base = self._source, self._t
            if source is not None:
                before = source.make
                source = _Source(source.base, lambda base: get(before(base), index)[0])
            elif is_copy:
                source = _Source(base, lambda base: get(base, index)[0])
            return self._item(made, index, source)
        try:
            return _attempt("ndarray.__getitem__", items, lambda: enter_results(convert.to_array(self._t)[_unwrapped(index)]))
        except InItem as error:
            raise IndexError(str(error)) from None

    def _item(self, made, index, source):
        keeps = index is Ellipsis or isinstance(index, tuple) and any(i is Ellipsis for i in index)
        return ndarray(made, made.dim() == 0 and not keeps, source)

    def __setitem__(self, index, value):
        from .indexing import put
        check_writable(self)

        def in_numpy_memory():
            array = convert.to_array(self._t)
            array[_unwrapped(index)] = _unwrapped(value)
            self._t.copy_(convert.from_array(array, self._t.device))
        _attempt("ndarray.__setitem__", lambda: put(self._t, index, value), in_numpy_memory)

    # --- methods that are no functions of NumPy ---

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        dtype = np.dtype(dtype)
        if dtype not in convert.COMPUTED or casting != "unsafe":
            return enter_results(convert.to_array(self._t).astype(dtype, order, casting, subok, copy))
        if dtype == self.dtype and not copy:
            return self
        t = self._t.real if self._t.is_complex() and dtype.kind not in "cb" else self._t
        return ndarray(t.to(convert.COMPUTED[dtype], copy=True), self._is_scalar)

    def copy(self, order="C"):
        return ndarray(self._t.clone(memory_format=_C.contiguous_format), self._is_scalar)

    def view(self, dtype=None, type=None):
        if dtype is None or dtype is np.ndarray:
            return self._view(lambda t: t.view(t.shape))
        return self._view(lambda t: t.view(convert.torch_dtype(dtype)))

    def reshape(self, *shape, order="C", copy=None):
        shape = shape[0] if len(shape) == 1 else shape
        return np.reshape(self, shape, order=order)

    def transpose(self, *axes):
        return np.transpose(self, None if not axes else axes[0] if len(axes) == 1 else axes)

    def flatten(self, order="C"):
        return np.ravel(self, order=order).copy()

    def fill(self, value):
        self[...] = value

    def sort(self, axis=-1, kind=None, order=None, *, stable=None):
        self[...] = np.sort(self, axis=axis, kind=kind, order=order, stable=stable)

    def partition(self, kth, axis=-1, kind="introselect", order=None):
        self[...] = np.partition(self, kth, axis=axis, kind=kind, order=order)

    def conj(self):
        return np.conjugate(self) if self._t.is_complex() else self

    conjugate = conj

    def item(self, *args):
        return convert.to_array(self._t).item(*args)

    def tolist(self):
        return convert.to_array(self._t).tolist()

    def tobytes(self, order="C"):
        return convert.to_array(self._t).tobytes(order)

    def setflags(self, write=None, align=None, uic=None):
        if write is False:
            raise NotImplementedError("setflags(write=False): arrays of a compiled function stay writable")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")
        if name == "is_integer":
            return getattr(leave(self), name)
        found = getattr(convert.to_array(self._t), name)
        _log(f"ndarray.{name}", "it has no composition of operators")
        return found


def _method(name):
    function = getattr(np, name)

    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)
    method.__name__ = name
    return method


# NumPy's methods that are functions of the same name; resize() is not: the method changes its array.
for _name in dir(np.ndarray):
    if _name != "resize" and not _name.startswith("_") and _name not in vars(ndarray) and callable(getattr(np, _name, None)):
        setattr(ndarray, _name, _method(_name))
ndarray.compress = lambda self, condition, axis=None, out=None: np.compress(condition, self, axis=axis, out=out)
ndarray.put = lambda self, indices, values, mode="raise": np.put(self, indices, values, mode=mode)


_C._set_stand_in(ndarray)  # tensor(), as_tensor(), asarray() and from_numpy() take such arrays


class _writes:  # noqa: N801
    """The number of writes to any array."""

    count = 0


class _Source:
    """The tensor of which a copy is a view, how many writes there were, and the function that makes the copy."""

    __slots__ = ("base", "writes", "make")

    def __init__(self, base, make):
        self.base, self.writes, self.make = base, _writes.count, make


def wrap(tensor):
    """Returns the array of a tensor that a NumPy call made; without dims it is a scalar."""
    return ndarray(tensor, tensor.dim() == 0)


def check_writable(x):
    """Notes that an array will be written; raises for a copy that stands for a view."""
    _writes.count += 1
    if type(x) is ndarray and x._source is not None:
        raise ValueError("assignment destination is a view by a negative step, which cannot be written here: copy it first")


def name_of(function):
    """Returns NumPy's name of a function: sum, linalg.norm."""
    module = (function.__module__ or "").removeprefix("numpy").removeprefix(".")
    return f"{module}.{function.__name__}" if module in ("linalg", "fft") else function.__name__


def _attempt(name, call, otherwise):
    """Runs a call on tensors, or in NumPy where operators refuse it: NumPy then raises its own error."""
    try:
        return call()
    except InNumpy as why:
        _log(name, why)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        if type(error).__module__.startswith("numpy"):
            raise
        try:
            made = otherwise()
        except Exception as numpys:
            raise numpys from None
        _log(name, f"{type(error).__name__}: {error}")
        return made
    return otherwise()


# --- trees of arguments and results ---

def _map(x, function):
    kind = type(x)
    if kind is ndarray or kind is np.ndarray or isinstance(x, np.ndarray):
        return function(x)
    if kind in (list, tuple):
        return kind(_map(item, function) for item in x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind(*(_map(item, function) for item in x))
    if kind is dict or kind is collections.OrderedDict:
        return kind((key, _map(item, function)) for key, item in x.items())
    if isinstance(x, Tensor):
        return function(x)
    return x


def _unwrapped(x):
    """Returns a tree with NumPy's arrays, which share the memory of tensors on the host."""
    return _map(x, lambda a: convert.to_array(a._t) if type(a) is ndarray else convert.to_array(a) if isinstance(a, Tensor) else a)


def enter_results(x):
    """Wraps the arrays of a NumPy call's results, and its scalars."""
    if isinstance(x, np.generic) and x.dtype in convert.COMPUTED:
        return ndarray(_C.tensor(x.item(), dtype=convert.COMPUTED[x.dtype]), True)
    return _map(x, enter)


def _run_in_numpy(function, args, kwargs):
    """Calls NumPy's function with real arrays; changes of arrays that are elsewhere are copied back."""
    made = function(*_unwrapped(args), **_unwrapped(kwargs))
    _writes.count += 1  # perhaps
    out = kwargs.get("out")
    if out is not None:
        return out if not isinstance(out, tuple) or len(out) > 1 else out[0]
    return enter_results(made)


def enter(x, device=None):
    """Wraps one array that enters; arrays whose dtype has no operators stay NumPy's."""
    if type(x) is ndarray or not isinstance(x, np.ndarray) or type(x) is not np.ndarray or not convert.is_computed(x):
        return x
    return ndarray(convert.from_array(x, device))


def leave(x):
    """Returns the real array, or NumPy's scalar, of one wrapped array."""
    if type(x) is not ndarray:
        return x
    array = convert.to_array(x._t)
    return array[()] if x._is_scalar else array
