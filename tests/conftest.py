"""Options and checks of all tests."""
import comparisons

pytest_runtest_call = comparisons.pytest_runtest_call


def pytest_addoption(parser):
    parser.addoption("--op", default="", help="only the tests of this entry of the operator table")
    comparisons.pytest_addoption(parser)


def pytest_collection_modifyitems(config, items):
    op = config.getoption("--op")
    if not op:
        return
    wanted = [i for i in items if hasattr(i, "callspec") and
              str(i.callspec.params.get("key", "")).partition(".")[0] == op.partition(".")[0]]
    config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
    items[:] = wanted
