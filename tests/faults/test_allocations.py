"""Every allocation of a scenario fails in turn: a clean error, no leak, and the next attempt
succeeds."""
import ctypes
import gc
import os

import pytest

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset import _C

LIBRARY = ctypes.CDLL(_C.__file__)
TOLERATED = 40  # a cache may work without memory; after this many successes the scenario ends


class Stats(ctypes.Structure):
    _fields_ = [("used", ctypes.c_int64), ("cached", ctypes.c_int64), ("peak", ctypes.c_int64)]


@pytest.fixture(autouse=True)
def only_new_objects():
    """Excludes objects of other tests from the search for leaks."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


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


class Samples(torch.utils.data.Dataset):
    """Samples with every kind of container that batches may have."""

    def __init__(self):
        self.images = torch.randn(6, 1, 6, 6)

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"image": self.images[i], "label": i % 3, "rest": (float(i), [self.images[i, 0, 0], str(i)])}


def loaded_steps():
    """Trains with the loader, convolution, batch norm, Adam and a scheduler."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam([{"params": model[0].parameters()},
                                  {"params": [*model[1].parameters(), *model[4].parameters()], "lr": 0.1}],
                                 lr=0.01, amsgrad=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for batch in torch.utils.data.DataLoader(Samples(), 3, shuffle=True):
        loss = F.cross_entropy(model(batch["image"]) * batch["rest"][1][0].mean(), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return [loss.detach(), *(t.clone() for t in model.state_dict().values())]


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


def torch_checkpoint(path, old):
    def scenario():
        torch.manual_seed(0)
        base = torch.randn(3, 4)
        torch.save({"a": base, "b": [base.t(), nn.Parameter(torch.arange(5.0))], "c": {"d": torch.ones(300)}}, path,
                   _use_new_zipfile_serialization=not old)
        back = torch.load(path)
        return [back["a"], *back["b"], back["c"]["d"]]
    return scenario


def attempt(scenario, n):
    """Returns the results, or None after the error of the n-th allocation."""
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


@pytest.mark.parametrize("scenario", [convolutional_step, loaded_steps, second_derivative, views_and_indices, recurrent])
def test_any_allocation_may_fail(scenario):
    assert sweep(scenario) > 50


def test_any_allocation_of_a_checkpoint_may_fail(tmp_path):
    assert sweep(checkpoint(str(tmp_path / "weights.safetensors"))) > 3


@pytest.mark.parametrize("old", [False, True])
def test_any_allocation_of_torchs_checkpoints_may_fail(tmp_path, old):
    assert sweep(torch_checkpoint(str(tmp_path / "weights.pt"), old)) > 30
    assert os.listdir(tmp_path) == ["weights.pt"]


def frozen(model, optimizer):
    """Returns parameters and the optimizer's state as numbers."""
    states = [optimizer.state.get(p, {}) for p in model.parameters()]
    return [p.detach().clone() for p in model.parameters()], [
        {k: v.clone() for k, v in s.items()} for s in states]


OPTIMIZERS = [("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"amsgrad": True}), ("Adagrad", {}),
              ("RMSprop", {"momentum": 0.9, "centered": True}), ("Adadelta", {})]


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=[o[0] for o in OPTIMIZERS])
def test_a_failing_step_changes_no_parameter(name, options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, **options)
    F.cross_entropy(model(torch.randn(3, 1, 6, 6)), torch.tensor([0, 1, 2])).backward()
    failed = 0
    for _ in range(2):  # the first step makes the state, the second uses it
        params, _ = frozen(model, optimizer)
        n, row = 0, 0
        while row < 3:
            n += 1
            before = frozen(model, optimizer)
            done = attempt(lambda: optimizer.step() or True, n)
            after = frozen(model, optimizer)
            if done:
                row += 1
                assert not torch.equal(after[0][0], before[0][0])
                continue
            failed += 1
            assert all(map(torch.equal, before[0], after[0])), n
            for old, new in zip(before[1], after[1]):
                for key, value in new.items():  # new state is zero, earlier state is unchanged
                    assert torch.equal(value, old[key]) if key in old else not value.any(), (n, key)
        optimizer.step()
    assert failed > 3
    steps = {s["step"].item() for s in optimizer.state.values() if "step" in s}
    assert len(steps) <= 1
