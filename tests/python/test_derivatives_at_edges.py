"""First and second derivatives where a function changes its formula, at infinities and at NaN.  The values are torch 2.13's."""
import math

import pytest

import cresset as torch
import cresset.nn.functional as F

inf, nan = math.inf, math.nan
TARGET = torch.zeros(1, dtype=torch.float64)


def smooth_l1(x, beta=1.0):
    return F.smooth_l1_loss(x, TARGET.expand_as(x), reduction="none", beta=beta)


def huber(x, delta=1.0):
    return F.huber_loss(x, TARGET.expand_as(x), reduction="none", delta=delta)


CASES = [
    (F.elu, [0., -0., -1., 2., 800., inf, nan], [1., 1., math.exp(-1), 1., 1., 1., 1.], [0., 0., math.exp(-1), 0., 0., 0., 0.]),
    (lambda x: F.celu(x, 2.0), [0., -2., 2000.], [1., math.exp(-1), 1.], [0., math.exp(-1) / 2, 0.]),
    (F.selu, [0., 1., inf], [1.7580993408473766, 1.0507009873554805, 1.0507009873554805], [0., 0., 0.]),
    (lambda x: F.elu(x.clone(), inplace=True), [0., -1., 800.], [1., math.exp(-1), 1.], [0., math.exp(-1), 0.]),
    (lambda x: F.softplus(x, 2.0, 1.0), [0.5, 0.25, 1.], [0.7310585786300049, 0.6224593312018546, 1.],
     [0., 2 * 0.6224593312018546 * (1 - 0.6224593312018546), 0.]),
    (F.hardshrink, [0.5, -0.5, 1.], [0., 0., 1.], None),
    (F.softshrink, [0.5, -0.5, 1.], [0., 0., 1.], None),
    (F.hardtanh, [1., -1., 0., 2.], [0., 0., 1., 0.], None),
    (F.relu6, [0., 6., 3.], [0., 0., 1.], None),
    (torch.logit, [-1., 0.5, 2., nan], [nan, 4., nan, nan], None),
    (lambda x: torch.logit(x, -1.0), [-1., 2.], [-0.5, -0.5], [-0.75, 0.75]),
    (torch.special.entr, [-2., 0., 1., nan], [nan, inf, -1., nan], [0.5, -inf, -1., nan]),
    (torch.special.log_ndtr, [5., 40., 1e30], [1.486719940904903e-06, 0., 0.], [-7.433601914860e-06, 0., 0.]),
    (smooth_l1, [1., -1., 0.5, nan], [1., -1., 0.5, nan], [0., 0., 1., 0.]),
    (lambda x: smooth_l1(x, 0.5), [0.5, 0.25, nan], [1., 0.5, nan], [0., 2., 0.]),
    (huber, [1., -1., 0.5, nan], [1., -1., 0.5, nan], [0., 0., 1., 0.]),
    (lambda x: huber(x, 2.0), [2., -2., 3., 1.], [2., -2., 2., 1.], [0., 0., 0., 1.]),
]


@pytest.mark.parametrize("function, at, first, second", CASES)
def test_derivatives(function, at, first, second):
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    g, = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    assert g.tolist() == pytest.approx(first, rel=1e-9, abs=1e-300, nan_ok=True)
    if second is not None:
        h, = torch.autograd.grad(g.sum(), x)
        assert h.tolist() == pytest.approx(second, rel=1e-9, abs=1e-300, nan_ok=True)


@pytest.mark.parametrize("function, at, first, second", CASES)
def test_tangents(function, at, first, second):
    x = torch.tensor(at, dtype=torch.float64)
    assert torch.func.jvp(function, (x,), (torch.ones_like(x),))[1].tolist() == pytest.approx(first, rel=1e-9, abs=1e-300, nan_ok=True)


def test_log_ndtr_in_float32_has_finite_second_derivatives():
    x = torch.tensor([12., 20., 100., -20.], requires_grad=True)
    g, = torch.autograd.grad(torch.special.log_ndtr(x).sum(), x, create_graph=True)
    h, = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == pytest.approx([0., 0., 0., -0.99754], rel=1e-3, abs=1e-30)


@pytest.mark.parametrize("decimals, kernel", [(-1, "round_cpu"), (2, "round_cpu"), (0, "round_vml_cpu")])
@pytest.mark.parametrize("dtype, name", [(torch.int64, "Long"), (torch.uint8, "Byte"), (torch.bool, "Bool"), (torch.complex64, "ComplexFloat")])
def test_only_floats_are_rounded_to_decimals(decimals, kernel, dtype, name):
    with pytest.raises(NotImplementedError, match=f"^\"{kernel}\" not implemented for '{name}'"):
        torch.round(torch.ones(2, dtype=dtype), decimals=decimals)


@pytest.mark.parametrize("eps, text", [(-1., "-1"), (nan, "nan"), (-1e-8, "-1e-08")])
def test_cosine_similarity_refuses_negative_eps(eps, text):
    with pytest.raises(RuntimeError, match=f"^eps must be non-negative, got: {text}$"):
        F.cosine_similarity(torch.ones(3), torch.ones(3), 0, eps)
