"""Merges batch normalization into the preceding layer, for inference."""
from copy import deepcopy

import cresset
from ..parameter import Parameter


def _scale(bn_rv, bn_eps, bn_w):
    return bn_w * cresset.rsqrt(bn_rv + bn_eps)


def _fuse_weights(weight, bias, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape):
    bias = cresset.zeros_like(bn_rm) if bias is None else bias
    bn_w = cresset.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = cresset.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = _scale(bn_rv, bn_eps, bn_w)
    fused = (weight * scale.reshape(shape)).to(dtype=weight.dtype)
    shift = ((bias - bn_rm) * scale + bn_b).to(dtype=bias.dtype)
    return Parameter(fused, weight.requires_grad), Parameter(shift, bias.requires_grad)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Returns weight and bias of a convolution that includes the normalization."""
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fuse_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Returns weight and bias of a linear layer that includes the normalization."""
    return _fuse_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _check_eval(kind, module, bn):
    if module.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(f"Expected {kind}.running_mean and {kind}.running_var to be set")


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """Returns a convolution that computes `conv` and then `bn`."""
    _check_eval("bn", conv, bn)
    fused = deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose)
    return fused


def fuse_linear_bn_eval(linear, bn):
    """Returns a linear layer that computes `linear` and then `bn`."""
    _check_eval("bn", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or "
                             "bn.num_features == 1")
    fused = deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused
