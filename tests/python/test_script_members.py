"""Members of compiled modules: those that the class has are replaced, others are refused, as are hooks."""
import io

import pytest

import cresset as torch
from cresset import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.n = nn.Linear(2, 2), 3
        self.register_buffer("b", torch.zeros(2))

    def forward(self, x):
        return self.l(x) + self.b + self.n

    @torch.jit.export
    def other(self, x):
        return x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.p = Inner(), nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.i(x) * self.p


_DELETE = "cannot delete methods or parameters of a script module"
_NEW = "Can't add a new parameter after ScriptModule construction. Tried to add '"
_MODULE = "Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace existing module 'k': Linear("

REFUSED = {
    "delete a parameter": (lambda m: delattr(m, "p"), _DELETE), "delete a module": (lambda m: delattr(m, "i"), _DELETE),
    "delete a buffer": (lambda m: delattr(m.i, "b"), _DELETE), "pop": (lambda m: m._modules.__delitem__("i"), _DELETE),
    "register a buffer": (lambda m: m.register_buffer("nb", torch.ones(1)), _NEW + "nb"),
    "register a parameter": (lambda m: m.register_parameter("np", nn.Parameter(torch.ones(1))), _NEW + "np"),
    "assign a parameter": (lambda m: setattr(m, "q", nn.Parameter(torch.ones(1))), _NEW + "q"),
    "add a module": (lambda m: m.add_module("k", nn.Linear(1, 1)), _MODULE),
    "assign a module": (lambda m: setattr(m, "k", nn.Linear(1, 1)), _MODULE),
    "add a compiled module": (lambda m: m.add_module("k", torch.jit.script(nn.Linear(1, 1))), " does not have an attribute with name 'k'"),
    "a number for a buffer": (lambda m: setattr(m.i, "b", 3), "Could not cast attribute 'b' to type Tensor: Unable to cast 3 to Tensor"),
    **{name: (lambda m, name=name: getattr(m, name)(), f"{name} is not supported on ScriptModules") for name in (
        "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_state_dict_pre_hook",
        "register_load_state_dict_post_hook", "requires_grad_", "get_submodule", "get_parameter", "compile", "bfloat16", "to_empty")},
}


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(2)),
                                  lambda m: torch.jit.load(_saved(torch.jit.script(m)))])
@pytest.mark.parametrize("name", REFUSED)
def test_compiled_modules_refuse_other_members_and_hooks(name, make):
    call, text = REFUSED[name]
    made = make(Outer())
    with pytest.raises(RuntimeError) as error:
        call(made)
    assert text in str(error.value)
    assert [n for n, _ in made.named_parameters()] == ["p", "i.l.weight", "i.l.bias"] and made(torch.ones(2)).shape == (2,)


def _saved(m):
    buffer = io.BytesIO()
    torch.jit.save(m, buffer)
    buffer.seek(0)
    return buffer


def test_members_that_a_compiled_module_has_are_replaced_in_the_program():
    m = torch.jit.script(Outer())
    m.i.register_buffer("b", torch.ones(2))
    m.register_parameter("p", nn.Parameter(torch.ones(2) * 2))
    m.i.l.weight, m.i.l.bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
    assert m(torch.ones(2)).tolist() == [8, 8]
    m.p = torch.zeros(2)  # a parameter may become a plain tensor
    assert m(torch.ones(2)).tolist() == [0, 0]
    other = torch.jit.script(Inner())
    m.add_module("i", other)
    assert m.i is other and m._c.get("i") == other._c
    with pytest.raises(AttributeError, match="has no attribute 'training'"):
        del m.training
    assert "other" in dir(m.i) and "forward" in dir(m.i)
    with pytest.raises(NotImplementedError):
        len(m)
