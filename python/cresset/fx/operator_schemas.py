"""Binding of arguments to signatures."""
import inspect
from typing import NamedTuple

import cresset
from .._ops import OpOverload, OpOverloadPacket, schemas_of_function
from .._utils import typename

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op",
           "normalize_function", "normalize_module"]

_PYTHON_TYPES = {"Tensor": cresset.Tensor, "int": int, "float": float, "bool": bool, "str": str,
                 "number": float}


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments."""

    args: tuple
    kwargs: dict


def _annotation(argument):
    return _PYTHON_TYPES.get(argument.type, inspect.Parameter.empty)


def _signature(schema):
    """Converts a schema to Python's signature; functions call `self` "input"."""
    parameters = []
    for argument in schema.arguments:
        kind = (inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only
                else inspect.Parameter.POSITIONAL_OR_KEYWORD)
        default = (argument.default_value if argument.has_default_value()
                   else inspect.Parameter.empty)
        name = "input" if argument.name == "self" else argument.name
        parameters.append(inspect.Parameter(name if name != "from" else "from_", kind,
                                            default=default, annotation=_annotation(argument)))
    return inspect.Signature(parameters)


def get_signature_for_torch_op(op, return_schemas=False):
    """Returns the signatures of an operator's overloads; None for other functions."""
    if isinstance(op, OpOverload):
        schemas = [op._schema]
    elif isinstance(op, OpOverloadPacket):
        schemas = [getattr(op, name)._schema for name in op.overloads()]
    else:
        schemas = schemas_of_function(op)
    if schemas is None:
        return (None, None) if return_schemas else None
    signatures = [_signature(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def _fits(signature, args, kwargs):
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def check_for_mutable_operation(target, args, kwargs):
    """Raises for an operator that writes to its arguments."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    matching = [schema for signature, schema in zip(signatures or (), schemas or ())
                if _fits(signature, args, kwargs)]
    if len(matching) == 1 and matching[0].is_mutable:
        raise RuntimeError(f"Tried to trace mutable operation {matching[0]}. FX only supports "
                           "functional code, so operations that mutate operands in-place (e.g. "
                           "via `out` arguments) are not supported")


def _normalized(signature, args, kwargs, only_kwargs):
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in plain for p in signature.parameters.values()):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    names = list(signature.parameters)
    positional = 0 if only_kwargs else len(args)
    return ArgsKwargsPair(tuple(bound.arguments[name] for name in names[:positional]),
                          {name: bound.arguments[name] for name in names[positional:]})


def _type_fits(annotation, given):
    if annotation is inspect.Parameter.empty or annotation is given:
        return True
    if annotation is float and given is int:
        return True
    return isinstance(annotation, type) and isinstance(given, type) and issubclass(given,
                                                                                   annotation)


def _types_fit(signature, arg_types, kwarg_types):
    try:
        bound = signature.bind(*arg_types, **kwarg_types)
    except TypeError:
        return False
    return all(_type_fits(signature.parameters[name].annotation, given)
               for name, given in bound.arguments.items())


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None,
                       normalize_to_only_use_kwargs=False):
    """Returns the arguments of a call of `target` by name, with defaults; None when they are
    unknown."""
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        try:
            signature = inspect.signature(inspect.unwrap(target))
        except ValueError:
            return None
        return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
    matching = [s for s in signatures if _fits(s, args, kwargs)]
    if len(matching) > 1 and (arg_types is not None or kwarg_types is not None):
        matching = [s for s in matching if _types_fit(s, arg_types or (), kwarg_types or {})][:1]
    elif len(matching) > 1:
        texts = "\n".join(map(str, matching))
        raise RuntimeError(
            f"Tried to normalize arguments to {typename(target)} but the schema match was "
            "ambiguous! Please provide argument types to the normalize_arguments() call. "
            f"Available schemas:\n{texts}")
    if not matching:
        return None
    return _normalized(matching[0], args, kwargs, normalize_to_only_use_kwargs)


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """As normalize_function, for a call of a module of torch.nn."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have "
                           "that target!") from error
    cls = type(module)
    if getattr(cresset.nn, cls.__name__, None) is not cls:
        return None
    return _normalized(inspect.signature(inspect.unwrap(module.forward)), args, kwargs or {},
                       normalize_to_only_use_kwargs)
