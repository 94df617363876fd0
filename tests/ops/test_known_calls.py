"""Every entry, called again with the same geometry while calls wait, gives eager's results (src/tensor/defer_known.c)."""
import pytest

import cresset as torch
from cresset import _C

from table import ENTRIES, Draw, leaves

ERRORS = (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError)
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and e.tensor_params and not {"random", "undefined"} & set(e.words)]
TIMES = 3  # the third call is known
known = {}


def facts(t):
    """All that a program sees of a tensor."""
    t = t.resolve_conj().resolve_neg()
    elements = t.float() if t.dtype.itemsize < 4 and t.is_floating_point() else t
    return (str(t.dtype), tuple(t.shape), t.stride(), t.storage_offset(), t._version, t.is_inference(),
            elements.contiguous().numpy().tobytes() if t.layout == torch.strided else None)


def own(v):
    """In memory that only the library uses: calls that use other memory copy it."""
    return [own(t) for t in v] if isinstance(v, list) else v.clone() if isinstance(v, torch.Tensor) else v


def calls(entry, case, dtype, in_place):
    """The calls of a case with other elements each time; each makes its results, or the class of its error."""
    for seed in range(TIMES):
        draw = Draw(entry, case, dtype, seed)
        args, kwargs = draw.call_arguments({name: own(v) for name, v in draw.values.items()})
        op = getattr(args[0], entry.name + "_") if in_place else lambda *a, **k: entry.call(a, k)
        yield args, op, args[1:] if in_place else args, kwargs


def results(made):
    kept = []
    for args, op, given, kwargs in made:
        try:
            kept.append((op(*given, **kwargs), args))
        except ERRORS as error:
            kept.append((type(error), args))
    return kept


def seen(kept):
    return [(r if isinstance(r, type) else [facts(t) for t in leaves(r)], [facts(t) for t in leaves(args)])
            for r, args in kept]


def check(entry, in_place):
    dtype = next(d for d in ("float32", "int64", "bool", "complex64") if d in entry.dtypes)
    for case in entry.cases():
        want = seen(results(calls(entry, case, dtype, in_place)))
        with torch.lazy():
            kept = results(calls(entry, case, dtype, in_place))
        assert seen(kept) == want, (entry.key, case)


@pytest.mark.parametrize("file", sorted({e.file for e in DRAWN}))
def test_again(file):
    _C._defer_counts()
    for entry in DRAWN:
        if entry.file == file:
            check(entry, False)
            if "inplace" in entry.forms:
                check(entry, True)
    counts = _C._defer_counts()
    known[file] = counts["known"], counts["noted"]


def test_calls_were_known():
    assert all(4 * some >= noted for some, noted in known.values()), known
    assert 2 * sum(some for some, _ in known.values()) >= sum(noted for _, noted in known.values()), known
