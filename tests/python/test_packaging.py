"""Building the package: versions, metadata, and messages about missing parts of the system."""
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cresset
import cresset.version

ROOT = Path(__file__).resolve().parents[2]


def load_backend():
    spec = importlib.util.spec_from_file_location("cresset_backend", ROOT / "tools" / "backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


backend = load_backend()


def fields(folder):
    lines = (folder / "METADATA").read_text().split("\n\n")[0].splitlines()
    return dict(line.split(": ", 1) for line in lines)


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    """PATH is one folder, with the commands that every system has and none that compiles."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for command in ("sh", "sed", "grep", "cat", "id"):
        (folder / command).symlink_to(shutil.which(command))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    return folder


def program(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


@pytest.mark.parametrize("hook", ["prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable"])
def test_metadata_needs_no_compiler_and_has_the_package_s_version(tmp_path, empty_path, hook):
    name = getattr(backend, hook)(str(tmp_path))
    found = fields(tmp_path / name)
    assert found["Version"] == cresset.__version__ and found["Name"] == "cresset"
    assert found["Version"].endswith("+cresset." + cresset.version.cresset)
    assert found["Requires-Python"] == ">=3.11,<3.14"
    assert name == f"cresset-{cresset.__version__}.dist-info"


def refusal(call, *arguments):
    with pytest.raises(SystemExit) as end:
        call(*arguments)
    return str(end.value)


def test_a_build_without_compiler_and_make_says_so_in_one_line(tmp_path, empty_path):
    text = refusal(backend.build_wheel, str(tmp_path))
    assert text == ("cresset: missing: a C compiler (gcc), make, strip; "
                    "on Debian: apt-get install gcc make binutils")


@pytest.mark.parametrize("header, package", [
    ("stdio.h", "libc6-dev"), ("zlib.h", "zlib1g-dev"), ("oneapi/dnnl/dnnl.h", "libdnnl-dev")])
def test_a_build_without_a_header_names_it_in_one_line(tmp_path, empty_path, header, package):
    for command in ("make", "strip"):
        program(empty_path / command, "exit 0\n")
    program(empty_path / "gcc", f"if grep -q '<{header}>'; then exit 1; fi\n")
    text = refusal(backend.build_wheel, str(tmp_path))
    assert "\n" not in text and text.endswith(f"; on Debian: apt-get install {package}")


@pytest.mark.parametrize("version", [(3, 10, 4), (3, 14, 0)])
def test_another_python_gets_metadata_and_a_message(tmp_path, monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", version)
    assert fields(tmp_path / backend.prepare_metadata_for_build_wheel(str(tmp_path)))["Requires-Python"]
    assert refusal(backend.build_wheel, str(tmp_path)).startswith("cresset: CPython 3.11, 3.12 or 3.13 is needed, and ")


def test_a_compiler_that_fails_shows_its_message(tmp_path, empty_path):
    for command in ("gcc", "strip"):
        program(empty_path / command, "exit 0\n")
    program(empty_path / "make", "echo 'x.c:1: error: out of order'; exit 2\n")
    assert refusal(backend.build_wheel, str(tmp_path)) == "cresset: make failed\nx.c:1: error: out of order\n"


def test_an_interpreter_that_is_missing_is_not_installed(tmp_path, empty_path):
    program(empty_path / "apt-get", "echo called >&2\n")
    done = subprocess.run(["sh", ROOT / "tools" / "deps.sh", "python3.99", tmp_path / "venv"], text=True,
                          capture_output=True)
    assert done.returncode == 1 and not (tmp_path / "venv").exists()
    assert done.stderr == ("cresset: there is no python3.99: install CPython 3.11, 3.12 or 3.13 with its headers, "
                           "and name it with PYTHON=\n")
