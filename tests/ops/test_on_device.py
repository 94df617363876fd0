"""Every entry on another device has the host's bits, results and gradients; `--device NAME`.

Kernels of a device are built from the same C text as the host's, and other entries are computed on the host. Entries
with the word `other_order` alone are compared by near numbers: a device computes their compositions."""
import pytest

import cresset as torch

from table import BY_KEY, ENTRIES, Draw, leaves
from test_table import differentiable, weights_for

DRAWN = [e for e in ENTRIES if e.can_be_drawn()]
# Numbers in tensors, which torch reads on the host.
ON_THE_HOST = ("state_steps", "tensor_indices_or_sections")
DTYPES = ("float32", "bfloat16", "complex64", "int64", "uint8", "bool")


@pytest.fixture
def device(request):
    name = request.config.getoption("--device")
    if not name:
        pytest.skip("no --device")
    torch._C._backend_fallback(True)  # for entries without a kernel
    return name


def moved(v, to):
    """The value with its tensors there, as leaves again."""
    if isinstance(v, (list, tuple)):
        return [moved(x, to) for x in v]
    if not isinstance(v, torch.Tensor):
        return v
    return v.detach().clone().to(to).requires_grad_(v.requires_grad)


def bits(t):
    """The bytes of the elements, all NaN as one."""
    t = t.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if t.is_complex():
        t = torch.view_as_real(t)
    if t.is_floating_point():
        t = torch.where(t.isnan(), torch.full_like(t, float("nan")), t)
    return t.dtype, tuple(t.shape), t.reshape(-1).view(torch.uint8).tolist() if t.numel() else []


def have_same_bits(a, b):
    return bits(a) == bits(b)


def are_near(a, b):
    """Whether the elements differ by rounding at most; infinities and NaN are the same."""
    a, b = a.detach().cpu(), b.detach().cpu()
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)


def comparison(entry, dtype):
    return are_near if entry.has_other_order(dtype) else have_same_bits


def have_same_layout(a, b):
    """A GPU's own kernels write rows where the host's library writes columns (clause `format columns`)."""
    rows = a.is_cuda and a.ndim > 1 and a.is_contiguous() and b.mT.is_contiguous()
    return rows or a.stride() == b.stride()


def check_same(key, have, want, device, where, same=have_same_bits):
    have, want = list(leaves(have)), list(leaves(want))
    assert len(have) == len(want), where
    for a, b in zip(have, want):
        assert a.device == torch.device(device, 0) or a.device.type == b.device.type == "cpu", where
        assert have_same_layout(a, b) and a.requires_grad == b.requires_grad, where
        if "empty" not in key:
            assert same(a, b), where


def run_on(draw, to):
    torch.manual_seed(3)
    values = {k: moved(v, "cpu" if k in ON_THE_HOST else to) for k, v in draw.values.items()}
    return values, draw.run(values)


@pytest.mark.parametrize("key", [e.key for e in DRAWN])
def test_results(key, device):
    entry = BY_KEY[key]
    for dtype in DTYPES:
        if entry.dtypes and dtype not in entry.dtypes:
            continue
        for case in entry.cases():
            try:
                draw = Draw(entry, case, dtype)
                given, want = run_on(draw, "cpu")
            except (ValueError, RuntimeError, TypeError, NotImplementedError):
                continue
            taken, have = run_on(draw, device)
            check_same(key, have, want, device, (dtype, case), comparison(entry, dtype))
            check_same(key, list(taken.values()), list(given.values()), device, (dtype, case, "arguments"))


@pytest.mark.parametrize("key", [e.key for e in DRAWN if e.grads])
def test_gradients(key, device):
    entry = BY_KEY[key]
    for dtype in ("float32", "complex64"):
        if dtype not in entry.dtypes:
            continue
        for case in entry.cases():
            draw = Draw(entry, case, dtype, requires_grad=True)
            got = []
            for to in ("cpu", device):
                values, outs = run_on(draw, to)
                outs = differentiable(outs)
                inputs = [x for x in leaves(list(values.values())) if x.requires_grad]
                if not outs or not inputs:
                    break
                weights = [w.to(to) for w in weights_for(outs)]
                try:
                    grads = torch.autograd.grad(outs, inputs, weights, allow_unused=True)
                except RuntimeError:
                    assert to == "cpu"  # it has no derivative
                    break
                got.append([torch.zeros(0) if g is None else g for g in grads])
            if len(got) == 2:
                assert all(map(comparison(entry, dtype), *got)), (dtype, case)
