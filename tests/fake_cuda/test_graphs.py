"""Captured graphs: launches give what eager calls give, memory is the graph's, what a capture refuses."""
import copy
import ctypes
import gc
import os
import shutil
import subprocess
import threading
import warnings

import pytest
from test_cuda import FAKE

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
F, nn = torch.nn.functional, torch.nn


def warm(f):
    """Runs f on another stream, so that kernels and libraries are loaded."""
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        f()
    torch.cuda.synchronize()


def captured(f, **options):
    warm(f)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, **options):
        made = f()
    return g, made


def test_launches_give_what_eager_calls_give():
    x, w = torch.randn(4, 6, device="cuda"), torch.randn(6, 3, device="cuda")
    calls = {"pointwise and product": lambda: F.gelu(x @ w) + 1, "rows": lambda: x.softmax(-1).cumsum(1).sort(-1)[0],
             "indices": lambda: x.index_add(0, torch.arange(3, device="cuda"), x[:3]), "views": lambda: x.t().reshape(3, 8).tril(),
             "resampling, whose taps the host makes": lambda: F.interpolate(x[None, None], size=(7, 9), mode="bicubic"),
             "windows": lambda: F.max_pool1d(x[None], 3, 2, 1) + F.avg_pool1d(x[None], 3, 2, 1),
             "convolution": lambda: F.conv1d(x[None, :2], w.t().reshape(3, 2, 3)), "many": lambda: [x * k for k in range(5)]}
    for name, f in calls.items():
        g, made = captured(f)
        for _ in range(3):
            x.copy_(torch.randn(4, 6))
            g.replay()
            want = f()
            for a, b in zip(made if isinstance(made, list) else [made], want if isinstance(want, list) else [want]):
                assert torch.equal(a, b), name


def test_a_training_step():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3)).cuda()
    eager = copy.deepcopy(net)
    x, y = torch.zeros(4, 5, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")

    def step(net, opt):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    opt, other = (torch.optim.SGD(n.parameters(), lr=0.1) for n in (net, eager))
    before = [p.clone() for p in net.parameters()]
    g, loss = captured(lambda: step(net, opt))
    step(eager, other)
    with torch.no_grad():
        for parameters in (net.parameters(), eager.parameters()):
            for p, was in zip(parameters, before):
                p.copy_(was)
    batches = [(torch.randn(4, 5), torch.randint(0, 3, (4,))) for _ in range(4)]
    found = []
    for train in (lambda: (g.replay(), loss)[1], lambda: step(eager, other)):
        torch.cuda.manual_seed(7)
        losses = []
        for a, b in batches:
            x.copy_(a)
            y.copy_(b)
            losses.append(train().item())
        found.append(losses)
    assert found[0] == found[1] and len(set(found[0])) == 4
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), eager.parameters()))


def test_each_launch_draws_anew():
    x = torch.rand(20, device="cuda")
    own = torch.Generator("cuda")
    draws = lambda: (F.dropout(x, 0.4), torch.randn(5, device="cuda"), torch.randint(0, 99, (6,), device="cuda"),
                     torch.bernoulli(x), torch.poisson(9 * x), torch.rand(3, device="cuda", generator=own))
    warm(draws)
    g = torch.cuda.CUDAGraph()
    g.register_generator_state(own)
    state = torch.cuda.get_rng_state()
    with torch.cuda.graph(g):
        made = draws()
    assert torch.equal(torch.cuda.get_rng_state(), state)  # a capture draws nothing
    found = []
    for run in (lambda: (g.replay(), made)[1], draws):
        torch.cuda.manual_seed(3)
        own.manual_seed(4)
        found.append([[t.clone() for t in run()] for _ in range(3)])
        found[-1].append([torch.cuda.get_rng_state()])
    for a, b in zip(*found):
        assert all(torch.equal(s, t) for s, t in zip(a, b))
    assert not torch.equal(found[0][0][1], found[0][1][1])


def test_seeds_stay_while_a_graph_captures():
    x, own = torch.ones(8, device="cuda"), torch.Generator("cuda")
    own.manual_seed(4)
    warm(lambda: torch.rand(3, device="cuda"))
    torch.cuda.manual_seed(3)
    state, seed = torch.cuda.get_rng_state(), "only if new seed is the same as the original seed"
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for set_seed in (torch.cuda.manual_seed, torch.cuda.manual_seed_all, torch.manual_seed):
            with pytest.raises(RuntimeError, match=seed):
                set_seed(1)
        torch.cuda.manual_seed(3)
        own.manual_seed(5)  # the graph does not draw from it
        with pytest.raises(RuntimeError, match="Cannot call CUDAGeneratorImpl::seed during CUDA graph capture"):
            torch.cuda.seed()
        with pytest.raises(RuntimeError, match="set_state_index method during capturing"):
            torch.cuda.set_rng_state(state)
        y = F.dropout(x, 0.5)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    g.replay()
    torch.cuda.manual_seed(3)
    assert torch.equal(y, F.dropout(x, 0.5))
    torch.cuda.manual_seed(1)  # free again
    assert torch.cuda.initial_seed() == 1


def test_memory_is_the_graphs():
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    x = torch.ones(1000, device="cuda")
    g, y = captured(lambda: (x + 1) * 2)
    gc.collect()
    others = [torch.full((1000,), 7., device="cuda") for _ in range(20)]
    kept = torch.cuda.memory_reserved()
    g.replay()
    assert torch.equal(y.cpu(), torch.full((1000,), 4.)) and all(torch.equal(o.cpu(), torch.full((1000,), 7.)) for o in others)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == kept  # the graph's segment stays
    h = torch.cuda.CUDAGraph()
    with torch.cuda.graph(h, pool=g.pool()):
        z = y + x
        assert torch.cuda.current_stream().is_capturing() and torch.cuda.is_current_stream_capturing()
        assert not torch.cuda.default_stream().is_capturing()
    assert h.pool() == g.pool() and torch.cuda.memory_reserved() == kept
    g.replay()
    h.replay()
    assert torch.equal(z.cpu(), torch.full((1000,), 5.))
    g.reset()
    with pytest.raises(RuntimeError, match="Called CUDAGraph::replay without a preceding successful capture"):
        g.replay()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == kept
    del h, y, z
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < kept


def test_streams_that_wait_are_captured():
    x, side = torch.ones(100, device="cuda"), torch.cuda.Stream()

    def both():
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            a = x * 3
            a.record_stream(here)
        b = x * 5
        here.wait_stream(side)
        return a + b

    g, y = captured(both)
    x.copy_(torch.full((100,), 2.))
    g.replay()
    assert torch.equal(y.cpu(), torch.full((100,), 16.))
    with pytest.raises(torch.AcceleratorError, match="capturing stream has unjoined work"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x * 3
    assert x.sum().item() == 200


def test_copies_of_pinned_memory_are_captured():
    x, here = torch.zeros(6, device="cuda"), torch.arange(6.).pin_memory()
    g, _ = captured(lambda: x.copy_(here, non_blocking=True))
    for k in range(3):
        here.fill_(k)
        g.replay()
        assert torch.equal(x.cpu(), torch.full((6,), float(k)))


NOT_NOW, BROKEN = "operation not permitted when stream is capturing", "operation failed due to a previous error during capture"


@pytest.mark.parametrize("call", ["item", "synchronize", "nonzero", "stream", "nested"])
def test_what_a_capture_refuses(call):
    x = torch.ones(4, device="cuda")
    warm(lambda: (x.sum(), x + 1, x.nonzero()))
    calls = {"item": lambda: x.sum().item(), "synchronize": torch.cuda.synchronize, "nonzero": lambda: x.nonzero(),
             "stream": lambda: torch.cuda.current_stream().synchronize(),
             "nested": lambda: torch.cuda.graph(torch.cuda.CUDAGraph()).__enter__()}
    g = torch.cuda.CUDAGraph()
    with pytest.raises(torch.AcceleratorError, match=BROKEN):
        with torch.cuda.graph(g):
            y = x + 1
            with pytest.raises(torch.AcceleratorError, match=NOT_NOW):
                calls[call]()
    assert not torch.cuda.is_current_stream_capturing() and torch.equal((x + 1).cpu(), torch.full((4,), 2.))
    h, y = captured(lambda: x + 1)
    h.replay()
    assert y.sum().item() == 8


def test_a_host_tensor_is_refused_and_the_capture_goes_on():
    x, g = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    warm(lambda: x * 2)
    with torch.cuda.graph(g):
        with pytest.raises(RuntimeError, match="Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU "
                                               "tensor is pinned"):
            torch.ones(4).cuda()
        y = x * 2
    g.replay()
    assert y.sum().item() == 8


def test_errors_of_graphs():
    g = torch.cuda.CUDAGraph()
    for call, text in ((g.replay, "Called CUDAGraph::replay without a preceding successful capture."),
                       (g.pool, r"Called CUDAGraph::pool\(\) without a preceding successful capture."),
                       (g.capture_begin, "CUDA graphs must be captured on a non-default stream."),
                       (g.instantiate, "instantiate.. is intended to be called by the user only when keep_graph=true"),
                       (g.raw_cuda_graph, "unless CUDAGraph was initialized with keep_graph=true")):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(RuntimeError, match="Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got all"):
        with torch.cuda.graph(g, capture_error_mode="all"):
            pass
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        with torch.cuda.graph(g):
            pass
    g.replay()
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        with torch.cuda.graph(g):
            pass
    g.reset()
    a, b = torch.cuda.graph_pool_handle(), torch.cuda.graph_pool_handle()
    assert a != b and len(a) == 2


def test_a_graph_that_is_dropped_during_its_capture():
    x, s = torch.ones(4, device="cuda"), torch.cuda.Stream()
    warm(lambda: x + 1)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.stream(s):
        g.capture_begin()
        x + 1
    del g
    gc.collect()
    assert not s.is_capturing() and (x + 1).sum().item() == 8
    again = torch.cuda.CUDAGraph()
    with pytest.raises(torch.AcceleratorError, match=BROKEN):
        with torch.cuda.graph(again):
            with pytest.raises(torch.AcceleratorError, match=NOT_NOW):
                x.sum().item()
    with torch.cuda.graph(again):  # after a capture that failed
        y = x * 3
    again.replay()
    assert y.sum().item() == 12


def test_a_kept_graph(tmp_path):
    x, g = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph(keep_graph=True)
    warm(lambda: x + 1)
    with torch.cuda.graph(g):
        y = x + 1
    with pytest.raises(RuntimeError, match="until CUDAGraph::instantiate.. has been called"):
        g.raw_cuda_graph_exec()
    assert g.raw_cuda_graph()
    g.instantiate()
    assert g.raw_cuda_graph_exec()
    g.replay()
    assert y.sum().item() == 8
    g.debug_dump(str(tmp_path / "g.dot"))
    assert (tmp_path / "g.dot").read_text().startswith("digraph")


def test_graphs_of_the_accelerator():
    x = torch.arange(5., device="cuda")
    warm(lambda: x.mul(2))
    g = torch.accelerator.Graph()
    with torch.cuda.Stream(), g:
        y = x * 2
    other = torch.accelerator.Graph(True, pool=g.pool(), capture_error_mode="relaxed")
    with torch.cuda.Stream(), other:
        z = y + x
    x.add_(1)
    g.replay()
    other.instantiate()
    other.replay()
    assert other.pool() == g.pool() and z.tolist() == [3., 6., 9., 12., 15.]
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with pytest.raises(RuntimeError, match="CUDA graphs must be captured on a non-default stream."), g:
        pass
    g.capture_error_mode = "strict"
    with pytest.raises(RuntimeError, match="Unknown capture error mode"), torch.cuda.Stream(), g:
        pass


@pytest.mark.parametrize("unused", [False, True])
def test_callables(unused):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).cuda()
    eager = copy.deepcopy(net)
    x = torch.randn(3, 4, device="cuda", requires_grad=True)
    twice = lambda a, b: {"product": a * 2, "other": (a + 1 if unused else a * b,)}
    made = torch.cuda.make_graphed_callables((net, twice), ((x,), (torch.randn(3, 2, device="cuda", requires_grad=True),
                                                                 torch.randn(3, 2, device="cuda", requires_grad=True))),
                                             allow_unused_input=unused)
    for _ in range(3):
        results = []
        for f, g in (made, (eager, twice)):
            torch.manual_seed(5)
            a, b = torch.randn(3, 4).cuda().requires_grad_(), torch.randn(3, 2).cuda().requires_grad_()
            out = g(f(a), b)
            (out["product"].sum() + out["other"][0].square().sum()).backward()
            results.append([out["product"], out["other"][0], a.grad, *([] if unused else [b.grad])])
        assert all(torch.equal(a, b) for a, b in zip(*results))
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(net.parameters(), eager.parameters()))
    net.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(net(x[:1]), eager(x[:1]))  # another size: not the graph
    with pytest.raises(AssertionError, match="must contain only Tensors"):
        torch.cuda.make_graphed_callables(twice, (x, 2))
    eager.register_forward_hook(lambda *_: None)
    with pytest.raises(AssertionError, match="Modules must not have hooks"):
        torch.cuda.make_graphed_callables(eager, (x,))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adadelta", "Adamax", "ASGD", "RMSprop", "Rprop"])
def test_steps_of_optimizers(name):
    w = torch.randn(5, device="cuda", requires_grad=True)
    v = w.detach().clone().requires_grad_()
    a, b = (getattr(torch.optim, name)([p], capturable=True) for p in (w, v))
    w.grad = torch.randn(5, device="cuda")
    v.grad = w.grad.clone()
    a.step()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        a.step()
    b.step()
    for _ in range(4):  # each launch counts a step
        g.replay()
        b.step()
        assert torch.equal(w, v)
    counted = getattr(torch.optim, name)([w])
    counted.step()
    with pytest.raises(RuntimeError, match=f"CUDA graph capture of step.. for an instance of {name} but param_groups' capturable "
                                           "is False"), pytest.warns(UserWarning, match="CUDA Graph is empty"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            counted.step()


def test_a_pool_of_a_program():
    torch.cuda.empty_cache()
    pool, other = torch.cuda.MemPool(), torch.cuda.MemPool()
    assert pool.id != other.id and pool.use_count() == 1 and pool.allocator is None
    reserved = torch.cuda.memory_reserved()
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = torch.ones(1 << 20, device="cuda")
        with pytest.raises(RuntimeError, match="beginAllocateToPool: already recording to mempool_id"):
            with torch.cuda.use_mem_pool(pool):
                pass
    at, grown = x.data_ptr(), torch.cuda.memory_reserved() - reserved
    assert pool.use_count() == 1 and grown > 0
    del x
    y = torch.ones(1 << 20, device="cuda")  # a released block of the pool is for the pool alone
    assert y.data_ptr() != at
    torch.cuda.empty_cache()
    with torch.cuda.use_mem_pool(pool, "cuda"):
        z = torch.ones(1 << 20, device="cuda")
    assert z.data_ptr() == at
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, pool=pool.id):
        w = z * 2
    assert g.pool() == pool.id and pool.use_count() == 2
    g.replay()
    assert w.sum().item() == 2 << 20
    del y, z, w, g
    gc.collect()
    del pool
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved
    with pytest.raises(TypeError, match="the allocator must be a _cuda_CUDAAllocator or None, but got object"):
        torch.cuda.MemPool(object())


def test_blocks_of_a_pool_stay_whole():
    for no_split, segments in ((False, 1), (True, 3)):
        pool = torch.cuda.MemPool(no_split=no_split)
        with torch.cuda.use_mem_pool(pool):
            kept = [torch.ones(n, device="cuda", dtype=torch.uint8) for n in (3, 700, 5000)]
        found = pool.snapshot()
        assert len(found) == segments and all(s["segment_pool_id"] == pool.id and s["segment_type"] == "small" for s in found)
        assert sum(s["requested_size"] for s in found) == 5703
        for s in found:
            assert s["total_size"] == sum(b["size"] for b in s["blocks"]) == 2 << 20
            assert s["allocated_size"] == sum(b["size"] for b in s["blocks"] if b["state"] == "active_allocated")
            assert [b["address"] for b in s["blocks"]] == [s["address"] + sum(c["size"] for c in s["blocks"][:i])
                                                            for i in range(len(s["blocks"]))]
        held = [b for s in found for b in s["blocks"] if b["state"] == "active_allocated"]
        assert {b["address"] for b in held} == {x.data_ptr() for x in kept}
        assert no_split == (len(held) == sum(len(s["blocks"]) for s in found))
        del kept
        assert all(b["state"] == "inactive" for s in pool.snapshot() for b in s["blocks"])
    assert pool.snapshot()[0] in torch.cuda.memory_snapshot() and torch.cuda.MemPool().snapshot() == []


def test_a_pool_serves_requests_that_would_fail():
    torch.cuda.empty_cache()
    size = 64 << 20
    for serves in (False, True):
        pool = torch.cuda.MemPool(use_on_oom=serves)
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(size, device="cuda", dtype=torch.uint8)
        at = x.data_ptr()
        del x
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (4 << 20)) / torch.cuda.mem_get_info()[1])
        try:
            if serves:
                y = torch.empty(size, device="cuda", dtype=torch.uint8)
                assert y.data_ptr() == at
                del y
            else:
                with pytest.raises(torch.OutOfMemoryError):
                    torch.empty(size, device="cuda", dtype=torch.uint8)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        del pool
        torch.cuda.empty_cache()


ALLOCATOR = """
#include <stddef.h>
#include <sys/types.h>
int cuMemAlloc_v2(void **p, size_t n), cuMemFree_v2(void *p);
int got, freed, devices;
long bytes;
void *get(ssize_t n, int device, void *stream)
{
    void *p = NULL;
    if (n > 256 << 20 || cuMemAlloc_v2(&p, (size_t)n))
        return NULL;
    got++, bytes += n, devices += device;
    return p;
}
void give(void *p, ssize_t n, int device, void *stream) { freed++, bytes -= n, cuMemFree_v2(p); }
"""


def test_a_pool_of_another_allocator(tmp_path):
    compiler = os.environ.get("FAKE_CUDA_CLANG") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    (tmp_path / "get.c").write_text(ALLOCATOR)
    libcuda = os.path.join(os.environ["CR_CUDA"], "libcuda.so.1") if FAKE else "-l:libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "get.c", "-o", "get.so", libcuda], cwd=tmp_path, check=True)
    path = str(tmp_path / "get.so")
    counts = ctypes.CDLL(path)
    count = {name: ctypes.c_int.in_dll(counts, name) for name in ("got", "freed", "devices")}
    bytes_of = ctypes.c_long.in_dll(counts, "bytes")
    allocator = torch.cuda.CUDAPluggableAllocator(path, "get", "give").allocator()
    pool = torch.cuda.MemPool(allocator)
    assert pool.allocator is allocator
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(3 << 20, device="cuda")
        y = torch.ones(5, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(257 << 20, device="cuda", dtype=torch.uint8)
    torch.ones(7 << 20, device="cuda")
    assert count["devices"].value == 0 and bytes_of.value == (12 << 20) + (2 << 20) and count["freed"].value == 0
    assert x.sum().item() == 3 << 20 and y.sum().item() == 5
    del x, y, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert bytes_of.value == 0 and count["got"].value == count["freed"].value == 2


def test_requests_of_other_threads_do_not_come_from_a_pool():
    pool, found = torch.cuda.MemPool(), []
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(1 << 20, device="cuda")
    at = x.data_ptr()
    del x
    with torch.cuda.use_mem_pool(pool):
        other = threading.Thread(target=lambda: found.append(torch.ones(1 << 20, device="cuda")))
        other.start()
        other.join()
        x = torch.ones(1 << 20, device="cuda")
    assert x.data_ptr() == at != found[0].data_ptr()


def test_another_thread_makes_a_table_during_a_capture():
    """The table of a gradient (jit/cuda_table.h) takes and frees memory, which ends no capture."""
    x, one, found = torch.randn(1 << 21, dtype=torch.float16), torch.ones(4, device="cuda"), []

    def gradient(x):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(torch.nn.functional.silu(leaf), leaf, x)[0]

    there = x.cuda()
    graph, other = torch.cuda.CUDAGraph(), threading.Thread(target=lambda: found.append(gradient(there).cpu()))
    one + one
    with torch.cuda.graph(graph):
        two = one + one
        other.start()
        other.join()
        three = two + one
    graph.replay()
    assert torch.equal(found[0], gradient(x)) and three.tolist() == [3] * 4
