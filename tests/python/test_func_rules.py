"""torch.func: random numbers, Functions, modes and older names inside of transforms."""
import warnings

import numpy as np
import pytest

import cresset as torch
import cresset.functorch
import cresset._C._functorch as functorch_names
from cresset.func import grad, grad_and_value, hessian, jacrev, jvp, vjp, vmap
from cresset.utils._python_dispatch import TorchDispatchMode


# --- random numbers ---

DRAWN = {
    "normal_": lambda t, **k: t.clone().normal_(**k),
    "uniform_": lambda t, **k: t.clone().uniform_(**k),
    "geometric_": lambda t, **k: t.clone().geometric_(.5, **k),
    "bernoulli": lambda t, **k: torch.bernoulli(t - .5, **k),
    "poisson": lambda t, **k: torch.poisson(t, **k),
    "binomial": lambda t, **k: torch.binomial(t * 5, t - .5, **k),
    "normal": lambda t, **k: torch.normal(t, t + 1, **k),
    "dirichlet": lambda t, **k: torch._sample_dirichlet(t, **k),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("own", [False, True])
def test_different_numbers_are_those_of_the_whole_batch(name, own):
    x, generator = torch.ones(4, 3, 20), torch.Generator() if own else torch.default_generator
    given = {"generator": generator} if own else {}
    generator.manual_seed(5)
    found = vmap(lambda t: DRAWN[name](t, **given), randomness="different")(x)
    generator.manual_seed(5)
    assert torch.equal(found, DRAWN[name](x, **given))


@pytest.mark.parametrize("name", ["normal_", "uniform_", "geometric_"])
def test_the_same_numbers_are_those_of_one_example(name):
    x, generator = torch.ones(4, 3, 20), torch.Generator()
    found = vmap(lambda t: DRAWN[name](t, generator=generator), randomness="same")(x)
    expected = DRAWN[name](x[0], generator=torch.Generator())
    assert all(torch.equal(example, expected) for example in found)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "binomial", "dirichlet"])
def test_examples_with_distributions_of_their_own_have_no_same_numbers(name):
    with pytest.raises(RuntimeError, match="Vmap does not currently support same randomness with a batched tensor input"):
        vmap(DRAWN[name], randomness="same")(torch.ones(4, 3))


def test_factories_draw_for_the_batch_at_once():
    torch.manual_seed(2)
    found = vmap(lambda _: torch.randn(3, 5), randomness="different")(torch.ones(4))
    torch.manual_seed(2)
    assert torch.equal(found, torch.randn(4, 3, 5))


def test_chunks_with_the_same_numbers_have_them_all():
    def noisy(t):
        return t + torch.rand_like(t)
    x = torch.zeros(7, 3)
    torch.manual_seed(1)
    whole = vmap(noisy, randomness="same")(x)
    torch.manual_seed(1)
    assert torch.equal(vmap(noisy, randomness="same", chunk_size=2)(x), whole)


def test_modes_get_the_generator_of_a_call():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((kwargs or {}).get("generator"))
            return func(*args, **(kwargs or {}))
    generator = torch.Generator()
    expected = torch.randn(3, generator=torch.Generator())
    with Watch():
        found = torch.randn(3, generator=generator)
        torch.ones(2).normal_(generator=torch.default_generator)
    assert torch.equal(found, expected) and isinstance(seen[0], torch.Generator)
    assert seen[-1] is torch.default_generator


# --- autograd.Function ---

def cube_by_numpy(x):
    return torch.from_numpy(x.detach().numpy() ** 3)


class Cube(torch.autograd.Function):
    """By numpy, which cannot compute with one example of a batch."""

    seen = []

    @staticmethod
    def forward(x):
        return cube_by_numpy(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g

    @staticmethod
    def vmap(info, in_dims, x):
        Cube.seen.append((info.batch_size, info.randomness, in_dims))
        return Cube.apply(x), in_dims[0]


def test_the_method_vmap_gets_the_batch():
    x = torch.arange(6.).reshape(3, 2)
    Cube.seen.clear()
    assert torch.equal(vmap(Cube.apply, randomness="same")(x), x ** 3)
    assert Cube.seen == [(3, "same", (0,))]
    assert torch.equal(vmap(vmap(Cube.apply))(x), x ** 3)
    assert torch.equal(vmap(Cube.apply, in_dims=1, out_dims=1)(x), x ** 3)


def test_the_method_vmap_and_derivatives():
    x = torch.arange(1., 7).reshape(3, 2)
    assert torch.equal(vmap(grad(lambda t: Cube.apply(t).sum()))(x), 3 * x ** 2)
    assert torch.equal(grad(lambda t: vmap(Cube.apply)(t).sum())(x), 3 * x ** 2)
    assert torch.equal(jacrev(lambda t: vmap(Cube.apply)(t).sum(0))(x)[0, :, 0], 3 * x[:, 0] ** 2)
    w = torch.tensor(2.)
    found = grad(lambda w: vmap(grad(lambda t: Cube.apply(t * w).sum()))(x).sum())(w)
    assert torch.equal(found, (9 * w ** 2 * x ** 2).sum())


def function(**methods):
    plain = {"forward": lambda x: x * 2, "setup_context": lambda ctx, inputs, output: None, "backward": lambda ctx, g: 2 * g}
    return type("Twice", (torch.autograd.Function,), {k: v if isinstance(v, bool) else staticmethod(v) for k, v in {**plain, **methods}.items()})


@pytest.mark.parametrize("text, methods", [
    ("it does not have vmap support", {}),
    ("both generate_vmap_rule=True and an overriden vmap", {"generate_vmap_rule": True, "vmap": lambda info, in_dims, x: (x, 0)}),
    ("to have two returns", {"vmap": lambda info, in_dims, x: x}),
    ("to have two returns", {"vmap": lambda info, in_dims, x: (x, 0, 0)}),
    ("returned an incompatible", {"vmap": lambda info, in_dims, x: (x, (0, 0))}),
])
def test_functions_that_have_no_batch(text, methods):
    with pytest.raises(RuntimeError, match=text):
        vmap(function(**methods).apply)(torch.ones(3))


def test_functions_with_a_generated_rule():
    assert torch.equal(vmap(function(generate_vmap_rule=True).apply)(torch.ones(3)), torch.full((3,), 2.))


@pytest.mark.parametrize("transform", [vmap, grad, grad_and_value, jacrev, hessian, lambda f: lambda x: jvp(f, (x,), (x,))])
def test_functions_without_setup_context_are_refused(transform):
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        transform(Sine.apply)(torch.ones(()) if transform is not vmap else torch.ones(2))
    assert torch.equal(Sine.apply(torch.ones(2)), torch.ones(2).sin())


# --- modes ---

def test_derivatives_under_no_grad_depend_on_nothing():
    x = torch.tensor(2., requires_grad=True)
    with torch.no_grad():
        first, value = grad_and_value(lambda t: t ** 3)(x)
        out, pull = vjp(lambda t: t ** 2, x)
        pulled, = pull(torch.tensor(1.))
        pushed = jvp(lambda t: t ** 2, (x,), (torch.ones(()),))
    assert [t.item() for t in (first, value, out, pulled, *pushed)] == [12, 8, 4, 4, 4, 4]
    assert not any(t.requires_grad for t in (first, value, out, pulled, *pushed))
    assert pull(torch.tensor(1.))[0].requires_grad


def test_no_grad_inside_of_a_derivative():
    def h(x):
        with torch.no_grad():
            shift = grad(lambda t: t ** 4 / 4)(x)
        return x ** 3 - shift
    x = torch.tensor(1.5, requires_grad=True)
    found = grad(h)(x)
    assert found == 3 * x ** 2
    assert torch.autograd.grad(found, x)[0] == 6 * x


@pytest.mark.parametrize("transform", [grad, grad_and_value, jacrev, hessian])
def test_hooks_of_saved_tensors_are_refused(transform):
    def saved(x):
        with torch.autograd.graph.save_on_cpu():
            return x.sin().sum()
    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(saved)(torch.ones(3))
    with torch.autograd.graph.save_on_cpu(), pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(lambda x: x.sin().sum())(torch.ones(3))
    with torch.autograd.graph.save_on_cpu():
        torch.ones(3, requires_grad=True).sin().sum().backward()


# --- names ---

@pytest.mark.parametrize("name", ["vmap", "grad", "jacrev", "jacfwd", "grad_and_value", "hessian", "functionalize"])
def test_older_names_warn(name):
    with pytest.warns(FutureWarning, match=f"Please use `torch.(func.)?{name}`"):
        getattr(cresset.functorch, name)(torch.sin)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(torch.func, name)(torch.sin)


def test_batches_by_hand():
    from cresset._functorch.vmap import restore_vmap
    from cresset.functorch.experimental import chunk_vmap
    x, y = torch.arange(6.).reshape(3, 2), torch.ones(2)
    out, dims = restore_vmap(lambda a, b: {"a": a + b, "b": b * 2, "c": 5}, (0, None), 3, "error")(x, y)
    assert dims == {"a": 0, "b": None, "c": None} and torch.equal(out["a"], x + 1) and torch.equal(out["b"], y * 2) and out["c"] == 5
    for chunks in 1, 2, 3, 9:
        assert torch.equal(chunk_vmap(torch.sin, chunks=chunks)(x), x.sin())
    with pytest.raises(ValueError, match="chunks should be greater than 0"):
        chunk_vmap(torch.sin, chunks=0)
    from cresset._C._functorch import reshape_dim_into, reshape_dim_outof
    z = torch.arange(24).reshape(2, 3, 4)
    assert np.array_equal(reshape_dim_into(0, -1, z).numpy(), z.numpy().transpose(1, 0, 2).reshape(3, 8))
    assert torch.equal(reshape_dim_outof(-1, 2, z), z.reshape(2, 3, 2, 2))


def test_modules_of_an_ensemble():
    from cresset._functorch.make_functional import functional_init, functional_init_with_buffers
    x = torch.ones(3, 5, 2)
    weights, call, names = functional_init(torch.nn.Linear, (3,))(2, 4)
    assert [w.shape[0] for w in weights] == [3, 3] and names == ("weight", "bias")
    expected = torch.stack([a @ w.T + b for a, w, b in zip(x, *weights)])
    assert torch.allclose(vmap(call)(weights, (x,)), expected)
    params, buffers, call, _, names = functional_init_with_buffers(torch.nn.BatchNorm1d, [3])(2)
    assert len(buffers) == 3 and "running_mean" in names and len(params) == 2
    with pytest.raises(RuntimeError, match="has buffers"):
        functional_init(torch.nn.BatchNorm1d, (3,))(2)


def test_a_call_without_a_rule_warns_or_raises_where_asked():
    from cresset._C import _functorch
    x = torch.eye(2).expand(3, 2, 2)
    assert _functorch._is_vmap_fallback_enabled() and not torch._C._debug_only_are_vmap_fallback_warnings_enabled()
    torch._C._debug_only_display_vmap_fallback_warnings(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(vmap(torch.sin)(x), x.sin())
        with pytest.warns(UserWarning, match="There is a performance drop because we have not yet implemented the batching rule"):
            vmap(lambda t: torch.nn.functional.one_hot(t, 3))(torch.tensor([0, 2]))
    finally:
        torch._C._debug_only_display_vmap_fallback_warnings(False)


# --- what transforms refuse ---

@pytest.mark.parametrize("transform", [vmap, grad, lambda f: vmap(grad(f)), lambda f: lambda x: vjp(f, x)])
@pytest.mark.parametrize("name", ["requires_grad_", "retain_grad"])
def test_leaves_are_not_made_inside_of_a_transform(transform, name):
    def f(x):
        y = x * 2
        getattr(y, name)()
        return y.sum()
    with pytest.raises(RuntimeError, match=rf"attempting to call Tensor.{name}\(\)"):
        transform(f)(torch.ones(3) if transform is not vmap else torch.ones(3, 2))
    y = torch.ones(3).requires_grad_() * 2
    y.retain_grad()
    y.sum().backward()
    assert torch.equal(y.grad, torch.ones(3))


@pytest.mark.parametrize("name", ["vjp", "jacobian", "vhp", "hessian"])
def test_autograd_functional_is_refused_inside_of_a_transform(name):
    function = getattr(torch.autograd.functional, name)
    more = (torch.ones(3),) if name == "vhp" else ()
    with pytest.raises(RuntimeError, match="torch.autograd.functional"):
        vmap(lambda x: function(lambda t: t.sin().sum(), x, *more))(torch.ones(2, 3))


def test_a_backward_that_runs_once_is_differentiated_by_a_transform():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2
    assert grad(Once.apply)(torch.tensor(1.)) == 2


def test_rows_of_a_jacobian_one_by_one_are_no_batch():
    class Counts(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 3 + 0 * len(g.cumsum(0).nonzero())
    assert torch.equal(jacrev(Counts.apply, chunk_size=1)(torch.ones(2)), 3 * torch.eye(2))
    with pytest.raises(RuntimeError, match="can output dynamic shape"):
        jacrev(Counts.apply, chunk_size=2)(torch.ones(2))


def test_modules_of_an_ensemble_agree():
    models = [torch.nn.Linear(2, 2) for _ in range(2)]
    models[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same .requires_grad"):
        torch.func.stack_module_state(models)


def test_a_view_of_an_example_shares_its_elements():
    x = torch.arange(12.).reshape(2, 2, 3)
    assert vmap(lambda t: t.view(6))(x).data_ptr() == x.data_ptr()
    assert vmap(lambda t: t.contiguous())(x) is x
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        vmap(lambda t: t.t().view(6))(x)
    assert torch.equal(vmap(lambda t: t.t().reshape(6))(x), x.mT.reshape(2, 6))


def test_tangents_of_nothing():
    with pytest.raises(RuntimeError, match="to contain at least one Tensor"):
        jvp(torch.sin, (), ())
    with pytest.raises(RuntimeError, match="same python structure"):
        jvp(torch.sin, ((torch.ones(()), torch.ones(())),), (torch.ones(()), torch.ones(())))


@pytest.mark.parametrize("function", [
    lambda x: torch.ones(2, 3) - x, lambda x: torch.zeros(2, 3).add_(x), lambda x: torch.lerp(torch.ones(2, 3), x, .5),
    lambda x: torch.zeros(2, 3).copy_(x), lambda x: torch.addmm(x, torch.ones(2, 1), torch.ones(1, 3)),
    lambda x: torch.nn.functional.group_norm(torch.ones(2, 3), 1, None, x), lambda x: x.expand(2, 3).clone()])
def test_a_tangent_can_be_written_where_its_result_can(function):
    x, t = torch.arange(3.) + 1, torch.tensor([1., 2, 4])
    result, tangent = jvp(function, (x,), (t,))
    want = tangent + 1
    assert torch.equal(tangent.add_(1), want) and tangent.shape == result.shape
    assert jvp(lambda x: x.expand(2, 3), (x,), (t,))[1].stride() == (0, 1)
    assert torch.equal(vmap(lambda t: jvp(function, (x,), (t,))[1].add_(1))(torch.stack([t, t]))[1], want)


def test_tensors_by_keyword_have_no_batch():
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(x, *, y):
            return x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        vmap(Sum.apply)(torch.ones(3), y=torch.ones(3))


@pytest.mark.parametrize("dims", [2, 3])
def test_samples_of_fractional_pooling_have_no_gradient(dims):
    pool = getattr(torch.nn.functional, f"fractional_max_pool{dims}d")
    x, samples = torch.ones(1, 1, *[5] * dims), torch.full((1, 1, dims), .5)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'random_samples'"):
        grad(lambda s: pool(x, 2, 2, _random_samples=s).sum())(samples)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'random_samples'"):
        pool(x, 2, 2, _random_samples=samples.requires_grad_())
    with torch.no_grad():
        assert pool(x, 2, 2, _random_samples=samples).sum() == 2 ** dims


# --- operators whose axes the table states ---

CONVOLUTIONS = {
    "1d": ((2, 4, 9), (6, 4, 3), dict()),
    "2d": ((2, 4, 6, 5), (6, 2, 3, 2), dict(stride=2, padding=1, groups=2)),
    "3d": ((2, 2, 4, 5, 4), (2, 1, 2, 3, 2), dict(dilation=(1, 2, 1), groups=2)),
    "transpose1d": ((2, 4, 5), (4, 3, 3), dict(stride=2, output_padding=1)),
    "transpose2d": ((2, 4, 5, 4), (4, 3, 3, 2), dict(groups=2, padding=1)),
}


@pytest.fixture
def no_loops():
    """Refuses calls of one example after the other."""
    functorch_names._set_vmap_fallback_enabled(False)
    yield
    functorch_names._set_vmap_fallback_enabled(True)


def drawn_convolution(name):
    """The function of (input, weight, bias), and three examples of each."""
    of_input, of_weight, options = CONVOLUTIONS[name]
    function = getattr(torch.nn.functional, "conv_" + name if "transpose" in name else "conv" + name)
    channels = of_weight[1] * options.get("groups", 1) if "transpose" in name else of_weight[0]
    torch.manual_seed(1)
    return (lambda *args: function(*args, **options)), [torch.randn(3, *size, dtype=torch.float64) for size in (of_input, of_weight, (channels,))]


def by_example(f, args, dims):
    """What a map does: f for each example, stacked."""
    found = [f(*(x if d is None else x.select(d, k) for x, d in zip(args, dims))) for k in range(3)]
    return [torch.stack(parts) for parts in zip(*found)] if isinstance(found[0], tuple) else torch.stack(found)


def agree(got, want):
    for g, w in zip(got, want) if isinstance(got, (tuple, list)) else [(got, want)]:
        assert g.shape == w.shape
        torch.testing.assert_close(g, w)


def squares(x):
    """A product: a power is called by example where a derivative around the map is by it."""
    return (x * x).sum()


MAPPED = [dims for dims in np.ndindex(2, 2, 2) if any(dims)]


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("mapped", MAPPED, ids=str)
def test_convolutions_of_examples(name, mapped, no_loops):
    """By any of input, weight and bias; their gradients, inside of the map and around it."""
    convolution, examples = drawn_convolution(name)
    args = [x if m else x[0] for x, m in zip(examples, mapped)]
    dims = tuple(0 if m else None for m in mapped)
    agree(vmap(convolution, dims)(*args), by_example(convolution, args, dims))

    def loss(*args):
        return squares(convolution(*args))
    inside = grad(loss, (0, 1, 2))
    agree(vmap(inside, dims)(*args), by_example(inside, args, dims))

    def around(run):
        return grad(lambda *args: squares(run(convolution, args)), (0, 1, 2))(*args)
    agree(around(lambda f, args: vmap(f, dims)(*args)), around(lambda f, args: by_example(f, args, dims)))


@pytest.mark.parametrize("name", ["1d", "transpose2d"])
def test_second_derivatives_of_convolutions_of_examples(name, no_loops):
    convolution, args = drawn_convolution(name)

    def penalty(*args):
        return sum(map(squares, grad(lambda *args: squares(convolution(*args).sin()), (0, 1))(*args)))
    f = grad(penalty, (0, 1, 2))
    agree(vmap(f)(*args), by_example(f, args, (0, 0, 0)))
    twice = vmap(vmap(convolution, (0, None, None)), (None, 0, 0))(args[0], args[1], args[2])
    agree(twice, torch.stack([torch.stack([convolution(x, w, b) for x in args[0]]) for w, b in zip(*args[1:])]))


MATRICES = {
    "inv": lambda a, b: torch.linalg.inv(a), "solve": torch.linalg.solve, "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.mT),
    "svdvals": lambda a, b: torch.linalg.svdvals(a), "eigvalsh": lambda a, b: torch.linalg.eigvalsh(a + a.mT), "det": lambda a, b: torch.linalg.det(a),
    "matrix_exp": lambda a, b: torch.matrix_exp(a), "qr": lambda a, b: torch.linalg.qr(a)[1].abs(),
    "triangular": lambda a, b: torch.linalg.solve_triangular(a.tril(), b, upper=False),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0), (1, 2)], ids=str)
def test_matrices_of_examples(name, dims):
    torch.manual_seed(3)
    a, b = torch.randn(3, 3, 3, dtype=torch.float64) + 4 * torch.eye(3, dtype=torch.float64), torch.randn(3, 3, 3, dtype=torch.float64)
    args = [x[0] if d is None else x for x, d in zip((a, b), dims)]
    agree(vmap(MATRICES[name], dims)(*args), by_example(MATRICES[name], args, dims))
    f = grad(lambda a, b: (MATRICES[name](a, b) ** 2).sum(), (0, 1))
    agree(vmap(f, dims)(*args), by_example(f, args, dims))


def test_a_batch_without_examples_of_a_convolution():
    convolution, (x, weight, bias) = drawn_convolution("1d")
    assert vmap(lambda x: convolution(x, weight[0], bias[0]))(x[:0]).shape == (0, 2, 6, 7)
    assert vmap(convolution)(x[:0], weight[:0], bias[:0]).shape == (0, 2, 6, 7)


@pytest.mark.parametrize("f", [
    lambda m, g: torch.normal(m, 1.0, generator=g), lambda m, g: torch.normal(0.0, m, generator=g), lambda m, g: torch.normal(m, m, generator=g)])
def test_the_same_numbers_of_distributions_by_example_are_refused(f):
    with pytest.raises(RuntimeError, match="Vmap does not currently support same randomness with a batched tensor input"):
        vmap(lambda m: f(m, torch.default_generator), randomness="same")(torch.ones(3, 2))
    assert vmap(torch.rand_like, randomness="same")(torch.ones(3, 2)).unique(dim=0).shape == (1, 2)


def test_modes_around_and_inside_of_a_map_see_its_calls():
    """The map's own mode handles random numbers alone."""
    class Names(TorchDispatchMode):
        def __init__(self):
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func._opname)
            return func(*args, **(kwargs or {}))

    def f(x, mode=None):
        if mode is None:
            return x.sin() + torch.rand(2)
        with mode:
            return x.sin() + torch.rand(2)
    around, inside = Names(), Names()
    with around:
        vmap(f, randomness="different")(torch.ones(3, 2))
    vmap(lambda x: f(x, inside), randomness="different")(torch.ones(3, 2))
    assert "sin" in around.seen and "rand" in around.seen
    assert inside.seen == ["sin", "rand", "add"]
    with pytest.raises(RuntimeError, match="randomness error mode"), around:
        vmap(f)(torch.ones(3, 2))
