"""Functions that need Python: variadic tensors, defaults that depend on values.

They call entries of the table.  A function whose entry is missing is not defined.
"""
import math

from . import _C
from ._C import Tensor, ops
from .overrides import handle_torch_function, has_torch_function

__all__ = []


def _export(*needs):
    """Publishes a function if the table has the entries that it needs."""
    def keep(function):
        if all(hasattr(ops, name) for name in needs):
            __all__.append(function.__name__)
        return function
    return keep


def _listed(tensors):
    """Makes f(a, b) and f([a, b]) equivalent."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


@_export("broadcast_tensors")
def broadcast_tensors(*tensors):
    """Expands the tensors to their common sizes.

    Sizes: (*) each -> the broadcast sizes each.

    Example::

        >>> [x.shape for x in torch.broadcast_tensors(torch.ones(3, 1), torch.ones(2))]
        [torch.Size([3, 2]), torch.Size([3, 2])]
    """
    if has_torch_function(tensors):
        return handle_torch_function(broadcast_tensors, tensors, *tensors)
    return ops.broadcast_tensors(_listed(tensors))


@_export()
def broadcast_shapes(*shapes):
    """Returns the sizes that all sizes broadcast to.

    Example::

        >>> torch.broadcast_shapes((3, 1), (2,))
        torch.Size([3, 2])
    """
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    out = [1] * max(map(len, shapes), default=0)
    for number, shape in enumerate(shapes):
        for i in range(-1, -1 - len(shape), -1):
            if shape[i] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if out[i] == 1:
                out[i] = shape[i]
            elif shape[i] not in (1, out[i]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[i]} at {i}! "
                    f"Mismatching argument at index {number} had {shape}; but expected shape "
                    f"should be broadcastable to {out}")
    return _C.Size(out)


@_export("split")
def split(tensor, split_size_or_sections, dim=0):
    """Splits along `dim` into parts of one size (the last may be smaller), or of given sizes.  The parts are views.

    Sizes: (*) -> (*) with split_size_or_sections along dim.

    Example::

        >>> torch.split(torch.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
        >>> torch.split(torch.arange(5), [1, 4])
        (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(split, (tensor,), tensor, split_size_or_sections, dim=dim)
    return tensor.split(split_size_or_sections, dim)


@_export("nonzero")
def nonzero(input, *, out=None, as_tuple=False):
    """Returns the indices of nonzero elements: one row each, or with as_tuple one vector for each dim.

    Sizes: (*) -> (n, number of dims) of int64; with as_tuple (n) for each dim.

    Example::

        >>> torch.nonzero(torch.tensor([0, 5, 7]))
        tensor([[1],
                [2]])
        >>> torch.nonzero(torch.tensor([0, 5, 7]), as_tuple=True)
        (tensor([1, 2]),)
    """
    if has_torch_function((input,)):
        return handle_torch_function(nonzero, (input,), input, out=out, as_tuple=as_tuple)
    if not as_tuple:
        return ops.nonzero(input, out=out)
    if out is not None:
        raise TypeError("nonzero(): with as_tuple=True there is no out=")
    return ops.where(input)


@_export("meshgrid")
def meshgrid(*tensors, indexing=None):
    """Returns grids of the coordinates in vectors; indexing "ij": the first vector along dim 0, "xy": along dim 1.

    Sizes: (n), (m), ... -> (n, m, ...) each.

    Example::

        >>> x, y = torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")
        >>> x
        tensor([[1, 1],
                [2, 2]])
    """
    tensors = _listed(tensors)
    if has_torch_function(tensors):
        return handle_torch_function(meshgrid, tensors, *tensors, indexing=indexing)
    if indexing is None:
        from warnings import warn
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
             "argument.", stacklevel=2)
        return ops.meshgrid(tensors)
    return ops.meshgrid(tensors, indexing=indexing)


@_export("block_diag")
def block_diag(*tensors):
    """Returns a matrix with the tensors as blocks on its diagonal.

    Sizes: (n, m) each, a vector is a row -> the sums of n and of m.

    Example::

        >>> torch.block_diag(torch.ones(1, 1), torch.full((1, 2), 2.))
        tensor([[1., 0., 0.],
                [0., 2., 2.]])
    """
    if has_torch_function(tensors):
        return handle_torch_function(block_diag, tensors, *tensors)
    return ops.block_diag(list(tensors))


@_export("cartesian_prod")
def cartesian_prod(*tensors):
    """Returns all combinations of the vectors' elements, as rows.

    Sizes: (n), (m), ... -> (n m ..., number of vectors).

    Example::

        >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3]))
        tensor([[1, 3],
                [2, 3]])
    """
    if has_torch_function(tensors):
        return handle_torch_function(cartesian_prod, tensors, *tensors)
    return ops.cartesian_prod(_listed(tensors))


@_export("atleast_1d")
def atleast_1d(*tensors):
    """The tensors with at least one dimension.

    Sizes: () -> (1), others as they are.

    Example::

        >>> torch.atleast_1d(torch.tensor(3))
        tensor([3])
    """
    if has_torch_function(tensors):
        return handle_torch_function(atleast_1d, tensors, *tensors)
    return ops.atleast_1d(tensors[0] if len(tensors) == 1 else list(tensors))


@_export("atleast_2d")
def atleast_2d(*tensors):
    """The tensors with at least two dimensions.

    Sizes: () -> (1, 1), (n) -> (1, n), others as they are.

    Example::

        >>> torch.atleast_2d(torch.tensor([3, 4]))
        tensor([[3, 4]])
    """
    if has_torch_function(tensors):
        return handle_torch_function(atleast_2d, tensors, *tensors)
    return ops.atleast_2d(tensors[0] if len(tensors) == 1 else list(tensors))


@_export("atleast_3d")
def atleast_3d(*tensors):
    """The tensors with at least three dimensions.

    Sizes: () -> (1, 1, 1), (n) -> (1, n, 1), (n, m) -> (n, m, 1), others as they are.

    Example::

        >>> torch.atleast_3d(torch.tensor([3, 4])).shape
        torch.Size([1, 2, 1])
    """
    if has_torch_function(tensors):
        return handle_torch_function(atleast_3d, tensors, *tensors)
    return ops.atleast_3d(tensors[0] if len(tensors) == 1 else list(tensors))


@_export("chain_matmul")
def chain_matmul(*matrices, out=None):
    """Returns the product of matrices, multiplied in the cheapest order.

    Sizes: (n, m), (m, k), (k, l) ... -> (n, l).

    Example::

        >>> torch.chain_matmul(torch.ones(1, 3), torch.ones(3, 2))
        tensor([[3., 3.]])
    """
    matrices = _listed(matrices)
    return ops.chain_matmul(matrices) if out is None else ops.chain_matmul(matrices, out=out)


def _sublists(args):
    """Converts einsum(op1, [0, 1], op2, [1, 2], [0, 2]) to the equation and the operands."""
    def letter(k):
        if k is Ellipsis:
            return "..."
        if 0 <= k < 26:
            return chr(ord("A") + k)
        if 26 <= k < 52:
            return chr(ord("a") + k - 26)
        raise ValueError("einsum(): subscript in subscript list is not within the valid range "
                         "[0, 52)")
    text = ",".join("".join(map(letter, sub)) for sub in args[1::2])
    if len(args) % 2:
        pairs = args[:-1]
        text = ",".join("".join(map(letter, sub)) for sub in pairs[1::2])
        return text + "->" + "".join(map(letter, args[-1])), list(pairs[0::2])
    return text, list(args[0::2])


@_export("einsum")
def einsum(*args):
    """Sums products of elements, in Einstein's notation: letters that the result lacks are summed.

    Without `->` the result has the letters that occur once, in alphabetical order; `...` stands for further dims.

    Sizes: one letter for each dim -> the result's letters.

    Example::

        >>> torch.einsum("ij,jk->ik", torch.ones(1, 3), torch.ones(3, 2))
        tensor([[3., 3.]])
        >>> torch.einsum("ii", torch.eye(3))
        tensor(3.)
    """
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, "
                         "or at least one operand and its subscripts list")
    if isinstance(args[0], Tensor):
        equation, operands = _sublists(args)
    else:
        equation, operands = args[0], _listed(args[1:])
    if has_torch_function(operands):
        return handle_torch_function(einsum, operands, equation, *operands)
    return ops.einsum(equation, operands)


@_export("tensordot")
def tensordot(a, b, dims=2, out=None):
    """Sums products of elements along several dims: the last `dims` of a and the first of b, or dims=(dims of a, dims of b).

    Sizes: those of both without the summed dims.

    Example::

        >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4)[:, :1], dims=1)
        tensor([[3.],
                [3.]])
    """
    if has_torch_function((a, b)):
        return handle_torch_function(tensordot, (a, b), a, b, dims=dims, out=out)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError("tensordot expects dims < ndim_a or ndim_b, but got dims="
                               f"{dims}")
        dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    else:
        dims_a, dims_b = dims
        dims_a = [dims_a] if isinstance(dims_a, int) else list(dims_a)
        dims_b = [dims_b] if isinstance(dims_b, int) else list(dims_b)
    result = ops.tensordot(a, b, dims_a, dims_b)
    return result if out is None else out.resize_(result.shape).copy_(result)


@_export("linalg_vector_norm")
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """Returns a vector norm over `dim`, or a matrix norm for p="nuc"; "fro" is the root of the sum of squares.

    Sizes: those of the tensor without the reduced dims; 1 there with keepdim.

    Example::

        >>> torch.norm(torch.tensor([3., 4.]))
        tensor(5.)
        >>> torch.norm(torch.tensor([[3., 4.]]), p=1, dim=1)
        tensor([7.])
    """
    if has_torch_function((input,)):
        return handle_torch_function(norm, (input,), input, p=p, dim=dim, keepdim=keepdim, out=out,
                                     dtype=dtype)
    if input.layout != _C.strided:
        return ops.norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)
    kwargs = {"keepdim": keepdim, "dtype": dtype, **({} if out is None else {"out": out})}
    dims = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    if p == "nuc":
        if dims is None:
            dims = [-2, -1]
        return ops.linalg_matrix_norm(input, "nuc", dims, **kwargs)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    return ops.linalg_vector_norm(input, 2 if p in ("fro", None) else p, dims, **kwargs)


@_export("_unique2", "unique_dim")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Returns the distinct elements (or slices along dim), sorted, optionally with indices and counts.

    Sizes: (*) -> (n); inverse (*), counts (n).

    Example::

        >>> torch.unique(torch.tensor([3, 1, 3]))
        tensor([1, 3])
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    if has_torch_function((input,)):
        return handle_torch_function(unique, (input,), input, sorted=sorted, dim=dim,
                                     return_inverse=return_inverse, return_counts=return_counts)
    if dim is None:
        parts = ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        parts = ops.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _wanted(parts, return_inverse, return_counts)


@_export("unique_consecutive")
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Replaces every run of equal elements by one.

    Sizes: (*) -> (n); inverse (*), counts (n).

    Example::

        >>> torch.unique_consecutive(torch.tensor([3, 3, 1, 3]))
        tensor([3, 1, 3])
    """
    if has_torch_function((input,)):
        return handle_torch_function(unique_consecutive, (input,), input, dim=dim,
                                     return_inverse=return_inverse, return_counts=return_counts)
    parts = ops.unique_consecutive(input, return_inverse, return_counts, dim)
    return _wanted(parts, return_inverse, return_counts)


def _wanted(parts, inverse, counts):
    values, places, numbers = parts
    out = (values, *([places] if inverse else []), *([numbers] if counts else []))
    return out if len(out) > 1 else values


@_export("_lu_with_info")
def lu(A, pivot=True, get_infos=False, out=None):
    """Returns the LU factorization in compact form; with get_infos also LAPACK's status.

    Sizes: (*, n, m) -> (*, n, m), pivots (*, min(n, m)).

    Example::

        >>> torch.lu(torch.eye(2))[0].diagonal()
        tensor([1., 1.])
    """
    if has_torch_function((A,)):
        return handle_torch_function(lu, (A,), A, pivot=pivot, get_infos=get_infos, out=out)
    result = tuple(ops._lu_with_info(A, pivot=pivot))
    result = result if get_infos else result[:2]
    if out is None:
        return result
    if len(out) != len(result):
        raise TypeError(f"expected tuple of {len(result)} elements but got {len(out)}")
    for to, value in zip(out, result):
        to.resize_as_(value).copy_(value)
    return out


@_export("stft")
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True,
         pad_mode="reflect", normalized=False, onesided=None, return_complex=None,
         align_to_window=None):
    """Returns the Fourier transforms of overlapping windows of a signal.

    Sizes: (L) or (B, L) -> (n_fft // 2 + 1, frames), or (n_fft, frames) with onesided=False; B in front.

    Example::

        >>> torch.stft(torch.ones(8), n_fft=4, window=torch.ones(4), return_complex=True).shape
        torch.Size([3, 9])
    """
    if has_torch_function((input, window)):
        return handle_torch_function(stft, (input, window), input, n_fft, hop_length=hop_length, win_length=win_length,
                                     window=window, center=center, pad_mode=pad_mode, normalized=normalized,
                                     onesided=onesided, return_complex=return_complex, align_to_window=align_to_window)
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = False.")
        from .nn.functional import pad
        extra = n_fft // 2
        shape = (1,) * (3 - input.dim()) + tuple(input.shape)
        padded = pad(input.view(shape), [extra, extra], pad_mode)
        input = padded.view(padded.shape[-input.dim():])
    return ops.stft(input, n_fft, hop_length, win_length, window, normalized, onesided,
                    return_complex)


@_export("istft")
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True,
          normalized=False, onesided=None, length=None, return_complex=False):
    """Inverts stft.

    Sizes: (n_fft // 2 + 1, frames) -> (L); B in front.

    Example::

        >>> w = torch.ones(4)
        >>> x = torch.stft(torch.ones(8), n_fft=4, window=w, return_complex=True)
        >>> torch.istft(x, n_fft=4, window=w).shape
        torch.Size([8])
    """
    return ops.istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided,
                     length, return_complex)


@_export("arange")
def unravel_index(indices, shape):
    """Converts positions in a row-major tensor of this shape to indices.

    Sizes: (*) of integers -> (*) for each dim of the shape.

    Example::

        >>> torch.unravel_index(torch.tensor([5]), (2, 3))
        (tensor([1]), tensor([2]))
    """
    if has_torch_function((indices,)):
        return handle_torch_function(unravel_index, (indices,), indices, shape=shape)
    if indices.is_complex() or indices.is_floating_point() or indices.dtype == _C.bool:
        raise TypeError("expected 'indices' to be integer dtype, but got " + str(indices.dtype))
    shape = [shape] if isinstance(shape, int) else list(shape)
    steps = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    sizes = {"dtype": _C.int64, "device": indices.device}
    return (indices.unsqueeze(-1) // _C.tensor(steps, **sizes) % _C.tensor(shape, **sizes)).unbind(-1)


def _gradient_spacings(input, spacing, dims):
    """Returns a number or the coordinates for each dim; None without `dim` means every dim."""
    count = input.dim() if dims is None else len(dims)
    if spacing is None:
        spacing = 1
    if not isinstance(spacing, (list, tuple)):
        if not isinstance(spacing, (int, float, complex)):
            raise TypeError("gradient() received an invalid combination of arguments - got (Tensor, "
                            f"spacing={type(spacing).__name__}), but expected a number, or a sequence of "
                            "numbers or tensors")
        return [spacing] * count
    if len(spacing) != count and dims is None:
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
                           f"equal to 'self.dim() = {count}', since dim argument was not given, but got a "
                           f"list of length {len(spacing)}")
    if len(spacing) != count:
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
                           f"arguments to have the same length, but got a spacing argument of length {len(spacing)} "
                           f"and a dim argument of length {count}.")
    for each in spacing:
        if isinstance(each, Tensor) and each.dim() != 1:
            raise RuntimeError("torch.gradient expected each element of spacing to have one dimension, but got an "
                               f"element with {each.dim()} dimensions!")
    return list(spacing)


def _gradient_dims(input, dim, edge_order):
    """Returns the dims, not negative."""
    if input.dtype == _C.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    seen = []
    for d in dims:
        if not -max(input.dim(), 1) <= d < max(input.dim(), 1):
            raise IndexError("Dimension out of range (expected to be in range of "
                             f"[{-max(input.dim(), 1)}, {max(input.dim(), 1) - 1}], but got {d})")
        seen.append(d % max(input.dim(), 1))
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in seen:
        if seen.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if any(input.size(d) < edge_order + 1 for d in seen):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return seen


def _gradient_along(x, dim, spacing, edge_order):
    """Differences in the middle, and at both ends of one order lower or the same."""
    n = x.size(dim)
    part = [lambda i, k=k: x.narrow(dim, i, k) for k in (1, n - 2)]
    one, middle = part
    if isinstance(spacing, Tensor):
        step = spacing.diff().view([-1] + [1] * (x.dim() - 1 - dim))
        before, after = step[:-1], step[1:]
        inner = (middle(0) * (-after / (before * (before + after)))
                 + middle(1) * ((after - before) / (before * after))
                 + middle(2) * (before / (after * (before + after)))) if n > 2 else None
        first, last = step[:1], step[-1:]
    else:
        inner = (middle(2) - middle(0)) / (2.0 * spacing) if n > 2 else None
        step, first, last = None, spacing, spacing
    if edge_order == 1:
        ends = (one(1) - one(0)) / first, (one(n - 1) - one(n - 2)) / last
    else:
        second, third = (spacing, spacing) if step is None else (step[1:2], step[-2:-1])
        ends = (_one_sided(one(0), one(1), one(2), first, second),
                -_one_sided(one(n - 1), one(n - 2), one(n - 3), last, third))
    return _C.cat([ends[0]] + ([] if inner is None else [inner]) + [ends[1]], dim)


def _one_sided(a, b, c, near, far):
    """The derivative at a from the values at distances 0, near, and near + far."""
    both = near + far
    return a * (-(near + both) / (near * both)) + b * (both / (near * far)) + c * (-near / (far * both))


@_export("narrow", "cat")
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Estimates derivatives along dims from values on a grid; a tuple of one tensor a dim.

    Sizes: (*) -> (*) for each dim.

    Example::

        >>> torch.gradient(torch.tensor([1., 4., 9.]))
        (tensor([3., 4., 5.]),)
    """
    if has_torch_function((input,)):
        return handle_torch_function(gradient, (input,), input, spacing=spacing, dim=dim, edge_order=edge_order)
    spacings = _gradient_spacings(input, spacing, [dim] if isinstance(dim, int) else dim)
    dims = _gradient_dims(input, dim, edge_order)
    return tuple(_gradient_along(input, d, s, edge_order) for d, s in zip(dims, spacings))


_CDIST_MODES = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1,
                "donot_use_mm_for_euclid_dist": 2}


@_export("cdist")
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-norm distances of each row of x1 to each row of x2.

    Sizes: (*, n, d), (*, m, d) -> (*, n, m).

    Example::

        >>> torch.cdist(torch.zeros(1, 2), torch.tensor([[3., 4.]]))
        tensor([[5.]])
    """
    if has_torch_function((x1, x2)):
        return handle_torch_function(cdist, (x1, x2), x1, x2, p=p, compute_mode=compute_mode)
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return ops.cdist(x1, x2, p, _CDIST_MODES[compute_mode])


@_export("empty")
def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """A tensor over the first `size` elements of a file; with `shared` writes change the file."""
    if device is not None and _C.device(device).type != "cpu":
        raise RuntimeError("from_file() makes tensors of the CPU only")
    dtype = dtype or _C.get_default_dtype()
    storage = _C.UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    return _C.empty(0, dtype=dtype).set_(storage, 0, (size,), (1,))


def __getattr__(name):
    if name not in ("pca_lowrank", "svd_lowrank"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from . import _lowrank
    return getattr(_lowrank, name)
