"""Programs that trace, script, freeze, save and print, beside torch 2.13 (tests/data/script/printed.txt): all that they print."""
import importlib.util
import json
import lzma
import os
import subprocess
import sys

import pytest

DATA = os.path.join(os.path.dirname(__file__), "..", "data", "script")


def load_printed():
    spec = importlib.util.spec_from_file_location("printed", os.path.join(DATA, "printed.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCES = dict(load_printed().programs())
with lzma.open(os.path.join(DATA, "printed.json.xz"), "rt") as _file:
    RECORDED = json.load(_file)
with open(os.path.join(DATA, "printed_differing.txt")) as _file:
    DIFFERING = {line.strip() for line in _file if line.strip() and not line.startswith("#")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("printed") / "out.json.xz"
    done = subprocess.run([sys.executable, "-m", "cresset", "run", os.path.join(DATA, "printed.py"), str(out)], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with lzma.open(out, "rt") as file:
        return json.load(file)


@pytest.mark.parametrize("name", SOURCES)
def test_programs_print_what_they_print_with_torch(name, made):
    if name in DIFFERING:
        assert made[name] != RECORDED[name], f"{name}: the entry in printed_differing.txt is not right any more"
    else:
        assert made[name] == RECORDED[name], SOURCES[name]


def test_most_programs_equal_torch():
    assert DIFFERING <= set(SOURCES) and len(DIFFERING) * 2 < len(SOURCES)
