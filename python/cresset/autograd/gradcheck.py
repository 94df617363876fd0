"""Checks derivatives by finite differences.

A complex output is checked as two real ones, its real and its imaginary part.  The Jacobian of a real output
by an input is a matrix of (elements of the input) x (elements of the output); for a complex input z = a + ib its
elements are d/da + i d/db, which is the gradient that backward computes.
"""
import warnings

from .. import _C
from .._C import Tensor

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences."""


def _as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(x):
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def _requires(x):
    return isinstance(x, Tensor) and x.requires_grad


def _dense(x):
    return x.layout == _C.strided


def _checked(inputs):
    """Returns the inputs to differentiate by, which should have double precision."""
    for i, x in enumerate(inputs):
        if not _requires(x):
            continue
        if x.dtype not in (_C.float64, _C.complex128):
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating "
                          "point or complex. This check will likely fail if all the inputs are "
                          "not of double precision floating point or complex. ", stacklevel=4)
        if _dense(x) and any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that "
                               "are non-overlapping to be able to compute the numerical gradients correctly. You "
                               "should call .contiguous on the input before passing it to gradcheck.")
    chosen = [x for x in inputs if _requires(x)]
    if not chosen:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but "
                         "none of them have requires_grad=True.")
    return chosen


def _outputs(func, inputs):
    every = _as_tuple(func(*inputs))
    if not all(isinstance(y, Tensor) for y in every):
        raise ValueError("Expected Tensor outputs from the function that gradcheck checks, but got "
                         f"{', '.join(type(y).__name__ for y in every)}")
    found = [y for y in every if _differentiable(y)]
    if not all(map(_dense, found)):
        raise ValueError("Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the "
                         "output of fn for gradcheck.")
    return found


# --- Jacobians ---

def _elements(x):
    """Returns the tensor of x's elements that can be changed: x itself, or the values of a sparse tensor."""
    return x.data if _dense(x) else x.detach()._values() if x.layout == _C.sparse_coo else x.detach().values()


def _of_elements(gradient, x):
    """Returns the gradient of x as a vector over `_elements(x)`."""
    if gradient is None:
        return _C.zeros(_elements(x).numel(), dtype=x.dtype, device=x.device)
    if not _dense(x):
        gradient = gradient.to_dense().sparse_mask(x.detach())
        return _elements(gradient).reshape(-1)
    return gradient.to_dense().detach().reshape(-1)


def _matrix(rows, columns, of, dim=0):
    """Stacks vectors of `columns` elements; without any, a matrix with the dtype of `of`."""
    return _C.stack(rows, dim) if rows else of.new_zeros((0, columns) if dim == 0 else (columns, 0))


def _units(x):
    return (1, 1j) if x.is_complex() else (1,)


def _with_unit(parts):
    """Joins the derivatives along 1 and along i."""
    return parts[0] if len(parts) == 1 else _C.complex(*parts)


def _positions(x):
    return _C.ones(x.shape, dtype=_C.bool).nonzero().tolist()


def _values(func, inputs):
    with _C.no_grad():
        return [y.detach().clone() for y in _outputs(func, inputs)]


def _difference(func, inputs, change):
    """Returns (f(x + h) - f(x - h)) for each output; change(1) and change(-1) set x, change(0) restores it."""
    try:
        change(1)
        up = _values(func, inputs)
        change(-1)
        down = _values(func, inputs)
    finally:
        change(0)
    return [a - b for a, b in zip(up, down)]


def _along_element(func, inputs, data, at, step):
    at = tuple(at)
    before = data[at].item()
    return _difference(func, inputs, lambda sign: data.__setitem__(at, before + sign * step))


def _parts(y):
    """The names of the real outputs that y is checked as, and functions that take them."""
    if not y.is_complex():
        return [("", lambda v: v, 1.0)]
    text = "While considering the {} part of complex outputs only, "
    return [(text.format("imaginary"), lambda v: v.imag, 1j), (text.format("real"), lambda v: v.real, 1.0)]


def _numerical(func, inputs, x, eps):
    """Returns a list over the units of x of lists over outputs of matrices, by differences."""
    data, found, outputs = _elements(x), [], _values(func, inputs)
    for unit in _units(x):
        rows = [_along_element(func, inputs, data, at, eps * unit) for at in _positions(data)]
        found.append([_matrix([row[k].reshape(-1) for row in rows], y.numel(), y) / (2 * eps)
                      for k, y in enumerate(outputs)])
    return found


def _seeds(y, unit):
    for k in range(y.numel()):
        seed = _C.zeros(y.numel(), dtype=y.dtype, device=y.device)
        seed[k] = unit
        yield seed.view(y.shape)


def _backward(y, chosen, unit):
    """Returns for each input the matrix that backward computes, and the same of a second run."""
    from . import grad
    runs = [[[_of_elements(g, x) for g, x in zip(grad(y, chosen, seed, retain_graph=True, allow_unused=True), chosen)]
             for seed in _seeds(y, unit)] for _ in range(2)]
    return [tuple(_matrix([row[j] for row in rows], _elements(x).numel(), x.detach(), 1) for rows in runs)
            for j, x in enumerate(chosen)]


def _tangent(x, at, unit):
    tangent = _C.zeros(_elements(x).shape, dtype=x.dtype, device=x.device)
    tangent[tuple(at)] = unit
    return tangent


def _push(func, inputs, x, tangent):
    """Returns the tangents of the outputs for a tangent of x, and zeros where an output has none."""
    from . import forward_ad
    with forward_ad.dual_level():
        given = [forward_ad.make_dual(v.detach() if _requires(v) else v, tangent) if v is x else
                 v.detach() if _requires(v) else v for v in inputs]
        pushed = [forward_ad.unpack_dual(y) for y in _outputs(func, given)]
    return [_C.zeros_like(y.primal) if y.tangent is None else y.tangent.detach() for y in pushed]


def _forward(func, inputs, x):
    """Returns what `_numerical` returns, by forward mode."""
    found, outputs = [], _values(func, inputs)
    for unit in _units(x):
        rows = [_push(func, inputs, x, _tangent(x, at, unit)) for at in _positions(_elements(x))]
        found.append([_matrix([row[k].reshape(-1) for row in rows], y.numel(), y) for k, y in enumerate(outputs)])
    return found


# --- comparisons ---

def _compare(analytic, numeric, where, i, j, atol, rtol):
    if not _C.allclose(analytic, numeric.to(analytic.dtype), rtol=rtol, atol=atol):
        raise GradcheckError(f"{where} for output {i} with respect to input {j},\nnumerical:{numeric}\n"
                             f"analytical:{analytic}\n")


def _check_backward(func, inputs, chosen, outputs, numeric, options):
    for k, y in enumerate(outputs):
        if not y.requires_grad:
            continue
        for name, part, unit in _parts(y):
            found = _backward(y, chosen, unit)
            for j, (analytic, again) in enumerate(found):
                expected = _with_unit([part(table[k]) for table in numeric[j]])
                _compare(analytic, expected, f"{name}Jacobian mismatch", k, j, options["atol"], options["rtol"])
                if not _C.allclose(analytic, again, rtol=0.0, atol=options["nondet_tol"]):
                    raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and "
                                         "grad_output multiple times gives different values, although analytical "
                                         "gradient matches numerical gradient.The tolerance for nondeterminism was "
                                         f"{options['nondet_tol']}.")


def _check_forward(func, inputs, chosen, outputs, numeric, options):
    for j, x in enumerate(chosen):
        pushed = _forward(func, inputs, x)
        for k, y in enumerate(outputs):
            for name, part, _ in _parts(y):
                analytic, expected = (_with_unit([part(table[k]) for table in tables]) for tables in (pushed, numeric[j]))
                _compare(analytic, expected, f"{name}Jacobian computed with forward mode mismatch", k, j,
                         options["atol"], options["rtol"])


def _check_no_dependence(numeric, atol):
    """Checks that outputs without history do not depend on the inputs."""
    for tables in numeric:
        for table in tables:
            if any(d.numel() and d.abs().max().item() > atol for d in table):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _random_like(x, generator):
    found = _C.randn(x.shape, dtype=x.dtype, generator=generator).to(x.device)
    return found / found.norm().clamp(min=1e-12)


def _agree_along_random(func, inputs, chosen, outputs, options):
    """Compares one random direction of every input and, in backward mode, of every output."""
    from . import grad
    generator = _C.Generator().manual_seed(0)
    for x in chosen:
        data = _elements(x)
        direction, before = _random_like(data, generator), data.clone()
        found = _difference(func, inputs, lambda sign: data.copy_(before + sign * options["eps"] * direction))
        pushed = _push(func, inputs, x, direction) if options["check_forward_ad"] else found
        for y, difference, forward in zip(outputs, found, pushed):
            numeric = difference / (2 * options["eps"])
            if options["check_forward_ad"] and not _C.allclose(forward, numeric, rtol=options["rtol"],
                                                               atol=options["atol"]):
                return False
            if not options["check_backward_ad"] or not y.requires_grad:
                continue
            v = _random_like(y, generator)
            g, = grad(y, [x], v, retain_graph=True, allow_unused=True)
            back = (_of_elements(g, x).conj() * direction.reshape(-1)).sum().real
            if not _C.allclose(back, (v.conj() * numeric).sum().real, rtol=options["rtol"], atol=options["atol"]):
                return False
    return True


# --- further checks of backward and forward mode ---

def _check_multiplied(func, inputs, chosen):
    """Checks that zero cotangents give zero gradients of the inputs' form."""
    from . import grad
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    found = grad(outputs, chosen, [_C.zeros_like(y) for y in outputs], allow_unused=True)
    for g, x in zip(found, chosen):
        if g is None:
            continue
        if g.numel() and not g.to_dense().eq(0).all():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


def _check_dtypes(func, inputs, chosen):
    from . import grad
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    found = grad(outputs, chosen, [_C.ones_like(y) for y in outputs], allow_unused=True)
    for g, x in zip(found, chosen):
        if g is not None and (g.dtype != x.dtype or g.device != x.device):
            raise GradcheckError("grad is incorrect type")


def _check_undefined(func, inputs, chosen):
    """Checks that backward accepts missing cotangents, one at a time and all but one."""
    from . import grad
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    sets = {*range(len(outputs))}
    for kept in [sets - {k} for k in sets] + [{k} for k in sets]:
        some = [outputs[k] for k in sorted(kept)]
        if not some:
            continue
        try:
            found = grad(some, chosen, [_C.zeros_like(y) for y in some], retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError("Expected backward function to handle undefined output grads. Please look at 'Notes "
                                 "about undefined output gradients' in 'tools/autograd/derivatives.yaml'") from error
        if not all(g is None or g.to_dense().eq(0).all() for g in found):
            raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are undefined "
                                 "or zero. Please look at 'Notes about undefined output gradients' in "
                                 "'tools/autograd/derivatives.yaml'")


def _compare_batch(f, like, atol, rtol):
    """Calls f for two random tensors, and for both in one batch.  Returns the first result that differs, as (its index, got,
    expected), or None."""
    from ..func import vmap
    generator = _C.Generator().manual_seed(0)
    some = [_random_like(like, generator) for _ in range(2)]
    expected = [_C.stack(rows) for rows in zip(*map(f, some))]
    try:
        found = vmap(f)(_C.stack(some))
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {error}") from error
    return next(((k, a, b) for k, (a, b) in enumerate(zip(found, expected))
                 if not _C.allclose(a, b, rtol=rtol, atol=atol)), None)


def _refuse_batch(output, input, got, expected):
    raise GradcheckError(f"For output {output} and input {input}:\n\ngot:\n{got}\n\nExpected:\n{expected}")


def _check_batched(chosen, outputs, atol, rtol):
    """Checks that backward gives in one batch what it gives for each cotangent."""
    from . import grad
    for k, y in enumerate(outputs):
        if not y.requires_grad:
            continue

        def pull(v):
            found = grad(y, chosen, v, retain_graph=True, allow_unused=True)
            return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(found, chosen))
        differing = _compare_batch(pull, y, atol, rtol)
        if differing:
            _refuse_batch(k, *differing)


def _check_batched_forward(func, inputs, chosen, atol, rtol):
    """Checks that forward mode gives in one batch what it gives for each tangent."""
    from ..func import jvp
    for j, x in enumerate(chosen):
        def push(t):
            def partial(value):
                return tuple(_outputs(func, [value if v is x else v for v in inputs]))
            return jvp(partial, (x.detach(),), (t,))[1]
        differing = _compare_batch(push, x, atol, rtol)
        if differing:
            _refuse_batch(differing[0], j, *differing[1:])


def _dense_inputs(func, inputs):
    """Makes the sparse inputs of a function dense ones, all of whose elements vary."""
    layouts = [x.layout if _requires(x) and not _dense(x) else None for x in inputs]

    def of_dense(*given):
        return func(*[x if layout is None else x.to_sparse(layout=layout) for x, layout in zip(given, layouts)])
    return of_dense, tuple(x if layout is None else x.detach().to_dense().requires_grad_()
                           for x, layout in zip(inputs, layouts))


def _check(func, inputs, options):
    if not options["masked"] and any(_requires(x) and not _dense(x) for x in inputs):
        func, inputs = _dense_inputs(func, inputs)
    chosen = _checked(inputs)
    outputs = _outputs(func, inputs)
    tracked = any(y.requires_grad for y in outputs)
    backward = options["check_backward_ad"] and tracked
    if not (options["fast_mode"] and tracked and _agree_along_random(func, inputs, chosen, outputs, options)):
        numeric = [_numerical(func, inputs, x, options["eps"]) for x in chosen]
        if options["check_backward_ad"] and not tracked:
            _check_no_dependence(numeric, options["atol"])
        if backward:
            _check_backward(func, inputs, chosen, outputs, numeric, options)
        if options["check_forward_ad"]:
            _check_forward(func, inputs, chosen, outputs, numeric, options)
    if options["check_batched_forward_grad"]:
        _check_batched_forward(func, inputs, chosen, options["atol"], options["rtol"])
    if not backward:
        return
    if options["check_batched_grad"]:
        _check_batched(chosen, outputs, options["atol"], options["rtol"])
    _check_multiplied(func, inputs, chosen)
    if options["check_grad_dtypes"]:
        _check_dtypes(func, inputs, chosen)
    if options["check_undefined_grad"]:
        _check_undefined(func, inputs, chosen)


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0,
              check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
              check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False,
              masked=None):
    """Returns whether the derivatives of `func` agree with differences of step `eps`.

    Compares the Jacobians of all outputs by the inputs that require gradients: those of backward, and with
    check_forward_ad those of forward mode; elements may differ by atol + rtol * |difference|.  fast_mode compares them
    along one random direction, and whole where these differ.  With masked=True a sparse input varies in the values that
    it stores, else in all its elements.
    Raises GradcheckError, or returns False with raise_exception=False.

        >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.sin, x, check_forward_ad=True)
        True
    """
    options = dict(locals())
    assert check_forward_ad or check_backward_ad, \
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    assert check_backward_ad or not check_batched_grad, \
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    assert check_forward_ad or not check_batched_forward_grad, \
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    try:
        _check(func, _as_tuple(inputs), options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _cotangents(outputs, spread):
    """Random cotangents; with `spread`, not contiguous."""
    generator = _C.Generator().manual_seed(0)
    found = [_C.randn(y.shape, dtype=y.dtype, generator=generator).to(y.device) for y in outputs]
    if spread:
        found = [_C.stack([g, g], -1).select(-1, 0) for g in found]
    return [g.requires_grad_() for g in found]


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3,
                  gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
                  check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """Runs gradcheck on the gradient of `func` by its inputs and by its cotangents `grad_outputs` (random ones if None).

    check_rev_over_rev differentiates the gradient by backward, check_fwd_over_rev by forward mode.
    """
    from . import grad
    assert check_fwd_over_rev or check_rev_over_rev, \
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    assert check_rev_over_rev or not check_undefined_grad, \
        "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
    assert check_rev_over_rev or not check_batched_grad, \
        "Setting check_batched_grad=True requires check_rev_over_rev to be True"
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        grad_outputs = _cotangents(_outputs(func, inputs), gen_non_contig_grad_outputs)
    else:
        grad_outputs = _as_tuple(grad_outputs)
    count = len(inputs)
    chosen = [i for i, x in enumerate(inputs) if _requires(x)]

    def gradients(*args):
        args = [x.detach().requires_grad_() if i in chosen and not x.requires_grad else x for i, x in enumerate(args)]
        with _C.enable_grad():
            found = grad(_outputs(func, args[:count]), [args[i] for i in chosen], args[count:], create_graph=True,
                         allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradients, (*inputs, *grad_outputs), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
                     masked=masked)
