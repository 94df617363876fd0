"""Statistics of no elements, as recorded with torch 2.13."""
import pytest

import cresset as torch


@pytest.mark.parametrize("correction", (-2, -1, -0.5, 0, 0.5, 1, 2))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.float64, torch.complex64))
def test_a_variance_of_no_elements_is_nan(correction, dtype):
    for f in (torch.var, torch.std, lambda *a, **k: torch.var_mean(*a, **k)[0], lambda *a, **k: torch.std_mean(*a, **k)[0]):
        assert f(torch.zeros(0, dtype=dtype), correction=correction).isnan()
        assert f(torch.zeros(0, 2, dtype=dtype), dim=0, correction=correction).isnan().tolist() == [True, True]
        assert f(torch.zeros(2, 0, dtype=dtype), dim=0, correction=correction).shape == (0,)
    assert torch.var(torch.zeros(3, dtype=dtype), correction=min(correction, 2)).item() == 0


def test_a_gradient_of_a_variance_of_no_elements():
    x = torch.zeros(0, 2, requires_grad=True)
    torch.var(x, 0, correction=-1).sum().backward()
    assert x.grad.shape == (0, 2)


@pytest.mark.parametrize("size", ((0, 3), (0, 3, 4), (2, 3, 0), (0, 3, 2, 2)))
@pytest.mark.parametrize("compiled", (False, True))
def test_an_empty_batch_leaves_the_statistics(size, compiled):
    module = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}[len(size)](3)
    f = torch.compile(module) if compiled else module
    for _ in range(3):
        x = torch.zeros(size, requires_grad=True)
        y = f(x)
        module.zero_grad()
        y.sum().backward()
        assert y.shape == x.grad.shape == size
        assert module.running_mean.tolist() == [0, 0, 0] and module.running_var.tolist() == [1, 1, 1]
        assert module.weight.grad.tolist() == module.bias.grad.tolist() == [0, 0, 0]


def test_dims_of_a_tensor_without_elements_may_have_any_product():
    x = torch.zeros(1, 0, 1, 1).expand(3, 0, 2**40, 2**40)
    for reduced in (x.sum((2, 3)), x.mean((2, 3)), x.var((2, 3)), x.prod(2), x.amax((2, 3))):
        assert reduced.shape[:2] == (3, 0) and not reduced.numel()


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_gradients_through_writes_without_elements(dynamic):
    """A program reads saved values that the call overwrites, and inputs reach results through written parts only."""
    writes = {"slice": lambda v, a: v[:, ::2].copy_(a[:, ::2]), "part": lambda v, a: v[:0].copy_(a[:0]),
              "all": lambda v, a: v.copy_(a), "add": lambda v, a: v[:0].add_(a[:0])}
    for name, write in writes.items():
        def f(a, b):
            v = b + 0
            write(v, a)
            return -(b * 3 * v.floor().sum(0)) + v.exp()

        compiled = torch.compile(f, dynamic=dynamic)
        for sizes in ((3, 4), (3, 4), (0, 4), (0, 4), (0, 4), (3, 0), (3, 0), (3, 0), (4, 4)):
            gradients = []
            for function in (f, compiled):
                a, b = (torch.arange(1. * sizes[0] * sizes[1]).view(sizes).requires_grad_() for _ in "ab")
                function(a, b).sum().backward()
                gradients.append([x.grad if x.grad is None else (x.grad.shape, x.grad.tolist()) for x in (a, b)])
            assert gradients[0] == gradients[1], (name, sizes)
