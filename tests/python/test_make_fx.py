"""make_fx and aot_function: graphs print as torch's and run with eager's bits."""
import subprocess
import sys
import warnings

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import fx, nn
from cresset.functorch.compile import (aot_function, aot_module, default_partition, make_boxed_compiler,
                                       make_boxed_func, min_cut_rematerialization_partition, nop)
from cresset.fx.experimental.proxy_tensor import make_fx


def lines(module):
    return [line.strip() for line in module.code.strip().splitlines()][1:]


# --- make_fx; the texts are those that torch 2.13 prints ---

def test_code_equals_torchs():
    module = make_fx(lambda x, y: ((x + 1).sigmoid() * 2).sum(1) @ y)(torch.randn(3, 4), torch.randn(3))
    assert lines(module)[:4] == [
        "add = torch.ops.aten.add.Tensor(x_1, 1);  x_1 = None",
        "sigmoid = torch.ops.aten.sigmoid.default(add);  add = None",
        "mul = torch.ops.aten.mul.Tensor(sigmoid, 2);  sigmoid = None",
        "sum_1 = torch.ops.aten.sum.dim_IntList(mul, [1]);  mul = None"]


def test_code_has_the_annotation_of_the_result():
    def double(x) -> torch.Tensor:
        return x * 2
    assert "def forward(self, x_1) -> torch.Tensor:" in make_fx(double)(torch.ones(2)).code


def test_several_results_containers_and_changes_in_place():
    def f(x):
        y = x.clone()
        y.add_(1)
        a, b = torch.max(y, 1)
        c = torch.cat([y, y])
        return a, c.chunk(2)[0], {"k": b}
    module = make_fx(f)(torch.randn(3, 4))
    assert lines(module) == [
        "clone = torch.ops.aten.clone.default(x_1);  x_1 = None",
        "add_ = torch.ops.aten.add_.Tensor(clone, 1);  clone = None",
        "max_1 = torch.ops.aten.max.dim(add_, 1)",
        "getitem = max_1[0]",
        "getitem_1 = max_1[1];  max_1 = None",
        "cat = torch.ops.aten.cat.default([add_, add_]);  add_ = None",
        "split = torch.ops.aten.split.Tensor(cat, 3);  cat = None",
        "getitem_2 = split[0]",
        "getitem_3 = split[1];  split = getitem_3 = None",
        "return (getitem, getitem_2, {'k': getitem_1})"]
    x = torch.randn(3, 4)
    got, want = module(x), f(x)
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1]) and torch.equal(got[2]["k"], want[2]["k"])


def test_other_tensors_are_attributes_and_a_loop_is_unrolled():
    w = torch.randn(4)

    def f(x):
        for k in range(3):
            x = x * w + k
        return x
    module = make_fx(f)(torch.randn(4))
    assert lines(module)[0] == "_tensor_constant0 = self._tensor_constant0"
    assert sum("aten.mul.Tensor" in line for line in lines(module)) == 3
    assert torch.equal(module._tensor_constant0, w)


def test_a_backward_pass_is_recorded():
    def f(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(x.sin().sum(), x)[0]
    module, x = make_fx(f)(torch.randn(3)), torch.randn(3)
    assert any("aten.cos.default" in line for line in lines(module))
    assert torch.equal(module(x), torch.cos(x))


def test_a_table_of_decompositions_replaces_operators():
    table = {torch.ops.aten.sigmoid.default: lambda x: 1 / (1 + torch.exp(-x))}
    module = make_fx(lambda x: x.sigmoid() * 2, decomposition_table=table)(torch.randn(3))
    assert lines(module) == [
        "neg = torch.ops.aten.neg.default(x_1);  x_1 = None",
        "exp = torch.ops.aten.exp.default(neg);  neg = None",
        "add = torch.ops.aten.add.Tensor(exp, 1);  exp = None",
        "reciprocal = torch.ops.aten.reciprocal.default(add);  add = None",
        "mul = torch.ops.aten.mul.Tensor(reciprocal, 1);  reciprocal = None",
        "mul_1 = torch.ops.aten.mul.Tensor(mul, 2);  mul = None",
        "return mul_1"]


def test_the_same_tensor_twice_and_numbers_among_the_arguments():
    x = torch.randn(3)
    module = make_fx(lambda a, b, n: a * b + n)(x, x, 2)
    assert torch.equal(module(x, x, 2), x * x + 2)


def test_errors_of_calls_that_cannot_be_traced():
    with pytest.raises(RuntimeError, match="needs symbolic sizes"):
        make_fx(lambda x: x, tracing_mode="symbolic")
    with pytest.raises(AssertionError, match="Unexpected tracing type: odd"):
        make_fx(lambda x: x, tracing_mode="odd")
    with pytest.raises(ZeroDivisionError):
        make_fx(lambda x: 1 / 0)(torch.ones(1))
    assert torch.equal(make_fx(lambda x: x + 1)(torch.ones(1))(torch.ones(1)), torch.full((1,), 2.0))  # recording works again


def test_a_module_is_a_graph_that_interpreters_run():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        module = make_fx(layer)(x)
        assert torch.equal(fx.Interpreter(module).run(x), layer(x))


# --- aot_function ---

def collect(into):
    def compiler(module, example_inputs):
        into.append(module)
        return make_boxed_func(module)
    return compiler


def both_ways(f, *inputs, **options):
    """Returns (result, gradients) by aot_function and by eager mode, and the graphs."""
    graphs, out = [], []
    for function in (aot_function(f, collect(graphs), **options), f):
        leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        y = function(*leaves)
        y.sum().backward()
        out.append((y.detach(), [x.grad for x in leaves]))
    return out, graphs


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_results_and_gradients_have_eager_bits(partition):
    torch.manual_seed(0)
    x, w = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    b = torch.randn(3)
    (got, want), graphs = both_ways(lambda x, w, b: F.softmax(F.gelu(F.linear(x, w, b)), -1).log(), x, w, b,
                                    partition_fn=partition)
    assert torch.equal(got[0], want[0]) and len(graphs) == 2
    assert torch.equal(got[1][0], want[1][0]) and torch.equal(got[1][1], want[1][1])
    assert got[1][2] is None


def test_forward_and_backward_code_equals_torchs():
    graphs = []
    a = torch.randn(3, 4, requires_grad=True)
    aot_function(lambda x: x.sin().cos().sum(), collect(graphs))(a).backward()
    assert lines(graphs[0]) == [
        "sin = torch.ops.aten.sin.default(primals_1)",
        "cos = torch.ops.aten.cos.default(sin)",
        "sum_1 = torch.ops.aten.sum.default(cos);  cos = None",
        "return (sum_1, primals_1, sin)"]
    assert [n.name for n in graphs[1].graph.nodes if n.op == "placeholder"] == ["primals_1", "sin", "tangents_1"]


def test_each_signature_is_compiled_once():
    graphs = []
    f = aot_function(lambda x, n: (x * n).exp(), collect(graphs))
    for size, n, made in ((3, 2, 2), (3, 2, 2), (4, 2, 4), (3, 5, 6)):
        x = torch.randn(size, requires_grad=True)
        assert torch.equal(f(x, n), (x * n).exp()) and len(graphs) == made
    with torch.no_grad():
        assert torch.equal(f(x, 5), (x * 5).exp()) and len(graphs) == 7
    assert torch.equal(f(x.detach(), 5), (x * 5).exp()) and len(graphs) == 8


def test_nested_arguments_and_results_keep_their_structure():
    f = aot_function(lambda d, pair: {"a": d["x"] * pair[0], "b": [pair[1] + 1, 7]}, nop)
    x, y = torch.randn(2, requires_grad=True), torch.randn(2)
    out = f({"x": x}, (y, y))
    assert torch.equal(out["a"], x * y) and torch.equal(out["b"][0], y + 1) and out["b"][1] == 7
    assert out["a"].requires_grad and not out["b"][0].requires_grad


def test_random_numbers_are_eagers():
    x = torch.randn(50, requires_grad=True)
    f = aot_function(lambda x: F.dropout(x.sin(), 0.5, True).cos(), nop,
                     partition_fn=min_cut_rematerialization_partition)
    f(x)  # the graph is made here
    torch.manual_seed(3)
    got, = torch.autograd.grad(f(x).sum(), x)
    torch.manual_seed(3)
    want, = torch.autograd.grad(F.dropout(x.sin(), 0.5, True).cos().sum(), x)
    assert torch.equal(got, want)


def test_plain_compilers_may_be_boxed():
    calls = []

    def compiler(module, example_inputs):
        calls.append([tuple(x.shape) for x in example_inputs])
        return lambda *args: module(*args)
    x = torch.randn(3, requires_grad=True)
    y = aot_function(lambda x: x.sin(), make_boxed_compiler(compiler))(x)
    y.sum().backward()
    assert torch.equal(x.grad, x.detach().cos()) and calls == [[(3,)], [(3,), (3,)]]


def test_a_module_trains_through_graphs():
    def losses(through_graphs):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        model = aot_module(net, nop, partition_fn=min_cut_rematerialization_partition) if through_graphs else net
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        x, t = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        out = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        return out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert losses(True) == losses(False)


def test_calls_that_no_graph_can_contain_are_refused():
    f = aot_function(lambda x, y: y.add_(x), nop)
    with pytest.raises(RuntimeError, match="gives a history to an argument that it writes to"):
        f(torch.randn(2, requires_grad=True), torch.randn(2))
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="under autocast"):
        aot_function(lambda x: x * 2, nop)(torch.ones(2))
    with pytest.raises(RuntimeError, match="give them to make_fx"):
        aot_function(lambda x: x, nop, decompositions={1: 2})


def test_programs_say_functorch(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\nfrom functorch.compile import aot_function, nop\n"
                      "x = torch.ones(2, requires_grad=True)\n"
                      "aot_function(lambda x: x * 3, nop)(x).sum().backward()\nprint(x.grad)\n")
    done = subprocess.run([sys.executable, "-m", "cresset", "run", str(script)], capture_output=True, text=True)
    assert done.stdout == "tensor([3., 3.])\n", done.stderr
