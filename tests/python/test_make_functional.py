"""functorch.make_functional: modules as functions of their parameters and buffers."""
import pytest

import cresset as torch
from cresset import nn
from cresset.functorch import combine_state_for_ensemble, make_functional, make_functional_with_buffers, vmap

pytestmark = pytest.mark.filterwarnings("ignore:We've integrated functorch")


def test_a_function_of_parameters():
    m, x = nn.Linear(2, 3), torch.randn(4, 2)
    f, params = make_functional(m)
    assert torch.equal(f(params, x), m(x)) and f.param_names == ("weight", "bias")
    assert all(p.requires_grad and isinstance(p, nn.Parameter) for p in params) and params[0] is not m.weight
    assert torch.equal(f([params[0] * 0, params[1]], x), m.bias.expand(4, 3))
    found = torch.func.grad(lambda p: f(p, x).square().sum())(params)
    assert torch.allclose(found[0], 2 * m(x).T @ x) and torch.allclose(found[1], 2 * m(x).sum(0))
    assert not any(p.requires_grad for p in make_functional(m, disable_autograd_tracking=True)[1])
    assert next(f.stateless_model.parameters()).is_meta


def test_tied_parameters_are_one():
    m, x = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)), torch.randn(3, 2)
    m[1].weight = m[0].weight
    f, params = make_functional(m)
    assert len(params) == 1 and f.names_map == {"0.weight": ["0.weight", "1.weight"]}
    assert torch.allclose(f([torch.eye(2) * 3], x), 9 * x)


def test_buffers_are_arguments_and_change():
    m, x = nn.BatchNorm1d(2), torch.randn(5, 2)
    f, params, buffers = make_functional_with_buffers(m)
    assert torch.allclose(f(params, buffers, x), (x - x.mean(0)) / (x.var(0, unbiased=False) + m.eps).sqrt(), atol=1e-5)
    assert torch.allclose(buffers[0], 0.1 * x.mean(0)) and buffers[2] == 1 and m.num_batches_tracked == 0
    with pytest.raises(RuntimeError, match="Please use make_functional_with_buffers.model. instead"):
        make_functional(m)


def test_an_ensemble():
    models, x = [nn.Linear(2, 3) for _ in range(4)], torch.randn(5, 2)
    f, params, buffers = combine_state_for_ensemble(models)
    assert torch.allclose(vmap(f, in_dims=(0, 0, None))(params, buffers, x), torch.stack([m(x) for m in models]), atol=1e-6)
    for wrong, text in [([], "at least one model"), ([nn.ReLU(), nn.Tanh()], "of the same class"),
                        ([nn.ReLU(), nn.ReLU().eval()], "the same training/eval mode")]:
        with pytest.raises(RuntimeError, match=text):
            combine_state_for_ensemble(wrong)
