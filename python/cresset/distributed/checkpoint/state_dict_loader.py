"""load: all ranks of a group fill a dict of tensors and objects from a checkpoint."""
from .. import distributed_c10d as dist
from ._storage_utils import _by_position, _storage_setup
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .logger import _dcp_method_logger
from .state_dict_saver import _states_of, _use_dist
from .stateful import Stateful
from .utils import _DistWrapper

__all__ = ["load_state_dict", "load"]


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """A former name of load."""
    storage_reader.reset()
    return _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _keys_of(state_dict, process_group, use_dist):
    """Returns the keys of all ranks, in one order."""
    if not use_dist:
        return list(state_dict)
    every = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(every, list(state_dict), process_group)
    return list(dict.fromkeys(key for keys in every for key in keys))


@_dcp_method_logger(log_exceptions=True)
@_by_position("storage_reader")
def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, no_dist=False):
    """Fills the tensors of a dict in place, and gives its objects their states."""
    use_dist = _use_dist(no_dist, "load")
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    keys = [key for key in _keys_of(state_dict, process_group, use_dist) if key in state_dict]
    states = _states_of({key: state_dict[key] for key in keys})
    _load_state_dict(states, reader, process_group, 0, not use_dist, planner)
    for key in keys:
        obj = state_dict[key]
        if isinstance(obj, Stateful):
            obj.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def _load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    ranks = _DistWrapper(process_group, not no_dist, coordinator_rank)
    planner = planner or DefaultLoadPlanner()

    def local_step():
        metadata = storage_reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        storage_reader.set_up_storage_reader(metadata, ranks.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def global_step(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    def read(plan):
        storage_reader.read_data(planner.finish_plan(plan), planner).wait()
    plan = ranks.reduce_scatter("plan", local_step, global_step)
    ranks.all_gather("read", lambda: read(plan))


def _load_state_dict_from_keys(keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None):
    """Returns a dict of whole tensors and objects: those of `keys`, or all."""
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    keys = {keys} if isinstance(keys, str) else keys
    state_dict = {}
    _load_state_dict(state_dict, reader, process_group, no_dist=not dist.is_initialized(),
                     planner=_EmptyStateDictLoadPlanner(keys))
    return state_dict
