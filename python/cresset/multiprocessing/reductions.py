"""How tensors and storages are sent to other processes: by the file of their shared memory.

Parameters are a class of cresset.nn, which a launcher of processes does not import: whichever of the two modules is imported
last registers them.
"""
import os
import sys
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler

from .. import _C
from .._C import Tensor
from ..storage import TypedStorage
from . import shared

__all__ = ["init_reductions", "rebuild_tensor", "reduce_storage", "reduce_tensor"]


def reduce_storage(storage):
    """Returns the function and arguments that find the storage's memory in another process."""
    mapping = shared.of_storage(storage)
    if mapping is None:  # the storage itself stays where it is
        mapping = shared.of_storage(shared.share_storage(storage)) if storage.nbytes() else None
    if mapping is None:
        return rebuild_storage_empty, ()
    if mapping.name is not None:
        return rebuild_storage_filename, (mapping.name, mapping.length)
    return rebuild_storage_fd, (reduction.DupFd(mapping.fd), mapping.length)


def rebuild_storage_empty():
    return _C.UntypedStorage()


def rebuild_storage_fd(descriptor, size):
    """Maps the file of a received descriptor."""
    return shared.Mapping.of(descriptor.detach(), size).storage()


def rebuild_storage_filename(name, size):
    """Maps the file with a name."""
    return shared.open_named(name, size).storage()


def reduce_tensor(tensor):
    """Moves the tensor to shared memory and returns how another process finds it."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does "
            "not support crossing process boundaries.  If you just want to transfer the data, call "
            "detach() on the tensor before serializing (e.g., putting it on the queue).")
    from ..utils.hooks import warn_if_has_hooks
    warn_if_has_hooks(tensor)
    if tensor.is_meta:
        return rebuild_meta_tensor, (type(tensor), tensor.dtype, tuple(tensor.shape), tensor.stride(),
                                     tensor.requires_grad)
    shared.share_tensor(tensor)
    storage = tensor.untyped_storage()
    metadata = (tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
    return rebuild_tensor, (type(tensor), storage, metadata)


def rebuild_tensor(cls, storage, metadata):
    """Makes a tensor over a received storage."""
    dtype, offset, shape, stride, requires_grad = metadata
    tensor = _C.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, stride)
    if cls in _parameters():
        return cls(tensor, requires_grad)
    tensor.requires_grad = requires_grad
    return tensor if cls is Tensor else tensor.as_subclass(cls)


def rebuild_meta_tensor(cls, dtype, shape, stride, requires_grad):
    tensor = _C.empty_strided(shape, stride, dtype=dtype, device="meta", requires_grad=requires_grad)
    return cls(tensor, requires_grad) if cls in _parameters() else tensor


def reduce_typed_storage(storage):
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def _parameters():
    """The class of parameters, where its module is imported."""
    cls = getattr(sys.modules.get(f"{__name__.partition('.')[0]}.nn.parameter"), "Parameter", None)
    return () if cls is None else (cls,)


def init_reductions():
    """Makes multiprocessing's pickler send tensors, parameters and storages by their memory."""
    ForkingPickler.register(_C.UntypedStorage, reduce_storage)
    ForkingPickler.register(TypedStorage, reduce_typed_storage)
    ForkingPickler.register(Tensor, reduce_tensor)
    for cls in _parameters():
        ForkingPickler.register(cls, reduce_tensor)
