"""Writes tests/data/samples: torch's results for entries without a reference in the table.

    python tests/ops/record_samples.py choose RECORDING    (cresset) some calls of a recording of torch's OpInfo samples
    python tests/ops/record_samples.py cases               (torch)   the results of recorded_cases.py

`choose` takes, for every entry without a `ref`, the smallest calls that reach it: the entry is in the graph of the call
or of its gradient, or in the compositions of one that is.  RECORDING is the pickle that record_opinfo.py of
../shared/conformance writes under torch: {"ops": {operator: {group: [call]}}}."""
import base64
import collections
import json
import lzma
import math
import os
import pickle
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "data", "samples")
TABLE = os.path.join(HERE, "..", "..", "src", "ops", "table")
CALLS_OF_A_GROUP = 2  # for an entry; groups are dtypes, with and without gradient
MOST_BYTES = 60000    # of one call
FEW_ELEMENTS = 6      # calls with fewer test little and are chosen last


def write(name, what):
    with lzma.open(os.path.join(FOLDER, name), "wt", preset=9) as file:
        json.dump(what, file, separators=(",", ":"))


# --- choose ---

class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) == ("builtins", "complex"):
            return complex
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a recording")


def plain(x):
    """As JSON holds it: see recorded.py."""
    if isinstance(x, complex):
        return ["C", x.real, x.imag]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list):
        return [plain(v) for v in x]
    if not isinstance(x, tuple):
        return x
    if x[0] == "T":
        _, dtype, size, stride, _, data, requires_grad = x
        return ["T", dtype, list(size), list(stride), base64.b64encode(data).decode(), requires_grad]
    return ["dtype" if x[0] == "name" else x[0], *[plain(v) for v in x[1:]]]


def compositions():
    """The names that an entry's `is`, `let` and `grad` clauses call, by the entry's name."""
    calls, name = collections.defaultdict(set), None
    for file in sorted(os.listdir(TABLE)):
        for line in open(os.path.join(TABLE, file), encoding="utf-8"):
            if line.startswith("op "):
                name = re.match(r"op (\w+)", line)[1]
            elif re.match(r"  (is|let|grad| {3})", line):
                calls[name].update(re.findall(r"\b(\w+)\(", line))
    return calls


def closure(names, calls):
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += calls.get(name, ())
    return found


def with_gradient(call, recorded, torch):
    """The call's results, or the gradients of the leaves among its arguments."""
    leaves = []
    out = recorded.function(call[0])(*recorded.build(call[1], leaves), **recorded.build(call[2], leaves))
    roots = [t for t in recorded.tensors(out) if t.requires_grad]
    return torch.autograd.grad(roots, leaves, [torch.ones_like(t) for t in roots], allow_unused=True) if roots and leaves else out


def graph_names(f, recorded, torch, parts):
    recorder = torch._C.Recorder(parts=parts)
    recorder.start()
    try:
        out = f()
    finally:
        recorder.stop()
    return {str(node[1]) for node in recorder.finish(recorded.tensors(out)).nodes() if len(node) > 1}


def reached(f, names, recorded, torch, calls):
    """The names of the entries that f() calls, those of compositions among them; `names` are called in any case."""
    names = set(names)
    for parts in (False, True):
        try:
            names |= graph_names(f, recorded, torch, parts)
        except Exception:
            pass  # no graph holds it, as where a size depends on values
    return closure(names, calls)


def elements_of(x):
    """How many elements the tensors of an argument have."""
    if isinstance(x, list) and x and x[0] == "T":
        return math.prod(x[2])
    return sum(map(elements_of, x.values() if isinstance(x, dict) else x)) if isinstance(x, (list, dict)) else 0


def passing_calls(ops, recorded):
    """(says little, bytes, operator, group, call) of the calls whose results agree."""
    for key, entry in ops.items():
        for group, rows in entry.items():
            for row in rows if group != "errors" else ():
                call = plain(row)
                size = len(json.dumps(call))
                if size < MOST_BYTES:
                    try:
                        recorded.replay(call)
                    except Exception:
                        continue  # known to differ: tests/shared/differing.txt
                    yield elements_of(call[1:3]) < FEW_ELEMENTS, size, key, group, call


def choose(path):
    import cresset as torch
    import recorded
    import recorded_cases
    from table import ENTRIES

    warnings.simplefilter("ignore")
    with lzma.open(path) as file:
        ops = Plain(file).load()["ops"]
    calls, wanted = compositions(), {e.name for e in ENTRIES if not e.ref}
    groups, chosen = collections.Counter(), collections.defaultdict(list)
    for _, _, key, group, call in sorted(passing_calls(ops, recorded), key=lambda x: x[:4]):
        names = reached(lambda: with_gradient(call, recorded, torch), [call[0].rpartition(".")[2]], recorded, torch, calls)
        new = {n for n in names & wanted if groups[n, group] < CALLS_OF_A_GROUP and not call[5]}
        if new:
            chosen[key].append(call)
            groups.update((n, group) for n in new)
    found = {n for n, _ in groups}
    for text in recorded_cases.CASES:
        found |= wanted & reached(lambda: recorded_cases.evaluate(torch, text), re.findall(r"\w+", text), recorded, torch, calls)
    write("opinfo.json.xz", {"calls": dict(sorted(chosen.items())), "reached": sorted(found)})
    print(f"{sum(map(len, chosen.values()))} calls and {len(recorded_cases.CASES)} cases reach {len(found)} of {len(wanted)} names")


# --- cases ---

def described(torch, x):
    if isinstance(x, torch.Tensor):
        dense = x.detach().resolve_conj().resolve_neg().contiguous()
        bits = dense.view(torch.int16) if x.dtype == torch.bfloat16 else dense
        return ["T", str(x.dtype)[6:], list(x.shape), list(dense.stride()), base64.b64encode(bits.numpy().tobytes()).decode(), False]
    if isinstance(x, (list, tuple)):
        return ["L", [described(torch, v) for v in x]]
    return x


def cases():
    import torch

    import recorded_cases

    warnings.simplefilter("ignore")
    write("cases.json.xz", {text: described(torch, recorded_cases.evaluate(torch, text)) for text in recorded_cases.CASES})


if __name__ == "__main__":
    cases() if sys.argv[1] == "cases" else choose(sys.argv[2])
