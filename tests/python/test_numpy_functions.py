"""NumPy's functions on wrapped tensors: values, dtypes, shapes, kinds of results and errors are NumPy's."""
import warnings

import numpy as np
import pytest

from cresset._numpy.array import enter, in_numpy, leave, ndarray
from cresset._numpy.convert import COMPUTED
from cresset._numpy.functions import FUNCTIONS
from cresset._numpy.ufuncs import CALLS

pytestmark = pytest.mark.filterwarnings("ignore")
DTYPES = list(COMPUTED)


def sample(dtype, *shape, seed=0):
    n = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "ui":
        return rng.integers(0 if dtype.kind == "u" else -5, 9, shape).astype(dtype)
    x = rng.standard_normal(n).reshape(shape) * 2
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(n).reshape(shape)
    return x.astype(dtype)


def apply(x, change):
    if isinstance(x, np.ndarray):
        return change(x)
    if type(x) in (list, tuple):
        return type(x)(apply(item, change) for item in x)
    return x


def outcome(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            return error


def tolerance(dtype):
    return {2: 2e-3, 4: 3e-6, 8: 1e-13, 16: 1e-13}[dtype.itemsize if dtype.kind != "c" else dtype.itemsize // 2]


def same(got, expected, loose=1):
    """Asserts that two results have one kind, dtype, shape and values."""
    if isinstance(expected, Exception):
        assert isinstance(got, Exception), f"no {type(expected).__name__}: {expected}, but {got!r}"
        assert type(got).__mro__[0].__name__ == type(expected).__name__ or isinstance(got, type(expected)), (got, expected)
        return
    if isinstance(got, Exception):
        raise got
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected) and isinstance(got, (tuple, list))
        for a, b in zip(got, expected):
            same(a, b, loose)
        return
    got = leave(got)
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert got == expected and isinstance(got, type(expected)), (got, expected)
        return
    assert type(got) is type(expected), (type(got), type(expected))
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got.dtype, got.shape, expected.dtype, expected.shape)
    if expected.dtype.kind in "fc":
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0) if expected.size else 0
        rtol = tolerance(expected.dtype) * loose
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * max(float(scale), 1e-30), equal_nan=True)
    else:
        np.testing.assert_array_equal(got, expected)


def both(call, *args, loose=1):
    """Calls with wrapped copies of the arrays, and with the arrays; returns whether operators computed."""
    before = sum(in_numpy.values())
    got = outcome(lambda: call(*apply(args, lambda a: enter(a.copy()))))
    inside = sum(in_numpy.values()) == before
    same(got, outcome(lambda: call(*apply(args, np.copy))), loose)
    return inside


UFUNCS = sorted({getattr(np, n).__name__: getattr(np, n) for n in np.__all__ if isinstance(getattr(np, n), np.ufunc)}.items())
# Ufuncs that have no operator and run in NumPy.
NO_OPERATOR = {"isnat", "spacing", "bitwise_count"}
PRODUCTS = ("matmul", "matvec", "vecmat", "vecdot")


def test_every_ufunc_has_an_operator_or_is_listed():
    assert {name for name, _ in UFUNCS} - set(CALLS) == NO_OPERATOR


def operands(ufunc, name, kinds):
    shapes = {"matmul": ((2, 3), (3, 2)), "matvec": ((2, 3), (3,)), "vecmat": ((3,), (3, 2)), "vecdot": ((2, 3), (3,))}.get(
        name, ((2, 3), (3,)) if ufunc.nin == 2 else ((2, 3),))
    out = [sample(d, *shape, seed=i) for i, (d, shape) in enumerate(zip(kinds, shapes))]
    if name in ("power", "float_power") and kinds[1].kind in "iu":
        out[1] = np.abs(out[1])
    return out


@pytest.mark.parametrize("name, ufunc", UFUNCS)
def test_ufuncs(name, ufunc):
    inside = []
    for kinds in ([(d,) for d in DTYPES] if ufunc.nin == 1 else [(a, b) for a in DTYPES for b in DTYPES]):
        inside.append(both(ufunc, *operands(ufunc, name, kinds), loose=4))
    if name not in NO_OPERATOR:
        assert any(inside)


@pytest.mark.parametrize("name, ufunc", [u for u in UFUNCS if u[1].nin == 2 and u[0] not in PRODUCTS])
def test_numbers_are_weak(name, ufunc):
    for dtype in DTYPES:
        a = sample(dtype, 4)
        for number in (2, 1.5, True, np.float32(1.5), np.int8(3), 2j):
            both(lambda x: ufunc(x, number), a, loose=4)
            both(lambda x: ufunc(number, np.abs(x) if dtype.kind in "iu" else x), a, loose=4)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "fmax", "subtract"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_methods_of_ufuncs(name, dtype):
    u, a, b = getattr(np, name), sample(dtype, 3, 4), sample(dtype, 2)
    for call in (lambda x: u.reduce(x), lambda x: u.reduce(x, axis=1, keepdims=True), lambda x: u.reduce(x, axis=None),
                 lambda x: u.reduce(x, axis=()), lambda x: u.accumulate(x, axis=1), lambda x: u.outer(x, b),
                 lambda x: u.reduce(x, axis=1, initial=1), lambda x: u.reduce(x, axis=0, where=sample(np.dtype(bool), 3, 4)),
                 lambda x: u.reduce(x[:0])):
        both(call, a, loose=4)


def test_results_go_where_out_says():
    a, b = sample(np.dtype("f8"), 3), sample(np.dtype("f4"), 3)

    def into(x, y):
        out = np.zeros_like(x)
        got = np.add(x, y, out=out, where=y > 0)
        assert got is out
        x *= 2
        x[1:] += y[1:]
        return out, x
    both(into, a, b)
    both(lambda x: np.add(x, 1.5, out=x), np.arange(3))
    both(lambda x: x.__itruediv__(2), np.arange(3))
    real = np.zeros(3)
    assert np.add(enter(a), 1, out=real) is real and np.array_equal(real, a + 1)


# --- functions: name -> calls of arrays by dtype ---

A, V, M, S, C = (lambda d: sample(d, 3, 4)), (lambda d: sample(d, 7)), (lambda d: sample(d, 3, 3)), (lambda d: sample(d, 2, 3, 4)), \
    (lambda d: sample(np.dtype(bool), 3, 4))
FLOATS = [np.dtype(x) for x in ("f4", "f8")]
REALS = [d for d in DTYPES if d.kind != "c"]
INEXACT = [d for d in DTYPES if d.kind in "fc" and d != np.float16]
BOTH = [*FLOATS, np.dtype("i8"), np.dtype("i4")]


def nans(d):
    a = A(d)
    if d.kind in "fc":
        a[1, 2] = a[0] = np.nan
    return a


def axes(f, **more):
    return [lambda x, k=k: f(x, **k, **more) for k in ({}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True})]


def pairs(*calls, kinds=DTYPES, make=A):
    return [(call, make, kinds) for call in calls]


CASES = {}
for _n in ("sum", "prod", "max", "amax", "min", "amin", "any", "all", "mean", "std", "var", "argmax", "argmin", "count_nonzero", "ptp"):
    CASES[_n] = pairs(*axes(getattr(np, _n)))
for _n in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"):
    CASES[_n] = pairs(*axes(getattr(np, _n)), make=nans)
for _n in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
    CASES[_n] = pairs(lambda x, f=getattr(np, _n): (f(x), f(x, axis=0), f(x, axis=1, dtype=np.float64)))
CASES |= {
    "cumulative_sum": pairs(lambda x: (np.cumulative_sum(x, axis=1), np.cumulative_sum(x, axis=0, include_initial=True))),
    "cumulative_prod": pairs(lambda x: np.cumulative_prod(x, axis=1, include_initial=True)),
    "average": pairs(lambda x: (np.average(x), np.average(x, axis=1, weights=[1, 2, 3, 4.]), np.average(x, weights=np.abs(x) + 1))),
    "median": pairs(*axes(np.median), lambda x: np.median(x[:, :3], axis=(0, 1)), make=nans),
    "quantile": pairs(*axes(np.quantile, q=0.3), lambda x: np.quantile(x, [0.1, 0.5, 1.], axis=1), kinds=FLOATS),
    "percentile": pairs(lambda x: np.percentile(x, [25, 75]), lambda x: np.percentile(x, 101), kinds=FLOATS),
    "reshape": pairs(lambda x: (np.reshape(x, (2, -1)), x.reshape(4, 3), x.reshape((6, 2), order="F"), x.reshape(-1)),
                     lambda x: x.reshape(5, 2)),
    "ravel": pairs(lambda x: (x.ravel(), np.ravel(x, "F"), x.flatten())),
    "transpose": pairs(lambda x: (x.T, np.transpose(x, (1, 0)), x.transpose(1, 0), x.mT, np.permute_dims(x, (1, 0))),
                       lambda x: np.transpose(x, (0, 0))),
    "swapaxes": pairs(lambda x: (x.swapaxes(0, 2), np.swapaxes(x, 1, -1)), lambda x: x.swapaxes(0, 7), make=S),
    "moveaxis": pairs(lambda x: (np.moveaxis(x, 0, -1), np.moveaxis(x, (0, 1), (2, 0))), make=S),
    "rollaxis": pairs(lambda x: (np.rollaxis(x, 2), np.rollaxis(x, 0, 2), np.rollaxis(x, 1, 3)), make=S),
    "expand_dims": pairs(lambda x: (np.expand_dims(x, 0), np.expand_dims(x, (0, -1)))),
    "squeeze": pairs(lambda x: (x[:, None].squeeze(), np.squeeze(x[None], 0)), lambda x: x.squeeze(1)),
    "broadcast_to": pairs(lambda x: np.broadcast_to(x, (2, 3, 4))),
    "broadcast_arrays": pairs(lambda x: np.broadcast_arrays(x, x[0])),
    "atleast_1d": pairs(lambda x: (np.atleast_1d(x), np.atleast_1d(x.sum()), np.atleast_2d(x[0]), np.atleast_3d(x), np.atleast_3d(x[0]))),
    "flip": pairs(lambda x: (np.flip(x), np.flip(x, 1), np.fliplr(x), np.flipud(x), np.rot90(x), np.rot90(x, 3))),
    "roll": pairs(lambda x: (np.roll(x, 2), np.roll(x, -1, axis=1), np.roll(x, (1, 2), axis=(0, 1)))),
    "tile": pairs(lambda x: (np.tile(x, 2), np.tile(x, (2, 1, 2)))),
    "repeat": pairs(lambda x: (np.repeat(x, 2), x.repeat(2, axis=1), np.repeat(x, [1, 0, 2], axis=0))),
    "concatenate": pairs(lambda x: (np.concatenate([x, x]), np.concatenate((x, x.astype(float)), axis=1), np.concat([x, x], axis=None)),
                         lambda x: np.concatenate([x, x.T])),
    "stack": pairs(lambda x: (np.stack([x, x]), np.stack([x, x], axis=-1), np.vstack([x, x[0]]), np.hstack([x, x]), np.hstack([x[0], x[1]]),
                              np.dstack([x, x]), np.column_stack([x[0], x[1]])), lambda x: np.stack([x, x[0]])),
    "split": pairs(lambda x: (np.split(x, 2, axis=1), np.array_split(x, 2), np.hsplit(x, [1, 3]), np.vsplit(x, 3)),
                   lambda x: np.split(x, 2)),
    "unstack": pairs(lambda x: (np.unstack(x), np.unstack(x, axis=1))),
    "append": pairs(lambda x: (np.append(x, x[0]), np.append(x, x, axis=0))),
    "pad": pairs(lambda x: [np.pad(x, 2, mode=m) for m in ("constant", "edge", "reflect", "symmetric", "wrap")],
                 lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3)),
    "copy": pairs(lambda x: (np.copy(x), x.copy())),
    "diag": pairs(lambda x: (np.diag(x), np.diag(x, 1), np.diag(x[0]), np.diagflat(x[0], -1), x.diagonal(), np.diagonal(x, 1), x.trace(),
                             np.trace(x, 1))),
    "tril": pairs(lambda x: (np.tril(x), np.triu(x, 1))),
    "meshgrid": pairs(lambda x: (np.meshgrid(x, x[:2]), np.meshgrid(x, x[:2], indexing="ij"), np.meshgrid(x)), make=V),
    "zeros_like": pairs(lambda x: (np.zeros_like(x), np.ones_like(x, dtype=np.float32), np.full_like(x, 1), np.zeros_like(x, shape=(2,)),
                                   np.empty_like(x).shape)),
    "where": pairs(lambda x: (np.where(x > 0, x, 0), np.where(x != 0, x, x.astype(float)), np.where(x[0] != 0)), kinds=REALS),
    "nonzero": pairs(lambda x: (x.nonzero(), np.argwhere(x), np.flatnonzero(x))),
    "take": pairs(lambda x: (np.take(x, [0, 3]), x.take([2, 0], axis=1), np.take(x, 5), np.take(x, [-1, 9], axis=0, mode="clip"),
                             np.take(x, [4], axis=0, mode="wrap")), lambda x: np.take(x, [9], axis=0)),
    "take_along_axis": pairs(lambda x: np.take_along_axis(x, np.argsort(x.real, axis=1), axis=1)),
    "compress": pairs(lambda x: (np.compress([True, False, True], x, axis=0), x.compress([1, 0, 1]), np.extract(x != 0, x))),
    "select": pairs(lambda x: np.select([x > 2, x < 0], [x, x * 2], 7), kinds=REALS),
    "sort": pairs(lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None), np.argsort(x, axis=1, kind="stable"),
                             np.partition(x, 2)[..., 2]), kinds=REALS),
    "searchsorted": pairs(lambda x: (np.searchsorted(np.sort(x), x), np.sort(x).searchsorted([1, 2], side="right"),
                                     np.digitize(x, [-1, 0, 2])), make=V, kinds=REALS),
    "bincount": pairs(lambda x: (np.bincount(np.abs(x)), np.bincount(np.abs(x), minlength=20), np.bincount(np.abs(x), weights=x * .5)),
                      make=V, kinds=[np.dtype("i8"), np.dtype("u1")]),
    "unique": pairs(lambda x: (np.unique(x), np.unique(x, return_counts=True), np.unique(x, return_inverse=True)), kinds=REALS),
    "isin": pairs(lambda x: (np.isin(x, [1, 2]), np.isin(x, x[0], invert=True)), kinds=BOTH),
    "round": pairs(lambda x: (np.round(x), x.round(2), np.around(x, 1), np.fix(x)), kinds=FLOATS),
    "clip": pairs(lambda x: (np.clip(x, 0, 2), x.clip(1), np.clip(x, None, 3), x.clip(max=1), np.clip(x, x[0], 5)), kinds=REALS),
    "real": pairs(lambda x: (np.real(x), np.imag(x), x.real, x.imag, np.angle(x), np.conj(x), x.conj(), np.iscomplex(x), np.isreal(x),
                             np.iscomplexobj(x), np.isrealobj(x))),
    "nan_to_num": pairs(lambda x: np.nan_to_num(x), make=nans),
    "isclose": pairs(lambda x: (np.isclose(x, x + 1e-9), np.allclose(x, x), np.array_equal(x, x), np.array_equal(x, x[0]),
                                np.array_equiv(x, x[:1])), kinds=BOTH),
    "isposinf": pairs(lambda x: (np.isposinf(x), np.isneginf(x), np.sinc(x), np.i0(x)), kinds=FLOATS),
    "diff": pairs(lambda x: (np.diff(x), np.diff(x, 2, axis=0), np.diff(x, prepend=0), np.ediff1d(x))),
    "gradient": pairs(lambda x: (np.gradient(x), np.gradient(x, 2., axis=1), np.gradient(x, 1., 3.)), kinds=BOTH),
    "trapezoid": pairs(lambda x: (np.trapezoid(x), np.trapezoid(x, dx=.5, axis=0), np.trapezoid(x, [0, 1, 3, 4])), kinds=BOTH),
    "interp": pairs(lambda x: (np.interp(x, [-1, 0, 2], [3, 1, 4.]), np.interp([.5, 9], np.sort(x), x, left=-1)), make=V, kinds=BOTH),
    "unwrap": pairs(lambda x: np.unwrap(x * 3), make=V, kinds=FLOATS),
    "polyval": pairs(lambda x: (np.polyval([1, 2, 3], x), np.polyval(x, 2), np.vander(x, 3), np.vander(x, 3, True)), make=V, kinds=BOTH),
    "cross": pairs(lambda x: (np.cross(x, x[0] + 1), np.linalg.cross(x, x[::-1])), make=M, kinds=BOTH),
    "dot": pairs(lambda x: (x @ x.T, np.dot(x, x.T), x.dot(x[0]), np.vdot(x, x), np.inner(x, x), np.outer(x, x[0]), np.kron(x, x[:2]),
                            np.tensordot(x, x, axes=([0], [0])), np.matmul(x[0], x[1]), np.dot(x, 2), np.dot(x[None], x.T)),
                 lambda x: x @ x),
    "einsum": pairs(lambda x: (np.einsum("ij,kj->ik", x, x), np.einsum("ij->j", x), np.einsum("ij,ij->", x, x)),
                    kinds=[d for d in DTYPES if d != bool]),
    "convolve": pairs(lambda x: [np.convolve(x, [1, 2, 3], m) for m in ("full", "same", "valid")] + [np.convolve([1, 2], x)],
                      make=V, kinds=[d for d in DTYPES if d != np.float16]),
    "correlate": pairs(lambda x: [np.correlate(x, [1, 2, 3], m) for m in ("full", "same", "valid")] + [np.correlate(x, x[:4], "same")],
                       make=V, kinds=[d for d in DTYPES if d != np.float16]),
    "cov": pairs(lambda x: (np.cov(x), np.cov(x, rowvar=False, bias=True), np.cov(x[0]), np.corrcoef(x)), kinds=[*BOTH, np.dtype("c16")]),
    "shape": pairs(lambda x: (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1), x.shape, x.ndim, x.size, x.itemsize, x.nbytes, len(x),
                              x.strides, x.dtype)),
    "result_type": pairs(lambda x: (str(np.result_type(x, np.float32)), np.can_cast(x.dtype, np.float64))),
    "apply_along_axis": pairs(lambda x: (np.apply_along_axis(np.sum, 0, x), np.apply_along_axis(lambda r: r[:2] * 2, 1, x)), kinds=BOTH),
    "linspace": pairs(lambda x: (np.linspace(x, x + 1, 5), np.linspace(0, x, 3, endpoint=False), np.linspace(x, 1, 4, axis=-1)),
                      make=V, kinds=FLOATS),
    "linalg.norm": pairs(lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, 1, axis=0), np.linalg.norm(x, np.inf),
                                    np.linalg.norm(x, "fro", axis=(0, 1)), np.linalg.norm(x, axis=0, keepdims=True),
                                    np.linalg.norm(x, 2), np.linalg.vector_norm(x, axis=1), np.linalg.matrix_norm(x)), kinds=BOTH),
    "linalg.det": pairs(lambda x: (np.linalg.det(x), np.linalg.inv(x), np.linalg.slogdet(x), np.linalg.matrix_rank(x), np.linalg.cond(x),
                                   np.linalg.matrix_power(x, 3), np.linalg.trace(x), np.linalg.diagonal(x)),
                        lambda x: np.linalg.inv(x * 0), lambda x: np.linalg.det(x[0]), lambda x: np.linalg.inv(x[:2]),
                        make=M, kinds=[np.dtype("f8"), np.dtype("c16"), np.dtype("i8")]),
    "linalg.solve": pairs(lambda x: (np.linalg.solve(x, x[0]), np.linalg.solve(x, x), np.linalg.lstsq(x, x[0]), np.linalg.pinv(x),
                                     np.linalg.multi_dot([x, x, x])), make=M, kinds=[np.dtype("f8"), np.dtype("i8")]),
    "linalg.cholesky": pairs(lambda x: (np.linalg.cholesky(x @ x.T + 3 * np.eye(3)), np.linalg.eigvalsh(x @ x.T), np.linalg.svdvals(x),
                                        np.linalg.svd(x, compute_uv=False), abs(np.linalg.qr(x)[1]), abs(np.linalg.eigh(x @ x.T)[1]),
                                        np.linalg.eigh(x @ x.T).eigenvalues, np.sort(np.linalg.eigvals(x @ x.T))),
                             lambda x: np.linalg.cholesky(-x @ x.T), make=M, kinds=[np.dtype("f8")]),
    "fft.fft": pairs(*[lambda x, f=getattr(np.fft, n): (f(x), f(x, 6), f(x, axis=0, norm="ortho")) for n in ("fft", "ifft")],
                     *[lambda x, f=getattr(np.fft, n): (f(x), f(x, (4, 4)), f(x, axes=(0, 1), norm="forward"))
                       for n in ("fft2", "ifft2", "fftn", "ifftn")],
                     lambda x: (np.fft.irfft(x), np.fft.hfft(x), np.fft.irfftn(x), np.fft.fftshift(x), np.fft.ifftshift(x, axes=1)),
                     kinds=[d for d in DTYPES if d != np.float16]),
    "fft.rfft": pairs(lambda x: (np.fft.rfft(x), np.fft.ihfft(x), np.fft.rfft2(x), np.fft.rfftn(x)),
                      kinds=[d for d in REALS if d != np.float16]),
    "astype": pairs(lambda x: (x.astype(np.float32), x.astype("i4"), x.astype(bool), x.astype(complex), x.astype(x.dtype, copy=False))),
    "items": pairs(lambda x: (x[0], x[1, 2], x[..., 1], x[:, None], x[1:, ::2], x[-1], x[::-1], x[:, ::-2], x[1, ::-1], x[[0, 2]], x[[0, 1], [2, 3]],
                              x[x != 0], x[:, [True, False, True, True]], x[np.array([2, 0])], x[1][2], x[()], x[0, [1, 2]], x[[1, 2], 0],
                              x[:0], x[2:1:-1], x[np.argmax(x[0] != 0) * 0 + 1], x[-3:-1])),
    "items of three dims": pairs(lambda x: (x[0, :, [1, 2]], x[:, 0, [1, 2]], x[0, 1], x[..., [0, 1]], x[:, :, None, 0], x[1, ..., ::-1],
                                            x[x[:, :, 0] != 0], x[0, x[0, :, 0] != 0], x[[0, 1], :, [2, 3]], x[:, x[0, :, 0] == 0, 1],
                                            x[np.int64(1)], x[[[0, 1], [1, 0]], 0]), make=S),
    "wrong items": pairs(lambda x: x[5], lambda x: x[0, 0, 0], lambda x: x[..., 0, ...], lambda x: x[[0, 9]], lambda x: x["a"], lambda x: x[1.5],
                         lambda x: x[[True, False]], kinds=FLOATS),
    "iteration": pairs(lambda x: ([r.sum() for r in x], [v for v in x[0]], list(map(len, x)), x.tolist(), x[0, 0].item(), 1 in x),
                       lambda x: len(x[0, 0]), lambda x: bool(x), lambda x: iter(x[0, 0]), kinds=BOTH),
    "numbers": pairs(lambda x: (int(x[0, 0].real), float(x[0, 0]), bool(x[0, 0]), complex(x[0, 0]), [10, 11, 12, 13, 14, 15, 16, 17, 18, 19][abs(
        int(x[0, 0]))], round(x[0, 0], 1), f"{x[0, 0]:.1f}", str(x), repr(x), repr(x[0, 0])), kinds=BOTH),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name):
    inside = [both(call, make(dtype), loose=30) for call, make, kinds in CASES[name] for dtype in kinds]
    assert sum(inside) or name in ("numbers", "wrong items")


def change(x, *steps):
    for step in steps:
        step(x)
    return x


WRITES = {
    "items": lambda x: x.__setitem__(0, 7), "rows": lambda x: x.__setitem__((slice(1, None), 2), [1, 2]),
    "floats into ints": lambda x: x.__setitem__((0, 0), 2.7), "lists": lambda x: x.__setitem__([0, 2], [[1, 2, 3, 0]]),
    "masks": lambda x: x.__setitem__(x > 1, 0), "reversed": lambda x: x.__setitem__((slice(None, None, -1), slice(None)), x.copy()),
    "row of a reversed copy": lambda x: x.__setitem__((0, slice(None, None, -1)), np.arange(4)),
    "beyond": lambda x: x.__setitem__(0, 300), "too many": lambda x: x.__setitem__(0, [1, 2, 3]),
    "view": lambda x: x[1].__setitem__(slice(None), 5), "transposed": lambda x: x.T.__setitem__(0, 9), "reshaped": lambda x: x.reshape(-1).fill(2),
    "sort": lambda x: x.sort(axis=0), "fill": lambda x: x.fill(3), "put": lambda x: x.put([0, 5], [8, 9]), "copyto": lambda x: np.copyto(x, x[0]),
    "diagonal": lambda x: np.fill_diagonal(x, 1), "add at": lambda x: np.add.at(x, ([0, 0], [1, 1]), 2), "iadd": lambda x: x.__iadd__(x[0]),
    "imul of another dtype": lambda x: x.__imul__(1.5), "augmented item": lambda x: x.__setitem__(1, x[1] + 1),
    "putmask": lambda x: np.putmask(x, x > 0, 4), "partition": lambda x: x[0].sort(), "shape": lambda x: setattr(x, "shape", (4, 3)),
    "flat": lambda x: x.flat.__setitem__(3, 6), "np.put": lambda x: np.put(x, [1], [3]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    for dtype in (np.dtype("i8"), np.dtype("f4"), np.dtype("u1")):
        both(lambda x: change(x, WRITES[name]), A(dtype))


def test_a_reversed_view_follows_its_base_and_is_not_written():
    x = enter(np.arange(6.).reshape(2, 3))
    back = x[:, ::-1]
    first = back[0]
    x[0] = [7., 8., 9.]
    assert leave(back).tolist() == [[9., 8., 7.], [5., 4., 3.]] and leave(first).tolist() == [9., 8., 7.]
    with pytest.raises(ValueError, match="cannot be written here: copy it first"):
        back[0] = 1
    with pytest.raises(ValueError, match="copy it first"):
        first += 1
    copied = back.copy()
    copied[0] = 1
    assert leave(copied)[0].tolist() == [1., 1., 1.] and leave(x)[0].tolist() == [7., 8., 9.]


def test_memory_is_shared_with_the_array_that_entered():
    real = np.zeros((2, 3))
    x = enter(real)
    x[1] += 2
    x.T[0] = 1
    assert real.tolist() == [[1., 0., 0.], [1., 2., 2.]] and np.shares_memory(leave(x), real)


def test_other_arrays_stay_numpys():
    for a in (np.array(["a"]), np.array([1, None]), np.zeros(2, "u4"), np.zeros(2, ">f8"), np.ma.zeros(2), np.zeros(2, "datetime64[s]")):
        assert enter(a) is a
    assert type(enter(np.zeros(2))) is ndarray and isinstance(enter(np.zeros(2)), np.ndarray)


def test_unknown_functions_run_in_numpy_and_are_counted():
    x = enter(np.array([3., 1., 2.]))
    before = in_numpy["numpy.histogram"]
    counts, edges = np.histogram(x, 2)
    assert leave(counts).tolist() == [1, 2] and leave(edges).tolist() == [1., 2., 3.] and type(counts) is ndarray
    assert in_numpy["numpy.histogram"] == before + 1


def test_every_composition_is_a_function_of_numpy():
    for name in FUNCTIONS:
        holder, _, last = name.rpartition(".")
        assert callable(getattr(getattr(np, holder) if holder else np, last)), name


def test_every_name_of_numpy_has_a_place():
    from collections import Counter
    from cresset._numpy.names import names, where_it_runs
    counts = Counter(map(where_it_runs, names()))
    assert set(counts) == {"operator", "composition", "NumPy", "no arrays"}
    assert counts["operator"] >= 100 and counts["composition"] >= 190  # ufuncs under all their names; functions


# Functions without a composition, called with wrapped arrays; the rest of them takes no arrays of numbers, or writes files.
IN_NUMPY = [
    lambda x: np.histogram(x, 3), lambda x: np.histogram2d(x, x, 2), lambda x: np.histogram_bin_edges(x, 3), lambda x: np.histogramdd(x[:, None], 2),
    lambda x: np.setdiff1d(x, [1]), lambda x: np.union1d(x, [9]), lambda x: np.intersect1d(x, [1, 2]), lambda x: np.setxor1d(x, [1]),
    lambda x: np.unique_counts(x), lambda x: np.unique_values(x), lambda x: np.unique_inverse(x), lambda x: np.unique_all(x),
    lambda x: np.delete(x, 1), lambda x: np.insert(x, 1, 5), lambda x: np.resize(x, (2, 5)), lambda x: np.trim_zeros(x),
    lambda x: np.block([[x, x], [x, x]]), lambda x: np.ix_(x.astype(int), [0, 1]), lambda x: np.choose([0, 1, 0], [x[:3], x[1:4]]),
    lambda x: np.piecewise(x, [x < 0, x >= 0], [-1, 1]), lambda x: np.lexsort((x, -x)), lambda x: np.sort_complex(x), lambda x: np.poly(x),
    lambda x: np.roots(x), lambda x: np.polyfit([0, 1, 2, 3, 4, 5, 6], x, 2), lambda x: np.polyadd(x, [1]), lambda x: np.polysub(x, [1]),
    lambda x: np.polymul(x, [1, 2]), lambda x: np.polydiv(x, [1, 2]), lambda x: np.polyder(x), lambda x: np.polyint(x),
    lambda x: np.real_if_close(x), lambda x: np.triu_indices_from(x[:4].reshape(2, 2)), lambda x: np.tril_indices_from(x[:4].reshape(2, 2)),
    lambda x: np.diag_indices_from(x[:4].reshape(2, 2)), lambda x: np.unravel_index(np.abs(x).astype(int), (20, 20)),
    lambda x: np.ravel_multi_index((np.abs(x).astype(int), np.abs(x).astype(int)), (20, 20)), lambda x: np.packbits(x > 0),
    lambda x: np.unpackbits(np.abs(x).astype(np.uint8)), lambda x: np.nanmedian(x), lambda x: np.nanquantile(x, .3), lambda x: np.nanpercentile(x, 30),
    lambda x: np.nanargmax(x), lambda x: np.nanargmin(x), lambda x: np.put_along_axis(x, np.array([0]), 3, 0), lambda x: np.place(x, x > 0, [1]),
    lambda x: np.apply_over_axes(np.sum, x[:, None], [0]), lambda x: np.geomspace(np.abs(x) + 1, 9, 3), lambda x: np.logspace(x, 2, 3),
    lambda x: np.array2string(x), lambda x: np.array_repr(x), lambda x: np.array_str(x), lambda x: np.einsum_path("i,i->", x, x),
    lambda x: np.linalg.tensorsolve(np.eye(7), x), lambda x: np.linalg.tensorinv(np.eye(4).reshape(4, 2, 2) * x[0], ind=1),
    lambda x: np.bitwise_count(np.abs(x).astype(int)), lambda x: np.spacing(x * 1.), lambda x: np.add.reduceat(x, [0, 3]), lambda x: np.frexp(x * 1.),
    lambda x: np.vectorize(lambda v: v + 1)(x), lambda x: np.asarray(x), lambda x: np.array([x, x]), lambda x: np.array(x), lambda x: np.zeros(2) + x[:2],
    lambda x: np.ones(7) @ x, lambda x: np.float64(2) * x, lambda x: [2.] * 7 - x, lambda x: np.arange(7)[np.abs(x).astype(int) % 7],
]


@pytest.mark.parametrize("case", range(len(IN_NUMPY)))
def test_the_rest_runs_in_numpy(case):
    for dtype in FLOATS[1:] + [np.dtype("i8")]:
        both(IN_NUMPY[case], sample(dtype, 7), loose=100)
