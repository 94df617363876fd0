"""Gradients of convolutions by their inputs and weights."""
from .. import _C
from .modules.utils import _pair, _single, _triple

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(which, tuple_of, input, weight, grad_output, stride, padding, dilation, groups):
    options = (tuple_of(stride), tuple_of(padding), tuple_of(dilation), False, tuple_of(0), groups)
    mask = [which == 0, which == 1, False]
    return _C.ops.convolution_backward(grad_output, input, weight, None, *options, mask)[which]


def _by_input(tuple_of, input_size, weight, grad_output, *options):
    input = grad_output.new_empty(1).expand(input_size)
    return _gradient(0, tuple_of, input, weight, grad_output, *options)


def _by_weight(tuple_of, input, weight_size, grad_output, *options):
    weight = grad_output.new_empty(1).expand(weight_size)
    return _gradient(1, tuple_of, input, weight, grad_output, *options)


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d by its input."""
    return _by_input(_single, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d by its weight."""
    return _by_weight(_single, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d by its input."""
    return _by_input(_pair, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d by its weight."""
    return _by_weight(_pair, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d by its input."""
    return _by_input(_triple, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d by its weight."""
    return _by_weight(_triple, input, weight_size, grad_output, stride, padding, dilation, groups)
