"""CUDA.  The switches store the values that programs set."""
from contextlib import contextmanager

from .. import _C, _settings


def is_built():
    """Whether there is a CUDA device, because nothing of CUDA is linked."""
    return _C._cuda_count() > 0


class _Matmul:
    @property
    def allow_tf32(self):
        """Whether products of float32 may round their operands to TF32."""
        return _settings.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, on):
        _settings.set_float32_matmul_precision("high" if on else "highest")

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()
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


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Sets the switches of attention inside."""
    before = dict(_attention)
    _attention.update(flash=bool(enable_flash), math=bool(enable_math), cudnn=bool(enable_cudnn),
                      mem_efficient=bool(enable_mem_efficient))
    try:
        yield
    finally:
        _attention.update(before)
