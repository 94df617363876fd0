"""Clause `rounds`: numbers, and elements of other dtypes, are rounded to a half dtype before the body computes in float32."""
import pytest

import cresset as torch

from table import ENTRIES

HALVES = (torch.float16, torch.bfloat16)
NUMBERS = (0.1, 1 / 3, -0.7, 2049.5, 70001.0, 1e-9, float("nan"), float("inf"))
ROUNDED = [(e, p["name"]) for e in ENTRIES if e.does == "body" and "function" in e.forms
           for p in e.params if p["rounds"] and p["name"] != "self"]


def same(a, b):
    return torch.equal(a.nan_to_num(nan=-7), b.nan_to_num(nan=-7)) and a.dtype == b.dtype


def taken(entry, name):
    """The numbers, 0-d tensors and tensors that the parameter takes."""
    one = next(p for p in entry.params if p["name"] == name)
    if one["number"] or one["type"] == "Scalar":
        yield from (x for x in NUMBERS if one["number"] or x != 70001.0)  # a Scalar must fit
    if one["type"] == "Tensor":
        yield from (torch.tensor(x, dtype=t) for x in NUMBERS for t in (torch.float32, torch.float64))
        yield torch.tensor([3, 2049, 257, -2051, 70001, 0])


def plain(value, dtype):
    return value.to(dtype) if isinstance(value, torch.Tensor) else torch.tensor(value).to(dtype).item()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("entry, name", ROUNDED, ids=str)
def test_a_number_is_rounded_first(entry, name, dtype):
    def call(*args, **more):
        return entry.call(args, more)

    x = torch.tensor([0.1, 1 / 3, 2049.0, 70001.0, 0.0, 300.0]).to(dtype)
    others = {p["name"]: x + 1 for p in entry.params if p["type"] == "Tensor" and p["name"] not in ("self", name)}
    others.update({p["name"]: 1 for p in entry.params if p["type"] == "Scalar" and p["name"] != name and not p["has_default"]})
    compiled = torch.compile(lambda x, y: call(x, **others, **{name: y}))
    for value in taken(entry, name):
        want = call(x, **others, **{name: plain(value, dtype)})
        assert same(call(x, **others, **{name: value}), want), value
        assert same(compiled(x, value), want), value


@pytest.mark.parametrize("dtype", HALVES + (torch.float8_e4m3fn, torch.float8_e5m2))
def test_comparisons_with_the_number_that_made_a_tensor(dtype):
    for number in (0.1, 1 / 3, 200.3):
        x = torch.tensor([number, 2 * number]).to(dtype)
        assert (x == number).tolist() == (x == torch.tensor(number)).tolist() == [True, False]
        assert (number == x).tolist() == [True, False] and (x != number).tolist() == [False, True]
    if dtype in HALVES:
        x = torch.tensor([0.1, 1.0]).to(dtype)
        assert (x <= 0.1).tolist() == [True, False] and (x > 0.1).tolist() == [False, True]
        assert torch.remainder(x, 0.1)[0] == 0 and (0.1 - x)[0] == 0 and torch.nn.functional.hardshrink(x, 0.1)[0] == 0
        assert torch.isin(x, 0.1).tolist() == [True, False]


@pytest.mark.parametrize("dtype", HALVES)
def test_products_and_quotients_read_the_number_itself(dtype):
    x = torch.tensor([3.0]).to(dtype)
    assert (x * 0.1).item() == torch.tensor(3 * 0.1).to(dtype).item() and (x / 0.1).item() == torch.tensor(3 / 0.1).to(dtype).item()


WITH_NUMBER = [(e, p["name"]) for e in ENTRIES if "function" in e.forms and len(e.tensor_params) == 2
               for p in e.params if p["type"] == "Tensor" and p["number"]]


@pytest.mark.parametrize("entry, name", WITH_NUMBER, ids=str)
def test_gradients_beside_a_number_are_those_beside_a_tensor(entry, name):
    other = next(p["name"] for p in entry.tensor_params if p["name"] != name)
    x = torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64, requires_grad=True)
    for number in (2.0, 0.5):
        try:
            want = entry.call((), {other: x, name: torch.tensor(number, dtype=torch.float64)})
            want = torch.autograd.grad(want.sum(), x)[0]
        except (RuntimeError, TypeError, NotImplementedError) as error:  # no derivative, or other dtypes
            want = str(error)
        try:
            got = torch.autograd.grad(entry.call((), {other: x, name: number}).sum(), x)[0]
        except (RuntimeError, TypeError, NotImplementedError) as error:
            got = str(error)
        assert isinstance(want, str) or torch.allclose(want, got), (number, got)
        assert isinstance(want, str) == isinstance(got, str), (want, got)
