"""Functions that no single graph holds, with another backend: it gets the graph of each part, and its functions make the results."""
import random

import pytest

import cresset as torch
from cresset import _C, nn
from cresset._dynamo.exc import BackendCompilerFailed, Unsupported

W = torch.randn(4, 4, requires_grad=True)
LAYER = nn.Linear(4, 4)


class Backend:
    """Counts graphs and their calls; the results are those of the graph, times `scale`."""

    def __init__(self, scale=1):
        self.graphs, self.ran, self.scale = [], 0, scale

    def __call__(self, graph, inputs):
        self.graphs.append([node.name for node in graph.graph.nodes if "call" in node.op])

        def run(*given):
            self.ran += 1
            return [x * self.scale if x.is_floating_point() and self.scale != 1 else x for x in graph(*given)]
        return run


def branches(x):
    y = (x @ W).relu()
    if y.sum() > 0:
        y = y * 2
    return y + 1


def reads(x):
    return (x * x.mean().item()).sum(0) + len(x.tolist())


def selects(x):
    return torch.nonzero(x).sum() + x[x > 0].sum()


def breaks(x):
    y = LAYER(x)
    torch._dynamo.graph_break()
    return torch.tanh(y)


def draws(x):
    y = nn.functional.dropout(x, 0.5) * 2
    return y * y.sum().item()


def writes(x):
    y = x.clone()
    x.add_(1)
    y.mul_(2)
    return y * x.sum().item(), x


def views(x):
    y = x * 2
    z = y[1:]
    y.add_(float(z.sum()))
    return y, z, z + 1


def calls_python(x):
    return {"a": [x + random.random() * 0], "b": print(end="")}


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 10


def custom(x):
    return Twice.apply(x * 1) + x


def hooks(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 3)
    return y * 4


def nothing_left(x):
    y = x * 2
    with torch.no_grad():
        z = y + 1
    return y * z.sum().item(), z, y.detach()


FUNCTIONS = [branches, reads, selects, breaks, draws, writes, views, calls_python, custom, hooks, nothing_left]


def outcome(f, seed, grad):
    torch.manual_seed(seed)
    x = torch.randn(4, 4)
    given = x.clone().requires_grad_(True) * 1 if grad else x
    leaves = torch.utils._pytree.tree_leaves(f(given))
    tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
    ends = [t for t in tensors if t.requires_grad]
    wanted = [t for t in (given, W, *LAYER.parameters()) if t.requires_grad]
    gradients = torch.autograd.grad([t.sum() for t in ends], wanted, allow_unused=True) if ends else ()
    return [t.detach() for t in tensors], [t.requires_grad for t in tensors], gradients, given._version


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_parts_are_eager(f, grad):
    backend = Backend()
    compiled = torch.compile(f, backend=backend)
    for seed in (0, 0, 1, 2):
        want, got = (outcome(g, seed, grad) for g in (f, compiled))
        assert repr(got) == repr(want)
    assert len(backend.graphs) <= 6 and (backend.graphs or f is custom)


@pytest.mark.parametrize("grad", [False, True])
def test_the_backends_functions_make_the_results(grad):
    """They are called in each call but the recorded one, and nothing else makes these results."""
    def f(x):
        y = x * 2
        if y.sum() > -1e9:
            y = y + 1
        return y
    backend = Backend(scale=10)
    compiled, x = torch.compile(f, backend=backend), torch.ones(3, requires_grad=grad)
    assert torch.equal(compiled(x), torch.full((3,), 3.0))
    assert [len(names) for names in backend.graphs] == [3, 1]
    for calls in (2, 4):
        y = compiled(x)
        assert torch.equal(y, torch.full((3,), 210.0)) and backend.ran == calls
        if grad:
            g, = torch.autograd.grad(y.sum(), x)
            assert torch.equal(g, torch.full((3,), 200.0))


def test_one_graph():
    """fullgraph=True: a part must not end in the middle; Python's state does not matter."""
    backend = Backend()
    f = torch.compile(calls_python, backend=backend, fullgraph=True)
    for _ in range(3):
        f(torch.ones(2))
    assert len(backend.graphs) == 1
    for g, why in ((branches, "branching"), (reads, r"item\(\)"), (breaks, "graph_break"), (selects, "depends on the values")):
        for _ in range(2):
            with pytest.raises(Unsupported, match=f"{g.__name__} cannot be one graph: .*{why}"):
                torch.compile(g, backend=Backend(), fullgraph=True)(torch.ones(4, 4))


def test_errors_come_out():
    def bad(graph, inputs):
        raise ValueError("no")
    with pytest.raises(BackendCompilerFailed, match="ValueError: no"):
        torch.compile(branches, backend=bad)(torch.ones(4, 4))

    def raises(x):
        float(x.sum())
        return x @ torch.ones(3)
    f = torch.compile(raises, backend=Backend())
    for _ in range(3):
        with pytest.raises(RuntimeError, match="size mismatch"):
            f(torch.ones(2, 2))
    assert torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0)) and not _C._defer_pending()


def test_no_results_stay():
    import gc
    import weakref
    f = torch.compile(branches, backend=Backend())
    for _ in range(3):
        x = torch.randn(4, 4)
        y = f(x)
        seen = [weakref.ref(t) for t in (x, y)]
        del x, y
        gc.collect()
        assert [r() for r in seen] == [None, None]
