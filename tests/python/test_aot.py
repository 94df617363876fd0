"""Joint graphs partitioned into a forward and a backward graph: equal bits, fewer bytes."""
import random

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import _C

from test_graph import operators, record


def joint_graph(f, inputs, wanted):
    """Returns the joint graph of f, its arguments with the cotangents, and eager's results."""
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
def test_both_graphs_give_eagers_bits(name, recompute):
    torch.manual_seed(0)
    f, sizes, wanted = CASES[name]
    graph, args, want = joint_graph(f, [leaf(*size) for size in sizes], wanted)
    got, _, _ = run_parts(graph, args, len(sizes), recompute)
    assert len(got) == len(want) and all(torch.equal(a, b) for a, b in zip(got, want))


def test_cheap_nodes_are_recomputed_rather_than_saved():
    torch.manual_seed(0)
    graph, args, _ = joint_graph(*[CASES["two layers"][0], [leaf(*s) for s in CASES["two layers"][1]],
                                   CASES["two layers"][2]])
    _, all_bytes, none = run_parts(graph, args, 4, False)
    _, fewer, twice = run_parts(graph, args, 4, True)
    assert (all_bytes, none) == (3 * 5 * 8 * 4, 0)
    assert (fewer, twice) == (5 * 8 * 4, 3)  # saves the product; recomputes 3 nodes


def test_products_and_random_draws_are_never_recomputed():
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
    graph = _C.RecordedGraph("graph(%x: float32[2], %g: float32[2]) { %y = add_(%x, 1) %z = mul(%y, %g) return %y, %z }")
    with pytest.raises(RuntimeError, match="a graph that writes to tensors cannot be cut"):
        graph.partition(1, 1)


# --- effects ---

def check_effects(f, inputs, wanted, forward_ops=None):
    """Records the joint graph of f, which writes.  After `functional` and both partitions, results
    and effects must equal eager's."""
    def joint(*args):
        out = f(*args[:-1])
        first = out[0] if isinstance(out, tuple) else out
        return (*(out if isinstance(out, tuple) else (out,)),
                *torch.autograd.grad(first, [args[i] for i in wanted], args[-1]))

    def copies():
        return [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    want_inputs = copies()
    torch.manual_seed(3)
    first = f(*copies())
    g = torch.randn_like(first[0] if isinstance(first, tuple) else first)
    graph, _ = record(joint, *copies(), g, parts=True)
    torch.manual_seed(4)
    want = [x.detach().clone() for x in joint(*want_inputs, g)]
    after = torch.rand(2)
    outputs = len(want) - len(wanted)
    functional = graph.apply("functional").apply("common").apply("simplify").apply("dead")
    made = []
    for recompute in (False, True):
        forward, backward, saved, nbytes, _ = functional.partition(len(inputs), outputs, recompute)
        got_inputs = copies()
        torch.manual_seed(4)
        with torch.no_grad():
            out = forward.run(got_inputs)
            drawn = torch.rand(2)
            seen = [x.clone() for x in out[:outputs]]
            assert torch.equal(drawn, after)
            grads = backward.run([*out[outputs:], g])
        assert torch.equal(torch.rand(1), torch.rand(1)) is False  # the generator advances
        assert all(torch.equal(a, b) for a, b in zip([*seen, *grads], want)), str(backward)
        assert all(torch.equal(a, b) for a, b in zip(got_inputs, want_inputs))
        assert not any(name in DRAWS or name == "copy_" for name in operators(backward)), str(backward)
        for a, b in zip(out, first if isinstance(first, tuple) else (first,)):
            assert a.stride() == b.stride()
        made.append((forward, backward, nbytes))
    return made


DRAWS = {"_dropout_mask", "native_dropout", "dropout", "rand", "randn", "uniform_", "normal_", "bernoulli_", "rand_like"}


def test_dropout_is_drawn_once():
    check_effects(lambda x, w: F.dropout((x @ w).exp(), 0.5, True).sin() * torch.rand(4), [leaf(4, 4), leaf(4, 4)], [0, 1])


def test_the_forward_graph_copies_running_statistics_back():
    parts = check_effects(lambda x, w, b, m, v: F.batch_norm(x.exp(), m, v, w, b, training=True).tanh(),
                          [leaf(6, 3), leaf(3), leaf(3), torch.zeros(3), torch.ones(3)], [0, 1, 2])
    assert all(operators(forward)[-2:] == ["copy_", "copy_"] for forward, _, _ in parts)


def test_the_earlier_contents_of_an_overwritten_input_are_saved():
    def f(x, w, state):
        y = x * w * state.clone()
        state.mul_(2).add_(1)
        return y.exp()
    parts = check_effects(f, [leaf(4, 4), leaf(4, 4), torch.randn(4, 4)], [0, 1])
    assert all("clone" in operators(forward) for forward, _, _ in parts)


def test_views_of_an_overwritten_input_are_made_from_the_saved_clone():
    def f(x, state):
        old = state.clone()
        y = (x.t() * old[1:, :2].t()) @ old[1:]
        state.zero_()
        return y
    check_effects(f, [leaf(3, 2), torch.randn(4, 4)], [0])


@pytest.mark.parametrize("recompute", [False, True])
def test_the_clone_of_an_overwritten_input_keeps_its_strides(recompute):
    """Positions are columns of memory, so that a row is not; type_as returns its argument."""
    graph = _C.RecordedGraph("""graph(%state: float32[2, 2], %like: int64[1]) {
      %at: int64[4, 2] by [1, 4] = nonzero(%state)
      %row: int64[2] by [4] = select.int(%at, 0, 2)
      %double: float32[2, 2] = mul(%state, 2)
      %sum: float32[] = sum(%double)
      %same: int64[2] by [4] = type_as(%row, %like)
      %after: float32[2, 2] = copy_(%state, %double)
      return %sum, %same
    }""")
    forward, backward, _, _, _ = graph.partition(1, 1, recompute)
    _, *saved = forward.run([torch.ones(2, 2)])
    row = backward.run([*saved, torch.zeros(1, dtype=torch.int64)])[0]
    assert row.stride() == (4,) and row.tolist() == [1, 0]


def test_outputs_that_are_inputs_remain_inputs():
    def f(x, state):
        y = (x * state.clone()).sin()
        state.add_(y.detach())
        return y, state, state[1]
    parts = check_effects(f, [leaf(3, 3), torch.randn(3, 3)], [0])
    for forward, _, _ in parts:
        state = torch.zeros(3, 3)
        out = forward.run([torch.ones(3, 3), state])
        out[2].fill_(7)
        assert out[1].data_ptr() == state.data_ptr() and state[1].tolist() == [7, 7, 7]


def test_numbers_drawn_into_an_input_are_kept():
    def f(x, noise):
        noise.uniform_()
        return (x * noise.clone()).exp() + noise.normal_()
    check_effects(f, [leaf(5), torch.zeros(5)], [0])


def test_a_swap_and_a_closed_over_counter():
    def f(x, a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)
        return x * a * b * t
    check_effects(f, [leaf(3), torch.randn(3), torch.randn(3)], [0])
    graph = _C.RecordedGraph("""graph(%x: float32[2], %g: float32[2]) {
      %c: float32[2] = constant(1.0, 2.0)
      %y: float32[2] = mul(%x, %c)
      %z: float32[2] = mul(%g, %c)
      %d: float32[2] = add(%c, 1)
      %e: float32[2] = copy_(%c, %d)
      return %y, %z }""")
    for recompute in (False, True):
        forward, backward, *_ = graph.partition(1, 1, recompute)
        out = forward.run([torch.ones(2)])
        one = out[0].clone()
        assert torch.equal(backward.run([*out[1:], torch.ones(2)])[0], one)


def test_small_sums_and_compositions_may_be_recomputed_large_ones_not():
    small, _, _ = joint_graph(lambda x: (x - x.sum(0)).exp().sum(0).sin(), [leaf(4, 4)], [0])
    large, _, _ = joint_graph(lambda x: (x - x.sum(0)).exp().sum(0).sin(), [leaf(400, 400)], [0])
    assert small.partition(1, 1, True)[3] == 0
    backward = large.partition(1, 1, True)[1]
    assert large.partition(1, 1, True)[3] > 0 and operators(backward).count("sum") < operators(large).count("sum")


def test_a_product_with_a_reduction_of_itself_is_recomputed():
    def normed(x, a, w):
        h = x @ a
        return (h * (h * h).mean(-1, keepdim=True).rsqrt() * w).sin() @ a.t()
    graph, _, _ = joint_graph(normed, [leaf(64, 64), leaf(64, 256), leaf(256)], [0])
    assert graph.partition(3, 1, True)[3] < 1.5 * 64 * 256 * 4  # h and a number a row


UNARY = [torch.sin, torch.tanh, torch.sigmoid, torch.exp, lambda x: x * 2, lambda x: x.t(), lambda x: x.softmax(-1),
         lambda x: x - x.mean(), F.gelu]
BINARY = [torch.add, torch.mul, torch.matmul, torch.maximum, lambda a, b: a - b]


def test_partitioning_random_functions_changes_no_bit():
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


def test_a_long_chain_is_partitioned_in_time():
    n = 4000
    lines = ["%v0 = sin(%x)"] + [f"%v{k} = sin(%v{k - 1})" for k in range(1, n)]
    lines += ["%b0 = mul(%g, %v0)"] + [f"%b{k} = mul(%b{k - 1}, %v{k})" for k in range(1, n)]
    body = "\n".join(lines)
    graph = _C.RecordedGraph(f"graph(%x: float32[2], %g: float32[2]) {{ {body} return %v{n - 1}, %b{n - 1} }}")
    forward, backward, saved, nbytes, twice = graph.partition(1, 1)
    assert saved == 1 and nbytes == 0 and twice == n  # recomputed from the input alone


@pytest.mark.parametrize("backend", ["aot_eager", "eager", "inductor"])
def test_a_backend_writes_to_arguments_once(backend):
    def f(x):
        x.add_(1)
        return x * 1
    compiled = torch.compile(f, backend=backend)
    for n in (3, 3, 4, 3, 5):
        x = torch.zeros(n)
        assert compiled(x).tolist() == x.tolist() == [1.] * n


def test_of_cuts_with_equal_bytes_the_last_is_taken():
    """Sums of a residual stream are saved, not computed again from the results of products."""
    def stream(x, *weights):
        for w in weights:
            x = x + F.linear(F.layer_norm(x, (8,)), w)
        return x
    inputs = [leaf(5, 8), *(leaf(8, 8) for _ in range(4))]
    graph, args, out = joint_graph(stream, inputs, [0, 1, 2, 3, 4])
    parts, nbytes, twice = run_parts(graph, args, 5, True)
    assert all(torch.equal(a, b) for a, b in zip(parts, out, strict=True))
    adds = [line for line in str(graph.partition(5, 1, True)[1]).splitlines() if " = add(" in line]
    assert not any("linear" in line for line in adds)


def test_values_that_only_gradients_need_are_computed_once_and_saved_if_that_is_less():
    """The backward graph computes the product of a difference that no output needs; a call that no gradient reads
    saves nothing."""
    def joint(x, w, g):
        y = x * w
        apart = torch.cumsum(x, 0)  # not cheap, and only a gradient depends on it
        unread = torch.cumsum(w, 0) * g  # reads a forward value, and nothing reads it
        assert unread is not None
        return y, g * apart, g * w
    inputs = [leaf(64), leaf(64), torch.randn(64)]
    graph, out = record(joint, *inputs, parts=True)
    parts, nbytes, _ = run_parts(graph, inputs, 2, True)
    assert nbytes == 0 and all(torch.equal(a, b) for a, b in zip(parts, out, strict=True))
    forward, backward, *_ = graph.partition(2, 1, True)
    assert "cumsum" not in str(forward) and str(backward).count(" = cumsum(") == 1


def test_gradients_of_compiled_graphs_refuse_a_second_derivative():
    """A gradient with create_graph has a history, so that a penalty on it is not dropped in silence."""
    f = torch.compile(lambda x: (x ** 3).sum(), backend="aot_eager")
    for _ in range(3):
        x = leaf(3)
        value, plain = f(x), x.detach()
        g, = torch.autograd.grad(value, x, create_graph=True)
        assert g.requires_grad and torch.equal(g.detach(), 3 * plain ** 2)
        try:
            (value + g.pow(2).sum()).backward()
        except RuntimeError as error:
            assert str(error) == "torch.compile with aot_autograd does not currently support double backward"
        else:  # a call that was deferred has all derivatives
            assert torch.allclose(x.grad, 3 * plain ** 2 + 36 * plain ** 3)
