"""What the placeholders of exported programs are, and helpers of programs that export."""
import dataclasses

from ..export._trace import _disable_load_state_dict_hooks  # noqa: F401, torch has it here
from ..export.graph_signature import InputKind
from ..utils._pytree import MappingKey, register_pytree_node

__all__ = ["get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant", "is_param",
           "register_dataclass_as_pytree_node"]


def _target(program, node, kind):
    """The path of the state that a placeholder is, if it is of this kind."""
    return next((spec.target for spec in program.graph_signature.input_specs if spec.kind == kind and spec.arg.name == node.name), None)


def is_param(program, node):
    """Whether a node of the program is a parameter."""
    return _target(program, node, InputKind.PARAMETER) is not None


def get_param(program, node):
    """The parameter that a node is, or None."""
    return program.state_dict.get(_target(program, node, InputKind.PARAMETER))


def is_buffer(program, node):
    """Whether a node of the program is a buffer."""
    return _target(program, node, InputKind.BUFFER) is not None


def get_buffer(program, node):
    """The buffer that a node is, or None."""
    path = _target(program, node, InputKind.BUFFER)
    unsaved = path in program.graph_signature.non_persistent_buffers
    return (program.constants if unsaved else program.state_dict).get(path)


def is_lifted_tensor_constant(program, node):
    """Whether a node of the program is a constant tensor."""
    return _target(program, node, InputKind.CONSTANT_TENSOR) is not None


def get_lifted_tensor_constant(program, node):
    """The constant tensor that a node is, or None."""
    return program.constants.get(_target(program, node, InputKind.CONSTANT_TENSOR))


def _fields(cls, return_none_fields):
    """The functions that take a dataclass apart and make it, and the one that takes it apart with keys."""
    def flatten(obj):
        found = {f.name: getattr(obj, f.name) for f in dataclasses.fields(cls)}
        names = [name for name, x in found.items() if x is not None or return_none_fields]
        return [found[name] for name in names], [names, [name for name in found if name not in names]]

    def unflatten(values, context):
        return cls(**dict(zip(context[0], values)), **dict.fromkeys(context[1]))

    def flatten_with_keys(obj):
        values, context = flatten(obj)
        return [(MappingKey(name), x) for name, x in zip(context[0], values)], context
    return flatten, unflatten, flatten_with_keys


def register_dataclass_as_pytree_node(cls, flatten_fn=None, unflatten_fn=None, *, serialized_type_name=None, to_dumpable_context=None,
                                      from_dumpable_context=None, return_none_fields=False):
    """Makes a dataclass a tree of its fields; those that are None are left out unless return_none_fields is true."""
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    flatten, unflatten, with_keys = _fields(cls, return_none_fields)
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    register_pytree_node(cls, flatten_fn or flatten, unflatten_fn or unflatten, serialized_type_name=serialized_type_name,
                         flatten_with_keys_fn=None if flatten_fn else with_keys, to_dumpable_context=to_dumpable_context,
                         from_dumpable_context=from_dumpable_context)
