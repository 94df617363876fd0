"""Memory that processes share: files without a name, or files in /dev/shm."""
import mmap
import os
import weakref

from .. import _C

strategy = "file_descriptor"

_FOLDER = "/dev/shm"
_count = 0
_by_address = weakref.WeakValueDictionary()  # {address of the first byte: Mapping}
_by_file = weakref.WeakValueDictionary()     # {(device, inode): Mapping}


class Mapping(mmap.mmap):
    """A shared file that this process maps.  `fd` is open as long as the mapping lives."""

    @classmethod
    def of(cls, fd, size, name=None):
        """Maps a file of at least `size` bytes; owns the file descriptor."""
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino
        known = _by_file.get(key)
        if known is not None:
            os.close(fd)
            return known
        made = cls(fd, max(size, 1))
        made.fd, made.name, made.length = fd, name, size
        weakref.finalize(made, os.close, fd)
        _by_file[key] = made
        return made

    def storage(self):
        """Returns a storage over the mapping, which keeps it alive."""
        found = _C.frombuffer(self, dtype=_C.uint8, count=max(self.length, 1)).untyped_storage()
        _by_address[found.data_ptr()] = self
        return found


def _new_file():
    """Returns (file descriptor, name or None) of a new shared file."""
    if strategy == "file_descriptor":
        return os.memfd_create("torch"), None
    global _count
    _count += 1
    name = f"{_FOLDER}/torch_{os.getpid()}_{_count}"
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), name


def new(size):
    """Returns a mapping of `size` new bytes."""
    fd, name = _new_file()
    os.ftruncate(fd, max(size, 1))
    mapping = Mapping.of(fd, size, name)
    if name is not None:  # receivers open it by name until this process drops it
        weakref.finalize(mapping, _unlink, name, os.getpid())
    return mapping


def _unlink(name, pid):
    if os.getpid() == pid and os.path.exists(name):
        os.unlink(name)


def open_named(name, size):
    """Returns the mapping of a file that another process made."""
    return Mapping.of(os.open(name, os.O_RDWR), size, name)


def of_storage(storage):
    """Returns the mapping of a storage, or None when it is not shared."""
    return _by_address.get(storage.data_ptr()) if storage.nbytes() else None


def share_storage(storage):
    """Returns a storage with the same bytes in shared memory: the same one if it is shared."""
    if of_storage(storage) is not None:
        return storage
    mapping = new(storage.nbytes())
    if storage.nbytes():
        mapping[:storage.nbytes()] = storage.tobytes()
    return mapping.storage()


def is_shared(tensor):
    """Returns whether the tensor's bytes are in shared memory; on other devices they count as shared."""
    return tensor.device.type != "cpu" or of_storage(tensor.untyped_storage()) is not None


def share_tensor(tensor):
    """Moves the tensor's storage to shared memory.  Views made before keep the old memory."""
    if not is_shared(tensor):
        storage = share_storage(tensor.untyped_storage())
        flat = _C.empty(0, dtype=tensor.dtype)
        flat.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        with _C.no_grad():
            flat = flat._conj() if tensor.is_conj() else flat
            tensor.data = flat._neg_view() if tensor.is_neg() else flat
    return tensor
