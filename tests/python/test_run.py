"""python -m cresset run SCRIPT: a script that imports torch, as Python would run it."""
import os
import subprocess
import sys

import pytest

PREFIX = [sys.executable, "-m", "cresset"]


def run(tmp_path, source, *arguments, name="script.py"):
    (tmp_path / name).write_text(source)
    return subprocess.run([*PREFIX, "run", name, *arguments], cwd=tmp_path, text=True,
                          capture_output=True, timeout=120)


def test_torch_is_cresset_under_every_name(tmp_path):
    done = run(tmp_path, """
import sys
import torch
import torch.nn as nn, torch.nn.functional as F
import torch.utils.data
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR
import cresset, cresset.nn.modules.conv
import torch.nn.modules.conv
assert torch is cresset and nn is cresset.nn and F is cresset.nn.functional
assert torch.nn.modules.conv is cresset.nn.modules.conv and torch.optim.SGD is SGD
assert nn.__name__ == nn.__spec__.name == "torch.nn"
assert sys.modules["torch.nn"] is sys.modules["cresset.nn"]
net = nn.Linear(2, 1)
loss = F.mse_loss(net(torch.ones(1, 2)), torch.zeros(1, 1))
loss.backward()
SGD(net.parameters(), lr=0.1).step()
print("ok")
""")
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


def test_no_import_warns(tmp_path):
    (tmp_path / "script.py").write_text("""
import torch.distributions, torch.optim.swa_utils, torch.sparse
import cresset.onnx, cresset.nn.functional
print(issubclass(torch.UntypedStorage, torch.StorageBase))
""")
    done = subprocess.run([sys.executable, "-W", "error", "-m", "cresset", "run", "script.py"], cwd=tmp_path, text=True,
                          capture_output=True, timeout=120)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_missing_module_is_missing(tmp_path):
    done = run(tmp_path, """
try:
    import torch.no_such_part
except ModuleNotFoundError as error:
    print(error, error.name)
""")
    assert done.stdout == "No module named 'torch.no_such_part' torch.no_such_part\n"


def test_the_scripts_environment_equals_pythons(tmp_path):
    (tmp_path / "beside.py").write_text("value = 5\n")
    done = run(tmp_path, """
import os, sys
import beside
print(sys.argv, __name__, __file__, sys.path[0], beside.value)
print(sys.modules["__main__"].sys is sys, __spec__, __package__, __doc__)
""", "-x", "--run")
    path = str(tmp_path / "script.py")
    assert done.stdout.splitlines() == [
        f"['script.py', '-x', '--run'] __main__ {path} {os.path.realpath(tmp_path)} 5",
        "True None None None"]


@pytest.mark.parametrize("source, code, stdout", [
    ("import sys; sys.exit(7)", 7, ""), ("raise SystemExit", 0, ""),
    ("import atexit; atexit.register(print, 'bye'); 1/0", 1, "bye\n")])
def test_exit_codes_are_kept(tmp_path, source, code, stdout):
    done = run(tmp_path, source)
    assert (done.returncode, done.stdout) == (code, stdout)


def test_tracebacks_begin_in_the_script(tmp_path):
    source = "def f():\n    raise ValueError('no')\nf()\n"
    done = run(tmp_path, source)
    plain = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, text=True,
                           capture_output=True)
    assert done.stderr == plain.stderr and "run.py" not in done.stderr
    broken = run(tmp_path, "x = (\n")
    plain = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, text=True,
                           capture_output=True)
    assert broken.stderr == plain.stderr and broken.returncode == 1


def test_an_interrupt_ends_by_the_signal(tmp_path):
    done = run(tmp_path, "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                         "os.kill(os.getpid(), signal.SIGINT)")
    assert done.returncode == -2 and "KeyboardInterrupt" in done.stderr


def test_a_module_runs_as_a_program(tmp_path):
    (tmp_path / "part.py").write_text("import sys, torch\nprint(__name__, sys.argv[1:], torch.ones(2).sum().item())\n"
                                      "sys.exit(int(sys.argv[1]))\n")
    done = subprocess.run([*PREFIX, "run", "-m", "part", "3", "x"], cwd=tmp_path, text=True, capture_output=True, timeout=120)
    assert (done.stdout, done.returncode) == ("__main__ ['3', 'x'] 2.0\n", 3), done
    done = subprocess.run([*PREFIX, "run", "-m", "absent_module"], cwd=tmp_path, text=True, capture_output=True, timeout=120)
    assert done.returncode == 1 and "No module named absent_module" in done.stderr


def test_a_missing_script_is_named(tmp_path):
    done = subprocess.run([*PREFIX, "run", "nope.py"], cwd=tmp_path, text=True,
                          capture_output=True)
    assert done.returncode == 2
    assert done.stderr == (f"{sys.executable}: can't open file '{tmp_path}/nope.py': [Errno 2] "
                           "No such file or directory\n")


def test_the_command_line_prints_its_usage():
    done = subprocess.run(PREFIX, text=True, capture_output=True)
    assert done.returncode == 2 and done.stderr.startswith("usage: python -m cresset run")
    done = subprocess.run([*PREFIX, "--help"], text=True, capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith("usage: python -m cresset run")


def test_spawned_processes_know_torch(tmp_path):
    done = run(tmp_path, """
import multiprocessing
import torch
def work(queue):
    queue.put((torch.__name__, torch.ones(2).sum().item()))
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join()
""")
    assert (done.stdout, done.stderr) == ("('torch', 2.0)\n", "")


def test_sources_can_be_inspected(tmp_path):
    done = run(tmp_path, "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))\n")
    assert done.stdout == "def f():\n    return 1\n\n"


# --- the other commands ---

def command(*arguments, **environment):
    return subprocess.run([*PREFIX, *arguments], text=True, capture_output=True, timeout=120, env={**os.environ, **environment})


def test_help_lists_commands_variables_and_topics():
    done = command("--help")
    assert done.returncode == 0 and not done.stderr
    for text in ("cresset run SCRIPT", "cache [--clear]", "crc ...", "CR_LOG  ", "CR_CACHE_LIMIT   default '512': megabytes",
                 "recompile  which guard failed"):
        assert text in done.stdout, text
    assert "(tests)" not in done.stdout
    assert command("env").stdout in done.stdout
    assert command("walk").returncode == 2 and "usage: " in command("walk").stderr


def test_the_cache_is_told_and_emptied(tmp_path):
    folder = str(tmp_path / "kernels")
    assert command("cache", CR_CACHE=folder).stdout == f"0 files of compiled kernels, 0.0 MB, in {folder}\n"
    os.mkdir(folder, 0o700)
    for i in range(2):
        (tmp_path / "kernels" / f"{i:032x}.so").write_bytes(bytes(500_000))
    (tmp_path / "kernels" / "notes.txt").write_text("")
    assert command("cache", CR_CACHE=folder).stdout == f"2 files of compiled kernels, 1.0 MB, in {folder}\n"
    assert command("cache", "--clear", CR_CACHE=folder).stdout == f"2 files of compiled kernels, 1.0 MB, removed from {folder}\n"
    assert os.listdir(folder) == ["notes.txt"]
    assert command("cache", "--all", CR_CACHE=folder).returncode == 2


def test_crc_is_part_of_the_package(tmp_path):
    done = command("crc", "explain", "logaddexp2")
    assert done.returncode == 0 and "logaddexp2(Tensor self, Tensor other)" in done.stdout and "without overflow" in done.stdout
    (tmp_path / "kernel.loop").write_text("a[i<8] = x[i] * 2\ny[i<8] = a[i] + 1\n")
    assert command("crc", "fuse", str(tmp_path / "kernel.loop")).stdout.strip() == "y[i<8] = x[i] * 2 + 1"
    assert command("crc", "explain", "nothing").returncode != 0 and command("crc").returncode == 2


def test_a_trace_warns_once_at_the_programs_line(tmp_path):
    done = run(tmp_path, """
import torch


def positive(x):
    if x.sum() > 0:  # twice: the check repeats the trace
        return x
    return -x


torch.jit.trace(positive, torch.ones(2))
torch.jit.trace(lambda x: [x, x + 1], torch.ones(2))
""")
    places = [line.partition(": Converting")[0].partition(": Encountering")[0]
              for line in done.stderr.splitlines() if "TracerWarning" in line]
    path = str(tmp_path / "script.py")
    assert places == [f"{path}:6: TracerWarning", f"{path}:12: TracerWarning"], done.stderr


def test_parameters_are_sent_to_processes_by_their_memory(tmp_path):
    done = run(tmp_path, """
import torch, torch.multiprocessing
from multiprocessing.reduction import ForkingPickler

sent = torch.nn.Parameter(torch.ones(2))
received = ForkingPickler.loads(ForkingPickler.dumps(sent))
with torch.no_grad():
    sent[0] = 5
print(type(received).__name__, received.tolist())
""")
    assert done.stdout == "Parameter [5.0, 1.0]\n", done.stderr
