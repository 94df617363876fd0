"""Traced and saved programs: code in torch's form, warnings, calls of modules, archives."""
import collections
import io
import math
import os
import re
import threading
import warnings
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy
import pytest

import cresset as torch
from cresset import nn
from cresset.nn import functional as F
from cresset.overrides import handle_torch_function, has_torch_function

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
    with pytest.warns(torch.jit.TracerWarning, match="Output nr 1. of the traced function does not match"), \
            pytest.raises(torch.jit.TracingCheckError, match="ERROR: Graphs differed across invocations!\n\tGraph diff:\n"):
        torch.jit.trace(f, torch.ones(2))
    assert len(calls) >= 3
    del calls[:]
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(f, torch.ones(2), check_trace=False)
    assert len(calls) == 1


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("written", torch.zeros(2))
        self.register_buffer("replaced", torch.zeros(2))
        self.bn, self.w = nn.BatchNorm1d(2), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        self.written.add_(1)
        self.replaced = self.replaced + 1
        with torch.no_grad():
            self.w.add_(1)
        return self.bn(x) + 0 * self.written


@pytest.mark.parametrize("options, counts", [({"check_trace": False}, (1, 1)), ({}, (5, 3)),
                                             ({"check_inputs": [torch.rand(3, 2), torch.rand(5, 2)]}, (9, 5))])
def test_buffers_keep_what_a_trace_and_its_checks_write(options, counts):
    m = Counting()
    traced = torch.jit.trace(m, torch.rand(4, 2), **options)
    calls, calls_of_python = counts
    assert m.written.tolist() == [calls] * 2 and m.w.tolist() == [calls] * 2 and m.bn.num_batches_tracked == calls
    assert m.replaced.tolist() == [calls_of_python] * 2 and traced.replaced.tolist() == [0, 0]
    assert traced.written.data_ptr() == m.written.data_ptr()


def test_a_trace_that_fails_keeps_what_it_wrote():
    class Fails(Counting):
        def forward(self, x):
            super().forward(x)
            raise ValueError("no")
    m = Fails()
    with pytest.raises(ValueError):
        torch.jit.trace(m, torch.rand(4, 2))
    assert m.written.tolist() == [1, 1]


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
    with pytest.raises(RuntimeError, match="List trace inputs must have elements"):
        torch.jit.trace(lambda xs: xs, ([],))
    with pytest.raises(RuntimeError, match="consistent element type. Found Tensor and Tuple"):
        torch.jit.trace(lambda xs: xs, ([torch.ones(2), (torch.ones(2),)],))


# What a trace must compute for other sizes and dtypes than those of its example.
FOLLOWS = [
    lambda x: x.view(x.size(0) * x.size(1)), lambda x: x.reshape(x.shape[1], -1), lambda x: torch.zeros(x.shape) + x,
    lambda x: x.new_ones(x.size(0), 2), lambda x: torch.arange(x.shape[0]), lambda x: x[:x.size(0) - 1], lambda x: x.numel(),
    lambda x: x.view(x.size()), lambda x: torch.full(x.shape, 2.0), lambda x: x.expand(3, *x.shape), lambda x: x.shape[-1] + 1,
    lambda x: x.view(*x.shape[:-1], x.size(-1)), lambda x: x / x.size(0), lambda x: x.sum() * x.nelement(),
    lambda x: x.double(), lambda x: x.to(torch.float64), lambda x: x.to(x),
    lambda x: x.to(device="cpu", dtype=torch.float16), lambda x: x.float().mean(), lambda x: x.type(torch.int64),
    lambda x: x.detach() * 2, lambda x: x.data + 1, lambda x: x.T @ x, lambda x: x.mT, lambda x: x.type_as(x) + 1,
    lambda x: F.max_pool2d(x[None], 2), lambda x: x.float().cpu() + 1, lambda x: x.float().to("cpu"), lambda x: torch.einsum("ij,ij->j", x, x),
]


@pytest.mark.parametrize("number", range(len(FOLLOWS)))
def test_sizes_and_conversions_of_a_trace_are_those_of_the_call(number):
    f = FOLLOWS[number]
    traced = torch.jit.trace(f, example(4, 6))
    for x in (example(4, 6), example(6, 4), example(2, 8).double()):
        want, got = f(x), traced(x)
        want = torch.as_tensor(want)
        assert got.dtype == want.dtype and torch.equal(got, want) and got.requires_grad == want.requires_grad


def test_a_trace_detaches():
    w = torch.ones(2, requires_grad=True)
    traced = torch.jit.trace(lambda w: w.detach() * 2, torch.ones(2))
    assert not traced(w).requires_grad and not torch.ops.aten.detach(w).requires_grad
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        torch.jit.trace(lambda x: x + w, torch.ones(2))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.step = nn.Linear(2, 2), 3

    def forward(self, x):
        return self.inner(x)

    def scaled(self, x):
        return x * self.inner.weight

    @torch.jit.export
    def next(self, n: int):
        return n + self.step


def test_several_methods_of_a_module_are_traced_and_exported_ones_compiled():
    m = Two()
    traced = torch.jit.trace_module(m, {"forward": example(3, 2), "scaled": example(2, 2)},
                                    check_inputs=[{"forward": example(5, 2), "scaled": example(1, 2)}])
    loaded = torch.jit.load(io.BytesIO(traced.save_to_buffer()))
    for made in (traced, loaded):
        x = example(4, 2)
        assert torch.equal(made(x), m(x)) and torch.equal(made.scaled(x[:2]), m.scaled(x[:2])) and made.next(4) == 7
    assert torch.equal(torch.jit.trace(m.forward, example(3, 2))(x), m(x))
    with pytest.raises(AttributeError, match="trace doesn't support compiling individual module's functions"):
        torch.jit.trace(m.scaled, example(2, 2))


def test_traces_that_differ_for_further_inputs_are_refused():
    with warnings.catch_warnings(), pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"):
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        torch.jit.trace(lambda x: sum(x * i for i in range(x.size(0))), example(3), check_inputs=[example(4)])


def test_containers_of_compiled_functions_are_taken_apart():
    nested = torch.jit.script(scripted_nested)
    traced = torch.jit.trace(lambda x: (lambda r: r["a"][0] + r["b"][1])(nested({"x": [x]})), example(2))
    assert torch.equal(traced(torch.ones(2)), torch.tensor([5.0, 5.0]))


def scripted_nested(d: Dict[str, List[torch.Tensor]]):
    x = d["x"][0]
    return {"a": (x, x), "b": (x, x * 4)}


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
    with pytest.raises(RuntimeError, match="Tried to serialize object .* which does not have a __getstate__"):
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


def test_functions_of_python_are_recorded_as_their_operators():
    a, b = torch.arange(6.).reshape(2, 3), torch.arange(12.).reshape(3, 4)
    for fn, inputs, operator in (
            (lambda a, b: torch.tensordot(a, b, dims=1), (a, b), "aten::tensordot"),
            (lambda a: torch.unique_consecutive(a), (a,), "aten::unique_consecutive"),
            (lambda a: torch.nonzero(a, as_tuple=True), (a,), "aten::where"),
            (lambda a: torch.norm(a, "nuc"), (a,), "aten::linalg_matrix_norm"),
            (lambda a: a + torch.ones(3, requires_grad=False), (a,), "aten::ones"),
            (lambda a: torch.index_put(a, [torch.tensor([0])], torch.ones(3)), (a,), "aten::index_put"),
            (lambda a: torch.complex(a, a), (a,), "aten::complex")):
        traced = torch.jit.trace(fn, inputs)
        assert traced.inlined_graph.findNode(operator), operator
        torch.testing.assert_close(traced(*inputs), fn(*inputs), rtol=0, atol=0)


def test_further_names_of_operators_are_their_names_in_graphs():
    @torch.jit.script
    def f(x):
        return torch.true_divide(torch.clip(x, 0.5), 2).absolute().negative_()
    assert [n.kind() for n in f.graph.nodes() if n.kind() != "prim::Constant"] == \
        ["aten::clamp", "aten::div", "aten::abs", "aten::neg_"]
    assert f(torch.tensor([0., 4])).tolist() == [-0.25, -2]


calls = 0


def by_name(x):
    global calls
    calls += 1
    if has_torch_function((x,)):
        return handle_torch_function(by_name, (x,), x)
    return x.sin() + 1


def by_attribute(x, n=2):
    global calls
    calls += 1
    if torch.overrides.has_torch_function((x,)):
        return torch.overrides.handle_torch_function(by_attribute, (x,), x, n=n)
    return by_attribute(x.sin(), n - 1) if n else x + 1


def by_unary(x):
    global calls
    calls += 1
    if torch.overrides.has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(by_unary, (x,), x)
    return by_name(x) * by_variadic(x, x)


def by_variadic(x, y):
    if torch.overrides.has_torch_function_variadic(x, y):
        return torch.overrides.handle_torch_function(by_variadic, (x, y), x, y)
    return x.sin() * y


@pytest.mark.parametrize("fn", [by_name, by_attribute, by_unary])
def test_functions_of_programs_that_look_for_handlers_are_recorded_as_their_operators(fn):
    before = calls
    traced = torch.jit.trace(fn, torch.ones(2), check_trace=False)
    assert calls > before + 1  # the program's own global
    assert traced.inlined_graph.findNode("aten::sin")
    x = torch.tensor([0.5, 2.])
    torch.testing.assert_close(traced(x), fn(x), rtol=0, atol=0)


def helper_asks(x):
    return (lambda: torch.overrides.has_torch_function((x,)))()


def by_helper(x):
    if helper_asks(x) and torch.overrides.has_torch_function:
        return torch.overrides.handle_torch_function(by_helper, (x,), x)
    return x.sin()


def test_a_function_that_asks_elsewhere_is_refused_by_name():
    with pytest.raises(RuntimeError, match="Tracer cannot record 'by_helper'"):
        torch.jit.trace(by_helper, torch.ones(2))


def test_numbers_of_traces_do_not_widen_the_dtype_also_when_loaded():
    import io
    traced = torch.jit.trace(lambda x: (x * 2.5, x - 1, x + True), torch.ones(2))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    for program in (traced, torch.jit.load(io.BytesIO(file.getvalue()))):
        for x in (torch.ones(2), torch.ones(2, dtype=torch.int64), torch.tensor(1.0), torch.ones(2, dtype=torch.float16)):
            for made, want in zip(program(x), (x * 2.5, x - 1, x + True)):
                assert made.dtype == want.dtype and torch.equal(made, want)


def test_a_constant_that_the_program_writes_is_read_where_it_is_used():
    total = torch.tensor(1.0)

    def count(x):
        total.add_(1)
        return x * total
    program = torch.jit.script(count)
    assert [program(torch.ones(1)).item() for _ in range(3)] == [2, 3, 4]


def same_padding(size, kernel, stride):
    if isinstance(size, torch.Tensor):
        return torch.clamp(((size / stride).ceil() - 1) * stride + kernel - size, min=0)
    return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


def padded_as_needed(x):
    h, w = (same_padding(n, 3, 2) for n in x.size()[-2:])
    return F.pad(x, (w // 2, w - w // 2, h // 2, h - h // 2))


@pytest.mark.parametrize("f", [
    padded_as_needed, lambda x: x.reshape([(x.size(0) / 1).ceil() if isinstance(x.size(0), torch.Tensor) else x.size(0), -1]),
    lambda x: F.interpolate(x[None, None], scale_factor=[x.size(0), x.size(1)]),
    lambda x: F.leaky_relu(x, x.size(0))])
def test_sizes_that_became_floats_are_numbers_of_the_type_that_an_operator_takes(f):
    # torch truncates floating tensors in lists of integers while it traces
    traced = torch.jit.trace(f, example(4, 7))
    for x in (example(4, 7), example(7, 4), example(2, 8)):
        assert torch.equal(traced(x), f(x))


def test_writes_to_several_given_tensors_are_recorded_or_refused():
    def ordered(x):
        values, indices = torch.zeros(2, 4), torch.zeros(4, dtype=torch.long)
        torch.sort(x, out=(values[0], indices[...]))
        return values, indices

    traced = torch.jit.trace(ordered, torch.ones(4), check_trace=False)
    values, indices = traced(torch.tensor([3., 1., 4., 2.]))
    assert values.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0]] and indices.tolist() == [1, 3, 0, 2]

    def split(x):
        out = [torch.zeros(2), torch.zeros(2)]
        torch.ops.aten.split_copy.Tensor_out(x, 2, out=out)
        return out[0] + out[1]

    def each(x):
        out = [torch.zeros(2), torch.zeros(2)]
        torch._foreach_add_(out, 1.0)
        return out[0] + x

    with pytest.raises(RuntimeError, match="Tracer cannot record 'split_copy.Tensor_out'"):
        torch.jit.trace(split, torch.ones(4))
    assert torch.jit.trace(each, torch.ones(2))(torch.zeros(2)).tolist() == [1, 1]


def warned(f, *inputs):
    """The first words of the TracerWarnings of a trace."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.jit.trace(f, inputs, check_trace=False)
    return [str(w.message).partition(" might")[0].partition(" results are")[0] for w in seen if w.category is torch.jit.TracerWarning]


CONVERSIONS = {
    "item": (lambda x: x * x.sum().item(), ["Converting a tensor to a Python number"]),
    "tolist": (lambda x: x + torch.tensor(x.tolist()), ["Converting a tensor to a Python list", "torch.tensor"]),
    "complex": (lambda x: x * complex(x.sum()), ["Converting a tensor to a Python complex"]),
    "int": (lambda x: x * int(x.sum()), ["Converting a tensor to a Python integer"]),
    "numpy": (lambda x: x + len(x.numpy()), ["Converting a tensor to a NumPy array"]),
    "from_numpy": (lambda x: x + torch.from_numpy(numpy.ones(3)), ["torch.from_numpy"]),
    "as_tensor": (lambda x: x + torch.as_tensor([1., 2, 3]), ["torch.as_tensor"]),
    "index": (lambda x: x * [1, 2, 3][x[0].long()], []),
    "format": (lambda x: x * len(f"{x.sum()}"), ["Converting a tensor to a Python number"]),
    "contains": (lambda x: x if 1. in x else -x, ["Converting a tensor to a Python number"]),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_traces_warn_where_torch_does(name):
    """Warnings of torch 2.13 for the same functions."""
    f, want = CONVERSIONS[name]
    assert warned(f, torch.tensor([1., 2, 0])) == want


def test_traced_dropouts_that_train_are_named_as_random():
    with pytest.warns(torch.jit.TracerWarning, match="Trace had nondeterministic nodes"):
        torch.jit.trace(lambda x: torch.dropout(x, 0.5, True), torch.ones(3, 4))


def test_interpolations_with_whole_factors_and_assignments_with_leading_ones_are_traced():
    x = torch.arange(6.).view(1, 1, 2, 3)
    f = torch.jit.trace(lambda x: nn.functional.interpolate(x, scale_factor=[2, 2], mode="bilinear"), x)
    assert torch.equal(f(x + 1), nn.functional.interpolate(x + 1, scale_factor=[2, 2], mode="bilinear"))

    def assign(target, at, values):
        target[at] = values
        return target
    f = torch.jit.trace(assign, (torch.zeros(4), torch.tensor([0, 1]), torch.ones(1, 1, 2)))
    assert f(torch.zeros(4), torch.tensor([2, 3]), torch.full((1, 1, 2), 5.)).tolist() == [0, 0, 5, 5]


class Shared(nn.Module):
    """A module that calls one that it does not have."""

    def __init__(self, other):
        super().__init__()
        self.others = [other]

    def forward(self, x):
        return self.others[0](x) + 1


def test_plain_modules_outside_of_the_traced_one_are_part_of_the_caller():
    f = torch.jit.trace(Shared(nn.ReLU()), torch.ones(2))
    assert f(torch.tensor([-1., 2])).tolist() == [1, 3] and "aten::relu" in str(f.graph)
    with pytest.raises(RuntimeError, match="Tried to trace <__torch__.*> but it is not part of the active trace"):
        torch.jit.trace(Shared(torch.jit.script(nn.ReLU())), torch.ones(2))


def test_the_graph_of_a_trace_has_the_parameters_as_inputs():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    x = torch.ones(1, 2)
    graph, out, inputs = torch.jit._get_trace_graph(net, x, return_inputs=True)
    assert torch.equal(out, net(x)) and len(inputs) == 3 == len(list(graph.inputs()))
    assert [n.kind() for n in graph.nodes()] == ["aten::linear", "aten::relu"]
    function = torch._C._create_function_from_graph("forward", graph)
    assert torch.equal(function(x * 2, *list(net.parameters())), net(x * 2))
    graph, out = torch.jit._get_trace_graph(lambda a, b: (a + b, a), (x, torch.ones(2)))
    assert out[0].tolist() == [[2, 2]] and [n.kind() for n in graph.nodes()] == ["prim::Constant", "aten::add", "prim::TupleConstruct"]


def test_a_function_runs_the_graph_of_a_text():
    text = """graph(%a : Tensor, %b : int):
  %c : Tensor = aten::add(%a, %b, %b)
  return (%c)
"""
    graph = torch._C.parse_ir(text)
    f = torch._C._create_function_from_graph("foo", graph)
    assert f(torch.ones(2), 3).tolist() == [10, 10] and str(f.schema) == "foo(Tensor a, int b) -> Tensor"
    assert f.code == "def foo(a: Tensor,\n    b: int) -> Tensor:\n  return torch.add(a, b, b)\n"
    with pytest.raises(RuntimeError, match="foo.. is missing value for argument 'a'"):
        f()
    for wrong in (text.replace("(%c)\n", "()\n"), text.replace("%b, %b", "%b, %d"), "graph(", text.replace("int)", "str)")):
        with pytest.raises((RuntimeError, ValueError)):
            torch._C._create_function_from_graph("foo", torch._C.Graph(wrong))


def typed(a: int, b: List[int], c: Dict[str, List[float]], d: Optional[int], e: Tuple[int, str], g: Union[int, str], h: Any,
          i: torch.device, r: List[Optional[torch.Tensor]], s: Optional[Tuple[int, int]], n: bool, p: torch.Tensor, f: torch.jit.Future[int]):
    return None


TYPES = [  # torch 2.13: str(), kind(), str(type)
    ("int", "IntType", "int"), ("List[int]", "ListType", "int[]"), ("Dict[str, List[float]]", "DictType", "Dict(str, float[])"),
    ("Optional[int]", "OptionalType", "int?"), ("Tuple[int, str]", "TupleType", "(int, str)"),
    ("Union[int, str]", "UnionType", "Union(int, str)"), ("Any", "AnyType", "Any"), ("Device", "DeviceObjType", "Device"),
    ("List[Optional[Tensor]]", "ListType", "Tensor?[]"), ("Optional[Tuple[int, int]]", "OptionalType", "(int, int)?"),
    ("bool", "BoolType", "bool"), ("Tensor", "TensorType", "Tensor"), ("Future[int]", "FutureType", "Future[int]")]


def test_values_of_graphs_have_types():
    found = [v.type() for v in torch.jit.script(typed).graph.inputs()]
    assert [(t.annotation_str, t.kind(), t.str()) for t in found] == TYPES and [str(t) for t in found] == [t for t, _, _ in TYPES]
    C = torch._C
    assert found[1].getElementType() == C.IntType.get() and found[3].containedTypes() == [C.IntType.get()]
    assert isinstance(found[2], C.DictType) and found[4].elements() == [C.IntType.get(), C.StringType.get()]
    known = torch._C.parse_ir("graph(%a : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):\n  return (%a)\n")
    [value] = known.inputs()
    t = value.type()
    assert (t.sizes(), t.strides(), t.scalarType(), t.dtype(), t.dim(), t.device(), t.requires_grad()) == \
        ([2, 3], [3, 1], "Float", torch.float32, 2, torch.device("cpu"), False)
    assert found[11].sizes() is None and found[11].dim() is None and found[11].requires_grad()
    assert value.isCompleteTensor() and not value.requiresGrad()


REFLECTED = {"sub": lambda x: 1 - x, "sub of a float": lambda x: 1.5 - x, "sub of a sum": lambda x: 1 - x.sum(), "div": lambda x: 1 / x,
             "div of a float": lambda x: 2.5 / x, "add": lambda x: 3 + x, "mul": lambda x: 3 * x, "pow": lambda x: 2 ** x,
             "remainder": lambda x: 7 % x, "complex": lambda x: (1 + 2j) - x, "less": lambda x: 3 < x, "method": lambda x: x.__rsub__(4),
             "mask": lambda x: (1.0 - x) * -10000.0, "cell": lambda x: (1 - x.sigmoid()) * x + 1 / (1 + x * x)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("name", REFLECTED)
def test_numbers_on_the_left_of_tensors(name, dtype):
    f = REFLECTED[name]
    traced = torch.jit.trace(f, torch.ones(3, dtype=dtype) + 1)
    x = torch.tensor([3, 1, 5], dtype=dtype)
    assert traced(x).dtype == f(x).dtype and torch.equal(traced(x), f(x))


# --- calls that raise ---

class RaisesBelowZero(nn.Module):
    def forward(self, x, k: int = 1):
        if bool(x.sum() < 0):
            raise ValueError("below zero")
        return x * 10

    @torch.jit.export
    def helper(self, x):
        if bool(x.sum() < 0):
            raise ValueError("below zero")
        return x * 20


CAUGHT = {
    "call": (lambda s, x: s(x), "(s).forward(x, 1, )"),
    "forward": (lambda s, x: s.forward(x), "(s).forward(x, 1, )"),
    "helper": (lambda s, x: s.helper(x), "(s).helper(x, )"),
    "unknown name": (lambda s, x: s(x, q=2), None),
    "too many": (lambda s, x: s(x, x, x), None),
    "helper without arguments": (lambda s, x: s.helper(), None),
}


@pytest.mark.parametrize("call, code", CAUGHT.values(), ids=CAUGHT)
def test_a_compiled_module_that_raises_ends_its_call_and_what_follows_is_recorded(call, code):
    class Caught(nn.Module):
        def __init__(self):
            super().__init__()
            self.s, self.q = torch.jit.script(RaisesBelowZero()), torch.jit.script(RaisesBelowZero())

        def forward(self, x):
            try:
                call(self.s, x)
            except Exception:
                x = x + 1
            return self.q(x * x) + 1

    t = torch.jit.trace(Caught(), torch.tensor([-1.0]), check_trace=False)
    assert t(torch.tensor([5.0])).tolist() == [361.0]
    assert code is None or code in t.code
    if code is None:
        assert "(s)" not in t.code and t(torch.tensor([-5.0])).tolist() == [161.0]
    else:
        with pytest.raises(torch.jit.Error, match="below zero"):
            t(torch.tensor([-5.0]))


def test_a_plain_module_that_raises_leaves_what_it_did():
    class Writes(nn.Module):
        def forward(self, x):
            x.mul_(3)
            raise ValueError("no")

    class Caught(nn.Module):
        def __init__(self):
            super().__init__()
            self.s, self.q = Writes(), nn.ReLU()

        def forward(self, x):
            y = x * 1
            try:
                self.s(y)
            except ValueError:
                pass
            return self.q(y)

    t = torch.jit.trace(Caught(), torch.ones(1), check_trace=False)
    assert t(torch.tensor([5.0])).tolist() == [15.0]


def test_a_trace_records_calls_of_its_thread_only():
    other, begun, ended, got = torch.jit.script(RaisesBelowZero()), threading.Event(), threading.Event(), []

    def work():
        begun.wait(60)
        got.append(other(torch.ones(1)).tolist())
        got.append(other.helper(torch.ones(1)).tolist())
        ended.set()

    compiled = torch.jit.script(_tripled)

    def f(x):
        y = x * 2
        begun.set()
        ended.wait(60)
        return compiled(y)

    thread = threading.Thread(target=work)
    thread.start()
    t = torch.jit.trace(f, torch.ones(1), check_trace=False)
    thread.join()
    assert got == [[10.0], [20.0]]
    assert t(torch.ones(1) * 4).tolist() == [24.0]


def _tripled(x):
    return x * 3


def flat(x):
    return [x] if isinstance(x, torch.Tensor) else [t for part in x for t in flat(part)]


@pytest.mark.parametrize("make", [lambda: nn.LSTM(3, 4), lambda: nn.GRU(3, 4, 2, bidirectional=True), lambda: nn.RNN(3, 4, batch_first=True),
                                  lambda: nn.LSTM(3, 4, proj_size=2), lambda: nn.LSTMCell(3, 4), lambda: nn.GRUCell(3, 4),
                                  lambda: nn.RNNCell(3, 4)], ids=["LSTM", "GRU", "RNN", "projected", "LSTMCell", "GRUCell", "RNNCell"])
def test_traces_of_recurrent_layers_take_other_batches(make):
    m = make()
    sizes = [(2, 3), (5, 3)] if isinstance(m, nn.RNNCellBase) else [(5, 2, 3), (6, 3, 3), (1, 1, 3)]
    traced = torch.jit.trace(m, torch.rand(sizes[0]), check_trace=False)
    for size in sizes:
        x = torch.rand(size)
        assert all(torch.equal(a, b) for a, b in zip(flat(traced(x)), flat(m(x)), strict=True))


class OddlyNamed(nn.Module):
    """Members whose names are no identifiers, as layers of torchvision's RegNet have them."""

    def __init__(self):
        super().__init__()
        self.stage = nn.Sequential(collections.OrderedDict([("block1-0", nn.Linear(2, 2)), ("2nd step", nn.ReLU())]))
        self.register_buffer("b-c", torch.ones(2))
        self.register_parameter("1x", nn.Parameter(torch.ones(2)))

    def forward(self, x):
        return self.stage(x) * getattr(self, "b-c") + getattr(self, "1x")


def test_traces_take_members_whose_names_are_no_identifiers():
    m = OddlyNamed()
    traced = torch.jit.trace(m, torch.ones(1, 2))
    assert 'block1_0 = getattr(self, "block1-0")' in traced.stage.code and '_1x = getattr(self, "1x")' in traced.code
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    x = torch.randn(3, 2)
    assert torch.equal(torch.jit.load(file)(x), m(x)) and torch.equal(traced(x), m(x))


def test_traces_take_members_that_are_named_by_a_keyword():
    m = nn.Sequential(collections.OrderedDict([("for", nn.Linear(2, 2)), ("lambda", nn.ReLU())]))
    x = torch.randn(3, 2)
    assert torch.equal(torch.jit.trace(m, torch.ones(1, 2))(x), m(x))


def test_normal_of_tensors_has_no_options_of_a_factory():
    mean, std = torch.zeros(3), torch.ones(3)
    assert "torch.normal(mean, std)" in torch.jit.trace(lambda mean, std: torch.normal(mean, std), (mean, std), check_trace=False).code
    assert "torch.normal(2., std)" in torch.jit.trace(lambda std: torch.normal(2.0, std), (std,), check_trace=False).code
    sizes = torch.jit.trace(lambda x: torch.zeros(x.size(0)), (mean,))
    assert "torch.zeros([int(_0)], dtype=None, layout=None" in sizes.code and sizes(torch.ones(5)).shape == (5,)


def _copies(x):
    out = torch.zeros(x.size())
    out.copy_(x)
    return out.fill_(7) if x.dim() == 1 else out


def _sets(x):
    y = x.clone()
    y[0, 1] = 4
    return y


def _masks(x):
    y = x.clone()
    y[y > 3] = 4
    return y


def _chains(x):
    y = x.clone()
    y += 1
    y *= x
    y.relu_()
    y.t_()
    return y.clamp_(0, 1)


@pytest.mark.parametrize("f, texts, warns", [
    (lambda x: x.view(-1).add_(-x.view(-1)), ["torch.add(torch.view(x, [-1]), torch.neg(torch.view(x, [-1])))"], "operator add_. This"),
    (lambda x: x.clone().add_(1), ["torch.add(torch.clone(x), CONSTANTS.c0)"], None),
    (_copies, ["return torch.expand_as(x, out)"], None),
    (_sets, ["torch.copy_(_0, CONSTANTS.c0)"], r"operator copy_ \(possibly due to an assignment\)"),
    (_masks, ["torch.index_put(y, _0, CONSTANTS.c0)"], None),
    (_chains, ["torch.add(y, CONSTANTS.c0)", "torch.mul(", "torch.relu(", "torch.t(", "torch.clamp("], None)])
def test_operators_in_place_are_recorded_out_of_place_where_the_program_asks(f, texts, warns):
    x = torch.arange(12.0).view(3, 4)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        traced = torch.jit.trace(f, x.clone(), _force_outplace=True, check_trace=False)
    noted = [str(w.message) for w in seen if issubclass(w.category, torch.jit.TracerWarning)]
    assert all(text in traced.code for text in texts), traced.code
    assert len(noted) == (warns is not None)
    if warns is not None:
        assert re.match("There are 2 live references to the data region.*" + warns, noted[0])
    else:
        assert torch.equal(traced(x.clone()), f(x.clone()))
    assert "_(" in torch.jit.trace(f, x.clone(), check_trace=False).code  # without it they stay
