"""python -m cresset install-torch [--target DIR]: makes an environment's torch this package.

Writes torch and functorch, packages of one file that lead here (_as_torch), and the metadata of
a distribution, so that pip, importlib.metadata and `pip uninstall torch` know torch as one.
"""
import argparse
import base64
import hashlib
import os
import shutil
import stat
import sys
import sysconfig
from importlib.metadata import distributions

from ._root import AS_TORCH, HERE, is_as_torch
from .version import __version__

_INFO = f"torch-{__version__}.dist-info"
_PACKAGES = ("torch", "functorch")
# The release of torchvision that is built for this release of torch.
_CONSTRAINTS = f"torch=={__version__}\ntorchvision==0.28.0\n"
_METADATA = f"""Metadata-Version: 2.1
Name: torch
Version: {__version__}
Summary: Cresset under the name torch
License: Apache-2.0
Requires-Python: >=3.11,<3.14
"""
_WHEEL = "Wheel-Version: 1.0\nGenerator: cresset\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_ENTRY_POINTS = "[console_scripts]\ntorchrun = torch.distributed.run:main\n"
_SCRIPT = """#!{python}
import sys
from torch.distributed.run import main

sys.exit(main())
"""


class Refused(Exception):
    """The environment has a torch that is not this package."""


def _package_text(name):
    with open(os.path.join(AS_TORCH, name, "__init__.py"), encoding="utf-8") as file:
        text = file.read()
    computed = next((line for line in text.splitlines() if line.startswith("_HOME = ")), None)
    return text.replace(computed, f"_HOME = {HERE!r}") if computed else text


def _files(folder, scripts):
    """{path relative to the folder: text}, without RECORD."""
    script = os.path.relpath(os.path.join(scripts, "torchrun"), folder)
    return {**{f"{name}/__init__.py": _package_text(name) for name in _PACKAGES},
            f"{_INFO}/METADATA": _METADATA, f"{_INFO}/WHEEL": _WHEEL,
            f"{_INFO}/INSTALLER": "cresset\n", f"{_INFO}/top_level.txt": "functorch\ntorch\n",
            f"{_INFO}/entry_points.txt": _ENTRY_POINTS, f"{_INFO}/constraints.txt": _CONSTRAINTS,
            script: _SCRIPT.format(python=sys.executable)}


def _record_line(path, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}"


def _write(folder, path, content):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    return path


def _installed(folder):
    """The distributions in `folder` that are named torch."""
    return [found for found in distributions(name="torch", path=[folder])]


def _check(folder):
    """Raises Refused if `folder` has a torch that this command did not write."""
    for found in _installed(folder):
        if found.version.partition("+")[2].partition(".")[0] != "cresset":
            raise Refused(f"torch {found.version} is installed in {folder}: remove it first, with "
                          f"{sys.executable} -m pip uninstall torch")
    for name in _PACKAGES:
        path = os.path.join(folder, name)
        if os.path.lexists(path) and not is_as_torch(path, name):
            raise Refused(f"{path} exists and is not this package's: remove it first")


def _remove(folder):
    """Removes what an earlier call wrote, also if it was of another version."""
    for found in _installed(folder):
        info = f"torch-{found.version}.dist-info"
        shutil.rmtree(os.path.join(folder, info), ignore_errors=True)
    for name in _PACKAGES:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def install_torch(folder, scripts):
    """Writes torch to `folder`, and torchrun to `scripts`.  Returns the constraints file."""
    _check(folder)
    _remove(folder)
    lines = []
    for path, text in _files(folder, scripts).items():
        written = _write(folder, path, text.encode())
        lines.append(_record_line(path, text.encode()))
        if text.startswith("#!"):
            os.chmod(written, os.stat(written).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    record = f"{_INFO}/RECORD"
    _write(folder, record, "\n".join([*lines, f"{record},,", ""]).encode())
    return os.path.join(folder, _INFO, "constraints.txt")


def main(arguments):
    """The command.  Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m cresset install-torch",
        description="Makes `import torch` find this package, in this Python's environment.")
    parser.add_argument("--target", metavar="DIR", help="a folder to write to, instead of "
                        "site-packages; scripts go to DIR/bin")
    target = parser.parse_args(arguments).target
    folder = os.path.abspath(target) if target else sysconfig.get_path("purelib")
    scripts = os.path.join(folder, "bin") if target else sysconfig.get_path("scripts")
    try:
        constraints = install_torch(folder, scripts)
    except (Refused, OSError) as error:
        print(f"python -m cresset install-torch: {error}", file=sys.stderr)
        return 1
    print(f"torch {__version__} is in {folder}.  pip keeps it there if its commands say")
    print(f"    -c {constraints}")
    return 0
