"""torch.onnx: exported programs as files of ONNX, and names that libraries register their operators with."""
import enum
import re

__all__ = ["ONNXProgram", "OnnxExporterError", "errors", "export", "is_in_onnx_export"]


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


TensorProtoDataType = enum.IntEnum("TensorProtoDataType", """UNDEFINED FLOAT UINT8 INT8 UINT16 INT16
    INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN
    FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ""", start=0)


class OnnxExporterError(RuntimeError):
    """An error of the exporter."""


def is_in_onnx_export():
    """Returns whether the caller is being exported: False."""
    return False


_custom = {}  # (operator, version of ONNX's operators): the function that writes its nodes


def _check_name(name):
    if not re.fullmatch(r"[a-zA-Z0-9-_]+::[a-zA-Z-_]+[a-zA-Z0-9-_]*", name):
        raise OnnxExporterError(
            f"Failed to register operator {name}. The symbolic name must match the format "
            "domain::name, and should start with a letter and contain only alphanumeric characters")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """States how an operator is written as ONNX nodes."""
    _check_name(symbolic_name)
    _custom[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Removes what register_custom_op_symbolic stated."""
    _check_name(symbolic_name)
    _custom.pop((symbolic_name, opset_version), None)


def __getattr__(name):
    if name in ("export", "ONNXProgram"):
        from ._export import ONNXProgram, export
        globals().update(export=export, ONNXProgram=ONNXProgram)
        return globals()[name]
    if name in ("errors", "symbolic_helper", "symbolic_opset11"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    from .._absent_names import missing
    raise missing(__name__, name)
