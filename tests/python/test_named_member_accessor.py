"""torch.nn.utils._named_member_accessor: tensors and submodules by dotted names; errors as torch 2.13 words them."""
import pytest

import cresset as torch
from cresset import nn
from cresset.nn.utils._named_member_accessor import (_MISSING, NamedMemberAccessor, set_tensor, swap_submodule,
                                                     swap_tensor)


@pytest.fixture
def model():
    m = nn.Sequential(nn.Linear(1, 1, bias=False))
    m.register_buffer("b", torch.zeros(1))
    m.register_buffer("none", None)
    m.t, m.x = torch.ones(1), 3
    return m


def test_tensors_are_exchanged(model):
    two = torch.full((1,), 2.0)
    assert swap_tensor(model, "t", two).item() == 1 and model.t is two
    assert swap_tensor(model, "none", two) is None and model.none is two
    assert swap_tensor(model, "q", two, allow_missing=True) is _MISSING and model.q is two
    assert swap_tensor(model, "q", _MISSING, allow_missing=True) is two and not hasattr(model, "q")
    set_tensor(model[0], "weight", two)
    assert model[0]._parameters["weight"] is two
    first = model[0]
    assert swap_submodule(model, "0", nn.ReLU()) is first and isinstance(model[0], nn.ReLU)


@pytest.mark.parametrize("call, kind, text", [
    (lambda m: swap_tensor(m, "x", m.t), TypeError, "attribute `x`: 3 is not an instance of torch.Tensor"),
    (lambda m: swap_tensor(m, "q", m.t), AttributeError, "Sequential has no attribute `q`"),
    (lambda m: swap_tensor(m, "0.weight", m.t), KeyError, "'tensor name can\\'t contain \".\"'"),
    (lambda m: swap_tensor(m, "", m.t), KeyError, "'tensor name can\\'t be empty string \"\"'"),
    (lambda m: swap_tensor(3, "a", m.t), TypeError, "3 is not an instance of torch.nn.Module"),
    (lambda m: swap_tensor(m, "b", 3), TypeError, "3 is not an instance of torch.Tensor"),
    (lambda m: set_tensor(m, "b", 3), TypeError, "3 is not an instance of torch.Tensor"),
    (lambda m: set_tensor(m, "a.b", 3), TypeError, "3 is not an instance of torch.Tensor"),
    (lambda m: NamedMemberAccessor(m).set_tensor("0.weight", 3), TypeError, "3 is not an instance of torch.Tensor"),
    (lambda m: NamedMemberAccessor(m).set_tensors_dict({"0.weight": "w"}), TypeError, "w is not an instance of torch.Tensor"),
    (lambda m: NamedMemberAccessor(m).del_tensor("0.y"), AttributeError, "Linear has no attribute `0.y`"),
    (lambda m: NamedMemberAccessor(m).swap_tensor("0.y", m.t), AttributeError, "Linear has no attribute `y`"),
    (lambda m: swap_submodule(m, "9", m), KeyError, "'submodule 9 does not exist'"),
    (lambda m: swap_submodule(m, "0", 3), TypeError, "3 is not an instance of torch.nn.Module"),
    (lambda m: NamedMemberAccessor(m).get_submodule("1"), AttributeError, "Sequential has no attribute `1`"),
    (lambda m: NamedMemberAccessor(m).get_submodule("x"), TypeError,
     "submodule `x`: 3 is not an instance of torch.nn.Module"),
    (lambda m: NamedMemberAccessor(m).get_tensor("0.y"), AttributeError, "Linear has no attribute `0.y`"),
    (lambda m: NamedMemberAccessor(m).set_tensors(["b"], [m.t, m.t]), AssertionError,
     "names and values must have the same length, got 1 names and 2 values"),
])
def test_refusals(model, call, kind, text):
    with pytest.raises(kind) as raised:
        call(model)
    assert str(raised.value) == text


def test_dicts_of_names(model):
    members, zero, weight = NamedMemberAccessor(model), torch.zeros(1, 1), model[0].weight
    assert members.check_keys(["0.weight", "q"]) == (["b"], ["q"])
    with pytest.raises(RuntimeError, match="Missing key.s.: 'k'."):
        members.swap_tensors_dict({"0.weight": zero, "k": zero})
    assert model[0].weight is weight and not hasattr(model, "k")
    assert members.swap_tensors_dict({"0.weight": zero, "k": zero}, allow_missing=True) == (
        {"0.weight": weight, "k": _MISSING}, ["k"])
    assert members.get_tensors(["0.weight", "k"]) == [zero, zero]
    members.del_tensors(["k", "b"])
    assert not hasattr(model, "k") and [name for name, _ in members.named_tensors()] == ["0.weight"]
