"""Backends that run graphs as recorded."""


def eager(gm, fake_tensor_inputs, **kwargs):
    """Runs the graph as recorded."""
    return gm.forward


def aot_eager(gm, fake_tensor_inputs, fw_compiler=None, bw_compiler=None, **kwargs):
    """Runs the forward and backward graphs as recorded."""
    from .common import aot_autograd
    from ...functorch.compile import nop
    return aot_autograd(fw_compiler=fw_compiler or nop, bw_compiler=bw_compiler)(gm, fake_tensor_inputs)
