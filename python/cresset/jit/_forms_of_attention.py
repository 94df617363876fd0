"""Attention and transformers of torch.nn as the compiler reads them (_forms.py)."""
import math
import warnings
from typing import List, Optional, Tuple

import cresset as torch
from cresset import Tensor

from ._forms import _method, _of

# --- masks ---


@_of
def _none_or_dtype(input: Optional[Tensor]) -> Optional[int]:
    if input is None:
        return None
    return input.dtype


@_of
def _canonical_mask(mask: Optional[Tensor], mask_name: str, other_type: Optional[int], other_name: str, target_type: int,
                    check_other: bool = True) -> Optional[Tensor]:
    if mask is None:
        return None
    is_float = torch.is_floating_point(mask)
    assert is_float or mask.dtype == torch.bool, f"only bool and floating types of {mask_name} are supported"
    if check_other and other_type is not None:
        if mask.dtype != other_type:
            warnings.warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.")
    if is_float:
        return mask
    return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def check_shapes(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor], attn_mask: Optional[Tensor],
                 num_heads: int) -> bool:
    ndim = query.dim()
    assert ndim == 2 or ndim == 3, f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor"
    kind = "batched (3-D)" if ndim == 3 else "unbatched (2-D)"
    assert key.dim() == ndim and value.dim() == ndim, \
        f"For {kind} `query`, expected `key` and `value` to be {ndim}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
    if key_padding_mask is not None:
        assert key_padding_mask.dim() == ndim - 1, \
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {ndim - 1}-D but found {key_padding_mask.dim()}-D tensor instead"
    if attn_mask is not None:
        assert attn_mask.dim() == 2 or attn_mask.dim() == 3, \
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        if ndim == 2 and attn_mask.dim() == 3:
            shape = [num_heads, query.size(0), key.size(0)]
            assert attn_mask.size() == shape, f"Expected `attn_mask` shape to be {shape} but got {attn_mask.size()}"
    return ndim == 3


def with_three_dims(attn_mask: Tensor, bsz: int, num_heads: int, tgt_len: int, src_len: int) -> Tensor:
    ndim = attn_mask.dim()
    if ndim != 2 and ndim != 3:
        raise RuntimeError(f"attn_mask's dimension {ndim} is not supported")
    shape = [tgt_len, src_len] if ndim == 2 else [bsz * num_heads, tgt_len, src_len]
    if attn_mask.size() != shape:
        raise RuntimeError(f"The shape of the {ndim}D attn_mask is {attn_mask.size()}, but should be {shape}.")
    return attn_mask.unsqueeze(0) if ndim == 2 else attn_mask


def widened(mask: Optional[Tensor]) -> Optional[Tensor]:
    if mask is None:
        return None
    return torch.nn.functional.pad(mask, [0, 1])


def merged_padding(attn_mask: Optional[Tensor], padding: Tensor, bsz: int, num_heads: int, src_len: int) -> Tensor:
    assert padding.size(0) == bsz, f"Expected key_padded_mask.shape[0] to be {bsz}, but got {padding.size(0)}"
    assert padding.size(1) == src_len, f"Expected key_padded_mask.shape[1] to be {src_len}, but got {padding.size(1)}"
    padding = padding.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1).reshape(bsz * num_heads, 1, src_len)
    if attn_mask is None:
        return padding
    return attn_mask + padding

# --- projections ---


def parts_of(projected: Tensor, parts: int, size: int) -> List[Tensor]:
    return torch.unbind(projected.unflatten(-1, [parts, size]).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous(), 0)


def projected_together(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    size = q.size(-1)
    if k is v:
        if q is k:
            all = parts_of(torch.nn.functional.linear(q, w, b), 3, size)
            return all[0], all[1], all[2]
        w_q, w_kv = w.split([size, size * 2])
        if b is None:
            q = torch.nn.functional.linear(q, w_q)
            both = parts_of(torch.nn.functional.linear(k, w_kv), 2, size)
        else:
            b_q, b_kv = b.split([size, size * 2])
            q = torch.nn.functional.linear(q, w_q, b_q)
            both = parts_of(torch.nn.functional.linear(k, w_kv, b_kv), 2, size)
        return q, both[0], both[1]
    w_q, w_k, w_v = w.chunk(3)
    return projected_apart(q, k, v, w_q, w_k, w_v, b)


def projected_apart(q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
                    b: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
    n = q.size(-1)
    assert w_q.size() == [n, n], f"expecting query weights shape of {(n, n)}, but got {w_q.size()}"
    assert w_k.size() == [n, k.size(-1)], f"expecting key weights shape of {(n, k.size(-1))}, but got {w_k.size()}"
    assert w_v.size() == [n, v.size(-1)], f"expecting value weights shape of {(n, v.size(-1))}, but got {w_v.size()}"
    if b is None:
        return torch.nn.functional.linear(q, w_q), torch.nn.functional.linear(k, w_k), torch.nn.functional.linear(v, w_v)
    b_q, b_k, b_v = b.chunk(3)
    return (torch.nn.functional.linear(q, w_q, b_q), torch.nn.functional.linear(k, w_k, b_k),
            torch.nn.functional.linear(v, w_v, b_v))


def by_heads(x: Tensor, rows: int, head_dim: int, static: Optional[Tensor], name: str) -> Tensor:
    if static is None:
        return x.view(x.size(0), rows, head_dim).transpose(0, 1)
    assert static.size(0) == rows, f"expecting static_{name}.size(0) of {rows}, but got {static.size(0)}"
    assert static.size(2) == head_dim, f"expecting static_{name}.size(2) of {head_dim}, but got {static.size(2)}"
    return static

# --- attention ---


def attended(q: Tensor, k: Tensor, v: Tensor, attn_mask: Optional[Tensor], dropout_p: float) -> Tuple[Tensor, Tensor]:
    q = q * math.sqrt(1.0 / float(q.size(-1)))
    if attn_mask is not None:
        weights = torch.baddbmm(attn_mask, q, k.transpose(-2, -1))
    else:
        weights = torch.bmm(q, k.transpose(-2, -1))
    weights = torch.softmax(weights, -1)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    return torch.bmm(weights, v), weights


@_of
def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Optional[Tensor],
        in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor], bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float,
        out_proj_weight: Tensor, out_proj_bias: Optional[Tensor], training: bool = True, key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True, attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None, v_proj_weight: Optional[Tensor] = None,
        static_k: Optional[Tensor] = None, static_v: Optional[Tensor] = None, average_attn_weights: bool = True,
        is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    batched = check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_key, same_value = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same_key else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.size()
    src_len = key.size(0)
    key_padding_mask = torch.nn.functional._canonical_mask(
        key_padding_mask, "key_padding_mask", torch.nn.functional._none_or_dtype(attn_mask), "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                           "`generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = torch.nn.functional._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and key_padding_mask is None
    head_dim = embed_dim // num_heads
    assert embed_dim == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}"
    assert head_dim * num_heads == embed_dim, f"embed_dim {embed_dim} not divisible by num_heads {num_heads}"
    if use_separate_proj_weight:
        assert key.size()[:2] == value.size()[:2], \
            f"key's sequence and batch dims {key.size()[:2]} do not match value's {value.size()[:2]}"
        assert q_proj_weight is not None, "use_separate_proj_weight is True but q_proj_weight is None"
        assert k_proj_weight is not None, "use_separate_proj_weight is True but k_proj_weight is None"
        assert v_proj_weight is not None, "use_separate_proj_weight is True but v_proj_weight is None"
        q, k, v = projected_apart(query, key, value, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias)
    else:
        assert key.size() == value.size(), f"key shape {key.size()} does not match value shape {value.size()}"
        assert in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None"
        q, k, v = projected_together(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = with_three_dims(attn_mask, bsz, num_heads, tgt_len, src_len)
    if bias_k is not None and bias_v is not None:
        assert static_k is None, "bias cannot be added to static key."
        assert static_v is None, "bias cannot be added to static value."
        k = torch.cat([k, bias_k.repeat(1, bsz, 1)])
        v = torch.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask = widened(attn_mask)
        key_padding_mask = widened(key_padding_mask)
    else:
        assert bias_k is None, "bias_k is set but bias_v is None"
        assert bias_v is None, "bias_v is set but bias_k is None"
    rows = bsz * num_heads
    q = q.view(tgt_len, rows, head_dim).transpose(0, 1)
    k = by_heads(k, rows, head_dim, static_k, "k")
    v = by_heads(v, rows, head_dim, static_v, "v")
    if add_zero_attn:
        zeros = torch.zeros([rows, 1, head_dim], dtype=k.dtype, device=k.device)
        k = torch.cat([k, zeros], dim=1)
        v = torch.cat([v, zeros], dim=1)
        attn_mask = widened(attn_mask)
        key_padding_mask = widened(key_padding_mask)
    src_len = k.size(1)
    if key_padding_mask is not None:
        attn_mask = merged_padding(attn_mask, key_padding_mask, bsz, num_heads, src_len)
    if not training:
        dropout_p = 0.0
    if need_weights:
        out, weights = attended(q, k, v, attn_mask, dropout_p)
        out = out.transpose(0, 1).reshape(tgt_len * bsz, embed_dim)
        out = torch.nn.functional.linear(out, out_proj_weight, out_proj_bias)
        out = out.view(tgt_len, bsz, out.size(1))
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            out = out.squeeze(1)
            weights = weights.squeeze(0)
        return out, weights
    if attn_mask is not None:
        if attn_mask.size(0) == 1:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(bsz, num_heads, -1, src_len)
    out = torch.nn.functional.scaled_dot_product_attention(
        q.view(bsz, num_heads, tgt_len, head_dim), k.view(bsz, num_heads, src_len, head_dim),
        v.view(bsz, num_heads, src_len, head_dim), attn_mask, dropout_p, is_causal)
    out = out.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim)
    out = torch.nn.functional.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(tgt_len, bsz, out.size(1))
    if not batched:
        out = out.squeeze(1)
    return out, None


@_method("MultiheadAttention.forward")
def attention_forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None,
                      need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                      is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    batched = query.dim() == 3
    key_padding_mask = torch.nn.functional._canonical_mask(
        key_padding_mask, "key_padding_mask", torch.nn.functional._none_or_dtype(attn_mask), "attn_mask", query.dtype)
    attn_mask = torch.nn.functional._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
    if self.batch_first and batched:
        same_key, same_value = query is key, key is value
        query = query.transpose(1, 0)
        key = query if same_key else key.transpose(1, 0)
        value = key if same_value else value.transpose(1, 0)
    if not self._qkv_same_embed_dim:
        out, weights = torch.nn.functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask, use_separate_proj_weight=True,
            q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal)
    else:
        out, weights = torch.nn.functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal)
    if self.batch_first and batched:
        return out.transpose(1, 0), weights
    return out, weights

# --- transformers ---


def length_of(src: Tensor, batch_first: bool) -> int:
    if src.dim() == 2:
        return src.size(0)
    return src.size(1 if batch_first else 0)


def hides_the_future(mask: Optional[Tensor], is_causal: Optional[bool], size: int) -> bool:
    if is_causal is not None:
        return is_causal
    if mask is None:
        return False
    causal = torch.triu(torch.full([size, size], float("-inf"), dtype=mask.dtype, device=mask.device), diagonal=1)
    return mask.size() == causal.size() and bool((mask == causal).all())


@_method("TransformerEncoderLayer.forward")
def encoder_layer_forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                          is_causal: bool = False) -> Tensor:
    src_key_padding_mask = torch.nn.functional._canonical_mask(
        src_key_padding_mask, "src_key_padding_mask", torch.nn.functional._none_or_dtype(src_mask), "src_mask", src.dtype)
    src_mask = torch.nn.functional._canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
    x = src
    if self.norm_first:
        x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
        x = x + self._ff_block(self.norm2(x))
    else:
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        x = self.norm2(x + self._ff_block(x))
    return x


@_method("TransformerEncoderLayer._sa_block", "TransformerDecoderLayer._sa_block")
def sa_block(self, x: Tensor, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor], is_causal: bool = False) -> Tensor:
    x = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal)[0]
    return self.dropout1(x)


@_method("TransformerDecoderLayer._mha_block")
def mha_block(self, x: Tensor, mem: Tensor, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor],
              is_causal: bool = False) -> Tensor:
    x = self.multihead_attn(x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
                            need_weights=False)[0]
    return self.dropout2(x)


@_method("TransformerDecoderLayer.forward")
def decoder_layer_forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
                          memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                          memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False,
                          memory_is_causal: bool = False) -> Tensor:
    x = tgt
    if self.norm_first:
        x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = x + self._mha_block(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = x + self._ff_block(self.norm3(x))
    else:
        x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        x = self.norm3(x + self._ff_block(x))
    return x


@_method("TransformerEncoder._clears_padding")
def clears_padding(self, src: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]) -> bool:
    if not self.use_nested_tensor or padding is None or mask is not None or src.dim() != 3:
        return False
    first = self.layers[0]
    if first.training:
        return False
    if torch.is_grad_enabled():
        if src.requires_grad or first.self_attn.in_proj_weight.requires_grad or first.linear1.weight.requires_grad or \
                first.self_attn.out_proj.weight.requires_grad or first.linear2.weight.requires_grad:
            return False
    kept = padding == 0
    return not self.mask_check or bool((kept[:, :-1] >= kept[:, 1:]).all())


@_method("TransformerEncoder.forward")
def encoder_forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                    is_causal: Optional[bool] = None) -> Tensor:
    padding = torch.nn.functional._canonical_mask(
        src_key_padding_mask, "src_key_padding_mask", torch.nn.functional._none_or_dtype(mask), "mask", src.dtype)
    mask = torch.nn.functional._canonical_mask(mask, "mask", None, "", src.dtype, False)
    clear = self._clears_padding(src, mask, padding)
    causal = hides_the_future(mask, is_causal, length_of(src, self.layers[0].self_attn.batch_first))
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
    if clear and padding is not None:
        output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
    if self.norm is not None:
        output = self.norm(output)
    return output


@_method("TransformerDecoder.forward")
def decoder_forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None,
                    tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None,
                    tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    causal = hides_the_future(tgt_mask, tgt_is_causal, length_of(tgt, self.layers[0].self_attn.batch_first))
    output = tgt
    for layer in self.layers:
        output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                       memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal, memory_is_causal=memory_is_causal)
    if self.norm is not None:
        output = self.norm(output)
    return output


@_method("Transformer.forward")
def transformer_forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None, tgt_mask: Optional[Tensor] = None,
                        memory_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                        tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None,
                        src_is_causal: Optional[bool] = None, tgt_is_causal: Optional[bool] = None,
                        memory_is_causal: bool = False) -> Tensor:
    batch = 0 if self.batch_first else 1
    if src.dim() == 3 and src.size(batch) != tgt.size(batch):
        raise RuntimeError("the batch number of src and tgt must be equal")
    if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
        raise RuntimeError("the feature number of src and tgt must be equal to d_model")
    memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
    return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                        memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                        memory_is_causal=memory_is_causal)
