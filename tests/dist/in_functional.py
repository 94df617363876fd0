"""What each rank does in test_functional.py: functions of (rank, size)."""
import cresset as torch
import cresset.distributed as dist
import cresset.distributed._functional_collectives as fc
import cresset.distributed.nn.functional as dnn


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
            (lambda: fc.all_reduce(torch.ones(1), "median", dist.group.WORLD), ValueError, "Unknown reduce operation: median"),
            (lambda: op.all_reduce(torch.ones(1), "sum", "no such group"), RuntimeError, "no such group"),
            (lambda: fc.reduce_scatter_tensor(torch.ones(n + 1), "sum", 0, dist.group.WORLD), AssertionError, "multiple of group_size"),
            (lambda: fc.all_reduce(torch.ones(1, requires_grad=True), "max", dist.group.WORLD).sum().backward(), RuntimeError,
             "'max' has no derivative")):
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    meta = op.all_gather_into_tensor(torch.empty(2, 3, device="meta"), 8, "0")
    assert meta.shape == (16, 3) and meta.device.type == "meta"
