"""Cross entropy by the kernels of emit/entropy.cuh, beside float64 on the host."""
import pytest
from test_cuda import FAKE, launches

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
entropy = torch.nn.functional.cross_entropy
EPS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11}


def near(have, want, dtype):
    assert have.dtype == dtype and have.shape == want.shape
    return (have.cpu().double() - want).abs().max() <= 4 * EPS[dtype] * (1e-3 + want.abs().max())


# Threads, warps and blocks of a row; vectors and single elements; classes that are not beside each other
@pytest.mark.parametrize("size", [(70, 3), (9, 40), (5, 37), (3, 2048), (3, 2051), (2, 9000), (2, 9001), (2, 5, 3, 4), (0, 5)])
@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(size, dtype, reduction):
    torch.manual_seed(41)
    x = (torch.randn(size) * 5).to(dtype)
    target = torch.randint(0, size[1], (size[0], *size[2:]))
    if target.numel():
        target.view(-1)[::4] = -100
        x.select(1, 2).view(-1)[:1].fill_(-float("inf")) if x.dim() == 2 else None
        target.view(-1)[1] = 0
    here, there = x.to(torch.float64, copy=True).requires_grad_(), x.cuda().requires_grad_()
    want, made = entropy(here, target, reduction=reduction), entropy(there, target.cuda(), reduction=reduction)
    g = torch.rand(want.shape).to(dtype)
    if not target.numel():
        assert made.shape == want.shape and (reduction == "none" or made.item() == 0 or made.isnan())
        return
    assert near(made.detach(), want.detach(), dtype)
    made.backward(g.cuda())
    want.backward(g.double())
    assert near(there.grad, here.grad, dtype) and there.grad.stride() == x.stride()


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_rows_without_a_sum_have_no_loss(value, reduction):
    """A row of infinities: the loss and all gradients are NaN, by which a scaler of gradients finds them."""
    for x in (torch.full((3, 40), float(value)), torch.randn(3, 40).index_fill(1, torch.tensor([7]), float(value))):
        there, here = (t.requires_grad_() for t in (x.cuda(), x.clone()))
        for t in (there, here):
            loss = entropy(t, torch.tensor([0, -100, 5], device=t.device), reduction=reduction)
            loss.backward(torch.ones_like(loss))
        assert (there.grad.isnan().cpu() == here.grad.isnan()).all()


def test_logits_are_read_once_each_way():
    x, t = torch.randn(6, 40, device="cuda", requires_grad=True), torch.arange(6, device="cuda")
    loss = entropy(x, t)
    assert launches(lambda: entropy(x.detach(), t)) == (2 if FAKE else 0)
    assert launches(lambda: torch.autograd.grad(loss, x, retain_graph=True)) <= 3  # the gradient is filled with 1


def test_second_derivatives_and_columns():
    def second(device):
        torch.manual_seed(42)
        x, v = (torch.randn(5, 4, dtype=torch.float64).to(device).requires_grad_() for _ in range(2))
        loss = entropy((x * v).t().contiguous().t(), torch.tensor([0, 3, -100, 2, 1], device=device))
        first = torch.autograd.grad(loss.sin(), (x, v), create_graph=True)
        return torch.autograd.grad(sum(t.square().sum() for t in first), (x, v))

    for have, right in zip(second("cuda"), second("cpu")):
        assert (have.cpu() - right).abs().max() < 1e-12


def test_wrong_classes_are_raised_by_the_next_wait():
    x = torch.randn(3, 4, device="cuda")
    entropy(x, torch.tensor([0, 4, 1], device="cuda"))
    with pytest.raises(IndexError, match="Target 4 is out of bounds."):
        torch.cuda.synchronize()
    assert entropy(x, torch.tensor([-100, 2, 1], device="cuda")).isfinite()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_alignments_of_labels(dtype):
    """ctc_loss and its gradient: lengths of zero, equal neighbours, targets as rows and one after another."""
    torch.manual_seed(3)
    x, steps, labels = torch.randn(7, 4, 5, dtype=dtype).log_softmax(-1), torch.tensor([7, 5, 0, 2]), torch.tensor([3, 2, 0, 3])
    for targets in (torch.randint(1, 5, (4, 3)), torch.tensor([1, 1, 2, 3, 3, 4, 4, 2])):
        for zero in (False, True):
            here, there = x.clone().requires_grad_(), x.cuda().requires_grad_()
            want = torch.nn.functional.ctc_loss(here, targets, steps, labels, reduction="none", zero_infinity=zero)
            made = torch.nn.functional.ctc_loss(there, targets.cuda(), steps, labels, reduction="none", zero_infinity=zero)
            want.sum().backward()
            made.sum().backward()
            assert torch.allclose(made.cpu(), want) and torch.allclose(there.grad.cpu(), here.grad, atol=1e-6, equal_nan=True)
    with pytest.raises(IndexError, match="the target 9 is out of range for 5 classes"):
        torch.nn.functional.ctc_loss(x.cuda(), torch.tensor([1, 1, 2, 3, 3, 4, 9, 2]).cuda(), steps, labels).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_compiled_gradient_of_scores_takes_their_memory(dtype):
    """Where nothing else holds the scores; a graph that is kept has them for another pass."""
    torch.manual_seed(38)
    x, w = (torch.randn(n, 16).to("cuda", dtype).requires_grad_() for n in (128, 1000))
    target = torch.randint(0, 1000, (128,)).cuda()

    def loss(x):
        return torch.nn.functional.cross_entropy(torch.nn.functional.linear(x.view(2, 64, 16), w).view(128, -1), target)

    compiled = torch.compile(loss)
    for _ in range(3):
        torch.autograd.grad(compiled(x), (x, w))
    want = torch.autograd.grad(loss(x), (x, w))
    value, grown = compiled(x), []
    for keeps in (True, True, False):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        made = torch.autograd.grad(value, (x, w), retain_graph=keeps)
        grown.append(torch.cuda.max_memory_allocated() - before)
        assert all(torch.equal(a, b) for a, b in zip(made, want))
        del made
    # Products may need memory of their own, in every pass.
    assert min(grown[:2]) - grown[2] >= 128000 * x.element_size()
