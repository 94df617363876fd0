"""Types of sparse tensors on CUDA devices, which this build lacks."""
from .._absent import legacy_types

globals().update(legacy_types("torch.cuda.sparse", "CUDA"))
