"""Every entry that to_c() prints gives eager's results in a C file, which has all entries of a file of the table."""
import ctypes
import re
import shutil
import subprocess

import pytest

import cresset as torch
from cresset import nn
from cresset.export import export, to_c
from cresset.utils._pytree import tree_leaves, tree_map_only

from table import ENTRIES, Draw

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and not {"random", "undefined"} & set(e.words)]
# Products add in another order than eager's; functions of the C library may differ from eager's in the last bit.
NEAR = re.compile(r"\bcv_(multiply|batches|convolve|spread|weigh)\w*\(|"
                  r"\b(a?(sin|cos|tan)h?|atan2|exp2|expm1|log2|log10|log1p|pow|cbrt|erfc?|[lt]gamma|hypot|fmod)f?\(")


class Calls(nn.Module):
    """Calls of entries; the arguments are the tensors of all of them."""

    def __init__(self, draws):
        super().__init__()
        self.draws = draws

    def forward(self, *tensors):
        left, found = iter(tensors), []
        for draw in self.draws:
            made = draw.run(tree_map_only(torch.Tensor, lambda _: next(left), draw.values))
            found += [x for x in tree_leaves(made) if isinstance(x, torch.Tensor)]
        return tuple(found)


def tensors(draws):
    return tuple(x.contiguous() for draw in draws for x in tree_leaves(draw.values) if isinstance(x, torch.Tensor))


def printed(entry, case, dtype):
    """(call, text, results) of a case, or why there is no file."""
    try:
        draw = Draw(entry, case, dtype)
        args = tensors([draw])
        want = Calls([draw])(*(x.clone() for x in args))
        return (draw, to_c(export(Calls([draw]), args)), len(want)), None
    except Exception as error:
        return None, error


def run(folder, text, args, like):
    """The results of a file's function."""
    (folder / "model.c").write_text(text)
    subprocess.run(["gcc", "-std=c99", "-O1", "-ffp-contract=off", "-fno-math-errno", "-w", "-shared", "-fPIC", "model.c", "-o", "model.so", "-lm"],
                   cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "model.so"))
    library.model_work_bytes.restype = ctypes.c_size_t
    out = [torch.zeros(x.shape, dtype=x.dtype) for x in like]
    work = torch.zeros(library.model_work_bytes() // 8 + 4, dtype=torch.float64)
    at = [ctypes.c_void_p(x.data_ptr()) for x in (*args, *out, work)]
    assert library.model_run(*at) == 0
    return out


def same_bits(a, b):
    return a.dtype == b.dtype and a.contiguous().view(-1).view(torch.uint8).equal(b.contiguous().view(-1).view(torch.uint8))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="eager rounds twice where the file rounds once")
@pytest.mark.parametrize("file", sorted({e.file for e in DRAWN}))
def test_entries_of_a_file(file, tmp_path):
    with torch.no_grad():
        cases = [(e.key, d, *printed(e, case, d)) for e in DRAWN if e.file == file for d in ("float32", "int64") if d in e.dtypes
                 for case in e.cases()]
        kept = [(key, dtype, *made) for key, dtype, made, _ in cases if made]
        if not kept:
            pytest.skip("no entry of the file has a C form")
        module, args = Calls([k[2] for k in kept]), tensors([k[2] for k in kept])
        want = module(*(x.clone() for x in args))
        got = run(tmp_path, to_c(export(module, args)), args, want)
    pairs, wrong = zip(got, want), []
    for key, dtype, _, text, count in kept:
        for a, b in (next(pairs) for _ in range(count)):
            near = NEAR.search(text) and torch.allclose(a.double(), b.double(), rtol=2e-6, atol=1e-6, equal_nan=True)
            if not near and not same_bits(a, b.resolve_conj().resolve_neg()):
                wrong.append((key, dtype, a, b))
    assert not wrong
