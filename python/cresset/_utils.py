"""Helpers that several modules use."""
import sys


def typename(obj):
    """Returns the full name of `obj`'s class, or a tensor's type string, for error messages."""
    from . import Tensor
    if isinstance(obj, Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    if cls.__module__ in ("builtins", "__builtin__"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def _rebuild_tensor(storage, storage_offset, size, stride):
    from . import _C
    dtype = storage.dtype
    return _C._rebuild_tensor(storage._untyped_storage, dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks,
                       metadata=None):
    """Makes a tensor over a storage, for unpickling."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    for mark, view in ("conj", "_conj"), ("neg", "_neg_view"):
        if metadata and metadata.get(mark):
            tensor = getattr(tensor, view)()
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype,
                       metadata=None):
    from .storage import _typed
    untyped = getattr(storage, "_untyped_storage", storage)
    return _rebuild_tensor_v2(_typed(untyped, dtype), storage_offset, size, stride, requires_grad,
                              backward_hooks, metadata)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    from . import empty_strided
    return empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_sparse_tensor(layout, data):
    from . import _C, _sparse
    if layout == _C.sparse_coo:
        indices, values, size = data[:3]
        return _sparse.sparse_coo_tensor(indices, values, size, check_invariants=True,
                                         is_coalesced=data[3] if len(data) > 3 else None)
    if layout in (_C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc):
        return _sparse.sparse_compressed_tensor(*data, layout=layout, check_invariants=True)
    raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    tensor = data.to(dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


def own_name(module):
    """Returns this package's name of a module of torch."""
    root, dot, rest = module.partition(".")
    return f"cresset{dot}{rest}" if root == "torch" else module


def torch_name(module):
    """Returns torch's name of a module of this package."""
    root, dot, rest = module.partition(".")
    return f"torch{dot}{rest}" if root == "cresset" else module


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from .nn.parameter import Parameter
    param = Parameter(data, requires_grad)
    param._backward_hooks = backward_hooks
    return param


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    param = _rebuild_parameter(data, requires_grad, backward_hooks)
    for name, value in state.items():
        setattr(param, name, value)
    return param


class KeyErrorMessage(str):
    """A KeyError prints repr(argument); this class keeps a multi-line text readable."""

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception and its traceback's text, which can be sent to other processes and threads."""

    def __init__(self, exc_info=None, where="in background"):
        if exc_info is None:
            exc_info = sys.exc_info()
        import traceback
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self):
        """Raises the exception.  Its text contains the original traceback."""
        msg = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            msg = KeyErrorMessage(msg)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=msg)
        try:
            exception = self.exc_type(msg)
        except Exception:
            # An exception class that does not accept one string is reported as RuntimeError.
            raise RuntimeError(msg) from None
        raise exception


def _element_size(dtype):
    """Returns the bytes of an element of a dtype."""
    from . import _C
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def is_compiling():
    """Whether torch.compile or torch.export traces the caller: torch.compiler.is_compiling under its earlier name."""
    from .compiler import is_compiling as found
    return found()


def _get_device_index(device, optional=False, allow_cpu=False):
    """Returns the index of a device; with `optional` that of the current one where none is given."""
    from . import _C, accelerator
    if isinstance(device, int):
        return device
    if device is not None:
        device = _C.device(device)
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.type == "cpu" or device.index is not None:
            return -1 if device.type == "cpu" else device.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return accelerator.current_device_index()


def _get_available_device_type():
    """The name of the kind of devices that this machine has besides the host; None without."""
    from . import accelerator
    device = accelerator.current_accelerator(check_available=True)
    return None if device is None else device.type


def _get_device_module(device_type):
    """The module of a kind of devices: torch.cpu, torch.cuda."""
    module = getattr(sys.modules[__package__], device_type, None)
    if module is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as "
                           f"'torch.{device_type}'.")
    return module
