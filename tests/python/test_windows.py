"""torch.signal.windows beside scipy's functions of the same names."""
import cresset as torch
import pytest
from scipy.signal import windows as reference

windows = torch.signal.windows
CASES = {"bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 3.0},
         "gaussian": {"std": 2.5}, "general_cosine": {"a": [0.46, 0.23, 0.31]},
         "general_hamming": {"alpha": 0.3}, "hamming": {}, "hann": {}, "kaiser": {"beta": 3.0},
         "nuttall": {}}


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", sorted(CASES))
def test_values(name, sym):
    assert sorted(CASES) == windows.__all__
    for length in (0, 1, 2, 7, 8):
        got = getattr(windows, name)(length, sym=sym, dtype=torch.float64, **CASES[name])
        wanted = getattr(reference, name)(length, sym=sym, **CASES[name])
        assert got.tolist() == pytest.approx(wanted.tolist(), abs=1e-12)


def test_options():
    assert windows.hann(4, requires_grad=True).requires_grad
    assert windows.hann(4, device="meta").shape == (4,)
    centered = windows.exponential(6, center=2.0, sym=False)
    assert centered.argmax() == 2 and centered.dtype == torch.float32


@pytest.mark.parametrize("name, length, options, text", [
    ("hann", -1, {}, "requires non-negative window length, got M=-1"),
    ("hann", 3, {"dtype": torch.int32}, "expects float32 or float64 dtypes, got: torch.int32"),
    ("kaiser", 3, {"beta": -1.0}, "beta must be non-negative"),
    ("gaussian", 3, {"std": 0.0}, "Standard deviation must be positive"),
    ("exponential", 3, {"tau": 0.0}, "Tau must be positive"),
    ("exponential", 3, {"center": 1.0}, "Center must be None for symmetric windows"),
    ("general_cosine", 3, {"a": []}, "Coefficients cannot be empty")])
def test_errors(name, length, options, text):
    with pytest.raises(ValueError, match=text):
        getattr(windows, name)(length, **options)
