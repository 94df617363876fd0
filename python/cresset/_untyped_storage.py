"""Methods of UntypedStorage.  The extension imports this module when one is first called."""
from . import _C
from .storage import DTYPES, TypedStorage, UntypedStorage


def _as_tensor(storage, dtype=_C.uint8):
    return _C.empty(0, dtype=dtype, device=storage.device).set_(storage)


def _converts_to(name):
    def convert(storage):
        numbers = _as_tensor(storage).to(DTYPES[name])
        return TypedStorage(wrap_storage=numbers.untyped_storage(), dtype=numbers.dtype)
    return convert


for _name in DTYPES:
    globals()[_name] = _converts_to(_name)
del _name


def from_sequence(values, device=None):
    """Makes a storage of bytes from a sequence of integers."""
    for value in values:
        if not hasattr(value, "__index__"):
            kind = value.__class__.__name__
            raise RuntimeError(
                "torch.UntypedStorage(): tried to construct a storage from a sequence "
                f"({values.__class__.__name__}), but one of the items was of type {kind} instead of int")
    return _C.tensor([value.__index__() & 255 for value in values], dtype=_C.uint8,
                     device=device).untyped_storage()


def assign(storage, index, value):
    """storage[index] = value"""
    if not hasattr(value, "__index__"):
        raise RuntimeError("can only set storage content with a int types, but got "
                           f"{value.__class__.__name__} instead")
    size = len(storage)
    if not isinstance(index, slice) and not -size <= index < size:
        raise RuntimeError("out of bounds")
    _as_tensor(storage)[index] = value.__index__() & 255


def tolist(storage):
    return list(storage.tobytes())


def text(storage):
    """The storage's repr."""
    end = f"[torch.storage.UntypedStorage(device={storage.device}) of size {len(storage)}]"
    if storage.device.type == "meta":
        return "...\n" + end
    return " " + "\n ".join(map(str, storage.tobytes())) + "\n" + end


def element_size(storage):
    return 1


def fill_(storage, value):
    if not hasattr(value, "__index__"):
        raise RuntimeError(f"fill_ expects int, but got {value.__class__.__name__}")
    assign(storage, slice(None), value)
    return storage


def to(storage, *, device, non_blocking=False):
    if _C.device(device) == storage.device:
        return storage
    return _as_tensor(storage).to(device, non_blocking=non_blocking).untyped_storage()


def cpu(storage):
    return to(storage, device="cpu")


def cuda(storage, device=None, non_blocking=False):
    return to(storage, device="cuda" if device is None else device, non_blocking=non_blocking)


def hpu(storage, device=None, non_blocking=False):
    return to(storage, device="hpu" if device is None else device, non_blocking=non_blocking)


def mps(storage):
    return to(storage, device="mps")


def type(storage, dtype=None, non_blocking=False):
    if dtype is None:
        return f"{UntypedStorage.__module__}.{UntypedStorage.__name__}"
    if dtype is UntypedStorage:
        return storage
    raise RuntimeError(f"an untyped storage has no type but its own: got {dtype!r}")


def new(storage):
    return UntypedStorage(0, device=storage.device)


def resizable(storage):
    return True


def get_device(storage):
    return storage.device.index


def is_shared(storage):
    from .multiprocessing import shared
    return storage.device.type != "cpu" or shared.of_storage(storage) is not None


def is_pinned(storage, device="cuda"):
    return _as_tensor(storage).is_pinned()


def pin_memory(storage, device="cuda"):
    return _as_tensor(storage).pin_memory(device).untyped_storage()


def byteswap(storage, dtype):
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {dtype.__class__}")
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    items = _as_tensor(storage)[:len(storage) // size * size].view(-1, size)
    items.copy_(items.flip(1))


def from_buffer(buffer, byte_order=None, count=-1, offset=0, *, dtype=None):
    if dtype is None:
        raise RuntimeError("argument 'dtype' cannot be None")
    size = dtype.itemsize
    if byte_order is None and size > 1:
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    view = memoryview(buffer).cast("B")
    left = len(view) - offset
    if not 0 <= offset <= len(view):
        raise ValueError(f"offset must be non-negative and no greater than buffer length ({len(view)}) "
                         f", but got {offset}")
    if count < 0:
        if left % size:
            raise ValueError(f"buffer size ({len(view)}) must be a multiple of element size ({size})")
        count = left // size
    elif count * size > left:
        raise ValueError(f"buffer has only {left // size} elements after offset {offset}, but "
                         f"specified a size of {count}")
    if size > 1 and byte_order not in ("native", "little", "big"):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    made = UntypedStorage(count * size)
    if count:
        memoryview(made)[:] = view[offset:offset + count * size]
    if byte_order == "big" and size > 1:
        byteswap(made, dtype)
    return made
