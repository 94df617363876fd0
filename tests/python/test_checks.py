"""Checks of programs, numbers that may be symbols, types of results, modules of devices."""
import cresset as torch
import pytest


def test_checks_raise_the_class_that_they_name():
    torch._check(True)
    torch._check_tensor_all(torch.tensor([True, True]))
    for check, kind in ((torch._check, RuntimeError), (torch._check_index, IndexError),
                        (torch._check_value, ValueError), (torch._check_type, TypeError),
                        (torch._check_not_implemented, NotImplementedError)):
        with pytest.raises(kind, match="^why$"):
            check(False, lambda: "why")
        with pytest.raises(kind, match="Expected cond to be True"):
            check(False)
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        torch._check(1)
    with pytest.raises(TypeError, match="message must be a callable"):
        torch._check(False, "text")
    with pytest.raises(TypeError, match="must have dtype torch.bool, but got torch.int64"):
        torch._check_tensor_all(torch.tensor([1]))
    with pytest.raises(RuntimeError, match="^few$"):
        torch._check_tensor_all(torch.tensor([True, False]), lambda: "few")
    with pytest.raises(RuntimeError, match="Expected cond"):
        torch._check_is_size(-1)


def test_numbers():
    assert [torch.sym_int(-2.7), torch.sym_max(2, 3.0), torch.sym_min(2, 3.0)] == [-2, 3.0, 2.0]
    assert type(torch.sym_min(2, 3.0)) is float and type(torch.sym_max(2, 3)) is int
    assert torch.sym_ite(False, 1, 2) == 2 and torch.sym_sum([1, 2, 3]) == 6
    assert torch.sym_not(False) is True and torch.sym_float(3) == 3.0 and torch.sym_sqrt(4) == 2
    with pytest.raises(AssertionError, match="type mismatch"):
        torch.sym_ite(True, 1, 2.0)


def test_types_of_results_exist_before_the_results():
    kind = torch.return_types.kthvalue
    assert type(torch.kthvalue(torch.tensor([3.0, 1.0]), 1)) is kind
    assert kind in torch.return_types.all_return_types and "topk" in dir(torch.return_types)
    with pytest.raises(AttributeError, match="has no attribute 'add'"):
        torch.return_types.add


def test_names_that_modules_share():
    functional = torch.nn.functional
    assert functional.Tensor is torch.Tensor
    assert functional.has_torch_function is torch.overrides.has_torch_function
    assert torch.functional.svd_lowrank is torch.svd_lowrank
    with pytest.raises(AttributeError, match="has no attribute .nothing."):
        functional.nothing


def test_modules_of_devices():
    assert torch.get_device_module() is torch.cpu and torch.get_device_module("cuda") is torch.cuda
    with pytest.raises(RuntimeError, match="does not have a corresponding module"):
        torch.get_device_module("meta")
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        torch.get_device_module(3)
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
