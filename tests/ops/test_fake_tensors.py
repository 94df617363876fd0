"""Every entry on fake tensors: sizes, strides, dtypes and devices are those of the call on tensors with elements."""

import pytest

import cresset as torch
from cresset._subclasses import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from cresset.utils._pytree import tree_leaves, tree_map_only

from table import ENTRIES, Draw

FILES = sorted({e.file for e in ENTRIES})
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and "undefined" not in e.words]


def described(out):
    """Returns what a result is, but for its elements."""
    def of(x):
        return (x.shape, x.stride(), x.dtype, x.device.type) if x.layout == torch.strided else (x.shape, x.dtype)
    return [of(x) if isinstance(x, torch.Tensor) else type(x) for x in tree_leaves(out)]


def outcome(call):
    """Returns the description of a call's result and None, or None and its error."""
    try:
        return described(call()), None
    except Exception as error:
        return None, error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", FILES)
def test_fakes_have_the_types_of_results(file):
    compared = 0
    for entry in (e for e in DRAWN if e.file == file):
        for case in entry.cases():
            dtype = next((d for d in ("float64", "complex128", "int64", "bool") if d in entry.dtypes), "float32")
            draw, mode = Draw(entry, case, dtype), FakeTensorMode()
            if any(isinstance(x, torch.Tensor) and (x.layout != torch.strided or x.is_meta) for x in tree_leaves(draw.values)):
                continue
            fakes = tree_map_only(torch.Tensor, mode.from_tensor, draw.values)
            with mode:
                got, error = outcome(lambda: draw.run(fakes))
            want, wrong = outcome(draw.run)
            if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
                assert (entry.sized_by_values or entry.raises_by_values
                        or not all(isinstance(x, tuple) for x in want)), entry.key
            else:
                assert got == want and type(error) is type(wrong), (entry.key, case, got, want, error, wrong)
            compared += 1
    assert compared or not any(e.file == file for e in DRAWN)
