"""The package as torch: its name, its aliases, pickles, and processes that it starts."""
import os
import subprocess
import sys

import pytest

import cresset

FOLDER = os.path.dirname(os.path.dirname(cresset.__file__))
AS_TORCH = os.path.join(FOLDER, "cresset", "_as_torch")


def python(*arguments, path=(FOLDER, AS_TORCH), interpreter=sys.executable, **settings):
    done = subprocess.run([interpreter, *map(str, arguments)], text=True, capture_output=True,
                          timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                          **settings)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


ONE_TREE = """
import sys
assert torch is cresset and torch.__name__ == torch.__spec__.name == "torch"
assert torch.nn is cresset.nn and torch.optim.SGD is cresset.optim.SGD
import cresset.nn.modules.conv as a
import torch.nn.modules.conv as b
assert a is b and a.__name__ == "torch.nn.modules.conv"
assert not [name for name, module in sys.modules.items()
            if name.startswith("cresset.") and module is not sys.modules["torch" + name[7:]]]
for thing in (torch.Tensor, torch.Size, torch.dtype, torch.device, torch.nn.Linear,
              torch.optim.AdamW, torch.Generator, torch.no_grad, torch.nn.functional.relu):
    assert thing.__module__.partition(".")[0] == "torch", thing
print(repr(torch.Tensor), repr(torch.Size), repr(torch.nn.Linear))
"""


@pytest.mark.parametrize("start", ["import torch, cresset", "import cresset, torch",
                                   "import cresset.optim\nimport torch.nn",
                                   "from cresset import nn\nimport torch, cresset"])
def test_both_names_are_one_tree_in_either_order(start):
    assert python("-c", start + ONE_TREE) == (
        "<class 'torch.Tensor'> <class 'torch.Size'> <class 'torch.nn.modules.linear.Linear'>\n")


def test_without_a_torch_the_package_keeps_its_name():
    assert python("-c", "import cresset; print(cresset.Tensor, cresset.nn.Linear)",
                  path=[FOLDER]) == ("<class 'cresset.Tensor'> "
                                     "<class 'cresset.nn.modules.linear.Linear'>\n")


@pytest.mark.parametrize("start", ["import torch, cresset", "import cresset, torch"])
def test_beside_another_torch_the_package_keeps_its_name(tmp_path, start):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text('"""Another torch."""\nclass Tensor: pass\n')
    assert python("-c", start + "\nprint(torch.Tensor, cresset.Tensor, cresset.nn.Linear)",
                  path=[FOLDER, str(tmp_path)]) == (
        "<class 'torch.Tensor'> <class 'cresset.Tensor'> "
        "<class 'cresset.nn.modules.linear.Linear'>\n")


def test_torch_that_is_found_later_is_the_same_package():
    assert python("-c", f"""
import sys, cresset
sys.path.insert(0, {AS_TORCH!r})
import torch, torch.nn.functional
assert torch is cresset and torch.nn.functional is cresset.nn.functional
print(torch.__name__)""", path=[FOLDER]) == "cresset\n"


def test_functorch_comes_along():
    assert python("-c", """
import functorch, functorch.compile, torch
assert functorch.compile.aot_function is torch._functorch.aot_autograd.aot_function
print(functorch.compile.aot_function.__module__)""") == "torch._functorch.aot_autograd\n"


def test_python_finds_submodules_by_itself():
    assert python("-c", """
import importlib, inspect, pkgutil, sys, torch
assert not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path)
names = {m.name for m in pkgutil.walk_packages(torch.nn.__path__, "torch.nn.")}
assert {"torch.nn.functional", "torch.nn.modules.linear"} <= names
assert "class Linear" in inspect.getsource(torch.nn.Linear)
assert inspect.getmodule(torch.nn.Linear).__name__ == "torch.nn.modules.linear"
module = importlib.reload(torch.nn.functional)
assert module is torch.nn.functional and importlib.reload(torch) is torch
assert importlib.util.find_spec("torch.optim.adamw").name == "torch.optim.adamw"
print("ok")""") == "ok\n"


def test_modules_run_as_programs():
    text = python("-m", "torch.utils.collect_env")
    assert f"PyTorch version: {cresset.__version__}\n" in text and "Is CUDA available: " in text
    assert "\nCPU:\n" in text and "\nVersions of relevant libraries:\n" in text
    assert python("-m", "cresset.utils.collect_env").startswith("Collecting environment")


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_started_processes_find_torch(tmp_path, method):
    script = tmp_path / "program.py"
    script.write_text(f"""
import multiprocessing, subprocess, sys
import torch
def work(queue, x, net):
    import cresset
    assert cresset is torch
    queue.put((torch.__name__, net(x).sum().item()))
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.Queue()
    net = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(net.weight)
    process = context.Process(target=work, args=(queue, torch.ones(3, 2), net))
    process.start()
    print(queue.get(timeout=60))
    process.join()
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", "import torch; print(torch.Size)"], check=True)
""")
    wanted = "('torch', 6.0)\n<class 'torch.Size'>\n"
    assert python(script) == wanted
    assert python("-m", "cresset", "run", script, path=[FOLDER]) == wanted


# --- pickles ---

MAKE = """
import pickle, sys, warnings
import torch
warnings.simplefilter("ignore")
torch.manual_seed(0)
nn, base = torch.nn, torch.arange(6.0)
net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.GRU(2, 4), nn.Dropout(0.5))
more = nn.ModuleList([nn.MultiheadAttention(4, 2), nn.Conv2d(1, 2, 3), nn.Embedding(3, 4),
                      nn.TransformerEncoderLayer(4, 2, 8), nn.CrossEntropyLoss(torch.ones(2))])
optimizer = torch.optim.AdamW(net.parameters(), lr=0.25)
things = {
    "tensors": [base.to(t) for t in (torch.float64, torch.bfloat16, torch.float16, torch.int8,
                                     torch.bool, torch.complex64)],
    "strides": base.view(2, 3).t()[1:], "leaf": torch.ones(2, requires_grad=True),
    "parameter": nn.Parameter(base.clone()), "buffer": nn.Buffer(base.clone()),
    "small": [torch.Size([1, 2]), torch.float16, torch.device("meta"), torch.strided],
    "functions": [nn.functional.relu, torch.sigmoid, torch.Tensor.add, torch.linalg.inv],
    "classes": [nn.Linear, torch.Tensor, torch.FloatTensor, torch.no_grad, torch.finfo],
    "net": net, "more": more, "state": net.state_dict(), "optimizer": optimizer,
    "scheduler": torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net.parameters(), 0.5), 2),
    "data": torch.utils.data.TensorDataset(base), "version": torch.__version__}
"""
WRITE = MAKE + "pickle.dump(things, open(sys.argv[1], 'wb'))\n"
READ = MAKE + """
def same(a, b):
    if isinstance(a, torch.Tensor):
        assert type(a) is type(b) and a.dtype == b.dtype and a.requires_grad == b.requires_grad
        assert a.stride() == b.stride() and torch.equal(a, b)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert a == b, (a, b)

read = pickle.load(open(sys.argv[1], "rb"))
for name in ("tensors", "strides", "leaf", "parameter", "buffer", "small", "functions", "classes"):
    same(read[name], things[name])
for name in ("net", "more"):
    same(list(read[name].parameters()), list(read[name].state_dict(keep_vars=True)[k] for k, _ in
                                             read[name].named_parameters()))
    assert str(read[name]) == str(things[name])
    assert list(read[name].state_dict()) == list(things[name].state_dict())
y, _ = read["net"].train()[:3](torch.ones(4, 3))
y.sum().backward()
read["optimizer"].step()
read["scheduler"].step()
read["more"].eval()[3](torch.ones(3, 2, 4))
assert len(read["data"]) == 6
assert read["optimizer"].param_groups[0]["params"][0] is read["net"][0].weight
assert read["version"] >= "2.13" and type(read["version"]) is type(torch.__version__)
print("ok", torch.__version__)
"""


def real_torch():
    """The Python of PEER, if it has a torch that is not this package."""
    peer = os.environ.get("PEER")
    has = peer and subprocess.run([peer, "-c", "import torch; torch._C._VariableFunctions"],
                                  capture_output=True, env={"PATH": os.environ["PATH"]})
    if not has or has.returncode:
        pytest.skip("PEER names no Python that has torch")
    return peer


def test_pickles_are_read_again(tmp_path):
    file = tmp_path / "things.pickle"
    python("-c", WRITE, file)
    assert b"cresset" not in file.read_bytes().replace(str(cresset.__version__).encode(), b"")
    assert python("-c", READ, file) == f"ok {cresset.__version__}\n"


def test_pickles_go_to_torch_and_come_back(tmp_path):
    peer, file = real_torch(), tmp_path / "things.pickle"
    python("-c", WRITE, file)
    assert python("-c", READ, file, interpreter=peer, path=[]).startswith("ok ")
    python("-c", WRITE, file, interpreter=peer, path=[])
    assert python("-c", READ, file) == f"ok {cresset.__version__}\n"


def test_extensions_that_are_linked_to_torch_are_explained(tmp_path):
    library = tmp_path / "libtorch_cpu.so"
    subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", os.devnull, "-Wl,-soname,libtorch_cpu.so"], check=True)
    for name, option in (("linked", "-ltorch_cpu"), ("odd", "-lm")):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", "-x", "c", os.devnull,
                        "-Wl,--no-as-needed", f"-L{tmp_path}", option], check=True)
    library.unlink()
    print_errors = """
for name in ("linked", "odd"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
"""
    first, second = python("-c", "import torch" + print_errors, path=(FOLDER, AS_TORCH, str(tmp_path))).splitlines()
    assert first.startswith(f"{tmp_path}/linked.so is linked to libtorch_cpu.so, the C++ library of PyTorch")
    assert "does not define module export function" in second
    beside = python("-c", "import cresset" + print_errors, path=(FOLDER, str(tmp_path)))
    assert beside.startswith("libtorch_cpu.so: cannot open shared object file")
