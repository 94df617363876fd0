"""Sharing memory with NumPy, DLPack and buffers."""
import gc
import warnings

import cresset as torch
import pytest

np = pytest.importorskip("numpy")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
          "complex64", "complex128")


@pytest.mark.parametrize("name", DTYPES)
def test_both_ways_without_a_copy(name):
    array = np.ones(3, dtype=name)
    tensor = torch.from_numpy(array)
    assert tensor.dtype is getattr(torch, name)
    back = tensor.numpy()
    assert back.dtype == array.dtype and np.shares_memory(back, array)
    array[0] = 0
    assert tensor[0].item() == 0 and back[0] == 0


def test_strides_and_offsets():
    array = np.arange(24).reshape(4, 6)
    tensor = torch.from_numpy(array[1:, ::2])
    assert tensor.tolist() == array[1:, ::2].tolist() and tensor.stride() == (6, 2)
    assert tensor.t()[1:].numpy().tolist() == array[1:, ::2].T[1:].tolist()
    assert torch.from_numpy(np.array(3.0)).shape == () and torch.from_numpy(np.zeros((0, 3))).shape == (0, 3)
    assert torch.zeros(0, 3).numpy().shape == (0, 3)


def test_memory_lives_as_long_as_its_last_owner():
    tensor = torch.from_numpy(np.arange(1000.0))
    gc.collect()
    assert tensor.sum() == 499500
    array = torch.arange(1000.0).numpy()
    gc.collect()
    assert array.sum() == 499500


@pytest.mark.parametrize("make,cls,text", [
    (lambda: torch.from_numpy([1]), TypeError, r"expected np.ndarray \(got list\)"),
    (lambda: torch.from_numpy(np.arange(3)[::-1]), ValueError, "At least one stride in the given numpy array is negative"),
    (lambda: torch.from_numpy(np.array(["a"])), TypeError, "can't convert np.ndarray of type numpy.str_"),
    (lambda: torch.from_numpy(np.arange(3, dtype=">i4")), ValueError, "byte order different from the native byte order"),
    (lambda: torch.ones(2, requires_grad=True).numpy(), RuntimeError, "Can't call numpy.. on Tensor that requires grad"),
    (lambda: torch.ones(2, dtype=torch.bfloat16).numpy(), TypeError, "Got unsupported ScalarType BFloat16"),
    (lambda: torch.zeros(2, device="meta").numpy(), TypeError, "can't convert meta device type tensor to numpy")])
def test_refusals(make, cls, text):
    with pytest.raises(cls, match=text):
        make()


def test_read_only_arrays_are_warned_of_once():
    array = np.arange(3)
    array.flags.writeable = False
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.from_numpy(array)
        torch.from_numpy(array)
    assert len(seen) <= 1


def test_numpy_functions_take_tensors():
    assert np.asarray(torch.ones(2)).dtype == np.float32
    assert np.array(torch.ones(2), dtype="int32").tolist() == [1, 1]
    assert isinstance(np.sin(torch.zeros(2)), torch.Tensor)
    assert np.stack([torch.ones(2), torch.zeros(2)]).shape == (2, 2)
    assert torch.ones(2).numpy(force=True).tolist() == [1.0, 1.0]


def test_mixed_arithmetic():
    x = torch.ones(2)
    assert (x + np.ones(2)).dtype is torch.float64
    assert (np.float32(2) * x).tolist() == [2.0, 2.0] and isinstance(np.float32(2) * x, torch.Tensor)
    assert (x == np.ones(2)).tolist() == [True, True]


def test_numpy_numbers_are_numbers():
    assert torch.ones(3).add(np.float32(2)).tolist() == [3.0, 3.0, 3.0]
    assert torch.zeros(np.int64(2), np.int32(3)).shape == (2, 3)
    assert torch.tensor(np.float64(2)).dtype is torch.float64
    assert torch.ones(3)[np.int64(1)].shape == () and torch.ones(3)[np.array([0, 2])].shape == (2,)
    assert torch.ones(3)[np.array([True, False, True])].shape == (2,)


def test_tensor_copies_and_as_tensor_shares():
    array = np.arange(3)
    assert torch.as_tensor(array).data_ptr() == array.ctypes.data
    assert torch.tensor(array).data_ptr() != array.ctypes.data
    assert torch.asarray(array).data_ptr() == array.ctypes.data
    assert torch.tensor([np.float32(1), 2]).dtype is torch.float32


def test_buffers():
    assert memoryview(torch.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(BufferError):
        memoryview(torch.ones(2, requires_grad=True))
    data = bytearray(b"\x01\x00\x02\x00")
    x = torch.frombuffer(data, dtype=torch.int16)
    data[0] = 7
    assert x.tolist() == [7, 2]
    assert torch.frombuffer(bytearray(b"abcd"), dtype=torch.int8, offset=1, count=2).tolist() == [98, 99]
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        torch.frombuffer(bytearray(b"abc"), dtype=torch.int16)


def test_dlpack():
    x = torch.arange(6.0).view(2, 3).t()
    y = torch.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr() and y.stride() == x.stride()
    assert np.from_dlpack(torch.arange(3)).tolist() == [0, 1, 2]
    array = np.arange(3)
    assert torch.from_dlpack(array).data_ptr() == array.ctypes.data
    assert torch.from_dlpack(torch.ones(2, dtype=torch.bfloat16)).dtype is torch.bfloat16
    capsule = x.__dlpack__()
    assert torch.from_dlpack(capsule).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="capsules can be consumed only once"):
        torch.from_dlpack(capsule)
    with pytest.raises(BufferError):
        torch.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("arguments, cls, text", [
    ({"max_version": 3}, TypeError, "'int' object"), ({"max_version": "a"}, TypeError, "not supported between"),
    ({"copy": 3}, TypeError, "argument 'copy' must be bool, not int"),
    ({"dl_device": 2 ** 70}, TypeError, "argument 'dl_device' must be tuple of ints, not int"),
    ({"dl_device": (99, 0)}, BufferError, "Unsupported device_type: 99"),
    ({"dl_device": (2, 99), "copy": False}, ValueError, "does not move to another device without a copy"),
])
def test_dlpack_refuses_what_it_cannot_give(arguments, cls, text):
    """No capsule of the wrong device: an importer would read it as memory of that device."""
    with pytest.raises(cls, match=text):
        torch.ones(2).__dlpack__(**arguments)


def test_dlpack_gives_the_version_and_the_copy_asked_for():
    x = torch.ones(2)
    for version, name in ((None, "dltensor"), ((0, 9), "dltensor"), ((1, 0), "dltensor_versioned"), ((2 ** 70, 0), "dltensor_versioned")):
        assert f'"{name}"' in repr(x.__dlpack__(max_version=version))
    assert torch.from_dlpack(x.__dlpack__(dl_device=(1, 0), copy=True)).data_ptr() != x.data_ptr()
    assert torch.from_dlpack(x.__dlpack__(dl_device=(1, 0), copy=False)).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("make", [
    lambda: np.zeros((1, 5), np.float32).T, lambda: np.zeros((5, 1), np.int64, order="F"), lambda: np.zeros((8, 9))[2:3, :1],
    lambda: np.zeros((3, 0, 1), np.float32), lambda: np.zeros((2, 1, 3), np.float32).transpose(2, 1, 0)])
def test_dims_of_one_element_keep_the_strides_of_an_array(make):
    array = make()
    assert torch.from_numpy(array).stride() == tuple(s // array.itemsize for s in array.strides)


def test_negative_strides_of_one_element_are_refused():
    with pytest.raises(ValueError, match="At least one stride in the given numpy array is negative"):
        torch.from_numpy(np.zeros((3, 4))[:, :1][:, ::-1])


@pytest.mark.parametrize("said", [(8,), (), (800000, 8), (8, 8, 8), (-8, -8), (2 ** 70, 8), ("a", None), [8, 8], None])
def test_strides_that_a_subclass_makes_up_are_not_read(said):
    class Array(np.ndarray):
        strides = said

    for plain in (np.arange(4.0).reshape(4, 1), np.arange(6.0).reshape(3, 2)[:, 1:], np.zeros((0, 3)), np.arange(4.0).reshape(1, 4).T):
        tensor = torch.from_numpy(plain.view(Array))
        assert tensor.stride() == tuple(s // 8 for s in plain.strides) and tensor.tolist() == plain.tolist()


def test_without_gradients_an_array_of_a_parameter_shares_its_memory():
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="Can't call numpy.. on Tensor that requires grad"):
        p.numpy()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert p.numpy().tolist() == [1, 1] and np.asarray(p * 2).tolist() == [2, 2]
            assert np.array([p, p]).tolist() == [[1, 1], [1, 1]] and np.shares_memory(p.numpy(), p.detach().numpy())
            assert torch.allclose(torch.as_tensor(np.sin(p)), p.sin())
    for call in (lambda: p.apply_(abs), lambda: p.map_(p, max), lambda: torch.ones(2).map_(p, max)):
        with pytest.raises(RuntimeError, match="Can't call (apply_|map_).. on Variable that requires grad"):
            call()
