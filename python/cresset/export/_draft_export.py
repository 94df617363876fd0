"""draft_export(): an exported program in spite of what export() refuses, and a report of that.

The tensors of the trace have the elements of the example beside them.  Where Python asks for a number or a comparison that
depends on elements, the example answers, and the program asserts the answer.  An operator of the program's library that has
no fake kernel, or a wrong one, gives results whose sizes are new symbols.
"""
import ast
import enum
import linecache
import logging
import sys

from .. import Tensor, _C
from .._dynamo.exc import UserError
from .._functorch import config
from ..utils._pytree import tree_leaves, tree_map
from ._trace import export_call
from .dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, _DimHint, _DimHintType

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "draft_export"]

_log = logging.getLogger(__name__)
_HOME = __file__.removesuffix("export/_draft_export.py")
_GUIDE = "https://docs.google.com/document/d/{}/edit#heading={} for more "
_KERNELS = _GUIDE.format("1_W62p8WJOQQUzPsJYa7s701JXt0qf2OfLub2sbkHOaU", "h.ahugy69p2jmz")
_VALUES = _GUIDE.format("1kZ_BbB3JnoLbUZleDT6635dHs88ZVYId8jT-yTFgf3A", "h.boi2xurpqa0o")


class FailureType(enum.IntEnum):
    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self):
        return self.name


def _frames_text(frames):
    return "".join(f"\n        File {f['filename']}, lineno {f['line']}, in {f['name']}" +
                   (f"\n            {f['code']}" if f["code"] else "") for f in frames)


def _locals_text(found):
    return "".join(f"\n            {name}: {values}" for name, values in found.items())


class FailureReport:
    """One thing that export() would have refused.

        failure_type  a FailureType
        data          {name: what is known of it}: `op`, `reason`, `expr`, `result`, `user_stack`, `frame_locals`, ...
    """

    def __init__(self, failure_type, data, xfail=False):
        self.failure_type, self.data, self.xfail = failure_type, data, xfail

    def __repr__(self):
        return f"FailureReport(failure_type={self.failure_type}, xfail={self.xfail}, data={self.data})"

    def print(self, str_to_filename=None):
        """The text of the failure in a report."""
        return getattr(self, f"_{self.failure_type.name.lower()}")(self.data)

    def _missing_fake_kernel(self, data):
        return (f"Missing fake kernel.\n    torch.ops.{data['op']} is missing a fake kernel implementation.\n\n    Please refer to "
                f"{_KERNELS}detailed instructions on how to write a meta implementation.\n")

    def _mismatched_fake_kernel(self, data):
        return (f"Mismatched fake kernel.\n    torch.ops.{data['op']} has a fake kernel implementation, but it has incorrect behavior, "
                f"based on the real kernel.\n    The reason for the mismatch is: {data['reason']}.\n\n    Please refer to "
                f"{_KERNELS}detailed instructions on how to write a fake implementation.\n")

    def _data_dependent_error(self, data):
        return (f"Data dependent error.\n    When exporting, we were unable to evaluate the value of `{data['expr']}`.\n    This was "
                f"encountered {data['occurrences']} times.\n    This occurred at the following user stacktrace: "
                f"{_frames_text(data['user_stack'])}\n        \n        Locals:{_locals_text(data['frame_locals'])}\n\n    As a result, it was "
                f"specialized to a constant (e.g. `{data['result']}` in the 1st occurrence), and asserts were inserted into the graph.\n\n"
                "    Please add `torch._check(...)` to the original code to assert this data-dependent assumption.\n"
                f"    Please refer to {_VALUES}details.\n")

    def _guard_added(self, data):
        symbols = "".join(f"\n           {name}: {source}" for name, source in data["symbol_to_sources"].items())
        return ("Guard Added.\n    A guard was added during tracing, which might've resulted in some incorrect\n    tracing or constraint "
                f"violation error.\n    Specifically, this guard was added: {data['expr']}, where {data['symbol_to_sources']}.\n    This "
                f"occurred at the following stacktrace: {_frames_text(data['user_stack'])}:\n        \n        Locals:"
                f"{_locals_text(data['frame_locals'])}\n\n        Symbols:{symbols}\n\n    Because of this, we have modified the dynamic "
                "shapes structure to be the\n    following. You can also use torch.export.Dim.AUTO instead to specify your\n    dynamic "
                "shapes, and we will automatically infer the dynamism for you.\n    ```\n    dynamic_shapes = "
                f"{data['new_dynamic_shapes']}\n    ```\n")


class DraftExportReport:
    """What export() would have refused.

        failures     the FailureReports
        op_profiles  {name of an operator: set of the profiles of its calls} of operators with a missing or a wrong fake kernel
    """

    def __init__(self, failures, str_to_filename=None, expressions_created=None, op_profiles=None):
        self.failures, self.op_profiles = failures, op_profiles or {}
        self.str_to_filename, self.expressions_created = str_to_filename or {}, expressions_created or {}

    def successful(self):
        """Whether export() would have succeeded."""
        return all(failure.xfail for failure in self.failures)

    def __str__(self):
        if self.successful():
            line = "#" * 94
            return (f"\033[92m\n{line}\nCongratulations: No issues are found during export, and it was able to soundly produce a graph.\n"
                    f"You can now change back to torch.export.export()\n{line}\n\033[0m")
        line = "#" * 99
        failures = "\n".join(f"{i}. {failure.print(self.str_to_filename)}" for i, failure in enumerate(self.failures, 1))
        return (f"\033[93m\n{line}\nWARNING: {len(self.failures)} issue(s) found during export, and it was not able to soundly produce a "
                f"graph.\nPlease follow the instructions to fix the errors.\n{line}\n\n{failures}\n\033[0m")

    def __repr__(self):
        return f"DraftExportReport({self.failures})"


# --- where ---

def _program_frames(top):
    """The program's frames inside of the frame `top`, outermost first."""
    frame, out = sys._getframe(2), []
    while frame is not None and frame is not top:
        if not frame.f_code.co_filename.startswith(_HOME):
            out.append(frame)
        frame = frame.f_back
    return out[::-1]


def _number_text(x, values):
    expr = values.expr(x) if type(x) is _C.Symbol else None
    return repr(x) if expr is None else expr.text()


def _value_text(x, values):
    if not isinstance(x, Tensor):
        return _number_text(x, values)
    sizes = [_number_text(n, values) for n in x.shape]
    with values.paused():  # the stride is that of the example: the question must not fix a size
        return f"Tensor(shape: torch.Size([{', '.join(sizes)}]), stride: {tuple(x.stride())}, storage_offset: {x.storage_offset()})"


def _locals_of(frame, values):
    """{name: texts of its values} for the variables in the line that a frame is at."""
    try:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        tree = ast.parse(line + " pass" if line.endswith(":") and not line.startswith(("elif", "else")) else line.removeprefix("el"))
    except SyntaxError:
        return {}
    names = sorted((n for n in ast.walk(tree) if isinstance(n, ast.Name)), key=lambda n: (n.lineno, n.col_offset))
    return {n.id: [_value_text(x, values) for x in tree_leaves(frame.f_locals[n.id])] for n in names
            if n.id in frame.f_locals and all(isinstance(x, (Tensor, int, float, str)) or x is None for x in tree_leaves(frame.f_locals[n.id]))}


class Draft:
    """What a trace notes for the report."""

    def __init__(self):
        self.start()

    def start(self):
        """Forgets a trace that is made again."""
        self.failures, self.known, self.op_profiles, self.asked = [], {}, {}, []

    def _where(self, trace):
        frames = _program_frames(trace.sources.top)
        stack = [{"filename": f.f_code.co_filename, "line": f.f_lineno, "name": f.f_code.co_name,
                  "code": linecache.getline(f.f_code.co_filename, f.f_lineno).strip()} for f in frames]
        return stack, _locals_of(frames[-1], trace.values) if frames else {}

    def value(self, trace, expr, result, symbols):
        """The example answered a question about elements."""
        stack, found = self._where(trace)
        key = tuple((f["filename"], f["line"]) for f in stack)
        if key in self.known:
            self.known[key].data["occurrences"] += 1
            return
        sources = {d.symbol_name: d.source for d in trace.dims if d.varies and d.symbol_name in symbols}
        self.known[key] = FailureReport(FailureType.DATA_DEPENDENT_ERROR, {
            "expr": expr, "result": str(result), "user_stack": stack, "stack": stack, "symbol_to_sources": sources, "frame_locals": found,
            "occurrences": 1})
        self.failures.append(self.known[key])

    def compared(self, trace, condition):
        """Python compared a size: where, for a guard that follows from it."""
        self.asked.append((condition, *self._where(trace)))

    def kernel(self, func, reason=None):
        """A custom operator has no fake kernel, or, with a reason, a wrong one."""
        kind = FailureType.MISSING_FAKE_KERNEL if reason is None else FailureType.MISMATCHED_FAKE_KERNEL
        data = {"op": str(func)} if reason is None else {"op": str(func), "reason": reason}
        if (kind, *data.values()) not in self.known:
            self.known[kind, *data.values()] = FailureReport(kind, data)
            self.failures.append(self.known[kind, *data.values()])

    def guards(self, conditions, sources, shapes):
        """Sizes that cannot vary as dynamic_shapes says."""
        for condition in conditions:
            names = [*condition.left.free_symbols, *condition.right.free_symbols]
            stack, found = next(((s, f) for c, s, f in self.asked if {*c.left.free_symbols, *c.right.free_symbols} & {*names}), ([], {}))
            self.failures.append(FailureReport(FailureType.GUARD_ADDED, {
                "expr": str(condition), "prefix": "eval", "user_stack": stack, "stack": stack, "frame_locals": found,
                "symbol_to_sources": {n: sources[n] for n in names if n in sources}, "new_dynamic_shapes": shapes}))


def _automatic(x):
    """An entry of dynamic_shapes of which sizes need not vary."""
    if isinstance(x, Dim):
        high = x.max if x.max != sys.maxsize else None
        return Dim.AUTO if x.root is not None else _DimHint(_DimHintType.AUTO, x.min, high)
    return _DimHint(_DimHintType.AUTO, x.min, x.max) if isinstance(x, _DimHint) and x.type is _DimHintType.DYNAMIC else x


def draft_export(mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
                 prefer_deferred_runtime_asserts_over_guards=False):
    """Like export(), in spite of what export() refuses; `_report` of the program, a DraftExportReport, says what that is.

    Sizes that cannot vary as dynamic_shapes says are those of the example.  Comparisons and numbers that depend on elements
    are those of the example, which the program asserts.  Results of custom operators without a fake kernel, or with a wrong
    one, have sizes that depend on elements.  The module is called on the example, too, whose random numbers are drawn.
    strict and prefer_deferred_runtime_asserts_over_guards have no effect, as in export()."""
    draft = Draft()
    with config.patch(fake_tensor_propagate_real_tensors=True):
        try:
            program = export_call(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature, draft)
        except UserError as error:
            if "Constraints violated" not in str(error):
                raise
            if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
                dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
            shapes, asked = tree_map(_automatic, dynamic_shapes), draft.asked
            program = export_call(mod, args, kwargs, shapes, preserve_module_call_signature, draft)
            draft.asked = asked
            draft.guards(getattr(error, "conditions", ()), getattr(error, "sources", {}), shapes)
    program._report = DraftExportReport(draft.failures, op_profiles=draft.op_profiles)
    _log.log(logging.INFO if program._report.successful() else logging.WARNING, "%s", program._report)
    return program
