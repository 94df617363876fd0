"""Layer norm and RMS norm on a device: the gradients of weight and bias by emit/layer_norm.cuh, with the host's bits."""
import pytest
from test_cuda import FAKE, launches, same

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
norm = torch.nn.functional.layer_norm
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

# Blocks of rows, parts of 512 rows, several dims, columns that are no whole vectors, one column, no rows
SIZES = [((3, 5, 48), 1), ((700, 20), 1), ((2, 600, 33), 1), ((5, 6, 8), 2), ((4, 1), 1), ((1100, 64), 1), ((1, 16), 1), ((0, 8), 1),
         ((3, 300), 1), ((2, 1024), 1), ((2, 5000), 1)]


def arrays(size, kept, dtype):
    torch.manual_seed(41)
    x, g = (torch.randn(size).to(dtype) for _ in range(2))
    return x, g, (torch.rand(size[-kept:]) + 0.5).to(dtype), torch.randn(size[-kept:]).to(dtype)


def run(x, g, w, b):
    """The result, and the gradients of x, w and b."""
    leaves = [t.detach().requires_grad_() for t in (x, w, b)]
    y = norm(leaves[0], w.shape, leaves[1], leaves[2])
    return y.detach(), *torch.autograd.grad(y, leaves, g)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size, kept", SIZES)
def test_layer_norm(size, kept, dtype):
    given = arrays(size, kept, dtype)
    for have, want in zip(run(*(t.cuda() for t in given)), run(*given), strict=True):
        assert have.dtype == want.dtype and have.stride() == want.stride() and same(have, want)


def there(t):
    """On the device, with the strides that t has."""
    if 0 in t.stride():
        return t[:1].cuda().expand(t.shape)
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda").copy_(t)


@pytest.mark.parametrize("part", [lambda t: t[:, ::2], lambda t: t[:1].expand(5, 4, 8), lambda t: t.transpose(0, 1)])
def test_other_layouts(part):
    x, g, w, b = arrays((6, 4, 8), 1, torch.float32)
    for p, q in ((part(x), part(g)), (part(x).contiguous(), part(g)), (part(x), part(g).contiguous())):
        for have, want in zip(run(*map(there, (p, q, w, b))), run(p, q, w, b), strict=True):
            assert same(have, want)


def test_weights_of_another_dtype_and_one_gradient_alone():
    x, g, w, b = arrays((40, 16), 1, torch.bfloat16)
    for kind in (torch.float32, torch.bfloat16):
        for which in (0, 1):
            made = []
            for device in ("cpu", "cuda"):
                p = [t.to(device, kind).requires_grad_(i == which) for i, t in enumerate((w, b))]
                made += torch.autograd.grad(norm(x.to(device), (16,), *p), p[which], g.to(device))
            assert same(made[1], made[0])


def test_both_sums_are_one_launch_for_512_rows_and_two_for_more():
    for rows, n in ((512, 2), (513, 3)):  # and one for the gradient of x
        x, g, w, b = (t.cuda() for t in arrays((rows, 16), 1, torch.float32))
        leaves = [t.requires_grad_() for t in (x, w, b)]
        y = norm(x, (16,), w, b)
        torch.autograd.grad(y, leaves, g, retain_graph=True)
        assert launches(lambda y=y, leaves=leaves, g=g: torch.autograd.grad(y, leaves, g, retain_graph=True)) == (n if FAKE else 0)


def test_second_derivatives():
    def second(device):
        torch.manual_seed(42)
        x, w, b, v = (torch.randn(n, dtype=torch.float64).to(device).requires_grad_() for n in ((4, 3, 5), (5,), (5,), (4, 3, 5)))
        first = torch.autograd.grad((norm(x, (5,), w, b).sin() * v).sum(), (x, w, b), create_graph=True)
        return torch.autograd.grad(sum(t.square().sum() for t in first), (x, w, b, v))

    for have, want in zip(second("cuda"), second("cpu"), strict=True):
        assert torch.allclose(have.cpu(), want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("columns", [64, 320, 768, 1024, 4096, 5120])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rows_of_halves_at_any_address(dtype, columns):
    """Vectors of rows have up to 16 bytes; rows at other addresses are read in other ways."""
    torch.manual_seed(43)
    base = torch.randn(3, columns + 64).to(dtype)
    there, w = base.cuda(), torch.rand(columns).to(dtype)
    for first in (0, 1, 2, 4, 8):
        x, y = base[:, first:first + columns], there[:, first:first + columns]
        for f in (lambda t: t.softmax(1), lambda t: t.sum(1), lambda t: t.sum(0), lambda t: t.var(1), lambda t: norm(t, (columns,), w.to(t.device))):
            assert same(f(y), f(x)), first


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("columns", (8, 20, 300, 768, 2000, 8192))
def test_compiled_sums_and_norms_of_halves_are_one_launch(dtype, columns):
    """x + y and its norm are results of one group, and so are a norm's gradient and what is added to it."""
    rows = 70 if columns < 64 else 9  # of short rows on the host, vectors have several
    x, g, w, b = arrays((rows, columns), 1, dtype)
    y, h = (torch.randn(rows, columns).to(dtype) for _ in range(2))

    def forward(x, y, w, b):
        s = x + y
        return s, norm(s, w.shape, w, b)

    def backward(x, y, w, b, g, h):
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        return torch.autograd.grad(forward(x, y, w, b), (x, y), (g, h))

    for f, given in ((forward, (x, y, w, b)), (backward, (x, y, w, b, g, h))):
        compiled, moved = torch.compile(f), [t.cuda() for t in given]
        for _ in range(3):
            have = compiled(*moved)
        for a, there, here in zip(have, f(*moved), f(*given), strict=True):
            assert same(a, there.cpu()) and same(a, here)
    compiled, moved = torch.compile(forward), [t.cuda() for t in (x, y, w, b)]
    for _ in range(3):
        compiled(*moved)
    assert launches(lambda: compiled(*moved)) <= (1 if columns > 8 else 2)  # the sum is apart from norms of so short rows


def rms(x, g, w, eps):
    """The result of rms_norm, and the gradients of x and w."""
    leaves = [t.detach().requires_grad_() for t in (x, w) if t is not None]
    y = torch.nn.functional.rms_norm(leaves[0], g.shape[-1:], leaves[1] if w is not None else None, eps)
    return y, *torch.autograd.grad(y, leaves, g)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [(3, 5, 48), (700, 20), (2, 600, 33), (4, 1), (1100, 64), (0, 8), (2, 5000)])
def test_rms_norm(size, dtype):
    x, g, w, _ = arrays(size, 1, dtype)
    for weight, eps in ((w, None), (None, 0.01), (w.double(), 1e-6)):
        have, want = (rms(*(t if t is None else t.to(device) for t in (x, g, weight)), eps) for device in ("cuda", "cpu"))
        mixed = weight is not None and weight.dtype is not dtype  # the composition, as in torch
        assert (have[0].grad_fn.name() == "FusedRmsNormBackward0") is not mixed
        for k, (a, b) in enumerate(zip(have, want, strict=True)):
            if k == 1:  # the host differentiates the composition
                far = {torch.float64: 1e-13, torch.float32: 2e-6}.get(dtype, 2e-2)
                assert a.dtype == b.dtype and torch.allclose(a.cpu().double(), b.double(), rtol=far, atol=far)
            else:
                assert same(a.detach(), b.detach()), k


def test_backward_of_rms_norm_keeps_the_rows_of_the_input_alone():
    x, g, w, _ = (t.cuda() for t in arrays((600, 64), 1, torch.bfloat16))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):
        torch.nn.functional.rms_norm(x.requires_grad_(), (64,), w.requires_grad_())
    rows = [t for t in kept if t.numel() == x.numel()]
    assert all(t.data_ptr() == x.data_ptr() for t in rows) and rows
    assert [t.dtype for t in kept if t.numel() == 600] == [torch.float32]


def test_second_derivatives_of_rms_norm():
    def second(device):
        torch.manual_seed(43)
        x, w, v = (torch.randn(n, dtype=torch.float64).to(device).requires_grad_() for n in ((4, 3, 5), (5,), (4, 3, 5)))
        first = torch.autograd.grad((torch.nn.functional.rms_norm(x, (5,), w, 1e-3).sin() * v).sum(), (x, w), create_graph=True)
        return torch.autograd.grad(sum(t.square().sum() for t in first), (x, w, v))

    for have, want in zip(second("cuda"), second("cpu"), strict=True):
        assert torch.allclose(have.cpu(), want, rtol=1e-10, atol=1e-10)
