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
