"""save and async_save: all ranks of a group write a dict of tensors and objects."""
import inspect
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .. import distributed_c10d as dist
from ._async_process import writer_for
from ._storage_utils import _by_position, _storage_setup
from .default_planner import DefaultSavePlanner
from .logger import _dcp_method_logger
from .planner import SavePlan  # noqa: F401
from .staging import AsyncStager, BlockingAsyncStager
from .stateful import Stateful
from .utils import _DistWrapper

__all__ = ["save_state_dict", "save", "async_save", "AsyncCheckpointerType", "AsyncSaveResponse"]


class AsyncCheckpointerType(Enum):
    """What writes: a thread of this process, or another process."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of the copy and of the save."""

    staging_completion: Any
    upload_completion: Any


def _use_dist(no_dist, verb, wrappers=2):
    """Whether the ranks save together; the warning names the line that called the function inside of `wrappers` others."""
    if no_dist or not dist.is_initialized():
        if not no_dist:
            warnings.warn("torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to "
                          f"{verb} in a single process.", stacklevel=3 + wrappers)
        return False
    return True


def _states_of(state_dict):
    """Returns the dict with the states of its objects."""
    return {key: obj.state_dict() if isinstance(obj, Stateful) else obj for key, obj in state_dict.items()}


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """A former name of save."""
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


@_dcp_method_logger(log_exceptions=True)
@_by_position("storage_writer")
def save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None, no_dist=False,
         use_collectives=True):
    """Writes a dict; every rank writes its parts.  Returns the index at the coordinator."""
    use_dist = _use_dist(no_dist, "save")
    writer = _storage_setup(storage_writer, checkpoint_id)
    return _save_state_dict(_states_of(state_dict), writer, process_group, 0, not use_dist, planner, use_collectives)


_async_groups = {}


def _own_group(process_group):
    """Returns a group for the saves of a thread, whose calls must not mix with the program's.  All ranks make it together."""
    of = dist._group_or_default_group(process_group)
    made = _async_groups.get(of)
    if made is None or made not in dist._world.pg_map:
        ranks = dist.get_process_group_ranks(of)
        made = _async_groups[of] = dist.new_group(ranks, backend=dist.get_backend(of), use_local_synchronization=True)
    return made


def _save_in_thread(staged, writer, group, planner, use_dist, use_collectives):
    executor = ThreadPoolExecutor(1)

    def write():
        copy = staged.result() if isinstance(staged, Future) else staged
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _save_state_dict(copy, writer, group, 0, not use_dist, planner, use_collectives)
    future = executor.submit(write)
    executor.shutdown(wait=False)
    return future


@_dcp_method_logger(log_exceptions=True)
def async_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
               async_checkpointer_type=AsyncCheckpointerType.THREAD, async_stager=None, no_dist=False, use_collectives=True):
    """Copies a dict and writes the copy while the program goes on.  Returns a future; or AsyncSaveResponse, when the stager
    copies later, too."""
    use_dist = _use_dist(no_dist, "save", 1)
    writer = _storage_setup(storage_writer, checkpoint_id)
    stager = async_stager or (writer if isinstance(writer, AsyncStager) else BlockingAsyncStager())
    staged = stager.stage(_states_of(state_dict))
    if async_checkpointer_type == AsyncCheckpointerType.PROCESS:
        of = dist._group_or_default_group(process_group) if use_dist else None
        future = writer_for(of).submit(staged, writer, planner, use_collectives)
    else:
        future = _save_in_thread(staged, writer, _own_group(process_group) if use_dist else None, planner, use_dist, use_collectives)
    if isinstance(staged, Future):
        done = Future()
        staged.add_done_callback(lambda f: done.set_exception(f.exception()) if f.exception() else done.set_result(None))
        return AsyncSaveResponse(done, future)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return future


def _save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None,
                     use_collectives=True):
    ranks = _DistWrapper(process_group, not no_dist, coordinator_rank)
    planner = planner or DefaultSavePlanner()
    index = None

    def local_step():
        meta = storage_writer.storage_meta()
        if "storage_meta" in inspect.signature(planner.set_up_planner).parameters:
            planner.set_up_planner(state_dict=state_dict, storage_meta=meta, is_coordinator=ranks.is_coordinator)
        else:
            warnings.warn("The function definition for SavePlanner.set_up_planner has been updated to include the storage_meta "
                          "argument. Please update your implementation to include this parameter.", stacklevel=3)
            planner.set_up_planner(state_dict, ranks.is_coordinator)
        facts = {} if not ranks.use_dist else {"rank": ranks.rank, "use_collectives": use_collectives}
        if any(p.kind == p.VAR_KEYWORD for p in inspect.signature(storage_writer.set_up_storage_writer).parameters.values()):
            storage_writer.set_up_storage_writer(ranks.is_coordinator, **facts)
        else:
            storage_writer.set_up_storage_writer(ranks.is_coordinator)
        return storage_writer.prepare_local_plan(planner.create_local_plan())

    def global_step(plans):
        nonlocal index
        plans, index = planner.create_global_plan(plans)
        return storage_writer.prepare_global_plan(plans)

    def write(plan):
        written = storage_writer.write_data(planner.finish_plan(plan), planner)
        written.wait()
        return written.value()

    def finish(results):
        storage_writer.finish(metadata=index, results=results)
        return index
    if not use_collectives:
        plan = global_step([local_step()])[0]
        return finish([write(plan)])
    plan = ranks.reduce_scatter("plan", local_step, global_step)
    return ranks.all_reduce("write", lambda: write(plan), finish)
