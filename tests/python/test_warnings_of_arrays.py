"""A tensor made of a list of arrays warns as torch does: once, or always when a program asks for it."""
import warnings

import numpy as np
import pytest

import cresset as torch

TEXT = ("Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list "
        "to a single numpy.ndarray with numpy.array() before converting to a tensor.")


class Array(np.ndarray):
    """A subclass of arrays."""


def messages(call):
    with warnings.catch_warnings(record=True) as got:
        warnings.simplefilter("always")
        out = call()
    return out, [(w.category, str(w.message)) for w in got]


@pytest.fixture
def always():
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


# Torch 2.13 warns for every array that it reads the elements of, so a row of a matrix counts too.
CASES = {
    "rows": (lambda: [np.arange(2.)] * 3, 3),
    "nested": (lambda: [[np.arange(2.)], [np.arange(2.)]], 2),
    "subclass": (lambda: [np.arange(2.).view(Array)], 1),
    "matrix": (lambda: [np.arange(6.).reshape(2, 3)], 3),
    "mixed": (lambda: [[1., 2.], np.arange(2.)], 1),
    "tuple": (lambda: (np.arange(2), np.arange(2)), 2),
    "array": (lambda: np.arange(2.), 0),
    "numbers": (lambda: [np.float64(1), np.float64(2)], 0),
    "lists": (lambda: [[1., 2.], [3., 4.]], 0),
    "empty": (lambda: [np.ones((2, 0))], 0),
}


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.ones(1).new_tensor, torch.Tensor],
                         ids=["tensor", "as_tensor", "new_tensor", "Tensor"])
@pytest.mark.parametrize("name", CASES)
def test_each_array_of_a_list_warns_when_always_is_set(name, make, always):
    data, count = CASES[name]
    out, got = messages(lambda: make(data()))
    assert got == [(UserWarning, TEXT)] * count
    np.testing.assert_array_equal(out.numpy(), np.array(data(), dtype=out.numpy().dtype))


def test_the_warning_comes_at_most_once_else():
    assert not torch.is_warn_always_enabled()
    _, first = messages(lambda: torch.tensor([np.ones(2), np.ones(2)]))
    _, second = messages(lambda: torch.tensor([np.ones(2), np.ones(2)]))
    assert len(first) <= 1 and second == []


def test_a_warning_that_is_an_error_reaches_the_program(always):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Creating a tensor from a list of numpy.ndarrays"):
            torch.tensor([np.ones(2)])
