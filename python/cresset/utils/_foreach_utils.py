"""Groups of tensors that the `_foreach` operators may take together."""
from typing import Optional, TypeAlias

from .. import _C
from .._C import Tensor

Indices: TypeAlias = list[int]
TensorListList: TypeAlias = list[list[Optional[Tensor]]]

_UNFIT = ("Tensors of the same index must be on the same device and the same dtype except `step` tensors that can be CPU and "
          "float32/64, and optimizer states that can be bfloat16 for mixed-precision training")


def _get_foreach_kernels_supported_devices():
    return ["cuda", _C._get_privateuse1_backend_name()]


def _get_fused_kernels_supported_devices():
    return ["cuda", "cpu", _C._get_privateuse1_backend_name()]


def _fits(tensor, device, dtype):
    """Whether a tensor may be in the group of its index: of its kind, or a count of steps, or a narrower state."""
    if tensor is None or (tensor.device == device and tensor.dtype in (dtype, _C.bfloat16)):
        return True
    return tensor.device.type == "cpu" and tensor.dtype in (_C.float32, _C.float64)


def _check(lists):
    if not lists or not len(lists[0]):
        raise RuntimeError("Expected at least one list of tensors, and tensors in the first one")
    if any(len(tensors) not in (0, len(lists[0])) for tensors in lists):
        raise RuntimeError(f"Expected lists of {len(lists[0])} tensors or of none, but got {[len(x) for x in lists]}")
    for i, tensor in enumerate(lists[0]):
        if tensor is None:
            raise RuntimeError("Tensors of the first list of nested Tensor lists are supposed to be defined but the "
                               f"{i}-th Tensor is not.")


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype): (lists, indices)} of lists of tensors, of which the first tells both; empty lists stay empty."""
    _check(tensorlistlist)
    found = {}
    for i, first in enumerate(tensorlistlist[0]):
        row = [tensors[i] if tensors else None for tensors in tensorlistlist]
        if not all(_fits(tensor, first.device, first.dtype) for tensor in row):
            raise RuntimeError(_UNFIT)
        lists, indices = found.setdefault((first.device, first.dtype), ([[] for _ in row], []))
        for to, tensor, given in zip(lists, row, tensorlistlist):
            if given:
                to.append(tensor)
        if with_indices:
            indices.append(i)
    return found


def _device_has_foreach_support(device):
    return device.type in [*_get_foreach_kernels_supported_devices(), "cpu"]


def _has_foreach_support(tensors, device):
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)
