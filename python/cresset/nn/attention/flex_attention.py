"""Attention with scores that a Python function changes, and masks made of blocks.

A score_mod or mask_mod is called once, with index tensors of sizes (B, 1, 1, 1), (1, H, 1, 1),
(1, 1, Q, 1) and (1, 1, 1, KV), which broadcast to all scores.
"""
import math
from typing import NamedTuple, Optional, TypedDict

from ... import _C
from ..._C import Tensor
from .._attention import over_ranks

__all__ = ["BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "FlexKernelOptions",
           "create_block_mask", "create_mask", "or_masks", "and_masks", "noop_mask"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class FlexKernelOptions(TypedDict, total=False):
    """Options of torch's kernels, which have no effect here."""

    BACKEND: str
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    FORCE_USE_FLEX_ATTENTION: bool


class AuxRequest(NamedTuple):
    """The further results that flex_attention shall return."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results of flex_attention: logsumexp and maximum of each query's scores."""

    lse: Optional[Tensor] = None
    max_scores: Optional[Tensor] = None


# --- masks as functions ---

def noop_mask(batch, head, token_q, token_kv):
    """Masks nothing."""
    return batch.new_ones(size=(), dtype=_C.bool, device=batch.device)


def _check_callables(mask_mods):
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def or_masks(*mask_mods):
    """Returns the mask that allows a score when one of the masks does."""
    _check_callables(mask_mods)

    def or_mask(b, h, q_idx, kv_idx):
        result = b.new_zeros((), dtype=_C.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q_idx, kv_idx)
        return result
    return or_mask


def and_masks(*mask_mods):
    """Returns the mask that allows a score when all masks do."""
    _check_callables(mask_mods)

    def and_mask(b, h, q_idx, kv_idx):
        result = b.new_ones((), dtype=_C.bool)
        for mod in mask_mods:
            result = result & mod(b, h, q_idx, kv_idx)
        return result
    return and_mask


def _sliced_mask_mod_error(batch, head, token_q, token_kv):
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask: it was made for the indices of "
                       "the whole mask. Assign a new mask_mod after slicing, for example "
                       "sliced_mask.mask_mod = mask_mod_of_the_slice.")


def _indices(sizes, device):
    """Returns an index tensor for each dim, which broadcast against each other."""
    return [_C.arange(n, device=device).reshape([n if i == j else 1 for j in range(len(sizes))])
            for i, n in enumerate(sizes)]


def _is_score_mod(function):
    """Returns whether the function takes a score before the four indices."""
    import inspect
    positional = [p for p in inspect.signature(function).parameters.values()
                  if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if len(positional) not in (4, 5):
        raise AssertionError("Mask mod should have 4 positional arguments and score mod 5, not "
                             f"{len(positional)}")
    return len(positional) == 5


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """Returns the bool tensor of a mask_mod; of a score_mod, where a zero score stays finite."""
    score_mod = _is_score_mod(mod_fn)
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    if not score_mod:
        return mod_fn(*_indices(sizes, device)).expand(sizes).clone()
    scores = mod_fn(_C.zeros(sizes, device=device), *_indices(sizes, device))
    return _C.where(_C.isneginf(scores), False, True).expand(sizes).clone()


# --- block masks ---

def _round_up(n, multiple):
    return -(-n // multiple) * multiple


def _blocks(mask, block):
    """Returns for each block of a mask the number of allowed scores."""
    rows, columns = (_round_up(n, size) for n, size in zip(mask.shape[-2:], block))
    padded = mask.new_zeros((*mask.shape[:-2], rows, columns))
    padded[..., :mask.shape[-2], :mask.shape[-1]] = mask
    shape = (*mask.shape[:-2], rows // block[0], block[0], columns // block[1], block[1])
    return padded.reshape(shape).sum(dim=(-3, -1))


def _ordered(dense):
    """Returns the number of blocks in each row, and the columns of these blocks, then the others."""
    dense = dense.to(_C.int32)
    columns = _C.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(dim=-1).to(_C.int32), columns.to(_C.int32).contiguous()


def _dense(num_blocks, columns):
    """Returns the blocks as a matrix of zeros and ones; the inverse of _ordered."""
    used = _C.arange(columns.shape[-1], device=columns.device) < num_blocks.unsqueeze(-1)
    out = _C.zeros(columns.shape, dtype=_C.int32, device=columns.device)
    return out.scatter_(-1, columns.long(), used.to(_C.int32))


def _transposed(num_blocks, columns):
    return (None, None) if num_blocks is None else _ordered(_dense(num_blocks, columns).transpose(-2, -1))


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


_TENSORS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
            "q_indices", "full_q_num_blocks", "full_q_indices")


class BlockMask:
    """A mask as lists of blocks that have allowed scores.

    kv_num_blocks (B, H, rows of blocks) and kv_indices (B, H, rows, columns) are the blocks in each
    row that are partly allowed; `full_` are those in which mask_mod is True everywhere, and `q_`
    the same lists by column.
    """

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
                 q_num_blocks, q_indices, full_q_num_blocks, full_q_indices,
                 BLOCK_SIZE=(_DEFAULT_SPARSE_BLOCK_SIZE,) * 2, mask_mod=noop_mask):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        if (full_q_num_blocks is None) != (full_q_indices is None):
            raise AssertionError("full_q_num_blocks and full_q_indices must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                       BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None,
                       compute_q_blocks=True):
        """Makes a mask from the lists by row."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        block = _pair(BLOCK_SIZE)
        by_column = (None,) * 4
        if compute_q_blocks:
            by_column = (*_transposed(kv_num_blocks, kv_indices),
                         *_transposed(full_kv_num_blocks, full_kv_indices))
        if seq_lengths is None:
            seq_lengths = tuple(n * b for n, b in zip(kv_indices.shape[-2:], block))
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
                   *by_column, BLOCK_SIZE=block, mask_mod=mask_mod or noop_mask)

    def _tensors(self):
        return {name: getattr(self, name) for name in _TENSORS}

    def as_tuple(self, flatten=True):
        """Returns everything as a tuple, with pairs as two items each."""
        if flatten:
            lengths, block = tuple(self.seq_lengths), tuple(self.BLOCK_SIZE)
        else:
            lengths, block = (self.seq_lengths,), (self.BLOCK_SIZE,)
        return (*lengths, *self._tensors().values(), *block, self.mask_mod)

    @property
    def shape(self):
        """(B, H, queries, keys)"""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        """Returns the number of scores."""
        return math.prod(self.shape)

    def sparsity(self):
        """Returns the percentage of scores that are in no block; below 0 when blocks exceed the mask."""
        used = self.kv_num_blocks.sum()
        if self.full_kv_num_blocks is not None:
            used = used + self.full_kv_num_blocks.sum()
        return 100 * (1 - used.item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self):
        """Returns a matrix of blocks: 1 when a block has allowed scores."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def __getitem__(self, index):
        """The mask of some batches and heads; its mask_mod must be assigned again."""
        index = index if isinstance(index, tuple) else (index,)
        padded = (*index, slice(None), slice(None))[:3]
        # A dim that an int selects stays, with size 1.
        keep = tuple(slice(i + size if i < 0 else i, (i + size if i < 0 else i) + 1) if isinstance(i, int) else i
                     for i, size in zip(padded, self.kv_num_blocks.shape))
        parts = [None if t is None else t[keep] for t in list(self._tensors().values())[:4]]
        return BlockMask.from_kv_blocks(*parts, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=_sliced_mask_mod_error,
                                        seq_lengths=self.seq_lengths, compute_q_blocks=self.q_indices is not None)

    def _adjust(self, new_q_len, new_kv_len):
        """Returns the part of the mask for fewer queries and keys."""
        rows, columns = (_round_up(n, b) // b for n, b in zip((new_q_len, new_kv_len), self.BLOCK_SIZE))

        def cut(num_blocks, indices):
            return (None, None) if num_blocks is None else _ordered(
                _dense(num_blocks, indices)[..., :rows, :columns])
        return BlockMask.from_kv_blocks(
            *cut(self.kv_num_blocks, self.kv_indices), *cut(self.full_kv_num_blocks, self.full_kv_indices),
            BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, seq_lengths=(new_q_len, new_kv_len))

    def to(self, device):
        """Returns the mask with its tensors on a device."""
        moved = {name: None if t is None else t.to(device) for name, t in self._tensors().items()}
        return BlockMask(self.seq_lengths, **moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def __repr__(self):
        lines = [f"    {name}={None if t is None else t.shape},\n" for name, t in self._tensors().items()]
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        return (f"BlockMask(\n{''.join(lines)}    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n"
                f"    sparsity={self.sparsity():.2f}%,\n    mask_mod={name}\n)")

    def __str__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"

    def to_string(self, grid_size=(20, 20), limit=4):
        """Draws the masks of the first `limit` batches and heads; grid_size is the drawing's rows and
        columns, -1 for all."""
        dense = self.to_dense()
        grid = tuple(dense.shape[-2:]) if grid_size == -1 else _pair(grid_size)
        masks = [(index, dense[index]) for index in _index_tuples(dense.shape[:-2])]
        text = "".join(f"{index}\n{_draw(mask, grid)}\n" for index, mask in masks[:limit])
        if len(masks) <= limit:
            return text.rstrip("\n")
        return (text + "...\nTo print out more, set BlockMask.to_string(limit=N)\n"
                "You can also index (BlockMask[batch, head]) to choose a specific batch or head")


def _index_tuples(shape):
    from itertools import product
    return product(*map(range, shape))


def _draw(mask, grid):
    """Draws a matrix of blocks: two characters for each, or for each cell of the grid."""
    step = [max(_round_up(n, g) // g, 1) for n, g in zip(mask.shape, grid)]
    share = _blocks(mask, step).float() / (step[0] * step[1])
    rows = share.tolist()
    return "".join("".join("██" if v == 1 else "  " if v == 0 else "░░" for v in row) + "\n" for row in rows)


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
                      _compile=False, separate_full_blocks=True):
    """Makes a BlockMask from a mask_mod.  B or H None is 1: all batches or heads have one mask."""
    if _is_score_mod(mask_mod):
        raise AssertionError("create-block_mask requires a mask_mod function! Got "
                             f"{mask_mod}, which has the parameters of a score_mod")
    block = _pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    allowed = _blocks(mask, block)
    is_full = allowed == block[0] * block[1]
    if not separate_full_blocks:
        partial, full = _ordered(allowed > 0), (None, None)
    else:
        partial, full = _ordered((allowed > 0) & ~is_full), _ordered(is_full)
    return BlockMask.from_kv_blocks(*partial, *full, BLOCK_SIZE=block, mask_mod=mask_mod,
                                    seq_lengths=(Q_LEN, KV_LEN))


# --- attention ---

def _check(query, key, value, enable_gqa):
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, kv_heads = query.size(1), key.size(1)
    if query.size(-1) != key.size(-1):
        raise ValueError("Expect query and key/value to have the same embedding dimension but got "
                         f"E={query.size(-1)} and E={key.size(-1)}.")
    if not enable_gqa and heads != kv_heads:
        raise ValueError("Expect query and key/value to have the same number of heads but got "
                         f"Hq={heads} and Hkv={kv_heads}. Try setting enable_gqa=True for GQA.")
    if enable_gqa and heads % kv_heads:
        raise ValueError("Expect number of query heads to be a multiple of kv heads for GQA but got "
                         f"Hq={heads} and Hkv={kv_heads}.")
    if query.size(0) != key.size(0) and key.size(0) != 1:
        raise ValueError("Expect query and key/value to have the same batch size, or batch size 1 for "
                         f"key/value, but got Bq={query.size(0)} and Bkv={key.size(0)}.")


def _check_block_mask(mask, q_len, kv_len):
    if mask.seq_lengths[0] < q_len or mask.seq_lengths[1] < kv_len:
        raise ValueError(f"block_mask was created for block_mask.shape={mask.shape} but got q_len={q_len} and "
                         f"kv_len={kv_len}. As the block mask was created for a smaller length than you're "
                         "using it for, you likely need to create a new block mask.")
    if mask.seq_lengths != (q_len, kv_len):
        return mask._adjust(q_len, kv_len)
    return mask


def _allowed(num_blocks, columns, block):
    """Returns the scores that are in the listed blocks, as a tensor of bools."""
    blocks = _dense(num_blocks, columns).bool()
    return blocks.repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)


def _scores(query, key, scale, score_mod, block_mask):
    """Returns the scores, changed and masked, in float32 or float64."""
    scores = (query @ key.transpose(-2, -1)) * scale
    scores = scores.to(_C.float64 if query.dtype == _C.float64 else _C.float32)
    indices = _indices(scores.shape, scores.device)
    if score_mod is not None:
        scores = score_mod(scores, *indices).expand(scores.shape)
    if block_mask is not None:
        q_len, kv_len = scores.shape[-2:]
        allowed = _allowed(block_mask.kv_num_blocks, block_mask.kv_indices, block_mask.BLOCK_SIZE)
        allowed = allowed[..., :q_len, :kv_len] & block_mask.mask_mod(*indices)
        if block_mask.full_kv_num_blocks is not None:  # mask_mod is not asked there
            full = _allowed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, block_mask.BLOCK_SIZE)
            allowed = allowed | full[..., :q_len, :kv_len]
        scores = _C.where(allowed, scores, -math.inf)
    return scores


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False,
                   return_lse=False, kernel_options=None, *, return_aux=None):
    """softmax(score_mod(query @ key.T * scale)) @ value, over the scores that block_mask allows.

    The output of a query without an allowed score is 0.
    """
    if over_ranks:
        raise NotImplementedError("flex_attention in context_parallel")
    _check(query, key, value, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux. return_lse is deprecated, please "
                         "use return_aux=AuxRequest(lse=True) instead.")
    if block_mask is not None:
        block_mask = _check_block_mask(block_mask, query.size(-2), key.size(-2))
    if enable_gqa:
        repeats = query.size(1) // key.size(1)
        key, value = (t.repeat_interleave(repeats, dim=1) for t in (key, value))
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = _scores(query, key, scale, score_mod, block_mask)
    empty = (scores == -math.inf).all(dim=-1, keepdim=True)
    weights = _C.softmax(scores.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
    out = weights.to(query.dtype) @ value
    if return_lse:
        return out, scores.logsumexp(dim=-1)
    if return_aux is None:
        return out
    return out, AuxOutput(scores.logsumexp(dim=-1) if return_aux.lse else None,
                          scores.amax(dim=-1) if return_aux.max_scores else None)
