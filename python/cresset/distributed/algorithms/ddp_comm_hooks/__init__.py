"""Communication hooks of DistributedDataParallel, by name."""
from enum import Enum
from functools import partial

from . import debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(Enum):
    """Hooks by name."""

    ALLREDUCE = partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = partial(default_hooks.bf16_compress_hook)
    POWER_SGD = partial(powerSGD_hook.powerSGD_hook)
    POST_LOCAL_SGD = partial(post_localSGD_hook.post_localSGD_hook)
    NOOP = partial(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Registers a hook of this module with a DistributedDataParallel module."""
    model.register_comm_hook(state, comm_hook_type.value)
