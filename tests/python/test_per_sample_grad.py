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
