"""__torch_dispatch__: calls as torch shows them (dispatch_cases.py), results, modes, guards."""
import contextlib
import json
from pathlib import Path

import pytest

import cresset as torch
import cresset.nn.functional as F
import dispatch_cases
from cresset.utils._mode_utils import no_dispatch
from cresset.utils._python_dispatch import (
    BaseTorchDispatchMode, TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode, _get_current_dispatch_mode_stack,
    is_traceable_wrapper_subclass, return_and_correct_aliasing, transform_subclass)
from cresset.utils._pytree import tree_map
from dispatch_cases import LoggingMode, LoggingTensor, calls

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "dispatch_expected.json").read_text())
DIFFERING = {name: part for name, part, _ in
             (line.split(" ", 2) for line in open(HERE / "dispatch_differing.txt") if line[0] != "#")}


def forward(lines):
    return lines[:lines.index("backward")] if "backward" in lines else lines


@pytest.mark.parametrize("run", dispatch_cases.RUNS, ids=lambda run: "-".join(map(str, run)))
def test_calls_are_torchs(run):
    expected = EXPECTED[" ".join(map(str, run))]
    got, part = dispatch_cases.run(*run), DIFFERING.get(run[1])
    assert got or not expected
    if part == "backward":
        assert forward(got) == forward(expected)
    elif part is None:
        assert got == expected


def plain(x):
    return x.inner if isinstance(x, LoggingTensor) else x


@pytest.mark.parametrize("name", sorted(set(dispatch_cases.CASES) - {"factories", "drop"}))
def test_results_and_gradients_are_those_of_plain_tensors(name):
    f, back = dispatch_cases.CASES[name], name in dispatch_cases.BACKWARD
    x, y = dispatch_cases.t(4, 3).requires_grad_(back), LoggingTensor(dispatch_cases.t(4, 3), requires_grad=back)
    expected, got = f(x), f(y)
    pairs = zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]
    for a, b in pairs:
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(plain(b)))
    if back:
        expected.sum().backward()
        got.sum().backward()
        torch.testing.assert_close(plain(y.grad), x.grad)


class Scaled(torch.Tensor):
    """A number times a tensor, which traces as two attributes."""

    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)

    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self):
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner, scale, size, stride):
        return Scaled(inner["inner"], scale)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.ops.aten.mul.Tensor, torch.ops.aten.mul_.Tensor):
            x, number = args
            if func is torch.ops.aten.mul_.Tensor:
                x.scale *= number
                return return_and_correct_aliasing(func, args, kwargs, x)
            return cls(x.inner, x.scale * number)
        if func is torch.ops.aten.view.default:
            return return_and_correct_aliasing(func, args, kwargs, cls(args[0].inner.view(args[1]), args[0].scale))
        if func is torch.ops.aten.detach.default:
            return cls(args[0].inner, args[0].scale)
        return NotImplemented


def test_a_class_may_handle_some_operators():
    x = Scaled(torch.ones(2, 3), 2.0)
    y = x * 3
    assert type(y) is Scaled and y.scale == 6.0
    assert x.mul_(4) is x and x.scale == 8.0
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.aten.exp.default'; all "
                                        "__torch_dispatch__ handlers returned NotImplemented"):
        x.exp()
    assert torch.nn.Parameter(x).scale == 8.0 and isinstance(torch.nn.Parameter(x), torch.nn.Parameter)


def test_views_share_the_storage_of_their_base():
    x = Scaled(torch.ones(2, 3), 2.0)
    y = x.view(6)
    assert y.untyped_storage() is x.untyped_storage()
    assert y._is_view() and y._base is x


def test_wrappers_are_taken_apart_and_made_again():
    x = Scaled(torch.ones(2, 3), 2.0)
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(torch.ones(2))
    y = transform_subclass(x, lambda name, inner: inner + 1)
    assert y.scale == 2.0 and y.inner.sum() == 12


def test_a_wrapper_has_the_properties_it_was_made_with():
    x = torch.Tensor._make_wrapper_subclass(Scaled, (2, 3), strides=(1, 2), dtype=torch.float64, requires_grad=True)
    assert x.stride() == (1, 2) and x.dtype == torch.float64 and x.requires_grad and x.device.type == "cpu"
    assert x.is_leaf and x.shape == (2, 3)
    with pytest.raises(TypeError, match="Plain must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(type("Plain", (torch.Tensor,), {}), (2,))
    with pytest.raises(TypeError, match=r"cls must be a type \(got int\)"):
        torch.Tensor._make_wrapper_subclass(3, (2,))


class Counting(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_modes_nest_and_are_inactive_in_their_own_handler():
    with Counting() as outer:
        with Counting() as inner:
            assert _get_current_dispatch_mode() is inner
            assert _get_current_dispatch_mode_stack() == [outer, inner]
            torch.ones(2) + 1
            with _disable_current_modes():
                torch.ones(2)
    assert inner.names == outer.names == ["aten.ones.default", "aten.add.Tensor"]
    assert _get_current_dispatch_mode() is None
    torch.ones(2)
    assert len(outer.names) == 2


def test_a_mode_ends_after_an_error():
    with pytest.raises(ValueError):
        with Counting():
            raise ValueError
    assert _get_current_dispatch_mode() is None


def test_an_error_in_a_handler_reaches_the_program():
    class Failing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))
    with Failing(), pytest.raises(KeyError, match="aten.ones.default"):
        torch.ones(2)
    assert torch.ones(2).sum() == 2


def test_a_mode_sees_subclasses_first_and_may_pass_them_on():
    class Passing(Counting):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(types)
            return NotImplemented if types else func(*args, **(kwargs or {}))
    with Passing() as mode:
        assert (Scaled(torch.ones(2), 2.0) * 2).scale == 4.0
    assert (Scaled,) in mode.names


def test_a_mode_sees_a_part_of_a_dim_by_its_place():
    """narrow() is a slice, whose negative places have another meaning at the end."""
    x = torch.arange(4.0)
    with Counting():
        assert x.narrow(0, -1, 1).tolist() == [3] and x.narrow(0, -3, 2).tolist() == [1, 2]
        with pytest.raises(RuntimeError, match=r"start \(3\) \+ length \(2\) exceeds dimension size"):
            x.narrow(0, 3, 2)


def test_no_dispatch_calls_no_handler():
    class Data(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            with no_dispatch():
                return func(*args, **(kwargs or {}))
    seen = []
    x = torch.Tensor._make_subclass(Data, torch.ones(2))
    assert (x + 1).sum() == 4 and seen[0] == "aten.add.Tensor"
    with no_dispatch():
        seen.clear()
        x + 1
    assert not seen
    guard = torch._C._DisableTorchDispatch()
    x + 1
    del guard
    assert not seen
    x + 1
    assert seen == ["aten.add.Tensor"]


@pytest.mark.parametrize("f", [
    lambda x, y: x + y, lambda x, y: y @ x, lambda x, y: F.mse_loss(x, y), lambda x, y: torch.cat([y, x]),
    lambda x, y: y.add_(x), lambda x, y: torch.ops.aten._log_softmax_backward_data(y, x, 0, torch.float32)])
def test_a_wrapper_is_refused_where_no_handler_is_called(f):
    with no_dispatch(), pytest.raises(RuntimeError, match="a tensor that wraps others has no elements"):
        f(LoggingTensor(torch.ones(2, 2)), torch.ones(2, 2))


def test_backward_passes_go_through_handlers_of_the_class():
    x = LoggingTensor(torch.ones(3), requires_grad=True)
    calls.clear()
    (x * x).sum().backward()
    assert isinstance(x.grad, LoggingTensor) and x.grad.inner.tolist() == [2, 2, 2]
    (x * 1).sum().backward()
    assert x.grad.inner.tolist() == [3, 3, 3]


def test_inner_calls_are_recorded_only_when_asked_for():
    from cresset.overrides import enable_reentrant_dispatch
    seen = []

    class Inner(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            seen.append(out.requires_grad)
            with enable_reentrant_dispatch():
                seen.append(func(*args, **(kwargs or {})).requires_grad)
            return out
    x = torch.ones(2, requires_grad=True)
    with Inner():
        y = x.exp()
    assert seen[:2] == [False, True] and y.requires_grad


def test_a_compiled_function_runs_eagerly_inside_a_mode():
    f = torch.compile(lambda x: x.exp() + 1)
    x = torch.ones(3)
    for _ in range(3):
        f(x)
    with Counting() as mode:
        assert torch.equal(f(x), x.exp() + 1)
    assert mode.names[:2] == ["aten.exp.default", "aten.add.Tensor"]


def test_threads_have_their_own_modes():
    import threading
    seen = []
    with Counting() as mode:
        thread = threading.Thread(target=lambda: seen.append(torch.ones(2).sum().item()))
        thread.start()
        thread.join()
    assert seen == [2.0] and mode.names == []


def test_overloads_state_aliases_and_tags():
    add_, view = torch.ops.aten.add_.Tensor, torch.ops.aten.view.default
    assert add_._schema.arguments[0].alias_info.is_write and add_._schema.arguments[1].alias_info is None
    assert view._schema.returns[0].alias_info.before_set == view._schema.arguments[0].alias_info.before_set
    assert torch.Tag.pointwise in torch.ops.aten.add.Tensor.tags
    assert torch.Tag.inplace_view in torch.ops.aten.transpose_.default.tags
    assert torch.Tag.nondeterministic_seeded in torch.ops.aten.rand.default.tags


def test_layers_and_custom_operators():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
    x = torch.randn(2, 3)
    got = model(LoggingTensor(x))
    torch.testing.assert_close(got.inner, model(x))

    @torch.library.custom_op("dispatch_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    with Counting() as mode:
        twice(x)
    assert mode.names[0] == "dispatch_test.twice.default"
    assert F.relu(LoggingTensor(x)).inner.equal(F.relu(x))


def test_a_change_of_a_part_has_a_derivative_for_wrappers():
    x = LoggingTensor(torch.ones(2, 2), requires_grad=True)
    y = x * 1
    y[0] = 3
    y[:, 1].mul_(4)
    y.sum().backward()
    assert x.grad.inner.tolist() == [[0, 0], [1, 4]]


def test_a_wrapper_is_printed_without_elements():
    x = LoggingTensor(torch.ones(4)[2:])
    assert repr(x) == "LoggingTensor(...)" and x.storage_offset() == 2


def test_changes_of_wrappers_are_counted():
    x = LoggingTensor(torch.ones(2, 2), requires_grad=True)
    y = x * 1
    assert y._version == 0
    y.add_(1)
    with LoggingMode():
        y[0] = 3
    assert y._version == 2 and y.inner.tolist() == [[3, 3], [2, 2]]
    z = y.sin()
    y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_trees_of_results():
    x = LoggingTensor(torch.arange(6.0).reshape(2, 3))
    values, indices = x.max(1)
    assert values.inner.tolist() == [2, 5] and indices.inner.tolist() == [2, 2]
    assert [part.inner.tolist() for part in x.unbind(0)] == [[0, 1, 2], [3, 4, 5]]
    assert tree_map(plain, {"a": [x]})["a"][0] is x.inner


def test_a_wrapper_is_no_array():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, x):
            return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("no call is expected")

    with pytest.raises(RuntimeError, match="numpy\\(\\) is not supported for tensor subclasses"):
        Wrapper(torch.ones(6)).numpy()


def test_guards_end_on_their_thread_and_arguments_are_checked():
    import threading
    guard, seen = torch._C._DisableTorchDispatch(), []

    def end():
        try:
            guard.__exit__(None, None, None)
        except RuntimeError as e:
            seen.append(str(e))
    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    guard.__exit__(None, None, None)
    assert seen == ["a guard is ended by the thread that made it"]
    with pytest.raises(TypeError, match="expected Dict"):
        torch._C._disabled_torch_dispatch_impl(torch.add, (), (torch.ones(1), torch.ones(1)), 5)
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        torch._C._make_wrapper(int, (2,), None, 0, torch.float32, torch.device("cpu"), False)
    with pytest.raises(TypeError, match="must be torch.dtype, not int"):
        torch._C._make_wrapper(torch.Tensor, (2,), None, 0, 3, torch.device("cpu"), False)
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        torch._C._make_wrapper(LoggingTensor, (2,), None, -1, torch.float32, torch.device("cpu"), False)


def test_data_has_a_version_of_its_own_in_modes():
    """Writes to x.data leave the version of x, and the tensors that autograd saved, as they are; those to x.detach() do not."""
    for mode in (contextlib.nullcontext(), BaseTorchDispatchMode()):
        for x in (torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(4, 3)[1:3]):
            with mode:
                data = x.data
                data.add_(1)
                assert (x._version, data._version) == (0, 1) and data.shape == x.shape and data.stride() == x.stride()
                assert x.tolist() == [[2.0] * 3] * 2 and data.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
                x.detach().add_(1)
                assert x._version == 1 and x.tolist() == [[3.0] * 3] * 2
    weight = torch.ones(3, requires_grad=True)
    with BaseTorchDispatchMode():
        product = weight * weight
        weight.data.mul_(5)
        product.sum().backward()
    assert weight.grad.tolist() == [10.0] * 3  # torch's value
