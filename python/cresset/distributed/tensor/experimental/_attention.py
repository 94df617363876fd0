"""Context parallelism: each rank has a part of the sequence, and attention sees all parts.

In context_parallel() scaled_dot_product_attention, and layers that call it such as nn.MultiheadAttention, compute the attention of this
rank's queries to the keys of one rank after the other, and join the results by the logarithms of their sums.  Under a causal mask the
last queries see most keys, so that the sequence is divided into twice as many chunks as ranks, and rank r has chunks r and
2 * ranks - 1 - r: every rank then has the same work, and two of the four pairs of chunks of two ranks are hidden.
"""
from contextlib import contextmanager
from enum import Enum, auto

import cresset

from .... import nn
from ....autograd import Function
from ....nn._attention import over_ranks
from ....overrides import TorchFunctionMode
from ... import distributed_c10d as dist

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class _RotateMethod(Enum):
    ALL_TO_ALL = auto()
    ALL_GATHER = auto()


class _ContextParallelOptions:
    """Options of the process."""

    enable_load_balance = True
    rotate_method = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method):
    """How ranks get the keys of others: "allgather" at once, "alltoall" one rank's after the other, in less memory."""
    methods = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in methods:
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = methods[rotate_method]


# --- sending -----------------------------------------------------------------------------------------------------

def _passed(x, group):
    """Starts to send a tensor to the next rank.  Returns the one of the rank before, and a work."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    sent, got = [0] * ranks, [0] * ranks
    sent[(rank + 1) % ranks] = got[(rank - 1) % ranks] = x.numel()
    made = cresset.empty_like(x)
    return made, dist.all_to_all_single(made.view(-1), x.view(-1), got, sent, group, async_op=True)


def _rotated(x, group, method):
    """Yields the rank's tensor, that of the rank before, and so on; sends while the caller computes."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    if ranks == 1:
        yield x
    elif method is _RotateMethod.ALL_GATHER:
        every = x.new_empty((ranks, *x.shape))
        work = dist.all_gather_into_tensor(every.view(ranks * x.shape[0], *x.shape[1:]), x, group, async_op=True)
        yield x
        work.wait()
        for step in range(1, ranks):
            yield every[(rank - step) % ranks]
    else:
        for step in range(ranks):
            following = _passed(x, group) if step + 1 < ranks else None
            yield x
            if following is not None:
                following[1].wait()
                x = following[0]


class _Returned:
    """Adds gradients of the keys of all ranks, and gives each rank its own."""

    def __init__(self, group, method):
        self.group, self.method = group, method
        self.ranks, self.rank, self.parts = dist.get_world_size(group), dist.get_rank(group), []

    def add(self, grad):
        """Takes the gradient of the keys that _rotated gave at this step."""
        if self.method is _RotateMethod.ALL_GATHER or not self.parts:
            self.parts.append(grad)
        else:
            made, work = _passed(self.parts[0], self.group)
            work.wait()
            self.parts = [made + grad]

    def own(self):
        """Returns the sum for this rank's keys."""
        if self.ranks == 1:
            return self.parts[0]
        if self.method is _RotateMethod.ALL_TO_ALL:
            made, work = _passed(self.parts[0], self.group)
            work.wait()
            return made
        every = cresset.stack([self.parts[(self.rank - r) % self.ranks] for r in range(self.ranks)])
        made = cresset.empty_like(every[0])
        dist.reduce_scatter_tensor(made, every.view(self.ranks * made.shape[0], *made.shape[1:]), dist.ReduceOp.SUM, self.group)
        return made


# --- attention ---------------------------------------------------------------------------------------------------

def _block(rank, source, causal, balanced):
    """Returns which queries see which keys of a rank: starts as fractions of the parts, ends of keys, and whether each query sees the
    keys up to its own place; None if no query sees a key."""
    if not causal or source == rank:
        return 0.0, 1.0, causal
    if source < rank:
        return 0.0, 0.5 if balanced else 1.0, False
    return (0.5, 1.0, False) if balanced else None


def _scores(q, k, causal, scale):
    scores = (q @ k.transpose(-2, -1)) * scale
    if causal:
        hidden = cresset.ones(scores.shape[-2:], dtype=cresset.bool, device=q.device).tril().logical_not()
        scores = scores.masked_fill(hidden, -float("inf"))
    return scores


def _block_backward(grad, q, k, v, delta, lse, causal, scale):
    """Returns the gradients of a block: the probabilities follow from the logarithms of the sums over all keys."""
    wide = cresset.float64 if q.dtype == cresset.float64 else cresset.float32
    grad, q, k, v = (x.to(wide) for x in (grad, q, k, v))
    repeat = q.shape[1] // k.shape[1]
    heads = (lambda x: x) if repeat == 1 else (lambda x: x.repeat_interleave(repeat, 1))
    p = (_scores(q, heads(k), causal, scale) - lse.to(wide).unsqueeze(-1)).exp()
    s = p * (grad @ heads(v).transpose(-2, -1) - delta.to(wide).unsqueeze(-1)) * scale
    back = (lambda x: x) if repeat == 1 else (lambda x: x.unflatten(1, (-1, repeat)).sum(2))
    return s @ heads(k), back(s.transpose(-2, -1) @ q), back(p.transpose(-2, -1) @ grad)


class _RingAttention(Function):
    """The attention of this rank's queries to the keys of all ranks."""

    @staticmethod
    def forward(ctx, q, k, v, group, causal, scale, balanced):
        method, rank, ranks = _cp_options.rotate_method, dist.get_rank(group), dist.get_world_size(group)
        length, out, lse = q.shape[2], None, None
        for step, kv in enumerate(_rotated(cresset.stack([k, v]), group, method)):
            found = _block(rank, (rank - step) % ranks, causal, balanced)
            if found is None:
                continue
            first, last, masked = int(length * found[0]), int(kv.shape[3] * found[1]), found[2]
            part, sums = cresset.ops.aten._attention(q[:, :, first:].contiguous(), kv[0][:, :, :last].contiguous(),
                                                     kv[1][:, :, :last].contiguous(), None, masked, scale)
            if out is None:
                out, lse = part.to(cresset.promote_types(part.dtype, cresset.float32)), sums
                continue
            old = lse[:, :, first:]
            both = cresset.logaddexp(old, sums)
            mixed = out[:, :, first:] * (old - both).exp().unsqueeze(-1) + part * (sums - both).exp().unsqueeze(-1)
            out, lse = cresset.cat([out[:, :, :first], mixed], 2), cresset.cat([lse[:, :, :first], both], 2)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = group, causal, scale, balanced, method
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        group, causal, scale, balanced, method = ctx.how
        rank, ranks, length = dist.get_rank(group), dist.get_world_size(group), q.shape[2]
        wide = cresset.promote_types(q.dtype, cresset.float32)
        delta, returned = (grad.to(wide) * out.to(wide)).sum(-1), _Returned(group, method)
        own = cresset.zeros(q.shape, dtype=wide, device=q.device)
        for step, kv in enumerate(_rotated(cresset.stack([k, v]), group, method)):
            found, made = _block(rank, (rank - step) % ranks, causal, balanced), cresset.zeros(kv.shape, dtype=wide, device=q.device)
            if found is not None:
                first, last, masked = int(length * found[0]), int(kv.shape[3] * found[1]), found[2]
                a, b, c = _block_backward(grad[:, :, first:], q[:, :, first:], kv[0][:, :, :last], kv[1][:, :, :last],
                                          delta[:, :, first:], lse[:, :, first:], masked, scale)
                own[:, :, first:] += a
                made[0, :, :, :last], made[1, :, :, :last] = b, c
            returned.add(made)
        keys = returned.own()
        return own.to(q.dtype), keys[0].to(k.dtype), keys[1].to(v.dtype), None, None, None, None


def _attention_of(group):
    """Returns scaled_dot_product_attention over the ranks of a group."""
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if attn_mask is not None:
            raise NotImplementedError("attn_bias is not supported yet")
        if dropout_p:
            raise NotImplementedError("dropout of attention in context_parallel")
        if is_causal and query.shape[-2] != key.shape[-2]:
            raise NotImplementedError("is_causal requires the same query and context sequence lengths")
        if not is_causal and _cp_options.enable_load_balance:
            raise RuntimeError("Load balancing requires `is_causal=True`.")
        if query.dim() != 4 or (query.shape[1] != key.shape[1] and not enable_gqa):
            raise ValueError(f"expected queries and keys of 4 dims and as many heads, but got {query.shape} and {key.shape}")
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        return _RingAttention.apply(query, key, value, group, is_causal, scale, _cp_options.enable_load_balance)
    return scaled_dot_product_attention


class _Switched(TorchFunctionMode):
    """Gives attention over ranks to programs that imported the function before."""

    def __init__(self, plain, attention):
        super().__init__()
        self.kinds, self.attention = (plain, cresset.ops.aten.scaled_dot_product_attention), attention

    def __torch_function__(self, func, types, args=(), kwargs=None):
        packet = getattr(func, "overloadpacket", func)
        return (self.attention if any(packet is kind for kind in self.kinds) else func)(*args, **(kwargs or {}))


@contextmanager
def _switched(group):
    """Inside, scaled_dot_product_attention and the layers that call it see the keys of all ranks."""
    plain, attention = nn.functional.scaled_dot_product_attention, _attention_of(group)
    nn.functional.scaled_dot_product_attention = attention
    over_ranks.append(attention)
    try:
        with _Switched(plain, attention):
            yield
    finally:
        over_ranks.pop()
        nn.functional.scaled_dot_product_attention = plain


# --- parts of the sequence ---------------------------------------------------------------------------------------

def _balanced(length, ranks):
    """Whether the sequence can be divided so that ranks have the same work."""
    return _cp_options.enable_load_balance and length % (2 * ranks) == 0


def _chunks(ranks, balanced):
    """Returns the numbers of the chunks of each rank."""
    return [(r, 2 * ranks - 1 - r) for r in range(ranks)] if balanced else [(r,) for r in range(ranks)]


def _part(x, dim, rank, ranks, balanced):
    chunks = x.chunk(ranks * (1 + balanced), dim)
    return cresset.cat([chunks[c] for c in _chunks(ranks, balanced)[rank]], dim)


@contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """Inside, buffers have this rank's parts along their dims of the sequence, and attention sees all ranks' keys."""
    buffers, dims, lost = buffers or [], buffer_seq_dims or [], no_restore_buffers or set()
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if any(all(b is not x for x in buffers) for b in lost):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    ranks, rank, group = mesh.size(), mesh.get_local_rank(), mesh.get_group()
    length = buffers[0].shape[dims[0]] if buffers else 0
    for x, d in zip(buffers, dims):
        if x.shape[d] % ranks:
            raise ValueError(f"a sequence of {x.shape[d]} elements cannot be divided by {ranks} ranks")
    balanced, enabled = _balanced(length, ranks), _cp_options.enable_load_balance
    with cresset.no_grad():
        old = [None if any(x is b for b in lost) else x.clone() for x in buffers]
        for x, d in zip(buffers, dims):
            part = _part(x, d, rank, ranks, balanced).clone()
            x.resize_(part.shape).copy_(part)
    _cp_options.enable_load_balance = balanced
    try:
        with _switched(group):
            yield
    finally:
        _cp_options.enable_load_balance = enabled
        with cresset.no_grad():
            for x, whole in zip(buffers, old):
                if whole is not None:
                    x.resize_(whole.shape).copy_(whole)


def context_parallel_unshard(mesh, buffers, seq_dims):
    """Returns whole tensors, such as outputs, of the parts of all ranks, in the order of the sequence."""
    ranks, made = mesh.size(), []
    balanced = bool(buffers) and _balanced(buffers[0].shape[seq_dims[0]] * ranks, ranks)
    order = [c for own in _chunks(ranks, balanced) for c in own]
    with cresset.no_grad():
        for x, d in zip(buffers, seq_dims):
            x = x.detach().contiguous()
            every = x.new_empty((ranks, *x.shape))
            dist.all_gather_into_tensor(every.view(ranks * x.shape[0], *x.shape[1:]), x, mesh.get_group())
            chunks = [c for part in every.unbind(0) for c in part.chunk(1 + balanced, d)]
            made.append(cresset.cat([chunks[order.index(c)] for c in range(len(order))], d))
    return made
