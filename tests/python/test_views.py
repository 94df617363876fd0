"""Views, copies and in-place views, with inputs that the generated suite cannot draw."""
import numpy
import pytest

import cresset as torch


def count(*shape, dtype=torch.float64):
    return torch.arange(int(numpy.prod(shape)), dtype=dtype).reshape(shape)


def numeric(f, x, step=1e-6):
    """Returns the gradient of sum(f * weights) with weights 1, 2, 3, ..., and these weights."""
    flat = x.detach().clone().reshape(-1)
    grad = torch.zeros_like(flat)
    for k in range(flat.numel()):
        both = []
        for sign in (1, -1):
            moved = flat.clone()
            moved[k] += sign * step
            y = f(moved.reshape(x.shape)).detach().reshape(-1)
            both.append((y * torch.arange(1, y.numel() + 1, dtype=torch.float64)).sum().item())
        grad[k] = (both[0] - both[1]) / (2 * step)
    return grad.reshape(x.shape).numpy()


def gradient(f, x):
    x = x.detach().clone().requires_grad_()
    y = f(x)
    y.backward(torch.arange(1, y.numel() + 1, dtype=torch.float64).reshape(y.shape))
    return x.grad.numpy()


def written(change):
    """Returns a function that changes a copy of its argument and returns the copy."""
    def f(x):
        y = x.clone()
        change(y, x)
        return y
    return f


IN_PLACE = {
    "transpose_": lambda y, x: y.transpose_(0, 1),
    "swapaxes_": lambda y, x: y.swapaxes_(0, 1),
    "swapdims_": lambda y, x: y.swapdims_(0, 1),
    "t_": lambda y, x: y.t_(),
    "unsqueeze_": lambda y, x: y.unsqueeze_(1),
    "squeeze_": lambda y, x: y.unsqueeze_(0).squeeze_(),
    "squeeze_ dim": lambda y, x: y.unsqueeze_(0).squeeze_(0),
    "squeeze_ dims": lambda y, x: y.unsqueeze_(0).squeeze_((0, 1)),
    "copy_": lambda y, x: y[0].copy_(x[1] * 2),
    "copy_ broadcast": lambda y, x: y.copy_(x[:, :1]),
    "fill_ number": lambda y, x: y[0].fill_(3.0),
    "fill_ tensor": lambda y, x: y[:, 1].fill_(x[0, 0]),
    "zero_": lambda y, x: y.t()[1].zero_(),
    "through a view": lambda y, x: y.view(-1)[2:5].mul_(x[0, :3]),
    "through a diagonal": lambda y, x: y.diagonal().copy_(x[0, :3]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_gradients_of_in_place_changes(name):
    x = torch.from_numpy(numpy.random.default_rng(1).uniform(-2, 2, (3, 4)))
    f = written(IN_PLACE[name])
    numpy.testing.assert_allclose(gradient(f, x), numeric(f, x), atol=1e-6)


STRIDED = {
    "apart": ((2, 3), (1, 4), 1),
    "overlapping": ((3, 3), (1, 1), 0),
    "repeated": ((3, 3), (0, 1), 2),
    "no elements": ((0, 3), (1, 1), 0),
}


@pytest.mark.parametrize("name", STRIDED)
def test_as_strided(name):
    size, stride, offset = STRIDED[name]
    x = torch.from_numpy(numpy.random.default_rng(2).uniform(-2, 2, (3, 4)))
    want = numpy.lib.stride_tricks.as_strided(x.numpy().ravel()[offset:], size, [8 * s for s in stride])
    y = x.as_strided(size, stride, offset)
    assert y.stride() == stride and y.storage_offset() == offset
    numpy.testing.assert_array_equal(y.numpy(), want)
    if want.size:
        f = lambda v: v.as_strided(size, stride, offset)
        numpy.testing.assert_allclose(gradient(f, x), numeric(f, x), atol=1e-6)


def test_as_strided_divides_the_cotangent_of_repeated_elements():
    x = torch.ones(1, 4, dtype=torch.float64, requires_grad=True)
    x.expand(3, 4).as_strided((4,), (1,), 0).sum().backward()
    numpy.testing.assert_array_equal(x.grad.numpy(), numpy.ones((1, 4)))


def test_complex_numbers_are_pairs_of_numbers():
    x = torch.from_numpy(numpy.random.default_rng(3).uniform(-2, 2, (3, 4, 2)))
    z = torch.view_as_complex(x)
    assert z.dtype == torch.complex128 and z.data_ptr() == x.data_ptr()
    numpy.testing.assert_array_equal(z.numpy(), x.numpy()[..., 0] + 1j * x.numpy()[..., 1])
    numpy.testing.assert_array_equal(torch.view_as_real(z).numpy(), x.numpy())
    f = lambda v: torch.view_as_real(torch.view_as_complex(v) * (1 + 2j))
    numpy.testing.assert_allclose(gradient(f, x), numeric(f, x), atol=1e-6)


def test_self_becomes_the_view():
    x = count(3, 4)
    y = x.transpose_(0, 1)
    assert y is x and x.shape == (4, 3) and x.stride() == (1, 4)
    numpy.testing.assert_array_equal(x.numpy(), numpy.arange(12.0).reshape(3, 4).T)
    assert x.as_strided_((2, 2), (5, 1), 1) is x
    numpy.testing.assert_array_equal(x.numpy(), [[1, 2], [6, 7]])


def test_resizing_keeps_elements_and_set_takes_another_tensors():
    x = count(2, 3)
    assert x.resize_(3, 4) is x
    numpy.testing.assert_array_equal(x.numpy().ravel()[:6], numpy.arange(6.0))
    y = count(5)
    x.set_(y)
    y[0] = 7
    assert x[0].item() == 7 and x.shape == (5,)
    z = torch.zeros(2).resize_as_(torch.zeros(3, 4).t())
    assert z.shape == (4, 3) and z.stride() == (3, 1)


def test_copies_convert_and_refuse():
    x = torch.zeros(3, 4, dtype=torch.int32)
    assert x.copy_(count(4)) is x
    numpy.testing.assert_array_equal(x.numpy(), numpy.tile(numpy.arange(4), (3, 1)))
    with pytest.raises(RuntimeError, match=r"output with shape \[4\] doesn't match the broadcast shape \[3, 4\]"):
        torch.zeros(4).copy_(x)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        torch.zeros(1, 3).expand(2, 3).copy_(torch.ones(2, 3))
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.zeros(3).copy_(torch.zeros(3, device="meta"))


def test_overlapping_source_and_target():
    x, y = count(10), count(4, 4)
    for to, source in ((x[2:], x[:-2]), (y, y.t())):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
            to.copy_(source)
    x[2::2].copy_(x[:-2:2])  # views with gaps are not compared element by element
    numpy.testing.assert_array_equal(x.numpy(), [0, 1, 0, 3, 2, 5, 4, 7, 6, 9])


@pytest.mark.parametrize("shape, made, strides", [
    ((3, 4), lambda x: x.t(), (1, 4)),
    ((1, 3), lambda x: x.expand(2, 3), (3, 1)),
    ((2, 6, 4), lambda x: x[:, ::2].permute(2, 0, 1), (1, 12, 4)),
    ((2, 3, 4, 5), lambda x: x.contiguous(memory_format=torch.channels_last), (60, 1, 15, 3)),
])
def test_copies_keep_the_order_of_dims(shape, made, strides):
    x = made(count(*shape))
    assert torch.empty_like(x).stride() == strides
    assert x.clone().stride() == strides
    assert x.to(torch.float32).stride() == strides
    numpy.testing.assert_array_equal(x.clone().numpy(), x.numpy())
    assert x.clone(memory_format=torch.contiguous_format).is_contiguous()


def test_pieces_join_to_the_whole():
    x = count(5, 4).requires_grad_()
    for parts in (x.unbind(0), x.split(2), x.split([1, 0, 4]), x.chunk(3), x.tensor_split(3), x.tensor_split((1, 3))):
        rows = torch.cat([p.reshape(-1, 4) for p in parts])
        numpy.testing.assert_array_equal(rows.detach().numpy(), x.detach().numpy())
    a, _, c = x.split(2)
    (a.sum() * 2 + c.sum()).backward()
    numpy.testing.assert_array_equal(x.grad.numpy(), numpy.repeat([2, 2, 0, 0, 1], 4).reshape(5, 4))


def test_comparisons():
    x, y = count(3), count(3)
    assert torch.equal(x, y) and not torch.equal(x, count(4)) and not torch.equal(x, y + 1)
    y[0] = float("nan")
    assert not torch.equal(y, y) and not torch.allclose(y, y) and torch.allclose(y, y, equal_nan=True)
    assert torch.allclose(x, x + 1e-9) and not torch.allclose(x, x + 1)


def test_not_a_number_is_replaced():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], dtype=torch.float64)
    for args in ({}, {"nan": 2.0, "posinf": 3.0, "neginf": -4.0}):
        numpy.testing.assert_array_equal(x.nan_to_num(**args).numpy(), numpy.nan_to_num(x.numpy(), **args))
    assert x.half().nan_to_num()[1].item() == 65504


@pytest.mark.parametrize("operands, stride", [
    # Sizes and strides of the operands, and the strides of torch's result.  Strides of dims of
    # size 1 decide the order of dims, too.
    ([((2, 1, 2), (1, 2, 2)), ((2, 1, 2), (1, 4, 2))], (1, 2, 2)),
    ([((2, 1, 2), (1, 4, 2)), ((2, 1, 2), (1, 2, 2))], (1, 4, 2)),
    ([((4, 1, 2), (1, 24, 4)), ((1, 1, 2), (2, 6, 1))], (1, 8, 4)),
    ([((3, 1, 2, 1), (1, 6, 3, 2)), ((1, 2, 1), (6, 1, 2))], (1, 6, 3, 3)),
    ([((3, 1, 4), (1, 12, 3)), ((3, 1, 4), (8, 2, 1))], (1, 12, 3)),
    ([((1, 3), (1, 1)), ((1, 3), (3, 1))], (3, 1)),
    ([((2, 3, 1, 2), (12, 1, 6, 3)), ((2, 3, 1, 2), (12, 1, 9, 3))], (6, 1, 6, 3)),
])
def test_elementwise_results_have_torchs_strides(operands, stride):
    x, y = (torch.empty_strided(size, steps).fill_(1) for size, steps in operands)
    assert (x + y).stride() == stride and torch.where(x > 0, x, y).stride() == stride


@pytest.mark.parametrize("size,stride,found", [((1, 2), (1, 1), (0,)), ((1, 2), (3, 1), (1,)), ((2, 1, 2), (2, 5, 1), (1, 2))])
def test_strides_of_dims_of_size_one_do_not_matter_for_complex_pairs(size, stride, found):
    pairs = torch.arange(20.0).as_strided(size, stride)
    z = torch.view_as_complex(pairs)
    assert z.stride() == found and torch.equal(torch.view_as_real(z), pairs)


@pytest.mark.parametrize("size,stride", [((2, 2), (3, 1)), ((0, 2), (3, 1)), ((2, 0, 2), (3, 1, 1))])
def test_other_odd_strides_are_refused(size, stride):
    with pytest.raises(RuntimeError, match="Tensor must have a stride divisible by 2 for all but last dimension"):
        torch.view_as_complex(torch.arange(20.0).as_strided(size, stride))


def test_a_write_through_transposed_parts_of_a_complex_number_compiles():
    def f(x):
        torch.view_as_real(x).t().tril_()
        return x + 1
    compiled = torch.compile(f, fullgraph=True)
    for k in range(3):
        x, y = torch.tensor([k + 2j]), torch.tensor([k + 2j])
        assert torch.equal(compiled(x), f(y)) and torch.equal(x, y)


UNSAFE = {"unsafe_chunk": (lambda y: y.unsafe_chunk(3), lambda y: y.chunk(3)),
          "unsafe_chunk of columns": (lambda y: torch.unsafe_chunk(y, 2, 1), lambda y: torch.chunk(y, 2, 1)),
          "unsafe_split": (lambda y: y.unsafe_split(4), lambda y: y.split(4)),
          "unsafe_split_with_sizes": (lambda y: torch.unsafe_split_with_sizes(y, [2, 4]), lambda y: y.split([2, 4]))}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_pieces_share_memory_and_are_no_views(name):
    cut, safe = UNSAFE[name]
    y = torch.arange(12.).view(6, 2)
    pieces = cut(y)
    assert [(p.data_ptr(), p.shape, p.stride()) for p in pieces] == [(p.data_ptr(), p.shape, p.stride()) for p in safe(y)]
    assert not any(p._is_view() for p in pieces)
    pieces[0].zero_()
    assert [p._version for p in (y, *pieces)] == [0, 1] + [0] * (len(pieces) - 1)
    assert not safe(y)[0].any()


def change(pieces):
    first, *_, last = pieces
    return first.sigmoid_().sum() + (last.mul_(2) ** 2).sum()


def change_copies(pieces):
    return change([p.clone() for p in pieces])


@pytest.mark.parametrize("name", UNSAFE)
@pytest.mark.parametrize("way", [lambda f: f, torch.compile, lambda f: torch.jit.trace(f, torch.ones(6, 2))],
                         ids=["eager", "compiled", "traced"])
def test_unsafe_pieces_are_changed_in_place_with_gradients(name, way):
    cut, safe = UNSAFE[name]
    f = way(lambda x: change(cut(x * 2)))
    for _ in range(3):
        x = torch.randn(6, 2, requires_grad=True)
        f(x).backward()
        other = x.detach().requires_grad_()
        change_copies(safe(other * 2)).backward()
        assert torch.equal(x.grad, other.grad)


def test_unsafe_pieces_of_a_leaf_may_be_changed():
    """Their history, not the leaf, has the change."""
    x = torch.ones(4, requires_grad=True)
    first = x.unsafe_chunk(2)[0].mul_(3)
    assert x.is_leaf and x._version == 0 and first._version == 1
    first.sum().backward()
    assert x.grad.tolist() == [3, 3, 0, 0]
