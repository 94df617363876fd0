"""Copies of dicts, from which an asynchronous save writes while training changes the originals."""
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import cresset

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def _copied(value):
    """Returns a copy on the host of all tensors in dicts, lists and tuples."""
    if hasattr(value, "_map_local"):
        return value._map_local(_copied)
    if isinstance(value, cresset.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(v) for v in value)
    return value


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copies: stage() returns a dict, or a future of one."""

    _synchronize_after_execute = True

    @property
    def should_synchronize_after_execute(self):
        """Whether synchronize_staging() must be called before training goes on."""
        return self._synchronize_after_execute

    def stage(self, state_dict):
        """Returns a copy."""

    def synchronize_staging(self):
        """Waits for the copy."""

    def close(self):
        """Ends the stager."""


class BlockingAsyncStager(AsyncStager):
    """Copies at once.  With cache_staged_state_dict, later copies go into the memory of the first."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self.state_dict_cache = None

    def stage(self, state_dict):
        if not self.cache_staged_state_dict:
            return _copied(state_dict)
        if self.state_dict_cache is None or not _copy_into(self.state_dict_cache, state_dict):
            self.state_dict_cache = _copied(state_dict)
        return self.state_dict_cache

    def synchronize_staging(self):
        pass

    def close(self):
        pass


def _fits(kept, value):
    if isinstance(value, dict):
        return isinstance(kept, dict) and kept.keys() == value.keys() and all(_fits(kept[k], v) for k, v in value.items())
    if isinstance(value, cresset.Tensor):
        return isinstance(kept, cresset.Tensor) and kept.shape == value.shape and kept.dtype == value.dtype
    return type(value) not in (list, tuple) and not hasattr(value, "_map_local")


def _copy_into(kept, state_dict):
    """Copies a dict into one with the same tensors; False when they are not the same."""
    if not _fits(kept, state_dict):
        return False
    for key, value in state_dict.items():
        if isinstance(value, dict):
            _copy_into(kept[key], value)
        elif isinstance(value, cresset.Tensor):
            kept[key].copy_(value.detach())
        else:
            kept[key] = value
    return True


@dataclass
class StagingOptions:
    """How DefaultStager copies: in a thread, with use_async_staging.  Host memory needs none of the others."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies in a thread: the caller must not change the tensors before the future is done."""

    _synchronize_after_execute = False

    def __init__(self, config=None):
        self._config = StagingOptions() if config is None else config
        self._executor = ThreadPoolExecutor(1) if self._config.use_async_staging else None
        self._future = None

    def stage(self, state_dict, **kwargs):
        if self._executor is None:
            return _copied(state_dict)
        self._future = self._executor.submit(_copied, state_dict)
        return self._future

    def synchronize_staging(self):
        if isinstance(self._future, Future):
            self._future.result()

    def close(self):
        if self._executor is not None:
            self._executor.shutdown()
