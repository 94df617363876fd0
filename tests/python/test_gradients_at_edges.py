"""Gradients where formulas divide zero by zero or overflow: finite, and torch's."""
import math

import numpy
import pytest

import cresset as torch
import cresset.nn.functional as F

INF, NAN = math.inf, math.nan


def gradients(function, *values):
    leaves = [torch.tensor(v).requires_grad_() for v in values]
    out = function(*leaves)
    torch.view_as_real(out).sum().backward() if out.is_complex() else out.sum().backward()
    return [x.grad.tolist() for x in leaves]


@pytest.mark.parametrize("function, values, want", [
    (torch.atan2, ([0.0, 1.0, 0.0], [0.0, 0.0, -2.0]), [[0.0, 0.0, -0.5], [0.0, -1.0, 0.0]]),
    (torch.atan2, ([0.0], [2.0 ** -70]), [[2.0 ** 70], [0.0]]),
    (torch.angle, ([0j, 1j],), [[0j, -1 + 0j]]),
    (torch.maximum, ([NAN, 1.0, 2.0], [1.0, 1.0, 1.0]), [[1.0, 0.5, 1.0], [1.0, 0.5, 0.0]]),
    (torch.minimum, ([NAN, 1.0, 2.0], [1.0, 1.0, 1.0]), [[1.0, 0.5, 0.0], [1.0, 0.5, 1.0]]),
    (torch.amax, ([NAN, 1.0, NAN],), [[0.5, 0.0, 0.5]]),
    (torch.max, ([NAN, 1.0],), [[1.0, 0.0]]),
    (torch.sinc, ([0.0, 0.0],), [[0.0, 0.0]]),
    (torch.nextafter, ([1.0, 1.0], [1.0, 2.0]), [[0.0, 1.0], [1.0, 0.0]]),
    (F.hardtanh, ([NAN, 0.5, 2.0],), [[0.0, 1.0, 0.0]]),
    (F.softshrink, ([NAN, 0.2, 2.0],), [[0.0, 0.0, 1.0]]),
    (lambda x: torch._safe_softmax(x, 1)[:, 0], ([[-INF, -INF], [0.0, 0.0]],), [[[0.0, 0.0], [0.25, -0.25]]]),
])
def test_gradients(function, values, want):
    assert gradients(function, *values) == want


@pytest.mark.parametrize("mask", ([[False, False], [True, True]], [[-INF, -INF], [0.0, 0.0]]))
def test_attention_without_a_key(mask):
    q = torch.randn(1, 1, 2, 2, requires_grad=True)
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=torch.tensor(mask))
    out.sum().backward()
    assert out[0, 0, 0].tolist() == [0, 0] and q.grad.isfinite().all()


@pytest.mark.parametrize("scale", (1e-25, 1.0, 1e25))
@pytest.mark.parametrize("values", (lambda a: torch.linalg.svd(a, full_matrices=False)[1], lambda a: torch.svd(a)[1],
                                    torch.linalg.svdvals, lambda a: torch.linalg.norm(a, "nuc")))
def test_singular_values_of_any_size(values, scale):
    """The derivative of the sum of the singular values is U V^H, whatever their size."""
    a = (torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]) * scale).requires_grad_()
    values(a).sum().backward()
    u, _, vh = torch.linalg.svd(a.detach(), full_matrices=False)
    assert torch.allclose(a.grad, u @ vh, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e25, 1e30, 1e-25, 1e-40])
def test_deviations_beyond_the_range_of_squares(scale):
    values = [1.0, 2.0, 4.0, -3.0]
    wide = (torch.tensor(values, dtype=torch.float64)).requires_grad_()
    x = (torch.tensor(values) * scale).requires_grad_()
    want = torch.autograd.grad(wide.std(), wide)[0]
    got = torch.autograd.grad(x.std(), x)[0]
    assert torch.allclose(got.double(), want, atol=1e-5)
    assert torch.allclose(x.std().double() / scale, wide.std(), rtol=1e-3)
    assert torch.equal(torch.std_mean(x)[0], x.std()) and torch.equal(x.reshape(2, 2).std(1), torch.stack([x[:2].std(), x[2:].std()]))


@pytest.mark.parametrize("x", [-1e-20, -1e-10, -1e-38, 1e-20])
def test_derivative_of_lgamma_beside_zero(x):
    for dtype in (torch.float32, torch.float64):
        t = torch.tensor(x, dtype=dtype, requires_grad=True)
        torch.lgamma(t).backward()
        assert math.isclose(t.grad.item(), -1 / x, rel_tol=1e-6)
        assert math.isclose(torch.polygamma(1, t.double()).item(), x ** -2, rel_tol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_bounds_equal_to_a_zero_keep_its_sign(dtype):
    x = torch.tensor([-0.0, 0.0] * 40, dtype=dtype)
    for f in (F.relu, F.relu6, lambda x: x.clamp(min=0), lambda x: x.clamp(max=0), lambda x: x.clamp(0, 1), lambda x: x.clamp(max=-0.0),
              lambda x: F.hardtanh(x, 0, 1), lambda x: x.clamp_(0), lambda x: torch.clamp(x, torch.zeros_like(x), torch.ones_like(x))):
        for run in (f, torch.compile(f)):
            got = run(x.clone())
            assert torch.signbit(got).tolist() == [True, False] * 40
    assert not torch.signbit(F.softshrink(x)).any()


def test_a_grid_of_nan():
    x = torch.arange(4.0).reshape(1, 1, 2, 2)
    grid = torch.tensor([[[[NAN, 0.0], [0.0, 0.0]]]])
    for mode, padding in (("bilinear", "zeros"), ("bicubic", "zeros"), ("bicubic", "border")):
        out = F.grid_sample(x, grid, mode, padding, align_corners=False).flatten()
        assert out[0].isnan() and not out[1].isnan()
    for mode, padding in (("bilinear", "border"), ("nearest", "zeros"), ("nearest", "reflection")):
        assert not F.grid_sample(x, grid, mode, padding, align_corners=False).isnan().any()


def test_whole_powers_of_complex_numbers_are_products():
    z = torch.tensor([1 + 1j, 2 - 1j], requires_grad=True)
    assert (z ** 2).tolist() == [2j, 3 - 4j] and (z ** 3).tolist() == [-2 + 2j, 2 - 11j] and (z ** -1)[0].item() == 0.5 - 0.5j
    for n in (2, 3):
        got, = torch.autograd.grad((z ** n).real.sum(), z)
        assert torch.allclose(got, (n * z ** (n - 1)).conj())


def test_bounds_of_rrelu():
    for bounds, text in (((0.1, INF), "upper bound must be finite, got inf"), ((NAN, 1.0), "lower bound must be finite, got nan"),
                         ((0.5, 0.1), "Lower bound should be less than or equal to the upper bound")):
        with pytest.raises(RuntimeError, match=text):
            F.rrelu(torch.ones(2), *bounds, training=True)
    a = torch.tensor([3.0, 1.0, 2.0])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.kthvalue(a, 2, out=(a, torch.empty((), dtype=torch.long)))


def second(function, *values):
    """The second derivatives of the sum, for a sum of the first ones."""
    leaves = [torch.tensor(v).requires_grad_() for v in values]
    first = torch.autograd.grad(function(*leaves).sum(), leaves, create_graph=True)
    return [x.tolist() for x in torch.autograd.grad(sum(g.sum() for g in first), leaves)]


@pytest.mark.parametrize("function, values, want", [
    (torch.special.i1e, ([0.0],), [[0.0]]),
    (torch.special.i1, ([0.0],), [[0.0]]),
    (lambda x: x ** torch.tensor([0.0, 2.0]), ([0.0, 0.0],), [[0.0, 2.0]]),
    (F.binary_cross_entropy, ([0.0, 1.0], [0.0, 1.0]), None),
])
def test_second_derivatives(function, values, want):
    if want is None:  # 1 / 2 each, from -log(1 - x) and -log(x)
        x, target = torch.tensor(values[0], requires_grad=True), torch.tensor(values[1])
        first, = torch.autograd.grad(function(x, target), x, create_graph=True)
        assert torch.autograd.grad(first.sum(), x)[0].tolist() == pytest.approx([0.5, 0.5], rel=1e-3)
    else:
        assert second(function, *values) == [pytest.approx(w) for w in want]


@pytest.mark.parametrize("function, x", [
    (lambda x: x ** torch.tensor([0.0, 2.0, 0.0]), [0.0, 0.0, 3.0]), (lambda x: 0.0 ** x, [0.0, 1.0, 2.0]),
    (lambda x: torch.pow(torch.tensor([0.0, 0.0, 2.0]), x), [0.0, 1.0, 0.0]), (lambda x: torch.atan2(x, x), [0.0, 1.0, -1.0]),
    (torch.special.i1e, [0.0, 1.0, -1.0]), (torch.special.entr, [0.5, 1.0, 2.0]), (torch.sinc, [0.0, 0.5, 1.0]),
    (lambda x: torch.sgn(torch.complex(x, x)).real, [0.0, 1.0, -1.0]), (torch.abs, [0.0, 1.0, -1.0])])
def test_tangents_at_edges_are_those_of_cotangents(function, x):
    """Functions of single elements: the derivative is one number, forward and backward."""
    x = torch.tensor(x)
    tangent = torch.func.jvp(function, (x,), (torch.ones(3),))[1]
    cotangent = torch.func.vjp(function, x)[1](torch.ones(3))[0]
    assert tangent.isfinite().all() and torch.allclose(tangent, cotangent)


def test_complex_powers_of_exponent_zero_are_one():
    bases = torch.tensor([0j, complex(NAN, 1), complex(INF, 0), complex(-0.0, 0), 2 + 1j])
    for dtype in (torch.complex64, torch.complex128):
        x = bases.to(dtype)
        for exponent in (0, 0.0, 0j, torch.zeros(5), torch.zeros(5, dtype=dtype), torch.tensor(0)):
            assert torch.pow(x, exponent).tolist() == [1] * 5
        assert torch.pow(0j, torch.zeros(2, dtype=dtype)).tolist() == [1, 1]


BASES = {"real": [-2.0, -0.5, 0.5, 3.0], "complex": [-2.0, -0.5j, 0.5 + 1j, 3.0], "int": [2, 3, 1, 5]}
EXPONENTS = {"real": [2.0, -1.0, 0.5, 3.0], "complex": [1.5 - 1j, 2.0 + 0.5j, -1j, 0.25]}


@pytest.mark.parametrize("function", (torch.pow, torch.float_power))
@pytest.mark.parametrize("base, exponent", [("real", "complex"), ("complex", "real"), ("complex", "complex"), ("int", "real"),
                                            ("int", "complex")])
def test_powers_of_mixed_kinds(function, base, exponent):
    """The logarithm of a negative base is complex where the result is; of an integer it has the result's digits."""
    kinds = {"real": torch.float64, "complex": torch.complex128, "int": torch.int64}
    x = torch.tensor(BASES[base], dtype=kinds[base]).requires_grad_(base != "int")
    p = torch.tensor(EXPONENTS[exponent], dtype=kinds[exponent]).requires_grad_()
    out = function(x, p)
    (torch.view_as_real(out)[:, 0].sum() if out.is_complex() else out.sum()).backward()
    b, e = x.detach().numpy().astype(complex), p.detach().numpy().astype(complex)
    for leaf, want in ((x, e * b ** (e - 1)), (p, b ** e * numpy.log(b))):
        if leaf.requires_grad:
            want = want.conj() if leaf.is_complex() else want.real
            numpy.testing.assert_allclose(leaf.grad.numpy(), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("function, slope", [(F.hardtanh, 0.0), (F.hardshrink, 0.0), (F.softshrink, 0.0), (F.elu, 1.0),
                                             (F.celu, 1.0), (F.hardswish, 1.0)])
@pytest.mark.parametrize("n", [1, 9, 40])
def test_the_gradient_at_nan_is_the_same_at_every_place(function, slope, n):
    """Elements of one vector and those left over, where torch's differ."""
    x = torch.full((n,), NAN, requires_grad=True)
    function(x).sum().backward()
    assert x.grad.tolist() == [slope] * n


def test_the_gradient_of_a_product_with_zeros_is_no_nan_where_others_overflow():
    x = torch.tensor([[1e13, 0.0, 0.0], [1e13, 1e13, 0.0], [1e13, 1e13, 1e13]])
    assert not torch.func.grad(torch.prod)(x).any()
    y = torch.tensor([1e30, 1e30, 0.0, 1e30, 0.0, 1e30], requires_grad=True)
    y.prod().backward()
    assert y.grad.tolist() == [0.0] * 6
    z = torch.tensor([2.0, 0.0, INF, 0.0], requires_grad=True)
    z.prod(0).backward()
    assert z.grad.isnan().tolist() == [True, True, False, True]


@pytest.mark.parametrize("matrix, cofactors", [
    ([[1., 2.], [2., 4.]], [[4., -2.], [-2., 1.]]),
    ([[1., 2., 3.], [2., 4., 6.], [1., 0., 1.]], [[4., 4., -4.], [-2., -2., 2.], [0., 0., 0.]]),
    ([[0., 0.], [0., 3.]], [[3., 0.], [0., 0.]]), ([[0., 0.], [0., 0.]], [[0., 0.], [0., 0.]]), ([[0.]], [[1.]])])
@pytest.mark.parametrize("create_graph", (False, True))
def test_determinants_of_singular_matrices(matrix, cofactors, create_graph):
    """The gradient of a determinant is the matrix of cofactors, also where the determinant is 0."""
    x = torch.tensor(matrix, dtype=torch.float64)
    y = torch.stack([x, torch.eye(len(x), dtype=torch.float64)]).requires_grad_()
    (got,) = torch.autograd.grad(torch.det(y).sum(), y, create_graph=create_graph)
    expected = torch.tensor(cofactors, dtype=torch.float64)
    assert torch.allclose(got[0].detach(), expected)
    assert torch.equal(got[1].detach(), torch.eye(len(x), dtype=torch.float64))
    assert torch.allclose(torch.func.jacrev(torch.linalg.det)(x), expected)
    assert torch.allclose(torch.func.jacfwd(torch.linalg.det)(x), expected)


SINGULAR = ([[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]],
            [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]], [[1e-3, 2e-3], [3.0, 4.0]], [[2.0, 1.0], [1.0, 3.0]])


def cofactors(a):
    """The derivative of the determinant, by minors: differentiable everywhere."""
    n = a.shape[0]

    def minor(m):
        if m.shape[0] == 0:
            return torch.ones((), dtype=m.dtype)
        first = m[0]
        rest = [minor(torch.cat([m[1:, :j], m[1:, j + 1:]], 1)) for j in range(m.shape[0])]
        return sum((-1) ** j * first[j] * rest[j] for j in range(m.shape[0]))
    return torch.stack([torch.stack([(-1) ** (i + j) * minor(torch.cat([torch.cat([a[:i, :j], a[:i, j + 1:]], 1),
                                                                        torch.cat([a[i + 1:, :j], a[i + 1:, j + 1:]], 1)], 0))
                                     for j in range(n)]) for i in range(n)])


@pytest.mark.parametrize("dtype, error", [("float64", 1e-6), ("complex128", 1e-6), ("float32", 2e-2)])
@pytest.mark.parametrize("rows", SINGULAR)
def test_second_gradients_of_determinants(rows, dtype, error):
    a = torch.tensor(rows, dtype=getattr(torch, dtype))
    if a.is_complex():
        a = a * (1 + 0.5j)
    weights = torch.arange(1., a.numel() + 1).reshape(a.shape).to(a.dtype)

    def second(first):
        x = a.clone().requires_grad_(True)
        return torch.autograd.grad((first(x) * weights).real.sum(), x)[0]

    def slope(x):
        return torch.autograd.grad(torch.linalg.det(x).real if x.is_complex() else torch.linalg.det(x), x, create_graph=True)[0]
    want = second(lambda x: cofactors(x).conj() if x.is_complex() else cofactors(x))
    assert torch.allclose(second(slope), want, rtol=error, atol=error)


@pytest.mark.parametrize("dtype, error", [("float64", 1e-12), ("float32", 1e-5), ("complex128", 1e-12)])
def test_higher_derivatives_of_sinc(dtype, error):
    """Beside the series at 0, and on both sides of the place where the closed form takes over."""
    pi = 3.141592653589793
    points = [0.0, 1e-30, 1e-12, 1e-4, 0.05, 1 / pi - 1e-4, 1 / pi + 1e-4]
    x = torch.tensor(points, dtype=getattr(torch, dtype), requires_grad=True)
    first, = torch.autograd.grad(torch.sinc(x).sum(), x, torch.ones((), dtype=x.dtype), create_graph=True)
    second, = torch.autograd.grad(first.sum(), x, torch.ones((), dtype=x.dtype))
    for p, a, b in zip(points, first, second):
        s = (pi * p) ** 2
        slope = pi * pi * p * (-1 / 3 + s / 30 - s**2 / 840 + s**3 / 45360 - s**4 / 3991680 + s**5 / 518918400 - s**6 / 93405312000)
        curve = pi * pi * (-1 / 3 + s / 10 - s**2 / 168 + s**3 / 6480 - s**4 / 443520 + s**5 / 47174400 - s**6 / 7185024000)
        assert abs(a - slope) <= error * (abs(slope) + 1e-300) and abs(b - curve) <= error * 10 * abs(curve)
