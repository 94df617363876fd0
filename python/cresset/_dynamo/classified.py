"""Functions in C that read only the objects they are given, and no state of these objects that a guard
does not check.

Guards need all reads of the recorded call.  Python code is observed; of the functions in C only these, and this
package's, may have been called."""
import collections
import functools
import types

from .. import _root

_FUNCTIONS = {
    "builtins": frozenset(("abs", "all", "any", "callable", "chr", "delattr", "divmod", "getattr", "hasattr",
                           "isinstance", "issubclass", "iter", "len", "max", "min", "ord", "pow", "round", "setattr", "sorted", "sum", "__build_class__")),
    "math": None,  # all
    "_operator": frozenset(("add", "and_", "contains", "eq", "floordiv", "ge", "getitem", "gt", "index", "is_", "is_not", "le",
                            "length_hint", "lt", "mod", "mul", "ne", "neg", "not_", "or_", "sub", "truediv")),
    "_functools": frozenset(("reduce",)),
}
_TYPES = frozenset((bool, complex, dict, enumerate, filter, float, frozenset, int, list, map, object, range, reversed,
                    set, slice, super, tuple, type, zip, collections.OrderedDict, collections.defaultdict,
                    functools.partial, property, staticmethod, classmethod, types.SimpleNamespace))
_BASES = _TYPES | {str, bytes, BaseException}
_TEXT = frozenset(("format", "format_map", "__format__", "__repr__", "__str__", "__reduce__", "__reduce_ex__", "__sizeof__",
                   "__dir__"))  # these read objects to any depth, or memory


_OF_NUMPY = ("ufunc", "_ArrayFunctionDispatcher")  # their objects are functions of their arguments


def _is_ours(module):
    return type(module) is str and module.partition(".")[0] in ("cresset", "torch", "_C", _root.NAME)


def _is_function(name, owner):
    if isinstance(owner, type):
        owner = next((base for base in owner.__mro__ if name in base.__dict__ and  # that defines it in C
                      type(base.__dict__[name]) is not types.FunctionType), owner)
        if owner is object:
            return name in ("__new__", "__init__", "__init_subclass__")
        return _is_ours(owner.__module__) or owner in _BASES and name not in _TEXT or name == "__init_subclass__"
    if _is_ours(owner):
        return True
    allowed = _FUNCTIONS.get(owner, ())
    return allowed is None or name in allowed


def _is_type(t):
    """Whether making an object of this class calls only its Python code and classified C code."""
    if _is_ours(t.__module__):
        return True
    heap = 1 << 9
    return all(base in _BASES or issubclass(base, BaseException) or base.__flags__ & heap for base in t.__mro__)


def is_classified(kind, what, owner):
    """Whether a call that _C.Observation.calls() lists is of a function that this table states."""
    if kind == "i":  # checked before, see _Recording.check_names
        return True
    if kind == "f":
        return _is_function(what, owner)
    if kind == "d":
        owner = what.__objclass__
        return _is_ours(owner.__module__) or (owner in _BASES or issubclass(owner, BaseException)) and what.__name__ not in _TEXT
    if kind == "t":
        return _is_type(what)
    if _is_ours(what.__module__) or what is functools.partial or what.__name__ in _OF_NUMPY:
        return True
    call = next((base.__dict__["__call__"] for base in what.__mro__ if "__call__" in base.__dict__), None)
    return type(call) is types.FunctionType or _is_ours(getattr(getattr(call, "__objclass__", None), "__module__", None))
