"""A stage that makes batches."""
from ..datapipe import DataChunk, MapDataPipe, functional_datapipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Batches of batch_size samples with consecutive keys."""

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index):
        first = index * self.batch_size
        keys = range(first, min(first + self.batch_size, len(self.datapipe)))
        if not keys or (self.drop_last and len(keys) < self.batch_size):
            raise IndexError(f"Index {index} is out of bound.")
        return self.wrapper_class([self.datapipe[i] for i in keys])

    def __len__(self):
        full, rest = divmod(len(self.datapipe), self.batch_size)
        return full if self.drop_last or not rest else full + 1
