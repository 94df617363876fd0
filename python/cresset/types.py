"""Names for annotations."""
import builtins
import os
from typing import IO, List, Optional, Sequence, Tuple, Union

from ._C import Size, Tensor, device, dtype, layout, memory_format

__all__ = ["Number", "Device", "Storage", "FileLike"]

_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout, _size = dtype, device, layout, Union[Size, List[int], Tuple[int, ...]]
Number = Union[builtins.int, builtins.float, builtins.bool]
Device = Optional[Union[device, str, builtins.int]]
FileLike = Union[str, os.PathLike, IO[bytes]]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]


def __getattr__(name):
    if name == "Storage":
        from .storage import UntypedStorage
        return UntypedStorage
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
