"""Traced and saved programs: code in torch's form, warnings, calls of modules, archives."""
import io
import os
import warnings

import pytest

import cresset as torch
from cresset import nn
from cresset.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Gate(nn.Module):
    def forward(self, v):
        if v.mean() > 0:
            return v
        return -v


class Cell(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate, self.mix = gate, nn.Linear(3, 3)

    def forward(self, v, state):
        state = torch.tanh(self.gate(self.mix(v)) + state)
        return state, state


class Tied(nn.Module):
    """A module called twice, a parameter used outside of its module, writes in place, constants."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)

    def forward(self, x):
        y = self.l(self.l(x)) + self.l.weight.sum() + torch.arange(3.0)
        y[0] = 5.0
        y.add_(1)
        a, b = y.chunk(2, 0)
        return y, (y.view(-1)[1:] * 2, [a.mean(1), torch.cat([a, b])])


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Dropout(0.5)

    def forward(self, x):
        return F.relu(x + self.drop(self.norm(self.conv(x))))


def flat(x):
    return [x] if isinstance(x, torch.Tensor) else [t for item in x for t in flat(item)]


def example(*size):
    return torch.linspace(-1, 1, torch.Size(size).numel()).view(size)


CASES = {
    "tied": (Tied, [example(2, 3)]),
    "residual": (lambda: Residual().eval(), [example(1, 2, 4, 4)]),
    "sequence": (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2), nn.Softmax(1)),
                 [example(2, 3)]),
    "lstm": (lambda: nn.LSTM(3, 4, batch_first=True), [example(2, 5, 3)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), [example(2, 3, 8)]),
    "embedding": (lambda: nn.Embedding(5, 3), [torch.tensor([[1, 2], [3, 4]])]),
    "pools": (lambda: nn.Sequential(nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)), [example(1, 2, 4, 4)]),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), [example(1, 2, 3, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_traced_modules_compute_the_same_also_when_saved_and_loaded(name):
    make, inputs = CASES[name]
    torch.manual_seed(0)
    m = make()
    traced = torch.jit.trace(m, inputs)
    kept = io.BytesIO(traced.save_to_buffer())
    loaded = torch.jit.load(kept)
    want = flat(m(*inputs))
    for made in (traced, loaded):
        got = flat(made(*inputs))
        assert len(got) == len(want)
        for a, b in zip(want, got):
            torch.testing.assert_close(a, b)
    assert [n for n, _ in loaded.named_parameters()] == [n for n, _ in m.named_parameters()]
    assert loaded.code.count("\n") == traced.code.count("\n")


def test_the_code_of_a_traced_module_is_torchs():
    plain = torch.jit.trace(Cell(nn.Identity()), (example(2, 3), example(2, 3)))
    assert plain.code == """def forward(self,
    v: Tensor,
    state: Tensor) -> Tuple[Tensor, Tensor]:
  gate = self.gate
  mix = self.mix
  _0 = (mix).forward(v, )
  _1 = (gate).forward()
  _2 = torch.tanh(torch.add(_0, state))
  return (_2, _2)
"""
    assert plain.mix.code == """def forward(self,
    v: Tensor) -> Tensor:
  bias = self.bias
  weight = self.weight
  return torch.linear(v, weight, bias)
"""


@pytest.mark.parametrize("use, text", [
    (lambda x: x if x.sum() > 0 else -x, "Converting a tensor to a Python boolean might cause the trace to be incorrect"),
    (lambda x: x + int(x.sum()), "Converting a tensor to a Python integer might"),
    (lambda x: x + float(x.sum()), "Converting a tensor to a Python float might"),
    (lambda x: x + len(x), "Using len to get tensor shape might cause the trace to be incorrect"),
    (lambda x: sum(row for row in x), "Iterating over a tensor might cause the trace to be incorrect"),
    (lambda x: x + torch.tensor(2.0), "torch.tensor results are registered as constants in the trace"),
])
def test_what_a_trace_cannot_record_warns(use, text):
    x = torch.ones(2, 3)
    with pytest.warns(torch.jit.TracerWarning, match=text) as caught:
        traced = torch.jit.trace(use, x)
    assert os.path.basename(caught[-1].filename) == os.path.basename(__file__)
    assert torch.equal(traced(x), use(x))


def test_a_branch_that_was_not_taken_is_gone():
    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(Gate(), -torch.ones(2))
    assert traced.code == "def forward(self,\n    v: Tensor) -> Tensor:\n  return torch.neg(v)\n"
    assert torch.equal(traced(torch.ones(2)), -torch.ones(2))


def test_check_trace_finds_differences():
    calls = []

    def f(x):
        calls.append(1)
        return x * len(calls)
    with pytest.warns(torch.jit.TracerWarning, match="Output nr 1. of the traced function does not match"):
        torch.jit.trace(f, torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(f, torch.ones(2), check_trace=False)


def scripted_double(x, n: int):
    if n > 1:
        return x * 2
    return x


def test_compiled_code_inside_a_trace_keeps_its_branches():
    double, gate = torch.jit.script(scripted_double), torch.jit.script(Gate())
    traced = torch.jit.trace(lambda x: double(gate(x), 2) if False else double(x, 2) + 1, torch.ones(2))
    assert "scripted_double" in traced.code and traced(torch.ones(2)).tolist() == [3, 3]
    cell = torch.jit.trace(Cell(gate), (example(2, 3), example(2, 3)))
    with torch.no_grad():
        for p in cell.mix.parameters():
            p.fill_(-1)
    assert torch.equal(cell(torch.ones(2, 3), torch.zeros(2, 3))[0], torch.tanh(torch.full((2, 3), 4.0)))


def test_inputs_without_tensors_are_refused():
    with pytest.raises(RuntimeError, match="Only Tensors"):
        torch.jit.trace(lambda x, n: x * n, (torch.ones(2), 3))
    with pytest.raises(NotImplementedError, match="forward"):
        torch.jit.trace_module(nn.Linear(2, 2), {"other": torch.ones(2)})


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        self.steps = 0
        self.names = {"a": [1, 2], "b": [3]}
        self.device = torch.device("cpu")

    def forward(self, x):
        self.steps += 1
        return self.net(x) * self.names["b"][0]


def test_scripted_modules_train_and_are_saved_with_their_attributes(tmp_path):
    torch.manual_seed(0)
    m = torch.jit.script(Trained())
    x, y = example(6, 2), example(6, 1)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    path = tmp_path / "trained.pt"
    torch.jit.save(m, path, _extra_files={"note": "kept"})
    extra = {"note": ""}
    other = torch.jit.load(path, _extra_files=extra)
    assert extra == {"note": b"kept"} and other.steps == 20 and other.names == {"a": [1, 2], "b": [3]}
    torch.testing.assert_close(other(x), m(x))


def test_functions_and_objects_that_are_not_compiled_are_refused():
    with pytest.raises(NotImplementedError, match="torch.jit.script does not compile"):
        torch.jit.script(3)


def test_copies_are_independent_and_pickles_refused():
    import copy
    import pickle
    m = torch.jit.script(Trained())
    other = copy.deepcopy(m)
    with torch.no_grad():
        other.net[2].bias.add_(1)
    m(example(2, 2))
    assert other.steps == 0 and m.steps == 1
    assert not torch.equal(other.net[2].bias, m.net[2].bias)
    with pytest.raises(pickle.PickleError, match="ScriptModules cannot be deepcopied"):
        pickle.dumps(m)


def test_units_are_compiled_from_text():
    unit = torch.jit.CompilationUnit("""
        def add(a, b):
            return a + b

        def f(a, n: int):
            for i in range(n):
                a = add(a, torch.ones([2]) * i)
            return a
    """)
    assert unit.f(torch.zeros(2), 4).tolist() == [6, 6] and unit.add.name == "add"
    with pytest.raises(AttributeError, match="has no attribute 'g'"):
        unit.g
    with pytest.raises(RuntimeError, match="undefined value y"):
        unit.define("def g(x):\n    return y\n")


def test_hooks_that_are_no_functions_are_refused():
    class Hook:
        def __call__(self, module, args, result):
            pass
    m = nn.Linear(2, 2)
    m.register_forward_hook(Hook())
    with pytest.raises(NotImplementedError, match="hooks that are no functions"):
        torch.jit.script(m)
