"""Pytest plugin: a test that passes without a comparison fails.

A comparison is an `assert` statement in a file under tests/, a function of numpy.testing, or an error or
warning that the test expects (pytest.raises, pytest.warns).  A trace function watches the test until its
first comparison and is then removed.  --uncompared=FILE writes the names of such tests instead, so that
checkouts can be compared (tools/counts)."""
import ast
import functools
import os
import sys

import numpy
import pytest

TESTS = os.path.dirname(os.path.abspath(__file__)) + os.sep
TESTING = os.path.join(os.path.dirname(numpy.__file__), "testing") + os.sep
EXPECTING = {pytest.raises.__code__, pytest.warns.__code__}


@functools.cache
def assert_lines(path):
    with open(path, encoding="utf-8") as file:
        return frozenset(node.lineno for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Assert))


class Watch:
    """Watches one test in this thread; `compared` is set at its first comparison."""

    def __init__(self, tests):
        self.tests, self.compared = tests, False

    def __enter__(self):
        sys.settrace(self.calls)
        return self

    def __exit__(self, *exc):
        sys.settrace(None)

    def found(self):
        self.compared = True
        sys.settrace(None)

    def calls(self, frame, event, argument):
        code = frame.f_code
        if self.compared:
            return None
        if code in EXPECTING or code.co_filename.startswith(TESTING):
            self.found()
        elif code.co_filename.startswith(self.tests):
            return self.lines
        return None

    def lines(self, frame, event, argument):
        if self.compared:
            return None
        if event == "line" and frame.f_lineno in assert_lines(frame.f_code.co_filename):
            self.found()
        return self.lines


def untraced(f):
    """The function without the trace function of a Watch: under a debugger, compile() observes nothing."""
    if hasattr(f, "watched"):
        return f

    @functools.wraps(f)
    def call(*args, **kwargs):
        trace = sys.gettrace()
        if not isinstance(getattr(trace, "__self__", None), Watch):
            return f(*args, **kwargs)
        sys.settrace(None)
        try:
            return f(*args, **kwargs)
        finally:
            sys.settrace(trace)
    call.watched = f
    return call


def pytest_addoption(parser):
    parser.addoption("--uncompared", default="", help="write the tests without a comparison to this file")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    tests = TESTS
    if item.config.getoption("--uncompared"):
        tests = os.path.join(str(item.config.rootpath), "tests") + os.sep
    with Watch(tests) as watch:
        outcome = yield
    if watch.compared or outcome.excinfo:
        return
    path = item.config.getoption("--uncompared")
    if not path:
        outcome.force_exception(AssertionError("the test compares nothing and expects no error"))
        return
    with open(path, "a", encoding="utf-8") as file:
        file.write(item.nodeid + "\n")
