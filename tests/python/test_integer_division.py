"""Integers divided by a tensor with a zero raise, in every spelling; floats do not."""
import pytest

import cresset as torch

SPELLINGS = {
    "//": lambda a, z: a // z, "%": lambda a, z: a % z, "7 //": lambda a, z: 7 // z, "7 %": lambda a, z: 7 % z,
    "floor_divide": torch.floor_divide, "remainder": torch.remainder, "fmod": torch.fmod,
    "div floor": lambda a, z: torch.div(a, z, rounding_mode="floor"),
    "div trunc": lambda a, z: torch.div(a, z, rounding_mode="trunc"),
    "floor_divide_": lambda a, z: a.clone().floor_divide_(z), "remainder_": lambda a, z: a.clone().remainder_(z),
    "fmod_": lambda a, z: a.clone().fmod_(z), "div_ floor": lambda a, z: a.clone().div_(z, rounding_mode="floor"),
    "div_ trunc": lambda a, z: a.clone().div_(z, rounding_mode="trunc"),
    "//=": lambda a, z: a.clone().__ifloordiv__(z), "%=": lambda a, z: a.clone().__imod__(z),
    "out": lambda a, z: torch.floor_divide(a, z, out=torch.empty_like(a)),
    "0-d": lambda a, z: a // z[0], "broadcast": lambda a, z: a[:, None] // z, "expanded": lambda a, z: a % z[:1].expand(2),
    "strided": lambda a, z: a // torch.stack([z, z], 1)[:, 0], "number 0": lambda a, z: a // 0,
    "long": lambda a, z: torch.ones(100_000, dtype=a.dtype) % torch.cat([torch.ones(99_999, dtype=a.dtype), z[:1]]),
    "self only": lambda a, z: torch.remainder(z, z), "foreach": lambda a, z: [x % y for x, y in zip(a, z)],
}


@pytest.mark.parametrize("dtype", (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_zero_raises(name, dtype):
    a, z = torch.tensor([7, 5], dtype=dtype), torch.tensor([0, 1], dtype=dtype)
    with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
        SPELLINGS[name](a, z)
    if name not in ("number 0",):
        SPELLINGS[name](a, z + 1)
        SPELLINGS[name](a.double(), z.double())


def test_values_and_empty_results():
    a, b = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
    assert (a // b).tolist() == [3, -4, -4, 3] and (a % b).tolist() == [1, 1, -1, -1]
    assert torch.fmod(a, b).tolist() == [1, -1, 1, -1]
    assert torch.div(a, b, rounding_mode="trunc").tolist() == [3, -3, -3, 3]
    assert (a[:0] // torch.zeros(1, dtype=torch.int64)).shape == (0,)
    for of_none in (a[:0] // 0, a[:0] % 0, a[:0].fmod(0), torch.div(a[:0], 0, rounding_mode="trunc")):
        assert of_none.shape == (0,) and of_none.dtype == torch.int64
    assert (torch.empty(2, 0, dtype=torch.int64, device="meta") // torch.zeros(1, dtype=torch.int64, device="meta")).is_meta
    assert (torch.tensor([True]) // torch.tensor([0.0])).item() == float("inf")


@pytest.mark.parametrize("function", (lambda a, b: a // b + 1, lambda a, b: (a % b) * 2, lambda a, b: torch.fmod(a, b),
                                      lambda a, b: torch.div(a, b, rounding_mode="trunc") - a))
def test_compiled_functions_raise_in_later_calls(function):
    compiled = torch.compile(function)
    a, b = torch.tensor([7, 5]), torch.tensor([2, 3])
    for _ in range(3):
        assert torch.equal(compiled(a, b), function(a, b))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(a, torch.tensor([1, 0]))
    assert torch.equal(compiled(a, b), function(a, b))
