"""Results of compiled functions have eager's strides, also in dims of size 1, which no element shows.

Programs are made of seeds: views, reductions and elementwise calls over inputs whose dims are permuted, sliced, or parts of
larger tensors."""
import random

import pytest

import cresset as torch
from cresset._dynamo import config


def _order(x, pick):
    n = x.dim()
    return x.permute(*sorted(range(n), key=lambda d: (d * 7 + int(pick * 5)) % n)) if n else x


def _like(x, pick):
    return torch.empty_like(x).copy_(x) if pick < .5 else torch.full_like(x, 2.) * x.sum()


STEPS = {
    "elementwise": lambda x, d, pick: (torch.exp, torch.neg, torch.relu, torch.sigmoid)[int(pick * 4)](x),
    "scaled": lambda x, d, pick: x * 2 + 1,
    "sum": lambda x, d, pick: x.sum(d, keepdim=pick < .6),
    "mean": lambda x, d, pick: x.mean(d, keepdim=pick < .6),
    "amax": lambda x, d, pick: x.amax(d, keepdim=pick < .6),
    "unsqueeze": lambda x, d, pick: x.unsqueeze(int(pick * (x.dim() + 1))) if x.dim() < 5 else x,
    "squeeze": lambda x, d, pick: x.squeeze() if pick < .3 else x.squeeze(d),
    "order": lambda x, d, pick: _order(x, pick),
    "flip": lambda x, d, pick: x.flip(d),
    "cat": lambda x, d, pick: torch.cat([x, x + 1], d),
    "stack": lambda x, d, pick: torch.stack([x, x * 2], d) if x.dim() < 5 else x,
    "select": lambda x, d, pick: x.select(d, 0),
    "narrow": lambda x, d, pick: x.narrow(d, 0, 1),
    "expand": lambda x, d, pick: x.expand(*[2 if n == 1 and k == d else n for k, n in enumerate(x.shape)]),
    "softmax": lambda x, d, pick: torch.softmax(x, d),
    "cumsum": lambda x, d, pick: x.cumsum(d),
    "cast": lambda x, d, pick: x.double().float(),
    "where": lambda x, d, pick: torch.where(x > 0, x, -x),
    "clone": lambda x, d, pick: x.clone().add_(1).mul_(2),
    "like": lambda x, d, pick: _like(x, pick),
    "contiguous": lambda x, d, pick: x.contiguous(),
    "roll": lambda x, d, pick: x.roll(1, d),
    "sort": lambda x, d, pick: x.sort(d)[0],
}


def _input(sizes, kind, seed):
    """A tensor of these sizes: row-major, of dims in another order, every second element, or a part of a longer dim."""
    g = torch.Generator().manual_seed(seed)
    n = len(sizes)
    if kind == 1:
        return torch.randn(sizes[::-1], generator=g).permute(*range(n)[::-1])
    if kind == 2:
        return torch.randn([2 * s for s in sizes], generator=g)[tuple([slice(None, None, 2)] * n)]
    if kind == 3:
        return torch.randn([s + 2 for s in sizes], generator=g)[tuple([slice(1, 1 + s) for s in sizes])]
    return torch.randn(sizes, generator=g)


def _program(seed):
    r = random.Random(seed)
    sizes = [r.choice((1, 1, 2, 3, 4)) for _ in range(r.randint(1, 4))]
    steps = [(r.choice(list(STEPS)), r.random(), r.random()) for _ in range(r.randint(1, 6))]

    def f(x):
        made = []
        for name, at, pick in steps:
            if x.dim():
                x = STEPS[name](x, int(at * x.dim()), pick)
                made.append(x)
        return tuple(made)
    return sizes, r.randint(0, 3), f


def _strides(results):
    return [(tuple(x.shape), x.stride()) for x in results]


@pytest.mark.parametrize("deferred", [0, 1000])
def test_results_have_eagers_strides(deferred):
    odd = 0
    with config.patch(deferred_calls=deferred):
        for seed in range(240):
            sizes, kind, f = _program(seed)
            compiled = torch.compile(f)
            for call in range(4):
                changed = [3 if s > 1 and call == 2 else s for s in sizes]
                x = _input(changed, kind, seed)
                want, got = f(x), compiled(x.clone() if kind == 0 else x)
                assert _strides(got) == _strides(want), (seed, call)
                assert all(torch.equal(a, b) for a, b in zip(got, want)), (seed, call)
                odd += sum(x.is_contiguous() and x.stride() != torch.empty(x.shape).stride() for x in want)
    assert odd > 100  # results whose strides in dims of size 1 are not those of a new tensor


def test_memory_that_a_result_takes_over_keeps_no_strides(monkeypatch):
    """A view of a dying tensor has strides of its own in dims of size 1; cat takes its format from them."""
    monkeypatch.setenv("CR_TILES", "0")

    def f(x):
        t = torch.stack([x]).unsqueeze(2).transpose(1, 3)
        y = torch.lerp(t, t, t)
        return torch.cat([y, y], 2)
    g = torch.compile(f)
    assert [g(torch.ones(1, 2)).stride() for _ in range(4)] == [f(torch.ones(1, 2)).stride()] * 4
