"""compile() defers: the first call of a function, and every call of a function that cannot be recorded."""
import random
import threading

import pytest

import cresset as torch
from cresset import _C, nn
from cresset._dynamo.exc import Unsupported

from .fresh import in_a_thread
from .test_defer import eagerly, values  # noqa: F401

pytestmark = [pytest.mark.usefixtures("eagerly"), pytest.mark.deferred_calls(1 << 30)]


def rows(x, seen):
    y = (x * 2 + 1).tanh()
    if y.sum() > 0:
        y = y * 3 - x
    seen.append(y)
    return (y.sigmoid() * x + y).exp().mean(1)


def test_a_branch_on_a_value_is_a_flush():
    compiled = torch.compile(rows)
    for n in range(40):
        x, seen, seen_eagerly = torch.randn(6, 6) + (n % 2), [], []
        assert values([compiled(x, seen), seen]) == values([rows(x, seen_eagerly), seen_eagerly])
    deferred, broken, *seconds = compiled._measured()
    assert 5 <= deferred <= 40 and broken == deferred and min(seconds) > 0


def draws(x):
    print(f"{random.random():.1f}", end="")
    return x * random.random() + 1


def test_what_a_recording_refuses_is_one_graph(capsys):
    found = []
    for f in (draws, torch.compile(draws, fullgraph=True)):
        random.seed(1)
        found.append((values([f(torch.ones(3)) for _ in range(8)]), capsys.readouterr().out))
    assert found[0] == found[1]


plain = torch._dynamo.disable(lambda x: x * 2)


@pytest.mark.parametrize("f, needed", [
    (lambda x: x + 1 if x.sum() > 0 else x - 1, "data-dependent branching"),
    (lambda x: x * 2 if x.sum().item() > 0 else x, r"item\(\)"),
    (lambda x: x + len((x + 1).tolist()), r"tolist\(\)"), (lambda x: x + len(str(x + 1)), "a text"), (lambda x: (torch._dynamo.graph_break(), x)[1], "graph_break"),
    (lambda x: plain(x + 1), "is disabled")])
def test_a_value_in_the_middle_is_an_error_of_one_graph(f, needed):
    x = torch.randn(5)
    with pytest.raises(Unsupported, match=f"cannot be one graph.*{needed}") as error:
        torch.compile(f, fullgraph=True)(x)
    assert f"at {__file__}:" in str(error.value)
    assert values(torch.compile(f)(x)) == values(f(x))


@pytest.mark.deferred_calls(1)
def test_each_call_that_needs_a_value_is_an_error():
    """Also the calls that would be recorded, or run at once to be measured, without the first error."""
    compiled, x = torch.compile(lambda x, reads: x + 1 if reads and x.sum() > 0 else x - 1, fullgraph=True), torch.ones(3)
    for reads in [True] * 24 + [False] * 8 + [True] * 24:
        if reads:
            with pytest.raises(Unsupported, match="branching"):
                compiled(x, reads)
        else:
            assert compiled(x, reads).tolist() == [0., 0., 0.]


@pytest.mark.deferred_calls(1)
@pytest.mark.parametrize("good", range(1, 12))
@pytest.mark.parametrize("recorded", [True, False])
def test_the_first_value_that_a_later_call_needs_is_an_error(good, recorded):
    """The first calls are deferred, recorded and, if the function appends, measured; the next one needs a value."""
    def f(x, reads):
        if not recorded:
            kept.append(len(kept))
        if reads and (x * 2).sum() > 0:
            return x + 1
        return x - 1
    kept, compiled, x = [], torch.compile(f, fullgraph=True), torch.ones(3)
    for _ in range(good):
        assert compiled(x, False).tolist() == [0., 0., 0.]
    for _ in range(3):
        with pytest.raises(Unsupported, match="branching") as error:
            compiled(x, True)
        assert f"at {__file__}:" in str(error.value) and "(x * 2).sum() > 0" in str(error.value)
    assert compiled(x, False).tolist() == [0., 0., 0.]


@pytest.mark.parametrize("calls", [0, 7, 8, 20])
@pytest.mark.parametrize("inner", [False, True])
def test_a_value_is_an_error_after_any_number_of_flushes_by_calls(calls, inner):
    def f(x):
        for _ in range(calls):
            x = x + torch.linalg.svdvals(x + 1).sum()
        n = x.sum().item()
        return x * 2 if n > 0 else x
    x, g = torch.randn(3, 3), torch.compile(f) if inner else f
    compiled = torch.compile(lambda x: g(x), fullgraph=True)
    for _ in range(3):
        with pytest.raises(Unsupported, match=r"item\(\)"):
            compiled(x)


@pytest.mark.parametrize("f", [lambda x: torch.linalg.svdvals(x + 1).sum() * 2, lambda x: (x * 2).sort()[0] + 1,
                               lambda x: nn.functional.dropout(x * 2) + torch.rand(4, 4)])
def test_a_call_that_runs_at_once_is_no_error(f):
    x, compiled = torch.randn(4, 4), torch.compile(f, fullgraph=True)
    for n in range(8):
        found = []
        for g in (f, compiled):
            torch.manual_seed(n)
            found.append(values(g(x)))
        assert found[0] == found[1]


def test_inside_code_is_compiling_and_disabled_code_is_not():
    seen = []

    def f(x):
        seen.append((torch.compiler.is_compiling(), torch._dynamo.disable(torch.compiler.is_compiling)()))
        return x + 1
    assert not torch.compiler.is_compiling()
    compiled = torch.compile(f)
    for _ in range(8):
        compiled(torch.ones(2))
    assert seen == [(True, False)] * 8 and not torch.compiler.is_compiling()


@pytest.mark.records("counts flushes")
@pytest.mark.parametrize("inside", [True, False])
@in_a_thread
def test_the_backward_pass_continues_the_trace(inside):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))

    def loss_of(x):
        return net(x).pow(2).mean() if inside else net(x)
    compiled = torch.compile(loss_of, fullgraph=True)

    def gradients(f, x):
        net.zero_grad()
        loss = f(x)
        waits = _C._defer_pending()
        loss = loss if inside else loss.pow(2).mean()
        loss.backward()
        return values([loss, *(p.grad for p in net.parameters())]), waits
    for n in range(12):
        x = torch.randn(5, 4)
        wanted, _ = gradients(loss_of, x)
        _C._defer_counts()
        found, waits = gradients(compiled, x)
        counts = _C._defer_counts()
        assert found == wanted
        assert waits and counts["flushes"] == 2 - inside
        assert n < 2 or counts["programs"] == counts["flushes"]
    assert compiled._measured()[0] == 12


def steps(x, ids):
    at = (ids + 1).clamp(max=3)
    at[0] += 1
    bucket = ((at.float() / 2).log() * 3).to(torch.int64).clamp(0, 3)
    return (x * 2)[bucket] + nn.functional.embedding(at % 4, x)


def test_indices_that_are_computed_do_not_end_the_graph():
    x, ids, compiled = torch.randn(4, 3), torch.tensor([0, 1, 3]), torch.compile(steps, fullgraph=True)
    for _ in range(8):
        assert values(compiled(x, ids)) == values(steps(x, ids))
    assert compiled._measured()[1] == 0 and ids.tolist() == [0, 1, 3]


def overtaken(x, at):
    before = x * at.float()
    at.add_(1)
    return before + x[at.clamp(max=3)]


def test_a_write_does_not_overtake_a_read_that_waits():
    x, compiled, found = torch.randn(4), torch.compile(overtaken), []
    for f in (overtaken, compiled):
        at = torch.tensor([0, 1, 1, 0])
        found.append(values([[f(x, at), at] for _ in range(6)]))
    assert found[0] == found[1]
    with torch.lazy():
        at = torch.tensor([0, 1, 1, 0])
        assert values([[overtaken(x, at), at] for _ in range(6)]) == found[0]


def test_errors_are_at_their_line_and_state_stays():
    def f(x, y):
        x.add_(1)
        return x @ y
    compiled, x = torch.compile(f), torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        compiled(x, torch.ones(2, 3))
    assert x.tolist() == [[2.] * 3] * 2 and not _C._defer_in_region()


def test_options_choose_the_programs():
    x = torch.randn(64, 64)

    def f(x):
        return (x.exp() + 1).log().sum(1) / x.shape[0]
    for options in ({"mode": "lite"}, {"options": {"fast": True}}, {"dynamic": False}, {}):
        compiled = torch.compile(f, **options)
        found = [compiled(x) for _ in range(5)]
        near = torch.allclose if options.get("options") else torch.equal
        assert all(near(y, f(x)) for y in found)


def test_a_break_may_be_an_error():
    def f(x, strict):
        y = x * 2
        with torch._dynamo.error_on_graph_break(strict):
            n = y.sum().item()
        return y + n
    for strict in (False, True, False):
        compiled = torch.compile(f)
        if strict:
            with pytest.raises(Unsupported, match=r"item\(\)"):
                compiled(torch.ones(2), True)
        else:
            assert compiled(torch.ones(2), False).tolist() == [6., 6.]
    for stop in (torch._dynamo.skip_frame, torch._dynamo.step_unsupported):
        with pytest.raises(Unsupported, match=f"{stop.__name__}.* is called: here"):
            torch.compile(lambda x: (stop("here"), x + 1)[1], fullgraph=True)(torch.ones(2))


def test_a_function_of_one_graph_gets_the_elements_of_arguments_that_wait():
    """It is refused in a region only if it is refused outside."""
    def f(x):
        return x * float(x.numpy()[0]) + 1
    plain = torch.arange(3.) + 2
    with torch.lazy():
        compiled = torch.compile(f, fullgraph=True)
        found = [compiled(torch.arange(3.) + 2) for _ in range(4)]
    assert all(torch.equal(y, f(plain)) for y in found)
    with pytest.raises(Unsupported, match=r"item\(\)"), torch.lazy():
        torch.compile(lambda x: x if (x + 1).sum().item() > 0 else -x, fullgraph=True)(torch.ones(2) + 1)


def test_results_of_another_thread_are_no_break():
    def f(x):
        out = []
        thread = threading.Thread(target=lazily, args=(lambda: out.append(x * 2),))
        thread.start()
        thread.join()
        return out[0] + x

    def lazily(g):
        with torch.lazy():
            g()
    compiled = torch.compile(f, fullgraph=True)
    assert [compiled(torch.ones(2)).tolist() for _ in range(4)] == [[3., 3.]] * 4


@pytest.mark.deferred_calls(0)
def test_only_programs_that_take_long_release_the_lock(monkeypatch):
    from cresset._dynamo import capture
    seen, is_heavy = [], capture._is_heavy
    monkeypatch.setattr(capture, "_is_heavy", lambda *args: seen.append(is_heavy(*args)) or seen[-1])
    for f, n in ((lambda x: x * 2 + (1 - x) * x, 200), (lambda x: x * 2 + (1 - x) * x, 20_000), (lambda x: x + 1, 200),
                 (lambda x: x * torch.rand(3), 3)):
        compiled = torch.compile(f)
        for _ in range(3):
            compiled(torch.ones(n))
    assert seen[:3] == [False, True, False] and all(seen[3:])


def chained(x):
    return (x * 2 + 1).tanh()


@pytest.mark.deferred_calls(1)
@pytest.mark.parametrize("grad", [False, True])
def test_the_plain_function_is_tried_beside_a_recording(grad):
    def results(f, n):
        torch.manual_seed(n)
        x = torch.randn(64, 64, requires_grad=grad)
        y = f(x)
        if grad:
            y.pow(2).sum().backward()
        return values([y, x.grad])
    compiled = torch.compile(chained)
    for n in range(100):
        assert results(compiled, n) == results(chained, n)
        if n == 20:
            assert compiled._entries[0].runner.wait(60)
    assert 0 < compiled._entries[0].calls < 99 and min(compiled._measured()[2:]) > 0


@pytest.mark.deferred_calls(1)
def test_the_plain_function_calls_what_its_recording_holds():
    inner = torch.compile(lambda x: x.sin() + 1)
    outer, x = torch.compile(lambda x: inner(x) * 2), torch.randn(64, 64)
    for _ in range(8):
        outer(x)
    assert outer._entries[0].runner.wait(60)
    with torch.compiler.set_stance("fail_on_recompile"):
        for _ in range(52):
            assert torch.equal(outer(x), (x.sin() + 1) * 2)
    assert outer._entries[0].calls < 59 and not inner._entries


@pytest.mark.deferred_calls(1)
def test_the_plain_function_is_told_that_it_is_compiled():
    def picked(x, i):
        return x[i] * 2 if torch.compiler.is_compiling() else x * 0
    compiled, x = torch.compile(picked), torch.arange(4.)
    for n in range(60):
        if n == 8:
            compiled._entries[0].runner.wait(60)
        if n % 5 == 4:
            with pytest.raises(IndexError, match="index 9 is out of bounds"):
                compiled(x, torch.tensor([9]))
        else:
            assert compiled(x, torch.tensor([1])).tolist() == [2.0]


@pytest.mark.deferred_calls(1)
def test_fast_programs_are_not_tried_beside_the_plain_function():
    compiled, x = torch.compile(lambda x: (x * 1.1 + x * 2 - x).exp(), options={"fast": True}), torch.randn(64, 300)
    compiled(x)
    compiled(x)
    assert compiled._entries[0].runner.wait(60)
    wanted = compiled(x)
    for _ in range(100):
        assert torch.equal(compiled(x), wanted)
    assert compiled._entries[0].calls >= 101
