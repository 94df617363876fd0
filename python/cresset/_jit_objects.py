"""Lists and dicts of TorchScript: their items have one type, which is that of the first item."""
from . import jit
from ._C import Tensor

JITException = jit.Error  # the error of compiled functions and of the compiler


def _type_of(value):
    """The name of a value's type; raises for a value that TorchScript has no type for."""
    if isinstance(value, Tensor):
        return "Tensor"
    if type(value) in (bool, int, float, complex, str):
        return type(value).__name__
    if isinstance(value, ScriptDict):
        return f"Dict[{value._kinds[0]}, {value._kinds[1]}]"
    if isinstance(value, list) and value:
        return f"List[{_type_of(value[0])}]"
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(_type_of, value))}]"
    raise TypeError(f"cannot infer the type of {value!r}")


def _checked(value, kind, place):
    found = _type_of(value)
    if found != kind:
        raise TypeError(f"Could not cast Python instance of type {type(value).__name__} to {kind} as {place}: its type is {found}")
    return value


class _Iterator:
    """Goes through a container once."""

    def __init__(self, items):
        self._items = iter(items)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)


class ScriptListIterator(_Iterator):
    """Goes through the items of a ScriptList."""


class ScriptDictKeyIterator(_Iterator):
    """Goes through the keys of a ScriptDict."""


class ScriptDictIterator(_Iterator):
    """Goes through the pairs of a ScriptDict."""


class ScriptList(list):
    """A list whose items have one type; jit.script([1, 2]) makes one."""

    def __init__(self, items):
        items = list(items)
        if not items:
            raise TypeError("the type of an empty list cannot be inferred")
        self._kind = _type_of(items[0])
        super().__init__(map(self._item, items))

    def _item(self, value):
        return _checked(value, self._kind, "an item")

    def __iter__(self):
        return ScriptListIterator(super().__iter__())

    def __getitem__(self, index):
        found = super().__getitem__(index)
        if not isinstance(index, slice):
            return found
        part = ScriptList.__new__(ScriptList)
        part._kind = self._kind
        list.extend(part, found)
        return part

    def __setitem__(self, index, value):
        super().__setitem__(index, [*map(self._item, value)] if isinstance(index, slice) else self._item(value))

    def append(self, item):
        """Adds an item at the end."""
        super().append(self._item(item))

    def extend(self, items):
        """Adds items at the end."""
        super().extend([*map(self._item, items)])

    def insert(self, index, item):
        """Adds an item before the one at `index`."""
        super().insert(index, self._item(item))

    def __iadd__(self, items):
        self.extend(items)
        return self


class ScriptDict(dict):
    """A dict whose keys have one type, and whose values have one type; jit.script({"a": 1}) makes one."""

    def __init__(self, items):
        items = dict(items)
        if not items:
            raise TypeError("the types of an empty dict cannot be inferred")
        key, value = next(iter(items.items()))
        self._kinds = _type_of(key), _type_of(value)
        super().__init__()
        self.update(items)

    def __iter__(self):
        return ScriptDictKeyIterator(super().__iter__())

    def __contains__(self, key):
        return super().__contains__(_checked(key, self._kinds[0], "a key"))

    def __getitem__(self, key):
        return super().__getitem__(_checked(key, self._kinds[0], "a key"))

    def __setitem__(self, key, value):
        super().__setitem__(_checked(key, self._kinds[0], "a key"), _checked(value, self._kinds[1], "a value"))

    def __delitem__(self, key):
        super().__delitem__(_checked(key, self._kinds[0], "a key"))

    def setdefault(self, key, default):
        """The value of a key, which gets a default value first where it has none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, items=(), **more):
        """Sets the values of keys."""
        for key, value in dict(items, **more).items():
            self[key] = value

    def keys(self):
        """Goes through the keys."""
        return ScriptDictKeyIterator(super().keys())

    def items(self):
        """Goes through the pairs."""
        return ScriptDictIterator(super().items())
