"""Several Python threads in the library at the same time."""
import os
import subprocess
import sys
import threading
import time

import pytest

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.utils.data import DataLoader, TensorDataset

THREADS = 4


def together(work):
    """Returns work(i) of threads that start at the same time.  Raises the first error."""
    results, errors, gate = [None] * THREADS, [], threading.Barrier(THREADS)

    def run(i):
        try:
            gate.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def make_net(seed):
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 100, 10))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.rand(p.shape, generator=generator) * 0.2 - 0.1)
    return net, torch.rand(16, 1, 12, 12, generator=generator)


def train(seed, steps=5):
    net, x = make_net(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(x), torch.arange(16) % 10).backward()
        optimizer.step()
    return [p.detach() for p in net.parameters()]


def test_each_thread_trains_a_network():
    for seed, params in enumerate(together(train)):
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(params, train(seed)))


def test_threads_share_a_network_and_its_gradients():
    net, x = make_net(0)
    net.eval()
    outputs = together(lambda i: [net(x).sum() for _ in range(5)][-1])
    assert all(torch.equal(outputs[0], y) for y in outputs)
    net.zero_grad()
    outputs[0].backward()
    once = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    together(lambda i: net(x).sum().backward())
    for p, grad in zip(net.parameters(), once):
        assert torch.allclose(p.grad, grad * THREADS, rtol=1e-4, atol=1e-4)


def test_threads_draw_from_one_stream():
    torch.manual_seed(3)
    expected = sorted(torch.rand(THREADS * 50).tolist())
    torch.manual_seed(3)
    drawn = together(lambda i: [torch.rand(1).item() for _ in range(50)])
    assert sorted(sum(drawn, [])) == expected
    together(lambda i: [F.dropout(torch.ones(5000), 0.5) for _ in range(10)])


def test_memory_may_be_freed_by_another_thread():
    made = together(lambda i: [torch.full((n,), i) for n in (1, 100, 10000, 1000000)])
    together(lambda i: made[i].clear() or [torch.ones(100000) for _ in range(20)])
    kept = torch.ones(10)
    views = together(lambda i: [kept[j:] for j in range(10)])
    assert all(v.sum() == 10 - j for part in views for j, v in enumerate(part))


def test_large_work_of_several_threads():
    a = torch.rand(200, 200)
    x = torch.rand(100000)
    expected = a @ a, x.sort().values, x.cumsum(0), x.exp().sum()
    for got in together(lambda i: (a @ a, x.sort().values, x.cumsum(0), x.exp().sum())):
        assert all(map(torch.equal, got, expected))


def conv(sizes, weights, **options):
    generator = torch.Generator().manual_seed(0)
    x, w = torch.rand(sizes, generator=generator), torch.rand(weights, generator=generator)
    return lambda bias=None: getattr(F, f"conv{x.ndim - 2}d")(x, w, bias, **options)


@pytest.mark.parametrize("big,small", [(conv((2, 6, n), (6, 3, 3), groups=2), conv((2, 6, 30), (6, 3, 3), groups=2))
                                       for n in (45, 90, 400)])
def test_a_thread_runs_a_convolution_that_another_thread_prepared(big, small):
    """An unfolding convolution needs work memory; the thread that made it may have ended."""
    torch.set_num_threads(1)
    want = []
    for work in (lambda: want.append(big()), lambda: (small(), want.append(big()))):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert torch.equal(*want)


@pytest.mark.parametrize("run", [conv((4, 16, 32, 32), (6, 16, 3, 3)), conv((4, 16, 32, 32), (16, 16, 1, 1), stride=2)])
def test_threads_convolve_with_one_primitive(run):
    torch.set_num_threads(1)
    channels = run().size(1)

    def work(i):
        bias = torch.full((channels,), i + 1.0)
        want = run(bias)
        return all(torch.equal(run(bias), want) for _ in range(50))

    assert all(together(work))


def test_threads_use_the_operators_for_the_first_time():
    """Operator records store dtypes; the calls here differ from thread to thread."""
    dtypes = [torch.float32, torch.float64, torch.int64, torch.bfloat16]

    def work(i):
        x = torch.arange(1, 50).to(dtypes[i])
        return [str((x * x + x).sum().dtype) for _ in range(50)]

    for i, names in enumerate(together(work)):
        assert set(names) == {str(dtypes[i])}


def test_a_loader_of_threads_feeds_training():
    torch.manual_seed(0)
    net, x = make_net(0)
    data = TensorDataset(x.repeat(4, 1, 1, 1), torch.arange(64) % 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for images, labels in DataLoader(data, 8, num_workers=2, worker_method="thread"):
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()
    assert all(p.isfinite().all() for p in net.parameters())


def test_threads_run_backward_from_some_outputs_of_a_compiled_function():
    def three(x, w):
        y = x * w
        y.sin_()  # its derivative reads the earlier elements
        return y, y.exp(), (x + w).tanh()
    masks, data = [(1, 0, 0), (0, 1, 0), (1, 0, 0), (0, 1, 1)], torch.randn(2, 64)

    def gradients(f, mask):
        x, w = (row.clone().requires_grad_() for row in data)
        sum(out.sum() for out, taken in zip(f(x, w), mask) if taken).backward()
        return torch.cat([x.grad, w.grad])
    want = [gradients(three, mask) for mask in masks]
    for _ in range(5):
        f = torch.compile(three)
        gradients(f, (1, 1, 1))
        assert all(map(torch.equal, together(lambda i: gradients(f, masks[i])), want))


def run_alone(program, **variables):
    """Runs the program in a process whose environment says nothing else about OpenMP; returns its outputs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "CR_THREADS"))}
    done = subprocess.run([sys.executable, "-c", program], env={**env, **variables}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


CONVOLUTION = """
import os
import cresset as torch
loaded = lambda: 'libgomp' in open('/proc/self/maps').read()
inherited = lambda: os.popen("env | grep -E '^(OMP_WAIT_POLICY|GOMP_SPINCOUNT)='").read()
torch.set_num_threads(2)
torch.randn(300, 300).exp()
assert not loaded()
before = inherited()
torch.nn.functional.conv2d(torch.randn(2, 8, 30, 30), torch.randn(8, 8, 3, 3))
assert loaded()
assert inherited() == before
"""


@pytest.mark.records("looks at libraries that a call has loaded at once")
@pytest.mark.parametrize("variables, policy, spin", [
    ({}, "PASSIVE", "1000"),
    ({"OMP_WAIT_POLICY": "active"}, "ACTIVE", "30000000000"),
    ({"GOMP_SPINCOUNT": "77"}, "PASSIVE", "77"),
])
def test_openmp_threads_sleep_soon_unless_the_environment_says_how_they_wait(variables, policy, spin):
    """libgomp prints its settings when it is loaded."""
    printed = run_alone(CONVOLUTION, OMP_DISPLAY_ENV="VERBOSE", **variables)[1]
    assert f"OMP_WAIT_POLICY = '{policy}'" in printed
    assert f"GOMP_SPINCOUNT = '{spin}'" in printed


def test_threads_make_short_calls_while_others_sleep_or_compute():
    """A thread looks for the interpreter lock before it waits for it; the holder may keep it, or sleep."""
    @torch.jit.script
    def f(x, n: int):
        for i in range(n):
            x = x * 0.5 + i
        return x

    x = torch.arange(4.)
    want = x.clone()
    for i in range(20):
        want = want * 0.5 + i

    def work(i):
        equal = 0
        for k in range(100):
            equal += torch.equal(f(x + i - i, 20), want)
            if i == 1 and k % 20 == 0:
                time.sleep(0.001)
            elif i == 2:
                equal += sum(range(1000)) == 0
        return equal

    assert together(work) == [100] * THREADS


def test_threads_end_while_another_one_needs_their_programs():
    """A thread that ends runs its deferred calls without the interpreter lock, and makes their program; the main thread,
    which has the lock, needs the same program."""
    program = """
import threading
import cresset as torch
from cresset import nn

def train(seed, results):
    generator = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.rand(p.shape, generator=generator) * 0.2 - 0.1)
    x = torch.rand(16, 1, 12, 12, generator=generator)
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), torch.arange(16) % 3).backward()
        optimizer.step()
    results[seed] = [p.detach() for p in net.parameters()]

results = [None] * 5
threads = [threading.Thread(target=train, args=(k, results)) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for _ in range(4):
    train(4, results)
    print(all(torch.equal(a, b) for r in results for a, b in zip(r, results[4])))
"""
    env = {**os.environ, "CR_LAZY": "1", "CR_THREADS": "2", "OMP_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300)
    assert run.stdout.split() == ["True"] * 4, run.stderr
