"""Every entry inside of functionalize(): in place, and as a view that is written; values, and which operators ran."""
import pytest

import cresset as torch
from cresset.func import functionalize
from cresset.utils._python_dispatch import TorchDispatchMode
from cresset.utils._pytree import tree_leaves

from table import ENTRIES, Draw

DRAWN = [e for e in ENTRIES if e.can_be_drawn() and "undefined" not in e.words and e.tensor_params]
IN_PLACE = [e for e in DRAWN if "inplace" in e.forms and "method" in e.forms and e.params[0]["type"] == "Tensor"]
# unfold's windows overlap, so each write in place reads what others wrote.
VIEWS = [e for e in DRAWN if e.name != "unfold" and e.schema.split("(", 1)[1].startswith("Tensor(a) self") and "method" in e.forms]


class Written(TorchDispatchMode):
    """Notes the operators that write a tensor."""

    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def outcome(function, x):
    """Returns the results of a function and x afterwards, or its error."""
    torch.manual_seed(0)
    try:
        return [*tree_leaves(function(x)), x]
    except Exception as error:
        return type(error)


def equal(a, b):
    """Compares two outcomes: values with their dtypes and sizes, or errors."""
    if not (isinstance(a, list) and isinstance(b, list)):
        return a is b
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))


def same(x, y):
    if not isinstance(x, torch.Tensor):
        return x == y
    return type(y) is type(x) and x.dtype == y.dtype and x.shape == y.shape and torch.allclose(x, y, 0, 0, equal_nan=True)


def compare(entry, method, after):
    """Yields the writing operators that ran, and the eager outcome, of each case that equals it functionalized."""
    for case in entry.cases():
        dtype = next((d for d in ("float32", "complex64", "int64", "bool") if d in entry.dtypes), "float32")
        args, kwargs = Draw(entry, case, dtype).call_arguments()
        if not isinstance(args[0], torch.Tensor) or args[0].layout != torch.strided or args[0].is_meta:
            continue

        def function(x):
            y = x.clone()
            return after(y, getattr(y, method)(*args[1:], **kwargs))
        want, written = outcome(function, args[0].clone()), Written()
        if method == entry.name and not isinstance(want, list):
            continue  # an expanded tensor is not written
        for remove in ("mutations", "mutations_and_views"):
            with written:
                got = outcome(functionalize(function, remove=remove), args[0].clone())
            assert equal(want, got), (entry.key, case, want, got)
        yield written.names, want


def results(y, out):
    return y, out


def written_views(y, out):
    """Writes each view."""
    for view in tree_leaves(out):
        if isinstance(view, torch.Tensor):
            view.zero_() if view.dtype == torch.bool else view.mul_(3)
    return y, out


@pytest.mark.filterwarnings("ignore")
def test_calls_in_place():
    count, left = 0, set()
    for entry in IN_PLACE:
        for names, want in compare(entry, entry.name + "_", results):
            count += 1
            left.update(names if isinstance(want, list) else ())
    assert count > 100 and not left


@pytest.mark.filterwarnings("ignore")
def test_views_that_are_written():
    count = sum(1 for entry in VIEWS for _ in compare(entry, entry.name, written_views))
    assert count > 40
