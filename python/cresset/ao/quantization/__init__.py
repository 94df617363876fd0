"""Marks of where a model is to be quantized, which do nothing in floats."""
from collections import namedtuple

from ...nn import Module

__all__ = ["DeQuantStub", "QConfig", "QuantStub", "QuantWrapper"]


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Makers of the observers of activations and of weights."""

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError("QConfig received observer instance, please pass observer class instead. "
                             "Use MyObserver.with_args(x=1) to override arguments to constructor if "
                             "needed")
        return super().__new__(cls, activation, weight)


class QuantStub(Module):
    """Where floats become quantized; in a float model, the identity."""

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class DeQuantStub(QuantStub):
    """Where quantized numbers become floats; in a float model, the identity."""


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
