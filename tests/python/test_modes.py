"""compile()'s modes and options: accepted and rejected values, and their effects."""
import os
import pickle

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import nn
from cresset._inductor import config

FINE = 60.0


def settled(f, *args):
    """Returns the result of native code, after some calls."""
    for _ in range(2):
        f(*args)
    for e in getattr(f, "_compiled_forward", f)._entries:
        e.runner.wait(FINE)
    return f(*args)


def chain(x, y):
    return (x * y + x).sigmoid() * y - x


# --- options ---

@pytest.mark.parametrize("given, error, text", [
    ({"options": {"foo": 1}}, RuntimeError, "Unexpected optimization option foo, known options are ["),
    ({"options": {"max_autotune": 1}}, RuntimeError, "Unexpected type of attr max_autotune, got int should be bool"),
    ({"options": {"max-autotune": None}}, RuntimeError,
     "Unexpected type of attr max-autotune, got NoneType should be bool"),
    ({"options": 3}, AttributeError, "'int' object has no attribute 'items'"),
    ({"mode": "foo"}, RuntimeError, "Unrecognized mode=foo, should be one of: default, lite, reduce-overhead, "
     "max-autotune-no-cudagraphs, max-autotune"),
    ({"mode": "default", "options": {}}, RuntimeError,
     "Either mode or options can be specified, but both can't be specified at the same time."),
])
def test_wrong_modes_and_options(given, error, text):
    with pytest.raises(error) as e:
        torch.compile(chain, **given)
    assert str(e.value).startswith(text)


def test_names_of_modes_and_options():
    assert torch._inductor.list_mode_options()["reduce-overhead"] == {"triton.cudagraphs": True}
    assert torch._inductor.list_mode_options("max-autotune-no-cudagraphs") == {
        "max_autotune": True, "coordinate_descent_tuning": True}
    with pytest.raises(RuntimeError, match="Unrecognized mode=zz"):
        torch._inductor.list_mode_options("zz")
    names = torch._inductor.list_options()
    assert {"fast", "epilogue_fusion", "max_autotune", "trace.enabled", "triton.cudagraphs"} <= set(names)
    for name in names:  # each accepts a value of its type
        if config.get(name) is not None:
            torch.compile(chain, options={name: config.get(name)})
    torch.compile(chain, options={"epilogue-fusion": True})


def test_settings_hold_for_all_functions_while_they_are_patched():
    with config.patch({"trace.enabled": True}), config.patch(fast=True):
        assert config.trace.enabled and config.fast
    assert not config.trace.enabled and not config.fast
    with pytest.raises(AttributeError, match="cresset._inductor.config.foo does not exist"):
        config.patch(foo=1)
    x, y = torch.randn(2, 500).bfloat16()
    with config.patch(fast=True):
        fast = settled(torch.compile(chain), x, y)
    assert torch.equal(fast, settled(torch.compile(chain, options={"fast": True}), x, y))
    assert not torch.equal(fast, chain(x, y))


def test_other_backends_get_mode_and_options():
    seen = []

    def backend(gm, inputs, **given):
        seen.append(given)
        return gm.forward
    for given in ({"mode": "default"}, {"mode": "max-autotune"}, {"options": {}}, {"options": {"a": 2}}):
        torch.compile(chain, backend=backend, **given)(torch.ones(2), torch.ones(2))
    assert seen == [{}, {"mode": "max-autotune"}, {}, {"options": {"a": 2}}]


@pytest.mark.deferred_calls(0)
def test_traces_are_written(tmp_path):
    f = torch.compile(chain, options={"trace.enabled": True, "trace.graph_diagram": True,
                                      "trace.debug_dir": str(tmp_path)})
    f(torch.ones(3), torch.ones(3))
    (folder, _, files), = [x for x in os.walk(tmp_path) if x[2]]
    assert sorted(files) == ["fused.txt", "graph.txt", "graph_diagram.svg", "output_code.c", "steps.txt"]
    text = {name: open(os.path.join(folder, name), encoding="utf-8").read() for name in files}
    assert "sigmoid" in text["graph.txt"] and "group" in text["fused.txt"] and text["graph_diagram.svg"][:4] == "<svg"
    assert "cv_sigmoid_f32" in text["output_code.c"]


def test_lite_makes_no_groups():
    f = torch.compile(chain, mode="lite")
    x, y = torch.randn(2, 100)
    assert torch.equal(settled(f, x, y), chain(x, y))
    assert f._entries[0].runner.groups == 0
    g = torch.compile(chain)
    settled(g, x, y)
    assert g._entries[0].runner.groups == 1


def test_modules_keep_their_options_when_they_are_pickled():
    m = torch.compile(nn.Linear(3, 3), options={"fast": True})
    again = pickle.loads(pickle.dumps(m))
    assert again._how.settings == {"fast": True}


# --- fast ---

@pytest.mark.parametrize("dtype, most", [(torch.float32, 1e-5), (torch.float64, 1e-13), (torch.float16, 0.02),
                                         (torch.bfloat16, 0.15)])
@pytest.mark.parametrize("threads", [1, 2])
def test_fast_differs_by_rounding_and_strict_does_not(dtype, most, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, y = torch.randn(2, 3000, generator=torch.Generator().manual_seed(0)).to(dtype)
        eager = chain(x, y)
        assert torch.equal(settled(torch.compile(chain), x, y), eager)
        fast = settled(torch.compile(chain, options={"fast": True}), x, y)
        assert fast.dtype == dtype
        # without fused multiply-adds both round at the same places
        assert torch._C._build_config()["capability"] == "DEFAULT" or not torch.equal(fast, eager)
        assert (fast - eager).abs().max().item() <= most
        assert torch.equal(settled(torch.compile(chain), x, y), eager)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_fast_chains_of_half_types_lose_less(dtype):
    """Chains are computed in float32, so their error is close to that of a single rounding."""
    x, y = torch.randn(2, 20000, generator=torch.Generator().manual_seed(0)).to(dtype)
    exact = chain(x.double(), y.double())

    def error(z):
        return (z.double() - exact).abs().mean().item()
    one = error(exact.to(dtype))
    eager, fast = error(chain(x, y)), error(settled(torch.compile(chain, options={"fast": True}), x, y))
    assert one <= fast < 1.1 * one and eager > 1.2 * one


@pytest.mark.deferred_calls(0)
def test_fast_is_the_same_by_tiles_and_by_native_code():
    f = torch.compile(chain, options={"fast": True})
    x, y = torch.randn(2, 5000)
    f(x, y)
    tiles = f(x, y)
    assert torch.equal(tiles, settled(f, x, y))


def test_fast_training_steps_come_near_eager_ones():
    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(20, 30), nn.LayerNorm(30), nn.GELU(), nn.Linear(30, 5))

    def train(m, step):
        opt = torch.optim.SGD(m.parameters(), lr=0.1)
        losses = []
        for _ in range(5):
            opt.zero_grad()
            loss = F.cross_entropy(step(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return losses
    torch.manual_seed(1)
    x, y = torch.randn(16, 20), torch.randint(0, 5, (16,))
    a, b = make(), make()
    eager, fast = train(a, a), train(b, torch.compile(b, options={"fast": True}))
    assert eager == pytest.approx(fast, rel=1e-4)


# --- max-autotune ---

MEASURED = """
import cresset as torch, sys
torch.set_num_threads(int(sys.argv[1]))
F = torch.nn.functional
g = torch.Generator().manual_seed(0)
def chain(x, y): return (x * y + x) * y - x
def rows(x, b): return F.softmax(x * 2 + b, -1), F.gelu(x + b)
def columns(x, b): return (x * b + x).sum(0)
cases = [(chain, torch.randn(2, 20000, generator=g)), (chain, torch.randn(2, 300, 70, generator=g).bfloat16()),
         (rows, [torch.randn(400, 50, generator=g), torch.randn(50, generator=g)]),
         (columns, [torch.randn(200, 300, generator=g), torch.randn(300, generator=g)])]
for f, args in cases:
    wanted, compiled = f(*args), torch.compile(f, mode=sys.argv[2])
    equal = lambda a, b: all(map(torch.equal, a, b)) if isinstance(a, tuple) else torch.equal(a, b)
    compiled(*args)
    for i in range(240):
        assert equal(compiled(*args), wanted), (f, i)
        if i % 40 == 0:  # kernels of other schedules are asked for by a call
            torch._C._jit_wait(60)
"""


def measured(cache, threads, mode="max-autotune", **env):
    """Returns the log lines of a process that measures: chosen schedules, and those that an
    earlier process measured."""
    import subprocess
    import sys
    e = {**os.environ, "CR_CACHE": str(cache), "CR_LOG": "autotune", **env}
    r = subprocess.run([sys.executable, "-c", MEASURED, str(threads), mode], env=e, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    lines = [line for line in r.stderr.splitlines() if line.startswith("[autotune]")]
    return [x for x in lines if x.endswith("stays")], [x for x in lines if "stored measurement" in x]


@pytest.mark.parametrize("threads", [1, 2])
def test_schedules_are_measured_and_stored(tmp_path, threads):
    fresh, known = measured(tmp_path, threads)
    assert len(fresh) >= 4 and not known
    assert all("plain" in x and "calls" in x for x in fresh)
    assert any("wide" in x and "narrow" in x for x in fresh) and any("small tiles" in x for x in fresh)
    again, known = measured(tmp_path, threads)
    assert not again and len(known) == len(fresh)
    for note in tmp_path.glob("*.sc"):
        note.write_bytes(note.read_bytes()[:-9])
    fresh, known = measured(tmp_path, threads)
    assert len(fresh) >= 4 and not known


def test_groups_are_measured_beside_calls_of_their_nodes(tmp_path):
    fresh, known = measured(tmp_path, 2, "default")
    assert len(fresh) >= 4 and not known
    assert all("plain" in x and "calls" in x and "wide" not in x and "tiles" not in x for x in fresh)
    again, known = measured(tmp_path, 2, "default")
    assert len(again) == len(fresh) and not known


LAYERS = """
import cresset as torch
w = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
def layers(x):
    for _ in range(6):
        x = torch.tanh(x @ w) * 2 + 1
    return x
x = torch.ones(64, 64)
wanted, compiled = layers(x), torch.compile(layers)
compiled(x)
for i in range(60):
    assert torch.equal(compiled(x), wanted), i
    if i == 1:
        torch._C._jit_wait(60)
"""


def test_equal_groups_are_measured_once(tmp_path):
    import subprocess
    import sys
    e = {**os.environ, "CR_CACHE": str(tmp_path), "CR_LOG": "autotune"}
    r = subprocess.run([sys.executable, "-c", LAYERS], env=e, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert sum(line.endswith("stays") for line in r.stderr.splitlines()) == 1, r.stderr


def test_without_a_compiler_tiles_are_measured_beside_calls(tmp_path):
    fresh, _ = measured(tmp_path, 1, CR_CC="/none")
    assert len(fresh) >= 4 and all("plain" in x and "calls" in x and "wide" not in x for x in fresh)


class Handled:
    """An argument that answers every function with its name."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__


@pytest.mark.parametrize("call", [
    lambda x: torch.nn.init.uniform_(x), lambda x: torch.nn.init.normal_(x), lambda x: torch.nn.init.constant_(x, 1.),
    lambda x: torch.nn.init.kaiming_uniform_(x), lambda x: torch.unravel_index(x, (2, 3)), lambda x: torch.stft(x, 4)])
def test_functions_of_python_are_handed_on(call):
    assert call(Handled()) in ("uniform_", "normal_", "constant_", "kaiming_uniform_", "unravel_index", "stft")
