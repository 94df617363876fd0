"""Dictionaries whose keys are objects by identity, such as tensors, and do not keep them."""
import weakref
from collections.abc import MutableMapping
from weakref import ref

from .._C import Tensor

WeakRef = ref

__all__ = ["TensorWeakRef", "WeakIdRef", "WeakIdKeyDictionary", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is compared by the identity of its object."""

    __slots__ = ["_id"]

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self):
        return super().__call__()

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        a, b = self(), other()
        return a is b if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping):
    """A dict from objects, by identity, to values.  An entry ends with its object."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        where = ref(self)

        def remove(key):
            owner = where()
            if owner is not None:
                owner.data.pop(key, None)
        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        for key in list(self.data):
            found = key()
            if found is not None:
                yield found

    def keyrefs(self):
        """The references to the keys."""
        return list(self.data)

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self):
        """A dict with the same entries."""
        made = WeakIdKeyDictionary(ref_type=self.ref_type)
        for key, value in self.items():
            made[key] = value
        return made

    __copy__ = copy


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    ref: "WeakRef[Tensor]"

    def __init__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
