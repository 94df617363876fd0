"""Compiled results equal eager's, bit for bit: every entry of the table, forward and backward, at
one and two threads.

With CR_TEST_NATIVE=1 every test waits for native code; without it, most groups run by tiles.
"""
import os
import warnings

import numpy
import pytest

import cresset as torch
from cresset import _C

from table import BY_KEY, ENTRIES, Draw, as_array, leaves

pytestmark = pytest.mark.deferred_calls(0)  # its subject are recordings

# Entries named empty have undefined results.
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and "empty" not in e.name]
# Entries that read elements during the call, or draw from a separate generator.
EAGER = frozenset((
    "item", "_local_scalar_dense", "is_nonzero", "equal", "_holds_everywhere", "allclose", "is_set_to", "is_same_size", "masked_scatter",
    "masked_select", "repeat_interleave.self_Tensor", "_repeat_interleave_each", "narrow.Tensor",
    "tensor_split.tensor_indices_or_sections", "index.Tensor", "index_fill.int_Tensor", "masked_fill.Tensor",
    "detach", "detach_copy", "nonzero", "argwhere", "repeat_interleave.Tensor"))
NATIVE = bool(os.environ.get("CR_TEST_NATIVE"))


def same_bits(a, b):
    """NaN equals NaN; -0.0 differs from 0.0."""
    if a.dtype != b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad:
        return False
    x, y = as_array(a), as_array(b)
    if x.dtype.kind not in "fc":
        return numpy.array_equal(x, y)
    parts = ((x.real, y.real), (x.imag, y.imag)) if x.dtype.kind == "c" else ((x, y),)
    return all(numpy.array_equal(p, q, equal_nan=True) and
               numpy.array_equal(numpy.signbit(p[~numpy.isnan(p)]), numpy.signbit(q[~numpy.isnan(q)])) for p, q in parts)


def wrap(entry, draw):
    """Wraps the call in a function with further arithmetic, so that there is something to fuse."""
    args, kwargs = draw.call_arguments({name: name for name in draw.values})
    positional, keywords = tuple(args), tuple(name for name in draw.values if name not in args and name in used(draw))
    op = getattr(_C.ops, entry.name)

    def f(values):
        out = op(*[values[name] for name in positional], **{name: values[name] for name in keywords})
        return [o * 2 + o if o.is_floating_point() or o.is_complex() else o for o in leaves(out)]
    return f


def used(draw):
    """Returns the keywords that differ from their defaults."""
    return draw.call_arguments()[1]


def fresh(v):
    """A copy, since the call may write it; a leaf if `v` is one."""
    if isinstance(v, (list, tuple)):
        return [fresh(x) for x in v]
    return v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v


def results(f, draw, values):
    torch.manual_seed(7)
    values = {k: fresh(v) for k, v in values.items()}
    outs = f(values) + [x for p in draw.entry.params if p["written"] for x in leaves(values[p["name"]])]
    wanted = [x for v in values.values() for x in leaves(v) if x.requires_grad]
    roots = [o for o in outs if o.requires_grad]
    grads = torch.autograd.grad(roots, wanted, [torch.ones_like(o) for o in roots], allow_unused=True) if roots else []
    return outs, grads


def at_threads(f, draw):
    out = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        out[threads] = results(f, draw, draw.values)
    return out


def check(entry, dtype, requires_grad):
    for case in entry.cases():
        draw = Draw(entry, case, dtype, requires_grad=requires_grad and not any(p["written"] for p in entry.params))
        fn = wrap(entry, draw)
        try:
            want = at_threads(fn, draw)
        except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
            continue  # this dtype is refused; other tests check the message
        compiled = torch.compile(fn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = results(compiled, draw, draw.values)
        for e in compiled._entries:
            if NATIVE:
                e.runner.wait(60.0)
        assert not compiled._off or entry.key in EAGER or dtype == "complex64", compiled._compiler.refusal
        for threads, again in at_threads(compiled, draw).items():
            for kind, a, b in zip(("forward", "backward"), want[threads], again):
                assert len(a) == len(b)
                for x, y in zip(a, b):
                    assert (x is None) == (y is None) and (x is None or same_bits(x, y)), \
                        f"{entry.key} {dtype} '{case}' {kind} at {threads} threads:\n{x}\n{y}"
        assert len(first[0]) == len(want[2][0])


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("key", [e.key for e in DRAWN], ids=[f"{e.file[:-3]}:{e.key}" for e in DRAWN])
def test_compiled_equals_eager(key):
    entry = BY_KEY[key]
    for dtype in ("float32", "bfloat16", "int64", "complex64"):
        if dtype in entry.dtypes:
            check(entry, dtype, dtype in ("float32", "complex64"))
