"""Gradients of compiled functions have eager's bits also where values and cotangents are not row-major."""
import random

import pytest

import cresset as torch
import cresset.nn.functional as F

CHANNELS = 8
FIRST = {"scale": lambda z, w, b: z * w[:, None, None],
         "shift": lambda z, w, b: z + b[:, None, None],
         "batch norm": lambda z, w, b: F.batch_norm(z, None, None, w, b, training=True),
         "group norm": lambda z, w, b: F.group_norm(z, 4, w, b),
         "convolution": lambda z, w, b: F.conv2d(z, w[:, None, None, None].expand(-1, 1, 3, 3), b, padding=1, groups=CHANNELS)}
MOVES = {"tokens": lambda z: z.flatten(2).transpose(1, 2), "last": lambda z: z.permute(0, 2, 3, 1),
         "plain": lambda z: z.transpose(1, 3).contiguous(), "rows": lambda z: z.transpose(1, 2).reshape(-1, 9, CHANNELS)}
THEN = {"add": lambda x, w, b: x + b,
        "norm and rest": lambda x, w, b: x + F.layer_norm(x, (CHANNELS,), w, b),
        "copy and rest": lambda x, w, b: (x.contiguous() * w).exp() * x,
        "linear and rest": lambda x, w, b: x + F.linear(F.gelu(x), w.diag(), b),
        "twice": lambda x, w, b: x * w + (x + b).tanh() + x}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("first", FIRST)
def test_gradients_have_eager_bits(first, move, then):
    def f(z, w, b, v, c):
        return THEN[then](MOVES[move](FIRST[first](z, w, b)), v, c)

    def gradients(g, step):
        torch.manual_seed(step)
        leaves = [torch.randn(2, CHANNELS, 9, 7, requires_grad=True)]
        leaves += [(torch.rand(CHANNELS) + 0.5).requires_grad_() for _ in range(4)]
        out = g(*leaves)
        out.backward(torch.randn_like(out))
        return [t.grad for t in leaves]
    compiled = torch.compile(f, fullgraph=True)
    for step in range(3):
        for a, b in zip(gradients(f, step), gradients(compiled, step), strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.equal(a, b)


LOSSES = {"sum": lambda y, v: y.sum(), "mean": lambda y, v: y.mean(), "weighted": lambda y, v: (y * v).sum(),
          "reversed": lambda y, v: y.permute([*reversed(range(y.ndim))]).contiguous().square().sum(),
          "last": lambda y, v: y.select(-1, 0).square().sum() if y.ndim else y * 2,
          "two kinds": lambda y, v: y.sum() if v.flatten()[0] > 0 else (y * v).sum()}


def draw_program(seed):
    """A fold of a product of permuted and expanded operands: (function, its leaves, what its result is weighted by)."""
    draw, n = random.Random(seed), random.Random(seed).choice([2, 3, 4])
    size = [draw.choice([1, 2, 3, 5, 8, 17]) for _ in range(n)]
    orders = [draw.sample(range(n), n) for _ in range(2)]
    back = [[order.index(i) for i in range(n)] for order in orders]
    narrow = [1 if draw.random() < .4 else k for k in size]
    dims, keep, kind = draw.sample(range(n), draw.randint(1, n)), draw.random() < .5, draw.randrange(4)

    def f(x, w):
        a = x.permute(back[0]).expand(size) * w.permute(back[1])
        if kind == 0:
            return a.sum(dims, keepdim=keep)
        if kind == 1:
            return a.exp().mean(dims, keepdim=keep)
        if kind == 2:
            return a.softmax(dims[0]) * a
        return (a.tanh().sum(dims, keepdim=True) * a).sum(dims[0])

    torch.manual_seed(seed)
    leaves = [torch.randn([size_of[i] for i in order], requires_grad=True)
              for size_of, order in zip((narrow, size), orders)]
    return f, leaves, torch.randn_like(f(*leaves))


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_have_eager_bits_for_cotangents_of_any_layout(loss):
    """A loss outside gives the call a cotangent that is expanded, permuted or a part; eager's sums follow its order."""
    for seed in range(60):
        f, leaves, v = draw_program(seed)

        def gradients(g, sign):
            for t in leaves:
                t.grad = None
            LOSSES[loss](g(*leaves), v * sign).backward()
            return [t.grad for t in leaves]
        compiled = torch.compile(f)
        for call in range(4):
            wanted, found = gradients(f, 1 - call % 2 * 2), gradients(compiled, 1 - call % 2 * 2)
            assert all(map(torch.equal, wanted, found)), (seed, call)
        torch.compiler.reset()
