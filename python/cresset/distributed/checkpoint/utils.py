"""Steps of saves and loads: what each rank does, what the coordinator makes of it, and one error for all."""
from .. import distributed_c10d as dist
from .api import CheckpointException, _is_wrapped_exception, _wrap_exception
from .planner_helpers import find_state_dict_object  # noqa: F401


def _tried(fn, *args):
    """Returns fn's result, or its exception."""
    try:
        return fn(*args)
    except BaseException as error:
        return _wrap_exception(error)


class _DistWrapper:
    """The ranks of a save or load; without use_dist this process alone."""

    def __init__(self, group, use_dist, coordinator_rank):
        self.group, self.use_dist = group, use_dist
        self.coordinator_rank = coordinator_rank if use_dist else 0
        self.rank = dist.get_rank(group) if use_dist else 0
        self.global_coordinator_rank = dist.get_global_rank(dist._group_or_default_group(group), coordinator_rank) \
            if use_dist and group is not None else coordinator_rank
        self.is_coordinator = self.rank == self.coordinator_rank

    def get_rank(self):
        """Returns this rank's number in the group."""
        return self.rank

    def get_world_size(self):
        """Returns the number of ranks."""
        return dist.get_world_size(self.group) if self.use_dist else 1

    # --- objects ---
    def gather_object(self, obj):
        """Returns all ranks' objects at the coordinator, None elsewhere."""
        if not self.use_dist:
            return [obj]
        all_of = [None] * self.get_world_size() if self.is_coordinator else None
        dist.gather_object(obj, all_of, group=self.group, group_dst=self.coordinator_rank)
        return all_of

    def all_gather_object(self, obj):
        """Returns all ranks' objects."""
        if not self.use_dist:
            return [obj]
        all_of = [None] * self.get_world_size()
        dist.all_gather_object(all_of, obj, self.group)
        return all_of

    def broadcast_object(self, obj):
        """Returns the coordinator's object."""
        box = [obj]
        if self.use_dist:
            dist.broadcast_object_list(box, group=self.group, group_src=self.coordinator_rank)
        return box[0]

    def scatter_object(self, objects):
        """Returns this rank's object of the coordinator's list."""
        if not self.use_dist:
            return objects[0]
        box = [None]
        dist.scatter_object_list(box, objects if self.is_coordinator else None, group=self.group,
                                 group_src=self.coordinator_rank)
        return box[0]

    # --- steps ---
    def _failures(self, results):
        return {rank: r for rank, r in enumerate(results) if _is_wrapped_exception(r)}

    def _decide(self, step, results, fn):
        """Returns the coordinator's result of all ranks' results, or a CheckpointException."""
        failures = self._failures(results)
        if failures:
            return CheckpointException(step, failures)
        made = _tried(fn, results)
        return CheckpointException(step, {self.rank: made}) if _is_wrapped_exception(made) else made

    def reduce_scatter(self, step, map_fun, reduce_fun):
        """Runs map_fun at all ranks and reduce_fun of their results at the coordinator; each rank gets one item of that."""
        local = self.gather_object(_tried(map_fun))
        made = None
        if self.is_coordinator:
            made = self._decide(step, local, reduce_fun)
            if isinstance(made, CheckpointException):
                made = [made] * self.get_world_size()
        return _raised(self.scatter_object(made))

    def all_reduce(self, step, map_fun, reduce_fun):
        """The same, but all ranks get the coordinator's result."""
        local = self.gather_object(_tried(map_fun))
        return _raised(self.broadcast_object(self._decide(step, local, reduce_fun) if self.is_coordinator else None))

    def all_gather(self, step, map_fun):
        """Runs map_fun at all ranks; returns all results."""
        results = self.all_gather_object(_tried(map_fun))
        failures = self._failures(results)
        if failures:
            raise CheckpointException(step, failures)
        return results

    def broadcast(self, step, map_fun):
        """Runs map_fun at the coordinator; returns its result."""
        made = _tried(map_fun) if self.is_coordinator else None
        if _is_wrapped_exception(made):
            made = CheckpointException(step, {self.rank: made})
        return _raised(self.broadcast_object(made))

    def barrier(self):
        """Waits for all ranks."""
        if self.use_dist:
            dist.barrier(self.group)


def _raised(result):
    if isinstance(result, CheckpointException):
        raise result
    return result
