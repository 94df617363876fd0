"""Traced functions and modules beside torch 2.13 (tests/data/script/traced.py): code, graphs, results and warnings."""
import importlib.util
import json
import lzma
import os
import re
import subprocess
import sys

import pytest

DATA = os.path.join(os.path.dirname(__file__), "..", "data", "script")
# Traces the functions as programs that import torch, and writes what they give.
RUN = """
import importlib.util, json
spec = importlib.util.spec_from_file_location("traced", {path!r})
traced = importlib.util.module_from_spec(spec)
spec.loader.exec_module(traced)
import torch
with open({out!r}, "w") as file:
    json.dump(traced.outcomes(torch), file)
"""

with lzma.open(os.path.join(DATA, "traced.json.xz"), "rt") as _file:
    RECORDED = json.load(_file)
with open(os.path.join(DATA, "traced_differing.txt")) as _file:
    DIFFERING = [line.rstrip("\n") for line in _file if not line.startswith("#")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    program, out = folder / "program.py", folder / "out.json"
    program.write_text(RUN.format(path=os.path.join(DATA, "traced.py"), out=str(out)))
    subprocess.run([sys.executable, "-m", "cresset", "run", str(program)], check=True)
    return json.loads(out.read_text())


def test_every_function_is_recorded(made):
    assert list(made) == list(RECORDED) and set(DIFFERING) <= set(made)


@pytest.mark.parametrize("name", RECORDED)
def test_traces_are_torchs(name, made):
    if name in DIFFERING:
        assert made[name] != RECORDED[name], f"{name}: the entry in traced_differing.txt is not right any more"
    else:
        assert made[name] == RECORDED[name]


def test_the_text_of_a_traced_graph_is_read_back():
    import cresset as torch
    from cresset import nn

    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.LSTM(3, 4)).eval()
    graph = str(torch.jit.trace(module, torch.ones(5, 2)).inlined_graph)
    assert "Float(5, 4, strides=[4, 1], requires_grad=1, device=cpu) = aten::squeeze" in graph
    assert ", scope: __module.2" in graph
    again = torch._C._script_graph_after(graph, "")

    def plain(text):
        return re.sub(r"%\w+(\.\d+)?", "%", text).rstrip("\n")
    assert plain(again) == plain(graph) and again.count("%input.") == graph.count("%input")
    for wrong in ("Float(5, 4, strides=[4]", "Float(5, 4, size=[4, 1]", "Floating(5, 4, strides=[4, 1]"):
        with pytest.raises((RuntimeError, ValueError), match="is expected at"):
            torch._C._script_graph_after(graph.replace("Float(5, 4, strides=[4, 1]", wrong), "")
