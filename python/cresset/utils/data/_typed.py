"""Checks of what data pipes yield, against the annotations of their functions."""
import functools
import inspect
import typing

_state = {"on": True}


class runtime_validation_disabled:
    """Inside, runtime_validation checks nothing.

    Example::

        >>> from cresset.utils.data import IterDataPipe, runtime_validation, runtime_validation_disabled
        >>> class Numbers(IterDataPipe[int]):
        ...     @runtime_validation
        ...     def __iter__(self):
        ...         yield "one"
        >>> with runtime_validation_disabled():
        ...     list(Numbers())
        ['one']
    """

    def __enter__(self):
        self.prev, _state["on"] = _state["on"], False

    def __exit__(self, *exception):
        _state["on"] = self.prev


def _fits(value, kind):
    """Whether a value has a type of an annotation."""
    if kind is typing.Any or isinstance(kind, (typing.TypeVar, str)) or kind is inspect.Parameter.empty:
        return True
    if kind is None:
        return value is None
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return isinstance(value, kind) if isinstance(kind, type) else True
    if origin is typing.Union or type(kind).__name__ == "UnionType":
        return any(_fits(value, one) for one in inner)
    if origin is typing.Literal:
        return value in inner
    if isinstance(origin, type) and not isinstance(value, origin):
        return False
    if origin is tuple and inner:
        if inner[-1] is Ellipsis:
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if origin in (list, set, frozenset) and inner:
        return all(_fits(item, inner[0]) for item in value)
    if origin is dict and inner:
        return all(_fits(key, inner[0]) and _fits(item, inner[1]) for key, item in value.items())
    return True


def _item_type(pipe):
    """The T of a class with the base IterDataPipe[T]; Any without one."""
    for base in getattr(type(pipe), "__orig_bases__", ()):
        inner = typing.get_args(base)
        if inner:
            return inner[0]
    return typing.Any


def argument_validation(f):
    """Decorates a function: arguments that are data pipes must yield the annotated type."""
    signature = inspect.signature(f)
    hints = typing.get_type_hints(f)

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            _check_argument(name, value, hints.get(name))
        return f(*args, **kwargs)
    return wrapper


def _check_argument(name, value, hint):
    from .datapipes.datapipe import IterDataPipe, MapDataPipe
    origin = typing.get_origin(hint) or hint
    if not (isinstance(origin, type) and issubclass(origin, (IterDataPipe, MapDataPipe))):
        return
    if not isinstance(value, origin):
        raise TypeError(f"Expected argument '{name}' as a {origin.__name__}, but found {type(value)}")
    wanted, found = (typing.get_args(hint) or (typing.Any,))[0], _item_type(value)
    same = typing.Any in (wanted, found) or wanted == found or (
        isinstance(wanted, type) and isinstance(found, type) and issubclass(found, wanted))
    if not same:
        raise TypeError(f"Expected type of argument '{name}' as a subtype of hint {wanted}, but found {found}")


def runtime_validation(f):
    """Decorates __iter__ of a data pipe: items must have the type T of its class IterDataPipe[T]."""
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def wrapper(self):
        kind = _item_type(self)
        for item in f(self):
            if _state["on"] and not _fits(item, kind):
                raise RuntimeError(f"Expected an instance as subtype of {kind}, but found {item}({type(item)})")
            yield item
    return wrapper
