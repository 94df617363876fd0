"""Pooling functions of torch.nn.functional."""
import cresset
from .._ops import ops
from .._traced import one_call
from .modules.utils import _list_with_default, _pair, _single, _triple


def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1,
                            ceil_mode=False, return_indices=False):
    """max_pool1d and the positions of the maxima in their planes.

    Shape: input (N, C, L) or (C, L); outputs as max_pool1d's, the second of int64.

    Example::

        >>> F.max_pool1d_with_indices(torch.tensor([[1., 3., 2., 4.]]), 2)
        (tensor([[3., 4.]]), tensor([[1, 3]]))
    """
    return ops.max_pool1d_with_indices(input, kernel_size, [] if stride is None else stride,
                                       padding, dilation, ceil_mode)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
               return_indices=False):
    """The maximum of every window of a sequence; stride is kernel_size where it is not given.

    Padding counts as -inf. With return_indices also the positions, as max_unpool1d takes them.

    Shape: input (N, C, L) or (C, L) of an integer or floating dtype; output the same but for each last size L,
    floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1), or ceil with ceil_mode.

    Example::

        >>> F.max_pool1d(torch.tensor([[1., 3., 2., 4.]]), 2)
        tensor([[3., 4.]])
    """
    function = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    return function(input, kernel_size, [] if stride is None else stride, padding, dilation,
                    ceil_mode)


def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1,
                            ceil_mode=False, return_indices=False):
    """max_pool2d and the positions of the maxima in their planes.

    Shape: input (N, C, H, W) or (C, H, W); outputs as max_pool2d's, the second of int64.

    Example::

        >>> F.max_pool2d_with_indices(torch.arange(16.).view(1, 4, 4), 2)
        (tensor([[[ 5.,  7.],
                 [13., 15.]]]), tensor([[[ 5,  7],
                 [13, 15]]]))
    """
    return ops.max_pool2d_with_indices(input, kernel_size, [] if stride is None else stride,
                                       padding, dilation, ceil_mode)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
               return_indices=False):
    """The maximum of every window of an image; stride is kernel_size where it is not given.

    Padding counts as -inf. With return_indices also the positions, as max_unpool2d takes them.

    Shape: input (N, C, H, W) or (C, H, W) of an integer or floating dtype; output the same but for each last
    size L, floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1), or ceil with
    ceil_mode.

    Example::

        >>> F.max_pool2d(torch.arange(16.).view(1, 4, 4), 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """
    function = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    return function(input, kernel_size, [] if stride is None else stride, padding, dilation,
                    ceil_mode)


def max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1,
                            ceil_mode=False, return_indices=False):
    """max_pool3d and the positions of the maxima in their planes.

    Shape: input (N, C, D, H, W) or (C, D, H, W); outputs as max_pool3d's, the second of int64.

    Example::

        >>> F.max_pool3d_with_indices(torch.arange(8.).view(1, 2, 2, 2), 2)
        (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return ops.max_pool3d_with_indices(input, kernel_size, [] if stride is None else stride,
                                       padding, dilation, ceil_mode)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
               return_indices=False):
    """The maximum of every window of a volume; stride is kernel_size where it is not given.

    Padding counts as -inf. With return_indices also the positions, as max_unpool3d takes them.

    Shape: input (N, C, D, H, W) or (C, D, H, W) of an integer or floating dtype; output the same but for each
    last size L, floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1), or ceil with
    ceil_mode.

    Example::

        >>> F.max_pool3d(torch.arange(8.).view(1, 2, 2, 2), 2)
        tensor([[[[7.]]]])
    """
    function = ops.max_pool3d_with_indices if return_indices else ops.max_pool3d
    return function(input, kernel_size, [] if stride is None else stride, padding, dilation,
                    ceil_mode)


def _fractional_samples(input, dims, samples):
    if samples is not None:
        return samples
    batch = 1 if input.dim() == dims + 1 else input.size(0)
    return cresset.rand(batch, input.size(-dims - 1), dims, dtype=input.dtype,
                        device=input.device)


# Unpooling.

def _check_unpool_size(wanted, default, stride):
    for d, (size, base, step) in enumerate(zip(wanted, default, stride)):
        if not base - step < size < base + step:
            raise ValueError(f'invalid output_size "{wanted}" (dim {d} must be between '
                             f"{base - step} and {base + step})")


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    dims = len(kernel_size)
    default = [(n - 1) * s + k - 2 * p for n, s, k, p in
               zip(input.size()[-dims:], stride, kernel_size, padding)]
    if output_size is None:
        output_size = default
    else:
        if len(output_size) == dims + 2:
            output_size = output_size[2:]
        if len(output_size) != dims:
            raise ValueError(
                f"output_size should be a sequence containing {dims} or {dims + 2} elements, but "
                f"it has a length of '{len(output_size)}'")
        _check_unpool_size(output_size, default, stride)
    for d, size in enumerate(output_size):
        if size < 0:
            raise ValueError("max_unpooling: output_size must contain non-negative spatial "
                             f"dimensions, but got output_size[{d}]={size}")
    return output_size


def _unpool_arguments(expand, input, kernel_size, stride, padding, output_size):
    kernel_size, padding = expand(kernel_size), expand(padding)
    stride = kernel_size if stride is None else expand(stride)
    return _unpool_output_size(input, kernel_size, stride, padding, output_size), stride, padding


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts maxima back where max_pool1d found them; zero elsewhere.

    Shape: input and indices (int64) as max_pool1d returns them; output (N, C, L) or (C, L), (L - 1) * stride -
    2 * padding + kernel_size along each last dim, or output_size.

    Example::

        >>> F.max_unpool1d(*F.max_pool1d(torch.tensor([[1., 3., 2., 4.]]), 2, return_indices=True), 2)
        tensor([[0., 3., 0., 4.]])
    """
    size, _, _ = _unpool_arguments(_single, input, kernel_size, stride, padding, output_size)
    out = ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1])
    return out.squeeze(-1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts maxima back where max_pool2d found them; zero elsewhere.

    Shape: input and indices (int64) as max_pool2d returns them; output (N, C, H, W) or (C, H, W), (L - 1) *
    stride - 2 * padding + kernel_size along each last dim, or output_size.

    Example::

        >>> F.max_unpool2d(*F.max_pool2d(torch.arange(16.).view(1, 4, 4), 2, return_indices=True), 2)
        tensor([[[ 0.,  0.,  0.,  0.],
                 [ 0.,  5.,  0.,  7.],
                 [ 0.,  0.,  0.,  0.],
                 [ 0., 13.,  0., 15.]]])
    """
    size, _, _ = _unpool_arguments(_pair, input, kernel_size, stride, padding, output_size)
    return ops.max_unpool2d(input, indices, size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts maxima back where max_pool3d found them; zero elsewhere.

    Shape: input and indices (int64) as max_pool3d returns them; output (N, C, D, H, W) or (C, D, H, W), (L - 1)
    * stride - 2 * padding + kernel_size along each last dim, or output_size.

    Example::

        >>> F.max_unpool3d(*F.max_pool3d(torch.arange(8.).view(1, 2, 2, 2), 2, return_indices=True), 2)[0, 1, 1]
        tensor([0., 7.])
    """
    size, stride, padding = _unpool_arguments(_triple, input, kernel_size, stride, padding,
                                              output_size)
    return ops.max_unpool3d(input, indices, size, stride, padding)


# Powers.

def _lp_limit(max_pool, input, norm_type, kernel_size, stride, ceil_mode):
    """The pool with an infinite norm, or None."""
    if norm_type == float("inf"):
        return max_pool(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -float("inf"):
        return -max_pool(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    return None


def _lp_pool(avg_pool, input, norm_type, kernel_size, count, stride, ceil_mode):
    mean = avg_pool(input.pow(norm_type), kernel_size, [] if stride is None else stride, 0,
                    ceil_mode)
    return (cresset.sign(mean) * cresset.relu(cresset.abs(mean))).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of input ** p) ** (1 / p) of every window of a sequence, p = norm_type; infinite: the largest absolute value.

    Shape: input (N, C, L) or (C, L) of a floating dtype; output the same but for each last size L, floor((L -
    kernel_size) / stride + 1).

    Example::

        >>> F.lp_pool1d(torch.tensor([[1., 3., 2., 4.]]), 2, 2)
        tensor([[3.1623, 4.4721]])
    """
    out = _lp_limit(max_pool1d, input, norm_type, kernel_size, stride, ceil_mode)
    if out is not None:
        return out
    return _lp_pool(ops.avg_pool1d, input, norm_type, kernel_size, _single(kernel_size)[0],
                    stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of input ** p) ** (1 / p) of every window of an image, p = norm_type; infinite: the largest absolute value.

    Shape: input (N, C, H, W) or (C, H, W) of a floating dtype; output the same but for each last size L,
    floor((L - kernel_size) / stride + 1).

    Example::

        >>> F.lp_pool2d(torch.arange(16.).view(1, 4, 4), 2, 2)
        tensor([[[ 6.4807,  9.8995],
                 [21.4009, 25.3377]]])
    """
    out = _lp_limit(max_pool2d, input, norm_type, kernel_size, stride, ceil_mode)
    if out is not None:
        return out
    kh, kw = _pair(kernel_size)
    return _lp_pool(ops.avg_pool2d, input, norm_type, kernel_size, kh * kw, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of input ** p) ** (1 / p) of every window of a volume, p = norm_type; infinite: the largest absolute value.

    Shape: input (N, C, D, H, W) or (C, D, H, W) of a floating dtype; output the same but for each last size L,
    floor((L - kernel_size) / stride + 1).

    Example::

        >>> F.lp_pool3d(torch.arange(8.).view(1, 2, 2, 2), 2, 2)
        tensor([[[[11.8322]]]])
    """
    out = _lp_limit(max_pool3d, input, norm_type, kernel_size, stride, ceil_mode)
    if out is not None:
        return out
    kd, kh, kw = _triple(kernel_size)
    return _lp_pool(ops.avg_pool3d, input, norm_type, kernel_size, kd * kh * kw, stride,
                    ceil_mode)


# Adaptive.

def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """adaptive_max_pool1d and the positions of the maxima in their planes.

    Shape: input (N, C, L) or (C, L); outputs as adaptive_max_pool1d's, the second of int64.

    Example::

        >>> F.adaptive_max_pool1d_with_indices(torch.tensor([[1., 3., 2., 4.]]), 1)
        (tensor([[4.]]), tensor([[3]]))
    """
    return ops.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima of as many windows along each last dim as output_size says.

    Shape: input (N, C, L) or (C, L) of a floating dtype; output the same but for the last size, output_size.

    Example::

        >>> F.adaptive_max_pool1d(torch.tensor([[1., 3., 2., 4.]]), 1)
        tensor([[4.]])
    """
    out = ops.adaptive_max_pool1d(input, output_size)
    return out if return_indices else out[0]


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """adaptive_max_pool2d and the positions of the maxima in their planes.

    Shape: input (N, C, H, W) or (C, H, W); outputs as adaptive_max_pool2d's, the second of int64.

    Example::

        >>> F.adaptive_max_pool2d_with_indices(torch.arange(16.).view(1, 4, 4), 1)
        (tensor([[[15.]]]), tensor([[[15]]]))
    """
    return ops.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima of as many windows along each last dim as output_size says; None keeps a size.

    Shape: input (N, C, H, W) or (C, H, W) of a floating dtype; output the same but for the last sizes,
    output_size.

    Example::

        >>> F.adaptive_max_pool2d(torch.arange(16.).view(1, 4, 4), 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """
    out = adaptive_max_pool2d_with_indices(input, output_size)
    return out if return_indices else out[0]


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """adaptive_max_pool3d and the positions of the maxima in their planes.

    Shape: input (N, C, D, H, W) or (C, D, H, W); outputs as adaptive_max_pool3d's, the second of int64.

    Example::

        >>> F.adaptive_max_pool3d_with_indices(torch.arange(8.).view(1, 2, 2, 2), 1)
        (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return ops.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima of as many windows along each last dim as output_size says; None keeps a size.

    Shape: input (N, C, D, H, W) or (C, D, H, W) of a floating dtype; output the same but for the last sizes,
    output_size.

    Example::

        >>> F.adaptive_max_pool3d(torch.arange(8.).view(1, 2, 2, 2), 1)
        tensor([[[[7.]]]])
    """
    out = adaptive_max_pool3d_with_indices(input, output_size)
    return out if return_indices else out[0]


def adaptive_avg_pool2d(input, output_size):
    """Means of as many windows along each last dim as output_size says; None keeps a size.

    Shape: input (N, C, H, W) or (C, H, W) of a floating dtype; output the same but for the last sizes,
    output_size.

    Example::

        >>> F.adaptive_avg_pool2d(torch.arange(16.).view(1, 4, 4), 2)
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """
    return ops.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input, output_size):
    """Means of as many windows along each last dim as output_size says; None keeps a size.

    Shape: input (N, C, D, H, W) or (C, D, H, W) of a floating dtype; output the same but for the last sizes,
    output_size.

    Example::

        >>> F.adaptive_avg_pool3d(torch.arange(8.).view(1, 2, 2, 2), 1)
        tensor([[[[3.5000]]]])
    """
    return ops.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


# Fractional pooling: windows of one size at random places.

_AXES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _fractional_sizes(input, kernel, output_size, output_ratio, dims):
    name = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else tuple(output_ratio)
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-dims:], ratios)]
    output = [output_size] * dims if isinstance(output_size, int) else list(output_size)
    if len(output) != dims:
        several = "three Ints" if dims == 3 else "Ints"
        raise RuntimeError(f"{name}: output_size must either be a single Int or tuple of {several}")
    for axis, size, window, out in zip(_AXES[dims], input.shape[-dims:], kernel, output):
        if out + window - 1 > size:
            shown = f"{name}_out" if dims == 3 else name
            raise RuntimeError(f"{shown}(): pool {axis} {window} too large relative to input {axis} {size}")
    return output


def _fractional_starts(samples, size, window, out):
    """Returns the first element of each window along a dim, for every sample: (..., out).

    Truncations of (i + sample) * step differ by the step rounded down or up; the last window ends
    at the last element.
    """
    last = samples.new_full((*samples.shape, 1), size - window, dtype=cresset.int64)
    if out == 1:
        return last
    step = (size - window) / (out - 1)
    step = cresset.tensor(step, dtype=samples.dtype, device=samples.device)
    i = cresset.arange(out - 1, dtype=samples.dtype, device=samples.device)
    sample = samples.unsqueeze(-1)
    starts = ((i + sample) * step).to(cresset.int64) - (sample * step).to(cresset.int64)
    return cresset.cat([starts, last], -1)


def _along(index, dim, dims):
    """Gives an index (N, C, ...) of windows along `dim` the sizes that broadcast with the others':
    (N, C, out of all dims, window of all dims)."""
    n, c, out, window = index.shape
    shape = [n, c] + [1] * (2 * dims)
    shape[2 + dim], shape[2 + dims + dim] = out, window
    return index.reshape(shape)


def _fractional_pool(input, kernel, output, samples):
    """Returns the maxima of all windows and their positions in the planes of `input`."""
    dims = len(kernel)
    batched = input.dim() == dims + 2
    x = input if batched else input.unsqueeze(0)
    n, c, sizes = x.size(0), x.size(1), x.shape[2:]
    # torch's samples are in the order W, H for images and T, H, W for volumes.
    order = (1, 0) if dims == 2 else (0, 1, 2)
    rows = []
    for dim, (size, window, out) in enumerate(zip(sizes, kernel, output)):
        starts = _fractional_starts(samples[..., order[dim]], size, window, out)
        places = starts.unsqueeze(-1) + cresset.arange(window, device=x.device)
        rows.append(_along(places, dim, dims))
    position = rows[0]
    for size, row in zip(sizes[1:], rows[1:]):
        position = position * size + row
    position = position.expand(n, c, *position.shape[2:]).flatten(-dims)
    found = x.flatten(2).gather(2, position.flatten(2)).reshape(position.shape)
    maxima, at = found.max(-1)
    where = position.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    return (maxima, where) if batched else (maxima.squeeze(0), where.squeeze(0))


def _fractional(input, kernel_size, output_size, output_ratio, samples, dims):
    kernel = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
    if samples is None:
        n = input.size(0) if input.dim() > dims + 1 else 1
        samples = cresset.rand(n, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
    elif samples.requires_grad and cresset.is_grad_enabled():
        raise RuntimeError(f"The function 'fractional_max_pool{dims}d' is not differentiable with respect to argument "
                           "'random_samples'. This input cannot have requires_grad True.")
    output = _fractional_sizes(input, kernel, output_size, output_ratio, dims)
    return one_call(f"fractional_max_pool{dims}d", _fractional_pool, input, kernel, output, samples)


def fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None,
                                       return_indices=False, _random_samples=None):
    """fractional_max_pool2d and the positions of the maxima in their planes.

    Shape: input (N, C, H, W) or (C, H, W); outputs as fractional_max_pool2d's, the second of int64.

    Example::

        >>> [x.shape for x in F.fractional_max_pool2d_with_indices(torch.ones(1, 4, 4), 2, output_size=2)]
        [torch.Size([1, 2, 2]), torch.Size([1, 2, 2])]
    """
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2)


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Maxima of windows of kernel_size at random places of an image.

    The number of windows is output_size, or output_ratio times the size.

    Shape: input (N, C, H, W) or (C, H, W) of a floating dtype; output the same but for the last sizes,
    output_size.

    Example::

        >>> F.fractional_max_pool2d(torch.ones(1, 4, 4), 2, output_size=2).shape
        torch.Size([1, 2, 2])
    """
    found = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2)
    return found if return_indices else found[0]


def fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None,
                                       return_indices=False, _random_samples=None):
    """fractional_max_pool3d and the positions of the maxima in their planes.

    Shape: input (N, C, D, H, W) or (C, D, H, W); outputs as fractional_max_pool3d's, the second of int64.

    Example::

        >>> [x.shape for x in F.fractional_max_pool3d_with_indices(torch.ones(1, 4, 4, 4), 2, output_size=2)]
        [torch.Size([1, 2, 2, 2]), torch.Size([1, 2, 2, 2])]
    """
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3)


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Maxima of windows of kernel_size at random places of a volume.

    The number of windows is output_size, or output_ratio times the size.

    Shape: input (N, C, D, H, W) or (C, D, H, W) of a floating dtype; output the same but for the last sizes,
    output_size.

    Example::

        >>> F.fractional_max_pool3d(torch.ones(1, 4, 4, 4), 2, output_size=2).shape
        torch.Size([1, 2, 2, 2])
    """
    found = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3)
    return found if return_indices else found[0]
