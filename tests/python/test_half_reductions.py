"""Reductions of half types add, square and divide in float32 and round once: results whose sums overflow."""
import pytest

import cresset as torch
import cresset.nn.functional as F

REDUCTIONS = {
    "mean": lambda x: x.mean(), "mean of a dim": lambda x: x.mean(1), "mean of columns": lambda x: x.mean(0, keepdim=True),
    "nanmean": lambda x: x.nanmean(), "var": lambda x: x.var(), "var of a dim": lambda x: x.var(0, unbiased=False),
    "std": lambda x: x.std(1), "var_mean": lambda x: torch.var_mean(x)[0], "std_mean": lambda x: torch.std_mean(x)[1],
    "mse_loss": lambda x: F.mse_loss(x, x * 0), "l1_loss": lambda x: F.l1_loss(x, x * 0),
    "huber_loss": lambda x: F.huber_loss(x, x * 0), "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x * 0, x * 0 + 1),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x * 0),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None], 1), "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x[None, None], 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x[None, None], 40), "area": lambda x: F.interpolate(x[None, None], size=1, mode="area"),
    "norm": lambda x: x.norm(), "layer_norm": lambda x: F.layer_norm(x, (1000,)), "instance_norm": lambda x: F.instance_norm(x[None, None])[0],
    "segment_reduce": lambda x: torch.segment_reduce(x, "mean", lengths=torch.tensor([3, 37])),
    "logsumexp": lambda x: x.logsumexp(1), "softmax": lambda x: (x / 16).softmax(1),
}


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_rounds_once(name, dtype):
    function = REDUCTIONS[name]
    x = (torch.arange(40_000).reshape(40, 1000) % 199 + 10).to(dtype)
    want, got = function(x.float()).to(dtype), function(x)
    assert got.dtype == dtype and got.isfinite().all()
    torch.testing.assert_close(got.float(), want.float(), rtol=2 * torch.finfo(dtype).eps, atol=2 * torch.finfo(dtype).eps)
    compiled = torch.compile(function)
    for _ in range(2):
        assert torch.equal(compiled(x), got)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_gradients_of_a_mean(dtype):
    x = torch.full((1000,), 100.0, dtype=dtype, requires_grad=True)
    x.mean().backward()
    assert torch.equal(x.grad, torch.full((1000,), 1e-3, dtype=dtype))
    y = (torch.arange(1000) % 7).to(dtype).requires_grad_()
    y.var().backward()
    z = y.detach().float().requires_grad_()
    z.var().backward()
    torch.testing.assert_close(y.grad.float(), z.grad, rtol=0.02, atol=1e-3)


def test_decimals_of_halves():
    x = torch.tensor([1.2345, 100.123, 12345.0, 0.0567], dtype=torch.float16)
    assert x.round(decimals=1).tolist() == [1.2001953125, 100.125, 12344.0, 0.0999755859375]
    assert x.round(decimals=-2).tolist() == [0.0, 100.0, 12304.0, 0.0]


# torch 2.13: an offset of 1,000, and deviations whose squares are over 65,504
STEP = [-1.5273, -1.0918, -0.6548, -0.2183, 0.2183, 0.6548, 1.0918, 1.5273]
WIDE = [-1.3408, -0.4470, 0.4470, 1.3408]


@pytest.mark.parametrize("compiled", (False, True))
def test_batch_statistics_are_those_of_float32(compiled):
    instance = torch.compile(lambda x: F.instance_norm(x)) if compiled else F.instance_norm
    batch = torch.compile(lambda x: F.batch_norm(x, None, None, training=True)) if compiled else (
        lambda x: F.batch_norm(x, None, None, training=True))
    for _ in range(3):
        for x, want in ((1000 + torch.arange(8.0), STEP), (200 * torch.arange(4.0), WIDE)):
            for got in (instance(x.half().view(1, 1, -1)), batch(x.half().view(-1, 1))):
                assert got.dtype == torch.float16
                torch.testing.assert_close(got.float().flatten(), torch.tensor(want), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_an_instance_norm_rounds_once(dtype):
    """Also its gradients, and the running statistics: those of float32, rounded."""
    torch.manual_seed(3)
    x, g = (20 * torch.randn(3, 2, 50) + 300).to(dtype), torch.randn(3, 2, 50).to(dtype)
    given = [x, torch.tensor([1.3, 0.7], dtype=dtype), torch.tensor([0.1, 0.2], dtype=dtype)]
    results = []
    for kind in (dtype, torch.float32):
        leaves = [t.to(kind).requires_grad_() for t in given]
        mean, var = torch.zeros(2), torch.ones(2)
        y = F.instance_norm(leaves[0], mean, var, *leaves[1:])
        results.append([y, *torch.autograd.grad(y, leaves, g.to(kind)), mean, var])
    for got, want in zip(*results):
        assert torch.equal(got, want.to(got.dtype))
    mixed = F.instance_norm(x, weight=torch.ones(2), bias=torch.zeros(2))
    assert mixed.dtype == dtype and torch.equal(mixed, F.instance_norm(x))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_statistics_of_halves_are_float32(dtype):
    x = (300 * torch.arange(12.0).view(6, 2)).to(dtype)
    for got, want in zip(torch.batch_norm_stats(x, 1e-5), torch.batch_norm_stats(x.float(), 1e-5)):
        assert got.dtype == torch.float32 and torch.equal(got, want)
