"""torch.ops.c10d: the calls of groups as operators, which modes (__torch_dispatch__) see; operators of _c10d_functional that
write given tensors or send messages.

An operator calls the group's method, and a method of a group calls its operator where a mode is active.  Arguments and
results of the classes ProcessGroup, ReduceOp and Work are the objects themselves.
"""
import functools
import inspect
import operator
from datetime import timedelta

import cresset

from .. import _C
from .._library.parsed import parse_schema
from .._ops import defined_packets, OpOverload, OpOverloadPacket
from ..utils._python_dispatch import _pop_mode_temporarily
from ._groups import (_Done, AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions,
                      BroadcastOptions, GatherOptions, ProcessGroup, ReduceOp, ReduceOptions, ReduceScatterOptions, ScatterOptions, Work)
from ._stores import milliseconds
from ._functional_collectives import _name_of
from .distributed_c10d import _resolve_process_group, all_gather_into_tensor, reduce_scatter_tensor

_CLASS = "__torch__.torch.classes.c10d."
_CLASSES = {_CLASS + cls.__name__: cls for cls in (ProcessGroup, ReduceOp, Work)}
_PLAIN = {"Tensor": cresset.Tensor, "str": str, "int": int, "bool": bool, **_CLASSES}
_GROUP, _OP, _LIMIT = f"{_CLASS}ProcessGroup process_group", f"{_CLASS}ReduceOp reduce_op", "bool async_op=True, int timeout=-1"

# {operator: (arguments, results, method, options, their members after the group)}; the group follows the tensors.
_MADE = {
    "broadcast_": (f"Tensor[] tensors, {_GROUP}, int root_rank, int root_tensor, {_LIMIT}", "(Tensor[], W)", "broadcast",
                   BroadcastOptions, "rootRank rootTensor"),
    "allreduce_": (f"Tensor[] tensors, {_GROUP}, {_OP}, Tensor? sparse_indices, {_LIMIT}", "(Tensor[], W)", "allreduce", AllreduceOptions,
                   "reduceOp -"),
    "allreduce_coalesced_": (f"Tensor[] tensors, {_GROUP}, {_OP}, {_LIMIT}", "W", "allreduce_coalesced", AllreduceCoalescedOptions, "reduceOp"),
    "reduce_": (f"Tensor[] tensors, {_GROUP}, {_OP}, int root_rank, int root_tensor, {_LIMIT}", "W", "reduce", ReduceOptions,
                "reduceOp rootRank rootTensor"),
    "allgather_": (f"Tensor[][] output_tensors, Tensor[] input_tensors, {_GROUP}, {_LIMIT}", "(Tensor[][], W)", "allgather",
                   AllgatherOptions, ""),
    "_allgather_base_": (f"Tensor output_tensor, Tensor input_tensor, {_GROUP}, {_LIMIT}", "(Tensor, W)", "_allgather_base",
                         AllgatherOptions, ""),
    "allgather_coalesced_": (f"Tensor[][] output_lists, Tensor[] input_list, {_GROUP}, bool async_op=True", "W", "allgather_coalesced",
                             AllgatherOptions, ""),
    "allgather_into_tensor_coalesced_": (f"Tensor[] outputs, Tensor[] inputs, {_GROUP}, bool async_op=True", "W",
                                         "allgather_into_tensor_coalesced", AllgatherOptions, ""),
    "reduce_scatter_": (f"Tensor[] output_tensors, Tensor[][] input_tensors, {_GROUP}, {_OP}, {_LIMIT}", "(Tensor[], W)", "reduce_scatter",
                        ReduceScatterOptions, "reduceOp"),
    "_reduce_scatter_base_": (f"Tensor output_tensor, Tensor input_tensor, {_GROUP}, {_OP}, {_LIMIT}", "(Tensor, W)",
                              "_reduce_scatter_base", ReduceScatterOptions, "reduceOp"),
    "reduce_scatter_tensor_coalesced_": (f"Tensor[] outputs, Tensor[] inputs, {_GROUP}, {_OP}, {_LIMIT}", "W",
                                         "reduce_scatter_tensor_coalesced", ReduceScatterOptions, "reduceOp"),
    "gather_": (f"Tensor[][] output_tensors, Tensor[] input_tensors, {_GROUP}, int root_rank, {_LIMIT}", "W", "gather", GatherOptions,
                "rootRank"),
    "scatter_": (f"Tensor[] output_tensors, Tensor[][] input_tensors, {_GROUP}, int root_rank, {_LIMIT}", "(Tensor[], W)", "scatter",
                 ScatterOptions, "rootRank"),
    "alltoall_": (f"Tensor[] output_tensors, Tensor[] input_tensors, {_GROUP}, {_LIMIT}", "(Tensor[], W)", "alltoall", AllToAllOptions, ""),
    "alltoall_base_": (f"Tensor output, Tensor input, {_GROUP}, int[] output_split_sizes, int[] input_split_sizes, {_LIMIT}", "W",
                       "alltoall_base", AllToAllOptions, "+ +"),
    "barrier": (f"Tensor tensor, {_GROUP}, int[] device_ids, {_LIMIT}", "W", "barrier", BarrierOptions, "device_ids"),
    "send": (f"Tensor[] tensors, {_GROUP}, int dst, int tag", "W", "send", None, "+ +"),
    "recv_": (f"Tensor[] tensors, {_GROUP}, int src, int tag", "W", "recv", None, "+ +"),
    "recv_any_source_": (f"Tensor[] tensors, {_GROUP}, int tag", "W", "recv_anysource", None, "+"),
    "monitored_barrier_": (f"Tensor tensor, {_GROUP}, int[] device_ids, int timeout, bool wait_all_ranks", "()", None, None, ""),
    "check_for_nan": ("Tensor tensor", "()", None, None, ""),
}


class _Misfit(Exception):
    """A value that may not be an argument of a type."""


def _taken(kind, value):
    """Returns a value as an argument of a type: numbers may be truths, and truths numbers.  _Misfit for another value."""
    if kind == "Any" or (kind.startswith("Optional[") and value is None):
        return value
    if kind.startswith("Optional["):
        return _taken(kind[9:-1], value)
    if kind.startswith("List["):
        if not isinstance(value, (list, tuple)):
            raise _Misfit
        return [_taken(kind[5:-1], item) for item in value]
    if kind == "bool" and hasattr(type(value), "__bool__"):
        return bool(value)
    if kind == "int" and hasattr(type(value), "__index__"):
        return operator.index(value)
    if not isinstance(value, _PLAIN[kind]):
        raise _Misfit
    return value


class _Overload(OpOverload):
    """The one overload of an operator, a function of Python."""

    of_groups = True
    is_view = _nondeterministic_seeded = _draws = False
    words, tags = (), []

    def __init__(self, packet, schema, function):
        self.namespace, self.overloadpacket, self._overloadname, self._opname = packet._namespace, packet, "default", packet.__name__
        self.__name__ = self.__qualname__ = f"{packet.__name__}.default"
        self.__module__ = packet.__module__
        self._schema, self._function = schema, function

    def __call__(self, /, *args, **kwargs):
        given = self._checked(args, kwargs)
        if _C._len_torch_dispatch_stack():
            with _pop_mode_temporarily() as mode:
                return mode.__torch_dispatch__(self, (), args, kwargs)
        return self._function(*given)

    _op = __call__

    def _checked(self, args, kwargs):
        """Returns all arguments.  RuntimeError for others than the schema's."""
        self._schema.refuse(args, kwargs)
        given = []
        for i, argument in enumerate(self._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            try:
                given.append(_taken(argument.type, value))
            except _Misfit:
                kind = argument.type + (" (of Python compilation unit at: 0)" if argument.type in _CLASSES else "")
                raise RuntimeError(
                    f"{self._schema.name}() Expected a value of type '{kind}' for argument '{argument.name}' but instead found type "
                    f"'{type(value).__name__}'.\n" + (f"Position: {i}\n" if i < len(args) else "") +
                    f"Value: {value!r}\nDeclaration: {self._schema}\nCast error details: Unable to cast {value!r} to {argument.type}"
                ) from None
        return given


class _Packet(OpOverloadPacket):
    """An operator and its one overload."""

    def __init__(self, schema, function):
        self._qualified_op_name = schema.partition("(")[0]
        self._namespace, name = self._qualified_op_name.split("::")
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"torch._ops.{self._namespace}"
        self._made = {"default": {"name": "default"}}
        self.default = _Overload(self, parse_schema(schema), function)

    def __call__(self, /, *args, **kwargs):
        return self.default(*args, **kwargs)

    _op = __call__


def _function(name, schema, method, options, members):
    """The function of an operator: it calls the group's method, with options that have the arguments after the group as members."""
    names = [argument.name for argument in schema.arguments]
    at, members = names.index("process_group"), members.split()
    whole = [i for i, result in enumerate(schema.returns) if not result.type.startswith(_CLASS)]

    def function(*args):
        args = list(args)
        if name == "barrier" and _C._is_fake(args[0]):
            return _Done()
        group, tensors = args[at], args[:at] if name != "barrier" else []
        further = dict(zip(names[at + 1 + len(members):], args[at + 1 + len(members):]))
        plain = [value for member, value in zip(members, args[at + 1:]) if member == "+"]
        for member, argument, value in zip(members, names[at + 1:], args[at + 1:]):
            if member == "-" and value is not None:
                raise RuntimeError(f"c10d::{name}: groups take no {argument}")
        if options is not None:
            opts = options()
            for member, value in zip(members, args[at + 1:]):
                if member not in "+-":
                    setattr(opts, member, value)
            opts.asyncOp = further["async_op"]
            if further.get("timeout", -1) >= 0:
                opts.timeout = timedelta(milliseconds=further["timeout"])
            plain.append(opts)
        work = getattr(group, method)(*tensors, *plain)
        return (args[0], work) if whole else work
    return function


def _monitored_barrier(tensor, group, device_ids, timeout, wait_all_ranks):
    if not _C._is_fake(tensor):
        group.monitored_barrier(timedelta(milliseconds=timeout) if timeout >= 0 else None, wait_all_ranks)


def _check_for_nan(tensor):
    if tensor.is_floating_point() and tensor.isnan().any():
        raise RuntimeError("NaN found in input tensor.")


# --- calls that wait_tensor ends ---

def _named(call, group):
    """The group of a name, or the group."""
    if not isinstance(group, (str, ProcessGroup)):
        raise RuntimeError(f"{call}(): argument 'group_name' must be either a string (group name) or a ProcessGroup object, but got "
                           f"{type(group).__name__}")
    return _resolve_process_group(group)


def with_names(call, schema, args, kwargs):
    """Returns the arguments of an operator of the table, with the name of a group in its place.  None where there is no group.

    RuntimeError for what is neither a name nor a group."""
    names = [argument.name for argument in schema.arguments]
    given = dict(zip(names, args)) | kwargs
    if isinstance(given.get("group_name"), str) or "group_name" not in given:
        return None
    given["group_name"] = _name_of(_named(call, given["group_name"]))
    return given


def _started(work, *tensors):
    """Makes wait_tensor of each tensor wait for a work."""
    for tensor in tensors:
        if work is not None and not _C._is_fake(tensor) and not tensor.is_meta:
            _C._collective_register(tensor, work)


def _all_gather_out(tensor, group_size, group_name, out):
    group = _named("all_gather_into_tensor_out", group_name)
    _started(all_gather_into_tensor(out, tensor, group, async_op=True), out)
    return out


def _reduce_scatter_out(tensor, reduce_op, group_size, group_name, out):
    group = _named("reduce_scatter_tensor_out", group_name)
    _started(reduce_scatter_tensor(out, tensor, _reduction(reduce_op), group, async_op=True), out)
    return out


def _all_reduce_coalesced(tensors, reduce_op, group_name):
    group, opts = _named("all_reduce_coalesced_", group_name), AllreduceCoalescedOptions()
    opts.reduceOp = _reduction(reduce_op)
    if tensors:
        _started(group.allreduce_coalesced(tensors, opts), *tensors)
    return list(tensors)


def _reduction(name):
    found = getattr(ReduceOp, name.upper(), None) if name.islower() and name != "premul_sum" else None
    if not isinstance(found, ReduceOp):
        raise RuntimeError(f"Unrecognized reduce_op: {name}")
    return found


def _isend(tensor, dst, tag, group_name):
    _started(_named("isend", group_name).send([tensor], dst, tag), tensor)
    return tensor


def _irecv(tensor, src, tag, group_name):
    _started(_named("irecv", group_name).recv([tensor], src, tag), tensor)
    return tensor


def _batch_p2p_ops(op_list, peer_list, tag_list, tensors, group_name):
    if not len(op_list) == len(peer_list) == len(tag_list) == len(tensors):
        raise RuntimeError(f"batch_p2p_ops: lists of {len(op_list)} operations, {len(peer_list)} peers, {len(tag_list)} tags and "
                           f"{len(tensors)} tensors")
    calls = {"isend": _isend, "irecv": _irecv}
    for name in op_list:
        if name not in calls:
            raise RuntimeError(f"batch_p2p_ops: an operation is isend or irecv, not {name}")
    for name, peer, tag, tensor in zip(op_list, peer_list, tag_list, tensors):
        calls[name](tensor, peer, tag, group_name)
    return list(tensors)


_FUNCTIONAL = {
    "all_gather_into_tensor_out(Tensor input, int group_size, Any group_name, *, Tensor(a!) out) -> Tensor(a!)": _all_gather_out,
    "reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, Any group_name, *, Tensor(a!) out) -> Tensor(a!)":
        _reduce_scatter_out,
    "all_reduce_coalesced_(Tensor[](a!) inputs, str reduce_op, Any group_name) -> Tensor[](a!)": _all_reduce_coalesced,
    "isend(Tensor tensor, int dst, int tag, str group_name) -> Tensor": _isend,
    "irecv(Tensor tensor, int src, int tag, str group_name) -> Tensor": _irecv,
    "batch_p2p_ops(str[] op_list, int[] peer_list, int[] tag_list, Tensor[] tensors, str group_name) -> Tensor[]": _batch_p2p_ops,
}


def define():
    """Defines the operators: torch.ops.c10d finds them among those that programs define."""
    for name, (arguments, results, method, options, members) in _MADE.items():
        text = f"c10d::{name}({arguments}) -> {results.replace('W', _CLASS + 'Work')}"
        function = {"monitored_barrier_": _monitored_barrier, "check_for_nan": _check_for_nan}.get(name)
        function = function or _function(name, parse_schema(text), method, options, members)
        defined_packets["c10d", name] = _Packet(text, function)
    for text, function in _FUNCTIONAL.items():
        packet = _Packet(f"_c10d_functional::{text}", function)
        defined_packets["_c10d_functional", packet.__name__] = packet


# --- calls of groups' methods, seen by modes ---

def _form(kind, value):
    """One tensor, or one list of tensors, as the list of a type."""
    if kind == "List[Tensor]" and isinstance(value, cresset.Tensor):
        return [value]
    if kind == "List[List[Tensor]]" and isinstance(value, (list, tuple)) and any(isinstance(x, cresset.Tensor) for x in value):
        return [value]
    return value


def _options_of(kind, given):
    """Options of a class: those that are given, or a reduction or a rank as its member."""
    made = kind()
    if isinstance(given, ReduceOp):
        made.reduceOp = given
    elif isinstance(given, int):
        made.rootRank = given
    else:
        for field in vars(made):
            setattr(made, field, getattr(given, field, getattr(made, field)))
    return made


def _through_modes(name, group, values):
    """Calls a method's operator; the values are those of all parameters of the method."""
    _, _, _, options, members = _MADE[name]
    overload, members = defined_packets["c10d", name].default, members.split()
    kinds = [a.type for a in overload._schema.arguments]
    count = [a.name for a in overload._schema.arguments].index("process_group")
    if name == "barrier":
        tensors, rest = [cresset.empty(1, dtype=cresset.uint8)], values
    else:
        tensors, rest = list(map(_form, kinds, values[:count])), values[count:]
    tail = []
    if options is not None:
        further = rest[members.count("+"):]
        opts = _options_of(options, next((x for x in reversed(further) if x is not None), None))  # broadcast has two parameters
        limit = milliseconds(opts.timeout) if getattr(opts, "timeout", None) is not None else -1
        tail = [opts.asyncOp] + ([limit] if limit >= 0 else [])
        tail = [] if tail == [True] else tail
    plain = iter(rest)
    call = [next(plain) if m == "+" else None if m == "-" else getattr(opts, m) for m in members]
    call = [[] if v is None and kind == "List[int]" else v for v, kind in zip(call, kinds[count + 1:])]
    return overload(*tensors, group, *call, *tail)


def _seen(method, name):
    """The method, which calls its operator where a mode is active."""
    several, signature = _MADE[name][1].startswith("("), inspect.signature(method)

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if not _C._len_torch_dispatch_stack():
            return method(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        found = _through_modes(name, self, list(bound.arguments.values())[1:])
        return found[-1] if several else found
    return call


def _monitored(method):
    """monitored_barrier, which calls its operator where a mode is active."""
    @functools.wraps(method)
    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        if not _C._len_torch_dispatch_stack():
            return method(self, timeout, wait_all_ranks)
        limit = -1 if timeout is None else milliseconds(timeout)
        return defined_packets["c10d", "monitored_barrier_"].default(
            cresset.empty(1, dtype=cresset.uint8), self, [], limit, wait_all_ranks)
    return monitored_barrier


def watch_groups():
    """Makes modes see the calls of groups."""
    ProcessGroup.monitored_barrier = _monitored(ProcessGroup.monitored_barrier)
    for name, (_, _, method, _, _) in _MADE.items():
        found = ProcessGroup.__dict__.get(method)
        for other in [n for n, x in ProcessGroup.__dict__.items() if x is found and found is not None]:
            setattr(ProcessGroup, other, _seen(found, name))


define()
watch_groups()
