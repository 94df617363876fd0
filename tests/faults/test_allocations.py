"""Every allocation of a scenario fails in turn: a clean error, nothing kept, and the next try works."""
import ctypes
import gc

import pytest

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset import _C

LIBRARY = ctypes.CDLL(_C.__file__)
TOLERATED = 40  # a cache may do without memory; this many successes in a row are the end of the scenario


class Stats(ctypes.Structure):
    _fields_ = [("used", ctypes.c_int64), ("cached", ctypes.c_int64), ("peak", ctypes.c_int64)]


def used_bytes():
    gc.collect()
    stats = Stats()
    LIBRARY.cr_cpu_memory_stats(ctypes.byref(stats))
    return stats.used


def convolutional_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Dropout(0.5), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)
    loss = F.cross_entropy(model(torch.randn(2, 1, 4, 4)), torch.tensor([0, 2]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return [loss.detach()] + [p.detach() for p in model.parameters()]


def second_derivative():
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    y = (torch.softmax(x @ x.t(), -1) * torch.tanh(x).sum(1)).sum()
    g, = torch.autograd.grad(y, x, create_graph=True)
    (g * g).sum().backward()
    return [x.grad]


def views_and_indices():
    torch.manual_seed(0)
    a = torch.randn(4, 5, requires_grad=True)
    b = a * 2
    b[1:3, ::2] = 7.0
    b[torch.tensor([0, 3])] += 1
    c = torch.cat([b.t().reshape(-1), b[b > 0], torch.stack(b.unbind(1)).flatten()])
    c.sort().values.cumsum(0).sum().backward()
    return [a.grad, c.detach()]


def recurrent():
    torch.manual_seed(0)
    cell = nn.LSTM(3, 4, num_layers=2)
    words = nn.Embedding(6, 3)
    out, (h, c) = cell(words(torch.tensor([[1, 2], [3, 5]])))
    (out.sum() + h.sum() + c.sum()).backward()
    return [words.weight.grad]


def checkpoint(path):
    from cresset.safetensors import load_file, save_file

    def scenario():
        torch.manual_seed(0)
        save_file({"a": torch.randn(3, 4), "b": torch.arange(5)}, path)
        return list(load_file(path).values())
    return scenario


def attempt(scenario, n):
    """The results, or None after the error that the n-th allocation must give."""
    LIBRARY.cr_fail_alloc_after(ctypes.c_uint64(n))
    try:
        return scenario()
    except (RuntimeError, MemoryError) as error:
        assert "memory" in str(error), error
        return None
    finally:
        LIBRARY.cr_fail_alloc_after(ctypes.c_uint64(0))


def sweep(scenario):
    want = scenario()
    kept, failed, n, row = used_bytes(), 0, 0, 0
    while row < TOLERATED:
        n += 1
        got = attempt(scenario, n)
        row = row + 1 if got else 0
        failed += not got
        if got:
            assert all(torch.equal(a, b) for a, b in zip(got, want)), n
        del got
        assert used_bytes() <= kept + 4096, n
    assert all(torch.equal(a, b) for a, b in zip(scenario(), want))
    return failed


@pytest.mark.parametrize("scenario", [convolutional_step, second_derivative, views_and_indices, recurrent])
def test_any_allocation_may_fail(scenario):
    assert sweep(scenario) > 50


def test_any_allocation_of_a_checkpoint_may_fail(tmp_path):
    assert sweep(checkpoint(str(tmp_path / "weights.safetensors"))) > 3
