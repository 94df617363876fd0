"""lstm_cell and gru_cell compute all gates by one call where nothing sees the calls: the bits are those of separate calls."""
import numpy as np
import pytest

import cresset as torch
import cresset.nn.functional as F


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.detach().contiguous().numpy().tobytes() == b.detach().contiguous().numpy().tobytes()


def arguments(gates, rows, width, dtype):
    torch.manual_seed(rows * 100 + width)
    def draw(*size):
        return torch.randn(*size).to(dtype)
    return draw(rows, 5), draw(rows, width), draw(rows, width), draw(gates * width, 5), draw(gates * width, width), \
        draw(gates * width), draw(gates * width)


def cells(x, h, c, w, u, b, d, gates):
    """The states by calls of the cell, and by the same calls with a history."""
    def run(x):
        if gates == 4:
            return torch.lstm_cell(x, (h, c), w, u, b, d)
        return (torch.gru_cell(x, h, w, u, b, d),)
    return run(x), run(x.clone().requires_grad_())


@pytest.mark.parametrize("gates", (4, 3))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("rows, width", ((1, 1), (1, 17), (3, 4), (4, 64), (9, 33), (0, 4)))
def test_bits_are_those_of_separate_calls(gates, dtype, rows, width):
    plain, recorded = cells(*arguments(gates, rows, width, dtype), gates)
    for a, b in zip(plain, recorded):
        assert not a.requires_grad and b.requires_grad
        same(a, b)


@pytest.mark.parametrize("gates", (4, 3))
def test_states_of_any_layout(gates):
    x, h, c, w, u, b, d = arguments(gates, 6, 8, torch.float32)
    h, c = h.t().contiguous().t(), torch.cat([c, c], 1)[:, ::2]
    plain, recorded = cells(x, h, c, w, u, None, None, gates)
    for a, b in zip(plain, recorded):
        same(a, b)


@pytest.mark.parametrize("gates", (4, 3))
def test_numbers_are_numpys(gates):
    x, h, c, w, u, b, d = (t.numpy() for t in arguments(gates, 4, 7, torch.float64))
    (found, *cell), _ = cells(*(torch.from_numpy(t) for t in (x, h, c, w, u, b, d)), gates)
    one, two = x @ w.T + b, h @ u.T + d
    def sigmoid(v):
        return 1 / (1 + np.exp(-v))
    if gates == 4:
        i, f, g, o = np.split(one + two, 4, 1)
        want = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        np.testing.assert_allclose(cell[0].numpy(), want, rtol=1e-12)
        want = sigmoid(o) * np.tanh(want)
    else:
        (xr, xz, xn), (hr, hz, hn) = np.split(one, 3, 1), np.split(two, 3, 1)
        n = np.tanh(xn + sigmoid(xr + hr) * hn)
        want = (h - n) * sigmoid(xz + hz) + n
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)


def test_dtypes_that_differ_are_refused_or_promoted_as_by_calls():
    x, h, c, w, u, b, d = arguments(4, 2, 3, torch.float32)
    plain, recorded = cells(x, h, c.double(), w, u, b, d, 4)
    for one, other in zip(plain, recorded):
        assert one.dtype == torch.float64
        same(one, other)
    with pytest.raises(RuntimeError):
        torch.lstm_cell(x, (h, c[:, :2]), w, u, b, d)
    with pytest.raises(RuntimeError):
        torch.gru_cell(x, h, w[:8], u[:8], None, None)


@pytest.mark.parametrize("rows", range(1, 10))
@pytest.mark.parametrize("columns, k", ((1, 40), (5, 64), (64, 16), (70, 33), (256, 150)))
def test_a_bias_is_added_to_the_sum(rows, columns, k):
    torch.manual_seed(rows)
    x, w, b = torch.randn(rows, k), torch.randn(columns, k), torch.randn(columns)
    same(F.linear(x, w, b), F.linear(x, w) + b)
    same(F.linear(x, w, torch.randn(2 * columns)[::2].copy_(b)), F.linear(x, w) + b)
    np.testing.assert_allclose(F.linear(x, w, b).numpy(), x.double().numpy() @ w.double().numpy().T + b.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("library", ("base", "avx2", "avx512"))
def test_dot_products_have_one_order(library, tmp_path):
    """Vectors of every instruction set meet in the same order; products that are added exactly are compared."""
    import os
    import subprocess
    import sys
    code = ("import cresset as torch, hashlib; torch.manual_seed(0); n = hashlib.sha256()\n"
            "for m in range(1, 9):\n"
            "    for k in (128, 144, 200):\n"
            "        x, w = torch.randint(-99, 99, (m, k)).float(), torch.randint(-99, 99, (11, k)).float()\n"
            "        y = torch.nn.functional.linear(x, w)\n"
            "        assert torch.equal(y, torch.nn.functional.linear(x.double(), w.double()).float())\n"
            "print('equal')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ, CR_ISA=library))
    assert done.stdout.strip() == "equal", done.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("sizes", ((2, 3), (3,)))
def test_scripted_cells_take_what_eager_ones_take(sizes):
    torch.manual_seed(0)
    for cell, states in ((torch.nn.LSTMCell(3, 4), 2), (torch.nn.GRUCell(3, 4), 1)):
        made, x = torch.jit.script(cell), torch.randn(*sizes)
        given = tuple(torch.randn(*sizes[:-1], 4) for _ in range(states))
        for state in (None, given if states == 2 else given[0]):
            want, found = cell(x, state), made(x, state)
            for a, b in zip(want if states == 2 else [want], found if states == 2 else [found]):
                same(a, b)
        for wrong in ((torch.zeros(1, 1, 1, 3), None), (x, torch.zeros(1, 1, 1, 4))):
            state = wrong[1] if states == 1 or wrong[1] is None else (given[0], wrong[1])
            with pytest.raises(ValueError) as eager:
                cell(wrong[0], state)
            with pytest.raises(torch.jit.Error) as scripted:
                made(wrong[0], state)
            assert str(eager.value).partition(",")[0] in str(scripted.value)
