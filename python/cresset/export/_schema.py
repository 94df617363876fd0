"""Numbers and names of the `.pt2` format of torch 2.13 (schema 8.20)."""
import cresset

from .._utils import torch_name

SCHEMA_VERSION = {"major": 8, "minor": 20}
OPSET_VERSION = {"aten": 10}
TORCH_VERSION = "2.13.0+cpu"

DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32",
          10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2",
          31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "uint32", 34: "uint64"}
LAYOUTS = {1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc", 7: "strided"}
FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}


class FormatError(RuntimeError):
    """A file that is no exported program of this format."""


def named(table, number, what):
    """The object of torch that a number of the format stands for."""
    found = getattr(cresset, table.get(number, ""), None) if type(number) is int else None
    if found is None:
        raise FormatError(f"torch.export.load: unknown {what} {number!r}")
    return found


def number_of(table, x):
    """The number of a dtype, layout or memory format."""
    name = str(x).removeprefix("torch.")
    return next(n for n, known in table.items() if known == name)


def device_json(device):
    return {"type": device.type, "index": device.index}


def target_name(target):
    """The name of a node's function in files: torch.ops.aten.add.Tensor or _operator.mul."""
    if hasattr(target, "overloadpacket"):
        return f"torch.ops.{target}"
    module = "torch" if target.__name__.startswith("sym_") else torch_name(target.__module__)
    return f"{module}.{target.__name__}"
