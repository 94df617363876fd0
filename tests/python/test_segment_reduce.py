"""segment_reduce: every run of positions along an axis beside the same reduction of its elements."""
import pytest

import cresset as torch

EMPTY = {"sum": 0.0, "mean": float("nan"), "max": float("-inf"), "min": float("inf"), "prod": 1.0}
LENGTHS = torch.tensor([[2, 0, 3], [1, 4, 0]])


def reduced(x, how, initial):
    """The reduction of a run [n, ...] and the initial value."""
    if initial is not None:
        first = torch.full_like(x[:1] if len(x) else torch.zeros(1, *x.shape[1:]), initial)
        if how == "mean":
            return first[0] if not len(x) else (x.sum(0) + initial) / len(x)
        x = torch.cat([first, x])
    if not len(x):
        return torch.full(x.shape[1:], EMPTY[how])
    return {"sum": x.sum, "mean": x.mean, "max": x.amax, "min": x.amin, "prod": x.prod}[how](0)


def by_runs(x, how, lengths, initial=None):
    """[o, n, ...] and lengths [o, s] -> [o, s, ...]"""
    return torch.stack([torch.stack([reduced(run, how, initial) for run in row.split(n.tolist())]) for row, n in zip(x, lengths)])


def offsets_of(lengths):
    return torch.cat([torch.zeros_like(lengths[..., :1]), lengths.cumsum(-1)], -1)


@pytest.mark.parametrize("how", EMPTY)
@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("index", ["lengths", "offsets"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_runs_are_reduced(how, initial, index, dtype):
    torch.manual_seed(1)
    x = torch.randn(2, 5, 3)
    given = {index: (LENGTHS if index == "lengths" else offsets_of(LENGTHS)).to(dtype)}
    want = by_runs(x, how, LENGTHS, initial)
    assert torch.allclose(torch.segment_reduce(x, how, axis=1, initial=initial, **given), want, equal_nan=True)
    assert torch.allclose(torch.segment_reduce(x, how, axis=-2, initial=initial, **given), want, equal_nan=True)
    turned = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.allclose(torch.segment_reduce(turned, how, axis=1, initial=initial, **given), want, equal_nan=True)
    first = {index: given[index][0]}
    assert torch.allclose(torch._segment_reduce(x[0], how, initial=initial, **first), want[0], equal_nan=True)


@pytest.mark.parametrize("how", EMPTY)
@pytest.mark.parametrize("initial", [None, 2.0])
def test_gradients_of_ties_zeros_and_nan(how, initial):
    """The extremes' gradients are shared by equal elements; a product's are products of the other elements."""
    nan = float("nan")
    for values in ([1.0, 2.0, 2.0, 0.0, 0.0, 5.0], [3.0, 0.5, 2.0, 0.0, 3.0, 4.0], [1.0, nan, 2.0, 3.0, 4.0, 1.0]):
        x = torch.tensor(values, requires_grad=True)
        y = torch.segment_reduce(x, how, lengths=torch.tensor([3, 0, 3]), initial=initial)
        got, = torch.autograd.grad(y, x, torch.tensor([1.0, 10.0, 100.0]))
        want = []
        for run, g in ((values[:3], 1.0), (values[3:], 100.0)):
            best = {"max": max, "min": min}.get(how, max)(run + ([] if initial is None else [initial]))
            hits = [v == best and not any(map(torch.isnan, map(torch.tensor, run))) or v != v for v in run]
            for k, v in enumerate(run):
                others = torch.tensor(run[:k] + run[k + 1:]).prod().item() * (1.0 if initial is None else initial)
                want.append({"sum": g, "mean": g / 3, "prod": g * others}.get(how, g * hits[k] / max(sum(hits), 1)))
        assert torch.allclose(got, torch.tensor(want), equal_nan=True), values
        assert y.grad_fn.name() == "SegmentReduceBackward0"


def test_positions_outside_of_segments_have_no_part():
    x = torch.tensor([float("nan"), 1.0, 2.0, 4.0, float("nan")], requires_grad=True)
    y = torch.segment_reduce(x, "prod", offsets=torch.tensor([1, 3, 4]))
    y.sum().backward()
    assert y.tolist() == [2.0, 4.0] and x.grad.tolist() == [0.0, 2.0, 1.0, 1.0, 0.0]
    assert torch.segment_reduce(torch.ones(4), "sum", lengths=torch.tensor([1, 2]), unsafe=True).tolist() == [1.0, 2.0]


def test_compiled_and_without_elements():
    lengths = torch.tensor([2, 0, 4])
    call = torch.compile(lambda x: torch.segment_reduce(x * 2, "max", lengths=lengths).sum())
    a, b = (torch.arange(12.0).reshape(6, 2).requires_grad_() for _ in range(2))
    call(a).backward()
    torch.segment_reduce(b * 2, "max", lengths=lengths).sum().backward()
    assert torch.equal(a.grad, b.grad)
    assert torch.segment_reduce(torch.rand(0), "sum", lengths=torch.tensor([0, 0])).tolist() == [0.0, 0.0]
    assert torch.segment_reduce(torch.rand(2, 0), "mean", lengths=torch.tensor([1, 1])).shape == (2, 0)
    made = torch.segment_reduce(torch.rand(6, 2, device="meta"), "sum", lengths=torch.tensor([2, 4], device="meta"))
    assert made.shape == (2, 2) and made.device.type == "meta"


L = torch.tensor
PLEASE = "  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"


@pytest.mark.parametrize("how,given,cls,text", [
    ("sum", {}, RuntimeError, "segment_reduce(): Either lengths or offsets must be defined."),
    ("sum", {"indices": L([0, 1])}, RuntimeError, "segment_reduce(): indices based reduction is not supported yet."),
    ("product", {"lengths": L([6])}, RuntimeError, "reduce argument must be either sum, prod, mean, amax or amin, got product"),
    ("sum", {"lengths": L([2, 3])}, RuntimeError,
     "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."),
    ("sum", {"lengths": L([2, -1, 5])}, RuntimeError, "lengths contains negative value!"),
    ("sum", {"lengths": L([7]), "unsafe": True}, RuntimeError, "segment_reduce(): Expected segments to be within data"),
    ("sum", {"lengths": L([2, -1]), "unsafe": True}, RuntimeError, "Expected segment_length >= 0 to be true, but got false." + PLEASE),
    ("sum", {"offsets": L([0, 2, 1, 6])}, RuntimeError, "Expected segment_length >= 0 to be true, but got false." + PLEASE),
    ("sum", {"offsets": L([0, 2, 7])}, RuntimeError, "segment_reduce(): Expected segments to be within data"),
    ("sum", {"offsets": L([-1, 2, 6])}, RuntimeError, "segment_reduce(): Expected segments to be within data"),
    ("sum", {"offsets": L([], dtype=torch.int64)}, RuntimeError, "Trying to create tensor with negative dimension -1: [-1, 2]"),
    ("sum", {"lengths": L([2, 4]), "axis": 1}, RuntimeError, "segment_reduce(): Expected axis to be the last dimension of lengths but got 1."),
    ("sum", {"lengths": L(2)}, RuntimeError, "segment_reduce(): Expected axis to be the last dimension of lengths but got 0."),
    ("sum", {"lengths": L([2, 4]), "axis": 5}, IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    ("sum", {"lengths": L([[1, 1]]), "axis": 1}, RuntimeError,
     "segment_reduce(): Expected lengths of sizes [1, 2] to have the sizes of data before axis 1, but data has [6, 2]"),
    ("sum", {"offsets": L([0.0, 6.0])}, NotImplementedError, "\"_segment_reduce_offsets_cpu_kernel1\" not implemented for 'Float'"),
])
def test_wrong_arguments_are_refused(how, given, cls, text):
    with pytest.raises(cls) as raised:
        torch.segment_reduce(torch.arange(12.0).reshape(6, 2), how, **given)
    assert str(raised.value) == text


def test_integers_are_refused():
    with pytest.raises(NotImplementedError, match="\"_segment_reduce_cpu\" not implemented for 'Int'"):
        torch.segment_reduce(torch.ones(4, dtype=torch.int32), "sum", lengths=L([4]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.float32, torch.uint16], ids=str)
def test_places_of_another_dtype(dtype):
    """Statements read int32 and int64 places only."""
    places = torch.zeros(2, 4).to(dtype)
    with pytest.raises(RuntimeError, match="expected places to be Long or Int"):
        torch.ops.aten._segment_rows(torch.zeros(2, 4), places)
    with pytest.raises(RuntimeError, match="expected places to be Long or Int"):
        torch.ops.aten._segment_fold(torch.zeros(2, 4), places, torch.zeros(2, 4), "sum")


@pytest.mark.parametrize("reduce", ["amax", "amin", "max", "min"])
def test_complex_numbers_have_no_order(reduce):
    rows = torch.zeros(2, 3, dtype=torch.complex64)
    with pytest.raises(NotImplementedError, match="\"_segment_reduce_cpu\" not implemented for 'ComplexFloat'"):
        torch.ops.aten._segment_fold(rows, torch.tensor([0, 1]), rows, reduce)
