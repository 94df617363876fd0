"""Modules that quantization replaces, in floats."""
from .... import add, cat, matmul, mul
from ....nn import Identity, Module
from ....nn.functional import relu

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Operations as methods of a module, whose results pass `activation_post_process`."""

    def __init__(self):
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x):
        raise RuntimeError("FloatFunctional is not intended to use the forward. Please use the "
                           "underlying operation")

    def add(self, x, y):
        """x + y"""
        return self.activation_post_process(add(x, y))

    def add_scalar(self, x, y):
        """x + y, of a number y: not observed."""
        return add(x, y)

    def mul(self, x, y):
        """x * y"""
        return self.activation_post_process(mul(x, y))

    def mul_scalar(self, x, y):
        """x * y, of a number y: not observed."""
        return mul(x, y)

    def cat(self, x, dim=0):
        """torch.cat"""
        return self.activation_post_process(cat(x, dim=dim))

    def add_relu(self, x, y):
        """relu(x + y)"""
        return self.activation_post_process(relu(add(x, y)))

    def matmul(self, x, y):
        """x @ y"""
        return self.activation_post_process(matmul(x, y))
