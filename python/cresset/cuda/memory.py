"""Memory of CUDA devices."""
import ctypes

from . import (MemPool, caching_allocator_alloc, caching_allocator_delete, get_allocator_backend, host_memory_stats,
               host_memory_stats_as_nested_dict, memory_snapshot, memory_summary, reset_accumulated_host_memory_stats,
               reset_peak_host_memory_stats, empty_cache, get_per_process_memory_fraction, list_gpu_processes,
               max_memory_allocated, max_memory_cached, max_memory_reserved, mem_get_info,
               memory_allocated, memory_cached, memory_reserved, memory_stats,
               memory_stats_as_nested_dict, reset_accumulated_memory_stats,
               reset_max_memory_allocated, reset_max_memory_cached, reset_peak_memory_stats,
               set_per_process_memory_fraction, use_mem_pool)


class _cuda_CUDAAllocator:
    """The addresses of two functions that get and free memory."""

    def __init__(self, get, free):
        self._get, self._free = get, free


class _CUDAAllocator:
    """Wraps what MemPool takes as its allocator."""

    def __init__(self, allocator):
        self._allocator = allocator

    def allocator(self):
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    """An allocator of a shared object, for torch.cuda.MemPool.

    alloc_fn_name: void *get(ssize_t size, int device, cudaStream_t stream);
    free_fn_name: void free(void *p, ssize_t size, int device, cudaStream_t stream)."""

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        super().__init__(_cuda_CUDAAllocator(*(ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                                               for name in (alloc_fn_name, free_fn_name))))


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
