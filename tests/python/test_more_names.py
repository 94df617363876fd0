"""Names of torch that are functions and classes in Python, by their results: graphs of scripts, extensions, masks."""
import ctypes
import inspect
import io
import json
import os
import sqlite3

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset.func import rearrange
from cresset.masked import as_masked_tensor, is_masked_tensor, masked_tensor
from cresset.nn.functional import ScalingType
from cresset.utils import cpp_extension
from cresset.utils._python_dispatch import TorchDispatchMode
from cresset.utils.benchmark import CallgrindStats, CopyIfCallgrind, FunctionCount, FunctionCounts, TaskSpec

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")]


# --- TorchScript ---

GRAPH = """graph(%x.1 : Tensor,
      %n.1 : int):
  %2 : bool = prim::Constant[value=1]()
  %3 : int = prim::Constant[value=2]() # f.py:3:9
  %y : Tensor = prim::Loop(%n.1, %2, %x.1) # f.py:2:4
    block0(%i : int, %y.2 : Tensor):
      %z : Tensor = aten::mul(%y.2, %3)
      -> (%2, %z)
  %w : str = prim::Constant[value="a, (b"]()
  return (%y)
"""


def test_nodes_of_a_graph():
    g = torch.parse_ir(GRAPH)
    constant, two, loop, text = g.nodes()
    assert [n.kind() for n in g.nodes()] == ["prim::Constant"] * 2 + ["prim::Loop", "prim::Constant"]
    assert two.output().toIValue() == 2 and constant.output().toIValue() is True and text.output().toIValue() == "a, (b"
    assert (two.kindOf("value"), text.kindOf("value"), two.sourceRange()) == ("i", "s", "f.py:3:9")
    x, n = g.inputs()
    assert [v.debugName() for v in loop.inputs()] == ["n.1", "2", "x.1"] and str(n.type()) == "int" and str(x.type()) == "Tensor"
    [use] = x.uses()
    assert use.user is loop and use.offset == 2 and x.node() is g.param_node()
    [block] = loop.blocks()
    [inner] = block.nodes()
    assert inner.kind() == "aten::mul" and block.owningNode() is loop and [v.debugName() for v in block.outputs()] == ["2", "z"]
    assert g.findNode("aten::mul") is inner and g.findNode("aten::add") is None and g.findAllNodes("prim::Constant") == [constant, two, text]
    assert str(loop) == "".join(line[2:] + "\n" for line in GRAPH.splitlines()[4:8])
    [result] = g.outputs()
    assert result is loop.output() and result.uses()[0].user is g.return_node()
    with pytest.raises(RuntimeError, match="unknown value %q"):
        torch.parse_ir("graph(%x : Tensor):\n  return (%q)\n")
    with pytest.raises(RuntimeError, match="expected `graph"):
        torch.parse_ir("nothing")


def _branches(x: torch.Tensor, n: int):
    y = x
    for i in range(n):
        y = y + torch.relu(x) if i > 2 else y * 2
    return y


def test_nodes_of_a_compiled_function():
    graph = torch.jit.script(_branches).graph
    assert "".join(line for node in graph.nodes() for line in node._lines("  ")) == "".join(
        line + "\n" for line in str(graph).splitlines()[2:-1])


def test_lists_and_dicts_of_one_type():
    items = torch.jit.script([1, 2])
    assert type(items) is torch.ScriptList and list(items) == [1, 2] and type(items[:1]) is torch.ScriptList
    items.append(3)
    with pytest.raises(TypeError, match="Unable to cast <class 'str'> to int"):
        items.append("x")
    with pytest.raises(TypeError):
        items[:2] = [5, "x"]
    assert list(items) == [1, 2, 3]
    names = torch.jit.script({"a": 1})
    assert type(names) is torch.ScriptDict and dict(names.items()) == {"a": 1} and "a" in names
    assert type(iter(items)) is torch.ScriptListIterator and type(iter(names)) is torch.ScriptDictKeyIterator
    for wrong in (lambda: names.update(b=2.0), lambda: items["x"], lambda: items.pop("x"), lambda: items.insert("x", 1),
                  lambda: items.extend(3), lambda: items.extend({"x": 1})):
        with pytest.raises(TypeError):
            wrong()
    for wrong in (lambda: names[1], lambda: 1 in names):
        with pytest.raises(KeyError):
            wrong()
    items.extend({4: 0, 5: 0})
    assert list(items) == [1, 2, 3, 4, 5]
    del items[3:]
    assert str(torch.ScriptDict({})) == "{}" and str(torch.ScriptList([])) == "[]"

    def total(x: list[int]):
        return x[0] + len(x)
    assert torch.jit.script(total)(items) == 4


def test_archives_record_by_record(tmp_path):
    writer = torch.PyTorchFileWriter(str(tmp_path / "a.pt"))
    writer.write_record("one", b"xyz", 2)
    writer.write_record("folder/two", "text")
    assert writer.archive_name() == "a" and writer.get_all_written_records() == {"one", "folder/two"}
    with pytest.raises(RuntimeError, match="record one is already in the archive"):
        writer.write_record("one", b"")
    writer.write_end_of_file()
    reader = torch.PyTorchFileReader(str(tmp_path / "a.pt"))
    assert reader.get_record("one") == b"xy" and reader.get_record("folder/two") == b"text"
    with pytest.raises(RuntimeError, match="finished"):
        writer.write_record("three", b"")


def test_a_module_read_into_a_unit():
    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x * 2
    archive = torch.jit.script(Double()).save_to_buffer()
    read = torch.import_ir_module_from_buffer(torch.CompilationUnit(), archive)
    assert read(torch.ones(2)).tolist() == [2, 2]
    assert torch.JITException is torch.jit.Error


# --- calls ---

def test_the_signature_of_a_module():
    class Plain(torch.nn.Module):
        def forward(self, x):
            return x

    class Own(Plain):
        def __call__(self, x, y):
            return x
    assert str(inspect.signature(Plain())) == "(*args, **kwargs)" and str(inspect.signature(Own())) == "(x, y)"
    assert list(inspect.signature(torch.nn.Linear).parameters)[:2] == ["in_features", "out_features"]
    assert not hasattr(Plain, "__signature__")


def test_functions_of_nested_inputs():
    class Nested(torch.autograd.NestedIOFunction):
        @staticmethod
        def forward_extended(ctx, a, named):
            ctx.save_for_backward(a)
            return a * named["x"], [a + 1]

        @staticmethod
        def backward_extended(ctx, grad, more):
            return grad + more[0], {"x": grad * ctx.saved_tensors[0]}
    a, x = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    y, [z] = Nested.apply(a, {"x": x})
    (y.sum() + z.sum()).backward()
    assert y.tolist() == [3, 3] and z.tolist() == [2, 2] and a.grad.tolist() == [2, 2] and x.grad.tolist() == [1, 1]


def test_kernels_and_dispatch_rules():
    assert torch.library.get_kernel("aten::add.Tensor", "CPU").call_boxed(None, torch.ones(1), torch.ones(1)).item() == 2
    op = torch.library.custom_op("more_names::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert torch.library.get_kernel(op, torch.DispatchKey.CPU).call_boxed(None, torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="unknown dispatch key Nothing"):
        torch.library.get_kernel(op, "Nothing")

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @torch.library.register_torch_dispatch("more_names::twice", Mode)
    def rule(mode, func, types, args, kwargs):
        return args[0] * 5
    with Mode():
        assert op(torch.ones(1)).item() == 5
    assert op(torch.ones(1)).item() == 2
    triton = torch.library.triton_op("more_names::plus", mutates_args=(), schema="(Tensor x) -> Tensor")(lambda x: x + 1)
    assert triton(torch.ones(1)).item() == 2 and triton(torch.empty(3, device="meta")).shape == (3,)
    with pytest.raises(RuntimeError, match="wrap_triton only works on functions annotated with triton"):
        torch.library.wrap_triton(len)


def test_methods_that_torch_removed():
    for name in ("eig", "lstsq", "solve", "symeig"):
        with pytest.raises(RuntimeError, match="This function was deprecated since version 1.9 and is now removed"):
            getattr(torch.ones(2, 2), name)(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="reinforce.. was removed"):
        torch.ones(1).reinforce(1)
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert torch.ones(1).volatile is False
    base = torch.arange(6).reshape(3, 2)
    assert base[1:].as_strided((2, 2), (2, 1), 0).slice_inverse(base, 0, 1, 3).tolist() == base.tolist()
    with pytest.raises((RuntimeError, AssertionError), match="(?i)xpu"):
        torch.ones(1).xpu()


def test_counters():
    logger = torch.LockingLogger()
    logger.set_aggregation_type("mean", torch.AVG)
    for value in (3, 5):
        logger.add_stat_value("mean", value)
        logger.add_stat_value("sum", value)
    assert logger.get_counter_val("mean") == 4 and logger.get_counter_val("sum") == 8 and logger.get_counter_val("none") == 0
    assert torch.NoopLogger().get_counter_val("sum") == 0 and torch.sym_fresh_size(3) == 3


def test_results_of_factorizations_in_given_tensors():
    a = torch.randn(3, 3, dtype=torch.float64)
    outs = [torch.empty(0, dtype=torch.float64) for _ in range(3)]
    made = torch.svd(a, out=tuple(outs))
    assert type(made) is torch.return_types.svd_out and torch.equal(outs[1], torch.svd(a).S)
    assert type(torch.slogdet(a, out=tuple(outs[:2]))) is torch.return_types.slogdet_out
    assert torch.equal(outs[1], torch.slogdet(a).logabsdet)
    four = (outs[0], outs[1], torch.empty(0, dtype=torch.int64), outs[2])
    assert type(torch.linalg.lstsq(a, a, out=four)) is torch.return_types.linalg_lstsq_out
    assert torch.allclose(outs[0], torch.eye(3, dtype=torch.float64))


# --- quantization and normalization ---

def test_fake_quantization_of_channels():
    x = torch.tensor([[-5.0, 0.04], [0.16, 3.0]], requires_grad=True)
    scale, zero = torch.tensor([0.1, 0.2]), torch.tensor([2, 3], dtype=torch.int32)
    y = torch.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 10)
    rows = [torch.fake_quantize_per_tensor_affine(x[i], scale[i].item(), int(zero[i]), 0, 10) for i in range(2)]
    assert torch.equal(y, torch.stack(rows))
    y.sum().backward()
    assert x.grad.tolist() == [[0, 1], [1, 0]]
    for args, error, text in (((x, scale, zero, 2, 0, 9), IndexError, "Dimension out of range"),
                              ((x, scale[:1], zero, 0, 0, 9), RuntimeError, "need to have the same dimensions"),
                              ((x, scale, zero, 0, 3, 9), RuntimeError, "`zero_point` must be between"),
                              ((x, scale, zero.long(), 0, 0, 9), RuntimeError, "Zero-point must be Int32, Float or Half, found Long"),
                              ((x, scale.double(), zero, 0, 0, 9), RuntimeError, "Scale must be Float or BFloat16, found Double")):
        with pytest.raises(error, match=text):
            torch.fake_quantize_per_channel_affine(*args)


def test_quantization_by_moving_averages():
    on, x = torch.tensor([1]), torch.tensor([-1.0, 0.5, 3.0])
    low, high = torch.tensor(float("inf")), torch.tensor(float("-inf"))
    scale, zero = torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32)
    y = torch.fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero, 0.01, 0, 255, -1)
    assert (low.item(), high.item(), zero.item()) == (-1, 3, 64) and torch.allclose(scale, torch.tensor([4 / 255]))
    assert torch.allclose(y, torch.tensor([-1.0039, 0.5020, 2.9961]), atol=1e-4)
    torch.fused_moving_avg_obs_fake_quant(x * 2, on, 1 - on, low, high, scale, zero, 0.5, -128, 127, -1, False, True)
    assert (low.item(), high.item(), zero.item()) == (-1.5, 4.5, 0) and torch.allclose(scale, torch.tensor([4.5 / 127]))
    rows = torch.tensor([[0.0, 1.0], [-4.0, 0.0]])
    low, high = torch.empty(0), torch.empty(0)
    y = torch.fused_moving_avg_obs_fake_quant(rows, on, on, low, high, scale, zero, 0.01, 0, 255, 0, True)
    assert low.tolist() == [0, -4] and high.tolist() == [1, 0] and zero.tolist() == [0, 255] and torch.allclose(y, rows)


@pytest.mark.parametrize("ends, symmetric, least, scale, zero", [
    ((0, 0), False, 0, 0.1, 0), ((0, 0), False, -128, 0.1, 127), ((-3.3, -1), True, 0, 3.3 / 255, 255), ((1, 3.3), True, -128, 3.3 / 255, -128),
    ((0, 1e-4), False, 0, 6.1e-5, 0), ((-1e-6, 3e-6), False, -128, 6.1e-5, -64), ((-1e-6, 3e-6), True, 0, 6.1e-5, 128)])
def test_scales_of_ranges(ends, symmetric, least, scale, zero):
    on, low, high = torch.tensor([1]), torch.tensor(float("inf")), torch.tensor(float("-inf"))
    made = torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32)
    torch.fused_moving_avg_obs_fake_quant(torch.tensor(ends, dtype=torch.float32), on, on, low, high, *made, 0.01, least, least + 255, -1,
                                          False, symmetric)
    assert torch.allclose(made[0], torch.tensor([scale])) and made[1].item() == zero


def test_batch_norm_of_two_processes_equals_that_of_all_samples():
    x = torch.randn(7, 3, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(3, dtype=torch.float64, requires_grad=True)
    bias, eps = torch.rand(3, dtype=torch.float64, requires_grad=True), 1e-5
    mean, var = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    y = F.batch_norm(x, mean, var, weight, bias, True, 0.1, eps)
    grad = torch.randn_like(y)
    y.backward(grad)
    parts, grads, counts = x.detach().split([3, 4]), grad.split([3, 4]), torch.tensor([6.0, 8.0])
    found = [torch.batch_norm_stats(p, eps) for p in parts]
    got, var2 = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    m, r = torch.batch_norm_gather_stats_with_counts(x, torch.stack([f[0] for f in found]), torch.stack([f[1] for f in found]),
                                                     got, var2, 0.1, eps, counts)
    assert torch.allclose(got, mean) and torch.allclose(var2, var)
    assert torch.allclose(torch.batch_norm_elemt(x, weight, bias, m, r, eps), y)
    sums = [torch.batch_norm_backward_reduce(g, p, m, r, weight, True, True, True) for g, p in zip(grads, parts)]
    s, xs, gw, gb = (a + b for a, b in zip(*sums))
    assert torch.allclose(gw, weight.grad) and torch.allclose(gb, bias.grad)
    made = torch.cat([torch.batch_norm_backward_elemt(g, p, m, r, weight, s, xs, counts.int()) for g, p in zip(grads, parts)])
    assert torch.allclose(made, x.grad)
    same = torch.batch_norm_gather_stats(x, torch.stack([m, m]), torch.stack([r, r]), None, None, 0.1, eps, 5)
    assert torch.allclose(same[0], m) and torch.allclose(same[1], r)


def test_products_of_groups_with_scales():
    rows = ScalingType.RowWise
    a, b, ends = torch.randn(6, 8), torch.randn(2, 8, 4), torch.tensor([2, 6], dtype=torch.int32)
    sa, sb = torch.rand(6), torch.rand(2, 4)
    made = F.scaled_grouped_mm(a, b, sa, rows, sb, rows, offs=ends, output_dtype=torch.float32)
    want = torch.cat([(a[:2] * sa[:2, None]) @ (b[0] * sb[0]), (a[2:] * sa[2:, None]) @ (b[1] * sb[1])])
    assert torch.allclose(made, want, atol=1e-5)
    b, sa, sb, ends = torch.randn(8, 4), torch.rand(12), torch.rand(8), torch.tensor([3, 8], dtype=torch.int32)
    made = F.scaled_grouped_mm(a, b, sa, rows, sb, rows, offs=ends, output_dtype=torch.float32)
    want = torch.stack([(a[:, :3] * sa[:6, None]) @ (b[:3] * sb[:4]), (a[:, 3:] * sa[6:, None]) @ (b[3:] * sb[4:])])
    assert torch.allclose(made, want, atol=1e-5)
    with pytest.raises(ValueError, match=r"scale_a has the sizes \(3,\), expected \(12,\)"):
        F.scaled_grouped_mm(a, b, sa[:3], rows, sb, rows, offs=ends)


# --- dims by names ---

def test_rearrange():
    x = torch.arange(24).reshape(2, 3, 4)
    for pattern, options, want in (("a b c -> c (a b)", {}, x.permute(2, 0, 1).reshape(4, 6)), ("a ... -> ... a", {}, x.permute(1, 2, 0)),
                                   ("(p q) b c -> p b (q c)", {"p": 2}, x.reshape(2, 1, 3, 4).permute(0, 2, 1, 3).reshape(2, 3, 4)),
                                   ("a b c -> a 1 b c", {}, x[:, None]), ("a ... -> a (...)", {}, x.reshape(2, 12))):
        assert rearrange(x, pattern, **options).tolist() == want.tolist(), pattern
    assert rearrange([x, x], "n a b c -> a n b c").shape == (2, 2, 3, 4)
    for pattern, options, text in (("a b -> b a", {}, "Number of dimensions"), ("a b c -> a b", {}, "only on one side"),
                                   ("a (b c -> a b c", {}, "Brackets"), ("(p q) b c -> p q b c", {}, "Could not infer sizes"),
                                   ("a a c -> a c", {}, "more than once"), ("(p q) b c -> p q b c", {"p": 3}, "does not fit"),
                                   ("a b c -> a c b", {"z": 1}, "which are not in"), ("a b c", {}, "separator")):
        with pytest.raises(ValueError, match=text):
            rearrange(x, pattern, **options)


# --- masks ---

def test_masked_tensors():
    data, mask = torch.arange(6.0).reshape(2, 3), torch.tensor([[True, False, True], [False, False, True]])
    a = masked_tensor(data, mask, requires_grad=True)
    assert repr(a) == "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n    [      --,       --,   5.0000]\n  ]\n)"
    assert is_masked_tensor(a + a) and (a * 2).to_tensor(-1).tolist() == [[0, -1, 4], [-1, -1, 10]]
    assert a.sum().item() == 7 and a.mean(1).to_tensor(0).tolist() == [1, 5] and a.sum(0).get_mask().tolist() == [True, False, True]
    assert a.amax(0).to_tensor(-1).tolist() == [0, -1, 5] and a.argmax(1).get_data().tolist() == [2, 2] and a.prod().item() == 0
    assert a.t().get_mask().tolist() == mask.t().tolist() and a[0].get_mask().tolist() == mask[0].tolist()
    assert torch.allclose(a.softmax(1).to_tensor(0), torch.tensor([[0.1192, 0, 0.8808], [0, 0, 1]]), atol=1e-4)
    (a * a).sum().backward()
    assert is_masked_tensor(a.grad) and a.grad.to_tensor(0).tolist() == [[0, 0, 4], [0, 0, 10]]
    x = data.clone().requires_grad_()
    as_masked_tensor(x, mask).exp().sum().backward()
    assert torch.allclose((x.grad.to_tensor(0) if is_masked_tensor(x.grad) else x.grad), torch.where(mask, data.exp(), 0.0))
    b = masked_tensor(data.clone(), mask)
    b.add_(1)
    assert b.to_tensor(0).tolist() == [[1, 0, 3], [0, 0, 6]] and torch.cat([b, b]).shape == (4, 3)
    assert b.norm(1).item() == 10 and round(b.norm().item(), 4) == 6.7823 and b.var(1, correction=0).to_tensor(-1).tolist() == [1, 0]
    assert b.softmax(1, torch.float64).get_data().dtype == torch.float64
    assert masked_tensor(torch.tensor(3.0), torch.tensor(True)).sum(0).item() == 3
    for wrong, error, text in ((lambda: b + masked_tensor(data, ~mask), ValueError, "Input masks must match"),
                               (lambda: masked_tensor(data, mask.float()), TypeError, "mask must have dtype bool"),
                               (lambda: masked_tensor(data, mask[0]), ValueError, "data.dim.. must equal mask.dim"),
                               (lambda: masked_tensor(b, mask), TypeError, "data must be a Tensor"),
                               (lambda: b.var(1, correction=2), TypeError, "takes the corrections 0 and 1, not 2"),
                               (lambda: b.sort(), TypeError, "Multiple dispatch failed")):
        with pytest.raises(error, match=text):
            wrong()


# --- measuring ---

def test_counts_of_instructions():
    one = FunctionCounts((FunctionCount(5, "/a/x.c:f"), FunctionCount(2, "/a/y.c:g")), inclusive=False)
    two = one + one
    assert two.sum() == 14 and (two - one).sum() == 7 and len(one - one) == 0 and one[0].count == 5
    assert [tuple(c) for c in one.transform(lambda name: "all")] == [(7, "all")] and len(one.filter(lambda name: name.endswith("g"))) == 1
    stats = CallgrindStats(TaskSpec("x", "pass"), 1, True, one - one, one - one, one, two)
    assert stats.counts() == 14 and stats.delta(stats).sum() == 0 and stats.stats(inclusive=True).sum() == 7
    assert [c.function for c in stats.as_standardized().stats()] == ["x.c:f", "y.c:g"]
    assert CopyIfCallgrind.unwrap_all({"a": CopyIfCallgrind(3), "b": 4}) == {"a": 3, "b": 4}
    with pytest.raises(ValueError, match="needs `setup`"):
        CopyIfCallgrind(object())


def test_a_trace_of_calls(tmp_path):
    observer = torch.profiler.ExecutionTraceObserver().register_callback(tmp_path / "trace.json")
    observer.start()
    torch.ones(3) + 1
    observer.stop()
    nodes = json.loads((tmp_path / "trace.json").read_text())["nodes"]
    assert "aten::add" in [node["name"] for node in nodes] and nodes[1]["ctrl_deps"] == 1
    observer.unregister_callback()
    assert observer.get_output_file_path() is None


def test_ranges_in_a_database_of_nvprof(tmp_path):
    database = sqlite3.connect(tmp_path / "p.db")
    database.executescript("""
        CREATE TABLE StringTable (_id_ INTEGER, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (id INTEGER, name INTEGER, timestamp INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (_id_ INTEGER, cbid INTEGER, start INTEGER, end INTEGER, correlationId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start INTEGER, end INTEGER, name INTEGER, correlationId INTEGER);
        INSERT INTO StringTable VALUES (1, 'add'), (2, '_ZN4cuda3addIfEEvi');
        INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES (7, 1, 100), (7, 0, 500);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 211, 150, 160, 9);
        INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (170, 210, 2, 9);""")
    database.commit()
    [event] = torch.autograd.profiler.load_nvprof(str(tmp_path / "p.db"))
    assert event.name == "add" and [(k.name, k.duration) for k in event.kernels] == [("void cuda::add<float>(int)", 40)]


def test_parts_of_a_backward_share_recomputed_values():
    from cresset.utils.checkpoint import GraphExecGroup, checkpoint
    calls = []

    def f(a, b):
        calls.append(1)
        return (a * a).sin(), (b * b).sin()
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    y, z = checkpoint(f, a, b, use_reentrant=False, early_stop=False)
    with GraphExecGroup():
        y.sum().backward()
        z.sum().backward()
        with pytest.raises(RuntimeError):
            GraphExecGroup().__enter__()
    assert len(calls) == 2 and torch.equal(a.grad, b.grad)


def test_checked_items_of_data_pipes():
    from cresset.utils.data import IterDataPipe, argument_validation, runtime_validation, runtime_validation_disabled

    class Numbers(IterDataPipe[int]):
        def __init__(self, items):
            self.items = items

        @runtime_validation
        def __iter__(self):
            yield from self.items
    assert list(Numbers([1, 2])) == [1, 2]
    with pytest.raises(RuntimeError, match="Expected an instance as subtype of <class 'int'>, but found x"):
        list(Numbers(["x"]))
    with runtime_validation_disabled():
        assert list(Numbers(["x"])) == ["x"]

    @argument_validation
    def first(pipe: IterDataPipe[str]):
        return next(iter(pipe))
    with pytest.raises(TypeError, match="Expected type of argument 'pipe' as a subtype of hint <class 'str'>, but found <class 'int'>"):
        first(Numbers([1]))


def test_space_for_elements_that_are_not_written():
    file = io.BytesIO()
    with torch.serialization.skip_data():
        torch.save({"a": torch.arange(4.0)}, file)
    file.seek(0)
    assert torch.load(file)["a"].tolist() == [0, 0, 0, 0]


# --- extensions ---

MODULE = r"""
#include <Python.h>
#include <cresset.h>
static PyObject *total(PyObject *module, PyObject *none)
{
    cr_tensor *x = NULL, *y = NULL, *z = NULL;
    cr_scalar v = {0};
    int failed = cr_ones(&x, (int64_t[]){3}, 1, CR_F32) || cr_mul(&y, x, x) ||
                 cr_sum(&z, y, NULL, 0, 0, CR_DTYPE_NONE) || cr_item(&v, z);
    (void)module, (void)none;
    cr_drop(x), cr_drop(y), cr_drop(z);
    if (failed)
        return PyErr_Format(PyExc_RuntimeError, "%s", cr_error_message());
    return PyFloat_FromDouble(v.d);
}
static PyMethodDef functions[] = {{"total", total, METH_NOARGS, ""}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "more_names", NULL, -1, functions};
PyMODINIT_FUNC PyInit_more_names(void) { return PyModule_Create(&definition); }
"""


def test_an_extension_in_c(tmp_path):
    source = tmp_path / "more_names.c"
    source.write_text(MODULE)
    module = cpp_extension.load("more_names", str(source), build_directory=str(tmp_path))
    assert module.total() == 3
    made = (tmp_path / "more_names.so").stat().st_mtime_ns
    cpp_extension.load("more_names", str(source), build_directory=str(tmp_path))
    assert (tmp_path / "more_names.so").stat().st_mtime_ns == made
    source.write_text("not C")
    with pytest.raises(RuntimeError, match="Error building extension 'more_names'"):
        cpp_extension.load("more_names", str(source), build_directory=str(tmp_path))


def test_an_extension_is_built_again_for_a_header_or_a_compiler(tmp_path, monkeypatch):
    (tmp_path / "with space.h").write_text("enum { ANSWER = 1 };")
    source, target = tmp_path / "x.c", tmp_path / "headed.so"
    source.write_text('#include "with space.h"\nint answer(void) { return ANSWER; }')

    def made():
        path = cpp_extension.load("headed", str(source), is_python_module=False, build_directory=str(tmp_path))
        return os.stat(path).st_mtime_ns
    first = made()
    assert made() == first
    (tmp_path / "with space.h").write_text("enum { ANSWER = 2 };")
    second = made()
    assert second != first and made() == second
    monkeypatch.setenv("CC", "cc -DANOTHER")
    assert made() != second
    target.with_suffix(".0.o.d").unlink()
    assert made() and target.with_suffix(".0.o.d").exists()


def test_an_extension_is_built_by_a_compiler_that_writes_no_rules(tmp_path, monkeypatch):
    compiler, source = tmp_path / "cc", tmp_path / "x.c"
    compiler.write_text('#!/bin/sh\nfor word do shift; case $word in -MMD|-MF|*.d) ;; *) set -- "$@" "$word";; esac; done\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    for answer in (3, 4):
        source.write_text(f"int answer(void) {{ return {answer}; }}")
        path = cpp_extension.load(f"bare{answer}", str(source), is_python_module=False, build_directory=str(tmp_path))
        assert ctypes.CDLL(path).answer() == answer
    assert not list(tmp_path.glob("*.d"))


def test_an_extension_of_a_text(tmp_path):
    path = cpp_extension.load_inline("inline_text", 'extern "C" int twice(int x) { return 2 * x; }', is_python_module=False,
                                     build_directory=str(tmp_path))
    assert ctypes.CDLL(path).twice(4) == 8
    program = cpp_extension.load("whole", str(tmp_path / "main.cpp"), is_standalone=True, build_directory=str(tmp_path),
                                 extra_cflags=["-Dtwice=main"])
    assert program == str(tmp_path / "whole")


def test_the_compiler_of_extensions():
    assert cpp_extension.check_compiler_ok_for_platform("g++") and cpp_extension.check_compiler_is_gcc("g++")
    assert not cpp_extension.check_compiler_ok_for_platform("no-such-compiler")
    good, version = cpp_extension.get_compiler_abi_compatibility_and_version("g++")
    assert good and version >= (9, 0, 0)
    [folder] = cpp_extension.include_paths()
    with open(f"{folder}/cresset.h") as file:
        assert file.readline().startswith("/*")


def test_extensions_of_setuptools():
    pytest.importorskip("setuptools", reason="CPython 3.12 and newer come without setuptools")
    made = cpp_extension.CppExtension("x", ["a.cpp"], extra_compile_args=["-O1"])
    assert made.language == "c++" and cpp_extension.include_paths()[0] in made.include_dirs
    from setuptools.command.build_ext import build_ext
    assert issubclass(cpp_extension.BuildExtension, build_ext)


# --- sequences of points ---

def test_points_of_sobol():
    pytest.importorskip("scipy")
    engine = torch.quasirandom.SobolEngine(3)
    first = engine.draw_base2(3)
    assert first[:4].tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert all(sorted(first[:, d].mul(8).int().tolist()) == list(range(8)) for d in range(3))
    more = engine.draw(4, dtype=torch.float64)
    assert torch.equal(engine.reset().fast_forward(8).draw(4, dtype=torch.float64), more)
    assert torch.equal(torch.cat([engine.reset().draw(1), engine.draw(7)]), first)
    mixed = torch.quasirandom.SobolEngine(300, scramble=True, seed=3)
    points = mixed.draw(256)
    assert torch.equal(torch.quasirandom.SobolEngine(300, scramble=True, seed=3).draw(256), points)
    assert all(sorted(points[:, d].mul(256).int().tolist()) == list(range(256)) for d in (0, 7, 299))
    with pytest.raises(ValueError, match="require n to be a power of 2"):
        engine.draw_base2(2)
    with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"):
        torch.quasirandom.SobolEngine(0)
    assert repr(mixed) == "SobolEngine(dimension=300, scramble=True, seed=3)"
