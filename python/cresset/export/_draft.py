"""draft_export(): an exported program in spite of sizes that cannot vary, and a report of them."""
import enum

from .._dynamo.exc import UserError
from ..utils._pytree import tree_map
from ._trace import export_call
from .dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, _DimHint, _DimHintType

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "draft_export"]


class FailureType(enum.IntEnum):
    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4


class FailureReport:
    """One thing that export() would have refused."""

    def __init__(self, failure_type, data):
        self.failure_type, self.data = failure_type, data

    def __repr__(self):
        return f"FailureReport(failure_type={self.failure_type}, data={self.data})"


class DraftExportReport:
    """What export() would have refused."""

    def __init__(self, failures):
        self.failures = failures

    def successful(self):
        """Whether export() would have succeeded."""
        return not self.failures

    def __str__(self):
        if self.successful():
            return "No issues found. You are able to soundly export.\n"
        lines = [f"{i}. {failure.failure_type.name}: {failure.data['error']}" for i, failure in enumerate(self.failures, 1)]
        return "Found the following issues during export:\n" + "\n".join(lines) + "\n"

    __repr__ = __str__


def _automatic(x):
    """An entry of dynamic_shapes of which sizes need not vary."""
    if isinstance(x, _DimHint):
        return Dim.AUTO if x.type is _DimHintType.DYNAMIC else x
    return Dim.AUTO if isinstance(x, Dim) else x


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    """Like export(); sizes that cannot vary as dynamic_shapes says are those of the example, and `_report` of the
    program has what export() would have refused.  strict and prefer_deferred_runtime_asserts_over_guards have no effect,
    as in export()."""
    failures = []
    try:
        program = export_call(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature)
    except UserError as error:
        if "Constraints violated" not in str(error):
            raise
        failures.append(FailureReport(FailureType.GUARD_ADDED, {"error": str(error)}))
        if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
        program = export_call(mod, args, kwargs, tree_map(_automatic, dynamic_shapes), preserve_module_call_signature)
    program._report = DraftExportReport(failures)
    return program
