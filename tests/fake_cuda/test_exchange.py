"""Arrays of other libraries by __cuda_array_interface__: memory is shared, and wrong descriptions get torch 2.13's errors."""
import gc
import weakref

import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class Array:
    """An object with the interface of a tensor, and nothing else."""

    def __init__(self, tensor, **changed):
        self.kept = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changed}


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared(dtype):
    x = (torch.arange(24, device="cuda").reshape(4, 6) % 5).to(getattr(torch, dtype))
    for part in (x, x.t(), x[::2, 1:4], x[0, 0], x[:0]):
        y = torch.as_tensor(Array(part), device="cuda")
        assert y.dtype == x.dtype and y.device == x.device and torch.equal(y.cpu(), part.cpu())
        assert not part.numel() or y.data_ptr() == part.data_ptr() and y.stride() == part.stride()
    y = torch.as_tensor(Array(x), device="cuda")
    y.zero_()
    assert not x.any().item()
    assert torch.as_tensor(Array(x), device="cpu").device.type == "cpu"
    copied = torch.tensor(Array(x), device="cuda")
    assert copied.data_ptr() != x.data_ptr() and torch.equal(copied.cpu(), x.cpu())
    assert torch.as_tensor(Array(x), dtype=torch.float64, device="cuda").dtype == torch.float64


def test_the_array_lives_as_long_as_its_tensor():
    array = Array(torch.ones(3, device="cuda"))
    seen = weakref.ref(array)
    y = torch.as_tensor(array, device="cuda")
    del array
    gc.collect()
    assert seen() is not None and y.sum().item() == 3
    del y
    gc.collect()
    assert seen() is None


def test_work_of_another_stream_is_waited_for():
    stream = torch.cuda.Stream()
    for i in range(5):
        with torch.cuda.stream(stream):
            x = torch.full((1000,), float(i), device="cuda")
            for _ in range(20):
                x = x + 1
        y = torch.as_tensor(Array(x, version=3, stream=stream.cuda_stream), device="cuda") + 0
        assert y.cpu().eq(i + 20).all()
    x = torch.ones(3, device="cuda")
    assert torch.as_tensor(Array(x, version=3, stream=1), device="cuda").sum().item() == 3


GONE = object()
# recorded with torch 2.13
WRONG = [({"shape": GONE}, TypeError, "attribute `shape` must exist"), ({"typestr": GONE}, TypeError, "attribute `typestr` must exist"),
         ({"data": GONE}, TypeError, "attribute `shape` data exist"), ({"typestr": 3}, ValueError, "cannot parse `typestr`"),
         ({"typestr": "<q9"}, ValueError, "cannot parse `typestr`"), ({"typestr": "<x"}, ValueError, "cannot parse `typestr`"),
         ({"data": 3}, TypeError, "`data` must be a 2-tuple of (int, bool)"), ({"data": (0,)}, TypeError, "`data` must be a 2-tuple of (int, bool)"),
         ({"data": (0, True)}, TypeError, "the read only flag is not supported, should always be False"),
         ({"data": ("a", False)}, TypeError, "an integer is required"), ({"shape": 3}, TypeError, "shape and strides must be sequences"),
         ({"shape": ("a",)}, TypeError, "'str' object cannot be interpreted as an integer"),
         ({"strides": (4, 4)}, TypeError, "strides must be a sequence of the same length as shape"),
         ({"strides": 3}, TypeError, "strides must be a sequence of the same length as shape"),
         ({"strides": (3,)}, ValueError, "given array strides not a multiple of the element byte size. Make a copy of the array to reallocate the memory."),
         ({"typestr": "<f16"}, TypeError, "can't convert"), ({"typestr": "<U4"}, TypeError, "can't convert"),
         ({"shape": (2, -1)}, RuntimeError, "Trying to create tensor with negative dimension -1: [2, -1]"),
         ({"shape": (1 << 62, 4)}, RuntimeError, "Storage size calculation overflowed with sizes=[4611686018427387904, 4]"),
         ({"shape": (1 << 61,)}, RuntimeError, "Storage size calculation overflowed with sizes=[2305843009213693952]"),
         ({"shape": (3, 2), "strides": (1 << 62, 4)}, RuntimeError, "Storage size calculation overflowed with sizes=[3, 2]")]


@pytest.mark.parametrize("changed, kind, text", WRONG)
def test_wrong_descriptions(changed, kind, text):
    array = Array(torch.ones(2, device="cuda"), **changed)
    array.__cuda_array_interface__ = {k: v for k, v in array.__cuda_array_interface__.items() if v is not GONE}
    for make in (torch.as_tensor, torch.tensor):
        with pytest.raises(kind) as found:
            make(array, device="cuda")
        assert text in str(found.value)
    array.__cuda_array_interface__ = 3
    with pytest.raises(TypeError, match="`__cuda_array_interface__` must be a dict"):
        torch.as_tensor(array)


def test_elements_at_address_0_are_refused():
    with pytest.raises(RuntimeError, match="CUDA error"):
        torch.as_tensor(Array(torch.ones(2, device="cuda"), data=(0, False)), device="cuda")
    assert torch.as_tensor(Array(torch.ones(0, device="cuda"), data=(0, False)), device="cuda").shape == (0,)
