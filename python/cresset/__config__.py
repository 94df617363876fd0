"""The build: compiler, libraries and processor."""
import os

from . import _C

__all__ = ["show", "parallel_info"]


def show():
    """Returns a text that describes the build."""
    from .version import __version__
    build = _C._build_config()
    return (f"PyTorch built with:\n  - {build['compiler']}\n  - C Version: {build['standard']}\n"
            "  - Threads of its own; OpenMP only in oneDNN\n  - oneDNN, BLAS and LAPACK are opened at the first product\n"
            f"  - CPU capability usage: {build['capability']}\n"
            f"  - Build settings: TORCH_VERSION={__version__}, USE_CUDA=0, USE_DISTRIBUTED=0, "
            "USE_OPENMP=OFF, \n")


def parallel_info():
    """Returns a text that describes threads."""
    threads = _C.get_num_threads()
    variables = "".join(f"\t{name} : {os.environ.get(name, '[not set]')}\n"
                        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
    from ._settings import get_num_interop_threads
    return (f"ATen/Parallel:\n\tat::get_num_threads() : {threads}\n"
            f"\tat::get_num_interop_threads() : {get_num_interop_threads()}\nOpenMP not found\n"
            f"std::thread::hardware_concurrency() : {os.cpu_count()}\nEnvironment variables:\n{variables}"
            "ATen parallel backend: native thread pool\n")
