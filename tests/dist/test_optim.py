"""Optimizers of several ranks, groups that compare calls, and modules around modules."""
import os
import warnings

import pytest

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
import ranks
from cresset.distributed.algorithms._checkpoint.checkpoint_wrapper import (apply_activation_checkpointing, CheckpointImpl,
                                                                           checkpoint_wrapper, CheckpointWrapper, offload_wrapper,
                                                                           OffloadWrapper)
from cresset.distributed.checkpoint import state_dict as sd
from cresset.distributed.fsdp import wrap
from cresset.distributed.optim import _NamedOptimizer, ZeroRedundancyOptimizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_optim.py")


@pytest.mark.parametrize("name", ["shares_equal_the_whole", "steps_during_backward", "uneven_inputs", "compared_calls"])
def test_on_two_ranks(name):
    if not dist.is_gloo_available():
        pytest.skip("Gloo is not there")
    result = ranks.run(HERE, name, 2, "gloo")
    assert result.codes == [0, 0], result


@pytest.fixture
def alone():
    dist.init_process_group("fake", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("params, error, words", [
    (torch.ones(1), TypeError, "iterable of Tensors, but got"), (1.2, TypeError, "or dicts, but got"),
    ([], ValueError, "an empty parameter list"), ([torch.ones(1), 42], TypeError, "iterable of Tensors or dicts"),
    ([{"lr": 1}], ValueError, "must have a 'params' key"),
    ([torch.ones(1), torch.ones(1, dtype=torch.float64)], ValueError, "the same dense type"),
    ([torch.ones(2).to_sparse()], ValueError, "the same dense type")])
def test_bad_parameters_are_refused(alone, params, error, words):
    with pytest.raises(error, match=words):
        ZeroRedundancyOptimizer(params, torch.optim.SGD, lr=0.1)


def test_states_of_other_groups_are_refused(alone):
    params = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
    zero = ZeroRedundancyOptimizer(params, torch.optim.SGD, lr=0.1, momentum=0.9)
    for p in params:
        p.grad = torch.ones_like(p)
    zero.step()
    zero.consolidate_state_dict()
    state = zero.state_dict()
    [group] = state["param_groups"]
    for groups, words in (([group, dict(group)], "^loaded state dict has a different number of parameter groups$"), ([], "different number"),
                          ([{**group, "params": [0]}], "^loaded state dict contains a parameter group that doesn't match the size of "
                                                       "optimizer's group$")):
        with pytest.raises(ValueError, match=words):
            zero.load_state_dict({"state": {}, "param_groups": groups})
    with pytest.raises(KeyError):
        zero.load_state_dict({"state": {7: {}}, "param_groups": [group]})
    seen = []
    zero.register_load_state_dict_pre_hook(lambda o, state: {**state, "param_groups": [{**group, "lr": 0.25}]})
    zero.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    given = {"momentum_buffer": torch.full((3,), 5.0, requires_grad=True), "step": torch.tensor(2.0), "parts": [torch.ones(1)]}
    zero.load_state_dict({"state": {0: given}, "param_groups": [group]})
    own = zero.optim.state[params[0]]
    assert seen == [0.25] and zero.optim.param_groups[0]["lr"] == 0.25
    assert own["momentum_buffer"].tolist() == [5, 5, 5] and not own["momentum_buffer"].requires_grad
    assert all(own[k].data_ptr() != given[k].data_ptr() for k in ("momentum_buffer", "step"))
    assert own["parts"][0] is not given["parts"][0] and zero.optim.state[params[1]]["momentum_buffer"].tolist() == [1, 1]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().sum().backward()
    optimizer.step()


def test_states_of_named_optimizers_have_names():
    a, b = net(), net()
    named = _NamedOptimizer(a.named_parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    plain = torch.optim.SGD(b.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        step(a, named), step(b, plain)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
    state, numbered = named.state_dict(), plain.state_dict()
    assert list(state["state"]) == [n for n, _ in a.named_parameters()]
    assert all(torch.equal(s["momentum_buffer"], numbered["state"][i]["momentum_buffer"])
               for i, s in enumerate(state["state"].values()))
    assert state["param_groups"][0]["params"] == sorted(state["state"]) and state["param_groups"][0]["lr"] == 0.1
    c = net()
    c.load_state_dict(a.state_dict())
    again = _NamedOptimizer(c.named_parameters(), torch.optim.SGD, lr=0.3, momentum=0.9)
    with pytest.raises(ValueError, match="but found not initialized"):
        again.load_state_dict(state)
    again.init_state()
    again.load_state_dict(state)
    c.load_state_dict(a.state_dict())
    step(a, named), step(c, again)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), c.parameters())) and again.param_groups[0]["lr"] == 0.1


def test_groups_of_named_optimizers():
    model = net()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        named = _NamedOptimizer(model.named_parameters(), torch.optim.SGD, [{"params": [model[0].weight]}], lr=0.1)
    assert "we will use param_groups" in str(seen[0].message)
    named.add_param_group({"params": model[1][1].weight, "lr": 0.2})
    assert named.ordered_param_keys == ["0.weight", "1.1.weight"] and [g["lr"] for g in named.param_groups] == [0.1, 0.2]
    with pytest.raises(ValueError, match="some parameters are not in the module"):
        named.add_param_group({"params": [torch.ones(1, requires_grad=True)]})
    with pytest.raises(AssertionError, match="param group must be a dict"):
        named.add_param_group([model[0].bias])
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        _NamedOptimizer(model.named_parameters(), torch.optim.SGD, [{"params": [3]}], lr=0.1)
    step(model, named)
    state = named.state_dict()
    state["param_groups"][0]["more"] = 1
    named.init_state()
    momentum = _NamedOptimizer(model.named_parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    momentum.init_state()
    state = momentum.state_dict()
    state["state"]["0.weight"] = {}
    with pytest.raises(ValueError, match="Expects equal length as 1 for parameter 0.weight but found: 0"):
        momentum.load_state_dict(state)


@pytest.mark.parametrize("wrapper, kind", [
    (checkpoint_wrapper, CheckpointWrapper), (offload_wrapper, OffloadWrapper),
    (lambda m: checkpoint_wrapper(m, CheckpointImpl.REENTRANT), CheckpointWrapper),
    (lambda m: checkpoint_wrapper(m, checkpoint_fn=lambda f, *a, **k: f(*a, **k)), CheckpointWrapper)])
def test_wrapped_modules_behave_as_before(wrapper, kind):
    x = torch.ones(3, 4, requires_grad=True)
    plain, model = net(), net()
    apply_activation_checkpointing(model, wrapper, lambda m: isinstance(m, nn.Linear))
    assert isinstance(model[0], kind) and isinstance(model[1][1], kind) and not isinstance(model, kind)
    assert list(model.state_dict()) == list(plain.state_dict()) and model[0].in_features == 4
    model.load_state_dict(plain.state_dict())
    results = []
    for m in (plain, model):
        x.grad = None
        m(x).square().sum().backward()
        results.append([x.grad] + [p.grad for p in m.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results))
    assert sorted(sd.get_model_state_dict(model)) == sorted(plain.state_dict())
    assert [n for n, _ in model[0].named_parameters()] == ["weight", "bias"]


def test_keyword_arguments_pass_a_reentrant_checkpoint():
    class Sum(nn.Module):
        def forward(self, a, *, b, scale=1):
            return a + b * scale
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    checkpoint_wrapper(Sum(), CheckpointImpl.REENTRANT)(a, b=b, scale=3).sum().backward()
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [3, 3]


def chosen(policy):
    model = net()
    apply_activation_checkpointing(model, auto_wrap_policy=policy)
    return [name for name, m in model.named_modules() if isinstance(m, CheckpointWrapper)]


def test_policies_pick_modules():
    inner = "1._checkpoint_wrapped_module.1"
    assert chosen(wrap.always_wrap_policy) == ["0", "1", "1._checkpoint_wrapped_module.0", inner]
    assert chosen(wrap.ModuleWrapPolicy({nn.Linear})) == ["0", "1.1"]
    assert chosen(wrap.CustomPolicy(lambda m: isinstance(m, nn.ReLU))) == ["1.0"]
    by_size = lambda **k: wrap.size_based_auto_wrap_policy(min_num_params=15, **k)  # noqa: E731
    assert chosen(by_size) == ["0"]
    both = lambda **k: wrap._or_policy(policies=[by_size, wrap.ModuleWrapPolicy({nn.ReLU})], **k)  # noqa: E731
    assert chosen(both) == ["0", "1.0"]
    with pytest.raises(ValueError, match="to be callable or be a pre-defined wrap policy"):
        chosen(3)
    with pytest.raises(ValueError, match="should return False/True or a kwarg dict"):
        chosen(wrap.CustomPolicy(lambda m: 1))


@pytest.mark.parametrize("policy, kinds", [
    (wrap.ModuleWrapPolicy({nn.Linear}), "WLSW"), (wrap.CustomPolicy(lambda m: isinstance(m, nn.Linear)), "WLSL"),
    (wrap.CustomPolicy(lambda m: isinstance(m, (nn.Linear, nn.Sequential))), "WLWL"), (None, "WLSW")])
def test_modules_of_several_parents_are_wrapped_as_in_torch(policy, kinds):
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, shared)
    model.extra = nn.Sequential(shared)
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear), auto_wrap_policy=policy)
    names = {CheckpointWrapper: "W", nn.Linear: "L", nn.Sequential: "S"}
    assert "".join(names[type(m)] for m in (model[0], model[1], model.extra, model.extra[0])) == kinds
    assert model[0]._checkpoint_wrapped_module is shared


def test_annotations_wrap_inside_of_a_block():
    with wrap.enable_wrap(wrapper_cls=CheckpointWrapper, checkpoint_impl=CheckpointImpl.REENTRANT):
        made = wrap.wrap(nn.Linear(2, 2))
        with pytest.raises(NotImplementedError, match="already within"):
            with wrap.enable_wrap(wrapper_cls=CheckpointWrapper):
                pass
    assert made.checkpoint_impl is CheckpointImpl.REENTRANT and type(wrap.wrap(nn.Linear(2, 2))) is nn.Linear


def test_patched_states_are_by_name():
    model, options = net(), sd.StateDictOptions()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step(model, optimizer)
    wanted = sd.get_state_dict(model, optimizer)
    sd._patch_model_state_dict(model, options=options)
    sd._patch_optimizer_state_dict(model, optimizers=optimizer, options=options)
    assert list(model.state_dict()) == list(wanted[0]) and list(optimizer.state_dict()["state"]) == list(wanted[1]["state"])
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    state = optimizer.state_dict()
    step(model, optimizer)
    model.load_state_dict(kept)
    optimizer.load_state_dict(state)
    assert all(torch.equal(v, kept[k]) for k, v in model.state_dict().items())


def test_a_reducer_alone():
    dist.init_process_group("fake", rank=0, world_size=2, store=dist.HashStore())  # the other rank's gradients are zeros
    try:
        model = net()
        model[1][1].double()
        params = list(model.parameters())
        group = dist.distributed_c10d._get_default_group()
        with pytest.raises(RuntimeError, match="must have the same dtype"):
            dist.Reducer(params, [[0, 1, 2, 3]], [1000], group)
        with pytest.raises(RuntimeError, match="0 to 3 once"):
            dist.Reducer(params, [[0, 1], [2]], [1000, 1000], group)
        reducer = dist.Reducer(params, [[0, 1], [2, 3]], [1000, 1000], group, find_unused_parameters=True)
        reducer.prepare_for_forward()
        out = model[0](torch.ones(2, 4)).sum()
        reducer.prepare_for_backward(out)
        out.backward()
        assert model[0].weight.grad is not None
        assert not reducer._is_rebuilt()
    finally:
        dist.destroy_process_group()
