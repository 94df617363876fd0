"""Graphs: recorded calls replay with equal bits, printed text parses to the same graph, passes change no bit."""
import gc
import random
import weakref

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import _C, nn


def record(f, *inputs, parts=False):
    """The graph of f(*inputs) and the result of the call."""
    recorder = _C.Recorder(parts=parts)
    for x in inputs:
        recorder.input(x)
    recorder.start()
    try:
        out = f(*inputs)
    finally:
        recorder.stop()
    return recorder.finish(list(out) if isinstance(out, (tuple, list)) else [out]), out


def operators(graph):
    return [node[1] for node in graph.nodes()]


def same(a, b):
    return a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and \
        torch.equal(a.isnan(), b.isnan())


# --- recording ---

PROGRAMS = {
    "pointwise": lambda x, y: (x * 2 + y).sigmoid() / (1 + y.abs()),
    "reductions": lambda x, y: (x.sum(0), y.mean(), (x - y).amax(dim=1, keepdim=True), x.argmax(1)),
    "views": lambda x, y: x.t().reshape(2, -1)[1:, ::2] + y.view(-1)[:2].unsqueeze(0).expand(1, 2).sum(),
    "joins": lambda x, y: torch.cat([x, y, x[:1]], 0).chunk(3)[1],
    "products": lambda x, y: F.linear(x, y) @ torch.eye(4, dtype=x.dtype),
    "softmax": lambda x, y: F.log_softmax(x, -1) + F.gelu(y, approximate="tanh"),
    "choices": lambda x, y: torch.where(x > y, x, -y).clamp(min=-0.5),
    "indexing": lambda x, y: x[torch.tensor([0, 2])] + y[:, [0]].sum(),
    "in place": lambda x, y: x.clone().add_(y).mul_(2).t_(),
    "integers": lambda x, y: (x > 0).long().cumsum(0) // 2,
    "sorting": lambda x, y: torch.sort(x, dim=1, descending=True),
    "factories": lambda x, y: x + torch.ones_like(y) * torch.arange(4.0) + torch.full((4, 4), 0.5),
    "norms": lambda x, y: F.layer_norm(x, (4,), y[0], y[1]) + F.normalize(y),
}


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recorded_program_replays_with_equal_bits_on_other_inputs(name, parts):
    torch.manual_seed(1)
    graph, _ = record(PROGRAMS[name], torch.randn(4, 4), torch.randn(4, 4), parts=parts)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    want = PROGRAMS[name](x.clone(), y.clone())
    want = want if isinstance(want, tuple) else (want,)
    got = graph.run([x, y])
    assert len(got) == len(want) and all(same(a, b) for a, b in zip(got, want))


def test_a_module_replays_and_its_gradients_too():
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    x = torch.randn(2, 5, 16)
    graph, out = record(layer, x)
    assert torch.equal(graph.run([x])[0], out)
    a = torch.autograd.grad(out.square().sum(), list(layer.parameters()))
    b = torch.autograd.grad(graph.run([x])[0].square().sum(), list(layer.parameters()))
    assert all(torch.equal(p, q) for p, q in zip(a, b))


def make_step(optimizer):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = optimizer(net.parameters())
    x, t = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])

    def step(x, t, *params):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), t)
        loss.backward()
        opt.step()
        return loss
    return net, step, x, t


def test_a_training_step_is_one_graph_and_replays_bit_for_bit():
    net, step, x, t = make_step(lambda p: torch.optim.SGD(p, lr=0.1))
    other = [p.detach().clone() for p in net.parameters()]
    graph, first = record(step, x, t, *net.parameters(), parts=True)
    with torch.no_grad():
        replayed = [graph.run([x, t, *other])[0] for _ in range(5)]
    losses = [first] + [step(x, t) for _ in range(4)]
    assert all(torch.equal(a, b) for a, b in zip(losses, replayed))
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), other))
    constants = [node for node in graph.nodes() if node[1] is None]
    assert not constants


def test_an_operator_is_one_node_unless_its_parts_are_recorded():
    x, t = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    whole, _ = record(lambda x, t: F.cross_entropy(x, t), x, t)
    parts, _ = record(lambda x, t: F.cross_entropy(x, t), x, t, parts=True)
    assert operators(whole) == ["cross_entropy_loss"]
    assert operators(parts) == ["_log_softmax", "nll_loss_forward"]


def test_a_closed_over_tensor_is_a_constant_and_a_number_a_literal():
    c = torch.tensor([1.0, 2.0])
    graph, _ = record(lambda x: x * c + 3, torch.zeros(2))
    assert "constant(1.0, 2.0)" in str(graph) and "add(%mul, 3)" in str(graph)


def test_random_numbers_are_drawn_anew_in_program_order():
    graph, _ = record(lambda x: F.dropout(x, 0.5, True) + torch.rand(8), torch.ones(8))
    torch.manual_seed(7)
    got = graph.run([torch.ones(8)])[0]
    torch.manual_seed(7)
    assert torch.equal(got, F.dropout(torch.ones(8), 0.5, True) + torch.rand(8))


def test_a_view_made_outside_the_recording_is_refused():
    recorder = _C.Recorder()
    x = torch.randn(4)
    recorder.input(x)
    recorder.start()
    y = x * 2
    recorder.stop()
    z = y[1:3]  # not recorded
    recorder.start()
    out = z + 1
    recorder.stop()
    with pytest.raises(RuntimeError, match="a view of %mul was made in a way that recording does not see"):
        recorder.finish([out])


def test_lift_drops_unread_inputs_and_appends_constants():
    a, unread, b = torch.randn(3), torch.randn(3), torch.randn(3)
    found, other = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3)
    graph, out = record(lambda a, unread, b: (a * found + b) * other, a, unread, b)
    with pytest.raises(TypeError):
        graph.run([a, b, found, other])
    origins = graph.lift()
    assert origins[:2] == [0, 2] and origins[2] is found and origins[3] is other
    assert graph.inputs == ("arg", "arg_2", "constant", "constant_1") and graph.size == 3
    assert torch.equal(graph.run([a, b, found, other])[0], out)
    assert graph.lift() == [0, 1, 2, 3]
    assert torch.equal(_C.RecordedGraph(str(graph)).run([a, b, found, other])[0], out)


def test_a_lifted_constant_that_is_written_is_cloned_in_every_call():
    x, state = torch.ones(2), torch.tensor([1.0, 2.0])
    graph, out = record(lambda x: state.add_(x) * 2, x)
    assert graph.lift()[1] is state and "clone(%constant_1)" in str(graph)
    before = torch.tensor([10.0, 20.0])
    assert graph.run([x, before])[0].tolist() == [22.0, 42.0] and before.tolist() == [10.0, 20.0]


def test_one_recorder_at_a_time_and_a_failed_call_leaves_no_node():
    a, b = _C.Recorder(), _C.Recorder()
    a.start()
    with pytest.raises(RuntimeError, match="being recorded already"):
        b.start()
    x = torch.ones(3)
    with pytest.raises(RuntimeError):
        x + torch.ones(4)
    y = x * 2
    a.stop()
    assert operators(a.finish([y])) == ["ones", "ones", "mul"]


def test_a_recorder_drops_its_tensors():
    x = torch.randn(4)
    graph, out = record(lambda x: (x * 2).relu(), x)
    seen = weakref.ref(out)
    del graph, out
    gc.collect()
    assert seen() is None


# --- text ---

def test_text_reads_back_as_the_same_graph():
    torch.manual_seed(4)
    graph, out = record(PROGRAMS["norms"], torch.randn(4, 4), torch.randn(4, 4))
    again = _C.RecordedGraph(str(graph))
    assert str(again) == str(graph)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    assert torch.equal(again.run([x, y])[0], PROGRAMS["norms"](x, y))


@pytest.mark.parametrize("text, message", [
    ("graph(%x) { return %y }", "no value is called y"),
    ("graph(%x) { %x = neg(%x) return %x }", "a value is made twice: x"),
    ("graph(%x) { %y = nothing(%x) return %y }", "no operator is called nothing"),
    ("graph(%x) { %y = add(%x, 1, colour=2) return %y }", "the operator has no parameter colour"),
    ("graph(%x) { %y = sum(%x, [1.5]) return %y }", "line 1"),
    ("graph(%x) { %y = constant(1) return %y }", "a constant has one result of a known type"),
    ("graph(%x: float33[2]) { return %x }", "no dtype is called float33"),
    ("graph() { %y: float32[99999999999993] = constant(1.0) return %y }", "more elements than values"),
    ("graph() { %y: float32[99999999999, 99999999999] = constant(1.0) return %y }", "more elements than values"),
    ("graph(%x) { %a, %b = neg(%x) return %a }", "the number of results"),
    ("graph(%x) { return %x } more", "expected the end of the text"),
    ("", "expected graph"),
])
def test_bad_text_is_refused_with_its_line(text, message):
    with pytest.raises(ValueError, match=message):
        _C.RecordedGraph(text)


def symbolic(f, *inputs, dims=1, numbers=()):
    """The graph of f(*inputs, *numbers), whose first sizes and numbers are symbols."""
    recorder = _C.Recorder(parts=False)
    for x in inputs:
        recorder.input(x)
    recorder.start()
    try:
        for x in inputs:
            recorder.dynamic(x, dims)
        out = f(*inputs, *[recorder.number(n) for n in numbers])
    finally:
        recorder.stop()
    return recorder.finish(list(out) if isinstance(out, (tuple, list)) else [out])


def test_symbols_read_back():
    def f(x, y, lr, n):
        if x.shape[0] > 2:
            x = x * lr
        z = x.reshape(x.shape[0] * 2, -1)[: z_rows(n)]
        return z, torch.zeros(z.shape[0] // 2, n), y.sum() * (lr / 2) - abs(-y.shape[0]), torch.full([2], -2**63)

    def z_rows(n):
        return n + 1

    graph = symbolic(f, torch.randn(4, 6), torch.randn(3), numbers=(0.5, 2))
    text = str(graph)
    for part in ("  $0: 4 = size(%", "= number(1)\n", "= floordiv($", "= abs($", "  guard ", "[$"):
        assert part in text, (part, text)
    assert str(_C.RecordedGraph(text)) == text
    with pytest.raises(ValueError, match="sizes of the graph are symbols: it takes an instance"):
        _C.RecordedGraph(text).apply("simplify")
    with pytest.raises(ValueError, match="a graph with symbols runs as an instance"):
        _C.RecordedGraph(text).run([torch.randn(4, 6), torch.randn(3)])
    assert "floordiv" in str(_C.RecordedGraph(text).apply("dead"))


def test_the_depth_of_nested_blocks_is_limited():
    text = "graph(%x: bool[]) { " + "".join(f"%v{k} = if %x {{ " for k in range(5000))
    with pytest.raises(ValueError, match="blocks are nested too deeply"):
        _C.RecordedGraph(text)


def test_a_negative_zero_is_not_the_default_zero():
    graph = _C.RecordedGraph("graph(%x) { %y = nan_to_num(%x, -0.0) return %y }")
    assert "-0.0" in str(graph) and str(_C.RecordedGraph(str(graph))) == str(graph)


def test_a_constant_that_requires_a_gradient_is_not_folded():
    w = torch.ones(2, requires_grad=True)
    graph, _ = record(lambda x: x * w.exp(), torch.ones(2))
    folded = graph.apply("fold")
    for _ in range(2):
        w.grad = None
        folded.run([torch.ones(2)])[0].sum().backward()
        assert torch.equal(w.grad, w.detach().exp())


def test_wrong_inputs_and_passes_are_refused():
    graph = _C.RecordedGraph("graph(%x) { %y = neg(%x) return %y }")
    with pytest.raises(TypeError, match="takes 1 inputs, not 2"):
        graph.run([torch.ones(1), torch.ones(1)])
    with pytest.raises(TypeError, match="input 0 must be Tensor, not int"):
        graph.run([1])
    with pytest.raises(ValueError, match="no pass is called 'magic'"):
        graph.apply("magic")


# --- passes ---

UNARY = ["neg", "exp", "tanh", "relu", "abs", "sigmoid", "t"]
BINARY = ["add", "sub", "mul", "maximum"]


def random_program(r, length):
    """Lines of a graph over two 3 x 3 inputs; repeats calls and ends in dead code on purpose."""
    values, lines = ["%x", "%y"], []
    for k in range(length):
        kind = r.random()
        a, b = r.choice(values), r.choice(values)
        if kind < 0.15 and lines:
            text = r.choice(lines).split(" = ")[1]
        elif kind < 0.45:
            text = f"{r.choice(UNARY)}({a})"
        elif kind < 0.6:
            text = f"{r.choice(['mul', 'sub', 'div', 'add'])}({a}, {r.choice(['1', '0', '2.5', '-1'])})"
            text = text.replace("div(" + a + ", 0)", "div(" + a + ", 1)")
        elif kind < 0.9:
            text = f"{r.choice(BINARY)}({a}, {b})"
        else:
            text = f"softmax({a}, {r.choice(['0', '1'])})"
        lines.append(f"%v{k} = {text}")
        values.append(f"%v{k}")
    return lines, [r.choice(values) for _ in range(3)]


def build(lines, outputs):
    body = "\n  ".join(lines)
    return _C.RecordedGraph(f"graph(%x: float32[3, 3], %y: float32[3, 3]) {{\n  {body}\n  return {', '.join(outputs)}\n}}")


def differs(lines, outputs, inputs):
    graph = build(lines, outputs)
    want = graph.run(inputs)
    for chain in (["dead"], ["common"], ["simplify"], ["fold"], ["common", "simplify", "fold", "common", "dead"]):
        after = graph
        for name in chain:
            after = after.apply(name)
        if not all(same(a, b) for a, b in zip(after.run(inputs), want)):
            return True
    return False


def shrunk(lines, outputs, inputs):
    """The shortest program found that still differs: drops one line at a time."""
    k = len(lines) - 1
    while k >= 0:
        name = lines[k].split(" = ")[0] + ","
        fewer = lines[:k] + lines[k + 1:]
        used = any(name[:-1] + end in line for line in fewer for end in ",)") or name[:-1] in outputs
        if not used and differs(fewer, outputs, inputs):
            lines = fewer
        k -= 1
    return "\n".join(lines + ["return " + ", ".join(outputs)])


def test_passes_change_no_bit_of_random_graphs():
    r = random.Random(0)
    torch.manual_seed(5)
    inputs = [torch.randn(3, 3), torch.tensor([[0.0, -0.0, float("inf")], [float("nan"), 1.0, -2.0],
                                                [3e38, 1e-45, -float("inf")]])]
    for _ in range(300):
        lines, outputs = random_program(r, r.randrange(3, 25))
        assert not differs(lines, outputs, inputs), shrunk(lines, outputs, inputs)


def test_a_pass_over_a_long_graph_is_linear():
    n = 20000
    lines = ["%v0 = neg(%x)"] + [f"%v{k} = {'neg' if k % 2 else 'exp'}(%v{k - 1})" for k in range(1, n)]
    graph = build(lines, [f"%v{n - 1}", "%x", "%y"])
    assert len(graph.apply("dead").apply("common").nodes()) == n


# --- functionalization ---

def check_functional(f, *inputs, parts=True, left=None):
    """Records f, and runs the record and its functional form on copies: equal bits, strides, aliases, draws."""
    graph, _ = record(f, *[x.clone() for x in inputs], parts=parts)
    functional = graph.apply("functional")
    found = []
    for g in (graph, functional):
        torch.manual_seed(11)
        args = [x.clone() for x in inputs]
        with torch.no_grad():
            out = g.run(args)
        tensors = [*out, *args]
        found.append((tensors, [[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a in tensors]
                                for b in tensors], torch.rand(1)))
    (a, shared, drawn), (b, shared_too, drawn_too) = found
    assert all(same(x, y) and x.stride() == y.stride() for x, y in zip(a, b)), str(functional)
    assert shared == shared_too and torch.equal(drawn, drawn_too)
    draws = {"normal_", "uniform_", "bernoulli_", "dropout_"}
    names = [name for name in operators(functional) if name not in draws]
    writes = [name for name in names if name and name.endswith("_")]
    if left is None:
        assert all(name == "copy_" for name in writes), str(functional)
    else:
        assert writes == left
    return functional


def with_index(x, y):
    x[1:, ::2] = y[:3, :1] * 2
    x[0, 0] += 1
    x.t()[1].exp_()
    return x.sum(0), x[1]


def with_out(x, y):
    z = torch.empty(0)
    torch.mul(x, y, out=z)
    torch.add(x, z, out=y)
    torch.cumsum(y, 0, out=z)
    return z, y


def with_norm(x, mean):
    var = torch.ones(4)
    return F.batch_norm(x, mean[0], var, training=True), var


def with_draws(x, y):
    x.normal_()
    F.dropout(y, 0.5, True, inplace=True)
    z = torch.rand(4)
    x[0].uniform_(2, 3)
    return x * z, y.bernoulli_(0.25)


def with_aliases(x, y):
    z = torch.zeros(4, 4)
    a, b = z.unbind()[0], z.view(16)[4:8]
    a.add_(x[0])
    b.copy_(a)
    z.t_().mul_(y)
    w = torch.empty_like(x).copy_(x)
    x.zero_()
    return a, z, w, x[2], y, z.diagonal()


def with_own_elements(x, y):
    x.copy_(x.view(16).view(4, 4))
    y.copy_(x)
    x.view(16).sub_(1)
    return x.t()


def with_types(x, y):
    i = torch.arange(16).view(4, 4)
    i.copy_(x * 10)
    i[:, 1].add_(7)
    m = i > 3
    m.logical_xor_(y > 0)
    c = torch.view_as_complex(x.view(4, 2, 2))
    c.mul_(2j)
    x.view(torch.int32).bitwise_and_(-2)
    return i, m, x


@pytest.mark.parametrize("f", [with_index, with_out, with_draws, with_aliases, with_norm, with_own_elements])
def test_writes_become_values_and_copies_at_the_end(f):
    torch.manual_seed(6)
    check_functional(f, torch.randn(4, 4), torch.randn(4, 4))


def test_views_of_other_dtypes_are_kept_or_recomputed():
    torch.manual_seed(6)
    check_functional(with_types, torch.randn(4, 4), torch.randn(4, 4), left=["mul_", "bitwise_and_"])


def test_a_closed_over_tensor_that_is_written_is_copied_back():
    total = torch.zeros(3)

    def f(x):
        total.add_(x)
        return total * 2
    graph, _ = record(f, torch.ones(3))
    functional = graph.apply("functional").apply("fold").apply("dead")
    assert torch.equal(functional.run([torch.ones(3)])[0], torch.full((3,), 4.0))
    assert total.tolist() == [2, 2, 2]


def test_a_functional_training_step_copies_to_parameters_and_moments_only():
    net, _, x, t = make_step(lambda p: torch.optim.SGD(p, lr=0.1))
    moments = [torch.zeros_like(p) for p in net.parameters()]

    def step(x, t, *params):
        loss = F.cross_entropy(net(x), t)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, m, g in zip(params, moments, grads):
                p.sub_(m.mul_(0.9).add_(g), alpha=0.1)
        return loss.detach()
    graph, _ = record(step, x, t, *net.parameters(), parts=True)
    functional = graph.apply("functional").apply("common").apply("simplify").apply("dead")
    body = operators(functional)
    assert body[-8:] == ["copy_"] * 8 and not any(name and name.endswith("_") for name in body[:-8])
    params = list(net.parameters())
    with torch.no_grad():
        start = [p.clone() for p in [*params, *moments]]
        a = functional.run([x, t, *params])[0]
        after = [p.clone() for p in [*params, *moments]]
        for p, q in zip([*params, *moments], start):
            p.copy_(q)
    assert torch.equal(a, step(x, t, *params))
    assert all(torch.equal(p, q) for p, q in zip([*params, *moments], after))


# --- costs ---

def cost(graph):
    return graph.cost().splitlines()


def operations(f, *inputs):
    return int(cost(record(f, *inputs)[0])[-1].split()[1])


# Multiplications and additions as torch 2.13's FlopCounterMode counts them.
COUNTED = {
    "mm": (lambda: torch.randn(3, 4) @ torch.randn(4, 5), 120),
    "bmm": (lambda: torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5)), 240),
    "broadcast": (lambda: torch.matmul(torch.randn(2, 3, 4), torch.randn(4, 5)), 240),
    "addmm": (lambda: torch.addmm(torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)), 120),
    "linear": (lambda: F.linear(torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5)), 240),
    "einsum": (lambda: torch.einsum("bij,bjk->bik", torch.randn(2, 3, 4), torch.randn(2, 4, 5)), 240),
    "conv1d": (lambda: F.conv1d(torch.randn(1, 4, 10), torch.randn(6, 2, 3), groups=2, padding=1), 720),
    "conv2d": (lambda: F.conv2d(torch.randn(2, 3, 8, 8), torch.randn(8, 3, 3, 3)), 31104),
    "transposed": (lambda: F.conv_transpose2d(torch.randn(1, 3, 4, 4), torch.randn(3, 2, 2, 2)), 768),
}


@pytest.mark.parametrize("name", COUNTED)
def test_products_have_the_flops_that_torch_counts(name):
    f, want = COUNTED[name]
    with torch.no_grad():
        assert operations(f) == want


def test_costs_by_hand():
    x, y = torch.randn(4, 6), torch.randn(6)
    assert operations(lambda x: x + 1, x) == 24 and operations(lambda x: torch.add(x, x, alpha=2), x) == 48
    assert operations(lambda x: x.t().reshape(-1), x) == 0
    assert operations(lambda x: x.sum(1), x) == 24
    assert operations(lambda x: F.softmax(x, 1), x) == 24 * 5 + 4  # max, minus, exp, sum, product; by row 1 / sum
    # sum, minus, square, sum, two products, a sum; by row two quotients, a sum and rsqrt (1 / sqrt)
    assert operations(lambda x, y: F.layer_norm(x, (6,), y, y), x, y) == 24 * 7 + 4 * 5
    q = torch.randn(2, 4, 6, 8)
    assert operations(lambda q: F.scaled_dot_product_attention(q, q, q), q) >= 2 * 2 * (2 * 4 * 6 * 6 * 8)
    line = cost(record(lambda x, y: x * y, x, y)[0])[0]
    assert line == "%mul: 24 flops, reads 120 bytes, writes 96"


def test_costs_are_expressions_of_the_sizes():
    def f(x, w, b):
        y = F.conv2d(x, w, b, stride=2, padding=1).relu()
        return y.flatten(2).transpose(1, 2).reshape(-1, 8), torch.cat([x, x], 0)

    graph = symbolic(lambda x: f(x, torch.ones(8, 3, 3, 3), torch.ones(8)), torch.randn(2, 3, 9, 7), dims=5)
    lines = dict(line.split(": ", 1) for line in cost(graph))
    assert lines["%convolution" if "%convolution" in lines else "%conv2d"].startswith("1728*$0*(($1 + 1) // 2) flops")
    assert lines["%relu"] == "32*$0*(($1 + 1) // 2) flops, reads 128*$0*(($1 + 1) // 2) bytes, writes 128*$0*(($1 + 1) // 2)"
    assert lines["%cat"] == "0 flops, reads 84*$0*$1 bytes, writes 168*$0*$1"
    # The expressions give the costs at other sizes.
    for n, h in ((3, 4), (5, 12)):
        plain = record(lambda x: f(x, torch.ones(8, 3, 3, 3), torch.ones(8)), torch.randn(n, 3, h, 7))[0]
        want = lines["sum"].replace("$0", str(n)).replace("$1", str(h)).replace(" flops, reads ", "|").replace(" bytes, writes ", "|")
        assert [eval(e) for e in want.split("|")] == [int(w) for w in cost(plain)[-1].split() if w.isdigit()]


def test_a_group_counts_only_the_bytes_of_its_inputs_and_outputs():
    text = """graph(%x: float32[8, 4], %y: float32[8, 4]) {
      %a: float32[8, 4] = mul(%x, %y)
      %b: float32[8, 4] = exp(%a)
      return %b
    }"""
    graph = _C.RecordedGraph(text)
    assert cost(graph)[-1] == "sum: 64 flops, reads 384 bytes, writes 256"
    grouped = text.replace("%a: float32[8, 4] = mul", "%g: float32[8, 4] = group {\n%a: float32[8, 4] = mul").replace(
        "return %b", "return %b\n}\nreturn %g")
    assert cost(_C.RecordedGraph(grouped))[-1] == "sum: 64 flops, reads 256 bytes, writes 128"


def test_sizes_that_cannot_vary_have_no_expression():
    graph = symbolic(lambda x: torch.mm(x, torch.ones(4, 2)), torch.randn(3, 4), dims=2)
    with pytest.raises(ValueError, match="takes no other sizes than those seen"):
        graph.cost()
