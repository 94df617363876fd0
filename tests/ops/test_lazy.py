"""Every entry with tensors that have the bits conj and neg gives what it gives without them (src/tensor/lazy.c)."""
import numpy
import pytest

import cresset as torch

from table import BY_KEY, ENTRIES, Draw, leaves

# They refuse the bits, as in torch.
REFUSING = {"view_as_real", "view.dtype", "view_as_real_copy", "view_copy.dtype"}
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and e.tensor_params and "random" not in e.words and
         "undefined" not in e.words and e.key not in REFUSING]


def lazy(t):
    """Equal to `t`, with the bit neg, and conj for complex numbers."""
    if not isinstance(t, torch.Tensor) or t.dtype == torch.bool or t.dtype.itemsize < 4 and t.is_floating_point():
        return t
    stored = -t
    if t.is_complex():
        stored = stored.conj_physical().conj()
    made = stored._neg_view().as_strided(t.size(), t.stride()) if t.numel() else t
    assert made.is_neg() or not t.numel()
    return made


def marked(v):
    return [lazy(t) for t in v] if isinstance(v, list) else lazy(v)


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return a == b or a != a
    assert a.dtype == b.dtype and a.shape == b.shape
    a, b = a.resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()
    if a.dtype.itemsize < 4 and a.is_floating_point():
        a, b = a.float(), b.float()
    return numpy.array_equal(a.numpy(), b.numpy(), equal_nan=True)


def outcome(draw, values):
    """The results, or the class of the error."""
    try:
        return draw.run(values)
    except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError) as e:
        return type(e)


@pytest.mark.parametrize("key, dtype", [(e.key, t) for e in DRAWN for t in ("complex64", "float32") if t in e.dtypes],
                         ids=[f"{e.file[:-3]}:{e.key}-{t}" for e in DRAWN for t in ("complex64", "float32")
                              if t in e.dtypes])
def test_bits_are_not_seen(key, dtype):
    entry = BY_KEY[key]
    for case in entry.cases():
        draw = Draw(entry, case, dtype)
        want = outcome(draw, draw.values)
        got = outcome(draw, {name: marked(v) for name, v in draw.values.items()})
        if isinstance(want, type):
            assert got is want
            continue
        assert not isinstance(got, type), got
        a, b = list(leaves(want)), list(leaves(got))
        assert len(a) == len(b) and all(same(x, y) for x, y in zip(a, b)), case


@pytest.mark.parametrize("key", [e.key for e in DRAWN if "inplace" in e.forms],
                         ids=[e.key for e in DRAWN if "inplace" in e.forms])
def test_in_place_through_bits(key):
    """self.op_() on a view with bits writes the stored numbers of its base."""
    entry = BY_KEY[key]
    dtype = next(d for d in ("complex64", "float32", "int64", "bool") if d in entry.dtypes)
    for case in entry.cases():
        draw, other = Draw(entry, case, dtype), Draw(entry, case, dtype)
        name = entry.params[0]["name"]
        other.values[name] = base = lazy(other.values[name])
        method = f"{entry.name}_"
        outcomes = []
        for d in (draw, other):
            args, kwargs = d.call_arguments()
            try:
                outcomes.append(getattr(args[0], method)(*args[1:], **kwargs))
            except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError) as e:
                outcomes.append(type(e))
        if isinstance(outcomes[0], type):
            assert outcomes[1] is outcomes[0]
        else:
            assert outcomes[1] is base and same(*outcomes), case
