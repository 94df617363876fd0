"""Whether Triton, a compiler of GPU kernels in another package, is there.  This library does not use it."""
import functools
import importlib.util

import cresset


@functools.cache
def has_triton_package():
    """Returns whether the package triton is installed."""
    return importlib.util.find_spec("triton") is not None


@functools.cache
def get_triton_version(fallback=(0, 0)):
    """Returns the package's two first numbers."""
    if not has_triton_package():
        return fallback
    from importlib import metadata
    try:
        return tuple(int(n) for n in metadata.version("triton").split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        return fallback


@functools.cache
def has_triton():
    """Returns whether Triton is installed and there is a processor that it compiles for."""
    if not has_triton_package():
        return False
    if cresset.cuda.is_available() and cresset.cuda.get_device_capability() >= (7, 0):
        return True
    try:
        import triton.backends
        return "cpu" in triton.backends.backends
    except ImportError:
        return False


def _has_name(module, name):
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


def _gpu_has_tma():
    return has_triton_package() and cresset.cuda.is_available() and cresset.cuda.get_device_capability() >= (9, 0)


@functools.cache
def has_triton_tensor_descriptor_host_tma():
    """Returns whether Triton's programs may make descriptors for the GPU's copies of boxes on the host."""
    return _gpu_has_tma() and _has_name("triton.tools.tensor_descriptor", "TensorDescriptor")


@functools.cache
def has_triton_experimental_host_tma():
    """Returns whether an older Triton has these descriptors."""
    return _gpu_has_tma() and _has_name("triton.tools.experimental_descriptor", "create_2d_tma_descriptor")


def has_triton_tma():
    """Returns whether Triton has descriptors of the host."""
    return has_triton_tensor_descriptor_host_tma() or has_triton_experimental_host_tma()


@functools.cache
def has_triton_stable_tma_api():
    """Returns whether Triton's kernels may make descriptors by a function that stays."""
    return _gpu_has_tma() and _has_name("triton.language", "make_tensor_descriptor")


@functools.cache
def has_triton_tma_device():
    """Returns whether Triton's kernels may make descriptors."""
    return has_triton_stable_tma_api() or (
        _gpu_has_tma() and _has_name("triton.language.extra.cuda", "experimental_device_tensormap_create2d"))
