"""Elements that are written other than by a deferred call, between calls that wait.

Each writer changes a tensor; before and after it, reads of the tensor wait.  Results are those of eager calls."""
import contextlib
import ctypes
import threading

import numpy
import pytest

import cresset as torch
from cresset import nn


def in_place(b):
    b.add_(1)
    return b * 2


def through_a_view(b):
    b.view(-1)[1:].mul_(3)
    return b.sum()


def copied(b):
    b.copy_(b.flip(0))
    return b + 1


def to_out(b):
    torch.add(b, 2, out=b)
    return b * 1


class Writes(nn.Module):
    def forward(self, b):
        b.add_(2)
        return b * 3


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, b):
        ctx.mark_dirty(b.add_(5))
        return b

    @staticmethod
    def backward(ctx, g):
        return g


def optimizer(make):
    def step(b):
        p = nn.Parameter(b)
        p.grad = torch.ones_like(b)
        make([p]).step()
    return step


def accumulated(b):
    p = torch.ones(2, 3, requires_grad=True)
    p.grad = b
    (p * 3).sum().backward()


def running_mean(b):
    m = nn.BatchNorm1d(3)
    m.running_mean = b[0]
    torch.compile(m)(torch.arange(12.).reshape(4, 3))


def by_thread(b):
    t = threading.Thread(target=lambda: b.add_(3))
    t.start()
    t.join()


COMPILED = {f"{f.__name__} {name}": (f, options) for f in (in_place, through_a_view, copied, to_out) for name, options in {
    "default": {}, "fullgraph": {"fullgraph": True}, "dynamic": {"dynamic": True}, "aot_eager": {"backend": "aot_eager"},
    "eager": {"backend": "eager"}}.items()}
WRITERS = {
    "method": lambda b: b.add_(1), "item": lambda b: b.__setitem__((0, 1), 9), "data": lambda b: b.data.add_(1),
    "numpy": lambda b: b.numpy().__setitem__(0, 9), "buffer": lambda b: numpy.asarray(b).__iadd__(1),
    "address": lambda b: ctypes.memset(b.data_ptr(), 0, 4), "dlpack": lambda b: torch.from_dlpack(b).add_(4),
    "storage": lambda b: b.untyped_storage().fill_(0), "thread": by_thread, "script": torch.jit.script(Writes()),
    "trace": torch.jit.trace(Writes(), (torch.ones(2, 3),), check_trace=False), "function": Marked.apply,
    "foreach": lambda b: torch._foreach_add_([b], [torch.ones(2, 3)]), "gradient": accumulated, "running mean": running_mean,
    "SGD": optimizer(lambda p: torch.optim.SGD(p, lr=0.5)), "Adam": optimizer(lambda p: torch.optim.Adam(p, fused=True)),
}
READS = [lambda b: b * 2, torch.clone, torch.sum, lambda b: b.view(-1)[1:3] + 0, lambda b: b @ torch.ones(3, 2)]


def run(write, region):
    seen = []
    with region():
        b = torch.arange(6.).reshape(2, 3) + 1
        whole = b.view(-1)
        for k in range(4):
            seen += [read(b) for read in READS]
            if k % 2:
                b.mul_(1.5)
            write(b)
            seen += [whole + 1, *(read(b) for read in READS)]
    return [t.tolist() for t in seen]


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_between_reads_that_wait(name):
    assert run(WRITERS[name], torch.lazy) == run(WRITERS[name], contextlib.nullcontext)


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_function_writes_between_reads_that_wait(name):
    f, options = COMPILED[name]
    compiled = torch.compile(f, **options)
    run(compiled, contextlib.nullcontext)  # the function may skip Python from now on
    assert run(compiled, torch.lazy) == run(f, contextlib.nullcontext)


def sparse_values(x, values, region):
    """Calls with x whose stored values wait or are read by calls that wait."""
    seen = []
    with region():
        v = values(x)
        for call in (lambda: x.to_dense(), lambda: (x * 2).to_dense(), lambda: x.sum().reshape(1), lambda: x @ torch.ones(2, 2)):
            v.mul_(3)
            seen.append(call())
            v.add_(1)
        for write in (lambda: x.mul_(2), lambda: x.zero_(), lambda: v.fill_(2.), lambda: x.neg_(), lambda: x.copy_(x * 3)):
            seen += [v * 1, v.sum()]
            write()
            seen += [v * 1, x.to_dense()]
        index = torch.tensor([[0, 1], [1, 0]]).add_(0)
        made = torch.sparse_coo_tensor(index + 0, v * 7, (2, 2))
        v.mul_(5)
        seen += [made.to_dense(), made @ torch.ones(2, 2), made.coalesce().values() * 1]
    return [t.tolist() for t in seen]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_values_of_sparse_tensors_that_wait(layout):
    values = (lambda x: x._values()) if layout == torch.sparse_coo else (lambda x: x.values())
    make = lambda: torch.eye(2).to_sparse(layout=layout)
    assert sparse_values(make(), values, torch.lazy) == sparse_values(make(), values, contextlib.nullcontext)
