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

    class WithSetup(Function):
        forward = staticmethod(lambda a: a * 2)
        setup_context = staticmethod(lambda ctx, inputs, output: None)
        backward = staticmethod(lambda ctx, g: g * 2)
    with pytest.raises(NotImplementedError, match="You must implement the jvp function for custom"):
        jvp(WithSetup.apply, (X,), (T,))


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


def test_under_no_grad_a_dual_level_changes_nothing():
    p, buffer, total = torch.nn.Parameter(torch.ones(3)), torch.ones(3), torch.zeros(3)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        with torch.no_grad():
            p.sub_(x * 0.5)
            buffer.mul_(x)
            total = total + x
            y = x * x
        assert not y.requires_grad and y.is_leaf and y.grad_fn is None
        with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
            y.sum().backward()
    for made, expected in (p, 1 - X / 2), (buffer, X), (total, X):
        assert made.is_leaf and made.grad_fn is None and torch.equal(made.detach(), expected)
    assert p.requires_grad and not buffer.requires_grad and not total.requires_grad
    assert buffer.numpy().tolist() == X.tolist()


def test_gradients_of_a_dual_level_have_no_history():
    w = torch.nn.Parameter(torch.ones(3))
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        (w * x).sum().backward()
        g, = torch.autograd.grad((w * w * x).sum(), w)
        for grad, expected in (w.grad, X), (g, 2 * X):
            assert not grad.requires_grad and grad.grad_fn is None and torch.equal(grad, expected)


def test_backward_ends_where_no_grad_was_on():
    w = torch.tensor([1., 2, 3], requires_grad=True)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        with torch.no_grad():
            target = x * w
        loss = ((x * w - target * 2) ** 2).sum()
        loss.backward()
        assert torch.allclose(w.grad, 2 * (X * w.detach() - 2 * X * w.detach()) * X)


class CubeAndSum(Function):
    calls = 0

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_forward(a, b)
        ctx.save_for_backward(a, b)
        return a ** 3 * b, a + b

    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        return 3 * a ** 2 * b * g + h, a ** 3 * g + h

    @staticmethod
    def jvp(ctx, ta, tb):
        CubeAndSum.calls += 1
        a, b = ctx.saved_tensors
        return 3 * a ** 2 * b * ta + a ** 3 * tb, ta + tb


def mixed(x, cube):
    """Results that reach the dual tensor by many ways, through operators and through calls of a Function."""
    y, total = x, x * 0.5
    for k in range(6):
        a, b = (y.sin() + total).chunk(2)
        p, q = cube(a, b)
        r, _ = cube(q, a + k)
        y = torch.cat([p.tanh() + b, r.cos() * a])
        total = total * 0.5 + y * x
    return total


def test_functions_between_operators_have_the_derivative_of_the_whole():
    x, t = torch.linspace(-1, 1, 6, dtype=torch.float64), torch.linspace(2, 1, 6, dtype=torch.float64)

    def plain(x):
        return mixed(x, lambda a, b: (a ** 3 * b, a + b))
    leaf, CubeAndSum.calls = x.clone().requires_grad_(), 0
    rows = [torch.autograd.grad(y, leaf, retain_graph=True)[0] for y in plain(leaf)]
    expected = torch.stack(rows) @ t  # by reverse mode and the operators' own derivatives
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(mixed(forward_ad.make_dual(x, t), CubeAndSum.apply))
    assert CubeAndSum.calls == 12
    assert torch.allclose(out.tangent, expected, rtol=1e-9, atol=1e-9)
    assert not out.tangent.requires_grad
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(mixed(forward_ad.make_dual(leaf, t), CubeAndSum.apply)).tangent
        back, = torch.autograd.grad(tangent.sum(), leaf)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(leaf.detach().requires_grad_(), t)
        want, = torch.autograd.grad(forward_ad.unpack_dual(plain(dual)).tangent.sum(), dual)
    assert torch.allclose(back, want, rtol=1e-9, atol=1e-9)


def test_a_call_does_not_search_the_history_before_the_last_call(monkeypatch):
    """The edges that the search looks at, counted: as many for each further call."""
    from cresset._functorch import eager_transforms
    seen, leads = [0], eager_transforms.leads

    def counting(node, is_end, known):
        def count(edge):
            seen[0] += 1
            return is_end(edge)
        return leads(node, count, known)
    monkeypatch.setattr(eager_transforms, "leads", counting)

    def edges(n):
        seen[0] = 0
        with forward_ad.dual_level():
            y, s = forward_ad.make_dual(X.clone().requires_grad_(), T), torch.ones(3, requires_grad=True)
            for _ in range(n):
                s = s * 1.5
                y = torch.tanh(y)
                y = CubeAndSum.apply(y, s.sin())[0].relu()
        return seen[0]
    first, second, third = edges(10), edges(20), edges(30)
    assert first > 0 and second - first == third - second


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


def test_tangents_have_derivatives_when_calls_wait():
    """A call may read the geometry of a tensor without elements; programs of traces have no such inputs."""
    for _ in range(3):
        with torch.lazy():
            found = grad(lambda a: jvp(Cube.apply, (a,), (T,))[1].sum())(X)
        assert torch.equal(found, 60 * X * T)


def refused(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_a_level_gives_a_tensor_one_tangent():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, T)
        refused(lambda: forward_ad.make_dual(X, dual), "Setting a forward grad that itself has a forward gradient at the same level0")
        refused(lambda: forward_ad.make_dual(dual, T), "Making a dual Tensor based on a Tensor that already has a forward gradient at")


def pulled():
    return sum(torch._C._pulled_entries().values())


def written(x):
    y = torch.zeros(4, 3, dtype=x.dtype)
    y[1:3] = x * 2
    y[:, 1].mul_(y[:, 2] + 1).add_(1)
    y.t_()
    y[2].copy_(x[0, 0] * y[1].clone())
    return y.reshape(-1)


W = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
Z = torch.complex(W, W.flip(0))
WITHOUT_PASSES = {
    "network": lambda x: torch.softmax(torch.nn.functional.gelu(torch.nn.functional.linear(x, W, W[:, 0])).relu() @ W, -1).sum(0),
    "row norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "planes": lambda x: torch.nn.functional.max_pool2d(torch.nn.functional.conv2d(x[None, None], W[None, None, :2, :2], padding=1), 2),
    "averages": lambda x: torch.nn.functional.avg_pool1d(torch.nn.functional.pad(x, (1, 1)), 2),
    "written": written,
    "numbers of one product": lambda x: torch.dot(x.reshape(-1), W.reshape(-1)[:x.numel()]) * x.trace(),
    "one size broadcast": lambda x: W[:, None] * x[:, :1] / (x[:1, :1] + 3) - x[0],
    "indices twice": lambda x: x[[0, 1, 0]].index_add(0, torch.tensor([1, 1]), x * x).index_put((torch.tensor([0, 0]),), x[0] * 3),
    "complex": lambda x: torch.view_as_real((x * Z[:2] / (Z[1:3] + x)).exp().cumsum(0)),
    "real parts": lambda x: (x * Z[:2]).real * (Z[:2] - x).conj().imag,
    "lists": lambda x: torch.stack(torch.cat([x, W[:1], x * x]).unbind(0)).split(2)[1],
}


@pytest.mark.parametrize("name", WITHOUT_PASSES)
def test_tangents_go_along_the_graph_without_backward_passes(name):
    f, x, t = WITHOUT_PASSES[name], W[:2] * 0.7 + 0.1, W[1:3].t().contiguous().t()  # a tangent of other strides
    before = pulled()
    found = jvp(f, (x,), (t,))[1]
    assert pulled() == before
    leaf = x.clone().requires_grad_()
    out = f(leaf)
    rows = [torch.autograd.grad(y, leaf, retain_graph=True)[0] for y in out.reshape(-1)]
    expected = (torch.stack(rows) * t).sum((1, 2)).reshape(out.shape)
    if name == "indices twice":  # torch's gradient by values of equal places is not the transpose
        expected[0] = 3 * t[0]
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(jacfwd(f)(x), torch.stack(rows).reshape(*out.shape, *x.shape)) or name == "indices twice"


def test_calls_that_go_back_and_forth_are_counted():
    ways = torch._C._tangent_ways()
    for name, way in {"mul": "diagonal", "expand": "diagonal", "sum": "applied", "mm": "applied", "_softmax": "transposed",
                      "floor": "none", "cumprod": "pulled"}.items():
        assert set(ways[name].values()) == {way}, name
    before = torch._C._pulled_entries().get("cumprod", 0)
    assert jvp(lambda a: a.cumprod(0), (X,), (T,))[1].tolist() == [1, 2, 10]
    assert torch._C._pulled_entries()["cumprod"] == before + 1
    many = [f"{name}({p})" for name, each in ways.items() for p, way in each.items() if way == "pulled"]
    assert len(many) <= 200, many


def test_tangents_are_printed():
    x, t = torch.tensor([1., 2.]), torch.tensor([3., 4.])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        assert repr(dual) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
        assert repr(dual * 2) == "tensor([2., 4.], tangent=tensor([6., 8.]))"
        assert repr(dual.sum()) == "tensor(3., tangent=7.0)"
        assert repr(dual.double()) == f"tensor([1., 2.], dtype={torch.float64},\n       tangent=tensor([3., 4.], dtype={torch.float64}))"
        assert repr(x) == "tensor([1., 2.])"
        assert repr(x.clone().requires_grad_() * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
        both = forward_ad.make_dual(x.clone().requires_grad_(), t)
        assert repr(both) == "tensor([1., 2.], grad_fn=<ViewBackward0>, tangent=tensor([3., 4.]))"
        (both * both).sum().backward()
        assert repr(both).startswith("tensor([1., 2.]")
