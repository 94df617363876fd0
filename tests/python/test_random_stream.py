"""Dropout draws from torch's stream: values recorded from torch 2.13 on a CPU not made by
Intel."""
import pytest

import cresset as torch
import cresset.nn.functional as F


@pytest.mark.parametrize("draw, total, after", [
    (lambda: F.dropout(torch.ones(1000), 0.25), 984.0000293254852, 0.4073522686958313),
    (lambda: F.dropout2d(torch.ones(10, 100, 3, 3), 0.25), 8856.000263929367, 0.4073522686958313),
    (lambda: F.dropout(torch.ones(100000), 0.1), 99894.44920778275, 0.5260719656944275),
    (lambda: F.dropout(torch.ones(100, 64, requires_grad=True), 0.5), 6456.0, 0.3992021083831787),
    (lambda: F.dropout(torch.ones(10), 1.0), 0.0, 0.7576315999031067),
    (lambda: F.dropout(torch.ones(10), 0.5, False), 10.0, 0.7576315999031067),
])
def test_dropout_takes_torchs_numbers(draw, total, after):
    torch.manual_seed(1)
    assert draw().double().sum().item() == pytest.approx(total, rel=1e-12)
    assert torch.rand(1).item() == after


def test_a_transposed_input_is_masked_in_the_order_of_its_memory():
    x = torch.ones(4, 6)
    torch.manual_seed(3)
    plain = F.dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(F.dropout(x.reshape(6, 4).t(), 0.5), plain.reshape(6, 4).t())


def test_dropout_is_recorded_as_a_product_and_keeps_nan():
    x = torch.tensor([float("nan")] * 64, requires_grad=True)
    y = F.dropout(x, 0.5)
    assert type(y.grad_fn).__name__ == "MulBackward0"
    assert y.isnan().all()


def test_native_dropout_gives_its_mask():
    torch.manual_seed(1)
    y, mask = torch.native_dropout(torch.ones(1000), 0.25, True)
    assert mask.dtype == torch.bool and mask.sum().item() == 738
    assert torch.equal(y != 0, mask)
    y, mask = torch.native_dropout(torch.ones(10), 0.25, False)
    assert torch.equal(y, torch.ones(10)) and mask.all()


def test_bernoulli_reads_probabilities_before_it_overwrites_them():
    x = torch.full((6,), 0.5, dtype=torch.float64)
    torch.manual_seed(3)
    want = torch.empty(6, dtype=torch.float64).bernoulli_(x.clone())
    for p in (x, x[1], x[1:2]):
        torch.manual_seed(3)
        y = x.clone()
        assert torch.equal(y.bernoulli_(p if p is x else y.as_strided(p.shape, p.stride(), 1)), want)


@pytest.mark.parametrize("fill", ["uniform_", "normal_", "random_", "exponential_", "bernoulli_"])
def test_a_draw_into_overlapping_elements_is_refused(fill):
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        getattr(torch.ones(1).expand(3), fill)()
