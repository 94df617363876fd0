"""Aliasing: inputs that share memory, views, writes, results that are inputs."""
import cresset as torch

from .harness import attempt, program

FAMILY = "aliasing"


@program(FAMILY)
def one_tensor_as_two_arguments(compile):
    @compile
    def f(a, b):
        a.add_(1)
        return a * b
    for same in (False, True, False):
        x, y = torch.ones(2), torch.ones(2)
        yield f(x, x if same else y), x, y


@program(FAMILY)
def two_views_as_arguments(compile):
    @compile
    def f(a, b):
        a.mul_(2)
        return a + b
    for k in range(3):
        base = torch.arange(4.)
        b = base[1:3] if k == 1 else torch.arange(2.)
        yield f(base[:2], b), base


@program(FAMILY)
def arguments_of_one_memory_are_written(compile):
    @compile
    def f(x, y, z):
        a, b = x * 0.5, y.sin()
        x.copy_(a)
        y.copy_(b)
        return a.sum() + z.sum()
    apart = torch.linspace(0, 1, 40).view(5, 8)
    for k in range(16):
        w = torch.linspace(-1, 1, 48)
        low, high, data = w[:40].view(5, 8), w[8:].view(5, 8), w.data[4:44].view(5, 8)
        x, y, z = ((apart * 2, apart * 3, apart), (low, w[:40].view(5, 8), apart), (low, high, apart),
                   (apart * 2, low, high), (low, data, apart))[k // 3 % 5]
        yield f(x, y, z), w, x, y


@program(FAMILY)
def one_entry_meets_arguments_apart_and_together(compile):
    @compile
    def f(x, y):
        a, b = x * 0.5, y.sin()
        x.copy_(a)
        y.copy_(b)
        return a.sum()
    for k in range(12):
        w = torch.linspace(-1, 1, 48)
        y = (torch.ones(5, 8), w[8:].view(5, 8), w.data[4:44].view(5, 8))[k % 3 if k > 3 else 0]
        yield f(w[:40].view(5, 8), y), w, y


@program(FAMILY)
def a_view_of_an_argument_is_returned(compile):
    f = compile(lambda x: (x[1:], x.view(-1)))
    for _ in range(3):
        x = torch.arange(4.)
        a, b = f(x)
        a.add_(10)
        yield a, b, x


@program(FAMILY)
def an_argument_is_written(compile):
    @compile
    def f(x):
        x += 1
        return x * 2
    for _ in range(3):
        x = torch.ones(2)
        y = x.view(2)
        yield f(x), x, y, x._version > 0


@program(FAMILY)
def a_row_is_written(compile):
    @compile
    def f(x, i):
        x[i] = x[i] * 2 + 1
        return x.sum()
    for i in (0, 1, 0, 1):
        x = torch.arange(4.).view(2, 2)
        yield f(x, i), x


@program(FAMILY)
def a_view_read_after_its_base_was_written(compile):
    @compile
    def f(x):
        y = x * 2
        b = y.view(-1)
        y.add_(1)
        m = b > 0
        return b * 3, m
    for _ in range(3):
        x = torch.ones(2, 2, requires_grad=True)
        y, m = f(x)
        y.sum().backward()
        yield y, m, x.grad


@program(FAMILY)
def a_view_of_zeros_gets_a_gradient(compile):
    @compile
    def f(x):
        y = torch.zeros(2, 2)
        b = y.view(-1)
        y[0] = x
        return b > 0, b * 3
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        m, y = f(x)
        y.sum().backward()
        yield m, y, x.grad


@program(FAMILY)
def a_detached_view_sees_a_write(compile):
    @compile
    def f(x):
        y = x * 2
        d = y.detach().view(-1)
        y.add_(1)
        return d > 2, d * y
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        m, y = f(x)
        y.sum().backward()
        yield m, y, x.grad


@program(FAMILY)
def a_literal_is_written(compile):
    @compile
    def f(x):
        total = torch.tensor(0.)
        total += x.sum()
        return total
    for _ in range(4):
        yield f(torch.ones(2))


@program(FAMILY)
def a_literal_is_returned(compile):
    f = compile(lambda x: (torch.tensor([1., 2.]), x + 1))
    for _ in range(3):
        a, b = f(torch.ones(2))
        a.add_(5)
        yield a, b


@program(FAMILY)
def a_result_is_kept_and_written_outside(compile):
    f = compile(lambda x: x + 1)
    kept = []
    for i in range(3):
        y = f(torch.full((2,), float(i)))
        kept.append(y)
        y.mul_(10)
        yield list(kept)


@program(FAMILY)
def a_global_tensor_is_written_between_calls(compile):
    w = torch.ones(2)
    f = compile(lambda x: x * w)
    for _ in range(3):
        yield f(torch.ones(2))
        w.add_(1)


@program(FAMILY)
def a_global_tensor_is_replaced_between_calls(compile):
    box = [torch.ones(2)]
    f = compile(lambda x: x * box[0])
    for i in range(4):
        yield f(torch.ones(2))
        box[0] = torch.full((2 if i % 2 else 1,), float(i))


@program(FAMILY)
def data_of_a_parameter_is_replaced(compile):
    m = torch.nn.Linear(2, 1, bias=False)
    f = compile(m)
    for i in range(3):
        m.weight.data = torch.full((1, 2), float(i))
        yield f(torch.ones(1, 2))


@program(FAMILY)
def sizes_of_an_argument_change_in_place(compile):
    @compile
    def f(x):
        x.t_()
        return x + 1
    for _ in range(3):
        x = torch.arange(6.).view(2, 3)
        yield f(x), x


@program(FAMILY)
def requires_grad_is_set_inside(compile):
    @compile
    def f(x):
        x.requires_grad_()
        return (x * 2).sum()
    for _ in range(3):
        x = torch.ones(2)
        f(x).backward()
        yield x, x.grad


@program(FAMILY)
def out_of_an_argument(compile):
    @compile
    def f(x, out):
        torch.add(x, 1, out=out)
        return out * 2
    for _ in range(3):
        out = torch.zeros(2)
        yield f(torch.ones(2), out), out


@program(FAMILY)
def overlapping_memory(compile):
    f = compile(lambda x: x.expand(3, 2).sum(0) + x)
    for _ in range(3):
        yield f(torch.arange(2.).expand(1, 2))


@program(FAMILY)
def a_result_that_is_a_view_of_a_result(compile):
    @compile
    def f(x):
        y = x * 2
        return y, y[0]
    for _ in range(3):
        a, b = f(torch.ones(2, 2))
        b.add_(7)
        yield a, b


@program(FAMILY)
def a_write_to_a_leaf(compile):
    @compile
    def f(w):
        w.add_(1)
        return w * 2
    for _ in range(3):
        yield attempt(f, torch.ones(2, requires_grad=True))


@program(FAMILY)
def a_saved_value_is_written(compile):
    @compile
    def f(x):
        y = x.exp()
        z = y * 2
        y.add_(1)
        return z, y

    def run():
        x = torch.ones(2, requires_grad=True)
        z, y = f(x)
        (z.sum() + y.sum()).backward()
        return x.grad
    for _ in range(3):
        yield attempt(run)


@program(FAMILY)
def a_swap_of_arguments(compile):
    f = compile(lambda a, b: a - b * 2)
    x, y = torch.ones(2), torch.full((2,), 5.)
    for a, b in ((x, y), (y, x), (x, x), (y, y)):
        yield f(a, b)


@program(FAMILY)
def strides_differ_between_calls(compile):
    f = compile(lambda x: (x * 2, x.stride()[0], x.is_contiguous()))
    base = torch.arange(6.).view(2, 3)
    for x in (base, base.t().contiguous().t(), base[:, ::2], base):
        yield f(x)
