"""What each rank does in test_optim.py: functions of (rank, size)."""
from datetime import timedelta

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.distributed._shard.sharding_spec import ChunkShardingSpec
from cresset.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step, hook_with_zero_step_interleaved
from cresset.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from cresset.distributed.algorithms.join import Join
from cresset.distributed.optim import ZeroRedundancyOptimizer
from cresset.distributed.optim.zero_redundancy_optimizer import _broadcast_object
from cresset.nn.parallel import DistributedDataParallel as DDP

X = torch.linspace(-1, 1, 240).sin().reshape(24, 10)
Y = torch.arange(24) % 3


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 40), nn.Tanh(), nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, 3))


def backward(model, rank, size):
    loss = F.cross_entropy(model(X[rank::size]), Y[rank::size])
    loss.backward()
    return loss.item()


def train(model, optimizer, rank, size, steps=8, updates=lambda step: True):
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        losses.append(backward(model, rank, size))
        if updates(step):
            optimizer.step()
    return losses


def near(a, b, tolerance=1e-5):
    assert len(a) == len(b) and all(abs(x - y) <= tolerance * max(1, abs(y)) for x, y in zip(a, b)), (a, b)


KINDS = [(torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.01}), (torch.optim.AdamW, {"lr": 0.01})]


def shares_equal_the_whole(rank, size):
    for kind, options in KINDS:
        whole_model = DDP(net())
        whole = kind(whole_model.parameters(), **options)
        wanted = train(whole_model, whole, rank, size)
        for views in (False, True):
            model = DDP(net())
            zero = ZeroRedundancyOptimizer(model.parameters(), kind, parameters_as_bucket_view=views, **options)
            near(train(model, zero, rank, size), wanted)
            assert 0 < len(zero.optim.state) < len(list(model.parameters()))
            zero.consolidate_state_dict(to=0)
            if rank:
                try:
                    zero.state_dict()
                    raise AssertionError("a state on rank 1")
                except RuntimeError as error:
                    assert "has not been consolidated" in str(error)
            state = _broadcast_object(zero.state_dict() if rank == 0 else None, 0)
            for i, own in whole.state_dict()["state"].items():
                for key, value in own.items():
                    torch.testing.assert_close(state["state"][i][key], value)
            again = ZeroRedundancyOptimizer(model.parameters(), kind, **options)
            again.load_state_dict(state)
            near(train(model, again, rank, size, 3), train(whole_model, whole, rank, size, 3))
            whole_model = DDP(net())  # as it was when `model` began
            whole = kind(whole_model.parameters(), **options)
            train(whole_model, whole, rank, size)


def steps_during_backward(rank, size):
    """Updates begin with the third backward: the buckets are made anew in the second one, and collected there."""
    for kind, options in KINDS[:2]:
        for make in (hook_with_zero_step, hook_with_zero_step_interleaved):
            for divide in (False, True) if kind is torch.optim.SGD else (True,):
                plain = DDP(net(), bucket_cap_mb=0.001)
                wanted = train(plain, kind(plain.parameters(), **options), rank, size, updates=lambda step: step >= 2)
                model = DDP(net(), bucket_cap_mb=0.001)
                zero = ZeroRedundancyOptimizer(model.parameters(), kind, overlap_with_ddp=True, **options)
                model.register_comm_hook(None, make(allreduce_hook, model, zero, shard_buckets=divide))
                losses = []
                for step in range(8):
                    model.zero_grad()
                    losses.append(backward(model, rank, size))
                    assert zero.step() is None
                assert model.reducer.bucket_count >= 2
                near(losses, wanted)
                assert losses[-1] < losses[0]
                assert 0 < len(zero.optim.state) < 6
    half = DDP(net())
    zero = ZeroRedundancyOptimizer(half.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.1)
    half.register_comm_hook(None, hook_with_zero_step(fp16_compress_hook, half, zero))
    losses = [backward(half, rank, size) for _ in range(6) if not half.zero_grad()]
    assert losses[-1] < losses[0] and len(zero.optim.param_groups[0]["params"]) == 6 * (rank == 0)  # the only bucket is rank 0's


def uneven_inputs(rank, size):
    """Rank 1 has fewer batches: its share is updated with the others' gradients."""
    model = DDP(net())
    zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, zero]):
        for _ in range(5 - 2 * rank):
            zero.zero_grad()
            backward(model, rank, size)
            zero.step()
    every = [None] * size
    dist.all_gather_object(every, [p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(every[0], every[1]))
    start = net()
    assert all(not torch.equal(a, b) for a, b in zip(every[0], start.parameters()))


def divided_tensors(rank, size):
    """Rank 1 has the tensor; the second chunk is smaller.  Placements are in another order than the ranks."""
    for places in (["rank:0/cpu", "rank:1/cpu"], ["rank:1/cpu", "rank:0/cpu"]):
        for dim in (0, 1, -1):
            whole = torch.arange(15.0, requires_grad=True).reshape(3, 5)
            spec = ChunkShardingSpec(dim, places)
            made = spec.shard(whole if rank == 1 else torch.zeros(3, 5), src_rank=1)
            wanted = whole.detach().chunk(2, dim)[places.index(f"rank:{rank}/cpu")]
            own = made.local_tensor()
            assert torch.equal(own, wanted) and own.is_leaf and own.requires_grad == (rank == 1) and own.is_contiguous()
            assert made.sharding_spec() is spec and made.size() == whole.size()
            out = torch.empty(3, 5) if rank == 0 else None
            made.gather(0, out)
            assert rank or torch.equal(out, whole)


def compared_calls(rank, size):
    """With DETAIL a group names calls that differ, and stays usable."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group()
    assert type(group).__name__ == "_ProcessGroupWrapper" and group.size() == size
    x = torch.ones(20, 10 if rank else 2)
    for call, words in ((lambda: dist.all_reduce(x, group=group), ["ALLREDUCE", "[20, 10]", "[20, 2]", "Tensor shapes"]),
                        (lambda: dist.barrier(group=group) if rank else dist.broadcast(x, 0, group=group),
                         ["BARRIER", "BROADCAST", "Op type"])):
        try:
            call()
            raise AssertionError("no error")
        except RuntimeError as error:
            assert all(word in str(error) for word in [*words, "SequenceNumber", "Collectives differ in the following"]), error
    for how in (lambda t: dist.all_reduce(t, group=group), lambda t: dist.all_reduce_coalesced([t], group=group)):
        same = torch.full((3,), float(rank + 1))
        how(same)
        assert same.tolist() == [3.0] * 3
    got = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(got, torch.full((2,), float(rank)), group=group)
    assert [t.tolist() for t in got] == [[float(r)] * 2 for r in range(size)]
    works = [dist.all_reduce(torch.ones(1), group=group, async_op=True) for _ in range(20)]
    assert all(w.wait() for w in works)
    with dist._coalescing_manager(group):
        dist.all_reduce(same, group=group)
    assert same.tolist() == [6.0] * 3
    model = DDP(net(), process_group=group)
    backward(model, rank, size)
    assert model.module[0].weight.grad.abs().sum() > 0
    late = dist.new_group(timeout=timedelta(seconds=1))
    if rank != 1:
        try:
            late.allreduce([x])
            raise AssertionError("no error")
        except RuntimeError as error:
            assert "Ranks 1 failed to pass monitoredBarrier" in str(error) and "ALLREDUCE" in str(error), error
    dist.set_debug_level(dist.DebugLevel.OFF)
