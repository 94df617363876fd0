"""to_rt(): files that the runtime (make rt) runs beside the program."""
import shutil
import subprocess

import cresset as torch
import pytest
import rt_library
from cresset import nn
from cresset.export import export, to_c, to_rt
from test_c_file import EXACT, MODELS, OPTIMIZERS, TRAINED, Loss, Memory, equal_bits, run_file

F = nn.functional

pytestmark = pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("make")), reason="no gcc or make")


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    return rt_library.build(tmp_path_factory.mktemp("rt"))


def test_programs_of_no_exporter(lib, tmp_path):
    """Overwritten indices, tables that are read backwards, names without an end."""
    top = rt_library.TOP
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{top}/src", f"-I{top}/include", f"{top}/tests/rt/places.c", lib._name,
                    "-lm", "-o", tmp_path / "places"], check=True)
    ran = subprocess.run([tmp_path / "places"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def close(a, b):
    least = 1e-12 if b.dtype == torch.float64 else 2e-5
    return torch.allclose(a.double(), b.double(), rtol=5 * least, atol=least, equal_nan=True)


# What the runtime lacks: models, and models whose gradients it lacks.
ABSENT, UNTRAINED = {"resampled"}, {"convolutions"}


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ABSENT])
def test_results(name, lib):
    make, arguments, products = MODELS[name]
    torch.manual_seed(0)
    module, args = make().eval(), arguments()
    with torch.no_grad():
        want = module(*args)
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    got = rt_library.Program(lib, to_rt(export(module, args)))(*args)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert close(a, b) if products or not EXACT else equal_bits(a, b), (k, a, b)


@pytest.mark.parametrize("name", ["digits", "encoder"])
def test_results_have_the_bits_of_the_c_file(name, lib, tmp_path):
    make, arguments, _ = MODELS[name]
    torch.manual_seed(0)
    program, args = export(make().eval(), arguments()), arguments()
    got = rt_library.Program(lib, to_rt(program))(*args)
    rc, want = run_file(tmp_path, to_c(program), args, got, "gcc", [])
    assert rc == 0 and all(equal_bits(a, b) for a, b in zip(got, want, strict=True))


def test_arrays_have_names_and_sizes(lib, tmp_path):
    program = export(Memory().eval(), (torch.randn(1, 3), torch.tensor([2])))
    data = to_rt(program, tmp_path / "memory.rt")
    assert (tmp_path / "memory.rt").read_bytes() == data
    run = rt_library.Program(lib, data)
    assert [(a.name.decode(), a.kind, rt_library.DTYPES[a.dtype], a.size[:a.ndim]) for a in run.arrays] == [
        ("x", rt_library.INPUT, torch.float32, [1, 3]), ("at", rt_library.INPUT, torch.int64, [1]),
        ("keys", rt_library.STATE, torch.float32, [5, 3]), ("calls", rt_library.STATE, torch.int64, []),
        ("out0", rt_library.RESULT, torch.float32, [5])]
    assert [run.number(n) for n in ("keys", "key", "keyss", "out0", "")] == [2, -1, -1, 4, -1]


def test_states(lib):
    torch.manual_seed(0)
    module = Memory().eval()
    steps = [(torch.randn(1, 3), torch.tensor([k % 5])) for k in range(7)]
    run = rt_library.Program(lib, to_rt(export(module, steps[0])))
    got = torch.stack([run(*step)[0] for step in steps])
    with torch.no_grad():
        want = torch.stack([module(*step) for step in steps])
    assert torch.allclose(got, want, atol=1e-6)
    assert int(run.tensor(run.number("calls"))) == 7 and torch.allclose(run.tensor(run.number("keys")), module.keys, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("model", [n for n in TRAINED if n not in UNTRAINED])
def test_training(model, name, lib):
    """Losses of 20 steps are those of the same steps here."""
    torch.manual_seed(0)
    (make, example), (training, optimizer) = TRAINED[model], OPTIMIZERS[name]
    module = Loss(make())
    steps = [(example(), torch.randint(0, 3, (5,))) for _ in range(20)]
    run = rt_library.Program(lib, to_rt(export(module, steps[0]), training=training))
    got = torch.stack([run(*step)[0] for step in steps])
    trained, want = optimizer(module.parameters()), []
    for step in steps:
        trained.zero_grad()
        loss = module(*step)
        loss.backward()
        trained.step()
        want.append(loss.detach())
    assert torch.allclose(got, torch.stack(want), rtol=1e-5, atol=0)
    assert not torch.allclose(got[:1].expand(20), got, rtol=1e-4)


class Kinds(nn.Module):
    """Integers of all widths, truths, conversions between them, and selections."""

    def forward(self, i, x):
        j = i.to(torch.int8)
        return (i + i, i * 7 - 3, -i, i.abs(), j + j, j * j, j.to(torch.uint8) * 9, i.to(torch.int16) * 9000, i.int() * 2**30, i.bool(), i > 1, ~i,
                ~(i > 1), (i > 0) ^ (i < 3), i.clamp(-1, 2), i.amax(0), i.sum(0), i.argmin(0), (i > 0).all(0), x.long(), x.int(), x.to(torch.uint8), i.double() / 3,
                x.double().exp(), i.float().sigmoid(), torch.where(x > 0, i, -i), x.isinf(), x.isnan(), x.isfinite(), x.bool(), x.double().floor().long())


def test_integers_and_conversions(lib):
    args = torch.tensor([[3, -2, 0, 100], [1, 1, -100, 5]]), torch.tensor([[1.5, -2.5, float("inf"), 0.0], [1e5, float("nan"), 300.7, -1.0]])
    want = Kinds()(*args)
    got = rt_library.Program(lib, to_rt(export(Kinds(), args)))(*args)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == b.dtype and (equal_bits(a, b) if b.dtype != torch.float64 else close(a, b)), (k, a, b)


def test_an_index_out_of_range_is_an_error(lib):
    run = rt_library.Program(lib, to_rt(export(nn.Embedding(7, 3), (torch.tensor([1, 2]),))))
    with pytest.raises(ValueError, match="an index of an element is out of range"):
        run(torch.tensor([1, 7]))
    run(torch.tensor([0, 6]))


def test_a_build_for_given_programs_refuses_others(lib, tmp_path):
    torch.manual_seed(0)
    x, modules = torch.randn(3, 8), [nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()), nn.Sequential(nn.LayerNorm(8), nn.Flatten()), nn.Tanh()]
    files = [to_rt(export(m, (x,)), tmp_path / f"{k}.rt") for k, m in enumerate(modules)]
    few = rt_library.build(tmp_path / "few", [tmp_path / "0.rt", tmp_path / "1.rt"])
    for data in files[:2]:
        assert equal_bits(rt_library.Program(few, data)(x)[0], rt_library.Program(lib, data)(x)[0])
    rt_library.Program(lib, files[2])(x)
    with pytest.raises(ValueError, match="this build of the library lacks an operator of the program"):
        rt_library.Program(few, files[2])


def test_damaged_files_are_refused(lib):
    data = to_rt(export(nn.Linear(3, 2), (torch.randn(4, 3),)))
    for n in (0, 8, 63, 64, len(data) - 8, len(data) + 8):
        with pytest.raises(ValueError, match="no program|missing or have changed"):
            rt_library.Program(lib, (data + bytes(8))[:n])
    for at in range(0, len(data), 7):
        with pytest.raises(ValueError, match="no program|missing or have changed"):
            rt_library.Program(lib, data[:at] + bytes([data[at] ^ 16]) + data[at + 1:])


class Sorted(nn.Module):
    def forward(self, x):
        return x.sort()[0]


def test_what_the_runtime_lacks_is_an_error_of_export():
    x = torch.randn(2, 1, 3, 4, 5)
    with pytest.raises(ValueError, match="to_rt: the program calls convolution of three dims, which the runtime lacks"):
        to_rt(export(nn.Conv3d(1, 1, 2), (x,)))
    with pytest.raises(ValueError, match="to_rt: the program calls sort"):
        to_rt(export(Sorted(), (x,)))
    with pytest.raises(ValueError, match="to_rt: .*float16"):
        to_rt(export(nn.ReLU(), (x.half(),)))
    with pytest.raises(ValueError, match="to_rt: training with RMSprop"):
        to_rt(export(Loss(nn.Linear(2, 2)), (torch.randn(1, 2), torch.tensor([0]))), training=torch.optim.RMSprop)
