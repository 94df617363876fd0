"""What each rank does in test_functional.py: functions of (rank, size)."""
import cresset as torch
import cresset.distributed as dist
import cresset.distributed._functional_collectives as fc
import cresset.distributed.nn.functional as dnn
from cresset._subclasses.fake_tensor import FakeTensorMode
from cresset.distributed.tensor import Shard, distribute_tensor
from cresset.distributed.tensor.debug import CommDebugMode
from cresset.utils._python_dispatch import TorchDispatchMode


def own(rank, rows=12):
    return (torch.arange(rows * 3.0).view(rows, 3) + 1) * (rank + 1)


# name: (the call, what it gives this rank of all ranks' inputs)
CALLS = {
    "all_reduce sum": (lambda x, n: fc.all_reduce(x, "sum", dist.group.WORLD), lambda xs, r, n: sum(xs)),
    "all_reduce avg": (lambda x, n: fc.all_reduce(x, "avg", dist.group.WORLD), lambda xs, r, n: sum(xs) / n),
    "all_gather 0": (lambda x, n: fc.all_gather_tensor(x, 0, dist.group.WORLD), lambda xs, r, n: torch.cat(xs)),
    "all_gather 1": (lambda x, n: fc.all_gather_tensor(x, 1, list(range(n))), lambda xs, r, n: torch.cat(xs, 1)),
    "reduce_scatter": (lambda x, n: fc.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD),
                       lambda xs, r, n: sum(xs).chunk(n)[r]),
    "reduce_scatter avg": (lambda x, n: fc.reduce_scatter_tensor(x.t(), "avg", 1, dist.group.WORLD),
                           lambda xs, r, n: (sum(xs) / n).t().chunk(n, 1)[r]),
    "all_to_all": (lambda x, n: fc.all_to_all_single(x, None, None, dist.group.WORLD),
                   lambda xs, r, n: torch.cat([x.chunk(n)[r] for x in xs])),
    "broadcast": (lambda x, n: fc.broadcast(x, n - 1, dist.group.WORLD), lambda xs, r, n: xs[n - 1] * 1),
    "permute": (lambda x, n: fc.permute_tensor(x, [(i + 1) % n for i in range(n)], dist.group.WORLD),
                lambda xs, r, n: xs[(r - 1) % n] * 1),
    "nn all_reduce": (lambda x, n: dnn.all_reduce(x), lambda xs, r, n: sum(xs)),
    "nn all_gather": (lambda x, n: torch.stack(dnn.all_gather(x)), lambda xs, r, n: torch.stack(xs)),
    "nn reduce_scatter": (lambda x, n: dnn.reduce_scatter(torch.empty(12 // n, 3), list(x.chunk(n))),
                          lambda xs, r, n: sum(xs).chunk(n)[r]),
    "nn all_to_all_single": (lambda x, n: dnn.all_to_all_single(torch.empty_like(x), x),
                             lambda xs, r, n: torch.cat([x.chunk(n)[r] for x in xs])),
    "nn broadcast": (lambda x, n: dnn.broadcast(x, 0), lambda xs, r, n: xs[0] * 1),
}


def weights(y, rank):
    return (torch.arange(float(y.numel())).view(y.shape) % 5 + 1) * (rank + 2)


def gradients_of_one_process(gives, n):
    """The gradients of all ranks' inputs, when one process computes all ranks' weighted sums."""
    xs = [own(r).requires_grad_() for r in range(n)]
    total = 0
    for r in range(n):
        y = gives(xs, r, n)
        total = total + (y * weights(y, r)).sum()
    return torch.autograd.grad(total, xs, allow_unused=True)


def values_and_derivatives(rank, n):
    for name, (call, gives) in CALLS.items():
        xs = [own(r) for r in range(n)]
        expected, grads = gives(xs, rank, n), gradients_of_one_process(gives, n)

        def program(x):
            y = call(x * 1.0, n)
            return y, (y * weights(y, rank)).sum()

        def deferred(x):
            with torch.lazy():
                return program(x)
        for run in (program, deferred, torch.compile(program, fullgraph=not name.startswith("nn reduce"))):
            for _ in range(2):
                x = own(rank).requires_grad_()
                y, total = run(x)
                total.backward()
                assert y.shape == expected.shape and torch.allclose(y, expected), name
                grad = torch.zeros_like(x) if grads[rank] is None else grads[rank]
                assert torch.allclose(x.grad, grad), (name, x.grad, grad)


def calls_in_compiled_functions(rank, n):
    """The calls of torch.distributed that change their arguments are part of one graph."""
    def program(x):
        y = x @ torch.ones(3, 3)
        dist.all_reduce(y, dist.ReduceOp.SUM)
        parts = [torch.empty(12, 3) for _ in range(n)]
        dist.all_gather(parts, y * (rank + 1))
        whole = torch.empty(12 * n, 3)
        dist.all_gather_into_tensor(whole, y)
        part = torch.empty(12 // n, 3)
        dist.reduce_scatter_tensor(part, y, op=dist.ReduceOp.MAX)
        z = x * 2
        dist.broadcast(z, src=1)
        t = torch.empty(12, 3)
        dist.all_to_all_single(t, x)
        return y, *parts, whole, part, z, t
    expected = program(own(rank))
    compiled = torch.compile(program, fullgraph=True)
    for _ in range(3):
        for a, b in zip(compiled(own(rank)), expected):
            assert torch.equal(a, b)
    for k in range(3):  # other values through the same graph
        for a, b in zip(compiled(own(rank) + k), program(own(rank) + k)):
            assert torch.equal(a, b)


def groups_waits_and_errors(rank, n):
    op = torch.ops._c10d_functional
    for size in (3, 300000):
        x = torch.full((size,), float(rank + 1))
        started = [op.all_reduce(x * k, "sum", "0") for k in range(4)]
        assert [float(op.wait_tensor(s)[0]) for s in started] == [k * n * (n + 1) / 2 for k in range(4)]
        y = op.all_reduce_(x, "max", "0")
        assert float(fc.wait_tensor(y)[0]) == n == float(x[0])
    assert [t.tolist() for t in fc.all_reduce_coalesced([torch.ones(1), torch.ones(2)], "sum", dist.group.WORLD)] == [[n], [n, n]]
    pair = dist.new_group([0, 1])
    if rank < 2:
        assert fc.all_reduce(torch.ones(1), "sum", pair).item() == 2
        assert fc.all_to_all_single(torch.arange(3.0) + 10 * rank, [1, 1] if rank else [2, 2], [2, 1], pair).tolist() == \
            ([2, 12] if rank else [0, 1, 10, 11])
    for call, kind, words in (
            (lambda: fc.all_reduce(torch.ones(1), "median", dist.group.WORLD), RuntimeError, "Unrecognized reduce_op: median"),
            (lambda: op.all_reduce(torch.ones(1), "sum", "no such group"), RuntimeError, "no such group"),
            (lambda: fc.reduce_scatter_tensor(torch.ones(n + 1), "sum", 0, dist.group.WORLD), AssertionError, "multiple of group_size"),
            (lambda: fc.all_reduce(torch.ones(1, requires_grad=True), "max", dist.group.WORLD).sum().backward(), RuntimeError,
             "all_reduce backward only supports 'sum' reduction, got 'max'"),
            (lambda: op.broadcast(torch.ones(3), 2**32, "0"), RuntimeError, "broadcast: invalid root rank: 4294967296"),
            (lambda: op.broadcast_(torch.ones(3), -1, "0"), RuntimeError, "broadcast: invalid root rank: -1"),
            (lambda: torch.compile(lambda x: op.broadcast(x, n, "0"))(torch.ones(3)), RuntimeError, f"invalid root rank: {n}"),
            (lambda: op.all_gather_into_tensor(torch.ones(4, device="meta"), 2**62, "0"), RuntimeError,
             "Storage size calculation overflowed"),
            (lambda: op.all_to_all_single(torch.ones(4, device="meta"), [2**62] * 4, [4], "0"), RuntimeError,
             "Storage size calculation overflowed"),
            (lambda: op.all_reduce_coalesced([torch.ones(3, device="meta"), torch.ones(3)], "sum", "0"), RuntimeError,
             "different devices"),
            (lambda: op.all_reduce_coalesced([torch.ones(3), torch.ones(3, device="meta")], "sum", "0"), RuntimeError,
             "different devices")):
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    alone = [dist.new_group([r]) for r in range(n)][rank]
    assert fc.all_to_all_single(torch.arange(4.0), [4], [4], alone).tolist() == [0, 1, 2, 3]
    for rows in (5, 3):
        try:
            fc.all_to_all_single(torch.ones(4), [rows], [4], alone).sum().item()
        except RuntimeError as error:
            assert f"gives itself 4 elements and takes {rows}" in str(error) or "is closed" in str(error), error
        else:
            raise AssertionError(rows)
    meta = op.all_gather_into_tensor(torch.empty(2, 3, device="meta"), 8, "0")
    assert meta.shape == (16, 3) and meta.device.type == "meta"


# --- every call, every way ---

def _gathered(call):
    def run(x, n):
        parts = [torch.empty(12, 3) for _ in range(n)]
        call(parts, x)
        return torch.stack(parts)
    return run


def _filled(call, rows):
    def run(x, n):
        out = torch.empty(rows(n), 3)
        call(out, x, n)
        return out
    return run


def _changed(call):
    def run(x, n):
        x = x * 1.0
        call(x)
        return x
    return run


def _exchanged(x, n):
    parts = [torch.empty(12 // n, 3) for _ in range(n)]
    dist.all_to_all(parts, list(x.chunk(n)))
    return torch.cat(parts)


def _coalesced(x, n):
    whole = torch.empty(12 * n, 3)
    with dist._coalescing_manager():
        dist.all_gather_into_tensor(whole, x)
    return whole


def _waited(name, *further, space="_c10d_functional"):
    return lambda x, n: torch.ops._c10d_functional.wait_tensor(getattr(getattr(torch.ops, space), name)(x * 1.0, *further))


# Calls that write the program's tensors: they have no derivative, and under vmap only x is a batch.
WRITING = {
    "c10d all_reduce": _changed(dist.all_reduce),
    "c10d all_reduce max": _changed(lambda x: dist.all_reduce(x, dist.ReduceOp.MAX)),
    "c10d all_reduce_coalesced": _changed(lambda x: dist.all_reduce_coalesced([x])),
    "c10d broadcast": _changed(lambda x: dist.broadcast(x, src=1)),
    "c10d all_gather": _gathered(dist.all_gather),
    "c10d all_gather_into_tensor": _filled(lambda out, x, n: dist.all_gather_into_tensor(out, x), lambda n: 12 * n),
    "c10d reduce_scatter_tensor": _filled(lambda out, x, n: dist.reduce_scatter_tensor(out, x), lambda n: 12 // n),
    "c10d reduce_scatter": _filled(lambda out, x, n: dist.reduce_scatter(out, list(x.chunk(n))), lambda n: 12 // n),
    "c10d all_to_all_single": _filled(lambda out, x, n: dist.all_to_all_single(out, x), lambda n: 12),
    "c10d all_to_all": _exchanged,
    "c10d coalesced": _coalesced,
}
LISTS = {
    "all_reduce_coalesced": lambda x, n: fc.all_reduce_coalesced([x, x * 2], "sum", "0")[1],
    "all_gather_coalesced": lambda x, n: fc.all_gather_into_tensor_coalesced([x, x * 2], "0")[1],
    "reduce_scatter_coalesced": lambda x, n: fc.reduce_scatter_tensor_coalesced([x, x * 2], "sum", [0, 0], "0")[1],
}
FURTHER = {
    "op all_reduce_": _waited("all_reduce_", "sum", "0"),
    "op broadcast_": _waited("broadcast_", 1, "0"),
    "op autograd reduce_scatter": _waited("reduce_scatter_tensor", "sum", 2, "0", space="_c10d_functional_autograd"),
    "all_gather_autograd": lambda x, n: fc.all_gather_tensor_autograd(x, 0, "0"),
    "all_to_all_autograd": lambda x, n: fc.all_to_all_single_autograd(x, None, None, "0"),
}


def _way_fullgraph(call, x):
    compiled = torch.compile(call, fullgraph=True)
    return [compiled(x) for _ in range(4)][-1]


def _way_lazy(call, x):
    with torch.lazy():
        return call(x)


def _way_export(call, x):
    class Module(torch.nn.Module):
        def forward(self, x):
            return call(x)
    return torch.export.export(Module(), (x,)).module()(x)


def _way_make_fx(call, x):
    graph = torch.fx.experimental.proxy_tensor.make_fx(call)(x)
    assert "_c10d_functional" in graph.code and "wait_tensor" in graph.code, graph.code
    return graph(x)


def _way_vmap(call, x):
    return torch.vmap(call)(torch.stack([x * 3, x]))[1]


def _way_fake(call, x):
    from cresset._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode() as mode:
        return call(mode.from_tensor(x)).shape


def _way_meta(call, x):
    return call(x.to("meta")).shape


def _way_profile(call, x):
    with torch.profiler.profile() as profile:
        y = call(x)
    names = [e.key for e in profile.key_averages()]
    assert any(name.startswith(dist.get_backend() + ":") for name in names), names
    return y


def _way_jvp(call, x):  # calls are linear
    return torch.func.jvp(call, (x,), (x,))[1]


WAYS = {"fullgraph": _way_fullgraph, "lazy": _way_lazy, "export": _way_export, "make_fx": _way_make_fx, "vmap": _way_vmap,
        "fake": _way_fake, "meta": _way_meta, "profile": _way_profile, "jvp": _way_jvp}


def every_call_every_way(rank, n):
    """Each call gives eager's values in each way, or its sizes where there are no elements."""
    cells = 0
    for name, call in [*((k, v[0]) for k, v in CALLS.items()), *FURTHER.items(), *LISTS.items(), *WRITING.items()]:
        program = (lambda call: lambda x: call(x, n))(call)
        x = own(rank)
        want = program(x)
        for way, run in WAYS.items():
            if way == "jvp" and (name in WRITING or name in LISTS):
                continue
            if way == "vmap" and name in WRITING and not name.startswith(("c10d all_reduce", "c10d broadcast")):
                try:
                    run(program, x)
                except RuntimeError as error:
                    assert "vmap: inplace arithmetic(" in str(error), (name, error)
                else:
                    raise AssertionError(name)
                continue
            got = run(program, x)
            assert got == want.shape if isinstance(got, torch.Size) else torch.allclose(got, want), (name, way)
            assert fc._get_work_registry_size() == 0, (name, way)
            cells += 1
    assert cells > 240
    assert fc._get_work_registry_size() == 0


def calls_that_no_graph_has(rank, n):
    """Exports refuse what has no operator, rather than leaving it out; the group works afterwards."""
    def exchange(x):
        out = torch.empty(12, 3)
        return [w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % n),
                                                          dist.P2POp(dist.irecv, out, (rank - 1) % n)])]
    for call in (lambda x: dist.reduce(x, 0), lambda x: dist.gather(x, [x.clone() for _ in range(n)] if rank == 0 else None),
                 lambda x: dist.all_reduce(x, async_op=True), exchange):
        class Module(torch.nn.Module):
            def forward(self, x):
                y = x * 1.0
                call(y)
                return y
        try:
            torch.export.export(Module(), (own(rank),))
        except RuntimeError as error:
            assert "no operator" in str(error) or "a call of torch.distributed" in str(error), error
        else:
            raise AssertionError("a call is missing in the graph")
    assert fc.all_reduce(torch.ones(1), "sum", "0").item() == n


def calls_whose_results_nobody_reads(rank, n):
    """They are made all the same: other ranks take part."""
    def program(x):
        fc.all_reduce(x, "sum", "0")
        return x + 1

    class Module(torch.nn.Module):
        def forward(self, x):
            return program(x)
    group = dist.group.WORLD
    exported = torch.export.export(Module(), (own(rank),)).module()
    for run in (program, torch.compile(program, fullgraph=True), exported):
        for _ in range(3):
            before = group._get_sequence_number_for_group()
            assert torch.equal(run(own(rank)), own(rank) + 1)
            assert group._get_sequence_number_for_group() == before + 1


def in_place(call):
    """Programs that wait for the call's result, for its argument, and read both and a view made before."""
    ops = torch.ops._c10d_functional

    def result(x):
        y = x * 3
        ops.wait_tensor(call(y))
        return y, y + 1

    def argument(x):
        y = x * 3
        call(y)
        ops.wait_tensor(y)
        return y + 1, y @ y.t()

    def view(x):
        y = x * 3
        v = y.view(-1)
        s = call(y)
        ops.wait_tensor(s)
        return v + 1, v.sum(), s * 2

    def input_itself(x):
        ops.wait_tensor(call(x))
        return x + 1, x
    return [result, argument, view, input_itself]


def functional(call):
    """Programs that read the call's own result behind the wait, also by a view."""
    ops = torch.ops._c10d_functional

    def result(x):
        s = call(x)
        ops.wait_tensor(s)
        return s + 1, s

    def view(x):
        s = call(x)
        v = s.view(-1)
        ops.wait_tensor(s)
        return v * 2, x @ x.t()
    return [result, view]


def results_that_are_read_behind_waits(rank, n):
    """The last rank starts late, so a result that is read too early is another one."""
    import time
    ops = torch.ops._c10d_functional
    programs = (in_place(lambda x: ops.all_reduce_(x, "sum", "0")) + in_place(lambda x: ops.broadcast_(x, n - 1, "0"))
                + functional(lambda x: ops.all_reduce(x, "sum", "0"))
                + functional(lambda x: ops.all_gather_into_tensor(x, n, "0"))
                + functional(lambda x: ops.broadcast(x, n - 1, "0")))
    for program in programs:
        wanted = program(own(rank))
        compiled = torch.compile(program, fullgraph=True)
        for _ in range(4):
            x = own(rank)
            dist.barrier()
            if rank == n - 1:
                time.sleep(0.05)
            for got, want in zip(compiled(x), wanted):
                assert torch.equal(got, want), (program.__qualname__, got, want)


def calls_that_other_ranks_make_otherwise(rank, n):
    """Small calls are one work where a program's graph allows it, and ranks' programs may differ there."""
    def program(a, b):
        s = fc.all_reduce(a.sum(), "sum", "0")
        if rank == 0:
            b = b @ torch.eye(4)
        t = fc.all_reduce(b.sum(), "sum", "0")
        u = fc.all_reduce(a.mean(), "sum", "0")
        return s / t, u
    compiled = torch.compile(program, fullgraph=True)
    for k in range(4):
        a, b = torch.rand(4, 4) + rank, torch.rand(4, 4) + k
        for x, y in zip(compiled(a, b), program(a, b)):
            assert torch.equal(x, y)


def errors_in_compiled_functions(rank, n):
    """Sizes that differ, and a group that was destroyed: eager's errors."""
    import datetime

    def program(x, group):
        return fc.all_reduce(x * 2, "sum", group) + 1
    compiled = torch.compile(program)
    for step in range(4):
        pair = dist.new_group(list(range(n)), timeout=datetime.timedelta(minutes=1))
        name = pair.group_name
        assert torch.equal(compiled(torch.ones(3), name), program(torch.ones(3), name))
        texts = []
        for run in (compiled, program):
            try:
                run(torch.ones(3 + rank), name)
            except RuntimeError as error:
                texts.append(str(error))
        assert len(texts) == 2 and "the ranks' calls differ" in texts[0] and "in_functional.py:" in texts[0], texts
        assert "is closed since" in texts[1] or "the ranks' calls differ" in texts[1], texts
        dist.destroy_process_group(pair)
        for run, group in ((compiled, name), (program, name), (program, pair)):
            try:
                run(torch.ones(3), group)
            except RuntimeError as error:
                assert f"Could not resolve the process group registered under the name {name}" in str(error), error
            else:
                raise AssertionError("the group was destroyed")
    assert fc.all_reduce(torch.ones(1), "sum", "0").item() == n


def calls_of_failed_functions(rank, n):
    """A function whose second call fails has made its first call once: the ranks without the second one stay in step."""
    pair = dist.new_group([0, 1])

    def program(x, y):
        return fc.all_reduce(x, "sum", dist.group.WORLD), fc.all_reduce(y, "sum", pair)
    for how in (torch.compile(program), torch.compile(program, backend="eager"), torch.compile(program, backend="aot_eager")):
        for step in range(5):
            x = torch.ones(3)
            if rank < 2 and step < 4:
                assert how(x, torch.ones(4))[0].tolist() == [n] * 3
            elif rank < 2:
                try:
                    how(x, torch.ones(4 + rank))
                except RuntimeError as error:
                    assert "the ranks' calls differ" in str(error), error
                else:
                    raise AssertionError("the sizes differ")
            else:
                fc.all_reduce(x, "sum", dist.group.WORLD)
        for k in (1., 10.):
            y = torch.full((3,), k * (rank + 1))
            dist.all_reduce(y)
            assert y.tolist() == [k * n * (n + 1) / 2] * 3, y
        pair = dist.new_group([0, 1])


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


def operators_of_groups(rank, n):
    """torch.ops.c10d: values of each operator, eagerly and in compiled functions; works; refusals."""
    ops, pg, total = torch.ops.c10d, dist.group.WORLD.boxed(), n * (n + 1) / 2
    add = dist.ReduceOp(dist.ReduceOp.SUM)

    def made(*size):
        return torch.full(size, rank + 1.0)

    def check(got, want):
        torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float32).expand(got.shape))

    def wait(found):
        work = found[-1] if isinstance(found, tuple) else found
        dist.Work.unbox(work).wait()
        return found
    every = [r + 1.0 for r in range(n)]
    x = made(3)
    assert wait(ops.allreduce_([x], pg, add, None))[0][0] is x
    check(x, total)
    wait(ops.allreduce_coalesced_([x := made(2), y := made(4)], pg, add))
    check(x, total), check(y, total)
    wait(ops.broadcast_([x := made(2)], pg, n - 1, 0))
    check(x, n)
    wait(ops.reduce_([x := made(2)], pg, add, 1, 0, False, 60000))
    check(x, total) if rank == 1 else None
    out = wait(ops.allgather_([[made(2) for _ in range(n)]], [made(2)], pg))[0][0]
    assert [t[0].item() for t in out] == every
    check(wait(ops._allgather_base_(torch.zeros(n), made(1), pg))[0], every)
    lists = [[torch.zeros(1), torch.zeros(2)] for _ in range(n)]
    wait(ops.allgather_coalesced_(lists, [made(1), made(2)], pg))
    assert [[t[0].item() for t in part] for part in lists] == [[v, v] for v in every]
    wait(ops.allgather_into_tensor_coalesced_([x := torch.zeros(n)], [made(1)], pg))
    check(x, every)
    check(wait(ops.reduce_scatter_([torch.zeros(2)], [[made(2) * r for r in range(n)]], pg, add))[0][0], total * rank)
    check(wait(ops._reduce_scatter_base_(torch.zeros(1), made(n), pg, add))[0], total)
    wait(ops.reduce_scatter_tensor_coalesced_([x := torch.zeros(1)], [made(n)], pg, add))
    check(x, total)
    out = [torch.zeros(1) for _ in range(n)]
    wait(ops.gather_([out] if rank == 0 else [], [made(1)], pg, 0))
    assert rank or [t.item() for t in out] == every
    parts = [[torch.full((2,), 7.0 + r) for r in range(n)]] if rank == 0 else []
    check(wait(ops.scatter_([torch.zeros(2)], parts, pg, 0))[0][0], 7.0 + rank)
    out = wait(ops.alltoall_([torch.zeros(1) for _ in range(n)], [made(1) * 10 + r for r in range(n)], pg))[0]
    assert [t.item() for t in out] == [v * 10 + rank for v in every]
    wait(ops.alltoall_base_(x := torch.zeros(n), made(n), pg, [], []))
    check(x, every)
    wait(ops.barrier(torch.zeros(1), pg, []))
    x = made(2) if rank == 0 else torch.zeros(2)
    if rank < 2:
        wait(ops.recv_([x], pg, 0, 5) if rank else ops.send([x], pg, 1, 5))
        check(x, 1.0)
        wait(ops.send([x + 3], pg, 0, 6) if rank else ops.recv_any_source_([x], pg, 6))
        check(x, 1.0 if rank else 4.0)
    ops.monitored_barrier_(torch.zeros(1), pg, [], 60000, True)
    assert ops.check_for_nan(made(2)) is None
    raises(RuntimeError, "NaN found in input tensor.", lambda: ops.check_for_nan(torch.tensor([1.0, float("nan")])))
    raises(RuntimeError, "Expected a value of type '__torch__.torch.classes.c10d.ProcessGroup (of Python compilation unit at: 0)' for argument "
           "'process_group' but instead found type 'int'.\nPosition: 1\nValue: 7", lambda: ops.broadcast_([x], 7, 0, 0))
    raises(RuntimeError, "Expected a value of type 'List[Tensor]' for argument 'tensors' but instead found type 'Tensor'",
           lambda: ops.broadcast_(x, pg, 0, 0))
    raises(RuntimeError, "is missing value for argument 'root_rank'", lambda: ops.broadcast_([x], pg))

    def step(x):
        y = x * 2
        ops.allreduce_([y], pg, add, None)[1].wait()
        return y + 1
    compiled = torch.compile(step)
    for k in range(5):
        check(compiled(made(3) + k), 2 * (total + n * k) + 1)


def operators_of_given_tensors(rank, n):
    """Operators of _c10d_functional that write given tensors or send messages: values behind wait_tensor, eagerly and compiled."""
    ops, total = torch.ops._c10d_functional, n * (n + 1) / 2
    name, near, before = dist.group.WORLD.group_name, (rank + 1) % n, (rank - 1) % n

    def gathered(x):
        out = torch.zeros(n * 2)
        y = ops.wait_tensor(ops.all_gather_into_tensor_out(x, n, name, out=out))
        return y + out

    def scattered(x):
        out = torch.zeros(2)
        assert ops.reduce_scatter_tensor_out(x.repeat(n), "sum", n, name, out=out) is out
        return ops.wait_tensor(out) * 1

    def reduced(x):
        several = [x * 1, x.repeat(3)]
        ops.all_reduce_coalesced_(several, "max", name)
        return torch.cat([ops.wait_tensor(y) for y in several])

    def sent(x):
        out = torch.zeros(2)
        first, second = (lambda: ops.isend(x, near, 3, name)), (lambda: ops.irecv(out, before, 3, name))
        for call in (first, second) if rank else (second, first):
            call()
        ops.wait_tensor(x)
        return ops.wait_tensor(out) * 1

    def batched(x):
        out = torch.zeros(2)
        for y in ops.batch_p2p_ops(["isend", "irecv"], [near, before], [4, 4], [x, out], name):
            ops.wait_tensor(y)
        return out * 1
    for call in (gathered, scattered, reduced, sent, batched):
        for function in (call, torch.compile(call)):
            for k in range(3):
                want = {"gathered": [2.0 * (r + 1 + k) for r in range(n) for _ in range(2)], "scattered": [total + k * n] * 2,
                        "reduced": [float(n + k)] * 8, "sent": [before + 1.0 + k] * 2, "batched": [before + 1.0 + k] * 2}[call.__name__]
                got = function(torch.full((2,), rank + 1.0 + k)).tolist()
                assert got == want, (call.__name__, k, got, want)
    x = torch.ones(2)
    raises(RuntimeError, "lists of 1 operations, 2 peers", lambda: ops.batch_p2p_ops(["isend"], [0, 1], [0], [x], name))
    raises(RuntimeError, "isend or irecv, not send", lambda: ops.batch_p2p_ops(["send"], [0], [0], [x], name))
    raises(RuntimeError, "is missing value for argument 'out'", lambda: ops.all_gather_into_tensor_out(x, n, name))
    raises(RuntimeError, "Unrecognized reduce_op: more", lambda: ops.all_reduce_coalesced_([x], "more", name))
    assert str(ops.all_reduce_coalesced_.default._schema) == (
        "_c10d_functional::all_reduce_coalesced_(Tensor[](a!) inputs, str reduce_op, Any group_name) -> Tensor[](a!)")
    with FakeTensorMode():
        out = torch.zeros(2 * n)
        assert ops.all_gather_into_tensor_out(torch.ones(2), n, name, out=out) is out
        assert ops.wait_tensor(out).shape == (2 * n,)


class Seen(TorchDispatchMode):
    """Notes the operators of groups."""

    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            self.names.append(func._opname)
            assert func is getattr(torch.ops.c10d, func._opname).default and any(x is dist.group.WORLD for x in args)
        return func(*args, **(kwargs or {}))


def calls_that_modes_see(rank, n):
    """Modes handle the calls of groups as operators, once each; CommDebugMode counts them."""
    def calls():
        x, out = torch.ones(n), [torch.zeros(n) for _ in range(n)]
        dist.all_reduce(x)
        assert dist.all_reduce(x, async_op=True).wait() and torch.equal(x, torch.full((n,), float(n * n)))
        dist.all_gather(out, x)
        dist.all_gather_into_tensor(torch.zeros(n * n), x)
        dist.reduce_scatter_tensor(torch.zeros(1), x)
        dist.broadcast(x, src=1)
        dist.reduce(x, 0)
        dist.all_to_all_single(torch.zeros(n), x)
        dist.scatter(x, out if rank == 0 else None)
        dist.gather(x, out if rank == 0 else None)
        dist.barrier()
        dist.recv(x, 0) if rank else dist.send(x, 1)
    want = ["allreduce_", "allreduce_", "allgather_", "_allgather_base_", "_reduce_scatter_base_", "broadcast_", "reduce_", "alltoall_base_",
            "scatter_", "gather_", "barrier", "recv_" if rank else "send"]
    with Seen() as outer, Seen() as inner:
        calls()
    assert outer.names == inner.names == want, (outer.names, inner.names)
    with CommDebugMode() as counted:
        calls()
        mesh = dist.init_device_mesh("cpu", (n,))
        distribute_tensor(torch.ones(n, 2), mesh, [Shard(0)]).full_tensor()
    counts = {str(op): count for op, count in counted.get_comm_counts().items()}
    assert {k: v for k, v in counts.items() if k.startswith("c10d.")} == {
        f"c10d.{name}": want.count(name) + (name == "scatter_") for name in want if name not in ("barrier", "send", "recv_")}, counts
    assert counts["_c10d_functional.all_gather_into_tensor"] == 1
    with FakeTensorMode():
        x = torch.ones(3)
        dist.all_reduce(x)
        dist.reduce(x, 0)
        assert x.shape == (3,)
