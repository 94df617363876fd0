"""Memory of CUDA devices."""
from . import (MemPool, caching_allocator_alloc, caching_allocator_delete, get_allocator_backend, host_memory_stats,
               host_memory_stats_as_nested_dict, memory_snapshot, memory_summary, reset_accumulated_host_memory_stats,
               reset_peak_host_memory_stats, empty_cache, get_per_process_memory_fraction, list_gpu_processes,
               max_memory_allocated, max_memory_cached, max_memory_reserved, mem_get_info,
               memory_allocated, memory_cached, memory_reserved, memory_stats,
               memory_stats_as_nested_dict, reset_accumulated_memory_stats,
               reset_max_memory_allocated, reset_max_memory_cached, reset_peak_memory_stats,
               set_per_process_memory_fraction, use_mem_pool)


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
