"""torch.jit.freeze: attributes that nothing changes are constants; what may change, and what shares memory, stays."""
import io

import pytest

import cresset as torch
from cresset import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.unused = 11, 3
        self.w = nn.Parameter(torch.full((2,), 2.0))

    def forward(self, x):
        if self.training:
            return x
        return x * self.w + self.a


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.k = 0, 5

    def forward(self, x):
        self.n += 1
        return x + self.n * self.k


class Whole(nn.Module):
    """Constants, a counter inside, tensors that are changed in place, one of them through another attribute's memory."""

    def __init__(self):
        super().__init__()
        self.scale, self.count = Scale(), Counter()
        self.sizes = [1, 2]
        self.base = torch.zeros(4)
        self.part = self.base[:2]
        self.fixed = torch.ones(2)

    def forward(self, x):
        self.base.add_(1)
        return self.scale(x) + self.count(x) + self.part + self.fixed + len(self.sizes)

    @torch.jit.export
    def total(self) -> int:
        return self.scale.a + self.count.n


def names(module):
    return {name for name, *_ in module._c.attributes()}


def test_what_does_not_change_is_a_constant():
    torch.manual_seed(0)
    m = torch.jit.script(Whole()).eval()
    other = torch.jit.script(Whole()).eval()
    f = torch.jit.freeze(other)
    x = torch.ones(2)
    for _ in range(3):
        assert torch.equal(m(x), f(x))
    assert names(f) == {"count", "base", "part"} and names(f.count) == {"n"} and not list(f.parameters())
    assert "prim::If" not in str(f.graph) and "prim::CallMethod" not in str(f.graph) and not f(x).requires_grad


def test_a_frozen_module_is_saved():
    f = torch.jit.freeze(torch.jit.script(Whole()).eval())
    x = torch.ones(2)
    f(x)
    g = torch.jit.load(io.BytesIO(f.save_to_buffer()))
    assert torch.equal(f(x), g(x))


def test_named_attributes_and_methods_stay():
    m = torch.jit.script(Whole()).eval()
    f = torch.jit.freeze(m, ["sizes", "total", "scale.unused"])
    f(torch.ones(2))
    assert f.total() == 12 and f.sizes == [1, 2] and f.scale.unused == 3
    assert names(f.scale) == {"unused"} and "sizes" in names(f)
    with pytest.raises(RuntimeError, match="Unknown name: nothing"):
        torch.jit.freeze(m, ["nothing"])


class Chosen(nn.Module):
    """One of two modules, by a value: neither is known."""

    def __init__(self):
        super().__init__()
        self.one, self.two = Counter(), Counter()

    def forward(self, x, first: bool):
        m = self.one if first else self.two
        m.n += 1
        return x * m.n * m.k


def test_objects_that_are_not_known_stay_as_they_are():
    f = torch.jit.freeze(torch.jit.script(Chosen()).eval())
    x = torch.ones(1)
    assert [f(x, first).item() for first in (True, True, False)] == [5.0, 10.0, 5.0]


def test_modules_that_train_are_refused():
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        torch.jit.freeze(torch.jit.script(Scale()))
    with pytest.raises(RuntimeError, match="expects a ScriptModule as input"):
        torch.jit.freeze(Scale().eval())
    assert torch.equal(torch.jit.optimize_for_inference(torch.jit.script(Scale()))(torch.ones(2)), torch.full((2,), 13.0))


def test_archives_are_frozen():
    loaded = torch.jit.load(io.BytesIO(torch.jit.script(Whole()).eval().save_to_buffer()))
    f = torch.jit.freeze(loaded)
    x = torch.ones(2)
    assert torch.equal(f(x), torch.jit.script(Whole()).eval()(x)) and "scale" not in names(f) and "self.base" in f.code


# Whether torch.jit.freeze gives the function the number of a constant tensor without dims, which does not widen the dtype.
COUNTS = {
    True: (lambda x, c: x + c, lambda x, c: x - c, lambda x, c: x * c, lambda x, c: x / c, torch.subtract, torch.multiply,
           torch.divide, torch.true_divide, lambda x, c: torch.add(x, c, alpha=2), lambda x, c: torch.sub(x, c, alpha=2)),
    False: (torch.floor_divide, torch.remainder, torch.fmod, torch.pow, torch.float_power, torch.rsub, torch.maximum,
            torch.atan2, torch.xlogy, torch.copysign, torch.logical_and, lambda x, c: c + x, lambda x, c: c * x,
            lambda x, c: torch.div(x, c, rounding_mode="floor"), lambda x, c: torch.div(x, c, rounding_mode="trunc"),
            lambda x, c: torch.div(x, c, rounding_mode=None), lambda x, c: x > c, lambda x, c: x < c, lambda x, c: x >= c,
            lambda x, c: x <= c, lambda x, c: x == c, lambda x, c: x != c, lambda x, c: x.masked_fill(x > 1, c),
            lambda x, c: x.float().clone().add_(c), lambda x, c: x.float().clone().sub_(c),
            lambda x, c: x.float().clone().mul_(c), lambda x, c: x.float().clone().div_(c),
            lambda x, c: x.float().clone().pow_(c), lambda x, c: x.float().clone().fmod_(c)),
}


class Calls(nn.Module):
    """All functions of one kind, of a constant."""

    def __init__(self, counts, c):
        super().__init__()
        self.counts = counts
        self.register_buffer("c", c)

    def forward(self, x):
        return tuple(f(x, self.c) for f in COUNTS[self.counts])


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("x", [torch.tensor([2, 3]), torch.tensor(0.1), torch.tensor([0.1, 2.5])], ids=["i", "f0", "f"])
def test_a_constant_without_dims_counts_as_a_number_where_torch_gives_one(counts, x):
    for c in (torch.tensor(0.1, dtype=torch.float64), torch.tensor(2.5).half(),
              torch.tensor(2.0000001, dtype=torch.float64), torch.tensor(2), torch.tensor(2.5, dtype=torch.bfloat16)):
        frozen = torch.jit.freeze(torch.jit.trace(Calls(counts, c).eval(), x, check_trace=False))
        loaded = torch.jit.load(io.BytesIO(frozen.save_to_buffer()))
        expected = [f(x, c.item() if counts else c) for f in COUNTS[counts]]
        for made in (frozen(x), loaded(x)):
            for i, (a, b) in enumerate(zip(made, expected, strict=True)):
                assert a.dtype == b.dtype and torch.equal(a, b), (i, c, a, b)


def set_norm(norm):
    """Statistics and parameters that differ by channel."""
    with torch.no_grad():
        for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
            if t is not None:
                nn.init.uniform_(t, 0.5, 2)
    return norm


def programs_of(m, x):
    return torch.jit.script(m.eval()), torch.jit.trace(m.eval(), x)


def check_joined(m, x, kinds, optimized=True):
    """Frozen programs lack nodes of these kinds, unless they must be exact, and have eager's results."""
    want = m.eval()(x)
    for program in programs_of(m, x):
        exact = torch.jit.freeze(program, optimize_numerics=False)
        assert torch.equal(exact(x), want) and all(exact.graph.findNode(kind) for kind in kinds if kind != "aten::dropout")
        for joined in (torch.jit.freeze(program), torch.jit.optimize_for_inference(program)):
            for kind in kinds:
                assert bool(joined.graph.findNode(kind)) is not optimized, (kind, joined.graph)
            torch.testing.assert_close(joined(x), want, rtol=1e-5, atol=1e-5)
            again = torch.jit.load(io.BytesIO(joined.save_to_buffer()))
            assert torch.equal(again(x), joined(x))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind, options", [
    ("Conv", {"bias": False}), ("Conv", {"groups": 2}), ("Conv", {"padding": "same"}), ("Conv", {"padding": 1, "padding_mode": "circular"}),
    ("ConvTranspose", {"groups": 2}), ("ConvTranspose", {"bias": False, "stride": 2, "output_padding": 1})])
def test_batch_norms_become_part_of_convolutions(dims, kind, options):
    torch.manual_seed(0)
    affine = options.get("groups") is None
    conv = getattr(nn, f"{kind}{dims}d")(4, 6, 3, **options)
    norm = set_norm(getattr(nn, f"BatchNorm{dims}d")(6, affine=affine))
    check_joined(nn.Sequential(conv, norm, nn.Dropout(0.5), nn.ReLU()), torch.randn(2, 4, *[5] * dims), ["aten::batch_norm", "aten::dropout"])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norms_become_part_of_linear_layers(bias, affine):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 5, bias=bias), set_norm(nn.BatchNorm1d(5, affine=affine)), nn.ReLU())
    check_joined(m, torch.randn(4, 3), ["aten::batch_norm"])


class Functional(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.mean, self.var = layer, nn.Parameter(torch.arange(4.0), False), nn.Parameter(torch.arange(1.0, 5.0), False)

    def forward(self, x):
        return nn.functional.batch_norm(self.layer(x), self.mean, self.var)


@pytest.mark.parametrize("layer, size", [(nn.Conv1d, (2, 3, 5)), (nn.Conv2d, (2, 3, 5, 5)), (nn.ConvTranspose2d, (2, 3, 5, 5)),
                                         (nn.Linear, (2, 3))])
def test_functional_norms_become_part_of_layers(layer, size):
    torch.manual_seed(0)
    check_joined(Functional(layer(3, 4) if layer is nn.Linear else layer(3, 4, 2)), torch.randn(*size), ["aten::batch_norm"])


def test_norms_with_statistics_of_the_batch_stay():
    m = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))
    check_joined(m, torch.randn(2, 3, 3, 3), ["aten::batch_norm"], optimized=False)
    m = nn.Sequential(nn.Linear(3, 4), set_norm(nn.BatchNorm1d(2)))
    check_joined(m, torch.randn(5, 2, 3), ["aten::batch_norm"], optimized=False)


def test_a_norm_of_another_dim_joins_a_linear_layer_where_all_channels_are_alike():
    torch.manual_seed(0)
    m, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm2d(4)).eval(), torch.randn(2, 4, 2, 3)
    check_joined(m, x, ["aten::batch_norm"])
    set_norm(m[1])
    frozen = torch.jit.freeze(torch.jit.script(m))
    assert frozen.graph.findNode("aten::batch_norm") and torch.equal(frozen(x), m(x))


def test_channels_are_those_of_a_batch():
    m = nn.Sequential(nn.Conv1d(4, 4, 1), set_norm(nn.BatchNorm1d(4))).eval()
    x = torch.randn(4, 7)
    torch.testing.assert_close(torch.jit.freeze(torch.jit.script(m))(x), m(x[None])[0])
    m = nn.Sequential(nn.Conv2d(4, 4, 1), set_norm(nn.BatchNorm2d(4))).eval()
    with pytest.raises(torch.jit.Error, match="expected 4D input"):
        torch.jit.freeze(torch.jit.script(m))(torch.randn(4, 4, 4))


def test_norms_of_lower_dtypes_keep_them():
    m = nn.Sequential(nn.Conv2d(2, 3, 1, dtype=torch.bfloat16), set_norm(nn.BatchNorm2d(3))).eval()
    x = torch.randn(1, 2, 3, 3).bfloat16()
    frozen = torch.jit.freeze(torch.jit.script(m))
    assert not frozen.graph.findNode("aten::batch_norm") and frozen(x).dtype == torch.bfloat16
    torch.testing.assert_close(frozen(x), m(x), rtol=0.05, atol=0.05)


class Term(nn.Module):
    def __init__(self, layer, f, other):
        super().__init__()
        self.layer, self.f, self.other = layer, f, other

    def forward(self, x):
        return self.f(self.layer(x), self.other)


@pytest.mark.parametrize("f", [torch.add, torch.sub, torch.mul, torch.div], ids=lambda f: f.__name__)
@pytest.mark.parametrize("other, joined", [
    (3, True), (2.5, True), (torch.tensor(2.5), True), (torch.tensor([2]), True), (torch.rand(1, 6, 1, 1) + 1, True),
    (torch.rand(1, 6, 1, 1).double() + 1, False), (torch.rand(6, 1, 1) + 1, False), (torch.rand(1, 1, 1, 4) + 1, False),
    (torch.rand(2, 1, 1, 1) + 1, False)], ids=lambda x: str(tuple(x.shape)) if isinstance(x, torch.Tensor) else None)
def test_terms_become_part_of_convolutions(f, other, joined):
    torch.manual_seed(0)
    for layer in (nn.Conv2d(4, 6, 2), nn.Conv2d(4, 6, 2, bias=False, groups=2), nn.ConvTranspose2d(4, 6, 2, padding=1, groups=2)):
        check_joined(Term(layer, f, other), torch.randn(2, 4, 5, 5), [f"aten::{f.__name__}"], joined)


def test_chains_of_norms_and_terms_are_joined():
    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 2, bias=False), set_norm(nn.BatchNorm2d(4))

        def forward(self, x):
            return torch.sub(self.norm(self.conv(x) * 2) + 3, 0.5, alpha=2) / 4
    torch.manual_seed(0)
    check_joined(Chain(), torch.randn(2, 3, 4, 4), ["aten::batch_norm", "aten::mul", "aten::add", "aten::sub", "aten::div"])


def test_norms_of_values_that_others_read_stay():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y
    m, x = Both().eval(), torch.randn(1, 2, 3, 3)
    frozen = torch.jit.freeze(torch.jit.script(m))
    assert frozen.graph.findNode("aten::batch_norm") and torch.equal(frozen(x), m(x))


class HasMethod(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.unused = 3, 4

    def forward(self, x):
        return self.scaled(x) + 1

    def scaled(self, x):
        return x * self.factor

    @torch.jit.export
    def other(self):
        return self.unused


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = HasMethod()

    def forward(self, x):
        return self.sub(x)


def test_methods_and_attributes_of_modules_inside_stay_when_they_are_named():
    frozen = torch.jit.freeze(torch.jit.script(Around().eval()), preserved_attrs=["sub.scaled", "sub.other", "sub.factor"])
    x = torch.ones(2)
    assert frozen(x).tolist() == [4, 4] and frozen.sub.scaled(x).tolist() == [3, 3] and frozen.sub.other() == 4
    assert frozen.sub.factor == 3 and not hasattr(frozen.sub, "unused")
    for name in ("sub.nothing", "nothing.a", "sub.factor.x"):
        with pytest.raises(RuntimeError, match="Unknown name"):
            torch.jit.freeze(torch.jit.script(Around().eval()), preserved_attrs=[name])


def test_the_mode_of_a_frozen_module_is_pythons_own():
    s = torch.jit.freeze(torch.jit.script(Scale().eval()))
    file = io.BytesIO()
    torch.jit.save(s, file)
    file.seek(0)
    x = torch.ones(2)
    for m in (s, torch.jit.load(file)):
        want = m(x).tolist()
        assert m.train() is m and m.training and m.eval() is m and not m.training
        assert m(x).tolist() == want
        outer = nn.Sequential(m)
        assert outer.train() is outer and m.training and m(x).tolist() == want
        m.training = False
        assert not m.training
    assert torch.jit.optimize_for_inference(torch.jit.script(Scale().eval())).eval()(x).tolist() == want


class Held(nn.Module):
    """Lists and dicts that only another method changes."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.same = {"x": 1}, [1, 2], {"k": [1, 2]}, [1, 2]
        self.d = [torch.ones(2)]

    def forward(self):
        return self.a, self.b, self.c, self.d, self.same, self.b is self.same

    @torch.jit.export
    def change(self):
        self.a["x"] += 1
        self.b.append(5)
        self.c["k"].append(7)
        self.d.append(torch.zeros(1))


def test_lists_and_dicts_of_a_frozen_module_are_those_of_the_original():
    m = torch.jit.script(Held().eval())
    f = torch.jit.freeze(m)
    assert not {"a", "b", "c", "d", "same"} & names(f)
    for _ in range(2):
        m.change()
        a, b, c, d, same, is_same = f()
        want = m()
        assert (a, b, c, same, is_same) == (*want[:3], [1, 2], False) and len(d) == len(want[3])
    loaded = torch.jit.load(io.BytesIO(f.save_to_buffer()))
    assert loaded()[:3] == ({"x": 3}, [1, 2, 5, 5], {"k": [1, 2, 7, 7]})


def test_lists_of_parameters_are_constants_without_gradients():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = [torch.ones(2, requires_grad=True)]

        def forward(self, x):
            return x * self.w[0]
    f = torch.jit.freeze(torch.jit.script(Weights().eval()))
    assert not f(torch.ones(2)).requires_grad


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = torch.tensor([1.0]), torch.tensor([2.0]), 3

    def forward(self, x):
        self.a[0] = 3.5
        return self.a

    @torch.jit.export
    def other(self, x):
        self.b[0] += 1
        return self.a


class Two(nn.Module):
    def __init__(self, method):
        super().__init__()
        self.one, self.two, self.method = Writer(), Writer(), method

    def forward(self, x):
        if self.method:
            return self.one(x) + self.two.other(x)
        return self.one(x) + self.two.b


def test_modules_of_one_class_keep_the_same_attributes():
    for method in (True, False):
        for preserved, kept in (([], {"a", "b"}), (["one"], {"a", "b", "c", "training"}), (["two"], {"a", "b", "c", "training"})):
            f = torch.jit.freeze(torch.jit.script(Two(method).eval()), preserved)
            for part in (f.one, f.two):
                assert {name for name in ("a", "b", "c", "training") if part._c.hasattr(name)} == kept
            x = torch.ones(1)
            assert torch.equal(f(x), Two(method)(x))


def test_attributes_that_a_fork_gets_stay():
    @torch.jit.script
    def double(x):
        return x * 2

    class Forks(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.ones(2), torch.ones(2)

        def forward(self, x):
            later = torch.jit.fork(double, self.a)
            return double(self.b) + torch.jit.wait(later) + x
    f = torch.jit.freeze(torch.jit.script(Forks().eval()))
    assert names(f) == {"a"} and f(torch.ones(2)).tolist() == [5, 5]


def test_parameters_stay_in_a_module_that_trains_or_on_request():
    program = torch.jit.script(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)))
    trains = torch._C._freeze_module(program._c)
    assert getattr(trains, "0").hasattr("weight") and getattr(trains, "1").hasattr("running_mean")
    assert not trains.hasattr("training") and getattr(trains, "2").hasattr("training")
    kept = torch._C._freeze_module(program.eval()._c, preserveParameters=True)
    assert getattr(kept, "0").hasattr("weight") and getattr(kept, "1").hasattr("running_var") and not kept.hasattr("2")
    x = torch.randn(4, 2)
    assert torch.equal(kept.forward(x), program(x)) and kept.forward(x).requires_grad
    frozen = torch._C._freeze_module(program._c)
    assert not frozen.hasattr("0") and "GetAttr" not in str(frozen._get_method("forward").graph)
    with pytest.raises(RuntimeError, match="Method 'nothing' is not defined"):
        frozen._get_method("nothing")


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.w = 0, torch.full((2,), 3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x * self.w + self.n


class Within(nn.Module):
    inner: Layer

    def __init__(self):
        super().__init__()
        self.inner = Counting()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) - 1


class Outside(nn.Module):
    outer: Layer

    def __init__(self, outer):
        super().__init__()
        self.outer = outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(x)


def test_calls_through_interfaces_are_in_place():
    m, x = torch.jit.script(Outside(Within()).eval()), torch.ones(2)
    f = torch.jit.freeze(m)
    assert not f.graph.findNode("prim::CallMethod") and names(f.outer.inner) == {"n"}
    assert [f(x).tolist() for _ in range(2)] == [[3, 3], [4, 4]]
    again = torch.jit.load(io.BytesIO(f.save_to_buffer()))
    assert again(x).tolist() == [5, 5] and f.outer.inner.n == 2


def test_an_interface_that_is_set_is_refused_also_inside_one():
    class Switches(nn.Module):
        inner: Layer

        def __init__(self):
            super().__init__()
            self.inner, self.other = Counting(), Counting()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.inner = self.other
            return self.inner(x)
    with pytest.raises(RuntimeError, match="Freezing does not support SetAttr on an interface type"):
        torch.jit.freeze(torch.jit.script(Outside(Switches()).eval()))


def test_detach_goes_where_nothing_tells_it():
    class Detached(nn.Module):
        def forward(self, x):
            y = x.detach()
            return y * y

    class Compared(nn.Module):
        def forward(self, x):
            y = x.detach()
            return x is y

    class Written(nn.Module):
        def forward(self, x):
            y = x.detach()
            y.add_(1)
            return y * 2
    x = torch.ones(2)
    for kind, stays in ((Detached, False), (Compared, True), (Written, True)):
        f = torch.jit.freeze(torch.jit.script(kind().eval()))
        assert bool(f.graph.findNode("aten::detach")) is stays
        want = kind()(x.clone())
        assert torch.equal(f(x.clone()), want) if isinstance(want, torch.Tensor) else f(x) == want


class Normed(nn.Module):
    """A weight that is computed of parameters, and a batch norm."""

    def __init__(self):
        super().__init__()
        self.v, self.g, self.norm = nn.Parameter(torch.randn(6, 4, 2, 2)), nn.Parameter(torch.rand(6) + 1), set_norm(nn.BatchNorm2d(6))

    def forward(self, x):
        w = self.v * (self.g / self.v.flatten(1).norm(2, [1])).view(6, 1, 1, 1)
        k = torch.stack([self.g, self.g * 2]).sum()
        return self.norm(torch.conv2d(x, w)) * k


def test_tensors_of_constants_are_computed_once():
    torch.manual_seed(0)
    m, x = Normed().eval(), torch.randn(2, 4, 5, 5)
    exact = torch.jit.freeze(torch.jit.script(m), optimize_numerics=False)
    kinds = {n.kind() for n in exact.graph.nodes()}
    assert torch.equal(exact(x), m(x)) and {"aten::conv2d", "aten::batch_norm"} <= kinds
    assert not kinds & {"aten::norm", "aten::div", "aten::view", "aten::flatten", "aten::stack", "aten::sum"}
    frozen = torch.jit.freeze(torch.jit.script(m))
    assert {n.kind() for n in frozen.graph.nodes()} & {"aten::batch_norm", "aten::mul", "aten::norm"} == set()
    torch.testing.assert_close(frozen(x), m(x), rtol=1e-5, atol=1e-5)
    again = torch.jit.load(io.BytesIO(frozen.save_to_buffer()))
    assert torch.equal(again(x), frozen(x))


class Owned(nn.Module):
    """Results that the caller gets, that are written, that differ at each call, that fail."""

    def __init__(self):
        super().__init__()
        self.w = torch.arange(3.0)

    def forward(self, x, fails: bool):
        returned, written = self.w * 2, self.w + 1
        written.add_(1)
        drawn = torch.rand_like(self.w)
        if fails:
            x = x + (self.w.reshape(2, 2) * 2)
        return returned, x + written, x * (drawn + 0.5)


def test_tensors_of_constants_that_others_get_or_write_are_made_at_each_call():
    f, x = torch.jit.freeze(torch.jit.script(Owned().eval())), torch.ones(3)
    first = f(x, False)
    first[0].zero_()
    second = f(x, False)
    assert second[0].tolist() == [0, 2, 4] and torch.equal(first[1], second[1]) and not torch.equal(first[2], second[2])
    with pytest.raises(RuntimeError, match="invalid for input of size 3"):
        f(x, True)
