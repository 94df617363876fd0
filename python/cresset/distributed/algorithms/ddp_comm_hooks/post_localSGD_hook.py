"""Post-local SGD: gradients are averaged over all ranks at first, later only inside of a subgroup."""
from . import default_hooks

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The state of the hook: groups (None: of all ranks), and the iteration at which local averages begin."""

    __slots__ = ["process_group", "subgroup", "start_localSGD_iter", "post_local_gradient_allreduce", "iter"]

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket):
        """Counts an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state, bucket):
    """Averages over all ranks, later over the subgroup, or not at all."""
    everywhere = state.iter < state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if everywhere:
        return default_hooks._average(state.process_group, bucket.buffer())
    if not state.post_local_gradient_allreduce:
        from ....futures import Future
        done = Future()
        done.set_result(bucket.buffer())
        return done
    return default_hooks._average(state.subgroup, bucket.buffer())
