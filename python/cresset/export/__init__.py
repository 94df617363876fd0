"""torch.export: a module's call as one graph of operators, which can be saved and run elsewhere."""
from ..utils._pytree import register_dataclass as _register_dataclass
from ._c_file import to_c
from ._decompose import CustomDecompTable
from ._delegate import Backend, LoweredBackendModule, to_backend
from ._draft_export import draft_export
from ._load import load
from ._rt import to_rt
from ._save import save
from ._trace import export
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = ["AdditionalInputs", "Backend", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram",
           "FlatArgsAdapter", "LoweredBackendModule", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions",
           "dims", "draft_export", "export", "load", "register_dataclass", "save", "to_backend", "to_c", "to_rt", "unflatten"]


def register_dataclass(cls, *, serialized_type_name=None):
    """Makes a dataclass a tree of its fields, so that arguments and results of exported modules may have it."""
    _register_dataclass(cls, serialized_type_name=serialized_type_name)
