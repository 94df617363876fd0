"""How tensors print."""
import cresset as torch
import pytest

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("make,text", [
    (lambda: torch.tensor([1.0, 2.0, 3.5]), "tensor([1.0000, 2.0000, 3.5000])"),
    (lambda: torch.tensor([1.0, 2.0, 3.0]), "tensor([1., 2., 3.])"),
    (lambda: torch.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: torch.tensor([1e5, 1.5]), "tensor([1.0000e+05, 1.5000e+00])"),
    (lambda: torch.tensor([99999999.0, 1.0]), "tensor([1.0000e+08, 1.0000e+00])"),
    (lambda: torch.tensor([NAN, 1.0, INF]), "tensor([nan, 1., inf])"),
    (lambda: torch.tensor([NAN, 1.5, -INF]), "tensor([   nan, 1.5000,   -inf])"),
    (lambda: torch.tensor([-1, 200, -3]), "tensor([ -1, 200,  -3])"),
    (lambda: torch.tensor([True, False]), "tensor([ True, False])"),
    (lambda: torch.tensor(5), "tensor(5)"), (lambda: torch.tensor(5.5), "tensor(5.5000)"),
    (lambda: torch.tensor([]), "tensor([])"),
    (lambda: torch.zeros(0, 3), "tensor([], size=(0, 3))"),
    (lambda: torch.zeros(0, dtype=torch.int64), "tensor([], dtype=torch.int64)"),
    (lambda: torch.zeros(2, dtype=torch.float64), "tensor([0., 0.], dtype=torch.float64)"),
    (lambda: torch.zeros(2, dtype=torch.uint8), "tensor([0, 0], dtype=torch.uint8)"),
    (lambda: torch.tensor([1 + 2j, 3.5 - 1j]), "tensor([1.0000+2.j, 3.5000-1.j])"),
    (lambda: torch.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
    (lambda: torch.tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
    (lambda: torch.zeros(3, device="meta"), "tensor(..., device='meta', size=(3,))"),
    (lambda: torch.ones(20, requires_grad=True) * 2,
     "tensor([2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2., 2.,\n"
     "        2., 2.], grad_fn=<MulBackward0>)"),
    (lambda: torch.arange(8.0).reshape(2, 2, 2),
     "tensor([[[0., 1.],\n         [2., 3.]],\n\n        [[4., 5.],\n         [6., 7.]]])"),
    (lambda: torch.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
])
def test_text(make, text):
    assert repr(make()) == text


def test_large_tensors_show_their_edges():
    text = repr(torch.arange(10000).reshape(100, 100))
    assert text.split("\n")[0] == "tensor([[   0,    1,    2,  ...,   97,   98,   99],"
    assert text.split("\n")[3] == "        ...,"
    assert len(text.split("\n")) == 7


def test_options():
    x = torch.tensor([1.23456])
    try:
        torch.set_printoptions(precision=2)
        assert repr(x) == "tensor([1.23])"
        torch.set_printoptions(profile="default", sci_mode=True)
        assert repr(x) == "tensor([1.2346e+00])"
        torch.set_printoptions(profile="default", threshold=5, edgeitems=1)
        assert repr(torch.arange(10)) == "tensor([0,  ..., 9])"
    finally:
        torch.set_printoptions(profile="default")
    assert repr(x) == "tensor([1.2346])"


def test_subclasses_and_parameters():
    class Mine(torch.Tensor):
        pass
    assert repr(torch.ones(2).as_subclass(Mine)) == "Mine([1., 1.])"
    text = repr(torch.nn.Parameter(torch.ones(2)))
    assert text == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


def test_without_edge_items_sizes_are_printed():
    with torch._tensor_str.printoptions(threshold=3, edgeitems=0):
        assert repr(torch.ones(4)) == "tensor([...], size=(4,))" and repr(torch.ones(3)) == "tensor([1., 1., 1.])"
        assert repr(torch.ones(2, 3).int()) == "tensor([...], size=(2, 3), dtype=torch.int32)"
