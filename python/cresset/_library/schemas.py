"""Schemas of Python functions, from their annotations."""
import collections.abc
import inspect
import re
import typing
from types import UnionType

from .. import _C

_SIMPLE = {_C.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _C.dtype: "ScalarType",
           _C.device: "Device", typing.Union[int, float, bool]: "Scalar"}
_LISTS = (list, collections.abc.Sequence, tuple)


def _type_text(annotation):
    """Returns the schema's type of an annotation; None for one that has none."""
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, UnionType) and len(inner) == 2 and type(None) in inner:
        kept = _type_text(next(t for t in inner if t is not type(None)))
        return None if kept is None else f"{kept}?"
    if origin in _LISTS and origin is not tuple and len(inner) == 1:
        item = _type_text(inner[0])
        return None if item is None or item.endswith("]") else f"{item}[]"
    return None


def _return_text(annotation):
    if annotation is None:
        return "()"
    if typing.get_origin(annotation) is tuple:
        return "(" + ", ".join(map(_one_return, typing.get_args(annotation))) + ")"
    return _one_return(annotation)


def _one_return(annotation):
    text = _type_text(annotation)
    if text is None or "?" in text or text in ("str", "ScalarType", "Device"):
        raise ValueError(annotation)
    return text


def _default_text(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, _C.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, _C.device):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_default_text, value)) + "]"
    return str(value)


class _Reader:
    """Turns the signature of a function into a schema."""

    def __init__(self, function, mutates_args):
        self.signature = inspect.signature(function)
        try:
            hints = typing.get_type_hints(function)
        except Exception:  # names that cannot be evaluated here
            hints = {}
        self.hints = hints
        self.mutates = mutates_args
        self.marks = 0

    def refuse(self, text):
        raise ValueError(f"infer_schema(func): {text} Got func with signature {self.signature})")

    def parameter(self, p):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            self.refuse(f"We do not support positional-only args, varargs, or varkwargs. Found parameter {p.name}.")
        if p.annotation is p.empty:
            self.refuse(f"Parameter {p.name} must have a type annotation.")
        annotation = self.hints.get(p.name, p.annotation)
        text = _type_text(annotation)
        if text is None:
            self.refuse(f"Parameter {p.name} has unsupported type {annotation}. The valid types are: Tensor, int, "
                        "float, bool, str, dtype, device, lists of the first four, and these or None.")
        if self._is_mutated(p.name, text):
            text = text.replace("Tensor", f"Tensor(a{self.marks}!)", 1)
            self.marks += 1
        default = "" if p.default is p.empty else f"={_default_text(p.default)}"
        return f"{text} {p.name}{default}"

    def _is_mutated(self, name, text):
        if self.mutates == "unknown":
            return text.startswith("Tensor")
        if name in self.mutates and not text.startswith("Tensor"):
            self.refuse(f"Parameter {name} is in mutates_args but is no Tensor or list of Tensors.")
        return name in self.mutates

    def read(self):
        parts, star = [], False
        for p in self.signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            parts.append(self.parameter(p))
        if self.mutates != "unknown":
            unknown = set(self.mutates) - set(self.signature.parameters)
            if unknown:
                self.refuse(f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args "
                            "should contain the names of all args that the custom op mutates, or just the string "
                            "'unknown' if you don't know.")
        returned = self.signature.return_annotation
        if returned is inspect.Signature.empty:
            self.refuse("No return type annotation was provided. Please add one.")
        returned = self.hints.get("return", returned)
        try:
            result = _return_text(None if returned is type(None) else returned)
        except ValueError:
            self.refuse(f"Return has unsupported type {returned}. The valid types are: Tensor, list of Tensors, "
                        "int, float, bool, and tuples of these.")
        return f"({', '.join(parts)}) -> {result}"


def infer_schema(prototype_function, /, *, mutates_args, op_name=None, tags=()):
    """Returns the schema of a function with annotations: "(Tensor x, SymInt n=2) -> Tensor".

    mutates_args has the names of the tensors that it writes; "unknown" means all.
    """
    text = _Reader(prototype_function, mutates_args).read()
    return text if op_name is None else f"{op_name}{text}"


def shown(schema):
    """Returns the schema as torch prints it: floats without zeros at their end."""
    return re.sub(r"=(-?\d+)\.0\b", r"=\1.", schema)
