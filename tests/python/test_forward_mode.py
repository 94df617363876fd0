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
    (lambda t: t[:1], RuntimeError, "Tensor is of size .3. while the given forward gradient is of size .1."),
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


def counted(log):
    class Sine(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.a = a
            return a.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.a.cos()

        @staticmethod
        def jvp(ctx, t):
            log.append(t)
            return t * ctx.a.cos() * len(log)
    return Sine.apply


def test_jvp_runs_once_at_the_call_of_a_dual_level():
    log = []
    with forward_ad.dual_level():
        x = X.clone()
        y = counted(log)(forward_ad.make_dual(x, T))
        assert len(log) == 1
        x.mul_(0)  # what jvp gave stays
        z = y * 3
        for _ in range(3):
            assert torch.allclose(forward_ad.unpack_dual(y).tangent, T * X.cos())
            assert torch.allclose(forward_ad.unpack_dual(z).tangent, 3 * T * X.cos())
        assert len(log) == 1
        assert forward_ad.unpack_dual(y.detach()).tangent is None
        counted(log)(X)
        assert len(log) == 1


def test_what_jvp_raises_is_raised_by_the_call():
    class Raises(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def jvp(ctx, t):
            raise ValueError("in jvp")

    class Larger(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def jvp(ctx, t):
            return torch.ones(7)

    class Without(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        with pytest.raises(ValueError, match="in jvp"):
            Raises.apply(x)
        with pytest.raises(RuntimeError, match=r"different size than that of the original Tensor, this is not supported. "
                           r"Tensor is of size \[3\] while the given forward gradient is of size \[7\]"):
            Larger.apply(x)
        with pytest.raises(NotImplementedError, match="You must implement the jvp function for custom"):
            Without.apply(x)
        assert torch.equal(Without.apply(X), 2 * X)
    with pytest.raises(NotImplementedError, match="You must implement the jvp function for custom"):
        jvp(Without.apply, (X,), (T,))


def test_missing_tangents_are_none_without_materialization():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, a, b, k):
            ctx.set_materialize_grads(k)
            return a * 2, b * 3

        @staticmethod
        def jvp(ctx, ta, tb, tk):
            seen.append((tb, tk))
            return ta * 2, tb
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        a, b = Two.apply(x, X, False)
        assert seen == [(None, None)] and forward_ad.unpack_dual(b).tangent is not None
        assert torch.equal(forward_ad.unpack_dual(a).tangent, 2 * T)
        Two.apply(x, X, True)
        assert torch.equal(seen[1][0], torch.zeros(3)) and seen[1][1] is None


@pytest.mark.parametrize("inside", [False, True])
def test_no_grad_does_not_end_forward_mode(inside):
    """As jax.jvp of x -> sum of two layers and an in-place change; and nothing goes back through it."""
    w = torch.tensor([[1., 2, 3], [4, 5, 6]], requires_grad=True)

    def f(x):
        kept = torch.zeros(2, 2)
        with torch.no_grad():
            y = torch.stack([(x * x) @ w.T, w @ x.tanh()])
            kept[0] = y[1]
            kept[1].add_(y[0])
            return kept.cumsum(0) * counted([])(y)

    def derivative(x, t, eps=1e-6):
        x, t = x.double(), t.double()
        v = w.detach().double()

        def g(x):
            y = torch.stack([(x * x) @ v.T, v @ x.tanh()])
            return y.flip(0).cumsum(0) * y.sin()
        return (g(x + eps * t) - g(x - eps * t)) / (2 * eps)
    modes = [torch.no_grad(), forward_ad.dual_level()]
    with modes[inside]:
        with modes[not inside]:
            out = forward_ad.unpack_dual(f(forward_ad.make_dual(X / 10, T)))
    assert torch.allclose(out.tangent.double(), derivative(X / 10, T), atol=1e-3, rtol=1e-5)
    assert not out.primal.requires_grad and not out.tangent.requires_grad


def test_backward_ends_where_no_grad_was_on():
    w = torch.tensor([1., 2, 3], requires_grad=True)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        with torch.no_grad():
            target = x * w
        loss = ((x * w - target * 2) ** 2).sum()
        loss.backward()
        assert torch.allclose(w.grad, 2 * (X * w.detach() - 2 * X * w.detach()) * X)


def test_edges_are_inputs_and_roots_of_backward():
    x = torch.tensor([1., 2], requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    edge, leaf = torch.autograd.graph.get_gradient_edge(y), torch.autograd.graph.get_gradient_edge(x)
    a, b, c = torch.autograd.grad(z, [edge, leaf, x], retain_graph=True)
    assert a.tolist() == [4, 8] and b.tolist() == c.tolist() == [8, 16]
    assert torch.autograd.grad(edge, x, torch.tensor([1., 3]), retain_graph=True)[0].tolist() == [2, 6]
    y.mul_(5)  # the edge is that of the value before
    assert torch.autograd.grad(y, edge, torch.ones(2))[0].tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        torch.autograd.grad(y.sum(), torch.autograd.graph.get_gradient_edge(torch.ones(1, requires_grad=True)),
                            materialize_grads=True)
