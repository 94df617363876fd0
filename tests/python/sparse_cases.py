"""Programs with sparse tensors, and their results.

A case is a line of sparse_cases.txt, or a group of conversions (conversion_cases): statements and a
last expression, separated by ` ;; `.  Its result is the repr of the expression, or the exception.  `python sparse_cases.py --record` runs all
cases with torch and writes sparse_expected.json.
"""
import importlib
import json
import pathlib
import re
import sys
import warnings

import versions

HERE = pathlib.Path(__file__).parent
BLOCKS = [(), ((1,),), (1,), ((2, 3),), ((2, 2),), ((0, 1),), ((1, 3, 0),), ((1, 3, 1, 3),)]  # as arguments
SETUP = """
i = torch.tensor([[0, 1, 1, 2], [2, 0, 2, 1]]); v = torch.tensor([3., 4., 5., -6.])
s = torch.sparse_coo_tensor(i, v, (3, 3))  # sorted, not known to be coalesced
u = torch.sparse_coo_tensor(torch.tensor([[1, 0, 1], [2, 0, 2]]), torch.tensor([1., 2., 3.]), (2, 3))
c = s.coalesce()
h = torch.sparse_coo_tensor(torch.tensor([[0, 2, 0]]), torch.arange(6.).reshape(3, 2), (3, 2))
z = torch.sparse_coo_tensor(size=(2, 3))
d = torch.arange(9.).reshape(3, 3) - 3
k = torch.tensor([[0., 1., 0.], [2., 0., 3.]])
si = torch.sparse_coo_tensor(i, torch.tensor([1, 2, 3, 4]), (3, 3))
sg = torch.sparse_coo_tensor(i, v, (3, 3), requires_grad=True)
dg = d.clone().requires_grad_()
r = torch.sparse_csr_tensor(torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1]), torch.tensor([1., 2., 3.]), (2, 3))
w = torch.arange(8.).reshape(4, 2).requires_grad_()
b = io.BytesIO()
"""


def conversion_cases():
    """Matrices of each layout, and tensors that are none, with each size of blocks and number of dense dims."""
    sources = ["k", "k.to_sparse()", "k.to_sparse_csr()", "k.to_sparse_bsr((1, 3))", "k.to_sparse_bsc((2, 3))",
               "k[:0].to_sparse_csc()", "k[:, :0].to_sparse()", "k[:0, :0]", "k[0]", "k[0, 0]", "k.to_sparse(1)",
               "k[0, 0].to_sparse()", "k.unsqueeze(2).to_sparse(2)"]
    calls = ["to_sparse_bsr(*block, dense_dim=dense)"]
    calls += [f"to_sparse(layout=torch.{layout}, blocksize=(*block, None)[0], dense_dim=dense)"
              for layout in ("sparse_bsc", "sparse_csc", "sparse_coo", "strided")]
    return [f"told(lambda block, dense: {source}.{call})" for source in sources for call in calls]


CASES = [line for line in (HERE / "sparse_cases.txt").read_text().splitlines() if line] + conversion_cases()


def told(call):
    """The results of a call, and the blocks and numbers of dense dims of each."""
    results = {}
    for block in BLOCKS:
        for dense in (None, 0, 1, -1)[:4 if block == (1,) else 2]:
            try:
                t = call(block, dense)
                values = t.values().tolist() if "sparse_b" in str(t.layout) else t.to_dense().tolist()
                text = f"{t.layout} {list(t.shape)} {values}"
            except Exception as e:
                text = f"{type(e).__name__}: {e}"
            results.setdefault(text, []).append((*block, dense))
    return results


def run(package, case):
    """The result of a case as text."""
    torch = importlib.import_module(package)
    env = {name: importlib.import_module(name) for name in ("copy", "io", "pickle")}
    env.update(torch=torch, F=torch.nn.functional, told=told)
    *statements, last = case.split(" ;; ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = torch.sparse.check_sparse_tensor_invariants(False)
        chosen.__enter__()
        try:
            exec(SETUP, env)
            for statement in statements:
                exec(statement, env)
            text = repr(eval(last, env))
        except Exception as e:
            # torch's text about missing backends goes on with lists of its build
            text = f"{type(e).__name__}: {e}".split(" This could be because")[0]
        finally:
            chosen.__exit__(None, None, None)  # restores the setting, also where it was never set
    return re.sub(r" object at 0x\w+", "", versions.ordered_dicts(text))


if __name__ == "__main__" and sys.argv[1:] == ["--record"]:
    expected = {case: run("torch", case) for case in CASES}
    (HERE / "sparse_expected.json").write_text(json.dumps(expected, indent=0) + "\n")
