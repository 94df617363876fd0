"""Side effects: attributes, globals, cells, prints, files, logs."""
import io
import logging

import cresset as torch
from cresset import nn

from .harness import attempt, program

FAMILY = "side effects"
count = 0
kept = None
registry = {}
flag = True


@program(FAMILY)
def counts_in_a_dict(compile):
    state = {"n": 0}

    @compile
    def f(x):
        state["n"] += 1
        return x * state["n"]
    for _ in range(4):
        yield f(torch.ones(2)), state["n"]


@program(FAMILY)
def counts_in_a_global(compile):
    global count
    count = 0

    @compile
    def f(x):
        global count
        count += 1
        return x + count
    for _ in range(4):
        yield f(torch.ones(2)), count


@program(FAMILY)
def counts_in_a_cell(compile):
    n = 0

    @compile
    def f(x):
        nonlocal n
        n += 2
        return x + n
    for _ in range(4):
        yield f(torch.ones(2)), n


@program(FAMILY)
def counts_in_an_attribute(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls
    m = M()
    f = compile(m)
    for _ in range(4):
        yield f(torch.ones(2)), m.calls


@program(FAMILY)
def appends_to_a_list(compile):
    seen = []

    @compile
    def f(x):
        seen.append(x.shape[0])
        return x + len(seen)
    for n in (2, 2, 3, 2):
        yield f(torch.ones(n)), list(seen)


@program(FAMILY)
def appends_tensors_to_a_list(compile):
    seen = []

    @compile
    def f(x):
        y = x * 2
        seen.append(y)
        return y + 1
    for _ in range(3):
        yield f(torch.ones(2)), list(seen)


@program(FAMILY)
def stores_the_last_result(compile):
    class Holder:
        last = None
    h = Holder()

    @compile
    def f(x):
        h.last = x * 3
        return h.last + 1
    for i in range(4):
        yield f(torch.full((2,), float(i))), h.last


@program(FAMILY)
def stores_a_tensor_in_a_global(compile):
    global kept
    kept = None

    @compile
    def f(x):
        global kept
        kept = x + 1
        return kept * 2
    for i in range(3):
        yield f(torch.full((2,), float(i))), kept


@program(FAMILY)
def reads_what_the_last_call_stored(compile):
    state = {"h": torch.zeros(2)}

    @compile
    def f(x):
        state["h"] = state["h"] * 0.5 + x
        return state["h"] + 1
    for i in range(4):
        yield f(torch.full((2,), float(i))), state["h"]


@program(FAMILY)
def prints_in_every_call(compile):
    @compile
    def f(x):
        print("called with", tuple(x.shape))
        return x + 1
    for n in (2, 2, 3):
        yield f(torch.ones(n))


@program(FAMILY)
def writes_to_a_stream(compile):
    stream = io.StringIO()

    @compile
    def f(x):
        stream.write("a")
        return x + 1
    for _ in range(3):
        yield f(torch.ones(2)), stream.getvalue()


@program(FAMILY)
def logs_in_every_call(compile):
    lines = []
    log = logging.Logger("capture.effects")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers = [type("H", (logging.Handler,), {"emit": lambda self, r: lines.append(r.getMessage())})()]

    @compile
    def f(x):
        log.info("size %d", x.shape[0])
        return x + 1
    for _ in range(3):
        yield f(torch.ones(2)), list(lines)


@program(FAMILY)
def registers_a_function(compile):
    registry.clear()

    @compile
    def f(x):
        registry[len(registry)] = "call"
        return x + len(registry)
    for _ in range(3):
        yield f(torch.ones(2)), dict(registry)


@program(FAMILY)
def reads_a_global_that_changes(compile):
    global flag

    @compile
    def f(x):
        return x + 1 if flag else x - 1
    for flag in (True, False, True, None, 1):
        yield f(torch.ones(2))


@program(FAMILY)
def deletes_an_attribute(compile):
    class Box:
        pass
    box = Box()

    @compile
    def f(x):
        had = hasattr(box, "extra")
        if had:
            del box.extra
        return x + (10 if had else 1)
    for i in range(4):
        if i % 2:
            box.extra = i
        yield f(torch.ones(2)), vars(box).copy()


@program(FAMILY)
def setattr_by_a_computed_name(compile):
    class Box:
        a = b = 0
    box = Box()

    @compile
    def f(x, name):
        setattr(box, name, getattr(box, name) + 1)
        return x + box.a - box.b
    for name in ("a", "b", "a", "a"):
        yield f(torch.ones(2), name), box.a, box.b


@program(FAMILY)
def a_function_attribute_counts(compile):
    def helper(x):
        helper.calls += 1
        return x * helper.calls
    helper.calls = 0

    @compile
    def f(x):
        return helper(x) + 1
    for _ in range(3):
        yield f(torch.ones(2)), helper.calls


@program(FAMILY)
def a_default_argument_accumulates(compile):
    @compile
    def f(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x + len(seen)
    for _ in range(4):
        yield f(torch.ones(2))


@program(FAMILY)
def pops_from_a_queue(compile):
    queue = [5., 4., 3., 2.]

    @compile
    def f(x):
        return x * queue.pop()
    for _ in range(5):
        yield attempt(f, torch.ones(2)), list(queue)


@program(FAMILY)
def an_effect_before_an_error(compile):
    seen = []

    @compile
    def f(x, n):
        seen.append(n)
        if n == 2:
            raise ValueError("two")
        return x + n
    for n in (1, 2, 1, 2):
        yield attempt(f, torch.ones(2), n), list(seen)


@program(FAMILY)
def adds_to_a_store_of_ranks(compile):
    store = torch.distributed.HashStore()

    @compile
    def f(x):
        store.add("calls", 1)
        return x * 2
    for i in range(4):
        yield f(torch.ones(2)), store.add("calls", 0)
