"""Checks derivatives by finite differences."""
from .. import _C
from .._C import Tensor

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences."""


def _as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(x):
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def _checked(inputs):
    """Returns the inputs to differentiate by, which should have double precision."""
    chosen = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not chosen:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but "
                         "none of them have requires_grad=True.")
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad and x.dtype not in (_C.float64, _C.complex128):
            import warnings
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating "
                          "point or complex. This check will likely fail if all the inputs are "
                          "not of double precision floating point or complex. ", stacklevel=3)
    return chosen


def _outputs(func, inputs):
    return [y for y in _as_tuple(func(*inputs)) if _differentiable(y)]


def _values(func, inputs):
    with _C.no_grad():
        return [y.detach().clone() for y in _outputs(func, inputs)]


def _difference(func, inputs, x, index, step):
    """Returns the derivatives of all outputs by one element of x, by differences with this
    step."""
    flat = x.data.view(-1) if x.is_contiguous() else None
    place = (lambda v: flat.__setitem__(index, v)) if flat is not None else (
        lambda v: x.data.__setitem__(_position(x, index), v))
    old = x.detach().reshape(-1)[index].item()
    try:
        place(old + step)
        up = _values(func, inputs)
        place(old - step)
        down = _values(func, inputs)
    finally:
        place(old)
    return [(a - b) / (2 * abs(step)) for a, b in zip(up, down)]


def _position(x, index):
    out = []
    for n in reversed(x.shape):
        out.append(index % n)
        index //= n
    return tuple(reversed(out))


def _mismatch(kind, i, j, numeric, analytic):
    return GradcheckError(
        f"{kind} for output {i} with respect to input {j},\nnumerical:{numeric}\n"
        f"analytical:{analytic}\n")


def _jacobians(func, inputs, chosen, eps):
    """Computes by differences: rows[j][index of input element] = derivative of every output."""
    table = []
    for x in chosen:
        units = [1, 1j] if x.is_complex() else [1]
        table.append([[_difference(func, inputs, x, i, eps * u) for u in units]
                      for i in range(x.numel())])
    return table


def _from_table(columns, k, index, unit, x):
    """Returns the gradient of the real part of conj(unit) * y[k][index] with respect to x."""
    values = []
    for column in columns:
        parts = []
        for outputs in column:
            d = outputs[k].reshape(-1)[index].item()
            product = d * (unit.conjugate() if isinstance(unit, complex) else unit)
            parts.append(product.real if isinstance(product, complex) else product)
        values.append(complex(*parts) if len(parts) == 2 else parts[0])
    return _C.tensor(values, dtype=x.dtype).reshape(x.shape)


def _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad):
    from . import grad
    chosen = _checked(inputs)
    outputs = _outputs(func, inputs)
    if not any(y.requires_grad for y in outputs):
        return _no_dependence(func, inputs, chosen, eps, atol)
    table = _jacobians(func, inputs, chosen, eps)
    for k, y in enumerate(outputs):
        if not y.requires_grad:
            continue
        for index in range(y.numel()):
            for unit in ([1.0, 1j] if y.is_complex() else [1.0]):
                seed = _C.zeros(y.shape, dtype=y.dtype, device=y.device)
                seed.view(-1)[index] = unit
                runs = [grad(y, chosen, seed, retain_graph=True, allow_unused=True)
                        for _ in range(2)]
                for j, x in enumerate(chosen):
                    analytic, again = (_C.zeros_like(x) if r[j] is None else r[j].to_dense()
                                       for r in runs)
                    numeric = _from_table(table[j], k, index, unit, x)
                    if not _C.allclose(analytic, again, rtol=0.0, atol=nondet_tol):
                        raise GradcheckError("Backward is not reentrant, i.e., running backward "
                                             "with same input and grad_output multiple times gives "
                                             "different values, although analytical gradient "
                                             "matches numerical gradient.")
                    if not _C.allclose(analytic, numeric, rtol=rtol, atol=atol):
                        raise _mismatch("Jacobian mismatch", k, j, numeric, analytic)
    if check_undefined_grad:
        _check_undefined(func, inputs, chosen)
    return True


def _no_dependence(func, inputs, chosen, eps, atol):
    """Checks that outputs without history do not depend on the inputs."""
    for j, columns in enumerate(_jacobians(func, inputs, chosen, eps)):
        for column in columns:
            for outputs in column:
                if any(d.abs().max().item() > atol for d in outputs if d.numel()):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
    return True


def _check_undefined(func, inputs, chosen):
    """Checks that backward accepts missing cotangents."""
    from . import grad
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    if len(outputs) < 2:
        return
    for left_out in range(len(outputs)):
        some = [y for i, y in enumerate(outputs) if i != left_out]
        grad(some, chosen, [_C.zeros_like(y) for y in some], retain_graph=True, allow_unused=True)


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True,
              nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
              check_batched_grad=False, check_forward_ad=False, check_backward_ad=True,
              fast_mode=False, masked=None):
    """Returns whether the gradients of `func` agree with finite differences.

    Always compares full Jacobians, whatever fast_mode is.  Raises GradcheckError, or returns
    False with raise_exception=False.
    """
    inputs = _as_tuple(inputs)
    try:
        return _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
                  check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """Runs gradcheck on the gradient of `func`."""
    from . import grad
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        generator = _C.Generator().manual_seed(0)
        grad_outputs = [_C.randn(y.shape, dtype=y.dtype, generator=generator).requires_grad_()
                        for y in _outputs(func, inputs)]
    else:
        grad_outputs = list(_as_tuple(grad_outputs))
    count = len(inputs)
    chosen = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args):
        with _C.enable_grad():
            outputs = _outputs(func, args[:count])
            found = grad(outputs, [args[i] for i in chosen], args[count:], create_graph=True,
                         allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradients, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad)
