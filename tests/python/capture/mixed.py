"""Programs that mix what one feature at a time gets right: views with hooks, generators with errors, arrays with state."""
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import random
import typing
import weakref

import numpy as np

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F

from .harness import attempt, program

P = program("mixed")
TOTAL, TABLE, SCALE = 0, {"a": 1.0}, 2.0
EMPTY = ()


def ones(*size):
    return torch.ones(*size)


def several(f, *args, n=4):
    for _ in range(n):
        yield attempt(f, *args)


@P
def closure_counter_by_nonlocal(compile):
    count = 0

    @compile
    def f(x):
        nonlocal count
        count += 1
        return x * count
    for _ in range(5):
        yield f(ones(2))
        yield count


@P
def closure_cell_replaced_between(compile):
    factor = 2.0

    def f(x):
        return x * factor
    g = compile(f)
    for k in range(6):
        yield g(ones(2))
        factor = 2.0 if k < 3 else float(k)


@P
def generator_argument_partly_consumed(compile):
    @compile
    def f(it, x):
        return x * next(it) + next(it)
    it = iter(range(1, 100))
    for _ in range(5):
        yield f(it, ones(2))
    yield next(it)


@P
def generator_made_inside_and_returned(compile):
    @compile
    def f(x):
        return (x * k for k in range(3))
    for _ in range(4):
        yield list(f(ones(2)))


@P
def compiled_generator_that_gets_values(compile):
    @compile
    def f(x):
        for k in range(3):
            got = yield x * k
            if got is not None:
                x = x + got
    for _ in range(4):
        g = f(ones(2))
        yield [next(g), g.send(2), g.send(ones(2))]
        yield attempt(next, g)


@P
def error_caught_after_a_write(compile):
    state = []

    @compile
    def f(x, bad):
        x.add_(1)
        try:
            state.append(len(state))
            if bad:
                raise KeyError("bad")
            x.mul_(2)
        except KeyError as e:
            x.sub_(5)
            state.append(str(e))
        finally:
            x.mul_(3)
        return x.sum()
    x = ones(3)
    for bad in (False, False, True, False, True, True):
        yield f(x, bad)
        yield x
    yield state


@P
def error_of_an_operator_in_the_middle(compile):
    seen = []

    @compile
    def f(x, w):
        y = x * 2
        seen.append("before")
        z = y @ w
        seen.append("after")
        return z
    for n in (3, 3, 3, 4, 3):
        yield attempt(f, ones(2, 3), ones(n, 2))
    yield seen


@P
def error_with_a_traceback_chain(compile):
    @compile
    def f(x, k):
        try:
            return x[k]
        except IndexError as e:
            raise ValueError(f"no {k}") from e
    for k in (0, 1, 1, 7, 0):
        try:
            yield f(ones(2), k)
        except ValueError as e:
            yield str(e), type(e.__cause__).__name__, str(e.__cause__)


@P
def custom_exception_with_a_tensor(compile):
    class Stop(Exception):
        def __init__(self, value):
            super().__init__("stop")
            self.value = value

    @compile
    def f(x):
        if x.shape[0] > 2:
            raise Stop(x * 2)
        return x
    for n in (2, 3, 3, 2, 3, 4):
        try:
            yield f(ones(n))
        except Stop as s:
            yield s.value


@P
def write_through_an_expanded_view(compile):
    @compile
    def f(x):
        v = x.t()
        v[0] += 1
        w = x.view(-1)
        w[::2] *= 3
        return v.sum(), w
    x = torch.arange(6.).view(2, 3)
    for _ in range(4):
        yield f(x)
        yield x


@P
def result_aliases_an_input_then_is_written(compile):
    @compile
    def f(x):
        return x[1:], x.view(2, 2), x
    x = torch.arange(4.)
    for _ in range(4):
        a, b, c = f(x)
        a.add_(1)
        b.mul_(2)
        yield x, c is x, a._base is x, a.data_ptr() == x.data_ptr() + 4


@P
def two_results_share_memory(compile):
    @compile
    def f(x):
        y = x * 2
        return y, y[0], y.t()
    for _ in range(4):
        y, row, t = f(ones(2, 2))
        row.zero_()
        yield y, t


@P
def the_same_tensor_twice_then_apart(compile):
    @compile
    def f(a, b):
        a.add_(1)
        return a * b
    x, y = ones(2), ones(2)
    for a, b in ((x, y), (x, y), (x, x), (y, y), (x, y), (x, x.view(2))):
        yield f(a, b)
        yield x, y


@P
def overlapping_views_as_arguments(compile):
    @compile
    def f(a, b):
        a.mul_(2)
        b.add_(1)
        return a + b
    x = torch.arange(4.)
    for i, j in ((0, 2), (0, 2), (0, 1), (1, 0), (0, 2)):
        yield f(x[i:i + 2], x[j:j + 2])
        yield x


@P
def hook_that_changes_a_gradient(compile):
    w = ones(3).requires_grad_()
    seen = []

    @compile
    def f(x):
        y = w * x
        y.register_hook(lambda g: seen.append(g.sum().item()) or g * 2)
        return (y * y).sum()
    for k in range(4):
        w.grad = None
        f(ones(3) * (k + 1)).backward()
        yield w.grad
    yield seen


@P
def hook_registered_between_calls(compile):
    net = nn.Linear(2, 2)
    f = compile(net)
    handles = []
    for k in range(6):
        if k == 3:
            handles.append(net.register_forward_hook(lambda m, i, o: o * 10))
        if k == 5:
            handles.pop().remove()
        yield f(ones(1, 2))


@P
def post_accumulate_hook_steps(compile):
    w = ones(3).requires_grad_()

    def step(p):
        with torch.no_grad():
            p.sub_(0.1 * p.grad)
        p.grad = None
    w.register_post_accumulate_grad_hook(step)

    @compile
    def f(x):
        return (w * x).square().sum()
    for _ in range(5):
        f(ones(3)).backward()
        yield w, w.grad


class Scaled(torch.autograd.Function):
    calls = []

    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        ctx.save_for_backward(x)
        Scaled.calls.append("forward")
        return x * k, x + k

    @staticmethod
    def backward(ctx, g, h):
        x, = ctx.saved_tensors
        Scaled.calls.append("backward")
        return g * ctx.k * x.sign() + h, None


@P
def custom_function_with_two_results(compile):
    Scaled.calls.clear()
    f = compile(lambda x, k: sum(Scaled.apply(x, k)).sum())
    for k in (2, 2, 2, 3, 2.5):
        x = torch.tensor([1., -2.], requires_grad=True)
        f(x, k).backward()
        yield x.grad
    yield Scaled.calls


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


@P
def custom_function_that_writes(compile):
    @compile
    def f(x):
        y = x * 3
        z = Marked.apply(y)
        return z.sum() + y.sum()
    for _ in range(4):
        x = ones(2).requires_grad_()
        f(x).backward()
        yield x.grad


@P
def custom_function_without_materialized_grads(compile):
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return (a if b is None else b * 2) if a is None or b is None else a + 2 * b
    f = compile(lambda x: Two.apply(x))
    for k in (0, 1, 0, 1):
        x = ones(2).requires_grad_()
        f(x)[k].sum().backward()
        yield x.grad


@P
def branch_on_the_sign_of_a_sum(compile):
    @compile
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
            if y.max() > 5:
                return y.exp()
            return y
        return -y
    for k in (1., -1., 3., 1., -2., 3.):
        yield f(ones(2) * k)


@P
def while_loop_until_it_converges(compile):
    @compile
    def f(x):
        steps = 0
        while (x * x - 2).abs().max() > 1e-4:
            x = 0.5 * (x + 2 / x)
            steps += 1
        return x, steps
    for start in (1., 1., 4., 100., 1.):
        yield f(ones(2) * start)


@P
def number_of_a_tensor_as_a_shape(compile):
    @compile
    def f(n):
        return torch.zeros(int(n), 2) + n
    for k in (1, 2, 2, 0, 3):
        yield f(torch.tensor(k))


@P
def list_appended_and_read(compile):
    history = []

    @compile
    def f(x):
        history.append(x.sum())
        return sum(history) / len(history)
    for k in range(5):
        yield f(ones(2) * k)
    yield history


@P
def dict_reordered_inside(compile):
    d = collections.OrderedDict(a=1., b=2., c=3.)

    @compile
    def f(x):
        d.move_to_end("a")
        return x * next(iter(d.values()))
    for _ in range(5):
        yield f(ones(2))
    yield list(d)


@P
def deque_with_a_bound(compile):
    window = collections.deque(maxlen=3)

    @compile
    def f(x):
        window.append(x * 1)
        return torch.stack(list(window)).mean(0)
    for k in range(6):
        yield f(ones(2) * k)


@P
def default_dict_and_counter(compile):
    found, count = collections.defaultdict(list), collections.Counter()

    @compile
    def f(x, key):
        found[key].append(x.shape[0])
        count[key] += 1
        return x * count[key] + len(found[key])
    for key in ("a", "a", "b", "a", "b", "b"):
        yield f(ones(2), key)
    yield dict(found), dict(count)


@P
def global_number_assigned_inside(compile):
    def f(x):
        global TOTAL
        TOTAL = TOTAL + x.shape[0]
        return x + TOTAL
    global TOTAL
    TOTAL = 0
    g = compile(f)
    for n in (2, 2, 3, 3, 2):
        yield g(ones(n))
    yield TOTAL


@P
def global_dict_changed_outside(compile):
    TABLE["a"] = 1.0
    f = compile(lambda x: x * TABLE["a"] + len(TABLE))
    for k in range(6):
        yield f(ones(2))
        if k == 2:
            TABLE["a"] = 4.0
        if k == 4:
            TABLE["b"] = 1
    TABLE.clear()
    TABLE["a"] = 1.0


@P
def dtype_changes_between_calls(compile):
    f = compile(lambda x, y: (x + y) * 0.5 if x.is_floating_point() else x // 2 + y)
    for a, b in ((torch.float32, torch.float32), (torch.float32, torch.float64), (torch.int64, torch.int64),
                 (torch.int32, torch.float32), (torch.bool, torch.int64), (torch.float32, torch.float32)):
        yield attempt(f, torch.ones(2, dtype=a), torch.ones(2, dtype=b))


@P
def default_dtype_of_literals_changes(compile):
    f = compile(lambda x: x + torch.tensor(1.5) + torch.zeros(2))
    before = torch.get_default_dtype()
    try:
        for d in (torch.float32, torch.float32, torch.float64, torch.float32, torch.float64):
            torch.set_default_dtype(d)
            yield f(torch.ones(2, dtype=torch.float32))
    finally:
        torch.set_default_dtype(before)


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        out = super().__torch_function__(function, types, args, kwargs or {})
        if isinstance(out, Tagged):
            out.tag = "+".join(sorted({getattr(a, "tag", "?") for a in args if isinstance(a, Tagged)}))
        return out


@P
def subclass_with_an_attribute(compile):
    f = compile(lambda x, y: x * 2 + y)
    for tags in (("a", "b"), ("a", "a"), ("c", "b"), ("a", "b")):
        x, y = (ones(2).as_subclass(Tagged) for _ in range(2))
        x.tag, y.tag = tags
        out = f(x, y)
        yield type(out).__name__, out.tag, out.as_subclass(torch.Tensor)


@P
def parameter_replaced_and_tied(compile):
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    f = compile(net)
    x = ones(1, 2)
    for k in range(7):
        yield f(x)
        if k == 2:
            net[1].weight = net[0].weight
        if k == 4:
            net[0].weight = nn.Parameter(torch.eye(2))


@P
def random_state_saved_and_restored(compile):
    @compile
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        return x + a, torch.rand(2) == a
    for _ in range(4):
        yield f(ones(2))
    yield torch.rand(1)


@P
def own_generator_and_python_random(compile):
    own = torch.Generator().manual_seed(3)

    @compile
    def f(x):
        return x * torch.rand(2, generator=own) + random.random()
    for _ in range(4):
        yield f(ones(2))
    yield torch.rand(1), random.random(), torch.rand(1, generator=own)


@P
def dropout_under_a_forked_state(compile):
    @compile
    def f(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            y = F.dropout(x, 0.5)
        return y + torch.rand(4)
    for _ in range(4):
        yield f(ones(4))


@P
def context_variable_scales(compile):
    scale = contextvars.ContextVar("scale", default=1.0)
    f = compile(lambda x: x * scale.get())
    for k in (None, 2.0, 2.0, 3.0, None):
        token = scale.set(k) if k else None
        yield f(ones(2))
        if token:
            scale.reset(token)


@P
def context_manager_written_by_the_program(compile):
    log = []

    @contextlib.contextmanager
    def region(name):
        log.append("in " + name)
        try:
            yield len(log)
        finally:
            log.append("out " + name)

    @compile
    def f(x):
        with region("a") as n, torch.no_grad():
            y = x * n
        return y.requires_grad, y + x
    for _ in range(4):
        yield f(ones(2).requires_grad_())
    yield log


@P
def dataclass_replaced(compile):
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: float = 2.0
        names: tuple = ()
        steps: typing.ClassVar[list] = [1, 2]
    f = compile(lambda c, x: x * c.scale + len(c.names) + sum(c.steps))
    c = Config()
    for k in range(6):
        yield f(c, ones(2))
        c = dataclasses.replace(c, scale=c.scale + 1, names=c.names + ("n",)) if k > 1 else c
        if k == 4:
            Config.steps.append(10)


@P
def enum_and_match(compile):
    class Mode(enum.Enum):
        ADD = "add"
        MUL = "mul"

    @compile
    def f(mode, x):
        match mode:
            case Mode.ADD:
                return x + 1
            case Mode.MUL if x.dim() == 1:
                return x * 3
            case _:
                return x, mode.name
    for mode in (Mode.ADD, Mode.MUL, Mode.ADD, Mode.MUL):
        yield f(mode, ones(2))
    yield [x if torch.is_tensor(x) else str(x) for x in f(Mode.MUL, ones(1, 1))]


@P
def named_tuple_results(compile):
    Pair = collections.namedtuple("Pair", "first second")
    f = compile(lambda p: Pair(p.second * 2, p.first + 1))
    p = Pair(ones(2), torch.zeros(2))
    for _ in range(5):
        p = f(p)
        yield p


@P
def property_and_cached_property(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(ones(2))
            self.reads = 0

        @property
        def scaled(self):
            self.reads += 1
            return self.w * self.reads

        @functools.cached_property
        def once(self):
            return self.w.detach().sum() * 10

        def forward(self, x):
            return x * self.scaled + self.once
    m = Model()
    f = compile(m)
    for _ in range(4):
        yield f(ones(2))
    yield m.reads, m.once


@P
def getattr_by_computed_names(compile):
    class Bag:
        def __getattr__(self, name):
            if name.startswith("w"):
                return float(name[1:])
            raise AttributeError(name)
    bag = Bag()
    f = compile(lambda x, k: x * getattr(bag, f"w{k}") + getattr(bag, "b", 0))
    for k in (1, 1, 2, 3, 2):
        yield f(ones(2), k)
    bag.b = 100
    yield f(ones(2), 2)
    del bag.b
    yield f(ones(2), 2)


@P
def weak_references_inside(compile):
    class Owner:
        pass
    owner = Owner()
    owner.x = ones(2)
    ref = weakref.ref(owner)
    f = compile(lambda y: y * ref().x if ref() is not None else y - 1)
    for k in range(5):
        yield f(ones(2) * 2)
        if k == 2:
            owner.x = ones(2) * 7
        if k == 3:
            del owner


@P
def deepcopy_of_a_compiled_module(compile):
    net = nn.Linear(2, 2)
    f = compile(net)
    yield from several(f, ones(1, 2))
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.weight.zero_()
    yield compile(other)(ones(1, 2)), f(ones(1, 2))


@P
def method_of_two_instances(compile):
    class Layer:
        def __init__(self, k):
            self.k = k

        @compile
        def call(self, x):
            self.k += 1
            return x * self.k
    a, b = Layer(1), Layer(10)
    for _ in range(3):
        yield a.call(ones(2))
        yield b.call(ones(2))
    yield a.k, b.k


@P
def recursion_over_a_tree(compile):
    @compile
    def total(tree):
        if isinstance(tree, dict):
            return sum(total(v) for v in tree.values())
        return tree * 2
    tree = {"a": ones(2), "b": {"c": ones(2) * 3}}
    for k in range(5):
        yield total(tree)
        if k == 2:
            tree["b"]["d"] = ones(2) * 5


@P
def partial_and_operator_functions(compile):
    scale = functools.partial(operator.mul, 3)
    f = compile(lambda x: functools.reduce(operator.add, map(scale, itertools.accumulate([x, x, x], torch.mul))))
    for k in range(5):
        yield f(ones(2) * (k + 1))


@P
def data_written_under_a_graph(compile):
    w = ones(3).requires_grad_()

    @compile
    def f(x):
        y = (w * x).sum()
        w.data.mul_(2)
        return y
    for _ in range(4):
        y = f(ones(3))
        y.backward()
        yield y, w, w.grad, w._version


@P
def versions_after_writes(compile):
    @compile
    def f(x):
        x.add_(1)
        x[0] = 5
        y = x.detach()
        y.mul_(2)
        x.data.add_(1)
        return x._version, y._version
    x = ones(2)
    for _ in range(4):
        yield f(x)
        yield x._version


@P
def versions_after_unread_writes(compile):
    def step(x):
        x.add_(1)
        x.view(-1)[1:].zero_()
        return x.detach().mul_(2)

    def data(x):
        x.data.clamp_(max=3)
        return x * 2
    x = ones(2)
    for f in map(compile, (step, data, data, step)):
        for _ in range(4):
            yield f(x)
            yield x, x._version


@P
def saved_value_written_then_backward(compile):
    @compile
    def f(x):
        y = x.exp()
        z = (y * y).sum()
        y.add_(1)
        return z
    for _ in range(4):
        x = ones(2).requires_grad_()
        yield attempt(lambda: f(x).backward())
        yield x.grad


@P
def gradient_of_a_gradient_inside(compile):
    @compile
    def f(x):
        y = (x ** 3).sum()
        g, = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum()
    for _ in range(4):
        x = torch.tensor([1., 2.], requires_grad=True)
        out = f(x)
        out.backward()
        yield out, x.grad


@P
def accumulation_over_micro_batches(compile):
    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    @compile
    def micro(x, last):
        loss = net(x).square().mean() / 2
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        return loss
    for k in range(8):
        yield micro(ones(2, 3) * (k + 1), k % 2 == 1)
    yield list(net.parameters())


@P
def loss_of_a_used_up_history(compile):
    w = ones(3).requires_grad_()

    @compile
    def step(x):
        w.grad = None
        each = (w * x).exp()
        loss = each.sum()
        loss.backward()
        return loss, each, loss.detach(), w
    for k in range(5):
        loss, each, plain, same = step(ones(3) * k)
        yield loss, each, plain, same is w, loss.grad_fn.name(), each.grad_fn.name(), str(loss)
        yield attempt(loss.backward)
        yield attempt((each * 2).sum().backward)
        yield attempt(lambda: compile(lambda y: y * 2)(loss))


@P
def learning_rate_schedule(compile):
    w = nn.Parameter(ones(3))
    optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (k + 1))

    @compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).square().sum()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss
    for _ in range(6):
        yield step(ones(3) * 0.1)
    yield w, schedule.get_last_lr()


@P
def made_arrays_and_state(compile):
    seen = []

    @compile
    def f(x):
        k = np.array([1.0, 2.0, 3.0])
        k[0] = len(seen)
        seen.append(float(k.sum()))
        return x * k + np.arange(3)
    for _ in range(5):
        yield f(np.ones(3))
    yield seen


@P
def array_of_a_mutable_list(compile):
    weights = [1.0, 2.0]
    f = compile(lambda x: np.asarray(weights) @ x + np.zeros(2)[0])
    for k in range(6):
        yield f(np.ones(2))
        weights[0] += k > 2


@P
def array_argument_written(compile):
    @compile
    def f(x):
        x += 1
        x[::2] = np.array([7.0, 8.0])
        return x.sum()
    x = np.arange(4.)
    for _ in range(4):
        yield f(x)
        yield x


@P
def array_kept_outside(compile):
    kept = {}

    @compile
    def f(x):
        kept.setdefault("k", np.zeros(3))
        kept["k"] = kept["k"] + 1
        return x + kept["k"]
    for _ in range(5):
        yield f(np.ones(3))
    yield kept["k"]


@P
def numpy_view_of_a_result(compile):
    f = compile(lambda x: (x * 2).numpy())
    for _ in range(3):
        a = f(ones(3))
        a[0] = 9
        yield a


@P
def empty_tuple_by_identity(compile):
    @compile
    def f(x, options):
        return x * (2 if options is EMPTY else 3)
    for options in ((), [], (), (1,), []):
        yield f(ones(2), options)


@P
def loss_kept_without_reading(compile):
    w = ones(4).requires_grad_()
    kept = []

    @compile
    def step(x):
        w.grad = None
        loss = (w * x).exp().sum()
        loss.backward()
        kept.append(loss)
        return loss
    for k in range(4):
        step(ones(4) * k)
        with torch.no_grad():
            w -= 0.1 * w.grad
    yield kept, w


@P
def eager_backward_after_an_unread_call(compile):
    f = compile(lambda x: (x * 3).sin())
    x, w = ones(3).requires_grad_(), ones(3).requires_grad_()
    for _ in range(3):
        y = f(x)
        loss = (w * w).sum()
        loss.backward()
        w.data.add_(1)
        yield w.grad
        y.sum().backward()
        yield x.grad


@P
def sizes_and_strides_vary(compile):
    f = compile(lambda x: (x.softmax(-1) @ x.transpose(-1, -2)).contiguous().view(-1)[: x.shape[0]])
    for x in (ones(2, 3), ones(3, 2).t(), ones(4, 3), ones(6, 4)[::2], ones(2, 3, 4)[:, 1], ones(2, 3)):
        yield f(x)


@P
def slots_descriptors_and_class_state(compile):
    class Meter:
        __slots__ = ("sum", "n")
        made = 0

        def __init__(self):
            self.sum, self.n = 0.0, 0
            Meter.made += 1

        def __iadd__(self, x):
            self.sum, self.n = self.sum + x.sum(), self.n + 1
            return self
    meter = Meter()

    @compile
    def f(x):
        nonlocal meter
        if meter.n == 2:
            meter = Meter()
        meter += x
        return meter.sum / meter.n
    for k in range(6):
        yield f(ones(2) * k)
    yield Meter.made, meter.n


@P
def tensors_as_keys_and_in_sets(compile):
    names, seen = {}, set()

    @compile
    def f(x):
        seen.add(x)
        return x * names.get(x, 5)
    a, b = ones(2), ones(2)
    names[a] = 2
    for x in (a, b, a, b, a):
        yield f(x)
        yield len(seen)


@P
def autocast_and_grad_modes_vary(compile):
    net = nn.Linear(4, 4)
    f = compile(lambda x: net(x).sum())
    for k in range(8):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=k % 2 == 1), torch.set_grad_enabled(k % 3 != 0):
            y = f(ones(2, 4))
        yield y.dtype, y.requires_grad, y.detach()
