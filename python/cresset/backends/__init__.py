"""Libraries that compute, and their switches."""
from . import cpu, cuda, cudnn, cusparselt, kleidiai, mha, miopen, mkl, mkldnn, mps, nnpack, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum"]

fp32_precision = "none"  # float32 products are computed in float32


def __getattr__(name):
    if name != "m":
        from .._absent_names import missing
        raise missing(__name__, name)
    import sys
    return sys.modules[__name__]  # torch's name of the module in itself
