"""Tests of every entry, made from the operator table (see table.py)."""
import warnings

import numpy
import pytest

import cresset as torch
from cresset import _C

from table import BY_KEY, COMPLEX, ENTRIES, FLOATS, HALVES, INTS, Draw, as_array, leaves, reference

DRAWN = [e for e in ENTRIES if e.can_be_drawn()]
WITH_REF = [e for e in DRAWN if e.ref]
# Entries whose derivative is stated, or that are compositions of differentiable ones.
UNDERIVED = [e for e in DRAWN if e.grads and all(f"underived={name}" in e.tags for name in e.grads)]
WITH_GRAD = [e for e in DRAWN if e.grads and "random" not in e.words and e not in UNDERIVED]


def by_key(entries):
    return pytest.mark.parametrize("key", [e.key for e in entries], ids=[f"{e.file[:-3]}:{e.key}" for e in entries])


def by_key_and_dtype(pairs):
    return pytest.mark.parametrize("key, dtype", [(e.key, d) for e, d in pairs],
                                   ids=[f"{d}-{e.file[:-3]}:{e.key}" for e, d in pairs])


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and numpy.array_equal(as_array(a), as_array(b), equal_nan=True)


def first_dtype(entry):
    for d in ("float64", "complex128", "int64", "bool"):
        if d in entry.dtypes:
            return d
    return "float32"


TOLERANCE = {"float32": 2e-5, "complex64": 4e-5, "float16": 4e-3, "bfloat16": 3e-2}


@by_key(WITH_REF)
def test_values_and_dtypes(key):
    """Against NumPy and SciPy, for every dtype the entry takes."""
    entry = BY_KEY[key]
    tried = 0
    for dtype in FLOATS + HALVES + COMPLEX + INTS + ("bool",):
        if dtype not in entry.dtypes:
            continue
        for case in entry.cases():
            draw = Draw(entry, case, dtype)
            try:
                got = list(leaves(draw.run()))[0]
            except NotImplementedError:
                assert dtype in INTS + ("bool",), (dtype, case)
                continue  # refused by the kernel, in torch's words
            with numpy.errstate(all="ignore"):
                try:
                    want = numpy.asarray(reference(entry, draw))
                except TypeError:
                    continue  # the reference has no such dtype; values are then covered by the others
            tolerance = TOLERANCE.get(dtype, 1e-9)
            if dtype in INTS + ("bool",) and got.is_floating_point():
                tolerance = 2e-5
            have = as_array(got)
            assert tuple(have.shape) == tuple(want.shape), (dtype, case)
            exact = not (got.is_floating_point() or got.is_complex())
            if exact and want.dtype.kind in "iub" and have.dtype.kind in "iub":
                numpy.testing.assert_array_equal(have.astype(numpy.int64), want.astype(have.dtype).astype(numpy.int64),
                                                 err_msg=f"{dtype} {case}")
            else:
                numpy.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=f"{dtype} {case}")
            tried += 1
    assert tried


def refuses(entry, dtype):
    """Whether a call with tensors of the dtype must raise: the entry leaves it out, and tensors of it can be drawn."""
    if dtype in entry.dtypes or not entry.tensor_params or entry.does in ("whole", "is"):
        return False  # a `whole` or composition: types are decided by the entries that it calls
    if dtype == "bool" and (entry.makes_float or any(p["number"] or p["type"] == "Scalar" for p in entry.params)):
        return False  # a number among the arguments can lift bool to a type that is taken
    try:
        draw = Draw(entry, entry.cases()[0], dtype)
    except (ValueError, RuntimeError):
        return False
    return any(True for _ in leaves(draw.values[entry.params[0]["name"]])) and \
        any(t.dtype == getattr(torch, dtype) for t in leaves(list(draw.values.values())))


@by_key_and_dtype([(e, d) for e in DRAWN for d in COMPLEX + ("bool",) if refuses(e, d)])
def test_refused_dtypes(key, dtype):
    """Every dtype that the entry does not support raises."""
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], dtype)
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        draw.run()


def outcome(entry, draw, values):
    """The results of a call, and the arguments that it wrote."""
    result = draw.run(values)
    written = [values[p["name"]] for p in entry.params if p["written"]]
    return list(leaves(result)) + list(leaves(written)), result if isinstance(result, (bool, int, float)) else None


def copied(v):
    if isinstance(v, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in v):
        return [copied(x) for x in v]
    return v.clone() if isinstance(v, torch.Tensor) else v


@by_key([e for e in DRAWN if not {"random", "undefined"} & set(e.words)])
def test_strides_and_fakes(key):
    """Non-contiguous arguments give the same values; fakes give the same sizes and dtypes."""
    entry = BY_KEY[key]
    for case in entry.cases():
        draw = Draw(entry, case, first_dtype(entry))
        want, number = outcome(entry, draw, {k: copied(v) for k, v in draw.values.items()})
        have, same_number = outcome(entry, draw, {k: scattered(v) for k, v in draw.values.items()})
        assert len(want) == len(have) and (want or number is not None) and number == same_number, case
        for a, b in zip(want, have):
            assert a.shape == b.shape and a.dtype == b.dtype, case
            numpy.testing.assert_allclose(as_array(b), as_array(a), rtol=1e-12, atol=1e-12, err_msg=case)
        if entry.does in ("body", "fold", "map") or entry.fused:
            fakes = {k: faked(v) for k, v in draw.values.items()}
            for a, b in zip(want, leaves(draw.run(fakes))):
                assert b.is_meta and a.shape == b.shape and a.dtype == b.dtype, case


def scattered(v):
    """The same values with a gap after each element and the dims stored in reverse."""
    if isinstance(v, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in v):
        return [scattered(x) for x in v]
    if not isinstance(v, torch.Tensor) or v.ndim == 0:
        return v
    a = as_array(v) if v.dtype not in (torch.float16, torch.bfloat16) else None
    if a is None:
        return v
    order = list(range(v.ndim))[::-1]
    wide = numpy.zeros([2 * n for n in a.transpose(order).shape], a.dtype)
    part = wide[tuple(slice(None, None, 2) for _ in order)]
    part[...] = a.transpose(order)
    return torch.from_numpy(wide)[tuple(slice(None, None, 2) for _ in order)].permute(order)


def faked(v):
    if isinstance(v, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in v):
        return [faked(x) for x in v]
    return v.to("meta") if isinstance(v, torch.Tensor) else v


@by_key([e for e in DRAWN if e.does in ("body", "fold") and not any("=" in c and "(" in c for c in e.cases())])
def test_zero_size(key):
    """Empty arguments give empty results, or the identity of a reduction."""
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], first_dtype(entry), shape=(0, 3))
    if entry.does == "body":
        assert [tuple(t.shape) for t in leaves(draw.run())] == [(0, 3)] * len(entry.results)
    elif len(entry.results) > 1:  # an extreme and its index, along a dim that is not empty
        assert [tuple(t.shape) for t in leaves(draw.run())] == [(0,)] * len(entry.results)
    elif entry.name in ("amax", "amin", "argmax", "argmin"):
        with pytest.raises((IndexError, RuntimeError), match="Expected reduction dim"):
            draw.run()
    else:
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of a mean without elements
            want = reference(entry, draw)
        numpy.testing.assert_array_equal(as_array(draw.run()), want)


def several_tensors(entry):
    """The tensor parameters that may be the same tensor, if there are two or more."""
    names = [p["name"] for p in entry.tensor_params if p["type"] == "Tensor" and not p["mask"] and not p["optional"]]
    return names if len(names) > 1 else []


ONE_RESULT = [e for e in DRAWN if e.does == "body" and len(e.results) == 1]


@by_key([e for e in ONE_RESULT if several_tensors(e)])
def test_one_tensor_as_all_arguments(key):
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], first_dtype(entry))
    names = several_tensors(entry)
    one = draw.values[names[-1]]
    twice = dict(draw.values, **{n: one for n in names})
    apart = dict(draw.values, **{n: one.clone() for n in names})
    assert same(draw.run(twice), draw.run(apart))


@by_key([e for e in ONE_RESULT if "inplace" in e.forms])
def test_inplace(key):
    """The in-place form returns its argument, which holds the result; a result of another dtype is refused."""
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], first_dtype(entry))
    want = draw.run()
    args, kwargs = draw.call_arguments({k: copied(v) for k, v in draw.values.items()})
    back = getattr(args[0], entry.name + "_")(*args[1:], **kwargs)
    assert back is args[0] and back.dtype == draw.values[entry.params[0]["name"]].dtype
    assert same(back, want.to(back.dtype))


@by_key([e for e in ONE_RESULT if "out" in e.forms])
def test_out(key):
    """out= of another size takes the result."""
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], first_dtype(entry))
    want = draw.run()
    out = torch.empty(0, dtype=want.dtype)
    assert draw.run(out=out) is out and same(out, want)


def numeric_gradient(f, values, name, index, weights, step=1e-6):
    """d sum(f * weights) / d values[name][index] by central differences; complex in both parts."""
    a = values[name] if index is None else values[name][index]
    flat = a.detach().clone().reshape(-1)
    grad = torch.zeros_like(flat)
    parts = (1, 1j) if a.is_complex() else (1,)
    for k in range(flat.numel()):
        for part in parts:
            both = []
            for sign in (1, -1):
                moved = flat.clone()
                moved[k] = moved[k] + sign * step * part
                moved = moved.reshape(a.shape)
                v = dict(values)
                v[name] = moved if index is None else [moved if i == index else x for i, x in enumerate(values[name])]
                both.append(sum((o.detach() * w.conj()).sum().real if o.is_complex() else (o.detach() * w).sum()
                                for o, w in zip(f(v), weights)).item())
            grad[k] = grad[k] + (both[0] - both[1]) / (2 * step) * part
    return grad.reshape(a.shape)


def differentiable(outs):
    return [o for o in leaves(outs) if o.requires_grad]


def weights_for(outs, seed=5):
    random = numpy.random.default_rng(seed)
    made = []
    for o in outs:
        w = random.uniform(0.5, 1.5, tuple(o.shape))
        if o.is_complex():
            w = w + 1j * random.uniform(0.5, 1.5, tuple(o.shape))
        made.append(torch.from_numpy(numpy.asarray(w)).to(o.dtype))
    return made


def inputs_of(entry, draw):
    for p in entry.tensor_params:
        v = draw.values[p["name"]]
        if f"underived={p['name']}" in entry.tags:
            continue
        if isinstance(v, torch.Tensor) and v.requires_grad:
            yield p["name"], None, v
        elif isinstance(v, (list, tuple)):
            for i, x in enumerate(v):
                if isinstance(x, torch.Tensor) and x.requires_grad:
                    yield p["name"], i, x


@by_key_and_dtype([(e, d) for d in ("float64", "complex128") for e in WITH_GRAD if d in e.dtypes])
def test_gradients(key, dtype):
    """First derivatives against central differences."""
    entry = BY_KEY[key]
    for case in entry.cases():
        draw = Draw(entry, case, dtype, requires_grad=True)
        inputs = list(inputs_of(entry, draw))
        outs = differentiable(draw.run())
        if not outs or not inputs:
            continue
        weights = weights_for(outs)
        got = torch.autograd.grad(outs, [x for _, _, x in inputs], weights, allow_unused=True)
        count = len(outs)
        for (name, index, x), g in zip(inputs, got):
            want = numeric_gradient(lambda v: pick(draw.run(v), outs), detached(draw.values), name, index, weights)
            have = torch.zeros_like(x) if g is None else g
            numpy.testing.assert_allclose(as_array(have), as_array(want), rtol=2e-5, atol=2e-5, err_msg=f"{name} {case}")


def detached(values):
    return {k: v.detach() if isinstance(v, torch.Tensor) else
            [x.detach() if isinstance(x, torch.Tensor) else x for x in v] if isinstance(v, list) else v
            for k, v in values.items()}


def pick(outs, like):
    """The results that were differentiable in the recorded run: those of a floating or complex dtype."""
    found = [o for o in leaves(outs) if o.is_floating_point() or o.is_complex()]
    return found[:len(like)]


@by_key(UNDERIVED)
def test_no_gradient(key):
    draw = Draw(BY_KEY[key], BY_KEY[key].cases()[0], "float64", requires_grad=True)
    with pytest.raises((RuntimeError, NotImplementedError), match="is not implemented"):
        draw.run().sum().backward()


@by_key([e for e in WITH_GRAD if "float64" in e.dtypes])
def test_second_gradients(key):
    """Derivatives of the first derivatives, in the arguments and in the cotangents, against central differences.

    Cotangents are one argument more, so that the derivative of a linear entry has one as well."""
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], "float64", requires_grad=True)
    inputs = list(inputs_of(entry, draw))
    outs = differentiable(draw.run())
    values = dict(draw.values, cotangents=weights_for(outs))
    moved = [(n, i) for n, i, _ in inputs] + [("cotangents", i) for i in range(len(outs))]

    def first(values):
        taken = {k: wants_grad(v) for k, v in values.items()}
        o = differentiable(draw.run(taken))
        g = torch.autograd.grad(o, [at(taken, n, i) for n, i, _ in inputs], taken["cotangents"],
                                allow_unused=True, create_graph=True)
        return [at(taken, n, i) for n, i in moved], [torch.zeros_like(x) if y is None else y for (_, _, x), y in zip(inputs, g)]

    where, grads = first(values)
    weights = weights_for(grads, seed=9)
    live = [(g, w) for g, w in zip(grads, weights) if g.requires_grad]
    got = torch.autograd.grad([g for g, _ in live], where, [w for _, w in live], allow_unused=True) if live else [None] * len(where)
    for (name, index), x, g in zip(moved, where, got):
        want = numeric_gradient(lambda v: first(v)[1], detached(values), name, index, weights)
        have = torch.zeros_like(x) if g is None else g
        numpy.testing.assert_allclose(as_array(have), as_array(want), rtol=2e-4, atol=2e-4, err_msg=name)


def at(values, name, index):
    return values[name] if index is None else values[name][index]


def wants_grad(v):
    if isinstance(v, list):
        return [wants_grad(x) for x in v]
    return v.detach().requires_grad_(True) if isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex()) else v


def broadcasts(entry):
    """Whether the entry has two tensors whose sizes must broadcast."""
    if entry.does != "body" or "no_promote" in entry.words or any("=" in c and "t(" in c for c in entry.cases()):
        return False
    return sum(p["type"] == "Tensor" and not p["optional"] for p in entry.params) > 1


@by_key([e for e in DRAWN if broadcasts(e)])
def test_mismatched_sizes(key):
    """Sizes that do not broadcast raise torch's text without a leak."""
    entry = BY_KEY[key]
    draw = Draw(entry, entry.cases()[0], first_dtype(entry))
    name = [p["name"] for p in entry.tensor_params if isinstance(draw.values[p["name"]], torch.Tensor)][-1]
    values = dict(draw.values, **{name: draw.values[name][:2]})
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\) at non-singleton dimension 0"):
        draw.run(values)


def test_the_table_is_complete():
    """Every entry is documented, and entries that are not drawn state it."""
    for e in ENTRIES:
        assert e.doc.strip(), e.key
    assert len(ENTRIES) > 200
    assert _C.ops.add is not None
