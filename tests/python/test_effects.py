"""Compiled calls store what eager ones do: tensors by recordings; counters, constants and items of lists by Python."""
import os
import sys
import threading
import warnings

import pytest

import cresset as torch
from cresset import nn


def compiled(f=None, **options):
    """torch.compile, without the trace function of the tests (tests/comparisons.py) in calls: under a debugger
    nothing is observed."""
    if f is None:
        return lambda f: compiled(f, **options)
    made = torch.compile(f, **options)

    def call(*args):
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return made(*args)
        finally:
            sys.settrace(trace)
    call.made = getattr(made, "_compiled_forward", made)
    return call


def served(f):
    """The number of calls that recordings served."""
    assert f.made._compiler.refusal is None, f.made._compiler.refusal
    return sum(e.calls for e in f.made._entries)


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


def counts(box, seen, m):
    def f(x):
        box.n += 1
        box.total = box.total * 2 + box.n
        return x * box.n
    return f


def branches_on_a_counter(box, seen, m):
    def f(x):
        box.n += 1
        return x + 1 if box.n % 3 else x - 1
    return f


def counts_beyond_64_bits(box, seen, m):
    def f(x):
        box.n = box.n * 100000 + 1
        return x + 1
    return f


def stores_constants(box, seen, m):
    def f(x):
        box.shape, box.kind, box.flag = x.shape, "ab"[box.n % 2], True
        return x + 1
    return f


def stores_what_it_finds(box, seen, m):
    """A number that varies is replaced by one that is there already."""
    def f(x):
        y = x * box.n
        box.n = 3
        return y
    return f


def appends(box, seen, m):
    def f(x):
        seen.append(x * 2)
        seen.append("y")
        return seen[-2] + 1
    return f


def keeps_tensors(box, seen, m):
    def f(x):
        box.last, m.kept = x + 1, m(x)
        return box.last * 2
    return f


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seen, self.kept, self.inner = 0, [], None, nn.Linear(2, 2)

    def forward(self, x):
        self.calls += 1
        y = self.inner(x)
        self.seen.append(y)
        return y * self.calls


def shown(x):
    return x.tolist() if isinstance(x, torch.Tensor) else [shown(i) for i in x] if isinstance(x, (list, tuple)) else x


@pytest.mark.filterwarnings("ignore:torch.*recompile_limit")
@pytest.mark.parametrize("options, deferred", [({}, 0), ({}, 1), ({"backend": "eager"}, 1)])
@pytest.mark.parametrize("make", [counts, branches_on_a_counter, counts_beyond_64_bits, stores_constants,
                                  stores_what_it_finds, appends, keeps_tensors])
def test_each_call_stores_what_the_eager_one_does(make, options, deferred):
    """The state is changed between calls, too."""
    def run(compile):
        torch.manual_seed(0)
        box, seen, m = Box(n=0, total=0.5, shape=None, kind="", flag=False, last=None), [], Counts()
        f, states = compile(make(box, seen, m)), []
        for n in range(12):
            if n in (6, 9):
                box.n, box.flag = n * n, None
                seen[:] = ["a", 3] if n == 6 else []
            with torch.no_grad():
                out = f(torch.full((2,), float(n)))
            states.append([shown(out), *map(shown, vars(box).values()), shown(seen), m.calls, shown(m.seen), shown(m.kept)])
        return states
    with torch._dynamo.config.patch(deferred_calls=deferred):
        assert run(lambda f: compiled(f, **options)) == run(lambda f: f)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_other_backends_get_one_graph_of_calls_that_count_or_append(backend, fullgraph):
    """backend None: a function that collects graphs and counts their calls."""
    graphs, ran, box, seen = [], [], Box(n=0), []

    def collect(graph, inputs):
        graphs.append(graph)

        def run(*args):
            ran.append(graph)
            return graph.forward(*args)
        return run

    def count(x):
        box.n += 1
        return x * 2 + 1

    def append(x):
        seen.append(x + 1)
        return x * 2
    with torch.no_grad():
        for f in (count, append):
            made = torch.compile(f, backend=backend or collect, fullgraph=fullgraph)
            for n in range(5):
                assert made(torch.full((2,), float(n)))[0] == (2 * n + 1 if f is count else 2 * n)
    assert box.n == len(seen) == 5 and [t[0].item() for t in seen] == [n + 1 for n in range(5)]
    assert backend or (len(graphs) == 2 and len(ran) >= 5)


@pytest.mark.deferred_calls(0)
def test_tensors_that_a_call_stores_are_stored_by_the_recording():
    box = Box(last=None)

    @compiled
    def f(x):
        box.last = x * 2
        return x + 1
    for n in range(4):
        f(torch.full((1,), float(n)))
        assert box.last.item() == 2 * n
    assert served(f) == 2


@pytest.mark.deferred_calls(0)
def test_a_number_that_depends_on_a_size_is_stored():
    box = Box(rows=0)

    @compiled(dynamic=True)
    def f(x):
        box.rows = x.shape[0] * 2
        return x + 1
    for rows in (3, 3, 4, 3, 5, 4):
        f(torch.ones(rows, 2))
        assert box.rows == 2 * rows and type(box.rows) is int


READS = {
    "its length": lambda seen, held: len(seen),
    "its truth": lambda seen, held: 1 if seen else 0,
    "an item": lambda seen, held: 2 if seen and seen[-1] is None else 3,
    "an iteration": lambda seen, held: sum(1 for _ in seen),
    "a comparison": lambda seen, held: int(seen == [1]),
    "a comparison of what holds it": lambda seen, held: int(held == [[1]]),
    "membership in what holds it": lambda seen, held: int([1] in held),
    "a function in C over what holds it": lambda seen, held: max(map(len, held)),
    "the truth of what it is in": lambda seen, held: int(any(held)),
    "a method": lambda seen, held: seen.count(1),
    "a bound special method": lambda seen, held: seen.__len__(),
    "text": lambda seen, held: len(f"{held}"),
    "unpacking": lambda seen, held: len([*seen]),
    "a spread": lambda seen, held: max(0, 0, *seen),
    "a pattern": lambda seen, held: _matched(seen),
    "a slice": lambda seen, held: len(seen[1:]),
}


def _matched(x):
    match x:
        case []:
            return 0
        case [_]:
            return 1
        case _:
            return 2


@pytest.mark.parametrize("read", READS)
def test_a_list_that_the_call_reads_stays_guarded(read):
    def run(compile):
        seen = []
        held = [seen]

        @compile
        def f(x):
            seen.append(1)
            return x + READS[read](seen, held)
        return [f(torch.zeros(1)).item() for _ in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(compiled) == run(lambda f: f)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_other_backends_get_one_graph_of_calls_that_count_or_append(backend, fullgraph):
    """backend None: a function that collects graphs and counts their calls."""
    graphs, ran, box, seen = [], [], Box(n=0), []

    def collect(graph, inputs):
        graphs.append(graph)

        def run(*args):
            ran.append(graph)
            return graph.forward(*args)
        return run

    def count(x):
        box.n += 1
        return x * 2 + 1

    def append(x):
        seen.append(x + 1)
        return x * 2
    with torch.no_grad():
        for f in (count, append):
            made = torch.compile(f, backend=backend or collect, fullgraph=fullgraph)
            for n in range(5):
                assert made(torch.full((2,), float(n)))[0] == (2 * n + 1 if f is count else 2 * n)
    assert box.n == len(seen) == 5 and [t[0].item() for t in seen] == [n + 1 for n in range(5)]
    assert backend or (len(graphs) == 2 and len(ran) >= 5)


def test_an_item_of_the_list_that_is_used_stays_guarded():
    first = torch.ones(1)
    seen = [first]

    def f(x):
        seen.append(1)
        return x + seen[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = compiled(f)
        assert [g(torch.zeros(1)).item() for _ in range(4)] == [1.] * 4
        seen[0] = torch.full((1,), 5.)
        assert g(torch.zeros(1)).item() == 5.


def test_an_item_that_is_reached_in_another_way_is_guarded():
    shared = torch.ones(1)
    seen, box = [shared], Box(t=shared)

    @compiled
    def f(x):
        seen.append(1)
        return x + box.t
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [f(torch.zeros(1)).item() for _ in range(4)] == [1.] * 4
        box.t = torch.full((1,), 7.)
        assert f(torch.zeros(1)).item() == 7.


def test_a_class_keeps_a_number_that_a_call_stores():
    class Kept:
        last = 0

    def f(x, n):
        Kept.last = n * 2
        return x + n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = compiled(f)
        for n in (1, 2, 3, 2):
            assert g(torch.zeros(1), n).item() == n and Kept.last == 2 * n and type(Kept.last) is int


def test_an_error_of_the_call_leaves_the_counter_of_eager_mode():
    box = Box(n=0)

    @compiled
    def f(x, i):
        box.n += 1
        return x.index_select(0, i)
    for i in (0, 1, 0, 1):
        f(torch.arange(3.), torch.tensor([i]))
    with pytest.raises(IndexError):
        f(torch.arange(3.), torch.tensor([9]))
    assert box.n == 5


def test_one_observation_does_not_end_another():
    def f():
        return 1 + 1
    a, b = torch._C.Observation(), torch._C.Observation()
    trace = sys.gettrace()
    sys.settrace(None)
    started = a.start(), b.start()
    b.stop()
    f()
    seen = a.events
    f()
    a.stop()
    again = b.start()
    b.stop()
    sys.settrace(trace)
    assert started == (True, False) and a.events > seen and again


def test_a_new_process_can_observe_while_a_thread_of_its_parent_is_observed():
    started, go = threading.Event(), threading.Event()

    def observed():
        watch = torch._C.Observation()
        sys.settrace(None)
        started.set() if watch.start() else None
        go.wait()
        watch.stop()
    thread = threading.Thread(target=observed)
    thread.start()
    try:
        assert started.wait(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 3.12 warns of a fork beside threads
            pid = os.fork()
        if not pid:
            sys.settrace(None)
            started = [torch._C.Observation().start() for _ in range(2)]
            os._exit(0 if started == [True, False] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert not torch._C.Observation().start()
    finally:
        go.set()
        thread.join()


def test_watched_objects_are_kept_alive():
    watch = torch._C.Observation()
    watch.watch([object(), [1] * 100], (str(3) * 50,), (), str(4) * 50)
    held = [[0] for _ in range(1000)]
    trace = sys.gettrace()
    sys.settrace(None)
    watch.start()
    (lambda: len(held))()
    watch.stop()
    sys.settrace(trace)
    assert watch.watched is None and watch.events
