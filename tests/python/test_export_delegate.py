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
    for backend, words in ((Wrong("text"), "preprocess\\(\\) of the backend parts returned str, not bytes"), (object(), "a torch.export.Backend with a name, not object"),
                           (Backend(), "a torch.export.Backend with a name, not Backend")):
        with pytest.raises(TypeError, match=words):
            to_backend(program, backend)
    with pytest.raises(TypeError, match="takes an ExportedProgram, not Net"):
        to_backend(Net(), Parts())
    for results in ((), (torch.ones(1), torch.ones(1)), (None,)):
        with pytest.raises(RuntimeError, match=f"the backend parts returned {len(results)} results of a part that has 1 tensor"):
            to_backend(program, Wrong(b"", results)).module()(torch.randn(4, 3))


def test_the_example():
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    path = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "delegate.py")
    done = subprocess.run([sys.executable, "-m", "cresset", "run", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *parts, last = done.stdout.splitlines()
    assert [p.split(",")[0] for p in parts] == ["machine: 2 linear layers", "machine: 1 linear layers"] and float(last.split()[-1]) < 1e-5
