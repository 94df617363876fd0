"""Makes the environment in which programs of other libraries run.

    python environment.py ENVIRONMENT [REQUIREMENT...]

`install-torch` makes this package the torch of the virtual environment, and pip installs the
libraries of versions.txt without replacing it.  The repositories of checkouts.txt are fetched to
ENVIRONMENT/checkouts, unless CHECKOUTS names a folder that has them.  ENVIRONMENT/recording gets
links to the libraries without torch: with it as PYTHONPATH, a Python that has torch records what
the programs compute there.
"""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# torchvision's wheel is built for CUDA.  With a torch without CUDA its operators do not load, and
# its import fails unless nms and qnms are defined.
BEFORE_TORCHVISION = '''
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torchvision" and Finder in sys.meta_path:
            sys.meta_path.remove(Finder)
            import torch
            for operator in ("nms", "qnms"):
                if not hasattr(torch.ops.torchvision, operator):
                    torch.library.define(f"torchvision::{operator}", "(Tensor dets, Tensor scores"
                                         ", float iou_threshold) -> Tensor")


sys.meta_path.insert(0, Finder)
'''


def run(*command):
    subprocess.run([*map(str, command)], check=True)


def site_packages(python):
    return Path(subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                               check=True, text=True, capture_output=True).stdout.strip())


def make_links(source, target):
    target.mkdir(exist_ok=True)
    for entry in target.iterdir():
        if entry.is_symlink():
            entry.unlink()
    for entry in source.iterdir():
        if entry.name.partition("-")[0] not in ("torch", "functorch", "numpy", "__pycache__"):
            (target / entry.name).symlink_to(entry)
    (target / "sitecustomize.py").write_text(BEFORE_TORCHVISION)


def fetch_checkouts(folder):
    rows = [line.split() for line in (HERE / "checkouts.txt").read_text().splitlines()
            if line and not line.startswith("#")]
    for name, url, commit in rows:
        target = folder / name
        if (target / ".git").exists():  # git makes empty folders for submodules
            continue
        run("git", "init", "-q", target)
        run("git", "-C", target, "fetch", "-q", "--depth", "1", url, commit)
        run("git", "-C", target, "checkout", "-q", "FETCH_HEAD")


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
    if "CHECKOUTS" not in os.environ:
        fetch_checkouts(folder / "checkouts")


if __name__ == "__main__":
    main(*sys.argv[1:])
