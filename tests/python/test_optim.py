"""Optimizers and schedulers: recorded steps, state dicts, hooks, errors."""
import copy
import json
import pathlib
import pickle
import warnings

import cresset as torch
import pytest
from cresset import nn, optim
from cresset.optim import lr_scheduler as schedules

import optim_cases as cases

EXPECTED = json.loads((pathlib.Path(__file__).parent / "optim_expected.json").read_text())
IDS = [cases.label(*c) for c in cases.OPTIMIZERS]


def message(kind, function):
    with pytest.raises(kind) as caught:
        function()
    return str(caught.value)


def param(*values):
    return nn.Parameter(torch.tensor(values or (1.0, 2.0)))


def with_grad(*values):
    p = param(*values)
    p.grad = torch.ones_like(p)
    return p


@pytest.mark.parametrize("name, options", cases.OPTIMIZERS, ids=IDS)
def test_steps_give_the_recorded_numbers(name, options):
    got, expected = cases.run_optimizer(torch, name, options), EXPECTED["optimizers"][
        cases.label(name, options)]
    tolerance = 1e-3 if name == "LBFGS" else 2e-5
    assert got["values"] == pytest.approx(expected["values"], rel=tolerance, abs=tolerance)
    assert got["state"] == expected["state"]
    assert got["repr"] == expected["repr"]


@pytest.mark.parametrize("name, options", cases.OPTIMIZERS, ids=IDS)
def test_training_continues_from_torchs_state(name, options):
    recorded = EXPECTED["saved"][cases.label(name, options)]
    got = cases.run_resumed(torch, name, options, recorded)
    tolerance = 1e-3 if name == "LBFGS" else 2e-5
    assert got == pytest.approx(recorded["values"], rel=tolerance, abs=tolerance)


def outline(value):
    """Returns a recorded state without its numbers and the order of its keys."""
    if isinstance(value, dict):
        if "tensor" in value:
            return value["dtype"], value["size"]
        if "dict" in value:
            return {k: outline(v) for k, v in value["dict"]}
        return {k: outline(v) for k, v in value.items()}
    return [outline(v) for v in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("name, options", cases.OPTIMIZERS, ids=IDS)
def test_a_saved_state_has_torchs_layout(name, options):
    got = json.loads(json.dumps(cases.run_saved(torch, name, options)["state"]))
    recorded = EXPECTED["saved"][cases.label(name, options)]["state"]
    assert outline(got) == outline(recorded)
    keys = [[k for k, _ in one["dict"]] for one in got["dict"][1][1]]
    assert keys == [[k for k, _ in one["dict"]] for one in recorded["dict"][1][1]]


NOT_FUSED = [c for c in cases.OPTIMIZERS if not c[1].get("fused")]


@pytest.mark.parametrize("name, options", NOT_FUSED, ids=[cases.label(*c) for c in NOT_FUSED])
def test_complex_parameters_are_pairs(name, options):
    got = cases.run_optimizer(torch, name, options, complex_numbers=True)["values"]
    tolerance = 1e-3 if name == "LBFGS" else 2e-5
    assert got == pytest.approx(EXPECTED["complex"][cases.label(name, options)], rel=tolerance,
                                abs=tolerance)


@pytest.mark.parametrize("name, options", cases.OPTIMIZERS, ids=IDS)
def test_training_continues_from_a_saved_state(name, options):
    params, loss = cases.problem(torch)
    optimizer = cases.make(torch, name, options, params)
    cases.advance(name, optimizer, loss, 3)
    other_params = [nn.Parameter(p.detach().clone()) for p in params]
    other = cases.make(torch, name, options, other_params)
    other.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    assert repr(other) == repr(optimizer)
    for p, q in zip(params, other_params):
        q.grad = None if p.grad is None else p.grad.clone()
    if name == "LBFGS":
        return  # its closure computes gradients of the first parameters
    optimizer.step()
    other.step()
    for p, q in zip(params, other_params):
        assert torch.equal(p, q)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax",
                                  "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD"])
def test_a_differentiable_step_is_recorded(name):
    start = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    p = start * 2
    optimizer = getattr(optim, name)([p], lr=0.1, differentiable=True)
    p.grad = start.sin()
    optimizer.step()
    (p * p).sum().backward()
    assert start.grad is not None and start.grad.abs().min() > 0


def test_groups_have_their_own_options():
    a, b = with_grad(), with_grad()
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.5)
    optimizer.step()
    assert a.tolist() == [0.5, 1.5] and b.tolist() == [0.0, 1.0]
    c = with_grad()
    optimizer.add_param_group({"params": c, "weight_decay": 1.0})
    optimizer.step()
    assert c.tolist() == [0.0, 0.5]
    named = optim.SGD([("x", a), ("y", b)], lr=0.1)
    assert named.param_groups[0]["param_names"] == ["x", "y"]
    assert named.param_groups[0]["params"] == [a, b]


def test_parameters_without_gradients_do_not_change():
    a, b = with_grad(), param()
    optimizer = optim.Adam([a, b])
    optimizer.step()
    assert b.tolist() == [1.0, 2.0] and b not in optimizer.state and a in optimizer.state


def test_gradients_are_cleared_or_zeroed():
    p = with_grad()
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_a_closure_is_called_with_gradients_on():
    p = param()
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = p.sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 3.0
        assert not torch.is_grad_enabled()
    assert p.tolist() == [0.5, 1.5]


def test_step_hooks_surround_the_step():
    p, seen = with_grad(), []
    optimizer = optim.SGD([p], lr=1.0)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(p.tolist()))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(p.tolist()))
    every = optim.optimizer.register_optimizer_step_pre_hook(
        lambda o, args, kwargs: seen.append(type(o).__name__))
    optimizer.step()
    assert seen == ["SGD", [1.0, 2.0], [0.0, 1.0]]
    handle.remove()
    every.remove()
    optimizer.step()
    assert seen[3:] == [[0.0, 1.0]]


def test_state_hooks_may_replace_the_state():
    optimizer = optim.SGD([param()], lr=1.0)
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    assert optimizer.state_dict()["extra"] == 1
    optimizer.register_load_state_dict_pre_hook(
        lambda o, state: {k: v for k, v in state.items() if k != "extra"})
    done = []
    optimizer.register_load_state_dict_post_hook(lambda o: done.append(o))
    optimizer.load_state_dict(optimizer.state_dict())
    assert done == [optimizer]


def test_optimizers_are_copied_and_pickled():
    optimizer = optim.Adam([with_grad()])
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        p = other.param_groups[0]["params"][0]
        assert other.state[p]["step"].item() == 1
        p.grad = torch.ones(2)
        other.step()
        assert other.state[p]["step"].item() == 2


def test_a_subclass_is_an_optimizer():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p, seen = with_grad(), []
    optimizer = Sign([p], 0.5)
    optimizer.register_step_post_hook(lambda *a: seen.append(1))
    optimizer.step()
    assert p.tolist() == [0.5, 1.5] and seen == [1]


def two_groups_of_one():
    p = param()
    return optim.SGD([{"params": [p]}, {"params": [p]}])


@pytest.mark.parametrize("make, kind, text", [
    (lambda: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda: optim.SGD(param()), TypeError,
     "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
     "torch.FloatTensor"),
    (lambda: optim.SGD([1]), TypeError,
     "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda: optim.SGD([param() * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda: optim.SGD([{"params": {param()}}]), TypeError,
     "optimizer parameters need to be organized in ordered collections, but the ordering of "
     "tensors in sets will change between runs. Please use a list instead."),
    (two_groups_of_one, ValueError, "some parameters appear in more than one parameter group"),
    (lambda: optim.SGD([("a", param()), param()]), ValueError,
     "all optimizer params should be with/without names. Some param names are missing"),
    (lambda: optim.SGD([param()], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda: optim.SGD([param()], lr=torch.zeros(2)), ValueError, "Tensor lr must be 1-element"),
    (lambda: optim.SGD([param()], momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda: optim.SGD([param()], nesterov=True), ValueError,
     "Nesterov momentum requires a momentum and zero dampening"),
    (lambda: optim.SGD([param()], fused=True, foreach=True), RuntimeError,
     "`fused` and `foreach` cannot be `True` together."),
    (lambda: optim.SGD([param()], fused=True, differentiable=True), RuntimeError,
     "`fused` does not support `differentiable`"),
    (lambda: optim.Adam([param()], betas=(1.0, 0.9)), ValueError,
     "Invalid beta parameter at index 0: 1.0"),
    (lambda: optim.Adam([param()], betas=(0, 0.9)), ValueError,
     "betas must be either both floats or both Tensors"),
    (lambda: optim.Adam([param()], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda: optim.Rprop([param()], etas=(2, 3)), ValueError, "Invalid eta values: 2, 3"),
    (lambda: optim.RMSprop([param()], alpha=-1), ValueError, "Invalid alpha value: -1"),
    (lambda: optim.LBFGS([{"params": [param()]}, {"params": [param()]}]), ValueError,
     "LBFGS doesn't support per-parameter options (parameter groups)"),
    (lambda: optim.SGD([param()]).add_param_group([1]), TypeError,
     "param_group must be a dict, but got <class 'list'>"),
    (lambda: optim.SGD([param()]).load_state_dict({"state": {}, "param_groups": []}), ValueError,
     "loaded state dict has a different number of parameter groups"),
    (lambda: optim.SGD([param()]).load_state_dict(
        {"state": {}, "param_groups": [{"params": []}]}), ValueError,
     "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
     "group"),
    (lambda: optim.Adam([with_grad()], capturable=True).step(), AssertionError,
     "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', "
     "'hpu', 'privateuseone', 'xla']."),
    (lambda: optim.Adadelta([with_grad()], capturable=True).step(), AssertionError,
     "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', "
     "'hpu', 'privateuseone']."),
    (lambda: optim.ASGD([with_grad()], capturable=True).step(), AssertionError,
     "If capturable=True, params, mus, etas, and state_steps must be on supported devices: ['cuda', "
     "'xpu', 'hpu', 'privateuseone', 'xla']."),
    (lambda: optim.RMSprop([with_grad()], foreach=True, differentiable=True).step(), AssertionError,
     "_foreach ops don't support autograd"),
    (lambda: optim.AdamW([with_grad()], foreach=True, differentiable=True).step(), AssertionError,
     "_foreach ops don't support autograd"),
])
def test_errors(make, kind, text):
    assert message(kind, make) == text


def test_duplicate_parameters_warn():
    p = param()
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate"):
        optim.SGD([p, p])


# Schedules.

@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_schedules_give_the_recorded_rates(name):
    got, expected = cases.run_schedule(torch, name), EXPECTED["schedules"][name]
    for epoch, (mine, recorded) in enumerate(zip(got, expected)):
        assert mine == pytest.approx(recorded, rel=1e-6), epoch


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_schedules_continue_from_a_saved_state(name):
    def start():
        optimizer = optim.SGD([{"params": [param()]}, {"params": [param()], "lr": 0.5}], lr=0.1,
                              momentum=0.9)
        return optimizer, cases.SCHEDULES[name](schedules, optimizer)

    def step(optimizer, scheduler, n):
        for i in range(n):
            optimizer.step()
            scheduler.step(*((1.0,) if name.startswith("Reduce") else ()))

    first, second = start(), start()
    step(*first, 5)
    second[0].load_state_dict(first[0].state_dict())
    second[1].load_state_dict(copy.deepcopy(first[1].state_dict()))
    step(*first, 5)
    step(*second, 5)
    assert second[1].get_last_lr() == first[1].get_last_lr()
    assert [g["lr"] for g in second[0].param_groups] == [
        g["lr"] for g in first[0].param_groups]


@pytest.mark.parametrize("name", cases.SCHEDULES)
def test_a_schedules_state_has_torchs_keys(name):
    got, recorded = cases.run_schedule_state(torch, name), EXPECTED["schedule states"][name]
    assert got["keys"] == recorded["keys"]
    assert got["plain"] == pytest.approx(recorded["plain"])
    assert got["last"] == pytest.approx(recorded["last"])


def test_a_rate_that_is_a_tensor_keeps_its_identity():
    rate = torch.tensor(0.5)
    optimizer = optim.SGD([with_grad()], lr=rate)
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.25


def sgd():
    return optim.SGD([with_grad()], lr=0.1)


def test_schedules_warn_about_their_use():
    optimizer = sgd()
    scheduler = schedules.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before"):
        scheduler.step()
    with pytest.warns(UserWarning, match="To get the last learning rate computed by the"):
        scheduler.get_lr()
    with pytest.warns(UserWarning, match="The epoch parameter in"):
        scheduler.step(5)
    assert scheduler.get_last_lr() == pytest.approx([0.1 * 0.1 ** 5])
    optimizer = sgd()
    scheduler = schedules.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()


@pytest.mark.parametrize("make, kind, text", [
    (lambda: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),
    (lambda: schedules.StepLR(sgd(), 1, last_epoch=3), KeyError,
     "param 'initial_lr' is not specified in param_groups[0] when resuming"),
    (lambda: schedules.LambdaLR(sgd(), [abs, abs]), ValueError,
     "Expected 1 lr_lambdas, but got 2"),
    (lambda: schedules.MultiplicativeLR(sgd(), 3), TypeError,
     "lr_lambda should be a function, but got int"),
    (lambda: schedules.OneCycleLR(sgd(), 0.1), ValueError,
     "You must define either total_steps OR (epochs AND steps_per_epoch)"),
    (lambda: schedules.OneCycleLR(optim.Adagrad([param()]), 0.1, 5), ValueError,
     "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"),
    (lambda: schedules.ReduceLROnPlateau(sgd(), factor=1), ValueError,
     "Factor should be < 1.0."),
    (lambda: schedules.ReduceLROnPlateau(sgd(), mode="x"), ValueError, "mode x is unknown!"),
    (lambda: schedules.ConstantLR(sgd(), 2), ValueError,
     "Constant multiplicative factor expected to be between 0 and 1."),
    (lambda: schedules.CosineAnnealingWarmRestarts(sgd(), 0), ValueError,
     "Expected positive integer T_0, but got 0"),
    (lambda: schedules.SequentialLR(sgd(), [], []), ValueError,
     "SequentialLR expects at least one scheduler, but got no scheduler."),
    (lambda: schedules.ChainedScheduler([schedules.StepLR(sgd(), 1), schedules.StepLR(sgd(), 1)]),
     ValueError, "ChainedScheduler expects all schedulers to belong to the same optimizer"),
])
def test_errors_of_schedules(make, kind, text):
    assert text in message(kind, make)


def test_an_ordinary_loop_is_silent():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = sgd()
        scheduler = schedules.CosineAnnealingLR(optimizer, 3)
        for _ in range(5):
            optimizer.step()
            scheduler.step()
    assert not caught


# The fused update.

def many_parameters():
    """Returns parameters of many sizes (empty to large), one transposed, one half precision, one
    double."""
    torch.manual_seed(0)
    params = [torch.randn(n) for n in (1, 3, 255, 256, 257, 100, 70000, 0)]
    params += [torch.randn(40, 30).t(), torch.randn(50, dtype=torch.float64), torch.randn(60).bfloat16()]
    params = [nn.Parameter(p) for p in params]
    for p in params:
        p.grad = torch.randn_like(p)
    return params


FUSED = [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("Adam", {}),
         ("Adam", {"amsgrad": True, "maximize": True}), ("AdamW", {}), ("Adagrad", {"lr_decay": 0.1})]


@pytest.mark.parametrize("name, options", FUSED, ids=[cases.label(*c) for c in FUSED])
def test_one_call_updates_parameters_of_all_kinds(name, options):
    fused, plain = many_parameters(), many_parameters()
    for params, choice in ((fused, None), (plain, False)):
        optimizer = getattr(optim, name)(params, fused=choice, weight_decay=0.1, **options)
        for _ in range(3):
            optimizer.step()
    for a, b in zip(fused, plain):
        tolerance = 2e-2 if a.dtype == torch.bfloat16 else 1e-5
        assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), a.shape


@pytest.mark.parametrize("name, options", [
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.5}), ("RMSprop", {"centered": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5}), ("Adadelta", {})])
def test_a_tensor_rate_gives_the_same_numbers(name, options):
    fused, plain = many_parameters(), many_parameters()
    for params, rate in ((fused, 0.25), (plain, torch.tensor(0.25))):
        optimizer = getattr(optim, name)(params, lr=rate, weight_decay=0.1, **options)
        for _ in range(3):
            optimizer.step()
    for a, b in zip(fused, plain):
        tolerance = 1e-1 if a.dtype == torch.bfloat16 else 1e-4
        assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), a.shape


def test_a_parameter_listed_twice_is_updated_twice_in_order():
    p = with_grad(*map(float, range(100000)))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=1.0)
    optimizer.step()
    assert torch.equal(p, torch.arange(100000.0) - 2)


def test_parameters_that_joined_later_have_their_own_step():
    a, b = with_grad(), with_grad()
    b.grad = None
    optimizer = optim.Adam([a, b], lr=0.5)
    optimizer.step()
    b.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.state[a]["step"].item() == 2 and optimizer.state[b]["step"].item() == 1
    assert b.tolist() == pytest.approx([0.5, 1.5])


def test_a_step_moves_the_versions():
    p = with_grad()
    optimizer = optim.Adam([p])
    before = p._version
    optimizer.step()
    assert p._version == before + 1 and optimizer.state[p]["step"]._version == 1


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_a_scaled_step_unscales_or_is_skipped(name):
    plain, scaled = with_grad(), with_grad()
    getattr(optim, name)([plain], lr=0.1).step()
    optimizer = getattr(optim, name)([scaled], lr=0.1, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.tensor(1.0)
    scaled.grad = scaled.grad * 4
    optimizer.step()
    assert scaled.tolist() == [1.0, 2.0]
    assert all(s["step"].item() == 0 for s in optimizer.state.values() if "step" in s)
    optimizer.found_inf = torch.tensor(0.0)
    optimizer.step()
    assert torch.equal(scaled, plain) and scaled.grad.tolist() == [1.0, 1.0]


def test_lists_of_different_lengths_are_refused():
    from cresset._ops import ops
    p, g, s = (torch.ones(3) for _ in range(3))
    step = torch.tensor(1.0)
    rest = dict(lr=0.1, lr_decay=0, weight_decay=0, eps=1e-8, maximize=False)
    assert message(RuntimeError, lambda: ops._fused_adagrad_([p], [g, g], [s], [step], **rest)) == (
        "_fused_adagrad_: lists of 1 and 2 tensors")
    assert "same sizes" in message(
        RuntimeError, lambda: ops._fused_adagrad_([p], [torch.ones(4)], [s], [step], **rest))
    assert message(RuntimeError, lambda: ops._fused_adagrad_([p], [g], [s], [g], **rest)) == (
        "a step must be one number, and has 3 elements")
    assert p.tolist() == [1.0] * 3 and s.tolist() == [1.0] * 3


@pytest.mark.parametrize("factor", [torch.ones(0), torch.ones(3), torch.ones(1, 1), torch.ones((), device="meta"), torch.ones((), dtype=torch.complex64)],
                         ids=str)
def test_tensors_are_scaled_by_one_number(factor):
    scale = torch._C.ops._scale_each_
    for tensors in ([torch.ones(3)], [torch.ones(3), torch.ones(3, 2).t()[1]], [torch.tensor(2.0)], [torch.ones(2, dtype=torch.bfloat16)]):
        with pytest.raises(RuntimeError, match="the factor must be one real number on the tensors' device"):
            scale(tensors, factor)
        for number in (torch.tensor(3), torch.tensor(3, dtype=torch.bfloat16)):
            want = [3 * t for t in tensors]
            scale(tensors, number)
            assert all(torch.equal(t, w) for t, w in zip(tensors, want))
