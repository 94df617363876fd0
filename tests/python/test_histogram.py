"""histogram() and histogramdd() compared with a count in Python."""
import bisect

import pytest

import cresset as torch


def bin_of(edges, x):
    if not edges[0] <= x <= edges[-1]:
        return None
    return min(bisect.bisect_right(edges, x), len(edges) - 1) - 1


def count(points, edges, weights):
    """Returns {cell: weight}."""
    cells = {}
    for point, weight in zip(points, weights):
        cell = tuple(bin_of(e, x) for e, x in zip(edges, point))
        if None not in cell:
            cells[cell] = cells.get(cell, 0.0) + weight
    return cells


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_counted_by_cells_of_given_edges(dtype, weighted):
    torch.manual_seed(3)
    points = torch.randn(200, 2, dtype=dtype)
    edges = [torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype=dtype), torch.tensor([-2.0, 0.0, 2.0], dtype=dtype)]
    weights = torch.randint(1, 5, (200,)).to(dtype) if weighted else torch.ones(200, dtype=dtype)
    hist, given = torch.histogramdd(points, bins=edges, weight=weights if weighted else None)
    cells = count(points.tolist(), [e.tolist() for e in edges], weights.tolist())
    assert hist.shape == (3, 2) and hist.dtype == dtype
    assert hist.tolist() == [[cells.get((i, j), 0.0) for j in range(2)] for i in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(given, edges))
    density = torch.histogramdd(points, bins=edges, weight=weights if weighted else None, density=True).hist
    volume = torch.outer(edges[0].diff(), edges[1].diff())
    assert torch.allclose(density * volume, hist / hist.sum())


def test_a_line_is_counted_by_equal_bins():
    x = torch.tensor([0.0, 0.1, 0.4, 0.5, 0.9, 1.0, 1.5])
    hist, edges = torch.histogram(x, bins=4, range=(0.0, 1.0))
    assert hist.tolist() == [2.0, 1.0, 1.0, 2.0] and edges.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert torch.equal(torch.histogram(x, edges).hist, hist)


@pytest.mark.parametrize("points,bins,cls,text", [
    ((3, 2), [torch.arange(3), torch.arange(3)], RuntimeError,
     "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype float and "
     "bins for dimension 0 with dtype long int"),
    ((3, 2), [torch.arange(3.0), torch.arange(3.0, dtype=torch.float64)], RuntimeError,
     "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype float and "
     "bins for dimension 1 with dtype double"),
    ((3, 2), [torch.arange(3.0)], RuntimeError,
     "torch.histogramdd: expected 2 sequences of bin edges for a 2-dimensional histogram but got 1"),
    ((3,), [torch.arange(3.0)], RuntimeError,
     "torch.histogramdd: input tensor should have at least 2 dimensions")])
def test_wrong_arguments_are_refused(points, bins, cls, text):
    with pytest.raises(cls) as raised:
        torch.histogramdd(torch.rand(points), bins=bins)
    assert str(raised.value) == text


@pytest.mark.parametrize("bins,weight,text", [
    ([torch.rand(3), torch.rand(2, 2)], None, "torch.histogramdd: bins tensor should have one dimension, but got 2 dimensions "
                                              "in the bins tensor for dimension 1"),
    ([torch.rand(3), torch.rand(())], None, "torch.histogramdd: bins tensor should have one dimension, but got 0 dimensions "
                                            "in the bins tensor for dimension 1"),
    ([torch.rand(0), torch.rand(3)], None, "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements "
                                           "in the bins tensor for dimension 0"),
    ([torch.rand(3), torch.rand(1)], None, "torch.histogram(): bins must be > 0, but got 0 for dimension 1"),
    ([torch.rand(3), torch.rand(3)], torch.rand(5), "torch.histogramdd: if weight tensor is provided it should have the same "
     "shape as the input tensor excluding its innermost dimension, but got input with shape [4, 2] and weight with shape [5]"),
    ([torch.rand(3), torch.rand(3)], torch.rand(4).double(), "torch.histogramdd: if weight tensor is provided, input tensor and "
     "weight tensor should have the same dtype, but got input(float), and weight(double)")])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_wrong_edges_and_weights_are_refused_by_sizes_alone(bins, weight, text, device):
    with pytest.raises(RuntimeError) as raised:
        torch.histogramdd(torch.rand(4, 2, device=device), [b.to(device) for b in bins],
                          weight=None if weight is None else weight.to(device))
    assert str(raised.value) == text


@pytest.mark.parametrize("bins,name", [(3, "histogramdd"), ([2, 2], "histogramdd"),
                                       ([torch.arange(3), torch.arange(3)], "histogram_cpu")])
def test_integers_are_refused(bins, name):
    with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for \'Long\''):
        torch.histogramdd(torch.arange(6).reshape(3, 2), bins=bins)
