"""Storages: the memory of tensors, as bytes or as elements of a dtype."""
from . import _C, _root
from ._C import UntypedStorage

__all__ = ["UntypedStorage", "TypedStorage"]


StorageBase = UntypedStorage  # the class of all storages without a dtype
_warned = False


def _warn_typed_storage_removal(stacklevel=2):
    """Warns once of typed storages."""
    global _warned
    if not _warned:
        from warnings import warn
        _warned = True
        warn("TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. This "
             "should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
             "tensor.untyped_storage() instead of tensor.storage()", stacklevel=stacklevel + 1)


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
        if dtype is not None and not isinstance(dtype, _C.dtype):
            raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is None and not hasattr(size, "__index__"):  # a sequence of values
            wrap_storage = _C.tensor(size, dtype=self.dtype, device=device).untyped_storage()
        elif wrap_storage is None:
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
    filename = property(lambda self: self._untyped_storage.filename)
    is_cuda = property(lambda self: self._untyped_storage.is_cuda)
    is_hpu = property(lambda self: self._untyped_storage.is_hpu)
    is_sparse = False

    def untyped(self):
        return self._untyped_storage

    def size(self):
        return len(self)

    def __len__(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    _size = __len__

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def __sizeof__(self):
        """Bytes of the object and of its elements."""
        return super().__sizeof__() + self.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def _data_ptr(self):
        return self._untyped_storage.data_ptr()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not hasattr(index, "__index__"):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
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
        return _typed(self._untyped_storage.clone(), self.dtype)

    __copy__ = clone

    def __deepcopy__(self, memo):
        from copy import deepcopy
        return _typed(deepcopy(self._untyped_storage, memo), self.dtype)

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def resizable(self):
        return self._untyped_storage.resizable()

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def is_pinned(self, device="cuda"):
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device="cuda"):
        return self._on(self._untyped_storage.pin_memory(device))

    def get_device(self):
        return self._untyped_storage.get_device()

    # --- other devices and dtypes ---

    def _on(self, untyped):
        return self if untyped is self._untyped_storage else _typed(untyped, self.dtype)

    def to(self, *, device, non_blocking=False):
        return self._on(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    def cpu(self):
        return self._on(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        return self._on(self._untyped_storage.cuda(device, non_blocking))

    def hpu(self, device=None, non_blocking=False):
        return self._on(self._untyped_storage.hpu(device, non_blocking))

    def _to(self, dtype):
        numbers = self._tensor().to(dtype)
        return self if dtype == self.dtype else _typed(numbers.untyped_storage(), dtype)

    def pickle_storage_type(self):
        """The name of the class that represents the dtype in checkpoints."""
        return self._pickle_class().__name__

    def type(self, dtype=None, non_blocking=False):
        """The name of the dtype's class."""
        if dtype is not None:
            raise TypeError("a storage is converted by its methods: float(), long()")
        family = "torch" if self.device.type == "cpu" else f"torch.{self.device.type}"
        return f"{family}.{self.pickle_storage_type()}"

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        return f" {lines}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def _converts_to(dtype):
    return lambda self: self._to(dtype)


DTYPES = {  # the dtype of each conversion method
    "bool": _C.bool, "byte": _C.uint8, "char": _C.int8, "short": _C.int16, "int": _C.int32,
    "long": _C.int64, "half": _C.float16, "bfloat16": _C.bfloat16, "float": _C.float32,
    "double": _C.float64, "complex_float": _C.complex64, "complex_double": _C.complex128,
    "float8_e4m3fn": _C.float8_e4m3fn, "float8_e4m3fnuz": _C.float8_e4m3fnuz,
    "float8_e5m2": _C.float8_e5m2, "float8_e5m2fnuz": _C.float8_e5m2fnuz}
for _name, _dtype in DTYPES.items():
    setattr(TypedStorage, _name, _converts_to(_dtype))


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

    def from_buffer(buffer, byte_order=None, count=-1, offset=0):
        """Copies elements of a buffer."""
        made = UntypedStorage.from_buffer(buffer, byte_order, count, offset, dtype=dtype)
        return _typed(made, dtype)

    return _DtypeClass(name, (TypedStorage,), {
        "__new__": __new__, "__module__": _root.NAME, "dtype": dtype,
        "from_file": staticmethod(from_file), "from_buffer": staticmethod(from_buffer),
        "_from_buffer": staticmethod(from_buffer)})


def device_storage_classes(kind):
    """{name: class} of the classes of storages on a kind of device: torch.cuda.FloatStorage."""
    def new(cls, size=0):
        if isinstance(size, int):
            return TypedStorage(size, dtype=cls.dtype, device=kind)
        return _typed(_C.tensor(size, dtype=cls.dtype, device=kind).untyped_storage(), cls.dtype)
    return {cls.__name__: _DeviceClass(cls.__name__, (TypedStorage,), {
        "__new__": new, "__module__": f"{_root.NAME}.{kind}", "dtype": dtype, "kind": kind})
        for dtype, cls in _BY_DTYPE.items()}


class _DeviceClass(_DtypeClass):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) and instance.device.type == cls.kind


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
