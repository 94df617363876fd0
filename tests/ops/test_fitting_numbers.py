"""Clauses `fits` and `factors`: numbers that the compute type cannot hold are refused, as are factors of a higher kind."""
import math
import re

import pytest

import cresset as torch

from table import ENTRIES, INTS, Draw
from test_by_values import SAMPLES

FLOATS = ("float16", "bfloat16", "float32", "float64")
REFUSED = ("value cannot be converted to type .* without overflow|unsigned type with negative limits|must not be a|Boolean .* only|lambda must be"
           "|not implemented for|non-complex scalar|complex Scalar to non-complex type|max must be larger than min|must be real-valued|real number")


def cases(entry):
    """The texts of an entry's samples."""
    text = SAMPLES.get(entry.key)
    return [c for c in (entry.cases() if text is None else text.split("|")) if not c.strip().startswith("none")]


def drawn(dtype):
    """(entry, draw, name) of the numbers of entries that compute in the dtype: the entry has a type, and its result the dtype."""
    for e in ENTRIES:
        numbers = [p["name"] for p in e.params if p["fits"]]
        for case in cases(e) if numbers and e.tensor_params and not e.name.startswith("_") else []:
            draw = Draw(e, case.strip(), dtype)
            names = [n for n in numbers if draw.values[n] is not None]
            draw.values.update({n: 1 for n in names})
            try:
                made = draw.run()
            except (RuntimeError, NotImplementedError, TypeError):
                continue
            if isinstance(made, torch.Tensor) and made.dtype == getattr(torch, dtype):
                yield from ((e, draw, n) for n in names)


def outside(dtype, negated):
    """Numbers beyond an integer dtype; those whose negative is beyond it."""
    info = torch.iinfo(getattr(torch, dtype))
    numbers = [info.max + 1] + ([-info.max - 1] if info.min == 0 else [info.min - 1] if info.min > -2 ** 63 else [])
    return [-n for n in numbers if n > -2 ** 63 and -n != -2 ** 63] if negated else numbers


def refused(entry, draw, name, number):
    with pytest.raises((RuntimeError, NotImplementedError), match=REFUSED):
        draw.run({**draw.values, name: number})
        pytest.fail(f"{entry.key}: {name}={number} is taken for {draw.dtype}")


@pytest.mark.parametrize("dtype", INTS)
def test_integers_outside_are_refused(dtype):
    tried = set()
    for entry, draw, name in drawn(dtype):
        for number in outside(dtype, next(p["fits"] for p in entry.params if p["name"] == name) == "negated"):
            tried.add((entry.key, name))
            refused(entry, draw, name, number)
    assert len(tried) > 10


@pytest.mark.parametrize("dtype", FLOATS)
def test_complex_and_too_large_numbers_are_refused(dtype):
    tried = set()
    for entry, draw, name in drawn(dtype):
        for number in (1j,) + ((1e39,) if dtype != "float64" else ()):
            tried.add((entry.key, name))
            refused(entry, draw, name, number)
    assert len(tried) > 30


@pytest.mark.parametrize("dtype", INTS + FLOATS + ("complex64",))
def test_truth_values_are_no_factors(dtype):
    tried = set()
    for entry, draw, name in drawn(dtype):
        if next(p["factor"] for p in entry.params if p["name"] == name):
            tried.add((entry.key, name))
            with pytest.raises(RuntimeError, match=f"Boolean {name} only supported for Boolean results."):
                draw.run({**draw.values, name: True})
            if dtype in INTS:
                with pytest.raises(RuntimeError, match=f"For integral input tensors, argument {name} must not be a floating point number."):
                    draw.run({**draw.values, name: 2.0})
    assert ("add", "alpha") in tried and ("addr", "beta") in tried


def answer(entry, draw, name, number):
    """The numbers of a result, or the words of the error."""
    try:
        made = draw.run({**draw.values, name: number})
    except (RuntimeError, NotImplementedError) as e:
        return str(e)
    return [made.dtype, made.nan_to_num(0, 1, -1).tolist()]


@pytest.mark.parametrize("dtype", FLOATS)
def test_complex_numbers_without_imaginary_part_are_real(dtype):
    tried = set()
    for entry, draw, name in drawn(dtype):
        made, want = answer(entry, draw, name, 2 + 0j), answer(entry, draw, name, 2.0)
        if isinstance(made, str) and re.search("not implemented for 'Complex|Converting complex|must not be a complex", made):
            continue  # as in torch: bounds of clamp promote, factors have the kind of the result
        assert made == want, (entry.key, name)
        tried.add(entry.key)
    assert {"softshrink", "hardshrink", "elu", "elu_backward", "softplus", "addcmul", "addr"} <= tried


@pytest.mark.parametrize("dtype, above", [("float32", "refused"), ("float64", "taken")])
def test_the_largest_float32_is_a_limit_of_float32(dtype, above):
    tried = set()
    largest = 3.4028234663852886e38
    for entry, draw, name in drawn(dtype):
        for number in (largest, -largest, math.nextafter(largest, math.inf), math.nextafter(-largest, -math.inf)):
            made = answer(entry, draw, name, number)
            other = isinstance(made, str) and re.search("must be larger|must be in range .* found -", made)
            assert other or isinstance(made, str) == (abs(number) > largest and above == "refused"), (entry.key, name, number, made)
        tried.add((entry.key, name))
    assert len(tried) > 30


def test_softshrink_has_torchs_messages():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="^value cannot be converted to type double without overflow"):
        torch.nn.functional.softshrink(x, -1 + 1j)
    with pytest.raises(RuntimeError, match=r"^lambda must be in range \[0, 3.40282e\+38\] for input dtype Float, but found -1"):
        torch.nn.functional.softshrink(x, -1 + 0j)


def test_numbers_inside_are_taken():
    x = torch.tensor([1, 2], dtype=torch.int8)
    assert (x.add(x, alpha=-128) == x - 128 * x).all() and (x.addcmul(x, x, value=127) == x + 127 * x * x).all()
    assert (x.sub(x, alpha=128) == x - 128 * x).all()  # -128 is added
    u = torch.tensor([1, 2], dtype=torch.uint8)
    assert u.add(u, alpha=-1).tolist() == [0, 0]  # a negative integer whose absolute value fits
    assert (u.add(1000) == u + 232).all()  # `other` is cast
    b = torch.tensor([True, False])
    assert b.add(b, alpha=True).tolist() == [True, False]
    h = torch.ones(2, 2, dtype=torch.float16)
    assert torch.addmm(h, h, h, alpha=70000).isinf().all()  # a half dtype's factor is a float32
    assert torch.nn.functional.hardtanh(u, 0, 255).tolist() == [1, 2]


def test_two_truth_values_are_not_subtracted():
    b = torch.tensor([True, False])
    for call in (torch.sub, torch.rsub):
        with pytest.raises(RuntimeError, match="with two bool tensors is not supported"):
            call(b, b)
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
            call(b, b.int())


@pytest.mark.parametrize("call", (torch.var, torch.std, lambda *x, **k: torch.var_mean(*x, **k)[0], lambda *x, **k: torch.std_mean(*x, **k)[0]))
def test_corrections_may_be_complex_without_an_imaginary_part(call):
    x = torch.tensor([[1., 2.], [4., 8.]], requires_grad=True)
    assert torch.equal(call(x, correction=2 + 0j), call(x, correction=2.0))
    a, b = (torch.autograd.grad(call(x, correction=c), x)[0] for c in (2 + 0j, 2.0))
    assert torch.equal(a, b)
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
        call(x, correction=2 + 1j)
