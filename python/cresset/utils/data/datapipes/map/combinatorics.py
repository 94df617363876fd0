"""A stage that changes the order."""
import random

from ..... import _C
from ..datapipe import IterDataPipe, MapDataPipe

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterDataPipe):
    """The samples of a MapDataPipe in random order."""

    def __init__(self, datapipe, *, indices=None):
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._enabled, self._seed = True, None

    def set_shuffle(self, shuffle=True):
        """Switches the change of order on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        """Sets the seed of the next iteration."""
        self._seed = seed
        return self

    def __iter__(self):
        order = self.indices
        if self._enabled:
            seed = int(_C.empty((), dtype=_C.int64).random_().item()) if self._seed is None else self._seed
            self._seed = None
            order = random.Random(seed).sample(self.indices, len(self.indices))[::-1]
        for index in order:
            yield self.datapipe[index]

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
