"""Storages: the memory of tensors, as bytes or as elements of a dtype."""
from . import _C, _root
from ._C import UntypedStorage

__all__ = ["UntypedStorage", "TypedStorage"]


def _typed(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def _load_from_bytes(b):
    """Makes the storage that a pickle holds."""
    from io import BytesIO
    from .serialization import load
    return load(BytesIO(b), weights_only=False)


def _reduce(storage):
    """How pickles hold a storage: as the bytes of a file, as torch's pickles do."""
    from io import BytesIO
    from .serialization import save
    buffer = BytesIO()
    save(storage, buffer, _use_new_zipfile_serialization=False)
    return _load_from_bytes, (buffer.getvalue(),)


_pickled = None  # the storages that pickles being written refer to


def _to_pickle(untyped, dtype):
    """The TypedStorage by which a pickle refers to a storage.

    It is the same object for all tensors of the storage, so that they share it after loading.
    """
    global _pickled
    if _pickled is None:
        from weakref import WeakValueDictionary
        _pickled = WeakValueDictionary()
    key = id(untyped), dtype
    found = _pickled.get(key)
    if found is None:
        found = _pickled[key] = _typed(untyped, dtype)
    return found


def storage_class(dtype):
    """The class that represents a dtype in checkpoints; None for dtypes that torch saves with
    untyped storages."""
    return _BY_DTYPE.get(dtype)


class TypedStorage:
    """The elements of a storage with a dtype."""

    def __init__(self, size=0, *, wrap_storage=None, dtype=None, device=None):
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is None:
            wrap_storage = UntypedStorage(size * self.dtype.itemsize, device=device or "cpu")
        self._untyped_storage = wrap_storage

    def __reduce__(self):
        return _reduce(self)

    def _pickle_class(self):
        """The class that represents the dtype in checkpoints."""
        return _BY_DTYPE[self.dtype]

    def _tensor(self):
        return _C.empty(0, dtype=self.dtype, device=self.device).set_(self._untyped_storage)

    device = property(lambda self: self._untyped_storage.device)
    is_cuda = False

    def untyped(self):
        return self._untyped_storage

    def size(self):
        return len(self)

    def __len__(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    _size = __len__

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def _data_ptr(self):
        return self._untyped_storage.data_ptr()

    def __getitem__(self, index):
        return self._tensor()[index].tolist()

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self):
        return self._tensor().tolist()

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        self._tensor().copy_(source._tensor())
        return self

    def clone(self):
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def cpu(self):
        return self

    def is_shared(self):
        from .multiprocessing import shared
        return self.device.type != "cpu" or shared.of_storage(self._untyped_storage) is not None

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        return f" {lines}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


# --- a class for each dtype: torch.FloatStorage ---

class _DtypeClass(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype


def _class_of(dtype, name):
    def __new__(cls, size=0, *, wrap_storage=None, device=None):
        """Makes a storage of this dtype: of a size, of a sequence's values, or over another
        storage."""
        if isinstance(size, int):
            return TypedStorage(size, wrap_storage=wrap_storage, dtype=cls.dtype, device=device)
        return _typed(_C.tensor(size, dtype=cls.dtype, device=device).untyped_storage(), cls.dtype)

    def from_file(filename, shared=False, size=0):
        """Maps `size` elements of a file; with `shared` writes change the file."""
        return _typed(UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype)

    return _DtypeClass(name, (), {"__new__": __new__, "__module__": _root.NAME, "dtype": dtype,
                                  "from_file": staticmethod(from_file)})


_BY_DTYPE = {}
for _name, _dtype in {
        "BoolStorage": _C.bool, "ByteStorage": _C.uint8, "CharStorage": _C.int8,
        "ShortStorage": _C.int16, "IntStorage": _C.int32, "LongStorage": _C.int64,
        "HalfStorage": _C.float16, "BFloat16Storage": _C.bfloat16, "FloatStorage": _C.float32,
        "DoubleStorage": _C.float64, "ComplexFloatStorage": _C.complex64,
        "ComplexDoubleStorage": _C.complex128}.items():
    globals()[_name] = _BY_DTYPE[_dtype] = _class_of(_dtype, _name)
    __all__.append(_name)
del _name, _dtype
