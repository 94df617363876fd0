"""flex_attention and data parallelism beside the same computations by other functions."""
import math

import cresset as torch
import pytest
from cresset.nn.attention.flex_attention import (AuxRequest, BlockMask, create_block_mask,
                                                 flex_attention)
from cresset.nn.parallel import gather, parallel_apply, replicate, scatter


def inputs(heads=2, kv_heads=2, length=7):
    made = []
    for i, h in enumerate((heads, kv_heads, kv_heads)):
        n = h * length * 8
        made.append(torch.arange(float(n)).add(i).sin().reshape(1, h, length, 8).requires_grad_())
    return made


def agree(got, want):
    return torch.allclose(got, want, rtol=1e-4, atol=1e-5)


def gradients(out, tensors):
    return torch.autograd.grad(out.square().sum(), tensors)


def causal(b, h, q, k):
    return q >= k


@pytest.mark.parametrize("block", [1, 2, 3, 128])
def test_a_causal_block_mask_equals_causal_attention(block):
    q, k, v = inputs()
    mask = create_block_mask(causal, None, None, 7, 7, device="cpu", BLOCK_SIZE=block)
    got = flex_attention(q, k, v, block_mask=mask)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert agree(got, want)
    for a, b in zip(gradients(got, (q, k, v)), gradients(want, (q, k, v))):
        assert agree(a, b)


def test_blocks_alone_decide_without_a_mask_mod():
    q, k, v = inputs(length=4)
    first = BlockMask.from_kv_blocks(torch.tensor([[[1, 1]]]), torch.tensor([[[[1, 0], [0, 1]]]]), BLOCK_SIZE=2)
    allowed = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]).bool()
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, allowed)
    assert agree(flex_attention(q, k, v, block_mask=first), want)


def test_full_blocks_do_not_ask_the_mask_mod():
    q, k, v = inputs(length=4)
    none, all_full = torch.zeros(1, 1, 1, dtype=torch.int32), torch.ones(1, 1, 1, dtype=torch.int32)
    columns = torch.zeros(1, 1, 1, 1, dtype=torch.int32)
    mask = BlockMask.from_kv_blocks(none, columns, all_full, columns, BLOCK_SIZE=4, mask_mod=causal)
    assert agree(flex_attention(q, k, v, block_mask=mask), flex_attention(q, k, v))


def test_queries_without_a_score_give_zeros_and_no_nan_gradients():
    q, k, v = inputs(length=4)
    mask = create_block_mask(lambda b, h, i, j: (i >= 2) & (j >= 0), None, None, 4, 4, device="cpu", BLOCK_SIZE=2)
    out, aux = flex_attention(q, k, v, block_mask=mask, return_aux=AuxRequest(lse=True, max_scores=True))
    assert out[:, :, :2].eq(0).all() and out[:, :, 2:].ne(0).any()
    assert aux.lse[0, 0, 0] == -math.inf and aux.max_scores[0, 0, 0] == -math.inf
    assert all(g.isfinite().all() for g in gradients(out, (q, k, v)))


def test_a_score_mod_sees_indices_and_captured_tensors_get_gradients():
    q, k, v = inputs()
    slopes = torch.tensor([0.1, -0.3], requires_grad=True)
    got = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (i - j))
    distance = torch.arange(7).unsqueeze(1) - torch.arange(7)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, slopes.view(1, 2, 1, 1) * distance)
    assert agree(got, want)
    assert agree(gradients(got, slopes)[0], gradients(want, slopes)[0])


def test_grouped_heads_share_keys():
    q, k, v = inputs(heads=4)
    got, aux = flex_attention(q, k, v, enable_gqa=True, return_aux=AuxRequest(lse=True))
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / math.sqrt(8)
    assert agree(got, scores.softmax(-1) @ v.repeat_interleave(2, 1))
    assert agree(aux.lse, scores.exp().sum(-1).log())


def test_replicas_compute_shares_and_gradients_reach_the_module():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2).eval())
    x = torch.arange(12.).reshape(4, 3)
    devices = ["cpu", "cpu"]
    parts = scatter((x, {"scale": 2}), devices)
    assert [p[0].shape for p in parts] == [(2, 3), (2, 3)] and parts[1][1] == {"scale": 2}
    outputs = parallel_apply(replicate(module, devices), [p[0] for p in parts], devices=devices)
    got = gather(outputs, "cpu")
    assert agree(got, module(x))
    got.sum().backward()
    parallel = module[0].weight.grad.clone()
    module.zero_grad()
    module(x).sum().backward()
    assert agree(parallel, module[0].weight.grad)


def test_an_exception_in_a_replica_names_it():
    class Failing(torch.nn.Module):
        def forward(self, x):
            return 1 / 0
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in replica 1 on device 7."):
        parallel_apply([torch.nn.ReLU(), Failing()], [torch.ones(1)] * 2, devices=[0, 7])


def test_gather_of_nested_results():
    one, two = {"a": torch.ones(1), "b": (torch.zeros(2), None)}, {"a": torch.ones(2), "b": (torch.ones(1), None)}
    got = gather([one, two], "cpu")
    assert got["a"].tolist() == [1, 1, 1] and got["b"][0].tolist() == [0, 0, 1] and got["b"][1] is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal, masked, shared", [(True, None, 4), (False, None, 2), (False, torch.bool, 4), (False, torch.float32, 1)])
def test_half_types_are_near_float32(dtype, causal, masked, shared):
    """The entry of half types, its derivative, and a mask's derivative, beside the composition in float32."""
    torch.manual_seed(3)
    q, k, v = torch.randn(2, 4, 9, 16), torch.randn(2, shared, 11, 16), torch.randn(2, shared, 11, 16)
    mask = None if masked is None else torch.randn(2, 1, 9, 11) > -0.5 if masked is torch.bool else torch.randn(4, 1, 11)
    leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
    wide = [x.detach().float().requires_grad_() for x in leaves]
    if masked is torch.float32:
        leaves.append(mask.clone().requires_grad_())
        wide.append(mask.clone().requires_grad_())
    g = torch.randn(2, 4, 9, 16).to(dtype)
    made = []
    for xs in (leaves, wide):
        y = torch.nn.functional.scaled_dot_product_attention(*xs[:3], xs[3] if len(xs) > 3 else mask, is_causal=causal, enable_gqa=True)
        made.append((y.detach(), *torch.autograd.grad(y, xs, g.to(y.dtype))))
    eps = 2.0 ** -8 if dtype == torch.bfloat16 else 2.0 ** -11
    for have, want in zip(*made):
        assert have.shape == want.shape and (have.float() - want).abs().max() <= 8 * eps * want.abs().max()
