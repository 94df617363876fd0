"""Overloads of torch.ops that write to given tensors: torch's names (tests/data/out_overloads.txt), and what they write."""
import os

import pytest

import cresset as torch
from table import BY_KEY, ENTRIES, Draw, leaves

# NAME OVERLOAD TENSOR...: the overloads of torch 2.13 that write to these tensors, of operators that the table has.
with open(os.path.join(os.path.dirname(__file__), "..", "data", "out_overloads.txt")) as file:
    TORCHS = {tuple(line.split()[:2]): line.split()[2:] for line in file if not line.startswith("#")}

# Overloads of torch that have no counterpart here: those of overloads that the table lacks.
MISSING = set("""
    _ctc_loss.Tensor_out _sparse_sum.dim_out _to_sparse.sparse_dim_out addmm.dtype_out baddbmm.dtype_out
    bernoulli.Tensor_out bernoulli.float_out bmm.dtype_out dequantize.tensors_out fill.Tensor_out
    frexp.Tensor_out mm.dtype_out normal.out randint_like.Tensor_out randint_like.Tensor_generator_out range.out_
    std.out var.out
""".split())


def given_of(packet):
    """The overloads that write to tensors, with the names of these."""
    return {name: list(made["given"]) for name, made in packet._made.items() if "given" in made}


def test_names_are_torchs():
    ours = {(name, o): given for name in {name for name, _ in TORCHS}
            for o, given in given_of(getattr(torch.ops.aten, name)).items()}
    assert {f"{n}.{o}" for n, o in TORCHS if (n, o) not in ours} == MISSING
    assert {k: ours[k] for k in TORCHS if k in ours} == {k: v for k, v in TORCHS.items() if k in ours}


def overloads_of(entry):
    """(name, names of its tensors) of the entry's own overloads."""
    packet = getattr(torch.ops.aten, entry.name, None) if "::" not in entry.name else None
    made = packet._made.items() if packet is not None and hasattr(packet, "_made") else ()
    return [(packet, name, m) for name, m in made if "given" in m and m["record"]["overload"] == entry.overload]


def draws(entry):
    dtype = "float32" if "float32" in entry.dtypes else entry.dtypes[0]
    for case in entry.cases():
        yield Draw(entry, case, dtype)


WRITING = [e.key for e in ENTRIES if e.can_be_drawn() and "undefined" not in e.words and "c" not in e.forms and overloads_of(e)]


def arguments(draw, overload):
    """The call's arguments without those that the overload lacks."""
    args, kwargs = draw.call_arguments()
    known = {a.name for a in overload._schema.arguments}
    names = [p["name"] for p in draw.entry.params if not p["keyword_only"]]
    return [a for n, a in zip(names, args) if n in known], {k: v for k, v in kwargs.items() if k in known}


def lacking(draw, overload):
    """Whether the call gives a value for a parameter that the overload lacks, so its results are others."""
    args, kwargs = draw.call_arguments()
    names = [p["name"] for p in draw.entry.params if not p["keyword_only"]]
    known = {a.name for a in overload._schema.arguments}
    return any(v is not None and v is not False for n, v in [*zip(names, args), *kwargs.items()] if n not in known)


def outcome(function):
    torch.manual_seed(0)
    try:
        return function()
    except Exception as error:
        return str(error)


@pytest.mark.parametrize("key", WRITING)
def test_given_tensors_become_the_results(key):
    entry = BY_KEY[key]
    compared = 0
    for draw in draws(entry):
        made = outcome(lambda: draw.run())
        if isinstance(made, str):
            continue
        expected = list(leaves(made))
        for packet, name, found in overloads_of(entry):
            overload = getattr(packet, name)
            if lacking(draw, overload):
                continue
            args, kwargs = arguments(draw, overload)
            out = [torch.empty(0, dtype=e.dtype) for e in expected]
            is_list = found["returns"][0][1] == "Tensor[]"
            tensors = {found["given"][0]: out} if is_list else dict(zip(found["given"], out))
            result = outcome(lambda: overload(*args, **kwargs, **tensors))
            assert not isinstance(result, str), result
            assert result is None if is_list else all(x is y for x, y in zip(leaves(result), out))
            for x, y in zip(out, expected):
                assert x.shape == y.shape and torch.equal(x.nan_to_num(7.5), y.resolve_conj().nan_to_num(7.5))
            compared += 1
    assert compared


# A trace of these ends in an error: programs choose another overload by the arguments' types.
UNRECORDED = {"index.Tensor", "float_power", "view_copy.dtype"}


@pytest.mark.parametrize("key", [k for k in WRITING if k not in UNRECORDED])
def test_a_trace_writes_to_the_given_tensors_or_refuses(key):
    entry = BY_KEY[key]
    for draw in draws(entry):
        made = outcome(lambda: draw.run())
        for packet, name, found in overloads_of(entry) if not isinstance(made, str) else ():
            overload = getattr(packet, name)
            if lacking(draw, overload):
                continue
            args, kwargs = arguments(draw, overload)
            expected = [t for t in leaves(made)]

            def write(x):
                out = [torch.zeros(e.shape, dtype=e.dtype) for e in expected]
                views = [t[...] for t in out]
                overload(*args, **kwargs, **({found["given"][0]: views} if found["returns"][0][1] == "Tensor[]"
                                             else dict(zip(found["given"], views))))
                return tuple(out)

            try:
                traced = torch.jit.trace(write, torch.ones(()), check_trace=False)
            except RuntimeError as error:
                assert any(text in str(error) for text in ("Tracer cannot record", "as a constant")), error
                continue
            result = outcome(lambda: traced(torch.ones(())))
            assert not isinstance(result, str), result
            if "random" not in entry.words:
                for x, y in zip(leaves(result), expected):
                    assert torch.equal(x.nan_to_num(7.5), y.resolve_conj().nan_to_num(7.5))


@pytest.mark.parametrize("name", sorted({BY_KEY[k].name for k in WRITING}))
def test_only_overloads_that_write_take_given_tensors(name):
    packet = getattr(torch.ops.aten, name)
    for overload in packet.overloads():
        if "given" not in packet._made[overload]:
            schema = getattr(packet, overload)._schema
            needed = sum(not a.has_default_value() for a in schema.arguments if not a.kwarg_only)
            with pytest.raises((RuntimeError, TypeError)) as caught:
                getattr(packet, overload)(*[torch.ones(1)] * needed, out=torch.ones(1))
            text = str(caught.value)  # torch counts the arguments first
            assert not needed or any(words in text for words in ("out", "missing", "expected at most")), text


# Operators that make tensors from no tensor: the arguments of a call of each.
FACTORIES = {"ones": ([3],), "zeros": ([3],), "full": ([3], 2.5), "eye": (2,), "eye.m": (2, 3), "linspace": (0, 4, 3),
             "logspace": (0, 2, 3), "arange": (5,), "arange.start_step": (1, 9, 2), "empty.memory_format": ([3],)}
DTYPES = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("key", FACTORIES)
def test_factories_fill_the_given_tensor_in_its_dtype(key, dtype):
    packet, args = getattr(torch.ops.aten, BY_KEY[key].name), FACTORIES[key]
    for name in (n for n, m in packet._made.items() if "given" in m and m["record"]["overload"] == BY_KEY[key].overload):
        out = torch.empty(0, dtype=dtype)
        if "arange" in key and dtype.is_complex:
            with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
                getattr(packet, name)(*args, out=out)
            continue
        assert getattr(packet, name)(*args, out=out) is out and out.dtype == dtype
        expected = getattr(torch, BY_KEY[key].name)(*args, dtype=dtype)
        assert out.shape == expected.shape and ("empty" in key or torch.equal(out, expected))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16, torch.float64], ids=str)
def test_random_integers_fill_the_given_tensor_in_its_dtype(dtype):
    for call, kwargs in ((torch.ops.aten.randint.out, {}), (torch.ops.aten.randint.low_out, {"low": 2}), (torch.randint, {})):
        out = torch.empty(0, dtype=dtype)
        args = (*kwargs.values(), 9, [20])
        torch.manual_seed(0)
        assert call(*args, out=out) is out and out.dtype == dtype
        torch.manual_seed(0)
        assert torch.equal(out, torch.randint(*args, dtype=dtype))
    for call in (torch.ops.aten.randperm.out, torch.randperm):
        out = torch.empty(0, dtype=dtype)
        assert call(7, out=out) is out and out.dtype == dtype and sorted(out.tolist()) == list(range(7))


# torch 2.13: ones(3, out=bool), full([3], 1.5, out=int64), linspace(0, 2, 3, out=int64), logspace(0, 2, 3, out=int64)
def test_factories_into_other_dtypes_as_torch():
    assert torch.ones(3, out=torch.empty(3, dtype=torch.bool)).tolist() == [True] * 3
    assert torch.full([3], 1.5, out=torch.empty(3, dtype=torch.int64)).tolist() == [1, 1, 1]
    assert torch.linspace(0, 2, 3, out=torch.empty(3, dtype=torch.int64)).tolist() == [0, 1, 2]
    assert torch.logspace(0, 2, 3, out=torch.empty(3, dtype=torch.int64)).tolist() == [1, 10, 100]
    with pytest.raises(RuntimeError, match="dtype Long does not match dtype of out parameter \\(Float\\)"):
        torch.randint(3, (3,), dtype=torch.int64, out=torch.zeros(3))
    filled = torch.jit.CompilationUnit("def f(x):\n    return torch.ones([3], out=x)\n").f(torch.zeros(3, dtype=torch.int64))
    assert filled.dtype == torch.int64 and filled.tolist() == [1, 1, 1]


@pytest.mark.parametrize("key", [e.key for e in ENTRIES if e.can_be_drawn() and len(e.results) > 1 and e.name[0] != "_" and hasattr(torch, e.name)])
def test_results_that_torch_does_not_name_are_tuples(key):
    entry = BY_KEY[key]
    with open(os.path.join(os.path.dirname(__file__), "..", "libraries", "names", "public.txt")) as file:
        names = {line.split()[1] for line in file if line.startswith("torch.return_types ")}
    for draw in draws(entry):
        args, kwargs = draw.call_arguments()
        for function, named in ((getattr(torch, entry.name), True), (getattr(torch.ops.aten, entry.name), False)):
            result = outcome(lambda: function(*args, **kwargs))
            if isinstance(result, tuple):
                shown = named and entry.name in names
                assert type(result) is (getattr(torch.return_types, entry.name) if shown else tuple), function


# Of entries with the parameter dtype, the result gets the tensor's dtype.
COPIED = [k for k in WRITING if "copied" in BY_KEY[k].forms and "dtype" not in [p["name"] for p in BY_KEY[k].params]]


@pytest.mark.parametrize("key", COPIED)
def test_copied_results_need_a_tensor_of_their_dtype(key):
    entry, compared = BY_KEY[key], 0
    for draw in draws(entry):
        made = outcome(lambda: draw.run())
        if isinstance(made, str):
            continue
        for packet, name, found in overloads_of(entry):
            overload = getattr(packet, name)
            if lacking(draw, overload):
                continue
            args, kwargs = arguments(draw, overload)
            out = [torch.empty(0, dtype=t.dtype) for t in leaves(made)]
            out[0] = torch.empty(0, dtype=torch.float64 if out[0].is_complex() else torch.complex128)
            tensors = {found["given"][0]: out} if found["returns"][0][1] == "Tensor[]" else dict(zip(found["given"], out))
            with pytest.raises(RuntimeError, match="Expected out tensor to have dtype .*, but got (c10::complex<)?double>? instead"):
                overload(*args, **kwargs, **tensors)
            assert out[0].shape == (0,)
            compared += 1
    assert compared


def test_a_missing_or_unknown_tensor_is_refused():
    x = torch.ones(3, 2)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.long)
    topk = torch.ops.aten.topk.values
    assert topk(x, 1, values=values, indices=indices)[0] is values
    with pytest.raises(RuntimeError, match="aten::topk\\(\\) is missing value for argument 'indices'"):
        topk(x, 1, values=values)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'out'"):
        topk(x, 1, values=values, indices=indices, out=x)
    with pytest.raises((RuntimeError, TypeError)):
        topk(x, 1, values=values, indices=3)


def test_lists_of_results_have_lists_of_tensors():
    x, out = torch.arange(6.).view(2, 3), [torch.empty(0), torch.empty(0)]
    assert torch.ops.aten.unbind_copy.int_out(x, out=out) is None
    assert [t.tolist() for t in out] == x.tolist()
    with pytest.raises(RuntimeError, match="expected out to have 2 tensors, but got 1"):
        torch.ops.aten.unbind_copy.int_out(x, out=out[:1])


def test_history_is_refused():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.ops.aten.celu.out(w, out=torch.empty(2))


def test_schemas_state_the_tensors():
    schema = torch.ops.aten.max.dim_max._schema
    assert str(schema) == ("aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> "
                           "(Tensor(a!) values, Tensor(b!) indices)")
    assert [a.name for a in schema.arguments if a.is_write] == ["max", "max_values"] and schema.is_mutable
    assert str(torch.ops.aten.zeros.out._schema) == "aten::zeros.out(int[] size, *, Tensor(a!) out) -> Tensor(a!)"
