"""Gradients of convolutions, without recording."""
from .. import _C
from .modules.utils import _pair, _single, _triple


def _backward(input, weight, grad, stride, padding, dilation, groups, mask):
    made = _C.convolution_backward(grad, input, weight, None, stride, padding, dilation, False, [0] * len(stride), groups, mask)
    return made[0] if mask[0] else made[1]


def _functions(dims, spread):
    def of_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        """The gradient of the convolution in its input."""
        input = grad_output.new_empty(1).expand(input_size)
        return _backward(input, weight, grad_output, spread(stride), spread(padding), spread(dilation), groups, (True, False, False))

    def of_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        """The gradient of the convolution in its weight."""
        weight = grad_output.new_empty(1).expand(weight_size)
        return _backward(input, weight, grad_output, spread(stride), spread(padding), spread(dilation), groups, (False, True, False))
    of_input.__name__, of_weight.__name__ = f"conv{dims}d_input", f"conv{dims}d_weight"
    return of_input, of_weight


conv1d_input, conv1d_weight = _functions(1, _single)
conv2d_input, conv2d_weight = _functions(2, _pair)
conv3d_input, conv3d_weight = _functions(3, _triple)
