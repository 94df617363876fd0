"""Dropped weights in attention: the kernels beside the composition, which heads of three dims take."""
import pytest

import cresset as torch

attention = torch.nn.functional.scaled_dot_product_attention


def results(heads, gradient, causal):
    leaves = [t.detach().requires_grad_() for t in heads]
    torch.cuda.manual_seed(5)
    y = attention(*leaves, dropout_p=0.3, is_causal=causal)
    return [t.float().cpu() for t in (y, *torch.autograd.grad(y, leaves, gradient.reshape(y.shape)))]


@pytest.mark.parametrize("dtype, batch, heads, queries, keys, width, causal", [
    (torch.bfloat16, 2, 1, 70, 48, 64, False), (torch.float16, 1, 2, 130, 144, 72, True)], ids=str)
def test_kernels_drop_what_the_composition_drops(dtype, batch, heads, queries, keys, width, causal):
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(batch, heads, n, width, device="cuda").to(dtype) for n in (queries, keys, keys, queries))
    by_kernels = results((q, k, v), g, causal)
    flat = results([t.flatten(0, 1) for t in (q, k, v)], g, causal)
    for x, y in zip(by_kernels, flat):
        assert (x.flatten() - y.flatten()).abs().max() < (0.03 if dtype == torch.bfloat16 else 0.006)


def test_kernels_are_called_only_for_dropout_between_0_and_1():
    q = torch.randn(1, 1, 16, 16, device="cuda", dtype=torch.float16)
    for p, name in ((0.5, True), (1.0, False)):
        x = q.clone().requires_grad_()
        y = attention(x, x, x, dropout_p=p)
        assert (y.grad_fn.name() == "ScaledDotProductFlashAttentionBackward0") == name
    assert not y.any()
