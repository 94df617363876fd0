"""Context managers that are decorators, too."""
from ..autograd.grad_mode import _decorate

__all__ = []


class _Maker:
    """What a decorated function calls for a context manager: `clone`."""

    def __init__(self, clone):
        self.clone = clone


def context_decorator(ctx, func):
    """Returns `func` run inside a context manager: `ctx`, or what `ctx` returns at each call.

    A generator function runs inside of one for each of its steps.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), making "
                             "it ambiguous which interface to use.  If you intended to pass a context manager factory, "
                             "rewrite your call as context_decorator(lambda: ctx()); if you intended to pass a context "
                             "manager directly, rewrite your call as context_decorator(lambda: ctx)")
    return _decorate(_Maker(ctx if callable(ctx) else lambda: ctx), func)


class _DecoratorContextManager:
    """The base of a context manager that decorates functions; each call has a new one, made by `clone`."""

    def __call__(self, orig_func):
        return _decorate(self, orig_func)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        """A context manager with the same arguments; override it where there are some."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The base of one without arguments, which decorates as `@name`, too."""

    def __new__(cls, orig_func=None):
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
