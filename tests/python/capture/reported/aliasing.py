"""Reports about views, changed inputs, aliases and layouts."""
import cresset as torch
from cresset import nn

from . import calls, reported, trains

F = nn.functional


def uniform(*shape):
    return lambda: (torch.rand(*shape),)


def base_of_views(*shape):
    def make():
        a = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        return a, a[1:]
    return make


@reported(139789, "arguments that alias in a later call use the graph of those that did not", "aot")
def arguments_that_alias_later(compile):
    def f(x, y):
        x.mul_(2)
        return x + y
    g = compile(f)
    x, y = torch.ones(4), torch.ones(4)
    yield g(x, y), x, y
    base = torch.ones(8)
    yield g(base[:4], base[2:6]), base
    base = torch.ones(8)
    yield g(base[:4], base[4:]), base
    x = torch.ones(4)
    yield g(x, x), x


@reported(94773, "a view taken before set_() follows the new storage")
def view_before_set(compile):
    def f(x):
        v = x[:]
        new = torch.ones(3, 4)
        x.set_(new.untyped_storage(), 0, (3, 4))
        return v, x
    g = compile(f)
    for i in range(3):
        x = torch.full((2, 3), float(i))
        yield g(x), x


@reported(132200, "one operator before and after set_() is computed once", "aot")
def operator_before_and_after_set(compile):
    def f(x, w):
        a = x.sin()
        y = x + 1
        x.set_(y)
        return a, x.sin(), w ** 2
    g = compile(f)
    for i in range(3):
        x, w = torch.full((3,), float(i)), torch.ones(3, requires_grad=True)
        out = g(x, w)
        out[2].sum().backward()
        yield out, x, w.grad


@reported(113030, "x.data = y makes x follow y", "aot")
def data_assignment(compile):
    def f(x, y):
        x.data = y
        y.data = torch.zeros(0)
        return x
    g = compile(f)
    for i in range(3):
        x, y = torch.full((6,), float(i)), torch.full((6,), float(i + 10))
        yield g(x, y), x, y


@reported(139152, "x.data = y changes the version of x", "aot")
def version_after_data_assignment(compile):
    def f(p):
        y = p ** 2
        with torch.no_grad():
            p.data = torch.ones_like(p) * 5
        return y
    g = compile(f)
    for i in range(3):
        p = nn.Parameter(torch.full((3,), float(i + 1)))
        before = p._version
        y = g(p)
        y.sum().backward()
        yield y, p, p._version - before


@reported(93363, "a view with a history that the function changes: its base keeps old values", "aot")
def view_with_a_history(compile):
    def f(v):
        v.add_(1.)
        return v * 2
    g = compile(f)
    for i in range(3):
        leaf = torch.full((4,), float(i), requires_grad=True)
        base = leaf.add(0.)
        out = g(base[0::2])
        (out.sum() + base.sum()).backward()
        yield out, base, leaf.grad


@reported(97083, "a squeezed view before and after two writes with a condition between", "inductor")
def view_between_two_writes(compile):
    def f(first):
        a = torch.tensor([1])[0:1]
        b = a.squeeze()
        a[0] = first
        if a[0] < 1e5:
            pass
        a[0] = 2
        return b
    g = compile(f)
    for i in range(3):
        yield g(i)


@reported(96064, "a loop that the compiler unrolls gives another value", "inductor")
def unrolled_loop(compile):
    def f(x):
        out = torch.zeros(4)
        for i in range(4):
            x = x * 0.5 + out.sum()
            out[i] = x.sum()
        return out
    g = compile(f)
    for i in range(3):
        yield g(torch.full((3,), float(i + 1)))


@reported(172693, "a strided tensor is reshaped as if it were contiguous, with sizes that vary", "inductor")
def strided_reshape_with_varying_sizes(compile):
    g = compile(lambda x: (x.transpose(0, 1) * 2).reshape(-1)[::2] + 1, dynamic=True)
    for shape in ((2, 6), (4, 6), (6, 10)):
        yield g(torch.arange(float(shape[0] * shape[1])).reshape(shape))


def gapped(x):
    v = x.unfold(1, 1, 5)
    v.add_(v)
    return x


def writes_base(a, b):
    a.add_(100)
    return b[0], b.view(-1)


def dropout_then_write(x):
    y = F.dropout(x, 0.5, False)
    y += y
    return y


def write_then_as_strided(x):
    x.add_(1)
    return torch.as_strided_copy(x, (3,), (2,))


def diagonal_as_strided(a):
    a.diagonal().as_strided((2,), (1,), 0).add_(1.)
    return a


def masked_view(x):
    y = x.clone()[:, 1]
    y.masked_fill_(torch.ones_like(y, dtype=torch.bool), 0)
    return y


def log_twice(x):
    y = torch.log(x)
    x.log_()
    return y


def stack_then_silu(x):
    r = torch.stack([x])
    F.silu(x, inplace=True)
    return r


def squeezed_reciprocal(x):
    v = x.min(0).values.squeeze(1)
    w = v.squeeze(0)
    v.reciprocal_()
    return w


def expand_then_div(x):
    v = x.expand(1, 1, 3)
    x.div_(1.5)
    return v


def permuted_resize(x, w, b):
    v = x.permute(0, 2, 1)
    v.resize_(1, 1, 2)
    return F.linear(v, w, b)


def complex_view_twice(x):
    z = torch.view_as_complex(x + 1)
    return torch.view_as_real(z) + 1, torch.view_as_real(z + 1)


def sine_then_argmin(x):
    x.sin_()
    return x.t().argmin()


def put_then_flip(x):
    x.index_put_((torch.arange(x.size(0)),), x * 2.)
    x.add_(x.flip(0))
    return x


def copy_then_flip(x):
    x.index_copy_(0, torch.arange(x.size(0)), x + 1)
    x[1:] = x[:-1].clone()
    return x


def lerp_and_update(p, g, m):
    m.lerp_(g, 0.05)
    p.add_(m, alpha=-0.01)
    return g * 2, p + m


def doubled_rows(x):
    x[[0, 0]] += x[[0, 0]]
    return x


def doubled_by_index(x, y):
    x = x + 10
    y[x] += y[x]
    return y


def overlapping_permutation(x):
    i = torch.as_strided(torch.randperm(5), (5,), (0,))
    x.index_put_((i,), x[i] + 1., accumulate=False)
    return x


def expanded_writes(x):
    i = torch.tensor([0, 2])
    e = x.expand(3, 4)
    return (e.index_add(0, i, torch.ones(2, 4)), e.index_copy(0, i, torch.ones(2, 4)), e.index_fill(0, i, 7.),
            e.index_put((i,), torch.ones(2, 4), accumulate=True), e.index_put((i,), torch.full((2, 4), 5.)))


def transposed_results(a, b):
    return (torch.copysign(a, b - 1.5), torch.floor_divide(a, b), torch.div(a, b, rounding_mode="floor"),
            torch.addr(a, b[:, 0], b[0], beta=0.), a.put(torch.tensor([0, 7]), torch.tensor([1., 2.])))


def rolled_as_strided(x):
    return torch.as_strided(torch.roll(x, shifts=-1, dims=0), (5, 10), (4, 1), 0)


def like(x):
    return torch.ones_like(x), torch.zeros_like(x), torch.full_like(x, 3), torch.rand_like(x), torch.empty_like(x).fill_(1)


def normalised(x):
    a = torch.einsum("i...,i->i...", x, torch.ones(5)).neg().exp()
    return torch.einsum("i,i...->i...", 1 / torch.einsum("i...->i", a), a)


calls(198102, "writing through windows with gaps sets the rest to 0", "aot", gapped,
      lambda: (torch.arange(1, 25).reshape(4, 6),))
calls(198095, "a view of an aliased argument is made from the other argument", "aot", writes_base, base_of_views(4, 6))
calls(195422, "a write through dropout's own argument is lost", "inductor", dropout_then_write, uniform(2, 2))
calls(133512, "strides of a changed argument are forgotten", "aot", write_then_as_strided,
      lambda: (torch.arange(10)[::2],))
calls(104505, "as_strided of a view is taken relative to the view", "aot", diagonal_as_strided, uniform(2, 4))
calls(142118, "strides of a changed view of a copy", "aot", masked_view, uniform(4, 4))
calls(94777, "an in-place operator changes the result before it", "inductor", log_twice, lambda: (torch.tensor(3.),))
calls(93283, "stack of one tensor is an alias of it", "inductor", stack_then_silu, lambda: (torch.tensor([1., 1.]),))
calls(93824, "a squeezed view misses the in-place change of its base", "inductor", squeezed_reciprocal,
      uniform(1, 1, 1, 1, 12))
calls(93377, "an expanded view misses the in-place change of its base", "inductor", expand_then_div, uniform(3))
calls(104020, "a resized permutation is fused into a linear layer", "inductor", permuted_resize,
      lambda: (torch.randn(1, 2, 2), torch.randn(2, 2), torch.randn(2)))
calls(122457, "a buffer with a complex and a real view is reused", "inductor", complex_view_twice,
      lambda: (torch.zeros(4, 2),))
calls(183894, "argmin of a transposed tensor after an in-place operator", "inductor", sine_then_argmin,
      lambda: (torch.randn(5, 7),))
calls(198270, "index_put_ and then a sum with the flipped tensor", "inductor", put_then_flip, uniform(4, 8))
calls("198270 (second program)", "index_copy_ and then a shift by one row", "inductor", copy_then_flip, uniform(4, 8))
calls(183575, "lerp_ of a buffer that a later step reads", "inductor", lerp_and_update,
      lambda: tuple(torch.randn(8, 8) for _ in range(3)))
calls(174074, "x[[0, 0]] += x[[0, 0]] adds twice", "inductor", doubled_rows, lambda: (torch.rand(1, 2).double(),))
calls(138908, "y[x] += y[x] adds twice for an index that occurs twice", "inductor", doubled_by_index,
      lambda: (torch.full((1, 2), -10), torch.randn(2, 32)))
calls(175903, "an overlapping view of a permutation is taken as a permutation", "inductor", overlapping_permutation,
      lambda: (torch.zeros(5),))
calls(183986, "index_add, index_copy, index_fill and index_put of an expanded tensor", "inductor", expanded_writes,
      lambda: (torch.rand(1, 4),))
calls(198364, "results for a transposed argument are contiguous", "aot", transposed_results,
      lambda: (torch.rand(6, 5).mT, torch.rand(5, 6) + 1))
calls(183771, "nearest interpolation of a permuted tensor is contiguous", "inductor",
      lambda x: F.interpolate(x, size=(5, 6, 7), mode="nearest"),
      lambda: (torch.randn(2, 5, 2, 3, 2).permute(0, 4, 1, 2, 3),))
calls(174963, "as_strided of a rolled channels-last tensor", "inductor", rolled_as_strided,
      lambda: (torch.arange(100).reshape(2, 5, 2, 5).to(memory_format=torch.channels_last),))
calls(197815, "*_like do not keep the stride of a size 1", "inductor", like, lambda: (torch.randn(1, 5).t(),))
calls(113172, "bessel functions of a transposed tensor give other strides", "aot",
      lambda x: (torch.special.bessel_y0(x), torch.special.bessel_j1(x)), lambda: (torch.rand(9, 10).t() + 0.5,))
calls(147261, "interpolate by a factor gives one element less with sizes that vary", "aot",
      lambda x: F.interpolate(x, scale_factor=1 / 300, mode="linear"), lambda: (torch.randn(1, 2, 396 * 300),),
      dynamic=True)
calls(159154, "a buffer of einsum is too small", "inductor", normalised, lambda: (torch.rand(5, 1, 32, 32),))
trains("94777 (with a gradient)", "an in-place operator after its argument was used", "aot",
       lambda x: (lambda y: (y + 1, y.mul_(2)))(x * 3), lambda: (torch.randn(4, requires_grad=True),))
