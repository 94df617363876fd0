"""The table of default_decompositions(): compositions of torch as the operators that they consist of."""
import math

import cresset

aten = cresset.ops.aten


def _ints(x, n):
    return [x] * n if isinstance(x, int) else list(x) * n if len(x) == 1 else list(x)


def _contiguous(input, memory_format=cresset.contiguous_format):
    if input.is_contiguous(memory_format=memory_format):
        return input
    return aten.clone.default(input, memory_format=memory_format)


def _linear(input, weight, bias=None):
    flat = input if input.dim() == 2 else aten.view.default(_contiguous(input), [math.prod(input.shape[:-1]), input.shape[-1]])
    turned = aten.permute.default(weight, [1, 0])
    if bias is not None:
        out = aten.addmm.default(bias, flat, turned)
    else:
        out = aten.mm.default(flat, turned)
    return out if input.dim() == 2 else aten.view.default(out, [*input.shape[:-1], weight.shape[0]])


def _convolution(n, transposed=False):
    def function(input, weight, bias=None, stride=1, padding=0, *rest):
        if isinstance(padding, str) or input.dim() == n + 1:
            return NotImplemented
        if transposed:
            output_padding, groups, dilation = (*rest, *(0, 1, 1)[len(rest):])
        else:
            output_padding = 0
            dilation, groups = (*rest, *(1, 1)[len(rest):])
        return aten.convolution.default(input, weight, bias, _ints(stride, n), _ints(padding, n), _ints(dilation, n), transposed,
                                        _ints(output_padding, n), groups)
    return function


def _softmax(target):
    def function(input, dim, dtype=None):
        return target(input if dtype is None else aten._to_copy.default(input, dtype=dtype), dim, False)
    return function


def _dropout(input, p, train):
    return aten.native_dropout.default(input, p, True)[0] if train and p else aten.clone.default(input)


def _layer_norm(input, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return aten.native_layer_norm.default(input, shape, weight, bias, eps)[0]


def _reshape(input, shape):
    return aten.view.default(input, shape) if input.is_contiguous() else NotImplemented


def _flatten(input, start_dim=0, end_dim=-1):
    if not input.is_contiguous() or not input.dim():
        return NotImplemented
    first, last = start_dim % input.dim(), end_dim % input.dim()
    return aten.view.default(input, [*input.shape[:first], -1, *input.shape[last + 1:]])


def _transpose(input, dim0, dim1):
    if not input.dim():
        return NotImplemented
    order = list(range(input.dim()))
    a, b = dim0 % input.dim(), dim1 % input.dim()
    order[a], order[b] = order[b], order[a]
    return aten.permute.default(input, order)


def _split(input, split_size, dim=0):
    n, size = input.shape[dim], split_size
    if not isinstance(n, int) or type(n) is not int or not size:
        return NotImplemented
    return aten.split_with_sizes.default(input, [size] * (n // size) + ([n % size] if n % size else []), dim)


def _chunk(input, chunks, dim=0):
    n = input.shape[dim]
    if type(n) is not int or not n or chunks < 1:
        return NotImplemented
    return _split(input, -(-n // chunks), dim)


def _sum(input, dtype=None):
    return aten.sum.dim_IntList(input, [], dtype=dtype)


def _matmul(a, b):
    if a.dim() == 2 and b.dim() == 2:
        return aten.mm.default(a, b)
    return aten.bmm.default(a, b) if a.dim() == 3 and b.dim() == 3 and a.shape[0] == b.shape[0] else NotImplemented


def _filled(value):
    def function(size, dtype=None, layout=None, device=None, pin_memory=None):
        dtype = cresset.get_default_dtype() if dtype is None else dtype
        return aten.full.default(size, value, dtype=dtype, device=device, pin_memory=False)
    return function


def _itself(x):
    return x


# Replaced in every program without writes, whatever the table has: operators that are no functions of their arguments.
ALWAYS = {aten.lift_fresh_copy.default: aten.clone.default, aten.detach_.default: _itself, aten.chunk.default: _chunk}

TABLE = {
    aten.linear.default: _linear, aten.conv1d.default: _convolution(1), aten.conv2d.default: _convolution(2),
    aten.conv3d.default: _convolution(3), aten.conv_transpose2d.input: _convolution(2, True), aten.softmax.int: _softmax(aten._softmax.default),
    aten.log_softmax.int: _softmax(aten._log_softmax.default), aten.dropout.default: _dropout, aten.layer_norm.default: _layer_norm,
    aten.reshape.default: _reshape, aten.flatten.using_ints: _flatten, aten.transpose.int: _transpose, aten.split.Tensor: _split,
    aten.matmul.default: _matmul, aten.zeros.default: _filled(0), aten.ones.default: _filled(1),
    aten.detach_.default: lambda x: x, aten.sum.default: _sum,
    aten.contiguous.default: _contiguous,
}
