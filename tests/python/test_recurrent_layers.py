"""Recurrent layers beside loops of cells: results, gradients, second gradients, packed sequences, autocast."""
import pytest

import cresset as torch
from cresset import nn
from cresset.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LENGTH, BATCH, INPUT, HIDDEN = 5, 3, 4, 2
KINDS = ["LSTM", "GRU", "RNN", "RNN relu"]


def close(ours, theirs, rtol=1e-7, atol=1e-9):
    ours, theirs = ([t] if torch.is_tensor(t) else list(t) for t in (ours, theirs))
    return len(ours) == len(theirs) and all(torch.allclose(a, b, rtol=rtol, atol=atol) for a, b in zip(ours, theirs))


def layer(kind, **options):
    torch.manual_seed(0)
    if kind == "RNN relu":
        kind, options = "RNN", dict(options, nonlinearity="relu")
    return getattr(nn, kind)(INPUT, HIDDEN, dtype=torch.float64, **options)


def cell_of(module, suffix):
    """The function (x, states) -> states of one direction of one layer."""
    w = [getattr(module, name + suffix, None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    if module.mode == "LSTM":
        return lambda x, s: torch.lstm_cell(x, s, *w)
    cell = {"GRU": torch.gru_cell, "RNN_TANH": torch.rnn_tanh_cell, "RNN_RELU": torch.rnn_relu_cell}[module.mode]
    return lambda x, s: (cell(x, s[0], *w),)


def by_cells(module, x, states, lengths):
    """Every sequence of the batch by itself, step by step: x is (length, batch, size)."""
    directions = 2 if module.bidirectional else 1
    last = [[] for _ in states]
    for number in range(module.num_layers):
        outputs = []
        for direction in range(directions):
            step = cell_of(module, f"_l{number}" + "_reverse" * direction)
            rows, ends = [], [[] for _ in states]
            for b, n in enumerate(lengths):
                state = [s[number * directions + direction, b:b + 1] for s in states]
                row = [None] * LENGTH
                for t in (reversed(range(n)) if direction else range(n)):
                    state = step(x[t, b:b + 1], state)
                    row[t] = state[0]
                rows.append(torch.stack([torch.zeros_like(state[0]) if r is None else r for r in row]))
                for end, s in zip(ends, state):
                    end.append(s)
            outputs.append(torch.cat(rows, 1))
            for all_ends, end in zip(last, ends):
                all_ends.append(torch.cat(end))
        x = torch.cat(outputs, -1)
    return x, [torch.stack(s) for s in last]


def states_of(module):
    n = module.num_layers * (2 if module.bidirectional else 1)
    return [torch.randn(n, BATCH, HIDDEN, dtype=torch.float64, requires_grad=True)
            for _ in range(2 if module.mode == "LSTM" else 1)]


def run(module, x, states, lengths):
    """The module's own way: packed unless all lengths are equal."""
    given = tuple(states) if module.mode == "LSTM" else states[0]
    if len(set(lengths)) == 1:
        y, last = module(x.transpose(0, 1) if module.batch_first else x, given)
        y = y.transpose(0, 1) if module.batch_first else y
    else:
        y, last = module(pack_padded_sequence(x, lengths, enforce_sorted=False), given)
        y = pad_packed_sequence(y, total_length=LENGTH)[0]
    return y, list(last) if module.mode == "LSTM" else [last]


def derivatives(y, last, inputs, again):
    value = (y.sin() * torch.arange(y.numel()).reshape(y.shape)).sum() + sum((s * s).sum() for s in last)
    first = torch.autograd.grad(value, inputs, create_graph=again)
    return first if not again else first + torch.autograd.grad(sum((g * g).sum() for g in first), inputs)


@pytest.mark.parametrize("lengths", [[LENGTH] * BATCH, [5, 2, 2], [1, 5, 3]], ids=str)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_equal_loops_of_cells(kind, options, lengths):
    module = layer(kind, **options)
    x = torch.randn(LENGTH, BATCH, INPUT, dtype=torch.float64, requires_grad=True)
    states = states_of(module)
    (y, last), (expected, expected_last) = run(module, x, states, lengths), by_cells(module, x, states, lengths)
    assert close(y, expected)
    assert close(last, expected_last)
    inputs = [x, *states, *module.parameters()]
    assert close(derivatives(y, last, inputs, True), derivatives(expected, expected_last, inputs, True))


@pytest.mark.parametrize("kind", KINDS)
def test_batch_first_and_one_sequence(kind):
    module = layer(kind, batch_first=True)
    x, states = torch.randn(LENGTH, BATCH, INPUT, dtype=torch.float64), states_of(module)
    y, last = run(module, x, states, [LENGTH] * BATCH)
    assert close(y, by_cells(module, x, states, [LENGTH] * BATCH)[0])
    one = [s[:, 1] for s in states]
    alone = module(x[:, 1], tuple(one) if module.mode == "LSTM" else one[0])[0]
    assert close(alone, y[:, 1])


@pytest.mark.parametrize("used", ["the output", "the last cell", "the first step"])
def test_parts_of_the_results(used):
    module = layer("LSTM")
    x, states = torch.randn(LENGTH, BATCH, INPUT, dtype=torch.float64, requires_grad=True), None
    pick = {"the output": lambda y, s: y, "the last cell": lambda y, s: s[1], "the first step": lambda y, s: y[0]}[used]
    zeros = [torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)] * 2
    inputs = [x, *module.parameters()]
    y, last = module(x, states)
    expected, expected_last = by_cells(module, x, zeros, [LENGTH] * BATCH)
    ours = torch.autograd.grad(pick(y, last).exp().sum(), inputs)
    assert close(ours, torch.autograd.grad(pick(expected, expected_last).exp().sum(), inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_the_same_fused_and_in_parts(kind):
    """Backward uses one kernel a step, backward that is differentiated again uses calls: equal bits in double."""
    module = layer(kind)
    x, states = torch.randn(LENGTH, BATCH, INPUT, dtype=torch.float64, requires_grad=True), states_of(module)
    inputs = [x, *states, *module.parameters()]
    y, last = run(module, x, states, [LENGTH] * BATCH)
    fused = derivatives(y, last, inputs, False)
    y, last = run(module, x, states, [LENGTH] * BATCH)
    parts = derivatives(y, last, inputs, True)[:len(inputs)]
    assert all(torch.equal(a, b) for a, b in zip(fused, parts))


@pytest.mark.parametrize("kind", KINDS)
def test_forward_mode_and_vmap(kind):
    module = layer(kind)
    x, v = torch.randn(LENGTH, BATCH, INPUT, dtype=torch.float64), torch.randn(LENGTH, BATCH, INPUT, dtype=torch.float64)
    f = lambda x: module(x)[0]
    slope = (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6
    assert close(torch.func.jvp(f, (x,), (v,))[1], slope, rtol=1e-6, atol=1e-8)
    both = torch.stack([x, v])
    assert close(torch.vmap(f)(both), torch.stack([f(x), f(v)]))


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_layers_have_eager_bits(kind):
    module = layer(kind, num_layers=2).float()
    x = torch.randn(LENGTH, BATCH, INPUT)
    compiled = torch.compile(module)
    for _ in range(3):
        expected, ours = module(x)[0], compiled(x)[0]
        assert torch.equal(expected, ours)
        w = module.weight_hh_l0
        assert torch.equal(torch.autograd.grad(expected.sum(), w)[0], torch.autograd.grad(ours.sum(), w)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_training_under_autocast(kind, dtype):
    module = layer(kind).float()
    x = torch.randn(LENGTH, BATCH, INPUT)
    full = module(x)[0]
    with torch.autocast("cpu", dtype=dtype):
        y = module(x)[0]
    assert close(y.float(), full, rtol=0.03, atol=0.03)
    names = [n for n, _ in module.named_parameters()]
    exact = torch.autograd.grad(full.sum(), list(module.parameters()))
    for name, ours, theirs in zip(names, torch.autograd.grad(y.float().sum(), list(module.parameters())), exact):
        assert ours.dtype == torch.float32, name
        assert close(ours, theirs, rtol=0.1, atol=0.1)


def wrong(**given):
    """The arguments of _rnn_direction with some replaced."""
    args = dict(gates=torch.zeros(3, 2, 8), hidden=torch.zeros(2, 2), cell=torch.zeros(2, 2), w_hh=torch.zeros(8, 2),
                b_hh=torch.zeros(8), kind=0, reverse=False)
    args.update(given)
    return lambda: torch.ops.aten._rnn_direction(*args.values())


@pytest.mark.parametrize("call, message", [
    (wrong(gates=torch.zeros(2, 8)), "gates must have 3 dimensions"),
    (wrong(gates=torch.zeros(0, 2, 8)), "sequence length to be larger than 0"),
    (wrong(gates=torch.zeros(3, 2, 7)), "has 8 gates; got gates of size 7"),
    (wrong(gates=torch.zeros(3, 1, 8)), "8 gates"),
    (wrong(hidden=torch.zeros(2, 3)), "3 hidden numbers has 12 gates"),
    (wrong(cell=None), "a cell belongs to an lstm"),
    (wrong(cell=torch.zeros(1, 2)), "8 gates"),
    (wrong(w_hh=torch.zeros(8, 3)), r"weights of sizes \(8, 3\)"),
    (wrong(b_hh=torch.zeros(7)), "size"),
    (wrong(kind=4), "kind 4 is not known"),
    (lambda: torch.ops.aten._rnn_direction_backward(*[torch.tensor(1.)] * 8, None, 0, False), "takes gates of 3 dims"),
    (lambda: torch.gru(torch.zeros(2, 3, 4), torch.zeros(1, 3, 2), [], False, 2 ** 63 - 1, 0., False, True, False), "too few for"),
    (lambda: nn.LSTM(4, 2)(torch.zeros(0, 3, 4)), "sequence length to be larger than 0"),
    (lambda: nn.GRU(4, 2)(torch.zeros(2, 3, 5)), "Expected 4, got 5"),
    (lambda: nn.LSTM(4, 2)(torch.zeros(2, 3, 4), (torch.zeros(1, 3, 2), torch.zeros(1, 3, 3))), r"Expected hidden\[1\] size"),
])
def test_wrong_arguments(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()
