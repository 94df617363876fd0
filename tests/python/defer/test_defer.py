"""Deferred calls: a program gives the same values, errors, versions and side effects as eagerly."""
import copy
import gc
import io
import os
import pickle
import subprocess
import sys
import threading
import warnings

import numpy
import pytest

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset import _C

from .fresh import in_a_thread


def values(x):
    """Everything of a result that a program can see."""
    if isinstance(x, torch.Tensor):
        return ("tensor", x.dtype, tuple(x.shape), x.stride(), x.storage_offset(), x._version, x.requires_grad,
                x.detach().clone().tolist())
    if isinstance(x, (list, tuple)):
        return [values(v) for v in x]
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return x


def outcome(f):
    torch.manual_seed(5)
    try:
        return values(f())
    except Exception as error:
        return type(error).__name__, str(error)


def aliases():
    a = torch.arange(12.)
    v = a.view(3, 4)
    v[1] += 10
    a.mul_(2)
    w = v.t()
    w[0] = -1
    return a, v, w


def chain_of_views():
    a = torch.arange(24.).reshape(2, 3, 4) * 1
    b = a.transpose(0, 2)[1:, :, 0].unsqueeze(1).expand(3, 2, 3)
    a.add_(5)
    return a, b, b.contiguous()


def overlapping_copy():
    a = torch.arange(8.) + 0
    a[1:] = a[:-1]
    return a


def read_before_write():
    a = torch.ones(4)
    b = a * 3
    a.zero_()
    return a, b


def write_at_once_after_read():
    a = torch.arange(4.)
    b = a * 3
    a.random_(5)
    return b


def detached_data():
    a = torch.arange(4.)
    b = a + 1
    b.data.mul_(10)
    b += 1
    c = b.detach()
    c.add_(1)
    return a, b, c


def data_is_replaced():
    a = torch.zeros(3)
    b = a + 1
    a.data = b * 7
    return a * 2, b


def numpy_writes():
    a = torch.zeros(4)
    n = a.numpy()
    b = a + 1
    n[:] = 5
    c = a + 1
    a.add_(1)
    return b, c, n.tolist()


def numpy_of_a_leaf_after_a_read():
    a = torch.zeros(4)
    b = a + 1
    a.numpy()[:] = 9
    return a, b


def from_numpy_changes():
    n = numpy.zeros(4)
    t = torch.from_numpy(n)
    b = t * 2 + 1
    n[:] = 3
    return b, t + 0


def large_outside_memory():
    n = numpy.zeros(1 << 19)
    t = torch.from_numpy(n)
    b = t + 1
    n[:] = 7
    return b.sum().item(), (t + 1).sum().item()


def dlpack_writes():
    a = torch.arange(3.) * 2
    b = torch.from_dlpack(a)
    b.add_(1)
    c = a * 2
    b.zero_()
    return a, b, c


def buffers():
    a = torch.arange(3.) + 1
    view = memoryview(a)
    b = a * 2
    view[0] = 50
    return a, b


def pointers():
    a = torch.arange(3.) + 1
    return a.data_ptr() != 0, a.data_ptr() == a.view(3, 1).data_ptr()


def pickled():
    a = torch.arange(4.) * 3
    return pickle.loads(pickle.dumps(a)), copy.deepcopy(a + 1)


def saved():
    file = io.BytesIO()
    torch.save({"a": torch.ones(3) + 1, "b": [torch.arange(2.) * 2]}, file)
    file.seek(0)
    return torch.load(file)


def generator_state():
    g = torch.Generator().manual_seed(3)
    state = g.get_state() + 0
    a = torch.rand(3, generator=g)
    g.set_state(state)
    return a, torch.rand(3, generator=g)


def random_in_order():
    a = torch.rand(3) * 2
    b = F.dropout(torch.ones(8), 0.5) + 1
    return a, b, torch.randn(2) + a[:2]


def undefined_memory():
    a = torch.empty_like(torch.ones(4) * 2)
    a.fill_(3)
    return a + torch.empty(4).zero_()


def wrong_sizes():
    a = torch.ones(3) * 2
    try:
        a + torch.ones(4)
    except RuntimeError as error:
        return str(error), a
    return a


def wrong_index():
    a = torch.arange(4.) * 2
    i = torch.tensor([1, 9]) + 0
    return a[i]


def wrong_index_is_caught():
    total = torch.zeros(())
    for k in (1, 9, 2):
        try:
            total = total + (torch.arange(4.) * 2)[torch.tensor([k]) * 1].sum()
        except IndexError:
            total = total + 1000
    return total


def singular():
    return torch.linalg.inv(torch.zeros(2, 2) * 1)


def zero_divisor():
    return torch.tensor([1, 2]) * 1 // (torch.tensor([1, 0]) * 1)


def in_place_of_a_leaf():
    w = torch.ones(2, requires_grad=True)
    w.add_(1)


def saved_value_is_changed():
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    z = y.exp()
    z.add_(1)
    z.sum().backward()


def versions():
    a = torch.zeros(4)
    seen = [a._version]
    a.add_(1)
    seen.append(a._version)
    b = a[1:]
    b.mul_(2)
    seen += [a._version, b._version]
    torch.add(a, 1, out=a)
    seen.append(a._version)
    return seen, a


def out_is_resized():
    out = torch.empty(0)
    torch.mul(torch.arange(6.).view(2, 3) + 1, 2, out=out)
    return out


def out_is_a_part():
    base = torch.zeros(2, 3)
    torch.add(torch.ones(3), 4, out=base[1])
    return base


def metadata_in_place():
    a = torch.arange(6.).view(2, 3) + 1
    a.t_()
    b = a * 2
    a.unsqueeze_(0).squeeze_()
    a.resize_(6)
    return a, b


def set_from_another():
    a, b = torch.zeros(2) + 1, torch.arange(3.) * 2
    a.set_(b)
    b.add_(1)
    return a, b


def storages():
    a = torch.arange(4.) + 1
    s = a.untyped_storage()
    s.fill_(0)
    a.add_(1)
    return a, len(s), s.tolist()[:4], s.nbytes()


def many_results():
    a = torch.arange(6.).view(2, 3) * -1
    values, indices = a.max(1)
    parts = (a + 1).split(1)
    q, r = torch.linalg.qr(torch.eye(2) * 3)
    return values, indices, list(parts), q, r


def sizes_by_values():
    a = torch.arange(5.) - 2
    return a[a > 0], a.nonzero(), torch.unique(a * 0)


def branches():
    x, seen = torch.arange(4.) - 1, []
    for _ in range(3):
        x = x * 2 if x.sum() > 3 else x + 1
        seen.append(x.max().item())
    return x, seen


def printed():
    return repr(torch.arange(3.) / 3), str(torch.ones(2, 2) * 2), f"{torch.ones(()) * 2:.2f}"


def complex_bits():
    a = torch.tensor([1 + 2j, 3 - 1j]) * 2
    b = a.conj()
    b.imag.add_(1)
    return a, b.resolve_conj(), b * 2


def sparse():
    a = torch.eye(3) * 2
    s = a.to_sparse()
    return (s @ (a + 1)), s.values() * 2, s.to_dense()


def half_precision():
    a = (torch.arange(6.) / 7).half() * 3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = torch.ones(2, 2) @ torch.ones(2, 2)
    return a, b, a.to(torch.float64)


def default_dtype_changes():
    a = torch.arange(4) / 3
    torch.set_default_dtype(torch.float64)
    try:
        return a, torch.arange(4) / 3
    finally:
        torch.set_default_dtype(torch.float32)


def inference():
    with torch.inference_mode():
        a = torch.ones(2) * 3
    return a.is_inference(), a.clone() + 1


def hooks_and_double_backward():
    w = torch.arange(3., requires_grad=True)
    seen = []
    w.register_hook(lambda g: seen.append(g.sum().item()))
    y = (w ** 3).sum()
    g, = torch.autograd.grad(y, w, create_graph=True)
    (g * g).sum().backward()
    return g, w.grad, seen


def custom_function():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * 2 + x * 0

    w = torch.ones(3, requires_grad=True)
    Twice.apply(w * 3).sum().backward()
    return w.grad


def training(make_optimizer, steps=3):
    def run():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
        optimizer = make_optimizer(net.parameters())
        losses = []
        for _ in range(steps):
            x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.detach() for p in net.parameters()]
    return run


def convolutions():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 2))
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    net(x).pow(2).mean().backward()
    return x.grad, {k: v.clone() for k, v in net.state_dict().items()}, [p.grad for p in net.parameters()]


def recurrent():
    net = nn.LSTM(3, 4, 2)
    y, (h, c) = net(torch.randn(5, 2, 3))
    (y.sum() + h.sum() * c.sum()).backward()
    return y.detach(), [p.grad.clone() for p in net.parameters()]


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    y = layer(torch.randn(2, 3, 8))
    y.mean().backward()
    return y.detach(), [p.grad for p in layer.parameters()]


def embeddings():
    table = nn.Embedding(5, 3, padding_idx=0)
    y = table(torch.tensor([[1, 0], [4, 1]]))
    y.sum().backward()
    return y.detach(), table.weight.grad


def lists_of_tensors():
    a = [torch.ones(2) * k for k in range(5)]
    torch._foreach_add_(a, 1)
    return torch.cat(a), torch.stack(torch._foreach_mul(a, 2))


def empty_results():
    return torch.ones(0, 3) + 1, (torch.ones(0, 3) * 2).sum(0), torch.cat([torch.ones(0), torch.ones(2) * 2])


PROGRAMS = [aliases, chain_of_views, overlapping_copy, read_before_write, write_at_once_after_read, detached_data,
            data_is_replaced, numpy_writes, numpy_of_a_leaf_after_a_read, from_numpy_changes, large_outside_memory,
            dlpack_writes, buffers, pointers, pickled, saved, generator_state, random_in_order, undefined_memory,
            wrong_sizes, wrong_index, wrong_index_is_caught, singular, zero_divisor, in_place_of_a_leaf,
            saved_value_is_changed, versions, out_is_resized, out_is_a_part, metadata_in_place, set_from_another,
            storages, many_results, sizes_by_values, branches, printed, complex_bits, sparse, half_precision,
            default_dtype_changes, inference, hooks_and_double_backward, custom_function, convolutions, recurrent,
            encoder, embeddings, lists_of_tensors, empty_results,
            training(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)), training(torch.optim.AdamW),
            training(lambda p: torch.optim.Adam(p, foreach=False, fused=True))]


@pytest.fixture
def eagerly():
    """Ends the region of the flavour CR_DEFER=1 for a test, which opens regions itself."""
    was = _C._defer_in_region()
    if was:
        _C._defer(False)
        _C._defer_flush("a test")
    yield
    if was:
        _C._defer(True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__qualname__.split(".")[0])
def test_a_program_is_the_same(program, eagerly):
    wanted = outcome(program)
    with torch.lazy():
        assert outcome(program) == wanted
    _C._defer_counts()
    assert outcome(program) == wanted
    assert _C._defer_counts()["noted"] == 0


def test_results_are_read_after_the_region(eagerly):
    with torch.lazy():
        a = torch.arange(3.) * 2
        assert _C._defer_pending() == 1
    assert _C._defer_pending() == 0 and a.tolist() == [0, 2, 4]


def test_results_that_are_not_read_are_not_computed(eagerly):
    x = torch.ones(3)
    _C._defer_counts()
    with torch.lazy():
        y = x * 2
        for _ in range(4):
            x.exp()
    counts = _C._defer_counts()
    assert counts["noted"] == 5 and counts["ran"] == 1 and counts["dead"] == 4 and y.tolist() == [2, 2, 2]


def test_memory_of_a_long_loop_is_bounded(eagerly):
    with torch.lazy():
        total = torch.zeros(())
        for _ in range(25000):
            total = total + 1
        assert _C._defer_pending() < 25000
        assert total.item() == 25000


def test_a_flush_names_its_line(eagerly):
    with torch.lazy(watch=True) as region:
        a = torch.ones(3) + 1
        if a.sum() > 3:
            a = a * 2
        a.tolist()  # read here
    needs = [(f.calls, f.source) for f in region.flushes]
    assert needs == [(3, "if a.sum() > 3:"), (1, "a.tolist()  # read here")]
    assert all(f.file == __file__ for f in region.flushes)


def test_backward_after_the_region_continues_the_trace(eagerly):
    w = torch.ones(3, requires_grad=True)
    _C._defer(True)
    loss = (w * 3).sum()
    _C._defer(False)
    assert _C._defer_pending() == 2
    loss.backward()
    assert _C._defer_pending() == 0 and w.grad.tolist() == [3, 3, 3]


# --- programs ---

def fused(x, w, scale):
    y = (x @ w).relu() * scale + 1
    z = y.t().softmax(0)
    part = x.clone()
    part[:, 1:3] += z.t()[:, :2]
    return y.sum(1), z, part, y.max(1)[1]


def test_a_copy_of_negated_numbers_waits_for_writes(eagerly):
    b = (-torch.arange(4.))._neg_view()
    with torch.lazy():
        b.square_()
        q = b.clone()
    assert q.tolist() == [0., 1., 4., 9.]


@in_a_thread
def test_an_equal_trace_runs_a_program(eagerly):
    torch.manual_seed(3)
    w = torch.randn(8, 8)
    for n in range(6):
        x = torch.randn(8, 8)
        wanted = values(fused(x, w, 2))
        _C._defer_counts()
        with torch.lazy():
            found = fused(x, w, 2)
        assert values(found) == wanted
        assert _C._defer_counts()["programs"] == 1 or n == 0


@pytest.mark.parametrize("change", ["size", "number", "stride", "reader"])
def test_another_trace_runs_another_program(change, eagerly):
    def f(x, scale, kept):
        y = x * scale + 1
        z = y.exp()
        return (y, z) if kept else z.sum(0)

    torch.manual_seed(4)
    for n in range(8):
        odd = n % 2
        x = torch.randn(4, 5 + (change == "size" and odd))
        x = torch.randn(5, 4).t() if change == "stride" and odd else x
        arguments = x, 3. if change == "number" and odd else 2., change == "reader" and bool(odd)
        wanted = values(f(*arguments))
        with torch.lazy():
            found = f(*arguments)
        assert values(found) == wanted


def test_a_program_writes_its_inputs(eagerly):
    a, b = torch.zeros(6), torch.zeros(6)
    view = b.view(2, 3)
    for n in range(5):
        a.add_(1).mul_(2)
        with torch.lazy():
            b.add_(1)
            view.mul_(2)
        assert a.tolist() == b.tolist() and b._version == a._version == 2 * n + 2


def test_a_copy_of_a_part_has_places_of_its_own(eagerly):
    """A program may read the part itself, but not by places in the copy."""
    x = torch.randn(3, 4)
    for _ in range(4):
        with torch.lazy():
            copies = [x[k].clone() for k in range(3)]
            found = torch.stack([c[:2] for c in copies])
            del copies
        assert torch.equal(found, x[:, :2])


def test_a_weight_that_changed_is_read_again(eagerly):
    """Programs keep packed copies of weights."""
    w, x = torch.randn(64, 64), torch.randn(64, 64)
    for _ in range(5):
        with torch.lazy():
            y = (x @ w + 1).relu()
        assert y.tolist() == (x @ w + 1).relu().tolist()
        w.mul_(-1.5)


def test_one_result_for_two_equal_calls_is_no_alias(eagerly):
    for _ in range(4):
        x = torch.ones(4)
        with torch.lazy():
            a, b, c = x + 1, x + 1, x * 1
            d = c + 0
        a.add_(5)
        c.zero_()
        assert (a.tolist(), b.tolist(), x.tolist(), d.tolist()) == ([7.] * 4, [2.] * 4, [1.] * 4, [1.] * 4)


@in_a_thread
def test_a_training_step_is_few_programs(eagerly):
    def losses(step):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(net.parameters())
        return [step(net, optimizer, torch.randn(5, 4)).item() for _ in range(8)]

    def step(net, optimizer, x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    wanted = losses(step)
    _C._defer_counts()
    assert losses(torch.lazy()(step)) == wanted
    assert _C._defer_counts()["programs"] >= 6


# --- threads and processes ---

def in_thread(f):
    found = []
    t = threading.Thread(target=lambda: found.append(outcome(f)))
    t.start()
    t.join()
    return found[0]


def test_another_thread_reads_a_pending_tensor(eagerly):
    with torch.lazy():
        a = torch.arange(4.) * 2
        assert in_thread(lambda: a + 1)[-1] == [1, 3, 5, 7]


def test_another_thread_reads_a_pending_write_through_an_old_view(eagerly):
    a = torch.zeros(4)
    v = a.view(2, 2)
    in_thread(lambda: torch.ones(2) + 1)
    with torch.lazy():
        a.add_(3)
        assert in_thread(lambda: v * 1)[-1] == [[3, 3], [3, 3]]


def test_another_thread_writes_a_tensor_that_waits_to_be_read(eagerly):
    a = torch.zeros(4)
    with torch.lazy():
        b = a + 1
        in_thread(lambda: a.fill_(9))
        assert b.tolist() == [1, 1, 1, 1] and a.tolist() == [9, 9, 9, 9]


def test_another_thread_defers_a_write_of_a_tensor_that_waits_to_be_read(eagerly):
    a = torch.zeros(4)

    def write():
        with torch.lazy():
            a.fill_(9)

    with torch.lazy():
        b = a + 1
        in_thread(write)
        assert b.tolist() == [1, 1, 1, 1] and a.tolist() == [9, 9, 9, 9]


def test_results_outlive_the_thread_that_deferred_them(eagerly):
    kept = []

    def work():
        _C._defer(True)
        kept.append(torch.arange(3.) * 5)

    t = threading.Thread(target=work)
    t.start()
    t.join()
    assert (kept[0] + 1).tolist() == [1, 6, 11]


def test_threads_share_parameters(eagerly):
    net, wrong = nn.Linear(8, 8), []
    x = torch.randn(4, 8)
    wanted = net(x).tanh().sum(1).tolist()

    def work():
        for _ in range(50):
            with torch.lazy():
                if net(x).tanh().sum(1).tolist() != wanted:
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_fork_while_calls_wait(eagerly):
    with torch.lazy():
        a = torch.arange(3.) * 2
        b = a + 1
        pid = os.fork()
        if pid == 0:
            with torch.lazy():
                ok = (b * 2).tolist() == [2, 6, 10]
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert b.tolist() == [1, 3, 5]


def test_nothing_is_kept(eagerly):
    import weakref
    with torch.lazy():
        a = torch.ones(1000) * 2
        b = a + 1
        gone = weakref.ref(a)
        del a
        gc.collect()
        assert gone() is None
        assert b.sum().item() == 3000


UNREAD = """
import cresset as torch
from cresset import _C
big = torch.ones(1 << 18)
before = _C._memory_stats()["peak"]
with torch.lazy():
    chain = big
    for _ in range(20):
        chain = chain + 1
    assert chain.sum().item() == 21 * (1 << 18)
print((_C._memory_stats()["peak"] - before) >> 20)
"""


def test_memory_of_unread_results_is_not_allocated(eagerly):
    """Twenty results of 1 MiB are alive in turn, not together; the peak is the process's, so a new one measures it."""
    done = subprocess.run([sys.executable, "-c", UNREAD], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8


def test_errors_inside_leave_the_region(eagerly):
    with pytest.raises(RuntimeError, match="must match"):
        with torch.lazy():
            torch.ones(2) + torch.ones(3)
    assert not _C._defer_in_region()
