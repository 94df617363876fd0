"""Gradients of compiled functions have eager's bits also where values and cotangents are not row-major."""
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
