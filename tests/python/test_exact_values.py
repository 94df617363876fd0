"""Values at the edges of dtypes and sizes, and the memory that reductions need."""
import math

import cresset as torch
import numpy
import pytest

HALVES = {torch.float16: numpy.float16, torch.bfloat16: None}


def all_halves(dtype):
    return torch.arange(-2**15, 2**15).to(torch.int16).view(dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_nextafter_of_halves_goes_from_each_number_to_the_next(dtype):
    x = all_halves(dtype)
    finite = x[x.isfinite()]
    for target in (math.inf, -math.inf):
        there = torch.full_like(finite, target)
        y = torch.nextafter(finite, there)
        assert y.dtype == dtype and bool((y > finite).all() if target > 0 else (y < finite).all())
        between = (finite.double() + y.double()) / 2  # no number is between the two
        inside = y.isfinite()
        rounded = between[inside].to(dtype)
        assert bool(((rounded == finite[inside]) | (rounded == y[inside])).all())
    if HALVES[dtype]:
        for target in (math.inf, -math.inf, 0.0, math.nan):
            want = numpy.nextafter(x.numpy(), HALVES[dtype](target))
            got = torch.nextafter(x, torch.full_like(x, target))
            assert got.isnan().eq(torch.from_numpy(numpy.isnan(want))).all()
            number = ~got.isnan() & (x != target)
            assert got[number].view(torch.int16).tolist() == want[number.numpy()].view(numpy.int16).tolist()


def test_nextafter_of_halves_broadcasts_in_place_and_has_a_gradient():
    x = torch.tensor([[1.0], [-0.0]], dtype=torch.float16, requires_grad=True)
    y = torch.nextafter(x, torch.tensor([2.0, -2.0], dtype=torch.float16))
    y.sum().backward()
    assert y.tolist() == [[1.0009765625, 0.99951171875], [2**-24, -2**-24]] and x.grad.tolist() == [[2.0], [2.0]]
    z = torch.ones(2, dtype=torch.bfloat16)
    assert z.nextafter_(torch.zeros(2, dtype=torch.bfloat16)).tolist() == [0.99609375] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_frexp_of_numbers_of_every_size(dtype):
    tiny = {torch.float16: -24, torch.bfloat16: -133, torch.float32: -149, torch.float64: -1074}[dtype]
    most = {torch.float16: 16, torch.bfloat16: 128, torch.float32: 128, torch.float64: 1024}[dtype]
    numbers = [math.ldexp(m, e) for e in range(tiny, most) for m in (1.0, -1.0)]
    numbers += [math.ldexp(1.5, e) for e in range(tiny + 1, most)] + [0.0, -0.0]
    x = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    mantissa, exponent = torch.frexp(x)
    assert exponent.dtype == torch.int32
    assert list(zip(mantissa.tolist(), exponent.tolist())) == [math.frexp(v) for v in x.tolist()]


def test_more_pieces_than_a_list_has():
    empty = torch.ones(0).view(2**40, 0)
    for call in (lambda: empty.unbind(0), lambda: empty.split(1), lambda: empty.tensor_split(2**40), lambda: empty.chunk(2**40)):
        with pytest.raises(RuntimeError, match="memory"):
            call()
    assert len(torch.ones(0).view(5, 0).unbind(0)) == 5


def test_logsumexp_over_no_elements():
    assert torch.logsumexp(torch.zeros(3, 0), 1).tolist() == [-math.inf] * 3
    assert torch.logsumexp(torch.zeros(0), 0).item() == -math.inf
    assert torch.logsumexp(torch.zeros(2, 0, 3), (1,), True).tolist() == [[[-math.inf] * 3]] * 2
    assert torch.logsumexp(torch.zeros(0, 3), 1).shape == (0,)
    x = torch.zeros(3, 0, requires_grad=True)
    torch.logsumexp(x, 1).sum().backward()
    assert x.grad.shape == (3, 0)


def peak_of(call):
    """Returns the result and the most bytes in use during the call, beyond those before it."""
    torch._C._reset_peak_memory()
    before = torch._C._memory_stats()["used"]
    result = call()
    return result, torch._C._memory_stats()["peak"] - before


SHAPES = [((2**22,), None), ((2**11, 2**11), 0), ((2**11, 2**11), 1), ((2**7, 2**8, 2**7), (0, 2))]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("shape,dim", SHAPES)
def test_sums_of_small_integers_need_no_copy(shape, dim, dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)
    for y in (x, x.transpose(0, -1), x[..., ::2], x[1:]):
        got, most = peak_of(lambda: y.sum() if dim is None else y.sum(dim))
        assert got.dtype == torch.int64 and got.numpy().tolist() == y.numpy().sum(dim, dtype=numpy.int64).tolist()
        assert most < 2**20
    assert x.prod().item() == int(x.numpy().prod(dtype=numpy.int64))
    assert x.count_nonzero().item() == int((x.numpy() != 0).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool], ids=str)
def test_sums_of_expanded_tensors_need_no_copy(dtype):
    one = torch.tensor([[2.0], [1.0]]).to(dtype)
    for y, dim in ((one.expand(2, 2**22), 1), (one[1].expand(2**22), 0), (one.t().expand(2**22, 2), 0)):
        got, most = peak_of(lambda: y.sum(dim))
        assert most < 2**20 and got.tolist() == y.contiguous().sum(dim).tolist()
