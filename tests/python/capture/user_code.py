"""Programs in the styles of users' code: classes, exceptions, modules, optimizers, hooks, transforms and threads."""
import asyncio
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import gc
import math
import os
import pickle
import re
import sys
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.nn.utils import parametrizations, parametrize

from .harness import attempt, program

P = program("user_code")
NUMBER = [0]


def T(*size, k=0):
    return (torch.arange(1., 1 + math.prod(size)) * .37 + k).sin().reshape(size)


def R(*size, k=0):
    return T(*size, k=k).requires_grad_()


def six(f, *size):
    for k in range(6):
        yield attempt(f, T(*size, k=k))


class MLP(nn.Module):
    def __init__(self, d=4, h=5):
        super().__init__()
        self.a = nn.Linear(d, h)
        self.b = nn.Linear(h, 2)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))


def grads(m):
    return [(n, p.grad) for n, p in m.named_parameters()]


def train(compile, make, n=6, change=lambda k, m, o: None):
    m = MLP()
    o = make(m)

    @compile
    def step(x):
        o.zero_grad()
        l = m(x).square().mean()
        l.backward()
        o.step()
        return l
    for k in range(n):
        change(k, m, o)
        yield step(T(3, 4, k=k))
        yield list(m.parameters())[0]


@P
def exception_groups(compile):

    @compile
    def f(x, bad):
        log = []
        try:
            errs = []
            for b in bad:
                try:
                    if b == "v":
                        raise ValueError("v")
                    if b == "k":
                        raise KeyError(b)
                    x = x + 1
                except Exception as e:
                    errs.append(e)
            if errs:
                raise ExceptionGroup("many", errs)
        except* ValueError as g:
            log.append(("V", len(g.exceptions)))
            x = x * 2
        except* KeyError as g:
            log.append(("K", len(g.exceptions)))
            x = x - 1
        return (x, log)
    for bad in ("", "v", "k", "vkv", "xx", "vv", "kx"):
        for k in range(2):
            yield attempt(f, T(2, k=k), bad)


@P
def return_in_finally_swallows(compile):

    @compile
    def f(x, n):
        for i in range(3):
            try:
                if i == n:
                    raise RuntimeError("gone")
                if i == 2:
                    return x * 2
            except KeyError:
                return x
            finally:
                x = x + 1
                if n == 5:
                    return x.neg()
        return x
    for n in (0, 5, 3, 1, 2, 5, 3):
        yield attempt(f, T(2), n)
        yield attempt(f, T(2, k=1), n)


@P
def traceback_lines_and_notes(compile):

    @compile
    def f(x, k):
        try:
            if k > 2:
                raise ValueError(f"sum {x.sum():.3f}")
            return x + 1
        except ValueError as e:
            e.add_note(f"k={k}")
            raise
    import traceback
    for k in range(6):
        try:
            yield f(T(2, k=k), k)
        except ValueError as e:
            tb = [fr for fr in traceback.extract_tb(e.__traceback__) if fr.name == "f"]
            yield ([fr.line for fr in tb], e.__notes__, str(e))


@P
def exc_info_and_context(compile):

    @compile
    def f(x, k):
        try:
            try:
                x[[k]]
                raise KeyError(k)
            except KeyError as e:
                raise ValueError("outer")
        except ValueError as v:
            return (x * 2, type(v.__context__).__name__, sys.exc_info()[0].__name__)
        except IndexError as e:
            return (x - 1, str(e))
    for k in (0, 1, 5, 0, 7, 1):
        yield attempt(f, T(3), k)


@P
def custom_exception_carries_a_tensor(compile):

    class Stop(Exception):
        def __init__(self, value):
            super().__init__("stop")
            self.value = value

    def inner(x, k):
        y = x.cos()
        if k % 2:
            raise Stop(y + k)
        return y

    @compile
    def f(x, k):
        try:
            return inner(x, k)
        except Stop as s:
            return s.value * 10
    for k in range(6):
        yield f(T(3, k=k), k)


@P
def keyboard_interrupt_inside(compile):

    @compile
    def f(x, k):
        y = x.mul_(2)
        if k == 3:
            raise KeyboardInterrupt
        return y + 1
    for k in range(6):
        x = T(3, k=k)
        try:
            yield f(x, k)
        except KeyboardInterrupt:
            yield "interrupted"
        yield x


@P
def stop_iteration_inside_generator(compile):

    @compile
    def f(x, n):

        def gen():
            for i in range(n):
                if i == 2:
                    return x.sum()
                yield (x * i)
        out = []
        g = gen()
        while True:
            try:
                out.append(next(g))
            except StopIteration as s:
                return (out, s.value)
    for n in (1, 2, 3, 4, 1, 2):
        yield f(T(2), n)


@P
def generator_close_runs_finally(compile):
    log = []

    def gen(x):
        try:
            while True:
                x = (yield (x * 2))
        finally:
            log.append("closed")

    @compile
    def f(x):
        g = gen(x)
        a = next(g)
        b = g.send(x + 1)
        g.close()
        return a + b
    for k in range(6):
        yield f(T(2, k=k))
        yield list(log)


@P
def generator_throw(compile):

    def gen(x):
        try:
            yield x
        except ValueError as e:
            yield (x * float(str(e)))

    @compile
    def f(x, k):
        g = gen(x)
        next(g)
        return g.throw(ValueError(str(k)))
    for k in range(6):
        yield f(T(2, k=k), k)


@P
def compiled_generator_consumed_lazily(compile):

    @compile
    def f(x):
        for i in range(3):
            x = x * 2
            yield x
    x = T(3)
    for k in range(6):
        g = f(x)
        yield next(g)
        x.add_(1)
        yield list(g)


@P
def frames_and_line_numbers(compile):

    @compile
    def f(x):
        frame = sys._getframe()
        return (x + (frame.f_lineno - frame.f_code.co_firstlineno), frame.f_code.co_name)
    yield from six(f, 3)


@P
def closure_pair_share_a_cell(compile):

    def make():
        n = 0.0

        def up(x):
            nonlocal n
            n += 1
            return x + n

        def read(x):
            return x * n
        return (up, read)
    up, read = make()
    up2, read2 = (compile(up), compile(read))
    for k in range(6):
        yield up2(T(3, k=k))
        yield read2(T(3, k=k))
        up(T(3))
        yield read2(T(3))


@P
def nonlocal_type_flips(compile):
    v = 1

    @compile
    def f(x):
        return x * v if isinstance(v, int) else x - v.sum() if isinstance(v, torch.Tensor) else x + len(v)
    for nv in (1, 2, T(2), T(3), "abc", "ab", 3, True):
        v = nv
        yield f(T(4))


@P
def late_binding_lambdas(compile):
    fs = [lambda x: x * i for i in range(3)]
    fs += [lambda x, i=i: x * i for i in range(3)]

    @compile
    def f(x):
        return [g(x) for g in fs]
    for k in range(6):
        yield f(T(2, k=k))
        if k == 2:
            fs[3], fs[4] = (fs[4], fs[3])
        if k == 4:
            fs[0].__defaults__ = None
            fs[4].__defaults__ = (9,)


@P
def builtins_of_the_function_dict(compile):
    b = dict(vars(__import__("builtins")))
    g = {"__builtins__": b}
    exec("def f(x):\n    return x * max(2, 3)", g)
    f = compile(g["f"])
    for k in range(6):
        if k == 3:
            b["max"] = min
        yield f(T(2, k=k))


@P
def dataclass_post_init_counts(compile):
    made = []

    @dataclasses.dataclass
    class C:
        a: torch.Tensor
        b: float = 1.0
        tags: list = dataclasses.field(default_factory=list)

        def __post_init__(self):
            made.append(self.b)
            self.c = self.a * self.b

    @compile
    def f(x, b):
        c = C(x, b)
        c.tags.append(b)
        d = dataclasses.replace(c, b=b + 1)
        return (d.c + c.c, len(d.tags), d.tags is c.tags)
    for b in (1.0, 1.0, 2.0, 3.0, 3.0, 1.0):
        yield f(T(2), b)
        yield list(made)


@P
def dataclass_asdict_copies_tensors(compile):

    @dataclasses.dataclass
    class C:
        a: torch.Tensor
        b: dict

    @compile
    def f(x):
        d = dataclasses.asdict(C(x, {"y": x}))
        d["a"].add_(1)
        return (d, x)
    yield from six(f, 2)


@P
def frozen_slots_dataclass_as_key(compile):

    @dataclasses.dataclass(frozen=True, slots=True, order=True)
    class K:
        n: int
        s: str = "a"
    table = {K(1): 1.0, K(2): 2.0, K(2, "b"): 5.0}

    @compile
    def f(x, k):
        return x * table.get(k, -1.0) + (k > K(1, "z"))
    for k in (K(1), K(2), K(2, "b"), K(3), K(1), K(2)):
        yield f(T(2), k)
    table[K(1)] = 100.0
    yield f(T(2), K(1))


@P
def enum_with_behaviour(compile):

    class Act(enum.Enum):
        RELU = "relu"
        TANH = "tanh"
        ID = "id"

        def __call__(self, x):
            return {"relu": F.relu, "tanh": torch.tanh}.get(self.value, lambda y: y)(x)

        @classmethod
        def _missing_(cls, v):
            return cls.ID

    @compile
    def f(x, name):
        return (Act(name)(x), Act(name).name)
    for n in ("relu", "tanh", "relu", "zzz", "tanh", "id", "zzz"):
        yield f(T(4), n)


@P
def flag_enum_combinations(compile):

    class M(enum.Flag):
        NEG = enum.auto()
        SQ = enum.auto()
        HALF = enum.auto()

    @compile
    def f(x, m):
        if M.NEG in m:
            x = -x
        if m & M.SQ:
            x = x * x
        if m == M.HALF | M.SQ:
            x = x / 2
        return (x, len(m))
    for m in (M.NEG, M.SQ, M.NEG | M.SQ, M.HALF | M.SQ, M(0), M.NEG, M.SQ | M.HALF):
        yield f(T(3), m)


@P
def intenum_as_dim_and_size(compile):

    class D(enum.IntEnum):
        ROW = 0
        COL = 1

    @compile
    def f(x, d):
        return (x.sum(d), x.shape[d] * 2, f"{d!r} {d}")
    for d in (D.ROW, D.COL, 0, 1, D.ROW, D.COL):
        yield f(T(2, 3), d)


@P
def metaclass_call_caches_instances(compile):

    class Single(type):
        made = {}

        def __call__(cls, n):
            if n not in cls.made:
                cls.made[n] = super().__call__(n)
            return cls.made[n]

        def __getattr__(cls, name):
            return len(name) * 1.0

        def __instancecheck__(cls, o):
            return hasattr(o, "n")

    class C(metaclass=Single):
        def __init__(self, n):
            self.n = n

    @compile
    def f(x, n):
        c = C(n)
        c.n = c.n + 1
        return (x * c.n + C.abc, isinstance(types.SimpleNamespace(n=1), C))
    for n in (1.0, 1.0, 2.0, 1.0, 2.0, 3.0):
        yield f(T(2), n)


@P
def class_created_inside(compile):

    @compile
    def f(x, n):
        C = type("C", (), {"n": n, "run": lambda self, y: y * self.n})

        class D(C):
            def run(self, y):
                return super().run(y) + 1
        return (D().run(x), D.__qualname__, C.__mro__[-1].__name__)
    for n in (1, 2, 2, 3, 1, 1):
        yield f(T(2), n)


@P
def getattr_delegation_and_hasattr(compile):

    class Proxy:
        def __init__(self, t):
            object.__setattr__(self, "_t", t)

        def __getattr__(self, n):
            if n.startswith("no_"):
                raise AttributeError(n)
            return getattr(self._t, n)

        def __setattr__(self, n, v):
            setattr(self._t, n, v)
    inner = types.SimpleNamespace(w=2.0)
    p = Proxy(inner)

    @compile
    def f(x):
        r = x * p.w
        if hasattr(p, "bias"):
            r = r + p.bias
        if hasattr(p, "no_x"):
            r = r * 0
        return r
    for k in range(7):
        if k == 2:
            inner.bias = 1.0
        if k == 3:
            p.w = T(1)
        if k == 5:
            del inner.bias
        yield f(T(2, k=k))


@P
def parametrization_added_and_removed(compile):

    class Sym(nn.Module):
        scale = 1.0

        def forward(self, w):
            return (w.triu() + w.triu(1).mT) * self.scale

        def right_inverse(self, w):
            return w
    m = nn.Linear(3, 3)
    g = compile(m)
    for k in range(8):
        if k == 2:
            parametrize.register_parametrization(m, "weight", Sym())
        if k == 3:
            Sym.scale = 2.0
        if k == 5:
            parametrize.remove_parametrizations(m, "weight", leave_parametrized=k % 2 == 1)
        if k == 6:
            m.weight.data.mul_(3)
        y = g(T(2, 3, k=k))
        y.sum().backward()
        yield y
        yield grads(m)
    Sym.scale = 1.0


@P
def weight_norm_then_spectral(compile):
    m = parametrizations.weight_norm(nn.Linear(3, 3))
    g = compile(m)
    for k in range(6):
        if k == 3:
            parametrize.remove_parametrizations(m, "weight")
            parametrizations.spectral_norm(m)
        if k == 5:
            m.eval()
        yield g(T(2, 3, k=k))
        yield [b for b in m.buffers()]


@P
def prune_between_calls(compile):
    import cresset.nn.utils.prune as prune
    m = nn.Linear(4, 4)
    g = compile(m)
    for k in range(6):
        if k == 2:
            prune.l1_unstructured(m, "weight", amount=0.5)
        if k == 4:
            prune.remove(m, "weight")
        y = g(T(2, 4, k=k))
        y.sum().backward()
        yield y
        yield grads(m)


@P
def state_dict_assign_load(compile):
    m = MLP()
    g = compile(m)
    other = MLP()
    for k in range(7):
        if k == 2:
            m.load_state_dict(other.state_dict())
        if k == 4:
            m.load_state_dict({n: v.clone().double() for n, v in other.state_dict().items()}, assign=True)
        if k == 6:
            m.load_state_dict({n: v.float() for n, v in m.state_dict().items()}, assign=True)
        x = T(2, 4, k=k).double() if k in (4, 5) else T(2, 4, k=k)
        y = g(x)
        y.sum().backward()
        yield y
        yield grads(m)


@P
def tied_and_untied_weights(compile):

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(6, 4)
            self.h = nn.Linear(4, 6, bias=False)
            self.h.weight = self.e.weight

        def forward(self, i):
            return self.h(self.e(i))
    m = LM()
    g = compile(m)
    for k in range(6):
        if k == 2:
            m.h.weight = nn.Parameter(m.e.weight.detach().clone() * 2)
        if k == 4:
            m.e.weight = m.h.weight
        m.zero_grad()
        y = g(torch.tensor([1, k % 6]))
        y.sum().backward()
        yield y
        yield grads(m)


@P
def sequential_surgery(compile):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    g = compile(m)
    for k in range(8):
        if k == 2:
            m[1] = nn.Tanh()
        if k == 3:
            m.append(nn.Sigmoid())
        if k == 4:
            m.insert(1, nn.Identity())
        if k == 5:
            m.pop(0)
        if k == 6:
            m[0] = m[2]
        if k == 7:
            del m[-1]
        yield g(T(2, 3, k=k))


@P
def moduledict_keys_change(compile):

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.d = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ReLU()})

        def forward(self, x, keys=None):
            for n in keys or self.d:
                x = self.d[n](x)
            return x
    m = M()
    g = compile(m)
    for k in range(7):
        if k == 2:
            m.d["c"] = nn.Tanh()
        if k == 4:
            m.d.pop("b")
        if k == 5:
            m.d.update({"a": nn.Identity()})
        yield attempt(g, T(2, k=k))
        yield attempt(g, T(2, k=k), ["a", "b"])


@P
def hook_order_prepend_always_call(compile):
    m = nn.Linear(2, 2)
    g = compile(m)
    log = []
    m.register_forward_hook(lambda *a: log.append("a"))
    for k in range(6):
        if k == 2:
            m.register_forward_hook(lambda *a: log.append("b"), prepend=True)
        if k == 3:
            m.register_forward_hook(lambda *a: log.append("always"), always_call=True)
        if k == 4:
            m.register_forward_pre_hook(lambda *a: (_ for _ in ()).throw(RuntimeError("pre")))
        yield attempt(g, T(2, k=k))
        yield list(log)


@P
def parameter_data_swap_and_swap_tensors(compile):
    m = nn.Linear(2, 2)
    g = compile(m)
    for k in range(6):
        if k == 1:
            m.weight.data = T(2, 2)
        if k == 2:
            m.weight.data = T(2, 2).t()
        if k == 3:
            torch.utils.swap_tensors(m.weight, nn.Parameter(T(2, 2, k=3)))
        if k == 4:
            m.weight.data = torch.zeros(3, 2)
            m.bias.data = torch.ones(3)
        y = g(T(1, 2, k=k))
        y.sum().backward()
        yield y
        yield m.weight.grad
        m.weight.grad = None
        m.bias.grad = None


@P
def embedding_max_norm_writes(compile):
    m = nn.Embedding(5, 3, max_norm=1.0, padding_idx=0)
    g = compile(m)
    for k in range(6):
        if k == 3:
            m.max_norm = 0.5
        if k == 4:
            m.padding_idx = 2
        i = torch.tensor([k % 5, 2, 0])
        y = g(i)
        y.sum().backward()
        yield y
        yield m.weight
        m.zero_grad()


@P
def optimizer_state_reloaded(compile):
    saved = []

    def change(k, m, o):
        if k == 2:
            saved.append(copy.deepcopy(o.state_dict()))
        if k == 4:
            o.load_state_dict(saved[0])
        if k == 6:
            o.state.clear()
    yield from train(compile, lambda m: torch.optim.Adam(m.parameters(), lr=0.1), 8, change)


@P
def plateau_scheduler_reads_loss(compile):
    m = MLP()
    o = torch.optim.SGD(m.parameters(), lr=1.0)
    s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5)

    @compile
    def step(x):
        o.zero_grad()
        l = m(x).square().mean()
        l.backward()
        o.step()
        s.step(l)
        return l
    for k in range(7):
        yield step(T(3, 4, k=k))
        yield o.param_groups[0]["lr"]


@P
def swa_and_ema_models(compile):
    m = MLP()
    a = torch.optim.swa_utils.AveragedModel(m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    o = torch.optim.SGD(m.parameters(), lr=0.5)

    @compile
    def step(x):
        o.zero_grad()
        l = m(x).square().mean()
        l.backward()
        o.step()
        a.update_parameters(m)
        return l
    for k in range(6):
        yield step(T(3, 4, k=k))
        yield a(T(1, 4))
        yield a.n_averaged


@P
def grad_scaler_steps(compile):
    m = MLP()
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    s = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    @compile
    def step(x):
        o.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            l = m(x).square().mean()
        s.scale(l).backward()
        s.step(o)
        s.update()
        return l
    for k in range(6):
        x = T(3, 4, k=k)
        if k == 3:
            x[0, 0] = math.inf
        yield step(x)
        yield s.get_scale()
        yield m.a.bias


@P
def optimizer_hooks(compile):
    m = MLP()
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    log = []
    hs = []

    @compile
    def step(x):
        o.zero_grad()
        l = m(x).mean()
        l.backward()
        o.step()
        return l
    for k in range(6):
        if k == 2:
            hs.append(o.register_step_pre_hook(lambda o, a, kw: log.append("pre")))
        if k == 3:
            hs.append(o.register_step_post_hook(lambda o, a, kw: o.param_groups[0].update(lr=o.param_groups[0]["lr"] * 0.5)))
        if k == 5:
            [h.remove() for h in hs]
        yield step(T(3, 4, k=k))
        yield list(log)
        yield o.param_groups[0]["lr"]


@P
def optimizer_in_backward(compile):
    m = MLP()
    opts = {p: torch.optim.SGD([p], lr=0.1) for p in m.parameters()}
    for p in m.parameters():
        p.register_post_accumulate_grad_hook(lambda p: (opts[p].step(), opts[p].zero_grad(), None)[2])

    @compile
    def step(x):
        l = m(x).square().mean()
        l.backward()
        return l
    for k in range(6):
        if k == 3:
            opts[m.a.weight].param_groups[0]["lr"] = 1.0
        yield step(T(3, 4, k=k))
        yield m.a.weight
        yield m.a.weight.grad


@P
def custom_function_with_ctx_state(compile):

    class Fn(torch.autograd.Function):
        scale = 1.0

        @staticmethod
        def forward(ctx, x, n):
            ctx.save_for_backward(x)
            ctx.n = n
            ctx.set_materialize_grads(False)
            return (x * n, x.argmax())

        @staticmethod
        def backward(ctx, g, _):
            x, = ctx.saved_tensors
            return (g * ctx.n * Fn.scale * x.cos() if ctx.needs_input_grad[0] else None, None)

    @compile
    def f(x, n):
        y, i = Fn.apply(x, n)
        return (y.sum() + x[i], i)
    for k in range(7):
        if k == 3:
            Fn.scale = 4.0
        x = T(3, k=k)
        if k != 5:
            x.requires_grad_()
        y, i = f(x, 2 + k // 2)
        yield y
        yield i
        if k != 5:
            y.backward()
            yield x.grad
    Fn.scale = 1.0


@P
def custom_function_mark_dirty_and_double(compile):

    class Dirty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Sq(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return 2 * x * g

    @compile
    def f(x):
        return Sq.apply(Dirty.apply(x * 1))
    for k in range(6):
        x = R(3, k=k)
        y = f(x).sum()
        g, = torch.autograd.grad(y, x, create_graph=k % 2 == 0)
        yield g
        if k % 2 == 0:
            yield torch.autograd.grad(g.sum(), x)


@P
def multi_grad_and_node_hooks(compile):
    log = []

    @compile
    def f(x, y):
        z = x * y
        h = torch.autograd.graph.register_multi_grad_hook((x, y), lambda gs: log.append([g is None for g in gs]))
        z.grad_fn.register_prehook(lambda g: (g[0] * 2,))
        return (z.sum(), h)
    for k in range(6):
        x, y = (R(3, k=k), R(3, k=k + 1))
        z, h = f(x, y)
        z.backward()
        yield (x.grad, y.grad)
        yield list(log)
        h.remove()


@P
def checkpoint_with_dropout(compile):
    from cresset.utils.checkpoint import checkpoint
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())

    @compile
    def f(x, re):
        return checkpoint(m, x, use_reentrant=re).sum()
    for k in range(6):
        torch.manual_seed(k // 2)
        x = R(3, 4, k=k)
        y = f(x, k % 3 == 2)
        y.backward()
        yield y
        yield x.grad
        if k == 3:
            m.eval()


@P
def forward_mode_inside(compile):
    import cresset.autograd.forward_ad as fwad

    @compile
    def f(x, t):
        with fwad.dual_level():
            d = fwad.make_dual(x, t)
            return tuple(fwad.unpack_dual(d.sin() * d))
    for k in range(6):
        yield f(T(3, k=k), T(3, k=k + 1))


@P
def functional_call_swaps(compile):
    m = MLP()
    ps = dict(m.named_parameters())

    @compile
    def f(ps, x):
        return torch.func.functional_call(m, ps, (x,))
    for k in range(6):
        q = {n: p.detach() * (k + 1) for n, p in ps.items()}
        if k == 4:
            del q["b.bias"]
        yield f(q, T(2, 4, k=k))
        yield m(T(1, 4))


@P
def hessians_and_jacobians(compile):
    w = [T(3)]

    def loss(x):
        return (x * w[0]).sin().prod()

    @compile
    def f(x):
        return (torch.func.hessian(loss)(x), torch.func.jacfwd(lambda y: y * loss(y))(x), torch.func.vjp(loss, x)[0])
    for k in range(6):
        if k == 3:
            w[0] = T(3, k=9)
        yield f(T(3, k=k))


@P
def geometry_changes_in_place(compile):

    @compile
    def f(x, k):
        if k == 0:
            x.t_()
        elif k == 1:
            x.unsqueeze_(0)
        elif k == 2:
            x.resize_(3, 3)
        elif k == 3:
            x.set_(T(5))
        elif k == 4:
            x.squeeze_()
        elif k == 5:
            x.data = T(2)
        return (x * 2, x.shape)
    for k in (0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 0):
        x = T(2, 3, k=k)
        r = attempt(f, x, k)
        yield ((r[0][:2], r[1]) if k == 2 else r)
        yield (tuple(x.shape), x.stride())


@P
def foreach_and_out_arguments(compile):

    @compile
    def f(xs, o, s):
        torch._foreach_mul_(xs, s)
        ys = torch._foreach_add(xs, 1)
        torch.add(xs[0], ys[1], out=o)
        return (ys, o)
    for k in range(6):
        xs = [T(3, k=k), T(3, k=k + 1)]
        o = torch.empty(3) if k % 2 else xs[1]
        yield f(xs, o, 2.0 if k < 3 else [1.0, 2.0])
        yield xs


@P
def swap_through_temporaries(compile):

    @compile
    def f(xs):
        xs[0], xs[1] = (xs[1], xs[0])
        xs[0].add_(1)
        xs.append(xs[0][:1])
        xs[-1].mul_(3)
        del xs[2]
        return xs
    for k in range(6):
        a, b, c = (T(2, k=k), T(2, k=k + 1), T(1))
        l = [a, b, c] if k % 3 else [a, a, c]
        f(l)
        yield l
        yield (a, b)


@P
def dict_keyed_by_tensor_identity(compile):
    a, b = (T(2), T(2, k=1))
    d = {a: 1.0, b: 2.0}

    @compile
    def f(x):
        return (x * d.get(x, -1.0), x in d, len(d))
    for k in range(7):
        if k == 3:
            d[a] = 5.0
        if k == 4:
            del d[b]
        yield f(a)
        yield f(b)
        yield f(T(2, k=k))


@P
def weak_keyed_cache_by_module(compile):
    cache = weakref.WeakKeyDictionary()
    ms = [nn.Linear(2, 2), nn.Linear(2, 2)]

    @compile
    def f(m, x):
        if m not in cache:
            cache[m] = m.weight.detach().sum()
        return m(x) * cache[m]
    for k in range(7):
        yield f(ms[k % 2], T(1, 2, k=k))
        yield len(cache)
        if k == 3:
            ms[0] = nn.Linear(2, 2)
            gc.collect()
        if k == 4:
            with torch.no_grad():
                ms[1].weight.mul_(2)


@P
def weakref_callbacks_run(compile):
    log = []

    class O:
        pass

    @compile
    def f(x, n):
        o = O()
        r = weakref.ref(o, lambda r: log.append(n))
        o.v = x * n
        y = r().v
        del o
        return (y, r() is None)
    for n in (1, 1, 2, 3, 3, 1):
        yield f(T(2), n)
        yield list(log)


@P
def fstring_of_values_in_key(compile):
    table = collections.Counter()

    @compile
    def f(x):
        key = f"{x.sum().item():.1f}|{x.shape}|{x.dtype}"
        table[key] += 1
        return (x * table[key], key)
    for k in (0, 1, 0, 2, 1, 0):
        yield f(T(2, k=k))


@P
def growing_cache_with_positions(compile):
    cache = {}

    @compile
    def f(x, pos):
        k = torch.cat([cache["k"], x]) if "k" in cache else x
        cache["k"] = k
        return ((x @ k.t()).softmax(-1) @ k, k.shape[0] - pos)
    for i in range(8):
        if i == 6:
            cache.clear()
        yield f(T(1, 3, k=i), i)


@P
def numbers_that_change_kind(compile):

    @compile
    def f(x, s):
        return (x * s, isinstance(s, bool), s == 1, s.__class__.__name__, bool(s))
    for s in (1, 1.0, True, 2, 2.5, -0.0, 0, math.nan, math.inf, 1 + 2j, 10 ** 20, 1):
        yield attempt(f, T(2), s)


@P
def beam_search_like(compile):
    w = T(4, 4)

    @compile
    def f(start, steps):
        beams = [([start], 0.0)]
        for _ in range(steps):
            cand = []
            for seq, s in beams:
                lp = w[seq[-1]].log_softmax(-1)
                v, i = lp.topk(2)
                cand += [(seq + [j], s + p) for p, j in zip(v.tolist(), i.tolist())]
            beams = sorted(cand, key=lambda c: -c[1])[:2]
        return beams
    for k in range(6):
        yield f(k % 4, 1 + k % 3)


@P
def distributions_in_a_policy(compile):
    D = torch.distributions
    m = nn.Linear(3, 4)

    @compile
    def f(x):
        d = D.Independent(D.Normal(m(x)[..., :2], m(x)[..., 2:].exp()), 1)
        a = d.rsample()
        c = D.Categorical(logits=m(x))
        i = c.sample()
        return (d.log_prob(a), D.kl_divergence(d.base_dist, D.Normal(0.0, 1.0)).sum(), c.log_prob(i), c.entropy(), i)
    for k in range(6):
        torch.manual_seed(k // 2)
        yield f(T(2 + k // 4, 3, k=k))


@P
def validate_args_toggled(compile):
    D = torch.distributions

    @compile
    def f(p):
        return D.Bernoulli(p).entropy()
    try:
        for k in range(6):
            D.Distribution.set_default_validate_args(k % 2 == 0)
            yield attempt(f, torch.tensor([0.5, 1.5 if k > 1 else 0.2]))
    finally:
        D.Distribution.set_default_validate_args(__debug__)


@P
def thread_pool_maps_compiled(compile):
    w = [2.0]

    @compile
    def f(x):
        return x * w[0] + threading.current_thread().name.startswith("Pool")
    with ThreadPoolExecutor(2, "Pool") as ex:
        for k in range(6):
            w[0] = float(k // 2)
            yield list(ex.map(f, [T(2 + j % 2, k=k + j) for j in range(4)]))
            yield f(T(2, k=k))


@P
def async_compiled_and_awaited(compile):
    bias = contextvars.ContextVar("bias", default=0.0)

    @compile
    def f(x):
        return x + bias.get()

    async def work(k):
        bias.set(float(k))
        await asyncio.sleep(0)
        return f(T(2, k=k))

    async def main():
        return await asyncio.gather(*(work(k) for k in range(3)))
    for k in range(3):
        yield asyncio.run(main())
        yield f(T(2, k=k))


@P
def coroutine_is_compiled(compile):

    @compile
    async def f(x, n):
        for _ in range(n):
            await asyncio.sleep(0)
            x = x * 2
        return x
    for k in range(6):
        yield asyncio.run(f(T(2, k=k), k % 3))


@P
def subclass_with_metadata(compile):

    class U(torch.Tensor):
        @staticmethod
        def __new__(cls, t, unit):
            r = t.as_subclass(cls)
            r.unit = unit
            return r

        @classmethod
        def __torch_function__(cls, func, ty, args=(), kw=None):
            r = super().__torch_function__(func, ty, args, kw or {})
            u = next((a.unit for a in args if isinstance(a, U)), "?")
            if isinstance(r, U):
                r.unit = u + "." + getattr(func, "__name__", "f")
            return r

    @compile
    def f(x):
        y = x * 2 + 1
        return (y, y.unit, type(y).__name__)
    for k in range(6):
        y, u, n = f(U(T(2, k=k), "m" if k < 4 else "s"))
        yield (y.as_subclass(torch.Tensor), u, n)


@P
def torch_function_duck_array(compile):

    class Duck:
        log = []

        def __init__(self, t):
            self.t = t

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.log.append(func.__name__)
            return Duck(func(*[a.t if isinstance(a, Duck) else a for a in args], **kwargs or {}))

    @compile
    def f(x, d):
        r = torch.add(x, d)
        return torch.mul(r, 2).t
    for k in range(6):
        yield f(T(2, k=k), Duck(T(2, k=k + 1)) if k % 2 == 0 else Duck(1.0))
        yield list(Duck.log)


@P
def torch_function_mode_around(compile):

    class M(torch.overrides.TorchFunctionMode):
        n = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            M.n += 1
            r = func(*args, **kwargs or {})
            return r * 2 if func is torch.sin else r

    @compile
    def f(x):
        return torch.sin(x) + x.cos()
    for k in range(6):
        with M() if k % 2 else contextlib.nullcontext():
            yield f(T(2, k=k))
        yield (M.n > 0)


@P
def custom_op_that_mutates(compile):
    NUMBER[0] += 1
    name = f"adv3::put{NUMBER[0]}"

    @torch.library.custom_op(name, mutates_args={"out"})
    def put(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x.numpy()[::-1].copy() if False else x.flip(0))

    @compile
    def f(x):
        o = torch.zeros_like(x)
        put(x, o)
        put(o + 1, x)
        return o
    for k in range(6):
        x = T(3, k=k)
        yield f(x)
        yield x


@P
def deepcopied_state_machine(compile):

    class SM:
        def __init__(self):
            self.state, self.buf = ("idle", [])

        def idle(self, x):
            self.state = "run"
            return x

        def run(self, x):
            self.buf.append(x.sum())
            self.state = "idle" if len(self.buf) % 2 else "run"
            return x * len(self.buf)

        def __call__(self, x):
            return getattr(self, self.state)(x)
    s = SM()
    f = compile(lambda s, x: s(x))
    for k in range(7):
        yield f(s, T(2, k=k))
        yield (s.state, len(s.buf))
        if k == 3:
            s = copy.deepcopy(s)
        if k == 5:
            s = pickle.loads(pickle.dumps(types.SimpleNamespace(**vars(s))))
            s = type("Q", (SM,), {"run": lambda self, x: x - 1})()


@P
def patched_functions_inside_the_call(compile):

    @compile
    def f(x, on):
        if on:
            with mock.patch.object(F, "relu", torch.tanh), mock.patch.dict(os.environ, {"ADV": "1"}):
                return F.relu(x) + len(os.environ["ADV"])
        return (F.relu(x), os.environ.get("ADV"))
    for k in range(6):
        yield f(T(3, k=k), k % 2 == 1)
