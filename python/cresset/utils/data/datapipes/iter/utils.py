"""A stage over any iterable."""
from ..datapipe import IterDataPipe, copied

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe):
    """The items of an iterable, which is copied for every iteration."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self):
        yield from copied(self.iterable, self.deepcopy)

    def __len__(self):
        return len(self.iterable)
