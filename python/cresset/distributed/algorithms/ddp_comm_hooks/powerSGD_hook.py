"""PowerSGD: matrices of gradients travel as products of low rank, with the error fed back (Vogels et al., 2019)."""
import math
from collections import defaultdict

import cresset

from ... import distributed_c10d as dist
from . import default_hooks

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """The state of the hook: rank of the products, errors of the last step, second factors."""

    def __init__(self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1000, min_compression_rate=2,
                 use_error_feedback=True, warm_start=True, orthogonalization_epsilon=0, random_seed=0,
                 compression_stats_logging_frequency=10000, batch_tensors_with_same_shape=False):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError("Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because "
                             "PowerSGD can only be applied after the first two iterations in DDP.")
        self.process_group = process_group
        self.matrix_approximation_rank, self.start_powerSGD_iter = matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate, self.use_error_feedback, self.warm_start = min_compression_rate, use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = cresset.Generator()
        self.generator.manual_seed(random_seed)
        self.error_dict, self.p_memory_dict, self.q_memory_dict = {}, {}, {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket):
        """Counts an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self):
        """Returns (rate, elements before, elements after)."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0), before, after


def _should_compress(rows, columns, rank, rate):
    return (rows + columns) * rank * rate < rows * columns


def _orthogonalize(matrix, epsilon):
    """Makes the columns orthonormal, one after another."""
    for i in range(matrix.shape[1]):
        column = matrix[:, i:i + 1]
        column /= cresset.norm(column) + epsilon
        if i + 1 < matrix.shape[1]:
            rest = matrix[:, i + 1:]
            rest -= cresset.sum(column * rest, dim=0) * column


def _reduce_products(state, index, group, matrices, works=()):
    """Averages pairs of a matrix and its rank by products of low rank, in place; waits for other works with the first factors."""
    old = state.q_memory_dict.get(index) if state.warm_start else None
    qs = []
    for i, (m, rank) in enumerate(matrices):
        q = old[i] if old is not None else cresset.randn(m.shape[1], rank, generator=state.generator, dtype=m.dtype)
        _orthogonalize(q, state.orthogonalization_epsilon)
        qs.append(q)
    ps = [m @ q for (m, _), q in zip(matrices, qs)]
    for work in [*(dist.all_reduce(p, group=group, async_op=True) for p in ps), *works]:
        work.wait()
    for p in ps:
        _orthogonalize(p, state.orthogonalization_epsilon)
    new = [m.t() @ p for (m, _), p in zip(matrices, ps)]
    for work in [dist.all_reduce(q, group=group, async_op=True) for q in new]:
        work.wait()
    for (m, _), p, q in zip(matrices, ps, new):
        q.div_(group.size())
        m.copy_(p @ q.t())
    state.p_memory_dict[index], state.q_memory_dict[index] = ps, new


def _with_error(state, index, values):
    """Adds the error of the last step; returns a copy of the sum, for the next error."""
    if not state.use_error_feedback:
        return None
    if index in state.error_dict:
        values.add_(state.error_dict[index])
    return values.clone()


def _finished(state, bucket, before, values):
    """Keeps the error of this step; returns the bucket's future."""
    if before is not None:
        state.error_dict[bucket.index()] = before - values
    state.maybe_increase_iter(bucket)
    done = cresset.futures.Future()
    done.set_result(bucket.buffer())
    return done


def _first_iterations(state, bucket, group):
    state.maybe_increase_iter(bucket)
    return default_hooks._average(group, bucket.buffer())


def powerSGD_hook(state, bucket):
    """Averages by products of low rank; vectors, and the first iterations, exactly."""
    group = default_hooks._group(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        return _first_iterations(state, bucket, group)
    buffer, index = bucket.buffer(), bucket.index()
    before = _with_error(state, index, buffer)
    plain, by_shape = [], defaultdict(list)
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 and gradient.is_contiguous() else None
        rank = 0 if matrix is None else min(*matrix.shape, state.matrix_approximation_rank)
        state.total_numel_before_compression += gradient.numel()
        if matrix is not None and _should_compress(*matrix.shape, rank, state.min_compression_rate):
            by_shape[(matrix.shape, rank)].append(matrix)
            state.total_numel_after_compression += sum(matrix.shape) * rank
        else:
            plain.append(gradient)
            state.total_numel_after_compression += gradient.numel()
    works = [dist.all_reduce(g.div_(group.size()), group=group, async_op=True) for g in plain]
    _reduce_products(state, index, group, [(m, rank) for (_, rank), alike in by_shape.items() for m in alike], works)
    return _finished(state, bucket, before, buffer)


def batched_powerSGD_hook(state, bucket):
    """Averages a whole bucket, as one square matrix, by a product of low rank; the first iterations exactly."""
    group = default_hooks._group(state.process_group)
    if state.iter < state.start_powerSGD_iter:
        return _first_iterations(state, bucket, group)
    buffer = bucket.buffer()
    side = math.isqrt(buffer.numel() - 1) + 1
    whole = buffer.new_zeros(side * side)
    whole[:buffer.numel()] = buffer
    before = _with_error(state, bucket.index(), whole)
    rank = min(state.matrix_approximation_rank, side)
    state.total_numel_before_compression += buffer.numel()
    state.total_numel_after_compression += 2 * side * rank
    _reduce_products(state, bucket.index(), group, [(whole.view(side, side), rank)])
    buffer.copy_(whole[:buffer.numel()])
    return _finished(state, bucket, before, whole)
