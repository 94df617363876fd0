"""Reductions and normalizations of the elements that a mask keeps (where it is True)."""
from .. import _C

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor", "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]


# --- masks and dims ---

def _mask_of(input, mask):
    if mask is None:
        return None
    if mask.dtype != _C.bool:
        raise ValueError(f"mask must be a bool tensor, not {mask.dtype}")
    if mask.dim() > input.dim():
        raise IndexError("_output_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.broadcast_to(input.shape)


def _dims_of(input, dim):
    """Returns the dims of a reduction, sorted."""
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(input.dim()))
    dims = [dim] if isinstance(dim, int) else list(dim)
    ndim = max(input.dim(), 1)
    for d in dims:
        if not -ndim <= d < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
    dims = sorted(d % ndim for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return dims if input.dim() else []


def _filled(input, mask, value):
    """Returns the input with `value`, or the value of a dtype that `value` finds, where the mask is False."""
    if mask is None:
        return input
    return _C.where(mask, input, value(input.dtype) if callable(value) else value)


def _sum_type(input, dtype):
    exact = not (input.is_floating_point() or input.is_complex())
    return dtype or (_C.int64 if exact else input.dtype)


def _lowest(dtype):
    return -float("inf") if dtype.is_floating_point else False if dtype is _C.bool else _C.iinfo(dtype).min


def _highest(dtype):
    return float("inf") if dtype.is_floating_point else True if dtype is _C.bool else _C.iinfo(dtype).max


def _counts(input, dims, keepdim, mask):
    """Returns the number of elements of each result."""
    kept = _C.ones(input.shape, dtype=_C.bool, device=input.device) if mask is None else mask
    return _C.sum(kept, dims, keepdim) if dims else kept.to(_C.int64)


# --- reductions ---

def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum; 0 of no elements."""
    dtype, dims = _sum_type(input, dtype), _dims_of(input, dim)
    x = _filled(input.to(dtype), _mask_of(input, mask), 0)
    return _C.sum(x, dims, keepdim) if dims else x


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product; 1 of no elements."""
    x = _filled(input.to(_sum_type(input, dtype)), _mask_of(input, mask), 1)
    for d in reversed(_dims_of(input, dim)):
        x = _C.prod(x, d, keepdim)
    return x


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element; the lowest number of the dtype of no elements."""
    dtype, dims = dtype or input.dtype, _dims_of(input, dim)
    x = _filled(input.to(dtype), _mask_of(input, mask), _lowest)
    return _C.amax(x, dims, keepdim) if dims else x


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element; the highest number of the dtype of no elements."""
    dtype, dims = dtype or input.dtype, _dims_of(input, dim)
    x = _filled(input.to(dtype), _mask_of(input, mask), _highest)
    return _C.amin(x, dims, keepdim) if dims else x


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The index of the largest element."""
    dtype = dtype or input.dtype
    return _C.argmax(_filled(input.to(dtype), _mask_of(input, mask), _lowest), dim, keepdim).to(dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The index of the smallest element."""
    dtype = dtype or input.dtype
    return _C.argmin(_filled(input.to(dtype), _mask_of(input, mask), _highest), dim, keepdim).to(dtype)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean; NaN of no elements."""
    dtype, dims = dtype or input.dtype, _dims_of(input, dim)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError("mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                         f"Got: {dtype}")
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask) if dims else _filled(
        input.to(dtype), _mask_of(input, mask), 0)
    return total / _counts(input, dims, keepdim, _mask_of(input, mask))


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median along a dim; NaN of no elements."""
    dtype = dtype or input.dtype
    if not dtype.is_floating_point:
        raise ValueError("input must be a floating point tensor")
    if mask is None:
        return _C.median(input.to(dtype), dim, keepdim).values
    return _C.nanmedian(_filled(input.to(dtype), _mask_of(input, mask), float("nan")), dim, keepdim).values


def _variance(input, dim, unbiased, keepdim, dtype, mask):
    exact = not (input.is_floating_point() or input.is_complex())
    dtype = dtype or (_C.float32 if exact else input.dtype)
    dims, mask = _dims_of(input, dim), _mask_of(input, mask)
    x = input.to(dtype)
    count = _counts(input, dims, True, mask)
    centre = sum(x, dims, keepdim=True, mask=mask) / count if dims else x
    squares = _filled((x - centre).abs().square(), mask, 0)
    total = _C.sum(squares, dims, keepdim) if dims else squares
    count = count if keepdim or not dims else count.reshape(total.shape)
    if unbiased:
        count = (count - 1).clamp(min=0)
    return (total / count).to(dtype)


def var(input, dim=None, unbiased=True, *, keepdim=False, dtype=None, mask=None):
    """The variance, with Bessel's correction unless `unbiased` is False."""
    return _variance(input, dim, unbiased is not False, keepdim, dtype, mask)


def std(input, dim=None, unbiased=True, *, keepdim=False, dtype=None, mask=None):
    """The standard deviation, with Bessel's correction unless `unbiased` is False."""
    return _variance(input, dim, unbiased is not False, keepdim, dtype, mask).sqrt()


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of an order; the result for an empty vector where no element is kept."""
    dtype, dims = dtype or input.dtype, _dims_of(input, dim)
    neutral = float("inf") if ord == -float("inf") else 0.0
    return _C.ops.linalg_vector_norm(_filled(input.to(dtype), _mask_of(input, mask), neutral), ord, dims, keepdim)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of exponentials; -inf of no elements."""
    dtype = dtype or input.dtype
    return _C.logsumexp(_filled(input.to(dtype), _mask_of(input, mask), _lowest), _dims_of(input, dim), keepdim).to(dtype)


# --- elementwise ---

def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums of the elements that the mask keeps."""
    x = input.to(_sum_type(input, dtype))
    return _C.cumsum(_filled(x, _mask_of(input, mask), 0), dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products of the elements that the mask keeps."""
    x = input.to(_sum_type(input, dtype))
    return _C.cumprod(_filled(x, _mask_of(input, mask), 1), dim)


def softmax(input, dim, *, dtype=None, mask=None):
    """softmax of the elements that the mask keeps."""
    dtype = dtype or input.dtype
    return _C.softmax(_filled(input.to(dtype), _mask_of(input, mask), _lowest), dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log_softmax of the elements that the mask keeps."""
    dtype = dtype or input.dtype
    return _C.log_softmax(_filled(input.to(dtype), _mask_of(input, mask), _lowest), dim)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of the negatives of the elements that the mask keeps."""
    dtype = dtype or input.dtype
    return _C.softmax(-_filled(input.to(dtype), _mask_of(input, mask), _highest), dim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The elements that the mask keeps, divided by their norm (at least eps)."""
    dtype = dtype or input.dtype
    length = norm(input.to(dtype), ord, dim, keepdim=True, mask=mask)
    kept = _filled(input.to(dtype), _mask_of(input, mask), 0.0)
    return kept / _C.maximum(length, length.new_full([], eps))


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """logaddexp; an element that a mask removes is -inf."""
    dtype = dtype or input.dtype
    a = _filled(input.to(dtype), _mask_of(input, input_mask), -float("inf"))
    return _C.logaddexp(a, _filled(other.to(dtype), _mask_of(other, other_mask), -float("inf")))


def __getattr__(name):
    """The names of tensors with a mask, which are loaded when they are first read."""
    if name in ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"):
        from . import maskedtensor
        return getattr(maskedtensor, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
