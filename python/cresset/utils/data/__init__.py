"""Data sets, samplers and the loader that makes batches of them."""
from .dataloader import (DataLoader, _DatasetKind, default_collate, default_convert,
                         get_worker_info)
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset,
                      Subset, TensorDataset, random_split)
from .distributed import DistributedSampler
from .sampler import (BatchSampler, RandomSampler, Sampler, SequentialSampler,
                      SubsetRandomSampler, WeightedRandomSampler)

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset",
           "DistributedSampler", "IterableDataset", "RandomSampler", "Sampler",
           "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler",
           "TensorDataset", "WeightedRandomSampler", "_DatasetKind", "default_collate",
           "default_convert", "get_worker_info", "random_split", "DataChunk", "DFIterDataPipe", "IterDataPipe",
           "MapDataPipe", "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic", "argument_validation",
           "runtime_validation", "runtime_validation_disabled"]

_LATER = {name: "datapipes.datapipe" for name in (
    "DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe", "functional_datapipe",
    "guaranteed_datapipes_determinism", "non_deterministic")}


def __getattr__(name):
    from importlib import import_module
    if name in ("datapipes", "graph", "graph_settings"):
        return import_module(f"{__name__}.{name}")
    if name in ("argument_validation", "runtime_validation", "runtime_validation_disabled"):
        return getattr(import_module(f"{__name__}._typed"), name)
    if name in _LATER:
        import_module(f"{__name__}.datapipes")  # registers the stages as methods
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
