"""Makes the environment in which programs of other libraries run.

    python environment.py ENVIRONMENT [REQUIREMENT...]

A virtual environment whose torch is this package, by install-torch, and the libraries of
versions.txt from PyPI, which pip must not replace torch for.  The folder ENVIRONMENT/recording
gets links to the libraries without torch: with it as PYTHONPATH, a Python that has torch records
what the programs compute there.
"""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(*command):
    subprocess.run([*map(str, command)], check=True)


def site_packages(python):
    return Path(subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                               check=True, text=True, capture_output=True).stdout.strip())


def make_links(source, target):
    target.mkdir(exist_ok=True)
    for entry in target.iterdir():
        entry.unlink()
    for entry in source.iterdir():
        if entry.name.partition("-")[0] not in ("torch", "functorch", "numpy", "__pycache__"):
            (target / entry.name).symlink_to(entry)


def main(folder, *more):
    folder = Path(folder).resolve()
    python = folder / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", folder)
    run(python, "-m", "cresset", "install-torch")
    packages = site_packages(python)
    [constraints] = packages.glob("torch-*.dist-info/constraints.txt")
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", constraints,
        "-r", HERE / "versions.txt", *more)
    run(python, "-m", "pip", "check")
    make_links(packages, folder / "recording")


if __name__ == "__main__":
    main(*sys.argv[1:])
