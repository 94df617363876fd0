"""Pickles of indices with torch's names: either package reads the other's."""
import io
import pickle

from ... import _C, _utils


def dump(obj, file):
    """Writes a pickle in which objects of this package have torch's names."""
    file.write(_C._checkpoint_rename(memoryview(pickle.dumps(obj))))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return super().find_class(_utils.own_name(module), name)


def load(file):
    """Reads a pickle of either package.  It can run code, as any pickle can."""
    return _Unpickler(io.BytesIO(file.read())).load()
