"""The names of torch.distributed.fsdp."""
from ..fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard

__all__ = ["CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard"]


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
