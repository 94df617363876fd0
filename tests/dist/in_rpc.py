"""What each rank does in test_rpc.py: functions of (rank, size)."""
import contextlib
import os
import pickle
import signal
import threading
import time

import cresset as torch
import cresset.distributed as dist
import cresset.distributed.autograd as dist_autograd
import cresset.distributed.rpc as rpc
from cresset.distributed.nn import RemoteModule
from cresset.distributed.optim import DistributedOptimizer
from cresset.futures import Future


@contextlib.contextmanager
def agents(rank, size, graceful=True, **options):
    """The agent of this rank; its worker is called w0, w1, ..."""
    address = rpc.TensorPipeRpcBackendOptions(init_method="file://" + os.environ["RPC_FILE"], **options)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=address)
    yield f"w{(rank + 1) % size}"
    rpc.shutdown(graceful)


def expect(kind, text, call):
    try:
        call()
    except kind as error:
        assert type(error) is kind and text in str(error), error
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


# --- calls ---
def same(*values, **named):
    return values, named


def strides(x):
    return x.stride(), x.is_contiguous()


def assert_equal(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@torch.jit.script
def scripted(x, n: int):
    for _ in range(n):
        x = x * 2
    return x


def calls(rank, size):
    with agents(rank, size) as other:
        assert rpc.get_worker_info().id == rank and rpc.get_worker_info(other).name == other
        number = (rank + 1) % size
        for to in (other, number, rpc.get_worker_info(other), f"w{rank}"):
            assert rpc.rpc_sync(to, torch.add, args=(torch.ones(2), 1)).tolist() == [2, 2]
        assert rpc.rpc_sync(other, same, (1, "é"), {"c": [None, {2.5}]}) == ((1, "é"), {"c": [None, {2.5}]})
        answers = [rpc.rpc_async(other, same, (i,)) for i in range(100)]
        assert [a.wait()[0][0] for a in torch.futures.wait_all(answers) and answers] == list(range(100))
        assert rpc.rpc_sync(other, scripted, (torch.ones(2), 3)).tolist() == [8, 8]
        assert rpc.rpc_sync(other, rank_of) == number
        assert rpc.rpc_sync(other, back_and_forth, (f"w{rank}", other, 3)) == 3
        chained = rpc.rpc_async(other, same, (1,)).then(lambda f: rpc.rpc_sync(other, same, f.wait()[0]))
        assert chained.wait() == ((1,), {})
        from_threads(other)
        tensors(other)


def back_and_forth(first, second, n):
    return n and 1 + rpc.rpc_sync(first, back_and_forth, (second, first, n - 1))


def from_threads(other):
    answers = []
    threads = [threading.Thread(target=lambda: answers.extend(rpc.rpc_sync(other, same, (i,)) for i in range(50)))
               for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a[0][0] for a in answers) == sorted([*range(50)] * 2)


def rank_of():
    return rpc.get_worker_info().id


def tensors(other):
    kinds = [torch.arange(6).reshape(2, 3).to(t) for t in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn)]
    kinds += [torch.zeros(0, 3), torch.tensor(3.0), torch.randn(700, 700), torch.randn(4).expand(3, 4),
              torch.tensor([1 + 2j]).conj(), torch.randn(3, requires_grad=True)]
    (came,), _ = rpc.rpc_sync(other, same, (kinds,))
    for x, y in zip(kinds, came):
        assert x.dtype == y.dtype and x.requires_grad == y.requires_grad
        assert_equal(*(t.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8) for t in (x, y)))
        assert x.shape == y.shape
    sparse = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    (back,), _ = rpc.rpc_sync(other, same, (sparse,))
    assert back.is_sparse and not back.is_coalesced() and back.to_dense().tolist() == sparse.to_dense().tolist()
    x = torch.randn(5, 5)
    for view in (x.t(), x[:, 1:3], x[::2], x[:0, ::2], torch.zeros(3, 0, 2), torch.zeros(0).expand(2, 0),
                 torch.empty_strided((2, 0), (7, 3)), torch.ones(16 << 20)):
        assert rpc.rpc_sync(other, strides, (view,)) == (view.stride(), view.is_contiguous())
    assert rpc.rpc_sync(other, strides, (torch.randn(5000, 5)[:, 0],)) == ((1,), True)  # no bytes of other columns
    layer = torch.nn.Linear(3, 2)
    (copy,), _ = rpc.rpc_sync(other, same, (layer,))
    assert type(copy.weight) is torch.nn.Parameter and torch.equal(copy.weight, layer.weight)


# --- errors ---
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def fails(text):
    raise ValueError(text)


def fails_oddly():
    raise Odd(1, 2)


class Plain(Exception):
    pass


class OpensBadly:
    def __reduce__(self):
        return fails_as, (Plain,)


def fails_as(kind):
    raise kind("text")


def fails_as_local():
    class Local(Exception):
        pass
    raise Local


def here_alone():
    return 1


def errors(rank, size):
    with agents(rank, size) as other:
        text = expect(ValueError, "Expected error", lambda: rpc.rpc_sync(other, fails, ("Expected error",)))
        assert f"name={other}" in text and "in fails" in text, text
        expect(ValueError, "first\nsecond é", lambda: rpc.rpc_sync(other, fails, ("first\nsecond é",)))
        expect(RuntimeError, "Failed to create original exception type", lambda: rpc.rpc_sync(other, fails_oddly))
        expect(RuntimeError, "Plain: On WorkerInfo", lambda: rpc.rpc_sync(other, fails_as, (Plain,)))
        expect(ValueError, "UnicodeError: On WorkerInfo", lambda: rpc.rpc_sync(other, fails_as, (UnicodeError,)))
        expect(Plain, "On WorkerInfo", lambda: rpc.remote(other, fails_as, (Plain,)).to_here())
        for ends in (SystemExit, KeyboardInterrupt):  # of the function, not of the caller
            expect(RuntimeError, f"{ends.__name__}: text", lambda: rpc.rpc_sync(other, fails_as, (ends,)))
            expect(RuntimeError, f"{ends.__name__}: text", lambda: rpc.remote(other, fails_as, (ends,)).to_here(timeout=10))
        expect(RuntimeError, "TypeError: cannot pickle", lambda: rpc.rpc_sync(other, threading.Lock))
        expect(RuntimeError, "TypeError: cannot pickle", lambda: rpc.remote(other, threading.Lock).to_here())
        expect(RuntimeError, "AttributeError: Can't pickle local object", lambda: rpc.rpc_sync(other, fails_as_local))
        expect(TypeError, "cannot pickle", lambda: rpc.rpc_sync(other, same, (threading.Lock(),)))
        expect(RuntimeError, "Plain: ", lambda: rpc.rpc_sync(other, same, (OpensBadly(),)))
        expect(RuntimeError, "Plain: ", lambda: rpc.remote(other, same, (OpensBadly(),)).to_here(timeout=10))
        expect(RuntimeError, "(-5000 ms)", lambda: rpc.rpc_sync(other, time.sleep, (0.3,), timeout=-5))
        assert rpc.rpc_sync(other, same, (1,), timeout=0) == ((1,), {})
        expect(RuntimeError, f"name:w{rank},rank:{rank} could not find destination id -1", lambda: rpc.rpc_sync(-1, rank_of))
        expect(RuntimeError, "RPC ran for more than set timeout (50 ms)",
               lambda: rpc.rpc_sync(other, time.sleep, (0.3,), timeout=0.05))
        expect(RuntimeError, "RRef creation via rpc.remote() timed out", lambda: late_reference(other))
        expect(RuntimeError, "could not find destination nobody", lambda: rpc.rpc_sync("nobody", rank_of))
        expect(ValueError, "Cannot get WorkerInfo from name 0.5", lambda: rpc.rpc_sync(0.5, rank_of))
        expect(TypeError, "function should be callable", lambda: rpc.rpc_sync(other, 3))
        expect(RuntimeError, "Can not pickle torch.futures.Future", lambda: rpc.rpc_sync(other, same, (Future(),)))
        expect(RuntimeError, "Can not pickle torch.futures.Future", lambda: rpc.rpc_sync(other, Future))
        expect(RuntimeError, "already initialized", lambda: agents(rank, size).__enter__())
        dist.barrier()
        if rank == 1:
            del globals()["here_alone"]
        dist.barrier()
        if rank == 0:
            expect(RuntimeError, "Default RPC pickler does not serialize", lambda: rpc.rpc_sync(other, here_alone))
        for name in ("", "a b", "x" * 200):
            expect(RuntimeError, "Worker name must", lambda: rpc.WorkerInfo(name, 0))
    expect(RuntimeError, "RPC has not been initialized", lambda: rpc.rpc_sync(other, rank_of))


def late_reference(other):
    reference = rpc.remote(other, time.sleep, (0.3,), timeout=0.05)
    expect(RuntimeError, "RPC ran for more than", reference._get_future().wait)
    reference.to_here()


def one_dies(rank, size):
    """Calls in progress, and later ones, of a process that is killed fail; so do the shutdowns that wait for it."""
    with contextlib.suppress(RuntimeError), agents(rank, size):
        if rank == 1:
            threading.Event().wait()
        waiting = rpc.rpc_async("w1", time.sleep, (600,), timeout=0)
        dist.barrier(group=survivors)
        if rank == 0:
            os.kill(rpc.rpc_sync("w1", os.getpid), signal.SIGKILL)
        expect(RuntimeError, "connection reset by peer", waiting.wait)
        expect(RuntimeError, "connection reset by peer", lambda: rpc.rpc_sync("w1", rank_of))
        assert rpc.rpc_sync(f"w{2 - rank}", rank_of) == 2 - rank


def killed(rank, size):
    global survivors
    survivors = dist.new_group([0, 2])
    one_dies(rank, size)
    assert not rpc._is_current_rpc_agent_set()
    os._exit(0)


# --- references ---
class Counter:
    def __init__(self, n):
        self.n = n

    def add(self, k):
        self.n += k
        return self.n

    @staticmethod
    @rpc.functions.async_execution
    def later(to, x):
        return rpc.rpc_async(to, torch.add, args=(x, 1)).then(lambda f: f.wait() * 2)


kept = []


def keep(reference):
    kept.append(reference)


def drop():
    kept.clear()


def value_through(reference, to):
    """Sends the reference on to another process."""
    return rpc.rpc_sync(to, value_of, (reference,)) if to else reference.to_here()


def value_of(reference):
    assert reference.confirmed_by_owner()
    return reference.to_here().n


def owners():
    return rpc._rref_context_get_debug_info()["num_owner_rrefs"]


def until(call, value):
    end = time.monotonic() + 20
    while call() != value:
        assert time.monotonic() < end, call()
        time.sleep(0.01)


def references(rank, size):
    with agents(rank, size) as other:
        third = f"w{(rank + 2) % size}"
        counter = rpc.remote(other, Counter, (rank,))
        assert not counter.is_owner() and counter.owner_name() == other and counter.to_here().n == rank
        assert counter.rpc_sync().add(1) == rank + 1 and counter.rpc_async().add(1).wait() == rank + 2
        assert counter.remote().add(1).to_here() == rank + 3
        expect(AttributeError, "no_name", lambda: counter.rpc_sync().no_name())
        expect(RuntimeError, "can't call localValue() on user", counter.local_value)
        expect(RuntimeError, "Can not pickle rref in python pickler", lambda: torch.save(counter, os.devnull))
        for to in (other, third, f"w{rank}"):
            assert rpc.rpc_sync(third, value_through, (counter, to)) == rank + 3
        assert counter.rpc_sync().later(third, torch.ones(2)).tolist() == [4, 4]
        expect(ValueError, "no value", rpc.remote(other, fails, ("no value",)).to_here)
        mine = rpc.RRef(Counter(5))
        assert mine.is_owner() and mine.local_value() is mine.to_here() and rpc.rpc_sync(other, value_of, (mine,)) == 5
        dist.barrier()
        del counter
        until(owners, "0")
        dist.barrier()  # a reference that another process keeps keeps the value
        rpc.rpc_sync(other, keep, (mine,))
        del mine
        until(owners, "1")
        dist.barrier()
        rpc.rpc_sync(other, drop)
        until(owners, "0")
        dist.barrier()
        last = rpc.remote(other, torch.ones, (2,))
    expect(RuntimeError, "has been deleted. Cannot call to_here() on it after deletion.", last.to_here)


# --- gradients ---
class Half(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.layer(x))

    def references(self):
        return [rpc.RRef(p) for p in self.parameters()]

    def values(self):
        return [p.detach() for p in self.parameters()]


# --- profiles ---
def work_in_ranges(x):
    with torch.autograd.profiler.record_function("##forward##"):
        y = torch.mul(x, x)
    return torch.add(y, 1)


def through(to, x):
    return rpc.rpc_sync(to, work_in_ranges, args=(x,))


@rpc.functions.async_execution
def through_later(to, x):
    return rpc.rpc_async(to, torch.neg, args=(x,)).then(lambda done: done.wait() + 1)


def failing_work(x):
    torch.mul(x, 2)
    raise ValueError("after the product")


def profiles(rank, size):
    """Events of what other processes do, also those that they ask, in the profile of the calling thread."""
    from cresset.autograd.profiler_legacy import profile
    with agents(rank, size) as other:
        me, third = f"w{rank}", f"w{(rank + 2) % size}"
        number = (rank + 1) % size
        x = torch.ones(3, 2)

        def events_of(call):
            with profile(record_shapes=True) as p:
                call()
            assert all(e.is_legacy for e in p.function_events)
            starts = [e.time_range.start for e in p.function_events]
            assert starts == sorted(starts)
            return p.function_events
        for mode, call in (("sync", lambda: rpc.rpc_sync(other, work_in_ranges, args=(x,))),
                           ("async", lambda: rpc.rpc_async(other, work_in_ranges, args=(x,)).wait()),
                           ("remote", lambda: rpc.remote(other, work_in_ranges, args=(x,))._get_profiling_future().wait())):
            events, name = events_of(call), f"rpc_{mode}#work_in_ranges({me} -> {other})"
            own, = [e for e in events if e.name == name]
            assert own.node_id == rank and not own.is_remote and own.is_async
            remote = {e.name.removeprefix(name + "#remote_op: "): e for e in events if e.is_remote}
            assert set(remote) == {"##forward##", "aten::mul", "aten::add"} and all(e.node_id == number for e in remote.values())
            assert [e.name for e in remote["##forward##"].cpu_children] == [name + "#remote_op: aten::mul"]
            assert remote["aten::mul"].input_shapes[:2] == [[3, 2], [3, 2]] and remote["aten::mul"].cpu_parent is remote["##forward##"]
            assert all(e.time_range.start >= own.time_range.start and e.time_range.elapsed_us() <= own.time_range.elapsed_us() for e in remote.values())
        builtin = events_of(lambda: rpc.rpc_sync(other, torch.add, args=(x, 1)))
        assert {e.name for e in builtin if "rpc" in e.name} == {f"rpc_sync#aten::add({me} -> {other})", f"rpc_sync#aten::add({me} -> {other})#remote_op: aten::add"}
        for function, inner, leaf in ((through, f"rpc_sync#work_in_ranges({other} -> {third})", "aten::mul"),
                                      (through_later, f"rpc_async#aten::neg({other} -> {third})", "aten::neg")):
            events = events_of(lambda f=function: rpc.rpc_sync(other, f, args=(third, x)))
            name = f"rpc_sync#{function.__name__}({me} -> {other})#remote_op: {inner}"
            nested = {e.name: e.node_id for e in events if e.is_remote}
            assert nested[name] == number and nested[f"{name}#remote_op: {leaf}"] == (rank + 2) % size
        failed = events_of(lambda: expect(ValueError, "after the product", lambda: rpc.rpc_sync(other, failing_work, args=(x,))))
        assert [e.name.rpartition(" ")[2] for e in failed if e.is_remote] == ["aten::mul"]
        found = [None] * 4

        def in_thread(k):
            found[k] = [e.name for e in events_of(lambda: rpc.rpc_sync(other, torch.mul, args=(x, k))) if e.is_remote]
        threads = [threading.Thread(target=in_thread, args=(k,)) for k in range(len(found))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert all(names == [f"rpc_sync#aten::mul({me} -> {other})#remote_op: aten::mul"] for names in found)
        with torch.autograd.profiler.profile() as plain:
            rpc.rpc_sync(other, torch.add, args=(x, 1))
        assert not [e for e in plain.function_events if "rpc" in e.name]


def chain(x, halves, tos):
    """Calls the halves one inside of another."""
    x = halves[0].rpc_sync().forward(x)
    return rpc.rpc_sync(tos[0], chain, (x, halves[1:], tos[1:])) if halves[1:] else x


def gradients(rank, size):
    """20 steps of a model in three processes have the parameters of one process."""
    with agents(rank, size):
        if rank == 0:
            halves = [rpc.remote(f"w{r}", Half, (r,)) for r in range(size)]
            optimizer = DistributedOptimizer(torch.optim.SGD, [p for h in halves for p in h.rpc_sync().references()], lr=0.1)
            alone = torch.nn.Sequential(*[Half(r) for r in range(size)])
            steps = torch.optim.SGD(alone.parameters(), lr=0.1)
            x = torch.randn(8, 4)
            for _ in range(20):
                with dist_autograd.context() as number:
                    loss = (chain(x, halves, ["w1", "w2"]) ** 2).sum()
                    dist_autograd.backward(number, [loss])
                    optimizer.step(number)
                steps.zero_grad()
                (alone(x) ** 2).sum().backward()
                steps.step()
            for half, there in zip(alone, halves):
                assert_equal(half.values(), there.rpc_sync().values())
            backward_cases()
        dist.barrier()
        until(lambda: dist_autograd._get_debug_info()["num_autograd_contexts"], "0")


def weighted(x, y):
    return (x * y).sum() + (x * x).sum()


def backward_cases():
    x, y = (torch.randn(5, requires_grad=True) for _ in range(2))
    with dist_autograd.context() as number:
        shared = x * 2  # reaches three messages
        total = sum(rpc.rpc_sync("w1", weighted, (shared, y)) for _ in range(2)) + rpc.remote("w2", weighted, (shared, y)).to_here()
        dist_autograd.backward(number, [total], retain_graph=True)
        found = dist_autograd.get_gradients(number)
        a, b = torch.autograd.grad(3 * weighted(x * 2, y), (x, y))
        assert len(found) == 2 and x.grad is None
        torch.testing.assert_close((found[x], found[y]), (a, b))
        dist_autograd.backward(number, [total])  # adds to the gradients
        torch.testing.assert_close(dist_autograd.get_gradients(number)[x], 2 * a)
        expect(RuntimeError, "Already have an autograd context id", dist_autograd.context().__enter__)
        expect(RuntimeError, "requires_grad not set on root", lambda: dist_autograd.backward(number, [torch.ones(1)]))
    expect(RuntimeError, "Could not find autograd context with id: 99", lambda: dist_autograd.backward(99, [total]))
    with dist_autograd.context() as number:
        rpc.remote("w1", weighted, (x, y)).backward(number)
        torch.testing.assert_close(dist_autograd.get_gradients(number)[y], x.detach())


# --- groups that processes join ---
def joining(rank, size):
    """Without world_size, the group has those that are there."""
    for turn in range(size):
        if rank == turn:
            options = rpc.TensorPipeRpcBackendOptions(init_method="file://" + os.environ["RPC_FILE"])
            rpc.init_rpc(f"w{rank}", rpc_backend_options=options, rank=rank)
            assert len(rpc._get_current_rpc_agent().get_worker_infos()) == rank + 1
        dist.barrier()
    assert rpc.rpc_sync(f"w{(rank + 1) % size}", rank_of) == (rank + 1) % size
    dist.barrier()
    rpc.shutdown()


# --- modules in other processes ---
class Scaled(torch.nn.Module):
    def __init__(self, factor, wide=2):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((wide,), float(factor)))
        self.inside = torch.nn.Linear(wide, wide)

    def forward(self, x, plus=0):
        return x * self.weight + plus


def called_by(module, x):
    return module(x)


def mode_of(reference):
    return reference.local_value().training


def remote_modules(rank, size):
    expect(AssertionError, "RemoteModule only works in RPC.", lambda: RemoteModule("w1/cpu", Scaled, (3,)))
    with agents(rank, size) as other:
        if rank == 0:
            _a_remote_module(other)


def _a_remote_module(other):
    module, x = RemoteModule(f"{other}/cpu", Scaled, (3,), {"wide": 2}), torch.ones(2)
    assert module(x).tolist() == [3, 3] and module.forward_async(x, plus=1).wait().tolist() == [4, 4]
    assert module.get_module_rref().owner_name() == other and RemoteModule("rank:1/cpu", Scaled, (2,))(x).tolist() == [2, 2]
    assert len(module.remote_parameters()) == 3 and len(module.remote_parameters(recurse=False)) == 1
    assert module.eval() is not None and not rpc.rpc_sync(other, mode_of, (module.module_rref,))
    module.train()
    assert rpc.rpc_sync(other, mode_of, (module.module_rref,))
    assert rpc.rpc_sync(other, called_by, (module, x)).tolist() == [3, 3]
    assert RemoteModule.init_from_module_rref(other, module.module_rref)(x).tolist() == [3, 3]
    with dist_autograd.context() as context:
        optimizer = DistributedOptimizer(torch.optim.SGD, module.remote_parameters(recurse=False), lr=0.5)
        dist_autograd.backward(context, [module(x).sum()])
        optimizer.step(context)
    assert module(x).tolist() == [2.5, 2.5]
    expect(ValueError, "Method ``parameters`` not supported for RemoteModule. Please use ``remote_parameters`` instead.", module.parameters)
    for name in ("to", "state_dict", "children", "zero_grad", "extra_repr"):
        expect(ValueError, f"Method ``{name}`` not supported for RemoteModule", getattr(module, name))
    expect(RuntimeError, "Cannot pickle RemoteModule in python pickler", lambda: pickle.dumps(module))
    expect(ValueError, "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it returns an instance of",
           lambda: RemoteModule(f"{other}/cpu", dict)(x))
    expect(ValueError, "the module is in the process w1, not in w0", lambda: RemoteModule.init_from_module_rref("w0/cpu", module.module_rref))
