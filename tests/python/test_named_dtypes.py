"""Dtypes that programs name and no tensor has: of quantized tensors, bits, and numbers of fewer than 8 bits."""
import copy
import pickle

import pytest

import cresset as torch

QUANTIZED = ["qint8", "quint8", "qint32", "quint4x2", "quint2x4"]
BITS = ["bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"]
SMALL = [f"{sign}int{n}" for sign in ("", "u") for n in range(1, 8)]
NAMES = [*QUANTIZED, *BITS, *SMALL, "float4_e2m1fn_x2"]


@pytest.mark.parametrize("name", NAMES)
def test_properties(name):
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype) and repr(dtype) == f"torch.{name}"
    assert dtype.itemsize == {"qint32": 4, "bits16": 2}.get(name, 1)
    assert dtype.is_floating_point == name.startswith("float") and not dtype.is_complex
    assert dtype.to_real() is dtype and pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert {dtype: 1}[getattr(torch, name)] == 1 and dtype != torch.int8
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for"):
        dtype.to_complex()
    if name in QUANTIZED or name in BITS:
        with pytest.raises(RuntimeError, match="Bits types are undefined|isSignedType not supported for quantized types"):
            dtype.is_signed
    else:
        assert dtype.is_signed == (not name.startswith("u"))


@pytest.mark.parametrize("name", NAMES)
def test_calls_say_that_no_tensor_has_them(name):
    """torch 2.13 has such tensors, without operators; names.md counts these dtypes as missing."""
    dtype, x = getattr(torch, name), torch.ones(2)
    calls = [lambda: torch.empty(2, dtype=dtype), lambda: torch.zeros(2, dtype=dtype), lambda: torch.tensor([1], dtype=dtype), lambda: x.to(dtype),
             lambda: x.to("cpu", dtype), lambda: x.to(dtype=dtype), lambda: x.sum(dtype=dtype),
             lambda: torch.empty_like(x, dtype=dtype), lambda: torch.frombuffer(bytearray(8), dtype=dtype),
             lambda: torch.asarray([1], dtype=dtype), lambda: x.new_zeros(2, dtype=dtype), lambda: x.view(dtype),
             lambda: torch.nn.Linear(1, 1, dtype=dtype)]
    for call in calls:
        with pytest.raises(NotImplementedError, match=f"^torch.{name} is a name alone: no tensor of Cresset has this dtype$"):
            call()
    for call in (lambda: x.type(dtype), lambda: torch.set_default_dtype(dtype), lambda: torch.finfo(dtype), lambda: torch.iinfo(dtype)):
        with pytest.raises((NotImplementedError, TypeError, RuntimeError, ValueError)):
            call()
    assert x.dtype == torch.float32 and torch.get_default_dtype() == torch.float32
