"""Gradients pass between devices and dtypes: calls that copy elements elsewhere, both directions, both derivatives."""
import itertools

import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

PLACES = list(itertools.product(("cpu", "cuda"), (torch.float32, torch.float64)))
LEGACY = {"cpu": "torch.", "cuda": "torch.cuda."}
SHORT = {torch.float32: "float", torch.float64: "double"}


def there(device, dtype, *size):
    return torch.zeros(*size, device=device, dtype=dtype)


# Calls that give x's elements on a device in a dtype.
CALLS = {
    "to": lambda x, device, dtype: x.to(device, dtype),
    "to.other": lambda x, device, dtype: x.to(there(device, dtype, 1)),
    "to.copy": lambda x, device, dtype: x.to(device=device, dtype=dtype, copy=True, non_blocking=True),
    "_to_copy": lambda x, device, dtype: torch.ops.aten._to_copy(x, dtype=dtype, device=torch.device(device)),
    "named": lambda x, device, dtype: getattr(getattr(x, device)(), SHORT[dtype])(),
    "type": lambda x, device, dtype: x.type(LEGACY[device] + SHORT[dtype].capitalize() + "Tensor"),
    "type_as": lambda x, device, dtype: x.type_as(there(device, dtype, 1)),
    "copy_": lambda x, device, dtype: there(device, dtype, 3).copy_(x),
    "copy_ broadcast": lambda x, device, dtype: there(device, dtype, 2, 3).copy_(x)[1],
    "copy_ of a view": lambda x, device, dtype: put(there(device, dtype, 5), slice(1, 4), x),
    "setitem": lambda x, device, dtype: put(there(device, dtype, 2, 3), 1, x),
}


def put(to, at, x):
    to[at] = x
    return to[at]


@pytest.mark.parametrize("call", CALLS)
def test_gradients_come_back(call):
    for (at, own), (device, dtype) in itertools.product(PLACES, PLACES):
        x = torch.tensor([1., 2., 3.], device=at, dtype=own, requires_grad=True)
        y = CALLS[call](x, device, dtype)
        assert (y.device.type, y.dtype) == (device, dtype)
        first, = torch.autograd.grad((y * y * y).sum(), x, create_graph=True)
        second, = torch.autograd.grad((first * first).sum(), x)
        assert (first.device, first.dtype, second.device, second.dtype) == (x.device, own, x.device, own)
        assert first.tolist() == [3., 12., 27.] and second.tolist() == [36., 288., 972.]
        _, tangent = torch.func.jvp(lambda t: CALLS[call](t, device, dtype), (x.detach(),), (2 * x.detach(),))
        assert (tangent.device.type, tangent.dtype, tangent.tolist()) == (device, dtype, [2., 4., 6.])


# Numbers of the host beside tensors of a device, as torch takes them.
NUMBERS = {
    "mul": lambda t, w: t * w,
    "where": lambda t, w: torch.where(t > 0, w, t),
    "fill_": lambda t, w: t.clone().fill_(w),
    "index_put": lambda t, w: t.index_put((torch.tensor([0, 1, 2]),), w),
}


@pytest.mark.parametrize("call", NUMBERS)
def test_a_number_of_the_host_has_its_gradient_there(call):
    w = torch.tensor(2., requires_grad=True)
    NUMBERS[call](torch.ones(3, device="cuda"), w).sum().backward()
    assert w.grad.device.type == "cpu" and w.grad.item() == 3


def test_a_function_that_returns_a_gradient_of_another_device():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.cuda()

    with pytest.raises(RuntimeError, match="expected device cpu but got cuda:0"):
        Wrong.apply(torch.ones(3, requires_grad=True)).sum().backward()


def test_compiled_copies_between_devices():
    @torch.compile
    def step(x, y):
        y = y * 1
        y[1:].copy_(x[1:])
        return (x.cuda().double() * y).sum()

    x = torch.tensor([1., 2., 3.], requires_grad=True)
    for _ in range(3):
        g, = torch.autograd.grad(step(x, torch.ones(3, device="cuda")), x)
        assert g.device.type == "cpu" and g.tolist() == [1., 4., 6.]
