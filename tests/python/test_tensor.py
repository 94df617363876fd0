"""Tensors as Python objects: attributes, conversion, calls and their errors, lifetime."""
import copy
import gc
import math
import pickle
import subprocess
import sys
import threading
import warnings
import weakref

import cresset as torch
import pytest


def raises(cls, text):
    return pytest.raises(cls, match=text)


# --- attributes ---

def test_shape_is_a_size():
    x = torch.zeros(2, 3)
    assert x.shape == (2, 3) and isinstance(x.shape, torch.Size)
    assert repr(x.shape) == "torch.Size([2, 3])"
    assert x.shape.numel() == 6
    assert isinstance(x.shape[1:], torch.Size) and isinstance(x.shape + (4,), torch.Size)
    assert x.size(-1) == 3 and x.stride() == (3, 1) and x.stride(0) == 3
    assert pickle.loads(pickle.dumps(x.shape)) == x.shape


def test_facts_about_a_tensor():
    x = torch.zeros(2, 3, dtype=torch.float64)
    assert (x.dim(), x.ndim, x.numel(), x.nelement()) == (2, 2, 6, 6)
    assert (x.element_size(), x.itemsize, x.nbytes) == (8, 8, 48)
    assert x.is_floating_point() and not x.is_complex() and x.is_signed()
    assert x.device == torch.device("cpu") and x.layout is torch.strided
    assert x.is_contiguous() and not x.t().is_contiguous()
    assert x[1].storage_offset() == 3 and x[1].data_ptr() == x.data_ptr() + 24
    assert x.get_device() == -1 and not x.is_cuda and x.is_cpu


def test_wrong_dimension_is_an_index_error():
    with raises(IndexError, r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"):
        torch.zeros(2, 3).size(2)


@pytest.mark.parametrize("name,size", [("float32", 4), ("float64", 8), ("int64", 8), ("uint8", 1),
                                       ("bool", 1), ("bfloat16", 2), ("complex64", 8)])
def test_dtypes_are_single_objects(name, size):
    dtype = getattr(torch, name)
    assert repr(dtype) == f"torch.{name}" and dtype.itemsize == size
    assert pickle.loads(pickle.dumps(dtype)) is dtype and copy.deepcopy(dtype) is dtype
    assert torch.zeros(1, dtype=dtype).dtype is dtype


def test_aliases_of_dtypes():
    assert torch.float is torch.float32 and torch.double is torch.float64
    assert torch.long is torch.int64 and torch.half is torch.float16
    assert torch.zeros(1, dtype=float).dtype is torch.float64
    assert torch.zeros(1, dtype=int).dtype is torch.int64


def test_devices():
    assert repr(torch.device("cpu")) == "device(type='cpu')"
    assert repr(torch.device("cuda", 1)) == "device(type='cuda', index=1)"
    assert str(torch.device("cuda:1")) == "cuda:1"
    assert torch.device("cpu") == torch.device("cpu") != torch.device("meta")
    assert len({torch.device("cpu"), torch.device("cpu")}) == 1
    with raises(RuntimeError, "Expected one of cpu, cuda"):
        torch.device("nowhere")
    with torch.device("meta"):
        assert torch.zeros(2).is_meta
    assert not torch.zeros(2).is_meta


def test_finfo_and_iinfo():
    assert torch.finfo(torch.float32).eps == 2.0 ** -23
    assert torch.finfo(torch.bfloat16).max == pytest.approx(3.3895e38, rel=1e-4)
    assert torch.finfo().bits == 32
    assert (torch.iinfo(torch.int8).min, torch.iinfo(torch.uint8).max) == (-128, 255)
    with raises(TypeError, "requires a floating point input type"):
        torch.finfo(torch.int32)


def test_default_dtype():
    try:
        torch.set_default_dtype(torch.float64)
        assert torch.tensor(1.5).dtype is torch.float64 and torch.zeros(1).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with raises(TypeError, "only floating-point types are supported as the default type"):
        torch.set_default_dtype(torch.int32)


# --- Python values ---

def test_item_and_tolist():
    assert torch.tensor(2.5).item() == 2.5 and torch.tensor(True).item() is True
    assert torch.tensor([[1, 2], [3, 4]]).t().tolist() == [[1, 3], [2, 4]]
    assert torch.tensor(7).tolist() == 7
    with raises(RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"):
        torch.zeros(2).item()


def test_conversion_to_numbers():
    assert int(torch.tensor(2.9)) == 2 and float(torch.tensor(3)) == 3.0
    assert complex(torch.tensor(1 + 2j)) == 1 + 2j
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert bool(torch.tensor([0.5])) and not torch.tensor(0)
    assert math.sqrt(torch.tensor(4.0)) == 2.0
    assert f"{torch.tensor(1.23456):.2f}" == "1.23"
    with raises(RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"):
        bool(torch.zeros(2))
    with raises(ValueError, "only one element tensors can be converted to Python scalars"):
        int(torch.zeros(2))
    with raises(TypeError, "only integer tensors of a single element can be converted to an index"):
        [1][torch.tensor(0.0)]


def test_length_iteration_membership():
    x = torch.tensor([[1, 2], [3, 4]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x and 9 not in x
    with raises(TypeError, "iteration over a 0-d tensor"):
        iter(torch.tensor(1))
    with raises(TypeError, r"len\(\) of a 0-d tensor"):
        len(torch.tensor(1))


# --- tensor() ---

@pytest.mark.parametrize("data,dtype,shape", [
    (1, "int64", ()), (1.5, "float32", ()), (True, "bool", ()), (1j, "complex64", ()),
    ([], "float32", (0,)), ([[], []], "float32", (2, 0)), ([1, 2.5], "float32", (2,)),
    ([True, 2], "int64", (2,)), ([[1, 2], [3, 4]], "int64", (2, 2)), (range(3), "int64", (3,)),
    ((1, 2j), "complex64", (2,))])
def test_data_decides_dtype_and_shape(data, dtype, shape):
    x = torch.tensor(data)
    assert x.dtype is getattr(torch, dtype) and x.shape == shape


def test_tensors_inside_lists():
    assert torch.tensor([torch.tensor(1), 2.5]).tolist() == [1.0, 2.5]
    with raises(ValueError, "only one element tensors can be converted to Python scalars"):
        torch.tensor([torch.ones(2), torch.ones(2)])


@pytest.mark.parametrize("data,cls,text", [
    ([[1, 2], [3]], ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
    ("a", TypeError, r"new\(\): invalid data type 'str'"),
    (["a"], ValueError, "too many dimensions 'str'"),
    ({}, RuntimeError, "Could not infer dtype of dict"),
    (None, RuntimeError, "Could not infer dtype of NoneType"),
    (2 ** 70, ValueError, "Overflow when unpacking long long")])
def test_data_that_makes_no_tensor(data, cls, text):
    with raises(cls, text):
        torch.tensor(data)


def test_arguments_of_tensor():
    assert torch.tensor([1.5], dtype=torch.int64).item() == 1
    assert torch.tensor([1, 2], dtype=torch.float16, requires_grad=True).requires_grad
    with raises(TypeError, r"tensor\(\) takes 1 positional argument but 2 were given"):
        torch.tensor(1, 2)
    with raises(RuntimeError, "without overflow"):
        torch.tensor([300], dtype=torch.int8)
    with raises(RuntimeError, "Only Tensors of floating point and complex dtype can require gradients"):
        torch.tensor([1], requires_grad=True)


def test_as_tensor_shares_and_tensor_copies():
    x = torch.zeros(2)
    assert torch.as_tensor(x) is x
    assert torch.as_tensor(x, dtype=torch.float64).dtype is torch.float64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.tensor(x).data_ptr() != x.data_ptr()
    assert torch.asarray(x) is x and torch.asarray(x, copy=True) is not x


def test_legacy_constructors():
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert torch.LongTensor([1.5]).tolist() == [1] and torch.FloatTensor(2).shape == (2,)
    assert torch.Tensor().shape == (0,) and torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert isinstance(torch.zeros(1), torch.FloatTensor)
    assert not isinstance(torch.zeros(1), torch.LongTensor)
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    assert torch.zeros(1).type() == "torch.FloatTensor"
    assert torch.zeros(1).type(torch.LongTensor).dtype is torch.int64
    assert torch.zeros(1).type("torch.DoubleTensor").dtype is torch.float64
    assert torch.zeros(1, dtype=torch.int32).new(2, 2).dtype is torch.int32
    with raises(TypeError, r"new\(\): data must be a sequence \(got float\)"):
        torch.Tensor(2.5)
    with raises(ValueError, "invalid type: 'foo'"):
        torch.zeros(1).type("foo")


# --- to() ---

def test_to_in_all_forms():
    x = torch.zeros(2)
    assert x.to(torch.float32) is x and x.to("cpu") is x and x.to(x) is x
    assert x.to(torch.int64).dtype is torch.int64 and x.to("cpu", torch.half).dtype is torch.half
    assert x.to(dtype=torch.float64).dtype is torch.float64
    assert x.to(torch.zeros(1, dtype=torch.int8)).dtype is torch.int8
    assert x.to(torch.float32, copy=True) is not x
    assert x.to(device="meta").is_meta
    assert x.long().dtype is torch.int64 and x.bool().dtype is torch.bool
    assert x.float() is x and x.cpu() is x
    assert x.to(memory_format=torch.preserve_format) is x


NO_CUDA = AssertionError, "Torch not compiled with CUDA enabled"
NO_ACCELERATOR = RuntimeError, "Cannot access accelerator device when none is available."
NOT_CUDA = RuntimeError, "Invalid device, must be cuda device"


@pytest.mark.parametrize("args, error", [  # torch 2.13 without a GPU
    ((), NO_CUDA), ((None,), NO_CUDA), (("cuda",), NO_CUDA), (("cuda:1",), NO_CUDA), ((torch.device("cuda:0"), True), NO_CUDA),
    ((0,), NO_ACCELERATOR), ((1,), NO_ACCELERATOR), ((-1,), (RuntimeError, "Device index must not be negative")),
    (("cpu",), NOT_CUDA), ((torch.device("cpu"),), NOT_CUDA),
    ((True,), (TypeError, "cuda(): argument 'device' (position 1) must be torch.device, not bool")),
    ((1.5,), (TypeError, "cuda(): argument 'device' (position 1) must be torch.device, not float")),
    ((None, 1), (TypeError, "cuda(): argument 'non_blocking' (position 2) must be bool, not int"))])
def test_cuda_without_a_gpu(args, error):
    if torch._C._cuda_count():
        pytest.skip("there is a CUDA device")
    layer = torch.nn.Linear(2, 2)
    for call in (torch.zeros(2).cuda, torch.empty(0).cuda, layer.weight.cuda) + (() if len(args) > 1 else (layer.cuda,)):
        with pytest.raises(error[0]) as raised:
            call(*args)
        assert type(raised.value) is error[0] and str(raised.value) == error[1]


@pytest.mark.parametrize("size, stride", [
    ((2, 3, 1, 1), (3, 1, 3, 3)), ((4, 1, 2, 3), (6, 1, 3, 1)), ((2, 1, 3), (3, 7, 1)), ((1, 4), (9, 1)), ((4, 1), (1, 9)), ((1, 1, 1), (5, 2, 3)),
    ((1, 3), (0, 1)), ((2, 3, 0), (5, 7, 9)), ((4, 0, 3), (1, 12, 4))])
def test_copies_keep_strides_of_dims_of_size_1_and_of_no_elements(size, stride):
    x = torch.arange(24.).as_strided(size, stride)
    for made in (x.clone(), x.double(), x.to(torch.float32, copy=True), torch.empty_like(x), torch.zeros_like(x, dtype=torch.int64)):
        assert made.stride() == stride and made.is_contiguous() == x.is_contiguous()
    assert torch.equal(x.clone(), x) and torch.equal(torch.compile(lambda v: v.clone() + 0)(x), x)
    assert x.clone(memory_format=torch.contiguous_format).stride() == torch.empty(size).stride()


# --- arithmetic in expressions ---

def test_operators_and_numbers():
    x = torch.tensor([1.0, 2.0, 4.0])
    assert (x + 1).tolist() == (1 + x).tolist() == [2.0, 3.0, 5.0]
    assert (1 - x).tolist() == [0.0, -1.0, -3.0] and (2 / x).tolist() == [2.0, 1.0, 0.5]
    assert (x ** 2).tolist() == [1.0, 4.0, 16.0] and (2 ** x).tolist() == [2.0, 4.0, 16.0]
    assert (x // 2).tolist() == [0.0, 1.0, 2.0] and (x % 2).tolist() == [1.0, 0.0, 0.0]
    assert (-x).tolist() == [-1.0, -2.0, -4.0] and abs(-x).tolist() == [1.0, 2.0, 4.0]
    assert (x > 1.5).tolist() == [False, True, True] and (1.5 < x).tolist() == [False, True, True]
    assert (~(x > 1.5)).tolist() == [True, False, False]
    assert (7 // torch.tensor([2, 4])).tolist() == [3, 1]
    assert (7 % torch.tensor([4, 5])).tolist() == [3, 2]
    assert (torch.tensor([1, 2]) << 1).tolist() == [2, 4]
    assert (torch.tensor([True]) & False).tolist() == [False]


def test_a_number_does_not_promote():
    assert (torch.zeros(2, dtype=torch.float16) + 1.5).dtype is torch.float16
    assert (torch.zeros(2, dtype=torch.int32) + 1).dtype is torch.int32
    assert (torch.zeros(2, dtype=torch.int32) + 1.5).dtype is torch.float32
    assert torch.result_type(torch.zeros(2, dtype=torch.int8), 1.0) is torch.float32
    assert torch.promote_types(torch.uint8, torch.int8) is torch.int16
    assert torch.can_cast(torch.int32, torch.float32) and not torch.can_cast(torch.float32, torch.int32)


def test_in_place_keeps_the_object():
    x = y = torch.zeros(2)
    x += 1
    x *= 3
    assert x is y and y.tolist() == [3.0, 3.0]
    assert x.add_(1) is x and torch.relu_(x) is x
    x -= torch.ones(2)
    assert x.tolist() == [3.0, 3.0]


def test_foreign_operands():
    class Other:
        def __radd__(self, x):
            return "radd"

        def __rmul__(self, x):
            return "rmul"
    assert torch.zeros(2) + Other() == "radd" and torch.zeros(2) * Other() == "rmul"
    assert (torch.zeros(2) == None) is False and (torch.zeros(2) != None) is True  # noqa: E711
    with raises(TypeError, r"unsupported operand type\(s\) for \+: 'Tensor' and 'str'"):
        torch.zeros(2) + "a"


def test_hash_is_identity():
    x = torch.zeros(2)
    assert x in {x} and hash(x) == hash(x) and torch.zeros(2) not in {x: 1}


# --- calls ---

def test_keywords_defaults_and_other_names():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.add(x, x, alpha=2).tolist() == torch.add(input=x, other=x, alpha=2).tolist()
    assert x.sum(axis=0).tolist() == x.sum(dim=0).tolist() == [4.0, 6.0]
    assert x.sum(1, keepdims=True).shape == (2, 1) and x.sum((0, 1)).shape == ()
    assert x.view(4).shape == x.view((4,)).shape == x.reshape(-1).shape == (4,)
    assert x.permute(1, 0).tolist() == x.permute((1, 0)).tolist() == x.permute(dims=(1, 0)).tolist()
    assert torch.zeros(2, 3).shape == torch.zeros((2, 3)).shape == torch.zeros(size=(2, 3)).shape


def test_out():
    x, out = torch.ones(3), torch.empty(3)
    assert torch.add(x, x, out=out) is out and out.tolist() == [2.0, 2.0, 2.0]
    assert torch.add(x, x, out=None).tolist() == [2.0, 2.0, 2.0]
    with raises(TypeError, r"add\(\): argument 'out' must be Tensor, not int"):
        torch.add(x, x, out=3)


def test_factories_take_requires_grad():
    assert torch.ones(2, requires_grad=True).requires_grad
    assert torch.zeros(2, layout=torch.strided, pin_memory=False).shape == (2,)


@pytest.mark.parametrize("call,text", [
    (lambda t, x: t.add(x, "a"), r"add(): argument 'other' (position 2) must be Tensor, not str"),
    (lambda t, x: t.relu("a"), r"relu(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda t, x: t.relu(), r'relu() missing 1 required positional arguments: "input"'),
    (lambda t, x: t.relu(x, 1), r"relu() takes 1 positional argument but 2 were given"),
    (lambda t, x: t.relu(x, foo=1), r"relu() got an unexpected keyword argument 'foo'"),
    (lambda t, x: t.add(x, x, input=x), r"add() got multiple values for argument 'input'"),
    (lambda t, x: t.add(x, x, alpha="s"), r"add(): argument 'alpha' must be Number, not str"),
    (lambda t, x: t.zeros(2.5), r"zeros(): argument 'size' (position 1) must be tuple of ints, not float"),
    (lambda t, x: t.zeros((2.5,)), r"zeros(): argument 'size' (position 1) must be tuple of ints, but found element of type float at pos 0"),
    (lambda t, x: t.zeros(2, dtype="f"), r"zeros(): argument 'dtype' must be torch.dtype, not str"),
    (lambda t, x: x.mm(2), r"mm(): argument 'mat2' (position 1) must be Tensor, not int"),
    (lambda t, x: x.permute("a"), r"permute(): argument 'dims' (position 1) must be tuple of ints, not str"),
    (lambda t, x: x.transpose(0), r'transpose() missing 1 required positional arguments: "dim1"'),
    (lambda t, x: x.transpose(0, 1, 2), r"transpose() takes 2 positional arguments but 3 were given"),
    (lambda t, x: x.flatten(5, 6, 7), r"flatten() takes from 0 to 2 positional arguments but 3 were given"),
    (lambda t, x: x.sum(0, keepdim=1), r"sum(): argument 'keepdim' must be bool, not int"),
])
def test_messages_of_wrong_calls_name_the_error(call, text):
    with pytest.raises(TypeError) as error:
        call(torch, torch.ones(2, 3))
    assert str(error.value) == text


def test_a_call_that_no_overload_takes():
    with pytest.raises(TypeError) as error:
        torch.ones(2, 3).view("a")
    text = str(error.value)
    assert text.startswith("view() received an invalid combination of arguments - got (str), but "
                           "expected one of:\n")
    assert "\n * (torch.dtype dtype)\n" in text and "\n * (tuple of ints size)\n" in text
    assert "didn't match because some of the arguments have invalid types: (!str!)" in text


def test_named_results():
    result = torch.var_mean(torch.tensor([1.0, 3.0]))
    assert isinstance(result, tuple) and result[0].item() == 2.0
    if hasattr(torch, "sort"):
        result = torch.sort(torch.tensor([3.0, 1.0]))
        assert result.values.tolist() == [1.0, 3.0] and result[1].tolist() == [1, 0]
        values, indices = result
        assert repr(result) == ("torch.return_types.sort(\nvalues=tensor([1., 3.]),\n"
                                "indices=tensor([1, 0]))")


def test_callables_have_names():
    assert torch.add.__name__ == "add" and "add" in torch.add.__doc__
    assert pickle.loads(pickle.dumps(torch.add)) is torch.add
    assert pickle.loads(pickle.dumps(torch.Tensor.add)) is torch.Tensor.add
    assert torch.Tensor.add(torch.ones(1), 1).item() == 2.0


# --- life ---

def test_objects_and_their_attributes_survive_in_c():
    x = torch.zeros(2, requires_grad=True)
    x.mark = "here"
    name = id(x)
    y = x * 2
    del x
    gc.collect()
    leaf = y.grad_fn.next_functions[0][0].variable
    assert leaf.mark == "here" and id(leaf) == name


def test_weak_references_survive_in_c():
    x = torch.zeros(2, requires_grad=True)
    reference = weakref.ref(x)
    y = x * 2
    del x
    assert reference() is not None
    held = reference()
    del y
    assert held is reference()
    del held
    gc.collect()
    assert reference() is None


def test_a_subclass_survives_in_c():
    class Mine(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl
    x = torch.Tensor._make_subclass(Mine, torch.zeros(2), True)
    y = x * 2
    assert type(y) is torch.Tensor
    del x
    gc.collect()
    assert type(y.grad_fn.next_functions[0][0].variable) is Mine


def test_gradients_are_one_object():
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    x.grad.note = 1
    gc.collect()
    assert x.grad is x.grad and x.grad.note == 1


def test_cycles_through_dict_and_hooks_are_collected():
    class Probe:
        pass
    x = torch.zeros(2)
    probe = x.probe = Probe()
    probe.x = x
    reference = weakref.ref(probe)
    del x, probe
    gc.collect()
    assert reference() is None

    w = torch.zeros(2, requires_grad=True)
    probe = Probe()
    probe.w = w
    w.register_hook(lambda g, p=probe: None)
    reference = weakref.ref(probe)
    del w, probe
    gc.collect()
    assert reference() is None


def test_cycles_through_a_leaf_that_only_the_graph_holds_are_collected():
    class Probe:
        pass
    x = torch.zeros(2, requires_grad=True)
    x.probe = Probe()
    x.result = x * 2
    reference = weakref.ref(x.probe)
    del x
    gc.collect()
    assert reference() is None


def test_cycles_through_functions_are_collected():
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.note = note
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Note:
        pass
    note = Note()
    y = Keep.apply(torch.zeros(2, requires_grad=True))
    note.y = y
    reference = weakref.ref(note)
    del note, y
    gc.collect()
    assert reference() is None


def test_many_objects_are_made_and_freed():
    x = torch.ones(3)
    kept = [x + i for i in range(1000)]
    del kept[::2]
    assert sum(int(t[0]) for t in kept) == sum(range(2, 1001, 2))


def test_threads():
    x = torch.ones(100_000)
    sums = []

    def work():
        for _ in range(20):
            y = x * 2
            y.note = y
        sums.append(y.sum().item())
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [200_000.0] * 4


# --- copies ---

def test_deepcopy_keeps_sharing():
    x = torch.arange(4.0)
    a, b = copy.deepcopy([x, x[1:]])
    a[1] = 9
    assert b[0] == 9 and x[1] == 1


def test_pickle():
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == x.tolist() and y.stride() == x.stride() and y.requires_grad
    a, b = pickle.loads(pickle.dumps((x.detach(), x.detach()[1:])))
    a[1, 0] = 9
    assert b[0, 0] == 9


def test_only_leaves_are_deep_copied():
    x = torch.ones(2, requires_grad=True)
    with raises(RuntimeError, "Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_storage():
    x = torch.arange(4.0)
    assert x.untyped_storage() is x[1:].untyped_storage()
    assert x.untyped_storage().nbytes() == 16
    assert x.storage().tolist() == [0.0, 1.0, 2.0, 3.0]
    y = torch.empty(0).set_(x.untyped_storage(), 1, (2,), (2,))
    assert y.tolist() == [1.0, 3.0]


# --- __torch_function__ ---

def test_subclasses_stay_subclasses():
    class Mine(torch.Tensor):
        pass
    x = torch.ones(2).as_subclass(Mine)
    y = x + 1
    assert type(y) is Mine and type(x.sum()) is Mine and type(torch.add(1.0 * torch.ones(2), x)) is Mine
    assert type(x[0]) is Mine


def test_duck_types_handle_calls():
    class Duck:
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append((func, types, args, kwargs))
            return "quack"
    duck = Duck()
    assert torch.add(duck, 1, alpha=2) == "quack"
    func, types, args, kwargs = Duck.calls[0]
    assert func is torch.add and types == (Duck,) and args == (duck, 1) and kwargs == {"alpha": 2}
    assert torch.ones(2).mul(duck) == "quack" and torch.stack([torch.ones(2), duck]) == "quack"


def test_function_modes_see_every_call():
    from cresset.overrides import TorchFunctionMode
    names = []

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))
    with Log():
        x = torch.ones(2)
        y = x + x
        y.sum()
    torch.ones(2)
    assert names == ["ones", "add", "sum"]


METHODS = {"size": lambda x: x.size(0), "dim": lambda x: x.dim(), "to": lambda x: x.to(dtype=torch.float64),
           "type_as": lambda x: x.type_as(x), "float": lambda x: x.float(), "detach": lambda x: x.detach(),
           "shape": lambda x: x.shape, "T": lambda x: x.T, "requires_grad": lambda x: setattr(x, "requires_grad", True)}


@pytest.mark.parametrize("name", METHODS)
def test_modes_and_classes_see_methods_and_properties(name):
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__self__.__name__ if func.__name__ in ("__get__", "__set__") else func.__name__)
            return func(*args, **(kwargs or {}))

    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *call):
            with torch._C.DisableTorchFunctionSubclass():
                return Mode.__torch_function__(None, *call)
    call, x = METHODS[name], torch.ones(1, 2)
    want = call(torch.ones(1, 2))
    with Mode():
        got = call(x)
    assert seen == [name] and str(got) == str(want)
    seen.clear()
    call(torch.ones(1, 2).as_subclass(Seen))
    assert seen == [name]


# --- the process ---

def test_import_is_light():
    code = ("import sys, cresset; assert 'numpy' not in sys.modules; "
            "assert 'cresset.nn' not in sys.modules; assert 'cresset._dynamo' not in sys.modules; "
            "print(len(sys.modules))")
    assert subprocess.run([sys.executable, "-c", code], check=True).returncode == 0


def test_import_star_takes_names_of_lazy_modules():
    code = "from cresset import *; assert save and load and compile(lambda x: x + 1)(ones(2)).tolist() == [2, 2]"
    assert subprocess.run([sys.executable, "-c", code], check=True).returncode == 0


def test_seeds():
    torch.manual_seed(3)
    a = torch.rand(4)
    state = torch.get_rng_state()
    b = torch.rand(4)
    torch.set_rng_state(state)
    assert torch.rand(4).tolist() == b.tolist()
    assert torch.manual_seed(3) is torch.default_generator and torch.initial_seed() == 3
    assert torch.rand(4).tolist() == a.tolist()
    g = torch.Generator().manual_seed(3)
    assert torch.rand(4, generator=g).tolist() == a.tolist()
    with torch.random.fork_rng():
        torch.rand(10)
    assert torch.rand(4).tolist() == b.tolist()
