"""Whether JAX and Pallas, its language for kernels, are there.  This library does not use them."""
import functools
import importlib.util

import cresset


@functools.cache
def has_jax_package():
    """Returns whether the package jax is installed."""
    return importlib.util.find_spec("jax") is not None


@functools.cache
def has_pallas_package():
    """Returns whether jax has Pallas."""
    return has_jax_package() and importlib.util.find_spec("jax.experimental.pallas") is not None


@functools.cache
def get_jax_version(fallback=(0, 0, 0)):
    """Returns the three numbers of jax's version."""
    if not has_jax_package():
        return fallback
    from importlib import metadata
    try:
        return tuple(int(n) for n in metadata.version("jax").split(".")[:3])
    except (metadata.PackageNotFoundError, ValueError):
        return fallback


def _has_devices(kind):
    if not has_pallas_package():
        return False
    try:
        import jax
        return bool(jax.devices(kind))
    except (ImportError, RuntimeError):
        return False


@functools.cache
def has_jax_cuda_backend():
    """Returns whether jax has an NVIDIA GPU."""
    return _has_devices("gpu")


@functools.cache
def has_jax_tpu_backend():
    """Returns whether jax has a TPU."""
    return _has_devices("tpu")


def has_cpu_pallas():
    """Returns whether Pallas is there, which interprets kernels on the host."""
    return has_pallas_package()


def has_cuda_pallas():
    """Returns whether Pallas compiles for a GPU that this library uses, too."""
    return cresset.cuda.is_available() and has_jax_cuda_backend()


def has_pallas():
    """Returns whether Pallas works on the host or a GPU."""
    return has_cpu_pallas() or has_cuda_pallas()
