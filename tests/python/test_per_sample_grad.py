"""Gradients of samples by one call of a module, beside backward() of each sample."""
import cresset as torch
import pytest
from cresset import nn
from cresset.nn.utils._per_sample_grad import call_for_per_sample_grads

MODULES = {
    "linear": (lambda: nn.Linear(3, 2), (4, 3), 0),
    "rows": (lambda: nn.Linear(3, 2), (4, 5, 3), 0),
    "images": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(27, 2)), (4, 2, 5, 5), 0),
    "instance norm": (lambda: nn.InstanceNorm1d(2, affine=True), (4, 2, 5), 0),
    "recurrent": (lambda: nn.RNN(3, 2, batch_first=True), (4, 5, 3), 0),
    "time first": (lambda: nn.GRU(3, 2), (5, 4, 3), 1),
}


def first(x):
    return x[0] if isinstance(x, tuple) else x


@pytest.mark.parametrize("reduction", ("sum", "mean"))
@pytest.mark.parametrize("name", MODULES)
def test_each_sample_has_the_gradients_of_a_batch_of_one(name, reduction):
    make, sizes, dim = MODULES[name]
    net, x = make().double(), torch.randn(sizes, dtype=torch.float64)
    out = first(call_for_per_sample_grads(net, loss_reduction=reduction, batch_first=not dim)(x))
    assert torch.allclose(out, first(net(x)))
    (out.sin().sum() / (4 if reduction == "mean" else 1)).backward()
    for i in range(4):
        want = torch.autograd.grad(first(net(x.narrow(dim, i, 1))).sin().sum(), list(net.parameters()))
        for parameter, gradient in zip(net.parameters(), want):
            assert parameter.grad is None and torch.allclose(parameter.grad_sample[i], gradient)


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow = nn.Linear(3, 1)
        self.register_buffer("shift", torch.ones(1))
        self.constant = torch.full((1, 1), 2.0)

    def forward(self, x, *, scale=None):
        y = self.narrow(x) * self.constant + self.shift
        return {"rows": y, "columns": y.T, "named": (y[None, :, None], x, scale, None), "flat": y[:, 0] if scale is None else y[:, 0] * scale[:, 0]}


RESULTS = {
    "one layer": (lambda: nn.GRU(3, 2, batch_first=True), 0), "two layers": (lambda: nn.GRU(3, 2, 2, batch_first=True), 0),
    "both ways": (lambda: nn.LSTM(3, 2, bidirectional=True, batch_first=True), 0), "time first": (lambda: nn.LSTM(3, 2, 2), 1),
    "one feature": (lambda: nn.RNN(3, 1, batch_first=True), 0), "one number": (lambda: nn.Linear(3, 1), 0),
}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("name", RESULTS)
def test_all_results_are_those_of_a_plain_call(name, count):
    make, dim = RESULTS[name]
    for length in (1, 5):
        net, x = make().double(), torch.randn((length, count, 3) if dim else (count, length, 3), dtype=torch.float64)
        got = torch.utils._pytree.tree_leaves(call_for_per_sample_grads(net, batch_first=not dim)(x))
        want = torch.utils._pytree.tree_leaves(net(x))
        assert [y.shape for y in got] == [y.shape for y in want] and all(torch.allclose(a, b) for a, b in zip(got, want, strict=True))
        sum(y.sin().sum() for y in got).backward()
        for i in range(count):
            ones = torch.utils._pytree.tree_leaves(net(x.narrow(dim, i, 1)))
            gradients = torch.autograd.grad(sum(y.sin().sum() for y in ones), list(net.parameters()))
            assert all(torch.allclose(p.grad_sample[i], g) for p, g in zip(net.parameters(), gradients, strict=True))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_results_keep_their_form(count, scaled):
    net, x = Several(), torch.randn(count, 3)
    scale = torch.randn(count, 1) if scaled else None
    state = torch.get_rng_state()
    got, want = call_for_per_sample_grads(net)(x, scale=scale), net(x, scale=scale)
    assert torch.equal(torch.get_rng_state(), state) and list(got) == list(want)
    (got, form), (want, wanted) = torch.utils._pytree.tree_flatten(got), torch.utils._pytree.tree_flatten(want)
    assert form == wanted
    for y, z in zip(got, want, strict=True):
        assert torch.allclose(y, z) and y.shape == z.shape if isinstance(z, torch.Tensor) else y is z


@pytest.mark.parametrize("result", [lambda y: y.mean(), lambda y: y.sum((0, 1), keepdim=True), lambda y: y.sum(0), lambda y: torch.ones(1, 1),
                                    lambda y: y[:, 0].squeeze()])
@pytest.mark.parametrize("features", [1, 2])
def test_results_without_samples_are_refused(result, features):
    class Loss(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y, result(y)

    with pytest.raises(RuntimeError, match=r"a result, whose sizes for one sample are \[.*\], has no dim of the samples; the module has to return"):
        call_for_per_sample_grads(Loss(3, features))(torch.ones(4, 3))
    y, loss = call_for_per_sample_grads(Loss(3, features))(torch.ones(1, 3))
    assert loss.shape == result(y).shape


def test_frozen_parameters_have_no_gradients():
    net = nn.Linear(3, 2)
    net.bias.requires_grad_(False)
    call_for_per_sample_grads(net)(torch.ones(4, 3)).sum().backward()
    assert net.weight.grad_sample.shape == (4, 2, 3) and not hasattr(net.bias, "grad_sample")
    with pytest.raises(RuntimeError, match="clear out the grad_sample"):
        call_for_per_sample_grads(net)


@pytest.mark.parametrize("arguments, text", [
    ({"module": 3}, "Module passed must be nn.Module, got int"),
    ({"module": nn.Linear(1, 1), "loss_reduction": "max"}, "to be sum or mean, got max"),
    ({"module": nn.Linear(1, 1), "batch_size": "a"}, "must be None or an integer, got str"),
    ({"module": nn.Linear(1, 1), "batch_size": -1}, "Batch size must be positive, got -1")])
def test_wrong_arguments(arguments, text):
    module = arguments.pop("module")
    with pytest.raises(RuntimeError, match=text):
        call_for_per_sample_grads(module, **arguments)


def test_tables_of_the_batch_size_are_split_unless_they_are_buffers():
    class Table(nn.Linear):
        def __init__(self):
            super().__init__(4, 4)
            self.register_buffer("table", torch.randn(4, 4))

        def forward(self, x, table=None):
            return super().forward(x) @ (self.table if table is None else table)

    net, x = Table(), torch.randn(4, 4)
    assert torch.allclose(call_for_per_sample_grads(net)(x), net(x))
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        call_for_per_sample_grads(net)(x, net.table)
