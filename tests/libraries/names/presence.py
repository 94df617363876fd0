"""Finds names, and functions that do nothing but raise."""
import ast
import importlib
import inspect
import textwrap


MISSING = object()


def resolve(dotted):
    """The object of a dotted name, importing modules on the way; MISSING where there is none."""
    root, *rest = dotted.split(".")
    path, value = root, importlib.import_module(root)
    for part in rest:
        path += "." + part
        try:
            value = getattr(value, part)
        except Exception:  # a lazy attribute may fail in any way
            try:
                value = importlib.import_module(path)
            except Exception:
                return MISSING
    return value


def _body(function):
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return []
    function = tree.body[0]
    body = function.body if isinstance(function, ast.FunctionDef) else []
    return body[1:] if body and isinstance(body[0], ast.Expr) and isinstance(
        body[0].value, ast.Constant) else body


def _makers(kind):
    """The functions in Python that make an object of a class, its bases' too."""
    for name in ("__new__", "__init__"):
        for base in kind.__mro__:
            if name in vars(base):
                yield getattr(vars(base)[name], "__func__", vars(base)[name])
                break


def _has_tensors(dtype):
    try:
        return importlib.import_module("torch").empty(2, dtype=dtype).dtype is dtype
    except Exception:
        return False


def only_raises(value):
    """Whether all that a call does is to raise: of a class, its construction; of a dtype, making a tensor."""
    if type(value).__name__ == "dtype":
        return not _has_tensors(value)
    if inspect.isclass(value):
        return any(only_raises(made) for made in _makers(value))
    value = getattr(value, "__func__", value)  # a method of a class
    if not inspect.isfunction(value):
        return False
    body = [statement for statement in _body(value) if not isinstance(statement, (ast.Import, ast.ImportFrom))]
    return len(body) == 1 and isinstance(body[0], ast.Raise)
