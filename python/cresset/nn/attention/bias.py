"""Causal masks for queries and keys of different lengths."""
import enum

from ... import _C
from ..functional import scaled_dot_product_attention

__all__ = ["causal_upper_left", "causal_lower_right", "CausalVariant", "CausalBias"]


class CausalVariant(enum.IntEnum):
    """The corner in which the mask's diagonal begins or ends."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(_C.Tensor):
    """An attn_mask that lets a query see the keys up to its position."""

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        return _C.Tensor._make_subclass(cls, _C.empty(int(variant), seq_len_q, seq_len_kv))

    def __init__(self, variant, seq_len_q, seq_len_kv):
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            import warnings
            warnings.warn("Lower right causal bias will produce NaNs in the output when seq_len_q "
                          "> seq_len_kv!", stacklevel=3)

    def _materialize(self, device=None):
        """Returns the mask as a tensor of bools."""
        lower = self.variant == CausalVariant.LOWER_RIGHT
        diagonal = self.seq_len_kv - self.seq_len_q if lower else 0
        with _C.DisableTorchFunctionSubclass():
            ones = _C.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=_C.bool)
            return ones.tril(diagonal)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not scaled_dot_product_attention:
            return super().__torch_function__(func, types, args, kwargs or {})
        return cls._attend(*args, **(kwargs or {}))

    @staticmethod
    def _attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                enable_gqa=False):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        square = attn_mask.seq_len_q == attn_mask.seq_len_kv
        causal = square or attn_mask.variant == CausalVariant.UPPER_LEFT
        mask = None if causal else attn_mask._materialize(query.device)
        return scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, scale=scale,
                                            enable_gqa=enable_gqa)

    def __repr__(self):
        return repr(self._materialize())


def _two_sizes(name, size):
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size


def causal_upper_left(*size):
    """The mask of `size` (queries, keys) in which query i sees the keys up to i."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_two_sizes("causal_upper_left", size))


def causal_lower_right(*size):
    """The mask of `size` (queries, keys) in which the last query sees all keys."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two_sizes("causal_lower_right", size))
