"""The result of a sample depends neither on the other samples, nor on layouts, nor on threads."""
import random

import pytest

import cresset as torch
import cresset.nn.functional as F

SIZES = (2, 3, 8, 9, 16, 33)
THREADS = (1, 2, 5)


def draws(count):
    """Descriptions of `count` convolutions: dims, groups, channels of a group, sizes, kernel, stride,
    padding, dilation, transposed.  Windows of one element and of three are drawn most."""
    rng = random.Random(7)
    for _ in range(count):
        dims, groups = rng.choice((1, 2, 2, 2, 3)), rng.choice((1, 1, 1, 2, 8))
        ic, oc = (rng.choice((1, 3, 8, 16, 20, 32, 64)) // (2 if groups > 1 else 1) or 1 for _ in range(2))
        kernel, stride, padding = rng.choice((1, 1, 3, 3, 3, 4, 5)), rng.choice((1, 1, 2)), rng.choice((0, 1, 2))
        dilation = rng.choice((1, 1, 2)) if kernel > 1 else 1
        size = [rng.choice({1: (17, 64), 2: (8, 11, 14), 3: (6, 7)}[dims]) + (kernel - 1) * (dilation - 1) for _ in range(dims)]
        yield dims, groups, ic, oc, size, kernel, stride, padding, dilation, rng.random() < 0.25


def name(draw):
    dims, groups, ic, oc, size, kernel, stride, padding, dilation, transposed = draw
    return f"{'transposed ' if transposed else ''}{dims}d {groups}x{ic}-{oc} {size[0]} k{kernel} s{stride} p{padding} d{dilation}"


def results(call, x, w, b):
    """The result and the gradient of x, of one batch."""
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    y = call(x, w, b)
    (gradient,) = torch.autograd.grad(y, x, torch.cos(y.detach()))
    return y.detach(), gradient


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a, b))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("draw", list(draws(40)), ids=name)
def test_a_row_has_the_same_bits_in_every_batch(draw, dtype, threads):
    dims, groups, ic, oc, size, kernel, stride, padding, dilation, transposed = draw
    torch.manual_seed(0)
    x = torch.randn(33, groups * ic, *size).to(dtype)
    w = torch.randn(*((groups * ic, oc) if transposed else (groups * oc, ic)), *[kernel] * dims).to(dtype)
    b = torch.randn(groups * oc).to(dtype)
    conv = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")

    def call(x, w, b):
        return conv(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups)

    threads(1)
    alone = [torch.cat(part) for part in zip(*(results(call, x[i : i + 1], w, b) for i in range(33)))]
    for count in THREADS:
        threads(count)
        for n in SIZES:
            assert same(results(call, x[:n], w, b), [part[:n] for part in alone]), (count, n)
        if dims == 2:
            last = x[:9].to(memory_format=torch.channels_last)
            assert same(results(call, last, w, b), [part[:9] for part in alone]), count
