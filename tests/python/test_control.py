"""Branches, loops, scans, maps and flexible attention: numbers equal torch's (control_cases.py), errors, compiled."""
import json
from pathlib import Path

import pytest

import control_cases
import cresset as torch
from cresset._dynamo.exc import UncapturedHigherOrderOpError
from cresset._higher_order_ops import associative_scan, cond, foreach_map, map as hop_map, scan, while_loop
from cresset.func import grad, jvp, vmap
from cresset.nn.attention.flex_attention import create_block_mask, flex_attention
from test_func import compare

EXPECTED = json.loads((Path(__file__).parent / "control_expected.json").read_text())


@pytest.mark.parametrize("name", control_cases.CASES)
def test_numbers_are_torchs(name):
    got, expected = control_cases.run(name), EXPECTED[name]
    if name.startswith("flex"):
        assert got["values"] == pytest.approx(expected["values"], rel=1e-5, abs=1e-6)
    else:
        compare(got, expected)


X = torch.arange(6.).reshape(3, 2)
Z = torch.zeros(2)


def add(c, y):
    return c + y, c * y


ALIAS, WRITE = "Encountered aliasing during higher order op tracing", "Encountered input mutation"


@pytest.mark.parametrize("call, error, text", [
    (lambda: cond(torch.tensor([1, 2]), add, add, (X,)), RuntimeError,
     r"Expected pred to be bool or single-element tensor, but got tensor\(\[1, 2\]\)"),
    (lambda: cond("a", add, add, (X,)), RuntimeError, "Expected pred to be bool or tensor, but got a"),
    (lambda: cond(torch.tensor(True), 3, add, (X,)), RuntimeError, "Expect both branches to be callable"),
    (lambda: cond(torch.tensor(True), add, add, X), RuntimeError, "Expect operands to be a tuple of possibly nested"),
    (lambda: cond(torch.tensor(True), add, add, (3,)), RuntimeError, r"tensor leaves, but got \(3,\)"),
    (lambda: cond(torch.tensor(True), lambda a: a, add, (X,)), UncapturedHigherOrderOpError, ALIAS),
    (lambda: cond(torch.tensor(True), lambda a: a[1:], add, (X,)), UncapturedHigherOrderOpError, ALIAS),
    (lambda: cond(torch.tensor(True), lambda a: a.add_(1) * 2, add, (X.clone(),)), UncapturedHigherOrderOpError, WRITE),
    (lambda: cond(torch.tensor(True), lambda a: "s", add, (X,)), UncapturedHigherOrderOpError, "Constants returned from branches"),
    (lambda: vmap(lambda x: cond(x > 1, lambda a: (a * 2,), lambda a: a * 3, (x,)))(torch.ones(3)), RuntimeError,
     "Unmatched output spec from torch.cond branches"),
    (lambda: while_loop(3, add, (X,)), RuntimeError, "Expect cond_fn and body_fn to be callable"),
    (lambda: while_loop(add, add, X), RuntimeError, "carried_inputs must be a tuple or list but got"),
    (lambda: while_loop(add, add, (X, "a")), RuntimeError, "consists of tensor or int leaves, but got"),
    (lambda: while_loop(lambda x: 1, lambda x: (x + 1,), (X,)), RuntimeError,
     "cond_fn must return a boolean scalar tensor or a boolean but got 1"),
    (lambda: while_loop(lambda x: x.sum() < 3, lambda x: (x.add_(1),), (torch.ones(2),)), UncapturedHigherOrderOpError, WRITE),
    (lambda: while_loop(lambda x: x.sum() < 3, lambda x: (x,), (torch.ones(2),)), UncapturedHigherOrderOpError, ALIAS),
    (lambda: while_loop(lambda x: x.sum() < 3, lambda x: (x + 1, x + 2), (torch.ones(2),)), UncapturedHigherOrderOpError,
     "Expected body_fn_output and carried_inputs to have same number of outputs but got lhs"),
    (lambda: while_loop(lambda x: x.sum() < 3, lambda x: (x[:1] + 1,), (torch.ones(2),)), UncapturedHigherOrderOpError,
     r"same metadata but found:\npair\[0\] differ in 'shape: torch.Size\(\[1\]\) vs torch.Size\(\[2\]\)'"),
    (lambda: while_loop(lambda x: x.sum() < 3, lambda x: (x.int(),), (torch.ones(2),)), UncapturedHigherOrderOpError,
     r"pair\[0\] differ in 'dtype: torch.int32 vs torch.float32'"),
    (lambda: scan(3, Z, X), RuntimeError, "Combine_fn must be a callable, but got 3"),
    (lambda: scan(add, Z, X, reverse=1), RuntimeError, "Reverse must be a bool, but got <class 'int'>"),
    (lambda: scan(add, Z, X, dim="a"), RuntimeError, "Dim must be an int"),
    (lambda: scan(add, Z, X, dim=2), IndexError, r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)"),
    (lambda: scan(add, [], X), RuntimeError, r"scan\(\) operator requires init leaves"),
    (lambda: scan(add, 3, X), RuntimeError, "All init leaves must be a Tensor but got 3"),
    (lambda: scan(add, Z, [X, 3]), RuntimeError, "All xs leaves must be a Tensor but got 3"),
    (lambda: scan(add, Z, X[:0]), RuntimeError, "All xs leaves must at least have 'dim' number of dimensions"),
    (lambda: scan(lambda c, y: (c + y, y), Z, X), UncapturedHigherOrderOpError, ALIAS),
    (lambda: scan(lambda c, y: (c.double(), c * y), Z, X), UncapturedHigherOrderOpError,
     r"Expected init and carry to have same metadata but found:\npair\[0\] differ in 'dtype"),
    (lambda: scan(lambda c, y: c + y, Z, X), RuntimeError, "combine_fn must return a carry and an output"),
    (lambda: scan(lambda c, y: (c + y[0], c * y[1]), Z, (X, X[:2])), RuntimeError, "one size along the scanned dim"),
    (lambda: associative_scan(max, X, 0, 1), RuntimeError, "Reverse must be a bool"),
    (lambda: associative_scan(max, [X, 3], 0), ValueError, "xs leaves must be a Tensor"),
    (lambda: associative_scan(max, X.to_sparse(), 0), ValueError, r"consider using `to_dense\(\)`"),
    (lambda: associative_scan(max, X[:0], 0), ValueError, "All xs leaves must at least"),
    (lambda: hop_map(lambda y: y * 2, [X, 3]), RuntimeError, "Mapped xs can only consist of tensors"),
    (lambda: hop_map(lambda y: y * 2, X[:0]), RuntimeError, "Leading dimensions of mapped xs cannot be 0"),
    (lambda: hop_map(lambda y: y[0], [X, X[:2]]), RuntimeError, "Leading dimensions of mapped xs must be consistent. Got shapes"),
    (lambda: hop_map(lambda y: 3, X), UncapturedHigherOrderOpError, "Expected all leaves to be of torch.Tensor type"),
    (lambda: hop_map(lambda y: y, X), UncapturedHigherOrderOpError, ALIAS),
    (lambda: hop_map(3, X), RuntimeError, "f must be a callable"),
    (lambda: foreach_map(torch.add, X, X), RuntimeError, "needs a list or tuple"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_batch_of_loops_runs_until_the_last_one_ends():
    steps = vmap(lambda a: while_loop(lambda x, n: x < 20, lambda x, n: (x * 2, n + 1), (a, torch.zeros(()))))
    values, counts = steps(torch.tensor([1., 3., 40.]))
    assert values.tolist() == [32., 24., 40.] and counts.tolist() == [5., 3., 0.]


def test_scans_and_maps_of_batches():
    def last(a):
        return scan(lambda c, y: (c * y + 1, c + y), torch.zeros(()), a)[1]
    assert torch.equal(vmap(last)(X), torch.stack([last(row) for row in X]))
    assert torch.equal(vmap(lambda a: hop_map(lambda y: y.sin() * y, a))(X), X.sin() * X)


def test_derivatives_nest():
    x = torch.tensor([1., 2.])
    cube = lambda b: cond(b.sum() > 0, lambda b: (b ** 3).sum(), lambda b: b.sum(), (b,))
    assert grad(lambda a: grad(cube)(a).sum())(x).tolist() == [6., 12.]
    out, tangent = jvp(lambda b: cond(b.sum() > 0, torch.sin, torch.cos, (b,)), (x,), (x,))
    assert torch.equal(tangent, x.cos() * x) and torch.equal(out, x.sin())
    powers = lambda a: while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * y), (torch.tensor(0), a))[1].sum()
    assert grad(lambda a: grad(powers)(a).sum())(x).tolist() == [12., 48.]


def test_foreach_map():
    got = foreach_map(torch.add, [torch.ones(1), torch.zeros(2)], 2, alpha=3)
    assert [x.tolist() for x in got] == [[7.], [6., 6.]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", [
    lambda x: cond(x.sum() > 0, torch.sin, torch.cos, (x,)) * 2,
    lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), (0, x))[1] + 1,
    lambda x: scan(lambda c, y: (c + y, c * y), torch.zeros(2), x)[1],
    lambda x: associative_scan(lambda a, b: a * b + b, x, 0, combine_mode="generic"),
    lambda x: hop_map(lambda y: y.sin() * y, x),
    lambda x: flex_attention(*(x.expand(1, 1, 3, 2),) * 3, score_mod=lambda s, b, h, q, k: s + q - k),
])
def test_compiled_functions_give_the_same(f):
    compiled = torch.compile(f)
    for scale in (1., -1., 2.):
        x, y = (X * scale).requires_grad_(), (X * scale).requires_grad_()
        expected, got = f(x), compiled(y)
        assert torch.equal(expected, got)
        expected.sum().backward(), got.sum().backward()
        assert torch.equal(x.grad, y.grad)


def test_attention_over_blocks_has_the_gradients_of_dense_attention():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 6, 4, dtype=torch.float64) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: (i >= j) | (h == 1), None, 2, 6, 6, device="cpu", BLOCK_SIZE=2)
    allowed = torch.stack([torch.ones(6, 6).tril().bool(), torch.ones(6, 6).bool()])

    def dense(q, k, v):
        scores = (q @ k.transpose(-2, -1)) / 2 * 1.5
        return torch.softmax(scores.masked_fill(~allowed, -torch.inf), -1) @ v

    def flexible(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s * 1.5, mask)
    for f in (flexible, torch.compile(flexible)):
        for got, expected in zip(*(grad(lambda *a: g(*a).square().sum(), (0, 1, 2))(q, k, v) for g in (f, dense))):
            assert torch.allclose(got, expected)
