"""Names of torch._dynamo and torch.compiler that programs and backends use."""
import warnings

import pytest

import cresset as torch
from cresset import nn
from cresset._dynamo.backends.common import aot_autograd
from cresset._dynamo.backends.registry import list_backends, lookup_backend, register_backend
from cresset._dynamo.testing import (AotEagerAndRecordGraphs, CompileCounter, CompileCounterWithBackend,
                                     EagerAndRecordGraphs, normalize_gm, rand_strided)
from cresset._dynamo.utils import counters


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


def test_a_counter_counts_graphs_and_their_calls():
    counter = CompileCounter()
    f = torch.compile(lambda x, n: torch.sin(x) * n + 1, backend=counter, dynamic=False)
    x = torch.ones(3)
    for n in (2, 2, 3):
        assert torch.equal(f(x, n), torch.sin(x) * n + 1)
    assert (counter.frame_count, counter.op_count) == (2, 6)
    counter.clear()
    assert (counter.frame_count, counter.op_count) == (0, 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_counter_calls_its_backend(backend):
    counter = CompileCounterWithBackend(backend)
    f = torch.compile(lambda x: torch.relu(x) * 2, backend=counter)
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert y.tolist() == [2. * i] * 2 and x.grad.tolist() == [2. * (i > 0)] * 2
    assert (counter.frame_count, len(counter.graphs)) == (1, 1)


def test_graphs_are_kept():
    eager, aot = EagerAndRecordGraphs(), AotEagerAndRecordGraphs()
    for backend in (eager, aot):
        x = torch.ones(2, requires_grad=True)
        torch.compile(lambda x: x.sin().cos(), backend=backend)(x)
        torch.compile(lambda x: x.sin().cos(), backend=backend)(x).sum().backward()
    assert len(eager.graphs) == len(aot.graphs) == 2
    f = torch.compile(lambda x: x.exp(), backend=aot)
    f(x)
    f(x).sum().backward()
    assert aot.fw_graphs and aot.bw_graphs
    assert "# a comment" not in normalize_gm("  # a comment\nx = 1  \n")


def test_counters_count_calls_graphs_and_refusals():
    f = torch.compile(lambda x: x * 2 + 1, backend="eager")
    f(torch.ones(2)), f(torch.ones(2))
    assert counters["frames"] == {"total": 1, "ok": 1}
    assert counters["stats"] == {"unique_graphs": 1, "calls_captured": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(lambda x: x * x.sum().item(), backend="eager")(torch.ones(2))
    assert sum(counters["graph_break"].values()) == 1
    with pytest.raises(torch._dynamo.exc.Unsupported), torch._dynamo.config.patch(deferred_calls=1):
        torch.compile(lambda x: x if x.sum() > 0 else -x, fullgraph=True)(torch.ones(2))
    assert sum(counters["unimplemented"].values()) == 1


def test_backends_are_found_by_name():
    seen = []

    @register_backend
    def my_backend(gm, example_inputs):
        seen.append((type(gm).__name__, [tuple(x.shape) for x in example_inputs]))
        return gm.forward
    assert "my_backend" in list_backends() and lookup_backend("my_backend") is my_backend
    assert "eager" in list_backends(exclude_tags=()) and "inductor" in list_backends()
    assert torch.compile(lambda a, b: a @ b, backend="my_backend")(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert len(seen) == 1 and seen[0][0].endswith("GraphModule") and seen[0][1] == [(2, 3), (3, 4)]
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="no_such"):
        lookup_backend("no_such")


def test_a_backend_of_forward_and_backward_compilers():
    graphs = []

    def compiler(gm, example_inputs):
        graphs.append(gm)
        return gm.forward
    f = torch.compile(lambda x: (x * x).sum(), backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    x = torch.arange(3., requires_grad=True)
    f(x)
    f(x).backward()
    assert x.grad.tolist() == [0., 2., 4.] and len(graphs) == 2
    assert counters["aot_autograd"] == {"total": 1, "ok": 1}


def test_an_unbacked_size_varies_without_recompilation():
    counter = CompileCounter()
    f = torch.compile(lambda x: x * 2, backend=counter)
    for n in (3, 4, 7):
        x = torch.ones(n)
        torch._dynamo.mark_unbacked(x, 0)
        assert f(x).tolist() == [2.] * n
    assert counter.frame_count == 1
    x = torch.ones(3)
    torch._dynamo.mark_unbacked(x, 0)
    with pytest.raises(RuntimeError, match="specialized it to be a constant"):
        torch.compile(lambda x: x.reshape(3) + torch.ones(3))(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x, extra=None, scale=1.):
        y = self.layer(x["a"]) + self.shift * scale
        return {"y": y, "n": 7, "pair": (y.sum(), None)}


def test_export_keeps_arguments_and_results():
    m = Net()
    x = {"a": torch.ones(4, 2)}
    gm, guards = torch._dynamo.export(m)(x, scale=2.)
    assert isinstance(gm, torch.fx.GraphModule) and guards
    for value in (1., 3.):
        given = {"a": torch.full((4, 2), value)}
        got, wanted = gm(given, None, 2.), m(given, scale=2.)
        assert torch.equal(got["y"], wanted["y"]) and got["n"] == 7 and torch.equal(got["pair"][0], wanted["pair"][0])
    assert {name.strip("_").rpartition("_")[2] for name, _ in gm.named_parameters()} == {"weight", "bias"}
    gm(x, None, 2.)["y"].sum().backward()
    assert m.layer.weight.grad is not None
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.export(lambda x: x * x.sum().item())(torch.ones(2))


@pytest.mark.parametrize("f", [lambda x: torch.ones(5 * x.shape[0]), lambda x: torch.split(x, x.shape[0] // 2)[0],
                               lambda x: x.reshape(-1).sum() + x.size(1)])
def test_sizes_of_exported_arguments_may_vary(f):
    gm, _ = torch._dynamo.export(f, aten_graph=True)(torch.randn(4, 6))
    for sizes in ((6, 6), (8, 3), (4, 6)):
        x = torch.randn(sizes)
        assert torch.equal(gm(x), f(x))
    for fixed in ({"tracing_mode": "real"}, {"assume_static_by_default": True}):
        gm, _ = torch._dynamo.export(f, **fixed)(torch.ones(4, 6))
        assert torch.equal(gm(torch.ones(4, 6)), f(torch.ones(4, 6)))
        assert not any("size" in str(node.target) for node in gm.graph.nodes)


def test_fx_traces_no_compiled_functions():
    f = torch.compile(lambda x: x + x)
    outer = lambda x: f(x) * 2  # noqa: E731
    for _ in range(4):
        f(torch.ones(2))
    for traced in (f, outer):
        with pytest.raises(RuntimeError, match="Detected that you are using FX to symbolically trace a dynamo-optimized function"):
            torch.fx.symbolic_trace(traced)
        with torch._dynamo.config.patch(error_on_nested_fx_trace=False):
            gm = torch.fx.symbolic_trace(traced)
        assert torch.equal(gm(torch.full((2,), 3.)), traced(torch.full((2,), 3.)))
        assert [node.op for node in gm.graph.nodes][0] == "placeholder" and len(gm.graph.nodes) >= 3


def test_random_numbers_with_strides():
    x = rand_strided((2, 3), (1, 4), torch.float64)
    assert x.shape == (2, 3) and x.stride() == (1, 4) and x.dtype == torch.float64
    assert rand_strided((2, 2), (2, 1), torch.int64).dtype == torch.int64


@pytest.mark.records("counts the calls of a flush")
@pytest.mark.deferred_calls(0)
def test_the_report_of_a_compiled_function():
    f = torch.compile(lambda x, mode: x.sin() + 1 if mode == "a" else x.cos(), name="wave")
    for mode in ("a", "a", "b", "b", "b"):
        f(torch.ones(3), mode)
    text = torch.compiler.report(f)
    assert text.startswith("wave: 2 recordings, 1 recompilation, ")
    assert "recording 1: operators 2, calls 1\n" in text and "recording 2: operators 1, calls 2\n" in text
    assert "guard x: Tensor, torch.float32, [3]" in text
    assert "recompiled because mode == 'a' (it is 'b')\n" in text
    g = torch.compile(lambda x: x * x.sum().item())
    g(torch.ones(2)), g(torch.ones(2))
    text = torch.compiler.report(g)
    assert "0 recordings" in text and "  1 deferred call, 1 of them with a flush inside\n" in text
    assert "  deferred because the value of a tensor is read (item())" in text
    assert f"  flush of 1 calls for item(), at {__file__}:" in text and ": x.sum().item() (" in text
    with pytest.raises(TypeError, match="report"):
        torch.compiler.report(len)
