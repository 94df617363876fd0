"""torch._C._distributed_c10d: the names of torch.distributed's compiled part, and those that only it has."""
import enum
from datetime import timedelta

from cresset import _C
from cresset.distributed._fr_trace import _dump_fr_trace, _dump_fr_trace_json  # noqa: F401
from cresset.distributed._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env  # noqa: F401
from cresset.distributed._gloo import ProcessGroupGloo  # noqa: F401
from cresset.distributed._groups import (_Done, AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions,  # noqa: F401
                                         AllToAllOptions, BarrierOptions, BroadcastOptions, GatherOptions,
                                         premul_sum as _make_nccl_premul_sum, ProcessGroup, ReduceOp, ReduceOptions,
                                         ReduceScatterOptions, ScatterOptions, Work)
from cresset.distributed._reducer import (_broadcast_coalesced, _compute_bucket_assignment_by_size,  # noqa: F401
                                          _DEFAULT_FIRST_BUCKET_BYTES, _verify_params_across_processes, BuiltinCommHookType,
                                          GradBucket, Logger, Reducer)
from cresset.distributed._store_collectives import _ControlCollectives, _StoreCollectives  # noqa: F401
from cresset.distributed._wrapper import _ProcessGroupWrapper  # noqa: F401
from cresset.distributed._stores import FileStore, HashStore, milliseconds, PrefixStore, Store, TCPStore  # noqa: F401
from cresset.distributed.constants import default_pg_timeout as _DEFAULT_PG_TIMEOUT
from cresset.distributed.distributed_c10d import (_register_process_group, _resolve_process_group,  # noqa: F401
                                                  _set_thread_isolation_mode, _unregister_all_process_groups,
                                                  _unregister_process_group)
from cresset.distributed._functional_collectives import _get_work_registry_size, _register_work  # noqa: F401

Backend = ProcessGroup  # a backend and a group are one class here
_DEFAULT_NO_TIMEOUT = timedelta(0)
ErrorType = enum.IntEnum("ErrorType", ["SUCCESS", "TIMEOUT", "COMM_ERROR", "REMOTE_ERROR"], start=0, module=__name__)
WorkResult = enum.IntEnum("WorkResult", {"SUCCESS": 0, "TIMEOUT": 1, "COMM_ERROR": 2, "UNKNOWN": 100}, module=__name__)
OpType = enum.IntEnum("OpType", {**{name: i for i, name in enumerate((
    "BROADCAST", "ALLREDUCE", "ALLREDUCE_COALESCED", "REDUCE", "ALLGATHER", "_ALLGATHER_BASE", "ALLGATHER_COALESCED", "GATHER",
    "SCATTER", "REDUCE_SCATTER", "ALLTOALL_BASE", "ALLTOALL", "SEND", "RECV", "RECVANYSOURCE", "BARRIER", "_REDUCE_SCATTER_BASE",
    "COALESCED", "_ALLREDUCE_SPARSE", "REDUCE_SCATTER_TENSOR_COALESCED"))}, "UNKNOWN": 100}, module=__name__)


class _FutureWork(Work):
    """A work that ends when a future completes."""

    def __init__(self, future):
        super().__init__()
        self._future = future

    def wait(self, timeout=timedelta(0)):
        self._future.wait()
        return True

    def is_completed(self):
        return self._future.done()

    def exception(self):
        try:
            if self._future.done():
                self._future.value()
        except Exception as error:
            return error
        return None

    def result(self):
        value = self._future.value()
        return value if isinstance(value, list) else [value]

    def get_future(self):
        return self._future


def _create_work_from_future(future):
    """Returns a work that ends when a future completes."""
    return _FutureWork(future)


class PythonCallbackWork(Work):
    """A work whose wait is a function of the limit, which returns whether the call has ended well."""

    def __init__(self, callback):
        super().__init__()
        self._callback, self._done = callback, False

    def wait(self, timeout=timedelta(0)):
        ended = bool(self._callback(timeout))
        self._done = self._done or ended
        return ended

    def is_completed(self):
        return self._done


class FakeWork(_Done):
    """A work of a fake group: it has ended."""


class FakeProcessGroup(ProcessGroup):
    """One rank of a group of any size, of which the others do not exist: calls return at once."""

    class Options:
        """Options of a fake group; error_on_collective makes its calls fail."""

        def __init__(self):
            self.fake_option, self.error_on_collective = 0, False

    def __init__(self, rank, size, options=None):
        super().__init__(rank, size)
        self.options = options or self.Options()
        self._handle = _C._comm_group("fake", "fake", rank, size, None, None, milliseconds(_DEFAULT_PG_TIMEOUT), "")
        self._handles, self._by_device = {"fake": self._handle}, {"cpu": self._handle}

    @classmethod
    def _create_internal(cls, rank, world_size, options=None):
        return cls(rank, world_size, options)

    def _start(self, calls, options=None, results=(), after=None, title=""):
        if getattr(self.options, "error_on_collective", False):
            raise RuntimeError("FakeProcessGroup collective operation error (error_on_collective=True)")
        return super()._start(calls, options, results, after, title)
