"""Changes between calls that reach compiled code in unusual ways: training state, modules, closures, containers."""
import collections
import copy
import functools
import gc
import weakref

import cresset as torch
from cresset import nn

from .harness import attempt, program, steps

FAMILY = "class writes"
ones = torch.ones(2)


@program(FAMILY)
def module_that_is_exchanged_in_a_sequence(compile):
    m = nn.Sequential(nn.ReLU(), nn.Identity())
    f = compile(m)
    yield from steps(f, (-ones,), (-ones,), lambda: m.__setitem__(0, nn.Tanh()), (-ones,), lambda: m.append(nn.ReLU()) and None,
                     (-ones,), lambda: m.__delitem__(1), (-ones,))


@program(FAMILY)
def parameter_that_becomes_a_buffer(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.w

    m = M()
    f = compile(m)

    def move():
        del m.w
        m.register_buffer("w", torch.full((2,), 5.))
    yield from steps(f, (ones,), (ones,), move, (ones,), lambda: setattr(m, "w", None), (ones,))


@program(FAMILY)
def parameters_that_are_tied_later(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2) * 2)

        def forward(self, x):
            return (x * self.a * self.b).sum()
    m = M()
    f = compile(m)
    for i in range(5):
        if i == 3:
            m.b = m.a
        m.zero_grad()
        y = f(ones)
        y.backward()
        yield y, m.a.grad, m.b.grad


@program(FAMILY)
def requires_grad_that_is_switched(compile):
    m = nn.Linear(2, 1)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)
    f = compile(m)
    for flag in (True, True, False, True):
        m.requires_grad_(flag)
        m.zero_grad()
        y = f(ones.clone().requires_grad_())
        y.sum().backward()
        yield y, m.weight.grad, y.requires_grad


@program(FAMILY)
def state_dict_loaded_between_calls(compile):
    m = nn.Linear(2, 1)
    f = compile(m)
    one, two = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, {"weight": torch.ones(1, 2) * 3, "bias": torch.ones(1)}
    yield from steps(f, lambda: m.load_state_dict(one) and None, (ones,), (ones,), lambda: m.load_state_dict(two) and None, (ones,),
                     lambda: m.load_state_dict(one, assign=True) and None, (ones,))


@program(FAMILY)
def dtype_that_the_module_changes(compile):
    m = nn.Linear(2, 1)
    nn.init.ones_(m.weight)
    nn.init.ones_(m.bias)
    f = compile(m)
    yield f(ones), f(ones)
    m.double()
    yield f(ones.double()), attempt(f, ones)[0] if isinstance(attempt(f, ones), tuple) else None
    m.half().float()
    yield f(ones)


@program(FAMILY)
def deep_copy_of_a_compiled_module(compile):
    m = nn.Linear(2, 1)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)
    f = compile(m)
    yield f(ones), f(ones)
    g = copy.deepcopy(f)
    with torch.no_grad():
        m.weight.mul_(10)
    yield f(ones), g(ones)


@program(FAMILY)
def optimizer_with_another_rate(compile):
    w = torch.ones(2, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1, momentum=0.5)

    @compile
    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
    for rate in (0.1, 0.1, 0.5, 0.5, 0.1):
        opt.param_groups[0]["lr"] = rate
        step(ones)
        yield w


@program(FAMILY)
def optimizer_that_gets_a_parameter(compile):
    w, v = (torch.ones(2, requires_grad=True) for _ in range(2))
    opt = torch.optim.SGD([w], lr=0.1)

    @compile
    def step(x):
        opt.zero_grad()
        (w * v * x).sum().backward()
        opt.step()
    for i in range(4):
        if i == 2:
            opt.add_param_group({"params": [v], "lr": 0.5})
        step(ones)
        yield w, v


@program(FAMILY)
def scheduler_between_steps(compile):
    w = torch.ones(2, requires_grad=True)
    opt = torch.optim.Adam([w], lr=0.1)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.1)

    @compile
    def step(x):
        opt.zero_grad()
        ((w - x) ** 2).sum().backward()
        opt.step()
    for _ in range(6):
        step(ones * 3)
        sched.step()
        yield w, opt.param_groups[0]["lr"]


@program(FAMILY)
def closure_cell_that_is_exchanged(compile):
    def make():
        k = 2

        def f(x):
            return x * k

        def set(v):
            nonlocal k
            k = v
        return f, set
    f, set = make()
    g = compile(f)
    yield from steps(g, (ones,), (ones,), lambda: set(5), (ones,), lambda: set(torch.full((2,), 7.)), (ones,))


@program(FAMILY)
def code_that_is_replaced(compile):
    def inner(x):
        return x + 1
    g = compile(lambda x: inner(x) * 2)

    def change():
        inner.__code__ = (lambda x: x - 5).__code__
    yield from steps(g, (ones,), (ones,), change, (ones,))


@program(FAMILY)
def keyword_defaults_that_change(compile):
    def inner(x, *, k=1):
        return x * k
    g = compile(lambda x: inner(x))

    def change():
        inner.__kwdefaults__["k"] = 4
    yield from steps(g, (ones,), (ones,), change, (ones,), lambda: setattr(inner, "__kwdefaults__", {"k": 6}), (ones,))


@program(FAMILY)
def builtin_that_a_global_hides(compile):
    space = {"torch": torch}
    exec("def f(x):\n    return x * max(2, 3)", space)
    g = compile(space["f"])
    yield from steps(g, (ones,), (ones,), lambda: space.__setitem__("max", min), (ones,), lambda: space.__delitem__("max"), (ones,))


@program(FAMILY)
def global_that_is_deleted(compile):
    space = {"k": 4}
    exec("def f(x):\n    try:\n        return x * k\n    except NameError:\n        return x - 1", space)
    g = compile(space["f"])
    yield from steps(g, (ones,), (ones,), lambda: space.__delitem__("k"), (ones,), lambda: space.__setitem__("k", 4), (ones,))


@program(FAMILY)
def dict_argument_that_grows(compile):
    d = {"a": ones}
    g = compile(lambda d: sum(d.values()) * len(d))
    yield from steps(g, (d,), (d,), lambda: d.__setitem__("b", ones * 3), (d,), lambda: d.pop("a"), (d,))


@program(FAMILY)
def default_dict_that_makes_items(compile):
    d = collections.defaultdict(lambda: torch.zeros(2))

    def f(x, k):
        d[k] = d[k] + x
        return d[k] * len(d)
    g = compile(f)
    for k in ("a", "a", "b", "a"):
        yield g(ones, k), dict(d)


@program(FAMILY)
def list_argument_with_an_alias(compile):
    def f(a, b):
        a.append(torch.ones(2) * 5)
        return sum(b), len(b)
    g = compile(f)
    for same in (False, False, True, False):
        a = [ones]
        yield g(a, a if same else [ones, ones]), len(a)


@program(FAMILY)
def nested_results_with_shared_objects(compile):
    def f(x):
        y = x * 2
        return {"a": y, "b": [y, (y, x)]}
    g = compile(f)
    for i in range(3):
        x = ones * i
        out = g(x)
        yield out, out["a"] is out["b"][0], out["b"][1][1] is x


@program(FAMILY)
def object_behind_a_weak_reference(compile):
    class Node:
        v = 2
    n = Node()
    r = weakref.ref(n)
    g = compile(lambda x: x * r().v if r() is not None else x - 1)
    yield from steps(g, (ones,), (ones,), lambda: setattr(n, "v", 5), (ones,))
    del n
    gc.collect()
    yield g(ones)


@program(FAMILY)
def reduce_over_a_list_of_functions(compile):
    fs = [torch.sin, torch.cos]
    g = compile(lambda x: functools.reduce(lambda y, f: f(y), fs, x))
    yield from steps(g, (ones,), (ones,), fs.reverse, (ones,), lambda: fs.append(torch.exp), (ones,))


@program(FAMILY)
def function_attribute_as_state(compile):
    def f(x):
        f.calls += 1
        return x * f.calls
    f.calls = 0
    g = compile(f)
    for _ in range(4):
        yield g(ones), f.calls


@program(FAMILY)
def tensor_attribute_as_state(compile):
    t = torch.ones(2)
    t.tag = 3
    g = compile(lambda x: x * t.tag if hasattr(t, "tag") else x - 1)
    yield from steps(g, (ones,), (ones,), lambda: setattr(t, "tag", 4), (ones,), lambda: delattr(t, "tag"), (ones,))


@program(FAMILY)
def sizes_that_swap(compile):
    g = compile(lambda x, y: x.reshape(y.shape[0], -1).sum(1) * x.shape[0])
    yield from steps(g, (torch.ones(2, 6), torch.ones(3)), (torch.ones(2, 6), torch.ones(4)), (torch.ones(6, 2), torch.ones(3)),
                     (torch.ones(6, 2), torch.ones(1)), (torch.ones(0, 4), torch.ones(2)))


@program(FAMILY)
def bool_int_and_float_of_one_value(compile):
    g = compile(lambda x, n: (x * n, type(n).__name__, x.to(torch.int64) + n))
    yield from steps(g, (ones, 1), (ones, True), (ones, 1.), (ones, 1), (ones, 0), (ones, -0.), (ones, 0.), (ones, False))
