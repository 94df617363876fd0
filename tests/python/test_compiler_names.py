"""Names of torch.compiler: settings, caches as bytes, functions compiled ahead, filters of guards."""
import os
import subprocess
import sys
import types

import pytest

import cresset as torch
from cresset import nn
from cresset.nn import functional as F

TORCHS = """compile config assume_constant_result reset allow_in_graph substitute_in_graph list_backends disable
set_default_backend get_default_backend set_stance set_enable_guard_collectives cudagraph_mark_step_begin
load_compiled_function wrap_numpy is_compiling is_dynamo_compiling is_exporting save_cache_artifacts
load_cache_artifacts keep_portable_guards_unsafe skip_guard_on_inbuilt_nn_modules_unsafe
skip_guard_on_all_nn_modules_unsafe keep_tensor_guards_unsafe skip_guard_on_globals_unsafe skip_all_guards_unsafe
nested_compile_region""".split()


def test_every_name_is_there():
    assert [name for name in TORCHS if name not in torch.compiler.__all__ or not hasattr(torch.compiler, name)] == []


def test_settings_are_shared_with_recordings():
    config, recording = torch.compiler.config, torch._dynamo.config
    assert config.recompile_limit == recording.recompile_limit == 8
    with config.patch(recompile_limit=3, cache_key_tag="a"):
        assert recording.recompile_limit == 3 and config.cache_key_tag == "a"
    assert recording.recompile_limit == 8 and config.cache_key_tag == ""
    with pytest.raises(AttributeError, match="does not exist"):
        config.nothing
    with pytest.raises(AttributeError, match="does not exist"):
        config.patch(nothing=1)


def test_patches_and_disabled_functions_are_told():
    with torch._dynamo.patch_dynamo_config("recompile_limit", 2):
        assert torch._dynamo.config.recompile_limit == 2
    ask = torch._dynamo.is_dynamo_disable_recursive
    assert [ask(len), ask(torch.compiler.disable(len)), ask(torch.compiler.disable(len, recursive=False))] == [None, True, False]


def test_filters_of_guards():
    def guard(kind, value=None, is_global=False, module=False, builtin=False):
        source = types.SimpleNamespace(is_unspecialized_nn_module=lambda: module,
                                       is_unspecialized_builtin_nn_module=lambda: builtin)
        return types.SimpleNamespace(guard_type=kind, value=value, is_global=is_global,
                                     orig_guard=types.SimpleNamespace(source=source))
    guards = [guard("TENSOR_MATCH", torch.ones(1)), guard("TENSOR_MATCH", nn.Parameter(torch.ones(1)), True),
              guard("GLOBAL_STATE"), guard("ID_MATCH", module=True), guard("ID_MATCH", module=True, builtin=True)]
    kept = {name: getattr(torch.compiler, name)(guards) for name in TORCHS if name.endswith("_unsafe")}
    T, N = True, False
    assert kept == {
        "keep_portable_guards_unsafe": [T, N, T, N, N], "keep_tensor_guards_unsafe": [T, N, N, N, N],
        "skip_guard_on_inbuilt_nn_modules_unsafe": [T, T, T, T, N], "skip_guard_on_all_nn_modules_unsafe": [T, T, T, N, N],
        "skip_guard_on_globals_unsafe": [T, N, T, T, T], "skip_all_guards_unsafe": [N] * 5}
    assert torch.compiler.keep_tensor_guards_unsafe(guards, keep_parameters=True) == [T, T, N, N, N]
    f = torch.compile(lambda x: x + 1, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe})
    assert [f(torch.ones(n)).tolist() for n in (1, 2, 2)] == [[2.], [2., 2.], [2., 2.]]


def test_collectives_are_a_setting():
    assert torch.compiler.set_enable_guard_collectives(True) is False
    assert torch.compiler.set_enable_guard_collectives(False) is True


def test_a_marked_region_is_the_function():
    def f(x):
        return x.sin() + 1
    assert torch.compiler.nested_compile_region(f) is f
    assert torch.compiler.nested_compile_region()(f) is f
    outer = torch.compile(lambda x: torch.compiler.nested_compile_region(f)(f(x)), fullgraph=True)
    assert torch.equal(outer(torch.ones(3)), f(f(torch.ones(3))))
    with pytest.raises(TypeError, match="expects a callable"):
        torch.compiler.nested_compile_region(3)
    with pytest.raises(NotImplementedError, match="options must be None"):
        torch.compiler.nested_compile_region(f, options=3)
    with pytest.raises(TypeError, match="fn_names"):
        torch.compiler.nested_compile_region(f, fn_names="f")


def test_caches_are_not_used_when_they_are_disabled(tmp_path):
    program = """
import sys
import cresset as torch
torch.compiler.config.force_disable_caches = sys.argv[1] == "off"
torch._dynamo.config.deferred_calls = 0
f, x = torch.compile(lambda x: (x * 3 + 1).tanh() * x), torch.arange(4096.)
f(x), f(x)
torch._C._jit_wait(60.)
c = torch._C._jit_counts()
print(c["compiled"], c["from_disk"], torch._C._cache_measure(False)[0] > 0, torch.equal(f(x), (x * 3 + 1).tanh() * x))
"""
    def run(how):
        done = subprocess.run([sys.executable, "-c", program, how], text=True, capture_output=True, timeout=120,
                              env={**os.environ, "CR_CACHE": str(tmp_path / "cache")})
        return done.stdout or done.stderr
    assert [run(how) for how in ("off", "on", "on", "off")] == [
        "1 0 False True\n", "1 0 True True\n", "0 1 True True\n", "1 0 True True\n"]


def small(x, scale, shift=1):
    return F.relu(x * scale) + shift


def test_a_function_is_compiled_saved_and_loaded(tmp_path):
    x = torch.arange(-3., 3.)
    ahead = torch.compile(small, fullgraph=True).aot_compile(((x, 2), {}))
    path = tmp_path / "small.pt"
    ahead.save_compiled_function(path)
    with open(path, "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    for f in (ahead, loaded):
        for _ in range(3):
            assert torch.equal(f(x + 1, 2), small(x + 1, 2))
        assert torch.equal(f(x, scale=2), small(x, 2))
        with pytest.raises(RuntimeError, match=r"GuardManager check failed, reason: leaf 1 is 3"):
            f(x, 3)
        with pytest.raises(RuntimeError, match=r"GuardManager check failed, reason: leaf 0 is \(\(2,\)"):
            f(x[:2], 2)
        with pytest.raises(TypeError, match="no argument 'y'"):
            f(x, 2, y=1)


@pytest.mark.deferred_calls(0)
def test_a_module_is_saved_with_its_parameters(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3)
    expected = model(x)
    torch.compile(model).aot_compile(((x,), {})).save_compiled_function(tmp_path / "model.pt")
    loaded = torch.compiler.load_compiled_function(tmp_path / "model.pt")
    assert torch.equal(loaded(x), expected)
    expected.sum().backward()
    loaded(x).sum().backward()


def test_a_file_of_something_else_is_refused(tmp_path):
    torch.save([1], tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="has no compiled function"):
        torch.compiler.load_compiled_function(tmp_path / "x.pt")


CACHES = """
import sys, cresset as torch
torch.manual_seed(0)
f = torch.compile(lambda x: (x * 3.25).sin().cos().exp().sum(-1))
if len(sys.argv) > 2:
    info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
    assert info.inductor_artifacts and not info.empty()
else:
    assert torch.compiler.save_cache_artifacts() is None
x = torch.randn(64, 4096)
for _ in range(3):
    f(x)
torch._C._jit_wait(60.)
f(x)
if len(sys.argv) == 2:
    content, info = torch.compiler.save_cache_artifacts()
    assert info.inductor_artifacts
    open(sys.argv[1], "wb").write(content)
counts = torch._C._jit_counts()
print(counts["compiled"] + counts["from_memory"], counts["from_disk"])
"""


def test_kernels_travel_as_bytes(tmp_path):
    def run(cache, *args):
        out = subprocess.run([sys.executable, "-c", CACHES, str(tmp_path / "artifacts"), *args], text=True, check=True,
                             capture_output=True, env={**os.environ, "CR_CACHE": str(tmp_path / cache)}, timeout=300)
        return [int(n) for n in out.stdout.split()]
    compiled, _ = run("first")
    again, from_disk = run("second", "load")
    assert compiled > 0 and again < compiled and from_disk > 0


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="not the bytes of save_cache_artifacts"):
        torch.compiler.load_cache_artifacts(b"nothing")
    with pytest.raises(TypeError, match="not str"):
        torch.compiler.load_cache_artifacts("text")
