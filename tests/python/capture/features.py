"""Autocast, copies, subclasses, custom Functions, modules that change, NumPy, Python's forms, training."""
import collections
import contextlib
import copy
import enum
import functools
import itertools
import math
import operator
import types

import numpy as np

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F

from .harness import attempt, program

P = program("features")


def T(*size):
    return torch.arange(1., 1 + math.prod(size)).reshape(size) / 4


@P
def autocast_nesting(compile):

    @compile
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ w
            with torch.autocast("cpu", enabled=False):
                b = x @ w
            with torch.autocast("cpu", dtype=torch.float16):
                c = x @ w
        return (a, b, c, x @ w)

    for _ in range(4):
        yield f(T(2, 2), T(2, 2))


@P
def autocast_outside_changes(compile):

    @compile
    def f(x, w):
        return x @ w

    for on in (False, True, False, True, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
            yield f(T(2, 2), T(2, 2))


@P
def autocast_cache_with_training(compile):
    m = nn.Linear(2, 2)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    f = compile(m)
    for _ in range(4):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            l = f(T(2, 2)).float().sum() + f(T(2, 2)).float().sum()
        l.backward()
        o.step()
        o.zero_grad()
        yield (l.detach(), list(m.parameters()))


@P
def autocast_with_break(compile):

    @compile
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ w
            if a.sum() > 0:
                a = a @ w
            return (a.dtype, a)

    for _ in range(4):
        yield f(T(2, 2), T(2, 2))


@P
def deepcopy_inside(compile):
    m = nn.Linear(2, 2)

    @compile
    def f(x):
        c = copy.deepcopy(m)
        c.weight.data.mul_(2)
        return c(x) - m(x)

    for _ in range(4):
        yield f(T(1, 2))
        yield list(m.parameters())


@P
def deepcopy_of_compiled(compile):
    m = compile(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    yield m(T(1, 2))
    yield m(T(1, 2))
    c = copy.deepcopy(m)
    with torch.no_grad():
        c[0].weight.zero_()
    yield c(T(1, 2))
    yield m(T(1, 2))
    yield c(T(1, 2))


@P
def copy_of_list_of_tensors(compile):
    l = [T(2), T(2)]

    @compile
    def f(x):
        c = copy.copy(l)
        c[0] = x
        c.append(x)
        return (sum(c), len(l))

    for _ in range(4):
        yield f(T(2))


@P
def data_attribute(compile):

    @compile
    def f(x):
        y = x * 2
        y.data.add_(1)
        z = (y * y).sum()
        x.data *= 2
        return z

    for _ in range(4):
        x = T(3).requires_grad_()
        f(x).backward()
        yield (x, x._version)


@P
def no_grad_decorator(compile):

    @torch.no_grad()
    def g(x):
        return x * 3

    @compile
    def f(x):
        return g(x) + x

    for _ in range(4):
        x = T(2).requires_grad_()
        y = f(x)
        y.sum().backward()
        yield (y, x)


@P
def compiled_under_decorator(compile):

    @torch.no_grad()
    @compile
    def f(x):
        return x * 3

    @torch.enable_grad()
    @compile
    def g(x):
        return x * 3

    for _ in range(4):
        x = T(2).requires_grad_()
        yield (f(x), g(x))
        with torch.no_grad():
            yield (f(x), g(x))


@P
def inference_mode_mix(compile):

    @compile
    def f(x):
        return (x * 2, torch.is_inference_mode_enabled())

    for on in (False, True, True, False, True):
        with torch.inference_mode(on):
            y = f(T(2))
            yield (y, y[0].is_inference())


@P
def set_grad_enabled_argument(compile):

    @compile
    def f(x, on):
        with torch.set_grad_enabled(on):
            y = x * 2
        return y * 3

    for on in (True, False, False, True):
        yield f(T(2).requires_grad_(), on)


class Tagged(torch.Tensor):

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        r = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(r, Tagged):
            r.tag = max([getattr(a, "tag", 0) for a in args] + [0]) + 1
        return r


@P
def subclass_with_attribute(compile):

    @compile
    def f(x):
        return (x * 2 + 1).relu()

    for _ in range(4):
        x = T(2).as_subclass(Tagged)
        x.tag = 5
        y = f(x)
        yield (type(y).__name__, y.tag, y.as_subclass(torch.Tensor))


@P
def torch_function_mode(compile):
    from cresset.overrides import TorchFunctionMode
    log = []

    class M(TorchFunctionMode):

        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(getattr(func, "__name__", "?"))
            return func(*args, **kwargs or {})

    @compile
    def f(x):
        return (x * 2).sum()

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    with M():
        yield f(T(2))
        yield f(T(2))
    yield log
    yield f(T(2))


@P
def torch_dispatch_mode(compile):
    from cresset.utils._python_dispatch import TorchDispatchMode
    log = []

    class M(TorchDispatchMode):

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(str(func))
            return func(*args, **kwargs or {})

    @compile
    def f(x):
        return x * 2 + 1

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    with M():
        yield f(T(2))
    yield log
    yield f(T(2))


@P
def saved_tensors_hooks(compile):
    log = []

    @compile
    def f(x):
        return (x.sin() * x).sum()

    def pack(t):
        log.append("pack")
        return t * 2

    def unpack(t):
        log.append("unpack")
        return t / 2

    for on in (False, False, False, True, True, False):
        x = T(3).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack) if on else contextlib.nullcontext():
            y = f(x)
        y.backward()
        yield x
        yield (bool(log) == on or log != [])


@P
def custom_function(compile):
    log = []

    class Sq(torch.autograd.Function):

        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x * x * k

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            log.append(ctx.k)
            return (g * 2 * x * ctx.k * 10, None)

    @compile
    def f(x, k):
        return Sq.apply(x, k).sum() + x.sum()

    for k in (2., 2., 3., 3., 2.):
        x = T(3).requires_grad_()
        f(x, k).backward()
        yield x
        yield log


@P
def custom_function_none_grad(compile):

    class Stop(torch.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    @compile
    def f(x, y):
        return (Stop.apply(x) * y).sum()

    for _ in range(4):
        x, y = (T(3).requires_grad_(), T(3).requires_grad_())
        f(x, y).backward()
        yield (x, y)


@P
def custom_function_dirty(compile):

    class Inc(torch.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    @compile
    def f(x):
        y = x * 2
        z = Inc.apply(y)
        return (z * z).sum()

    for _ in range(4):
        x = T(3).requires_grad_()
        f(x).backward()
        yield x


@P
def straight_through(compile):

    @compile
    def f(x):
        q = x.round()
        return ((x + (q - x).detach()) ** 2).sum()

    for _ in range(4):
        x = T(3).requires_grad_()
        l = f(x)
        l.backward()
        yield (l, x)


@P
def grad_inside(compile):

    @compile
    def f(x):
        y = (x ** 3).sum()
        g, = torch.autograd.grad(y, x, create_graph=True)
        return (g * g).sum()

    for _ in range(4):
        x = T(3).requires_grad_()
        l = f(x)
        l.backward()
        yield (l, x)


@P
def func_grad_inside(compile):

    @compile
    def f(x):
        return (torch.func.grad(lambda t: (t ** 3).sum())(x), torch.func.vmap(lambda t: t * 2)(x))

    for _ in range(4):
        yield f(T(3))


@P
def functional_call(compile):
    m = nn.Linear(2, 2)

    @compile
    def f(p, x):
        return torch.func.functional_call(m, p, (x,))

    for k in (1., 1., 2.):
        yield f({"weight": T(2, 2) * k, "bias": T(2)}, T(1, 2))


@P
def checkpointed(compile):
    from cresset.utils.checkpoint import checkpoint
    m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.Tanh())

    @compile
    def f(x):
        return checkpoint(m, x, use_reentrant=False).sum()

    for _ in range(4):
        x = T(2, 2).requires_grad_()
        f(x).backward()
        yield x


@P
def module_class_changed(compile):

    class A(nn.Module):

        def forward(self, x):
            return x * 2

    class B(A):

        def forward(self, x):
            return x * 3

    m = A()
    f = compile(m)
    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    m.__class__ = B
    yield f(T(2))
    yield f(T(2))
    B.forward = lambda self, x: x * 5
    yield f(T(2))


@P
def module_attribute_added(compile):

    class M(nn.Module):

        def forward(self, x):
            if hasattr(self, "extra"):
                x = x + self.extra
            return x * 2

    m = M()
    f = compile(m)
    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    m.extra = 1.
    yield f(T(2))
    yield f(T(2))
    m.extra = torch.ones(2)
    yield f(T(2))
    m.register_buffer("other", T(2))
    del m.extra
    yield f(T(2))


@P
def buffers_replaced(compile):

    class M(nn.Module):

        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            self.b = self.b * 0.5 + x
            return self.b * 2

    m = M()
    f = compile(m)
    for i in range(6):
        if i == 3:
            m.b = torch.zeros(2)
        if i == 4:
            m._buffers["b"] = torch.full((2,), 9.)
        yield f(T(2))
        yield m.b
        yield list(m.state_dict())


@P
def train_eval_switch(compile):
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    f = compile(m)
    for i in range(6):
        m.train(i % 3 != 2)
        yield f(T(3, 2) * i)
        yield list(m.buffers())


@P
def layers_added_and_removed(compile):
    m = nn.ModuleList([nn.Linear(2, 2)])

    @compile
    def f(x):
        for l in m:
            x = l(x).tanh()
        return x

    yield f(T(1, 2))
    yield f(T(1, 2))
    m.append(nn.Linear(2, 2))
    yield f(T(1, 2))
    yield f(T(1, 2))
    del m[0]
    yield f(T(1, 2))
    yield f(T(1, 2))


@P
def parameters_frozen_between(compile):
    m = nn.Linear(2, 2)
    f = compile(m)
    for on in (True, True, False, True, False):
        m.weight.requires_grad_(on)
        m.zero_grad()
        f(T(2, 2)).sum().backward()
        yield list(m.parameters())


@P
def state_dict_loaded_between(compile):
    m = nn.Linear(2, 2)
    f = compile(m)
    yield f(T(1, 2))
    yield f(T(1, 2))
    m.load_state_dict({"weight": T(2, 2), "bias": T(2)})
    yield f(T(1, 2))
    m.load_state_dict({"weight": T(2, 2) * 2, "bias": T(2)}, assign=True)
    yield f(T(1, 2))
    yield f(T(1, 2))
    m.double()
    yield f(T(1, 2).double())
    m.float()
    yield f(T(1, 2))


@P
def list_of_tensors_grows(compile):
    l = []

    @compile
    def f(x):
        l.append(x * len(l))
        return torch.stack(l).sum(0)

    for _ in range(5):
        yield f(T(2))
        yield l


@P
def list_is_window(compile):
    l = collections.deque(maxlen=2)

    @compile
    def f(x):
        l.append(x)
        return sum(l)

    for i in range(5):
        yield f(T(2) + i)
        yield list(l)


@P
def key_value_cache(compile):
    cache = {"k": None}

    @compile
    def f(x):
        cache["k"] = x if cache["k"] is None else torch.cat([cache["k"], x])
        return (cache["k"] @ x.t()).softmax(0)

    for i in range(6):
        yield f(T(1, 2) + i)
        yield cache["k"]


@P
def running_mean(compile):

    class M:
        n, mean = (0, 0.)

        def update(self, x):
            self.n += 1
            self.mean = self.mean + (x - self.mean) / self.n
            return self.mean

    m = M()
    f = compile(m.update)
    for i in range(5):
        yield f(T(2) * i)
        yield (m.n, m.mean)


@P
def random_shapes(compile):
    import random
    r = random.Random(4)

    @compile
    def f(x, y):
        a = x.flatten(1) if x.dim() > 2 else x
        return ((a.softmax(-1) * a.shape[-1]).sum(0) + y.sum() / max(y.numel(), 1), a.reshape(-1)[:a.shape[0]])

    for _ in range(12):
        s = [r.randint(1, 4) for _ in range(r.randint(2, 4))]
        yield f(T(*s), T(r.randint(0, 3)))


@P
def random_shapes_training(compile):
    import random
    r = random.Random(5)
    m = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 2))
    o = torch.optim.Adam(m.parameters())
    f = compile(m)
    for _ in range(8):
        l = f(T(r.randint(1, 4), 2, r.randint(3, 7))).square().mean()
        l.backward()
        o.step()
        o.zero_grad()
        yield l.detach()
    yield list(m.parameters())


@P
def zero_and_one_sizes(compile):

    @compile
    def f(x):
        return (x.sum(0), x.cumsum(0), (x * x.shape[0]).mean() if x.shape[0] else None, x[:1], x.shape[0] == 1)

    for n in (2, 0, 1, 3, 0, 1, 2):
        yield f(T(n, 2))


@P
def numpy_in_and_out(compile):

    @compile
    def f(x):
        a = x.numpy() * 2
        a[0] = 5
        return (torch.from_numpy(a) + x, a.sum().item())

    for n in (2, 2, 3):
        yield f(T(n))


@P
def numpy_scalar_argument(compile):

    @compile
    def f(x, k):
        return x * k

    for k in (np.float32(2), np.float64(2), np.int64(3), np.float32(3), np.bool_(True)):
        yield attempt(f, T(2), k)


@P
def numpy_global_array_changes(compile):
    a = np.array([1., 2.])

    @compile
    def f(x):
        return x * torch.from_numpy(a) + float(a.sum())

    for i in range(4):
        a[0] = i
        yield f(T(2))


@P
def numpy_view_of_parameter(compile):
    w = nn.Parameter(T(2))
    v = w.detach().numpy()

    @compile
    def f(x):
        return (x * w).sum()

    for i in range(4):
        v[0] = i
        yield f(T(2))
        w.grad = None


@P
def tolist_and_item(compile):

    @compile
    def f(x):
        n = int(x.sum().item())
        return (x.tolist(), x * n, [float(v) for v in x])

    for k in (1, 1, 2):
        yield f(T(2) * 4 * k)


@P
def print_inside(compile):

    @compile
    def f(x):
        print("in", x, x.shape, float(x.sum()))
        y = x * 2
        print(f"{y.mean():.3f}", repr(y.shape))
        return y

    for n in (2, 2, 3):
        yield f(T(n))


@P
def warnings_inside(compile):
    import warnings
    got = []

    @compile
    def f(x):
        with warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            warnings.warn("mine")
            got.append([str(i.message) for i in w])
        return x * 2

    for _ in range(4):
        yield f(T(2))
        yield got


@P
def logging_inside(compile):
    import logging
    rec = []

    class H(logging.Handler):

        def emit(self, r):
            rec.append(r.getMessage())

    log = logging.Logger("x")
    log.addHandler(H())

    @compile
    def f(x):
        log.info("sum %s", x.sum().item() > 0)
        return x * 2

    for _ in range(4):
        yield f(T(2))
        yield rec


@P
def enum_members(compile):

    class C(enum.Enum):
        A = 1
        B = 2

    @compile
    def f(x, c):
        match c:
            case C.A:
                return x * c.value
            case C.B:
                return x - c.value

    for c in (C.A, C.A, C.B, C.A, C.B):
        yield f(T(2), c)


@P
def flags_and_int_enum(compile):

    class R(enum.IntFlag):
        X = 1
        Y = 2

    @compile
    def f(x, r):
        return x * int(r) if R.Y in r else x + r

    for r in (R.X, R.Y, R.X | R.Y, R.X):
        yield f(T(2), r)


@P
def walrus_star_match(compile):

    @compile
    def f(x, *a, **k):
        if (n := len(a)) > 1:
            first, *rest = a
            x = x * first + sum(rest)
        match k:
            case {"m": int(v)}:
                x = x * v
            case {"m": str(s)}:
                x = x - len(s)
        return (x, n)

    for a, k in (((), {}), ((1, 2, 3), {}), ((1., 2.), {"m": 3}), ((), {"m": "abc"}), ((1, 2, 3), {"m": 4})):
        yield f(T(2), *a, **k)


@P
def metaclass_call(compile):

    class Meta(type):
        n = 0

        def __call__(cls, *a):
            Meta.n += 1
            return super().__call__(*a)

    class C(metaclass=Meta):

        def __init__(self, k):
            self.k = k

    @compile
    def f(x):
        return x * C(Meta.n).k

    for _ in range(5):
        yield f(T(2))
        yield Meta.n


@P
def getattr_fallback(compile):

    class C:
        vals = {"a": 2.}

        def __getattr__(self, n):
            if n in C.vals:
                return C.vals[n]
            raise AttributeError(n)

    c = C()

    @compile
    def f(x):
        return x * c.a + getattr(c, "b", 1.)

    yield f(T(2))
    yield f(T(2))
    C.vals["b"] = 3.
    yield f(T(2))
    yield f(T(2))
    c.a = 7.
    yield f(T(2))


@P
def descriptor_counts(compile):

    class D:

        def __get__(self, o, t):
            o.__dict__["n"] = o.__dict__.get("n", 0) + 1
            return o.__dict__["n"]

        def __set__(self, o, v):
            o.__dict__["n"] = v

    class C:
        k = D()

    c = C()

    @compile
    def f(x):
        c.k = c.k + 1
        return x * c.k

    for _ in range(4):
        yield f(T(2))
        yield c.__dict__["n"]


@P
def operators_overloaded(compile):

    class V:

        def __init__(self, t):
            self.t = t

        def __add__(self, o):
            return V(self.t + (o.t if isinstance(o, V) else o))
        __radd__ = __add__

        def __matmul__(self, o):
            return V(self.t @ o.t)

        def __bool__(self):
            return bool((self.t > 0).all())

        def __len__(self):
            return self.t.shape[0]

        def __getitem__(self, i):
            return self.t[i]

        def __iter__(self):
            return iter(self.t)

        def __contains__(self, v):
            return v in self.t

    @compile
    def f(x):
        v = V(x) + 1
        w = 2 + v
        return ((w @ v).t, len(w), [e for e in w], bool(w), w[0], 3.25 in w)

    for n in (2, 2, 3):
        yield f(T(n))


@P
def sorted_with_key(compile):

    @compile
    def f(ts):
        return torch.stack(sorted(ts, key=lambda t: -t.sum().item()))

    yield f([T(2), T(2) * 2])
    yield f([T(2) * 3, T(2) * 2])
    yield f([T(2), T(2) * 2])


@P
def itertools_and_zip(compile):

    @compile
    def f(xs):
        out = 0
        for (i, a), b in zip(enumerate(xs), itertools.cycle([1., 2.])):
            out = out + a * b * i
        for a, b in itertools.combinations(xs, 2):
            out = out + a * b
        return out + functools.reduce(operator.mul, xs)

    for n in (2, 2, 3, 4):
        yield f([T(2) + i for i in range(n)])


@P
def dict_views_and_order(compile):
    d = {"a": 1., "b": 2.}

    @compile
    def f(x):
        for i, (k, v) in enumerate(d.items()):
            x = x * v + i
        return (x, list(d), "a" in d.keys())

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    d["a"] = d.pop("a")
    yield f(T(2))
    yield f(T(2))


@P
def set_iteration(compile):
    s = {1, 2, 3}

    @compile
    def f(x):
        return (x * sum(s), len(s), 2 in s)

    yield f(T(2))
    yield f(T(2))
    s.discard(2)
    yield f(T(2))
    yield f(T(2))
    s.add(2)
    yield f(T(2))


@P
def string_building(compile):

    @compile
    def f(x, name):
        key = f"{name}_{x.dim()}".upper()
        return ({key: x * len(key)}, "-".join((str(n) for n in x.shape)))

    for n, s in ((2, "a"), (2, "a"), (3, "bb"), (2, "bb")):
        yield f(T(n), s)


@P
def recursion(compile):

    @compile
    def f(x, n):
        return x if n == 0 else f(x * 2 + n, n - 1)

    for n in (2, 2, 3, 1):
        yield f(T(2), n)


@P
def mutual_recursion_over_tree(compile):

    def leaf(t):
        return node(t) if isinstance(t, (list, dict)) else t * 2

    def node(t):
        return sum(map(leaf, t.values() if isinstance(t, dict) else t))

    f = compile(node)
    for t in ([1., T(2)], [1., [T(2), {"a": T(2)}]], {"z": T(2), "y": [T(2)]}):
        yield f(t)
        yield f(t)


@P
def returns_closure(compile):

    @compile
    def f(x):
        k = x.sum()
        return lambda y: y * k

    for _ in range(3):
        yield f(T(2))(T(2))


@P
def returns_self_and_bound(compile):

    class C:

        def __init__(self):
            self.t = T(2)

        def m(self, x):
            self.t = self.t + x
            return self

    c = C()
    f = compile(c.m)
    for _ in range(4):
        r = f(T(2))
        yield (r is c, c.t)


@P
def global_function_patched(compile):
    real = F.relu

    @compile
    def f(x):
        return F.relu(x - 1)

    yield f(T(4))
    yield f(T(4))
    yield f(T(4))
    F.relu = lambda x: x * 100
    try:
        yield f(T(4))
        yield f(T(4))
    finally:
        F.relu = real
    yield f(T(4))


@P
def tensor_method_patched(compile):
    real = torch.Tensor.sin

    @compile
    def f(x):
        return x.sin()

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    torch.Tensor.sin = lambda self: self * 2
    try:
        yield f(T(2))
        yield f(T(2))
    finally:
        torch.Tensor.sin = real
    yield f(T(2))


@P
def strides_matter(compile):

    @compile
    def f(x):
        return (x.stride(), x.is_contiguous(), x * 2, x.view(-1) if x.is_contiguous() else x.reshape(-1))

    for x in (T(2, 3), T(3, 2).t(), T(2, 3)[:, ::2], T(2, 1, 3).transpose(0, 1), T(2, 3)):
        yield f(x)


@P
def channels_last(compile):
    m = nn.Conv2d(2, 3, 1)
    f = compile(m)
    for mf in (torch.contiguous_format, torch.channels_last, torch.channels_last, torch.contiguous_format):
        x = T(2, 2, 3, 3).contiguous(memory_format=mf).requires_grad_()
        y = f(x)
        y.sum().backward()
        yield (y, x)


@P
def scalar_tensors_and_numbers(compile):

    @compile
    def f(x, k):
        return (x * k + k ** 2, type(k).__name__)

    for k in (2, 2., True, torch.tensor(2.), torch.tensor(3), 2, 1e+40, -0., 0., float("nan")):
        yield attempt(f, T(2), k)


@P
def complex_numbers(compile):

    @compile
    def f(x):
        return (x.conj() * (1 + 2j), torch.view_as_real(x), x.abs(), x.conj().is_conj())

    for _ in range(3):
        yield f(torch.complex(T(2), T(2)))


@P
def half_and_mixed_dtypes(compile):

    @compile
    def f(x, y):
        return (x + y, x * 2.5, x / 2, (x > 0).sum())

    for a, b in ((torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.int64, torch.float16),
                 (torch.uint8, torch.int8)):
        yield f(T(4).to(a), T(4).to(b))


@P
def index_put_accumulate(compile):

    @compile
    def f(x, i, v):
        x = x.clone()
        x[i] += v
        x.index_put_((i,), v, accumulate=True)
        x[x > 2] = 0
        return x

    for i in ([0, 0, 1], [1, 2, 2], [0, 0, 1]):
        yield f(T(3), torch.tensor(i), T(3))
    yield attempt(f, T(3), torch.tensor([0, 0, 9]), T(3))


@P
def out_arguments(compile):

    @compile
    def f(x, out):
        torch.mul(x, 2, out=out)
        torch.add(out, 1, out=out[:2] if out.dim() == 1 and out.numel() == 2 else out)
        return out

    for _ in range(4):
        o = torch.zeros(2)
        r = f(T(2), o)
        yield (r is o, o, o._version)


@P
def optimizer_state_and_schedule(compile):
    m = nn.Linear(2, 2)
    o = torch.optim.AdamW(m.parameters(), lr=0.1)
    s = torch.optim.lr_scheduler.StepLR(o, 2, 0.5)

    @compile
    def step(x):
        o.zero_grad()
        l = m(x).square().sum()
        l.backward()
        o.step()
        s.step()
        return (l.detach(), o.param_groups[0]["lr"])

    for _ in range(6):
        yield step(T(2, 2))
    yield list(m.parameters())
    yield [v["step"] for v in o.state.values()]


@P
def gradient_accumulation(compile):
    m = nn.Linear(2, 2)
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    n = [0]

    @compile
    def step(x):
        (m(x).square().sum() / 2).backward()
        n[0] += 1
        if n[0] % 2 == 0:
            nn.utils.clip_grad_norm_(m.parameters(), 1.)
            o.step()
            o.zero_grad()

    for _ in range(6):
        step(T(2, 2))
        yield list(m.parameters())


@P
def grad_scaler(compile):
    m = nn.Linear(2, 2)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    s = torch.amp.GradScaler("cpu", init_scale=8.)

    @compile
    def loss(x):
        return m(x).square().sum()

    for _ in range(4):
        o.zero_grad()
        s.scale(loss(T(2, 2))).backward()
        s.step(o)
        s.update()
        yield (list(m.parameters()), s.get_scale())


@P
def embedding_and_cross_entropy(compile):
    m = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 4))

    @compile
    def loss(i, t):
        return F.cross_entropy(m(i), t, ignore_index=-1)

    for i, t in (([0, 1], 2), ([4, 4], 0), ([2, 3], -1), ([0, 1], 2)):
        m.zero_grad()
        l = loss(torch.tensor([i]), torch.tensor([t]))
        l.backward()
        yield (l, [p.grad for p in m.parameters()])
    yield attempt(lambda: loss(torch.tensor([[0, 7]]), torch.tensor([1])))


@P
def lstm_with_state(compile):
    m = nn.LSTM(2, 3, 2, batch_first=True)
    f = compile(m)
    h = None
    for n in (2, 2, 3, 4):
        y, h = f(T(1, n, 2), h)
        yield y
        h = tuple((t.detach() for t in h))
        yield h


@P
def attention_mask_by_length(compile):

    @compile
    def f(q, causal):
        return (F.scaled_dot_product_attention(q, q, q, is_causal=causal),
                torch.triu(torch.ones(q.shape[-2], q.shape[-2]), 1))

    for n, c in ((2, True), (3, True), (4, False), (2, False), (5, True)):
        yield f(T(1, 1, n, 4), c)


@P
def while_on_value(compile):

    @compile
    def f(x):
        n = 0
        while x.norm() > 1:
            x = x / 2
            n += 1
        return (x, n)

    for k in (1, 10, 1, 100):
        yield f(T(2) * k)


@P
def try_in_loop_with_break(compile):

    @compile
    def f(xs):
        out = []
        for i, x in enumerate(xs):
            try:
                if x is None:
                    continue
                if x.numel() > 3:
                    break
                out.append(x.view(2))
            except RuntimeError as e:
                out.append(i)
            else:
                out.append("ok")
            finally:
                out.append(len(out))
        else:
            out.append("end")
        return [o * 2 if isinstance(o, torch.Tensor) else o for o in out]

    yield f([T(2), None, T(3)])
    yield f([T(2), T(4)])
    yield f([T(2), None, T(3)])
    yield f([])


@P
def del_and_unbound(compile):

    @compile
    def f(x, k):
        y = x * 2
        if k:
            del y
        return y

    for k in (False, False, True, False):
        yield attempt(f, T(2), k)


@P
def wrong_calls(compile):

    @compile
    def f(x, k=1):
        return x * k

    for a, k in (((T(2),), {}), ((), {}), ((T(2), 1, 2), {}), ((T(2),), {"q": 1}), ((T(2),), {"k": 2})):
        yield attempt(f, *a, **k)


@P
def errors_of_shapes(compile):

    @compile
    def f(x, w):
        return (x @ w).relu()

    for s in ((2, 2), (2, 2), (3, 2), (2, 5), (4, 1)):
        yield attempt(f, T(2, 2), T(*s))


@P
def slots_and_class_attributes(compile):

    class S:
        __slots__ = ("k", "__weakref__")
        shared = 1.

        def __init__(self, k):
            self.k = k

    s = S(2.)

    @compile
    def f(x):
        return x * s.k + s.shared

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    s.k = 3.
    yield f(T(2))
    S.shared = 5.
    yield f(T(2))
    del s.k
    yield attempt(f, T(2))


@P
def abstract_and_virtual(compile):
    import abc

    class B(abc.ABC):

        @abc.abstractmethod
        def k(self):
            ...

    class X:

        def k(self):
            return 2.

    x0 = X()

    @compile
    def f(x):
        return x * x0.k() if isinstance(x0, B) else x - 1

    yield f(T(2))
    yield f(T(2))
    B.register(X)
    yield f(T(2))
    yield f(T(2))


@P
def simple_namespace_and_ordered(compile):
    c = types.SimpleNamespace(a=1., sub=collections.OrderedDict(x=1., y=2.))

    @compile
    def f(x):
        for k, v in c.sub.items():
            x = x * v + c.a
        return x

    yield f(T(2))
    yield f(T(2))
    c.sub.move_to_end("x")
    yield f(T(2))
    c.a = 3.
    yield f(T(2))
    c.new = 1
    yield f(T(2))


@P
def chain_map_counter(compile):
    a, b = ({"k": 1.}, {"k": 2., "j": 3.})
    m = collections.ChainMap(a, b)
    n = collections.Counter()

    @compile
    def f(x):
        n["c"] += 1
        return (x * m["k"] + m["j"], n["c"])

    yield f(T(2))
    yield f(T(2))
    del a["k"]
    yield f(T(2))
    b["j"] = 4.
    yield f(T(2))
    yield dict(n)


@P
def default_dict_makes(compile):
    d = collections.defaultdict(lambda: 2.)

    @compile
    def f(x, k):
        return x * d[k]

    for k in "aabac":
        yield f(T(2), k)
        yield dict(d)


@P
def environment_and_argv(compile):
    import os, sys

    @compile
    def f(x):
        return x * float(os.environ.get("H2_K", "2")) + len(sys.argv[0][:0])

    yield f(T(2))
    yield f(T(2))
    os.environ["H2_K"] = "3"
    yield f(T(2))
    yield f(T(2))
    del os.environ["H2_K"]
    yield f(T(2))


@P
def exec_and_eval(compile):

    @compile
    def f(x, s):
        return eval(s, {"x": x, "math": math})

    for s in ("x * 2", "x * 2", "x + math.pi", "x.sum() * 3"):
        yield f(T(2), s)


@P
def locals_and_frames(compile):
    import sys

    @compile
    def f(x):
        y = x * 2
        return (sorted(locals()), sys._getframe().f_code.co_name, y)

    for _ in range(3):
        yield f(T(2))


@P
def asyncio_coroutine(compile):
    import asyncio

    @compile
    def g(x):
        return x * 2

    async def co(x):
        await asyncio.sleep(0)
        return g(x) + 1

    async def main():
        return await asyncio.gather(*(co(T(2) + i) for i in range(3)))

    for _ in range(3):
        yield asyncio.run(main())
