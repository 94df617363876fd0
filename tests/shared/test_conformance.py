"""Replays recorded samples of torch's operators: no operator fails unless it is listed.

differing.txt lists the operators that are missing or differ; `make bless-conformance` writes
it.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "differing.txt")


def replay(report):
    """Returns the operators that differ, and the closing lines.  Writes `report`."""
    conformance = os.path.join(os.environ["SHARED"], "conformance")
    vectors = sorted(f for f in os.listdir(conformance) if f.endswith(".pkl.xz"))[-1]
    done = subprocess.run([sys.executable, os.path.join(conformance, "check_opinfo.py"),
                           os.path.join(conformance, vectors), "--json", report], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    with open(report) as f:
        return sorted(json.load(f)["failures"]), done.stdout.splitlines()[-2:]


def test_operators_that_agreed_with_torch_still_do(tmp_path):
    failing, closing = replay(str(tmp_path / "report.json"))
    with open(LIST) as f:
        known = f.read().split()
    assert [op for op in failing if op not in known] == [], closing


if __name__ == "__main__":
    differing, closing_lines = replay(os.path.join(os.environ["CRESSET_BUILD"], "conformance.json"))
    with open(LIST, "w") as out:
        out.write("".join(op + "\n" for op in differing))
    print("\n".join(closing_lines))
