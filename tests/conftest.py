"""Options and checks of all tests."""
import comparisons

pytest_runtest_call = comparisons.pytest_runtest_call


def pytest_addoption(parser):
    parser.addoption("--op", default="", help="only the tests of this entry of the operator table")
    comparisons.pytest_addoption(parser)
    parser.addoption("--device", default="", help="the name of a device outside the library, for the "
                                                  "tests that compare it with the host")
    parser.addoption("--backend", default="", help="the shared object of that device")


def pytest_configure(config):
    if config.getoption("--backend"):
        import cresset
        cresset.utils.load_backend(config.getoption("--backend"))


def pytest_collection_modifyitems(config, items):
    op = config.getoption("--op")
    if not op:
        return
    wanted = [i for i in items if hasattr(i, "callspec") and
              str(i.callspec.params.get("key", "")).partition(".")[0] == op.partition(".")[0]]
    config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
    items[:] = wanted
