"""Runs a graph and notes shape and dtype of every node."""
import traceback
from typing import Any, Dict, NamedTuple, Optional, Tuple

import cresset
from ..interpreter import Interpreter
from ..node import map_aggregate

__all__ = ["TensorMetadata", "ShapeProp"]


class TensorMetadata(NamedTuple):
    """Properties of a tensor without its elements."""

    shape: cresset.Size
    dtype: cresset.dtype
    requires_grad: bool
    stride: Tuple[int, ...]
    memory_format: Optional[cresset.memory_format]
    is_quantized: bool
    qparams: Dict[str, Any]


def _extract_tensor_metadata(result, include_contiguity=True):
    if result.layout != cresset.strided:
        return TensorMetadata(result.shape, result.dtype, result.requires_grad, (), None, False, {})
    formats = (cresset.contiguous_format, cresset.channels_last, cresset.channels_last_3d)
    found = None
    if include_contiguity:
        found = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), found,
                          False, {})


class ShapeProp(Interpreter):
    """Runs a module; every node gets meta["tensor_meta"] and meta["type"]. """

    def __init__(self, gm):
        super().__init__(gm)

    def run_node(self, n):
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors = []

        def describe(x):
            if not isinstance(x, cresset.Tensor):
                return x
            tensors.append(x)
            return _extract_tensor_metadata(x)
        described = map_aggregate(result, describe)
        if tensors:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Runs the module on these arguments."""
        return super().run(*args)
