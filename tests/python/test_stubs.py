"""Type stubs (tools/stubs.py): they parse, have every public name, and mypy finds mistakes by them."""
import ast
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cresset

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("stubs") / "cresset"
    subprocess.run([sys.executable, ROOT / "tools" / "stubs.py", made], check=True, timeout=120)
    return made


def names_in(path):
    """Returns the names that a stub defines or exports, and the attributes of its classes."""
    names, classes = set(), {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
            if isinstance(node, ast.ClassDef):
                classes[node.name] = {n.name for n in node.body if isinstance(n, ast.FunctionDef)} | \
                    {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    return names, classes


def stub_of(folder, module):
    path = folder.joinpath(*module.split("."))
    return path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")


@pytest.mark.parametrize("module", ["nn", "nn.functional", "optim", "optim.lr_scheduler", "utils.data", "linalg", "fft", "special", "func",
                                    "distributions", "autograd", "compiler"])
def test_public_names_are_in_the_stub(folder, module):
    names, _ = names_in(stub_of(folder, module))
    here = importlib.import_module(f"cresset.{module}")
    public = getattr(here, "__all__", [n for n in dir(here) if n[0] != "_"])
    assert {n for n in public if n[0] != "_" and not isinstance(getattr(here, n), type(ast))} - names == set()


def test_tensor_has_its_methods(folder):
    _, classes = names_in(folder / "_C.pyi")
    assert {n for n in dir(cresset.Tensor) if n[0] != "_" and n.isidentifier()} - classes["Tensor"] == set()
    names, _ = names_in(folder / "__init__.pyi")
    assert {"Tensor", "add", "randn", "float32", "nn", "compile", "no_grad", "cat", "manual_seed"} <= names


def test_classes_define_a_name_once(folder):
    for stub in folder.rglob("*.pyi"):
        for node in ast.walk(ast.parse(stub.read_text())):
            if isinstance(node, ast.ClassDef):
                names = [n.name for n in node.body if isinstance(n, ast.FunctionDef) and not n.decorator_list]
                assert len(names) == len(set(names)), (stub, node.name, sorted(n for n in names if names.count(n) > 1))


@pytest.mark.parametrize("make", ["Linear(3, 4)", "Conv2d(1, 2, 3)", "BatchNorm1d(3)", "Embedding(3, 4)", "LayerNorm(3)", "PReLU()", "Dropout(0.5)"])
def test_modules_have_their_attributes(folder, make):
    _, classes = names_in(stub_of(folder, "nn"))
    module = eval(f"nn.{make}", {"nn": cresset.nn})
    named = {n for m in type(module).__mro__ for n in classes.get(m.__name__, ())}
    held = {*vars(module), *module._parameters, *module._buffers, *module._modules}
    assert {n for n in held if n[0] != "_"} - named == set()


# What completion must offer where a line ends, and the type that it must find.
COMPLETED = {"torch.rand": "randn_like", "x.sum().me": "median", "m.wei": "weight", "m.weight.gr": "grad", "m(x).soft": "softmax",
             "net.fc.bi": "bias", "x.max(dim=0).val": "values", "torch.topk(x, 1).ind": "indices", "torch.float32.is_": "is_signed",
             "next(net.parameters()).req": "requires_grad", "net.train().st": "state_dict", "x.shape.num": "numel",
             "torch.utils.data.DataL": "DataLoader", "torch.optim.lr_scheduler.Ste": "StepLR"}
NET = '''
import cresset as torch
from cresset import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
x, m, net = torch.randn(2, 3), nn.Linear(3, 4), Net()
'''


def test_jedi_completes(folder, tmp_path):
    jedi = pytest.importorskip("jedi")
    shutil.copytree(folder, tmp_path / "cresset-stubs")
    project = jedi.Project(tmp_path, added_sys_path=[str(Path(cresset.__file__).parents[1])])
    for line, name in COMPLETED.items():
        offered = [c.name for c in jedi.Script(NET + line, path=tmp_path / "program.py", project=project).complete()]
        assert name in offered, (line, offered)


def test_every_stub_parses(folder):
    stubs = list(folder.rglob("*.pyi"))
    assert len(stubs) > 40
    for path in stubs:
        ast.parse(path.read_text())


RIGHT = '''
import cresset as torch
from cresset import nn
import cresset.nn.functional as F
from cresset.utils.data import DataLoader, TensorDataset

x = torch.randn(2, 3)
y = torch.zeros(2, 3, dtype=torch.float32, requires_grad=True)
z: torch.Tensor = (x + y).relu().sum(dim=1, keepdim=True) ** 2
n: int = z.dim() + x.shape[0]
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Conv2d(1, 2, kernel_size=3))
out: torch.Tensor = nn.Linear(3, 4)(x)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
optimizer.zero_grad()
loss: torch.Tensor = F.cross_entropy(out, torch.tensor([1, 0]))
loss.backward()
optimizer.step()
for a, b in DataLoader(TensorDataset(x, y), batch_size=2):
    pass
values, indices = x.max(dim=1)
norm: torch.Tensor = torch.linalg.norm(values)
with torch.no_grad():
    w: torch.Tensor = torch.cat([x, y], dim=0).view(-1, 3).T[0]
'''
WRONG = {
    'torch.randn("a")': "incompatible type", "x.sum(dims=1)": 'did you mean "dim"', "nn.Linear(3)": "Missing positional argument",
    "x.reluu()": 'has no attribute "reluu"', "n + 'a'": "Unsupported operand", "torch.optim.Adamm(model.parameters())": "Adamm",
    "F.relu(x, inplce=True)": "inplce", "nn.Conv2d(1, 2)": "Missing positional argument", "k: int = x.relu()": "Incompatible types",
    "torch.cat(3)": "incompatible type",
}


def mypy():
    if importlib.util.find_spec("mypy"):
        return [sys.executable, "-m", "mypy"]
    found = os.environ.get("MYPY") or shutil.which("mypy")
    if not found:
        pytest.skip("there is no mypy (python -m pip install mypy, or MYPY=path)")
    return [found]


def check(folder, text, tmp_path):
    (tmp_path / "program.py").write_text(text)
    done = subprocess.run([*mypy(), "--cache-dir", str(folder.parent / "cache"), "program.py"], cwd=tmp_path, text=True, capture_output=True,
                          env={**os.environ, "MYPYPATH": str(folder.parent)}, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_modules_take_any_forward(folder):
    """Of a method, pyright refuses overrides whose parameters have other names."""
    text = (folder / "nn/modules/module.pyi").read_text()
    assert "    forward: Callable[..., Any]\n" in text and "def forward(" not in text


def test_mypy_accepts_a_right_program(folder, tmp_path):
    assert check(folder, RIGHT, tmp_path) == (0, "Success: no issues found in 1 source file\n")


def test_mypy_finds_mistakes(folder, tmp_path):
    status, text = check(folder, RIGHT + "".join(f"{line}\n" for line in WRONG), tmp_path)
    first = RIGHT.count("\n") + 1
    found = {int(line.split(":")[1]): line for line in text.splitlines() if ": error:" in line}
    assert status == 1
    for i, (line, message) in enumerate(WRONG.items()):
        assert message in found.get(first + i, "no error"), (line, found.get(first + i))
