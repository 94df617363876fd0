"""gradcheck and gradgradcheck find each kind of wrong derivative, and accept right ones."""
import pytest

import cresset as torch
from cresset.autograd import Function, gradcheck, gradgradcheck
from cresset.autograd.gradcheck import GradcheckError

from test_forward_mode import Cube

X = torch.tensor([1., 2, 3], dtype=torch.double, requires_grad=True)
Z = torch.tensor([1 + 2j, 3. - 1j], dtype=torch.cdouble, requires_grad=True)


def function(backward):
    class Made(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def vjp(ctx, g):
            return backward(g)
    return Made.apply


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("f, x", [
    (lambda a: (a.sin(), a.sum()), X), (lambda a: a * a.conj() + a, Z), (lambda a: a.abs(), Z),
    (lambda a: torch.complex(a, a ** 2), X), (lambda a: (a.sin(), a.argmax()), X),
    (lambda a: a * 2, torch.zeros(0, dtype=torch.double, requires_grad=True)), (lambda a: a[:0], X),
    (lambda a: a.exp(), torch.ones(4, 2, dtype=torch.double)[::2].requires_grad_())])
def test_right_derivatives_pass(f, x, fast):
    forward = x.layout == torch.strided
    batched = forward and not x.is_complex()
    assert gradcheck(f, x, check_forward_ad=forward, fast_mode=fast, check_batched_grad=batched)


@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_jvp_is_found_in_forward_mode_only(fast):
    assert gradcheck(Cube.apply, X, fast_mode=fast)
    with pytest.raises(GradcheckError, match="^Jacobian computed with forward mode mismatch for output 0 with respect to "
                                             "input 0,\nnumerical:tensor") as error:
        gradcheck(Cube.apply, X, check_forward_ad=True, fast_mode=fast)
    assert "analytical:tensor([[ 30.,   0.,   0.],\n" in str(error.value)
    assert not gradcheck(Cube.apply, X, check_forward_ad=True, raise_exception=False, fast_mode=fast)
    with pytest.raises(GradcheckError, match="forward mode mismatch"):
        gradcheck(Cube.apply, X, check_forward_ad=True, check_backward_ad=False)


def test_a_wrong_imaginary_part_is_named():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, a):
            return torch.complex(a, a * 2)

        @staticmethod
        def backward(ctx, g):
            return g.real
    with pytest.raises(GradcheckError, match="^While considering the imaginary part of complex outputs only, Jacobian "
                                             "mismatch for output 0"):
        gradcheck(Wrong.apply, X)


def test_kinds_of_wrong_backward():
    with pytest.raises(GradcheckError, match="^Backward is not reentrant"):
        gradcheck(function(lambda g: g * 2 + torch.rand_like(g) * 1e-3), X, atol=1)
    with pytest.raises(GradcheckError, match="^backward not multiplied by grad_output"):
        gradcheck(function(lambda g: g * 2 + 1e-3), X, atol=1)
    with pytest.raises(GradcheckError, match="^Jacobian mismatch for output 0 with respect to input 0,"):
        gradcheck(function(lambda g: g * 3), X)
    with pytest.raises(GradcheckError, match="^Numerical gradient for function expected to be zero"):
        gradcheck(lambda a: a.detach() * 2, X)
    with pytest.raises(GradcheckError, match="^While computing batched gradients, got: vmap: "):
        gradcheck(function(lambda g: g * 2 + torch.rand_like(g) * 0), X, check_batched_grad=True)


def test_missing_cotangents_are_tried():
    class Two(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return a * 2, a * 3

        @staticmethod
        def backward(ctx, g, h):
            if g is None or h is None:
                raise RuntimeError("both cotangents are needed")
            return g * 2 + h * 3
    with pytest.raises((GradcheckError, RuntimeError), match="Expected backward function to handle undefined output grads|"
                                                             "both cotangents are needed"):
        gradcheck(Two.apply, X)


@pytest.mark.parametrize("call, error, text", [
    (lambda: gradcheck(torch.sin, X.detach()), ValueError, "gradcheck expects at least one input tensor to require grad"),
    (lambda: gradcheck(torch.sin, X, check_backward_ad=False), AssertionError, "at least one of check_forward_ad or"),
    (lambda: gradcheck(torch.sin, X, check_batched_forward_grad=True), AssertionError, "requires check_forward_ad to be"),
    (lambda: gradgradcheck(torch.sin, X, check_rev_over_rev=False), AssertionError, "at least one of check_fwd_over_rev"),
    (lambda: gradgradcheck(torch.sin, X, check_rev_over_rev=False, check_fwd_over_rev=True), AssertionError,
     "Setting check_undefined_grad=True requires check_rev_over_rev"),
    (lambda: gradcheck(torch.sin, torch.ones(1, dtype=torch.double).expand(3).requires_grad_()), RuntimeError,
     "The 0th input has a dimension with stride 0"),
    (lambda: gradcheck(lambda a: 5, X), ValueError, "Expected Tensor outputs"),
    (lambda: gradcheck(lambda a: a.to_sparse(), X), ValueError, "Sparse output is not supported at gradcheck yet"),
])
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_second_derivatives():
    assert gradgradcheck(torch.sin, X, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)
    column, row = (X.detach().clone().view(shape).requires_grad_() for shape in ((3, 1), (1, 3)))
    assert gradgradcheck(torch.matmul, (column, row))

    class OnceRight(Function):
        """A gradient whose own derivative is missing."""

        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a ** 3

        @staticmethod
        def backward(ctx, g):
            return g * (3 * ctx.saved_tensors[0] ** 2).detach()
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(OnceRight.apply, X)


def test_elements_that_a_sparse_input_varies():
    x = torch.eye(2, dtype=torch.double).to_sparse().requires_grad_()
    assert gradcheck(lambda a: a.to_dense(masked_grad=True) * 2, x, masked=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda a: a.to_dense(masked_grad=True) * 2, x, masked=False)


def test_batched_forward_mode():
    assert gradcheck(torch.sin, X, check_forward_ad=True, check_batched_forward_grad=True)
