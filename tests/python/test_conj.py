"""Views with the bits conj and neg: what users see of them."""
import copy
import io
import pickle
import warnings

import numpy
import pytest

import cresset as torch

Z = torch.tensor([[1 + 2j, 3 - 1j], [-2 + 0.5j, 0.25 - 4j]])


def test_conj_is_a_view():
    z = Z.clone()
    c = z.conj()
    assert c.is_conj() and c._is_view() and c.data_ptr() == z.data_ptr()
    assert torch.is_conj(c) and not torch.is_neg(c)
    z[0, 0] = 7 + 5j
    assert c[0, 0].item() == 7 - 5j and c.tolist()[0][0] == 7 - 5j
    assert c.conj().is_conj() is False and torch.equal(c.conj(), z)
    assert torch.ones(2).conj().is_conj() is False


def test_parts_of_a_conjugate():
    c = Z.conj()
    assert c.real.is_neg() is False and c.imag.is_neg() is True
    assert torch.equal(c.imag, -Z.imag) and torch.equal(c.real, Z.real)
    assert Z._neg_view().conj().imag.is_neg() is False
    assert Z._neg_view().real.is_neg() is True


@pytest.mark.parametrize("view", [lambda t: t.mH, lambda t: t.H, lambda t: t.adjoint()])
def test_adjoints_are_views(view):
    assert view(Z).is_conj() and view(Z).data_ptr() == Z.data_ptr()
    assert torch.equal(view(Z), torch.conj_physical(Z.t()))


def test_views_keep_the_bit_and_copies_do_not():
    c = Z.conj()
    for kept in (c[0], c.t(), c.reshape(4), c.flatten(), c.expand(3, 2, 2), c.detach(), c.unbind()[0], c.contiguous(),
                 c.as_strided((2,), (1,)), c.view_as(Z), c.tensor_split(2)[0], c.data, torch.positive(c), copy.copy(c),
                 c.to(torch.complex64), c.squeeze()):
        assert kept.is_conj()
    for computed in (c.clone(), c + 0, c.sum(), c.to(torch.complex128), c.resolve_conj(), torch.empty_like(c),
                     torch.zeros_like(c), c.new_zeros(2), torch.conj_physical(c), c.t().reshape(4), copy.deepcopy(c),
                     c.to("meta")):
        assert not computed.is_conj()
    assert c.resolve_neg() is c and Z.resolve_conj() is Z


def test_in_place_through_a_conjugate():
    a = torch.zeros(3, dtype=torch.complex64)
    b = a.conj()
    b.add_(1 + 2j)
    assert a.tolist() == [1 - 2j] * 3 and a._version == 1
    b[0] = 5j
    b.imag.add_(1)
    assert a.tolist() == [-6j, 1 - 3j, 1 - 3j]
    a.copy_(b)
    assert a.tolist() == [6j, 1 + 3j, 1 + 3j]
    b.mul_(b)
    assert a.tolist() == [(6j) ** 2, (1 + 3j) ** 2, (1 + 3j) ** 2]


def test_out_with_a_bit():
    a = torch.tensor([1 + 1j, 2 - 1j])
    base = torch.empty(2, dtype=torch.complex64)
    out = base.conj()
    torch.add(a, a, out=out)
    assert out.tolist() == [2 + 2j, 4 - 2j] and base.tolist() == [2 - 2j, 4 + 2j]


def test_copies_between_dtypes():
    a = torch.zeros(2, dtype=torch.complex128)
    a.conj().copy_(torch.tensor([1.0, 2.0])._neg_view())
    assert a.tolist() == [-1, -2]
    a.conj().copy_(Z[0])
    assert a.tolist() == [1 - 2j, 3 + 1j]
    assert torch.tensor([1, 200], dtype=torch.uint8)._neg_view().tolist() == [255, 56]
    assert torch.tensor(200, dtype=torch.uint8)._neg_view().item() == 56


def test_what_reads_memory_refuses():
    cases = [(lambda: Z.conj().numpy(), RuntimeError, "Can't call numpy\\(\\) on Tensor that has conjugate bit set"),
             (lambda: Z.conj().imag.numpy(), RuntimeError, "Can't call numpy\\(\\) on Tensor that has negative bit set"),
             (lambda: numpy.asarray(Z.conj()), RuntimeError, "resolve_conj\\(\\).numpy\\(\\) instead"),
             (lambda: Z.conj().__dlpack__(), BufferError, "Can't export tensors with the conjugate bit set"),
             (lambda: torch.view_as_real(Z.conj()), RuntimeError, "view_as_real doesn't work on unresolved conjugated"),
             (lambda: Z.conj().view(torch.float32), RuntimeError, "not supported for conjugate view tensors"),
             (lambda: Z.conj().imag.view(torch.int32), RuntimeError, "not supported for tensors with negative bit set")]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
    assert numpy.array_equal(Z.conj().numpy(force=True), numpy.conj(Z.numpy()))


def test_printing():
    assert repr(torch.tensor([1 + 2j]).conj()) == "tensor([1.-2.j])"
    assert repr(torch.ones(2)._neg_view()) == "tensor([-1., -1.])"


def test_files_keep_the_bits(tmp_path):
    c = Z.conj()
    for name, kept in ("z", pickle.loads(pickle.dumps(c))), ("n", pickle.loads(pickle.dumps(c.imag))):
        assert (kept.is_conj(), kept.is_neg()) == (name == "z", name == "n")
    for weights_only in (True, False):
        f = io.BytesIO()
        torch.save({"base": Z, "conj": c, "neg": Z.imag.clone()._neg_view()}, f)
        f.seek(0)
        got = torch.load(f, weights_only=weights_only)
        assert got["conj"].is_conj() and got["neg"].is_neg()
        assert got["conj"].data_ptr() == got["base"].data_ptr()
        assert torch.equal(got["conj"], c) and torch.equal(got["neg"], c.imag)
    from cresset.safetensors import load_file, save_file
    save_file({"neg": c.imag}, tmp_path / "x")
    assert torch.equal(load_file(tmp_path / "x")["neg"], -Z.imag)


def test_gradients():
    x = Z.to(torch.complex128).requires_grad_()
    assert type(x.conj().grad_fn).__name__ == "ConjBackward0"
    assert torch.autograd.gradcheck(lambda x: (x.conj() * x.mH).imag, x)
    assert torch.autograd.gradcheck(lambda x: x.conj()._neg_view().imag.exp(), x)
    assert torch.autograd.gradgradcheck(lambda x: (x.conj() * x.mH).abs(), x)
    x.conj().abs().sum().backward()
    x.grad = None
    x.conj().backward(torch.ones_like(x))
    assert torch.equal(x.grad, torch.ones_like(x))


def test_gradients_through_in_place_changes_of_conjugates():
    def change(x):
        w = x * 1
        w.conj()[1:].mul_(2j)
        w.conj().imag.mul_(x.real)
        return w

    def same(x):
        w = torch.stack([x[0], (x[1].conj_physical() * 2j).conj_physical()])
        return torch.complex(w.real, w.imag * x.real)

    x = Z.to(torch.complex128).requires_grad_()
    assert type(change(x).grad_fn).__name__ == "CopySlices"
    assert torch.equal(change(x), same(x))
    for f in (change, same):
        assert torch.autograd.gradcheck(f, x)
    a, = torch.autograd.grad(change(x).abs().sum(), x)
    b, = torch.autograd.grad(same(x).abs().sum(), x)
    assert torch.allclose(a, b)


PROGRAMS = [
    lambda x, y: (x.conj() * y).sum(), lambda x, y: x.mH @ y + x.conj().imag.sum(), lambda x, y: x.conj(),
    lambda x, y: (x * 2).conj()[1:], lambda x, y: [a := x.clone(), a.conj().mul_(2j), a][-1],
    lambda x, y: [a := x.clone(), a.conj()[0].copy_(y[0]), a + 1][-1],
    lambda x, y: [a := x.clone(), b := a.conj(), a.add_(1), b + y][-1],
    lambda x, y: [a := x.clone(), a.conj().imag.add_(1), a][-1],
    lambda x, y: torch.linalg.solve(x.mH, y), lambda x, y: torch.cat([x.conj(), y.mH]),
    lambda x, y: x.adjoint().contiguous().view(-1).real + y.imag.reshape(4),
    lambda x, y: x._neg_view() + y._neg_view().real]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_compiled(program, grad):
    torch._dynamo.reset()
    f, x = PROGRAMS[program], Z.clone().requires_grad_(grad)
    compiled = torch.compile(f, fullgraph=True)
    want = f(x, Z.t())
    for _ in range(3):
        got = compiled(x, Z.t())
        assert torch.equal(got, want)
    if grad:
        a, = torch.autograd.grad(want.abs().sum(), x)
        b, = torch.autograd.grad(got.abs().sum(), x)
        assert torch.allclose(a, b)


def test_compiled_call_with_a_bit():
    torch._dynamo.reset()
    f = torch.compile(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (Z, Z.conj(), Z, Z.conj(), Z._neg_view()):
            assert torch.equal(f(x), x.clone() * 2)
    torch._dynamo.reset()
    for backend in ("eager", "inductor"):
        f = torch.compile(lambda x: x * 2, fullgraph=True, backend=backend)
        assert all(torch.equal(f(x), x.clone() * 2) for x in (Z.conj(), Z, Z._neg_view(), Z.conj()))


def test_statistics_are_written_back_in_training_only():
    mean, var, x = (-torch.arange(3.))._neg_view(), torch.ones(3), torch.randn(4, 3)
    plain = mean.clone()
    torch.nn.functional.batch_norm(x, mean, var, training=False)
    assert mean._version == 0
    torch.nn.functional.batch_norm(x, plain, torch.ones(3), training=True)
    torch.nn.functional.batch_norm(x, mean, var, training=True)
    assert mean._version == 1 and torch.equal(mean, plain)


def test_shared_memory_keeps_the_bits():
    assert Z.clone().conj().share_memory_().is_conj()
    x = torch.zeros(2, dtype=torch.complex64)
    x.data = torch.tensor([1j, 2j]).conj()
    assert x.is_conj() and x.tolist() == [-1j, -2j]


def test_a_compiled_product_of_reflectors_on_the_right():
    a, tau, c = (torch.randn(s, dtype=torch.complex128, requires_grad=True) for s in ((4, 3), (3,), (4, 4)))
    compiled = torch.compile(lambda a, tau, c: torch.ormqr(a, tau, c, False, True))
    want = torch.ormqr(a, tau, c, False, True)
    assert not want.is_conj()
    for _ in range(3):
        assert torch.equal(compiled(a, tau, c), want)


def reads_twice(x):
    o = x.conj()
    return o * 2 + o


def writes_between(x):
    x = x * 1
    o = x.conj()
    a = o * 2
    x.mul_(3j)
    return a, o * 2


def without_gradient_first(x):
    o = x.conj()
    with torch.no_grad():
        a = o * 2
    return a, o * 3


def copies_that_are_written(x):
    o = x.conj()
    a, b = o.contiguous(), o.contiguous()
    a = a.clone() if a is o else a
    a.mul_(2)
    return a, b, o + a


# Cotangents without an imaginary part show the signs of zeros.
@pytest.mark.parametrize("f, cotangent", [(reads_twice, 1), (writes_between, 1), (without_gradient_first, 1),
                                          (copies_that_are_written, 1 + 1j)])
def test_compiled_reads_of_a_conjugate_are_those_of_eager(f, cotangent):
    def run(g):
        x = torch.tensor([1 + 2j, -3j, 4 + 0j], requires_grad=True)
        out = g(x)
        out = out if isinstance(out, tuple) else (out,)
        roots = [o for o in out if o.requires_grad]
        grad, = torch.autograd.grad(roots, x, [torch.full_like(o, cotangent) for o in roots])
        return [str(torch.view_as_real(o.detach().resolve_conj())) for o in (*out, grad)] + [
            [o.requires_grad for o in out]]

    want, compiled = run(f), torch.compile(f)
    for _ in range(3):
        assert run(compiled) == want
    assert len(compiled._entries) == 1
