"""The former name of torch.distributed.tensor's functions."""
from ..tensor import distribute_tensor, DTensor  # noqa: F401
