"""python -m cresset install-torch: an environment whose torch is this package."""
import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cresset

FOLDER = os.path.dirname(os.path.dirname(cresset.__file__))
VERSION = str(cresset.__version__)
PINS = Path(__file__).parent.parent / "libraries" / "versions.txt"


def run(*command, path=None, code=0):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = path
    done = subprocess.run([*map(str, command)], text=True, capture_output=True, timeout=120,
                          env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


class Environment:
    """A virtual environment, without pip of its own."""

    def __init__(self, folder):
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.folder, self.python = folder, folder / "bin" / "python"
        self.packages = Path(run(self.python, "-c", "import sysconfig; "
                                 "print(sysconfig.get_path('purelib'), end='')"))
        self.info = self.packages / f"torch-{VERSION}.dist-info"

    def install(self, *arguments, code=0):
        return run(self.python, "-m", "cresset", "install-torch", *arguments, path=FOLDER, code=code)

    def pip(self, *arguments):
        return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python",
                   self.python, *arguments)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "environment")


def test_an_environment_has_torch_and_loses_it(environment):
    before = environment.files()
    constraints = environment.info / "constraints.txt"
    text = environment.install()
    assert f"torch {VERSION} is in {environment.packages}." in text
    assert f"    -c {constraints}\n" in text
    assert constraints.read_text().splitlines() == [
        f"torch=={VERSION}", next(p for p in PINS.read_text().split() if "torchvision" in p)]
    assert run(environment.python, "-c", """
import importlib.metadata, functorch, torch, torch.nn.functional, cresset
assert torch is cresset and torch.__version__ == importlib.metadata.version("torch")
assert importlib.metadata.packages_distributions()["torch"] == ["torch"]
print(torch.__version__, torch.nn.Linear.__module__)""") == f"{VERSION} torch.nn.modules.linear\n"
    assert environment.pip("check") == "No broken requirements found.\n"
    assert ["torch", VERSION] in map(str.split, environment.pip("list").splitlines())
    assert os.access(environment.folder / "bin" / "torchrun", os.X_OK)
    environment.pip("uninstall", "-y", "torch")
    assert environment.files() == before


def test_the_record_is_of_the_files_that_are_there(environment):
    environment.install()
    lines = (environment.info / "RECORD").read_text().splitlines()
    assert lines[-1] == f"{environment.info.name}/RECORD,,"
    for line in lines[:-1]:
        name, digest, size = line.rsplit(",", 2)
        content = (environment.packages / name).read_bytes()
        found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == ("sha256=" + found, len(content))


def test_installing_again_replaces_the_files(environment):
    environment.install()
    before = environment.files()
    (environment.packages / "torch" / "__init__.py").write_text('"""Cresset as torch. Old."""')
    environment.install()
    assert environment.files() == before
    assert "_execute" in (environment.packages / "torch" / "__init__.py").read_text()


def wheel(folder, name, requires):
    """A wheel with nothing but requirements."""
    import zipfile
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
                      + "".join(f"Requires-Dist: {r}\n" for r in requires))
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                       "Tag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return path


@pytest.mark.parametrize("requires", [["torch>=2.0"], ["torch==2.13.0"], ["torch"]])
def test_pip_keeps_torch_for_packages_that_need_it(environment, tmp_path, requires):
    environment.install()
    environment.pip("install", "--no-index", "-c", environment.info / "constraints.txt",
                    wheel(tmp_path, "needs_torch", requires))
    assert environment.pip("check") == "No broken requirements found.\n"


def test_a_folder_as_target(environment, tmp_path):
    target = tmp_path / "target"
    environment.install("--target", target)
    assert not (environment.packages / "torch").exists()
    assert run(environment.python, "-c", "import torch; print(torch.Size)",
               path=str(target)) == "<class 'torch.Size'>\n"
    assert os.access(target / "bin" / "torchrun", os.X_OK)


def test_a_torch_that_is_there_is_kept(environment):
    info = environment.packages / "torch-2.12.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0\n")
    before = environment.files()
    error = environment.install(code=1)
    assert "torch 2.12.0 is installed in" in error and "pip uninstall torch" in error
    assert environment.files() == before


def test_a_folder_named_torch_is_kept(environment):
    (environment.packages / "torch").mkdir()
    error = environment.install(code=1)
    assert f"{environment.packages / 'torch'} exists and is not this package's" in error
    assert not environment.info.exists()


def test_a_package_that_is_gone_is_named(environment):
    environment.install()
    file = environment.packages / "torch" / "__init__.py"
    file.write_text(file.read_text().replace(repr(os.path.join(FOLDER, "cresset")), "'/nowhere'"))
    error = run(environment.python, "-c", "import torch", code=1)
    assert "ImportError: cresset, which this torch leads to, is not in /nowhere" in error


def test_the_wheel_has_the_extras_of_the_project():
    import importlib.util
    import tomllib
    from email import message_from_string
    root = Path(__file__).parent.parent.parent
    spec = importlib.util.spec_from_file_location("backend", root / "tools/backend.py")
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    said = message_from_string(backend.metadata())
    assert said.get_all("Provides-Extra") == list(extras) and "cuda" in extras
    assert said.get_all("Requires-Dist") == [f"{need}; extra == '{name}'" for name, needs in extras.items() for need in needs]
