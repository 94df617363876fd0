"""The class of __version__, under torch's name."""
__all__ = ["TorchVersion"]


def _parts(version):
    """Returns the numbers before any letter, and whether a local part follows."""
    public, plus, local = str(version).partition("+")
    numbers = []
    for word in public.split("."):
        digits = word[:len(word) - len(word.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != word:
            break
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), local


class TorchVersion(str):
    """A version that compares by number with strings and tuples."""

    def _key(self, other):
        if isinstance(other, (tuple, list)):
            other = ".".join(map(str, other))
        return _parts(other) if isinstance(other, str) else None

    def _compare(self, other, test):
        key = self._key(other)
        return NotImplemented if key is None else test(_parts(self), key)

    def __lt__(self, other):
        return self._compare(other, tuple.__lt__)

    def __le__(self, other):
        return self._compare(other, tuple.__le__)

    def __gt__(self, other):
        return self._compare(other, tuple.__gt__)

    def __ge__(self, other):
        return self._compare(other, tuple.__ge__)

    def __eq__(self, other):
        return self._compare(other, tuple.__eq__)

    __hash__ = str.__hash__


def __getattr__(name):
    if name == "__version__":
        from .version import __version__
        return __version__
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
