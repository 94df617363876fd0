"""Storages of a device that are resized to 0 bytes give their memory back; calls find the bytes that they get later, or refuse."""
import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
REFUSED = "the storage of a tensor of .* elements on cuda:0 was resized to 0 bytes"
USES = [lambda x: x + 1, lambda x: x.sum(), lambda x: x @ x, lambda x: x.softmax(1), lambda x: x.clone(), lambda x: x.cpu(), lambda x: x[0, 0].item(),
        lambda x: x.tolist(), lambda x: x.add_(1), lambda x: torch.cat([x, x]), lambda x: x.sort(), lambda x: x.cumsum(0),
        lambda x: x.t().contiguous(), lambda x: x.to(torch.float16), lambda x: torch.linalg.inv(x), lambda x: x[x > 0],
        lambda x: x.index_select(0, torch.tensor([0], device="cuda")), lambda x: torch._foreach_mul_([x], 2), lambda x: x.copy_(torch.ones(4, 4)),
        lambda x: torch.nn.functional.layer_norm(x, (4,)), lambda x: torch.ones(4, 4, device="cuda").copy_(x), lambda x: x.fill_(1)]


def emptied(size=(4, 4)):
    x = torch.ones(size, device="cuda")
    x.untyped_storage().resize_(0)
    return x


def test_memory_goes_back_and_comes_again():
    used = torch.cuda.memory_allocated
    before = used()
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    rows = x.view(2, -1)
    storage, whole = x.untyped_storage(), used() - before
    assert whole >= 4 << 20
    for _ in range(3):
        storage.resize_(0)
        assert used() == before and storage.nbytes() == 0
        other = torch.full((1 << 20,), 7., device="cuda")  # may have the block
        storage.resize_(4 << 20)
        x.copy_(torch.arange(1 << 20, dtype=torch.float32))
        assert used() - before == 2 * whole
        assert rows[1, 0].item() == 1 << 19 and rows.sum(1).tolist() == x.cpu().view(2, -1).sum(1).tolist() and other[5].item() == 7
        del other
    del x, rows, storage
    assert used() == before


@pytest.mark.parametrize("use", USES)
def test_calls_refuse_elements_that_are_away(use):
    x = emptied()
    with pytest.raises(RuntimeError, match=REFUSED):
        use(x)
    x.untyped_storage().resize_(64)
    assert x.fill_(2).sum().item() == 32


def test_views_are_made_and_tensors_without_elements_are_used():
    x = emptied()
    view = x.t()[1:]
    assert view.detach().shape == (3, 4) and x[:0].sum().item() == 0
    x.untyped_storage().resize_(64)
    x.copy_(torch.arange(16.).view(4, 4))
    assert view.tolist() == torch.arange(16.).view(4, 4).t()[1:].tolist()


@pytest.mark.parametrize("change", [lambda x: x.resize_(2, 3), lambda x: x.resize_as_(torch.ones(2, 3)), lambda x: x.set_(torch.ones(2, 3, device="cuda"))])
def test_tensors_get_other_sizes_and_storages(change):
    assert change(emptied()).fill_(5).tolist() == [[5.] * 3] * 2


def test_a_step_of_an_optimizer_refuses_gradients_that_are_away():
    p = torch.nn.Parameter(torch.ones(4, 4, device="cuda"))
    p.grad, step = emptied(), torch.optim.Adam([p], fused=True).step
    with pytest.raises(RuntimeError, match=REFUSED):
        step()
    p.grad.untyped_storage().resize_(64)
    p.grad.fill_(1)
    step()
    assert p.isfinite().all() and (p < 1).all()


def test_memory_whose_address_was_given_out_stays():
    x = torch.ones(1000, device="cuda")
    before = torch.cuda.memory_allocated()
    x.data_ptr()
    x.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated() == before and x.sum().item() == 1000


@pytest.mark.parametrize("made", [lambda w: w, lambda w: w.t(), lambda w: w.view(-1)[:16].view(4, 4)])
def test_backward_reads_the_bytes_that_a_saved_tensor_has_then(made):
    x, w = torch.randn(3, 4, device="cuda").requires_grad_(), torch.randn(4, 4, device="cuda")
    want, values = made(w).cpu().clone(), w.cpu()
    y = x @ made(w)
    w.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=REFUSED):
        y.sum().backward(retain_graph=True)
    with torch.no_grad():
        w.untyped_storage().resize_(64)
        other = torch.zeros(16, device="cuda")
        w.data.copy_(values)
    y.sum().backward()
    assert torch.allclose(x.grad.cpu(), torch.ones(3, 4) @ want.t()) and not other.any()


def test_compiled_programs_refuse_and_follow():
    run = torch.compile(lambda x: (x * 2).sum(1))
    x = torch.ones(4, 4, device="cuda")
    for _ in range(3):
        assert run(x).tolist() == [8.] * 4
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=REFUSED):
        run(x)
    x.untyped_storage().resize_(64)
    x.fill_(3)
    assert run(x).tolist() == [24.] * 4
