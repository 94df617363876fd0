"""Scans have the order that num/order.h states, along lines and down columns, eagerly and compiled."""
import pytest

import cresset as torch


def in_order(elements):
    """The running sums: level k has the sum, and the number, of runs of 16**k elements that are not part of a longer one."""
    levels, found = [], []
    for x in elements:
        k = 0
        while True:
            if k == len(levels):
                levels.append((x, 1))
            else:
                total, n = levels[k]
                levels[k] = (total + x if n else x, n + 1)
            if k == 0:
                sums = [total for total, n in reversed(levels) if n]
                value = sums[0]
                for s in sums[1:]:
                    value += s
                found.append(value)
            x, n = levels[k]
            if n < 16:
                break
            levels[k] = (0.0, 0)
            k += 1
    return found


@pytest.mark.parametrize("back", [False, True])
def test_running_sums(back):
    torch.manual_seed(5)
    x = torch.randn(9000, dtype=torch.float64)
    want = torch.tensor(in_order(x.tolist()), dtype=torch.float64)
    pair = torch.stack([x, -x])
    if back:
        g = x.flip(0)
        y = torch.zeros(9000, dtype=torch.float64, requires_grad=True)
        y.cumsum(0).backward(g)
        assert torch.equal(y.grad.flip(0), want)
        return
    f = torch.compile(lambda t, d: (t * 1).cumsum(d))
    for call in (torch.cumsum, f, f, f):
        assert torch.equal(call(x, 0), want)
        assert torch.equal(call(pair, 1)[0], want) and torch.equal(call(pair, 1)[1], -want)
        assert torch.equal(call(pair.t().contiguous(), 0)[:, 0], want)
