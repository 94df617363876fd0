"""Groups that compare the calls of all ranks before each call, and stay usable after calls that differ."""
import hashlib

import cresset

from ._gloo import ProcessGroupGloo
from ._groups import ProcessGroup
from ._monitored import monitored_barrier
from ._stores import PrefixStore

PG_WRAPPER_STORE_PREFIX = "pg_wrapper"
_TYPE_NAMES = {cresset.float32: "Float", cresset.float64: "Double", cresset.float16: "Half", cresset.bfloat16: "BFloat16",
               cresset.int64: "Long", cresset.int32: "Int", cresset.int16: "Short", cresset.int8: "Char", cresset.uint8: "Byte",
               cresset.bool: "Bool", cresset.complex64: "ComplexFloat", cresset.complex128: "ComplexDouble"}
_CPP_NAMES = {cresset.float32: "float", cresset.float64: "double", cresset.float16: "c10::Half", cresset.bfloat16: "c10::BFloat16",
              cresset.int64: "long int", cresset.int32: "int", cresset.int16: "short int", cresset.int8: "signed char",
              cresset.uint8: "unsigned char", cresset.bool: "bool", cresset.complex64: "c10::complex<float>",
              cresset.complex128: "c10::complex<double>"}


def _flat(tensors):
    """Returns the tensors of an argument: one, a list, or lists of them."""
    if isinstance(tensors, cresset.Tensor):
        return [tensors]
    return [t for part in tensors or () for t in _flat(part)]


class _CollectiveFingerPrint:
    """What the calls of all ranks must have in common."""

    def __init__(self, op, tensors, sequence):
        self.op, self.sequence = op, sequence
        self.shapes = [list(t.shape) for t in tensors]
        self.dtypes = [_TYPE_NAMES.get(t.dtype, str(t.dtype)) for t in tensors]
        self.options = [self._options(t) for t in tensors]

    @staticmethod
    def _options(tensor):
        dtype = _CPP_NAMES.get(tensor.dtype, str(tensor.dtype))
        default = " (default)" if tensor.dtype == cresset.float32 else ""
        return (f"TensorOptions(dtype={dtype}{default}, device={tensor.device}, layout=Strided (default), requires_grad=false "
                "(default), pinned_memory=false (default), memory_format=(nullopt))")

    def parts(self):
        """Returns the compared parts: their names in messages, and texts."""
        return {"Op type": self.op, "Tensor Tensor shapes": " ".join(map(str, self.shapes)),
                "Tensor Tensor dtypes": " ".join(self.dtypes), "Tensor Tensor devices": " ".join(self.options)}

    def __str__(self):
        if not self.shapes:
            return f"CollectiveFingerPrint(SequenceNumber={self.sequence}, OpType={self.op})"
        return (f"CollectiveFingerPrint(SequenceNumber={self.sequence}, OpType={self.op}, "
                f"TensorShape={', '.join(map(str, self.shapes))}, TensorDtypes={', '.join(self.dtypes)}, "
                f"TensorDeviceTypes={', '.join(self.options)})")

    def lines(self):
        """Returns a text from which another rank reads the parts."""
        return "\n".join([*self.parts().values(), str(self)])


class _ProcessGroupWrapper(ProcessGroup):
    """A group around another one.  Before each call all ranks meet in a helper group, within its time limit, and compare the
    call's kind, sizes, dtypes and devices: a rank that does not come, and calls that differ, are errors before data travels."""

    def __init__(self, backend, helper):
        self._wrapped, self._helper, self._calls = backend, helper, 0
        super().__init__(backend.rank(), backend.size())
        self.__dict__.update(vars(backend))

    wrapped_pg = property(lambda self: self._wrapped)
    _coalesced = property(lambda self: self._wrapped._coalesced, lambda self, calls: setattr(self._wrapped, "_coalesced", calls))

    def getBackendName(self):
        return self._wrapped.getBackendName()

    @property
    def options(self):
        """The options of the group inside."""
        return self._wrapped.options

    def _check(self, op, tensors):
        """Raises an error unless all ranks make the same call."""
        self._calls += 1
        own = _CollectiveFingerPrint(op, tensors, self._calls)
        try:
            monitored_barrier(self._helper, None, True)
        except RuntimeError as error:
            raise RuntimeError(f"ProcessGroupWrapper: Monitored Barrier encountered error running collective: {own}. Error: \n"
                               f"{error}") from None
        text = own.lines()
        digest = list(hashlib.sha256("\n".join(own.parts().values()).encode()).digest())
        found = [cresset.empty(len(digest), dtype=cresset.uint8) for _ in range(self.size())]
        self._helper.allgather([found], [cresset.tensor(digest, dtype=cresset.uint8)]).wait()
        digests = [part.tolist() for part in found]
        if all(other == digest for other in digests):
            return
        key, store = f"differs/{self._calls}", self._helper._store
        store.set(f"{key}/{self.rank()}", text)
        other = next(r for r, theirs in enumerate(digests) if theirs != digest)
        *parts, shown = store.get(f"{key}/{other}").decode().split("\n")
        aspects = "".join(f"\t {name}: {mine}vs {their}" for (name, mine), their in zip(own.parts().items(), parts) if mine != their)
        raise RuntimeError(f"Detected mismatch between collectives on ranks. Rank {self.rank()} is running collective: {own}, but "
                           f"Rank {other} is running collective: {shown}.Collectives differ in the following aspects: {aspects}")


def _compared(name, op, where):
    """Makes a method that compares the calls, then calls the group inside.  where: which arguments are compared."""
    def method(self, *args, **kwargs):
        self._check(op, [t for i in where if i < len(args) for t in _flat(args[i])])
        return getattr(self._wrapped, name)(*args, **kwargs)
    method.__name__ = name
    method.__doc__ = getattr(ProcessGroup, name).__doc__
    return method


# A call's name, its kind in messages, and the arguments whose sizes must be the same at all ranks.
for _name, _op, _where in (
        ("broadcast", "BROADCAST", (0,)), ("allreduce", "ALLREDUCE", (0,)), ("allreduce_coalesced", "ALLREDUCE_COALESCED", ()),
        ("reduce", "REDUCE", (0,)), ("allgather", "ALLGATHER", (1,)), ("allgather_coalesced", "ALLGATHER_COALESCED", ()),
        ("allgather_into_tensor_coalesced", "ALLGATHER_INTO_TENSOR_COALESCED", (1,)), ("_allgather_base", "_ALLGATHER_BASE", (1,)),
        ("all_gather_single", "_ALLGATHER_BASE", (1,)), ("allgather_into_tensor", "_ALLGATHER_BASE", (1,)),
        ("gather", "GATHER", (1,)), ("scatter", "SCATTER", (0,)), ("reduce_scatter", "REDUCE_SCATTER", (0,)),
        ("_reduce_scatter_base", "_REDUCE_SCATTER_BASE", (1, 0)), ("reduce_scatter_single", "_REDUCE_SCATTER_BASE", (1, 0)),
        ("reduce_scatter_tensor", "_REDUCE_SCATTER_BASE", (1, 0)),
        ("reduce_scatter_tensor_coalesced", "REDUCE_SCATTER_TENSOR_COALESCED", (0,)), ("alltoall", "ALLTOALL", ()),
        ("alltoall_base", "ALLTOALL_BASE", ()), ("all_to_all_single", "ALLTOALL_BASE", ()), ("barrier", "BARRIER", ())):
    setattr(_ProcessGroupWrapper, _name, _compared(_name, _op, _where))


def _create_process_group_wrapper(wrapped_pg, store_prefix, store, rank, world_size, timeout):
    """Returns a group that compares calls before those of wrapped_pg, with a helper group of its own."""
    store = PrefixStore(f"{PG_WRAPPER_STORE_PREFIX}:{store_prefix}", store)
    return _ProcessGroupWrapper(wrapped_pg, ProcessGroupGloo(store, rank, world_size, timeout))
