"""Compiled training steps whose operators overwrite what a backward pass reads."""
import pytest

import cresset as torch
from cresset import nn

ACTIVATIONS = [nn.SiLU(True), nn.ReLU6(True), nn.LeakyReLU(0.1, True), nn.Hardswish(True), nn.ELU(1., True), nn.Mish(True),
               nn.Hardsigmoid(True), nn.SELU(True), nn.CELU(1., True), nn.Hardtanh(-1., 1., True), nn.Threshold(0.1, 2., True)]


def trained(activation, compile):
    """Three steps of convolution, batch norm (which writes its averages) and activation: losses, gradients, averages."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), activation, nn.Conv2d(4, 2, 1))
    f = compile(m)
    seen = []
    for _ in range(4):
        m.zero_grad()
        loss = f(torch.randn(2, 3, 6, 6)).square().sum()
        loss.backward()
        seen += [loss.detach(), *(p.grad.clone() for p in m.parameters()), *(b.clone() for b in m.buffers())]
    return seen


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: type(a).__name__)
def test_an_activation_in_place_after_batch_norm(activation):
    eager = trained(activation, lambda m: m)
    compiled = trained(activation, lambda m: torch.compile(m, fullgraph=True))
    assert all(torch.equal(a, b) for a, b in zip(eager, compiled, strict=True))


@pytest.mark.parametrize("write", ["pow_", "exp_", "sigmoid_", "mul_", "sqrt_", "tanh_", "addcmul_", "lerp_", "clamp_"])
def test_an_operator_in_place_after_a_counter(write):
    """The counter is an input that the function writes, so its graph has no form without writes."""
    w, args = torch.rand(3) + 0.5, {"pow_": (3,), "mul_": (torch.rand(3),), "clamp_": (0.1, 0.8),
                                    "addcmul_": (torch.rand(3), torch.rand(3)), "lerp_": (torch.rand(3), 0.3)}.get(write, ())

    def run(compile):
        count, p = torch.tensor(0), w.clone().requires_grad_()

        @compile
        def f(x):
            count.add_(1)
            y = x * p
            z = y * y
            getattr(z, write)(*args)
            return z * y + count
        out = []
        for i in range(4):
            p.grad = None
            f(torch.full((3,), i + 1.)).sum().backward()
            out += [p.grad.clone(), count.clone()]
        return out
    eager, compiled = run(lambda f: f), run(lambda f: torch.compile(f, fullgraph=True))
    assert all(torch.equal(a, b) for a, b in zip(eager, compiled, strict=True))


@pytest.mark.parametrize("f", [
    lambda x: (x * 2).add_(1).sin(), lambda x: torch.empty(4).fill_(3) * x, lambda x: x.clone().fill_(2) + x,
    lambda x: torch.empty_like(x).zero_().sin(), lambda x: (x * 2).relu_().exp().add_(2).sin(),
    lambda x: (x * 2).add_(1), lambda x: (x * 2).add_(1).sin().mul_(3).neg_()])
def test_a_result_in_the_memory_of_one_that_was_written_counts_its_own_writes(f):
    x, g = torch.arange(4.), torch.compile(f)
    assert [g(x)._version for _ in range(5)] == [f(x)._version] * 5
