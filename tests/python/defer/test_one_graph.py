"""fullgraph=True: which values a program may read in the middle of a call.  The lists were measured with
torch.compile(fullgraph=True, backend="eager") of torch 2.13."""
import itertools
import textwrap

import numpy as np
import pytest

import cresset as torch
from cresset._dynamo.exc import Unsupported

from .test_defer import values

# Bodies of functions of x (2x3 floats), v (4 integers), n (an integer), s (a float), b (a truth value) and m (a mask of
# x), which the program computes first, so that their values are not known when a call begins.
HELD = """
return x.sum().item()
return x + s.item()
return x * int(n)
return x * float(s)
return x[:int(n)]
return x[int(n) - 1]
return x[:n]
return torch.zeros(n.item())
return torch.zeros(int(n), 3) + 1
return torch.full((2,), s.item())
return x.view(n.item(), -1)
return x.expand(n.item(), 2, 3)
return x.narrow(0, 0, n.item())
return torch.topk(x, n)
return v.tolist()
a, *rest = v.tolist(); return x + a
return torch.tensor(v.tolist())
return torch.tensor([n, 3])
return torch.tensor(s.item())
return x.numpy()
return x + torch.from_numpy(np.sin(x.numpy()))
return np.linalg.norm(x.numpy())
return float(x.numpy()[0, 0])
a = x.numpy(); return a[a > 0]
return np.asarray(x)
return x[m]
return x[x > 0].sum()
y = x[x > 0]; return y.sum() / len(y)
y = x[x > 0]; return torch.zeros(len(y)), y.shape[0]
y = x.clone(); y[m] *= 2; return y
return torch.masked_select(x, m)
return torch.nonzero(x)
return x[x.nonzero(as_tuple=True)]
i, j = torch.where(x > 0); return x[i, j]
return torch.argwhere(x > 0)
return torch.unique(v)
return torch.unique(v, return_inverse=True, return_counts=True)
return torch.unique_consecutive(v)
return len(torch.unique(v))
return torch.bincount(v)
return torch.repeat_interleave(v)
return bool(b)
return x * bool(b)
return max(x.sum().item(), 0.)
return min(n.item(), 5)
return max(x[0, 0], x[0, 1])
return max(v)
return 3 in v
return round(x.sum().item())
return f"{x.sum().item():.3f}"
a, k = x.sum().item(), n.item(); return x * a, k
return {"loss": x.sum().item()}, x + 1
return n.item() % 2, s.item() > 2
return x.clamp(max=s.item())
k = x.norm().item(); return x / k
return x[0][x.argmax().item() % 3]
return (x == x).all().item()
return bool((x == x).all())
assert torch.all(x < 100); return x
assert x.sum().item() < 100, "large"; return x + 1
assert (x < 100).all(), "large"; return x
k = n.item(); torch._check(k >= 0); return x[:k]
return [x[0, i].item() for i in range(3)]
log = []; log.append(x.sum().item()); return x, log
import math; return x + math.sqrt(s.item())
return sum(v.tolist()), max(v.tolist())
return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
return torch.while_loop(lambda y: y.sum() < 30, lambda y: (y + 1,), (x,))[0]
return torch.distributions.Normal(x, x.exp()).log_prob(x)
return torch.distributions.Categorical(logits=x).entropy()
p = torch.distributions.Normal(x, 1.); return torch.distributions.kl_divergence(p, torch.distributions.Normal(0., x.exp()))
y = x * 2; y.add_(1); return y, y._version
y = x * 1; return y + 1, y.untyped_storage().nbytes()
x.data_ptr(); return x + 1
y = x * 2; y.data_ptr(); return y + 1
p = x.data_ptr(); return x + 1, p == x.data_ptr()
return x if 1 in [n, s] else -x
return 1 in [n, s], x + 1
return torch.vmap(lambda a: a.add_(1))(x)
return torch.vmap(lambda a: torch.zeros_like(a).copy_(a))(x)
return torch.func.jacrev(lambda a: (a * 1).mul_(a))(x[0])
return torch.vmap(torch.func.grad(lambda a: a.sin().sum()))(x)
return torch.vmap(lambda a: torch.rand(2) * 0 + a[0], randomness="different")(x)
"""
BRANCHES = """
return x if x.sum() > 0 else -x
return x if x.sum().item() > 0 else -x
return x if b else -x
return x if not b else -x
return x if bool(x.sum() > 0) else -x
return x if float(s) > 1 and x.shape[0] else -x
k = x.sum().item() * 2; return x if k > 0 else -x
k = int(n); j = -k; return x if 1 < j < 5 else -x
while x.sum() < 20: x = x + 1
for k in v.tolist(): x = x if k > 2 else -x
for i in range(n.item()): x = x + i
k = n.item(); return [x * j for j in range(k)]
a, k = s.item(), n.item(); return x if k > 1 else -x
return x, "%d" % n.item()
return [k for k in v if k > 2]
return not b
return b and x
if (x > 0).any(): x = x + 1
if torch.isnan(x).any(): raise ValueError
if not torch.isfinite(x).all(): x = x * 0
print(x.sum().item())
print(x)
return str(x.sum().item())
return repr(x)
return sorted(v)
return x.tolist()
"""
ARGUMENTS = {"x": torch.tensor([[1., -2., 3.], [4., 0.5, -6.]]), "v": torch.tensor([3, 1, 2, 3]), "n": torch.tensor(2),
             "s": torch.tensor(2.5), "b": torch.tensor(True)}
count = itertools.count()


@pytest.fixture
def function(tmp_path):
    def make(body, computed=True):
        lines = ["x, v, n, s, b = x * 1, v * 1, n * 1, s * 1, b ^ False"] if computed else []
        lines += ["m = x > 0", body.replace("; ", "\n") if not body.startswith(("for", "while", "if")) else body]
        path = tmp_path / f"program{next(count)}.py"
        path.write_text("def f(x, v, n, s, b):\n" + textwrap.indent("\n".join(lines), "    ") + "\n    return x\n")
        names = {"torch": torch, "np": np}
        exec(compile(path.read_text(), str(path), "exec"), names)
        return names["f"]
    return make


def call(f):
    found = f(**{name: t.clone() for name, t in ARGUMENTS.items()})
    return (type(found), found.dtype, found.tolist()) if isinstance(found, (np.ndarray, np.generic)) else values(found)


@pytest.mark.parametrize("backend", [None, "eager"])
@pytest.mark.parametrize("body", HELD.strip().split("\n"))
def test_values_that_torch_has_in_its_graph(function, body, backend, capsys):
    f = function(body)
    compiled = torch.compile(f, fullgraph=True, **({"backend": backend} if backend else {}))
    want = call(f)
    for _ in range(7):
        assert call(compiled) == want


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        return g * 10 * ctx.saved_tensors[0]


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 7


def _through_functions(x):
    return Cubed.apply(Same.apply(x * 2) + 1) * 3 + Same.apply(x)


def _through_a_hook(x):
    y = x * 2
    y.register_hook(lambda g: g * 5)
    return y * y


def _through_data(x):
    y = torch.ones(3)
    y.data = x.detach() * 3
    z = torch.zeros(3)
    z.set_(x.detach() + 1)
    return x * y * z


def _through_a_distribution(x):
    d = torch.distributions.Independent(torch.distributions.Normal(x, x.exp()), 1)
    return d.log_prob(x * 2) + d.entropy()


def _through_a_branch(x):
    return torch.cond(x.sum() > 4, lambda t: t.sin() * 2, lambda t: t.cos(), (x,))


@pytest.mark.parametrize("backend", ["inductor", "eager", "aot_eager"])
@pytest.mark.parametrize("f", [_through_functions, _through_a_hook, _through_data, _through_a_distribution, _through_a_branch])
def test_gradients_of_what_torch_has_in_its_graph(f, backend):
    def run(f, k):
        x = (torch.arange(3.) / 2 + k).requires_grad_()
        y = f(x)
        y.sum().backward()
        return values((y, x.grad))
    compiled = torch.compile(f, fullgraph=True, backend=backend)
    for k in range(6):
        assert run(compiled, k) == run(f, k)


def test_parts_after_a_custom_function_have_graphs():
    graphs = []

    def backend(module, inputs):
        graphs.append([node.target.__name__ for node in module.graph.nodes if node.op == "call_function"])
        return module.forward
    torch.compile(_through_functions, fullgraph=True, backend=backend)(torch.ones(3, requires_grad=True))
    assert [name for graph in graphs for name in graph if name != "detach.default"] == \
        ["mul.Tensor", "add.Tensor", "pow.Tensor_Scalar", "mul.Tensor", "add.Tensor"]


def test_values_that_a_distribution_refuses_are_errors():
    def f(x):
        return torch.distributions.Normal(0., x).log_prob(x)
    for backend in ("eager", "inductor"):
        compiled = torch.compile(f, fullgraph=True, backend=backend)
        assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
        for _ in range(3):
            with pytest.raises(ValueError, match="to satisfy the constraint"):
                compiled(-torch.ones(2))


# This package's programs compute single numbers and integers at once, so reads of these are no breaks.
OF_X = ("x.sum()", "(x)", "x > 0", "x.tolist()")
BRANCHES = [(body, backend) for body in BRANCHES.strip().split("\n")
            for backend in ([None, "eager"] if any(text in body for text in OF_X) else ["eager"])]


@pytest.mark.parametrize("body, backend", BRANCHES)
def test_branches_and_texts_are_errors(function, body, backend, capsys):
    f = function(body)
    compiled = torch.compile(f, fullgraph=True, **({"backend": backend} if backend else {}))
    for _ in range(3):
        with pytest.raises(Unsupported, match="f cannot be one graph") as error:
            call(compiled)
        assert f.__code__.co_filename in str(error.value)


@pytest.mark.parametrize("body", ["if int(n) > 1: x = -x", "if n.item() > 1: x = -x", "for i in range(n.item()): x = x + i"])
def test_a_number_that_is_an_argument_may_decide(function, body):
    """torch guards it."""
    f = function(body, computed=False)
    compiled = torch.compile(f, fullgraph=True, backend="eager")
    for _ in range(3):
        assert call(compiled) == call(f)


def test_an_assertion_that_fails_is_eagers(function):
    f = function("assert (x > 100).all(), 'small'; return x")
    for backend in ("eager", None):
        with pytest.raises(AssertionError, match="small"):
            call(torch.compile(f, fullgraph=True, **({"backend": backend} if backend else {})))


def test_a_function_without_source_may_read_values_but_no_truth():
    names = {}
    exec("def reads(x): return x * x.sum().item()\ndef decides(x): return x if x.sum() > 0 else -x", names)
    x = torch.ones(3)
    assert torch.equal(torch.compile(names["reads"], fullgraph=True)(x), x * 3)
    with pytest.raises(Unsupported, match="branching"):
        torch.compile(names["decides"], fullgraph=True)(x)


def test_a_file_that_was_edited_and_loaded_again_has_its_new_text(tmp_path):
    path, x = tmp_path / "edited.py", torch.ones(3)

    def load(text):
        path.write_text(text)
        names = {}
        exec(compile(text, str(path), "exec"), names)
        return names["f"]
    f = load("def f(x):\n    n = x.sum().item()\n    return x * 2\n")
    assert torch.equal(torch.compile(f, fullgraph=True, backend="eager")(x), x * 2)
    f = load("def f(x):\n    n = x.sum().item()\n    return x * 2 if n > 5 else x\n")
    with pytest.raises(Unsupported, match="n = |x.sum"):
        torch.compile(f, fullgraph=True, backend="eager")(x)
