"""Known calls (src/tensor/defer_known.c): one line is run with arguments and modes that differ in one point each time."""
import itertools

import numpy
import pytest

import cresset as torch
from cresset import _C

from .fresh import in_a_thread
from .test_defer import outcome


def again(f, *variants):
    """What f gives for each variant, in turns, so that a key is known when another variant is next."""
    return [outcome(lambda: f(*(v if isinstance(v, tuple) else (v,)))) for _ in range(4) for v in variants]


def compare(f, *variants):
    want = again(f, *variants)
    _C._defer_counts()
    with torch.lazy():
        got = again(f, *variants)
    assert repr(got) == repr(want)  # NaN is NaN, -0.0 is not 0.0
    return _C._defer_counts()["known"]


def grid(*size):
    n = int(numpy.prod(size))
    return torch.arange(n, dtype=torch.float32).reshape(size) - 3


GEOMETRIES = [lambda: grid(4, 6), lambda: grid(6, 4).t(), lambda: grid(4, 12)[:, ::2], lambda: grid(5, 6)[1:],
              lambda: grid(6).expand(4, 6), lambda: grid(4, 6).double(), lambda: grid(1, 6), lambda: grid(4, 0),
              lambda: grid(2, 4, 6)[1], lambda: grid(4, 6).to(torch.complex64).conj(), lambda: grid(4, 6)._neg_view()]


@in_a_thread
def test_geometry():
    made = list(itertools.product(GEOMETRIES, GEOMETRIES))
    assert compare(lambda a, b: a() * b() + 1, *made) > 100


@in_a_thread
def test_numbers():
    numbers = [2, 3, -0.0, 0.0, True, False, 1.5, float("nan"), 2 ** 40, 1j, 2 ** 70]
    assert compare(lambda n: [grid(4, 6) * n, torch.add(grid(4), 1, alpha=n), grid(3).clamp(min=n)], *numbers) > 20


@in_a_thread
def test_writes_and_overlaps():
    def whole(x):
        return [x.add_(x), x]

    def shifted(x):
        return [x[1:].add_(x[:-1])]  # refused: an element is read after it was written

    def apart(x):
        return [x[1:].add_(x.clone()[:-1]), x]

    def views(x):
        return [x[1:].mul_(x[1:]), x]

    assert compare(lambda f: f(grid(4, 6)), apart, shifted, whole, views, apart) > 8


@in_a_thread
def test_modes():
    def with_default(dtype):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return torch.ones(3, dtype=torch.int32) / torch.full((3,), 2, dtype=torch.int32)
        finally:
            torch.set_default_dtype(before)

    def graded(on):
        x = grid(4, 6).requires_grad_(True)
        with torch.set_grad_enabled(on):
            y = x * 2
        return [y, y.requires_grad, y.is_leaf]

    def inferred(on):
        with torch.inference_mode(on):
            y = grid(4, 6) * 2
        return [y.is_inference(), y.tolist()]

    def cast(on):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
            return grid(4, 6) @ grid(6, 4)

    assert compare(with_default, torch.float32, torch.float64) >= 0
    assert all(compare(f, True, False) > 0 for f in (graded, inferred, cast))


@in_a_thread
def test_memory_that_changes_elsewhere():
    array = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
    x = torch.from_numpy(array)
    got = []
    with torch.lazy():
        for i in range(5):
            array[:] = i
            got.append(x * 2)
    array[:] = 9
    assert [y[0, 0].item() for y in got] == [0, 2, 4, 6, 8]


@in_a_thread
def test_equal_calls_of_other_structure():
    """Programs of known calls: which tensors a call takes, and which results are kept, is part of their key."""
    a, b = grid(4, 6), grid(4, 6) + 1

    def f(x, y, keep):
        p = x * y
        q = p + x
        r = q * p
        return [p, q, r] if keep else [r]

    assert compare(f, (a, b, False), (b, a, False), (a, a, False), (a, b, True)) > 20


@in_a_thread
def test_programs_follow_their_trace():
    """Known traces run kept programs; they give the elements of the call, not of an earlier one."""
    weights = [grid(6, 6) * (i + 1) for i in range(3)]
    inputs = [grid(4, 6) + turn for turn in range(12)]
    assert all(x[0, 0] == turn - 3 for turn, x in enumerate(inputs))  # their calls have run, with everything deferred too
    for turn, x in enumerate(inputs):
        with torch.lazy():
            y = x
            for w in weights:
                y = (y @ w).relu() - turn % 2
        want = x
        for w in weights:
            want = (want @ w).relu() - turn % 2
        assert torch.equal(y, want), turn
    counts = _C._defer_counts()
    assert counts["programs"] >= 6 and counts["known"] > 50


@in_a_thread
@pytest.mark.parametrize("count", [3, 100, 200])
def test_many_programs_in_turn(count):
    """Traces that come in turn are found by their known calls, however many they are."""
    x = grid(4, 6)

    def trace(i):
        y = x
        for bit in range(9):
            y = y * 1.5 if i >> bit & 1 else y + 1.5
        return y

    want = [trace(i) for i in range(count)]
    with torch.lazy():
        for turn in range(8):
            _C._defer_counts()
            for i in range(count):
                assert torch.equal(trace(i), want[i]), (turn, i)
    counts = _C._defer_counts()
    # The programs of a full row of the table push each other out: of 200 programs 3 on average, with a deviation of 5.
    assert counts["programs"] == count and counts["found"] > 0.8 * count


@in_a_thread
def test_many_keys():
    """More keys than are kept, in one trace and in many."""
    for start in (0, 3000):
        with torch.lazy():
            sums = [(torch.ones(i % 2500 + 1) * 2).sum() for i in range(start, start + 3000)]
        with torch.lazy():
            again = [(torch.ones(i % 2500 + 1) * 2).sum() for i in range(start, start + 3000)]
            want = [2.0 * (i % 2500 + 1) for i in range(start, start + 3000)]
        assert [s.item() for s in sums] == [s.item() for s in again] == want


OUTSIDE = torch.from_numpy(numpy.zeros((64, 64), dtype=numpy.float32))


def refused(f):
    with pytest.raises(RuntimeError):
        f()


REPEATED = {
    "known": lambda x: x * 2,
    "results without elements": lambda x: x @ torch.zeros(6, 0),
    "lists of results": lambda x: torch.split(x * 1, 2),
    "lists of arguments": lambda x: torch._foreach_add([x, x.clone()], 1),
    "views of arguments": lambda x: x[1:].add_(x[1:]),
    "generators": lambda x: torch.rand(3, generator=torch.Generator()),
    "another geometry": lambda x: x.transpose_(0, 1).transpose_(0, 1),
    "an error": lambda x: refused(lambda: x @ x),
    "an error with new tensors": lambda x: refused(lambda: torch.ones(4, 6) @ torch.ones(4, 6)),
    "an error with outside memory": lambda x: refused(lambda: OUTSIDE @ x),
    "masks": lambda x: torch.masked_select(x, x > 0),
}


@pytest.mark.parametrize("name", REPEATED)
@in_a_thread
def test_repeated_calls_leave_no_records(name):
    x, kept = grid(4, 6), []
    with torch.lazy():
        for _ in range(3):
            for _ in range(300):
                REPEATED[name](x)
            _C._defer_flush("a test")
            kept.append(_C._defer_counts()["bytes"])
    assert len(set(kept)) == 1, kept


@in_a_thread
def test_records_of_refused_calls_are_bounded():
    """A call that waits keeps the records of its trace, but not of any number of calls after it."""
    x, kept = grid(4, 6), []
    with torch.lazy():
        waits = x * 2
        for _ in range(22):
            for _ in range(1000):
                refused(lambda: x @ x)
            kept.append(_C._defer_counts()["bytes"])
    assert max(kept[11:]) < 1.2 * max(kept[:11]), kept
    assert torch.equal(waits, x * 2)


@in_a_thread
def test_results_without_elements():
    def products(x):
        e = x @ x.new_zeros(6, 0)
        return [e, e.stride(), e.is_contiguous(), e._version, (e @ e.t()).sum(0), torch.cat([e, x], 1)]

    def written(x):
        e = x @ x.new_zeros(6, 0)
        e.resize_(2, 3).fill_(4)
        e.mul_(x[:2, :3])
        return [e, e._version]

    def derived(x):
        x = x.clone().requires_grad_(True)
        e = x @ x.new_zeros(6, 0)
        (e.sum() + x.sum()).backward()
        return [e.shape, e.requires_grad, x.grad]

    def apart(x):
        a, b = (x @ x.new_zeros(6, 0) for _ in range(2))
        a.resize_(3).fill_(1)
        b.resize_(2).fill_(2)
        return [a, b, torch.max(x[:, :0] * x[:, :0], 0)]

    for f in (products, written, derived, apart):
        assert compare(f, grid(4, 6), grid(8, 6)[::2], grid(4, 6).double()) > 10, f
    x = grid(4, 6)
    with torch.lazy():
        for _ in range(3):
            _C._defer_counts()
            x @ torch.zeros(6, 0)
    assert _C._defer_counts()["known"] == 1
