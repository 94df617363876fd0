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
