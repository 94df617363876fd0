"""Operators that programs define: schemas, kernels, derivatives, fakes, compiled calls."""
import linecache
from typing import List, Optional, Sequence, Tuple

import cresset as torch
import numpy
import pytest
from cresset import Tensor, nn
from cresset.fx.experimental.proxy_tensor import make_fx
from cresset.library import Library, custom_op, infer_schema, opcheck, register_autograd, register_fake

counts = {}


def count(what):
    counts[what] = counts.get(what, 0) + 1


@custom_op("tl::sine", mutates_args=())
def sine(x: Tensor) -> Tensor:
    count("run")
    return torch.from_numpy(numpy.sin(x.detach().numpy()))


@sine.register_fake
def _(x):
    return torch.empty_like(x)


def sine_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def sine_backward(ctx, g):
    count("backward")
    return g * ctx.saved_tensors[0].cos()


sine.register_autograd(sine_backward, setup_context=sine_setup)


@custom_op("tl::add_to", mutates_args={"x"})
def add_to(x: Tensor, k: float = 2.0, *, times: int) -> None:
    for _ in range(times):
        x.add_(k)


add_to.register_fake(lambda x, k=2.0, *, times: None)


@custom_op("tl::several", mutates_args=())
def several(xs: List[Tensor], scale: float = 2.0) -> Tuple[Tensor, List[Tensor]]:
    return xs[0] * scale, [x + 1 for x in xs]


def several_setup(ctx, inputs, output):
    ctx.scale = inputs[1]


several.register_autograd(lambda ctx, g, gs: ([g * ctx.scale + gs[0], *gs[1:]], None), setup_context=several_setup)


def test_values_and_names():
    x = torch.arange(4.)
    assert torch.equal(sine(x), torch.from_numpy(numpy.sin(x.numpy())))
    assert torch.equal(torch.ops.tl.sine(x), sine(x)) and torch.equal(torch.ops.tl.sine.default(x), sine(x))
    assert str(torch.ops.tl.sine.default) == "tl.sine.default" and repr(sine) == "<CustomOpDef(tl::sine)>"
    assert str(torch.ops.tl.add_to.default._schema) == (
        "tl::add_to(Tensor(a0!) x, float k=2., *, SymInt times) -> ()")
    assert "sine" in dir(torch.ops.tl) and not hasattr(torch.ops.tl, "absent")


def test_the_derivative_and_its_node():
    x = torch.arange(4., requires_grad=True)
    y = sine(x)
    assert type(y.grad_fn).__name__ == "GeneratedBackwardFor_tl_sine_defaultBackward"
    y.sum().backward()
    assert torch.allclose(x.grad, x.detach().cos())
    with torch.no_grad():
        assert not sine(x).requires_grad
    assert torch.autograd.gradcheck(sine, torch.arange(4., dtype=torch.float64, requires_grad=True))


def test_second_derivatives_go_through_the_formula():
    x = torch.arange(3., requires_grad=True)
    first, = torch.autograd.grad(sine(x).sum(), x, create_graph=True)
    second, = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, -x.detach().sin())


def test_lists_of_tensors_and_their_gradients():
    a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    first, rest = several([a, b], 3.0)
    assert first.tolist() == [3, 3] and isinstance(rest, list) and [r.tolist() for r in rest] == [[2, 2], [2, 2, 2]]
    (first.sum() + rest[0].sum() + 5 * rest[1].sum()).backward()
    assert a.grad.tolist() == [4, 4] and b.grad.tolist() == [5, 5, 5]


def test_arguments_that_are_written():
    x = torch.zeros(2)
    before = x._version
    assert add_to(x, times=3) is None and x.tolist() == [6, 6] and x._version > before
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        register_autograd("tl::add_to", sine_backward)


def test_compiled_calls_keep_the_operator():
    f = torch.compile(lambda x: sine(x * 2) + 1, fullgraph=True)
    x, want = torch.arange(4.), numpy.sin(numpy.arange(4.) * 2) + 1
    for _ in range(3):
        counts.clear()
        assert numpy.allclose(f(x).numpy(), want) and counts == {"run": 1}


def test_compiled_training_uses_the_formula_once():
    f = torch.compile(lambda x: (sine(x * 2) ** 2).sum(), fullgraph=True)
    for i in range(3):
        counts.clear()
        x = torch.arange(4., requires_grad=True)
        y = f(x)
        y.backward()
        assert torch.allclose(x.grad, 4 * (2 * x.detach()).sin() * (2 * x.detach()).cos(), atol=1e-6)
        assert counts["run"] == 1
    assert type(y.grad_fn).__name__ == "CompiledFunctionBackward" and "backward" not in counts


def test_what_the_compiler_reads_in_a_call_is_not_the_programs(monkeypatch):
    """The implementation reads a value, whose line the compiler looks up in the sources of the whole process."""
    monkeypatch.setitem(linecache.cache, "<long>", (1, None, ["line\n"] * 110_000, "<long>"))
    test_compiled_training_uses_the_formula_once()


def test_compiled_sizes_may_vary():
    f = torch.compile(lambda x: sine(x * 2) + 1, dynamic=True, fullgraph=True)
    for n in (3, 4, 5, 6):
        assert torch.allclose(f(torch.full((n,), 0.5)), torch.full((n,), 1.0).sin() + 1)


def test_compiled_writes():
    f = torch.compile(lambda x: (add_to(x, 2.0, times=1), x * 3)[1])
    for _ in range(3):
        x = torch.ones(2)
        assert f(x).tolist() == [9, 9] and x.tolist() == [3, 3]


def test_graphs_name_the_operator():
    seen = []

    def backend(module, inputs):
        seen.extend(str(n.target) for n in module.graph.nodes if n.op == "call_function")
        return module
    f = torch.compile(lambda x: sine(x) + 1, backend=backend)
    f(torch.ones(2)), f(torch.ones(2))
    assert seen == ["tl.sine.default", "aten.add.Tensor"]
    traced = make_fx(lambda x: sine(x) + 1)(torch.ones(2))
    assert "torch.ops.tl.sine.default" in traced.code and torch.allclose(traced(torch.ones(2)), torch.ones(2).sin() + 1)


def test_fakes():
    assert sine(torch.empty(2, 3, device="meta")).shape == (2, 3)
    bare = custom_op("tl::bare", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"There was no fake impl registered for <CustomOpDef\(tl::bare\)>"):
        bare(torch.empty(2, device="meta"))
    with pytest.raises(RuntimeError, match="Trying to backward through tl.bare.default but no autograd formula"):
        bare(torch.ones(2, requires_grad=True)).sum().backward()


def test_results_do_not_alias_arguments():
    alias = custom_op("tl::alias", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        alias(torch.ones(1))


def test_libraries():
    library = Library("tl2", "DEF")
    assert library.define("plus(Tensor x, int n=2, *, float s=1.5) -> Tensor") == "plus"
    with pytest.raises(NotImplementedError, match="Could not run 'tl2::plus' with arguments from the 'CPU' backend"):
        torch.ops.tl2.plus(torch.ones(1))
    library.impl("plus", lambda x, n=2, *, s=1.5: x + n * s, "CompositeExplicitAutograd")
    assert torch.ops.tl2.plus(torch.ones(1), 3).item() == 5.5 and torch.ops.tl2.plus(torch.ones(1), s=1.0).item() == 3
    x = torch.ones(1, requires_grad=True)
    torch.ops.tl2.plus(x).backward()  # the kernel's operators have derivatives
    assert x.grad.item() == 1
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY can be used to register the namespace tl2"):
        Library("tl2", "DEF")
    with pytest.raises(RuntimeError, match="with the same name and overload name multiple times"):
        Library("tl2", "FRAGMENT").define("plus(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="Unsupported kind: X"):
        Library("tl2", "X")
    with pytest.raises(RuntimeError, match="already a kernel registered from python"):
        library.impl("plus", lambda x: x, "CompositeExplicitAutograd")


def test_overloads_are_chosen_by_arguments():
    library = Library("tl3", "FRAGMENT")
    library.define("f.number(Tensor x, int n) -> Tensor")
    library.define("f.pair(Tensor x, Tensor y) -> Tensor")
    library.impl("f.number", lambda x, n: x + n, "CPU")
    library.impl("f.pair", lambda x, y: x * y, "CPU")
    assert torch.ops.tl3.f(torch.ones(1), 2).item() == 3 and torch.ops.tl3.f(torch.ones(1), torch.zeros(1)).item() == 0
    assert torch.ops.tl3.f.overloads() == ["number", "pair"] and torch.ops.tl3.f.number(torch.ones(1), 4).item() == 5


@pytest.mark.deferred_calls(0)
def test_single_definitions_and_later_registrations():
    torch.library.define("tl4::square", "(Tensor x) -> Tensor")

    @torch.library.impl("tl4::square", "cpu")
    def square(x):
        return x.detach() * x.detach()
    register_fake("tl4::square")(lambda x: torch.empty_like(x))
    register_autograd("tl4::square", lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup_context=sine_setup)
    x = torch.tensor([3.], requires_grad=True)
    y = torch.ops.tl4.square(x)
    y.backward()
    assert y.item() == 9 and x.grad.item() == 6
    f = torch.compile(lambda x: torch.ops.tl4.square(x) * 2, fullgraph=True)
    assert f(torch.tensor([3.])).item() == 18 and f(torch.tensor([4.])).item() == 32
    torch.library.register_kernel("tl4::square", "cpu")(lambda x: x * 0)
    assert torch.ops.tl4.square(torch.ones(1)).item() == 0


def test_wrong_arguments_have_torchs_messages():
    with pytest.raises(RuntimeError, match=r"tl::sine\(\) Expected a value of type 'Tensor' for argument 'x' but "
                                           "instead found type 'int'"):
        sine(3)
    with pytest.raises(RuntimeError, match=r"tl::sine\(\) is missing value for argument 'x'"):
        sine()
    with pytest.raises(RuntimeError, match=r"tl::sine\(\) expected at most 1 argument\(s\) but received 2 argument\(s\)\. "
                                           r"Declaration: tl::sine\(Tensor x\) -> Tensor"):
        sine(torch.ones(1), zz=1)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'zz' for operator 'aten::add'. Schema: aten::add.Tensor"):
        torch.ops.aten.add.Tensor(torch.ones(1), torch.ones(1), zz=1)


def test_inferred_schemas():
    def f(a: Tensor, b: Optional[Tensor], c: Sequence[int], e: bool = True, g: Optional[float] = None,
          h: str = "x", t: torch.dtype = torch.float32, *, q: List[float] = (1.0,)) -> Tuple[Tensor, List[Tensor]]:
        return a, [a]
    assert infer_schema(f, mutates_args={"a"}, op_name="f") == (
        'f(Tensor(a0!) a, Tensor? b, SymInt[] c, bool e=True, float? g=None, str h="x", ScalarType t=float32, *, '
        "float[] q=[1.0]) -> (Tensor, Tensor[])")
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        infer_schema(lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="'zz'} in mutates_args were not found"):
        infer_schema(f, mutates_args={"zz"})


def test_a_second_definition_replaces_the_first():
    for factor in (2, 3):
        op = custom_op("tl::again", lambda x, k=factor: x * k, mutates_args=(), schema="(Tensor x) -> Tensor")
        assert op(torch.ones(1)).item() == torch.ops.tl.again(torch.ones(1)).item() == factor


def test_results_that_are_numbers():
    rows = custom_op("tl::rows", lambda x: x.shape[0], mutates_args=(), schema="(Tensor x) -> int")
    assert rows(torch.ones(5, 2)) == 5


@pytest.mark.deferred_calls(0)
def test_modules_with_an_operator_train_compiled_as_eager():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return sine(self.linear(x)).sum()
    torch.manual_seed(0)
    net, x = Net(), torch.ones(2, 3)
    net(x).backward()
    want = net.linear.weight.grad.clone()
    compiled = torch.compile(net)
    for _ in range(2):
        net.zero_grad()
        compiled(x).backward()
        assert torch.allclose(net.linear.weight.grad, want)


def test_autocast_converts_arguments():
    op = custom_op("tl::kind", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autocast("cpu", torch.bfloat16)
    assert op(torch.ones(1)).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert op(torch.ones(1)).dtype == torch.bfloat16


def test_opcheck():
    assert set(opcheck(sine, (torch.arange(4., requires_grad=True),)).values()) == {"SUCCESS"}
    wrong = custom_op("tl::wrong", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    wrong.register_fake(lambda x: x.new_empty(7))
    with pytest.raises(Exception, match=r"opcheck\(op, ...\): test_faketensor failed with the fake gives"):
        opcheck(wrong, (torch.ones(2),))
    sneaky = custom_op("tl::sneaky", lambda x: x.add_(1).clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(Exception, match="Argument x is not defined as mutable but was mutated"):
        opcheck(sneaky, (torch.ones(2),), test_utils="test_schema")


def test_profiles_name_the_operator():
    with torch.profiler.profile() as prof:
        sine(torch.ones(2))
    assert [e.name for e in prof.events() if e.cpu_parent is None] == ["aten::ones", "tl::sine"]


def test_an_operator_s_own_batches():
    seen = []

    @torch.library.custom_op("batches::two", mutates_args=())
    def two(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + y, x - y

    @torch.library.register_vmap("batches::two")
    def _(info, in_dims, x, y):
        seen.append((info.batch_size, in_dims))
        return two(x, y.expand(info.batch_size, *y.shape)), (0, 0)
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(3)
    for got, want in zip(torch.vmap(two, in_dims=(0, None))(x, y), (x + 1, x - 1)):
        assert torch.equal(got, want)
    assert seen == [(2, (0, None))]


def test_functions_of_the_library_module_take_a_library():
    with torch.library._scoped_library("tl_forms", "FRAGMENT") as lib:
        @torch.library.define(lib, "twice(Tensor x) -> Tensor")
        def twice(x):
            return x * 2
        lib.define("thrice(Tensor x) -> Tensor")

        @torch.library.impl(lib, "thrice", "Meta")
        @torch.library.impl(lib, "thrice", "CPU")
        def thrice(x):
            return x * 3
        x = torch.ones(2)
        assert torch.equal(torch.ops.tl_forms.twice(x), twice(x)) and torch.equal(torch.ops.tl_forms.thrice(x), thrice(x))
        assert torch.ops.tl_forms.thrice(x.to("meta")).is_meta
