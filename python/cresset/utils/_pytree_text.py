"""Specs of trees as JSON, in torch's form: [1, {"type", "context", "children_spec"}]."""
import json
from collections import defaultdict, namedtuple
from enum import Enum
from importlib import import_module

from ._pytree import SUPPORTED_NODES, LeafSpec, TreeSpec

PROTOCOL = 1
NAMEDTUPLES = {}  # classes made by namedtuple, and their names in texts


class Asterisk:
    """A leaf in printed specs."""

    def __repr__(self):
        return "*"


class _Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, Enum):
            return {"__enum__": True, "fqn": f"{type(o).__module__}:{type(o).__qualname__}",
                    "name": o.name}
        return super().default(o)


def _object_hook(obj):
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found[obj["name"]]


def _dump_namedtuple(cls):
    if cls not in NAMEDTUPLES:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a "
            "serializated_type_name. Please register using `_register_namedtuple`.")
    return NAMEDTUPLES[cls]


def _load_namedtuple(name):
    for cls, known in NAMEDTUPLES.items():
        if known == name:
            return cls
    raise NotImplementedError(f"Can't deserialize TreeSpec of namedtuple class {name} because we "
                              "couldn't find a serializated name.")


def _dump_defaultdict(context):
    factory, keys = context
    return {"default_factory_module": factory.__module__,
            "default_factory_name": factory.__qualname__, "dict_context": keys}


def _load_defaultdict(context):
    module = import_module(context["default_factory_module"])
    return [getattr(module, context["default_factory_name"]), context["dict_context"]]


SUPPORTED_NODES[namedtuple].dump, SUPPORTED_NODES[namedtuple].load = (
    _dump_namedtuple, _load_namedtuple)
SUPPORTED_NODES[defaultdict].dump, SUPPORTED_NODES[defaultdict].load = (
    _dump_defaultdict, _load_defaultdict)


def _dump_context(node, context):
    if node.dump is not None:
        return node.dump(context)
    try:
        return json.dumps(context, cls=_Encoder)
    except TypeError as error:
        raise TypeError("Unable to serialize context. Please make the context json dump-able, or "
                        "register a custom serializer using _register_pytree_node.") from error


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_NODES[spec.type]
    if node.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg.")
    return {"type": node.name, "context": _dump_context(node, spec.context),
            "children_spec": [_to_json(child) for child in spec.children_specs]}


def _from_json(schema):
    name = schema["type"]
    if name is None:
        return LeafSpec()
    node = next((node for node in SUPPORTED_NODES.values() if node.name == name), None)
    if node is None:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    context = (json.loads(schema["context"], object_hook=_object_hook) if node.load is None
               else node.load(schema["context"]))
    return TreeSpec(node.type, context, [_from_json(child) for child in schema["children_spec"]])


def _check_protocol(protocol):
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")


def dumps(treespec, protocol=None):
    """See treespec_dumps."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("Expected `treespec` to be an instance of PyTreeSpec but got item of type "
                        f"{type(treespec)}.")
    _check_protocol(PROTOCOL if protocol is None else protocol)
    return json.dumps([PROTOCOL, _to_json(treespec)], cls=_Encoder)


def loads(serialized):
    """See treespec_loads."""
    protocol, schema = json.loads(serialized)
    _check_protocol(protocol)
    return _from_json(schema)
