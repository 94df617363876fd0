"""One process's share of a data set."""
import math

import cresset
from .sampler import Sampler

__all__ = ["DistributedSampler"]


def _distributed():
    distributed = getattr(cresset, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available")
    return distributed


class DistributedSampler(Sampler):
    """Every num_replicas-th index, from `rank` on; all processes shuffle in the same way.

    Example::

        >>> list(torch.utils.data.DistributedSampler(range(6), num_replicas=2, rank=0, shuffle=False))
        [0, 2, 4]
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0,
                 drop_last=False):
        if num_replicas is None:
            num_replicas = _distributed().get_world_size()
        if rank is None:
            rank = _distributed().get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval "
                             f"[0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self):
        n = len(self.dataset)
        if self.shuffle:
            generator = cresset.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = cresset.randperm(n, generator=generator).tolist()
        else:
            indices = list(range(n))
        if not self.drop_last:  # repeats the first samples, until all shares are equal
            indices = (indices * math.ceil(self.total_size / n))[:self.total_size]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Changes the order of the next shuffle; call it before every epoch."""
        self.epoch = epoch
