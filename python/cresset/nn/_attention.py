"""Multi-head attention as torch.nn.functional computes it."""
import math
import warnings

import cresset
from .. import Tensor
from .._ops import ops


def _packed(projected, parts, size):
    """Splits the last dimension of `projected` into `parts` tensors of size `size`."""
    out = projected.unflatten(-1, (parts, size)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    return out.contiguous().unbind(0)


def _in_projection_packed(q, k, v, w, b=None):
    """Computes query, key and value with one packed weight; equal inputs share one product."""
    size = q.size(-1)
    if k is v and q is k:
        return tuple(_packed(ops.linear(q, w, b), 3, size))
    if k is v:
        w_q, w_kv = w.split([size, size * 2])
        b_q, b_kv = (None, None) if b is None else b.split([size, size * 2])
        return (ops.linear(q, w_q, b_q), *_packed(ops.linear(k, w_kv, b_kv), 2, size))
    biases = (None,) * 3 if b is None else b.chunk(3)
    return tuple(ops.linear(x, m, c) for x, m, c in zip((q, k, v), w.chunk(3), biases))


def _require(condition, message):
    """Raises unless `condition`.  `message` may be a function, so that its text is built only on
    failure."""
    if not condition:
        raise AssertionError(message if isinstance(message, str) else message())


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """Computes query, key and value with separate weights."""
    sizes = [x.size(-1) for x in (q, k, v)]
    for name, w, n in zip(("query", "key", "value"), (w_q, w_k, w_v), sizes):
        _require(w.shape == (sizes[0], n),
                 lambda: f"expecting {name} weights shape of {(sizes[0], n)}, but got {w.shape}")
    for name, b in zip(("query", "key", "value"), (b_q, b_k, b_v)):
        _require(b is None or b.shape == (sizes[0],),
                 lambda: f"expecting {name} bias shape of {(sizes[0],)}, but got "
                 f"{None if b is None else b.shape}")
    return ops.linear(q, w_q, b_q), ops.linear(k, w_k, b_k), ops.linear(v, w_v, b_v)


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Returns whether the inputs have a batch dim.  Raises when their dims are inconsistent."""
    ndim = query.dim()
    _require(ndim in (2, 3), lambda: "query should be unbatched 2D or batched 3D tensor but received "
             f"{ndim}-D query tensor")
    kind = "batched (3-D)" if ndim == 3 else "unbatched (2-D)"
    _require(key.dim() == ndim and value.dim() == ndim,
             lambda: f"For {kind} `query`, expected `key` and `value` to be {ndim}-D but found "
             f"{key.dim()}-D and {value.dim()}-D tensors respectively")
    if key_padding_mask is not None:
        _require(key_padding_mask.dim() == ndim - 1,
                 lambda: f"For {kind} `query`, expected `key_padding_mask` to be `None` or {ndim - 1}-D "
                 f"but found {key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        _require(attn_mask.dim() in (2, 3),
                 lambda: f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                 f"{attn_mask.dim()}-D tensor instead")
        if ndim == 2 and attn_mask.dim() == 3:
            shape = (num_heads, query.shape[0], key.shape[0])
            _require(attn_mask.shape == shape,
                     lambda: f"Expected `attn_mask` shape to be {shape} but got {attn_mask.shape}")
    return ndim == 3


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """Returns the mask as an additive mask: a bool mask becomes 0 and -inf."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    _require(is_float or mask.dtype == cresset.bool,
             lambda: f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. "
                      "Use same type for both instead.", stacklevel=2)
    if is_float:
        return mask
    return cresset.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _none_or_dtype(input):
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _check_attn_mask(attn_mask, bsz, num_heads, tgt_len, src_len):
    """Returns the mask with three dims."""
    ndim = attn_mask.dim()
    if ndim not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {ndim} is not supported")
    shape = (tgt_len, src_len) if ndim == 2 else (bsz * num_heads, tgt_len, src_len)
    if attn_mask.shape != shape:
        raise RuntimeError(f"The shape of the {ndim}D attn_mask is {attn_mask.shape}, but should "
                           f"be {shape}.")
    return attn_mask.unsqueeze(0) if ndim == 2 else attn_mask


def _widen(mask):
    """Adds a column that is not masked."""
    return None if mask is None else ops.pad(mask, (0, 1))


def _heads(x, rows, head_dim, static, name):
    """Reshapes (length, batch, embedding) to (batch * heads, length, head_dim)."""
    if static is None:
        return x.view(x.shape[0], rows, head_dim).transpose(0, 1)
    _require(static.size(0) == rows,
             lambda: f"expecting static_{name}.size(0) of {rows}, but got {static.size(0)}")
    _require(static.size(2) == head_dim,
             lambda: f"expecting static_{name}.size(2) of {head_dim}, but got {static.size(2)}")
    return static


def _project(query, key, value, packed, separate, bias):
    if separate is None:
        _require(packed is not None,
                 "use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(query, key, value, packed, bias)
    for name, weight in zip("qkv", separate):
        _require(weight is not None,
                 lambda: f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return _in_projection(query, key, value, *separate, *biases)


def _merge_padding(attn_mask, padding, bsz, num_heads, src_len):
    _require(padding.shape[0] == bsz, lambda: f"Expected key_padded_mask.shape[0] to be {bsz}, but got "
             f"{padding.shape[0]}")
    _require(padding.shape[1] == src_len, lambda: "Expected key_padded_mask.shape[1] to be "
             f"{src_len}, but got {padding.shape[1]}")
    padding = padding.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1)
    padding = padding.reshape(bsz * num_heads, 1, src_len)
    return padding if attn_mask is None else attn_mask + padding


def _attend_with_weights(q, k, v, attn_mask, dropout_p):
    """Returns (values, attention weights), computed by separate products."""
    q = q * math.sqrt(1.0 / float(q.shape[-1]))
    if attn_mask is not None:
        weights = cresset.baddbmm(attn_mask, q, k.transpose(-2, -1))
    else:
        weights = cresset.bmm(q, k.transpose(-2, -1))
    weights = ops.softmax(weights, -1)
    if dropout_p > 0.0:
        weights = ops.dropout(weights, dropout_p, True)
    return cresset.bmm(weights, v), weights


over_ranks = []  # of each context_parallel() that is active: scaled_dot_product_attention over its ranks


def _check_over_ranks(need_weights, more_keys):
    """Refuses what each rank would compute from its own keys alone."""
    if over_ranks and need_weights:
        raise NotImplementedError("attention weights in context_parallel; pass need_weights=False")
    if over_ranks and more_keys:
        raise NotImplementedError("bias_k, bias_v and add_zero_attn in context_parallel")


def multi_head_attention_forward(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k,
        bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True,
        key_padding_mask=None, need_weights=True, attn_mask=None,
        use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
        v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
        is_causal=False):
    """Attention of num_heads heads: linear maps of query, key and value, scaled_dot_product_attention, a linear map.

    Returns the output and, when `need_weights`, the attention weights, their mean over heads with
    average_attn_weights (else None). nn.MultiheadAttention calls it.

    Shape: query (L, N, E) or (L, E), key and value (S, N, E) or (S, E), key_padding_mask (N, S) or (S),
    attn_mask (L, S) or (N num_heads, L, S), bool or floating; output (L, N, E) or (L, E), weights (N, L, S)
    or (L, S).

    Example::

        >>> m = nn.MultiheadAttention(4, 2)
        >>> x = torch.randn(3, 1, 4)
        >>> y, w = F.multi_head_attention_forward(x, x, x, 4, 2, m.in_proj_weight, m.in_proj_bias, None, None, False,
        ...     0.0, m.out_proj.weight, m.out_proj.bias)
        >>> y.shape, w.shape
        (torch.Size([3, 1, 4]), torch.Size([1, 3, 3]))
    """
    _check_over_ranks(need_weights, bias_k is not None or add_zero_attn)
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    src_len = key.shape[0]
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask",
                                       _none_or_dtype(attn_mask), "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the operator applies the mask
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and key_padding_mask is None
    head_dim = embed_dim // num_heads
    _require(embed_dim == embed_dim_to_check,
             lambda: f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    _require(head_dim * num_heads == embed_dim,
             lambda: f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _require(key.shape[:2] == value.shape[:2],
                 lambda: f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                 f"{value.shape[:2]}")
    else:
        _require(key.shape == value.shape,
                 lambda: f"key shape {key.shape} does not match value shape {value.shape}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, separate, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _check_attn_mask(attn_mask, bsz, num_heads, tgt_len, src_len)
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        k = cresset.cat([k, bias_k.repeat(1, bsz, 1)])
        v = cresset.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask, key_padding_mask = _widen(attn_mask), _widen(key_padding_mask)
    else:
        _require(bias_k is None, "bias_k is set but bias_v is None")
        _require(bias_v is None, "bias_v is set but bias_k is None")
    rows = bsz * num_heads
    q = q.view(tgt_len, rows, head_dim).transpose(0, 1)
    k = _heads(k, rows, head_dim, static_k, "k")
    v = _heads(v, rows, head_dim, static_v, "v")
    if add_zero_attn:
        zeros = cresset.zeros((rows, 1, head_dim), dtype=k.dtype, device=k.device)
        k, v = cresset.cat([k, zeros], dim=1), cresset.cat([v, zeros], dim=1)
        attn_mask, key_padding_mask = _widen(attn_mask), _widen(key_padding_mask)
    src_len = k.size(1)
    if key_padding_mask is not None:
        attn_mask = _merge_padding(attn_mask, key_padding_mask, bsz, num_heads, src_len)
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        out, weights = _attend_with_weights(q, k, v, attn_mask, dropout_p)
        out = out.transpose(0, 1).reshape(tgt_len * bsz, embed_dim)
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        if attn_mask is not None and attn_mask.size(0) == 1:
            attn_mask = attn_mask.unsqueeze(0)
        elif attn_mask is not None:
            attn_mask = attn_mask.view(bsz, num_heads, -1, src_len)
        attention = over_ranks[-1] if over_ranks else ops.scaled_dot_product_attention
        out = attention(
            q.view(bsz, num_heads, tgt_len, head_dim), k.view(bsz, num_heads, src_len, head_dim),
            v.view(bsz, num_heads, src_len, head_dim), attn_mask, dropout_p, is_causal)
        out = out.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim)
        weights = None
    out = ops.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(tgt_len, bsz, out.size(1))
    if not batched:
        out = out.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return out, weights
