"""Calls that no signature takes, and calls that the operators refuse: torch's classes and texts."""
import numpy
import pytest

import cresset as torch

F = torch.nn.functional
T = torch.tensor([1., 2.])
ADD = "(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)"
EQ = " * (Tensor input, Tensor other, *, Tensor out = None)\n * (Tensor input, Number other, *, Tensor out = None)\n"


def by_numbers():
    """Names of functions with an overload for tensors and one whose last argument is a number."""
    for name in dir(torch.ops.aten):
        op = getattr(torch.ops.aten, name)
        if not name.endswith("_") and hasattr(torch, name) and {"Tensor", "Scalar"} <= set(getattr(op, "overloads", list)()):
            first = [op.Tensor._schema.arguments[i].type for i in range(2)] if len(op.Tensor._schema.arguments) == 2 else []
            if [str(t) for t in first] == ["Tensor", "Tensor"]:
                yield name


NUMBERS_ARE_TENSORS = {"div", "divide", "true_divide", "floor_divide", "mul", "multiply", "sub", "subtract"}


@pytest.mark.parametrize("name", sorted(by_numbers()))
def test_a_function_of_two_numbers(name):
    function = getattr(torch, name)
    assert isinstance(function(T.int(), 2), torch.Tensor)
    if name in NUMBERS_ARE_TENSORS:
        assert isinstance(function(3, 2), torch.Tensor)
        return
    with pytest.raises(TypeError, match=rf"^{name}\(\) received an invalid combination of arguments - got \(int, int\), but expected one of:"):
        function(3, 2)


def test_there_are_functions_of_two_numbers():
    assert {"eq", "lt", "remainder", "fmod", "bitwise_and", "copysign", "div"} <= set(by_numbers())


@pytest.mark.parametrize("call, text", [
    (lambda: torch.add(), f"add() received an invalid combination of arguments - got (), but expected {ADD}"),
    (lambda: torch.add("a"), f"add() received an invalid combination of arguments - got (str), but expected {ADD}"),
    (lambda: torch.add("a", "b"), "add(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda: torch.add("a", "b", "c"), "add() takes 2 positional arguments but 3 were given"),
    (lambda: torch.eq(3, T), f"eq() received an invalid combination of arguments - got (int, Tensor), but expected one of:\n{EQ}"),
    (lambda: torch.eq(T, "a"), f"eq() received an invalid combination of arguments - got (Tensor, str), but expected one of:\n{EQ}"),
    (lambda: torch.pow(3, 2), "pow() received an invalid combination of arguments - got (int, int), but expected one of:\n"
     " * (Tensor input, Tensor exponent, *, Tensor out = None)\n * (Number self, Tensor exponent, *, Tensor out = None)\n"
     " * (Tensor input, Number exponent, *, Tensor out = None)\n"),
    (lambda: T.eq("a"), "eq() received an invalid combination of arguments - got (str), but expected one of:\n"
     " * (Tensor other)\n      didn't match because some of the arguments have invalid types: (!str!)\n"
     " * (Number other)\n      didn't match because some of the arguments have invalid types: (!str!)\n"),
    (lambda: T.add_(), "add_() received an invalid combination of arguments - got (), but expected (Tensor other, *, Number alpha = 1)"),
    (lambda: torch.div("a", "b"), "div(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda: torch.argsort("a"), "argsort(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda: torch.allclose(), 'allclose() missing 2 required positional argument: "input", "other"'),
    (lambda: torch.neg(), 'neg() missing 1 required positional arguments: "input"'),
], ids=range(13))
def test_calls_that_no_signature_takes(call, text):
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == text


SPARSE = torch.ones(2).to_sparse()
DENSE = "add: expected 'self' and 'other' to have same size, but self has size [] while other has size [2] " \
        "(FYI: dense-sparse addition does not currently support broadcasting)"
USE_DENSE = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


@pytest.mark.parametrize("call, text", [
    (lambda: SPARSE - 3, USE_DENSE), (lambda: SPARSE + 3, USE_DENSE), (lambda: SPARSE.clone().sub_(3), USE_DENSE),
    (lambda: 3 - SPARSE, DENSE), (lambda: torch.add(3, SPARSE), DENSE), (lambda: torch.sub(3, SPARSE), DENSE),
    (lambda: torch.affine_grid_generator(torch.ones(1, 2, 3), [1, 2], False),
     "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."),
    (lambda: torch.affine_grid_generator(torch.ones(2, 2, 3), [1, 2, 3, 3], False),
     "Expected size for first two dimensions of batch2 tensor to be: [1, 3] but got: [2, 3]."),
    (lambda: torch.native_group_norm(torch.ones(2, 4), None, None, 2, 4, 1, 0, 0.1), "Expected num groups to be greater than 0, got 0"),
    (lambda: torch.native_group_norm(torch.ones(2, 4), None, None, 3, 4, 1, 2, 0.1),
     "Expected X.numel() == N * C * HxW to be true, but got false.  (Could this error message be improved?  If so, "
     "please report an enhancement request to PyTorch.)"),
    (lambda: torch.floor_divide(3, 0), "ZeroDivisionError"),
    (lambda: F.scaled_dot_product_attention(torch.ones(1, 2, 3, 4), torch.ones(1, 3, 3, 4), torch.ones(1, 3, 3, 4), enable_gqa=True),
     "Number of heads in key and value must divide the number of heads in "),
    (lambda: F.scaled_dot_product_attention(torch.ones(1, 2, 3, 4), torch.ones(1, 0, 3, 4), torch.ones(1, 0, 3, 4), enable_gqa=True),
     "Number of heads in key and value must divide the number of heads in "),
], ids=range(13))
def test_calls_that_operators_refuse(call, text):
    with pytest.raises(RuntimeError) as raised:
        call()
    assert str(raised.value) == text


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "fft2", "irfftn"])
@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16])
def test_transforms_refuse_short_types(name, dtype):
    with pytest.raises(RuntimeError, match="^Unsupported dtype (Float8_e5m2|Float8_e4m3fn|BFloat16)$"):
        getattr(torch.fft, name)(torch.ones(4, 4).to(dtype))


def test_a_tensor_without_dims_is_padded_by_nothing():
    x = torch.tensor(3., requires_grad=True)
    y = F.pad(x, [], value=7.)
    y.backward()
    assert y.shape == () and y.item() == 3 and x.grad.item() == 1


@pytest.mark.parametrize("keys, values", [(2, 4), (4, 2), (1, 2), (2, 1)])
def test_keys_and_values_are_repeated_by_their_own_heads(keys, values):
    q, k, v = (torch.randn(2, heads, 3, 4) for heads in (4, keys, values))
    want = F.scaled_dot_product_attention(q, k.repeat_interleave(4 // keys, 1), v.repeat_interleave(4 // values, 1))
    assert torch.allclose(F.scaled_dot_product_attention(q, k, v, enable_gqa=True), want, atol=1e-6)


@pytest.mark.parametrize("name", torch.special.__all__)
def test_special_functions_have_their_own_names(name):
    function = getattr(torch.special, name)
    assert function.__name__ == f"special_{name}" and function.__module__ == f"{torch.__name__}._C._special"
    assert not hasattr(torch, f"special_{name}") and not hasattr(T, f"special_{name}")
    with pytest.raises(TypeError, match=rf"^special_{name}\(\) "):
        function()


def single_signatures():
    """Callables of functions with one signature, and the names of their parameters without a default."""
    for record in torch._C._records():
        if "function" not in record["forms"] or record["overload"] or "Scalar" in record["schema"]:
            continue
        packet = getattr(torch.ops.aten, record["name"], None)
        required = ["input" if (p["name"], p["type"]) == ("self", "Tensor") else p["name"] for p in record["params"] if not p["has_default"]]
        if packet is not None and len([o for o in packet.overloads() if "out" not in o]) == 1 and required:
            yield pytest.param(getattr(torch._C.ops, record["name"]), required, id=record["name"])


@pytest.mark.parametrize("function, required", list(single_signatures()))
def test_what_is_missing_comes_before_unknown_keywords(function, required):
    names = ", ".join(f'"{name}"' for name in required)
    with pytest.raises(TypeError) as raised:
        function(bogus=1)
    assert str(raised.value) == f"{function.__name__}() missing {len(required)} required positional argument{'s' * (len(required) == 1)}: {names}"


def methods_without_arguments():
    records = torch._C._records()
    names = [record["name"] for record in records]
    for record in records:
        method = getattr(torch.Tensor, record["name"], None)
        if "method" in record["forms"] and len(record["params"]) == 1 and not record["overload"] and type(method) is type(torch.Tensor.neg):
            if names.count(record["name"]) == 1:
                yield record["name"]


@pytest.mark.parametrize("name", list(methods_without_arguments()))
def test_methods_without_arguments(name):
    with pytest.raises(TypeError) as raised:
        getattr(T, name)("a")
    assert str(raised.value) == f"TensorBase.{name}() takes no arguments (1 given)"
    with pytest.raises(TypeError) as raised:
        getattr(T, name)(bogus=1)
    assert str(raised.value) == f"TensorBase.{name}() takes no keyword arguments"


@pytest.mark.parametrize("call, text", [
    (lambda: torch.argsort(T, 0, True, 3), "argsort() takes from 2 to 1 positional arguments but 4 were given"),
    (lambda: torch.linalg.solve_triangular(T, upper=True), 'linalg_solve_triangular() missing 2 required positional argument: "B", "upper"'),
    (lambda: torch.linalg.cross(T, input=T), 'linalg_cross() missing 1 required positional arguments: "other"'),
    (lambda: torch.neg(T, input=T), "neg() got multiple values for argument 'input'"),
    (lambda: torch.neg(T, out=3), "neg(): argument 'out' must be Tensor, not int"),
    (lambda: torch.frexp(T, out=T), "frexp(): argument 'out' must be tuple of Tensors, not Tensor"),
    (lambda: T.addmm(bogus=1), "addmm() received an invalid combination of arguments - got unrecognized keyword arguments: bogus"),
    (lambda: T.data_ptr(1), "TensorBase.data_ptr() takes no arguments (1 given)"),
    (lambda: torch.ones(2, requires_grad="a"), "ones(): argument 'requires_grad' must be bool, not str"),
])
def test_reasons_in_order(call, text):
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value).split("\n")[0] == text


@pytest.mark.parametrize("name, listed", [("multiply", 2), ("floor_divide", 2), ("count_nonzero", 2), ("true_divide", 4)])
def test_all_overloads_are_listed(name, listed):
    with pytest.raises(TypeError, match="but expected one of:\n") as raised:
        getattr(torch, name)()
    assert str(raised.value).count("\n * ") == listed


# Arguments of classes and functions that are no operators: (call, class, message).
TOLD = [
    (lambda: torch.ones(3)[2**63], ValueError, "Overflow when unpacking long long"),
    (lambda: torch.ones(3).sum(2**63), ValueError, "Overflow when unpacking long long"),
    (lambda: torch.topk(torch.ones(3), 2**63), ValueError, "Overflow when unpacking long long"),
    (lambda: torch.finfo(3), TypeError, "finfo(): argument 'type' (position 1) must be torch.dtype, not int"),
    (lambda: torch.iinfo("int8"), TypeError, "iinfo(): argument 'type' (position 1) must be torch.dtype, not str"),
    (lambda: torch.device("cpu", "a"), TypeError, "device(): argument 'index' (position 2) must be int, not str"),
    (lambda: torch.device("cuda", -1), RuntimeError, "Device index must not be negative"),
    (lambda: torch.polar(T, T.double()), RuntimeError, "Expected object of scalar type Float but got scalar type Double for second argument"),
    (lambda: torch.polar(T.long(), T), RuntimeError, "Expected both inputs to be Half, Float or Double tensors but got Long and Float"),
    (lambda: torch.device("cpu", index=1.5), TypeError, "device(): argument 'index' must be int, not float"),
    (lambda: torch.UntypedStorage(3)[1.5], TypeError, "can't index a torch.UntypedStorage with float"),
    (lambda: torch.UntypedStorage(3).resize_(1.5), RuntimeError, "resize_ expects an int, but got float"),
    (lambda: torch.UntypedStorage(3).fill_("a"), RuntimeError, "fill_ expects int, but got str"),
    (lambda: torch.UntypedStorage(3).copy_(3), TypeError, "copy_(): argument 'src' (position 1) must be torch.Storage, not int"),
    (lambda: torch.UntypedStorage(3).byteswap(3), RuntimeError, "expected torch.dtype, but got <class 'int'>"),
    (lambda: torch.Tensor._make_subclass(3, torch.ones(2)), TypeError, "cls must be a type (got int)"),
    (lambda: torch.Tensor._make_subclass(torch.Tensor, 3), TypeError,
     "_make_subclass(): argument 'data' (position 2) must be Tensor, not int"),
    (lambda: torch.Tensor._make_subclass(int, torch.ones(2)), TypeError,
     "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
     "Make sure your class inherits from Tensor."),
    (lambda: torch.Generator().manual_seed("a"), RuntimeError, "manual_seed expected a long, but got str"),
    (lambda: torch.Generator().manual_seed(1.5), RuntimeError, "manual_seed expected a long, but got float"),
    (lambda: torch.Generator().set_state(3), TypeError, "expected a torch.ByteTensor, but got int"),
    (lambda: torch.set_grad_enabled("a"), TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not str"),
    (lambda: torch._C._set_grad_enabled(1), TypeError, "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not int"),
    (lambda: torch.Size((1, 2)) + [3], TypeError, "can only concatenate tuple (not list) to torch.Size"),
    (lambda: torch.ones(2).map_(3, 4), TypeError, "map_(): argument 'other' (position 1) must be Tensor, not int"),
    (lambda: torch.cartesian_prod(torch.ones(2, 2)), RuntimeError, "Expect a 1D vector, but got shape [2, 2]"),
]


@pytest.mark.parametrize("call, error, message", TOLD, ids=range(len(TOLD)))
def test_classes_and_functions_refuse_as_torch(call, error, message):
    with pytest.raises(error) as told:
        call()
    assert str(told.value) == message
    assert torch.Generator().manual_seed(numpy.int64(3)).initial_seed() == 3
    with torch.set_grad_enabled(numpy.bool_(False)):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled() and torch.device("cpu", None) == torch.device("cpu")
    assert (3,) + torch.Size((1, 2)) == torch.Size((3, 1, 2)) and torch.device("cpu", torch.tensor(0)).index == 0


HUGE = [2**63, 2**70, -2**63 - 1, -2**70]


def takes_sizes():
    """(name, argument, call) of functions and methods whose list of sizes has the number as its last item."""
    x = torch.ones(2, 3)
    for name in ("zeros", "ones", "empty", "rand", "randn"):
        yield name, "size", lambda n, f=getattr(torch, name): f(2, n)
        yield name, "size", lambda n, f=getattr(torch, name): f([2, n])
        yield name, "size", lambda n, f=getattr(torch, name): f(size=(2, n))
    for name, argument in (("view", "size"), ("reshape", "shape"), ("expand", "size"), ("repeat", "repeats"), ("permute", "dims"),
                           ("flip", "dims"), ("tile", "dims"), ("new_zeros", "size"), ("new_ones", "size"), ("new_empty", "size")):
        yield name, argument, lambda n, f=getattr(x, name): f(1, n)
        yield name, argument, lambda n, f=getattr(x, name): f((1, n))
    for name in ("sum", "mean", "amax", "logsumexp"):
        yield name, "dim", lambda n, f=getattr(torch, name): f(x, (0, n))


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("name, argument, call", list(takes_sizes()))
def test_a_size_beyond_64_bits_is_named(name, argument, call, number):
    with pytest.raises(TypeError) as raised:
        call(number)
    assert str(raised.value) == f"{name}(): argument '{argument}' failed to unpack the object at pos 2 with error \"Overflow when unpacking long long\""


@pytest.mark.parametrize("number", HUGE)
def test_elements_beyond_64_bits(number):
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.bool):
        made, again = torch.tensor([number], dtype=dtype), torch.tensor([float(number)], dtype=dtype)
        assert torch.equal(made, again)
    for target in (T.clone(), T.int(), T.bool()):
        with pytest.raises(ValueError, match="^Overflow when unpacking long long$"):
            target[0] = number
    with pytest.raises(ValueError, match="^Overflow when unpacking long long$"):
        torch.Size([number])
    if number not in range(2**64):
        with pytest.raises(OverflowError, match="^int too big to convert$" if number > 0 else "^can't convert negative int to unsigned$"):
            T + number
    assert torch.equal(torch.nn.functional.pad(T, (1, 0), value=number)[:1], torch.tensor([float(number)]))


def test_elements_beyond_floats():
    for call in (lambda: torch.tensor(10**400, dtype=torch.float32), lambda: T.clone().uniform_(0, 10**400)):
        with pytest.raises(OverflowError, match="^int too large to convert to float$"):
            call()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float32, torch.complex64])
@pytest.mark.parametrize("number", [3, -1, 2.5, True, 2**40, 1e6])
def test_copy_takes_numbers_as_tensors(dtype, number):
    made = torch.zeros(2, dtype=dtype).copy_(number)
    assert torch.equal(made, torch.zeros(2, dtype=dtype).copy_(torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)))
    assert torch.equal(made, torch.zeros(2, dtype=dtype).copy_(other=made))


def test_copy_of_a_number_is_recorded():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).copy_(3)
    assert type(y.grad_fn).__name__ == "CopyBackwards"
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]
    with pytest.raises(TypeError) as raised:
        y.copy_([3])
    assert str(raised.value) == "copy_(): argument 'other' (position 1) must be Tensor, not list"


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("dim", [(), (0,), ((0,),)])
def test_truth_is_written_to_bools_and_bytes_alone(name, dim):
    function = getattr(torch, name)
    for source in (T, T.bool(), T.to(torch.uint8)):
        for dtype in (torch.bool, torch.uint8):
            assert function(source, *dim, out=torch.empty(0, dtype=dtype)).item() == 1
        for dtype, told in ((torch.float32, "Float"), (torch.int8, "Char"), (torch.complex64, "ComplexFloat")):
            with pytest.raises(RuntimeError) as raised:
                function(source, *dim, out=torch.empty(0, dtype=dtype))
            assert str(raised.value) == f"{name} only supports bool tensor for result, got: {told}"


@pytest.mark.parametrize("name", ["half", "bfloat16", "float", "double", "byte", "char", "short", "int", "long", "bool", "cfloat", "cdouble", "cpu"])
def test_conversions_take_a_memory_format_alone(name):
    convert = getattr(torch.ones(1, 2, 3, 4), name)
    assert convert(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    assert convert(memory_format=None).shape == (1, 2, 3, 4)
    for call, text in ((lambda: convert(3), f"{name}() takes 0 positional arguments but 1 was given"),
                       (lambda: convert(3, 4), f"{name}() takes 0 positional arguments but 2 were given"),
                       (lambda: convert(memory_format=3), f"{name}(): argument 'memory_format' must be torch.memory_format, not int"),
                       (lambda: convert(dtype=3), f"{name}() got an unexpected keyword argument 'dtype'")):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value) == text


@pytest.mark.parametrize("truth", [True, False])
def test_a_truth_is_a_float(truth):
    number = float(truth)
    for call in (lambda n: torch.nan_to_num(T, n), lambda n: torch.dropout(T, n, True), lambda n: torch.logit(T / 4, n),
                 lambda n: torch.isclose(T, T + 1, atol=n), lambda n: torch.quantile(T, n), lambda n: torch.cdist(torch.eye(2), torch.eye(2), n),
                 lambda n: F.layer_norm(T, (2,), eps=n), lambda n: torch.normal(n, 0.0, (2,))):
        assert torch.equal(call(truth), call(number))


@pytest.mark.parametrize("name", ["stft", "istft", "unique", "unique_consecutive", "lu", "norm", "is_shared", "storage_type", "reinforce", "eig"])
def test_methods_have_the_names_that_users_call(name):
    method = getattr(torch.Tensor, name)
    assert method.__name__ == name
    with pytest.raises((TypeError, RuntimeError)) as raised:
        method(T, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    assert f"Tensor.{name}() takes" in str(raised.value) or "removed" in str(raised.value)


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_say_so(name):
    with pytest.raises(RuntimeError, match="^This function was deprecated since version 1.9 and is now removed."):
        getattr(torch, name)(torch.eye(2), torch.eye(2))


def test_asarray_keeps_the_history():
    leaf = torch.ones(2, requires_grad=True)
    assert torch.asarray(leaf) is leaf
    for made in (torch.asarray(leaf, dtype=torch.float64), torch.asarray(leaf, copy=True), torch.asarray(leaf * 2)):
        leaf.grad = None
        made.sum().backward()
        assert leaf.grad is not None
    assert not torch.asarray(leaf, requires_grad=False).requires_grad
    assert torch.asarray(leaf.detach(), requires_grad=True).requires_grad


@pytest.mark.parametrize("number", [3, 2.5, True])
def test_copy_of_a_number_is_functional_and_compiles(number):
    def f(x):
        return x.mul(2).copy_(number) + 1
    want = f(torch.ones(2))
    assert torch.equal(torch.func.functionalize(f)(torch.ones(2)), want)
    assert torch.equal(torch.compile(f)(torch.ones(2)), want)
    assert torch.equal(torch.vmap(f)(torch.ones(3, 2)), want.expand(3, 2))


def test_copy_of_a_complex_number_keeps_its_digits():
    assert torch.zeros(1, dtype=torch.complex128).copy_(0.1 + 0.2j).item() == 0.1 + 0.2j
    assert torch.zeros(1, dtype=torch.complex64).copy_(0.1 + 0.2j).item() == torch.tensor(0.1 + 0.2j, dtype=torch.complex64).item()
