"""Recurrent layers by the kernels of emit/recurrent.cuh, which have a step in one launch, or all steps of a gradient."""
import copy

import pytest
from test_cuda import FAKE, launches

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
LAYERS = [(torch.nn.LSTM, {}), (torch.nn.GRU, {}), (torch.nn.RNN, {}), (torch.nn.RNN, dict(nonlinearity="relu"))]
DTYPES = [(torch.float32, 2e-5), (torch.float64, 1e-12), (torch.bfloat16, 0.1), (torch.float16, 0.02)]
SIZES = [(5, 8, 4, dict(bidirectional=True)), (17, 12, 3, dict(bias=False)), (1, 7, 2, dict(num_layers=2, batch_first=True))]
# Tiles of several rows and units, whose weights a block keeps; and too many of them, so that each step is a launch.
TILES = [(9, 20, 3, {}), (25, 15, 4, dict(bidirectional=True)), (3, 68, 2, {})]
CASES = [(layer, size, DTYPES[0]) for layer in LAYERS for size in SIZES] + [
    (layer, size, DTYPES[0]) for layer, size in zip(LAYERS + LAYERS[:3], TILES * 2 + TILES[2:])] + [
    (LAYERS[1], TILES[2], DTYPES[2]), (LAYERS[0], TILES[1], DTYPES[1]),
    (LAYERS[0], SIZES[1], DTYPES[1]), (LAYERS[1], SIZES[0], DTYPES[1]), (LAYERS[0], SIZES[0], DTYPES[2]), (LAYERS[2], SIZES[2], DTYPES[2]),
    (LAYERS[1], SIZES[1], DTYPES[3])]


def results(layer, x, device, dtype):
    layer, x = copy.deepcopy(layer).to(device, dtype), x.to(device, dtype).requires_grad_()
    y, last = layer(x)
    parts = (y, *(last if isinstance(last, tuple) else (last,)))
    sum((p * p).sum() for p in parts).backward()
    return [t.detach().cpu().to(x.dtype) for t in (*parts, x.grad, *(p.grad for p in layer.parameters()))]


@pytest.mark.parametrize("layer, size, dtype", CASES, ids=str)
def test_layers_and_gradients(layer, size, dtype):
    (kind, more), (rows, units, steps, how), (dtype, close) = layer, size, dtype
    torch.manual_seed(71)
    layer = kind(6, units, **how, **more)
    x = torch.randn((rows, steps, 6) if how.get("batch_first") else (steps, rows, 6))
    for have, want in zip(results(layer, x, "cuda", dtype), results(layer, x, "cpu", torch.float64 if dtype == torch.float64 else torch.float32)):
        assert (have.to(want.dtype) - want).abs().max() <= close * max(1, want.abs().max().item())


def test_sums_of_several_chunks():
    torch.manual_seed(72)
    layer, x = torch.nn.LSTM(4, 268), torch.randn(2, 3, 4)
    for have, want in zip(results(layer, x, "cuda", torch.float32), results(layer, x, "cpu", torch.float32)):
        assert (have - want).abs().max() <= 2e-5 * max(1, want.abs().max().item())


def test_second_derivatives():
    torch.manual_seed(73)
    layer, x = torch.nn.GRU(3, 4).double(), torch.randn(2, 2, 3, dtype=torch.float64)
    both = []
    for device in ("cuda", "cpu"):
        leaf, model = x.to(device).requires_grad_(), copy.deepcopy(layer).to(device)
        g, = torch.autograd.grad((model(leaf)[0] ** 2).sum(), leaf, create_graph=True)
        both.append(torch.autograd.grad((g * g).sum(), leaf)[0].cpu())
    assert (both[0] - both[1]).abs().max() < 1e-10


@pytest.mark.parametrize("units, more", [(4, 1), (68, 10)], ids=str)  # all steps; each step and the cotangents of the first states
def test_launches_of_steps(units, more):
    gates, w = torch.randn(9, 2, 4 * units, device="cuda"), torch.randn(4 * units, units, device="cuda")
    h, c = torch.zeros(2, units, device="cuda"), torch.zeros(2, units, device="cuda")
    call = torch.ops.aten._rnn_direction
    y, cells = call(gates, h, c, w, None, 0, False)
    assert launches(lambda: call(gates, h, c, w, None, 0, False)) == (9 if FAKE else 0)
    back = torch.ops.aten._rnn_direction_backward
    n = launches(lambda: back(torch.ones_like(y), torch.ones_like(y), y, cells, gates, h, c, w, None, 0, False))
    share = launches(lambda: gates + torch.nn.functional.linear(torch.ops.aten._rnn_previous(y, h, False), w))
    ones = launches(lambda: (torch.ones_like(y), torch.ones_like(y)))
    assert n == (more + share + ones if FAKE else 0)


def given(rows, units, b=None, **how):
    """Arguments of _rnn_steps for an lstm on the host: gates, states, weights, a bias."""
    torch.manual_seed(74)
    return [torch.randn(s, **how) for s in ((3, rows, 4 * units), (rows, units), (rows, units), (4 * units, units), b or (4 * units,))]


def both(entry, args, *more):
    """Results of an entry, or its error, on the host and on the device."""
    out = []
    for device in ("cpu", "cuda"):
        try:
            out.append([t.cpu() for t in entry(*[a.to(device) for a in args], *more)])
        except RuntimeError as error:
            out.append(str(error))
    return out


@pytest.mark.parametrize("b", [(3,), (0,), (1,), (2, 8), (2, 1)], ids=str)
def test_biases_of_other_sizes(b):
    here, there = both(torch.ops.aten._rnn_direction, given(2, 2, b), 0, False)
    if isinstance(here, str):
        assert there == here
    else:
        assert all((x - y).abs().max() < 1e-5 for x, y in zip(there, here))
    for out in both(torch.ops.aten._rnn_steps, given(2, 2, b), 0, False):
        assert "do not fit" in out


def test_steps_of_arrays_that_are_not_dense():
    args = given(3, 4)
    for i in range(5):
        gaps = [*args[:i], args[i].repeat_interleave(2, -1)[..., ::2], *args[i + 1:]]
        turned = [*args[:i], args[i].transpose(0, -1).contiguous().transpose(0, -1), *args[i + 1:]]
        for case in (gaps, turned):
            here, there = both(torch.ops.aten._rnn_steps, case, 0, False)
            assert all((x - y).abs().max() < 1e-5 for x, y in zip(there, here))


def test_steps_check_their_arguments():
    steps, back = torch.ops.aten._rnn_steps, torch.ops.aten._rnn_steps_backward
    gates, h, c, w, b = args = [x.cuda() for x in given(2, 2)]
    y, cells = steps(*args, 0, False)
    right = [y, cells, y, cells, gates, gates, h, c, w, b]
    back(*right, 0, False)
    for i, wrong in [(1, torch.randn(50, 2)), (2, torch.randn(2, 3)), (3, w.double()), (0, gates[0]), (4, b[:3])]:
        with pytest.raises(RuntimeError, match="do not fit|dtype|dimensions"):
            steps(*args[:i], wrong.cuda(), *args[i + 1:], 0, False)
    for kind, cell in ((7, c), (0, None), (1, None)):
        with pytest.raises(RuntimeError, match="kind|cell|do not fit"):
            steps(gates, h, cell, w, b, kind, False)
    for i in range(10):
        for wrong in (right[i][:0], right[i].double()):
            with pytest.raises(RuntimeError, match="do not fit|dtype"):
                back(*right[:i], wrong, *right[i + 1:], 0, False)


@pytest.mark.skipif(not FAKE, reason="the limit of the stand-in")
def test_rows_are_not_limited_by_the_second_number_of_a_grid(monkeypatch):
    """That is at most 65,535 on devices, the first 2,147,483,647."""
    monkeypatch.setenv("FAKE_CUDA_GRID", "1")
    here, there = both(torch.ops.aten._rnn_direction, given(40, 4), 0, False)
    assert all((x - y).abs().max() < 1e-5 for x, y in zip(there, here))
