"""torch.func, vmap and forward_ad: numbers equal torch's (func_cases.py), errors, histories."""
import json
import sys
from pathlib import Path

import pytest

import cresset as torch
import cresset.nn.functional as F
import func_cases
from cresset.autograd import forward_ad
from cresset.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

EXPECTED = json.loads((Path(__file__).parent / "func_expected.json").read_text())


def compare(got, expected):
    if isinstance(expected, dict) and set(expected) == {"shape", "dtype", "values"}:
        assert (got["shape"], got["dtype"]) == (expected["shape"], expected["dtype"])
        assert got["values"] == pytest.approx(expected["values"], rel=1e-10, abs=1e-12)
    elif isinstance(expected, dict):
        assert set(got) == set(expected)
        for key, value in expected.items():
            compare(got[key], value)
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            compare(a, b)
    else:
        assert got == expected


@pytest.mark.parametrize("name", func_cases.CASES)
def test_numbers_are_torchs(name):
    compare(func_cases.run(name), EXPECTED[name])


X = torch.arange(6.0).reshape(2, 3)
EMBEDDED = torch.arange(12.0).reshape(3, 4).cos().requires_grad_()


def _escaped():
    kept = []
    vmap(lambda x: kept.append(x) or x)(X)
    return kept[0]


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()


@pytest.mark.parametrize("call, error, text", [
    (lambda: vmap(lambda x: 3)(X), ValueError, "must only return Tensors, got type <class 'int'>"),
    (lambda: vmap(lambda x: x.item())(torch.ones(3)), RuntimeError, r"you're calling .item\(\) on a Tensor"),
    (lambda: vmap(lambda x: x if x.sum() > 0 else -x)(X), RuntimeError, "data-dependent control flow"),
    (lambda: vmap(lambda x: torch.rand(2))(X), RuntimeError, "called random operation while in randomness error mode"),
    (lambda: vmap(lambda x: x, in_dims=2)(X), ValueError, "Got in_dim=2 for some input, but that input is a Tensor of "
                                                          "dimensionality 2 so expected in_dim to satisfy -2 <= in_dim < 2"),
    (lambda: vmap(lambda x, y: x, in_dims=(0,))(X, X), ValueError, "in_dims is not compatible with the structure of"),
    (lambda: vmap(lambda x, y: x + y)(X, torch.ones(3, 3)), ValueError, r"got sizes \[2, 3\] for the mapped dimension"),
    (lambda: vmap(lambda x: x)(3), ValueError, "the input is of type <class 'int'>. We cannot vmap over non-Tensor"),
    (lambda: vmap(lambda x: x)(), ValueError, "got no inputs. Maybe you forgot to add inputs"),
    (lambda: vmap(lambda x: x, chunk_size=0), ValueError, "chunk_size should be None or greater than 0"),
    (lambda: vmap(lambda x: x.data)(X), RuntimeError, "accessing `data` under vmap transform is not allowed"),
    (lambda: vmap(lambda x: setattr(x, "data", x))(X), RuntimeError, "mutating directly with `.data` under vmap transform is not"),
    (lambda: vmap(torch.Tensor.copy_, in_dims=(None, 0))(X[0], X), RuntimeError, "vmap: inplace arithmetic"),
    (lambda: vmap(lambda x, y: x.index_add_(0, torch.tensor([0]), y[:1]), in_dims=(None, 0))(X[0], X), RuntimeError,
     "out-of-place operators instead of index_add_. If"),
    (lambda: vmap(lambda x: x.sum((0, 0)))(X[0]), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda: vmap(lambda x: x.as_strided([4], [1]))(X), RuntimeError, r"range \[0, 4\], but `tensor` can only access some memory in "
                                                                      r"range \[0, 3\]. This is not supported inside of vmap"),
    (lambda: vmap(lambda x: x.as_strided([2], [1], 2))(X[1:]), RuntimeError, r"range \[2, 4\], but `tensor` .* range \[3, 6\]"),
    (lambda: vmap(lambda x: x.as_strided([1, 2], [1]))(X), RuntimeError, "size and stride must have the same length! Got size"),
    (lambda: vmap(torch.mv)(X, X), RuntimeError, "incorrect dims for mv.a, b.. a has dim 1and b has dim 1but expected them to have dim 2"),
    (lambda: vmap(lambda x: x.fill_(x))(X), RuntimeError, "fill_ only supports 0-dimension value tensor but got tensor with 1"),
    (lambda: _escaped().detach(), RuntimeError, "Either your tensor may have escaped from inside a function being vmapped"),
    (lambda: vmap(lambda x: x, in_dims=1)(torch.nested.nested_tensor([X, X])), RuntimeError,
     "Nested tensors can only be vmapped over dim=0, but got dim=1"),
    (lambda: torch.func.functionalize(Old.apply)(X), RuntimeError, "must override the setup_context staticmethod"),
    (lambda: grad(lambda x: x * 2)(X), RuntimeError, "to return a scalar Tensor, got tensor with 2 dims"),
    (lambda: jacrev(lambda x: x * 1j)(X[0]), RuntimeError, "jacrev: Expected all outputs to be real but received complex"),
    (lambda: jacrev(lambda x: x.abs())(X[0] * 1j), RuntimeError, "jacrev: Expected all inputs to be real but received"),
    (lambda: jacfwd(lambda x: x * 1j)(X[0]), RuntimeError, "jacfwd: Expected all outputs to be real but received complex"),
    (lambda: jacfwd(lambda x: x.abs())(X[0] * 1j), RuntimeError, "jacfwd: Expected all inputs to be real but received"),
    (lambda: hessian(lambda x: x)(X[0] * 1j), RuntimeError, "jacfwd: Expected all inputs to be real but received"),
    (lambda: grad(lambda x: x.sum())(X * 1j), RuntimeError, "grad can be implicitly created only for real scalar outputs "
                                                            "but got torch.complex64"),
    (lambda: jacrev(lambda x: (x > 0).long())(X[0]), RuntimeError, "All outputs of f must be floating-point or complex"),
    (lambda: jacfwd(lambda x: x)(torch.arange(3)), ValueError, "Expected primal to be floating point or complex, but got: "
                                                               "torch.int64"),
    (lambda: jvp(lambda x: x, (X,), (X.long(),)), ValueError, "Expected tangent to be floating point or complex"),
    (lambda: jvp(lambda x: x, (X,), (3,)), RuntimeError, "Expected tangents to only contain Tensors, got <class 'int'>"),
    (lambda: vjp(lambda x: (x, {"a": x}), X)[1](X), RuntimeError, r"cotangents: \*, primal output: \(\*, {'a': \*}\)"),
    (lambda: vjp(lambda x: x, X)[1](3), TypeError, "gradients can be either Tensors or None, but got int"),
    (lambda: vjp(lambda x: None, X), RuntimeError, r"non-empty output \(got output = \[None\]\)"),
    (lambda: jvp(lambda x: (), (X,), (X,)), RuntimeError, r"non-empty output \(got output = \[\]\)"),
    (lambda: jacrev(lambda x: 3)(X), RuntimeError, r"expected f\(\*primals\) to return only tensors, got unsupported type"),
    (lambda: jacrev(lambda x: (x, 3), has_aux=True)(X), RuntimeError, "Expected tensors, got unsupported type <class 'int'>"),
    (lambda: jacrev(lambda x: x, chunk_size=0), ValueError, "jacrev: `chunk_size` should be greater than 0"),
    (lambda: grad(lambda x: x)(3), ValueError, "Thing passed to transform API must be Tensor, got <class 'int'>"),
    (lambda: grad(lambda x: 3)(X), RuntimeError, r"Expected f\(\*args\) to return a Tensor, got <class 'int'>"),
    (lambda: grad(lambda x: x.sum(), argnums=1)(X), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
    (lambda: grad(lambda x: x.sum(), argnums=())(X), RuntimeError, "argnums must be non-empty"),
    (lambda: grad(lambda x, y: x.sum(), argnums=(0, 0))(X, X), RuntimeError, r"argnums elements must be unique, got \(0, 0\)"),
    (lambda: grad(lambda x: x.sum())(torch.arange(3)), RuntimeError, "only Tensors of floating point dtype"),
    (lambda: vjp(lambda x: x * 2, X)[1](torch.ones(3)), RuntimeError, r"Mismatch in shape: grad_output\[0\] has a shape"),
    (lambda: jvp(lambda x: x, (X,), (torch.ones(3),)), RuntimeError, "a different size than that of the original"),
    (lambda: jvp(lambda x: x, X, (X,)), RuntimeError, "Expected primals to be a tuple"),
    (lambda: forward_ad.make_dual(X, X), RuntimeError, "no level exists, make sure to enter_dual_level"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_results_have_the_history_of_other_tensors_only():
    w = torch.ones(3, requires_grad=True)
    assert not grad(lambda x: (x ** 2).sum())(torch.ones(3)).requires_grad
    g = grad(lambda x: (x ** 2 * w).sum())(torch.ones(3))
    g.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    x = torch.ones(3, requires_grad=True)
    vmap(lambda y: y.exp())(x).sum().backward()
    assert torch.equal(x.grad, x.detach().exp())


@pytest.mark.parametrize("derivative", [jacrev, jacfwd, hessian, lambda f: vmap(jacrev(f)), lambda f: vmap(hessian(f)),
                                        lambda f: lambda x: grad(lambda y: jacrev(lambda z: f(z * y))(x).sum())(x[0]),
                                        lambda f: lambda x: grad(lambda y: jacfwd(lambda z: f(z * y))(x).sum())(x[0])])
def test_jacobians_end_at_their_inputs(derivative):
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(2, 3)
    assert not derivative(lambda y: (y ** 3).sum(-1))(x).requires_grad
    derivative(lambda y: (y ** 3 * w).sum(-1))(x).sum().backward()
    assert w.grad.abs().sum() > 0


def test_a_batch_of_products_with_parameters():
    x, w, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.ones(2, 2), torch.ones(2)
    assert grad(lambda w: vmap(lambda x: F.linear(x, w, b))(x).sum())(w).tolist() == [[4, 6], [4, 6]]
    assert vmap(lambda a: F.max_pool1d(a, 2))(torch.ones(2, 2, 4)).shape == (2, 2, 2)
    assert jacrev(torch.diagonal)(torch.ones(2, 2)).tolist() == [[[1, 0], [0, 0]], [[0, 0], [0, 1]]]
    assert vmap(lambda a: a.diagonal(dim1=2))(torch.ones(2, 3, 4, 5)).shape == (2, 3, 4)


def test_random_numbers_of_a_batch():
    x = torch.zeros(4, 2)
    different = vmap(lambda x: x + torch.rand(2), randomness="different")(x)
    assert len({tuple(row) for row in different.tolist()}) == 4
    same = vmap(lambda x: x + torch.rand(2), randomness="same")(x)
    assert len({tuple(row) for row in same.tolist()}) == 1


@pytest.mark.parametrize("draw", [lambda x: F.dropout(x, 0.5), lambda x: F.alpha_dropout(x, 0.5, training=True),
                                  torch.rand_like, lambda x: x.clone().normal_(), lambda x: F.dropout1d(x.reshape(8, 8)),
                                  lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 8, 8)] * 3, dropout_p=0.5)])
def test_draws_for_a_batch(draw):
    """`same`: every example gets the numbers that the first example gets alone; `different`: others."""
    x = torch.full((3, 64), 0.5)
    torch.manual_seed(1)
    alone = draw(x[0])
    following = torch.rand(1)
    torch.manual_seed(1)
    same = vmap(draw, randomness="same")(x)
    assert torch.equal(torch.rand(1), following)
    assert all(torch.equal(row, alone) for row in same)
    different = vmap(draw, randomness="different")(x)
    assert not torch.equal(different[0], different[1])


def test_a_batch_is_one_call():
    from cresset.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not types:
                names.append(str(func))
            return func(*args, **(kwargs or {}))
    names = []
    with Names():
        vmap(lambda x, y: (x @ y).exp().sum(0))(torch.ones(50, 2, 3), torch.ones(50, 3, 4))
    assert len(names) < 20


def test_levels_of_forward_derivatives():
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
        x = forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        assert forward_ad.unpack_dual(x).tangent.tolist() == [3, 3]
        assert forward_ad.unpack_dual(torch.ones(2)).tangent is None
    assert forward_ad.unpack_dual(x).tangent is None
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        forward_ad.exit_dual_level()


def test_batch_norms_lose_their_statistics():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
    assert torch.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    assert vmap(model, randomness="error")(torch.randn(2, 4, 3)).shape == (2, 4, 3)


class Plain(torch.Tensor):
    pass


class Other(torch.Tensor):
    def doubled(self):
        return self * 2


SUBCLASSES = {
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x), "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "hessian": lambda f, x: torch.func.hessian(lambda a: f(a).sum())(x), "vmap": lambda f, x: torch.func.vmap(f)(x),
    "grad": lambda f, x: torch.func.grad(lambda a: f(a).sum())(x), "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[1],
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](torch.ones(3))[0],
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(lambda a: f(a).sum()))(x),
    "two": lambda f, x: torch.func.vmap(lambda a, b: f(a) * b)(x, (x if type(x) is torch.Tensor else x.as_subclass(Other))),
}


@pytest.mark.parametrize("name", SUBCLASSES)
def test_transforms_treat_subclasses_as_plain_tensors(name):
    x = torch.tensor([1.0, 2.0, -3.0])

    def cubes(a):
        return a * a * a

    def as_other(a):
        return cubes(a.as_subclass(Other).doubled())
    want = SUBCLASSES[name](cubes, x)
    for given in (x.as_subclass(Plain), torch.nn.Parameter(x), x.clone().as_subclass(Other)):
        got = SUBCLASSES[name](cubes, given)
        assert torch.equal(got.as_subclass(torch.Tensor), want)
    assert torch.equal(SUBCLASSES[name](as_other, x), want * 8)


def test_an_object_of_another_class_is_not_replaced():
    def other(a):
        with torch._C.DisableTorchFunctionSubclass():
            return torch.Tensor.as_subclass(a, Plain)
    with pytest.raises(RuntimeError, match="is already associated to a python object of type"):
        torch.func.vmap(other)(torch.ones(2))


@pytest.mark.parametrize("padding, options", [(1, {}), (-1, {}), (1, {"scale_grad_by_freq": True}), (None, {})])
def test_embedding_sends_on_the_tangent_of_its_padding_row(padding, options):
    weight, tangent, rows = torch.arange(6.).reshape(3, 2), torch.arange(6.).reshape(3, 2) + 1, torch.tensor([0, 1, 2, 1])
    f = lambda w: torch.nn.functional.embedding(rows, w, padding_idx=padding, **options)
    assert torch.equal(jvp(f, (weight,), (tangent,))[1], tangent[rows])
    with forward_ad.dual_level():
        assert torch.equal(forward_ad.unpack_dual(f(forward_ad.make_dual(weight, tangent))).tangent, tangent[rows])
    kept = [0 if padding is not None and r == padding % 3 else 1 for r in range(3)]
    if not options:
        assert vjp(f, weight)[1](torch.ones(4, 2))[0].tolist() == [[k * n] * 2 for k, n in zip(kept, (1, 2, 1))]


@pytest.mark.parametrize("call", [torch.unique, torch.unique_consecutive, lambda a: a[a > 0],
                                  lambda a: torch.masked_select(a, a > 0), lambda a: torch.unique(a, return_inverse=True)[1]])
@pytest.mark.parametrize("x", [torch.tensor([[1., 2.], [2., 3.]]), torch.tensor([1., 2.])], ids=["vectors", "numbers"])
def test_results_whose_sizes_are_values_have_no_batches(call, x):
    """Also where the sizes agree for these examples."""
    with pytest.raises(RuntimeError, match="^vmap: (We do not support batching operators that can (output|support) dynamic shape|"
                                           "Attempted to vmap over `mask` in torch.masked_select)"):
        vmap(call)(x)


KEPT = torch.tensor([True, False, True])


@pytest.mark.parametrize("mask", [KEPT, KEPT[:, None], torch.tensor(True), torch.tensor([[False], [True]])])
@pytest.mark.parametrize("dim", [0, 1])
def test_one_mask_selects_of_each_example(mask, dim):
    x = torch.arange(9.).reshape(3, 3)
    rows = [torch.masked_select(row, mask) for row in x.unbind(dim)]
    assert torch.equal(vmap(lambda row: torch.masked_select(row, mask), in_dims=dim)(x), torch.stack(rows))
    assert torch.equal(vmap(vmap(lambda row: torch.masked_select(row, mask)), in_dims=(dim,))(x[None].expand(3, 3, 3)),
                       torch.stack([torch.stack([torch.masked_select(row, mask) for row in part.unbind(0)])
                                    for part in x[None].expand(3, 3, 3).unbind(dim)]))


@pytest.mark.parametrize("f", [lambda x: x.masked_select(KEPT), lambda x: x.masked_scatter(KEPT, x * x), lambda x: x[KEPT] * x[0],
                               lambda x: torch.zeros(3).masked_scatter(KEPT, x[1:] * x[0])])
def test_derivatives_of_masked_elements(f):
    x = torch.tensor([2., 3., 5.])
    def rows(g):
        return torch.stack([torch.autograd.grad(g(v := x.clone().requires_grad_())[i], v, allow_unused=True)[0] for i in range(len(g(x)))])
    assert torch.equal(jacrev(f)(x), rows(f)) and torch.equal(jacfwd(f)(x), rows(f))
    assert torch.equal(hessian(lambda x: f(x).pow(2).sum())(x),
                       rows(lambda v: torch.func.grad(lambda x: f(x).pow(2).sum())(v)))
    per_example = vmap(torch.func.grad(lambda x: f(x).pow(2).sum()))(torch.stack([x, x + 1]))
    assert torch.equal(per_example, torch.stack([torch.func.grad(lambda x: f(x).pow(2).sum())(v) for v in (x, x + 1)]))


def test_places_of_equally_many_elements_have_a_batch():
    x = torch.tensor([[1., 0., 2.], [0., 3., 4.]])
    assert vmap(torch.argwhere)(x).tolist() == [[[0], [2]], [[1], [2]]]
    assert vmap(lambda a: torch.nonzero_static(a, size=2))(x).tolist() == [[[0], [2]], [[1], [2]]]
    assert vmap(lambda a: torch.nonzero_static(a, size=3))(x[:, :2]).tolist() == [[[0], [-1], [-1]], [[1], [-1], [-1]]]
    assert vmap(lambda a: torch.nonzero_static(a, size=1, fill_value=7))(x[None, :, 1:] > 3).tolist() == [[[1, 1]]]
    with pytest.raises(RuntimeError, match="^vmap: We do not support batching operators that can output dynamic shape"):
        vmap(torch.argwhere)(torch.tensor([[1., 0.], [1., 2.]]))


PAIR = torch.tensor([1., 2.])
ONES = lambda a: torch.ones(2)


@pytest.mark.parametrize("call, kind, text", [
    (lambda f: f.jacobian(ONES, PAIR, strict=True), RuntimeError, "Output 0 of the user-provided function does not require gradients."),
    (lambda f: f.jacobian(lambda a: (a, torch.ones(2)), PAIR, strict=True), RuntimeError, "Output 1 of the user-provided function does not"),
    (lambda f: f.jacobian(lambda a, b: a * 2, (PAIR, PAIR), strict=True), RuntimeError, "Output 0 .* is independent of input 1"),
    (lambda f: f.hessian(torch.sum, PAIR, strict=True), RuntimeError, "found that the jacobian .* with respect to input 0 is independent"),
    (lambda f: f.hvp(torch.sum, PAIR, PAIR, strict=True), RuntimeError, "found that the jacobian .* with respect to input 0 is independent"),
    (lambda f: f.vjp(torch.sin, PAIR), RuntimeError, "v can only be None if the user-provided function returns a single Tensor with a single"),
    (lambda f: f.jvp(torch.sin, PAIR), RuntimeError, "v can only be None if the input to the user-provided function is a single Tensor"),
    (lambda f: f.vjp(torch.sin, PAIR, (PAIR, PAIR)), RuntimeError, "The given v should contain a single Tensor"),
    (lambda f: f.hvp(torch.sin, PAIR, PAIR), RuntimeError, "The Tensor returned by the function given to hvp should contain a single element"),
    (lambda f: f.jacobian(lambda a: [a], PAIR), TypeError, "the given outputs of the user-provided function has type <class 'list'>"),
    (lambda f: f.jacobian(torch.sin, PAIR, strategy="forward-mode"), NotImplementedError, "only implemented for `vectorize=True`"),
    (lambda f: f.jacobian(torch.sin, PAIR, strategy="x"), AssertionError, 'Expected strategy to be either "forward-mode" or'),
])
def test_what_autograd_functional_refuses(call, kind, text):
    with pytest.raises(kind, match=text):
        call(torch.autograd.functional)


def set_row(a, b):
    c = a.clone()
    c[0] = b
    c[:, 1] *= 2
    return (c ** 2).sum(0)


def test_changed_parts_have_derivatives_in_batches():
    a, b = torch.arange(6.).view(2, 3), torch.ones(3)
    by_a = torch.tensor([[[0., 0., 0.], [6., 0., 0.]], [[0., 0., 0.], [0., 32., 0.]], [[0., 0., 0.], [0., 0., 10.]]])
    by_b = torch.tensor([2., 8., 2.]).diag()
    assert torch.equal(jacrev(set_row)(a, b), by_a) and torch.equal(jacfwd(set_row)(a, b), by_a)
    assert torch.equal(jacrev(set_row, 1)(a, b), by_b) and torch.equal(jacfwd(set_row, 1)(a, b), by_b)
    assert torch.equal(hessian(lambda a, b: set_row(a, b).sum())(a, b)[1, :, 1, :], torch.tensor([2., 8., 2.]).diag())
    assert torch.equal(vmap(grad(lambda a, b: set_row(a, b).sum()), (0, None))(torch.stack([a, a + 1]), b)[1, 1],
                       torch.tensor([8., 40., 12.]))
    assert jacrev(lambda a: a.as_strided((2, 2), (1, 1)))(torch.ones(3)).sum(2).tolist() == [[1, 1], [1, 1]]


def changed_and_read(a):
    c = a.clone()
    v = c[:, 1]
    v.mul_(2)
    return (v ** 2).sum() + (c ** 2).sum()


def written_back(a):
    c = a * 2
    c[:, 1] *= 2
    c[0] = c[1] * 3
    c.diagonal().sin_()
    return (c ** 3).sum()


@pytest.mark.parametrize("f", [changed_and_read, written_back])
def test_views_know_of_changes_in_batches(f):
    x = torch.arange(12.).view(2, 2, 3) / 12
    assert torch.allclose(vmap(grad(f))(x), torch.stack([grad(f)(one) for one in x]))
    assert torch.allclose(vmap(grad(f), -1)(x.movedim(0, -1).contiguous()), torch.stack([grad(f)(one) for one in x]))


def test_changes_of_saved_tensors_are_noticed_in_batches():
    def f(a):
        c = a * 1
        s = c.sin()
        c.mul_(2)
        return s.sum()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        vmap(grad(f))(torch.ones(2, 3))


def test_a_changed_real_part_is_refused_in_batches():
    def doubled(a):
        z = torch.complex(a, a)
        z.real.mul_(2)
        return z.abs()
    with pytest.raises(RuntimeError, match="is not available for tensors that wrap others"):
        jacrev(doubled)(torch.ones(2))


def test_a_number_of_a_number_has_a_jacobian():
    x = torch.tensor(1.)
    assert jacrev(torch.sin)(x).shape == jacfwd(torch.sin)(x).shape == hessian(torch.sin)(x).shape == ()
    assert hessian(torch.sin)(x) == -x.sin()


def test_products_of_reflectors_have_derivatives_by_batches():
    x, tau = torch.arange(12.).view(2, 3, 2) / 12, torch.tensor([[.5, 1.], [1.5, .25]])
    product = torch.linalg.householder_product
    got = grad(lambda x, tau: vmap(product)(x, tau).pow(2).sum(), (0, 1))(x, tau)
    want = grad(lambda x, tau: product(x, tau).pow(2).sum(), (0, 1))(x, tau)
    assert all(torch.allclose(one, other) for one, other in zip(got, want))


def test_tensors_do_not_leave_a_map():
    kept = []

    def keep(x):
        kept.append(x)
        return torch.func.vmap(lambda y: y * 2)(x)
    assert torch.equal(torch.func.vmap(keep)(torch.ones(3, 2)), torch.full((3, 2), 2.))
    assert kept[0].shape == (2,) and "BatchedTensor" in repr(kept[0])
    for use in (lambda x: x + 1, torch.sum, torch.clone, lambda x: x[0], lambda x: torch.func.vmap(torch.sin)(x),
                lambda x: torch.func.vmap(lambda y: y + x)(torch.ones(3))):
        with pytest.raises(RuntimeError, match="Either your tensor may have escaped from inside a function being vmapped"):
            use(kept[0])


@pytest.mark.parametrize("truth, text", [
    (lambda x: torch.equal(x, torch.ones(2)), "^Batching rule not implemented for aten::equal"),
    (lambda x: x.is_set_to(x), "^Batching rule not implemented for aten::is_set_to"),
    (lambda x: torch.allclose(x, torch.ones(2)), "^vmap over torch.allclose isn't supported yet"),
    (lambda x: torch.is_nonzero(x.sum()), "^vmap: It looks like you're")])
def test_truths_of_elements_have_no_batch(truth, text):
    """The first example's was taken for all."""
    x = torch.tensor([[1., 1.], [2., 2.]])
    with pytest.raises(RuntimeError, match=text):
        vmap(lambda a: a if truth(a) else -a)(x)
    assert vmap(lambda a: a if a.is_same_size(torch.ones(2)) else -a)(x).tolist() == x.tolist()


def _tangents(f, x, t, way):
    """(f(x), the tangent of f(x), x after it) of a function that writes x."""
    x = x.clone()
    if way == "dual":
        with forward_ad.dual_level():
            return *forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))), x
    if way == "jvp":
        return *jvp(f, (x,), (t,)), x
    return *vmap(lambda x, t: jvp(f, (x,), (t,)), in_dims=1, out_dims=1)(x, t), x


@pytest.mark.parametrize("way", ["dual", "jvp", "map"])
@pytest.mark.parametrize("change", [
    lambda x: x.mul_(3),
    lambda x: x[1:].add_(x[0]),
    lambda x: x.copy_(x.flip(0)),
], ids=["all", "view", "copy"])
def test_a_function_may_write_what_forward_mode_differentiates_by(change, way):
    def written(x):
        change(x)
        return x * x
    x, t = X.t().clone(), torch.cos(X.t())
    value, tangent, after = _tangents(written, x, t, way)
    expected = jvp(lambda x: written(x * 1), (x,), (t,))
    assert torch.equal(value, expected[0]) and torch.allclose(tangent, expected[1])
    change(x)
    assert torch.equal(after, x)


@pytest.mark.parametrize("draw", [torch.randn_like, lambda x: x.normal_(), lambda x: x.bernoulli_(0.5),
                                  lambda x: torch.randint_like(x, 90)], ids=["like", "normal_", "bernoulli_", "integers"])
@pytest.mark.parametrize("dim", [0, -1])
def test_equal_draws_are_those_of_one_tensor(draw, dim):
    torch.manual_seed(3)
    got = vmap(draw, in_dims=dim, randomness="same")(torch.ones(5, 4, 4, 5))
    torch.manual_seed(3)
    assert torch.equal(got, draw(torch.ones(4, 4, 5) if dim == 0 else torch.ones(5, 4, 4)).expand(5, -1, -1, -1))


def test_bits_of_a_batch_show_in_its_examples():
    def flipped(x):
        y = x.conj()
        assert (x.is_conj(), y.is_conj(), y.imag.is_neg()) == (False, True, True)
        return y
    x = X[0] * (1 + 2j)
    assert torch.equal(vmap(flipped)(x), x.conj())


def test_anomalies_are_found_in_batches():
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Error detected in SqrtBackward0"), \
            pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output."):
        vmap(grad(lambda x: x.sqrt()))(torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize("fill", [
    lambda x, y: x.fill_(y), lambda x, y: x.fill_(2), lambda x, y: x.zero_(), lambda x, y: x[0].fill_(y),
], ids=["tensor", "number", "zero", "part"])
def test_a_batch_is_filled_at_once(fill, monkeypatch):
    monkeypatch.setitem(sys.modules[vmap.__module__]._loops, "refuse", True)
    xs, ys = torch.arange(24.0).reshape(2, 4, 3), torch.tensor([7.0, 8.0, 9.0])
    got = xs.clone()
    vmap(fill, in_dims=(2, 0))(got, ys)
    for k in range(3):
        fill(xs[:, :, k], ys[k])
    assert torch.equal(got, xs)


I = torch.tensor([[2, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize("call, node", [
    (lambda x, i: x.gather(0, i), "GatherBackward0"),
    (lambda x, i: x.scatter_add(-1, i, x), "ScatterAddBackward0"),
    (lambda x, i: torch.zeros(3).scatter(0, i, x), "ScatterBackward0"),
    (lambda x, i: F.embedding(i, EMBEDDED), "EmbeddingBackward0"),
], ids=["gather", "scatter_add", "scatter", "embedding"])
def test_a_batch_is_an_axis_of_a_loop(call, node):
    """One call for the batch has the history, and the values and the derivative are those of the examples."""
    x = (X / 7).requires_grad_()
    got, want = vmap(call)(x, I), torch.stack([call(a, i) for a, i in zip(x, I)])
    assert torch.equal(got, want) and got.grad_fn.name() == node
    wanted = [x, EMBEDDED]
    for a, b in zip(*[torch.autograd.grad(y.cos().sum(), wanted, allow_unused=True) for y in (got, want)]):
        assert a is b is None or torch.allclose(a, b)
