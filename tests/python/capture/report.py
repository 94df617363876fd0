"""Counts the programs that are captured in one graph, that run eagerly, and that are wrong.

    PYTHONPATH=build/pkg:tests/python .venv/bin/python -m capture.report
"""
import cresset as torch

from . import test_differential  # noqa: F401
from .harness import PROGRAMS, attempt, observed, plain


def outcome(f):
    made = []

    def compile(f=None, **options):
        made.append(torch.compile(f, **options))
        return made[-1]
    torch.compiler.reset()
    same = attempt(observed, f, compile) == observed(f, plain)
    functions = [getattr(c, "_compiled_forward", c) for c in made]
    served = any(e.calls for c in functions for e in getattr(c, "_entries", ()))
    reasons = {c._compiler.refusal for c in functions if hasattr(c, "_compiler")} - {None}
    return "wrong" if not same else "captured" if served and not reasons else "eager", reasons


def main():
    counts = {}
    for family, f, _ in PROGRAMS:
        what, reasons = outcome(f)
        counts.setdefault(family, {"captured": 0, "eager": 0, "wrong": 0})[what] += 1
        if what != "captured":
            print(f"{what:8} {family}: {f.__name__}: {'; '.join(sorted(reasons)) or 'no call fits a recording'}")
    for family, found in counts.items():
        print(f"{family:16} {found}")
    print(len(PROGRAMS), {k: sum(found[k] for found in counts.values()) for k in ("captured", "eager", "wrong")})


if __name__ == "__main__":
    main()
