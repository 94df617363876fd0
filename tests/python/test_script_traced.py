"""Traced functions beside torch 2.13 (tests/data/script/traced.py): code, results and warnings."""
import importlib.util
import json
import lzma
import os
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
    json.dump({{name: traced.outcome(source, args, torch) for name, source, args in traced.CASES}}, file)
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
