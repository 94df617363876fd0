"""Parametrizations, calls with other tensors, averages of models, the adaptive softmax."""
import copy
import pickle
import warnings

import cresset as torch
import pytest
from cresset import nn, optim
from cresset.nn.utils import parametrizations, parametrize, stateless
from cresset.optim import swa_utils


def message(kind, function):
    with pytest.raises(kind) as caught:
        function()
    return str(caught.value)


def linear(n=5, m=4):
    torch.manual_seed(0)
    return nn.Linear(n, m)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()

    def right_inverse(self, a):
        return a.triu()


# Parametrizations.

def test_a_parametrized_weight_is_computed():
    net = linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())
    assert torch.equal(net.weight, net.weight.t())
    assert list(net.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(net).__name__ == "ParametrizedLinear" and isinstance(net, nn.Linear)
    assert parametrize.is_parametrized(net, "weight")
    assert not parametrize.is_parametrized(net, "bias")
    assert parametrize.type_before_parametrizations(net) is nn.Linear
    net(torch.ones(1, 3)).sum().backward()
    assert net.parametrizations.weight.original.grad.tolist() == [
        [1.0, 2.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0]]


def test_a_parametrized_weight_can_be_assigned_and_cached():
    net = parametrize.register_parametrization(linear(3, 3), "weight", Symmetric())
    net.weight = torch.ones(3, 3)
    assert net.weight.tolist() == [[1.0] * 3] * 3
    assert net.weight is not net.weight
    with parametrize.cached():
        assert net.weight is net.weight
    other = copy.deepcopy(net)
    assert torch.equal(other.weight, net.weight)
    assert other.parametrizations.weight.original is not net.parametrizations.weight.original
    assert "only supported through state_dict()" in message(
        RuntimeError, lambda: pickle.dumps(net))


def test_parametrizations_are_removed():
    net = parametrize.register_parametrization(linear(3, 3), "weight", Symmetric())
    value = net.weight.detach().clone()
    parametrize.remove_parametrizations(net, "weight")
    assert type(net) is nn.Linear and isinstance(net.weight, nn.Parameter)
    assert torch.equal(net.weight, value) and list(net.state_dict()) == ["bias", "weight"]


def test_unfit_parametrizations_are_refused():
    assert message(ValueError, lambda: parametrize.register_parametrization(
        linear(), "nope", nn.Identity())).endswith(
        "does not have a parameter, a buffer, or a parametrized element with name 'nope'")
    assert "may not change the shape of the tensor" in message(
        ValueError, lambda: parametrize.register_parametrization(
            linear(), "weight", nn.Flatten(0)))
    assert "does not have a parametrization on weight" in message(
        ValueError, lambda: parametrize.remove_parametrizations(linear(), "weight"))


@pytest.mark.parametrize("shape", [(5, 5), (5, 3), (3, 5)])
def test_orthogonal_weights_stay_orthogonal(shape):
    net = parametrizations.orthogonal(linear(*shape), orthogonal_map="cayley")
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(2, shape[0])).pow(2).sum().backward()
        optimizer.step()
    w = net.weight
    gram = w.t() @ w if w.size(0) >= w.size(1) else w @ w.t()
    assert torch.allclose(gram, torch.eye(min(shape)), atol=1e-5)


def old_weight_norm(net):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(net)


@pytest.mark.parametrize("normalize, names", [
    (old_weight_norm, ["bias", "weight_g", "weight_v"]),
    (parametrizations.weight_norm, ["bias", "parametrizations.weight.original0",
                                    "parametrizations.weight.original1"])])
def test_weight_norm_splits_length_and_direction(normalize, names):
    before = linear().weight.detach()
    net = normalize(linear())
    assert list(net.state_dict()) == names
    assert torch.allclose(net.weight, before, atol=1e-6)
    state = net.state_dict()
    state[names[1]].mul_(2)
    net(torch.ones(1, 5)).sum().backward()
    assert torch.allclose(net.weight, before * 2, atol=1e-6)
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize("dim", (0, 1, -1))
def test_weight_norm_of_a_direction(dim):
    v = torch.randn(3, 4)
    g = torch.norm_except_dim(v, 2, dim) * 2
    assert torch.allclose(torch._weight_norm(v, g, dim), v * 2)


def test_the_older_weight_norm_warns_and_is_removed():
    net = linear()
    with pytest.warns(FutureWarning, match="`torch.nn.utils.weight_norm` is deprecated"):
        nn.utils.weight_norm(net)
    assert message(RuntimeError, lambda: old_weight_norm(net)) == (
        "Cannot register two weight_norm hooks on the same parameter weight")
    nn.utils.remove_weight_norm(net)
    assert list(net.state_dict()) == ["bias", "weight"] and not net._forward_pre_hooks


@pytest.mark.parametrize("normalize", [nn.utils.spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm_divides_by_the_largest_singular_value(normalize):
    before = linear().weight.detach()
    net = normalize(linear(), n_power_iterations=50)
    net(torch.ones(1, 5)).sum().backward()
    x = torch.ones(5)
    for _ in range(200):  # the largest singular value, by power iteration
        x = before.t() @ (before @ x)
        x = x / x.norm()
    assert torch.allclose(net.weight * (before @ x).norm(), before, atol=1e-4)
    assert all(p.grad is not None for p in net.parameters())


def test_normalization_is_merged_into_the_preceding_layer():
    torch.manual_seed(0)
    conv, norm = nn.Conv1d(2, 3, 2).eval(), nn.BatchNorm1d(3).eval()
    with torch.no_grad():
        norm.running_mean.copy_(torch.tensor([0.1, 0.2, 0.3]))
        norm.weight.copy_(torch.tensor([2.0, 3.0, 4.0]))
    x = torch.arange(10.0).view(1, 2, 5).sin()
    fused = nn.utils.fuse_conv_bn_eval(conv, norm)
    assert torch.allclose(fused(x), norm(conv(x)), atol=1e-5)


def test_modules_are_made_without_filling():
    made = nn.utils.skip_init(nn.Linear, 2, 3)
    assert made.weight.shape == (3, 2) and made.weight.device.type == "cpu"


# Calls with other tensors.

def test_a_call_takes_other_tensors():
    net, other = linear(2, 1), torch.tensor([[1.0, 2.0]], requires_grad=True)
    own = net.weight
    out = stateless._functional_call(net, {"weight": other, "bias": torch.zeros(1)},
                                     torch.ones(1, 2))
    out.sum().backward()
    assert out.item() == 3.0 and other.grad.tolist() == [[1.0, 1.0]]
    assert net.weight is own and own.grad is None
    assert message(RuntimeError, lambda: stateless._functional_call(
        net, {"x": other}, torch.ones(1, 2), strict=True)) == (
        "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'x'.\n\t"
        "Missing key(s): 'bias', 'weight'.")


def test_tied_tensors_are_replaced_together():
    net = nn.Sequential(linear(2, 2), linear(2, 2))
    net[1].weight = net[0].weight
    zeros = {"0.weight": torch.zeros(2, 2)}
    out = stateless._functional_call(net, zeros, torch.ones(1, 2))
    assert torch.equal(out, net[1].bias.view(1, 2))
    both = {"0.weight": torch.zeros(2, 2), "1.weight": torch.ones(2, 2)}
    assert "which are tied" in message(
        ValueError, lambda: stateless._functional_call(net, both, torch.ones(1, 2)))


# Averages.

def test_models_are_averaged():
    net = nn.Linear(1, 1, bias=False)
    plain = swa_utils.AveragedModel(net)
    decayed = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    for value in (1.0, 2.0, 6.0):
        with torch.no_grad():
            net.weight.fill_(value)
        plain.update_parameters(net)
        decayed.update_parameters(net)
    assert plain.module.weight.item() == pytest.approx(3.0)
    assert decayed.module.weight.item() == pytest.approx(3.75)
    assert plain.n_averaged.item() == 3
    assert "Invalid decay value 2" in message(ValueError, lambda: swa_utils.get_ema_avg_fn(2))


def test_statistics_are_recomputed():
    net = nn.BatchNorm1d(1, affine=False)
    swa_utils.update_bn([torch.tensor([[0.0], [2.0]]), [torch.tensor([[4.0], [6.0]])]], net)
    assert net.running_mean.item() == pytest.approx(3.0)
    assert net.running_var.item() == pytest.approx(2.0) and net.momentum == 0.1


def test_the_averaging_rate_is_reached_and_kept():
    p = nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    optimizer = optim.SGD([p], lr=0.1)
    scheduler = swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    rates = []
    for _ in range(4):
        rates += scheduler.get_last_lr()
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0.1, 0.3, 0.5, 0.5])


# The adaptive softmax.

def test_rare_classes_are_in_clusters():
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0)
    x = torch.arange(48.0).view(6, 8).sin().requires_grad_()
    target = torch.tensor([0, 2, 3, 6, 7, 11])
    output, loss = layer(x, target)
    table = layer.log_prob(x)
    assert torch.allclose(table.exp().sum(1), torch.ones(6), atol=1e-5)
    assert torch.allclose(output, table[torch.arange(6), target], atol=1e-5)
    assert loss.item() == pytest.approx(-output.mean().item())
    assert torch.equal(layer.predict(x), table.argmax(1))
    loss.backward()
    assert all(p.grad is not None for p in layer.parameters()) and x.grad.abs().sum() > 0
    assert layer(x[0], target[0]).output.item() == pytest.approx(output[0].item(), abs=1e-5)
    assert message(RuntimeError, lambda: layer(x[:1], torch.tensor([12]))) == (
        "Target values should be in [0, 11], but values in range [12, 12] were found. ")
    assert message(ValueError, lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 12, [7, 3])).startswith(
        "cutoffs should be a sequence of unique, positive integers")


def test_functional_call_sets_attributes_that_are_absent():
    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.a = torch.nn.Parameter(torch.ones(1)), 5

        def forward(self, x):
            return self.w * x + (self.q if hasattr(self, "q") else 0)
    m, x = Shifted(), torch.ones(2)
    call = torch.func.functional_call
    assert torch.equal(call(m, {"q": torch.full((1,), 3.0)}, (x,)), torch.full((2,), 4.0))
    assert not hasattr(m, "q")
    assert message(RuntimeError, lambda: call(m, {"q": x}, (x,), strict=True)).startswith("Error(s) in reparametrizing")
    assert message(TypeError, lambda: call(m, {"a": x}, (x,))) == "attribute `a`: 5 is not an instance of torch.Tensor"
    assert message(TypeError, lambda: call(m, {"w": 3}, (x,))) == "3 is not an instance of torch.Tensor"
    assert message(KeyError, lambda: call(m, {"": x}, (x,))) == "'tensor name can\\'t be empty string \"\"'"
    assert m.a == 5 and torch.equal(m(x), torch.ones(2))
