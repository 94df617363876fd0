"""Names of the exporter to ONNX, which this build lacks: no program is being exported."""
import enum

__all__ = ["OnnxExporterError", "is_in_onnx_export"]


class OperatorExportTypes(enum.IntEnum):
    """Forms of exported operators."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(enum.IntEnum):
    """Modes of an exported model."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OnnxExporterError(RuntimeError):
    """An error of the exporter."""


def is_in_onnx_export():
    """Returns whether the caller is being exported: False."""
    return False
