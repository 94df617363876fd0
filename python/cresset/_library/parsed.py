"""Schemas as objects, read from their text."""
import re

from .._ops import AliasInfo, Argument, FunctionSchema

__all__ = ["parse_schema"]


def _split(text):
    """The parts of a text between commas outside brackets."""
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


_WORDS = {"True": True, "False": False, "None": None}


def _value(text):
    """A default value."""
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("[") and text.endswith("]"):
        return [_value(item) for item in _split(text[1:-1])]
    if text[:1] in "\"'":
        return text[1:-1]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _argument(text, kwarg_only):
    declared, equals, default = text.partition("=")
    found = re.fullmatch(r"(?P<kind>[\w.]+)(?P<mark>\([^)]*\))?(?P<list>(\[\d*\])*)(?P<lists>\([^)]*\))?(?P<optional>\?)?(?: (?P<name>\w+))?", declared.strip())
    if not found:
        raise RuntimeError(f"expected a declaration of an argument, but found '{text}' here")
    mark = found["mark"] or found["lists"] or ""  # "Tensor(a!)", "Tensor[](a!)"
    made = Argument(found["name"] or "", found["kind"] + "[]" * found["list"].count("["), optional=bool(found["optional"]),
                    default=_value(default.strip()) if equals else None, has_default=bool(equals), kwarg_only=kwarg_only,
                    written="!" in mark)
    if mark:
        made.alias_info = AliasInfo(mark[1], "!" in mark)
    return made


class _Parsed(FunctionSchema):
    """A schema that a program wrote."""

    def __init__(self, text, name, overload, arguments, returns):
        self._text, self.name, self.overload_name = text, name, overload
        self.arguments, self.returns = arguments, returns
        self.is_mutable = any(argument.is_write for argument in arguments)

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    __hash__ = None


def parse_schema(schema, allow_typevars=True):
    """The schema of "name(arguments) -> results"."""
    found = re.fullmatch(r"\s*([\w:]+)(?:\.(\w+))?\((.*)\) *-> *(.*?)\s*", schema, re.S)
    if not found:
        raise RuntimeError(f"expected a schema such as name(Tensor self) -> Tensor, but found '{schema}' here")
    name, overload, inside, result = found.groups()
    arguments, only = [], False
    for item in _split(inside):
        only = only or item == "*"
        if item != "*":
            arguments.append(_argument(item, only))
    inner = result[1:-1] if result.startswith("(") and result.endswith(")") else result
    return _Parsed(schema.strip(), name, overload or "", arguments, [_argument(item, False) for item in _split(inner)])
