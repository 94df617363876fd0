"""Layouts of results, and LU factors of matrices with NaN, on an NVIDIA GPU beside the host.

    PYTHONPATH=build/pkg python tests/cuda/layouts.py [NAME...]

Results of LAPACK's and FFT entries and of nonzero() are row-major on a GPU, whatever the host's layout is; views of
them have the strides that their sizes say.  LU of matrices with NaN or infinities has pivots in range and is not
finite where the host's is not; with NaN, `info` is the host's (beside infinities the order of pivots decides).  Each
line is a check that fails; the last one counts them, which is the exit status.  The stand-in of tests/fake_cuda runs
the same checks."""
import sys

import cresset as torch

L, F = torch.linalg, torch.fft


def square(n, *batch, dtype=torch.float32):
    torch.manual_seed(n)
    return torch.randn(*batch, n, n, dtype=dtype) + n * torch.eye(n, dtype=dtype)


def definite(n, *batch):
    x = square(n, *batch)
    return x @ x.mT


# name: (function, arguments on the host)
RESULTS = {
    "nonzero": (torch.nonzero, [(torch.arange(60).reshape(3, 4, 5) % 3 > 0)]),
    "nonzero of a transposed array": (lambda x: x.mT.nonzero(), [(torch.arange(60).reshape(3, 4, 5) % 3 > 0)]),
    "argwhere": (torch.argwhere, [(torch.arange(40).reshape(5, 8) % 3 > 0)]),
    **{f"{name} of {batch or 'one'}": (f, [make(6, *batch)]) for batch in ((), (2,), (5,)) for name, f, make in (
        ("cholesky", L.cholesky, definite), ("inv", L.inv, square), ("lu_factor", L.lu_factor, square), ("lu", L.lu, square),
        ("qr", L.qr, square), ("eigh", lambda x: L.eigh(x)[0], definite), ("svdvals", L.svdvals, square),
        ("solve", lambda x: L.solve(x, x[..., :3]), square), ("solve, right", lambda x: L.solve(x, x[..., :3, :], left=False), square),
        ("solve_triangular", lambda x: L.solve_triangular(x, x[..., :2], upper=True), square),
        ("cholesky_inverse", torch.cholesky_inverse, square), ("geqrf", torch.geqrf, square))},
    "inv, 64": (L.inv, [square(64)]),
    "inv of a transposed array": (lambda x: L.inv(x.mT), [square(9, 2)]),
    "lstsq": (lambda a: L.lstsq(a, a[:, :2], driver="gels").solution, [square(8)[:, :5]]),
    **{name: (f, [torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(1))]) for name, f in {
        "fft": F.fft, "fft along the first dim": lambda x: F.fft(x, dim=0), "fftn": F.fftn, "rfft": F.rfft,
        "rfft along the second dim": lambda x: F.rfft(x, dim=1), "rfft2": F.rfft2, "irfft": lambda x: F.irfft(F.rfft(x)),
        "fft2 of a transposed array": lambda x: F.fft2(x.mT), "hfft": F.hfft, "ihfft": F.ihfft,
        "stft": lambda x: torch.stft(x.reshape(-1), 16, window=torch.ones(16, device=x.device), return_complex=True)}.items()},
}


def leaves(x):
    return [t for part in x for t in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def signs(name):
    """Whether columns may have the other sign, or another phase."""
    return name.startswith(("qr", "geqrf"))


def result(name):
    """What is wrong with the results, or None."""
    f, given = RESULTS[name]
    for have, want in zip(leaves(f(*[x.cuda() for x in given])), leaves(f(*given)), strict=True):
        if have.shape != want.shape or have.dtype != want.dtype:
            return f"{have.dtype} {tuple(have.shape)}, on the host {want.dtype} {tuple(want.shape)}"
        own = have.stride()
        if own != want.stride() and not have.is_contiguous():
            return f"strides {own} of sizes {tuple(have.shape)}, on the host {want.stride()}"
        a, b = have.cpu(), want
        if signs(name):
            a, b = a.abs(), b.abs()
        if not torch.allclose(a, b, rtol=2e-3, atol=2e-3):
            return f"differs by {(a - b).abs().max().item():.1e}"
        if not torch.equal(have.reshape(-1).cpu(), have.cpu().reshape(-1)):
            return "its elements are read in another order"
    return None


def with_values(n, batch, value, places):
    x = square(n, *batch)
    for i, j in places:
        x[..., i, j] = value
    return x


VALUES = [(n, batch, value, places) for n in (3, 8, 33, 100) for batch in ((), (2,), (6,))
          for value in (float("nan"), float("inf")) for places in ([(0, 0)], [(n - 1, n - 1)], [(1, 0), (2, 2)])]


def lu_with_values(case):
    x = with_values(*case)
    (have, pivots, info), (want, _, right) = (L.lu_factor_ex(t) for t in (x.cuda(), x))
    if not bool(((pivots >= 1) & (pivots <= x.shape[-1])).all()):
        return f"pivots {pivots.cpu().tolist()}"
    if case[2] != case[2] and not torch.equal(info.cpu() > 0, right > 0):
        return f"info {info.cpu().tolist()}, on the host {right.tolist()}"
    if not torch.equal(have.cpu().isfinite().all(-1).all(-1), want.isfinite().all(-1).all(-1)):
        return f"{int((~have.isfinite()).sum())} elements are not finite, on the host {int((~want.isfinite()).sum())}"
    return None


def checks():
    for name in RESULTS:
        yield name, lambda name=name: result(name)
    for case in VALUES:
        n, batch, value, places = case
        yield f"LU of {batch + (n, n)} with {value} at {places}", lambda case=case: lu_with_values(case)


def main(only):
    wrong = n = 0
    for name, check in checks():
        if only and not any(word in name for word in only):
            continue
        try:
            said = check()
        except Exception as e:  # the other checks go on
            said = f"{type(e).__name__}: {e}"
        n, wrong = n + 1, wrong + (said is not None)
        if said is not None:
            print(f"{name}: {said}", flush=True)
    print(f"{torch.cuda.get_device_name()}: {n} checks, {wrong} fail")
    return min(wrong, 125)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
