"""What each rank does in test_modes.py: functions of (rank, size)."""
import contextlib
from datetime import timedelta

import cresset as torch
import cresset.distributed as dist
import cresset.distributed._functional_collectives as fc
from cresset._subclasses.fake_tensor import FakeTensorMode
from cresset.distributed.fsdp import fully_shard, FullyShardedDataParallel
from cresset.distributed.tensor.debug import CommDebugMode
from cresset.distributed.tensor.parallel import ColwiseParallel, parallelize_module, RowwiseParallel
from cresset.nn.parallel import DistributedDataParallel
from cresset.utils._python_dispatch import TorchDispatchMode
from cresset.utils.checkpoint import checkpoint


class Seen(TorchDispatchMode):
    """Keeps the names of calls between ranks."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in ("c10d", "_c10d_functional"):
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


class Repeating(torch.nn.Module):
    """A module whose first layers backward computes again."""

    def __init__(self, layers, reentrant):
        super().__init__()
        self.layers, self.reentrant = layers, reentrant

    def forward(self, x):
        return self.layers[2](checkpoint(lambda y: self.layers[1](self.layers[0](y)), x, use_reentrant=self.reentrant))


def sharded(layers, mesh, reshard=True):
    for k in (0, 2):
        fully_shard(layers[k], mesh=mesh, reshard_after_forward=reshard)
    fully_shard(layers, mesh=mesh)
    return layers


def divided(layers, mesh):
    return parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


# name: (the module of layers and a mesh, whether all ranks have the same input)
MODULES = {
    "plain, checkpointed": (lambda n, mesh: Repeating(n, True), True),
    "data-parallel": (lambda n, mesh: DistributedDataParallel(n), False),
    "data-parallel, views": (lambda n, mesh: DistributedDataParallel(n, gradient_as_bucket_view=True), False),
    "data-parallel, checkpointed": (lambda n, mesh: DistributedDataParallel(Repeating(n, False)), False),
    "sharded": (sharded, False),
    "sharded, kept after forward": (lambda n, mesh: sharded(n, mesh, False), False),
    "sharded, checkpointed": (lambda n, mesh: Repeating(sharded(n, mesh), False), False),
    "sharded, checkpointed by reentry": (lambda n, mesh: Repeating(sharded(n, mesh), True), False),
    "wrapper": (lambda n, mesh: FullyShardedDataParallel(n, use_orig_params=True), False),
    "tensor-parallel": (divided, True),
    "tensor-parallel, checkpointed": (lambda n, mesh: Repeating(divided(n, mesh), False), True),
}


def steps(make, same, mesh, mode):
    """The last loss and the parameters of two steps of training inside of a mode."""
    torch.manual_seed(0)
    module = make(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)), mesh)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    for step in range(2):
        x = (torch.arange(8.0).view(2, 4) * (1 if same else dist.get_rank() + 1) + step).requires_grad_()
        with mode:
            loss = module(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in module.parameters()]
    return [loss.tolist(), *[p.tolist() for p in whole]]


def training_in_modes(rank, n):
    """Training computes in a mode what it computes without one; FSDP's calls are seen as torch's."""
    mesh = dist.init_device_mesh("cpu", (n,))
    for name, (make, same) in MODULES.items():
        want = steps(make, same, mesh, contextlib.nullcontext())
        for mode in (Seen(), CommDebugMode()):
            assert steps(make, same, mesh, mode) == want, (name, mode)
    seen = Seen()
    steps(sharded, False, mesh, seen)
    once = ["_allgather_base_"] * 4 + ["_reduce_scatter_base_"] * 2  # recorded with torch 2.13
    assert sorted(seen.names) == sorted(once * 2), seen.names


def error_of(call):
    """The class and text of the error of a call."""
    try:
        found = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"no error, but {found}")


def facts_of_a_group():
    """A group and a reduction as operators take them, and the group's name."""
    group = dist.group.WORLD
    return group, dist.ReduceOp.SUM, group.group_name


def names_of_groups(rank, n):
    """The operators of the table find groups by name, or are given groups, in a program's first calls.  RuntimeError for others."""
    group, _, name = facts_of_a_group()
    ops, x, total = torch.ops._c10d_functional, torch.full((4,), rank + 1.0), torch.full((4,), n * (n + 1) / 2)
    other = dist.new_group(list(range(n)))
    for g in (name, group, other.group_name, other):
        wait = ops.wait_tensor
        for results in (wait(ops.all_reduce(x, "sum", g)), wait(ops.all_reduce_(x.clone(), "sum", group_name=g)),
                        wait(ops.all_reduce_coalesced.default([x], "sum", g)[0]),
                        wait(ops.reduce_scatter_tensor(x.repeat(n), "sum", n, g)),
                        wait(torch.ops._c10d_functional_autograd.reduce_scatter_tensor(x.repeat(n), "sum", n, g))):
            assert torch.equal(results, total), (g, results)
        every = torch.cat([torch.full((4,), r + 1.0) for r in range(n)])
        assert torch.equal(wait(ops.all_gather_into_tensor.default(x, n, g)), every)
        assert torch.equal(wait(ops.broadcast(x, 1, g)), torch.full((4,), 2.0))
        out = torch.zeros(4 * n)
        assert torch.equal(wait(ops.all_gather_into_tensor_out(x, n, g, out=out)), every) and torch.equal(out, every)
    for call, further in (("all_reduce", ("sum",)), ("broadcast", (0,)), ("all_reduce_coalesced_", ("sum",))):
        for wrong in (None, 3):
            given = [x] if call == "all_reduce_coalesced_" else x
            assert error_of(lambda: getattr(ops, call)(given, *further, wrong)) == (  # recorded with torch 2.13
                f"RuntimeError: {call}(): argument 'group_name' must be either a string (group name) or a ProcessGroup object, but got "
                f"{type(wrong).__name__}")
        assert error_of(lambda: getattr(ops, call)(given, *further, "none")) == (
            "RuntimeError: Could not resolve the process group registered under the name none")
    assert "Expected a value of type 'str' for argument 'group_name'" in error_of(lambda: ops.isend(x, 1, 0, group))
    for call in (lambda: ops.all_reduce(x, "MAX", name), lambda: ops.all_reduce_coalesced_([x], "MAX", name)):
        assert error_of(call) == "RuntimeError: Unrecognized reduce_op: MAX"
    assert torch.equal(x, torch.full((4,), rank + 1.0))


def arguments_of_operators(rank, n):
    """Lists of other lengths and arguments that are given twice are refused before a message; numbers may be truths."""
    group, total, name = facts_of_a_group()
    ops, x = torch.ops.c10d, torch.full((3,), rank + 1.0)

    def out(*sizes):
        return [torch.zeros(size) for size in sizes]
    assert error_of(lambda: ops.allreduce_([x], group, dist.ReduceOp.SUM, torch.tensor([0]))) == (
        "RuntimeError: c10d::allreduce_: groups take no sparse_indices")
    head, lengths = f"RuntimeError: {group._title()}", "requires input/output tensor lists to have the same length"
    for a, b in ((2, 1), (1, 2)):  # recorded with torch 2.13
        assert error_of(lambda: ops.allgather_into_tensor_coalesced_(out(*[3 * n] * a), [x] * b, group)) == (
            f"RuntimeError: Check failed: outputs.size() == inputs.size() ({a} vs. {b}).")
        assert error_of(lambda: ops.reduce_scatter_tensor_coalesced_(out(*[3] * a), [x.repeat(n)] * b, group, total)) == (
            f"RuntimeError: {lengths}")
        assert error_of(lambda: ops.reduce_scatter_(out(*[3] * a), [[x] * n] * b, group, total)) == f"RuntimeError: {lengths}"
        assert error_of(lambda: ops.allgather_([out(*[3] * n)] * a, [x] * b, group)) == f"{head}::allgather: {lengths}"
    coalesced = f"{head}::allgather_coalesced: "
    assert error_of(lambda: ops.allgather_coalesced_([out(3, 3)], [x, x], group)) == (
        f"{coalesced}output lists should be equal to world size")
    assert error_of(lambda: ops.allgather_coalesced_([out(3, 3), out(3)], [x, x], group)) == (
        f"{coalesced}invalid output size: (expected length 2, got 1)")
    assert "requires a single-element output tensor list" in error_of(lambda: ops.scatter_(out(3, 3), [[x] * n], group, rank))
    assert "requires a single-element input tensor list" in error_of(lambda: ops.gather_([out(*[3] * n)], [x, x], group, rank))
    assert error_of(lambda: fc.reduce_scatter_tensor_coalesced([x, x], "sum", [0], group)) == (
        "AssertionError: Length of scatter_dim (1) must equal length of inputs (2)")
    assert error_of(lambda: ops.allreduce_([x], group, total, None, tensors=[x])) == (
        f"RuntimeError: Argument 'tensors' specified both as positional and keyword argument. Schema: {ops.allreduce_.default._schema}")
    functional = torch.ops._c10d_functional.all_reduce_coalesced_
    assert error_of(lambda: functional([x], "sum", name, inputs=[x])) == (
        "RuntimeError: _c10d_functional::all_reduce_coalesced_() expected at most 3 argument(s) but received 4 argument(s). "
        f"Declaration: {functional.default._schema}")
    assert error_of(lambda: torch.ops.aten.add.Tensor(x, x, self=x)) == (
        "RuntimeError: Argument 'self' specified both as positional and keyword argument. Schema: "
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    for truth in (1, 0.5, None):
        ops.allreduce_([x.clone()], group, total, None, truth)[1].wait()
    for wrong in ("a", [1]):
        assert "Expected a value of type 'bool' for argument 'async_op'" in error_of(
            lambda: ops.allreduce_([x], group, total, None, wrong))
    ops.broadcast_([x], group, True, 0)[1].wait()
    assert x.tolist() == [2.0] * 3
    assert "Expected a value of type 'int' for argument 'root_rank'" in error_of(lambda: ops.broadcast_([x], group, 1.0, 0))


def forms_that_modes_see(rank, n):
    """Modes see a group's calls with one tensor in place of a list, a reduction or a rank in place of options, and keywords."""
    group, _, _ = facts_of_a_group()
    x, out = torch.ones(3), [torch.zeros(3) for _ in range(n)]
    calls = {
        "allreduce_": [lambda: group.allreduce(x), lambda: group.allreduce(x, dist.ReduceOp.MAX), lambda: group.allreduce(tensors=[x]),
                       lambda: group.allreduce([x], opts=dist.AllreduceOptions())],
        "broadcast_": [lambda: group.broadcast(x, 1), lambda: group.broadcast([x], root=1)],
        "reduce_": [lambda: group.reduce(x, 0)],
        "allgather_": [lambda: group.allgather(out, x)],
        "gather_": [lambda: group.gather(out if rank == 0 else [], x, 0)],
        "scatter_": [lambda: group.scatter(x, out if rank == 0 else [], 0)],
        "reduce_scatter_": [lambda: group.reduce_scatter(x, out)],
        "alltoall_base_": [lambda: group.alltoall_base(out[0].repeat(n), x.repeat(n), opts=dist.AllToAllOptions())],
        "barrier": [group.barrier, dist.barrier],
        "monitored_barrier_": [group.monitored_barrier, dist.monitored_barrier,
                               lambda: dist.monitored_barrier(timeout=timedelta(seconds=290), wait_all_ranks=True)],
    }
    for name, forms in calls.items():
        for call in forms:
            with Seen() as outer, Seen() as inner:
                work = call()
                if work is not None:
                    work.wait()
            assert outer.names == inner.names == [name], (name, outer.names, inner.names)
    y = torch.full((3,), rank + 1.0)
    with Seen():
        group.allreduce(y, dist.ReduceOp.MAX).wait()
        assert y.tolist() == [n] * 3
        group.broadcast(y.mul_(rank + 1), 0).wait()
    assert y.tolist() == [n] * 3
    with CommDebugMode() as counted:
        group.allreduce(x).wait()
        group.broadcast(x, 0).wait()
    assert counted.get_total_counts() == 2


def real_tensors_in_fake_mode(rank, n):
    """In FakeTensorMode one rank alone may make all calls: real tensors are refused or left alone, and no message goes out."""
    group, total, name = facts_of_a_group()
    x, ops = torch.full((3,), rank + 1.0), torch.ops._c10d_functional
    calls = [lambda: dist.all_reduce(x), lambda: dist.broadcast(x, 1 - rank), lambda: dist.reduce(x, 1 - rank),
             lambda: dist.all_gather([torch.zeros(3) for _ in range(n)], x), lambda: dist.reduce_scatter(x, [x] * n),
             lambda: dist.all_gather_into_tensor(torch.zeros(3 * n), x), lambda: dist.send(x, 1 - rank), lambda: dist.recv(x, 1 - rank),
             lambda: group.allreduce(x), lambda: torch.ops.c10d.allreduce_([x], group, total, None, False),
             lambda: ops.all_reduce_coalesced_([x], "sum", name), lambda: ops.isend(x, 1 - rank, 0, name),
             lambda: ops.all_gather_into_tensor_out(x, n, name, out=torch.zeros(3 * n)), lambda: ops.all_reduce_(x, "sum", name)]
    if rank == 0:
        for i, call in enumerate(calls):
            with FakeTensorMode():
                text = error_of(call)
            assert text.startswith("AssertionError: Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                                   "'allow_non_fake_inputs'. Found in "), (i, text)
            with FakeTensorMode(allow_non_fake_inputs=True):
                call()
        with FakeTensorMode():
            assert dist.barrier() is None and dist.monitored_barrier() is None
    assert x.tolist() == [rank + 1.0] * 3
    dist.all_reduce(x)  # what the ranks send now is for this call
    assert x.tolist() == [n * (n + 1) / 2] * 3
