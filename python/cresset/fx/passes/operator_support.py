"""Operator support: the nodes that a backend accepts."""
import abc

from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OperatorSupportBase", "OperatorSupport", "create_op_support", "chain", "any_chain",
           "OpSupports"]


class OperatorSupportBase(abc.ABC):
    """Decides whether a backend supports a node."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        """Returns whether the node is supported; `submodules` are the module's, by name."""
        raise NotImplementedError


def _dtype_of(node):
    meta = node.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else node.meta["type"]


class OperatorSupport(OperatorSupportBase):
    """Supports the targets of a dict.  Its values restrict the dtypes of arguments, or are
    None."""

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        by_place, by_name = self._support_dict[target]
        limits = [*zip(node.args, by_place),
                  *((node.kwargs[name], dtypes) for name, dtypes in by_name.items()
                    if name in node.kwargs)]
        return all(_dtype_of(arg) in dtypes for arg, dtypes in limits
                   if isinstance(arg, Node) and dtypes is not None)


def create_op_support(is_node_supported):
    """Wraps a function (submodules, node) as an OperatorSupportBase."""
    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return is_node_supported(submodules, node)
    return FunctionalOperatorSupport()


def chain(*op_support):
    """Supports nodes that all of them support."""
    return create_op_support(lambda submodules, node: all(
        s.is_node_supported(submodules, node) for s in op_support))


def any_chain(*op_support):
    """Supports nodes that at least one of them supports."""
    return create_op_support(lambda submodules, node: any(
        s.is_node_supported(submodules, node) for s in op_support))


class OpSupports:
    """Frequently used kinds of support."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        """Rejects nodes with an input of this dtype."""
        return create_op_support(lambda submodules, node: all(
            _dtype_of(arg) != dtype for arg in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        """Rejects nodes with these names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)
