"""torch.ao: models with marks for quantization run in floats."""
import pytest

import cresset as torch
from cresset.ao import quantization
from cresset.nn.quantized import FloatFunctional


def test_stubs_are_the_identity():
    net = torch.nn.Linear(2, 1).eval()
    net.qconfig = quantization.QConfig(activation=torch.nn.Identity, weight=torch.nn.Identity)
    wrapped, x = quantization.QuantWrapper(net), torch.ones(3, 2)
    assert torch.equal(wrapped(x), net(x)) and not wrapped.training
    assert wrapped.quant.qconfig is net.qconfig and wrapped.dequant(x) is x
    assert [name for name, _ in wrapped.named_children()] == ["quant", "dequant", "module"]
    assert not hasattr(quantization.QuantStub(), "qconfig")


def test_configurations_hold_classes():
    with pytest.raises(ValueError, match="received observer instance"):
        quantization.QConfig(activation=torch.nn.Identity(), weight=torch.nn.Identity)


def test_operations_pass_the_observer():
    f, x, y = FloatFunctional(), torch.tensor([1.0, -2.0]), torch.tensor([3.0, 1.0])
    f.activation_post_process = seen = torch.nn.Tanh()
    for got, wanted in [(f.add(x, y), x + y), (f.mul(x, y), x * y), (f.cat([x, y]), torch.cat([x, y])),
                        (f.add_relu(x, y), torch.relu(x + y)), (f.matmul(x, y), x @ y)]:
        assert torch.equal(got, seen(wanted))
    assert torch.equal(f.add_scalar(x, 2), x + 2) and torch.equal(f.mul_scalar(x, 2), x * 2)
    with pytest.raises(RuntimeError, match="not intended to use the forward"):
        f(x)
