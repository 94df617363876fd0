"""NumPy at the edge of compiled functions: arrays as arguments, globals and attributes, shared memory, random numbers."""
import numpy as np

import cresset as torch
from cresset import nn

from .harness import program, steps

FAMILY = "arrays"
ones = torch.ones(2)
table = np.arange(4.)


def row(*values):
    return np.array(values, dtype=np.float32)


@program(FAMILY)
def array_argument(compile):
    g = compile(lambda a: torch.from_numpy(a) * 2 + 1)
    yield from steps(g, (row(1, 2),), (row(3, 4),), (row(1, 2, 3),), (row(5, 6),))


@program(FAMILY)
def array_argument_beside_a_tensor(compile):
    g = compile(lambda x, a: x + torch.as_tensor(a).sum())
    yield from steps(g, (ones, row(1, 2)), (ones, row(5, 2)), (ones, [1., 2.]), (ones, row(9)))


@program(FAMILY)
def global_array_that_is_written(compile):
    global table
    table = np.arange(4.)
    g = compile(lambda x: x + torch.from_numpy(table)[:2])

    def replace():
        global table
        table = np.full(4, 7.)
    yield from steps(g, (ones,), (ones,), lambda: table.__setitem__(0, 50.), (ones,), replace, (ones,))


@program(FAMILY)
def attribute_array_that_is_written(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = row(1, 2)

        def forward(self, x):
            return x * torch.from_numpy(self.scale)
    m = Model()
    f = compile(m)

    def change():
        m.scale *= 3
    yield from steps(f, (ones,), (ones,), change, (ones,), lambda: setattr(m, "scale", row(9, 9)), (ones,))


@program(FAMILY)
def result_as_an_array(compile):
    g = compile(lambda x: (x * 2).numpy())
    for i in range(3):
        a = g(ones * i)
        yield type(a).__name__, a.dtype.name, a.tolist()


@program(FAMILY)
def array_that_shares_memory_with_an_argument(compile):
    def f(x):
        a = x.numpy()
        a += 1
        return x * 10
    g = compile(f)
    for i in range(3):
        x = torch.full((2,), float(i))
        yield g(x), x


@program(FAMILY)
def tensor_that_shares_memory_with_an_array(compile):
    a = row(1, 2)
    t = torch.from_numpy(a)
    g = compile(lambda x: x + t)

    def change():
        a[0] = 40
    yield from steps(g, (ones,), (ones,), change, (ones,))


@program(FAMILY)
def write_through_from_numpy(compile):
    a = row(1, 2)

    def f(x):
        torch.from_numpy(a).add_(x)
        return x + float(a[0])
    g = compile(f)
    for _ in range(3):
        yield g(ones), a.tolist()


@program(FAMILY)
def numpy_numbers_as_arguments(compile):
    g = compile(lambda x, n: x * n + 1)
    yield from steps(g, (ones, np.float32(2)), (ones, np.float32(3)), (ones, np.int64(2)), (ones, 2), (ones, np.float64(2.5)))


@program(FAMILY)
def numpy_number_as_a_size(compile):
    g = compile(lambda x, n: x.expand(n, 2).sum(0) + x.reshape(np.int64(1), -1)[0])
    yield from steps(g, (ones, np.int64(2)), (ones, np.int64(3)), (ones, 3))


@program(FAMILY)
def numpy_random_inside(compile):
    def f(x):
        return x * float(np.random.rand()) + torch.from_numpy(np.random.randn(2))
    np.random.seed(0)
    g = compile(f)
    yield from steps(g, (ones,), (ones,), (ones,), lambda: np.random.seed(0), (ones,))


@program(FAMILY)
def numpy_generator_inside(compile):
    source = np.random.default_rng(3)
    g = compile(lambda x: x + source.integers(0, 100))
    yield from steps(g, (ones,), (ones,), (ones,))


@program(FAMILY)
def branch_on_an_array(compile):
    flags = np.array([True, False])
    g = compile(lambda x: x + 1 if flags.any() else x - 1)
    yield from steps(g, (ones,), (ones,), lambda: flags.fill(False), (ones,))


@program(FAMILY)
def numpy_function_of_sizes(compile):
    g = compile(lambda x: x * int(np.prod(x.shape)) + np.sqrt(x.shape[0]))
    yield from steps(g, (ones,), (torch.ones(3, 2),), (torch.ones(4, 2),), (ones,))


@program(FAMILY)
def index_by_an_array(compile):
    order = np.array([1, 0])
    g = compile(lambda x: x[order] + x[np.array([True, False])])

    def change():
        order[:] = (0, 0)
    x = torch.arange(2.)
    yield from steps(g, (x,), (x,), change, (x,))


@program(FAMILY)
def array_operator_with_a_tensor(compile):
    a = row(2, 3)
    g = compile(lambda x: x * torch.tensor(a) + torch.tensor(a.tolist()))

    def change():
        a[1] = 100
    yield from steps(g, (ones,), (ones,), change, (ones,))


@program(FAMILY)
def dict_of_arrays(compile):
    g = compile(lambda d: sum((torch.from_numpy(v) for v in d.values()), torch.zeros(2)))
    yield from steps(g, ({"a": row(1, 2)},), ({"a": row(3, 4)},), ({"b": row(3, 4), "a": row(1, 1)},))


@program(FAMILY)
def numpy_dtype_decides(compile):
    g = compile(lambda x, d: x.to(torch.float64) if d == np.float64 else x * 2)
    yield from steps(g, (ones, np.float64), (ones, np.float32), (ones, np.dtype("float64")))


@program(FAMILY)
def detached_array_in_training(compile):
    w = torch.ones(2, requires_grad=True)

    def f(x):
        scale = float((w * 2).detach().numpy().max())
        return (x * w).sum() * scale
    g = compile(f)
    for i in range(3):
        w.grad = None
        loss = g(ones * i)
        loss.backward()
        yield loss, w.grad
        with torch.no_grad():
            w.add_(1)


@program(FAMILY)
def array_protocol_of_a_class(compile):
    class Data:
        v = 1.

        def __array__(self, dtype=None, copy=None):
            return np.full(2, self.v, dtype=np.float32)
    d = Data()
    g = compile(lambda x: x + torch.as_tensor(np.asarray(d)))
    yield from steps(g, (ones,), (ones,), lambda: setattr(d, "v", 5.), (ones,))
