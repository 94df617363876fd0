"""Known compositions (src/tensor/defer_parts.c): the calls that a composition makes are kept, and noted without its rules."""
import pytest

import cresset as torch
from cresset import _C

from .fresh import in_a_thread
from .test_defer import outcome
from .test_known import compare, grid

F = torch.nn.functional


def images(*size):
    return grid(2, 4, 3, 5) if not size else grid(*size)


W = torch.linspace(-1, 2, 4)
COMPOSITIONS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "layer_norm with weights": lambda x: F.layer_norm(x, x.shape[-1:], x[(0,) * (x.ndim - 1)], None),
    "native_layer_norm": lambda x: torch.native_layer_norm(x, x.shape[-1:], None, None, 1e-5),
    "group_norm": lambda x: F.group_norm(x, 2),
    "group_norm with weights": lambda x: F.group_norm(x, 2, W, W * 2),
    "instance_norm": F.instance_norm,
    "batch_norm": lambda x: F.batch_norm(x, W, W.abs()),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "std": lambda x: [x.std(), x.std(1, keepdim=True), x.std(0, unbiased=False)],
    "mean": lambda x: [x.mean(), x.mean(1), x.mean((0, 1), keepdim=True), x.mean(dtype=torch.float64)],
    "losses": lambda x: [F.mse_loss(x, x * 2), F.l1_loss(x, -x), F.smooth_l1_loss(x, x * x, reduction="none"), F.huber_loss(x, x + 3)],
    "cross entropy": lambda x: F.cross_entropy(x[:, :, 0, 0], torch.tensor([1, 3])),
    "cross entropy of probabilities": lambda x: F.cross_entropy(x[:, :, 0, 0], x[:, :, 1, 1].softmax(1)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x),
    "softmax": lambda x: [x.softmax(-1), F.log_softmax(x, 1, dtype=torch.float64)],
    "cosine_similarity": lambda x: F.cosine_similarity(x, x * x - 1),
    "normalize": F.normalize,
    "einsum": lambda x: torch.einsum("bchw,bdhw->cd", x, x + 1),
    "tensordot": lambda x: torch.tensordot(x, x, dims=2) if x.shape[0] == x.shape[2] else torch.tensordot(x, x, ([0, 1], [0, 1])),
    "lstm_cell": lambda x: torch.lstm_cell(x[0, 0], (x[0, 1], x[1, 0]), x.new_ones(4 * x.shape[3], x.shape[3]),
                                           x.new_ones(4 * x.shape[3], x.shape[3])),
    "gelu": lambda x: [F.gelu(x), F.silu(x), F.mish(x), F.softplus(x), F.hardswish(x), F.elu(x)],
    "clamp": lambda x: [x.clamp(0, 3), x.clamp(min=1), x.clip(max=W[2])],
    "views": lambda x: [*x.chunk(2, 1), x.flatten(1), x.reshape(-1), *x.split(1, 0), x.mT, x.unflatten(1, (2, 2))],
    "the argument": lambda x: [x.contiguous() is x, x.to(torch.float32) is x, x.expand_as(x) * 2, F.dropout(x, 0.5, False) is x],
    "dropout": lambda x: F.dropout(x, 0.5),
    "distances": lambda x: [torch.cdist(x, x), torch.dist(x, x + 1), F.pairwise_distance(x, x + 1)],
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0),
    "pad": lambda x: [F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="reflect")],
    "one_hot": lambda x: F.one_hot(x.abs().long() % 5, 6).sum(-2),
    "numbers": lambda x: [x.sum().clamp(0, 1), x.mean().softplus() if hasattr(x, "softplus") else F.softplus(x.mean())],
    "embedding": lambda x: F.embedding(x[0, 0].abs().long() % 4, x[0, 0]),
    "polygamma": lambda x: [x.logit(0.1), torch.special.xlogy(x, x.abs() + 1), x.diff(), x.cov() if x.ndim < 3 else x[0, 0].cov()],
}
INPUTS = [images, lambda: images(2, 4, 5, 5), lambda: images().transpose(2, 3), lambda: images().double(), lambda: images(2, 8, 3, 5)[:, ::2],
          lambda: images() * 0, lambda: images().to(memory_format=torch.channels_last)]


def results(f, x):
    found = f(x)
    return list(found) if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", COMPOSITIONS)
@pytest.mark.parametrize("pending", [False, True])
@in_a_thread
def test_equals_eager(name, pending):
    f = COMPOSITIONS[name]
    compare(lambda make: results(f, make() + 0 if pending else make()), *INPUTS)


@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference", "autocast", "dual"])
@pytest.mark.parametrize("name", COMPOSITIONS)
@in_a_thread
def test_modes_follow_each_other(name, mode):
    """The same composition with and without the mode, so that the calls of one are known in the other."""
    f, results_of = COMPOSITIONS[name], {}

    def with_gradient(x):
        x = x.requires_grad_()
        found = results(f, x)
        tensors = [t for t in (found if isinstance(found, list) else [found]) if isinstance(t, torch.Tensor) and t.requires_grad]
        if tensors:
            sum((t * t).sum() for t in tensors).backward()
        return [found, x.grad, [t.grad_fn.name() for t in tensors]]

    def tangents(x):
        with torch.autograd.forward_ad.dual_level():
            found = results(f, torch.autograd.forward_ad.make_dual(x, x * 2))
            return [list(torch.autograd.forward_ad.unpack_dual(t)) for t in (found if isinstance(found, list) else [found])
                    if isinstance(t, torch.Tensor)]

    def run(x, on):
        if not on:
            return results(f, x)
        if mode == "grad":
            return with_gradient(x)
        if mode == "dual":
            return tangents(x)
        with {"no_grad": torch.no_grad, "inference": torch.inference_mode,
              "autocast": lambda: torch.autocast("cpu", torch.bfloat16)}[mode]():
            return results(f, x.requires_grad_(mode == "no_grad"))
    del results_of
    compare(lambda on: run(images() + 0.5, on), *[(True,), (False,)])


@in_a_thread
def test_equal_calls_run_no_rules():
    x = grid(4, 6)
    with torch.lazy():
        for _ in range(3):
            y = F.layer_norm(x, (6,))
        _C._defer_counts()
        for _ in range(10):
            y = F.layer_norm(x, (6,))
        counts = _C._defer_counts()
    assert counts["known"] == 10 and counts["now"] == 0  # no weights are made again
    assert torch.equal(y, F.layer_norm(x, (6,)))


@in_a_thread
def test_a_composition_in_vain_is_asked_again():
    """The weights that layer_norm makes of long rows are no constants, so that its calls cannot be known."""
    long, x = grid(1, 20000), grid(4, 6)
    with torch.lazy():
        for _ in range(40):
            F.layer_norm(long, (20000,))
        for _ in range(300):
            y = F.layer_norm(x, (6,))
        _C._defer_counts()
        for _ in range(10):
            y = F.layer_norm(x, (6,))
        counts = _C._defer_counts()
    assert counts["known"] == 10 and counts["now"] == 0
    assert torch.equal(y, F.layer_norm(x, (6,)))


@in_a_thread
def test_what_is_read_at_once_stays_so():
    """A composition that reads elements, draws numbers or raises by elements is evaluated each time."""
    def indices(last):
        at = torch.tensor([0, 1, last])
        return outcome(lambda: [F.embedding(at, grid(4, 6)), grid(4).index_select(0, at), torch.take_along_dim(grid(4), at, 0)])
    compare(indices, *[(n,) for n in (1, 3, 9, 2)])
    compare(lambda n: [F.one_hot(torch.tensor([n, 1])), torch.repeat_interleave(grid(3), torch.tensor([n, 1, 0])),
                       F.nll_loss(grid(2, 4), torch.tensor([1, n]))], *[(n,) for n in (2, 3, 7, 1)])

    def draws():
        torch.manual_seed(1)
        return [F.dropout(grid(8), 0.5) for _ in range(6)]
    want = [t.tolist() for t in draws()]
    with torch.lazy():
        assert [t.tolist() for t in draws()] == want


@in_a_thread
def test_constants_of_a_composition_stay():
    """The weights that layer_norm makes are shared by its calls; a write to any result leaves them."""
    x = grid(4, 6)
    with torch.lazy():
        found = []
        for n in range(8):
            out, mean, rstd = torch.native_layer_norm(x, (6,), None, None, 1e-5)
            out.mul_(n), mean.zero_(), rstd.add_(1)
            found.append(out.sum() + rstd.sum())
        found = [t.item() for t in found]
    want = []
    for n in range(8):
        out, mean, rstd = torch.native_layer_norm(x, (6,), None, None, 1e-5)
        out.mul_(n), mean.zero_(), rstd.add_(1)
        want.append((out.sum() + rstd.sum()).item())
    assert found == want


@in_a_thread
def test_views_that_autograd_tracks_have_their_base():
    x = images()

    def facts():
        y = F.group_norm(x, 2)
        return y._base is None, y._is_view(), y.stride(), y._version
    want = facts()
    with torch.lazy():
        assert [facts() for _ in range(6)] == [want] * 6


@in_a_thread
def test_memory_outside_of_the_library():
    import numpy
    a = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
    x, found, want = torch.from_numpy(a), [], []
    for n in range(6):
        a[:] = numpy.arange(24).reshape(4, 6) * (n + 1)
        want.append(F.layer_norm(x, (6,)).tolist())
    with torch.lazy():
        for n in range(6):
            a[:] = numpy.arange(24).reshape(4, 6) * (n + 1)
            found.append(F.layer_norm(x, (6,)))
        a[:] = 0
    assert [t.tolist() for t in found] == want
