"""What each rank does in test_dist.py: functions of (rank, size)."""
import contextlib
import os
import signal
import time
from datetime import timedelta

import numpy

import cresset as torch
import cresset.distributed as dist

REAL = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
        torch.float64]


def values(rank, dtype, n=6):
    x = torch.arange(n, dtype=torch.int64) % 2 + rank % 2 + 1
    return x % 2 == 0 if dtype == torch.bool else x.to(dtype)


def reductions(rank, size):
    R = dist.ReduceOp
    whole = {R.SUM: lambda x: x.sum(0), R.PRODUCT: lambda x: x.prod(0), R.MIN: lambda x: x.min(0), R.MAX: lambda x: x.max(0)}
    for dtype in REAL:
        table = numpy.stack([values(r, dtype).double().numpy() for r in range(size)])
        for op, expected in whole.items():
            x = values(rank, dtype)
            dist.all_reduce(x, op)
            assert x.dtype == dtype and x.double().tolist() == expected(table).tolist(), (dtype, op, x)
    for dtype in (torch.complex64, torch.complex128):
        x = torch.complex(torch.ones(3), torch.full((3,), float(rank))).to(dtype)
        dist.all_reduce(x)
        assert x.tolist() == [complex(size, sum(range(size)))] * 3
    b = torch.tensor([rank == 0, False])
    dist.all_reduce(b)
    assert b.tolist() == [True, False]
    for op, name in ((R.BAND, "and"), (R.BOR, "or"), (R.BXOR, "xor")):
        x = torch.tensor([6, 3 + rank])
        expected = getattr(numpy, f"bitwise_{name}").reduce([[6, 3 + r] for r in range(size)])
        dist.all_reduce(x, op)
        assert x.tolist() == expected.tolist()
    x = torch.full((3,), float(rank))
    dist.all_reduce(x, R.AVG)
    assert x.tolist() == [sum(range(size)) / size] * 3
    averages_of_integers(rank, size)
    x = torch.ones(3)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.25))
    assert x.tolist() == [size * 0.25] * 3
    x = torch.full((4, 3), float(rank)).t()  # not contiguous
    dist.all_reduce(x)
    assert x.shape == (3, 4) and x.sum() == 12 * sum(range(size))


def averages_of_integers(rank, size):
    """Gloo refuses them in every call that reduces, as in torch, and leaves the tensors as they were; the quotients of other
    engines lose their fraction."""
    R, world, ops = dist.ReduceOp, dist.group.WORLD, torch.ops._c10d_functional
    together, scattered = dist.AllreduceCoalescedOptions(), dist.ReduceScatterOptions()
    together.reduceOp = scattered.reduceOp = R.AVG
    words = {torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
             torch.uint16: "UInt16", torch.uint32: "UInt32", torch.uint64: "UInt64", torch.bool: "Bool"}

    def managed(x):
        with dist._coalescing_manager():
            dist.all_reduce(x, R.AVG)

    calls = [  # of x and of parts, which are like the x of every rank; each returns the average where x is not it
        lambda x, parts: dist.all_reduce(x, R.AVG),
        lambda x, parts: dist.reduce(x, 0, R.AVG),
        lambda x, parts: dist.reduce_scatter_tensor(x, torch.cat(parts), R.AVG),
        lambda x, parts: dist.reduce_scatter(x, parts, R.AVG),
        lambda x, parts: world.allreduce_coalesced([x], together).wait() and None,
        lambda x, parts: world.reduce_scatter_tensor_coalesced([x], [torch.cat(parts)], scattered).wait() and None,
        lambda x, parts: managed(x),
        lambda x, parts: ops.wait_tensor(ops.all_reduce(x, "avg", world.group_name)),
        lambda x, parts: ops.wait_tensor(ops.all_reduce_(x, "avg", world.group_name)),
        lambda x, parts: ops.wait_tensor(ops.reduce_scatter_tensor(torch.cat(parts), "avg", size, world.group_name))]
    for dtype, word in words.items():
        for i, call in enumerate(calls):
            x = torch.tensor([rank * 2 + 1, 3]).to(dtype)
            parts, before = [x.clone() for _ in range(size)], x.clone()
            if dist.get_backend() == "gloo":
                expect(lambda: call(x, parts), f"result type Float can't be cast to the desired output type {word}")
                assert torch.equal(x, before), (dtype, i)
            elif dtype != torch.bool:
                result = call(x, parts)
                reduced = before.tolist() if i == 1 and rank else [size, 3]  # by dist.reduce at the root alone
                assert (x if result is None else result).tolist() == reduced, (dtype, i)


def movements(rank, size):
    parts = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(parts, torch.full((2,), float(rank)))
    assert [p.tolist() for p in parts] == [[r, r] for r in range(size)]
    uneven = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    assert [p.tolist() for p in uneven] == [[r] * (r + 1) for r in range(size)]
    whole = torch.zeros(size, 3)
    dist.all_gather_into_tensor(whole, torch.full((3,), float(rank)))
    assert whole[:, 0].tolist() == list(range(size))
    own = torch.zeros(2)
    dist.reduce_scatter(own, [torch.full((2,), float(r + rank)) for r in range(size)])
    assert own[0] == size * rank + sum(range(size))
    own = torch.zeros(5000)
    dist.reduce_scatter_tensor(own, torch.ones(5000 * size))
    assert own.sum() == 5000 * size
    out = [torch.zeros(r + 1) for r in range(size)]
    dist.all_to_all(out, [torch.full((rank + 1,), float(rank * 10 + r)) for r in range(size)])
    assert [o[0].item() for o in out] == [r * 10 + rank for r in range(size)]
    sent, taken = torch.arange(float(sum(range(1, size + 1)))), torch.zeros((rank + 1) * size)
    dist.all_to_all_single(taken, sent, [rank + 1] * size, list(range(1, size + 1)))
    assert taken[0] == sum(range(1, rank + 1))
    at_root = [torch.zeros(2) for _ in range(size)] if rank == size - 1 else None
    dist.gather(torch.full((2,), float(rank)), at_root, dst=size - 1)
    assert at_root is None or [t[0].item() for t in at_root] == list(range(size))
    x = torch.zeros(3)
    dist.scatter(x, [torch.full((3,), float(r)) for r in range(size)] if rank == 0 else None)
    assert x[0] == rank
    x = torch.full((2,), float(rank))
    dist.broadcast(x, size - 1)
    assert x[0] == size - 1
    x = torch.full((2,), float(rank))
    dist.reduce(x, 0)
    assert x[0] == (sum(range(size)) if rank == 0 else rank)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "x": torch.ones(rank)})
    assert [o["rank"] for o in objects] == list(range(size)) and len(objects[-1]["x"]) == size - 1
    objects = ["a", {1: 2}] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, 0)
    assert objects == ["a", {1: 2}]
    own = [None]
    dist.scatter_object_list(own, [f"for {r}" for r in range(size)] if rank == 0 else None)
    assert own == [f"for {rank}"]
    got = [None] * size if rank == 0 else None
    dist.gather_object(rank * "x", got)
    assert got is None or got == [r * "x" for r in range(size)]


def sparse_sums_and_events(rank, size):
    """Sums of sparse tensors, and the events of calls in profiles."""
    i = torch.arange(rank + 1)
    x = torch.sparse_coo_tensor(i.view(1, -1), torch.ones(rank + 1, 2), (size, 2))
    dist.all_reduce(x)
    assert x.to_dense().tolist() == [[size - r] * 2 for r in range(size)]
    try:
        dist.all_reduce(x, dist.ReduceOp.MAX)
    except RuntimeError as error:
        assert "sparse" in str(error)
    else:
        raise AssertionError("no error")
    t = torch.ones(2, 3)
    with torch.autograd.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(t)
        dist.broadcast(t.to(torch.complex64), 0)
        dist.all_gather_into_tensor(torch.zeros(size, 3), t[0])
    own = [(e.name, e.input_shapes) for e in profile.function_events if e.is_async]
    name = dist.get_backend()
    assert own == [(f"{name}:all_reduce", [[2, 3]]), (f"{name}:broadcast", [[2, 3, 2]]),
                   (f"{name}:all_gather_into_tensor", [[3]])], own


def messages(rank, size):
    for tag, error, text in ((-1, TypeError, "Tag must be nonnegative"), (1 << 40, ValueError, "is too large")):
        try:
            dist.send(torch.ones(1), (rank + 1) % size, tag=tag)
            raise AssertionError("a tag that no message can have was taken")
        except error as refusal:
            assert text in str(refusal)
    after, before = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(3)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((3,), float(rank)), after),
                                    dist.P2POp(dist.irecv, got, before)])
    for work in works:
        work.wait()
    assert got[0] == before
    if rank == 0:
        seen = sorted(dist.recv(got) for _ in range(size - 1))
        assert seen == list(range(1, size))
        dist.send_object_list([{"a": 1}, "b"], 1)
    else:
        dist.send(torch.full((3,), float(rank)), 0)
    if rank == 1:
        objects = [None, None]
        dist.recv_object_list(objects, 0)
        assert objects == [{"a": 1}, "b"]
    work = dist.all_reduce(torch.ones(20000), async_op=True)
    half = work.get_future().then(lambda f: f.value()[0] / size)
    assert half.wait().sum() == 20000 and work.is_completed() and work.is_success()
    with dist._coalescing_manager(async_ops=True) as several:
        a, b = torch.ones(2), torch.ones(3)
        dist.all_reduce(a)
        dist.all_reduce(b)
    several.wait()
    assert a[0] == size and b[0] == size


def groups(rank, size):
    even = dist.new_group(range(0, size, 2))
    x = torch.ones(1)
    if rank % 2 == 0:
        dist.all_reduce(x, group=even)
        assert x == (size + 1) // 2 and dist.get_world_size(even) == (size + 1) // 2
        assert dist.get_group_rank(even, rank) == rank // 2 and dist.get_process_group_ranks(even) == list(range(0, size, 2))
    else:
        assert even is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(even) == -1
    own, everyone = dist.new_subgroups(group_size=size // 2)
    x = torch.full((1,), float(rank))
    dist.all_reduce(x, group=own)
    first = rank // (size // 2) * (size // 2)
    assert x == sum(range(first, first + size // 2)) and len(everyone) == 2
    dist.monitored_barrier()
    dist.barrier()
    if own is not dist.group.WORLD:
        dist.destroy_process_group(own)


def meshes(rank, size):
    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("a", "b"))
    assert mesh.shape == (2, size // 2) and mesh.get_coordinate() == (rank // (size // 2), rank % (size // 2))
    x = torch.full((1,), float(rank))
    dist.all_reduce(x, group=mesh.get_group("a"))
    assert x == sum(r for r in range(size) if r % (size // 2) == rank % (size // 2))
    line = mesh["b"]
    assert line.ndim == 1 and line.get_local_rank() == rank % (size // 2) and line.size() == size // 2
    assert dist.get_world_size(line.get_group()) == size // 2


def derivatives(rank, size):
    """The derivative of a call is a call: sums over the ranks of what each rank's loss gets."""
    from cresset.distributed.nn import functional as calls
    x = torch.full((3,), float(rank), requires_grad=True)
    (calls.all_reduce(x) * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [sum(range(1, size + 1))] * 3
    x = torch.full((2,), float(rank), requires_grad=True)
    sum(part.sum() * (r + 1) for r, part in enumerate(calls.all_gather(x))).backward()
    assert x.grad.tolist() == [(rank + 1) * size] * 2
    x = torch.ones(size, 2, requires_grad=True)
    (calls.reduce_scatter(torch.empty(2), list(x.unbind())) * (rank + 1)).sum().backward()
    assert x.grad[:, 0].tolist() == list(range(1, size + 1))
    x = torch.ones(size, 2, requires_grad=True)
    got = calls.all_to_all([torch.empty(2) for _ in range(size)], list(x.unbind()))
    sum(g.sum() * (rank + 1) for g in got).backward()
    assert x.grad[:, 0].tolist() == list(range(1, size + 1))
    x = torch.ones(2, requires_grad=True)
    (calls.broadcast(x, 0) * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [sum(range(1, size + 1)) if rank == 0 else 0] * 2


def several_tensors_of_a_rank(rank, size):
    """Gloo's calls of several tensors: each rank has `size * number` values."""
    if dist.get_backend() != "gloo":
        return
    group, many = dist.group.WORLD, [torch.tensor([2.0 * rank]), torch.tensor([2.0 * rank + 1])]
    for op, wanted in ((dist.ReduceOp.SUM, size * (2 * size - 1)), (dist.ReduceOp.MAX, 2 * size - 1), (dist.ReduceOp.MIN, 0)):
        how, pair = dist.AllreduceOptions(), [t.clone() for t in many]
        how.reduceOp = op
        assert [t.item() for t in group.allreduce(pair, how).get_future().wait()] == [wanted] * 2
    how = dist.BroadcastOptions()
    how.rootRank, how.rootTensor = size - 1, 1
    pair = [t.clone() for t in many]
    group.broadcast(pair, how).wait()
    assert [t.item() for t in pair] == [2 * size - 1] * 2
    got = [[torch.empty(1) for _ in range(2 * size)] for _ in range(2)]
    group.allgather(got, many).wait()
    assert [[t.item() for t in outputs] for outputs in got] == [list(range(2 * size))] * 2
    once = torch.ones(1)
    dist.all_reduce_coalesced([once, once])
    assert once.item() == size
    sparse = torch.sparse_coo_tensor([[0, 0]], [1.0, 1.0], (2,))
    dist.all_reduce(sparse)
    assert sparse.is_coalesced() and sparse._values().tolist() == [2.0 * size]
    with torch.inference_mode():  # results are copied in the thread of the group
        x = torch.empty(2, 2).t()
        assert group.broadcast([x], size - 1).get_future().wait()[0] is x
    t = torch.ones
    for call, words in (
            (lambda: group.broadcast([t(1)], size), "ProcessGroupGloo::broadcast: invalid root rank"),
            (lambda: group.broadcast([]), "invalid root tensor"), (lambda: group.allreduce([]), "requires non-empty tensor list"),
            (lambda: group.allreduce([t(1), t(2)]), "invalid tensor size at index 1"),
            (lambda: group.allreduce([t(1), t(1).long()]), "invalid tensor type at index 1"),
            (lambda: group.allreduce_coalesced([t(1), t(1).to_sparse()]), "invalid tensor layout at index 1"),
            (lambda: group.reduce([t(1), t(1)]), "requires a single-element tensor list"),
            (lambda: group.allgather([[t(1)]], [t(1), t(1)]), "to have the same length"),
            (lambda: group.gather([[t(1)]], [t(1)], rank), "Incorrect output list size 1"),
            (lambda: group.scatter([t(1)], [[t(2)] * size], rank), "invalid tensor size at index 0"),
            (lambda: group.scatter([t(1)], [[t(1)] * size], (rank + 1) % size), "requires empty input on non-root")):
        expect(call, words)


def objects_and_averages(rank, size):
    """Calls of objects that fail everywhere when a rank fails; averages over groups of growing sizes."""
    from cresset.distributed import collective_utils as utils
    from cresset.distributed.algorithms.model_averaging import hierarchical_model_averager as averager
    group = dist.group.WORLD
    assert utils.broadcast(lambda: rank, rank=1, pg=group) == 1
    assert utils.all_gather(lambda: rank, pg=group) == list(range(size))

    def fails():
        raise ValueError(f"rank {rank} has none")
    expect(lambda: utils.broadcast(fails, rank=1, pg=group, stage_name="second"), "Rank 1 failed: stage second", "has none")
    expect(lambda: utils.all_gather(fails if rank == 1 else 0, pg=group), "rank 1 has none")
    expect(lambda: utils.all_gather(0, stage_name=f"stage {rank // (size - 1)}", pg=group), "Unexpected stage name received")
    expect(lambda: averager.HierarchicalModelAverager({2: size + 1}), f"must be equal to the size of arg ``process_group`` {size}")
    parameter = torch.nn.Parameter(torch.full([2], float(rank)))
    parameter.grad = torch.zeros(2)  # those without gradients are left alone
    by_periods = averager.HierarchicalModelAverager({2: 1, 4: size}, warmup_steps=1)
    for step in range(5):
        assert parameter[0] == rank, step
        by_periods.average_parameters([parameter])
    assert parameter.tolist() == [(size - 1) / 2] * 2


def threads_block_signals(rank, size):
    """A signal is taken by any thread that does not block it; the program's thread would stay in its sleep."""
    dist.all_reduce(torch.ones(100_000), async_op=True).wait()
    unblocked = []
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/status") as file:
            blocked = next(int(line.split()[1], 16) for line in file if line.startswith("SigBlk"))
        if not all(blocked >> (number - 1) & 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1)):
            unblocked.append(int(thread))
    assert unblocked == [os.getpid()], unblocked


def everything(rank, size):
    threads_block_signals(rank, size)
    for part in (reductions, movements, sparse_sums_and_events, messages, groups, meshes, derivatives, objects_and_averages,
                 several_tensors_of_a_rank):
        part(rank, size)


def expect(call, *words):
    """Returns the text of the error that a call raises, which has these words."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        missing = [w for w in words if w not in str(error)]
        assert not missing, (missing, str(error))
        return str(error)
    raise AssertionError("no error")


CALLS = {
    "all_reduce": lambda n, g=None: dist.all_reduce(torch.ones(n), group=g),
    "broadcast": lambda n, g=None: dist.broadcast(torch.ones(n), 0, g),
    "reduce": lambda n, g=None: dist.reduce(torch.ones(n), 0, group=g),
    "all_gather": lambda n, g=None: dist.all_gather([torch.ones(n) for _ in range(dist.get_world_size())], torch.ones(n), g),
    "reduce_scatter": lambda n, g=None: dist.reduce_scatter(torch.ones(n), [torch.ones(n) for _ in range(dist.get_world_size())],
                                                          group=g),
    "all_to_all": lambda n, g=None: dist.all_to_all([torch.ones(n) for _ in range(dist.get_world_size())],
                                            [torch.ones(n) for _ in range(dist.get_world_size())], g),
    "barrier": lambda n, g=None: dist.barrier(g),
}


def differences(rank, size):
    """Calls that differ at rank 1, each in a group of its own, which the error closes."""
    G = lambda: dist.new_group(range(size))
    for name in ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all"):
        for n in (4, 100000):
            group = G()
            sizes = [f"with {n} elements", f"with {n + 1} elements"] if name in ("all_reduce", "broadcast", "reduce") else []
            expect(lambda: CALLS[name](n + (rank == 1), group), "the ranks' calls differ", f"rank {rank} called {name} #1",
                   "in_ranks.py:", *sizes)
            expect(lambda: dist.barrier(group), "is closed since")
    for call, other, words in (
            (lambda g: dist.all_reduce(torch.ones(4), group=g), dist.barrier, ["called all_reduce #1", "called barrier #1"]),
            (lambda g: dist.all_reduce(torch.ones(4), group=g), lambda g: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX, g),
             ["SUM", "MAX"]),
            (lambda g: dist.all_reduce(torch.ones(4), group=g), lambda g: dist.all_reduce(torch.ones(4).int(), group=g),
             ["float32", "int32"]),
            (lambda g: dist.broadcast(torch.ones(4), 0, g), lambda g: dist.broadcast(torch.ones(4), 1, g), ["root 0", "root 1"])):
        group = G()
        expect(lambda: (other if rank == 1 else call)(group), *words)
    group = G()
    if rank == 1:
        expect(lambda: dist.scatter(torch.ones(4), None, 0, group), "rank 0 called scatter #1 with 3 elements",
               "rank 1 called scatter #1 with 4 elements")
    elif rank == 0:  # the root does not read the others' sizes; whether it hears of the failure is the engine's matter
        with contextlib.suppress(dist.DistError):
            dist.scatter(torch.ones(3), [torch.ones(3)] * size, 0, group)
    dist.barrier()
    expect(lambda: coalesced(rank, G()), "the ranks' calls differ", "(in_ranks.py:")
    expect(lambda: dist.all_reduce(torch.eye(3).to_sparse() if rank == 1 else torch.eye(3), group=G()),
           "rank 1 called all_gather #1 with 1 elements of int64 (in_ranks.py:")
    group = G()
    dist.destroy_process_group(group)
    expect(lambda: dist.all_reduce(torch.ones(2), group=group), "all_reduce (in_ranks.py:", f"of rank {rank}",
           "is closed since: it was destroyed")


def differences_in_a_part(rank, size):
    """Errors number ranks as the whole run does, whatever their places in the group."""
    for call, words in (
            (lambda g: dist.all_reduce(torch.ones(3 + rank), group=g), []),
            (lambda g: dist.broadcast(torch.ones(3 + rank), 2, g), ["root 2"])):
        pair = dist.new_group([1, 2])
        if rank:
            text = expect(lambda: call(pair), "rank 1 called ", " with 4 elements", "rank 2 called ", " with 5 elements",
                          f" of rank {rank} in group '", f"rank {3 - rank} ", *words)
            closed = expect(lambda: call(pair), f" of rank {rank}: the group '", "is closed since")
            assert "rank 0" not in text and "rank 0" not in closed, (text, closed)
    dist.barrier()


def other_messages(rank, size):
    """Messages that are not those which the other rank receives: of another size or dtype, or with another tag.  Each has
    a group, and all wait at one time: some end at the timeout."""
    cases = [(torch.ones(8), torch.ones(4), 3), (torch.ones(4), torch.ones(8), 3), (torch.ones(1 << 18), torch.ones(4), 3),
             (torch.ones(4), torch.ones(4).double(), 3), (torch.ones(4), torch.ones(4).int(), 3), (torch.ones(4), torch.ones(4), 4)]
    own = [dist.new_group(range(size), timeout=timedelta(seconds=4)) for _ in cases]
    dist.barrier()
    if rank == 0:
        works = [dist.isend(sent, 1, group, 3) for (sent, _, _), group in zip(cases, own)]
        if dist.get_backend() == "gloo":
            for (sent, _, _), work in zip(cases, works):
                expect(work.wait, f"send of {sent.numel()} elements of float32 to rank 1, tag 3 (in_ranks.py:", "of rank 0")
    else:
        before = [place.clone() for _, place, _ in cases]
        works = [dist.irecv(place, 0, group, tag) for (_, place, tag), group in zip(cases, own)]
        for (_, place, tag), work, was in zip(cases, works, before):
            dtype = str(place.dtype).partition(".")[2]
            expect(work.wait, f"recv of {place.numel()} elements of {dtype} from rank 0, tag {tag} (in_ranks.py:",
                   "of rank 1 in group 'group")
            if dist.get_backend() == "gloo":
                assert torch.equal(place, was)
    dist.barrier()


def coalesced(rank, group):
    with dist._coalescing_manager(group):
        dist.all_reduce(torch.ones(2), group=group)
        if rank == 1:
            dist.all_reduce(torch.ones(3), group=group)


def one_dies(rank, size):
    name, n = os.environ["CALL"], int(os.environ["ELEMENTS"])
    CALLS[name](n)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    assert "Timed out" not in expect(lambda: CALLS[name](n), f"{name} #2", "rank 1 (process", "has ended")
    os._exit(0)


def one_stops(rank, size):
    name, n, pids = os.environ["CALL"], int(os.environ["ELEMENTS"]), [None] * size
    dist.all_gather_object(pids, os.getpid())
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        expect(lambda: CALLS[name](n), f"{name} #", "rank 1 (process", "is stopped", "Timed out")
    finally:
        os.kill(pids[1], signal.SIGKILL)
    os._exit(0)


def one_is_late(rank, size):
    """A rank comes when the others have found that it is late."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["found"], timedelta(seconds=240))
        os._exit(0)
    try:
        expect(dist.barrier, "Timed out", "rank 1 is in no call of this group")
    finally:
        store.set("found", "1")
    os._exit(0)


def barrier_names_missing(rank, size):
    if rank == 0:
        expect(lambda: dist.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True), "Ranks 1 failed")
    elif rank > 1:
        expect(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1)), "rank 0")


def store_is_lost(rank, size):
    """The store's process ends (store_ends ends it); calls of groups go on, the store says so, and ranks that end are named."""
    CALLS["all_reduce"](4)
    store = dist.distributed_c10d._get_default_store()._underlying_non_prefix_store  # store_ends reads it
    if rank == 0:
        store.set("lose", b"1")
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            store.get("lose")
        except dist.DistNetworkError as error:
            assert "does not answer" in str(error) or "timed out" in str(error), error
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the store lives")
    CALLS["all_reduce"](4)
    if rank == 0:
        try:
            CALLS["all_reduce"](4)
        except dist.DistBackendError as error:
            assert "rank 1 (process" in str(error) and "has ended" in str(error), error
        else:
            raise AssertionError("no error")
    os._exit(0)


class Slow(dist.Store):
    """A store whose requests for keys with such an end wait before they are sent."""

    def __init__(self, store, end, seconds):
        super().__init__()
        self.store, self.end, self.seconds = store, end, seconds


def _slowly(name):
    def ask(self, key, *args):
        if str(key).endswith(self.end):
            time.sleep(self.seconds)
        return getattr(self.store, name)(key, *args)
    return ask


for _name in ("set", "get", "add", "wait", "check", "compare_set", "delete_key"):
    setattr(Slow, _name, _slowly(_name))


def ends_at_once(rank, size):
    """The process with the store ends when it has joined a group, while rank 1 has not asked yet whether all are there."""
    store = dist.TCPStore("127.0.0.1", 0, None, True) if rank == 0 else None
    port = [store.port if store else None]
    dist.broadcast_object_list(port)
    dist.destroy_process_group()
    if rank:
        store = Slow(dist.TCPStore("127.0.0.1", port[0], None, False), *[("open/all", 1.5), ("/open", 0.5)][rank - 1])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    print("joined", flush=True)
    os._exit(0)
