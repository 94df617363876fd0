"""In a region of deferred calls, an entry refuses dtypes when it is called, with the error of an eager call."""
import pytest

import cresset as torch

from table import ENTRIES, Draw

DTYPES = ("float32", "float16", "bfloat16", "complex64", "int64", "uint8", "bool", "float8_e5m2", "uint16", "complex32")
FILES = sorted({e.file for e in ENTRIES if e.can_be_drawn()})


def refusal(draw):
    try:
        draw.run(draw.values)
    except Exception as e:
        return type(e), str(e)
    return None


@pytest.mark.parametrize("file", FILES)
def test_refusals_are_not_late(file):
    seen = 0
    for entry in ENTRIES:
        if entry.file != file or not entry.can_be_drawn() or not entry.tensor_params or {"random", "undefined"} & set(entry.words):
            continue
        for case in list(entry.cases())[:2]:
            for dtype in DTYPES:
                want = refusal(Draw(entry, case, dtype))
                draw = Draw(entry, case, dtype)
                with torch.lazy():
                    assert refusal(draw) == want, (entry.key, dtype)
                    torch._C._defer_flush("the end of a case")
                seen += 1
    if not seen:
        pytest.skip("no entry takes tensors that can be drawn")
