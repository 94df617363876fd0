"""Lists and dicts that Python and programs share: torch.jit.script([1, 2])."""
import collections.abc
import operator

from .. import _C


class _Shared:
    """The items are those of a program, with one type; a call of a compiled function changes them for both."""

    def __init__(self, items):
        from . import Error
        from ._recursive import _why_untyped
        why = _why_untyped(items) if items else None
        if why is not None:
            raise Error(f"Unable to infer type of {'list' if isinstance(items, list) else 'dictionary'}: {why}")
        self._items = _C._script_share(items)

    def __len__(self):
        return len(self._items)

    def __contains__(self, x):
        return x in self._items

    def __repr__(self):
        return repr(self._items.copy())

    __str__ = __repr__
    __hash__ = None


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


class ScriptList(_Shared, collections.abc.MutableSequence):
    """A list of a program."""

    def _place(self, i):
        i = operator.index(i)
        return i + len(self) if i < 0 else i

    def __getitem__(self, at):
        if isinstance(at, slice):
            return ScriptList(self._items.copy()[at])
        return self._items[self._place(at)]

    def __setitem__(self, at, value):
        if not isinstance(at, slice):
            self._items[self._place(at)] = value
            return
        places, values = range(*at.indices(len(self))), list(value)
        if len(places) != len(values):
            raise RuntimeError(f"Left and right hand size of slice assignment have different sizes: {len(places)} != "
                               f"{len(values)}")
        before = self._items.copy()[at]
        try:
            for i, x in zip(places, values):
                self._items[i] = x
        except BaseException:
            for i, x in zip(places, before):
                self._items[i] = x
            raise

    def __delitem__(self, at):
        places = range(*at.indices(len(self))) if isinstance(at, slice) else [self._place(at)]
        for i in sorted(places, reverse=True):
            del self._items[i]

    def insert(self, at, value):
        """Inserts a value before a place."""
        self._items.insert(max(self._place(at), 0), value)

    def append(self, value):
        """Adds a value at the end."""
        self._items.insert(len(self), value)

    def extend(self, values):
        """Adds values at the end; all of them or, when one has another type, none."""
        if not isinstance(values, collections.abc.Iterable):
            raise TypeError("extend takes a list")
        length = len(self)
        try:
            for value in list(values):
                self.append(value)
        except TypeError:
            del self[length:]
            raise

    def count(self, value):
        """How often the list has a value."""
        value in self._items  # refuses values of another type
        return self._items.copy().count(value)

    def remove(self, value):
        """Removes the first item that is equal."""
        value in self._items
        del self[self._items.copy().index(value)]

    def sort(self, key=None, reverse=False):
        """Sorts the items in place."""
        for i, x in enumerate(sorted(self._items.copy(), key=key, reverse=reverse)):
            self._items[i] = x

    def _in_order(self):
        i = 0
        while i < len(self):
            yield self._items[i]
            i += 1

    def __iter__(self):
        return ScriptListIterator(self._in_order())

    def __eq__(self, other):
        return self._items.copy() == (other._items.copy() if isinstance(other, ScriptList) else other)


class ScriptDict(_Shared, collections.abc.MutableMapping):
    """A dict of a program.  Looking up a key of another type is a KeyError, changing it a TypeError."""

    def __contains__(self, key):
        try:
            return key in self._items
        except TypeError as e:
            raise KeyError(key) from e

    def __getitem__(self, key):
        try:
            return self._items[key]
        except TypeError as e:
            raise KeyError(key) from e

    def __setitem__(self, key, value):
        self._items[key] = value

    def __delitem__(self, key):
        del self._items[key]

    def __iter__(self):
        return ScriptDictKeyIterator(self._items.copy())

    def keys(self):
        """Goes through the keys."""
        return ScriptDictKeyIterator(self._items.copy())

    def items(self):
        """Goes through the pairs."""
        return ScriptDictIterator(self._items.copy().items())

    def __eq__(self, other):
        return self._items.copy() == (other._items.copy() if isinstance(other, ScriptDict) else other)
