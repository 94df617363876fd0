"""Options and checks of all tests."""
import os
import signal

import comparisons
import pytest

pytest_runtest_call = comparisons.pytest_runtest_call


def pytest_addoption(parser):
    parser.addoption("--op", default="", help="only the tests of this entry of the operator table")
    comparisons.pytest_addoption(parser)
    parser.addoption("--full", action="store_true", help="the long forms of tests as well: those that are marked `full`")
    parser.addoption("--device", default="", help="the name of a device outside the library, for the "
                                                  "tests that compare it with the host")
    parser.addoption("--backend", default="", help="the shared object of that device")


def pytest_configure(config):
    # A shell starts a command in the background with interrupts ignored, and so would the programs that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "records(reason): records or times calls itself; not run with CR_DEFER=1")
    config.addinivalue_line("markers", "deferred_calls(n): calls of a compiled function that are deferred before one is "
                                       "recorded")
    config.addinivalue_line("markers", "full: a long form of a test, run with --full")
    if config.getoption("--backend"):
        import cresset
        cresset.utils.load_backend(config.getoption("--backend"))


def pytest_collection_modifyitems(config, items):
    if os.environ.get("CR_DEFER", "0") != "0":
        for item in items:
            mark = item.get_closest_marker("records")
            if mark:
                item.add_marker(pytest.mark.skip(reason=f"not deferred: {mark.args[0]}"))
    if not config.getoption("--full"):
        long = [i for i in items if i.get_closest_marker("full")]
        config.hook.pytest_deselected(items=long)
        items[:] = [i for i in items if i not in long]
    op = config.getoption("--op")
    if not op:
        return
    wanted = [i for i in items if hasattr(i, "callspec") and
              str(i.callspec.params.get("key", "")).partition(".")[0] == op.partition(".")[0]]
    config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
    items[:] = wanted


@pytest.fixture(autouse=True)
def deferred_calls(request):
    """Calls of a compiled function that are deferred before one is recorded: one, as for users, or the mark's number."""
    from cresset._dynamo import capture, config
    capture.Compiler.miss = comparisons.untraced(capture.Compiler.miss)
    mark = request.node.get_closest_marker("deferred_calls")
    before, config.deferred_calls = config.deferred_calls, mark.args[0] if mark else 1
    yield
    config.deferred_calls = before
