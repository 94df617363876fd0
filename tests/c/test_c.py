"""Tests C programs with the installed package: `make test-c-programs`.

The examples print the same as the equal Python programs and are at most half as long again.
Layers, optimizers and loaders give Python's bits.  VALGRIND=1 runs the programs under valgrind.
"""
import os
import re
import socket
import subprocess
import sys
import zipfile
from random import Random
from typing import Dict, List

import pytest

import cresset as torch
import cresset.nn as nn
from cresset.optim import lr_scheduler
from cresset.safetensors import load_file, save_file
from cresset.utils.data import DataLoader, TensorDataset

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLES = os.path.join(ROOT, "examples", "c")
INSTALLED = os.path.join(os.environ.get("CRESSET_BUILD", os.path.join(ROOT, "build")), "installed")
VALGRIND = ["valgrind", "-q", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--error-exitcode=9"]
FLAGS = ["-std=c11", "-pedantic", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Uses one thread, because the order of some sums depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pkg_config():
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(INSTALLED, "lib", "pkgconfig"))
    out = subprocess.run(["pkg-config", "--cflags", "--libs", "cresset"], env=env, check=True,
                         capture_output=True, text=True).stdout
    return out.split() + [f"-Wl,-rpath,{INSTALLED}/lib"]


@pytest.fixture(scope="module")
def run_c(tmp_path_factory):
    """Compiles a C file once and runs it.  Returns its output."""
    folder, made = tmp_path_factory.mktemp("c"), {}

    def run(source, *args):
        name = os.path.splitext(os.path.basename(source))[0]
        if source not in made:
            made[source] = str(folder / name)
            compiler = [os.environ.get("CC", "gcc"), *FLAGS, source, "-o", made[source]]
            subprocess.run([*compiler, *pkg_config()], check=True)
        command, env = [made[source], *map(str, args)], dict(os.environ, OMP_NUM_THREADS="1")
        if os.environ.get("VALGRIND"):
            # oneDNN's AVX2 code reads past the end of its buffers.
            command, env["DNNL_MAX_CPU_ISA"] = VALGRIND + command, "SSE41"
        out = subprocess.run(command, capture_output=True, text=True, env=env)
        assert out.returncode == 0, out.stdout + out.stderr
        return out.stdout

    return run


def run_twin(name, *args):
    out = subprocess.run([sys.executable, os.path.join(EXAMPLES, name + ".py"), *map(str, args)],
                         env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout


def lines_of_code(path):
    """Lines that are neither blank nor comment."""
    text = open(path).read()
    if path.endswith(".py"):
        text = re.sub(r'""".*?"""', "", text, flags=re.S)
        text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    else:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r"//.*$", "", text, flags=re.M)
    return sum(bool(line.strip()) for line in text.split("\n"))


def assert_same_numbers(c, python):
    """Asserts equal text.  Under valgrind the kernels differ, so last digits may differ."""
    if not os.environ.get("VALGRIND"):
        assert c == python
        return
    number = re.compile(r"-?\d+\.\d+")
    assert number.sub("#", c) == number.sub("#", python)
    for a, b in zip(number.findall(c), number.findall(python)):
        assert float(a) == pytest.approx(float(b), rel=2e-3, abs=2e-4)


@pytest.mark.parametrize("name", ["polynomial", "spirals", "digits", "ddp", "memory", "classifier"])
def test_an_example_is_not_much_longer_than_in_python(name):
    c, python = (lines_of_code(os.path.join(EXAMPLES, name + end)) for end in (".c", ".py"))
    assert c <= 1.5 * python, f"{c} lines of C, {python} of Python"


def test_the_polynomial_prints_the_same_as_in_python(run_c):
    c = run_c(os.path.join(EXAMPLES, "polynomial.c"))
    assert len(c.splitlines()) == 21
    assert_same_numbers(c, run_twin("polynomial"))


def test_the_memory_prints_the_same_as_in_python(run_c):
    c = run_c(os.path.join(EXAMPLES, "memory.c"))
    assert_same_numbers(c, run_twin("memory"))
    assert float(c.split()[-2]) > 90


def in_ranks(size, command, **env):
    """Runs a program in `size` processes, one a rank.  Returns rank 0's output."""
    import cresset.distributed as dist
    if not any(dist.is_backend_available(b) for b in ("gloo", "mpi")):
        pytest.skip("no engine for groups of processes is here")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    library = os.path.join(sys.prefix, "lib", "libmpi_abi.so.1")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
           **({"CR_MPI": library} if os.path.exists(library) else {}), **env}
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for r in range(size)]
    texts = [p.communicate(timeout=60)[0] for p in ranks]
    assert all(p.returncode == 0 for p in ranks), texts
    return texts[0]


def compiled(tmp_path, source):
    """Compiles a C file.  Returns the program's path."""
    program = str(tmp_path / "program")
    subprocess.run([os.environ.get("CC", "gcc"), *FLAGS, source, "-o", program, *pkg_config()], check=True)
    return program


def test_data_parallel_training_prints_the_same_as_in_python(tmp_path):
    program = compiled(tmp_path, os.path.join(EXAMPLES, "ddp.c"))
    texts = {size: in_ranks(size, [program]) for size in (1, 2)}
    assert texts[2] == in_ranks(2, [sys.executable, os.path.join(EXAMPLES, "ddp.py")])
    losses = [float(x) for x in re.findall(r"loss (.*)", texts[2])]
    assert len(losses) == 5 and losses[-1] < 0.2 * losses[0]
    assert losses == pytest.approx([float(x) for x in re.findall(r"loss (.*)", texts[1])], rel=1e-2)


@pytest.mark.parametrize("size", [1, 3])
def test_calls_between_ranks(tmp_path, size):
    in_ranks(size, [compiled(tmp_path, os.path.join(HERE, "dist.c"))])


def test_the_spirals_print_the_same_as_in_python(run_c):
    data = os.path.join(EXAMPLES, "spirals.csv")
    c = run_c(os.path.join(EXAMPLES, "spirals.c"), data)
    assert float(re.search(r"right: (.*) %", c).group(1)) > 95
    assert_same_numbers(c, run_twin("spirals", data))


@pytest.fixture(scope="module")
def trained_digits(tmp_path_factory):
    """Returns the checkpoint of examples/digits.py after three epochs, and its accuracy."""
    sys.path.insert(0, os.path.dirname(EXAMPLES))
    import digits

    folder = tmp_path_factory.mktemp("digits")
    torch.manual_seed(0)
    training, held_back = digits.load()
    model = digits.DigitsNet()
    digits.train(model, DataLoader(training, batch_size=32, shuffle=True), 3)
    digits.save_and_check(model, str(folder))
    read, labels = digits.predict(model, held_back)
    accuracy = (read == labels).float().mean().item()
    return folder / "digits.safetensors", f"held-back accuracy: {accuracy * 100:.1f} %"


def digits_csv():
    import sklearn.datasets

    return os.path.join(os.path.dirname(sklearn.datasets.__file__), "data", "digits.csv.gz")


def test_the_digits_are_classified_as_in_python(run_c, trained_digits):
    weights, accuracy = trained_digits
    c = run_c(os.path.join(EXAMPLES, "digits.c"), weights, digits_csv())
    assert c.splitlines()[-1] == accuracy
    assert_same_numbers(c, run_twin("digits", weights, digits_csv()))


def test_an_error_ends_an_example_with_line_and_torchs_message(tmp_path):
    source, program = os.path.join(EXAMPLES, "digits.c"), str(tmp_path / "digits")
    subprocess.run([os.environ.get("CC", "gcc"), *FLAGS, source, "-o", program, *pkg_config()],
                   check=True)
    out = subprocess.run([program, "/nowhere", digits_csv()], capture_output=True, text=True)
    assert out.returncode == 1
    assert re.fullmatch(r".*digits\.c:\d+: ct_load: OSError: \[Errno 2\] No such file or directory: "
                        r"'/nowhere'\n", out.stderr)
    wrong = tmp_path / "wrong.safetensors"
    save_file({"conv1.weight": torch.zeros(2, 2), "fc9.bias": torch.zeros(3)}, str(wrong))
    out = subprocess.run([program, wrong, digits_csv()], capture_output=True, text=True)
    assert out.returncode == 1
    assert "Error(s) in loading state_dict for DigitsNet:\n\tMissing key(s)" in out.stderr
    assert '\n\tUnexpected key(s) in state_dict: "fc9.bias". \n\tsize mismatch for conv1.weight: ' \
           "copying a param with shape torch.Size([2, 2]) from checkpoint, the shape in current " \
           "model is torch.Size([16, 1, 3, 3])." in out.stderr


@pytest.mark.parametrize("zip", [True, False])
def test_the_digits_load_torchs_checkpoints(run_c, trained_digits, tmp_path, zip):
    weights, accuracy = trained_digits
    path = tmp_path / "digits.pt"
    torch.save(load_file(str(weights)), path, _use_new_zipfile_serialization=zip)
    c = run_c(os.path.join(EXAMPLES, "digits.c"), path, digits_csv())
    assert c.splitlines()[-1] == accuracy


# Layers, optimizers, samples: the cases of layers.c in Python.

def randn(*size, **options):
    return lambda: torch.randn(*size, **options)


LAYERS = {
    "linear": (lambda: nn.Linear(5, 3), randn(4, 5)),
    "linear-plain": (lambda: nn.Linear(5, 3, bias=False), randn(2, 4, 5)),
    "linear-double": (lambda: nn.Linear(5, 3, dtype=torch.float64),
                      randn(4, 5, dtype=torch.float64)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), randn(2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(3, 5, 3, stride=2, padding=1), randn(2, 3, 8, 7)),
    "conv2d-oblong": (lambda: nn.Conv2d(3, 5, (3, 2), dilation=(1, 2), bias=False),
                      randn(2, 3, 8, 7)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), randn(2, 2, 4, 5, 6)),
    "up1d": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2), randn(2, 4, 9)),
    "up2d": (lambda: nn.ConvTranspose2d(3, 5, (3, 2), 2, output_padding=1, bias=False), randn(2, 3, 4, 5)),
    "up3d": (lambda: nn.ConvTranspose3d(2, 3, 2, dilation=2, padding=1), randn(2, 2, 4, 5, 6)),
    "batch1": (lambda: nn.BatchNorm1d(4), randn(5, 4)),
    "batch1-long": (lambda: nn.BatchNorm1d(4, momentum=None), randn(5, 4, 3)),
    "batch2": (lambda: nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), randn(2, 3, 4, 5)),
    "batch2-plain": (lambda: nn.BatchNorm2d(3, affine=False, track_running_stats=False),
                     randn(2, 3, 4, 5)),
    "batch3": (lambda: nn.BatchNorm3d(2), randn(2, 2, 3, 4, 5)),
    "layer": (lambda: nn.LayerNorm(5), randn(4, 5)),
    "layer-two": (lambda: nn.LayerNorm((4, 5), bias=False), randn(3, 4, 5)),
    "rms": (lambda: nn.RMSNorm(5), randn(4, 5)),
    "group": (lambda: nn.GroupNorm(2, 6), randn(2, 6, 5)),
    "embedding": (lambda: nn.Embedding(7, 4, padding_idx=-2), lambda: torch.randint(0, 7, (3, 5))),
    "dropout": (lambda: nn.Dropout(0.3), randn(8, 9)),
    "flatten": (lambda: nn.Flatten(), randn(2, 3, 4)),
    "maxpool1": (lambda: nn.MaxPool1d(3, stride=2), randn(2, 3, 9)),
    "maxpool2": (lambda: nn.MaxPool2d(2), randn(2, 3, 8, 7)),
    "avgpool1": (lambda: nn.AvgPool1d(2), randn(2, 3, 9)),
    "avgpool2": (lambda: nn.AvgPool2d((2, 3), padding=(1, 0)), randn(2, 3, 8, 7)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d((2, 1)), randn(2, 3, 8, 7)),
    "sequential": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(),
                                         nn.Dropout(), nn.Linear(8, 2)), randn(6, 4)),
    "softmax": (lambda: nn.Softmax(1), randn(4, 5)),
    "logsoftmax": (lambda: nn.LogSoftmax(dim=-1), randn(4, 5)),
    "gelu-tanh": (lambda: nn.GELU(approximate="tanh"), randn(4, 5)),
}
ACTIVATIONS = ("ReLU ReLU6 LeakyReLU ELU SELU GELU SiLU Mish Hardswish Hardsigmoid Sigmoid "
               "LogSigmoid Tanh Softplus Softsign Identity").split()
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd-momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd-dampening": lambda p: torch.optim.SGD(p, 0.1, 0.9, 0.5, maximize=True),
    "sgd-nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam-all": lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.99), 1e-6, 0.1, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.01),
    "adagrad-start": lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.5),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "rmsprop-all": lambda p: torch.optim.RMSprop(p, 0.01, 0.9, momentum=0.8, centered=True),
}


@pytest.fixture(scope="module")
def from_c(run_c, tmp_path_factory):
    path = tmp_path_factory.mktemp("layers") / "layers.safetensors"
    run_c(os.path.join(HERE, "layers.c"), path)
    return load_file(str(path))


def assert_same(c, python, what):
    assert c.dtype == python.dtype and c.shape == python.shape, what
    if os.environ.get("VALGRIND"):
        assert torch.allclose(c, python, rtol=1e-4, atol=1e-5), what
    else:
        assert torch.equal(c, python), what


def part(tensors, name):
    return {key[len(name) + 1:]: t for key, t in tensors.items() if key.startswith(name + "/")}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_pythons_bits(from_c, name):
    make, draw = LAYERS[name]
    torch.manual_seed(len(name) + 1)
    layer = make()
    want = {"before." + key: t.clone() for key, t in layer.state_dict().items()}
    x = draw()
    out = want["out"] = layer(x)
    if list(layer.parameters()):
        (out * out).sum().backward()
    want.update((f"grad.{i}", p.grad) for i, p in enumerate(layer.parameters())
                if p.grad is not None)
    want.update(("after." + key, t) for key, t in layer.state_dict().items())
    layer.eval()
    want["eval"] = layer(x)
    got = part(from_c, name)
    assert got.keys() == want.keys()
    for key in want:
        assert_same(got[key], want[key].detach(), key)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_gives_pythons_bits(from_c, name):
    torch.manual_seed(len("activation") + 1)
    assert_same(from_c[name + "/out"], getattr(nn, name)()(torch.randn(3, 40)), name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_gives_pythons_bits(from_c, name):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = OPTIMIZERS[name](net.parameters())
    for step in range(4):
        x = torch.randn(6, 4)
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        if step == 3:
            optimizer.param_groups[0]["lr"] = 0.05
        optimizer.step()
    for i, p in enumerate(net.parameters()):
        assert_same(from_c[f"{name}/{i}"], p.detach(), i)


@pytest.mark.parametrize("i, make", enumerate([
    lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5), lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5], 0.3),
    lambda o: lr_scheduler.ConstantLR(o, factor=0.4, total_iters=3),
    lambda o: lr_scheduler.LinearLR(o, start_factor=0.25, total_iters=4), lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    lambda o: lr_scheduler.PolynomialLR(o, 7, 2.0), lambda o: lr_scheduler.CosineAnnealingLR(o, 4, eta_min=0.1)]))
def test_a_schedule_gives_pythons_bits(from_c, i, make):
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.7)
    schedule = make(optimizer)
    for epoch in range(12):
        assert from_c[f"rates/{i}.{epoch}"].item() == optimizer.param_groups[0]["lr"], epoch
        optimizer.step()
        schedule.step()


def test_clipped_gradients_and_a_resumed_optimizer_give_pythons_bits(from_c):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(6, 4)).pow(2).mean().backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        optimizer.step()
    assert from_c["clip/norm"].item() == norm.item()
    for name, t in net.state_dict().items():
        assert_same(from_c[f"resumed/net.{name}"], t, name)
        assert_same(from_c[f"moved/net.{name}"], t, name)


def test_samples_are_in_pythons_order(from_c):
    torch.manual_seed(11)
    data = TensorDataset(torch.arange(23))
    loaders = [DataLoader(data, batch_size=5, shuffle=True),
               DataLoader(data, batch_size=4, shuffle=True, drop_last=True,
                          generator=torch.Generator().manual_seed(7)),
               DataLoader(data, batch_size=10)]
    want = [batch for _ in range(2) for loader in loaders for (batch,) in loader]
    for i, batch in enumerate(want):
        assert torch.equal(from_c[f"samples/{i}"], batch), i
    assert f"samples/{len(want)}" not in from_c
    assert torch.equal(from_c["samples/next"], torch.randn(3))


def test_tensors_print_as_in_python(run_c):
    torch.manual_seed(0)
    want = [torch.ones(2, 3), torch.arange(5), torch.arange(4) * 0.25, torch.randn(3, 4), torch.arange(1, 6).double() ** 9,
            torch.randn(2, 30, 40), torch.randn(3) > 0, torch.view_as_complex(torch.randn(3, 2)), torch.zeros(0, 3),
            torch.randn(7).half(), w := torch.randn(2).requires_grad_(), w * 2, w.sum()]
    assert run_c(os.path.join(HERE, "tensors.c")) == "".join(f"{t!r}\n" for t in want)


def test_a_module_prints_as_in_python(run_c):
    printed = run_c(os.path.join(HERE, "print.c"))
    assert printed == "".join(f"{make()}\n" for make in (
        lambda: nn.Sequential(
            nn.Linear(2, 3, bias=False), nn.Conv1d(2, 3, 4), nn.Conv2d(1, 2, (3, 2), padding=1),
            nn.Conv3d(2, 4, 3, stride=2, groups=2, dilation=2, bias=False),
            nn.BatchNorm1d(3), nn.BatchNorm2d(3, momentum=None, eps=0.25), nn.LayerNorm((3, 4)),
            nn.RMSNorm(5), nn.GroupNorm(2, 4), nn.Embedding(5, 6), nn.Embedding(5, 6, -1),
            nn.Dropout(0.25), nn.Flatten(), nn.MaxPool1d(2), nn.MaxPool2d(3, stride=(2, 1)),
            nn.AvgPool1d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1),
            nn.Sequential(nn.ReLU(), nn.GELU(), nn.Softmax(1), nn.LogSoftmax(-1)),
            nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Identity(), nn.Sequential()),))


def test_no_function_ends_the_process_for_a_null(tmp_path):
    source, binary = tmp_path / "nulls.c", str(tmp_path / "nulls")
    subprocess.run([sys.executable, os.path.join(HERE, "nulls.py"), os.path.join(INSTALLED, "include"), source], check=True)
    subprocess.run([os.environ.get("CC", "gcc"), "-w", "-O0", source, "-o", binary, *pkg_config()], check=True)
    out = subprocess.run([binary], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1")).stdout
    *ended, count = out.splitlines()
    assert not ended and int(count.split()[0]) > 1500


def test_a_static_program_uses_the_library_s_kernels(tmp_path, run_c):
    binary = str(tmp_path / "static")
    libraries = [os.path.join(INSTALLED, "lib", "libcresset.a"), "-lm", "-lpthread", "-ldl", "-lz"]
    made = subprocess.run([os.environ.get("CC", "gcc"), "-w", "-static", os.path.join(HERE, "static.c"), "-I",
                           os.path.join(INSTALLED, "include"), "-o", binary, *libraries], capture_output=True, text=True)
    if made.returncode and "cannot find" in made.stderr:
        pytest.skip("the system has no static libraries")
    assert made.returncode == 0, made.stderr
    out = subprocess.run([binary], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert out.returncode == 0 and out.stdout.splitlines()[1] == "no LAPACK", out.stderr
    dynamic = run_c(os.path.join(HERE, "static.c")).splitlines()[0].split()
    assert [float(x) for x in out.stdout.split()[:3]] == pytest.approx([float(x) for x in dynamic], rel=1e-3, abs=1e-2)


def test_a_tensor_of_a_scope_that_ended_is_an_error_when_scopes_are_checked(tmp_path):
    binary = str(tmp_path / "scopes")
    subprocess.run([os.environ.get("CC", "gcc"), *FLAGS, os.path.join(HERE, "scopes.c"), "-o", binary, *pkg_config()], check=True)
    out = subprocess.run([binary], capture_output=True, text=True, env=dict(os.environ, CR_SCOPES="1"))
    assert out.returncode == 1 and out.stdout == "2\n" and "the scope of this tensor has ended" in out.stderr


# Recurrent layers, attention and layers of transformers: the cases of sequences.c in Python.

def causal(n):
    return torch.ones(n, n).triu(1).bool()


def tail():
    """The last positions of two rows of five: none, and two."""
    return torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()


def shared():
    """The same input three times, drawn before the layer's weights."""
    x = torch.randn(5, 2, 8)
    return x, x, x


# {name: (layer, results, inputs)}; inputs that are a list are drawn after the layer's weights.
SEQUENCES = {
    "rnn": (lambda: nn.RNN(3, 4), 2, [randn(5, 2, 3)]),
    "rnn-relu": (lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False), 2, [randn(5, 2, 3), randn(1, 2, 4)]),
    "lstm": (lambda: nn.LSTM(3, 4), 3, [randn(5, 2, 3)]),
    "lstm-deep": (lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True), 3,
                  [randn(2, 5, 3), randn(4, 2, 4), randn(4, 2, 4)]),
    "lstm-small": (lambda: nn.LSTM(3, 4, proj_size=2), 3, [randn(5, 3)]),
    "gru": (lambda: nn.GRU(3, 4, num_layers=2), 2, [randn(5, 2, 3)]),
    "gru-double": (lambda: nn.GRU(3, 4, dtype=torch.float64, batch_first=True), 1,
                   [randn(5, 3, dtype=torch.float64), randn(1, 4, dtype=torch.float64)]),
    "self": (lambda: nn.MultiheadAttention(8, 2), 2, shared),
    "self-fused": (lambda: nn.MultiheadAttention(8, 2, bias=False), 1, lambda: (*shared(), None, causal(5))),
    "cross": (lambda: nn.MultiheadAttention(8, 4, kdim=6, vdim=3, batch_first=True, dropout=0.2), 2,
              [randn(2, 4, 8), randn(2, 5, 6), randn(2, 5, 3)]),
    "padded": (lambda: nn.MultiheadAttention(8, 4, batch_first=True), 1,
               [randn(2, 4, 8), randn(2, 5, 8), randn(2, 5, 8), lambda: torch.randn(2, 5) > 1.5, randn(4, 5)]),
    "alone": (lambda: nn.MultiheadAttention(8, 2), 2, [randn(4, 8), randn(5, 8), randn(5, 8)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16), 1, [randn(5, 2, 8), lambda: causal(5)]),
    "encoder-first": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True, batch_first=True, bias=False),
                      1, [randn(2, 5, 8), lambda: None, lambda: torch.randn(2, 5) > 1.5]),
    "decoder": (lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 1,
                [randn(4, 2, 8), randn(5, 2, 8), lambda: causal(4)]),
    "stack": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), 1, [randn(5, 2, 8), lambda: causal(5)]),
    "stack-padded": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, nn.LayerNorm(8)), 1,
                     [randn(2, 5, 8), lambda: None, lambda: tail()]),
    "stack-gaps": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1), 1,
                   [randn(2, 5, 8), lambda: None, lambda: tail().flip(1)]),
    "decoders": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, nn.LayerNorm(8)), 1,
                 [randn(4, 2, 8), randn(5, 2, 8), lambda: causal(4)]),
    "transformer": (lambda: nn.Transformer(8, 2, 2, 1, 16, batch_first=True), 1,
                    [randn(2, 5, 8), randn(2, 4, 8), lambda: None, lambda: causal(4)]),
    "decoder-first": (lambda: nn.TransformerDecoderLayer(8, 2, 16, norm_first=True), 1, [randn(4, 8), randn(5, 8)]),
}
SEQUENCE_TEXT = ["LSTM(3, 4, proj_size=2, num_layers=2, batch_first=True)",
                 *str(nn.TransformerDecoderLayer(8, 2, 16)).splitlines(), *str(nn.Transformer(8, 2, 2, 1, 16)).splitlines()]


@pytest.fixture(scope="module")
def sequences_from_c(run_c, tmp_path_factory):
    path = tmp_path_factory.mktemp("sequences") / "sequences.safetensors"
    text = run_c(os.path.join(HERE, "sequences.c"), path)
    return load_file(str(path)), text


def flat_results(layer, args, results):
    """The results of a call as a list, in the order of C's."""
    if isinstance(layer, nn.MultiheadAttention):
        query, key, value, padding, mask = [*args, None, None][:5]
        out = layer(query, key, value, padding, results == 2, mask)
    elif isinstance(layer, nn.LSTM):
        out, state = layer(args[0], tuple(args[1:]) or None)
        out = (out, *state)
    else:
        out = layer(*args)
    return list(out if isinstance(out, tuple) else (out,))[:results]


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_layer_of_sequences_gives_pythons_bits(sequences_from_c, name):
    make, results, draw = SEQUENCES[name]
    torch.manual_seed(len(name) + 1)
    args = draw() if callable(draw) else None
    layer = make()
    args = [one() for one in draw] if args is None else args
    want = {f"weight.{i}": p.detach().clone() for i, p in enumerate(layer.parameters())}
    outs = flat_results(layer, args, results)
    sum((out * out).sum() for out in outs).backward()
    want.update((f"out.{i}", out) for i, out in enumerate(outs))
    want.update((f"grad.{i}", p.grad) for i, p in enumerate(layer.parameters()) if p.grad is not None)
    layer.eval()
    want.update((f"eval.{i}", out) for i, out in enumerate(flat_results(layer, args, results)))
    with torch.no_grad():
        want.update((f"still.{i}", out) for i, out in enumerate(flat_results(layer, args, results)))
    got = part(sequences_from_c[0], name)
    assert got.keys() == want.keys()
    for key in want:
        assert_same(got[key], want[key].detach().contiguous(), key)


PACKED = {"packed-lstm": (lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True), False, False),
          "packed-gru": (lambda: nn.GRU(3, 4), True, True),
          "packed-rnn": (lambda: nn.RNN(3, 4, nonlinearity="relu"), False, True)}


def test_packed_sequences_give_pythons_bits(sequences_from_c):
    rnn = nn.utils.rnn
    torch.manual_seed(1)
    for name, (make, in_order, first) in PACKED.items():
        layer = make()
        x = torch.randn(3, 4, 3) if first else torch.randn(4, 3, 3)
        lengths = torch.tensor([4, 3, 2] if in_order else [4, 1, 3])
        packed = rnn.pack_padded_sequence(x, lengths, first, in_order)
        out, state = layer(packed)
        states = state if isinstance(state, tuple) else (state,)
        y, n = rnn.pad_packed_sequence(out, first)
        ((y * y).sum() + sum((s * s).sum() for s in states)).backward()
        want = {"data.0": packed.data, "sizes.0": packed.batch_sizes, "out.0": y, "lengths.0": n}
        want |= {f"state.{i}": s for i, s in enumerate(states)} | {f"grad.{i}": p.grad for i, p in enumerate(layer.parameters())}
        with torch.no_grad():
            want["again.0"] = layer(packed, state)[0].data
        got = part(sequences_from_c[0], name)
        assert got.keys() == want.keys()
        for key in want:
            assert_same(got[key], want[key].detach().contiguous(), f"{name}: {key}")


def test_layers_of_sequences_are_printed_as_in_python(sequences_from_c):
    assert sequences_from_c[1].splitlines() == SEQUENCE_TEXT


# --- TorchScript ---

class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 2)
        self.names: List[str] = ["a", "b"]

    def forward(self, x):
        return self.line(x)

    @torch.jit.export
    def scores(self, x, scale: float = 1.0) -> Dict[str, torch.Tensor]:
        y = self.line(x) * scale
        return {name: y[:, i] for i, name in enumerate(self.names)}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder with the programs of examples/c/models.py."""
    folder = tmp_path_factory.mktemp("programs")
    run_twin("models", folder)
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_programs_are_inspected_called_trained_and_saved(run_c, tmp_path):
    torch.jit.script(Scored()).save(str(tmp_path / "scored.pt"))
    assert run_c(os.path.join(HERE, "script.c"), tmp_path / "scored.pt", tmp_path / "copy.pt") == "0 wrong\n"


def test_the_classifier_prints_the_same_as_in_python(run_c, programs):
    data = os.path.join(EXAMPLES, "spirals.csv")
    c = run_c(os.path.join(EXAMPLES, "classifier.c"), programs / "classifier.pt", data, programs / "c.pt")
    assert_same_numbers(c, run_twin("classifier", programs / "classifier.pt", data, programs / "python.pt"))
    assert float(c.split()[4]) > 90


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_writer_writes_the_same_as_in_python_without_its_library(run_c, programs):
    lines = run_c(os.path.join(EXAMPLES, "writer.c"), programs / "writer.pt", "the ").splitlines()
    torch.manual_seed(7)
    writer = torch.jit.load(str(programs / "writer.pt"))
    want = [writer.write("the ", 40), writer.write("the ", 200, 0.0, ".")] + [writer.write("the ", 40, 0.7) for _ in range(3)]
    if not os.environ.get("VALGRIND"):
        assert lines[1:6] == want
    assert "builtins.ValueError: no such letter: x" in lines and lines[-1].startswith("Declaration: write(__torch__.Writer self")
    needed = subprocess.run(["ldd", os.path.join(INSTALLED, "lib", "libcresset.so")], capture_output=True, text=True).stdout
    assert "libpython" not in needed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_cresset_run_runs_an_archive(tmp_path):
    net = torch.jit.script(Scored())
    net.save(str(tmp_path / "scored.pt"))
    save_file({"x": torch.ones(2, 3)}, str(tmp_path / "in.safetensors"))

    def run(*args):
        return subprocess.run([os.path.join(INSTALLED, "bin", "cresset-run"), *map(str, args)], capture_output=True, text=True)
    out = run(tmp_path / "scored.pt", tmp_path / "in.safetensors", "-m", "scores", "-o", tmp_path / "out.safetensors")
    want = net.scores(torch.ones(2, 3))
    assert out.returncode == 0 and out.stdout.startswith("{a: ") and "[ CPUFloatType{2} ], b: " in out.stdout, out.stderr
    assert all(torch.equal(t, want[name]) for name, t in load_file(str(tmp_path / "out.safetensors")).items())
    assert "forward(__torch__.test_c.Scored self, Tensor x) -> Tensor" in run(tmp_path / "scored.pt").stdout
    bad = run(tmp_path / "in.safetensors", tmp_path / "in.safetensors")
    assert bad.returncode == 1 and bad.stderr.startswith("cresset-run: ")
    assert run().returncode == 2


# --- exported programs ---

class Mixed(nn.Module):
    """Products, lookups, several results, numbers of sizes, a written buffer, and a constant."""

    def __init__(self):
        super().__init__()
        self.line, self.table = nn.Linear(16, 8), nn.Embedding(5, 16)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, i, scale: float = 2.0):
        self.count.add_(1)
        top, where = torch.max(x, 1)
        y = torch.cat([x[i], self.table(i)]).softmax(-1)
        left, right = x.split([6, 10], 1)
        return (torch.relu(self.line(x)).view(x.shape[0], -1) * scale + self.count, top.to(torch.float64), where, y,
                left[:, :, None], right.sum() * float("inf"), x.shape[0] * 2)


class Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: torch.sin(x), (x,))


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.line(x)
        return self.line(y) + torch.full((3,), -1e300, dtype=torch.float64).float()


def cresset_run(*args):
    return subprocess.run([os.path.join(INSTALLED, "bin", "cresset-run"), *map(str, args)], capture_output=True, text=True)


def run_exported(path, folder, args, *options):
    """The tensors that cresset-run writes for these arguments."""
    save_file({str(k): x for k, x in enumerate(args)}, str(folder / "in.safetensors"))
    done = cresset_run(path, folder / "in.safetensors", "-o", folder / "out.safetensors", *options)
    assert done.returncode == 0, done.stderr
    found = load_file(str(folder / "out.safetensors"))
    return [found[k] for k in sorted(found, key=int)]


@pytest.mark.parametrize("name", ["perceptron", "picture", "turned", "line", "words", "operators"])
def test_exported_programs_of_c_are_read(run_c, tmp_path, name):
    """By Python and by C; parameters and buffers have their paths, and results the bits of the module."""
    assert run_c(os.path.join(HERE, "exported.c"), tmp_path) == ""
    tensors = load_file(str(tmp_path / f"{name}.safetensors"))
    program = torch.export.load(tmp_path / f"{name}.pt2")
    assert torch.equal(program.module()(tensors["in"]), tensors["out"])
    assert torch.equal(program.example_inputs[0][0], tensors["in"]) and all(str(n.target).startswith("aten.") for n in program.graph.nodes
                                                                            if n.op == "call_function")
    assert torch.equal(run_exported(tmp_path / f"{name}.pt2", tmp_path, (tensors["in"],))[0], tensors["out"])
    if name == "picture":
        assert list(program.state_dict)[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
        assert [n for n, _ in program.named_buffers()] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    torch.export.save(torch.export.load(tmp_path / f"{name}.pt2"), tmp_path / "again.pt2")
    assert torch.equal(torch.export.load(tmp_path / "again.pt2").module()(tensors["in"]), tensors["out"])


@pytest.mark.parametrize("module, args, shapes", [
    (Mixed(), (torch.randn(4, 16), torch.tensor([0, 3])), {"x": {0: torch.export.Dim("batch", max=64)}, "i": None, "scale": None}),
    (Branches(), (torch.ones(3),), None),
    (Branches(), (-torch.ones(3),), None),
    (Modes().eval(), (torch.randn(2, 3),), None),
    (nn.LSTM(4, 6), (torch.randn(5, 1, 4),), None),
    (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.randn(2, 5, 8),), None),
    (nn.Sequential(nn.Conv2d(1, 4, 3, padding="same"), nn.BatchNorm2d(4), nn.Hardswish(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                   nn.Linear(16, 3)).eval(), (torch.randn(2, 1, 7, 7),), None),
])
def test_cresset_run_gives_the_bits_of_exported_programs(module, args, shapes, tmp_path):
    given = (*args, 2.0) if isinstance(module, Mixed) else args
    program = torch.export.export(module, given, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    for k in range(2):
        want = [x for x in torch.utils._pytree.tree_leaves(program.module()(*given)) if isinstance(x, torch.Tensor)]
        if k or not isinstance(module, Mixed):
            got = run_exported(tmp_path / "model.pt2", tmp_path, args, *(["-n", "2"] if isinstance(module, Mixed) else []))
            assert len(got) == len(want)
            assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(got, want))


def test_cresset_run_checks_what_an_exported_program_takes(tmp_path):
    dim = torch.export.Dim("batch", min=3, max=64)
    torch.export.save(torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),), dynamic_shapes=({0: dim},)), tmp_path / "m.pt2")
    shown = cresset_run(tmp_path / "m.pt2").stdout
    name = re.search(r"^input input float32 (\w+),2$", shown, re.M)[1]
    assert f"output linear float32 {name},3\n" in shown and f"size {name} 3 64 4\n" in shown
    for x, words in [(torch.zeros(2, 2), "input input: the size of dim 0 must be at least 3"),
                     (torch.zeros(65, 2), "input input: the size of dim 0 must be at most 64"),
                     (torch.zeros(4, 3), "input input: the size of dim 1 must be 2"),
                     (torch.zeros(4), "input input: the number of dims must be 2"),
                     (torch.zeros(4, 2, dtype=torch.float64), "input input: the dtype must be float32")]:
        save_file({"input": x}, str(tmp_path / "in.safetensors"))
        bad = cresset_run(tmp_path / "m.pt2", tmp_path / "in.safetensors")
        assert bad.returncode == 1 and words in bad.stderr, bad.stderr
    assert run_exported(tmp_path / "m.pt2", tmp_path, (torch.zeros(64, 2),))[0].shape == (64, 3)


def test_cresset_run_draws_arguments_and_reads_and_writes_npy(tmp_path):
    np = pytest.importorskip("numpy")
    module = nn.Linear(2, 3)
    torch.export.save(torch.export.export(module, (torch.zeros(4, 2),), dynamic_shapes=({0: torch.export.Dim("b")},)), tmp_path / "m.pt2")
    name = re.search(r"^size (\w+)", cresset_run(tmp_path / "m.pt2").stdout, re.M)[1]
    done = cresset_run(tmp_path / "m.pt2", "-r", 7, "-s", f"{name}=6", "-o", tmp_path / "out.npy", "-n", 3)
    assert done.returncode == 0 and "3 calls: least " in done.stderr, done.stderr
    torch.manual_seed(7)
    x = torch.randn(6, 2)
    assert np.array_equal(np.load(tmp_path / "out.npy"), module(x).detach().numpy())
    np.save(tmp_path / "x.npy", x.numpy())
    again = cresset_run(tmp_path / "m.pt2", tmp_path / "x.npy", "-o", tmp_path / "again.npy")
    assert again.returncode == 0 and (tmp_path / "again.npy").read_bytes() == (tmp_path / "out.npy").read_bytes()
    np.save(tmp_path / "x.npy", np.asfortranarray(x.numpy()))
    assert "no array in row-major order" in cresset_run(tmp_path / "m.pt2", tmp_path / "x.npy").stderr


def test_cresset_run_runs_compiled_packages(tmp_path):
    module, x = nn.Linear(2, 3), torch.randn(5, 2)
    program = torch.export.export(module, (torch.zeros(4, 2),), dynamic_shapes=({0: torch.export.Dim("b", max=9)},))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))
    assert "input input float32 " in cresset_run(tmp_path / "m.pt2").stdout
    save_file({"input": x}, str(tmp_path / "in.safetensors"))
    done = cresset_run(tmp_path / "m.pt2", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors")
    assert done.returncode == 0, done.stderr
    want = torch._inductor.aoti_load_package(str(tmp_path / "m.pt2"))(x)
    assert torch.equal(next(iter(load_file(str(tmp_path / "out.safetensors")).values())), want)
    assert len(cresset_run(tmp_path / "m.pt2", "-r", 1, "-s", "b=7").stdout.splitlines()) == 7  # a row each
    save_file({"input": x.double()}, str(tmp_path / "in.safetensors"))
    assert "must have the dtype float32" in cresset_run(tmp_path / "m.pt2", tmp_path / "in.safetensors").stderr


def test_cresset_run_refuses_damaged_and_hostile_exported_programs(tmp_path):
    torch.export.save(torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),)), tmp_path / "m.pt2")
    records = {}
    with zipfile.ZipFile(tmp_path / "m.pt2") as archive:
        for name in archive.namelist():
            records[name] = archive.read(name)
    model, config = "m/models/model.json", "m/data/weights/model_weights_config.json"

    def run(**changed):
        with zipfile.ZipFile(tmp_path / "bad.pt2", "w", zipfile.ZIP_STORED) as archive:
            for name, content in records.items():
                key = {model: "model", config: "config"}.get(name)
                if key not in changed or changed[key] is not None:
                    archive.writestr(name, changed.get(key, content))
        done = cresset_run(tmp_path / "bad.pt2", "-r", 1)
        assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("cresset-run: "), done
        return done.stderr

    def edit(name, old, new):
        assert old in records[name], records[name]
        return records[name].replace(old, new)
    assert "is no JSON text: a bracket is missing" in run(model=records[model][:-2])
    assert "schema version 9" in run(model=edit(model, b'"major": 8', b'"major": 9'))
    assert "there is no operator aten.no_such_one" in run(model=edit(model, b"aten.linear.", b"aten.no_such_one."))
    assert "has no form without Python" in run(model=edit(model, b"torch.ops.aten.linear.default", b"os.system"))
    assert "a value has no name" in run(model=edit(model, b'{"as_tensor": {"name": "linear"}}', b'{"as_tensor": {"name": "x = 1\\n  "}}'))
    assert "an unknown dtype" in run(config=edit(config, b'"dtype": 7', b'"dtype": 99'))
    assert "no tensor 'weight'" in run(config=edit(config, b'"weight"', b'"heavy"'))
    assert "storage" in run(config=edit(config, b'"sizes": [{"as_int": 3}, {"as_int": 2}]', b'"sizes": [{"as_int": 3}, {"as_int": 2000000}]'))
    assert "the sizes of a tensor" in run(config=edit(config, b'"sizes": [{"as_int": 3}, {"as_int": 2}]', b'"sizes": [{"as_float": 3.5}, {"as_int": 2}]'))
    random = Random(0)
    for name in (model, config):
        for _ in range(60):
            text = bytearray(records[name])
            for _ in range(random.randrange(1, 4)):
                text[random.randrange(len(text))] = random.choice(b'0129{}[],:"-aez')
            with zipfile.ZipFile(tmp_path / "bad.pt2", "w", zipfile.ZIP_STORED) as archive:
                for other, content in records.items():
                    archive.writestr(other, bytes(text) if other == name else content)
            assert cresset_run(tmp_path / "bad.pt2", "-r", 1).returncode in (0, 1)


# --- programs that C built ---

def test_a_network_that_c_built_becomes_c_and_a_file_of_the_runtime(run_c, tmp_path):
    run_c(os.path.join(EXAMPLES, "export.c"), tmp_path)
    want = torch.frombuffer(bytearray((tmp_path / "out").read_bytes()), dtype=torch.float32)
    main = """#include <stdio.h>
#include <stdlib.h>
size_t net_work_bytes(void), net_half_work_bytes(void);
int net_run(const float *in, float *out, void *work), net_half_run(const float *in, float *out, void *work);
int main(void)
{
    static float in[128], out[20];
    void *work = malloc(net_work_bytes() + net_half_work_bytes());
    if (fread(in, 4, 128, stdin) != 128 || net_run(in, out, work) || fwrite(out, 4, 20, stdout) != 20)
        return 1;
    return net_half_run(in, out, work) || fwrite(out, 4, 20, stdout) != 20;
}
"""
    (tmp_path / "main.c").write_text(main)
    subprocess.run(["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off", "main.c", "net.c", "net_half.c",
                    "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, input=(tmp_path / "in").read_bytes(), capture_output=True, check=True)
    found = torch.frombuffer(bytearray(done.stdout), dtype=torch.float32)
    assert torch.allclose(found[:20], want, rtol=1e-5, atol=1e-6)
    assert torch.allclose(found[20:], want, rtol=1e-2, atol=1e-2) and not torch.equal(found[:20], found[20:])
    assert "static const uint16_t w_" in (tmp_path / "net_half.c").read_text()

    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    from rt_library import Program, build
    program = Program(build(tmp_path / "rt"), (tmp_path / "net.rt").read_bytes())
    x = torch.frombuffer(bytearray((tmp_path / "in").read_bytes()), dtype=torch.float32).view(2, 1, 8, 8)
    assert torch.equal(program(x)[0].view(-1), found[:20])
    assert torch.equal(torch.export.load(tmp_path / "net.pt2").module()(x).view(-1), want)
