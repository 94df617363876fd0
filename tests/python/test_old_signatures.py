"""Calls of torch 0.4 with numbers before tensors: `x.add(2, y)`, `addmm(beta, x, alpha, a, b)`."""
import subprocess
import sys

import pytest

import cresset as torch

torch.manual_seed(3)
V, W, M = torch.randn(3), torch.randn(3), torch.randn(3, 3)
B, C = torch.randn(2, 3, 3), torch.randn(2, 3, 3)
ONE = [("add", V, (W,), "alpha"), ("sub", V, (W,), "alpha"), ("addcmul", V, (W, V), "value"),
       ("addcdiv", V, (W, V), "value")]
TWO = [("addmm", M, (M, M.T)), ("addmv", V, (M, W)), ("addr", M, (V, W)), ("addbmm", M, (B, C)),
       ("baddbmm", B, (C, B))]


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("name, x, others, number", ONE, ids=lambda x: x if isinstance(x, str) else "")
def test_one_number_before_tensors(name, x, others, number):
    want = getattr(torch, name)(x, *others, **{number: 3})
    assert not torch.equal(want, getattr(torch, name)(x, *others))
    assert torch.equal(getattr(torch, name)(x, 3, *others), want)
    assert torch.equal(getattr(x, name)(3, *others), want)
    assert torch.equal(getattr(x.clone(), name + "_")(3, *others), want)
    out = torch.empty(0)
    assert getattr(torch, name)(x, 3, *others, out=out) is out and torch.equal(out, want)


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("name, x, others", TWO, ids=lambda x: x if isinstance(x, str) else "")
def test_two_numbers_before_tensors(name, x, others):
    function = getattr(torch, name)
    both, first = function(x, *others, beta=2, alpha=3), function(x, *others, beta=2)
    assert not torch.equal(both, first)
    assert torch.equal(function(2, x, 3, *others), both)
    assert torch.equal(function(2, x, *others), first)
    assert torch.equal(getattr(x, name)(2, 3, *others), both)
    assert torch.equal(getattr(x, name)(2, *others), first)
    assert torch.equal(getattr(x.clone(), name + "_")(2, 3, *others), both)


@pytest.mark.parametrize("call", [lambda: torch.mul(V, 2, W), lambda: V.mul(2, W), lambda: torch.addmm(2, M, 3, M),
                                  lambda: torch.add(V, "a", W), lambda: torch.add(V, W, V, V), lambda: V.add(V, W)])
def test_other_calls_are_refused(call):
    with pytest.raises(TypeError, match="positional arguments but|must be|invalid combination|positional argument but"):
        call()


def test_the_warning_names_both_signatures():
    """Once in a process, as in torch."""
    text = "import cresset as torch; x = torch.ones(2); x.add_(2, x); x.sub(2, x); torch.add(x, 2, x)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr.count("This overload of") == 1
    assert "This overload of add_ is deprecated:\n\tadd_(Number alpha, Tensor other)\nConsider using one of the " \
           "following signatures instead:\n\tadd_(Tensor other, *, Number alpha = 1)\n" in done.stderr


@pytest.mark.parametrize("name", ["add", "sub", "rsub"])
def test_overloads_take_numbers_in_the_order_of_their_schema(name):
    x = torch.tensor([1.0, 2.0])
    overload = getattr(torch.ops.aten, name).Scalar
    assert torch.equal(overload(x, 2, 3), overload(x, 2, alpha=3))
    with pytest.raises((TypeError, RuntimeError)):
        getattr(torch.ops.aten, name).Tensor(x, 2, x)


def test_rsub_has_no_old_order():
    x = torch.ones(2)
    for call in (lambda: torch.rsub(x, 2, x), lambda: torch.rsub(x, 2, 3)):  # torch takes the second, with alpha=3
        with pytest.raises(TypeError):
            call()
