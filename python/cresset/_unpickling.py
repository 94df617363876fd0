"""Loading with weights_only=False: checkpoints are unpickled by a pickle module.

Such a file can run any code.  Names of torch become objects of this package."""
import io
import sys

from . import _C, _utils
from .serialization import MAGIC_NUMBER, PROTOCOL_VERSION, StorageType
from .storage import TypedStorage, UntypedStorage


def _unpickler(pickle_module, file, persistent, load_args):
    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            if module == "torch" and name.endswith("Storage") and name not in (
                    "UntypedStorage", "TypedStorage"):
                return StorageType(name)
            return super().find_class(_utils.own_name(module), name)

        def persistent_load(self, pid):
            return persistent(pid)

    return Unpickler(file, **load_args)


def _text(x):
    return x.decode("ascii") if isinstance(x, bytes) else x


def _check_id(pid):
    if not isinstance(pid, tuple):
        raise AssertionError(f"saved_id must be a tuple, got {type(pid).__name__}")
    if _text(pid[0]) != "storage":
        raise AssertionError("Unknown typename for persistent_load, expected 'storage' but got "
                             f"'{_text(pid[0])}'")


def _dtype_of(storage_type):
    return _C.uint8 if storage_type is UntypedStorage else storage_type.dtype


def _bytes(storage):
    return _C.empty(0, dtype=_C.uint8, device=storage.device).set_(storage)


def _swap(storage, dtype):
    width = dtype.itemsize // (2 if dtype.is_complex else 1)
    flat = _bytes(storage)
    flat.copy_(flat.view(-1, width).flip(1).view(-1))


def is_script_archive(file, start):
    """Whether an archive is one of TorchScript."""
    return _C._archive_has(_C._archive_open(file, start, False), "constants.pkl")


def load_archive(file, start, restore, pickle_module, mmap, swapped, meta, load_args):
    """Returns the object of an archive; `restore` is a function of (storage, location)."""
    archive = _C._archive_open(file, start, mmap)
    if _C._archive_has(archive, "byteorder"):
        order = _C._archive_read(archive, "byteorder")
        if order not in (b"little", b"big"):
            raise ValueError("Unknown endianness type: " + order.decode(errors="replace"))
        swapped = order.decode() != sys.byteorder
    loaded = {}

    def make(storage_type, key, location, numel):
        dtype = _dtype_of(storage_type)
        if meta:
            return TypedStorage(wrap_storage=UntypedStorage(numel * dtype.itemsize, device="meta"),
                                dtype=dtype)
        storage = _C._archive_storage(archive, f"data/{key}", mmap and not swapped)
        if swapped:
            _swap(storage, dtype)
        return TypedStorage(wrap_storage=restore(storage, _text(location)), dtype=dtype)

    def persistent(pid):
        _check_id(pid)
        storage_type, key, location, numel = pid[1:]
        if key not in loaded:
            loaded[key] = make(storage_type, key, location, numel)
        return loaded[key]

    data = io.BytesIO(_C._archive_read(archive, "data.pkl"))
    return _unpickler(pickle_module, data, persistent, load_args).load()


def _read_all(file, size):
    content = file.read(size)
    if len(content) != size:
        raise RuntimeError(f"unexpected EOF, expected {size - len(content)} more bytes. The file "
                           "might be corrupted.")
    return content


class _OldStorages:
    """The storages of a file in torch's layout before 1.6: they follow the pickle."""

    def __init__(self, restore, meta):
        self.restore, self.meta, self.roots, self.views = restore, meta, {}, {}

    def persistent(self, pid):
        if not isinstance(pid, tuple):
            raise AssertionError(f"saved_id must be a tuple, got {type(pid).__name__}")
        kind, *data = pid
        if _text(kind) == "module":  # (class, source file, source): the class is used
            return data[0]
        if _text(kind) != "storage":
            raise RuntimeError(f"Unknown saved id type: {kind}")
        storage_type, key, location, numel, view = data
        dtype = _dtype_of(storage_type)
        if key not in self.roots:
            storage = UntypedStorage(numel * dtype.itemsize, device="meta" if self.meta else "cpu")
            self.roots[key] = storage if self.meta else self.restore(storage, _text(location)), dtype
        return self._view(key, view, dtype) if view is not None else self._typed(key)

    def _typed(self, key):
        storage, dtype = self.roots[key]
        return TypedStorage(wrap_storage=storage, dtype=dtype)

    def _view(self, key, view, dtype):
        name, offset, size = view
        if name not in self.views:
            root = self._typed(key)._untyped_storage
            self.views[name] = root[offset * dtype.itemsize:(offset + size) * dtype.itemsize]
        return TypedStorage(wrap_storage=self.views[name], dtype=dtype)

    def fill(self, key, file, swapped):
        storage, dtype = self.roots[key]
        count = int.from_bytes(_read_all(file, 8), "little")
        if count * dtype.itemsize != storage.nbytes():
            raise RuntimeError("storage has wrong byte size: expected "
                               f"{storage.nbytes() // dtype.itemsize} elements, got {count} elements")
        content = _read_all(file, storage.nbytes())
        if content and not self.meta:
            _bytes(storage).copy_(_C.frombuffer(bytearray(content), dtype=_C.uint8))
            if swapped:
                _swap(storage, dtype)


def load_old(file, restore, pickle_module, meta, load_args):
    """Returns the object of a file in torch's layout before 1.6, and leaves `file` behind it."""
    if pickle_module.load(file, **load_args) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = pickle_module.load(file, **load_args)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    facts = pickle_module.load(file, **load_args)
    swapped = facts.get("little_endian", True) != (sys.byteorder == "little")
    storages = _OldStorages(restore, meta)
    result = _unpickler(pickle_module, file, storages.persistent, load_args).load()
    for key in pickle_module.load(file, **load_args):
        storages.fill(_text(key) if key not in storages.roots else key, file, swapped)
    return result
