"""Results of compiled functions are the objects that results of the functions are: arguments, tensors detached of them,
and views made without gradients, which require a gradient through their base only."""
import pytest

import cresset as torch


def both(x, y):
    return x, y + 1, x.detach(), x[0:], x * 2


def detached(x, y):
    return x.detach()


def twice(x, y):
    z = y + 1
    return z.detach(), z.detach(), z, z


def made_inside(x, y):
    with torch.no_grad():
        z = (x * 3).view(-1)
    return z, x


def viewed_inside(x, y):
    w = x * 3
    with torch.no_grad():
        z = w.view(-1)
    return z, w, y


def product(x, y):
    return (x * y[0]).sum()


def node():
    return torch.linspace(0., 3., 9).reshape(3, 3).requires_grad_() * 2


def untracked(view):
    result = node()
    with torch.no_grad():
        return view(result)


ARGUMENTS = {
    "result": node,
    "leaf": lambda: torch.linspace(0., 3., 9).requires_grad_(),
    "view": lambda: node().view(-1),
    "view without gradients": lambda: untracked(lambda t: t.view(-1)),
    "slice without gradients": lambda: untracked(lambda t: t[1:]),
    "piece without gradients": lambda: untracked(lambda t: t.split(1)[0]),
    "detached": lambda: node().detach(),
    "plain": lambda: torch.linspace(0., 3., 9),
}
FUNCTIONS = [both, detached, twice, made_inside, viewed_inside, product]


def facts(results, x, y):
    results = results if isinstance(results, tuple) else (results,)
    given = (x, y, *results)
    return [(next(i for i, t in enumerate(given) if t is r), r.requires_grad, r.tolist()) for r in results]


@pytest.mark.parametrize("grad", (True, False))
@pytest.mark.parametrize("backend", ("inductor", "eager", "aot_eager"))
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_results_are_the_same_tensors(kind, backend, grad):
    for function in FUNCTIONS:
        compiled = torch.compile(function, backend=backend)
        for call in range(4):
            x, y = ARGUMENTS[kind](), torch.ones(3)
            with torch.set_grad_enabled(grad):
                expected, got = function(x, y), compiled(x, y)
            assert facts(got, x, y) == facts(expected, x, y), (function.__name__, call)


@pytest.mark.parametrize("backend", ("inductor", "eager", "aot_eager"))
def test_a_detached_result_is_changed_alone(backend):
    compiled = torch.compile(lambda x: (x.detach(), x + 1), backend=backend)
    for call in range(4):
        x = torch.ones(3)
        out, _ = compiled(x)
        out.requires_grad_()
        assert not x.requires_grad


def without_gradients(x, y):
    with torch.no_grad():
        z = x * 3
        w = torch.split(x, 1)
    return (z * x).sum() + (w[0] * x[0]).sum()


@pytest.mark.parametrize("backend", ("inductor", "eager", "aot_eager"))
@pytest.mark.parametrize("function", (product, without_gradients))
@pytest.mark.parametrize("kind", ("leaf", "result", "view without gradients"))
def test_gradients_through_calls_without_gradients(kind, function, backend):
    compiled = torch.compile(function, backend=backend)
    for _ in range(4):
        found = []
        for f in (compiled, function):
            x, y = ARGUMENTS[kind](), torch.full((3,), 5.)
            out = f(x, y)
            found.append(torch.autograd.grad(out, x, allow_unused=True) if out.requires_grad else None)
        assert str(found[0]) == str(found[1])


def test_a_number_that_a_recording_left_in_a_list():
    """backward() puts a number of the recorded call into a list that the next recording reads."""
    log = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            log.append("f")
            return x * k

        @staticmethod
        def backward(ctx, g):
            log.append(ctx.k)
            return g * ctx.k, None
    f = torch.compile(lambda x, k: Scale.apply(x, k).sin().sum(), dynamic=True)
    for k in range(6):
        x = torch.ones(2, requires_grad=True)
        f(x, k).backward()
        assert torch.equal(x.grad, k * torch.full((2,), float(k)).cos())
    assert log == [v for k in range(6) for v in ("f", k)]
