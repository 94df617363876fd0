"""Calls of the functions that operators of this package take, and checks of what they do.

Such a function may be one graph for all its calls, so it must not write its inputs, nor return aliases
of them or of one another.
"""
import contextlib
import threading

from .. import Tensor, _C
from .._dynamo.exc import UncapturedHigherOrderOpError
from ..utils._pytree import tree_flatten


_thread = threading.local()  # `trace` while torch.export traces a call


def tracing():
    """The trace of the call that torch.export traces, or None."""
    return getattr(_thread, "trace", None)


def set_tracing(trace):
    """Sets what tracing() returns, and returns what it returned."""
    before, _thread.trace = tracing(), trace
    return before


def unrecorded():
    """Inside, checks of sizes are no conditions of the call that is traced: the operator's node checks them at each call."""
    return contextlib.nullcontext() if tracing() is None else tracing().values.paused()


def refuse(operator, what, explanation, hint):
    """Raises for a function that cannot be one graph for all its calls."""
    raise UncapturedHigherOrderOpError(
        "This higher order operator doesn't work unless it is captured completely with torch.compile. Got graph "
        f"break/error:\n\n{what}\n\n  Higher Order Operator: {operator}\n  Explanation: {explanation}\n  Hint: {hint}")


def refuse_value(operator, what, explanation):
    """Raises for a result that is no tensor."""
    refuse(operator, what, explanation, "Return tensors.")


def call(operator, function, args, run=None):
    """Returns function(*args), which neither writes tensors of `args` nor returns aliases.  run(function, args) makes
    the call."""
    tensors = [x for x in tree_flatten(args)[0] if isinstance(x, Tensor)]
    versions = [x._version for x in tensors]
    out = function(*args) if run is None else run(function, args)
    if versions != [x._version for x in tensors]:
        refuse(operator, "Encountered input mutation during higher order op tracing",
                f"Higher order ops do not support input mutation. Found in {operator}",
                "Call the operator without `_` at the end of its name, or clone the input.")
    _check_aliases(operator, tensors, [x for x in tree_flatten(out)[0] if isinstance(x, Tensor)])
    return out


def _check_aliases(operator, inputs, outputs):
    seen = {_C._storage_key(x) for x in inputs if x.numel()}
    for x in outputs:
        key = _C._storage_key(x)
        if x.numel() and key in seen:
            refuse(operator, "Encountered aliasing during higher order op tracing",
                    f"Higher order ops do not support aliasing. Found in {operator}",
                    "Replace `return input` with `return input.clone()` to avoid aliasing.")
        seen.add(key)


def _differences(a, b):
    """Returns how two leaves differ in sizes, dtype or device, in torch's words."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return [] if type(a) is type(b) else [f"type: {type(a)} vs {type(b)}"]
    return [f"{name}: {x} vs {y}" for name, x, y in (
        ("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype), ("device", a.device, b.device)) if x != y]


def check_same(left, found, right, expected):
    """Raises unless two lists of leaves have the same number, sizes, dtypes and devices."""
    if len(found) != len(expected):
        raise UncapturedHigherOrderOpError(f"Expected {left} and {right} to have same number of outputs but got "
                                           f"lhs:{found} and rhs:{expected}")
    lines = []
    for i, (a, b) in enumerate(zip(found, expected)):
        differences = _differences(a, b)
        if differences:
            joined = "', '".join(differences)
            lines.append(f"pair[{i}] differ in '{joined}', where lhs is {_brief(a)} and rhs is {_brief(b)}")
    if lines:
        raise UncapturedHigherOrderOpError(f"Expected {left} and {right} to have same metadata but found:\n"
                                           + "\n".join(lines))


def _brief(x):
    return f"Tensor(size={tuple(x.shape)}, dtype={x.dtype})" if isinstance(x, Tensor) else repr(x)


def select(pred, a, b, mismatch):
    """Returns the leaves of a where a batch `pred` holds, else those of b; both trees are equal."""
    from .. import where
    (found, spec), (other, other_spec) = tree_flatten(a), tree_flatten(b)
    if spec != other_spec:
        raise RuntimeError(mismatch(spec, other_spec))
    return [where(pred, x, y) for x, y in zip(found, other)], spec


def is_batch(x):
    """Returns whether x is one example of a batch of vmap, whose value cannot be read."""
    if type(x) is Tensor or not isinstance(x, Tensor):
        return False
    from .._functorch.vmap import _Batched
    return isinstance(x, _Batched)
