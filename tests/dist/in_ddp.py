"""What each rank does in test_ddp.py: functions of (rank, size)."""
import os

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.nn.parallel import DistributedDataParallel as DDP
from cresset.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = 20


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 40), nn.Tanh(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))


def data(n=48):
    g = torch.Generator().manual_seed(2)
    return torch.randn(n, 10, generator=g), torch.randint(0, 3, (n,), generator=g)


def train(model, parts, size, rank, steps=STEPS, context=None):
    """Trains on every size-th row.  Returns the mean losses over the ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data()
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rank::size]), y[rank::size])
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if size > 1:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def near(a, b, tolerance=2e-5):
    assert len(a) == len(b) and all(abs(x - y) <= tolerance * max(1, abs(y)) for x, y in zip(a, b)), (a, b)


def equal_to_one_process(rank, size):
    alone = train(net(), None, 1, 0)
    assert alone[-1] < 0.8 * alone[0]
    for how in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.001}, {"find_unused_parameters": True},
                {"static_graph": True}, {"bucket_cap_mb": 0.002, "gradient_as_bucket_view": True, "static_graph": True}):
        model = DDP(net(), **how)
        near(train(model, None, size, rank), alone)
        first = [None] * size
        dist.all_gather_object(first, [p.detach().clone() for p in model.parameters()])
        for other in first:  # the same bits at every rank
            assert all(torch.equal(a, b) for a, b in zip(other, first[0])), how
    assert model.reducer.bucket_count >= 2
    near(train(torch.compile(DDP(net())), None, size, rank), alone)
    near(train(DDP(torch.compile(net())), None, size, rank), alone)
    compiled_step(size, rank, alone)


def compiled_step(size, rank, alone):
    """A compiled function that holds forward, backward and the optimizer's step."""
    model = DDP(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = data()

    @torch.compile
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rank::size]), y[rank::size])
        loss.backward()
        optimizer.step()
        return loss.detach().clone()
    losses = []
    for _ in range(STEPS):
        mean = step()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    near(losses, alone)


def compiled_backward_overlaps(rank, size):
    """Buckets start while a compiled backward computes, with the bits of the uncompiled one; a program's hook waits for its end."""
    seen = []
    group = dist.distributed_c10d._get_default_group()

    @torch.library.custom_op("ddp_overlap::count", mutates_args=())
    def count(x: torch.Tensor) -> torch.Tensor:
        seen.append(group._get_sequence_number_for_group())
        return x.clone()

    @torch.library.custom_op("ddp_overlap::mark", mutates_args=())
    def mark(x: torch.Tensor) -> torch.Tensor:
        return x.clone()
    count.register_fake(torch.empty_like)
    mark.register_fake(torch.empty_like)
    mark.register_autograd(lambda ctx, g: count(g))

    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = nn.Linear(10, 40), nn.Sequential(nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 3))

        def forward(self, x):
            return self.rest(mark(self.first(x)))

    def losses(how, compiled, prepare):
        torch.manual_seed(1)
        model = DDP(Marked(), bucket_cap_mb=0.001, **how)
        prepare(model)
        found, starts = train(torch.compile(model) if compiled else model, None, size, rank, 6), list(seen)
        seen.clear()
        assert -1 not in starts or starts[-2:] == [starts[-2], -1], starts
        return found, starts[-1], [p.grad.clone() for p in model.parameters()]

    def stepped(model):  # code of the program sees the gradient of a parameter when the whole pass has computed it
        model.module.rest[1].weight.register_post_accumulate_grad_hook(lambda p: seen.append(-1))
    for how in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"static_graph": True}):
        before = group._get_sequence_number_for_group()
        (want, _, grads), middle = losses(how, False, lambda model: None), group._get_sequence_number_for_group()
        got, last, same = losses(how, True, lambda model: None)
        end = group._get_sequence_number_for_group()
        assert got == want and all(map(torch.equal, same, grads)), how
        # of three buckets and the mean of the losses, the first bucket has started when backward comes to the mark; the buckets of
        # a static graph have another order
        assert middle - before == end - middle and (end - last == 3 or "static_graph" in how), (how, before, middle, last, end)
    assert losses({}, True, stepped)[0] == want
    model = DDP(Marked())
    plain = torch.compile(model, disable=True)
    names = list(model.state_dict())
    assert torch.equal(plain(torch.ones(2, 10)), model(torch.ones(2, 10))) and list(model.state_dict()) == names
    assert [name for name, _ in model.named_children()] == ["module"]


def pieces_of_a_bucket(rank, size):
    """A bucket of many bytes is reduced by several calls, the first of which start before the last gradient is there."""
    from cresset.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from cresset.profiler import profile
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(1000, 1100), nn.ReLU(), nn.Linear(1100, 1000), nn.ReLU(), nn.Linear(1000, 1100))
    x = torch.randn(2 * size, 1000)
    net(x).square().mean().backward()
    alone = [p.grad.clone() for p in net.parameters()]
    for how in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}, {"hook": True}):
        hooked = how.pop("hook", False)
        model = DDP(net, **how)
        if hooked:
            model.register_comm_hook(None, allreduce_hook)
        for step in range(2):
            net.zero_grad()
            with profile() as made:
                model(x[rank::size]).square().mean().backward()
            assert all(torch.allclose(p.grad, a, rtol=1e-4, atol=1e-8) for p, a in zip(net.parameters(), alone)), (how, step)
        calls = sum(e.count for e in made.key_averages() if e.key.endswith(":all_reduce"))
        assert model.reducer.bucket_count == 2 and (hooked or calls > 2), (how, calls)
        with model.join():
            for step in range(2 if rank else 1):  # rank 0 ends earlier
                net.zero_grad()
                model(x[rank::size]).square().mean().backward()
        assert not rank or all(p.grad.abs().sum() < a.abs().sum() for p, a in zip(net.parameters(), alone)), how


def replicated_modules(rank, size):
    """replicate() of a module, or of parts that leave a rest to the whole, trains as DistributedDataParallel does."""
    from cresset.distributed._composable import replicate
    alone = train(net(), None, 1, 0, 5)
    whole, parts, some = replicate(net(), bucket_cap_mb=1), net(), net()
    for module in (parts[0], parts[2], parts):
        replicate(module)
    for model in (whole, parts):
        assert list(model.state_dict()) == list(net().state_dict())
        near(train(model, None, size, rank, 5), alone)
    replicate(some, ignored_modules=[some[0]])
    x, y = data()
    F.cross_entropy(some(x[rank::size]), y[rank::size]).backward()
    for at, alike in ((0, False), (2, True)):
        grads = [torch.empty_like(some[at].weight) for _ in range(size)]
        dist.all_gather(grads, some[at].weight.grad)
        assert torch.equal(grads[0], grads[1]) == alike


def no_sync_adds_up(rank, size):
    model, x, y = DDP(net()), *data()
    alone = net()
    for part in (x[:24], x[24:]):
        F.cross_entropy(alone(part), y[:24] if part is x[:24] else y[24:]).backward()
    with model.no_sync():
        F.cross_entropy(model(x[:24][rank::size]), y[:24][rank::size]).backward()
    before = [p.grad.clone() for p in model.parameters()]
    assert not torch.allclose(before[0], next(alone.parameters()).grad)
    F.cross_entropy(model(x[24:][rank::size]), y[24:][rank::size]).backward()
    F.cross_entropy(alone(x[:24]), y[:24])
    want = net()
    (F.cross_entropy(want(x[:24]), y[:24]) + F.cross_entropy(want(x[24:]), y[24:])).backward()
    for p, q in zip(model.parameters(), want.parameters()):
        assert torch.allclose(p.grad, q.grad, atol=1e-6)


class Branches(nn.Module):
    """Even calls use one branch, odd calls another; one parameter is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b, self.never = nn.Linear(10, 3), nn.Linear(10, 3), nn.Linear(2, 2)

    def forward(self, x, first):
        return {"out": self.a(x) if first else self.b(x)}


def unused_parameters(rank, size):
    x, y = data()
    model = DDP(Branches(), find_unused_parameters=True)
    for step in range(3):
        model.zero_grad()
        F.cross_entropy(model(x[rank::size], rank == 0)["out"], y[rank::size]).backward()
        for p in model.module.never.parameters():
            assert p.grad is None
        for p in (*model.module.a.parameters(), *model.module.b.parameters()):
            assert p.grad.abs().sum() > 0
    model = DDP(Branches(), find_unused_parameters=True)
    with model.no_sync():  # what this pass uses is used, too
        F.cross_entropy(model(x[rank::size], rank == 0)["out"], y[rank::size]).backward()
    F.cross_entropy(model(x[rank::size], rank != 0)["out"], y[rank::size]).backward()
    grads = [None] * size
    dist.all_gather_object(grads, [p.grad for p in (*model.module.a.parameters(), *model.module.b.parameters())])
    assert all(torch.equal(a, b) for other in grads for a, b in zip(other, grads[0])) and model.module.never.weight.grad is None
    try:
        model._set_static_graph()
    except RuntimeError as error:
        assert "before training loop starts" in str(error)
    else:
        raise AssertionError("no error")
    model = DDP(Branches())
    F.cross_entropy(model(x[rank::size], True)["out"], y[rank::size]).backward()
    assert "has_error" not in model._get_ddp_logging_data()
    try:
        model(x[rank::size], True)
    except RuntimeError as error:
        facts = model._get_ddp_logging_data()
        assert facts["has_error"] == 1 and facts["error"] == str(error)
        assert "Expected to have finished reduction in the prior iteration" in str(error)
        assert "did not receive grad for rank" in str(error)
    else:
        raise AssertionError("unused parameters were not reported")


class TwoHeads(nn.Module):
    """Returns two outputs; a loss may use one of them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.body, self.a, self.b = nn.Linear(10, 5), nn.Linear(5, 3), nn.Linear(5, 2)

    def forward(self, x):
        h = self.body(x)
        return {"a": self.a(h), "rest": [self.b(h), len(x)]}


def outputs_that_the_loss_leaves_out(rank, size):
    """Gradients are averaged over the ranks all the same; the loss of a rank may use another output than that of the others."""
    x, y = data()
    part = slice(rank, None, size)
    for views in (False, True):
        model, alone = DDP(TwoHeads(), find_unused_parameters=True, gradient_as_bucket_view=views), TwoHeads()
        for step in range(2):
            for m in (model, alone):
                m.zero_grad()
            F.cross_entropy(model(x[part])["a"], y[part]).backward()
            F.cross_entropy(alone(x)["a"], y).backward()
            assert all(torch.allclose(p.grad, q.grad, atol=1e-6) for p, q in zip(model.module.a.parameters(), alone.a.parameters()))
            assert torch.allclose(model.module.body.weight.grad, alone.body.weight.grad, atol=1e-6)
            assert model.module.b.weight.grad is None  # no rank's loss used it
        model.zero_grad()
        out = model(x[part])
        (out["a"] if rank == 0 else out["rest"][0]).sum().backward()
        grads = [None] * size
        dist.all_gather_object(grads, [p.grad for p in model.parameters()])
        assert all(g is not None and torch.equal(g, first) for other in grads for g, first in zip(other, grads[0]))
    try:
        (out["rest"][0] if rank == 0 else out["a"]).sum().backward()
    except RuntimeError as error:
        assert "Expected to mark a variable ready only once" in str(error)
    else:
        raise AssertionError("a second backward went by the ranks' averages")


def groups_of_programs(rank, size):
    """A group of a class whose calls are those of another group: with works that have futures, and with works that wait."""
    class Futures(dist.ProcessGroup):
        def __init__(self, inner):
            super().__init__(inner.rank(), inner.size())
            self.inner, self.calls = inner, []

        def getBackendName(self):
            return "own"

        def broadcast(self, tensors, opts):
            return self.inner.broadcast(tensors, opts)

        def allgather(self, outputs, inputs, opts):
            return self.inner.allgather(outputs, inputs, opts)

        def allreduce(self, tensors, opts):
            self.calls.append(tensors[0].numel())
            return self.inner.allreduce(tensors, opts)

    class Waits(Futures):
        def allreduce(self, tensors, opts):
            work = super().allreduce(tensors, opts)

            class Made(dist.Work):
                def wait(self, timeout):
                    return work.wait(timeout)
            return Made()
    alone = train(net(), None, 1, 0, 5)
    for kind in (Futures, Waits):
        group = kind(dist.group.WORLD)
        try:
            for how in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
                near(train(DDP(net(), process_group=group, bucket_cap_mb=0.001, **how), None, size, rank, 5), alone)
                assert len(group.calls) >= 10, (how, group.calls)
                group.calls.clear()
        finally:
            dist.distributed_c10d._forget(group)


def hooks(rank, size):
    from cresset.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook, debugging_hooks
    alone = train(net(), None, 1, 0)
    for hook, tolerance in ((default_hooks.allreduce_hook, 2e-5), (default_hooks.fp16_compress_hook, 2e-2),
                            (default_hooks.bf16_compress_hook, 1e-1)):
        model = DDP(net())
        model.register_comm_hook(None, hook)
        near(train(model, None, size, rank), alone, tolerance)
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        model = DDP(net())
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=3)
        model.register_comm_hook(state, hook)
        losses = train(model, None, size, rank)
        assert losses[-1] < 0.9 * losses[0] and state.compression_stats()[0] > 1
        every = [None] * size
        dist.all_gather_object(every, next(model.parameters()).detach())
        assert all(torch.equal(e, every[0]) for e in every)
    model = DDP(net())
    model.register_comm_hook(None, debugging_hooks.noop_hook)
    x, y = data()
    F.cross_entropy(model(x[rank::size]), y[rank::size]).backward()
    grads = [None] * size
    dist.all_gather_object(grads, next(model.parameters()).grad)
    assert not torch.equal(grads[0], grads[1])

    def fails(state, bucket):
        raise ValueError("no hook today")
    model = DDP(net())
    model.register_comm_hook(None, fails)
    try:
        F.cross_entropy(model(x), y).backward()
    except ValueError as error:
        assert "no hook today" in str(error)
    else:
        raise AssertionError("no error")


def buffers_and_states(rank, size):
    torch.manual_seed(10 + rank)  # other weights and buffers at each rank: rank 0's count
    model = DDP(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    states = [None] * size
    dist.all_gather_object(states, {k: v.clone() for k, v in model.state_dict().items()})
    assert all(torch.equal(states[0][k], s[k]) for s in states for k in s) and "module.0.weight" in states[0]
    x = torch.randn(8, 4) + rank
    model(x).sum().backward()
    model(x)
    dist.all_gather_object(states, model.module[1].running_mean.clone())
    assert not torch.equal(states[0], states[1])  # rank 0's come with the next forward
    plain = nn.Linear(4, 4)
    plain.register_buffer("turned", (torch.arange(6.) + rank).view(2, 3).t())
    plain.register_buffer("count", torch.tensor(rank))
    plain.register_buffer("short", torch.full((3,), rank + 1, dtype=torch.bfloat16))
    model = DDP(plain, init_sync=False)
    model(torch.ones(1, 4))
    assert plain.turned.tolist() == torch.arange(6.).view(2, 3).t().tolist() and plain.turned.stride() == (1, 3)
    assert plain.count.item() == 0 and plain.short.tolist() == [1, 1, 1]
    for call, words in (
            (lambda: DDP(nn.Linear(2, 2 + (rank == 1))), "appears not to match sizes"),
            (lambda: DDP(nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + (rank == 1))])), "expects same model"),
            (lambda: DDP(nn.ReLU()), "doesn't have any parameter"),
            (lambda: DDP(nn.Linear(2, 2), device_ids=[0]), "only work with")):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def sampler_and_join(rank, size):
    x, y = data(50)
    sampler = DistributedSampler(TensorDataset(x, y), shuffle=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=5, sampler=sampler)
    sampler.set_epoch(1)
    seen = [None] * size
    dist.all_gather_object(seen, list(sampler))
    assert sorted({i for part in seen for i in part}) == list(range(50))
    model = DDP(net())
    with model.join():
        for i in range(3 + rank):  # uneven
            F.cross_entropy(model(x[:8]), y[:8]).backward()
    weights = [None] * size
    dist.all_gather_object(weights, next(model.parameters()).detach().clone())
    assert all(torch.equal(w, weights[0]) for w in weights)
    assert sum(len(a) for a, _ in loader) == len(sampler)


def join_divides_by_the_ranks_that_train(rank, size):
    """With divide_by_initial_world_size=False; sums of half types as well."""
    x, _ = data()
    for dtype in (torch.float32, torch.bfloat16):
        for all_ranks in (True, False):
            torch.manual_seed(5)
            model, seen = DDP(nn.Linear(10, 1, bias=False).to(dtype)), []
            with model.join(divide_by_initial_world_size=all_ranks):
                for i in range(1 + rank):
                    model.zero_grad()
                    model(x[i:i + 1].to(dtype)).sum().backward()
                    seen.append(model.module.weight.grad.clone())
            for i, grad in enumerate(seen):  # size - i ranks train in iteration i, all with the row i
                mean = x[i:i + 1].to(dtype) * ((size - i) / size if all_ranks else 1)
                assert torch.allclose(grad, mean, rtol=2e-2 if dtype is torch.bfloat16 else 1e-6), (dtype, all_ranks, i)
    model.zero_grad()  # outside of the context all ranks count again
    model(x[:1].to(dtype)).sum().backward()
    assert torch.allclose(model.module.weight.grad, x[:1].to(dtype), rtol=2e-2)


def optimizers(rank, size):
    """States divided among the ranks give the same weights; local averages bring ranks together."""
    from cresset.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from cresset.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
    x, y = data()
    weights = []

    def grouped(parameters):
        first, *rest = parameters
        made = ZeroRedundancyOptimizer([first], torch.optim.Adam, lr=0.01)
        made.add_param_group({"params": rest})
        assert [len(g["params"]) for g in made.param_groups] == [1, 5] and made.param_groups[1]["lr"] == 0.01
        return made
    for make in (lambda p: torch.optim.Adam(p, lr=0.01), grouped,
                 lambda p: ZeroRedundancyOptimizer(p, torch.optim.Adam, lr=0.01)):
        model = DDP(net())
        optimizer = make(model.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rank::size]), y[rank::size]).backward()
            optimizer.step()
        weights.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for other in weights for a, b in zip(other, weights[0]))
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        plain = torch.optim.Adam(net().parameters(), lr=0.01)
        plain.load_state_dict(optimizer.state_dict())
        assert len(plain.state) == 6
    torch.manual_seed(rank)
    model = nn.Linear(3, 3)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.0), PeriodicModelAverager(2))
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    every = [None] * size
    dist.all_gather_object(every, model.weight.detach().clone())
    assert all(torch.equal(w, every[0]) for w in every)


def sparse_gradients(rank, size):
    """Rows of embeddings are averaged as indices and values; uneven counts, unused rows, and a rank without inputs."""
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(5)
            self.words, self.bags = nn.Embedding(20, 4, sparse=True), nn.EmbeddingBag(20, 4, sparse=True)
            self.out = nn.Linear(4, 1)

        def forward(self, x):
            return self.out(self.words(x) + self.bags(x.view(-1, 1)))
    x = torch.tensor([1, 3, 3, 7, 2, 9])
    for how in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        alone, model = Words(), DDP(Words(), **how)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (alone, model)]
        for step in range(3):
            parts = [x[:1 + step], x[1 + step:]] + [x[:0]] * (size - 2)
            for optimizer in optimizers:
                optimizer.zero_grad()
            sum(alone(part).sum() for part in parts).div(size).backward()
            model(parts[rank]).sum().backward()
            grad = model.module.words.weight.grad
            assert grad.is_sparse and grad._nnz() == len(x)
            for optimizer in optimizers:
                optimizer.step()
        for p, q in zip(model.parameters(), alone.parameters()):
            assert torch.allclose(p, q, atol=1e-6)
    with model.join():
        for _ in range(2 + rank):
            model(x).sum().backward()
    model = DDP(nn.Sequential(nn.Embedding(4, 2, sparse=True), nn.Linear(2, 2)))
    model.module[0].sparse = False
    try:
        model(x[:3] % 4).sum().backward()
    except RuntimeError as error:
        assert "has a dense one" in str(error), error
    else:
        raise AssertionError("no error")


def mixed_precision(rank, size):
    from cresset.nn.parallel.distributed import _MixedPrecision
    alone, seen = train(net(), None, 1, 0), []

    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            seen.append((x.dtype, self.net[0].weight.dtype, self.b.dtype))
            return self.net(x).float()
    how = _MixedPrecision(torch.bfloat16, torch.float32, torch.float16)
    model = DDP(Seen(), mixed_precision=how)
    near(train(model, None, size, rank), alone, 0.1)
    assert set(seen) == {(torch.bfloat16, torch.bfloat16, torch.float16)}
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in model.parameters())
    near(train(DDP(net(), mixed_precision=_MixedPrecision(reduce_dtype=torch.float16)), None, size, rank), alone, 2e-2)


def delayed_parameters(rank, size):
    alone, module = train(net(), None, 1, 0), net()
    delayed = [(n, p) for n, p in module.named_parameters() if n.startswith(("2.", "4."))]
    model = DDP(module, delay_all_reduce_named_params=delayed, param_to_hook_all_reduce=module[0].weight)
    near(train(model, None, size, rank), alone)
    assert sum(len(model.reducer.members(i)) for i in range(model.reducer.bucket_count)) == 2


def flags_of_sparse_gradients(rank, size):
    class Unsure:
        def __bool__(self):
            raise KeyError("unsure")

    group, weight = dist.group.WORLD, (torch.ones(2, requires_grad=True),)
    handle = group._by_device.get("cpu", group._handle)
    for flags, kind in (((Unsure(),), KeyError), ((), ValueError), ((False, False), ValueError)):
        try:
            torch._C._comm_reducer(handle, weight, flags, 1 << 20, 1 << 20, False, False, False)
        except kind:
            continue
        raise AssertionError(f"no {kind.__name__}")


def arguments_and_methods(rank, size):
    for part in (flags_of_sparse_gradients, sparse_gradients, mixed_precision, delayed_parameters, no_sync_adds_up, pieces_of_a_bucket, replicated_modules, unused_parameters, outputs_that_the_loss_leaves_out, groups_of_programs, hooks,
                 buffers_and_states, sampler_and_join, join_divides_by_the_ranks_that_train, optimizers):
        part(rank, size)


class Masked(nn.Module):
    """Convolutions, batch statistics, random masks, and a parameter that only some parts use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Sequential(nn.Conv1d(1, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(),
                                  nn.Linear(48, 33), nn.Tanh(), nn.Linear(33, 3))
        self.some, self.never = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))

    def forward(self, x):
        y = self.body(x.unsqueeze(1))
        return y * self.some if x.sum() > 0 else y


def deterministic_ranks(rank, size):
    """Writes the bytes of losses, gradients, weights and buffers of some steps: test_ddp.py compares them between sizes."""
    count = int(os.environ["PARTS"])
    torch.manual_seed(7 if rank == 0 else 100 + rank)
    model = DDP(Masked(), deterministic="ranks", parts=count)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x, y = data(count * 6)
    whole = []
    for step in range(4):
        rows = slice(rank * len(x) // size, (rank + 1) * len(x) // size)
        optimizer.zero_grad()
        losses, seen = [], 0
        for px, py in model.parts(x[rows], y[rows]):
            losses.append(F.cross_entropy(model(px), py))
            losses[-1].backward()
            seen += len(px)
        assert seen == rows.stop - rows.start and len(losses) == count // size
        assert model.module.never.grad is None
        whole += [model.average_of_parts(losses), *(p.grad for p in model.parameters() if p.grad is not None)]
        optimizer.step()
    assert model.module.body[1].num_batches_tracked == 4
    whole += model.state_dict().values()
    with open(os.environ["BITS"] + f".{size}", "ab" if rank else "wb") as out:
        if rank == 0:
            for t in whole:
                out.write(t.detach().numpy().tobytes())
    digests = [None] * size
    dist.all_gather_object(digests, [t.detach().clone() for t in whole])
    assert all(torch.equal(a, b) for other in digests for a, b in zip(other, digests[0]))
    for call, kind, words in (
            (lambda: model(x), RuntimeError, "called in the parts of a batch"),
            (lambda: list(model.parts(x)), RuntimeError, "gradients must be None"),
            (lambda: DDP(net(), deterministic="ranks", parts=size + 1 if size > 1 else 0), ValueError, "do not divide"),
            (lambda: DDP(net(), deterministic="always"), ValueError, "deterministic must be"),
            (lambda: DDP(net()).parts(x), RuntimeError, "needs DistributedDataParallel")):
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def a_rank_dies_in_backward(rank, size):
    model, x, y = DDP(net(), bucket_cap_mb=0.001), *data()
    F.cross_entropy(model(x), y).backward()
    if rank == 1:
        os.kill(os.getpid(), 9)
    try:
        F.cross_entropy(model(x), y).backward()
        F.cross_entropy(model(x), y).backward()
    except dist.DistBackendError as error:
        assert "rank 1 (process" in str(error) and "has ended" in str(error), error
    else:
        raise AssertionError("no error")
    os._exit(0)
