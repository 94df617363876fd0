"""Stages that make batches and groups."""
from collections import defaultdict

from ..datapipe import DataChunk, IterDataPipe, check_function, functional_datapipe

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Batches of batch_size samples."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self):
        batch = []
        for x in self.datapipe:
            batch.append(x)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self):
        full, rest = divmod(len(self.datapipe), self.batch_size)
        return full if self.drop_last or not rest else full + 1


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The samples of batches; -1 undoes all levels of batches."""

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element, level):
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if level == 0 or (level == -1 and not isinstance(element, (list, DataChunk))):
            yield element
            return
        if not isinstance(element, (list, DataChunk)):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        for item in element:
            yield from self._dive(item, -1 if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Batches of samples with equal keys; the largest group ends when the buffer is full."""

    def __init__(self, datapipe, group_key_fn, *, keep_key=False, buffer_size=10000, group_size=None,
                 guaranteed_group_size=None, drop_remaining=False):
        check_function(group_key_fn)
        if buffer_size <= 0 or (group_size is not None and not 0 < group_size <= buffer_size):
            raise ValueError("buffer_size must be positive, and group_size between 1 and buffer_size")
        least = guaranteed_group_size if guaranteed_group_size is not None else group_size
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise ValueError("guaranteed_group_size must be between 1 and group_size")
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = least

    def _result(self, key, group):
        return (key, DataChunk(group)) if self.keep_key else DataChunk(group)

    def _evict(self, groups):
        """Removes the largest group.  Returns (key, group), or None when it is too small and is dropped."""
        key = max(groups, key=lambda k: len(groups[k]))
        least = self.guaranteed_group_size
        if least is not None and len(groups[key]) < least and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(groups[key]))
        group = groups.pop(key)
        return None if least is not None and len(group) < least else (key, group)

    def __iter__(self):
        groups, count = defaultdict(list), 0
        for x in self.datapipe:
            key = self.group_key_fn(x)
            groups[key].append(x)
            count += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                count -= len(groups[key])
                yield self._result(key, groups.pop(key))
            if count == self.max_buffer_size:
                before = sum(map(len, groups.values()))
                evicted = self._evict(groups)
                count -= before - sum(map(len, groups.values()))
                if evicted is not None:
                    yield self._result(*evicted)
        for key, group in groups.items():
            yield self._result(key, group)
