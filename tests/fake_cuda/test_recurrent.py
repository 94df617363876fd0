"""Recurrent layers by the kernels of emit/recurrent.cuh, which have a step in one launch."""
import copy

import pytest
from test_cuda import FAKE, launches

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
LAYERS = [(torch.nn.LSTM, {}), (torch.nn.GRU, {}), (torch.nn.RNN, {}), (torch.nn.RNN, dict(nonlinearity="relu"))]
DTYPES = [(torch.float32, 2e-5), (torch.float64, 1e-12), (torch.bfloat16, 0.1)]
SIZES = [(5, 8, 4, dict(bidirectional=True)), (17, 12, 3, dict(bias=False)), (1, 7, 2, dict(num_layers=2, batch_first=True))]
CASES = [(layer, size, DTYPES[0]) for layer in LAYERS for size in SIZES] + [
    (LAYERS[0], SIZES[1], DTYPES[1]), (LAYERS[1], SIZES[0], DTYPES[1]), (LAYERS[0], SIZES[0], DTYPES[2]), (LAYERS[2], SIZES[2], DTYPES[2])]


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


def test_a_step_is_one_launch():
    gates, w = torch.randn(9, 2, 16, device="cuda"), torch.randn(16, 4, device="cuda")
    h, c = torch.zeros(2, 4, device="cuda"), torch.zeros(2, 4, device="cuda")
    call = torch.ops.aten._rnn_direction
    y, cells = call(gates, h, c, w, None, 0, False)
    assert launches(lambda: call(gates, h, c, w, None, 0, False)) == (9 if FAKE else 0)
    back = torch.ops.aten._rnn_direction_backward
    n = launches(lambda: back(torch.ones_like(y), torch.ones_like(y), y, cells, gates, h, c, w, None, 0, False))
    assert n < 9 + 9 if FAKE else n == 0
