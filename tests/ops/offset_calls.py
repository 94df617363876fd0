"""Calls every entry whose tensors can be offsets (word `raises_by_values`) with values, sizes, dtypes and devices that do
not fit.  Each call gives results or raises.  Run by test_offsets.py in a process with checks of the heap.

    offset_calls.py [NAME]
"""
import os
import resource
import sys

import cresset as torch

from table import ENTRIES, Draw, leaves
from test_by_values import SAMPLES

NUMBERS = (-1, 1, 3, 100, -2 ** 31, 2 ** 40, 2 ** 63 - 1, -2 ** 63)
DTYPES = [getattr(torch, n) for n in ("uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32",
                                      "float64", "complex32", "complex64", "complex128", "uint16", "uint64", "float8_e5m2")]


def changed(t):
    """Tensors like `t` with other values, sizes, dtypes, layouts and devices."""
    for value in NUMBERS:
        yield torch.full(t.shape, value if t.dtype == torch.int64 else float(value) if t.is_floating_point() else value % 128,
                         dtype=t.dtype) if not t.is_complex() else t * value
    for dtype in DTYPES:
        yield t.to(dtype)
    for d in range(t.ndim):
        yield t.narrow(d, 0, t.shape[d] - 1) if t.shape[d] else t
        yield torch.cat([t, t], d)
        yield t.select(d, 0) if t.shape[d] else t
        yield t.narrow(d, 0, 0)
        yield t.flip(d).transpose(0, d)
    yield t.unsqueeze(0)
    yield t.unsqueeze(-1).expand(*t.shape, 3)
    yield t.to("meta")
    yield torch.zeros((), dtype=t.dtype)


def variants(draw):
    """Arguments of which one is changed, or one tensor and all dtypes."""
    for p in draw.entry.params:
        name, v = p["name"], draw.values[p["name"]]
        if isinstance(v, torch.Tensor):
            for w in changed(v):
                yield {**draw.values, name: w}
        elif isinstance(v, (list, tuple)) and v and isinstance(v[0], torch.Tensor):
            for w in changed(v[0]):
                yield {**draw.values, name: [w, *v[1:]]}
        elif p["type"] == "ScalarType":
            for dtype in DTYPES:
                yield {**draw.values, name: dtype}
        elif type(v) is int:
            for number in NUMBERS[:-4]:
                yield {**draw.values, name: number}


def run(entry):
    """(calls, calls that returned)"""
    count = returned = 0
    text = SAMPLES.get(entry.key)
    for case in (c for c in (entry.cases() if text is None else text.split("|")) if not c.startswith("none:")):
        try:
            draw = Draw(entry, case, "float32")
            draw.run(dict(draw.values))
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
            continue
        for values in variants(draw):
            count += 1
            try:
                made = draw.run({k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()})
                returned += sum(t.numel() >= 0 for t in leaves(made)) > 0
            except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError, OverflowError):
                pass
    return count, returned


if __name__ == "__main__":
    named = sys.argv[1:]
    if "MALLOC_CHECK_" in os.environ:  # a sanitizer needs more addresses, and refuses 2 ** 40 classes itself
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30,) * 2)
    for entry in (e for e in ENTRIES if "raises_by_values" in e.words and (not named or e.key in named)):
        print(entry.key, end=" ", flush=True)
        print(*run(entry), flush=True)
    assert not set(named) - {e.key for e in ENTRIES}
