"""Sizes of a trace as functions of this package see them: numbers that know the tensors which the trace has for them.

Such a number is an int or a float for the code that reads it.  Its sums, products and quotients are recorded and are
numbers of the trace, too; an operator that takes it as an argument computes with the size of each call.  A comparison,
int(), or a float on the left of an operation (2.5 * n), gives a plain value, which is a constant of the trace.
"""
import math
import operator

from ._loaded import recorders


class TracedNumber:
    """What ints and floats of a trace share.  `plain` is the type without the trace."""

    @classmethod
    def of(cls, value, recorder, tensor):
        made = cls(value)
        made.recorder, made.tensor = recorder, tensor
        return made

    def __reduce__(self):
        return self.plain, (self.plain(self),)


def _holds(x):
    if isinstance(x, (list, tuple)):
        return any(map(_holds, x))
    return isinstance(x, TracedNumber)


def as_tensors(x, recorder):
    """An argument, or a container of arguments, with the tensors of a recorder in place of its numbers."""
    if isinstance(x, TracedNumber):
        return x.tensor if x.recorder is recorder else x.plain(x)
    if isinstance(x, dict):
        return {key: as_tensors(v, recorder) for key, v in x.items()}
    return [as_tensors(v, recorder) for v in x] if _holds(x) else x


def _followed(result, operation, args):
    """The result of an operation of Python, as a number of the trace where an operand is one."""
    recorder = recorders.active[-1] if recorders.active else None
    if type(result) not in _KINDS or not any(isinstance(x, TracedNumber) and x.recorder is recorder for x in args):
        return result
    tensor = operation(*as_tensors(args, recorder))
    return _KINDS[type(result)].of(result, recorder, tensor) if recorder.computes(tensor) else result


def _plain(x):
    return x.plain(x) if isinstance(x, TracedNumber) else x


def _is_number(x):
    return isinstance(x, (int, float))


def _binary(operation):
    """The methods of a binary operation and of its reverse."""
    def forward(self, other):
        return _followed(operation(_plain(self), _plain(other)), operation, (self, other)) if _is_number(other) else NotImplemented

    def reverse(self, other):
        return forward(other, self) if _is_number(other) else NotImplemented
    return forward, reverse


def _unary(operation, of_tensor=None):
    return lambda self: _followed(operation(_plain(self)), of_tensor or operation, [self])


def _itself(self):
    return self


class _Arithmetic(TracedNumber):
    """The operations that ints and floats share."""

    __add__, __radd__ = _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow)
    __neg__, __abs__ = _unary(operator.neg), _unary(abs)


class TracedInt(_Arithmetic, int):
    """An int of a trace."""

    plain = int
    __pos__ = __floor__ = __ceil__ = __trunc__ = _itself


class TracedFloat(_Arithmetic, float):
    """A float of a trace."""

    plain = float
    __floor__ = _unary(math.floor, lambda x: x.floor())
    __ceil__ = _unary(math.ceil, lambda x: x.ceil())


_KINDS = {int: TracedInt, float: TracedFloat}
