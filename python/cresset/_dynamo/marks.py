"""mark_dynamic(), mark_static() and related marks.

A size marked dynamic must stay a symbol in a recording.  This is tested by asking the graph
whether it fits inputs of other sizes.
"""
from .. import Tensor, empty
from .exc import ConstraintViolationError

_MOST_TRIED = 64  # number of sizes tested


def _dims(index):
    return list(index) if isinstance(index, (list, tuple)) else [index]


def _set_of(t, name):
    return t.__dict__.setdefault(name, set())


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Makes the size of t along `index`, an int or several, a symbol from the first recording on.

    When the function needs one size, or a size is outside [min, max], ConstraintViolationError
    is raised.
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_dynamic() takes a Tensor, not {type(t).__name__}")
    for i in _dims(index):
        dim = range(t.dim())[i]
        _set_of(t, "_dynamo_dynamic_indices").add(dim)
        if min is not None or max is not None:
            t.__dict__.setdefault("_dynamo_dynamic_range", {})[dim] = (min, max)


def maybe_mark_dynamic(t, index):
    """As mark_dynamic(), if the function permits other sizes."""
    if not isinstance(t, Tensor):
        raise TypeError(f"maybe_mark_dynamic() takes a Tensor, not {type(t).__name__}")
    _set_of(t, "_dynamo_weak_dynamic_indices").update(range(t.dim())[i] for i in _dims(index))


def mark_unbacked(t, index, *, hint_override=None, strict=False, specialize_on=None, shape_id=None):
    """As mark_dynamic(): the function may need no particular size.  Sizes 0 and 1 have recordings of
    their own, so no assumption is made about them."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_unbacked() takes a Tensor, not {type(t).__name__}")
    for i in _dims(index):
        _set_of(t, "_dynamo_dynamic_indices").add(range(t.dim())[i])


def mark_static(t, index=None):
    """The size of t along `index` (None: all sizes) is never a symbol."""
    if isinstance(t, Tensor):
        _set_of(t, "_dynamo_static_indices").update(range(t.dim()) if index is None else
                                                    [range(t.dim())[i] for i in _dims(index)])


def mark_static_address(t, guard=True):
    """Does nothing: guards find tensors by their containers."""


def of(t):
    """Returns (dims that must be symbols, dims that may be, dims that must not be)."""
    marks = t.__dict__
    if type(t) is not Tensor or not marks:
        return (), (), marks.get("_dynamo_static_indices", ()) if marks else ()
    return (marks.get("_dynamo_dynamic_indices", ()), marks.get("_dynamo_weak_dynamic_indices", ()),
            marks.get("_dynamo_static_indices", ()))


def check_ranges(t, dims):
    """Checks that marked sizes are in their ranges."""
    for dim, (low, high) in t.__dict__.get("_dynamo_dynamic_range", {}).items():
        size = t.shape[dim]
        if dim in dims and (low is not None and size < low or high is not None and size > high):
            raise ConstraintViolationError(f"{size} not in range [{low if low is not None else 0}, "
                             f"{high if high is not None else 'int_oo'}]")


def check(graph, given, numbers, dynamic, marked):
    """Checks that marked sizes are symbols of the graph.

        given    the graph's inputs
        dynamic  {id of an input: mask of its dims that are symbols}
        marked   [(input, dim, name)]
    """
    for t, dim, name in marked:
        size, place = t.shape[dim], f"L['{name}'].size()[{dim}]"
        low, high = t.__dict__.get("_dynamo_dynamic_range", {}).get(dim, (None, None))
        low = max(2, low or 2)
        if high is None:
            others = [n for n in (*range(max(low, size - 16), size + 17), 2 * size, 3 * size, 4 * size) if n != size]
        else:
            others = list(range(low, high + 1, max(1, (high - low) // _MOST_TRIED)))
        fits = [_fits(graph, given, numbers, dynamic, size, n) for n in others]
        head = f"Constraints violated ({place})! For more information, run with CR_LOG=graph.\n"
        if not any(fits):
            raise ConstraintViolationError(f"{head}  - You marked {place} as dynamic but your code specialized it to be a constant "
                             f"({size}). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic.")
        if high is not None and not all(fits):
            raise ConstraintViolationError(f"{head}  - Not all values of {place} in the specified range {low} <= {place} <= {high} "
                             f"satisfy the guards of the recording: {others[fits.index(False)]} does not.")


def _fits(graph, given, numbers, dynamic, size, other):
    """Returns whether all symbols with this size may have another."""
    inputs = []
    for t in given:
        mask = dynamic.get(id(t), 0)
        shape = [other if mask >> d & 1 and n == size else n for d, n in enumerate(t.shape)]
        inputs.append(t if shape == list(t.shape) else
                      empty(shape, dtype=t.dtype, device="meta", requires_grad=t.requires_grad))
    try:
        return graph.fits(inputs, numbers)
    except RuntimeError:  # an operator rejects these sizes
        return False
