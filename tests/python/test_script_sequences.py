"""Packed sequences in compiled code: packing, recurrent layers over them, padding."""
import io
from typing import Optional, Tuple

import pytest

import cresset as torch
from cresset import nn
from cresset.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class OneState(nn.Module):
    def __init__(self, layer, enforce_sorted):
        super().__init__()
        self.layer, self.enforce_sorted, self.first = layer, enforce_sorted, layer.batch_first

    def forward(self, x, lengths, hx: Optional[torch.Tensor] = None):
        packed = pack_padded_sequence(x, lengths, batch_first=self.first, enforce_sorted=self.enforce_sorted)
        out, h = self.layer(packed, hx)
        y, n = pad_packed_sequence(out, batch_first=self.first, padding_value=-1.0, total_length=5)
        return y, n, h


class TwoStates(nn.Module):
    def __init__(self, layer, enforce_sorted):
        super().__init__()
        self.layer, self.enforce_sorted, self.first = layer, enforce_sorted, layer.batch_first

    def forward(self, x, lengths, hx: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        packed = pack_padded_sequence(x, lengths, batch_first=self.first, enforce_sorted=self.enforce_sorted)
        out, (h, c) = self.layer(packed, hx)
        y, n = pad_packed_sequence(out, batch_first=self.first)
        return y, n, h, c


LAYERS = {
    "rnn": lambda: nn.RNN(3, 4), "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", batch_first=True),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True), "lstm": lambda: nn.LSTM(3, 4, batch_first=True),
    "both": lambda: nn.LSTM(3, 4, bidirectional=True, bias=False), "projected": lambda: nn.LSTM(3, 4, proj_size=2, num_layers=2),
}


def example(name, lengths):
    """A module, its input, and its initial state."""
    torch.manual_seed(0)
    layer = LAYERS[name]()
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    x = torch.randn(len(lengths), max(lengths), 3) if layer.batch_first else torch.randn(max(lengths), len(lengths), 3)
    c = torch.randn(rows, len(lengths), 4)
    if isinstance(layer, nn.LSTM):
        h = torch.randn(rows, len(lengths), layer.proj_size or 4)
        return TwoStates(layer, lengths == sorted(lengths, reverse=True)), x, (h, c)
    return OneState(layer, lengths == sorted(lengths, reverse=True)), x, c


@pytest.mark.parametrize("lengths", [[4, 3, 1], [2, 4, 3]], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_take_packed_sequences(name, lengths):
    m, x, state = example(name, lengths)
    s, n = torch.jit.script(m), torch.tensor(lengths)
    again = torch.jit.load(io.BytesIO(s.save_to_buffer()))
    for given in ((x, n), (x, n, state)):
        want = m(*given)
        for made in (s, again):
            for a, b in zip(want, made(*given), strict=True):
                assert a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_gradients_pass_through_packed_sequences(name):
    m, x, _ = example(name, [2, 4, 3])
    grads = []
    for f in (m, torch.jit.script(m)):
        leaf = x.clone().requires_grad_()
        f(leaf, torch.tensor([2, 4, 3]))[0].square().sum().backward()
        grads.append(leaf.grad)
    assert torch.allclose(*grads)


def test_layers_choose_by_the_type_of_their_input():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4)

        def forward(self, x, p: PackedSequence):
            return self.lstm(x)[0], self.lstm(p)[0].data
    m, x = Both(), torch.randn(3, 2, 3)
    p = pack_padded_sequence(x, torch.tensor([3, 3]))
    padded, data = torch.jit.script(m)(x, p)
    assert torch.equal(padded, m.lstm(x)[0]) and torch.equal(data, m.lstm(p)[0].data)
    assert ".forward__1(p, None, )" in torch.jit.script(m).code


def test_lengths_may_be_a_list():
    @torch.jit.script
    def pack(x):
        p = pack_padded_sequence(x, [3, 2])
        return p.data, p.batch_sizes, p.sorted_indices is None
    x = torch.arange(6.0).view(3, 2)
    data, sizes, none = pack(x)
    assert none and sizes.tolist() == [2, 2, 1] and data.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("x, lengths, text", [
    (torch.ones(3, 2, 3), torch.tensor([2, 3]), "`lengths` array must be sorted in decreasing order"),
    (torch.ones(3, 2, 3), torch.tensor([3]), "Expected `len\\(lengths\\)` to be equal to batch_size"),
    (torch.ones(3, 2, 3), torch.tensor([3, 0]), "Length of all samples has to be greater than 0"),
    (torch.ones(3, 2, 5), torch.tensor([3, 2]), "input.size\\(-1\\) must be equal to input_size. Expected 3, got 5")])
def test_wrong_lengths_and_sizes_are_refused(x, lengths, text):
    m = torch.jit.script(OneState(nn.GRU(3, 4), True))
    with pytest.raises((RuntimeError, torch.jit.Error), match=text):
        m(x, lengths)
