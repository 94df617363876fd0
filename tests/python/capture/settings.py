"""Sizes that the program keeps, writes and draws under other backends, histories that were released."""
import functools
import math

import numpy as np

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F

from .harness import attempt, program

P = program("settings")


@P
def numpy_write_after_product(compile):
    a = np.ones(4, dtype=np.float32)

    @compile
    def f(x):
        y = x * 2
        a[0] += 5
        return y

    x = torch.from_numpy(a)
    for _ in range(4):
        yield f(x)
        yield x


@P
def numpy_write_inside_graph_then_more(compile):
    @compile
    def f(x):
        y = x * 2
        x.numpy()[0] = 7
        return y + x

    for _ in range(4):
        yield f(torch.ones(4))


@P
def numpy_write_memoryview(compile):
    a = np.ones(4, dtype=np.float32)
    x = torch.from_numpy(a)
    m = memoryview(a)

    @compile
    def f(x):
        y = x.exp()
        m[0] = 3.
        return y + 1

    for _ in range(4):
        yield f(x)


def _step(compile, model, opt, loss):
    @compile
    def step(x, y):
        opt.zero_grad()
        l = loss(model(x), y)
        l.backward()
        opt.step()
        return l.detach()

    return step


@P
def sgd_step(compile):
    model = nn.Linear(3, 2)
    step = _step(compile, model, torch.optim.SGD(model.parameters(), lr=.1, momentum=.9), F.mse_loss)
    for _ in range(4):
        yield step(torch.ones(4, 3), torch.zeros(4, 2))
    yield list(model.parameters())


@P
def adam_step(compile):
    model = nn.Linear(3, 2)
    step = _step(compile, model, torch.optim.Adam(model.parameters(), lr=.1), F.mse_loss)
    for _ in range(4):
        yield step(torch.ones(4, 3), torch.zeros(4, 2))
    yield list(model.parameters())


@P
def batchnorm_step(compile):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    step = _step(compile, model, torch.optim.AdamW(model.parameters(), lr=.1), F.mse_loss)
    for _ in range(4):
        yield step(torch.randn(4, 3), torch.zeros(4, 2))
    yield list(model.parameters())
    yield list(model.buffers())


@P
def batchnorm_forward_backward_outside(compile):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    opt = torch.optim.SGD(model.parameters(), lr=.1)
    f = compile(model)
    for _ in range(4):
        opt.zero_grad()
        l = f(torch.randn(4, 3)).sum()
        l.backward()
        opt.step()
        yield l
    yield list(model.parameters())
    yield list(model.buffers())


@P
def autocast_step(compile):
    model = nn.Linear(3, 2)
    opt = torch.optim.SGD(model.parameters(), lr=.1)

    @compile
    def step(x, y):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            l = F.mse_loss(model(x).float(), y)
        l.backward()
        opt.step()
        return l.detach()

    for _ in range(4):
        yield step(torch.ones(4, 3), torch.zeros(4, 2))
    yield list(model.parameters())


@P
def lbfgs_closure_compiled(compile):
    model = nn.Linear(3, 2)
    opt = torch.optim.LBFGS(model.parameters(), lr=.1, max_iter=5, line_search_fn="strong_wolfe")
    x, y = torch.ones(4, 3), torch.zeros(4, 2)

    @compile
    def closure():
        opt.zero_grad()
        l = F.mse_loss(model(x), y)
        l.backward()
        return l

    for _ in range(4):
        yield opt.step(closure).detach()
    yield list(model.parameters())


@P
def sizes_as_keys(compile):
    d = {}

    @compile
    def f(x):
        d[x.shape[0]] = d.get(x.shape[0], 0) + 1
        return x + d[x.shape[0]]

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(n))
        yield d
        yield [type(k).__name__ for k in d]


@P
def sizes_in_list(compile):
    l = []

    @compile
    def f(x):
        l.append(x.shape[0])
        return x * 2

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(n))
        yield l
        yield [type(k).__name__ for k in l]


@P
def sizes_in_text(compile):
    @compile
    def f(x):
        print(f"size {x.shape[0]:03d} {x.size(0)}", x.shape)
        return x * 2, f"{x.shape[0]}", str(x.shape), "%d" % x.shape[0], repr(x.shape[0]), "{:>5}".format(x.shape[0])

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(n))


@P
def sizes_in_set(compile):
    s = set()

    @compile
    def f(x):
        s.add(x.shape[0])
        return x * len(s)

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(n))
        yield sorted(s)
        yield [type(k).__name__ for k in s]


@P
def sizes_in_attribute(compile):
    class O:
        pass
    o = O()

    @compile
    def f(x):
        o.n = x.shape[0]
        o.m = x.numel() // 2
        o.s = x.shape
        return x * o.n

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(n))
        yield o.n, o.m, o.s, type(o.n).__name__, type(o.m).__name__, type(o.s[0]).__name__


@P
def sizes_returned(compile):
    @compile
    def f(x):
        return x * 2, x.shape[0], {x.shape[0]: x.shape[0] + 1}, [x.shape, x.numel()], {x.size(0)}

    for n in (2, 3, 2, 3, 4, 4):
        out = f(torch.ones(n))
        yield out
        yield type(out[1]).__name__, [type(k).__name__ for k in out[2]], [type(k).__name__ for k in out[4]]


@P
def lru_cache_by_size(compile):
    calls = []

    @functools.lru_cache(maxsize=None)
    def scale(n):
        calls.append(n)
        return 1 / math.sqrt(n)

    @compile
    def f(x):
        return x * scale(x.shape[0])

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(n))
        yield calls
        yield tuple(scale.cache_info())


@P
def lru_cache_of_number(compile):
    calls = []

    @functools.lru_cache(maxsize=2)
    def scale(n):
        calls.append(n)
        return n * 2

    @compile
    def f(x, n):
        return x * scale(n)

    for n in (2, 3, 2, 3, 4, 4):
        yield f(torch.ones(3), n)
        yield calls
        yield tuple(scale.cache_info())


@P
def dropout_version(compile):
    @compile
    def f(x):
        y = F.dropout(x, .5, True)
        return y, y._version

    for _ in range(4):
        y, v = f(torch.ones(10))
        yield y
        yield v
        yield y._version


@P
def dropout_inplace_version(compile):
    @compile
    def f(x):
        y = x * 1
        F.dropout(y, .5, True, True)
        return y

    for _ in range(4):
        y = f(torch.ones(10))
        yield y
        yield y._version


@P
def results_versions(compile):
    @compile
    def f(x):
        y = x * 2
        y += 1
        z = torch.zeros(3)
        z[0] = 1
        w = F.relu(x + 1, inplace=True)
        v = torch.empty(3).fill_(2)
        b = F.batch_norm(x[None], torch.zeros(3), torch.ones(3))
        return y, z, w, v, b, F.dropout(x, .5), torch.randn(3), torch.ones(3).uniform_(), torch.bernoulli(x * .5)

    for _ in range(4):
        out = f(torch.ones(3))
        yield out
        yield [t._version for t in out]


class Counting(torch.Tensor):
    count = 0
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counting.count += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@P
def subclass_call_count(compile):
    Counting.count = 0

    @compile
    def f(x):
        return (x * 2 + 1).sum()

    for _ in range(4):
        yield f(torch.ones(3).as_subclass(Counting)).as_subclass(torch.Tensor)
        yield Counting.count


@P
def numpy_function_mixed(compile):
    @compile
    def f(x):
        a = x.numpy()
        return torch.from_numpy(np.cos(a) * 2 + a.sum())

    for _ in range(4):
        yield f(torch.ones(3))


@P
def history_written_to_argument(compile):
    @compile
    def f(x, y):
        y.add_(x * 2)
        return y * 3

    for _ in range(3):
        x, y = torch.ones(3, requires_grad=True), torch.ones(3)
        z = f(x, y)
        z.sum().backward()
        yield z, y, x


@P
def history_written_to_nonleaf(compile):
    @compile
    def f(y):
        y.mul_(y.detach() + 1)
        return y.sin()

    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        z = f(y)
        (z.sum() + y.sum()).backward()
        yield z, y, x


@P
def no_grad_write_of_parameter(compile):
    w = nn.Parameter(torch.ones(3))

    @compile
    def f(x):
        with torch.no_grad():
            w.mul_(.9)
        return (x * w).sum()

    for _ in range(4):
        w.grad = None
        f(torch.ones(3)).backward()
        yield w, w._version


@P
def weight_norms(compile):
    m = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
    n = nn.utils.weight_norm(nn.Linear(4, 3))
    f = compile(lambda x: n(m(x)).sum())
    for _ in range(4):
        f(torch.ones(2, 3)).backward()
        yield list(m.parameters()), list(n.parameters()), list(m.buffers())


@P
def ema_update(compile):
    m, e = nn.Linear(3, 2), nn.Linear(3, 2)

    @compile
    def f(x):
        with torch.no_grad():
            for p, q in zip(m.parameters(), e.parameters()):
                q.lerp_(p, .1)
        return m(x).sum() + e(x).sum()

    for _ in range(4):
        f(torch.ones(2, 3)).backward()
        yield list(m.parameters()), list(e.parameters())


@P
def no_grad_write_of_intermediate(compile):
    @compile
    def f(x):
        y = x.sin()
        with torch.no_grad():
            y.mul_(2)
        return y.sum() * 3

    for _ in range(4):
        x = torch.ones(3, requires_grad=True)
        f(x).backward()
        yield x


@P
def foreach_no_grad(compile):
    ws = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]

    @compile
    def f(x):
        with torch.no_grad():
            torch._foreach_mul_(ws, .5)
        return (ws[0] * x).sum() + ws[1].sum()

    for _ in range(4):
        f(torch.ones(3)).backward()
        yield ws


@P
def released_history_of_unused_input(compile):
    @compile
    def f(x, y):
        return (x * y.detach()).sum() * y.shape[0]

    for _ in range(4):
        w = torch.ones(3, requires_grad=True)
        y = w.sin()
        y.sum().backward()
        x = torch.ones(3, requires_grad=True)
        f(x, y).backward()
        yield x, w


@P
def recursion_of_a_compiled_function(compile):
    @compile
    def f(x, n):
        return x if n == 0 else f(x * 2 + n, n - 1)

    for n in (2, 2, 3, 1):
        yield f(torch.ones(2), n)


@P
def compiled_function_inside(compile):
    g = torch.compile(lambda x: x.sin() * 2)

    @compile
    def f(x):
        return g(x) + g(x * 2)

    for n in (2, 2, 3, 2):
        yield f(torch.ones(n))
        yield g(torch.ones(n))


@P
def compiled_module_inside(compile):
    m = nn.Linear(2, 2)
    g = torch.compile(m)

    @compile
    def f(x):
        return g(x).sum() + g(x * 2).sum()

    for n in (2, 2, 3, 2):
        f(torch.ones(n, 2)).backward()
        yield list(m.parameters())


@P
def a_backward_hook_of_an_inner_module(compile):
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    compiled, seen, handles = compile(model), [], []
    model.register_forward_hook(lambda module, args, out: out + 1)
    for k in range(7):
        if k == 1:
            handles.append(model[1].register_full_backward_hook(lambda module, i, o: seen.append(float(o[0].sum()))))
        if k == 3:
            handles.append(model[0].register_full_backward_pre_hook(lambda module, o: (o[0] * 2,)))
        if k == 5:
            handles[0].remove()
        x = torch.full((3, 4), float(k), requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        yield y, x.grad, list(seen)


@P
def hooks_of_saved_tensors_that_change_values(compile):
    @compile
    def f(x, on):
        y = x.cos()
        if not on:
            return (y * x.sin()).sum()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            return (y * x.sin()).sum()
    for on in (True, True, False, True, False, True):
        x = torch.arange(3., requires_grad=True)
        f(x, on).backward()
        yield x.grad


@P
def functions_that_return_their_argument(compile):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    @compile
    def f(x, factor):
        y = Scaled.apply(x * 2, factor)
        return Scaled.apply(y, 3.) * x + y
    for factor in (2., 2., 3., 4., 2., 5.):
        x = torch.arange(3., requires_grad=True)
        f(x, factor).sum().backward()
        yield x.grad


class Weight(nn.Parameter):
    factor = 1.

    def scaled(self):
        return self * self.factor


class Tag(torch.Tensor):
    offset = 0.


@P
def classes_of_parameters_change(compile):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Weight(torch.arange(3.))
            self.register_buffer("tag", torch.ones(3).as_subclass(Tag))

        def forward(self, x):
            late = getattr(self.weight, "late", 0.)
            return x * self.weight.scaled() + self.tag.as_subclass(torch.Tensor) * self.tag.offset + late

    compiled, scaled = compile(Scale()), Weight.scaled
    try:
        for k in range(9):
            if k == 2:
                Weight.factor = 4.
            if k == 3:
                Tag.offset = 2.
            if k == 5:
                Weight.scaled = lambda self: self - 1
            if k == 7:
                Weight.late = 10.
            yield compiled(torch.ones(3) * k)
    finally:
        Weight.factor, Weight.scaled, Tag.offset = 1., scaled, 0.
        vars(Weight).get("late") and delattr(Weight, "late")


@P
def arguments_of_changing_containers(compile):
    class Reversed(list):
        def __getitem__(self, i):
            return list.__getitem__(self, -1 - i)

    @compile
    def f(x, option):
        if isinstance(option, dict):
            return x + option["shift"]
        return x - option[0] if option else x
    for option in ({"shift": 1}, {"shift": 2}, (1, 5), [2, 6], (1, 6), {"shift": 2}, Reversed([1, 3]), [1, 3], None, "", (), {}):
        yield attempt(f, torch.ones(4), option)
