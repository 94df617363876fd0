"""torch._foreach_*: an operator for every tensor of a list.

Arguments that a list's tensors take in turn are lists of tensors or of numbers; other arguments are
the same for all.  Functions with a trailing underscore change the tensors and return the list.
"""
from . import _C
from ._C import Tensor

_UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg
    reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
_BINARY = "add sub mul div maximum minimum clamp_max clamp_min pow".split()


def _check(tensors):
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")


def _each(tensors, x):
    """Returns the argument of every tensor: the items of a list, or x itself."""
    if not isinstance(x, (list, tuple)):
        return [x] * len(tensors)
    if len(x) != len(tensors) and x and isinstance(x[0], Tensor):
        raise RuntimeError("Tensor lists must have the same number of tensors, got "
                           f"{len(tensors)} and {len(x)}")
    if len(x) != len(tensors):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return x


def _numbers(tensors, x):
    """As _each, for a number, numbers in a list, or numbers in a tensor."""
    return _each(tensors, x.tolist() if isinstance(x, Tensor) else x)


def _unary(name):
    plain, inplace = getattr(_C, name), getattr(Tensor, name + "_")

    def function(self):
        _check(self)
        return tuple(map(plain, self))

    def function_(self):
        _check(self)
        for x in self:
            inplace(x)
        return self
    return function, function_


def _two(method, x, other, alpha):
    if not isinstance(other, Tensor) and method in ("maximum", "minimum"):
        method = {"maximum": "clamp_min", "minimum": "clamp_max"}[method]
    elif method in ("maximum_", "minimum_"):
        method = {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}[method]
    return getattr(x, method)(other) if alpha == 1 else getattr(x, method)(other, alpha=alpha)


def _binary(name):
    def function(self, other, *, alpha=1):
        if name == "pow" and not isinstance(self, (list, tuple)):  # a number to the powers in a list
            _check(other)
            return tuple(_C.pow(self, y) for y in other)
        _check(self)
        return tuple(_two(name, x, y, alpha) for x, y in zip(self, _each(self, other)))

    def function_(self, other, *, alpha=1):
        _check(self)
        for x, y in zip(self, _each(self, other)):
            _two(name + "_", x, y, alpha)
        return self
    return function, function_


def _pointwise(name):
    """addcmul and addcdiv."""
    def function(self, tensor1, tensor2, scalars=None, *, value=1):
        _check(self)
        return tuple(getattr(x, name)(a, b, value=v) for x, a, b, v in zip(
            self, _each(self, tensor1), _each(self, tensor2),
            _numbers(self, value if scalars is None else scalars)))

    def function_(self, tensor1, tensor2, scalars=None, *, value=1):
        _check(self)
        for x, a, b, v in zip(self, _each(self, tensor1), _each(self, tensor2),
                              _numbers(self, value if scalars is None else scalars)):
            getattr(x, name + "_")(a, b, value=v)
        return self
    return function, function_


def _foreach_lerp(self, tensors1, weight):
    """Interpolates between the tensors of two lists."""
    _check(self)
    return tuple(x.lerp(y, w) for x, y, w in zip(self, _each(self, tensors1), _each(self, weight)))


def _foreach_lerp_(self, tensors1, weight):
    _check(self)
    for x, y, w in zip(self, _each(self, tensors1), _each(self, weight)):
        x.lerp_(y, w)
    return self


def _foreach_norm(self, ord=2, dtype=None):
    """The norm of every tensor."""
    _check(self)
    return tuple(_C.ops.linalg_vector_norm(x, ord, dtype=dtype) for x in self)


def _foreach_max(self):
    """The largest element of every tensor."""
    _check(self)
    return tuple(x.max() for x in self)


def _foreach_clone(self, *, memory_format=None):
    _check(self)
    return tuple(x.clone() if memory_format is None else x.clone(memory_format=memory_format) for x in self)


def _foreach_copy_(self, src, non_blocking=False):
    """Copies the tensors of one list to those of another."""
    _check(self)
    for x, y in zip(self, _each(self, src)):
        x.copy_(y)
    return self


def _foreach_zero_(self):
    _check(self)
    for x in self:
        x.zero_()
    return self


def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of the absolute values to the power `ord`, of every tensor."""
    _check(self)
    return tuple(x.abs().pow(ord).sum(dtype=dtype) for x in self)


def _foreach_mm(self, mat2):
    """The matrix products of two lists."""
    _check(self)
    return tuple(x @ y for x, y in zip(self, _each(self, mat2)))


def _define():
    kinds = [(name, _unary) for name in _UNARY if hasattr(_C, name)]
    kinds += [(name, _binary) for name in _BINARY] + [(name, _pointwise) for name in ("addcmul", "addcdiv")]
    for name, make in kinds:
        for suffix, function in zip(("", "_"), make(name)):
            function.__name__ = function.__qualname__ = f"_foreach_{name}{suffix}"
            globals()[function.__name__] = function


_define()
