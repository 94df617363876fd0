"""Sparse tensors: recorded results of torch (sparse_cases.py), and properties beside them.

sparse_differing.txt lists the cases that differ, one `case -- reason` a line.
"""
import itertools
import json
import pathlib
import pickle

import cresset as torch
import numpy as np
import pytest
import sparse_cases

HERE = pathlib.Path(__file__).parent
EXPECTED = json.loads((HERE / "sparse_expected.json").read_text())
DIFFERING = dict(line.rsplit(" -- ", 1)
                 for line in (HERE / "sparse_differing.txt").read_text().splitlines() if line)


@pytest.mark.parametrize("case", sparse_cases.CASES)
def test_case(case):
    got, want = sparse_cases.run("cresset", case), EXPECTED[case]
    if case in DIFFERING:
        assert got != want, "agrees now: take it out of sparse_differing.txt"
    else:
        assert got == want


def test_every_case_is_recorded_and_differences_are_cases():
    assert list(EXPECTED) == sparse_cases.CASES
    assert set(DIFFERING) <= set(sparse_cases.CASES)


def random_coo(rows, columns, n, dtype=torch.float64, seed=0):
    """n items at random places, some of them at the same place."""
    torch.manual_seed(seed)
    indices = torch.stack([torch.randint(rows, (n,)), torch.randint(columns, (n,))])
    values = torch.randn(n, dtype=dtype) if dtype.is_floating_point or dtype.is_complex else \
        torch.randint(-5, 5, (n,), dtype=dtype)
    return torch.sparse_coo_tensor(indices, values, (rows, columns))


def close(got, want, **tolerance):
    """Whether two tensors have close elements; raises with the difference if not."""
    torch.testing.assert_close(got, want, **tolerance)
    return True


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64,
          torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_and_sums_of_all_dtypes_are_those_of_dense_tensors(dtype):
    a, b = random_coo(30, 20, 200, dtype), random_coo(20, 25, 150, dtype, 1)
    dense = b.to_dense()
    for got, want in [(a @ dense, a.to_dense() @ dense),
                      (dense.t() @ a.t(), dense.t() @ a.to_dense().t()),
                      ((a + a).to_dense(), a.to_dense() + a.to_dense()),
                      (a.coalesce().to_dense(), a.to_dense()),
                      ((a * a.coalesce()).to_dense(), a.to_dense() * a.to_dense()),
                      (a.to_sparse_csr() @ dense, a.to_dense() @ dense),
                      (a.to_sparse_csc().to_dense(), a.to_dense()),
                      (torch.sparse.mm(a, b).to_dense(), a.to_dense() @ dense)]:
        loose = dtype in (torch.float16, torch.bfloat16)
        assert close(got, want, rtol=2e-2 if loose else 1e-4, atol=0.2 if loose else 1e-4)


@pytest.mark.parametrize("function", [
    lambda s, d: s.to_dense().sin(), lambda s, d: (s * 3).to_dense(), lambda s, d: d + s,
    lambda s, d: torch.sparse.mm(s, d.t()), lambda s, d: s @ d.t(), lambda s, d: d.t() @ s,
    lambda s, d: (s + s * 2).to_dense(), lambda s, d: (s * d).to_dense(),
    lambda s, d: s.t().to_dense() ** 2, lambda s, d: torch.sparse.softmax(s, 1).to_dense(),
    lambda s, d: torch.sparse.log_softmax(s, 0).to_dense(), lambda s, d: torch.sparse.sum(s, 1).to_dense(),
    lambda s, d: s.coalesce().values().exp(), lambda s, d: s.sin().to_dense(), lambda s, d: s.sum(),
    lambda s, d: torch.cat([s, s], 1).to_dense() ** 2, lambda s, d: s.select(0, 1).to_dense(),
    lambda s, d: s.index_select(0, torch.tensor([2, 0, 2])).to_dense() ** 2,
    lambda s, d: s.unsqueeze(1).to_dense() ** 2, lambda s, d: s.permute(1, 0).to_dense() ** 2,
    lambda s, d: s.to_sparse_csr().to_dense() ** 2, lambda s, d: s.narrow_copy(1, 1, 3).to_dense(),
    lambda s, d: torch.sparse.mm(s, s.t()).to_dense(), lambda s, d: s.norm(), lambda s, d: s.abs().to_dense(),
    lambda s, d: torch.sparse.addmm(d @ d.t(), s, d.t(), beta=2, alpha=3)])
def test_gradients_of_values_and_dense_operands(function):
    s = random_coo(4, 5, 9).coalesce()
    values = s.values().clone().requires_grad_()
    dense = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    make = lambda v: torch.sparse_coo_tensor(s.indices(), v, s.shape, is_coalesced=True)
    assert torch.autograd.gradcheck(lambda v, d: function(make(v), d), (values, dense))


def test_an_operator_without_a_sparse_form_is_refused():
    s = random_coo(3, 4, 5)
    for name in ("exp", "cumsum", "sort", "argmax", "triu", "softmax", "log", "tril"):
        op = getattr(s, name)
        with pytest.raises(NotImplementedError, match="^Could not run 'aten::.*'SparseCPU' backend"):
            op(0) if name in ("cumsum", "softmax") else op()


@pytest.mark.parametrize("make", [
    lambda: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1., 2.], (2, 2)),
    lambda: torch.sparse_csr_tensor(torch.tensor([[0, 1, 2]] * 2), torch.tensor([[0, 1]] * 2), torch.ones(2, 2), (2, 2, 2)),
    lambda: torch.sparse_bsc_tensor(torch.tensor([[0, 1, 2]] * 2), torch.tensor([[0, 1]] * 2), torch.ones(2, 2, 1, 2), (2, 2, 4)),
], ids=["coo", "batch", "batch of blocks"])
def test_every_entry_refuses_or_takes_a_sparse_tensor(make):
    """No entry reads the bytes that a sparse tensor does not have, or the parts of a strided one."""
    for name in sorted(dir(torch._C.ops)):
        d, s = torch.ones(2, 2), make()
        for args in ((s,), (s, s), (s, 1), (s, s, s), (s, 0, s), ([s, s],), (d, s), (d,), (d, d),
                     (d, d, d), (d, 0), (d, [2, 2]), (d, [2], 1, False), (d, d, 0, False), (d, 1, s)):
            try:
                getattr(torch._C.ops, name)(*args)
            except Exception as e:
                assert not isinstance(e, SystemError), name


def test_in_place_forms_change_the_tensor_and_its_aliases():
    s = torch.sparse_coo_tensor([[0, 1]], [1., 2.], (3,))
    alias = s.detach()
    before = s._version
    s.mul_(2)
    assert alias._values().tolist() == [2., 4.] and s._version > before
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.sparse_coo_tensor([[0]], [1], (3,)).div_(2)


def test_a_dense_tensor_takes_sparse_updates_of_any_strides():
    s = random_coo(4, 6, 10)
    for dense in (torch.zeros(4, 6, dtype=torch.float64), torch.zeros(6, 4, dtype=torch.float64).t()):
        dense.add_(s, alpha=3)
        assert close(dense, s.to_dense() * 3)
    with pytest.raises((RuntimeError, IndexError)):
        torch.zeros(2).add_(torch.sparse_coo_tensor([[5]], [1.], (2,)))


def test_indices_out_of_range_are_refused_when_they_are_used():
    s = torch.sparse_coo_tensor([[0, 5], [1, 1]], [1., 2.], (2, 2))
    for use in (lambda: s.to_dense(), lambda: s @ torch.ones(2, 2), lambda: torch.ones(2, 2) + s,
                lambda: torch.ones(2, 2).sparse_mask(s)):
        with pytest.raises((RuntimeError, IndexError)):
            use()


def train(optimizer, sparse):
    torch.manual_seed(0)
    table = torch.nn.Embedding(10, 4, sparse=sparse)
    optimizer = optimizer(table.parameters())
    for step in range(5):
        optimizer.zero_grad()
        table(torch.tensor([1, 3, 3, 7])).pow(2).sum().backward()
        optimizer.step()
    return table.weight.detach()


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.Adagrad(p, 0.1),
                                  lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)], ids=["sgd", "adagrad", "momentum"])
def test_optimizers_do_the_same_with_sparse_gradients(make):
    assert close(train(make, True), train(make, False))


def test_sparse_adam_updates_the_rows_of_the_gradient_as_adam_does():
    lazy = train(lambda p: torch.optim.SparseAdam(p, 0.1), True)
    assert close(lazy, train(lambda p: torch.optim.Adam(p, 0.1), False))


def test_optimizers_without_a_sparse_form_say_so():
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        train(torch.optim.Adam, True)


def test_compiled_functions_with_sparse_tensors_run_eagerly():
    s = random_coo(3, 3, 4)
    double = torch.compile(lambda x: (x * 2).to_dense())
    assert close(double(s), s.to_dense() * 2)
    back = torch.compile(lambda x: (x.to_sparse() * 2).to_dense())
    assert close(back(torch.eye(3)), torch.eye(3) * 2)


def test_invariants_are_checked_on_request():
    make = lambda: torch.sparse_coo_tensor([[5]], [1.], (2,))
    make()
    with torch.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="found index 5"):
        make()
    make()


def test_a_conversion_to_the_same_layout_keeps_the_layout_of_the_gradient():
    x = random_coo(4, 6, 9).requires_grad_()
    (x.to_sparse(2).to_dense() * torch.arange(24).reshape(4, 6)).sum().backward()
    assert x.grad.layout == torch.sparse_coo and x.grad.is_coalesced()
    assert x.grad._indices().equal(x.detach().coalesce().indices())
    assert x.grad._values().equal(torch.tensor([6. * i + j for i, j in x.grad._indices().t().tolist()], dtype=x.dtype))


@pytest.mark.parametrize("alpha", [1, 3])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.complex64])
def test_a_compressed_and_a_strided_tensor_are_added_in_the_dtype_of_the_scaled_one(dtype, alpha):
    x = random_coo(4, 6, 9, torch.int64).to_dense().to(dtype)
    dense = torch.ones(4, 6, dtype=dtype)
    got = torch.add(x.to_sparse_csr(), dense, alpha=alpha)
    assert got.layout == torch.strided and close(got, x + dense * alpha if alpha != 1 else x + dense)


def test_parts_of_a_sparse_layout_are_refused():
    """By every entry that has parts as parameters, for each part, layout and check."""
    good = {"indices": torch.zeros(2, 1, dtype=torch.int64), "compressed_indices": torch.tensor([0, 1]),
            "plain_indices": torch.tensor([0]), "values": torch.ones(1), "size": (1, 1),
            "self": torch.eye(1).to_sparse()}
    made = 0
    for record in torch._C._records():
        names = [p["name"] for p in record["params"]]
        if record["file"] != "sparse.op" or "values" not in names or \
                not set(names) & {"indices", "compressed_indices", "self"}:
            continue
        layouts = (torch.sparse_csr, torch.sparse_csc) if "layout" in names else (None,)
        for layout, check in itertools.product(layouts, (False, True)):
            known = {**good, "layout": layout, "check": check}
            given = {name: known[name] for name in names if name in known}
            call = lambda **changed: getattr(torch._C.ops, record["name"])(**{**given, **changed})
            call()
            for part in set(names) & {"indices", "compressed_indices", "plain_indices", "values"}:
                for bad in (given[part].to_sparse(), torch.eye(1).to_sparse_csr(), torch.eye(1).to_sparse_csc()):
                    with pytest.raises(RuntimeError, match=r"^expected \w+ to be a (dense|strided) tensor,? but got"):
                        call(**{part: bad})
                    made += 1
    assert made >= 60


@pytest.mark.parametrize("make, lines", [(torch.sparse_csr_tensor, 0), (torch.sparse_csc_tensor, 1)])
def test_sizes_that_compressed_parts_do_not_fit_are_refused(make, lines):
    """Also without checks of invariants, because later calls rely on the sizes."""
    compressed, plain, values = torch.tensor([0, 1, 2]), torch.tensor([0, 0]), torch.ones(2, 2)
    for check in (False, True):
        assert make(compressed, plain, values, (2, 2, 2), check_invariants=check).shape == (2, 2, 2)
        for n in (0, 1, 3, 2**63 - 1):
            size = [2, 0, 2]
            size[lines], size[1 - lines] = n, 0
            with pytest.raises(RuntimeError, match=r"must be equal to the number of \w+ \+ 1"):
                make(compressed, plain, values, size, check_invariants=check)
        with pytest.raises(RuntimeError, match=r"^values has incorrect size, expected \[2, 5\], got \[2, 2\]"):
            make(compressed, plain, values, (2, 2, 5), check_invariants=check)
        with pytest.raises(RuntimeError, match=r"must be equal to nnz \(=1\) as defined by values.shape\[0\], but got 2"):
            make(compressed, plain, values[:1], (2, 2, 2), check_invariants=check)


BLOCKED = [(torch.sparse_bsr, "to_sparse_bsr"), (torch.sparse_bsc, "to_sparse_bsc")]


@pytest.mark.parametrize("layout, convert", BLOCKED, ids=["bsr", "bsc"])
@pytest.mark.parametrize("block", [(1, 1), (2, 2), (3, 2), (2, 4), (6, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64], ids=str)
def test_tensors_of_blocks_compute_as_dense_ones(layout, convert, block, dtype):
    coo = random_coo(6, 8, 7).coalesce()
    dense = coo.to_dense() if dtype.is_complex or dtype.is_floating_point else coo.to_dense() * 3
    dense, b = dense.to(dtype), torch.arange(16).reshape(8, 2).to(dtype)
    blocks = dense.reshape(6 // block[0], block[0], 8 // block[1], block[1]).permute(0, 2, 1, 3)
    kept = (blocks != 0).flatten(2).any(2)
    made = getattr(dense, convert)(block)
    order = kept.nonzero() if layout == torch.sparse_bsr else kept.t().nonzero().flip(1)
    assert (made.layout, made.shape, made.dtype, made._nnz()) == (layout, dense.shape, dtype, int(kept.sum()))
    assert torch.equal(made.values(), blocks[order[:, 0], order[:, 1]])
    for source in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), made):
        assert torch.equal(getattr(source, convert)(block).values(), made.values())
    parts = ("crow_indices", "col_indices") if layout == torch.sparse_bsr else ("ccol_indices", "row_indices")
    compressed, plain = (getattr(made, name)() for name in parts)
    again = torch.sparse_compressed_tensor(compressed, plain, made.values(), dense.shape, layout=layout, check_invariants=True)
    other = made.t()
    assert other.layout != layout and torch.equal(other.to_dense(), dense.t())
    for got, want in [(made.to_dense(), dense), (again.to_dense(), dense), (made.to_sparse().to_dense(), dense),
                      ((made + made).to_dense(), dense + dense), ((dense + made), dense + dense), ((made * made).to_dense(), dense * dense),
                      ((made * dense).to_dense(), dense * dense), (dense.sparse_mask(made).to_dense(), dense),
                      (made.clone().zero_().to_dense(), torch.zeros_like(dense)), (torch.zeros_like(made).to_dense(), torch.zeros_like(dense)),
                      ((dense.to_sparse() * made).to_dense(), dense * dense), ((dense.to_sparse() + made).to_dense(), dense + dense),
                      (made.to(torch.complex128).to_dense(), dense.to(torch.complex128)), (pickle.loads(pickle.dumps(made)).to_dense(), dense)]:
        assert got.dtype == want.dtype and torch.equal(got, want)
    if dtype is not torch.bool:
        for got, want in [(made @ b, dense @ b), (b.t() @ other, b.t() @ dense.t()), (made @ b[:, 0], dense @ b[:, 0]),
                          ((made * 2).to_dense(), dense * 2), ((-other).to_dense(), -dense.t()), (made.sum(), dense.sum()),
                          (torch.addmm(b[:6], made, b), torch.addmm(b[:6], dense, b)), ((made @ dense.t().to_sparse()).to_dense(), dense @ dense.t())]:
            assert close(got, want)


@pytest.mark.parametrize("layout, convert", BLOCKED, ids=["bsr", "bsc"])
def test_gradients_pass_through_tensors_of_blocks(layout, convert):
    x, w = (torch.randn(4, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    kept = torch.tensor([[1., 0, 1], [0, 1, 0]], dtype=torch.float64).repeat_interleave(2, 0).repeat_interleave(2, 1)
    (getattr(x * kept, convert)((2, 2)).to_dense() ** 2).sum().backward()
    assert close(x.grad, 2 * x.detach() * kept)
    sparse = getattr(kept, convert)((2, 2))
    (sparse @ w.t()).square().sum().backward()
    assert close(w.grad, 2 * (w @ kept.t() @ kept))
    values = sparse.values().clone().requires_grad_()
    parts = (sparse.crow_indices(), sparse.col_indices()) if layout == torch.sparse_bsr else (sparse.ccol_indices(), sparse.row_indices())
    torch.sparse_compressed_tensor(*parts, values, (4, 6), layout=layout).to_dense().mul(3).sum().backward()
    assert values.grad.tolist() == torch.full_like(values, 3).tolist()


def test_a_dense_dim_of_blocks():
    x = torch.arange(24.).reshape(2, 4, 3)
    made = x.to_sparse_bsr((1, 2), dense_dim=1)
    assert (made.dense_dim(), made.values().shape, made.shape) == (1, (4, 1, 2, 3), x.shape)
    assert torch.equal(made.to_dense(), x) and torch.equal(torch.zeros(2, 0, 3).to_sparse_bsr((2, 2), dense_dim=1).to_dense(), x[:, :0])


@pytest.mark.parametrize("call, text", [
    (lambda a: a.to_sparse_bsr((3, 3)), r"dense_to_sparse_bsr: tensor sparse size \(4,6\) must be divisible by given blocksize \(3,3\)"),
    (lambda a: a.to_sparse_bsc((0, 1)), r"dense_to_sparse_bsc: blocksize needs to be positive, but got \[0, 1\]"),
    (lambda a: a.to_sparse(layout=torch.sparse_bsr), "dense_to_sparse: conversion from Strided to SparseBsr without blocksize argument"),
    (lambda a: a.to_sparse(layout=torch.sparse_csr, blocksize=(2, 3)), "conversion from Strided to SparseCsr with blocksize argument"),
    (lambda a: a.to_sparse_bsr((2, 3)).to_sparse_csr(), "sparse_compressed_to_sparse_csr: expected SparseCsr or SparseCsc layout"),
    (lambda a: a.to_sparse_bsr((2, 3)).to_sparse_bsr((2, 2)), r"blocksize changed from \[2, 3\] to \[2, 2\] is not supported"),
    (lambda a: torch.ops.aten._to_sparse(a, layout=torch.sparse_bsr, blocksize=(2,)), "blocksize needs to be a tuple of size 2, but got 1"),
    (lambda a: torch.ops.aten._to_sparse(a.expand(2, 4, 6), layout=torch.sparse_bsr, blocksize=(2, 2)), "batches of sparse compressed tensors"),
    (lambda a: a.to_sparse_bsr((2, 3)).ccol_indices(), "ccol_indices expected sparse column compressed tensor layout but got SparseBsr"),
    (lambda a: a.to_sparse_bsc((2, 3)).stride(), "Sparse BSC tensors do not have strides"),
    (lambda a: torch.zeros(4, 4, layout=torch.sparse_bsr), r"expected sparse compressed \(non-block\) tensor layout but got SparseBsr"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 5], torch.ones(2, 2, 2), (4, 4), check_invariants=True), "col_indices < ncols"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 0, 2), (0, 4)), "blocksize needs to be positive"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 2), (5, 4)), r"tensor shape\[0\] \(=5\) must be divisible"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 2**62], torch.ones(2, 2, 2)), "overflow"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2)), "values must have dimensionality"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], torch.ones(2, 2, 2, 3), (4, 4, 2)), "values has incorrect size"),
    (lambda a: torch.sparse_bsr_tensor([0, 1, 2], [0, 9], torch.ones(2, 2, 2), (4, 4)).to_dense(), "out of range|out of bounds"),
])
def test_what_blocks_cannot_be_is_refused(call, text):
    with pytest.raises((RuntimeError, IndexError), match=text):
        call(torch.ones(4, 6))


def test_many_dims_need_no_fixed_room():
    n = 30
    s = torch.sparse_coo_tensor(torch.ones(n, 3, dtype=torch.int64), torch.tensor([1., 2., 3.]), (2,) * n)
    assert s.coalesce().values().tolist() == [6.]


def test_the_kernel_of_products_checks_its_items():
    product = torch.ops.aten._sparse_product
    values, rows, columns, dense = torch.ones(2), torch.tensor([0, 1]), torch.tensor([1, 0]), torch.eye(2)
    assert product(values, rows, columns, dense, 2).tolist() == [[0., 1.], [1., 0.]]
    assert product(values, torch.tensor([0, 0, 2]), columns, dense, 2, True).tolist() == [[0., 0.], [1., 1.]]
    for bad in [(values, rows, columns, dense, 1), (values, rows, columns + 5, dense, 2),
                (values, rows.float(), columns, dense, 2), (values, rows[:1], columns, dense, 2),
                (values, rows, columns, dense.double(), 2), (values, rows, columns, dense[0], 2),
                (values, torch.tensor([0, 5, 2]), columns, dense, 2, True), (values, rows, columns, dense, 2, True),
                (torch.ones(4)[::2], rows, columns, dense, 2)]:
        with pytest.raises(RuntimeError):
            product(*bad)


def test_a_dense_tensor_takes_its_own_rows_as_values():
    d = torch.arange(6.).reshape(3, 2)
    d.add_(torch.sparse_coo_tensor([[0, 2]], d[:2], (3, 2)))
    assert d.tolist() == [[0., 2.], [2., 3.], [6., 8.]]


def test_gradients_with_a_negative_size_are_refused():
    rows, index = torch.ones(2, 3), torch.tensor([0, 1])
    for call in (lambda: torch.ops.aten.embedding_sparse_backward(rows, index, -4, -1, False),
                 lambda: torch.ops.aten._gather_sparse_backward(rows, [-4, 3], 0, torch.zeros(2, 3, dtype=torch.int64))):
        with pytest.raises(RuntimeError, match="Trying to create tensor with negative dimension -4"):
            call()


# Each index that is there twice is one element of the dense tensor, so both values have its gradient.
@pytest.mark.parametrize("f, want", [
    (lambda s: (s + s).to_dense() * torch.arange(1.0, 7).view(2, 3), [6.0, 8.0, 12.0, 6.0]),
    (lambda s: (s * s).to_dense(), [20.0, 8.0, 10.0, 20.0]),
    (lambda s: (s - s * 2).to_dense(), [-1.0] * 4),
    (lambda s: s.t().to_dense(), [1.0] * 4),
    (lambda s: torch.sparse.mm(s, s.t()).to_dense(), [30.0, 8.0, 30.0, 30.0]),
    (lambda s: torch.sparse.mm(s * 1, torch.ones(3, 2)), [2.0] * 4)])
def test_gradients_of_indices_that_are_there_twice(f, want):
    v = torch.tensor([3.0, 4, 5, 7], requires_grad=True)
    s = torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], v, (2, 3))
    assert torch.autograd.grad(f(s).sum(), v)[0].tolist() == want


def test_aliases_keep_their_parts_when_another_gets_other_indices():
    x = torch.sparse_coo_tensor([[0, 2]], [1., 2.], (3,))
    alias = x.detach()
    x.sparse_resize_((5,), 1, 0)
    assert alias.shape == (3,) and alias.to_dense().tolist() == [1, 0, 2]
    x.add_(torch.sparse_coo_tensor([[4]], [7.], (5,)))
    assert x.to_dense().tolist() == [1, 0, 2, 0, 7] and alias._nnz() == 2


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_bsc])
def test_dims_of_a_sum_are_refused_in_all_layouts(layout):
    x = torch.eye(4).to_sparse(layout=layout, blocksize=(2, 2) if layout == torch.sparse_bsc else None)
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 9\)"):
        torch.sparse.sum(x, 9)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        torch.sparse.sum(x, (0, -2))


def test_cat_refuses_tensors_without_dims():
    x = torch.tensor(1.0).to_sparse()
    for tensors, dim in (([x, x], 0), ([x, x], -1), ([x, torch.ones(2).to_sparse()], 0)):
        with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-1, 0\], but got 1\)"):
            torch.cat(tensors, dim)


def test_other_names_of_mm_are_recorded_as_mm():
    x, y = torch.randn(2, 3), torch.randn(3, 4)
    for call in (torch.spmm, torch.dsmm):
        made = torch.jit.trace(lambda a, b: call(a, b), (x, y))
        assert [n.kind() for n in made.graph.nodes()] == ["aten::mm"]
        assert "torch.mm(a, b);" in torch.fx.symbolic_trace(lambda a, b: call(a, b)).code
        out = torch.empty(2, 4)
        assert call(x, y, out=out) is out and torch.equal(out, x @ y)
    assert not hasattr(torch.ops.aten, "spmm")
    assert torch.hsmm(x.to_sparse(), y).sparse_dim() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("reduce, fold", [("sum", np.sum), ("mean", np.mean), ("amax", np.max), ("amin", np.min)])
def test_products_with_another_reduction(reduce, fold, dtype):
    dense = np.array([[0, 2, 0], [1, 0, 3], [0, 0, 0], [-1, -2, 4]], np.float64)
    other = np.arange(-6.0, 6).reshape(3, 4)
    want = np.zeros((4, 4))
    for i, row in enumerate(dense):
        if row.any():
            want[i] = fold(row[row != 0, None] * other[row != 0], axis=0)
    a = torch.tensor(dense, dtype=dtype).to_sparse_csr()
    got = torch.sparse.mm(a, torch.tensor(other, dtype=dtype), reduce)
    assert got.dtype == dtype and torch.allclose(got, torch.tensor(want).to(dtype), rtol=1e-6 if dtype != torch.bfloat16 else 1e-2)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_with_another_reduction_have_gradients(reduce):
    torch.manual_seed(0)
    a = torch.tensor([[0, 2.5, 0], [1.25, 0, 3], [0, 0, 0], [-1, -2, 4]], dtype=torch.float64)
    b = torch.randn(3, 4, dtype=torch.float64)

    def f(values, dense):
        crow, column = a.to_sparse_csr().crow_indices(), a.to_sparse_csr().col_indices()
        return torch.sparse.mm(torch.sparse_csr_tensor(crow, column, values, (4, 3)), dense, reduce)
    assert torch.autograd.gradcheck(f, (a.to_sparse_csr().values().clone().requires_grad_(), b.requires_grad_()))


@pytest.mark.parametrize("call, text", [
    (lambda a, b: torch.sparse.mm(a, b, "prod"), "sparse_mm_reduce: reduce type of prod has not been enabled."),
    (lambda a, b: torch.sparse.mm(a, b[:2], "sum"), r"Expected a tensor of dimension 2 and tensor.size\[0\] == 3 but got: dimension 2 and tensor.size\[0\] = 2"),
    (lambda a, b: torch.sparse.mm(a, b.double(), "sum"), "Expected tensor for argument #1 'other' to have scalar type Float"),
    (lambda a, b: torch.sparse.mm(a, a, "sum"), "Expected tensor to have Strided Layout")])
def test_products_with_another_reduction_are_checked(call, text):
    a = torch.tensor([[0, 2.0, 0], [1, 0, 3]]).to_sparse_csr()
    with pytest.raises(RuntimeError, match=text):
        call(a, torch.ones(3, 4))


def some_matrix(dtype=torch.float32):
    return torch.tensor([[0., 1, 0, 4], [0, 0, 0, 0], [2, 0, 3, 0]], dtype=dtype)


@pytest.mark.parametrize("name, args", [("t_", ()), ("transpose_", (0, 1)), ("transpose_", (-1, 0)), ("transpose_", (1, 1)),
                                        ("swapaxes_", (0, 1)), ("swapdims_", (1, -2))])
def test_transposes_in_place(name, args):
    dense = some_matrix()
    sparse, same = dense.to_sparse(), dense.clone()
    changed = getattr(sparse, name)(*args)
    assert changed is sparse
    getattr(same, name)(*args)
    assert torch.equal(sparse.to_dense(), same)
    leaf = dense.to_sparse().requires_grad_()
    moved = leaf * 2
    getattr(moved, name)(*args)
    moved.to_dense().backward(same)
    assert torch.equal(leaf.grad.to_dense() * 0.5, dense)


@pytest.mark.parametrize("dim", [0, 1, -1, (0,), (0, 1)])
@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_sums_of_rows_that_keep_the_dims(dim, dtype):
    dense = some_matrix()
    made = dense.to_sparse_csr().sum(dim, keepdim=True, dtype=dtype)
    assert made.layout == torch.sparse_csr and made.dtype == (dtype or torch.float32)
    assert torch.equal(made.to_dense(), dense.sum(dim, keepdim=True, dtype=dtype))
    with pytest.raises(RuntimeError, match="^reduction operations on CSR tensors with keepdim=False is unsupported$"):
        dense.to_sparse_csr().sum(dim)
    with pytest.raises(RuntimeError, match="^Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout SparseCsc$"):
        dense.to_sparse_csc().sum(dim, keepdim=True)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("convert", [lambda x: x.double(), lambda x: x.half(), lambda x: x.to(torch.float64), lambda x: x.type(torch.float64)])
def test_gradients_through_other_dtypes(layout, convert):
    leaf = getattr(some_matrix(), layout)().requires_grad_()
    convert(leaf).to_dense().sum().backward()
    assert leaf.grad.layout == leaf.layout and leaf.grad.dtype == torch.float32
    assert torch.equal(leaf.grad.to_dense(), (some_matrix() != 0).float())
