"""Scripted functions and modules beside torch 2.13 (tests/data/script/corpus.py): results, code, graphs, error texts."""
import importlib.util
import json
import lzma
import os
import re
import subprocess
import sys

import pytest

DATA = os.path.join(os.path.dirname(__file__), "..", "data", "script")
# Runs the programs as programs that import torch, and prints what they give.
RUN = """
import importlib.util, json, tempfile, warnings
warnings.simplefilter("ignore")
spec = importlib.util.spec_from_file_location("corpus", {path!r})
corpus = importlib.util.module_from_spec(spec)
spec.loader.exec_module(corpus)
import torch
with tempfile.TemporaryDirectory() as folder:
    made = {{name: corpus.outcome(name, source, calls, torch, folder) for name, source, calls in corpus.cases()}}
with open({out!r}, "w") as file:
    json.dump(made, file)
"""


def load_corpus():
    spec = importlib.util.spec_from_file_location("corpus", os.path.join(DATA, "corpus.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCES = {name: source for name, source, _ in load_corpus().cases()}
with lzma.open(os.path.join(DATA, "corpus.json.xz"), "rt") as _file:
    RECORDED = json.load(_file)
for _made in RECORDED.values():
    if "error" in _made:
        _made["error"] = re.sub(r"0x[0-9a-f]+", "0x", _made["error"])
with open(os.path.join(DATA, "corpus_differing.txt")) as _file:
    # name and part: the first part, of error, results, code, graph and inlined (graph), that is not torch's
    DIFFERING = dict(line.split() for line in _file if line.strip() and not line.startswith("#"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    program, out = folder / "run.py", folder / "out.json"
    program.write_text(RUN.format(path=os.path.join(DATA, "corpus.py"), out=str(out)))
    done = subprocess.run([sys.executable, "-m", "cresset", "run", str(program)], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def close(a, b):
    """Equal, with the tolerance of rounding for numbers of tensors."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float) and a == a:
        return a == b or abs(a - b) <= 2e-4 * max(1.0, abs(a))
    return a == b or (a != a and b != b)


def first_difference(want, got):
    for part in ("error", "results", "code", "graph", "inlined"):
        if not close(want.get(part), got.get(part)):
            return part
    return None


@pytest.mark.parametrize("name", SOURCES)
def test_programs_are_compiled_as_torch_compiles_them(name, made):
    want, got = RECORDED[name], made[name]
    part = first_difference(want, got)
    if part is None or name not in DIFFERING:
        assert part is None, f"{SOURCES[name]}\n{part}\nwant {want.get(part)}\ngot  {got.get(part, got.get('error'))}"
    assert part == DIFFERING.get(name), f"{name}: the entry in corpus_differing.txt is not right any more"


def test_most_programs_equal_torch():
    assert set(DIFFERING) <= set(SOURCES) and len(DIFFERING) * 8 < len(SOURCES)
