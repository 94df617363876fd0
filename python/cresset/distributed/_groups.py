"""Groups of processes and their works, as torch's classes (src/comm/group.h)."""
import enum
import threading
from datetime import timedelta

import cresset

from .. import _C
from ..autograd.profiler import BETWEEN_RANKS
from ._stores import milliseconds

_MODULE = "torch.distributed.distributed_c10d"
KIND = {name: i for i, name in enumerate(_C._comm_calls)}
_UNSET = timedelta(milliseconds=-1)


class _ReduceOpMeta(type):
    """Members of RedOpType are instances of ReduceOp."""

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or isinstance(instance, cls.RedOpType)


class ReduceOp(metaclass=_ReduceOpMeta):
    """How the values of several ranks become one: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM."""

    __module__ = _MODULE
    RedOpType = enum.Enum("RedOpType", {name: i for i, name in enumerate(_C._comm_reduces)}, module=_MODULE,
                          qualname="ReduceOp.RedOpType")

    def __init__(self, op, factor=None):
        self.op = op.op if type(op) is ReduceOp else op
        self.factor = factor

    def __eq__(self, other):
        return self.op == (other.op if type(other) is ReduceOp else other)

    def __hash__(self):
        return hash(self.op)

    def __copy__(self):
        return ReduceOp(self.op, self.factor)

    def __deepcopy__(self, memo):
        return ReduceOp(self.op, self.factor)


for _member in ReduceOp.RedOpType:
    setattr(ReduceOp, _member.name, _member)
ReduceOp.RedOpType.__int__ = ReduceOp.RedOpType.__index__ = lambda self: self.value
ReduceOp.RedOpType.op = property(lambda self: self)


def premul_sum(factor):
    """Returns the operation that multiplies by a number before it adds."""
    return ReduceOp(ReduceOp.PREMUL_SUM, float(factor))


def _options(name, **fields):
    """Makes a class of a call's options with these fields and first values."""
    def __init__(self):
        for field, value in fields.items():
            setattr(self, field, value)
    made = type(name, (), {"__init__": __init__, "__module__": _MODULE, "__doc__": f"Options of a call: {', '.join(fields)}."})
    return made


_COMMON = {"timeout": _UNSET, "asyncOp": True}
AllreduceOptions = _options("AllreduceOptions", reduceOp=ReduceOp.SUM, **_COMMON)
AllreduceCoalescedOptions = _options("AllreduceCoalescedOptions", reduceOp=ReduceOp.SUM, **_COMMON)
BroadcastOptions = _options("BroadcastOptions", rootRank=0, rootTensor=0, **_COMMON)
ReduceOptions = _options("ReduceOptions", reduceOp=ReduceOp.SUM, rootRank=0, rootTensor=0, **_COMMON)
AllgatherOptions = _options("AllgatherOptions", **_COMMON)
GatherOptions = _options("GatherOptions", rootRank=0, **_COMMON)
ScatterOptions = _options("ScatterOptions", rootRank=0, **_COMMON)
ReduceScatterOptions = _options("ReduceScatterOptions", reduceOp=ReduceOp.SUM, **_COMMON)
AllToAllOptions = _options("AllToAllOptions", **_COMMON)
BarrierOptions = _options("BarrierOptions", device_ids=[], device=None, **_COMMON)


class Work:
    """A call that may not have ended yet.  Programs may derive works of backends."""

    __module__ = _MODULE

    def __init__(self):
        self._future = None

    def wait(self, timeout=timedelta(0)):
        """Waits for the end; raises the call's error."""
        raise NotImplementedError("wait")

    def is_completed(self):
        """Returns whether the call has ended."""
        return False

    def is_success(self):
        """Returns whether the call has ended without an error."""
        return self.is_completed() and self.exception() is None

    def exception(self):
        """Returns the error of an ended call, or None."""
        return None

    def result(self):
        """Returns the results of an ended call."""
        return []

    def synchronize(self):
        """Waits for the end."""
        self.wait()

    def block_current_stream(self):
        """Waits for the end: host memory has no streams."""
        self.wait()

    def source_rank(self):
        """Returns the rank that a receive got its data from."""
        raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.")

    _source_rank = source_rank

    def get_future(self):
        """Returns a future that completes with the results."""
        raise NotImplementedError("getFuture")

    def boxed(self):
        """Returns the work."""
        return self

    unbox = boxed


class _OwnWork(Work):
    """A work of the library.  `after` runs once, in the thread that first waits; it makes the results."""

    def __init__(self, handle, results, after=None):
        super().__init__()
        self._handle, self._results, self._after = handle, results, after
        self._error = None
        self._lock = threading.Lock()

    def _finish(self):
        with self._lock:
            after, self._after = self._after, None
        if after is not None:
            after()

    def wait(self, timeout=timedelta(0)):
        """Waits for the end; raises the call's error.  Without a timeout, the call's own limit counts."""
        ms = milliseconds(timeout)
        try:
            self._handle.wait(ms if ms > 0 else -1)
        except Exception as error:
            self._error = error
            raise
        self._finish()
        return True

    def is_completed(self):
        return self._handle.is_done()

    def exception(self):
        if self._error is None and self.is_completed():
            try:
                self._handle.wait(-1)
            except Exception as error:
                self._error = error
        return self._error

    def result(self):
        self._finish()
        return self._results

    def source_rank(self):
        return self._handle.source

    _source_rank = source_rank

    def get_future(self):
        from ..futures import Future
        if self._future is None:
            future = self._future = Future()

            def ended():
                error = self.exception()
                try:
                    if error is None:
                        self._finish()
                except Exception as failure:
                    error = self._error = failure
                if error is None:
                    future.set_result(self._results)
                else:
                    future.set_exception(error)
            self._handle.then(ended)
        return self._future


class _Done(Work):
    """A work that has ended."""

    def __init__(self, results=()):
        super().__init__()
        self._results = list(results)

    def wait(self, timeout=timedelta(0)):
        return True

    def is_completed(self):
        return True

    def result(self):
        return self._results

    def get_future(self):
        from ..futures import Future
        if self._future is None:
            self._future = Future()
            self._future.set_result(self._results)
        return self._future


class _Several(_Done):
    """Works that end together."""

    def __init__(self, works):
        super().__init__([r for work in works for r in work.result()] if all(w.is_completed() for w in works) else ())
        self._works = works

    def wait(self, timeout=timedelta(0)):
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def exception(self):
        return next((e for e in (work.exception() for work in self._works) if e is not None), None)


def _contiguous(tensors):
    """Returns the tensors, copied where they have gaps or another order of dims."""
    return [t.contiguous().resolve_conj().resolve_neg() for t in tensors]


def _copy_back(copies):
    for tensor, made in copies:  # maybe in the group's thread, where the program's modes do not hold
        with cresset.inference_mode() if tensor.is_inference() else cresset.no_grad():
            tensor.copy_(made)


def _parts(tensor, n, what):
    """Cuts a contiguous tensor into n equal flat parts."""
    flat = tensor.detach().view(-1)
    if flat.numel() % n:
        raise ValueError(f"{what} tensor size must be equal to world_size times {'input' if what == 'output' else 'output'} "
                         f"tensor size: {flat.numel()} elements for {n} ranks")
    return list(flat.split(flat.numel() // n)) if flat.numel() else [flat] * n


def _split(tensor, sizes, n, what):
    """Cuts the first dim by sizes, or into n equal parts."""
    if not sizes:
        if tensor.numel() and tensor.size(0) % n:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return _parts(tensor, n, what)
    if len(sizes) != n:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != tensor.size(0):
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [part.reshape(-1) for part in tensor.detach().split(list(sizes))]


def _same_length(outputs, inputs, text="requires input/output tensor lists to have the same length"):
    if len(outputs) != len(inputs):
        raise RuntimeError(text)


class ProcessGroup:
    """A group of ranks.  Programs may derive groups of other backends; a call is then a method of theirs."""

    __module__ = _MODULE

    class BackendType(enum.IntEnum):
        """Kinds of backends."""
        UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, CUSTOM = range(7)

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, CUSTOM = BackendType

    def __init__(self, *args):
        # (rank, size) as of backends, or (store, rank, size) as of groups
        numbers = [a for a in args if isinstance(a, int)]
        self._rank, self._size = (numbers + [0, 1])[:2]
        self._handle, self._handles, self._by_device = None, {}, {}
        self._group_name = self._group_desc = ""
        self.bound_device_id = None
        self._coalesced = None

    # --- facts ---
    def getRank(self):
        """Returns the rank of this process in the group; classes of programs may define it."""
        return self._rank

    def getSize(self):
        """Returns the number of ranks; classes of programs may define it."""
        return self._size

    def rank(self):
        """Returns the rank of this process in the group."""
        return self.getRank()

    def size(self):
        """Returns the number of ranks."""
        return self.getSize()

    # names, which classes of programs may keep elsewhere
    def setGroupName(self, name):
        self._group_name = name

    def getGroupName(self):
        return self._group_name

    def setGroupDesc(self, text):
        self._group_desc = text

    def getGroupDesc(self):
        return self._group_desc

    group_name = property(lambda self: self.getGroupName())
    group_desc = property(lambda self: self.getGroupDesc())

    def name(self):
        """Returns the backend's name; "custom" for fake groups."""
        name = self.getBackendName()
        return "custom" if name == "fake" else name

    def getBackendName(self):
        """Returns the backend's name; classes of programs define it."""
        return type(self).__name__ if self._handle is None else self._handle.engine

    def _title(self):
        return f"ProcessGroup{self.name().capitalize()}"

    def _get_backend_name(self):
        return self.getBackendName()

    def _get_sequence_number_for_group(self):
        return self._need().sequence

    def _set_sequence_number_for_group(self):
        pass

    def _set_group_name(self, name):
        self.setGroupName(name)

    def _set_group_desc(self, text):
        self.setGroupDesc(text)

    def _set_default_backend(self, backend):
        pass

    def _get_backend(self, device):
        return self

    def _register_backend(self, device, kind, backend=None):
        self._own_backend = backend

    def _device_types(self):
        return [cresset.device(kind) for kind in self._by_device] or [cresset.device("cpu")]

    def get_group_store(self):
        """Returns the group's store."""
        return self._store

    def set_timeout(self, timeout):
        """Sets the limit of the group's calls."""
        self._need()
        for handle in self._handles.values():
            handle.timeout_ms = milliseconds(timeout)

    _set_default_timeout = set_timeout

    def _need(self):
        if self._handle is None:
            raise NotImplementedError(f"Backend {type(self).__name__} does not implement this call")
        return self._handle

    # --- running ---
    def _profile(self, title, calls):
        """Begins an event of the calls in a profile; -1 without a profile."""
        if not _C._profile_enabled():
            return -1
        kind, root = calls[0][0], calls[0][2]
        title = title or {KIND["SEND"]: "send", KIND["RECEIVE"]: "recv" if root >= 0 else "recvAnySource"}.get(
            kind, _C._comm_calls[kind].lower())
        sizes = [[*t.shape, 2] if t.is_complex() else list(t.shape) for call in calls for t in (call[5] or call[6])]
        return _C._profile_enter(f"{self.name()}:{title}{BETWEEN_RANKS}{sizes}")

    def _start(self, calls, options=None, results=(), after=None, title=""):
        """Starts calls (kind, op, root, tag, factor, inputs, outputs) as one work, named `title` in profiles."""
        if self._coalesced is not None:
            self._coalesced.append((calls, results, after))
            return _Done(results)
        if _are_without_elements(calls):
            return _Done(results)
        timeout = getattr(options, "timeout", _UNSET)
        ms = milliseconds(timeout) if timeout is not None else -1
        now = not getattr(options, "asyncOp", True)
        event = self._profile(title, calls) if calls else -1
        try:
            return _OwnWork(self._handle_of(calls).start(tuple(calls), ms if ms > 0 else -1, now), list(results), after)
        finally:
            if event >= 0:
                _C._profile_leave(event)

    def _handle_of(self, calls):
        """Returns the handle of the backend that serves the tensors' device."""
        handle = self._need()
        if len(self._handles) > 1:
            tensor = next((t for call in calls for part in call[5:] for t in part), None)
            if tensor is not None:
                handle = self._by_device.get(tensor.device.type, handle)
        return handle

    def _start_coalescing(self, device=None):
        self._coalesced = []

    def _end_coalescing(self, device=None):
        parts, self._coalesced = self._coalesced, None
        whole = parts and self._handle_of([c for p in parts for c in p[0]]).device != "cpu"
        transfers = [] if whole else [p for p in parts if p[0][0][0] in (KIND["SEND"], KIND["RECEIVE"])]
        works = [self._start(*part[:1], None, *part[1:]) for part in transfers]
        rest = [p for p in parts if p not in transfers]
        if rest:
            def after():
                for part in rest:
                    if part[2] is not None:
                        part[2]()
            works.append(self._start([c for p in rest for c in p[0]], None, [r for p in rest for r in p[1]], after))
        return works[0] if len(works) == 1 else _Several(works)

    @staticmethod
    def _op(op):
        op = op if op is not None else ReduceOp.SUM
        return int(op.op), op.factor if type(op) is ReduceOp and op.factor is not None else 1.0

    def _reduction(self, kind, tensor_op, root, inputs, outputs):
        op, factor = self._op(tensor_op)
        return KIND[kind], op, root, 0, factor, inputs, outputs

    def _moving(self, kind, root, inputs, outputs):
        return KIND[kind], 0, root, 0, 1.0, inputs, outputs

    # --- calls ---
    def allreduce(self, tensors, opts=None):
        """Reduces tensors over all ranks, in place."""
        tensors = [tensors] if isinstance(tensors, cresset.Tensor) else tensors
        op = opts if isinstance(opts, ReduceOp) else getattr(opts, "reduceOp", ReduceOp.SUM)
        if any(t.is_sparse for t in tensors):
            return self._allreduce_sparse(tensors, op)
        copies = []
        calls = [self._reduction("ALL_REDUCE", op, -1, [], [_write(t, copies)]) for t in tensors]
        return self._start(calls, opts, tensors, lambda: _copy_back(copies))

    def _allreduce_sparse(self, tensors, op):
        if op != ReduceOp.SUM:
            raise RuntimeError("all_reduce of sparse tensors: unsupported reduction operation, only SUM is defined")
        for t in tensors:
            event = self._profile("", [(KIND["ALL_REDUCE"], 0, -1, 0, 1.0, [], [t])])
            _C._comm_sparse_sum(self._need(), t)
            _copy_back([(t, t.coalesce())])
            if event >= 0:
                _C._profile_leave(event)
        return _Done(tensors)

    def allreduce_coalesced(self, tensors, opts=None):
        """Reduces several tensors over all ranks as one work."""
        return ProcessGroup.allreduce(self, tensors, opts)

    def broadcast(self, tensors, opts=None, root=None):
        """Copies the root's tensors to all ranks."""
        tensors, opts = [tensors] if isinstance(tensors, cresset.Tensor) else tensors, opts if root is None else root
        root = opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)
        copies = []
        calls = [self._moving("BROADCAST", root, [], [_write(t, copies)]) for t in tensors]
        return self._start(calls, opts, tensors, lambda: _copy_back(copies))

    def reduce(self, tensors, opts=None):
        """Reduces tensors over all ranks at the root."""
        tensors = [tensors] if isinstance(tensors, cresset.Tensor) else tensors
        root = opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)
        copies = []
        calls = [self._reduction("REDUCE", getattr(opts, "reduceOp", ReduceOp.SUM), root, [], [_write(t, copies)])
                 for t in tensors]
        return self._start(calls, opts, tensors, lambda: _copy_back(copies))

    def allgather(self, output_lists, inputs, opts=None):
        """Collects each rank's tensor at all ranks."""
        if isinstance(inputs, cresset.Tensor):
            output_lists, inputs = [output_lists], [inputs]
        _same_length(output_lists, inputs, f"{self._title()}::allgather: requires input/output tensor lists to have the same length")
        copies = []
        calls = []
        for outputs, tensor in zip(output_lists, inputs):
            if len(outputs) != self._size:
                raise RuntimeError(f"{self._title()}::allgather: invalid output tensor list at index 0 (expected length "
                                   f"{self._size}, got {len(outputs)})")
            calls.append(self._moving("ALL_GATHER", -1, _contiguous([tensor]), [_write(t, copies) for t in outputs]))
        return self._start(calls, opts, output_lists[0] if output_lists else [], lambda: _copy_back(copies))

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        """Collects several tensors of each rank; output_lists[rank] has that rank's tensors."""
        head = f"{self._title()}::allgather_coalesced: "
        if len(output_lists) != self._size:
            raise RuntimeError(f"{head}output lists should be equal to world size")
        for outputs in output_lists:
            _same_length(outputs, inputs, f"{head}invalid output size: (expected length {len(inputs)}, got {len(outputs)})")
        return self.allgather([list(column) for column in zip(*output_lists)], inputs, opts)

    def _allgather_base(self, output, tensor, opts=None):
        if self._handle is None and type(self).allgather is not ProcessGroup.allgather:  # of a class of a program
            return self.allgather([[part.view(tensor.shape) for part in _parts(output, self.size(), "output")]], [tensor],
                                  opts or AllgatherOptions())
        copies = []
        whole = _write(output, copies)
        call = self._moving("ALL_GATHER", -1, _contiguous([tensor]), _parts(whole, self._size, "output"))
        return self._start([call], opts, [output], lambda: _copy_back(copies), "all_gather_into_tensor")

    all_gather_single = allgather_into_tensor = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        """Collects several tensors, each into one tensor."""
        _same_length(outputs, inputs, f"Check failed: outputs.size() == inputs.size() ({len(outputs)} vs. {len(inputs)}).")
        calls = [self._moving("ALL_GATHER", -1, _contiguous([i]), _parts(o, self._size, "output"))
                 for o, i in zip(outputs, inputs)]
        return self._start(calls, opts, outputs)

    def gather(self, output_lists, inputs, opts=None):
        """Collects each rank's tensor at the root."""
        if isinstance(inputs, cresset.Tensor):
            output_lists, inputs = [output_lists], [inputs]
        if len(inputs) != 1:
            raise RuntimeError(f"{self._title()}::gather: requires a single-element input tensor list")
        if len(output_lists) > 1:
            raise RuntimeError(f"{self._title()}::gather: requires a single-element output list containing a list with "
                               f"{self._size} tensors.")
        copies = []
        outputs = [_write(t, copies) for t in output_lists[0]] if output_lists else []
        call = self._moving("GATHER", opts if isinstance(opts, int) else getattr(opts, "rootRank", 0),
                            _contiguous(inputs), outputs)
        return self._start([call], opts, output_lists[0] if output_lists else [], lambda: _copy_back(copies))

    def scatter(self, outputs, input_lists, opts=None):
        """Gives each rank one of the root's tensors."""
        if isinstance(outputs, cresset.Tensor):
            outputs, input_lists = [outputs], [input_lists]
        if len(outputs) != 1:
            raise RuntimeError(f"{self._title()}::scatter: requires a single-element output tensor list")
        if len(input_lists) > 1:
            raise RuntimeError(f"{self._title()}::scatter: requires a single-element input list containing a list with "
                               f"{self._size} tensors.")
        copies = []
        call = self._moving("SCATTER", opts if isinstance(opts, int) else getattr(opts, "rootRank", 0),
                            _contiguous(input_lists[0]) if input_lists else [], [_write(t, copies) for t in outputs])
        return self._start([call], opts, outputs, lambda: _copy_back(copies))

    def reduce_scatter(self, outputs, input_lists, opts=None):
        """Reduces one tensor for each rank, and gives each rank its own."""
        if isinstance(outputs, cresset.Tensor):
            outputs, input_lists = [outputs], [input_lists]
        _same_length(outputs, input_lists)
        copies = []
        op = getattr(opts, "reduceOp", ReduceOp.SUM)
        calls = [self._reduction("REDUCE_SCATTER", op, -1, _contiguous(i), [_write(o, copies)])
                 for o, i in zip(outputs, input_lists)]
        return self._start(calls, opts, outputs, lambda: _copy_back(copies))

    def _reduce_scatter_base(self, output, tensor, opts=None):
        copies = []
        op = getattr(opts, "reduceOp", ReduceOp.SUM)
        whole = _contiguous([tensor])[0]
        call = self._reduction("REDUCE_SCATTER", op, -1, _parts(whole, self._size, "input"), [_write(output, copies)])
        return self._start([call], opts, [output], lambda: _copy_back(copies), "reduce_scatter_tensor")

    reduce_scatter_single = reduce_scatter_tensor = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        """Reduces and scatters several tensors."""
        _same_length(outputs, inputs)
        op = getattr(opts, "reduceOp", ReduceOp.SUM)
        calls = [self._reduction("REDUCE_SCATTER", op, -1, _parts(_contiguous([i])[0], self._size, "input"), [o])
                 for o, i in zip(outputs, inputs)]
        return self._start(calls, opts, outputs)

    def alltoall(self, outputs, inputs, opts=None):
        """Gives each rank one tensor and gets one from each."""
        copies = []
        call = self._moving("ALL_TO_ALL", -1, _contiguous(inputs), [_write(t, copies) for t in outputs])
        return self._start([call], opts, outputs, lambda: _copy_back(copies))

    def alltoall_base(self, output, tensor, output_sizes=None, input_sizes=None, opts=None):
        """Gives each rank a part of one tensor, and gets the parts of another one."""
        copies = []
        whole = _write(output, copies)
        call = self._moving("ALL_TO_ALL", -1, _split(_contiguous([tensor])[0], input_sizes, self._size, "input"),
                            _split(whole, output_sizes, self._size, "output"))
        return self._start([call], opts, [output], lambda: _copy_back(copies))

    def all_to_all_single(self, output, tensor, output_sizes=None, input_sizes=None, opts=None):
        """alltoall_base, also a program's own."""
        return self.alltoall_base(output, tensor, output_sizes, input_sizes, opts)

    def barrier(self, opts=None):
        """Waits for all ranks."""
        return self._start([self._moving("BARRIER", -1, [], [])], opts)

    def send(self, tensors, dst, tag=0):
        """Sends a tensor to a rank."""
        return self._start([(KIND["SEND"], 0, dst, tag, 1.0, _contiguous(tensors), [])], None, tensors)

    def recv(self, tensors, src, tag=0):
        """Receives a tensor from a rank."""
        copies = []
        outputs = [_write(t, copies) for t in tensors]
        return self._start([(KIND["RECEIVE"], 0, src, tag, 1.0, [], outputs)], None, tensors, lambda: _copy_back(copies))

    def recv_anysource(self, tensors, tag=0):
        """Receives a tensor from any rank."""
        return self.recv(tensors, -1, tag)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Waits for all ranks; rank 0 names those that do not come."""
        from ._monitored import monitored_barrier
        monitored_barrier(self, timeout, wait_all_ranks)

    # --- ending ---
    def abort(self):
        """Ends all calls of the group, which fail at every rank."""
        for handle in self._handles.values():
            handle.shut("the group was aborted")

    def shutdown(self):
        """Ends the group."""
        for handle in self._handles.values():
            handle.close()

    def _wait_for_pending_works(self):
        pass

    def boxed(self):
        """Returns the group."""
        return self

    unbox = boxed


def wraps_others(x):
    """Returns whether an object is a tensor of a class with __torch_dispatch__ that has no elements, but is no fake: vmap's."""
    if not isinstance(x, cresset.Tensor) or type(x).__torch_dispatch__ is cresset.Tensor.__torch_dispatch__ or not _C._is_fake(x):
        return False
    from .._subclasses.fake_tensor import FakeTensor
    return not isinstance(x, FakeTensor)


def _are_without_elements(calls):
    """Returns whether calls have fakes, or tensors on device meta, for which there is nothing to do."""
    fakes = [_C._is_fake(t) and not wraps_others(t) for call in calls for part in call[5:] for t in part]
    if any(fakes) and cresset.compiler.is_compiling():
        raise RuntimeError(f"{_C._comm_calls[calls[0][0]].lower()}: this form of the call has no operator, so a graph cannot have it")
    return any(fakes)


def _write(tensor, copies):
    """Returns a tensor for results: itself, or a contiguous copy that is copied back at the end."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    made = tensor.detach().clone(memory_format=cresset.contiguous_format).resolve_conj().resolve_neg()
    copies.append((tensor, made))
    return made
