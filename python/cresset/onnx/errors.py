"""Errors of torch.onnx."""
from . import OnnxExporterError

__all__ = ["OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """A warning of the exporter."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator that has no form in ONNX."""

    def __init__(self, name, version, supported_version=None, reason=None):
        self.name, self.version = name, version
        text = f"Exporting the operator '{name}' to ONNX opset version {version} is not supported"
        if supported_version is not None:
            text += f". Support for this operator was added in version {supported_version}, try exporting with this version"
        super().__init__(text if reason is None else f"{text}: {reason}")


class SymbolicValueError(OnnxExporterError):
    """A value that a function of register_custom_op_symbolic cannot write."""

    def __init__(self, msg, value):
        super().__init__(f"{msg}  [Caused by the value '{value}']")
