"""Pooling by the kernels of emit/window.cuh, with the host's bits."""
import pytest
from test_cuda import FAKE, launches, same

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
POOLS = [((2, 5, 9, 8), dict(kernel_size=3, stride=2, padding=1)), ((2, 4, 8, 6), dict(kernel_size=2)),
         ((1, 3, 9, 9), dict(kernel_size=3, stride=1, dilation=2)), ((2, 3, 7, 7), dict(kernel_size=(2, 3), stride=(3, 1), ceil_mode=True)),
         ((2, 3, 11), dict(kernel_size=4, stride=2, padding=2)), ((1, 2, 4, 5, 6), dict(kernel_size=2, stride=1)),
         ((1, 2, 12, 12), dict(kernel_size=9, stride=1))]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("size, how", POOLS)
def test_gradients_of_max_pooling(size, how, dtype, last):
    torch.manual_seed(51)
    pool = getattr(torch.nn.functional, f"max_pool{len(size) - 2}d")
    x = torch.randint(-3, 4, size).to(dtype)  # equal elements
    if last and len(size) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    results = []
    for device in ("cuda", "cpu"):
        leaf = x.to(device).requires_grad_()
        y = pool(leaf, **how)
        g = torch.randn(y.shape, generator=torch.Generator().manual_seed(52)).to(dtype).to(device)
        y.backward(g)
        results.append((y.detach().cpu(), leaf.grad.cpu()))
    for have, want in zip(*results):
        assert same(have, want) and have.stride() == want.stride()


@pytest.mark.parametrize("how", [dict(count_include_pad=False), dict(ceil_mode=True), dict(padding=0), dict(divisor_override=3)], ids=str)
def test_averages_of_interleaved_planes(how):
    for size in ((2, 4, 9, 8), (2, 3, 7, 7), (1, 8, 3, 4)):
        x = torch.randn(size).contiguous(memory_format=torch.channels_last)
        have, want = (torch.nn.functional.avg_pool2d(x.to(device), 3, **{"stride": 2, "padding": 1, **how}) for device in ("cuda", "cpu"))
        assert same(have.cpu(), want) and have.stride() == want.stride()


def test_a_view_that_is_not_aligned():
    x = torch.randn(1 + 2 * 4 * 6 * 6)
    results = [torch.nn.functional.max_pool2d(x.to(device)[1:].view(2, 6, 6, 4).permute(0, 3, 1, 2), 3, 1, 1) for device in ("cuda", "cpu")]
    assert same(results[0].cpu(), results[1])


def test_max_pooling_and_its_gradient_are_one_launch_each():
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(2, 4, 9, 8, device="cuda").contiguous(memory_format=layout).requires_grad_()
        y = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        g = torch.ones_like(y)
        assert launches(lambda: torch.nn.functional.max_pool2d(x, 3, 2, 1)) == (1 if FAKE else 0)
        assert launches(lambda: torch.autograd.grad(y, x, g, retain_graph=True)) == (1 if FAKE else 0)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("size, how", [
    ((2, 4, 9, 8), dict(kernel_size=3, stride=2, padding=1)), ((2, 4, 8, 6), dict(kernel_size=2)), ((2, 3, 7, 7), dict(kernel_size=(2, 3), stride=(3, 1), ceil_mode=True)),
    ((1, 5, 9, 11), dict(kernel_size=2, stride=3)), ((2, 4, 8, 7), dict(kernel_size=3, stride=2, padding=1, count_include_pad=False)),
    ((2, 3, 6, 6), dict(kernel_size=4, stride=1, padding=2, divisor_override=3)), ((1, 2, 4, 5, 6), dict(kernel_size=2, stride=1)), ((2, 3, 5, 5), dict(kernel_size=5))])
def test_gradients_of_average_pooling(size, how, dtype, last):
    pool = getattr(torch.nn.functional, f"avg_pool{len(size) - 2}d")
    x = torch.randn(size, generator=torch.Generator().manual_seed(54)).to(dtype)
    if last and len(size) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    results = []
    for device in ("cuda", "cpu"):
        leaf = x.to(device).requires_grad_()
        y = pool(leaf, **how)
        g = torch.randn(y.shape, generator=torch.Generator().manual_seed(53)).to(dtype).to(device)
        y.backward(g)
        if device == "cuda":
            assert launches(lambda: torch.autograd.grad(pool(leaf, **how), leaf, g)) <= 2 or last
        results.append((y.detach(), leaf.grad))
    for have, want in zip(*results):
        assert same(have.cpu(), want) and have.stride() == want.stride()


def test_gradients_of_adaptive_pooling():
    for size in ((1, 1), (3, 5), (7, 7), (14, 3)):
        x = torch.randn(2, 3, 7, 7)
        grads = []
        for device in ("cuda", "cpu"):
            leaf = x.to(device).requires_grad_()
            y = torch.nn.functional.adaptive_avg_pool2d(leaf, size)
            y.backward(torch.arange(y.numel(), device=device).view(y.shape).float())
            grads.append(leaf.grad.cpu())
        assert same(*grads)
