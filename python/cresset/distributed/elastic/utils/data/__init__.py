"""Data of elastic runs."""
import math

from ....distributed_c10d import get_rank, get_world_size
from .....utils.data import Sampler

__all__ = ["CyclingIterator", "ElasticDistributedSampler"]


class CyclingIterator:
    """Iterates over generator_fn(0), generator_fn(1), ... up to n, from start_epoch."""

    def __init__(self, n, generator_fn, start_epoch=0):
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = iter(generator_fn(start_epoch))

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
                self._epoch += 1
                self._iter = iter(self._generator_fn(self._epoch))


class ElasticDistributedSampler(Sampler):
    """A rank's share of the samples from start_index on, in an order that depends on the epoch."""

    def __init__(self, dataset, num_replicas=None, rank=None, start_index=0):
        self.dataset, self.start_index, self.epoch = dataset, start_index, 0
        self.num_replicas = get_world_size() if num_replicas is None else num_replicas
        self.rank = get_rank() if rank is None else rank
        if start_index >= len(dataset):
            raise ValueError(f"Start index {start_index} should be less than dataset size {len(dataset)}")
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        from ..... import Generator, randperm
        order = randperm(len(self.dataset) - self.start_index, generator=Generator().manual_seed(self.epoch)).tolist()
        order = [i + self.start_index for i in order]
        order += order[:self.total_size - len(order)]
        return iter(order[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Sets the epoch."""
        self.epoch = epoch
