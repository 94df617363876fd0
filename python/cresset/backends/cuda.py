"""CUDA.  The switches store the values that programs set."""
from contextlib import contextmanager

from .. import _C, _settings


def is_built():
    """Whether there is a CUDA device, because nothing of CUDA is linked."""
    return _C._cuda_count() > 0


def enable_host_fallback(enabled):
    """Whether the host computes operators that have no kernel for CUDA: their arguments are copied to the host and their
    results back.  Without it, which is the default, such a call raises NotImplementedError.  `CR_HOST_FALLBACK=1` in the
    environment has the same effect, and `CR_LOG=backend` names the operators.  cresset only."""
    _C._backend_fallback(bool(enabled))


class cuBLASModule:
    """The switches of products: backends.cuda.matmul."""

    @property
    def allow_tf32(self):
        """Whether products of float32 may round their operands to TF32."""
        return _settings.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, on):
        _settings.set_float32_matmul_precision("high" if on else "highest")

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = cuBLASModule()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "overrideable": True}


def flash_sdp_enabled():
    return _attention["flash"]


def enable_flash_sdp(enabled):
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled():
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled):
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled():
    return _attention["math"]


def enable_math_sdp(enabled):
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled():
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled):
    _attention["cudnn"] = bool(enabled)


def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Sets the switches of attention inside."""
    from warnings import warn
    warn("`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
         "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.", FutureWarning, stacklevel=2)
    return _sdp_kernel(enable_flash, enable_math, enable_mem_efficient, enable_cudnn)


@contextmanager
def _sdp_kernel(enable_flash, enable_math, enable_mem_efficient, enable_cudnn):
    before = dict(_attention)
    _attention.update(flash=bool(enable_flash), math=bool(enable_math), cudnn=bool(enable_cudnn),
                      mem_efficient=bool(enable_mem_efficient))
    try:
        yield
    finally:
        _attention.update(before)


# --- kernels of attention: one kernel computes it, so none of these is chosen ---

class SDPAParams:
    """The arguments of a call of attention."""

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa=False):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def _no_kernel(params, debug, name):
    if debug:
        import warnings
        warnings.warn(f"{name} is not part of this build.", stacklevel=3)
    return False


def can_use_flash_attention(params, debug=False):
    """Whether FlashAttention would compute the call."""
    return _no_kernel(params, debug, "FlashAttention")


def can_use_efficient_attention(params, debug=False):
    """Whether the memory-efficient kernel would compute the call."""
    return _no_kernel(params, debug, "The memory-efficient kernel")


def can_use_cudnn_attention(params, debug=False):
    """Whether cuDNN would compute the call."""
    return _no_kernel(params, debug, "cuDNN's attention")


def is_flash_attention_available():
    """Whether FlashAttention is in the build."""
    return False


def is_ck_sdpa_available():
    """Whether the kernels of composable_kernel are in the build."""
    return False


def fp16_bf16_reduction_math_sdp_allowed():
    """The value that allow_fp16_bf16_reduction_math_sdp stored."""
    return _C._get_math_sdp_allow_fp16_bf16_reduction()


def allow_fp16_bf16_reduction_math_sdp(enabled):
    """Stores whether attention of halves may add in halves.  It adds in float32."""
    _C._set_math_sdp_allow_fp16_bf16_reduction(enabled)


# --- libraries ---

class _Library:
    """A library that a function of this module names."""

    def __init__(self, kind, name):
        self.kind, self.name = kind, name

    def __repr__(self):
        return f"<_{self.kind}.{self.name}>"


_chosen = {"LinalgBackend": "Default", "BlasBackend": "Cublaslt", "ROCmFABackend": "Default"}
_known = {"LinalgBackend": {"default": "Default", "cusolver": "Cusolver", "magma": "Magma"},
          "BlasBackend": {"default": "Default", "cublas": "Cublas", "cublaslt": "Cublaslt", "hipblaslt": "Cublaslt", "ck": "Ck"},
          "ROCmFABackend": {"default": "Default", "aotriton": "AOTriton", "ck": "Ck"}}


def _prefer(kind, backend):
    if backend is not None:
        name = backend.name.lower() if isinstance(backend, _Library) else backend
        if name not in _known[kind]:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(_known[kind])}.")
        _chosen[kind] = _known[kind][name]
    return _Library(kind, _chosen[kind])


def preferred_linalg_library(backend=None):
    """Stores and returns the library preferred for factorizations, which run on the host."""
    return _prefer("LinalgBackend", backend)


def preferred_blas_library(backend=None):
    """Stores and returns the library preferred for products, which cuBLASLt computes."""
    return _prefer("BlasBackend", backend)


def preferred_rocm_fa_library(backend=None):
    """Stores and returns the library preferred for attention on ROCm."""
    return _prefer("ROCmFABackend", backend)


class cuFFTPlanCacheAttrContextProp:
    """An attribute of a cache, read and set by functions of the cache's device."""

    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, cache, cls):
        return self if cache is None else self.getter(cache.device_index)

    def __set__(self, cache, value):
        if self.setter is None:
            raise RuntimeError(".size is a read-only property showing the number of plans currently in the cache. To "
                               "change the cache capacity, set cufft_plan_cache.max_size.")
        self.setter(cache.device_index, value)


def _set_most_plans(index, most):
    if most < 0:
        raise RuntimeError(f"cufft_plan_cache: max_size must not be negative, but got {most}")
    _C._cuda_fft_plans(index, most)


class cuFFTPlanCache:
    """The plans of transforms that are kept for a device; those that were used last remain."""

    def __init__(self, device_index):
        self.device_index = device_index

    size = cuFFTPlanCacheAttrContextProp(lambda index: _C._cuda_fft_plans(index, -1)[0], None)
    max_size = cuFFTPlanCacheAttrContextProp(lambda index: _C._cuda_fft_plans(index, -1)[1], _set_most_plans)

    def clear(self):
        """Drops the plans."""
        most = self.max_size
        self.max_size = 0
        self.max_size = most


class cuFFTPlanCacheManager:
    """The caches of all devices: `cufft_plan_cache[1]`; its attributes are those of the current device."""

    def __init__(self):
        self.__dict__["caches"] = {}

    def __getitem__(self, device):
        index = device if isinstance(device, int) else _C.device(device).index
        if not 0 <= index < max(_C._cuda_count(), 1):
            raise RuntimeError(f"cufft_plan_cache: expected 0 <= device index < {_C._cuda_count()}, but got device with index {index}")
        return self.caches.setdefault(index, cuFFTPlanCache(index))

    def __getattr__(self, name):
        return getattr(self[0], name)

    def __setattr__(self, name, value):
        setattr(self[0], name, value)


cufft_plan_cache = cuFFTPlanCacheManager()


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
