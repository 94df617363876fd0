"""Lists the dotted names of torch that libraries use, from their wheels, without running them.

    python walk.py WHEELS [NAMES]

Downloads what versions.txt pins to the folder WHEELS, unless it is there, and writes NAMES: a
line for each name, with the libraries that use it.  A name is the longest dotted path that the
source spells: `torch.cuda.is_available`, also where the file says `from torch import cuda`.
record.py then shortens each to what exists in torch.
"""
import ast
import subprocess
import sys
import warnings
import zipfile
from collections import defaultdict
from pathlib import Path

VERSIONS = Path(__file__).parent.parent / "versions.txt"
ROOTS = ("torch", "functorch")


def download(folder):
    """Fetches the pinned wheels.  pip keeps those that are in the folder already."""
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                    "--only-binary", ":all:", "-d", folder, "-r", VERSIONS], check=True)


def is_torch(dotted):
    return dotted.partition(".")[0] in ROOTS


class _Names(ast.NodeVisitor):
    """Collects the names of torch in one file.

    Imports anywhere in the file bind their name for the whole file: functions that import
    torch themselves bind it to the same thing.
    """

    def __init__(self, tree):
        self.bound, self.names = {}, set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and is_torch(node.module):
                self._import_from(node)
        self.visit(tree)

    def _import(self, node):
        for item in filter(lambda item: is_torch(item.name), node.names):
            self.names.add(item.name)
            root = item.name.partition(".")[0]
            self.bound[item.asname or root] = item.name if item.asname else root

    def _import_from(self, node):
        for item in node.names:
            dotted = node.module if item.name == "*" else f"{node.module}.{item.name}"
            self.names.add(dotted)
            self.bound[item.asname or item.name] = dotted

    def visit_Attribute(self, node):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.bound:
            self.names.add(".".join([self.bound[inner.id], *reversed(parts)]))
        else:
            self.visit(inner)


def names_in_wheel(path):
    found = set()
    with zipfile.ZipFile(path) as wheel:
        for name in filter(lambda name: name.endswith(".py"), wheel.namelist()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in the libraries' strings
                found |= _Names(ast.parse(wheel.read(name))).names
    return found


def main(wheels, names="/dev/stdout"):
    download(wheels)
    users = defaultdict(set)
    for path in sorted(Path(wheels).glob("*.whl")):
        for name in names_in_wheel(path):
            users[name].add(path.name.partition("-")[0])
    with open(names, "w") as file:
        for name, libraries in sorted(users.items()):
            print(name, *sorted(libraries), file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
