"""Stages with several sources or several readers."""
import itertools
from collections import deque

from ..datapipe import IterDataPipe, check_function, functional_datapipe

__all__ = ["ConcaterIterDataPipe", "DemultiplexerIterDataPipe", "ForkerIterDataPipe", "MultiplexerIterDataPipe",
           "ZipperIterDataPipe"]


class _Several(IterDataPipe):
    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError(f"Expected at least one DataPipe, but got {len(datapipes)}")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes


@functional_datapipe("concat")
class ConcaterIterDataPipe(_Several):
    """The samples of several sources, one source after the other."""

    def __iter__(self):
        return itertools.chain.from_iterable(self.datapipes)

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperIterDataPipe(_Several):
    """Tuples of a sample of each source."""

    def __iter__(self):
        yield from zip(*self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(_Several):
    """One sample of each source in turn, until the shortest source ends."""

    def __iter__(self):
        for row in zip(*self.datapipes):
            yield from row

    def __len__(self):
        return min(map(len, self.datapipes)) * len(self.datapipes)


class _Shared:
    """The source of several readers, with the samples that a reader has not read yet."""

    def __init__(self, name, datapipe, count, buffer_size, route):
        self.name, self.main_datapipe, self.count, self.buffer_size = name, datapipe, count, buffer_size
        self.route = route
        self.restart()

    def restart(self):
        self.source = None
        self.buffers = [deque() for _ in range(self.count)]
        self.started = set()

    def begin(self, index):
        """A reader's iteration begins; its second one begins anew for all readers."""
        if index in self.started:
            self.restart()
        self.started.add(index)
        if self.source is None:
            self.source = iter(self.main_datapipe)

    def next(self, index):
        while not self.buffers[index]:
            sample = next(self.source)
            for target in self.route(sample):
                self.buffers[target].append(sample)
            if self.buffer_size >= 0 and sum(map(len, self.buffers)) - len(self.buffers[index]) > self.buffer_size:
                raise BufferError(f"{self.name} buffer overflow,buffer size {self.buffer_size} is insufficient.")
        return self.buffers[index].popleft()


class _Reader(IterDataPipe):
    def __init__(self, shared, index):
        self.main_datapipe = shared
        self.instance_id = index

    def __iter__(self):
        self.main_datapipe.begin(self.instance_id)
        while True:
            try:
                yield self.main_datapipe.next(self.instance_id)
            except StopIteration:
                return

    def __len__(self):
        return len(self.main_datapipe.main_datapipe)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """Several readers of the same samples."""

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if num_instances == 1:
            return [datapipe]
        everyone = range(num_instances)
        shared = _Shared(cls.__name__, datapipe, num_instances, buffer_size, lambda sample: everyone)
        return [_Reader(shared, i) for i in everyone]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """Readers among which classifier_fn distributes the samples, by number."""

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")

        check_function(classifier_fn)
        def route(sample):
            index = classifier_fn(sample)
            if index is None and drop_none:
                return ()
            if index is None or not 0 <= index < num_instances:
                raise ValueError(f"Output of the classification fn should be between 0 and {num_instances - 1}. "
                                 f"{index} is returned.")
            return (index,)
        shared = _Shared(cls.__name__, datapipe, num_instances, buffer_size, route)
        return [_Reader(shared, i) for i in range(num_instances)]
