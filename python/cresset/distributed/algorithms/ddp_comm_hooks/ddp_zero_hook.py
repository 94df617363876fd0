"""Communication hooks that also step a ZeroRedundancyOptimizer, so that its work overlaps backward.

Updates begin in the second backward after DistributedDataParallel has made its buckets anew.
"""
import weakref

import cresset

from ....nn.parallel import DistributedDataParallel
from ...optim import ZeroRedundancyOptimizer


def _with_steps(hook, ddp, zero, shard_buckets, when):
    if not isinstance(ddp, DistributedDataParallel) or not isinstance(zero, ZeroRedundancyOptimizer):
        raise TypeError("a DistributedDataParallel and a ZeroRedundancyOptimizer are needed, not "
                        f"{type(ddp).__name__} and {type(zero).__name__}")
    if not zero._overlap_with_ddp:
        raise ValueError("ZeroRedundancyOptimizer must be constructed with `overlap_with_ddp=True` to use this hook properly")
    if len(zero.param_groups) > 1:
        raise ValueError("ZeroRedundancyOptimizer with `overlap_with_ddp=True` has one group of parameters, not "
                         f"{len(zero.param_groups)}")
    zero._overlap.divide_buckets = shard_buckets
    ddp_ref, waiting, works = weakref.ref(ddp), [], []

    def step(bucket, future):
        result = future.wait()
        result = result[0] if isinstance(result, (list, tuple)) else result
        buffer = bucket.buffer()
        with cresset.no_grad():
            if result is not buffer:
                buffer.copy_(result.reshape(buffer.shape))
        works.extend(zero._step_bucket(bucket))

    def hook_with_steps(state, bucket):
        future = hook(state, bucket)
        if not zero._see_bucket(bucket, ddp_ref().reducer.rebuilt):
            return future
        waiting.append((bucket, future))
        if when == "each" or bucket.is_last():
            for part in waiting:
                step(*part)
            waiting.clear()
        if bucket.is_last():
            for work in works:
                work.wait()
            works.clear()
        return future
    return hook_with_steps


def hook_with_zero_step(hook, ddp, zero, shard_buckets=False):
    """Returns a hook that averages as `hook` does; at the last bucket, each rank updates its parameters bucket by bucket,
    while later buckets are still reduced.  A bucket belongs to one rank; with shard_buckets its parameters are divided."""
    return _with_steps(hook, ddp, zero, shard_buckets, "last")


def hook_with_zero_step_interleaved(hook, ddp, zero, shard_buckets=False):
    """The same, but each bucket is updated as soon as it has been reduced, before backward goes on."""
    return _with_steps(hook, ddp, zero, shard_buckets, "each")
