"""Data sets: by index, by iteration, and composed of other data sets."""
import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from types import GenericAlias

import cresset

__all__ = ["Dataset", "IterableDataset", "TensorDataset", "StackDataset", "ConcatDataset",
           "ChainDataset", "Subset", "random_split"]


class Dataset:
    """Samples by index; subclasses define __getitem__ and, for most samplers, __len__.

    Example::

        >>> class Squares(torch.utils.data.Dataset):
        ...     def __getitem__(self, i):
        ...         return i * i
        ...     def __len__(self):
        ...         return 4
        >>> list(torch.utils.data.DataLoader(Squares(), batch_size=2))
        [tensor([0, 1]), tensor([4, 9])]
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset, Iterable):
    """Samples one after another; subclasses define __iter__.

    Example::

        >>> class Count(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(torch.utils.data.DataLoader(Count()))
        [tensor([0]), tensor([1]), tensor([2])]
    """

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Rows of tensors with the same first size.

    Example::

        >>> data = torch.utils.data.TensorDataset(torch.arange(3), torch.arange(3) * 10)
        >>> data[2]
        (tensor(2), tensor(20))
    """

    def __init__(self, *tensors):
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


def _items(dataset, indices):
    """Returns the samples at `indices`, by one call where the data set supports it."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError("Nested dataset's output size mismatch. Expected "
                         f"{len(indices)}, got {len(items)}")
    return items


class StackDataset(Dataset):
    """Data sets side by side; samples are tuples, or dicts for data sets given by name.

    Example::

        >>> pairs = torch.utils.data.StackDataset([1, 2], [3, 4])
        >>> pairs[1]
        (2, 4)
    """

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via "
                             "``kwargs``) like input/output, but both types are given.")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        parts = args or list(kwargs.values())
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {k: dataset[index] for k, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices):
        if isinstance(self.datasets, dict):
            columns = [_items(d, indices) for d in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*(_items(d, indices) for d in self.datasets)))

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """Data sets one after another.

    Example::

        >>> both = torch.utils.data.ConcatDataset([[1, 2], [3]])
        >>> len(both), both[2]
        (3, 3)
    """

    @staticmethod
    def cumsum(sequence):
        """Returns the end index of every part."""
        return list(accumulate(len(part) for part in sequence))

    def __init__(self, datasets):
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        part = bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[part - 1] if part > 0 else 0
        return self.datasets[part][idx - start]

    @property
    def cummulative_sizes(self):
        """The old name of cumulative_sizes."""
        warnings.warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
                      FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Iterable data sets one after another.

    Example::

        >>> class Count(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(torch.utils.data.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def _parts(self):
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield part

    def __iter__(self):
        for part in self._parts():
            yield from part

    def __len__(self):
        return sum(map(len, self._parts()))


class Subset(Dataset):
    """Some samples of a data set.

    Example::

        >>> list(torch.utils.data.Subset([10, 20, 30], [2, 0]))
        [30, 10]
    """

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if (cls.__getitem__ is not Subset.__getitem__
                and cls.__getitems__ is Subset.__getitems__):
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. When subclassing "
                "Subset and overriding __getitem__, you must also override __getitems__ to "
                "ensure DataLoader works correctly with your custom logic. A simple "
                "implementation:\n\ndef __getitems__(self, indices):\n    return "
                "[self.__getitem__(idx) for idx in indices]")

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        indices = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(indices)
        return [self.dataset[i] for i in indices]

    def __len__(self):
        return len(self.indices)


def _lengths_of_fractions(size, fractions):
    """Rounds down and distributes the rest over the first parts, one sample each."""
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(size * fraction) for fraction in fractions]
    for i in range(size - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty "
                          "dataset.", stacklevel=3)
    return lengths


def random_split(dataset, lengths, generator=None):
    """Splits a data set randomly into parts of the given lengths (or fractions)."""
    total = sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        lengths = _lengths_of_fractions(len(dataset), lengths)
        total = sum(lengths)
    if total != len(dataset):
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset!")
    order = cresset.randperm(total, generator=generator).tolist()
    return [Subset(dataset, order[end - length:end])
            for end, length in zip(accumulate(lengths), lengths)]
