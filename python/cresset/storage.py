"""Storages: the memory under tensors, as bytes or as elements of one dtype."""
from . import _C
from ._C import UntypedStorage

__all__ = ["UntypedStorage", "TypedStorage"]


class TypedStorage:
    """The elements of a storage, seen as one dtype."""

    def __init__(self, size=0, *, wrap_storage=None, dtype=None, device=None):
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if wrap_storage is None:
            wrap_storage = UntypedStorage(size * self.dtype.itemsize, device=device or "cpu")
        self._untyped_storage = wrap_storage

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
        return False

    def __repr__(self):
        lines = "\n ".join(map(str, self.tolist()))
        return f" {lines}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
