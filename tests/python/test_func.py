"""torch.func, vmap and forward_ad: numbers equal torch's (func_cases.py), errors, histories."""
import json
from pathlib import Path

import pytest

import cresset as torch
import func_cases
from cresset.autograd import forward_ad
from cresset.func import grad, jvp, vjp, vmap

EXPECTED = json.loads((Path(__file__).parent / "func_expected.json").read_text())


def compare(got, expected):
    if isinstance(expected, dict) and set(expected) == {"shape", "dtype", "values"}:
        assert (got["shape"], got["dtype"]) == (expected["shape"], expected["dtype"])
        assert got["values"] == pytest.approx(expected["values"], rel=1e-10, abs=1e-12)
    elif isinstance(expected, dict):
        assert set(got) == set(expected)
        for key, value in expected.items():
            compare(got[key], value)
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            compare(a, b)
    else:
        assert got == expected


@pytest.mark.parametrize("name", func_cases.CASES)
def test_numbers_are_torchs(name):
    compare(func_cases.run(name), EXPECTED[name])


X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("call, error, text", [
    (lambda: vmap(lambda x: 3)(X), ValueError, "must only return Tensors, got type <class 'int'>"),
    (lambda: vmap(lambda x: x.item())(torch.ones(3)), RuntimeError, r"you're calling .item\(\) on a Tensor"),
    (lambda: vmap(lambda x: x if x.sum() > 0 else -x)(X), RuntimeError, "data-dependent control flow"),
    (lambda: vmap(lambda x: torch.rand(2))(X), RuntimeError, "called random operation while in randomness error mode"),
    (lambda: vmap(lambda x: x, in_dims=2)(X), ValueError, "Got in_dim=2 for some input, but that input is a Tensor of "
                                                          "dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2"),
    (lambda: vmap(lambda x, y: x, in_dims=(0,))(X, X), ValueError, "in_dims is not compatible with the structure of"),
    (lambda: vmap(lambda x, y: x + y)(X, torch.ones(3, 3)), ValueError, r"got sizes \[2, 3\] for the mapped dimension"),
    (lambda: vmap(lambda x: x)(3), ValueError, "the input is of type <class 'int'>. We cannot vmap over non-Tensor"),
    (lambda: vmap(lambda x: x)(), ValueError, "got no inputs. Maybe you forgot to add inputs"),
    (lambda: vmap(lambda x: x, chunk_size=0), ValueError, "chunk_size should be None or greater than 0"),
    (lambda: grad(lambda x: x * 2)(X), RuntimeError, "to return a scalar Tensor, got tensor with 2 dims"),
    (lambda: grad(lambda x: 3)(X), RuntimeError, r"Expected f\(\*args\) to return a Tensor, got <class 'int'>"),
    (lambda: grad(lambda x: x.sum(), argnums=1)(X), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
    (lambda: grad(lambda x: x.sum())(torch.arange(3)), RuntimeError, "only Tensors of floating point dtype"),
    (lambda: vjp(lambda x: x * 2, X)[1](torch.ones(3)), RuntimeError, r"Mismatch in shape: grad_output\[0\] has a shape"),
    (lambda: jvp(lambda x: x, (X,), (torch.ones(3),)), RuntimeError, "a different size than that of the original"),
    (lambda: jvp(lambda x: x, X, (X,)), RuntimeError, "Expected primals to be a tuple"),
    (lambda: forward_ad.make_dual(X, X), RuntimeError, "no level exists, make sure to enter_dual_level"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_results_have_the_history_of_other_tensors_only():
    w = torch.ones(3, requires_grad=True)
    assert not grad(lambda x: (x ** 2).sum())(torch.ones(3)).requires_grad
    g = grad(lambda x: (x ** 2 * w).sum())(torch.ones(3))
    g.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    x = torch.ones(3, requires_grad=True)
    vmap(lambda y: y.exp())(x).sum().backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_random_numbers_of_a_batch():
    x = torch.zeros(4, 2)
    different = vmap(lambda x: x + torch.rand(2), randomness="different")(x)
    assert len({tuple(row) for row in different.tolist()}) == 4
    same = vmap(lambda x: x + torch.rand(2), randomness="same")(x)
    assert len({tuple(row) for row in same.tolist()}) == 1


def test_a_batch_is_one_call():
    from cresset.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not types:
                names.append(str(func))
            return func(*args, **(kwargs or {}))
    names = []
    with Names():
        vmap(lambda x, y: (x @ y).exp().sum(0))(torch.ones(50, 2, 3), torch.ones(50, 3, 4))
    assert len(names) < 20


def test_levels_of_forward_derivatives():
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
        x = forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        assert forward_ad.unpack_dual(x).tangent.tolist() == [3, 3]
        assert forward_ad.unpack_dual(torch.ones(2)).tangent is None
    assert forward_ad.unpack_dual(x).tangent is None
    with pytest.raises(RuntimeError, match="no level is active"):
        forward_ad.exit_dual_level()


def test_batch_norms_lose_their_statistics():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    assert torch.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    assert vmap(model, randomness="error")(torch.randn(2, 4, 3)).shape == (2, 4, 3)
