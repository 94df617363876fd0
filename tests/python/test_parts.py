"""Functions that no single graph holds, with another backend: it gets the graph of each part, and its functions make the results."""
import random
import threading

import numpy as np
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
    for g, why in ((branches, "branching"), (reads, r"tolist\(\)"), (breaks, "graph_break")):
        for _ in range(2):
            with pytest.raises(Unsupported, match=f"{g.__name__} cannot be one graph: .*{why}"):
                torch.compile(g, backend=Backend(), fullgraph=True)(torch.ones(4, 4))


def test_values_and_sizes_of_one_graph_end_a_part():
    for g in (selects, lambda x: (x + 1) * x.sum().item(), lambda x: x[x > 0] * 2):
        backend, x = Backend(), torch.randn(4, 4)
        compiled = torch.compile(g, backend=backend, fullgraph=True)
        for _ in range(4):
            assert torch.equal(compiled(x), g(x))
        assert len(backend.graphs) == 2


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


MAKES = ["{n} = {a} * 2", "{n} = {a}.detach()", "{n} = {a} + {b}", "{n} = {a}.view(-1)", "{n} = {a}[0:2]", "{n} = torch.tanh({a})",
         "{n} = {a}.data", "{n} = {a}.reshape(2, 2)", "{n} = {a}.contiguous()", "{n} = {a}.type_as({b})", "{n} = {a}.view_as({a})",
         "{n} = torch.sigmoid({a}).view(2, 2)", "q = {a}.reshape(-1).split(2); {n} = torch.cat(q) + q[0].repeat(2)"]
WRITES = ["{a}.detach().add_(1)", "{a}.add_(k)", "{a}.view(-1)[0:1].fill_(3.)", "{a}.data.mul_(2)", "{a}[0] = 5.",
          "m = {a}.detach().numpy()", "m += 1"]
ENDS = ["k = float({a}.sum())", "k = {a}.detach().sum().item()", "torch._dynamo.graph_break()", "k = {a}.tolist() and 2."]


def generated(seed):
    """A function of random lines: results and views of results, writes, and ends of parts."""
    draw, names, lines = random.Random(seed), ["x"], []
    for _ in range(draw.randint(4, 10)):
        kind, n = draw.choices((MAKES, WRITES, ENDS), (5, 3, 3))[0], f"v{len(names)}"
        lines.append(draw.choice(kind).format(n=n, a=draw.choice(names), b=draw.choice(names)))
        names += [n] * (kind is MAKES)
    kept = [n for n in names if draw.random() < 0.6] or names
    text = "\n    ".join(["def f(x):", "k, m = 1., torch.zeros(4).numpy()", *lines, f"return [{', '.join(kept)}], m, k"])
    space = {"torch": torch}
    exec(text, space)
    return text, space["f"]


def seen(f, seed, grad):
    """Results, gradients, and which results change when one of them is written."""
    torch.manual_seed(seed)
    x = torch.randn(2, 2)
    x = x.requires_grad_() * 1 if grad else x
    try:
        results, m, k = f(x)
        tensors = [x, *results]
        ends = [t for t in tensors if t.requires_grad]
        wanted = [x, *[t for t in ends if t is not x][:2]]
        gradients = torch.autograd.grad([(t * t).sum() for t in ends], wanted, allow_unused=True) if ends else ()
    except (RuntimeError, ValueError, IndexError) as error:
        return type(error), str(error)
    values = repr([t.detach() for t in tensors] + [m, k, gradients])
    for t in tensors:
        t.detach().reshape(-1)[:1].add_(1)  # a view, where these have no gaps
    return values, repr([t.detach() for t in tensors]), repr(m), [t.requires_grad for t in tensors]


@pytest.mark.parametrize("grad", [False, True])
def test_generated_programs_are_eager(grad):
    for seed in range(20):
        text, f = generated(seed)
        compiled = torch.compile(f, backend=lambda graph, inputs: graph.forward)
        for call in range(3):
            assert seen(compiled, call, grad) == seen(f, call, grad), f"seed {seed}, call {call}:\n{text}"


def detaches(x):
    y = x * 2
    z = y.detach()
    z.add_(z.sum().item())
    return y + 1


def writes_an_array(x):
    y = x * 2
    y.detach().numpy()[0] = 100
    return y + 1


def keeps_a_storage(x):
    y = x * 2
    s = y.untyped_storage()
    float(y.sum())
    y.zero_()
    return torch.empty(0).set_(s, 0, x.shape, x.stride()) + y


def watches(x):
    y = x * 2
    if y.requires_grad:
        y.retain_grad()
    z = y * y.sum().item()
    if y.requires_grad:
        z.sum().backward()
    return z.detach(), y.grad


@pytest.mark.parametrize("f", [detaches, writes_an_array, keeps_a_storage, watches], ids=lambda f: f.__name__)
def test_memory_that_something_else_has_stays(f):
    compiled = torch.compile(f, backend=Backend())
    for grad in (False, True):
        for call in range(3):
            x = torch.arange(4.).requires_grad_(grad)
            assert repr(compiled(x)) == repr(f(x))


@pytest.mark.parametrize("kept", [False, True])
def test_results_that_a_backend_keeps_or_shares(kept):
    """Its tensors stay its own: the noted calls make the results."""
    held = []

    def backend(graph, inputs):
        def run(*given):
            out = list(graph(*given))
            if kept:
                held.extend((t, t.tolist()) for t in out)
                return out
            return [out[0]] * len(out)
        return run

    def f(x):
        y, z = x * 2, x * 2
        float(x.sum())
        y.add_(1)
        return y, z
    compiled, x = torch.compile(f, backend=backend), torch.ones(2)
    for _ in range(3):
        assert [t.tolist() for t in compiled(x)] == [[3., 3.], [2., 2.]]
    assert bool(held) == kept and all(t.tolist() == was for t, was in held)


def test_the_first_call_gives_its_graph_when_no_recording_stays():
    seen, box = [], {"n": 0}

    def appends(x):
        seen.append(x + 1)
        return x * 2

    def counts(x):
        box["n"] += 1
        return x * 2 + 1
    for f in (appends, counts):
        backend = Backend()
        g = torch.compile(f, backend=backend)
        for _ in range(4):
            assert torch.equal(g(torch.ones(2)), torch.full((2,), 2. if f is appends else 3.))
            assert len(backend.graphs) == 1
    assert len(seen) == box["n"] == 4


def test_another_thread_writes_to_a_result():
    """Its write is in no graph, so the operators of the call make the results."""
    def f(x):
        y = x * 2
        thread = threading.Thread(target=lambda: y.mul_(3))
        thread.start(), thread.join()
        return y + 1
    backend = Backend()
    compiled = torch.compile(f, backend=backend, dynamic=True)
    for n in (3, 3, 4, 3):
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 7.0))


def test_an_array_that_ended_wrote_to_an_input():
    def f(x):
        y = x * 2
        array = np.asarray(y.detach())
        z = y + 1
        array *= 0
        return z
    compiled = torch.compile(f, backend=Backend())
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))


def test_gradients_of_a_recorded_call_have_their_leafs_strides():
    weight, x = torch.ones(4, 4, requires_grad=True), torch.ones(3, 4)

    def f():
        weight.grad = None
        (x @ weight.t()).sum().backward()
    for backend in ("eager", "cresset"):
        compiled = torch.compile(f, backend=backend)
        for _ in range(4):
            compiled()
            assert weight.grad.stride() == (4, 1) and weight.grad._base is None
