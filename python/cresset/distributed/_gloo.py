"""Groups whose engine is Gloo: what they refuse, in torch's words, and calls of several tensors of a rank."""
from datetime import timedelta

import cresset

from .. import _C
from ._groups import AllgatherOptions, KIND, ProcessGroup, ReduceOp, _copy_back, _write
from ._stores import Store, milliseconds
from .constants import default_pg_timeout

_PAIRS = {"SUM": cresset.add, "PRODUCT": cresset.mul, "MIN": cresset.minimum, "MAX": cresset.maximum,
          "BAND": cresset.bitwise_and, "BOR": cresset.bitwise_or, "BXOR": cresset.bitwise_xor}


def _list(tensors):
    return [tensors] if isinstance(tensors, cresset.Tensor) else tensors


def _refuse(call, reason):
    raise RuntimeError(f"ProcessGroupGloo::{call}: {reason}")


def _alike(call, tensors, first):
    """Refuses tensors that differ from the first one."""
    for i, t in enumerate(tensors):
        if t.layout != first.layout:
            _refuse(call, f"invalid tensor layout at index {i} (expected {first.layout}, got {t.layout})")
        if t.dtype != first.dtype:
            _refuse(call, f"invalid tensor type at index {i} (expected {first.dtype}, got {t.dtype})")
        if t.shape != first.shape:
            _refuse(call, f"invalid tensor size at index {i} (expected {tuple(first.shape)}, got {tuple(t.shape)})")


class ProcessGroupGloo(ProcessGroup):
    """A group whose engine is Gloo: ProcessGroupGloo(store, rank, size, options or timeout)."""

    class _Device:
        """A network device, by its name, by a host's name, or the one that the environment names."""

        def __init__(self, interface):
            self.interface = interface

    class _Options:
        """Options of a gloo group.  The engine has one device, the first of `_devices`, and starts threads itself."""

        def __init__(self, timeout=default_pg_timeout):
            self._timeout, self._devices, self._threads = timeout, [], 2
            self.global_ranks_in_group, self.group_name = [], ""

    Options = _Options

    def __init__(self, *args):
        super().__init__(*[a for a in args if isinstance(a, int)])
        if args and isinstance(args[0], Store):
            self._open(*args)

    def _open(self, store, rank, size, options=None):
        if not isinstance(options, self._Options):
            options = self._Options(default_pg_timeout if options is None else options)
        device = options._devices[0].interface if options._devices else ""
        self._store = store
        self._handle = _C._comm_group("gloo", options.group_name, rank, size, tuple(options.global_ranks_in_group) or None,
                                      store._handle, milliseconds(options._timeout), device)
        self._handles, self._by_device = {"gloo": self._handle}, {"cpu": self._handle}

    @property
    def options(self):
        """The group's options."""
        made = self._Options(timedelta(milliseconds=self._need().timeout_ms))
        made.group_name = self.group_name
        return made

    @staticmethod
    def create_device(hostname="", interface="", lazy_init=None):
        """Returns a device for options."""
        if not hostname and not interface:
            raise ValueError("Specify either `interface` or `hostname` argument.")
        return ProcessGroupGloo._Device(interface or hostname)

    @staticmethod
    def create_default_device(lazy_init=None):
        """Returns the device that a group without options has."""
        return ProcessGroupGloo._Device("")

    # --- refusals ---
    def _root(self, call, opts):
        rank = opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)
        if not 0 <= rank < self._size:
            _refuse(call, f"invalid root rank: {rank}")
        return rank

    @staticmethod
    def _root_tensor(call, opts, tensors):
        """Returns the number of the tensor that is sent or gets the result."""
        number = getattr(opts, "rootTensor", 0)
        if not 0 <= number < len(tensors):
            _refuse(call, f"invalid root tensor: {number}")
        _alike(call, tensors, tensors[0])
        return number

    def _one_list(self, call, what, single, lists, tensors, is_root):
        """Refuses lists of a gather or scatter: the root has one, of a tensor for each rank, others have none."""
        if len(tensors) != 1:
            _refuse(call, f"requires a single-element {single} tensor list")
        if not is_root:
            if lists and lists[0]:
                _refuse(call, f"requires empty {what} on non-root")
            return
        if len(lists) != 1:
            _refuse(call, f"requires a single-element {what} list")
        if len(lists[0]) != self._size:
            _refuse(call, f"Incorrect {what} list size {len(lists[0])}. {what.capitalize()} list size should be {self._size}, "
                          "same as size of the process group.")
        _alike(call, lists[0][self._rank:self._rank + 1], tensors[0])  # other ranks may have tensors of other sizes

    # --- calls ---
    def broadcast(self, tensors, opts=None, root=None):
        """Copies a tensor of the root to all tensors of all ranks."""
        tensors, opts = _list(tensors), opts if root is None else root
        rank, number = self._root("broadcast", opts), self._root_tensor("broadcast", opts, tensors)
        if len(tensors) == 1:
            return super().broadcast(tensors, opts)
        return self._of_one("BROADCAST", 0, rank, tensors, number, opts)

    def _of_one(self, kind, op, root, tensors, number, opts):
        """Makes the call with one tensor, whose result all get."""
        copies = []
        sent = _write(tensors[number], copies)
        rest = [(t, sent) for i, t in enumerate(tensors) if i != number]
        return self._start([(KIND[kind], op, root, 0, 1.0, [], [sent])], opts, tensors, lambda: _copy_back(copies + rest))

    def allreduce(self, tensors, opts=None):
        """Reduces all tensors of all ranks to one value, which all get."""
        tensors = _list(tensors)
        if not tensors:
            _refuse("allreduce", "requires non-empty tensor list")
        if len(tensors) == 1:
            return super().allreduce(tensors, opts)
        _alike("allreduce", tensors, tensors[0])
        op = opts if isinstance(opts, ReduceOp) else getattr(opts, "reduceOp", ReduceOp.SUM)
        pair = _PAIRS.get(op.op.name) or _refuse("allreduce", f"unsupported reduction operation {op.op.name}")
        with cresset.no_grad():
            for t in tensors[1:]:
                tensors[0].copy_(pair(tensors[0], t))
        if tensors[0].is_sparse:
            return self._sparse_of_one(tensors, op)
        return self._of_one("ALL_REDUCE", self._op(op)[0], -1, tensors, 0, opts)

    def _sparse_of_one(self, tensors, op):
        work = self._allreduce_sparse(tensors[:1], op)
        _copy_back([(t, tensors[0]) for t in tensors[1:]])
        work._results = tensors
        return work

    def allreduce_coalesced(self, tensors, opts=None):
        """Reduces several tensors over all ranks as one work."""
        if not tensors:
            _refuse("allreduce_coalesced", "requires non-empty tensor list")
        for i, t in enumerate(tensors):
            if t.layout != tensors[0].layout:
                _refuse("allreduce_coalesced", f"invalid tensor layout at index {i}")
        if any(t.dtype != tensors[0].dtype for t in tensors):
            _refuse("allreduce_coalesced", "tensors must all have the same type")
        if tensors[0].is_sparse:
            _refuse("allreduce_coalesced", "unsupported layout")
        work = super().allreduce_coalesced(list({id(t): t for t in tensors}.values()), opts)
        work._results = tensors  # a tensor that is there twice is reduced once
        return work

    def reduce(self, tensors, opts=None, root=None):
        """Reduces a tensor over all ranks at the root."""
        tensors, opts = _list(tensors), opts if root is None else root
        self._root("reduce", opts)
        self._root_tensor("reduce", opts, tensors)
        if len(tensors) != 1:
            _refuse("reduce", "requires a single-element tensor list")
        return super().reduce(tensors, opts)

    def allgather(self, output_lists, inputs, opts=None):
        """Collects the tensors of all ranks.  With several of a rank, each list gets all tensors of all ranks."""
        if isinstance(inputs, cresset.Tensor):
            output_lists, inputs = [output_lists], [inputs]
        self._check_allgather(output_lists, inputs)
        if len(inputs) == 1:
            return super().allgather(output_lists, inputs, opts)
        return self._allgather_many(output_lists, inputs, opts)

    def _check_allgather(self, output_lists, inputs):
        if not inputs:
            _refuse("allgather", "requires non-empty input tensor list")
        if len(output_lists) != len(inputs):
            _refuse("allgather", "requires input/output tensor lists to have the same length")
        wanted = len(inputs) * self._size
        for i, outputs in enumerate(output_lists):
            if len(outputs) != wanted:
                _refuse("allgather", f"invalid output tensor list at index {i} (expected length {wanted}, got {len(outputs)})")
        if len(inputs) == 1:  # other ranks may have tensors of other sizes
            for i, t in enumerate(output_lists[0]):
                if t.dtype != inputs[0].dtype:
                    _refuse("allgather", f"invalid tensor type at index {i} (expected {inputs[0].dtype}, got {t.dtype})")
            output_lists = [output_lists[0][self._rank:self._rank + 1]]
        for tensors in (inputs, *output_lists):
            _alike("allgather", tensors, inputs[0])

    def _allgather_many(self, output_lists, inputs, opts):
        sent = cresset.stack([t.detach() for t in inputs])
        got = [cresset.empty_like(sent) for _ in range(self._size)]

        def spread():
            every = [part for whole in got for part in whole.unbind()]
            _copy_back([pair for outputs in output_lists for pair in zip(outputs, every)])
        call = self._moving("ALL_GATHER", -1, [sent], got)
        return self._start([call], opts or AllgatherOptions(), output_lists, spread)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        """Collects several tensors of each rank; output_lists[rank] has that rank's tensors."""
        if not inputs:
            _refuse("allgather_coalesced", "requires non-empty input tensor list")
        if len(output_lists) != self._size:
            _refuse("allgather_coalesced", "output lists should be equal to world size")
        for outputs in output_lists:
            if len(outputs) != len(inputs):
                _refuse("allgather_coalesced", "invalid output size: (expected length "
                                               f"{len(inputs)}, got {len(outputs)})")
            for i, (made, given) in enumerate(zip(outputs, inputs)):
                if made.shape != given.shape:
                    _refuse("allgather_coalesced", f"invalid size of output tensor at index {i} (expected length "
                                                   f"{tuple(given.shape)}, got {tuple(made.shape)})")
                if made.dtype != given.dtype:
                    _refuse("allgather_coalesced", f"invalid tensor type at index {i} (expected {given.dtype}, "
                                                   f"got {made.dtype})")
        return ProcessGroup.allgather(self, [list(column) for column in zip(*output_lists)], inputs, opts)

    def gather(self, output_lists, inputs, opts=None, root=None):
        """Collects each rank's tensor at the root."""
        if isinstance(inputs, cresset.Tensor):
            output_lists, inputs = [output_lists], [inputs]
        opts = opts if root is None else root
        self._one_list("gather", "output", "input", output_lists, inputs, self._root("gather", opts) == self._rank)
        return super().gather(output_lists, inputs, opts)

    def scatter(self, outputs, input_lists, opts=None, root=None):
        """Gives each rank one of the root's tensors."""
        if isinstance(outputs, cresset.Tensor):
            outputs, input_lists = [outputs], [input_lists]
        opts = opts if root is None else root
        self._one_list("scatter", "input", "output", input_lists, outputs, self._root("scatter", opts) == self._rank)
        return super().scatter(outputs, input_lists, opts)

    def alltoall_base(self, output, tensor, output_sizes=None, input_sizes=None, opts=None):
        """Gives each rank a part of one tensor, and gets the parts of another one."""
        if not tensor.is_contiguous():
            raise ValueError("Tensors must be contiguous")
        return super().alltoall_base(output, tensor, output_sizes, input_sizes, opts)
