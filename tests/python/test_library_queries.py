"""Queries by which libraries choose an algorithm, and conversions that they call: each tells the truth."""
import cresset as torch
from cresset._subclasses.fake_tensor import is_fake
from cresset.fx.experimental.proxy_tensor import get_proxy_mode, make_fx


def test_transforms_are_active_inside_of_them():
    active = torch._C._are_functorch_transforms_active
    seen = []

    def f(x):
        seen.append(active())
        return (x * x).sum()

    x = torch.ones(3)
    f(x)
    torch.func.grad(f)(x)
    torch.func.vjp(f, x)[1](torch.tensor(1.0))
    torch.func.jvp(f, (x,), (x,))
    torch.func.vmap(f)(x)
    torch.func.jacrev(f)(x)
    f(x)
    assert seen == [False, True, True, True, True, True, False]


def test_a_graph_is_being_made_inside_of_make_fx():
    seen = []

    def f(x):
        seen.append(get_proxy_mode() is not None)
        return x + 1

    f(torch.ones(1))
    make_fx(f)(torch.ones(1))
    f(torch.ones(1))
    assert seen == [False, True, False]


def test_no_tensor_is_fake():
    assert not is_fake(torch.ones(1)) and not is_fake(torch.ones(1, device="meta"))


def test_forward_ad_is_an_attribute_of_autograd():
    assert torch.autograd.forward_ad.unpack_dual(torch.ones(1)).tangent is None


def test_indices_of_layouts_are_converted():
    rows, columns = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 2, 0, 1, 3])
    crow = torch._convert_indices_from_coo_to_csr(rows, 5)
    assert crow.tolist() == [0, 2, 2, 3, 5, 5] and crow.dtype == torch.int64
    assert torch._convert_indices_from_coo_to_csr(rows.int(), 5, out_int32=True).dtype == torch.int32
    assert torch._convert_indices_from_csr_to_coo(crow, columns).tolist() == [rows.tolist(), columns.tolist()]
    turned = torch._convert_indices_from_csr_to_coo(crow, columns, out_int32=True, transpose=True)
    assert turned.tolist() == [columns.tolist(), rows.tolist()] and turned.dtype == torch.int32
