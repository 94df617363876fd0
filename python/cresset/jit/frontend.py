"""Errors of syntax that TorchScript lacks."""


class FrontendError(Exception):
    """A function of Python cannot be read."""


class NotSupportedError(FrontendError):
    """A form of an expression that TorchScript lacks."""


class UnsupportedNodeError(NotSupportedError):
    """A kind of expression or statement that TorchScript lacks."""
