"""Hooks that average, also in 16 bits."""
import cresset

from ... import distributed_c10d as dist

__all__ = ["allreduce_hook", "fp16_compress_hook", "bf16_compress_hook", "fp16_compress_wrapper", "bf16_compress_wrapper"]


def _group(process_group):
    return dist._get_default_group() if process_group is None else process_group


def _average(process_group, tensor):
    """Returns a future of the ranks' average of a tensor, which it changes."""
    group = _group(process_group)
    tensor.div_(group.size())
    return dist.all_reduce(tensor, group=group, async_op=True).get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group, bucket):
    """Averages."""
    return _average(process_group, bucket.buffer())


def _compressed(dtype, process_group, bucket):
    buffer = bucket.buffer()
    future = _average(process_group, buffer.to(dtype))
    return future.then(lambda f: buffer.copy_(f.value()))


def fp16_compress_hook(process_group, bucket):
    """Averages in float16."""
    return _compressed(cresset.float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket):
    """Averages in bfloat16."""
    return _compressed(cresset.bfloat16, process_group, bucket)


def _wrapper(dtype, hook):
    def wrapped(state, bucket):
        bucket.set_buffer(bucket.buffer().to(dtype))
        full = bucket._reducer.buffer(bucket.index())
        return hook(state, bucket).then(lambda f: full.copy_(f.value()[0] if isinstance(f.value(), list) else f.value()))
    return wrapped


def fp16_compress_wrapper(hook):
    """Makes a hook work on float16."""
    return _wrapper(cresset.float16, hook)


def bf16_compress_wrapper(hook):
    """Makes a hook work on bfloat16."""
    return _wrapper(cresset.bfloat16, hook)
