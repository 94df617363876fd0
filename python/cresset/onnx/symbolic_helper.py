"""Parts of functions that write operators as ONNX nodes; see symbolic_opset11."""
import functools

_NUMBERS = {"i": int, "f": float, "b": bool}


def _constant_of(value):
    """The tensor of a node Constant; other values as they are."""
    node = value.node() if hasattr(value, "node") else None
    return node.t("value") if node is not None and node.kind() == "onnx::Constant" else value


def _parse_arg(value, kind):
    if kind in ("v", "none") or value is None:
        return value
    value = _constant_of(value)
    if kind == "t":
        return value
    if kind == "s":
        return str(value)
    value = value.tolist() if hasattr(value, "tolist") else value
    if kind in _NUMBERS:
        return _NUMBERS[kind](value)
    if kind in ("is", "fs"):
        return [_NUMBERS[kind[0]](x) for x in value]
    raise RuntimeError(f"parse_arg: unknown kind of argument {kind!r}")


def parse_args(*arg_descriptors):
    """A decorator: converts the arguments of f(g, ...): v a value, i an int, f a float, b a bool,
    s a str, t a tensor, is and fs lists."""
    def decorate(function):
        @functools.wraps(function)
        def wrapper(g, *args, **kwargs):
            if len(args) > len(arg_descriptors):
                raise AssertionError(
                    f"A mismatch between the number of arguments ({len(args)}) and their descriptors "
                    f"({len(arg_descriptors)}) was found at symbolic function '{function.__name__}'.")
            return function(g, *map(_parse_arg, args, arg_descriptors), **kwargs)

        wrapper._arg_descriptors = arg_descriptors
        return wrapper

    return decorate


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
