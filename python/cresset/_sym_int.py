"""Sizes that may vary, as numbers: torch.SymInt."""
from ._size_expr import Size

__all__ = ["SymInt"]


def _operator(name, apply, swapped=False):
    number = getattr(int, name)

    def method(self, other):
        if not isinstance(other, int) or isinstance(other, bool):
            return number(self, other)
        a, b = self.expr, other.expr if isinstance(other, SymInt) else Size.of(other)
        expr, hint = apply(*((b, a) if swapped else (a, b))), number(int(self), int(other))
        return symbolic(expr, hint)
    method.__name__ = name
    return method


class SymInt(int):
    """A size that may vary: an int with the value of the example inputs (`hint`), and its expression (`expr`).

    Arithmetic with +, -, *, // and % gives SymInts; comparisons are those of the value.  torch has the expression and
    the value in an object `node`, which here is the number itself.
    """

    def __new__(cls, node):
        hint = getattr(node, "hint", None)
        made = int.__new__(cls, hint or 0)
        made.expr, made.hint = getattr(node, "expr", node), hint
        return made

    @staticmethod
    def _of(expr, hint):
        made = int.__new__(SymInt, hint or 0)
        made.expr, made.hint = expr, hint
        return made

    @property
    def node(self):
        return self

    def has_hint(self):
        return self.hint is not None

    def __repr__(self):
        return str(self.expr)

    __str__ = __repr__

    def __reduce__(self):
        return int, (int(self),)

    def __hash__(self):
        return int.__hash__(self)

    __add__ = _operator("__add__", lambda a, b: a + b)
    __radd__ = _operator("__radd__", lambda a, b: a + b)
    __sub__ = _operator("__sub__", lambda a, b: a - b)
    __rsub__ = _operator("__rsub__", lambda a, b: a - b, True)
    __mul__ = _operator("__mul__", lambda a, b: a * b)
    __rmul__ = _operator("__rmul__", lambda a, b: a * b)
    __floordiv__ = _operator("__floordiv__", lambda a, b: Size.apply("floordiv", a, b))
    __mod__ = _operator("__mod__", lambda a, b: Size.apply("mod", a, b))


SymInt.__module__ = "torch"


def symbolic(expr, hint):
    """The number of an expression: an int if it has no symbol."""
    return hint if expr.is_number else SymInt._of(expr, hint)
