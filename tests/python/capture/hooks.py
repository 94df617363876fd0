"""Hooks of modules, tensors and autograd; gradients that change."""
import cresset as torch
from cresset import nn

from .harness import attempt, program

FAMILY = "hooks"


def linear(*sizes):
    torch.manual_seed(0)
    return nn.Linear(*sizes)


@program(FAMILY)
def a_forward_hook_is_added_later(compile):
    m = linear(2, 2)
    f, x = compile(m), torch.ones(1, 2)
    yield f(x), f(x)
    handle = m.register_forward_hook(lambda m, a, out: out * 10)
    yield f(x), f(x)
    handle.remove()
    yield f(x)


@program(FAMILY)
def a_forward_hook_of_a_child_is_added_later(compile):
    m = nn.Sequential(linear(2, 2), nn.Tanh())
    f, x = compile(m), torch.ones(1, 2)
    yield f(x), f(x)
    handle = m[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,))
    yield f(x), f(x)
    handle.remove()
    yield f(x)


@program(FAMILY)
def a_hook_counts(compile):
    m, seen = linear(2, 2), []
    m.register_forward_hook(lambda m, a, out: seen.append(1))
    f = compile(m)
    for _ in range(3):
        yield f(torch.ones(1, 2)), len(seen)


@program(FAMILY)
def a_tensor_hook_of_an_argument(compile):
    f = compile(lambda x: (x * 2).sum())
    for k in range(3):
        x, seen = torch.ones(2, requires_grad=True), []
        if k:
            x.register_hook(lambda g: seen.append(g) or g * k)
        f(x).backward()
        yield x.grad, seen


@program(FAMILY)
def a_tensor_hook_is_registered_inside(compile):
    seen = []

    @compile
    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g) or g * 3)
        return y.sum()
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        f(x).backward()
        yield x.grad, len(seen)


@program(FAMILY)
def a_global_module_hook(compile):
    from cresset.nn.modules.module import register_module_forward_hook
    m = linear(2, 2)
    f, x = compile(m), torch.ones(1, 2)
    yield f(x), f(x)
    handle = register_module_forward_hook(lambda m, a, out: out + 100)
    try:
        yield f(x), f(x)
    finally:
        handle.remove()
    yield f(x)


@program(FAMILY)
def a_backward_hook_of_a_module(compile):
    m, seen = linear(2, 1), []
    m.register_full_backward_hook(lambda m, gi, go: seen.append(go[0]))
    f = compile(m)
    for _ in range(3):
        m.zero_grad()
        f(torch.ones(1, 2)).sum().backward()
        yield m.weight.grad, len(seen)


@program(FAMILY)
def a_post_accumulate_hook(compile):
    seen = []

    @compile
    def f(x, w):
        return (x * w).sum()
    w = torch.ones(2, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    for _ in range(3):
        w.grad = None
        f(torch.ones(2), w).backward()
        yield w.grad, len(seen)


@program(FAMILY)
def retain_grad_inside(compile):
    kept = []

    @compile
    def f(x):
        y = x * 2
        y.retain_grad()
        kept.append(y)
        return (y * y).sum()
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        f(x).backward()
        yield x.grad, kept[-1].grad


@program(FAMILY)
def gradients_accumulate(compile):
    m = linear(2, 1)
    f = compile(m)
    for _ in range(3):
        f(torch.ones(1, 2)).sum().backward()
        yield m.weight.grad, m.bias.grad


@program(FAMILY)
def a_gradient_is_removed_inside(compile):
    @compile
    def f(x, p):
        y = x * p
        p.grad = None
        return y.sum()
    for _ in range(3):
        p = nn.Parameter(torch.ones(2))
        p.grad = torch.ones(2)
        out = f(torch.ones(2), p)
        before = p.grad
        out.backward()
        yield out, before, p.grad


@program(FAMILY)
def a_custom_function(compile):
    class Double(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Double.calls += 1
            return g * 5
    f = compile(lambda x: Double.apply(x) + 1)
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        y = f(x)
        y.sum().backward()
        yield y, x.grad, Double.calls


@program(FAMILY)
def a_training_step(compile):
    m = linear(3, 1)
    opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

    @compile
    def step(x, y):
        opt.zero_grad()
        loss = ((m(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss.detach()
    for i in range(5):
        if i == 3:
            opt.param_groups[0]["lr"] = 0.01
        yield step(torch.ones(2, 3), torch.zeros(2, 1)), m.weight


@program(FAMILY)
def a_second_gradient(compile):
    f = compile(lambda x: (x ** 3).sum())

    def run():
        x = torch.ones(2, requires_grad=True)
        g, = torch.autograd.grad(f(x), x, create_graph=True)
        h, = torch.autograd.grad(g.sum(), x)
        return g, h
    yield f(torch.ones(2))
    yield f(torch.ones(2))


@program(FAMILY)
def a_graph_is_kept(compile):
    f = compile(lambda x: x.exp().sum())

    def run():
        x = torch.ones(2, requires_grad=True)
        y = f(x)
        y.backward(retain_graph=True)
        y.backward()
        return x.grad, attempt(y.backward)
    for _ in range(3):
        g, again = run()
        yield g, again[0]


@program(FAMILY)
def requires_grad_of_a_parameter_changes(compile):
    m = linear(2, 1)
    f = compile(m)
    for on in (True, False, True):
        m.weight.requires_grad_(on)
        y = f(torch.ones(1, 2))
        y.sum().backward()
        yield y, m.weight.grad
        m.zero_grad()


@program(FAMILY)
def a_parameter_is_replaced(compile):
    m = linear(2, 1)
    f = compile(m)
    for i in range(3):
        m.weight = nn.Parameter(torch.full((1, 2), float(i)))
        yield f(torch.ones(1, 2))


@program(FAMILY)
def batch_norm_trains_and_evaluates(compile):
    m = nn.BatchNorm1d(2)
    f = compile(m)
    for train in (True, True, False, True, False):
        m.train(train)
        yield f(torch.arange(6.).view(3, 2)), m.running_mean, m.num_batches_tracked


@program(FAMILY)
def saved_tensor_hooks_of_the_caller(compile):
    f, packed = compile(lambda x: x.exp().sum()), []
    for on in (False, True, False, True):
        x = torch.ones(2, requires_grad=True)
        if on:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
                y = f(x)
        else:
            y = f(x)
        y.backward()
        yield x.grad, len(packed) > 0


@program(FAMILY)
def hooks_of_a_leaf_in_a_training_step(compile):
    calls = []
    w, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: calls.append("grad") or g * 2)
    v.register_post_accumulate_grad_hook(lambda p: calls.append("sum"))

    @compile
    def step(x):
        w.grad = v.grad = None
        (x * w * v).sum().backward()
        return w.grad + v.grad
    for i in range(4):
        yield step(torch.full((2,), float(i))), list(calls)
