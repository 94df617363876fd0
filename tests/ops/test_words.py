"""Tests every entry against the words that it states (src/ops/words.def), and against its clauses `inverse`, `neutral`
and `filled`."""
import glob
import os
import pickle
import re
import subprocess
import sys

import numpy
import pytest

import cresset as torch
from cresset import _C

from table import BY_KEY, COMPLEX, ENTRIES, FLOATS, HALVES, INTS, Draw, leaves

DTYPES = FLOATS + HALVES + COMPLEX + INTS + ("bool",)
# The samples of entries whose own clause says that they are not drawn.
SAMPLES = {"_conj": "self = t(3, 2)", "_neg_view": "self = t(3, 2)", "copy_": "self = t(3, 4); src = t(4)",
           "item": "self = t()", "as_strided": "size = [2, 2]; stride = [4, 1]", "view_as_complex": "self = t(3, 2)",
           "empty.memory_format": "", "empty_strided": "stride = [4, 1]"}


def having(*words):
    """Entries that can be called here; those with the word `meets` need other processes: tests/dist/test_functional.py."""
    entries = [e for e in ENTRIES if any(w in e.words for w in words) and "meets" not in e.words]
    return pytest.mark.parametrize("key", [e.key for e in entries], ids=[e.key for e in entries])


def cases(entry, dtypes=DTYPES):
    """(self, result, draw) of every case and dtype that the entry takes; at least one."""
    tried = 0
    text = SAMPLES.get(entry.key)
    for case in entry.cases() if text is None else [text]:
        for dtype in dtypes:
            if dtype not in entry.dtypes:
                continue
            draw = Draw(entry, case, dtype)
            try:
                made = draw.run()
            except (RuntimeError, NotImplementedError):
                continue  # this dtype is refused by a check or by a rule
            tried += 1
            yield draw.values[entry.params[0]["name"]], made, draw
    assert tried, f"{entry.key} has no sample that runs"


def bits(t):
    """The bytes of a tensor's elements, row-major."""
    t = t.contiguous()
    if t.dtype in (torch.float16, torch.bfloat16):
        t = t.view(torch.int16)
    return t.numpy().tobytes()


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def home(t):
    return t.untyped_storage().data_ptr()


@having("view")
def test_view(key):
    for x, made, _ in cases(BY_KEY[key]):
        for t in leaves(made):
            assert home(t) == home(x) or not t.numel()


@having("copy")
def test_copy(key):
    for _, made, draw in cases(BY_KEY[key]):
        given = {home(t) for t in leaves(list(draw.values.values())) if t.numel()}
        assert not given & {home(t) for t in leaves(made)}


def homes(value):
    return [home(t) for t in leaves(value) if t.layout == torch.strided and not t.is_meta and t.numel()]


def test_results_of_kernels_and_of_compositions_that_end_in_them_are_fresh():
    """They share memory neither with arguments nor, if a kernel makes them, with each other."""
    fresh = [e for e in ENTRIES if not e.may_share and e.can_be_drawn() and e.tensor_params]
    ran = set()
    for entry in fresh:
        for case in entry.cases():
            draw = Draw(entry, case, next((d for d in ("float32", "complex64", "int64") if d in entry.dtypes), "bool"))
            try:
                made = homes(draw.run())
            except (RuntimeError, NotImplementedError):
                continue  # a check or a rule refuses this dtype
            ran.add(entry.key)
            assert not set(made) & set(homes(list(draw.values.values()))), entry.key
            assert entry.does == "is" or len(set(made)) == len(made), entry.key
    assert len(ran) > 0.9 * len(fresh) > 400


@having("identity")
def test_identity(key):
    for x, made, _ in cases(BY_KEY[key]):
        assert same_bits(made, x)


@having("cast")
def test_cast(key):
    """NumPy converts the same, real to real and complex to complex."""
    for x, made, _ in cases(BY_KEY[key], FLOATS + INTS + ("bool",)):
        assert made.shape == x.shape
        numpy.testing.assert_array_equal(made.numpy(), x.numpy().astype(made.numpy().dtype))


@having("reshape")
def test_reshape(key):
    for x, made, _ in cases(BY_KEY[key]):
        assert made.dtype == x.dtype and bits(made) == bits(x)


@having("permute")
def test_permute(key):
    for x, made, _ in cases(BY_KEY[key]):
        assert home(made) == home(x) and made.storage_offset() == x.storage_offset()
        assert sorted(zip(made.shape, made.stride())) == sorted(zip(x.shape, x.stride()))


@having("expand")
def test_expand(key):
    for x, made, _ in cases(BY_KEY[key], FLOATS):
        numpy.testing.assert_array_equal(made.numpy(), numpy.broadcast_to(x.numpy(), made.shape))


@having("itself")
def test_itself(key):
    """A call on the result has nothing to change and returns it."""
    entry = BY_KEY[key]
    for _, made, draw in cases(entry):
        again = dict(draw.values, **{entry.params[0]["name"]: made})
        if "reshape" in entry.words and made.ndim < 2:
            again.update({p["name"]: 0 for p in entry.params if p["name"] == "start_dim"})
        got = draw.run(again)
        assert home(got) == home(made) and got.shape == made.shape and got.stride() == made.stride()


def pieces(t, dim, like):
    at = 0
    for p in like:
        n = p.shape[dim]
        yield t.narrow(dim, at, n)
        at += n
    assert at == t.shape[dim]


@having("join")
def test_join(key):
    for parts, made, draw in cases(BY_KEY[key], FLOATS):
        for part, piece in zip(parts, pieces(made, draw.values["dim"], parts)):
            assert same_bits(part, piece)


@having("split")
def test_split(key):
    for x, made, draw in cases(BY_KEY[key], FLOATS):
        for part, piece in zip(made, pieces(x, draw.values["dim"], made)):
            assert same_bits(part, piece) and home(part) == home(x)


@having("absolute")
def test_absolute(key):
    """The result is the same part of the storage for every view of it."""
    entry = BY_KEY[key]
    for x, made, draw in cases(entry, FLOATS):
        other = x.flatten()[:3]
        got = draw.run(dict(draw.values, **{entry.params[0]["name"]: other}))
        assert home(got) == home(made) and got.stride() == made.stride() and same_bits(got, made)


@having("undefined")
def test_undefined(key):
    """Sizes and dtype are all that is promised; two results do not share memory."""
    for _, made, draw in cases(BY_KEY[key], FLOATS):
        again = draw.run()
        assert again.shape == made.shape and again.dtype == made.dtype
        assert home(again) != home(made)


SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-42, 3e38, 2.5]


def special(dtype):
    """A (2, n) tensor with the special values of the dtype."""
    if dtype == "bool":
        return torch.tensor([[False, True]] * 2)
    if dtype in INTS:
        ends = numpy.iinfo(dtype)
        return torch.from_numpy(numpy.array([[0, 1, 2, ends.min, ends.max, 7]] * 2, dtype))
    values = torch.tensor([SPECIAL, SPECIAL[::-1]], dtype=torch.float64)
    if dtype in COMPLEX:
        values = torch.complex(values, values.flip([1]))
    return values.to(getattr(torch, dtype))


def on_special(entry, dtypes):
    """(self, result, the other arguments) on special values, for every supported dtype."""
    tried = 0
    for dtype in dtypes:
        if dtype not in entry.dtypes:
            continue
        draw = Draw(entry, entry.cases()[0], dtype)
        x = special(dtype)
        values = dict(draw.values, **{entry.params[0]["name"]: x})
        try:
            made = draw.run(values)
        except (RuntimeError, NotImplementedError):
            continue
        tried += 1
        yield x, made, draw, values
    assert tried, f"{entry.key} takes no special values"


@having("idempotent")
def test_idempotent(key):
    entry = BY_KEY[key]
    for _, made, draw, values in on_special(entry, DTYPES):
        assert same_bits(draw.run(dict(values, **{entry.params[0]["name"]: made})), made)


# A call of each entry with the word `rows`, on 4 parts of 3 numbers.
ROW_CALLS = {"linear": lambda ops, x: ops.linear(x, torch.arange(6.0).view(2, 3)),
             "layer_norm": lambda ops, x: ops.layer_norm(x, [3]), "rms_norm": lambda ops, x: ops.rms_norm(x, [3]),
             "embedding": lambda ops, x: ops.embedding(torch.arange(10.0).view(5, 2), x.long() % 5),
             "dropout": lambda ops, x: ops.dropout(x, 0.5, True), "alpha_dropout": lambda ops, x: ops.alpha_dropout(x, 0.5, True),
             "feature_dropout": lambda ops, x: ops.feature_dropout(x, 0.5, True)}


@having("rows")
def test_rows(key):
    """Another first part of the input, with the same random numbers, changes no other part of the result."""
    made = []
    for first in (1.0, 7.0):
        torch.manual_seed(1)
        made.append(ROW_CALLS[key](_C.ops, torch.cat([torch.full((1, 3), first) ** torch.arange(3.0), torch.arange(9.0).view(3, 3)])))
    assert same_bits(made[0][1:], made[1][1:]) and not torch.equal(made[0], made[0] * 0)


@having("keeps_zero")
def test_keeps_zero(key):
    dtype = torch.float64 if "float64" in BY_KEY[key].dtypes else torch.complex128
    assert not getattr(torch.ops.aten, key.partition(".")[0])(torch.zeros(3, dtype=dtype)).any()


def fits_special(entry):
    return entry.key not in SAMPLES and "self =" not in entry.cases()[0]


@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.inverse])
def test_inverse(key):
    """The inverse with the same further arguments returns self, bit for bit."""
    entry = BY_KEY[key]
    other = BY_KEY[entry.inverse]
    drawn = ((x, made, draw, draw.values) for x, made, draw in cases(entry))
    tried = 0
    for x, made, draw, values in list(drawn) + (list(on_special(entry, DTYPES)) if fits_special(entry) else []):
        if entry.inverse_dtypes and str(x.dtype)[6:] not in entry.inverse_dtypes:
            continue
        args, kwargs = draw.call_arguments(dict(values, **{entry.params[0]["name"]: made}))
        back = other.call(args, kwargs)
        assert same_bits(back, x), (x.dtype, args[1:])
        tried += 1
    assert tried


@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.neutral])
def test_neutral(key):
    """With the neutral number and other defaults, a real self of the result's dtype is returned unchanged."""
    entry = BY_KEY[key]
    name, number = entry.neutral
    tried = 0
    for dtype in FLOATS + HALVES + INTS + ("bool",):
        if dtype not in entry.dtypes:
            continue
        x = special(dtype)
        n = number if dtype in FLOATS + HALVES else int(number)
        try:
            made = entry.call([x], {name: n})
        except (RuntimeError, NotImplementedError):
            continue
        if made.dtype == x.dtype:
            assert same_bits(made, x), dtype
            tried += 1
    assert tried


@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.filled])
def test_filled(key):
    entry = BY_KEY[key]
    values = {"size": [2, 3], "self": torch.randn(2, 3), "fill_value": 2.5}
    args = [values[p["name"]] for p in entry.params if p["name"] in values]
    made = entry.call(args, {})
    number = values[entry.filled] if entry.filled in values else float(entry.filled)
    assert made.shape == (2, 3) and bool((made == number).all())


@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.scatter])
def test_scatter(key):
    """The view of the scattered tensor has the given elements, and all other elements are unchanged."""
    entry = BY_KEY[key]
    other = BY_KEY[entry.scatter]
    for x, made, draw in cases(entry, FLOATS + INTS):
        args, kwargs = draw.call_arguments()
        src = (made + 1).contiguous()
        changed = other.call([args[0], src] + args[1:], kwargs)
        name = entry.params[0]["name"]
        assert changed.shape == x.shape and home(changed) != home(x)
        assert same_bits(draw.run(dict(draw.values, **{name: changed})), src)
        again = other.call([changed, made.contiguous()] + args[1:], kwargs)
        assert same_bits(again, x)


def written(entry, dtype):
    """A draw of an entry that writes self; no sample is stated for these."""
    samples = {"unsqueeze_": "dim = 1", "transpose_": "dim1 = 1", "swapaxes_": "axis0 = 0; axis1 = 1",
               "swapdims_": "dim1 = 1", "squeeze_": "self = t(3, 1)", "squeeze_.dim": "self = t(3, 1); dim = 1",
               "squeeze_.dims": "self = t(3, 1); dim = [1]", "fill_.Tensor": "value = t()",
               "as_strided_": "size = [2, 2]; stride = [1, 3]; storage_offset = 1"}
    return Draw(entry, samples.get(entry.key, ""), dtype)


# Entries with the word `sparse` are tested in tests/python/test_sparse.py, those with `meets` in tests/dist.
@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.functional and not {"sparse", "meets"} & set(e.words)])
def test_functional(key):
    """The clause computes the new value of self."""
    entry = BY_KEY[key]
    call = re.fullmatch(r"([\w.]+)\((.*)\)", entry.functional)
    for dtype in ("float32", "int64", "bool"):
        draw = written(entry, dtype)
        before = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in draw.values.items()}
        given = [before[name] for name in (call[2] if call else entry.functional).split(", ")]
        want = getattr(_C.ops, call[1].split(".")[0])(*given) if call else given[0]
        got = draw.run()
        assert got is draw.values["self"]
        assert same_bits(got, want.expand(got.shape)), dtype


@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.updates])
def test_updates(key):
    """The named tensors, and no others, are written when the named parameter is true."""
    entry = BY_KEY[key]
    *tensors, when = entry.updates
    for on in (False, True):
        values = {"input": torch.randn(2, 4, 3), "running_mean": torch.zeros(4), "running_var": torch.ones(4),
                  "weight": torch.ones(4), "bias": torch.zeros(4), "momentum": 0.1, "eps": 1e-5,
                  "cudnn_enabled": False, when: on}
        before = {k: v.clone() for k, v in values.items() if isinstance(v, torch.Tensor)}
        entry.call([values[p["name"]] for p in entry.params], {})
        changed = [k for k in before if not same_bits(values[k], before[k])]
        assert sorted(changed) == (sorted(tensors) if on else [])


def test_entries_that_write_self_state_their_functional_form():
    """By clause `functional`, or by a word that excludes it."""
    for e in ENTRIES:
        if e.params and e.params[0]["written"] and e.params[0]["type"] == "Tensor" and e.name.endswith("_"):
            assert e.functional or "random" in e.words or "resets" in e.words, e.key


def test_library():
    """The C functions are in the folders of products, attention, factorizations and FFTs, or call entries of theirs."""
    root = os.path.join(os.path.dirname(__file__), "..", "..", "src")
    defined = {}
    for folder in ("product", "attention", "linalg", "fft"):
        path = os.path.join(root, "kern", "cpu", folder)
        for name in os.listdir(path):
            for function in re.findall(r"^cr_status (\w+)\(", open(os.path.join(path, name)).read(), re.M):
                defined[function] = folder
    table = "".join(open(p).read() for p in glob.glob(os.path.join(root, "ops", "table", "*.op")))
    folders = set()
    for text in re.split(r"^op ", table, flags=re.M)[1:]:
        if not re.search(r"^  words .*\blibrary\b", text, re.M):
            assert not re.search(r"^  extern +cr_kern_fft", text, re.M)
            continue
        if re.search(r"^  kernel +devices", text, re.M):  # a device adds up in another order
            assert re.search(r"^  is ", text, re.M), text
            continue
        does, function = re.search(r"^  (extern|whole|kernel  cpu) +(\w+)", text, re.M).groups()
        assert does == "whole" or function in defined, text
        folders.add(defined.get(function))
    assert {"product", "linalg", "fft"} <= folders


def composed():
    """{(entry, case, dtype): results} of entries with a composition beside a function of the host."""
    found = {}
    for e in ENTRIES:
        if e.does != "steps" or "random" in e.words or not e.can_be_drawn():
            continue
        for case in e.cases():
            for dtype in ("float32", "bfloat16", "int64"):
                try:
                    made = list(leaves(Draw(e, case, dtype).run()))
                except (ValueError, RuntimeError, TypeError, NotImplementedError):
                    continue
                found[e.key, case, dtype] = [(t.double().numpy(), bits(t)) for t in made if t.layout == torch.strided]
    return found


def test_other_order(tmp_path):
    """The function and the composition differ in the last bits, and those of other entries and dtypes do not."""
    path = str(tmp_path / "composed")
    write = "import pickle, sys, test_words\npickle.dump(test_words.composed(), open(sys.argv[1], 'wb'))"
    subprocess.run([sys.executable, "-c", write, path], cwd=os.path.dirname(os.path.abspath(__file__)), check=True,
                   env=dict(os.environ, CR_STATED="1"))
    with open(path, "rb") as f:
        stated = pickle.load(f)
    have, differ = composed(), set()
    assert have.keys() == stated.keys() and len(have) > 30
    for key, made in have.items():
        if [b for _, b in made] == [b for _, b in stated[key]]:
            continue
        entry = BY_KEY[key[0]]
        assert entry.has_other_order(key[2]), key
        differ.add(entry.key)
        for (a, _), (b, _) in zip(made, stated[key]):
            numpy.testing.assert_allclose(a, b, 1e-5, 1e-5)
    assert differ == {e.key for e in ENTRIES if "other_order" in e.words and e.can_be_drawn()}


@having("bits")
def test_bits(key):
    """The result shares memory, and has another bit than self."""
    for x, made, _ in cases(BY_KEY[key], COMPLEX):
        assert home(made) == home(x) and (made.is_conj(), made.is_neg()) != (False, False)


@having("lazy")
def test_lazy(key):
    """Arguments with bits give the same elements, if the entry makes some (tests/ops/test_lazy.py has all entries)."""
    for x, made, draw in cases(BY_KEY[key], COMPLEX):
        stored = (-x).conj_physical().conj()._neg_view()
        assert stored.is_conj() and stored.is_neg()
        got = draw.run({**draw.values, draw.entry.params[0]["name"]: stored})
        for a, b in zip(leaves(made), leaves(got)):
            assert b is stored or not b.is_conj() and not b.is_neg()
            b = b.resolve_conj()
            assert "undefined" in BY_KEY[key].words or same_bits(a, b)


def own(x):
    """Copies whose memory NumPy does not share."""
    if isinstance(x, (list, tuple)):
        return type(x)(own(v) for v in x)
    return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x


def waiting(x):
    """The same values, as results of calls that wait."""
    if isinstance(x, (list, tuple)):
        return type(x)(waiting(v) for v in x)
    return x.clone() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def deferred(draw, values):
    """The result of a call in a region, and what it needed of calls that wait."""
    torch.manual_seed(3)
    with torch.lazy(watch=True) as region:
        values = {k: waiting(v) for k, v in values.items()}
        made = draw.run(values)
    return made, [f.needed for f in region.flushes[:-1]]


X, INDEX = torch.tensor([[0.5, -1.5, 2.0], [1.0, 3.0, -2.0]]), torch.tensor([[0, 2, 1], [1, 0, 2]])
# Arguments of entries whose clauses are tested, and for which nothing is drawn.
WRITTEN = {
    "native_batch_norm": (X, torch.ones(3), torch.zeros(3), None, None, True, 0.1, 1e-5),
    "instance_norm": (X[None], None, None, None, None, True, 0.1, 1e-5, False),
    "as_strided_backward": (X[:, :2].clone(), X, [2, 2], [3, 1], 0),
    "bernoulli.p": (X, 0.4),
    "_dropout_mask": (X, 0.4),
    "embedding_dense_backward": (X, INDEX[0, :2], 4, -1, False),
    "one_hot": (INDEX, 4),
    "_pool_scatter": (X[None], INDEX[None], [1, 2, 4], 1),
    "_pool_gather": (X[None], INDEX[None], 1),
    "_max_unpool": (X[None], INDEX[None], [4], 1),
}


class Written:
    """A call that is written in WRITTEN, as table.Draw is a call that is drawn."""

    def __init__(self, entry, requires_grad=False):
        self.entry = entry
        self.values = {p["name"]: own(v) for p, v in zip(entry.params, WRITTEN[entry.key])}
        for v in self.values.values():
            if isinstance(v, torch.Tensor) and v.is_floating_point():
                v.requires_grad_(requires_grad)

    def run(self, values):
        return self.entry.call(list(values.values()), {})


def drawn(entry, **more):
    if entry.key in WRITTEN:
        draw = Written(entry, **more)
        values = {k: own(v) for k, v in draw.values.items()}
        torch.manual_seed(3)
        yield draw, values, leaves(draw.run(values))
        return
    for case in entry.cases():
        dtype = next(d for d in ("float32", "int64", "complex64") if d in entry.dtypes)
        draw = Draw(entry, case, dtype, **more)
        values = {k: own(v) for k, v in draw.values.items()}
        torch.manual_seed(3)
        yield draw, values, leaves(draw.run(values))


def drawable(wanted):
    entries = [e for e in ENTRIES if wanted(e) and (e.can_be_drawn() or e.key in WRITTEN)]
    return pytest.mark.parametrize("key", [e.key for e in entries], ids=[e.key for e in entries])


@pytest.mark.records("counts flushes")
@drawable(lambda e: e.by_calls)
@pytest.mark.parametrize("grad", [False, True])
def test_by_calls(key, grad):
    """Calls of the entry wait as those that it makes do: it reads no bytes."""
    for draw, values, want in drawn(BY_KEY[key], requires_grad=grad):
        made, flushes = deferred(draw, values)
        assert not flushes
        assert all(same_bits(a.detach(), b.detach()) for a, b in zip(leaves(made), want))


@drawable(lambda e: e.unread)
def test_unread(key):
    """Other elements make no difference."""
    entry = BY_KEY[key]
    for draw, values, want in drawn(entry):
        for name in entry.unread:
            values[name] = values[name].clone().fill_(0.5)
        torch.manual_seed(3)
        for a, b in zip(leaves(draw.run(values)), want):
            assert a.shape == b.shape and a.dtype == b.dtype
            assert "undefined" in entry.words or same_bits(a, b)


def beyond(x):
    if isinstance(x, (list, tuple)):
        return type(x)(beyond(v) for v in x)
    return x + 1000 if isinstance(x, torch.Tensor) else x


@pytest.mark.records("counts flushes")
@drawable(lambda e: e.bounded)
def test_bounded(key):
    """A call whose indices are within their bounds waits; another one raises at once, as eagerly."""
    entry = BY_KEY[key]
    for draw, values, want in drawn(entry):
        made, flushes = deferred(draw, values)
        masks = any(t.dtype == torch.bool for name in entry.bounded for t in leaves(values[name]))
        assert masks or BY_KEY[key].name not in flushes
        assert all(same_bits(a, b) for a, b in zip(leaves(made), want))
        if masks or not all(t.numel() for name in entry.bounded for t in leaves(values[name])):
            continue
        wrong = dict(values, **{name: beyond(values[name]) for name in entry.bounded})
        with pytest.raises((IndexError, RuntimeError)) as eager:
            draw.run(wrong)
        with pytest.raises(eager.type) as late:
            deferred(draw, wrong)
        assert str(late.value) == str(eager.value)


def test_every_word_is_promised_by_an_entry():
    """And every word is in the grammar of DESIGN.md."""
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    words = re.findall(r"^CR_WORD\(\w+, +(\w+),", open(os.path.join(root, "src/ops/words.def")).read(), re.M)
    grammar = open(os.path.join(root, "DESIGN.md")).read()
    assert len(words) > 15
    for word in words:
        assert any(word in e.words for e in ENTRIES), word
        assert re.search(rf"\b{word}\b", grammar), word
