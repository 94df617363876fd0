"""Forward mode through Functions of the program: their jvp is used, never their backward."""
import pytest

import cresset as torch
from cresset.autograd import Function, forward_ad
from cresset.func import grad, jacfwd, jvp

X, T = torch.tensor([1., 2, 3]), torch.tensor([1., 0, 2])


class Cube(Function):
    """backward gives 3 x^2, jvp ten times as much, so that a test sees which one ran."""

    @staticmethod
    def forward(a):
        return a ** 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g

    @staticmethod
    def jvp(ctx, t):
        a, cube = ctx.saved_tensors
        assert torch.equal(cube, a ** 3)
        return 30 * a ** 2 * t


class Product(Function):
    """Two inputs and a number; a second result without a tangent; no backward."""

    @staticmethod
    def forward(a, b, k):
        return a * b * k, a + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[2]
        ctx.save_for_forward(inputs[0], inputs[1])

    @staticmethod
    def jvp(ctx, ta, tb, tk):
        a, b = ctx.saved_tensors
        assert tk is None and ta.shape == a.shape and tb.shape == b.shape
        return (ta * b + a * tb) * ctx.k, None


def tangent(f, *pairs):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(*[forward_ad.make_dual(x, t) for x, t in pairs])).tangent


def test_jvp_of_a_function_is_its_own():
    assert torch.equal(tangent(Cube.apply, (X, T)), 30 * X ** 2 * T)
    assert torch.equal(jvp(Cube.apply, (X,), (T,))[1], 30 * X ** 2 * T)
    assert torch.equal(jacfwd(Cube.apply)(X), torch.diag(30 * X ** 2))
    assert torch.equal(jvp(lambda a: Cube.apply(a).sin(), (X,), (T,))[1], (X ** 3).cos() * (30 * X ** 2 * T))


def test_backward_is_not_affected():
    x = X.clone().requires_grad_()
    Cube.apply(x).sum().backward()
    assert torch.equal(x.grad, 3 * X ** 2)
    assert torch.equal(jvp(grad(lambda a: Cube.apply(a).sum()), (X,), (T,))[1], 6 * X * T)


def test_tangents_have_derivatives():
    assert torch.equal(grad(lambda a: jvp(Cube.apply, (a,), (T,))[1].sum())(X), 60 * X * T)


def test_inputs_without_tangents_get_zeros_and_results_without_tangents_are_zeros():
    y = torch.tensor([2., 2, 2])
    assert torch.equal(jvp(lambda a: Product.apply(a, y, 3), (X,), (T,))[1][0], T * y * 3)
    first, second = jvp(lambda a, b: Product.apply(a, b, 3), (X, y), (T, T))[1]
    assert torch.equal(first, (T * y + X * T) * 3) and torch.equal(second, torch.zeros(3))


def test_jvp_may_change_a_tangent_in_place():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(5)
    t = T.clone()
    assert torch.equal(tangent(lambda a: Doubled.apply(a.clone()), (X, t)), 5 * T) and torch.equal(t, T)


@pytest.mark.parametrize("answer, error, text", [
    (lambda t: (t, t), RuntimeError, "an invalid number of forward gradients .expected 1 but got 2."),
    (lambda t: 3, RuntimeError, "expected Variable or None .got int. for grad output 0"),
    (lambda t: t[:1], RuntimeError, "got .1. but expected shape compatible with .3."),
])
def test_wrong_answers_of_jvp_are_refused(answer, error, text):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def jvp(ctx, t):
            return answer(t)
    with pytest.raises(error, match=text):
        tangent(Wrong.apply, (X, T))


def test_strict_jvp_refuses_results_that_do_not_depend_on_the_inputs():
    with pytest.raises(RuntimeError, match="The output of f is independent of the inputs"):
        jvp(lambda a: torch.ones(2), (X,), (T,), strict=True)
    assert torch.equal(jvp(lambda a: a * 2, (X,), (T,), strict=True)[1], 2 * T)
