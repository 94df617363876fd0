"""Reports about gradients, hooks, autograd functions and histories."""
import cresset as torch
from cresset import nn

from . import reported, trains


def leaf(*shape):
    return lambda: (torch.randn(*shape, requires_grad=True),)


def identity_layer():
    layer = nn.Linear(3, 3, bias=False)
    layer.weight = nn.Parameter(torch.eye(3))
    return layer


def gradients_of(f, times=2):
    for i in range(times):
        x = torch.full((3,), float(i + 1), requires_grad=True)
        y = f(x)
        y.sum().backward()
        yield y, x.grad


@reported(117758, "a forward hook that was added after the first call does not run")
def forward_hook_added_later(compile):
    m, seen = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), []
    f = compile(m)
    x = torch.ones(1, 2)
    yield f(x), len(seen)
    handle = m[0].register_forward_hook(lambda mod, given, out: seen.append(out.sum().detach()))
    yield f(x), len(seen)
    yield f(x), len(seen)
    handle.remove()
    yield f(x), len(seen)


@reported(115750, "a full backward hook that was added after the first call does not run", "aot")
def backward_hook_added_later(compile):
    layer = identity_layer()
    f = compile(lambda x: layer(x))
    yield list(gradients_of(f))
    h = layer.register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi))
    yield list(gradients_of(f))
    h.remove()
    yield list(gradients_of(f))


@reported(117265, "a backward pre-hook that was added after the first call does not run", "aot")
def backward_pre_hook_added_later(compile):
    layer = identity_layer()
    f = compile(lambda x: layer(x))
    yield list(gradients_of(f))
    layer.register_full_backward_pre_hook(lambda m, go: tuple(g * 3 for g in go))
    yield list(gradients_of(f))


@reported("117265 (comment)", "forward that was replaced on the instance is not called", "aot")
def forward_replaced_on_the_instance(compile):
    layer = identity_layer()
    f = compile(lambda x: layer(x))
    yield f(torch.ones(3))
    yield f(torch.ones(3))
    layer.forward = lambda x: 3.5 * x
    yield f(torch.ones(3))
    del layer.forward
    yield f(torch.ones(3))


@reported(91665, "hooks of a compiled module do not run")
def hooks_of_the_compiled_module(compile):
    m, seen = identity_layer(), []
    m.register_forward_pre_hook(lambda mod, given: (given[0] * 2,))
    m.register_forward_hook(lambda mod, given, out: out + 1)
    m.register_full_backward_hook(lambda mod, gi, go: seen.append(go[0].sum().item()))
    f = compile(m)
    yield list(gradients_of(f, 3)), seen


@reported(91468, "retain_grad of a value inside has no effect", "aot")
def retained_gradients(compile):
    def f(x):
        y = x * 2
        y.retain_grad()
        z = y * 3
        z.retain_grad()
        return z, y
    g = compile(f)
    for i in range(3):
        x = torch.tensor(float(i), requires_grad=True)
        z, y = g(x)
        (z * 5).backward()
        yield x.grad, y.retains_grad, y.grad, z.grad


@reported("91468 (second program)", "a hook of a value inside is not called", "aot")
def hook_of_a_value_inside(compile):
    def f(x):
        y = x * x
        z = y * x * x
        y.register_hook(lambda g: g * 3.5)
        return torch.autograd.grad(z, x)[0]
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor(float(i + 1), requires_grad=True))


@reported(116221, "hooks of saved tensors around the call are ignored", "aot")
def saved_tensor_hooks_outside(compile):
    f = compile(lambda a, b: a * b)
    for i in range(4):
        a, b = (torch.tensor(v, requires_grad=True) for v in (1., 2.))
        if i % 2:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
                y = f(a, b)
        else:
            y = f(a, b)
        y.backward()
        yield y, a.grad, b.grad


@reported(123713, "requires_grad_() inside has no effect", "aot")
def requires_grad_inside(compile):
    torch.manual_seed(0)
    one, two = nn.Linear(2, 3), nn.Linear(3, 1)

    def f(x):
        with torch.no_grad():
            h = one(x)
        h.requires_grad_()
        flag = h.requires_grad
        loss = two(h).sum()
        return torch.autograd.grad(loss, h)[0], flag
    g = compile(f)
    for i in range(3):
        yield g(torch.full((1, 2), float(i)))


@reported(169179, "requires_grad is False after an assignment to a slice")
def requires_grad_after_a_slice_assignment(compile):
    rows, cols = torch.triu_indices(3, 3, 1)

    def f(v):
        m = torch.zeros(v.shape[0], 3, 3)
        m[:, rows, cols] = v
        flag = m.requires_grad
        return m - m.transpose(-2, -1), flag
    g = compile(f)
    for i in range(3):
        v = torch.full((2, 3), float(i), requires_grad=True)
        out, flag = g(v)
        (out * torch.arange(18.).reshape(2, 3, 3)).sum().backward()
        yield out, flag, v.grad


@reported(176854, "detach_() leaves requires_grad set")
def detach_in_place(compile):
    def f(x):
        y = x * 2.
        y.detach_()
        return y + 1., y.requires_grad, y.is_leaf
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i), requires_grad=True))


@reported(114338, "a result that enable_grad made inside of no_grad has no history", "aot")
def enable_grad_inside_no_grad(compile):
    def f(x):
        with torch.enable_grad():
            y = x * 3
        return y, x + 1
    g = compile(f)
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        with torch.no_grad():
            y, z = g(x)
        y.sum().backward()
        yield y, z, x.grad


@reported(99455, "a leaf that is made inside has no gradient", "aot")
def leaf_made_inside(compile):
    def f(scale):
        x = torch.ones(3, requires_grad=True)
        return x, x * scale
    g = compile(f)
    for i in range(3):
        x, y = g(float(i))
        y.sum().backward()
        yield x.requires_grad, x.is_leaf, y, x.grad


@reported("pytorch/functorch#1052", "detach() gives a result that requires a gradient", "aot")
def detached_result(compile):
    g = compile(lambda x: (x.detach(), x.detach() * 2, x * 2))
    for i in range(3):
        x = torch.full((1,), float(i), requires_grad=True)
        out = g(x)
        yield out, out[0].data_ptr() == x.data_ptr()


@reported(128035, "an input with a history that the function changes loses it", "aot")
def changed_input_with_a_history(compile):
    def f(x, y):
        x.mul_(y)
        return x + 1
    g = compile(f)
    for i in range(3):
        a, b = (torch.full((2,), float(i + k), requires_grad=True) for k in (1, 2))
        x = a.clone()
        out = g(x, b)
        (out + x).sum().backward()
        yield out, x, x.grad_fn is not None, a.grad, b.grad


@reported(154820, "writes of forward and backward of a Function exchange their order", "inductor")
def function_writes_in_both_passes(compile):
    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, counter):
            counter.add_(1)
            ctx.counter = counter
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            ctx.counter.mul_(10)
            return g, None
    f = compile(lambda x, c: Counted.apply(x, c))
    c = torch.zeros(2)
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        y = f(x, c)
        yield y, c
        y.sum().backward()
        yield x.grad, c


@reported(127561, "a write of backward happens in forward", "aot")
def backward_hook_writes_an_input(compile):
    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, buffer):
            ctx.save_for_backward(buffer)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            buffer, = ctx.saved_tensors
            buffer.add_(1)
            return g * 2, None
    f = compile(lambda x, b: Writes.apply(x, b) + b.sum())
    b = torch.zeros(2)
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        y = f(x, b)
        yield y, b
        y.sum().backward()
        yield x.grad, b


@reported(136662, "torch.func.grad of a function that writes a column of its value", "inductor")
def func_grad_with_a_column_written(compile):
    def loss(x):
        y = x.clone()
        y[:, 0] += x[:, 2].abs()
        return y.sum()
    f = compile(torch.func.grad(loss))
    for i in range(3):
        torch.manual_seed(i)
        yield f(torch.randn(2, 3))


@reported(193279, "torch.func.grad drops the backward of a Function")
def func_grad_of_a_function(compile):
    class Zeroed(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return torch.sin(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return torch.zeros_like(g)
    f = compile(torch.func.grad(lambda x: (Zeroed.apply(x) + x).sum()))
    for i in range(3):
        yield f(torch.full((3,), float(i)))


@reported(184113, "the result of a Function that writes its input is not used: its backward is skipped")
def function_that_writes_and_is_discarded(compile):
    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(3)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    def f(w, use):
        y = torch.ones(2, 2) @ w
        if use:
            y = Tripled.apply(y)
        else:
            Tripled.apply(y)
        return y.sum()
    g = compile(f)
    for use in (True, False, True, False):
        w = torch.eye(2, requires_grad=True)
        y = g(w, use)
        y.backward()
        yield y, w.grad


@reported(133491, "mark_dirty is dropped")
def marked_dirty(compile):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 5

    def f(x):
        y = x + 1
        z = Doubled.apply(y)
        return z, y is z, y + 1
    g = compile(f)
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        z, same, more = g(x)
        (z + more).sum().backward()
        yield z, same, more, x.grad


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b + a + b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * (b + 1), g * (a + 1)


class FirstOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(b)
        return a * 2 + b

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


class AddsInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        y += 1
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 7


class Passes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.matmul(x, (torch.ones_like(x) * 10).t())

    @staticmethod
    def backward(ctx, g):
        return g


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        dx = 3 * x ** 2
        ctx.save_for_backward(x, dx)
        return x ** 3, dx

    @staticmethod
    def backward(ctx, g, g_dx):
        x, dx = ctx.saved_tensors
        return g * dx + g_dx * 6 * x


def thirds(x):
    y = torch.sin(x)
    return y[0:4], y[4:8], y.detach()


def groups(x, w, b):
    return nn.functional.group_norm(x, 2, w, b)


trains(183604, "one tensor is passed to a Function twice: half of the gradient", "inductor",
       lambda x: Product.apply(x, x), leaf(5))
trains(181146, "one tensor is passed to a Function twice, with None for one place", "aot",
       lambda x: (FirstOnly.apply(x, x), FirstOnly.apply(x * 1, x)), leaf(4))
trains(180642, "an in-place operator inside of forward of a Function", "aot", AddsInPlace.apply, leaf(4))
trains(160901, "a Function's result that the next Function takes requires no gradient", "aot",
       lambda x: Passes.apply(Passes.apply(x)), leaf(3, 3))
trains(129963, "the first of two results loses its history at the second call", "aot",
       lambda x: Cube.apply(Cube.apply(x)[0])[0], leaf(2))
trains(194479, "views returned beside their detached base have no history", "inductor", thirds, leaf(8))
trains(100075, "the gradient of group_norm", "inductor", groups,
       lambda: tuple(torch.randn(s, requires_grad=True) for s in ((2, 4, 3), (4,), (4,))))
