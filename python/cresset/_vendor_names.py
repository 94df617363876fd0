"""Operators under the names of libraries by which torch computes them: cuDNN's for CUDA tensors, oneDNN's for the host's."""
from contextlib import contextmanager

from . import _C
from ._C import Tensor
from .backends import cudnn

__all__ = ["cudnn_affine_grid_generator", "cudnn_batch_norm", "cudnn_convolution", "cudnn_convolution_add_relu",
           "cudnn_convolution_relu", "cudnn_convolution_transpose", "cudnn_grid_sampler", "mkldnn_convolution", "native_norm"]


def _expect_device(name, kind, *tensors):
    for x in tensors:
        if isinstance(x, Tensor) and x.device.type != kind:
            raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the "
                                      f"'{x.device.type.upper()}' backend: it is for tensors on {kind}")


@contextmanager
def _switches(benchmark, deterministic, allow_tf32):
    """The switches of cuDNN for one call."""
    with cudnn.flags(cudnn.enabled, benchmark, cudnn.benchmark_limit, deterministic, allow_tf32):
        cudnn._round(allow_tf32)
        yield


def cudnn_convolution(input, weight, padding, stride, dilation, groups, benchmark, deterministic, allow_tf32, *, out=None):
    """The convolution of CUDA tensors without a bias."""
    _expect_device("cudnn_convolution", "cuda", input, weight)
    with _switches(benchmark, deterministic, allow_tf32):
        made = _C.convolution(input, weight, None, stride, padding, dilation, False, [0] * (input.dim() - 2), groups)
    return made if out is None else out.resize_(made.shape).copy_(made)


def cudnn_convolution_transpose(input, weight, padding, output_padding, stride, dilation, groups, benchmark, deterministic, allow_tf32):
    """The transposed convolution of CUDA tensors without a bias."""
    _expect_device("cudnn_convolution_transpose", "cuda", input, weight)
    with _switches(benchmark, deterministic, allow_tf32):
        return _C.convolution(input, weight, None, stride, padding, dilation, True, output_padding, groups)


def cudnn_convolution_relu(input, weight, bias, stride, padding, dilation, groups):
    """relu of the convolution of CUDA tensors."""
    _expect_device("cudnn_convolution_relu", "cuda", input, weight, bias)
    return _C.convolution(input, weight, bias, stride, padding, dilation, False, [0] * (input.dim() - 2), groups).relu()


def cudnn_convolution_add_relu(input, weight, z, alpha, bias, stride, padding, dilation, groups):
    """relu of a convolution of CUDA tensors plus alpha * z."""
    _expect_device("cudnn_convolution_add_relu", "cuda", input, weight, z, bias)
    made = _C.convolution(input, weight, bias, stride, padding, dilation, False, [0] * (input.dim() - 2), groups)
    return made.add(z, alpha=1 if alpha is None else alpha).relu()


def cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    """(result, mean, inverse deviation, reserve) of the batch norm of CUDA tensors; nothing is reserved."""
    _expect_device("cudnn_batch_norm", "cuda", input, weight, bias, running_mean, running_var)
    made = _C.native_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)
    return (*made, input.new_empty(0, dtype=_C.uint8))


def cudnn_affine_grid_generator(theta, N, C, H, W):
    """The grid of affine maps in 2 dims, corners aligned, of CUDA tensors."""
    _expect_device("cudnn_affine_grid_generator", "cuda", theta)
    return _C.affine_grid_generator(theta, [N, C, H, W], True)


def cudnn_grid_sampler(input, grid):
    """Bilinear samples at the places of a grid, corners aligned and zeros outside, of CUDA tensors."""
    _expect_device("cudnn_grid_sampler", "cuda", input, grid)
    return _C.grid_sampler(input, grid, 0, 0, True)


def mkldnn_convolution(input, weight, bias, padding, stride, dilation, groups):
    """The convolution of the host's tensors."""
    _expect_device("mkldnn_convolution", "cpu", input, weight, bias)
    return _C.convolution(input, weight, bias, stride, padding, dilation, False, [0] * (input.dim() - 2), groups)


def native_norm(input, p=2, dim=None, keepdim=False, dtype=None):
    """The norm of all values of a sparse tensor."""
    if input.layout != _C.sparse_coo:
        raise NotImplementedError("Could not run 'aten::native_norm' with arguments from the "
                                  f"'{input.device.type.upper()}' backend: it is for sparse tensors")
    if dim not in (None, [], ()) or keepdim or dtype is not None:
        raise RuntimeError("norm_sparse currently only supports full reductions" if dtype is None else
                           "norm_sparse currently does not support 'dtype' argument")
    return _C.norm(input.coalesce().values(), 2 if p is None else p)
