"""The host's attention of float32 heads: values and gradients beside the definition in float64, and the layouts,
masks and sizes at their limits."""
import itertools

import cresset as torch
import pytest

F = torch.nn.functional


def definition(q, k, v, mask=None, causal=False, scale=None):
    """Attention by products and a softmax; rows without a shown key are zeros."""
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    p = torch.softmax(scores, -1)
    return torch.where(p.isnan(), 0.0, p) @ v


def heads(count, rows, width, layout=0):
    sizes = [(2, count, rows, width), (2, rows, count, width), (2, count, width, rows)][layout]
    x = torch.randn(*sizes)
    return (x, x.transpose(1, 2), x.transpose(2, 3))[layout]


def check(rows, keys, width, mask=None, key_heads=4, layout=0, **more):
    given = heads(4, rows, width, layout), heads(key_heads, keys, width, layout), heads(key_heads, keys, width, layout)
    one = [x.detach().requires_grad_() for x in given]
    two = [x.detach().double().requires_grad_() for x in given]
    got = F.scaled_dot_product_attention(*one, attn_mask=mask, is_causal=more.get("causal", False),
                                         scale=more.get("scale"), enable_gqa=key_heads != 4)
    wide = mask.double() if mask is not None and mask.dtype != torch.bool else mask
    want = definition(*two, wide, **more)
    g = torch.randn(got.shape)
    pairs = [(got, want), *zip(torch.autograd.grad(got, one, g), torch.autograd.grad(want, two, g.double()))]
    for a, b in pairs:
        assert a.shape == b.shape
        assert torch.allclose(a.double(), b, rtol=1e-4, atol=2e-5), (rows, keys, width, (a - b).abs().max())


@pytest.mark.parametrize("rows,keys", [(1, 1), (1, 70), (5, 3), (8, 20), (9, 9), (24, 25), (64, 64), (65, 33), (33, 65),
                                       (200, 300), (0, 5), (5, 0)])
def test_values_and_gradients_are_those_of_the_definition(rows, keys):
    for width, causal in itertools.product((1, 16, 33), (False, True)):
        check(rows, keys, width, causal=causal, layout=width % 3, key_heads=(4, 2, 1)[rows % 3], scale=(None, 0.7)[causal])


@pytest.mark.parametrize("sizes", [(9, 21), (21,), (1, 21), (9, 1), (4, 9, 21), (2, 1, 9, 21), (2, 4, 1, 1), (1, 1, 9, 21)])
def test_masks_are_broadcast(sizes):
    check(9, 21, 8, torch.rand(*sizes) > 0.3)
    check(9, 21, 8, torch.randn(*sizes))
    if sizes == (9, 21):
        check(9, 21, 8, torch.randn(21, 9).t())
        check(9, 21, 8, torch.zeros(9, 21, dtype=torch.bool))


def test_a_mask_that_does_not_fit_is_refused_or_widens_the_result():
    q = torch.randn(1, 2, 5, 4)
    for sizes in ((4, 5), (5, 4), (3, 5, 5), (2, 3, 5, 5)):
        with pytest.raises(RuntimeError, match="must match the size"):
            F.scaled_dot_product_attention(q, q, q, torch.ones(*sizes, dtype=torch.bool))
    wide = F.scaled_dot_product_attention(q, q, q, torch.zeros(3, 1, 5, 5))
    assert wide.shape == (3, 2, 5, 4) and torch.allclose(wide[1], F.scaled_dot_product_attention(q, q, q)[0], atol=1e-6)


def test_bits_do_not_depend_on_threads_layouts_or_other_heads():
    q, k, v = heads(3, 150, 40), heads(3, 170, 40), heads(3, 170, 40)
    g, found = torch.randn(2, 3, 150, 40), []
    threads = torch.get_num_threads()
    for n in (1, 2, 5):
        torch.set_num_threads(n)
        for layout in (0, 1):
            one = [x.transpose(1, 2).contiguous().transpose(1, 2) if layout else x.clone() for x in (q, k, v)]
            one = [x.requires_grad_() for x in one]
            y = F.scaled_dot_product_attention(*one, is_causal=True)
            found.append((y, *torch.autograd.grad(y, one, g)))
    torch.set_num_threads(threads)
    alone = F.scaled_dot_product_attention(q[1:, 2:], k[1:, 2:], v[1:, 2:], is_causal=True)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))
    assert torch.equal(alone, found[0][0][1:, 2:])


def test_numbers_that_are_not_finite_stay_in_their_rows():
    q, k, v = heads(1, 30, 8), heads(1, 30, 8), heads(1, 30, 8)
    q[0, 0, 3, 2] = torch.nan
    k[1, 0, 20, 1] = torch.inf
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    bad = y.isnan().any(-1)
    assert bad[0, 0].nonzero().flatten().tolist() == [3] and not bad[1, 0, :20].any()
    assert torch.equal(bad, definition(q.double(), k.double(), v.double(), causal=True).isnan().any(-1) | bad)


def test_second_derivatives_tangents_and_batches_of_calls():
    given = heads(2, 6, 4), heads(2, 6, 4), heads(2, 6, 4)

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def second(xs):
        one = [x.detach().requires_grad_() for x in xs]
        first = torch.autograd.grad(f(*one).sin().sum(), one, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), one)
    wide = tuple(x.double() for x in given)
    for a, b in zip(second(given), second(wide)):
        assert torch.allclose(a.double(), b, rtol=1e-3, atol=1e-4)
    tangents = tuple(torch.randn(*x.shape) for x in given)
    _, a = torch.func.jvp(f, given, tangents)
    _, b = torch.func.jvp(f, wide, tuple(x.double() for x in tangents))
    assert torch.allclose(a.double(), b, rtol=1e-4, atol=1e-5)
    many = [torch.stack([x, x + 1]) for x in given]
    assert torch.allclose(torch.func.vmap(f)(*many)[1], f(*[x[1] for x in many]), atol=1e-6)
