"""Fusion groups of pointwise nodes: the bits of the single nodes, as tiles and as native code."""
import random

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import _C

from test_graph import record, same

FEW, FINE = 1e-9, 60.0  # seconds to wait for native code


def check(f, *inputs, groups=1):
    """Compiles the recording of f and compares with eager: at once, then with native code, on new
    values.  groups: the required number of fusion groups; None: any number."""
    graph, _ = record(f, *inputs, parts=True)
    compiled = graph.compile()
    assert groups is None or str(compiled).count("= group {") == groups
    with torch.no_grad():
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for wait in (FEW, FINE):
                ready = compiled.wait(wait)
                assert wait == FEW or ready == len(compiled.sources)
                new = [torch.randn_like(x) if x.dtype.is_floating_point else x for x in inputs]
                want = f(*new)
                want = want if isinstance(want, tuple) else (want,)
                got = compiled.run(new)
                assert all(same(a, b) and a.stride() == b.stride() for a, b in zip(got, want))
    return compiled


@pytest.fixture(autouse=True)
def settings():
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_chain_is_one_group(dtype):
    compiled = check(lambda x, y: (F.gelu(x * 1.7 + y).sigmoid() * 2 - y).relu(), torch.randn(64, 100, dtype=dtype),
                     torch.randn(64, 100, dtype=dtype))
    assert len(compiled.sources) == 1 and "gelu" in compiled.sources[0]


def test_rows_columns_and_numbers_are_operands():
    check(lambda x, b, r, s: (x * b + r).tanh() * s - r, torch.randn(7, 5, 33), torch.randn(33), torch.randn(7, 5, 1),
          torch.randn(()))


def test_reductions_and_products_separate_groups():
    check(lambda x, w: (((x * 2).exp() @ w + 1).sigmoid() * 3).sum(1) * 2, torch.randn(20, 30), torch.randn(30, 10),
          groups=2)


def test_several_results_and_types():
    check(lambda x, i: ((x > 0) & (x < 1), torch.where(x > 0, x, -x) * i, (i * 3 + 1) % 5, ~(i > 3)), torch.randn(50),
          torch.arange(50), groups=4)  # 32 and 64 bits in one kernel are not fused


def test_sizes_without_elements():
    check(lambda x, y: (x + y).exp() * 2, torch.randn(0, 4), torch.randn(0, 4))


def test_large_tensors_are_divided_among_threads():
    check(lambda x, y: (x * y + 1).tanh() - y, torch.randn(300001), torch.randn(300001))


def test_inputs_of_another_kind_are_refused():
    graph, _ = record(lambda x: (x * 2).exp(), torch.randn(4))
    compiled = graph.compile()
    for wrong in (torch.randn(5), torch.randn(4, dtype=torch.float64), torch.randn(4, 1)):
        with pytest.raises(RuntimeError, match="is not what its group was made for"):
            compiled.run([wrong])
    with pytest.raises(RuntimeError, match="records no gradient"):
        compiled.run([torch.randn(4, requires_grad=True)])


def test_inputs_with_other_strides_are_copied():
    graph, _ = record(lambda x: (x * 2).exp(), torch.randn(4))
    x = torch.randn(8)[::2]
    assert torch.equal(graph.compile().run([x])[0], (x * 2).exp())


def test_an_expanded_input_is_not_replaced_by_one_with_other_elements():
    graph, _ = record(lambda x: (x * 2).exp(), torch.randn(4).expand(3, 4))
    with pytest.raises(RuntimeError, match="is not what its group was made for"):
        graph.compile().run([torch.randn(3, 4)])


def test_results_of_calls_have_the_strides_of_dims_of_size_one():
    def f(x, y):
        z, e = y + x, y.expand(1, 4, 4)
        y.logical_not_()
        return torch.maximum(z, torch.native_dropout(e, 0.5, False)[0])
    x, y = torch.randn(1, 4, 4), torch.empty_strided((1, 1, 4), (1, 1, 1), dtype=torch.int64)
    y.copy_(torch.arange(4).view(1, 1, 4))
    graph, _ = record(f, x, y.clone())
    compiled = graph.apply("functional").apply("dead").compile()
    assert "group {" in str(compiled)
    want = f(x, y.as_strided(y.shape, y.stride()).clone())
    assert torch.equal(compiled.run([x, y])[0], want)


def test_a_training_step_keeps_its_bits():
    torch.manual_seed(3)
    w = [torch.randn(16, 8), torch.zeros(16), torch.randn(4, 16)]

    def step(x, t, *params):
        leaves = [p.detach().requires_grad_() for p in params]
        hidden = F.silu(F.linear(x, leaves[0], leaves[1])) * 1.5
        loss = F.mse_loss(F.linear(hidden, leaves[2]), t)
        with torch.no_grad():
            return (loss, *(p - 0.1 * g for p, g in zip(params, torch.autograd.grad(loss, leaves))))
    x, t = torch.randn(32, 8), torch.randn(32, 4)
    graph, want = record(step, x, t, *w, parts=True)
    compiled = graph.compile()
    assert "group {" in str(compiled)
    with torch.no_grad():
        for wait in (FEW, FINE):
            compiled.wait(wait)
            assert all(torch.equal(a, b) for a, b in zip(compiled.run([x, t, *w]), want))


UNARY = [torch.neg, torch.exp, torch.tanh, torch.relu, torch.abs, torch.sigmoid, F.silu, lambda x: x * 3,
         lambda x: 1 - x, lambda x: x / 7, lambda x: x ** 2, lambda x: x.clamp(-1, 1), torch.erf, lambda x: x.sqrt()]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda a, b: a / (b.abs() + 1),
          lambda a, b: torch.where(a > b, a, b * 2), lambda a, b: torch.add(a, b, alpha=0.3)]
BARRIER = [lambda x: x.sum(-1, keepdim=True), lambda x: x.softmax(-1), lambda x: x.t().contiguous().t(),
           lambda x: x.cumsum(0)]


def random_function(r):
    plan = [(r.choice(BINARY), r.randrange(99), r.randrange(99)) if r.random() < 0.4
            else (r.choice(BARRIER if r.random() < 0.15 else UNARY), r.randrange(99))
            for _ in range(r.randrange(3, 18))]
    outputs = [r.randrange(99) for _ in range(3)]

    def f(*inputs):
        values = list(inputs)
        for fn, *at in plan:
            values.append(fn(*(values[-1 - i % len(values)] for i in at)))
        return tuple(values[len(inputs):][i % len(plan)] for i in outputs)
    return f


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_keep_their_bits_by_tiles(seed):
    r = random.Random(seed)
    for _ in range(12):
        f = random_function(r)
        inputs = [torch.randn(9, 13), torch.randn(9, 13), torch.randn(13), torch.randn(9, 1), torch.randn(())]
        graph, want = record(f, *inputs, parts=True)
        with torch.no_grad():
            got = graph.compile().run(inputs)
        assert all(same(a, b) for a, b in zip(got, want)), str(graph)


def test_random_programs_keep_their_bits_by_native_code():
    r = random.Random(100)
    for _ in range(4):
        f = random_function(r)
        inputs = [torch.randn(31, 17), torch.randn(31, 17), torch.randn(17), torch.randn(31, 1), torch.randn(())]
        graph, want = record(f, *inputs, parts=True)
        compiled = graph.compile()
        compiled.wait(FINE)
        with torch.no_grad():
            got = compiled.run(inputs)
        assert all(same(a, b) for a, b in zip(got, want)), str(graph)


def chain(n):
    lines = ["%v0: float32[8, 4] = neg(%x)"]
    return lines + [f"%v{k}: float32[8, 4] = {'neg' if k % 2 else 'abs'}(%v{k - 1})" for k in range(1, n)]


def diamonds(n):
    lines = ["%v0: float32[8, 4] = neg(%x)"]
    for k in range(0, n - 3, 3):
        lines += [f"%v{k + 1}: float32[8, 4] = mul(%v{k}, {k % 7 * 0.1})", f"%v{k + 2}: float32[8, 4] = tanh(%v{k})",
                  f"%v{k + 3}: float32[8, 4] = add(%v{k + 1}, %v{k + 2})"]
    return lines


def layers(n):
    lines = ["%v0: float32[8, 4] = neg(%x)"]
    for k in range(0, n - 6, 6):
        lines += [f"%v{k + 1}: float32[8, 4] = matmul(%v{k}, %w)", f"%v{k + 2}: float32[8, 4] = add(%v{k + 1}, %b)",
                  f"%v{k + 3}: float32[8, 4] = relu(%v{k + 2})", f"%v{k + 4}: float32[8, 4] = mul(%v{k + 3}, {k % 13})",
                  f"%v{k + 5}: float32[8, 4] = add(%v{k + 4}, %v{k})",
                  f"%v{k + 6}: float32[8, 4] = softmax(%v{k + 5}, -1)"]
    return lines


@pytest.mark.parametrize("make", [chain, diamonds, layers])
def test_large_graphs_are_a_few_programs(make):
    lines = make(100000)
    graph = _C.RecordedGraph("graph(%x: float32[8, 4], %w: float32[4, 4], %b: float32[4]) { " + "\n".join(lines) +
                     f" return %v{len(lines) - 1} }}")
    compiled = graph.compile()
    assert len(compiled.sources) > 1000 and compiled.built <= 16
    operands = torch.randn(8, 4), torch.randn(4, 4), torch.randn(4)
    assert torch.equal(compiled.run(operands)[0], graph.run(operands)[0])


def test_equal_layers_of_any_numbers_and_sizes_are_built_once():
    def net(x, *weights):
        for k, w in enumerate(weights):
            x = F.layer_norm(F.gelu(x @ w) * (0.5 + k) + x, x.shape[-1:])
        return x
    graph, want = record(net, torch.randn(5, 8), *[torch.randn(8, 8) for _ in range(12)], parts=True)
    compiled = graph.compile()
    assert len(compiled.sources) == 12 and len(set(compiled.sources)) == 1 and compiled.built == 1
    other, _ = record(net, torch.randn(2, 3, 16), *[torch.randn(16, 16) for _ in range(3)], parts=True)
    again = other.compile()
    assert again.built == 0 and again.sources[0] == compiled.sources[0]


@pytest.mark.parametrize("shape,view", [((8,), (2, 2, 2)), ((24,), (2, 2, 2, 3)), ((8, 3), (2, 3, 4)), ((40, 3, 2), (2, 40, 3)),
                                        ((4, 17, 3, 2), (2, 68, 3)), ((17, 17, 2), (289, 2)), ((6, 1, 4), (3, 8)),
                                        ((80, 3), (20, 3, 4))])
def test_operators_across_a_view_of_another_shape(shape, view):
    """A group's dims are split by every shape that is read; nodes that fit no split are not
    fused."""
    x = torch.randn(shape)
    check(lambda x: (x * 2).reshape(view).sum(0), x)
    check(lambda x: (x.exp() * 2).reshape(view).sum(-1), x)
    for f in (lambda x: torch.cat([(x.exp() * 2).reshape(view)] * 2, -1),
              lambda x: torch.cat((x.exp() * 2).reshape(view).chunk(2, -1)[::-1], -1),
              lambda x: ((x.exp() * 2).reshape(view).softmax(-1).reshape(shape) + x).sum(0)):
        check(f, x, groups=None)  # as many groups as the shapes allow
        assert torch.equal(torch.compile(f)(x), f(x))
