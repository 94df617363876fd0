"""Lists the recorded operators that run on split tensors on 2 fake ranks, and why the others do not.

    SHARED=../shared PYTHONPATH=build/pkg .venv/bin/python tests/shared/sharding_list.py [--all]

With --all also the operators that run.  A reason is that of a sample in which every way to split its tensors needed another placement: the
entry of the table whose call needed it, and what the entry says.  docs/sharding.md has the output.
"""
import sys
import warnings
from collections import defaultdict

from test_archived_samples import UNDEFINED, replayer
from test_sharded_samples import OnRanks, samples, tried

RANKS = 2
notes = []
plain_dispatch, plain_whole = OnRanks.__torch_dispatch__.__func__, OnRanks.run_whole.__func__


def reason(func, whole):
    """Says why a call needed whole tensors, from the words of its entry."""
    words, results = set(func.words), [str(r.type) for r in func._schema.returns]
    if "random" in words:
        return "draws random numbers, which every rank draws for the whole"
    if "sized_by_values" in words:
        return "the sizes of results depend on values"
    if any("Tensor" not in r for r in results):
        return "returns numbers of the whole tensor"
    if any(a.is_write for a in func._schema.arguments):
        return "writes to a tensor that no strategy leaves in place"
    return "the entry states no axes" if whole else "the entry needs whole what the samples can divide"


def dispatch(cls, func, types, args=(), kwargs=None):
    """As OnRanks does, with a note of the call that gathers first."""
    before, cls.gathered = cls.gathered, False
    try:
        return plain_dispatch(cls, func, types, args, kwargs)
    finally:
        if cls.gathered and not any(n[1] is func for n in notes):
            notes.append((str(func).rpartition(".")[0], func, reason(func, False)))
        cls.gathered |= before


def run_whole(cls, func, flat, spec, written):
    notes.append((str(func).rpartition(".")[0], func, reason(func, True)))
    return plain_whole(cls, func, flat, spec, written)


def look(replay, key, entry):
    """Returns (runs, why not)."""
    if key in UNDEFINED:
        return False, "results are undefined, so nothing is compared"
    found, any_sample = [], False
    for row in samples(entry):
        notes.clear()
        any_sample = True
        try:
            if tried(replay, key, row, RANKS):
                return True, ""
        except Exception as error:
            return False, f"differs: {type(error).__name__}"
        found += notes[:1]
    if found:
        return False, f"{found[0][0]}: {found[0][2]}"
    return False, "no sample has a dim to divide, or numbers of all ranks are read" if any_sample else \
        "no sample of float32 or int64 has a tensor"


def entry_of(why):
    """Returns the entry of a reason that names one."""
    name, found, _ = why.partition(": ")
    return name.removeprefix("aten.") if found else ""


def main():
    OnRanks.__torch_dispatch__, OnRanks.run_whole = classmethod(dispatch), classmethod(run_whole)
    replay, ops = replayer()
    runs, others = [], defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, entry in sorted(ops.items()):
            fits, why = look(replay, key, entry)
            runs.append(key) if fits else others[why.partition(": ")[2] or why].append(
                f"{key} ({entry_of(why)})" if entry_of(why) not in ("", key) else key)
    print(f"{len(runs)} of {len(ops)} recorded operators run on {RANKS} ranks without gathering a split tensor")
    if "--all" in sys.argv[1:]:
        print(" ", ", ".join(runs))
    for why, keys in sorted(others.items(), key=lambda item: -len(item[1])):
        print(f"- {why} ({len(keys)}): {', '.join(keys)}")


if __name__ == "__main__":
    main()
