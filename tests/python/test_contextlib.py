"""torch.utils._contextlib: context managers that decorate functions."""
import contextlib

import pytest

from cresset.utils._contextlib import (_DecoratorContextManager, _NoParamDecoratorContextManager,
                                       context_decorator)


@pytest.fixture
def log():
    return []


def manager(log, base=_DecoratorContextManager):
    class Manager(base):
        def __init__(self, n=0):
            self.n = n

        def __enter__(self):
            log.append(("in", self.n))

        def __exit__(self, *exception):
            log.append("out")

        def clone(self):
            return type(self)(self.n)
    return Manager


def test_a_call_runs_inside(log):
    @manager(log)(5)
    def twice(x):
        """doc"""
        log.append("run")
        return 2 * x
    assert twice(3) == 6 and log == [("in", 5), "run", "out"] and twice.__name__ == "twice" and twice.__doc__ == "doc"
    with pytest.raises(TypeError):
        twice()
    assert log[3:] == [("in", 5), "out"]


def test_each_step_of_a_generator_runs_inside(log):
    @manager(log)(1)
    def steps():
        got = yield 1
        log.append(got)
        return 7
    it = steps()
    assert next(it) == 1 and log == [("in", 1), "out"]
    with pytest.raises(StopIteration) as stop:
        it.send("x")
    assert stop.value.value == 7 and log == [("in", 1), "out", ("in", 1), "x", "out"]


def test_without_arguments_the_class_decorates(log):
    class Manager(_NoParamDecoratorContextManager):
        def __enter__(self):
            log.append("in")

        def __exit__(self, *exception):
            log.append("out")

    @Manager
    def seven():
        return 7

    @Manager()
    def eight():
        return 8
    assert seven() == 7 and eight() == 8 and log == ["in", "out"] * 2
    with Manager():
        assert log[4:] == ["in"]


def test_what_decorates(log):
    @contextlib.contextmanager
    def entered():
        log.append("in")
        yield
    assert context_decorator(entered, lambda x: x)(4) == 4 and log == ["in"]
    assert context_decorator(lambda: manager(log)(3), lambda x: x)(5) == 5 and log == ["in", ("in", 3), "out"]
    with pytest.raises(AssertionError, match="is both callable and also a valid context manager"):
        context_decorator(manager(log)(3), len)
    with pytest.raises(NotImplementedError):
        _DecoratorContextManager().__enter__()
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        manager(log)(1)(type("Empty", (), {}))


def test_modules_of_devices():
    import cresset as torch
    from cresset._utils import _get_available_device_type, _get_device_module
    assert _get_device_module("cpu") is torch.cpu and _get_device_module("cuda") is torch.cuda
    assert _get_available_device_type() in (None, "cuda")
    with pytest.raises(RuntimeError, match="Device 'foo' does not have a corresponding module registered as 'torch.foo'"):
        _get_device_module("foo")


def test_whether_a_function_mode_is_on():
    import cresset as torch
    from cresset.overrides import BaseTorchFunctionMode
    enabled = torch._C._is_torch_function_mode_enabled
    assert not enabled()
    with BaseTorchFunctionMode():
        assert enabled()
    assert not enabled()
