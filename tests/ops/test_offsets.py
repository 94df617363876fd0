"""Tensors whose values, sizes or dtypes are offsets into other tensors are checked before memory is touched."""
import os
import pathlib
import subprocess
import sys

import pytest

import cresset as torch

from table import ENTRIES, Draw
from test_by_values import SAMPLES

HERE = pathlib.Path(__file__).parent
FLOATING = ("float16", "bfloat16", "float32", "float64")
ALL = FLOATING + ("uint8", "int8", "int16", "int32", "int64", "bool", "complex64", "complex128")


def test_offsets_that_do_not_fit():
    checks = {} if "LD_PRELOAD" in os.environ else {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}
    run = subprocess.run([sys.executable, HERE / "offset_calls.py"], env={**os.environ, **checks}, capture_output=True,
                         text=True, timeout=300)
    lines = [line.split() for line in run.stdout.splitlines()]
    assert run.returncode == 0, (lines[-1:], run.stderr[-500:])
    called = {key: (int(count), int(returned)) for key, count, returned in lines}
    assert set(called) == {e.key for e in ENTRIES if "raises_by_values" in e.words}
    assert not [key for key, (count, returned) in called.items() if count and returned == count]
    assert sum(count > 0 for count, _ in called.values()) > 60


@pytest.mark.parametrize("entry", [e for e in ENTRIES if "raises_by_values" in e.words and
                                   any(p["type"] == "ScalarType" for p in e.params)], ids=str)
def test_results_of_any_dtype(entry):
    draw = Draw(entry, SAMPLES[entry.key], "float32")
    name = next(p["name"] for p in entry.params if p["type"] == "ScalarType")
    want = draw.run({**draw.values, name: torch.float64})
    for dtype in (getattr(torch, d) for d in ALL + ("complex32",)):
        made = draw.run({**draw.values, name: dtype})
        assert made.dtype == dtype and (made.to(torch.complex128) == want.to(dtype).to(torch.complex128)).all(), dtype


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("rows, columns", [(4, 1), (3, 3), (2, 5)])
def test_factors_of_any_dtype(dtype, rows, columns):
    pivots = torch.tensor([2, 2, 3, 4][:min(rows, columns)], dtype=torch.int32).clamp(max=rows)
    data = torch.arange(rows * columns).reshape(rows, columns)
    made, want = (torch.lu_unpack(data.to(d), pivots) for d in (getattr(torch, dtype), torch.float64))
    for a, b in zip(made, want):
        assert a.dtype == getattr(torch, dtype) and (a == b.to(a.dtype)).all()
