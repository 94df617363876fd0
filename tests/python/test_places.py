"""explain(), Unsupported and CR_LOG=capture name the instruction that keeps a function from being a graph."""
import contextlib
import inspect
import os
import subprocess
import sys
import types
import warnings

import pytest

import cresset as torch
from cresset._dynamo.exc import Unsupported

pytestmark = pytest.mark.deferred_calls(1)
STATE = {"calls": ""}
SEEN = []


class Settings:
    def __init__(self):
        self.stream = sys.stderr


SETTINGS = Settings()


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.word = "a"

    def forward(self, x):
        self.word += "b"
        return x + 1


def branches(x):
    y = x * 2
    if y.sum() > 0:  # the value
        return y + 1
    return y


def calls_branches(x):
    return branches(x) + 1


def prints(x):
    y = x + 1
    print("x")
    return y


def appends(x):
    SEEN.append(x.shape[0])
    return x + len(SEEN)


def writes(x):
    STATE["calls"] += "x"
    return x + len(STATE)


def reads_stream(x):
    SETTINGS.stream.flush()
    return x + 1


def never_reads_stream(x):
    return x + 1 if x.dim() else SETTINGS.stream.write(x)  # unread


def breaks(x):
    torch._dynamo.graph_break("here")  # breaks
    return x + 1


def line_of(f, comment):
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if comment in line)


CASES = [(branches, branches, "# the value", "y.sum() > 0"), (calls_branches, branches, "# the value", "y.sum() > 0"),
         (breaks, breaks, "# breaks", 'torch._dynamo.graph_break("here")')]


@contextlib.contextmanager
def untraced():
    """Without the trace function of the tests (tests/comparisons.py): under a debugger nothing is observed."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def reason(f):
    with untraced(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch._dynamo.explain(f)(torch.ones(3))
    assert found.graph_break_count == 1
    return found


@pytest.mark.parametrize("f, inner, comment, text", CASES, ids=lambda x: getattr(x, "__name__", None))
def test_explain_names_the_line_and_its_source(f, inner, comment, text):
    found, line = reason(f), line_of(inner, comment)
    first, = found.break_reasons[0].user_stack
    assert (first.filename, first.lineno, first.name) == (__file__, line, inner.__name__)
    assert f"{__file__}:{line} in {inner.__qualname__}: {text}" in found.break_reasons[0].reason
    assert "User Stack:" in str(found) and f"line {line}" in str(found)


def test_explain_counts_no_call_that_needs_elements_as_a_break():
    for f, breaks in ((lambda x: torch.linalg.svdvals(x + 1) * 2, 0),
                      (lambda x: torch.linalg.svdvals(x + 1) * x.sum().item(), 1)):
        with untraced():
            found = torch._dynamo.explain(f)(torch.ones(3, 3))
        assert (found.graph_count, found.graph_break_count) == (breaks + 1, breaks)


@pytest.mark.parametrize("f, inner, comment, text", CASES,
                         ids=lambda x: getattr(x, "__name__", None))
def test_unsupported_names_the_line(f, inner, comment, text):
    with pytest.raises(Unsupported) as error, untraced():
        torch.compile(f, fullgraph=True)(torch.ones(3))
    assert f"at {__file__}:{line_of(inner, comment)} in {inner.__qualname__}: {text}" in str(error.value)


@pytest.mark.parametrize("f", [prints, appends, writes, reads_stream, Counter()], ids=lambda x: getattr(x, "__name__", None))
def test_code_that_needs_no_value_is_one_graph(f, capsys):
    compiled, x = torch.compile(f, fullgraph=True), torch.ones(3)
    with untraced():
        found = torch._dynamo.explain(f)(x)
    assert (found.graph_count, found.graph_break_count) == (1, 0) and capsys.readouterr()
    seen = len(SEEN), STATE["calls"]
    for _ in range(4):
        compiled(x)
    assert (len(SEEN) - seen[0], STATE["calls"], capsys.readouterr().out) == \
        (4 * (f is appends), seen[1] + 4 * "x" * (f is writes), 4 * "x\n" * (f is prints))


@pytest.mark.deferred_calls(0)
def test_an_object_that_no_instruction_reads_does_not_matter():
    with untraced():
        f = torch.compile(never_reads_stream, fullgraph=True)
        results = [f(torch.ones(3)) for _ in range(3)]
    assert all(torch.equal(x, torch.full((3,), 2.0)) for x in results) and f._entries[0].calls == 2


def test_the_log_has_instruction_and_place(tmp_path):
    (tmp_path / "program.py").write_text(
        "import cresset as torch\n\ndef f(x):\n    return x + x.sum().item()\n\ntorch.compile(f)(torch.ones(2))\n")
    done = subprocess.run([sys.executable, "-W", "ignore", "program.py"], cwd=tmp_path, text=True, capture_output=True,
                          env={**os.environ, "CR_LOG": "capture", "CR_DEFER": "0"}, timeout=120)
    assert done.returncode == 0, done.stderr
    inside, end = done.stderr.splitlines()
    assert inside == f"[capture] flush of 1 calls at {tmp_path}/program.py:4: return x + x.sum().item() (for item())"
    assert end.startswith("[capture] flush of 1 calls at ") and end.endswith(" (for the end of a compiled function)")


def hooks():
    tools = [sys.monitoring.get_tool(i) for i in range(6)] if hasattr(sys, "monitoring") else []
    return [x for x in (sys.gettrace(), *tools) if x is not None]


def test_no_hook_is_left_after_results_and_errors():
    def fails(x):
        raise KeyError("x")
    with untraced():
        before = hooks()
        torch.compile(lambda x: x * 2, fullgraph=True)(torch.ones(2))
        for f in (fails, branches):
            with pytest.raises((KeyError, Unsupported)):
                torch.compile(f, fullgraph=True)(torch.ones(2))
        after = hooks()
    assert after == before == []


def test_under_a_debugger_the_error_has_its_place_and_the_debugger_keeps_its_hook():
    def trace(frame, event, arg):
        return trace
    with untraced():
        sys.settrace(trace)
        try:
            torch.compile(branches, fullgraph=True)(torch.ones(3))
        except Unsupported as e:
            error = e
        kept = sys.gettrace()
        sys.settrace(None)
    assert kept is trace and "branching" in str(error) and "test_places.py" in str(error)


def test_a_profiler_keeps_its_hook():
    seen = []

    def profile(frame, event, arg):
        seen.append(event)
    with untraced():
        sys.setprofile(profile)
        try:
            with pytest.raises(Unsupported, match="y.sum\\(\\) > 0"):
                torch.compile(branches, fullgraph=True)(torch.ones(3))
            kept = sys.getprofile()
        finally:
            sys.setprofile(None)
    assert kept is profile and seen


def test_an_observation_lists_names_by_their_holders():
    class Base:
        pass

    class Thing(Base):
        def method(self):
            return super().inner
    Base.inner = 1
    thing, module = Thing(), types.ModuleType("m")
    module.n = 1

    def described():
        """text"""

    def f(a):
        a.new = a.method() + getattr(a, "".join("inner"))
        match a:
            case Thing(inner=k):
                pass
        return described.__doc__, thing.method.__name__, Thing.__name__, module.n, hasattr(module, "absent"), "".join("x")
    watch = torch._C.Observation()
    with untraced():
        started = watch.start()
        f(thing)
        watch.stop()
    assert started
    found = {ref(): names for ref, names in watch.asked if ref() is not None}
    assert found[Thing] >= {"new", "method", "inner", "__name__", "__match_args__"} and Base not in found
    assert found[described] == {"__doc__"} and found[Thing.method] == {"__name__"} and found[module] == {"n", "absent"}
    assert watch.events > 10
