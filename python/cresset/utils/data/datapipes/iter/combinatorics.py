"""Stages that change the order."""
import random

from ..... import _C
from ...sampler import SequentialSampler
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe):
    """The samples that a Sampler gives."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not hasattr(datapipe, "__len__"):
            raise TypeError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler_args, self.sampler_kwargs = sampler_args or (), sampler_kwargs or {}
        self.sampler = sampler(*self.sampler_args, data_source=datapipe, **self.sampler_kwargs)

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """Random samples of a buffer of buffer_size samples, which is refilled."""

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size
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
        if not self._enabled:
            yield from self.datapipe
            return
        seed = self._seed
        if seed is None:
            seed = int(_C.empty((), dtype=_C.int64).random_().item())
        self._seed = None
        yield from self._shuffled(random.Random(seed))

    def _shuffled(self, rng):
        buffer = []
        for data in self.datapipe:
            if len(buffer) == self.buffer_size:
                at = rng.randint(0, len(buffer) - 1)
                taken, buffer[at] = buffer[at], data
                yield taken
            else:
                buffer.append(data)
        while buffer:
            yield buffer.pop(rng.randint(0, len(buffer) - 1))

    def __len__(self):
        return len(self.datapipe)
