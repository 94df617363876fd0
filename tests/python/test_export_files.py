"""Files of torch 2.13 (tests/data/export, written by export_cases.py) run here, and ours have the same contents."""
import io
import json
import pathlib
import zipfile

import cresset as torch
import export_cases
import pytest
from cresset import nn
from cresset.export import Dim, export, load, save
from cresset.export._save import program_json

DATA = pathlib.Path(__file__).parent.parent / "data" / "export"
OUTPUTS = json.loads((DATA / "outputs.json").read_text())


def near(a, b):
    if isinstance(a, list):
        return len(a) == len(b) and all(map(near, a, b))
    return abs(a - b) <= 1e-5 * max(1, abs(b)) if isinstance(b, float) else a == b


@pytest.mark.parametrize("name", export_cases.FILES)
def test_a_file_of_torch(name):
    program = load(DATA / f"{name}.pt2")
    made = export_cases.program(name)
    assert export_cases.plain(str(program)) == export_cases.plain(str(made))
    for key, x in {**made.state_dict, **made.constants}.items():
        assert torch.equal({**program.state_dict, **program.constants}[key], x), key
    if name != "picture_in_training":  # dropout
        assert near(export_cases.outputs(program), OUTPUTS[name])
    assert type(program.example_inputs) is tuple


def contents(file):
    with zipfile.ZipFile(file) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def comparable(text):
    """A model without metadata, which has names of classes, and without the offsets of views in their storages."""
    model = json.loads(text)
    for node in model["graph_module"]["graph"]["nodes"]:
        node.pop("metadata")
    for value in model["graph_module"]["graph"]["tensor_values"].values():
        value.pop("storage_offset")
    return model


@pytest.mark.parametrize("name", export_cases.FILES)
def test_our_file_is_torchs(name):
    theirs, buffer = contents(DATA / f"{name}.pt2"), io.BytesIO()
    save(export_cases.program(name), buffer)
    ours = contents(io.BytesIO(buffer.getvalue()))
    assert set(ours) == set(theirs)
    assert comparable(ours["models/model.json"]) == comparable(theirs["models/model.json"])
    for folder in ("weights/model_weights", "constants/model_constants"):
        assert json.loads(ours[f"data/{folder}_config.json"]) == json.loads(theirs[f"data/{folder}_config.json"])
    same = [n for n in theirs if n.startswith(("data/weights/weight_", "data/constants/tensor_", "archive", ".data/version"))]
    assert all(ours[n] == theirs[n] for n in same)


@pytest.mark.parametrize("name", export_cases.FILES)
def test_saved_and_loaded(name):
    program, buffer = export_cases.program(name), io.BytesIO()
    save(program, buffer)
    again = load(io.BytesIO(buffer.getvalue()))
    assert str(again) == str(program) and again._guards_code == program._guards_code
    if name != "picture_in_training":
        assert export_cases.outputs(again) == export_cases.outputs(export_cases.program(name))


def test_metadata_and_further_records(tmp_path):
    program = export(export_cases.Perceptron(), (torch.ones(5, 4),))
    save(program, tmp_path / "m.pt2", extra_files={"note.txt": "hello"})
    extra = {"note.txt": ""}
    again = load(tmp_path / "m.pt2", extra_files=extra)
    assert extra == {"note.txt": "hello"} and torch.equal(again.example_inputs[0][0], torch.ones(5, 4))
    for a, b in zip(program.graph.nodes, again.graph.nodes):
        assert all(a.meta.get(key) == b.meta.get(key) for key in ("stack_trace", "torch_fn", "nn_module_stack"))


def test_expressions_and_bounds():
    f = export_cases.Function(lambda x: torch.cat([x, x[2:]]).flatten() * (x.shape[0] // 2))
    program = export(f, (torch.ones(6, 3),), dynamic_shapes=({0: Dim("n", min=4, max=32)},))
    buffer = io.BytesIO()
    save(program, buffer)
    again = load(io.BytesIO(buffer.getvalue()))
    assert str(again) == str(program) and again.range_constraints == program.range_constraints
    x = torch.rand(9, 3)
    assert torch.equal(again.module()(x), f(x))
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] >= 4"):
        again.module()(torch.ones(3, 3))


def test_tensors_that_share_memory():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.arange(6.0)[2:5])
            self.b = self.a
            self.empty = nn.Parameter(torch.ones(0, 3))
            self.register_buffer("t", torch.arange(6.0).view(2, 3).t())

        def forward(self, x):
            return x * self.a + self.t.sum() + self.empty.sum()
    buffer = io.BytesIO()
    save(export(M(), (torch.ones(3),)), buffer)
    again = load(io.BytesIO(buffer.getvalue()))
    assert torch.equal(again.module()(torch.ones(3)), torch.tensor([17.0, 18.0, 19.0]))
    assert again.state_dict["t"].stride() == (1, 3) and again.state_dict["a"].storage_offset() == 2
    assert again.state_dict["a"].untyped_storage().data_ptr() == again.state_dict["b"].untyped_storage().data_ptr()


def changed(change):
    """The perceptron's file with another model."""
    found = contents(DATA / "perceptron.pt2")
    model = json.loads(found["models/model.json"])
    change(model)
    found["models/model.json"] = json.dumps(model).encode()
    return rewritten(found)


def rewritten(found):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in found.items():
            archive.writestr(f"m/{name}", data)
    return io.BytesIO(buffer.getvalue())


def graph_of(model):
    return model["graph_module"]["graph"]


def test_a_value_with_a_name_of_python():
    """torch.fx names its node otherwise; the value keeps its description, so that the program is saved again."""
    def rename(model):
        text = json.dumps(model).replace('"linear"', '"sum"')
        model.clear()
        model.update(json.loads(text))

    program = load(changed(rename))
    assert "sum_1" in [n.name for n in program.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    buffer = io.BytesIO()
    save(program, buffer)
    buffer.seek(0)
    x = program.example_inputs[0]
    assert torch.equal(load(buffer).module()(*x), load(DATA / "perceptron.pt2").module()(*x))


REFUSED = {
    "schema version 9": lambda m: m["schema_version"].update(major=9),
    "operator aten.nothing.default is not known": lambda m: graph_of(m)["nodes"][0].update(target="torch.ops.aten.nothing.default"),
    "'os.system' is no operator": lambda m: graph_of(m)["nodes"][0].update(target="os.system"),
    "'_operator.call' is no operator": lambda m: graph_of(m)["nodes"][0].update(target="_operator.call"),
    "value 'zz' is used before it is made": lambda m: graph_of(m)["nodes"][0]["inputs"][0].update(arg={"as_tensor": {"name": "zz"}}),
    "value 'x' is made twice": lambda m: graph_of(m)["inputs"].append({"as_tensor": {"name": "x"}}),
    "unknown dtype 99": lambda m: graph_of(m)["tensor_values"]["x"].update(dtype=99),
    "a size or stride is negative": lambda m: graph_of(m)["tensor_values"]["x"].update(sizes=[{"as_int": -1}, {"as_int": 4}]),
    "not an expression over sizes": lambda m: graph_of(m)["tensor_values"]["x"].update(
        sizes=[{"as_expr": {"expr_str": "__import__('os')"}}, {"as_int": 4}]),
    "field 'nodes' is missing": lambda m: graph_of(m).pop("nodes"),
    "the graph's inputs are not those of its signature": lambda m: m["graph_module"]["signature"]["input_specs"].pop(),
    "an output of kind nothing": lambda m: m["graph_module"]["signature"]["output_specs"].append({"nothing": {"arg": {"name": "x"}}}),
    "'x=print' is no name of a value": lambda m: graph_of(m)["inputs"][-1]["as_tensor"].update(name="x=print"),
    "is no path of a tensor": lambda m: m["graph_module"]["signature"]["input_specs"][0]["parameter"].update(
        parameter_name='w"),print("'),
    "\"k':1\" is no name of a value": lambda m: m["graph_module"]["module_call_graph"][0]["signature"].update(
        in_spec=m["graph_module"]["module_call_graph"][0]["signature"]["in_spec"].replace('"[]"', json.dumps(json.dumps(["k':1"])))),
    "the names of arguments are no names": lambda m: m["graph_module"]["module_call_graph"][0]["signature"].update(
        forward_arg_names=["x): import os"]),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused_models(why):
    with pytest.raises(RuntimeError, match="(?i)" + why.replace("(", r"\(")):
        load(changed(REFUSED[why]))


def test_weights_that_are_too_short():
    found = contents(DATA / "perceptron.pt2")
    found["data/weights/weight_0"] = found["data/weights/weight_0"][:-1]
    with pytest.raises(RuntimeError, match="data/weights/weight_0 has 127 bytes, too few for its tensor"):
        load(rewritten(found))


def test_random_changes_are_refused_or_harmless():
    """Each field of a model is removed or replaced in turn; load() returns or raises RuntimeError."""
    def walk(x, path=()):
        yield path
        for key in (x if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ()):
            yield from walk(x[key], (*path, key))
    model = json.loads(contents(DATA / "a_branch_by_a_size.pt2")["models/model.json"])
    found, refused, count = contents(DATA / "a_branch_by_a_size.pt2"), 0, 0
    for path in [p for p in walk(model) if p]:
        for new in (None, -1, "x", [], {}):
            other = json.loads(json.dumps(model))
            at = other
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = new
            found["models/model.json"] = json.dumps(other).encode()
            count += 1
            try:
                load(rewritten(found))
            except RuntimeError:
                refused += 1
    assert count > 500 and refused > count // 3


def test_cut_files():
    data = (DATA / "perceptron.pt2").read_bytes()
    for n in range(0, len(data), 97):
        with pytest.raises((RuntimeError, EOFError, zipfile.BadZipFile)):
            load(io.BytesIO(data[:n]))


def test_what_is_no_program():
    with pytest.raises(TypeError, match="The 'ep' parameter must be an instance of 'ExportedProgram', got 'Linear' instead."):
        save(nn.Linear(1, 1), io.BytesIO())
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(1)}, buffer)
    with pytest.raises(RuntimeError, match="the archive has no models/model.json"):
        load(io.BytesIO(buffer.getvalue()))


def test_model_json_has_no_infinite_numbers():
    program = export(export_cases.Function(lambda x: torch.full((2,), float("-inf")) + x), (torch.ones(2),))
    text = json.dumps(program_json(program), allow_nan=False)
    assert '"as_float": "-Infinity"' in text


@pytest.mark.parametrize("version, message", [("-1.1", r"Serialized version \['-1', '1'\] does not match our current schema version \(8, 20\)"),
                                              ("8.1", "the file has the format of torch before 2.8")])
def test_files_of_the_older_format_are_refused(version, message, tmp_path):
    path = tmp_path / "program.pt2"
    save(export(nn.ReLU(), (torch.randn(2),)), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("version", version)
    with pytest.raises(RuntimeError, match=message):
        load(path)


def test_to_with_a_layout():
    """torch writes x.to(device) as this overload."""
    class Moves(torch.nn.Module):
        def forward(self, x):
            to = torch.ops.aten.to.dtype_layout
            return (to(x, dtype=torch.float32, layout=torch.strided, device=torch.device("cpu")) * 2, to(x, dtype=torch.float64, layout=torch.strided),
                    to(x, dtype=torch.float32, copy=True))

    x, file = torch.randn(3), io.BytesIO()
    save(export(Moves(), (x,)), file)
    file.seek(0)
    got = load(file).module()(x)
    assert [y.dtype for y in got] == [torch.float32, torch.float64, torch.float32]
    assert torch.equal(got[0], x * 2) and torch.equal(got[1], x.double()) and torch.equal(got[2], x) and got[2].data_ptr() != x.data_ptr()
    assert torch.ops.aten.to.dtype_layout(x) is x
    with pytest.raises(RuntimeError, match="doesn't support converting to a different layout, but got self.layout being Strided and options.layout set as Sparse"):
        torch.ops.aten.to.dtype_layout(x, layout=torch.sparse_coo)
