"""Automatic differentiation from Python: backward, grad, modes, hooks, Functions."""
import gc
import weakref

import cresset as torch
import pytest
from cresset.autograd import Function, grad, gradcheck, gradgradcheck
from cresset.autograd.function import once_differentiable


def leaf(n=4):
    return torch.arange(float(n), requires_grad=True)


# --- backward and grad ---

def test_backward_accumulates():
    x = leaf()
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [0.0, 4.0, 8.0, 12.0]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output.0. has a shape of torch.Size..3.."):
        (x * 2).backward(torch.ones(3))


@pytest.mark.parametrize("make, adopted", [
    (lambda base: base.view(4), True),
    (lambda base: base.reshape(4).view(2, 2).view(4), True),
    (lambda base: base.expand(2, 4)[0], False),  # the view has fewer elements than what it was made of
    (lambda base: base[:, :4], False),
    (lambda base: base.view(2, 2).t().reshape(4), True),  # a copy
])
@pytest.mark.parametrize("kept", [False, True])
def test_a_gradient_that_is_a_view_is_not_copied_if_its_base_has_no_other_owner(make, adopted, kept):
    seen, owners = [], []

    class Given(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            base = torch.arange(1.0, 5.0).view(1, 4)
            view = make(base).view(4)
            seen.append(view.data_ptr())
            if kept:
                owners.append(base)
            return view

    x = leaf()
    Given.apply(x).sum().backward()
    same = x.grad.data_ptr() == seen[0]
    assert not (same and owners and owners[0].data_ptr() == seen[0])
    assert same or kept or not adopted
    assert sorted(x.grad.tolist()) == [1.0, 2.0, 3.0, 4.0]
    assert x.grad.untyped_storage().nbytes() == 16
    assert x.grad._base is None and x.grad.is_leaf and not x.grad.requires_grad
    x.grad.zero_()
    if owners:
        assert owners[0].tolist() == [[1.0, 2.0, 3.0, 4.0]]
    Given.apply(x).sum().backward()
    assert sorted(x.grad.tolist()) == [1.0, 2.0, 3.0, 4.0]


def test_the_gradient_of_a_bias_is_the_sum_that_backward_made():
    layer = torch.nn.Linear(3, 5)
    x = torch.randn(2, 4, 3)
    layer(x).sum().backward()
    assert layer.bias.grad._base is None and layer.bias.grad.untyped_storage().nbytes() == 20
    assert layer.bias.grad.tolist() == [8.0] * 5


def test_backward_with_inputs():
    x, y = leaf(), leaf()
    (x.sum() * y.sum()).backward(inputs=x)
    assert x.grad.tolist() == [6.0] * 4 and y.grad is None


def test_grad():
    x, y = leaf(), leaf()
    assert grad((x ** 3).sum(), x)[0].tolist() == [0.0, 3.0, 12.0, 27.0]
    assert grad(x.sum(), y, allow_unused=True) == (None,)
    assert grad(x.sum(), y, materialize_grads=True)[0].tolist() == [0.0] * 4
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(x.sum(), y)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        grad(x * 2, x)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        grad(torch.ones(1), x)


def test_second_derivatives():
    x = leaf()
    first, = grad((x ** 3).sum(), x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [0.0, 6.0, 12.0, 18.0]


def test_a_graph_is_used_once():
    z = (leaf() ** 2).sum()
    z.backward(retain_graph=True)
    z.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.backward()


def test_batched_cotangents():
    x = leaf(3)
    rows, = grad(x * 2, x, torch.eye(3), is_grads_batched=True)
    assert rows.tolist() == (2 * torch.eye(3)).tolist()


def test_nodes():
    x = leaf()
    y = x * 2
    assert x.is_leaf and x.grad_fn is None and not y.is_leaf
    assert y.grad_fn.name() == "MulBackward0" == type(y.grad_fn).__name__
    node, number = y.grad_fn.next_functions[0]
    assert node.variable is x and number == 0 and type(node).__name__ == "AccumulateGrad"
    assert y.grad_fn is y.grad_fn
    y.grad_fn.metadata["note"] = 1
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0] * 4 and y.retains_grad
    assert x.exp().grad_fn._saved_result.shape == (4,)
    with pytest.raises(AttributeError):
        y.grad_fn._saved_nothing


# --- modes ---

def test_modes():
    x = leaf()
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with torch.inference_mode():
        y = torch.ones(2)
        assert torch.is_inference_mode_enabled() and not (x * 2).requires_grad
    assert y.is_inference() and not torch.is_inference_mode_enabled()


VIEWS = {"view": lambda x: x.view(6), "select": lambda x: x[0], "t": lambda x: x.t(), "expand": lambda x: x.expand(2, 2, 3),
         "split": lambda x: x.split(1)[0], "unbind": lambda x: x.unbind()[0], "narrow": lambda x: x.narrow(0, 0, 1),
         "detach": lambda x: x.detach(), "data": lambda x: x.data, "alias": lambda x: torch.ops.aten.alias(x), "diagonal": torch.diagonal,
         "dtype": lambda x: x.view(torch.int32), "as_strided": lambda x: x.as_strided((2,), (1,)), "unsqueeze": lambda x: x.unsqueeze(0)}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_inference_tensors_where_their_bases_are(name):
    view, normal = VIEWS[name], torch.ones(2, 3)
    with torch.inference_mode():
        made = torch.ones(2, 3)
        inside, of_normal = view(made), view(normal)
        assert inside.is_inference() and made.add_(1).is_inference()
    assert not of_normal.is_inference() and view(made).is_inference()
    if name not in ("detach", "data", "expand"):
        with pytest.raises(RuntimeError, match="^Inplace update to inference tensor outside InferenceMode"):
            view(made).add_(1)
    if of_normal.is_floating_point():  # it may be saved for a derivative
        w = torch.ones(of_normal.shape, requires_grad=True)
        (of_normal * w).sum().backward()
        assert torch.equal(w.grad, of_normal)


def test_modes_survive_exceptions():
    with pytest.raises(ValueError):
        with torch.no_grad():
            raise ValueError
    assert torch.is_grad_enabled()


def test_modes_decorate():
    @torch.no_grad()
    def one(x):
        """text"""
        return (x * 2).requires_grad

    @torch.no_grad
    def two(x):
        return (x * 2).requires_grad

    @torch.no_grad()
    def three():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    assert one.__name__ == "one" and one.__doc__ == "text"
    assert not one(leaf()) and not two(leaf())
    seen = []
    for value in three():
        seen.append((value, torch.is_grad_enabled()))
    assert seen == [(False, True)] * 2


# --- hooks ---

def test_tensor_hooks():
    x, seen = leaf(), []
    handle = x.register_hook(seen.append)
    (x * 2).sum().backward()
    assert seen[0].tolist() == [2.0] * 4
    handle.remove()
    with x.register_hook(lambda g: g * 10):
        assert grad((x * 2).sum(), x)[0].tolist() == [20.0] * 4
    assert grad((x * 2).sum(), x)[0].tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(2).register_hook(print)


@pytest.mark.parametrize("hook,cls,text", [
    (lambda g: "a", TypeError, "expected Variable, but hook returned 'str'"),
    (lambda g: torch.ones(7), RuntimeError, "has changed the size of value"),
    (lambda g: 1 / 0, ZeroDivisionError, "division by zero")])
def test_failing_hooks(hook, cls, text):
    x = leaf()
    x.register_hook(hook)
    with pytest.raises(cls, match=text):
        (x * 2).sum().backward()


def test_hooks_of_a_node_stay_when_its_object_ends():
    x, seen = leaf(), []
    y = x * 2
    first = y.grad_fn.register_hook(lambda *g: seen.append(1))
    y.grad_fn.register_prehook(lambda g: seen.append(0))
    y.grad_fn.register_hook(lambda *g: seen.append(2))
    assert len(first.hooks_dict_ref()) == 2
    y.sum().backward(retain_graph=True)
    first.remove()
    y.sum().backward()
    assert seen == [0, 1, 2, 0, 2]


@pytest.mark.parametrize("register", [
    lambda z, y, o: z.grad_fn.register_hook(lambda *g: (z, o)), lambda z, y, o: z.grad_fn.register_prehook(lambda g: (y, o)),
    lambda z, y, o: (lambda n: n.register_hook(lambda *g: (n, o)))(z.grad_fn), lambda z, y, o: y.register_hook(lambda g: (y, z, o))])
def test_hooks_that_refer_to_their_graph_are_collected(register):
    class Seen:
        pass
    x, o = leaf(), Seen()
    gone = weakref.ref(o)
    z = x * 2
    register(z, z.sum(), o)
    del z, o
    gc.collect()
    assert gone() is None


def test_hooks_after_accumulation():
    x, seen = leaf(), []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.sum().item())))
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [(True, 8.0)]


def test_node_hooks():
    x, seen = leaf(), []
    y = x * 2
    y.grad_fn.register_prehook(lambda out: seen.append(("pre", len(out))))
    y.grad_fn.register_hook(lambda into, out: (into[0] * 3, *into[1:]))
    assert grad(y.sum(), x)[0].tolist() == [6.0] * 4 and seen == [("pre", 1)]


# --- in place ---

def test_changes_in_place():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)
    y = x * 1
    y[0] = 5
    assert grad(y.sum(), x)[0].tolist() == [0.0, 1.0, 1.0]
    s = x.sigmoid()
    s.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        s.sum().backward()
    assert x._version == 0 and x.detach().mul_(1)._version == 1


def test_data_and_detach():
    x = leaf(2)
    x.data.add_(1)
    assert x.tolist() == [1.0, 2.0] and x._version == 0 and not x.detach().requires_grad
    x.data = torch.ones(3)
    assert x.shape == (3,) and x.requires_grad


# --- Functions ---

class Square(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g * ctx.scale, None


def test_function():
    x = leaf()
    y = Square.apply(x, 3)
    assert y.grad_fn.name() == "SquareBackward" and y.grad_fn.next_functions[0][0].variable is x
    assert grad(y.sum(), x, retain_graph=True)[0].tolist() == [0.0, 6.0, 12.0, 18.0]
    assert y.grad_fn.scale == 3 and not Square.apply(torch.ones(2), 3).requires_grad
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(Square.apply, (x, 2)) and gradgradcheck(Square.apply, (x, 2))


def test_setup_context_sees_defaults():
    class Times(Function):
        @staticmethod
        def forward(x, by=2):
            return x * by

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.by = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.by, None
    x = leaf()
    assert grad(Times.apply(x).sum(), x)[0].tolist() == [2.0] * 4
    assert grad(Times.apply(x, by=5).sum(), x)[0].tolist() == [5.0] * 4


def test_absent_cotangents():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            seen.append(None if g is None else g.tolist())
            return h * 2, None
    x = leaf(2)
    for materialize in (True, False):
        grad(Two.apply(x, materialize)[1].sum(), x)
    assert seen == [[0.0, 0.0], None]


def test_functions_that_change_their_input():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2
    x = leaf()
    y = x * 1
    assert Double.apply(y) is y and y.grad_fn.name() == "DoubleBackward"
    assert grad(y.sum(), x)[0].tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Double.apply(x)


def test_outputs_without_derivative():
    class Parts(Function):
        @staticmethod
        def forward(ctx, x):
            plain = x * 3
            ctx.mark_non_differentiable(plain)
            return x * 2, x > 1, plain, "text"

        @staticmethod
        def backward(ctx, g, *rest):
            return g * 2
    x = leaf()
    outputs = Parts.apply(x)
    assert [getattr(o, "requires_grad", None) for o in outputs] == [True, False, False, None]
    assert grad(outputs[0].sum(), x)[0].tolist() == [2.0] * 4


def test_an_output_that_is_an_input():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7
    x = leaf()
    y = Same.apply(x)
    assert y is not x and grad(y.sum(), x)[0].tolist() == [7.0] * 4


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]
    x = leaf()
    first, = grad(Once.apply(x), x, torch.ones(4, requires_grad=True), create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked"):
        first.sum().backward()


@pytest.mark.parametrize("answer,text", [
    (lambda g: g, r"returned an incorrect number of gradients \(expected 2, got 1\)"),
    (lambda g: (g, g), "returned a gradient different from None at position 2")])
def test_wrong_return_values_of_backward(answer, text):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, g):
            return answer(g)
    with pytest.raises(RuntimeError, match=text):
        Wrong.apply(leaf(), 2).sum().backward()


def test_a_failing_backward_passes_its_exception_on():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("here")
    with pytest.raises(KeyError, match="here"):
        Fails.apply(leaf()).sum().backward()


def test_gradcheck_finds_a_wrong_derivative():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g
    x = torch.rand(2, dtype=torch.float64, requires_grad=True)
    assert not gradcheck(Wrong.apply, x, raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x)


def test_functional():
    from cresset.autograd import functional as F
    x = torch.arange(3.0)
    assert F.jacobian(lambda t: t ** 2, x).tolist() == torch.diag(2 * x).tolist()
    assert F.hessian(lambda t: (t ** 3).sum(), x).tolist() == torch.diag(6 * x).tolist()
    for product in (F.vjp, F.jvp):
        assert product(lambda t: t ** 2, x, torch.ones(3))[1].tolist() == [0.0, 2.0, 4.0]
    for product in (F.hvp, F.vhp):
        assert product(lambda t: (t ** 3).sum(), x, torch.ones(3))[1].tolist() == [0.0, 6.0, 12.0]


def test_long_chains():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1.0
    del y


@pytest.mark.parametrize("given, place", [("x", "'enabled' (position 1)"), (1, "'enabled' (position 1)"),
                                          ((True, 1), "'check_nan' (position 2)")])
def test_anomaly_mode_takes_only_bools(given, place):
    before = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    given = given if isinstance(given, tuple) else (given,)
    with pytest.raises(TypeError) as error:
        torch.autograd.set_detect_anomaly(*given)
    assert str(error.value) == f"set_anomaly_enabled(): argument {place} must be bool, not {type(given[-1]).__name__}"
    assert before == (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())


def test_anomaly_mode_names_the_operation():
    x = torch.tensor([-1.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        with pytest.warns(UserWarning, match="Error detected in SqrtBackward0. Traceback of forward call"):
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                x.sqrt().sum().backward()


def test_hooks_that_pack_run_without_gradients():
    modes = []

    def pack(tensor):
        modes.append(torch.is_grad_enabled())
        return tensor.numpy().copy()  # refused for a tensor that requires a gradient in grad mode

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        y = x * x.exp()
    assert torch.is_grad_enabled() and modes and not any(modes)
    y.sum().backward()
    expected = (1 + x.detach()) * x.detach().exp()
    assert torch.allclose(x.grad, expected)


def test_edge_of_a_gradient_is_a_named_tuple():
    x = torch.ones(2, requires_grad=True)
    edge = torch.autograd.graph.get_gradient_edge(x.exp())
    node, output, token = edge
    assert (node.name(), output, token) == ("ExpBackward0", 0, None)
    assert repr(edge).startswith("GradientEdge(node=<ExpBackward0 object at ")


def test_the_gradient_of_a_leaf_has_no_history_where_a_derivative_returns_its_argument():
    """torch's derivative of cummax without elements is the argument of cummax."""
    for f in (torch.cummax, torch.cummin):
        x = torch.randn(0, 8, requires_grad=True)
        f(x + 0, 0)[0].sum().backward()
        assert not x.grad.requires_grad and x.grad.grad_fn is None and x.grad.shape == (0, 8)


LINALG_NODES = {
    "cholesky": "LinalgCholeskyEx", "cholesky_ex": "LinalgCholeskyEx", "inv": "LinalgInvEx", "inv_ex": "LinalgInvEx",
    "slogdet": "LinalgSlogdet", "eig": "LinalgEig", "eigh": "LinalgEigh", "eigvals": "LinalgEig", "eigvalsh": "LinalgEigh",
    "svd": "LinalgSvd", "svdvals": "LinalgSvd", "qr": "LinalgQr", "lu_factor": "LinalgLuFactorEx", "lu_factor_ex": "LinalgLuFactorEx"}


@pytest.mark.parametrize("name, node", LINALG_NODES.items())
def test_nodes_of_factorizations_have_torchs_names(name, node):
    a = torch.tensor([[4., 1, 0], [1, 3, 1], [0, 1, 2]], requires_grad=True)
    made = getattr(torch.linalg, name)(a)
    first = made[0] if isinstance(made, tuple) else made
    assert type(first.grad_fn).__name__ == node + "Backward0"


@pytest.mark.parametrize("call, node", [
    (lambda x: torch.swapaxes(x, 0, 1), "Transpose"), (lambda x: torch.movedim(x, 0, 1), "Permute"), (lambda x: x.unflatten(0, (2, 1)), "View"),
    (lambda x: torch.repeat_interleave(x, 2, 0), "View"), (lambda x: torch.clamp(x, x, x + 1), "Clamp"), (torch.angle, "Angle")])
def test_nodes_of_steps_have_torchs_names(call, node):
    assert type(call(torch.ones(2, 3, requires_grad=True)).grad_fn).__name__ == node + "Backward0"
