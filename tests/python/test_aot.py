"""Joint graphs cut into a forward and a backward part: equal bits, fewer bytes."""
import random

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import _C

from test_graph import operators, record


def joint_graph(f, inputs, wanted):
    """The joint graph of f, its arguments with the cotangents, and what eager gives."""
    y = f(*inputs)
    g = torch.randn_like(y)

    def joint(*args):
        out = f(*args[:-1])
        return (out, *torch.autograd.grad(out, [args[i] for i in wanted], args[-1]))
    graph, out = record(joint, *inputs, g, parts=True)
    return graph, [*inputs, g], out


def run_parts(graph, args, primals, recompute):
    forward, backward, saved, nbytes, twice = graph.partition(primals, 1, recompute)
    with torch.no_grad():
        out = forward.run(args[:primals])
        assert len(out) == 1 + saved
        grads = backward.run([*out[1:], *args[primals:]])
    return (out[0], *grads), nbytes, twice


def leaf(*size):
    return torch.randn(*size, requires_grad=True)


CASES = {
    "two layers": (lambda x, w, b, v: F.linear(F.gelu(F.linear(x, w, b)).sigmoid() * 2, v),
                   [(5, 16), (8, 16), (8,), (3, 8)], [1, 2, 3]),
    "normalized": (lambda x, w, b: F.layer_norm(x.exp(), (4,), w, b).tanh(), [(3, 4), (4,), (4,)], [0, 1, 2]),
    "attention": (lambda q, k, v: (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v,
                  [(2, 5, 4), (2, 5, 4), (2, 5, 4)], [0, 1, 2]),
    "convolution": (lambda x, w: F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2).mean((2, 3)),
                    [(2, 3, 8, 8), (4, 3, 3, 3)], [0, 1]),
    "broadcast": (lambda x, b: (x * b + b).abs().sum(0).sqrt(), [(6, 3), (3,)], [0, 1]),
}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_parts_give_the_bits_of_eager(name, recompute):
    torch.manual_seed(0)
    f, sizes, wanted = CASES[name]
    graph, args, want = joint_graph(f, [leaf(*size) for size in sizes], wanted)
    got, _, _ = run_parts(graph, args, len(sizes), recompute)
    assert len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want))


def test_cheap_nodes_are_computed_again_rather_than_saved():
    torch.manual_seed(0)
    graph, args, _ = joint_graph(*[CASES["two layers"][0], [leaf(*s) for s in CASES["two layers"][1]],
                                   CASES["two layers"][2]])
    _, all_bytes, none = run_parts(graph, args, 4, False)
    _, fewer, twice = run_parts(graph, args, 4, True)
    assert (all_bytes, none) == (3 * 5 * 8 * 4, 0)
    assert (fewer, twice) == (5 * 8 * 4, 3)  # the first product; gelu, sigmoid, mul again


def test_products_and_random_numbers_are_never_repeated():
    torch.manual_seed(0)
    graph, args, want = joint_graph(lambda x, w: F.dropout((x @ w).exp(), 0.5, True).sin(), [leaf(4, 4), leaf(4, 4)],
                                    [0, 1])
    forward, backward, *_ = graph.partition(2, 1, True)
    assert operators(backward).count("native_dropout") == 0
    torch.manual_seed(5)
    out = forward.run(args[:2])
    with torch.no_grad():
        grads = backward.run([*out[1:], args[2]])
    torch.manual_seed(5)
    y = F.dropout((args[0] @ args[1]).exp(), 0.5, True).sin()
    assert torch.equal(out[0], y)
    assert all(torch.equal(a, b) for a, b in zip(grads, torch.autograd.grad(y, args[:2], args[2])))


def test_an_output_that_needs_a_cotangent_is_refused():
    graph, _, _ = joint_graph(lambda x: x.sin(), [leaf(3)], [0])
    with pytest.raises(ValueError, match="output 1 depends on a cotangent"):
        graph.partition(1, 2)
    with pytest.raises(ValueError, match="not 9 primals"):
        graph.partition(9, 1)


def test_a_graph_that_writes_is_refused():
    graph = _C.Graph("graph(%x: float32[2], %g: float32[2]) { %y = add_(%x, 1) %z = mul(%y, %g) return %y, %z }")
    with pytest.raises(RuntimeError, match="a graph that writes to tensors cannot be cut"):
        graph.partition(1, 1)


UNARY = [torch.sin, torch.tanh, torch.sigmoid, torch.exp, lambda x: x * 2, lambda x: x.t(), lambda x: x.softmax(-1),
         lambda x: x - x.mean(), F.gelu]
BINARY = [torch.add, torch.mul, torch.matmul, torch.maximum, lambda a, b: a - b]


def test_random_functions_are_cut_without_changing_a_bit():
    r = random.Random(1)
    torch.manual_seed(1)
    for _ in range(60):
        plan = [(r.choice(UNARY), r.randrange(1000)) if r.random() < 0.6
                else (r.choice(BINARY), r.randrange(1000), r.randrange(1000)) for _ in range(r.randrange(2, 14))]

        def f(a, b, c):
            values = [a * 0.5, b * 0.5, c * 0.5]
            for fn, *at in plan:
                values.append(fn(*(values[i % len(values)] for i in at)).clamp(-3, 3))
            return sum(values[1:], values[0])
        graph, args, want = joint_graph(f, [leaf(4, 4) for _ in range(3)], [0, 1, 2])
        kept, bytes_kept, _ = run_parts(graph, args, 3, False)
        cut, bytes_cut, _ = run_parts(graph, args, 3, True)
        assert all(torch.equal(a, b) for a, b in zip(kept, want))
        assert all(torch.equal(a, b) for a, b in zip(cut, want))
        assert bytes_cut <= bytes_kept


def test_a_long_chain_is_cut_in_time():
    n = 4000
    lines = ["%v0 = sin(%x)"] + [f"%v{k} = sin(%v{k - 1})" for k in range(1, n)]
    lines += ["%b0 = mul(%g, %v0)"] + [f"%b{k} = mul(%b{k - 1}, %v{k})" for k in range(1, n)]
    body = "\n".join(lines)
    graph = _C.Graph(f"graph(%x: float32[2], %g: float32[2]) {{ {body} return %v{n - 1}, %b{n - 1} }}")
    forward, backward, saved, nbytes, twice = graph.partition(1, 1)
    assert saved == 1 and nbytes == 0 and twice == n  # from the input alone
