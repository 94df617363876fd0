"""Values of compiled functions that depend on no input (src/graph/precompute.c): masks, positions, windows."""
import pytest

import cresset as torch

F = torch.nn.functional


def positions(x):
    at, scale = torch.arange(8.)[:, None], torch.exp(torch.arange(0, 6, 2.) * -0.3)
    return x + torch.cat([torch.sin(at * scale), torch.cos(at * scale)], 1)


def masked(x):
    return x.masked_fill(~torch.ones(8, 6, dtype=torch.bool).tril(), float("-inf")).softmax(-1)


def returned(x):
    """Each call returns its own tensor."""
    mask = torch.ones(8, 6).triu() * 2
    return x * mask, mask, mask.T, mask[1:]


def written(x):
    steps = torch.arange(6.) * 2
    steps[1] = 7
    steps += x[0]
    table = (torch.eye(6) * 3).index_fill(0, torch.tensor([2]), 5.)
    table.mul_(x[1])
    return x + steps, table


def drawn(x):
    return x + torch.rand(6) * torch.arange(6.), F.dropout(torch.ones(8, 6) * 2, 0.5)


def undefined(x):
    y = torch.empty(8, 6)
    y.fill_(2.)
    return x * (y + 1)


def windows(x):
    return x * torch.hann_window(6).sqrt() + torch.linspace(0, 1, 6) ** 2, x @ torch.tril(torch.ones(6, 6)), F.one_hot(torch.arange(6) % 3, 4).float() + x[0, 0]


def compared(x):
    i, j = torch.meshgrid(torch.arange(8), torch.arange(6), indexing="ij")
    return torch.where((i - j).abs() <= 1, x, torch.zeros(())), (i // 2 == j // 3).sum(), x[i, j]


def of_size(x):
    return x / (torch.arange(x.shape[0])[:, None] + 1)


def large(x):
    return x.sum() + (torch.arange(700_000.) * 2)[::100_000], x.mean() * torch.arange(200_000.).sqrt()


FUNCTIONS = [positions, masked, returned, written, drawn, undefined, windows, compared, of_size, large]


def bits(found):
    return [(t.dtype, t.shape, t.stride(), t.tolist()) for t in (found if isinstance(found, tuple) else [found])]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [False, True])
def test_equals_eager(f, grad):
    compiled = torch.compile(f)
    for n in range(6):
        x = torch.linspace(-2, 3, 48).reshape(8, 6) + n
        found = []
        for g in (f, compiled):
            own = x.clone().requires_grad_(grad)
            torch.manual_seed(n)
            out = g(own)
            first = out[0] if isinstance(out, tuple) else out
            found.append(bits(out) + ([g.tolist() for g in torch.autograd.grad(first.sum(), own)] if grad else []))
        assert found[0] == found[1]


def test_results_are_new_tensors():
    compiled = torch.compile(returned)
    for _ in range(6):
        _, mask, turned, part = compiled(torch.ones(8, 6))
        assert mask[0, 0] == 2 and part[0, 1] == 2
        mask.zero_()
        assert turned[0, 0] == 0 and part[0, 1] == 0


def test_default_dtypes_and_sizes_follow():
    f = torch.compile(lambda x: x * (torch.arange(3.) * 2 + torch.ones(x.shape[0], 1)).sin())
    g = f._function
    try:
        for n in range(12):
            torch.set_default_dtype((torch.float32, torch.float64)[n % 2])
            x = torch.ones(2 + n % 3, 3)
            assert torch.equal(f(x), g(x)) and f(x).dtype == g(x).dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_program_makes_no_masks():
    """After the first calls, a call allocates its result alone."""
    f = torch.compile(masked)
    for _ in range(4):
        f(torch.ones(8, 6))
    x = torch.ones(256, 8, 6)
    g = torch.compile(lambda x: x + (torch.ones(100, 100).tril() * 3).sum())
    for _ in range(4):
        g(x)
    torch._C._reset_peak_memory()
    before = torch._C._memory_stats()["peak"]
    y = g(x)
    assert torch._C._memory_stats()["peak"] - before < y.numel() * 4 + 20_000
