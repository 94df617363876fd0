"""torch.lstm, gru, rnn_tanh and rnn_relu, over padded and packed sequences, are the modules' results, bit for bit."""
import pytest

import cresset as torch
from cresset.nn.utils.rnn import pack_padded_sequence

FORMS = [("lstm", torch.nn.LSTM, {}), ("gru", torch.nn.GRU, {}), ("rnn_tanh", torch.nn.RNN, {}),
         ("rnn_relu", torch.nn.RNN, {"nonlinearity": "relu"})]


def network(cls, how, **more):
    torch.manual_seed(11)
    return cls(3, 4, 2, **how, **more)


def start(module, name, batch):
    state = torch.randn(module.num_layers * (1 + module.bidirectional), batch, 4)
    return [state, state.flip(0)] if name == "lstm" else state


def gradients(results, module, x):
    loss = sum((r * r).sum() for r in results)
    return torch.autograd.grad(loss, [x, *module.parameters()])


def flat(results):
    return [t for r in results for t in (r if isinstance(r, tuple) else (r,))]


def equal(mine, theirs, module, x):
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a, b)
    for a, b in zip(gradients(mine, module, x), gradients(theirs, module, x), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name, cls, how", FORMS)
def test_padded(name, cls, how, bias, both_ways, first):
    module = network(cls, how, bias=bias, bidirectional=both_ways, batch_first=first)
    x = torch.randn(5, 2, 3)
    x = (x.transpose(0, 1).contiguous() if first else x).requires_grad_()
    hx = start(module, name, 2)
    mine = getattr(torch, name)(x, hx, module._flat_weights, bias, 2, 0.0, True, both_ways, first)
    theirs = flat(module(x, tuple(hx) if name == "lstm" else hx))
    equal(mine, theirs, module, x)


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("name, cls, how", FORMS)
def test_packed(name, cls, how, both_ways):
    module = network(cls, how, bidirectional=both_ways)
    x = torch.randn(5, 3, 3, requires_grad=True)
    packed = pack_padded_sequence(x, [5, 3, 1])
    hx = start(module, name, 3)
    mine = getattr(torch, name)(packed.data, packed.batch_sizes, hx, module._flat_weights, True, 2, 0.0, True, both_ways)
    out, state = module(packed, tuple(hx) if name == "lstm" else hx)
    equal(mine, flat([out.data, state]), module, x)


def test_bad_arguments():
    module = network(torch.nn.LSTM, {})
    x, hx = torch.randn(5, 2, 3), [torch.zeros(2, 2, 4)] * 2
    with pytest.raises(RuntimeError):
        torch.lstm(x, hx[:1], module._flat_weights, True, 2, 0.0, True, False, False)
    with pytest.raises(RuntimeError):
        torch.lstm(x, hx, module._flat_weights[:3], True, 2, 0.0, True, False, False)
    with pytest.raises(RuntimeError, match="larger than 0"):
        torch.gru(x[:0], hx[0], network(torch.nn.GRU, {})._flat_weights, True, 2, 0.0, True, False, False)
    with pytest.raises(RuntimeError, match="batch_sizes"):
        torch.gru(x[:, 0], torch.tensor([2, 3]), hx[0], network(torch.nn.GRU, {})._flat_weights, True, 2, 0.0, True, False)


def test_steps_of_a_direction_refuse_tensors_that_do_not_fit():
    f = torch.float64
    gates, hidden, w = torch.ones(3, 2, 8, dtype=f), torch.ones(2, 2, dtype=f), torch.ones(8, 2, dtype=f)
    states = torch.ones(3, 2, 2, dtype=f)
    for call in (lambda: torch._C.ops._rnn_direction(gates, hidden, None, w, None, 0, False),
                 lambda: torch._C.ops._rnn_direction(gates[0], hidden, hidden, w, None, 0, False),
                 lambda: torch._C.ops._rnn_direction_backward(states, states, states, states, gates, hidden, None, w, None, 0, False)):
        with pytest.raises(RuntimeError, match="an lstm a cell|a cell belongs to an lstm|gates must have 3 dimensions"):
            call()
    for wrong in (states[0], states[:2], states[0, 0]):
        with pytest.raises(RuntimeError, match=r"have the sizes \(3, 2, 2\)"):
            torch._C.ops._rnn_direction_backward(wrong, states, states, states, gates, hidden, hidden, w, None, 0, False)
