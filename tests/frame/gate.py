"""CPython's own tests give the same counts observed and plain.

    PYTHONPATH=FOLDER_OF_frame_gate python gate.py [--quick] [MODULE...]

Every module of modules.txt runs twice in fresh processes of this interpreter.  The observed run
checks after every test that the hooks are installed and that instructions were seen, and at the end
that every value stack was as the shadow expects, and that no hook is left.
"""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

TRACES = sys.version_info < (3, 12)  # the observer is a trace function
HERE = os.path.dirname(os.path.abspath(__file__))


def listed_modules():
    """{module: its words} of modules.txt."""
    lines = [line.partition("#")[0].split() for line in open(os.path.join(HERE, "modules.txt"))]
    return {words[0]: words[1:] for words in lines if words}


def wanted_modules(quick):
    missing = f"not-3.{sys.version_info.minor}"
    return [name for name, words in listed_modules().items() if missing not in words and ("quick" in words or not quick)]


def wanted_tests(suite, left_out):
    """The tests of a suite, without those whose names contain a text of `left_out`."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from wanted_tests(test, left_out)
        elif not any(text in str(test) for text in left_out):
            yield test


class Observed(unittest.TestResult):
    """A result that checks the observation after every test."""

    def __init__(self, gate):
        super().__init__()
        self.gate, self.before, self.blind = gate, 0, []

    def stopTest(self, test):
        super().stopTest(test)
        events = self.gate.events() if self.gate else 1
        if self.gate and (events == self.before or not self.gate.is_on()):
            self.blind.append(str(test))
        self.before = events


def hooks():
    """The hooks that are installed in this process."""
    found = [sys.gettrace(), sys.getprofile()]
    if hasattr(sys, "monitoring"):
        found += [sys.monitoring.get_tool(i) for i in range(6)]
    return [str(x) for x in found if x is not None]


def keep_observing(gate):
    """Makes a test that removes all trace functions, as doctest and test.support.no_tracing do, restore
    the observation."""
    settrace = sys.settrace

    def restoring(function):
        settrace(function)
        if function is None:
            gate.restart()
    sys.settrace = restoring


def run(name, observed):
    """Runs a test module in this process; prints its counts as JSON."""
    sys.setswitchinterval(1e-3)
    left_out = [text for kind, _, text in (word.partition(":") for word in listed_modules().get(name, ()))
                if kind == "without" or kind == "traces" and TRACES]
    loaded = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
    suite = unittest.TestSuite(wanted_tests(loaded, left_out))
    gate = None
    if observed:
        import frame_gate as gate
        if not gate.start():
            sys.exit(f"{name}: the observer does not start")
        if TRACES:
            keep_observing(gate)
    result = Observed(gate)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    suite.run(result)
    if gate:
        gate.stop()
    seen = gate.counts() if gate else (0, 0, 0, None)
    bad = [str(t) for t, _ in result.failures + result.errors]
    print(json.dumps({"counts": [result.testsRun, len(result.skipped), len(result.expectedFailures)], "bad": sorted(bad),
                      "seen": seen, "blind": result.blind, "hooks": hooks()}), file=sys.__stdout__)


def outcome(name, how):
    done = subprocess.run([sys.executable, __file__, how, name], capture_output=True, text=True, cwd=os.environ.get("TMPDIR", "/tmp"))
    if done.returncode:
        return {"died": done.returncode, "text": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def compare(name):
    """The faults of a module, and what the observed run saw."""
    plain, observed = outcome(name, "--plain"), outcome(name, "--observed")
    if "died" in plain or "died" in observed:
        return [f"plain {plain}, observed {observed}"], (0, 0, 0), 0
    faults = [f"{what}: plain {plain[what]}, observed {observed[what]}" for what in ("counts", "bad")
              if plain[what] != observed[what]]
    if observed["blind"]:
        faults.append(f"not observed: {observed['blind'][:5]}")
    if observed["hooks"]:
        faults.append(f"left installed: {observed['hooks']}")
    if observed["seen"][2]:
        faults.append(f"{observed['seen'][2]} value stacks differ, the first in {observed['seen'][3]}")
    if not plain["counts"][0]:
        faults.append("no test ran")
    return faults, observed["seen"], plain["counts"][0]


def main():
    if importlib.util.find_spec("test.test_grammar") is None:
        print(f"frame: Python {sys.version.split()[0]} has no package `test`, its tests are left out")
        return 0
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or list(wanted_modules("--quick" in sys.argv))
    failed, events, compared, tests = 0, 0, 0, 0
    for name in names:
        faults, seen, ran = compare(name)
        events, compared, tests = events + seen[0], compared + seen[1], tests + ran
        for fault in faults:
            print(f"{name}: {fault}", flush=True)
        failed += bool(faults)
    print(f"frame: Python {sys.version.split()[0]}, {len(names)} modules, {tests} tests, {events} instructions, "
          f"{compared} stack entries compared, {failed} modules failed")
    return bool(failed)


if __name__ == "__main__":
    if "--plain" in sys.argv or "--observed" in sys.argv:
        run(sys.argv[-1], "--observed" in sys.argv)
    else:
        sys.exit(main())
