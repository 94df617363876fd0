"""Runs other libraries' test suites with torch and with this package, and compares the outcomes.

    python suites.py --peer PYTHON [--only TEXT] [--examples N] [--log FOLDER] [SUITE...]

PYTHON has torch 2.13; it takes the libraries from the folder ENVIRONMENT/recording, or from
--peer-path.  The repositories are those of checkouts.txt.  For each suite it prints how many tests
passed, failed and were skipped with both, and the tests that pass with torch only.  The exit status
is 1 if a suite has more of those than its row in SUITES allows.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import Counter
from pathlib import Path
from typing import NamedTuple

CHECKOUTS = Path(os.environ.get("CHECKOUTS") or Path(sys.prefix) / "checkouts")


class Suite(NamedTuple):
    tests: str
    allowed: int  # tests that may pass with torch only
    environment: dict = {}
    options: tuple = ()


SUITES = {
    "array-api-tests": Suite("array_api_tests", 0,
                             {"ARRAY_API_TESTS_MODULE": "array_api_compat.torch"},
                             ("--derandomize", "--disable-deadline", "--max-examples={examples}")),
    "einops": Suite("einops/tests", 0, {"EINOPS_TEST_BACKENDS": "numpy,torch"}),
    "gpytorch": Suite("test", 5),
}


def outcome_of(case):
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def read_outcomes(report):
    """{test: outcome} of a file that pytest's --junitxml wrote."""
    return {f"{case.get('classname')}::{case.get('name')}": outcome_of(case)
            for case in xml.etree.ElementTree.parse(report).iter("testcase")}


def run_suite(name, python, path, options, log):
    """{test: outcome} with one Python.  `path` is its PYTHONPATH; None keeps this process's."""
    suite, report = SUITES[name], Path(log) / f"{name}.xml"
    environment = {**os.environ, **suite.environment, "PYTHONDONTWRITEBYTECODE": "1",
                   "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}  # tests run `python`
    if path:
        environment["PYTHONPATH"] = str(path)
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider",
               f"--junitxml={report}", "-k", options.only,
               *(option.format(examples=options.examples) for option in suite.options), suite.tests]
    with open(Path(log) / f"{name}.txt", "w") as out:
        done = subprocess.run(command, cwd=CHECKOUTS / name, env=environment, stdout=out,
                              stderr=subprocess.STDOUT)
    if not report.exists():
        raise SystemExit(f"{name}: pytest ended with status {done.returncode}; see {out.name}")
    return read_outcomes(report)


def compare_suite(name, options):
    """Prints a suite's counts and differences.  Returns whether there are no more than allowed."""
    found = {}
    for side, python, path in (("torch", options.peer, options.peer_path),
                               ("cresset", sys.executable, None)):
        log = Path(options.log) / side
        log.mkdir(parents=True, exist_ok=True)
        found[side] = run_suite(name, python, path, options, log)
        counts = Counter(found[side].values())
        print(f"{name}, {side}: {counts['passed']} passed, {counts['failed']} failed, "
              f"{counts['skipped']} skipped", flush=True)
    worse = [test for test, outcome in found["torch"].items()
             if outcome == "passed" and found["cresset"].get(test) != "passed"]
    for test in worse:
        print(f"    {test}: {found['cresset'].get(test, 'did not run')}")
    better = sum(outcome == "passed" and found["torch"].get(test) == "failed"
                 for test, outcome in found["cresset"].items())
    print(f"{name}: {len(worse)} pass with torch only, {better} with cresset only")
    return len(worse) <= SUITES[name].allowed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--peer", required=True, help="a Python that has torch 2.13")
    parser.add_argument("--peer-path", default=Path(sys.prefix) / "recording",
                        help="its PYTHONPATH: the libraries without torch")
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--examples", type=int, default=100,
                        help="for each test of array-api-tests")
    parser.add_argument("--log", default=tempfile.gettempdir(), help="a folder for pytest's output")
    options = parser.parse_args()
    options.log = Path(options.log).resolve()
    return 0 if all([compare_suite(name, options) for name in options.suites or SUITES]) else 1


if __name__ == "__main__":
    sys.exit(main())
