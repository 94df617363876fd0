"""Names of torch that are functions, classes and switches in Python, by their results."""
import importlib
import threading
import types
from pathlib import Path

import pytest

import cresset as torch
import cresset.nn.functional as F

aten = torch.ops.aten


def test_a_missing_name_says_so():
    from cresset import _absent_names
    path = next(name for name in sorted(_absent_names.NAMES) if "." not in name)
    with pytest.raises(AttributeError, match=f"torch.{path} is not part of Cresset yet"):
        getattr(torch, path)
    assert not hasattr(torch, path) and getattr(torch, path, 3) == 3
    with pytest.raises(AttributeError, match="module '.*' has no attribute 'nothing_of_torch'"):
        torch.nothing_of_torch
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_torch'"):
        torch.nn.functional.nothing_of_torch


def test_a_missing_name_of_a_module_says_so():
    """Of every module that is there: the names of modules inside it, too."""
    from cresset import _absent_names
    tried = 0
    for path in sorted(_absent_names.NAMES):
        parent, _, name = path.rpartition(".")
        try:
            module = importlib.import_module(f"cresset.{parent}") if parent else torch
        except ImportError:
            continue
        if not isinstance(module, types.ModuleType) or hasattr(module, name):
            continue
        with pytest.raises(AttributeError, match=f"torch.{path} is not part of Cresset yet"):
            getattr(module, name)
        tried += 1
    assert tried > 50


def test_types_of_torchscript():
    T = torch.TensorType.get()
    assert repr(torch.ListType(torch.IntType.get())) == "List[int]" and torch.ListType.ofInts().str() == "int[]"
    assert torch.ListType.ofInts() == torch.ListType(torch.IntType.get()) != torch.ListType.ofFloats()
    assert torch.DictType(torch.StringType.get(), T).annotation_str == "Dict[str, Tensor]"
    assert torch.TupleType([T, torch.IntType.get()]).annotation_str == "Tuple[Tensor, int]"
    assert torch.OptionalType.ofTensor().annotation_str == "Optional[Tensor]" and torch.OptionalType(T).getElementType() == T
    assert torch.IntType.get().isSubtypeOf(torch.NumberType.get()) and not torch.NumberType.get().isSubtypeOf(torch.IntType.get())
    assert torch.NoneType.get().isSubtypeOf(torch.OptionalType(T)) and T.isSubtypeOf(torch.AnyType.get())
    assert not torch.ListType.ofInts().isSubtypeOf(torch.ListType(torch.NumberType.get()))
    assert torch.unify_type_list([torch.NoneType.get(), T]) == torch.OptionalType(T)
    C, number = torch._C, torch.IntType.get()
    for call, text in ((lambda: C.OptionalType(None), "OptionalType"), (lambda: C.ListType(None), "ListType"),
                       (lambda: C.FutureType(None), "FutureType"), (lambda: C.DictType(None, number), "DictType"),
                       (lambda: C.DictType(number, None), "DictType"), (lambda: C.TupleType([number, None]), "tuple"),
                       (lambda: C.UnionType([None]), "UnionType")):
        with pytest.raises(RuntimeError, match=f"^Can not create {text} with None type$"):
            call()
    for call in (lambda: C.OptionalType(3), lambda: C.DictType(number, 3), lambda: C.UnionType([number, "a"]), lambda: C.TupleType([3])):
        with pytest.raises(TypeError, match="expected a type, got"):
            call()
    with pytest.raises(RuntimeError, match="element 1 of type float did not match the types before it .int."):
        torch.unify_type_list([torch.IntType.get(), torch.FloatType.get()])
    assert torch._C.InferredType("why").reason() == "why" and torch._C.InferredType(T).type() == T


def test_schemas_are_read():
    s = torch.parse_schema("my::f.x(Tensor(a!) self, int[2] n=[1, 2], *, float? y=None) -> (Tensor(a!), Tensor[])")
    assert (s.name, s.overload_name, s.is_mutable) == ("my::f", "x", True)
    assert [a.name for a in s.arguments] == ["self", "n", "y"] and s.arguments[1].default_value == [1, 2]
    assert s.arguments[2].kwarg_only and s.arguments[0].alias_info.is_write and len(s.returns) == 2
    with pytest.raises(RuntimeError, match="expected a schema"):
        torch.parse_schema("nothing")


def test_operators_of_aten_in_python():
    x = torch.ones(2)
    assert aten._is_all_true(x > 0).item() and not aten._is_any_true(x < 0).item()
    aten._assert_async(torch.tensor(True))
    with pytest.raises(RuntimeError, match="why"):
        aten._assert_async.msg(torch.tensor(False), "why")
    with pytest.raises(RuntimeError, match="why"):
        aten._assert_scalar(False, "why")
    aten._assert_tensor_metadata(x, [2], [1], torch.float32)
    with pytest.raises(RuntimeError, match="Tensor dtype mismatch! Expected: torch.float64, Got: torch.float32"):
        aten._assert_tensor_metadata(x, None, None, torch.float64)
    assert [t.tolist() for t in aten._foreach_div([x], [x * 2])] == [[0.5, 0.5]] and aten._foreach_div([x], 4.0)[0].tolist() == [0.25] * 2
    aten._foreach_add_([x], 2.0)
    aten._foreach_maximum_([x], [torch.tensor([1.0, 5.0])])
    assert x.tolist() == [3, 5]
    assert aten.sym_size(torch.ones(2, 3), 1) == 3 and aten.sym_size.int(torch.ones(2, 3), 0) == 2
    assert aten.to(x, torch.float64).dtype == aten.to(x, torch.ones(1, dtype=torch.float64)).dtype == torch.float64
    assert aten.to(x, torch.device("cpu"), torch.int64).dtype == torch.int64 and "dtype" in aten.to.overloads()


def test_statistics_of_batches():
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    mean, invstd = torch.batch_norm_stats(x, 1e-5)
    want = F.batch_norm(x, None, None, training=True)
    assert torch.allclose(torch.batch_norm_elemt(x, None, None, mean, invstd, 1e-5), want)
    m, v = torch.batch_norm_update_stats(x, None, None, 0.1)
    assert torch.allclose(m, x.mean((0, 2))) and torch.allclose(v, x.var((0, 2), unbiased=False))


def test_fake_quantization():
    x = torch.tensor([-5.0, 0.04, 0.16, 3.0], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 2, 0, 10)
    assert torch.allclose(y, torch.tensor([-0.2, 0.0, 0.2, 0.8]))
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]
    with pytest.raises(RuntimeError, match="`zero_point` must be between `quant_min` and `quant_max`."):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 20, 0, 10)


def test_copies_of_parts_of_sparse_tensors():
    s, c = torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()
    assert torch.indices_copy(s).tolist() == s.indices().tolist() and torch.values_copy(s).tolist() == [1, 1]
    assert torch.crow_indices_copy(c).tolist() == [0, 1, 2] and torch.col_indices_copy(c).tolist() == [0, 1]
    assert torch.values_copy(s).data_ptr() != s.values().data_ptr()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_lobpcg(largest, sparse):
    torch.manual_seed(0)
    q, _ = torch.linalg.qr(torch.randn(40, 40, dtype=torch.float64))
    values = torch.arange(1.0, 41, dtype=torch.float64)
    a = (q * values) @ q.mT
    a = (a + a.mT) / 2
    e, v = torch.lobpcg(a.to_sparse() if sparse else a, k=3, largest=largest)
    want = values.flip(0)[:3] if largest else values[:3]
    assert torch.allclose(e, want, rtol=1e-6) and torch.allclose(a @ v, v * e, atol=1e-4)
    assert torch.allclose(v.mT @ v, torch.eye(3, dtype=torch.float64), atol=1e-8)


def test_lobpcg_of_a_pair_and_of_a_batch():
    torch.manual_seed(0)
    b = torch.diag(torch.linspace(1, 2, 12, dtype=torch.float64))
    a = torch.diag(torch.arange(1.0, 13, dtype=torch.float64))
    e, v = torch.lobpcg(a, k=2, B=b)
    assert torch.allclose(e, (a.diagonal() / b.diagonal()).sort(descending=True)[0][:2], rtol=1e-6)
    assert torch.lobpcg(torch.stack([a, 2 * a]), k=1)[0].shape == (2, 1)
    with pytest.raises(ValueError, match="LOBPCG algorithm is not applicable"):
        torch.lobpcg(a[:4, :4], k=2)


def test_embedding_renorm_():
    w = torch.full((3, 2), 5.0)
    assert torch.embedding_renorm_(w, torch.tensor([0, 2, 0]), 1.0, 2.0) is w
    assert w[1].tolist() == [5, 5] and torch.allclose(w[0], torch.full((2,), 0.5 ** 0.5)) and torch.equal(w[0], w[2])


def test_answers_about_libraries():
    assert torch.backends.mkldnn.is_available() == torch._C._has_dnnl() and not torch.backends.mkl.is_available()
    for name in ("cusparselt", "kleidiai", "nnpack"):
        assert not getattr(torch.backends, name).is_available()
    assert not torch.backends.cuda.can_use_flash_attention(torch.backends.cuda.SDPAParams(*[torch.ones(1)] * 3, None, 0.0, False))
    with torch.backends.nnpack.flags(False):
        assert torch.backends.nnpack.set_flags(False) == (False,)
    assert torch.backends.nnpack.set_flags(True) == (True,)
    before = torch.backends.cuda.preferred_linalg_library()
    assert repr(torch.backends.cuda.preferred_linalg_library("cusolver")) == "<_LinalgBackend.Cusolver>"
    torch.backends.cuda.preferred_linalg_library(before)
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    assert torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)


def test_devices_that_are_not_there():
    if torch._C._cuda_count():
        pytest.skip("there is a CUDA device")
    for name in ("current_device", "get_device_name", "synchronize", "mem_get_info", "utilization"):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            getattr(torch.cuda, name)()
    assert torch.cuda.memory_summary().startswith("counter") and torch.cuda.host_memory_stats() == {}
    assert not isinstance(torch.FloatStorage(3), torch.cuda.FloatStorage)
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available."):
        torch.accelerator.memory_allocated()
    with pytest.raises(AttributeError):
        torch.cuda.NothingStorage


def test_the_processor():
    event, stream = torch.cpu.Event(), torch.cpu.Stream()
    event.record()
    with torch.cpu.StreamContext(stream):
        assert torch.cpu.current_stream() is stream
    assert event.query() and torch.cpu.current_stream() is not stream and "architecture" in torch.cpu.get_capabilities()


def test_file_check():
    check = torch.testing.FileCheck
    check().check("a").check_next("b").check_not("c").run("xa\nyb\n")
    check().check_count("a", 2, exactly=True).check_same("b").run("a\nab")
    check().check_dag("y").check_dag("x").check("z").run("x y z")
    for bad in (check().check("a").check_not("b").check("c"), check().check("z"), check().check("a").check_next("c"),
                check().check_count("a", 2)):
        with pytest.raises(RuntimeError, match="Expected to"):
            bad.run("xa\nyb\nzc".replace("z", ""))


def test_linear_cross_entropy_loss():
    torch.manual_seed(0)
    m = torch.nn.LinearCrossEntropyLoss(3, 4, bias=True, label_smoothing=0.1)
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])
    assert torch.equal(m(x, y), F.cross_entropy(F.linear(x, m.linear.weight, m.linear.bias), y, label_smoothing=0.1))
    assert list(m.state_dict()) == ["linear.weight", "linear.bias"]
    wide = torch.nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), options=torch.nn.LinearCrossEntropyOptions())
    assert wide(x, torch.zeros(5, 2, dtype=torch.long)).dim() == 0 and wide.linear.out_features == 8


def test_gradients_of_convolutions():
    x, w = torch.randn(2, 4, 6, 5, requires_grad=True), torch.randn(6, 2, 3, 3, requires_grad=True)
    y = F.conv2d(x, w, stride=2, padding=1, groups=2)
    g = torch.randn_like(y)
    gx, gw = torch.autograd.grad(y, (x, w), g)
    assert torch.allclose(torch.nn.grad.conv2d_input(x.shape, w, g, 2, 1, 1, 2), gx, atol=1e-5)
    assert torch.allclose(torch.nn.grad.conv2d_weight(x, w.shape, g, 2, 1, 1, 2), gw, atol=1e-5)
    assert F.grad.conv1d_input((1, 1, 3), torch.ones(1, 1, 1), torch.ones(1, 1, 3)).tolist() == [[[1, 1, 1]]]


def test_scaled_products():
    a, b = torch.randn(16, 32).to(torch.float8_e4m3fn), torch.randn(16, 32).to(torch.float8_e4m3fn).t()
    one, kind = torch.tensor(2.0), F.ScalingType.TensorWise
    got = F.scaled_mm(a, b, one, kind, one, kind, output_dtype=torch.float32)
    assert torch.allclose(got, 4 * (a.float() @ b.float()), rtol=1e-3, atol=1e-2)
    block = F.ScalingType.BlockWise1x16
    scales = torch.rand(16, 2) + 0.5
    want = (a.float() * scales.repeat_interleave(16, 1)) @ (b.float() * scales.repeat_interleave(16, 1).t())
    assert torch.allclose(F.scaled_mm(a, b, scales, block, scales.t(), block, output_dtype=torch.float32), want, rtol=1e-4, atol=1e-3)


def test_random_arguments_for_measurements():
    from cresset.utils.benchmark import FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, Fuzzer, ParameterAlias
    made = Fuzzer([FuzzedParameter("k", 2, 9, "loguniform"), FuzzedParameter("n", distribution={4: 0.5, ParameterAlias("k"): 0.5})],
                  [FuzzedTensor("x", size=("k", "n"), probability_contiguous=0.0, max_elements=40)], seed=1)
    drawn = list(made.take(10))
    assert all(t["x"].shape == (p["k"], p["n"]) and t["x"].numel() <= 40 for t, _, p in drawn)
    assert [p for *_, p in made.take(10)] == [p for *_, p in drawn] and 0 <= made.rejection_rate < 1
    sparse = Fuzzer([FuzzedParameter("k", 4, 9, "uniform")], [FuzzedSparseTensor("x", size=("k", 4), sparse_dim=2)], seed=1)
    assert all(t["x"].is_sparse and t["x"].shape == (p["k"], 4) for t, _, p in sparse.take(3))


def test_weak_dictionaries():
    from cresset.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakTensorKeyDictionary
    x, y = torch.ones(2), torch.ones(2)
    d = WeakTensorKeyDictionary({x: 1})
    d[y] = 2
    assert len(d) == 2 and d[x] == 1 and y in d and len(d.copy()) == 2 and isinstance(d, WeakIdKeyDictionary)
    ref = TensorWeakRef(y)
    assert ref() is y
    del y
    assert len(d) == 1 and ref() is None


def test_throughput():
    calls, lock = [], threading.Lock()

    class Counts(torch.nn.Module):
        def forward(self, x):
            with lock:
                calls.append(1)
            return x
    bench = torch.utils.ThroughputBenchmark(Counts())
    bench.add_input(torch.ones(1))
    found = bench.benchmark(num_calling_threads=2, num_warmup_iters=3, num_iters=10)
    assert len(calls) == 13 and found.num_iters == 10 and "per second" in str(found)


def test_switches():
    assert torch._C._jit_set_profiling_mode(False) is False and not torch._C._jit_can_fuse_on_cpu()
    assert torch._C._jit_get_inline_everything_mode() is False and torch._C._jit_set_inline_everything_mode(False) is False
    with pytest.raises(NotImplementedError, match="programs run without the fuser of tensor expressions"):
        torch._C._jit_set_texpr_fuser_enabled(True)
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.set_multithreading_enabled.value
    assert torch.autograd.set_multithreading_enabled.value
    before = torch.serialization.get_default_mmap_options()
    with torch.serialization.set_default_mmap_options(1):
        assert torch.serialization.get_default_mmap_options() == 1
    assert torch.serialization.get_default_mmap_options() == before
    torch.set_autocast_xla_enabled(True)
    assert torch.is_autocast_xla_enabled() and torch.get_autocast_xla_dtype() == torch.bfloat16
    torch.set_autocast_xla_enabled(False)


def test_saved_tensors_that_may_change():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y * y).sum()
        y.detach().fill_(5)
        z.backward()
    assert x.grad.tolist() == [2, 4]


def test_parameters_and_state_for_a_while():
    m = torch.nn.Linear(2, 2)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    mine, other = list(m.parameters()), {n: torch.nn.Parameter(p.clone()) for n, p in m.named_parameters()}
    with torch.optim.swap_in_optimizer_params_and_state(opt, other, {}):
        assert opt.param_groups[0]["params"][0] is other["weight"]
    assert opt.param_groups[0]["params"][0] is mine[0]


def test_binding_of_processes():
    from cresset.numa.binding import AffinityMode, NumaOptions, maybe_wrap_command_args_with_numa_binding
    assert AffinityMode.NODE == "node" and maybe_wrap_command_args_with_numa_binding(["a"], gpu_index=0, numa_options=None) == ("a",)
    made = maybe_wrap_command_args_with_numa_binding(["a"], gpu_index=0, numa_options=NumaOptions(AffinityMode.NODE, True))
    assert made[-1] == "a"


# Names that come from elsewhere, or that torch has by `import *` only because it states no __all__.
OUTSIDE = {"numbers", "torch", "Tensor", "TYPE_CHECKING", "mkdtemp", "m", "amp_definitely_not_available",
           "pca_lowrank", "svd_lowrank"}  # the package itself says `from .functional import *`


def test_import_star_brings_names_that_are_made_on_first_use():
    listed = {}
    for line in (Path(__file__).parents[1] / "libraries" / "names" / "public.txt").read_text().splitlines():
        if len(line.split()) == 2:
            listed.setdefault(line.split()[0], []).append(line.split()[1])
    missing = {}
    for name in listed.keys() - {"torch", "torch.distributed", "torch.nn.functional", "torch.cuda", "torch.utils"}:
        try:
            module = importlib.import_module(name.replace("torch", "cresset", 1))
        except ImportError:
            continue
        brought = {}
        exec(f"from {module.__name__} import *", brought)
        for n in listed[name]:
            value = getattr(module, n, module) if n[0] != "_" and n not in OUTSIDE else module
            if n not in brought and not isinstance(value, types.ModuleType):
                missing.setdefault(name, []).append(n)
    assert len(listed) > 80 and missing == {}
