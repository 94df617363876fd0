"""torch.export.to_backend(): parts of programs as calls of a backend."""
import copy
import io
import os
import shutil
import subprocess
import sys

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Backend, Dim, LoweredBackendModule, export, save, to_backend, to_c, to_rt

aten = torch.ops.aten


class Parts(Backend):
    """Keeps the parts and runs them as programs."""

    name = "parts"

    def __init__(self, *operators):
        self.operators, self.programs, self.calls = operators, [], 0

    def is_node_supported(self, submodules, node):
        return node.target in self.operators

    def preprocess(self, program):
        program.validate()
        self.programs.append(program)
        return str(len(self.programs) - 1).encode()

    def execute(self, data, *args):
        self.calls += 1
        return self.programs[int(data)].module()(*args)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3, 8), nn.Linear(8, 3)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        h = torch.relu(self.up(x))
        return (self.down(h) + x) * self.scale, h.cumsum(0), h + 1


def lowered_of(program):
    return [m for m in program.graph_module.modules() if isinstance(m, LoweredBackendModule)]


@pytest.mark.parametrize("operators, parts", [
    ((aten.linear.default, aten.relu.default), 1), ((aten.linear.default,), 2), ((aten.relu.default, aten.add.Tensor, aten.mul.Tensor), 2),
    ((aten.cumsum.default,), 1), ((aten.linear.default, aten.relu.default, aten.add.Tensor, aten.mul.Tensor, aten.cumsum.default), 1), ((), 0)])
def test_results_and_parts(operators, parts):
    torch.manual_seed(0)
    module, backend = Net().eval(), Parts(*operators)
    program = export(module, (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim("n")}})
    before = str(program)
    lowered = to_backend(program, backend)
    lowered.validate()
    assert str(program) == before
    assert len(backend.programs) == len(lowered_of(lowered)) == parts
    left = {n.target for n in lowered.graph.nodes}
    assert not left & set(operators)
    for n in (4, 7):
        x = torch.randn(n, 3)
        for got, want in zip(lowered.module()(x), module(x), strict=True):
            assert torch.equal(got, want)
    assert backend.calls == 2 * parts
    assert all(m.backend_id == "parts" and m.processed_bytes.isdigit() for m in lowered_of(lowered))


def test_a_part_owns_the_state_that_it_reads():
    backend = Parts(aten.linear.default)
    to_backend(export(Net(), (torch.randn(4, 3),)), backend)
    assert {frozenset(p.state_dict) for p in backend.programs} == {frozenset({"up.weight", "up.bias"}), frozenset({"down.weight", "down.bias"})}
    assert all(len(p.example_inputs[0]) == 1 for p in backend.programs)


def test_parts_do_not_own_what_the_program_writes():
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x):
            self.count.add_(1)
            return x * self.count

    program = export(Count(), (torch.ones(2),))
    with pytest.raises(ValueError, match=r"functional operators, and aten.add_.Tensor writes an argument; program.run_decompositions\(\{\}\) has"):
        to_backend(program, Parts(aten.mul.Tensor))
    backend = Parts(aten.mul.Tensor, aten.add.Tensor)
    module = to_backend(program.run_decompositions({}), backend).module()
    assert [module(torch.ones(2)).tolist() for _ in range(2)] == [[1, 1], [2, 2]]
    assert not backend.programs[0].state_dict and backend.calls == 2


def test_copies_and_texts():
    lowered = to_backend(export(Net(), (torch.randn(4, 3),)), Parts(aten.relu.default))
    assert "torch.ops.higher_order.executorch_call_delegate(lowered_module_0, linear)" in str(lowered)
    x = torch.randn(4, 3)
    assert all(torch.equal(a, b) for a, b in zip(copy.deepcopy(lowered).module()(x), lowered.module()(x), strict=True))


def test_copies_share_the_backend():
    class Held(Parts):
        def __deepcopy__(self, memo):
            raise TypeError("has no copy")

    backend, x = Held(aten.relu.default), torch.randn(4, 3)
    lowered = to_backend(export(Net(), (x,)), backend)
    copied = copy.deepcopy(lowered)
    (part,), (other,) = lowered_of(lowered), lowered_of(copied)
    assert other is not part and other.backend is part.backend is backend and other.processed_bytes == part.processed_bytes
    assert other.original_module is not part.original_module
    assert all(torch.equal(a, b) for a, b in zip(copied.module()(x), lowered.module()(x), strict=True)) and backend.calls == 2


def test_programs_with_parts_are_not_saved():
    lowered = to_backend(export(Net(), (torch.randn(4, 3),)), Parts(aten.relu.default))
    with pytest.raises(NotImplementedError, match="lowered_module_0 is a part of the backend parts, which files do not have; save the program"):
        save(lowered, io.BytesIO())


def test_programs_with_parts_are_not_printed():
    lowered = to_backend(export(Net(), (torch.randn(4, 3),)), Parts(aten.relu.default))
    for name, write in (("to_c", to_c), ("to_rt", to_rt), ("torch.onnx.export", torch.onnx.export), ("run_decompositions", lambda p: p.run_decompositions()),
                        ("aoti_compile_and_package", torch._inductor.aoti_compile_and_package)):
        with pytest.raises(ValueError, match=f"{name}: the backend parts computes parts of the program; give the program as it was before to_backend"):
            write(lowered)


class All(Parts):
    def is_node_supported(self, submodules, node):
        return True


class Sizes(nn.Module):
    def forward(self, x):
        return torch.cat([(x.reshape(x.shape[0], -1).relu() + 1) * x.shape[0], x.sigmoid()]).new_ones((x.shape[0] + 1,)) + x.sin().sum()


class Number(nn.Module):
    def forward(self, x):
        return (x.sum().item() * x).relu(), torch.full((2,), x.amax().item()).sin()


class Constant(nn.Module):
    def forward(self, x):
        return (x.relu() + torch.tensor([1.0, 2.0, 3.0])).sin()


@pytest.mark.parametrize("make", [Sizes, Number, Constant, Net])
@pytest.mark.parametrize("varies", [False, True])
def test_the_arguments_of_parts_are_tensors(make, varies):
    module, backend = make(), All()
    program = export(module, (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim("n")}} if varies else None)
    lowered = to_backend(program, backend)
    lowered.validate()
    assert backend.programs
    for n in (4, 7) if varies else (4,):
        x = torch.randn(n, 3)
        for got, want in zip(*(r if isinstance(r, tuple) else (r,) for r in (lowered.module()(x), module(x))), strict=True):
            assert torch.equal(got, want)
    for part in backend.programs:
        assert all(isinstance(n.meta["val"], torch.Tensor) for n in part.graph.nodes if n.op == "placeholder")
        assert not any(n.target is aten.detach_.default for n in part.graph.nodes)


def test_decomposed_constants_are_not_detached():
    program, x = export(Constant(), (torch.randn(4, 3),)).run_decompositions({}), torch.randn(4, 3)
    assert not any(n.target is aten.detach_.default for n in program.graph.nodes)
    assert torch.equal(to_backend(program, All()).module()(x), Constant()(x))


def test_a_transposed_value_that_others_read_is_a_write():
    class Both(nn.Module):
        def forward(self, x):
            y = x * 2
            return y.sin() + y.t_()

    program = export(Both(), (torch.ones(2, 2),))
    with pytest.raises(ValueError, match="functional operators, and aten.t_.default writes an argument"):
        to_backend(program, All())
    assert to_backend(program.run_decompositions({}), All()).module()(torch.zeros(2, 2)).tolist() == [[0, 0], [0, 0]]


class Wrong(Parts):
    def __init__(self, data=b"", results=()):
        super().__init__(aten.relu.default)
        self.data, self.results = data, results

    def preprocess(self, program):
        return self.data

    def execute(self, data, *args):
        return self.results


def test_wrong_backends_are_refused():
    program = export(Net(), (torch.randn(4, 3),))
    for backend, words in ((Wrong("text"), "preprocess\\(\\) of the backend parts returned str, not bytes"), (object(), "a torch.export.Backend, not object"),
                           (Backend(), "a backend whose name is a text, and that of Backend is None")):
        with pytest.raises(TypeError, match=words):
            to_backend(program, backend)
    with pytest.raises(TypeError, match="takes an ExportedProgram, not Net"):
        to_backend(Net(), Parts())
    for results in ((), (torch.ones(1), torch.ones(1)), (None,)):
        with pytest.raises(RuntimeError, match=f"the backend parts returned {len(results)} results of a part that has 1 tensor"):
            to_backend(program, Wrong(b"", results)).module()(torch.randn(4, 3))
    for result in (None, 3):
        with pytest.raises(RuntimeError, match=f"the backend parts returned {type(result).__name__} for a part that has 1 tensor"):
            to_backend(program, Wrong(b"", result)).module()(torch.randn(4, 3))


def test_the_example():
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    path = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "delegate.py")
    done = subprocess.run([sys.executable, "-m", "cresset", "run", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *parts, last = done.stdout.splitlines()
    assert [p.split(",")[0] for p in parts] == ["machine: 2 linear layers", "machine: 1 linear layers"] and float(last.split()[-1]) < 1e-5
