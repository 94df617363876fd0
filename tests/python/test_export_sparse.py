"""torch.export of programs with sparse tensors, and fakes of sparse tensors."""
import io
import itertools

import cresset as torch
import pytest
from cresset import nn
from cresset._subclasses.fake_tensor import FakeTensor, FakeTensorMode

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

DENSE = torch.tensor([[0., 1., 0., 0.], [0., 0., 0., 2.], [0., 0., 1., 1.], [3., 0., 3., 0.]])


def batch(kind, values, size):
    """Four matrices of two rows or columns, of items or blocks, with three of these in each."""
    starts = torch.tensor([[[0, 2, 3], [0, 0, 3]], [[0, 3, 3], [0, 1, 3]]])
    others = torch.tensor([[[1, 3, 0], [0, 1, 2]], [[0, 2, 3], [1, 0, 2]]])
    return getattr(torch, f"sparse_{kind}_tensor")(starts, others, values, size)


LAYOUTS = {
    "coo": lambda: DENSE.to_sparse(),
    "uncoalesced": lambda: torch.sparse_coo_tensor([[2, 0, 2], [1, 3, 1]], [1., 2., 3.], (4, 4)),
    "hybrid": lambda: torch.sparse_coo_tensor([[2, 0, 3]], torch.arange(12.).view(3, 4), (4, 4)),
    "csr": lambda: DENSE.to_sparse_csr(),
    "csc": lambda: DENSE.to_sparse_csc(),
    "bsr": lambda: DENSE.to_sparse_bsr((2, 2)),
    "bsc": lambda: DENSE.to_sparse_bsc((2, 2)),
    "csr, batch": lambda: batch("csr", torch.arange(1., 13.).view(2, 2, 3), (2, 2, 2, 4)),
    "csc, batch": lambda: batch("csc", torch.arange(1., 13.).view(2, 2, 3), (2, 2, 4, 2)),
    "bsr, batch of hybrids": lambda: batch("bsr", torch.arange(1., 73.).view(2, 2, 3, 1, 2, 3), (2, 2, 2, 8, 3)),
    "bsc, batch": lambda: batch("bsc", torch.arange(1., 25.).view(2, 2, 3, 2, 1), (2, 2, 8, 2)),
}
CALLS = {
    "itself": lambda x: x,
    "pointwise": lambda x: torch.relu(2 * torch.abs(-x)),
    "times a tensor": lambda x: x * torch.full((4, 4), 3.),
    "divided": lambda x: x / 2,
    "power": lambda x: x ** 2,
    "sin": torch.sin,
    "sum": lambda x: x.sum(),
    "sum of a dim": lambda x: torch.sparse.sum(x, 0),
    "dense": lambda x: x.to_dense(),
    "sum with itself": lambda x: x + x,
    "difference": lambda x: x - 2 * x,
    "product with itself": lambda x: x * x,
    "to a dense one": lambda x: torch.ones(4, 4) + x,
    "matrix product": lambda x: x @ torch.ones(4, 3),
    "sparse product": lambda x: x @ x,
    "vector": lambda x: x @ torch.ones(4),
    "addmm": lambda x: torch.sparse.addmm(torch.ones(4, 2), x, torch.ones(4, 2)),
    "transposed": lambda x: x.t(),
    "double": lambda x: x.double(),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "coalesce": lambda x: x.coalesce(),
    "softmax": lambda x: torch.sparse.softmax(x, 1),
    "mask": lambda x: torch.full((4, 4), 2.).sparse_mask(x),
    "zeros": lambda x: torch.zeros_like(x),
    "selected": lambda x: x.select(0, 1),
    "by an index": lambda x: x.index_select(0, torch.tensor([2, 0])),
    "joined": lambda x: torch.cat([x, x], 1),
    "unsqueezed": lambda x: x.unsqueeze(0),
    "permuted": lambda x: x.permute(1, 0),
    "norm": lambda x: x.norm(),
    "sparse": lambda x: x.to_sparse(),
    "sparse rows": lambda x: x.to_sparse_csr(),
    "sparse columns": lambda x: x.to_sparse_csc(),
    "blocks": lambda x: x.to_sparse_bsr((2, 2)),
    "blocks by columns": lambda x: x.to_dense().to_sparse_bsc((2, 1)),
    "from dense": lambda x: (x.to_dense() + 1).to_sparse(),
}


class Calls(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *args):
        return self.call(*args)


def kind(x):
    """What does not depend on the number of items."""
    out = [x.layout, x.dtype, tuple(x.shape)]
    if x.layout == torch.sparse_coo:
        return [*out, x.sparse_dim(), x._indices().dtype, tuple(x._values().shape[1:])]
    if x.layout == torch.strided:
        return out
    by_rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    starts = x.crow_indices() if by_rows else x.ccol_indices()
    sizes = list(x.values().shape)
    sizes.pop(starts.dim() - 1)
    return [*out, starts.dtype, tuple(starts.shape), sizes]


def dense(x):
    return x if x.layout == torch.strided else x.to_dense()


def cases():
    """(layout, call) of all calls that run in eager mode."""
    found = []
    for layout, make in LAYOUTS.items():
        for name, call in CALLS.items():
            try:
                call(make())
            except (RuntimeError, NotImplementedError, TypeError, IndexError):
                continue
            found.append((layout, name))
    return found


def test_most_calls_run_in_eager_mode():
    assert len(cases()) > 200


@pytest.mark.parametrize("layout, name", cases())
def test_programs_give_what_calls_give(layout, name):
    x, call = LAYOUTS[layout](), CALLS[name]
    program, want = torch.export.export(Calls(call), (x,)), call(x)
    got = program.module()(x)
    assert kind(got) == kind(want) and torch.equal(dense(got), dense(want))
    placeholder = program.graph.find_nodes(op="placeholder")[-1].meta["val"]
    result = program.graph.output_node().args[0][0].meta["val"]
    for val, like in ((placeholder, x), (result, want)):
        assert isinstance(val, FakeTensor) and val.device == like.device and kind(val) == kind(like)


@pytest.mark.parametrize("layout, name", cases())
def test_fakes_are_as_results_outside_of_a_mode(layout, name):
    x, call = LAYOUTS[layout](), CALLS[name]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = mode.from_tensor(x)
    assert isinstance(fake, FakeTensor) and kind(fake) == kind(x)
    assert layout not in ("coo", "uncoalesced") or fake.is_coalesced() == x.is_coalesced()
    with mode:
        assert kind(call(fake)) == kind(call(x))


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if "batch" in layout])
def test_a_batch_is_its_matrices(layout):
    x = LAYOUTS[layout]()
    by_rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    parts = x.crow_indices() if by_rows else x.ccol_indices(), x.col_indices() if by_rows else x.row_indices(), x.values()
    assert x.sparse_dim() == 2 and x.dense_dim() == x.dim() - 4 and x._nnz() == 3
    for i, j in itertools.product(range(2), repeat=2):
        one = torch.sparse_compressed_tensor(*(p[i, j] for p in parts), x.shape[2:], layout=x.layout)
        assert torch.equal(x.to_dense()[i, j], one.to_dense())
        assert torch.equal((-2 * x).to_dense()[i, j], -2 * one.to_dense())
    assert x.sum() == x.to_dense().sum()
    least = torch.sparse_compressed_tensor(*parts, layout=x.layout)
    assert least.shape[:2] == (2, 2) and torch.equal(least.to_dense().sum(), x.to_dense().sum())
    for refused in (lambda: x + x, lambda: x * x, lambda: x @ torch.ones(2, 2, 4, 3), lambda: x.to_sparse(), lambda: x.transpose(0, 1)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            refused()


@pytest.mark.parametrize("part, message", [
    (0, "crow_indices and col_indices dimensionalities must be equal"), (1, "dimensionalities must be equal"),
    (2, "values must have dimensionality > sum of batch and block dimensionalities")])
def test_parts_of_batches_fit(part, message):
    x = LAYOUTS["csr, batch"]()
    parts = [x.crow_indices(), x.col_indices(), x.values()]
    parts[part] = parts[part][0] if part < 2 else parts[part][0, 0]
    with pytest.raises(RuntimeError, match=message):
        torch.sparse_csr_tensor(*parts, x.shape)
    parts[part] = torch.cat([parts[part]] * 3)[:3] if part < 2 else x.values()[:1]
    with pytest.raises(RuntimeError):
        torch.sparse_csr_tensor(*parts, x.shape)


def test_invariants_of_each_matrix_are_checked():
    x = LAYOUTS["csr, batch"]()
    starts = x.crow_indices().clone()
    starts[1, 1, 1] = 5
    with pytest.raises(RuntimeError, match="is not satisfied"):
        torch.sparse_csr_tensor(starts, x.col_indices(), x.values(), x.shape, check_invariants=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_meta_has_no_items(layout):
    x = LAYOUTS[layout]()
    meta = x.to("meta")
    assert meta._nnz() == 0 and kind(meta) == kind(x) and meta.device.type == "meta"


def test_arguments_of_equal_sizes_are_not_confused():
    x, y = LAYOUTS["coo"](), LAYOUTS["uncoalesced"]()
    program = torch.export.export(Calls(lambda x, y: x + 2 * y.coalesce()), (x, y))
    assert torch.equal(program.module()(y, x).to_dense(), (y + 2 * x).to_dense())


def test_coalescing_stays_in_the_program():
    """A program exported with a coalesced tensor takes others, too."""
    program = torch.export.export(Calls(lambda x: x.coalesce()), (LAYOUTS["coo"](),))
    assert program.module()(LAYOUTS["uncoalesced"]()).is_coalesced()


def test_gradients():
    x, w = LAYOUTS["csr"](), torch.ones(4, 2, requires_grad=True)
    torch.export.export(Calls(lambda x, w: x @ w), (x, w)).module()(x, w).sum().backward()
    assert torch.equal(w.grad, DENSE.t() @ torch.ones(4, 2))


@pytest.mark.parametrize("call", [lambda x: x.values(), lambda x: x.indices(), lambda x: x * x._nnz()])
def test_numbers_of_items_are_refused(call):
    with pytest.raises(RuntimeError, match="the number of a sparse tensor's items depends on its elements"):
        torch.export.export(Calls(call), (LAYOUTS["coo"](),))


def test_sizes_that_vary_are_refused():
    with pytest.raises(RuntimeError, match="a sparse tensor is used in a program with numbers that vary"):
        torch.export.export(Calls(lambda x, y: x @ y), (LAYOUTS["coo"](), torch.ones(4, 3)),
                            dynamic_shapes=(({}, {1: torch.export.Dim.DYNAMIC}),))


def saved(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return file


def test_files_have_coo_tensors():
    x = LAYOUTS["coo"]()
    loaded = torch.export.load(saved(torch.export.export(Calls(lambda x: torch.relu(-x)), (x,))))
    assert torch.equal(loaded.module()(x).to_dense(), torch.relu(-DENSE))
    assert loaded.graph.find_nodes(op="placeholder")[0].meta["val"].layout == torch.sparse_coo


def test_files_have_no_compressed_tensors():
    with pytest.raises(NotImplementedError, match="a tensor of the layout torch.sparse_csr has no form in the file"):
        saved(torch.export.export(Calls(lambda x: -x), (LAYOUTS["csr"](),)))


def test_decompositions():
    x = LAYOUTS["csr"]()
    program = torch.export.export(Calls(lambda x: torch.relu(x @ torch.ones(4, 3))), (x,)).run_decompositions()
    assert torch.equal(program.module()(x), DENSE @ torch.ones(4, 3))
