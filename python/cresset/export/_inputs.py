"""The arguments of an exported call: their names, trees and paths."""
import inspect
import keyword
import re
from collections import defaultdict

import cresset

from .._dynamo.exc import UserError
from ..nn import Module
from ..utils._pytree import GetAttrKey, MappingKey, SequenceKey, tree_flatten, tree_flatten_with_path

DRAFT_NOTE = ("The error above occurred when calling torch.export.export. If you would like to view some more information about "
              "this error, and get a list of all other errors that may occur in your export call, you can replace your "
              "`export()` call with `draft_export()`.")


def check_call(mod, args, kwargs):
    """Raises for arguments of export() that are no module and no call of it."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if isinstance(mod, cresset.jit.ScriptModule):
        raise ValueError("Exporting a ScriptModule is not supported. Maybe try converting your ScriptModule to an ExportedProgram "
                         "using `TS2EPConverter(mod, args, kwargs).convert()` instead.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError(f"inspect.Signature.bind() argument after ** must be a mapping, not {type(kwargs).__name__}")


def named_arguments(mod, args, kwargs):
    """{parameter of forward: argument}, with *args as a tuple and each of **kwargs by its own name."""
    signature = inspect.signature(mod.forward)
    bound = signature.bind(*args, **kwargs)
    out = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            out.update(value)
        else:
            out[name] = value
    return out


def forward_arg_names(mod, args, kwargs):
    """The names of a call's arguments in the form of torch: args_0, args_1 for those of *args."""
    names = []
    parameters = list(inspect.signature(mod.forward).parameters.values())
    for i in range(len(args)):
        spread = next((p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
        place = parameters.index(spread) if spread is not None else len(parameters)
        names.append(parameters[i].name if i < place else f"{spread.name}_{i - place}")
    return names + list(kwargs)


def _key_text(key):
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, MappingKey):
        return str(key.key)
    if isinstance(key, GetAttrKey):
        return key.name
    return str(key)


def placeholder_name(prefix, parts):
    """A name of a placeholder: parts of a path, in small letters."""
    return prefix + re.sub(r"[^a-zA-Z0-9]", "_", "_".join(str(p).lower() for p in parts))


class PlaceholderNames:
    """Unique names of placeholders: of two equal ones, the later gets a number."""

    def __init__(self):
        self.used, self.last = set(), defaultdict(int)  # last: name without a number -> greatest number

    def unique(self, name):
        found = name
        while found in self.used or keyword.iskeyword(found):
            self.last[name] += 1
            found = f"{name}_{self.last[name]}"
        self.used.add(found)
        base, _, number = found.rpartition("_")
        if base and number.isdecimal():
            self.last[base] = max(self.last[base], int(number))
        return found


class Leaf:
    """A leaf of the arguments: its path, its name and its source in messages, L['x'][0]."""

    def __init__(self, path, value):
        self.path, self.value = path, value
        self.name = placeholder_name("", map(_key_text, path))
        first, rest = path[0], path[1:]
        self.source = f"L['{_key_text(first)}']" + "".join(map(_index_text, rest))
        self.plain = _key_text(first) + "".join(map(_index_text, rest))


def _index_text(key):
    if isinstance(key, SequenceKey):
        return f"[{key.idx}]"
    if isinstance(key, MappingKey):
        return f"[{key.key!r}]"
    return f".{_key_text(key)}"


def leaves_of(mod, args, kwargs):
    """The Leaf of each leaf of (args, kwargs), and the spec of the tree."""
    named = named_arguments(mod, args, kwargs)
    ordered = {}
    for key, value in named.items():
        if key not in kwargs:
            ordered[key] = value
    ordered.update({key: kwargs[key] for key in kwargs})
    with_paths, _ = tree_flatten_with_path(ordered)
    return [Leaf(path, x) for path, x in with_paths], tree_flatten((args, kwargs))[1]
