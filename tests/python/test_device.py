"""Devices: names, where factories make tensors, and torch's errors for devices that are not there."""
import pytest

import cresset as torch

NO_MODULE = {"cuda": (AssertionError, "^Torch not compiled with CUDA enabled$"),
             "xpu": (AssertionError, "^Torch not compiled with XPU enabled$"),
             "mtia": (AssertionError, "^Torch not compiled with MTIA enabled. Ensure you have "),
             "hpu": (ModuleNotFoundError, "^No module named 'torch.hpu'$"),
             "privateuseone": (ModuleNotFoundError, "^No module named 'torch.privateuseone'$")}
NO_BACKEND = {"mps": "MPS", "xla": "XLA", "vulkan": "Vulkan", "lazy": "Lazy", "ipu": "IPU", "hip": "HIP",
              "fpga": "FPGA", "maia": "MAIA", "ve": "VE"}
FACTORIES = [lambda d: torch.empty(0, device=d), lambda d: torch.zeros(2, 3, device=d),
             lambda d: torch.full((2,), 1.0, device=d), lambda d: torch.arange(3, device=d),
             lambda d: torch.rand(3, device=d), lambda d: torch.empty_strided((2,), (1,), device=d),
             lambda d: torch.empty_like(torch.ones(2), device=d),
             lambda d: torch.ones(2).new_zeros(2, device=d)]


@pytest.mark.parametrize("kind", NO_MODULE)
@pytest.mark.parametrize("make", FACTORIES + [lambda d: torch.ones(2).to(d), lambda d: torch.tensor([1.0], device=d)])
def test_kinds_whose_module_was_left_out_are_refused(make, kind):
    error, text = NO_MODULE[kind]
    for name in (kind, kind + ":1", torch.device(kind)):
        with pytest.raises(error, match=text):
            make(name)


@pytest.mark.parametrize("kind", NO_BACKEND)
def test_kinds_without_a_backend_are_refused(kind):
    for make in FACTORIES:
        with pytest.raises(NotImplementedError, match="^Could not run 'aten::empty.memory_format' with arguments "
                                                      f"from the '{NO_BACKEND[kind]}' backend"):
            make(kind)
    for make in (lambda: torch.ones(2).to(kind), lambda: torch.tensor([1.0], device=kind)):
        with pytest.raises(RuntimeError, match=f"^PyTorch is not linked with support for {kind} devices$"):
            make()


@pytest.mark.parametrize("kind, text", [
    ("cuda", "Cannot get CUDA generator without ATen_cuda library."),
    ("xpu", "Cannot get XPU generator without ATen_xpu library."),
    ("mps", "Cannot execute getNewGenerator() without MPS backend."),
    ("meta", "META device type not an accelerator."),
    ("privateuseone", "Please register PrivateUse1HooksInterface by `RegisterPrivateUse1HooksInterface` first.")])
def test_generators_of_missing_devices_are_refused(kind, text):
    with pytest.raises(RuntimeError) as e:
        torch.Generator(kind)
    assert str(e.value).startswith(text)


def test_a_missing_default_device_is_refused_at_its_first_use():
    torch.set_default_device("xpu")
    try:
        with pytest.raises(AssertionError, match="^Torch not compiled with XPU enabled$"):
            torch.zeros(2)
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device == torch.device("cpu")


def test_the_host_and_meta_are_one_device_for_any_index():
    assert torch.ones(1, device="cpu:1").device == torch.device("cpu")
    assert torch.ones(1, device="meta:3").device == torch.device("meta")
    assert torch.ones(2).get_device() == torch.ones(2, device="meta").get_device() == -1


def test_compiled_programs_make_tensors_on_the_named_device():
    def program(x):
        there = torch.empty_like(x, device="meta") + 1
        return x * torch.ones(there.shape, device="cpu")

    compiled = torch.compile(program)
    x = torch.arange(3.0, requires_grad=True)
    for _ in range(2):
        y = compiled(x)
        y.sum().backward()
        assert y.device == x.grad.device == torch.device("cpu")


def test_without_an_accelerator():
    a = torch.accelerator
    assert not a.is_available() and a.device_count() == 0 and a.current_accelerator() is None
    for call in (a.current_device_index, lambda: a.set_device_index(0), a.current_stream, a.synchronize, a.empty_cache, a.Graph,
                 a.device_index(0).__enter__):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available."):
            call()
    with a.device_index(None):
        pass


def test_the_class_of_memory_errors_exists_without_a_device():
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert issubclass(torch.OutOfMemoryError, RuntimeError) and torch.OutOfMemoryError.__module__ == "torch"
