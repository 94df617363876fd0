"""State that a call reads or changes in objects of the standard library, of scripts, optimizers and modules."""
import bisect
import collections
import contextvars
import ctypes
import dataclasses
import heapq
import itertools
import queue
import random
import threading
import weakref

import numpy as np

import cresset as torch
from cresset import nn

from .harness import program

FAMILY = "state"


def stateful(make):
    """Makes a program of a function that returns (the function to compile, what it leaves): six calls."""
    def run(compile):
        f, left = make()
        f = compile(f)
        for i in range(6):
            yield f(torch.full((2,), i + 1.)), left()
    run.__name__ = make.__name__
    return program(FAMILY)(run)


class Plain:
    pass


@dataclasses.dataclass
class Counted:
    n: int = 0


class Script(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.register_buffer("b", torch.zeros(1))

    def forward(self, x):
        self.n += 1
        self.b += 1
        return x + self.n


current, serial = Counted(6), itertools.count()


@stateful
def a_scripted_module_counts():
    m = torch.jit.script(Script())
    return lambda x: m(x), lambda: (m.n, m.b.item())


@stateful
def an_attribute_of_a_scripted_module_is_read():
    m = torch.jit.script(Script())

    def left():
        m.n += 2
        return m.n
    return lambda x: x + m.n, left


@stateful
def an_operator_of_a_library_counts():
    lib, calls, name = torch.library.Library("state_of_a_call", "FRAGMENT"), [], f"f{next(serial)}"
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, lambda x: calls.append(1) or x + 1, "CPU")
    op = getattr(torch.ops.state_of_a_call, name)
    return lambda x: op(x), lambda: (len(calls), lib is None)


@stateful
def an_object_is_replaced_by_its_successor():
    global current
    current = Counted(6)

    def f(x):
        global current
        current = dataclasses.replace(current, n=current.n + 1)
        return x + current.n
    return f, lambda: current.n


@stateful
def an_item_is_replaced_by_its_successor():
    items = [Counted(3)]

    def f(x):
        items[0] = Counted(items[0].n * 2)
        return x + items[0].n
    return f, lambda: items[0].n


@stateful
def an_array_of_ctypes_is_written():
    array = (ctypes.c_float * 2)(1, 2)
    over = torch.frombuffer(array, dtype=torch.float32)

    def f(x):
        array[0] += 1
        return x + over
    return f, lambda: list(array)


@stateful
def an_array_of_numpy_is_written():
    array = np.ones(2, dtype=np.float32)
    over = torch.from_numpy(array)

    def f(x):
        array[0] += 1
        return x + over
    return f, lambda: array.tolist()


@stateful
def a_queue_is_filled():
    q = queue.Queue()

    def f(x):
        q.put(1)
        return x + q.qsize()
    return f, q.qsize


@stateful
def a_variable_of_a_context():
    v = contextvars.ContextVar("v", default=0)

    def f(x):
        v.set(v.get() + 1)
        return x + v.get()
    return f, v.get


@stateful
def a_variable_of_a_thread():
    v = threading.local()
    v.n = 0

    def f(x):
        v.n += 1
        return x + v.n
    return f, lambda: v.n


@stateful
def iterators_advance():
    def numbers():
        n = 0
        while True:
            n += (yield n) or 1
    made = (itertools.cycle([1, 2, 3]), map(abs, range(99)), zip(range(99)), filter(None, range(99)), itertools.count())
    sender = numbers()
    next(sender)

    def f(x):
        for it in made:
            x = x + sum(torch.tensor(next(it)).flatten())
        return x + sender.send(2)
    return f, lambda: None


@stateful
def containers_of_collections():
    d, o = collections.deque(range(3)), collections.OrderedDict(a=1, b=2)
    c, k = collections.ChainMap({}, {"a": 1}), collections.Counter()
    w, u, kept = weakref.WeakValueDictionary(), collections.UserDict(), []

    def f(x):
        d.rotate(1)
        o.move_to_end(next(iter(o)))
        c["a"] = c["a"] + 1
        k.update("ab")
        kept.append(Plain())
        w[len(w)] = kept[-1]
        u[len(u)] = 1
        return x + d[0] + next(iter(o.values())) + c["a"] + k["a"] + len(w) + len(u)
    return f, lambda: None


@stateful
def sorted_lists_and_bytes():
    h, b, m = [5], bytearray(b"a"), memoryview(bytearray(4))

    def f(x):
        heapq.heappush(h, len(h))
        bisect.insort(h, 3)
        b.append(1)
        m[0] += 1
        return x + h[0] + len(h) + len(b) + m[0]
    return f, lambda: list(h)


@stateful
def a_generator_of_random_numbers():
    r, g = random.Random(3), torch.Generator().manual_seed(5)
    return lambda x: x + r.random() + torch.rand(2, generator=g), lambda: None


@stateful
def a_rate_is_halved_and_a_schedule_steps():
    w = nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([w], lr=1., momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2)

    def f(x):
        for group in opt.param_groups:
            group["lr"] *= 0.5
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        schedule.step()
        return w.detach().clone()
    return f, lambda: (opt.param_groups[0]["lr"], schedule.last_epoch)


@stateful
def a_cache_grows():
    kept = []

    def f(x):
        kept.append(x[None])
        return torch.cat(kept).sum(0)
    return f, lambda: len(kept)


@stateful
def vectors_of_spectral_norms():
    torch.manual_seed(0)
    old = nn.utils.spectral_norm(nn.Linear(2, 2))
    new = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2))
    return (lambda x: old(x).detach() + new(x).detach(),
            lambda: (old.weight_u.tolist(), new.parametrizations.weight[0]._u.tolist()))


@stateful
def hooks_of_saved_tensors_and_checkpoints():
    calls = []

    def inner(y):
        calls.append("inner")
        return y * y

    def f(x):
        y = x.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: calls.append("pack") or t, lambda t: t):
            z = torch.utils.checkpoint.checkpoint(inner, y * y, use_reentrant=False)
        z.sum().backward()
        return y.grad
    return f, lambda: list(calls)


@stateful
def texts_of_tensors():
    return lambda x: x * 3 + len(repr(x * 3)) + len(f"{x * x}"), lambda: None
