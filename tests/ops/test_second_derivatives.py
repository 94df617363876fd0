"""Second derivatives along a line, taken in four ways: forward and reverse mode over forward and reverse mode.

The entries are drawn (table.py) or called as torch recorded (recorded.py); each way has its own formulas, and torch's
differ for det, solve, householder_product, layer_norm, batch_norm and cumprod (reports of wrong nested tangents).
Third derivatives are compared with differences of second ones."""
import warnings

import pytest

import recorded
from recorded import torch
from table import BY_KEY
from test_recorded import SAMPLES
from test_vmap import WITH_GRAD, Examples, by_key, copies, differentiable, weighted
from test_vmap_recorded import Recorded

from cresset.func import grad, jvp

# Statistics of a device's batch norm are constants of its forward formula.
EXCLUDED = {"_batch_norm_channels", "_batch_norm_relu"}
RAISES = (RuntimeError, NotImplementedError)  # a derivative that an entry lacks


def direction(x, seed):
    return torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(seed)) / 8


def ways(f):
    """Yields the second derivative of a function of one number at 0, where the way has formulas."""
    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def forward(t):
        return jvp(f, (t,), (one,))[1]
    for way in (lambda: grad(grad(f))(zero), lambda: jvp(grad(f), (zero,), (one,))[1], lambda: grad(forward)(zero),
                lambda: jvp(forward, (zero,), (one,))[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield float(way())
            except RAISES as error:
                assert "not implemented" in str(error), error


def compare(f, where):
    first, *others = list(ways(f)) or [0.0]
    for other in others:
        assert other == pytest.approx(first, rel=1e-7, abs=1e-7, nan_ok=True), where


def compare_third(f, where):
    zero, step = torch.zeros((), dtype=torch.float64), 1e-4
    second = grad(grad(f))
    try:
        found = float(grad(second)(zero)), float(jvp(second, (zero,), (zero + 1,))[1])
        near, far = [float(second(zero + h) - second(zero - h)) / (2 * h) for h in (step, 2 * step)]
    except RAISES as error:
        assert "not implemented" in str(error), error
        return
    close = 1e-4 * (1 + abs(near))
    if abs(near - far) < close:  # the function is smooth here
        assert found == pytest.approx((near, near), rel=0, abs=10 * close, nan_ok=True), where


@by_key([e for e in WITH_GRAD if e.key not in EXCLUDED])
def test_entries(key):
    entry = BY_KEY[key]
    for dtype in sorted({"float64", "complex128"} & set(entry.dtypes)):
        for case in entry.cases():
            examples = Examples(entry, case, dtype)
            xs, by = [examples.tensor(0, p) for p in examples.places], differentiable(examples)
            moves = {n: direction(xs[n], n) for n in by}
            assert xs or not by

            def f(t):
                return weighted(examples.call(*[xs[n] + t * moves[n] if n in by else x for n, x in enumerate(copies(xs))]))
            compare(f, (case, dtype))
            compare_third(f, (case, dtype))


@pytest.mark.parametrize("operator", [o for o in SAMPLES if any(call[4] is not None and not call[5] for call in SAMPLES[o])])
def test_recorded_calls(operator):
    for n, call in enumerate(SAMPLES[operator]):
        f = Recorded(call)
        by = [i for i, n in enumerate(f.where) if f.leaves[n].requires_grad and f.leaves[n].dtype in (torch.float64, torch.complex128)]
        if f.gradients is None or f.uncertain or not by:
            continue
        moves = {i: direction(f.tensors[i], i) for i in by}
        assert recorded.tensors(f.tensors)
        compare(lambda t: weighted(f(*[x + t * moves[i] if i in by else x for i, x in enumerate(copies(f.tensors))])), n)
