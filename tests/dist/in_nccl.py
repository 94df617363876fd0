"""What each rank does in test_nccl.py: functions of (rank, size), a GPU for each rank."""
import os
import threading
import time

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.nn.parallel import DistributedDataParallel as DDP

R = dist.ReduceOp


def here(rank):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def reductions(rank, size):
    cuda = here(rank)
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for op, whole in ((R.SUM, lambda x: x.sum(0)), (R.PRODUCT, lambda x: x.prod(0)), (R.MIN, lambda x: x.amin(0)),
                          (R.MAX, lambda x: x.amax(0))):
            table = torch.stack([(torch.arange(6) + r) % 3 + 1 for r in range(size)])
            x = table[rank].to(dtype).to(cuda)
            dist.all_reduce(x, op)
            assert x.dtype == dtype and x.cpu().double().tolist() == whole(table).double().tolist(), (dtype, op, x)
    x = torch.full((5,), float(rank), device=cuda)
    dist.all_reduce(x, R.AVG)
    assert x.tolist() == [sum(range(size)) / size] * 5
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.ones(3, device=cuda, dtype=dtype)
        dist.all_reduce(x, dist._make_nccl_premul_sum(0.25))
        assert x.tolist() == [size * 0.25] * 3
    b = torch.tensor([rank == 0, False], device=cuda)
    dist.all_reduce(b)
    assert b.tolist() == [True, False]
    x = torch.complex(torch.ones(3), torch.full((3,), float(rank))).to(cuda)
    dist.all_reduce(x)
    assert x.cpu().tolist() == [complex(size, sum(range(size)))] * 3
    x = torch.full((4, 3), float(rank), device=cuda).t()  # not contiguous
    dist.all_reduce(x)
    assert x.shape == (3, 4) and x.sum().item() == 12 * sum(range(size))
    x = torch.full((2,), float(rank), device=cuda)
    dist.reduce(x, size - 1)
    assert x[0].item() == (sum(range(size)) if rank == size - 1 else rank)
    for n in (1, 1000, 3_000_000):
        x = torch.full((n,), float(rank + 1), device=cuda) * 2  # a kernel is under way
        dist.all_reduce(x)
        y = x + 1
        assert y[0].item() == y[-1].item() == size * (size + 1) + 1


def movements(rank, size):
    cuda = here(rank)
    parts = [torch.zeros(r + 1, device=cuda) for r in range(size)]
    dist.all_gather(parts, torch.full((rank + 1,), float(rank), device=cuda))
    assert [p.tolist() for p in parts] == [[r] * (r + 1) for r in range(size)]
    whole = torch.zeros(size, 3, dtype=torch.int16, device=cuda)
    dist.all_gather_into_tensor(whole, torch.full((3,), rank, dtype=torch.int16, device=cuda))
    assert whole[:, 0].tolist() == list(range(size))
    own = torch.zeros(5, device=cuda)
    dist.reduce_scatter_tensor(own, torch.arange(5.0 * size, device=cuda))
    assert own.tolist() == [size * (5 * rank + i) for i in range(5)]
    own = torch.zeros(2, device=cuda)
    dist.reduce_scatter(own, [torch.full((2,), float(r + rank), device=cuda) for r in range(size)])
    assert own[0].item() == size * rank + sum(range(size))
    out = [torch.zeros(r + 1, device=cuda) for r in range(size)]
    dist.all_to_all(out, [torch.full((rank + 1,), float(rank * 10 + r), device=cuda) for r in range(size)])
    assert [o[0].item() for o in out] == [r * 10 + rank for r in range(size)]
    got = [torch.zeros(2, device=cuda) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank), device=cuda), got, dst=0)
    assert got is None or [t[0].item() for t in got] == list(range(size))
    x = torch.zeros(3, device=cuda)
    dist.scatter(x, [torch.full((3,), float(r), device=cuda) for r in range(size)] if rank == 0 else None)
    assert x[0].item() == rank
    dist.broadcast(x, size - 1)
    assert x[0].item() == size - 1
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(size))
    box = ["a", {1: 2}] if rank == 0 else [None, None]
    dist.broadcast_object_list(box, 0)
    assert box == ["a", {1: 2}]
    got = torch.zeros(3, device=cuda)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((3,), float(rank), device=cuda), (rank + 1) % size),
                                    dist.P2POp(dist.irecv, got, (rank - 1) % size)])
    for work in works:
        work.wait()
    assert got[0].item() == (rank - 1) % size
    if rank < 2:
        if rank == 0:
            dist.send(got + 7, 1)
        else:
            dist.recv(got, 0)
            assert got[0].item() == size - 1 + 7
    work = dist.all_reduce(got, async_op=True)
    work.wait()
    dist.barrier()
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(1, device=cuda)
        dist.all_reduce(x, group=pair)
        assert x.item() == 2


def host_goes_on(rank, size):
    """A program that waits for a call goes on, and its stream waits: ranks other than 0 call only when rank 0 has gone on.

    The first round of calls waits for the other ranks: NCCL connects for each algorithm and size, CUDA loads kernels."""
    cuda = here(rank)
    store = dist.distributed_c10d._get_default_store()

    def calls(key):
        x = torch.full((100_000,), float(rank + 1), device=cuda)
        if rank:
            store.wait([key])
        works = [dist.all_reduce(x, async_op=True) for _ in range(3)]
        for work in works:
            work.wait()
        y = x + 1
        dist.broadcast(y, 0)
        return works, y
    store.set("first", "1")
    first = calls("first")[1].sum().item()
    dist.barrier()
    works, y = calls("went on")
    if rank == 0:
        assert not works[0].is_completed()
        store.set("went on", "1")
    del works
    assert y[0].item() == y[-1].item() == size * (size + 1) / 2 * size ** 2 + 1
    assert y.sum().item() == first


def memory_of_calls(rank, size):
    """A call in progress for which a stream waits holds no memory; another stream's memory is reused after the call.

    Ranks other than 0 call only when rank 0 has looked.  The first round connects, as in host_goes_on."""
    cuda = here(rank)
    store, used = dist.distributed_c10d._get_default_store(), torch.cuda.memory_allocated
    n = 1 << 18

    def gathers(key, stream=None):
        """Calls that the program has waited for, the first in a stream, and forgotten."""
        if rank:
            store.wait([key])
        for wait in (True, False):
            part, every = torch.full((n,), float(rank), device=cuda), torch.empty(size * n, device=cuda)
            work = dist.all_gather_into_tensor(every, part, async_op=wait)
            if wait:
                with torch.cuda.stream(stream):
                    work.wait()
    store.set("first", "1")
    gathers("first")
    torch.cuda.synchronize()
    dist.barrier()
    before = used()
    gathers("second")
    if rank == 0:
        assert used() == before, (used(), before)
        store.set("second", "1")
    dist.barrier()
    side = torch.cuda.Stream()
    gathers("third", side)
    if rank == 0:
        made = [torch.zeros(size * n, device=cuda) for _ in range(4)]
        store.set("third", "1")
        side.synchronize()
        torch.cuda.synchronize()
        assert not any(x.any() for x in made)
    dist.barrier()


def sharded_memory(rank, size):
    """fully_shard has the whole parameters of few modules at once, also while the graph lives after backward."""
    from cresset.distributed.fsdp import fully_shard
    cuda = here(rank)
    torch.manual_seed(1)
    used, layers, wide = torch.cuda.memory_allocated, 6, 256
    net = nn.Sequential(*[nn.Linear(wide, wide, bias=False) for _ in range(layers)]).to(cuda)
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    x, whole = torch.ones(2, wide, device=cuda), 4 * wide * wide
    for _ in range(2):
        before = used()
        loss = net(x).square().sum()
        assert used() - before < 2.5 * whole, (used() - before) / whole
        loss.backward(retain_graph=True)
        torch.cuda.synchronize()
        assert used() - before < (layers / size + 1.5) * whole, (used() - before) / whole
        have = [p.grad.full_tensor().clone() for p in net.parameters()]
        loss.backward()
        assert all(torch.allclose(2 * h, p.grad.full_tensor()) and h.any() for h, p in zip(have, net.parameters()))
        del have
        net.zero_grad()
    x = torch.ones(2, wide, device=cuda, requires_grad=True)  # a backward that has a graph keeps the whole parameters

    def penalty(model):
        g, = torch.autograd.grad(model(x).sin().sum(), x, create_graph=True)
        g.square().sum().backward()
        return [p.grad for p in model.parameters()]
    alone = nn.Sequential(*[nn.Linear(wide, wide, bias=False) for _ in range(layers)]).to(cuda)
    for p, whole in zip(alone.parameters(), [p.full_tensor() for p in net.parameters()]):
        p.data.copy_(whole)
    for have, want in zip(penalty(net), penalty(alone)):
        assert torch.allclose(have.full_tensor(), want, rtol=1e-4, atol=1e-7) and want.any()


def training(rank, size):
    """Losses of one process that has the whole batch."""
    cuda = here(rank)
    torch.manual_seed(1)
    x, y = torch.randn(8 * size, 10), torch.randint(0, 3, (8 * size,))

    def net():
        torch.manual_seed(2 + (rank if size > 1 else 0))
        return nn.Sequential(nn.Linear(10, 40), nn.Tanh(), nn.Linear(40, 3))

    def train(model, a, b):
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses
    torch.manual_seed(2)
    alone = train(nn.Sequential(nn.Linear(10, 40), nn.Tanh(), nn.Linear(40, 3)), x, y)
    for how in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.001}, {"find_unused_parameters": True},
                {"static_graph": True}):
        model = DDP(net().to(cuda), device_ids=[cuda.index], **how)
        losses = train(model, x[rank::size].to(cuda), y[rank::size].to(cuda))
        mean = torch.stack(losses)
        dist.all_reduce(mean, R.AVG)
        assert torch.allclose(mean.cpu(), torch.stack(alone), atol=1e-4), (how, mean, alone)
        every = [torch.empty_like(next(model.parameters())) for _ in range(size)]
        dist.all_gather(every, next(model.parameters()).detach())
        assert all(torch.equal(e, every[0]) for e in every)


def refusals(rank, size):
    cuda = here(rank)
    for call, kind, words in (
            (lambda: dist.all_reduce(torch.ones(2)), RuntimeError, "No backend type associated with device type cpu"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16, device=cuda)), ValueError, "does not reduce int16"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64, device=cuda), R.BAND), ValueError, "ReduceOp.BAND"),
            (lambda: dist.recv(torch.ones(2, device=cuda)), ValueError, "does not support recvAnysource"),
            (lambda: dist.broadcast(torch.ones(2, device=cuda), size), ValueError, "is not in a group")):
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def a_rank_dies(rank, size):
    cuda = here(rank)
    x = torch.ones(100, device=cuda)
    dist.all_reduce(x)
    x.sum().item()
    if rank == 1:
        os.kill(os.getpid(), 9)
    started = time.monotonic()
    try:
        for _ in range(3):
            dist.all_reduce(x)
            x.sum().item()
    except dist.DistBackendError as error:
        assert "rank 1 (process" in str(error) and "has ended" in str(error), error
    else:
        raise AssertionError("no error")
    assert (torch.ones(2, device=cuda) * 2).tolist() == [2, 2]  # the device is usable
    print(f"rank {rank}: the error came after {time.monotonic() - started:.2f} s", flush=True)
    os._exit(0)


def closed_while_connecting(rank, size):
    """Another thread of rank 0 closes the group while its first call waits for the others to connect."""
    cuda = here(rank)
    closing = threading.Timer(0.5, dist.group.WORLD.abort)
    if rank:
        time.sleep(1.5)
    closing.start()
    try:
        work = dist.all_reduce(torch.ones(3, device=cuda), async_op=True)
        closing.join()
        work.wait()
        torch.cuda.synchronize()
    except dist.DistBackendError as error:
        assert rank or "the group was closed" in str(error), error
    else:
        assert rank, "no error"
    assert (torch.ones(2, device=cuda) * 2).tolist() == [2, 2]  # the device is usable


def calls_that_differ(rank, size):
    """With the level DETAIL calls are compared before they start: the errors name ranks, calls, and lines."""
    cuda = here(rank)
    store = dist.TCPStore("127.0.0.1", int(os.environ["RANKS_PORT"]), None, False)
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    x = torch.ones(100, device=cuda)
    wrong = {"kind": lambda: dist.broadcast(x, 0), "size": lambda: dist.all_reduce(x[:99]), "dtype": lambda: dist.all_reduce(x.int()),
             "operation": lambda: dist.all_reduce(x, R.MAX), "order": lambda: (dist.barrier(), dist.all_reduce(x))}
    for name, call in wrong.items():
        dist.destroy_process_group()
        dist.init_process_group("nccl", store=dist.PrefixStore(name, store), rank=rank, world_size=size)
        parts = [torch.empty(2, device=cuda) for _ in range(size)]
        dist.all_gather(parts, torch.full((2,), float(rank), device=cuda))
        if rank < 2:  # messages are not compared
            dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        dist.all_reduce(x)
        assert [p[0].item() for p in parts] == list(range(size)), name
        try:
            call() if rank == 1 else dist.all_reduce(x)
        except dist.DistBackendError as error:
            assert "calls differ" in str(error) and "rank 1 called" in str(error) and "in_nccl.py:" in str(error), error
        else:
            raise AssertionError(name)
    dist.destroy_process_group()
    store.barrier("all groups have ended", size)
    assert not [key for key in store.list_keys() if "calls/" in key], sorted(store.list_keys())
    dist.init_process_group("nccl", store=dist.PrefixStore("end", store), rank=rank, world_size=size)


def both_devices(rank, size):
    """One group for tensors of the host and of GPUs."""
    cuda = here(rank)
    dist.destroy_process_group()
    store = dist.TCPStore("127.0.0.1", int(os.environ["RANKS_PORT"]), None, False)
    cpu = [b for b in ("gloo", "mpi") if dist.is_backend_available(b)][0]
    dist.init_process_group(f"cpu:{cpu},cuda:nccl", store=dist.PrefixStore("both", store), rank=rank, world_size=size)
    a, b = torch.ones(3), torch.ones(3, device=cuda)
    dist.all_reduce(a)
    dist.all_reduce(b)
    assert a.tolist() == b.tolist() == [size] * 3


def objects_of_a_rank_that_dies(rank, size):
    """The host reads the results of these calls: the error is the call's own, and never another call's object."""
    here(rank)
    calls = (lambda store: dist.all_gather_object(store, "x" * 40), lambda store: dist.gather_object("x", store if rank == 0 else None, 0),
             lambda store: dist.broadcast_object_list(store, 1), lambda store: dist.scatter_object_list(store, store, 1),
             lambda store: dist.recv_object_list(store, 1))
    call = calls[int(os.environ["PART"])]
    try:
        dist.all_gather_object([None] * size, "y" * 40)
        if rank == 1:
            os.kill(os.getpid(), 9)
        call([None] * size)
    except dist.DistBackendError as error:
        assert "rank 1 (process" in str(error) and "has ended" in str(error), error
    else:
        raise AssertionError("no error")
    os._exit(0)
