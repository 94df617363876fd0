"""The base class: attributes, iteration, state, hooks, printing."""
import copy
import io
import pickle
import warnings
from collections import OrderedDict

import cresset as torch
import pytest
from cresset import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 2)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def message(kind, function):
    with pytest.raises(kind) as caught:
        function()
    return str(caught.value)


# Attributes.

def test_attributes_are_found_in_the_tables():
    net = Net()
    assert net.fc1 is net._modules["fc1"]
    assert net.fc1.weight is net.fc1._parameters["weight"]
    assert net.seen is net._buffers["seen"]
    assert "fc1" not in net.__dict__ and "seen" not in net.__dict__
    assert {"fc1", "seen", "forward", "training"} <= set(dir(net))


def test_a_missing_attribute_is_named():
    assert message(AttributeError, lambda: Net().nope) == "'Net' object has no attribute 'nope'"


def test_assignment_chooses_the_table_by_type():
    m = nn.Module()
    m.x = 1
    m.x = nn.Parameter(torch.ones(2))
    assert "x" in m._parameters and "x" not in m.__dict__
    m.y = nn.Linear(1, 1)
    m.y = None
    assert m._modules["y"] is None
    m.z = nn.Buffer(torch.ones(1), persistent=False)
    assert "z" in m._buffers and "z" in m._non_persistent_buffers_set
    m.z = torch.zeros(1)
    assert m._buffers["z"].item() == 0
    del m.x, m.z
    assert not m._parameters and not m._buffers and not m._non_persistent_buffers_set


def test_a_parameter_takes_a_modules_name():
    m = nn.Module()
    m.a = nn.Identity()
    m.a = nn.Parameter(torch.ones(1))
    assert list(m._parameters) == ["a"] and not m._modules
    with pytest.raises(TypeError, match="as parameter 'a'"):
        m.a = nn.Identity()


def test_wrong_assignments_are_refused():
    net = Net()

    class Early(nn.Module):
        def __init__(self, value):
            self.a = value

    def set_(name, value):
        return lambda: setattr(net, name, value)

    assert message(TypeError, set_("fc1", 3)) == (
        "cannot assign 'int' as child module 'fc1' (torch.nn.Module or None expected)")
    assert message(TypeError, set_("seen", 3)) == (
        "cannot assign 'int' as buffer 'seen' (torch.nn.Buffer, torch.Tensor or None expected)")
    assert message(TypeError, lambda: setattr(net.fc1, "weight", torch.ones(1))) == (
        "cannot assign 'torch.FloatTensor' as parameter 'weight' (torch.nn.Parameter or None "
        "expected)")
    assert message(AttributeError, lambda: Early(nn.Identity())) == (
        "cannot assign module before Module.__init__() call")
    assert message(AttributeError, lambda: Early(nn.Parameter(torch.ones(1)))) == (
        "cannot assign parameters before Module.__init__() call")


def test_registration_checks_names_and_kinds():
    m = nn.Module()
    for kind, add in (("buffer", lambda n: m.register_buffer(n, None)),
                      ("parameter", lambda n: m.register_parameter(n, None))):
        assert message(TypeError, lambda: add(3)) == (
            f"{kind} name should be a string. Got int")
        assert message(KeyError, lambda: add("a.b")) == repr(f'{kind} name can\'t contain "."')
        assert message(KeyError, lambda: add("")) == repr(
            f'{kind} name can\'t be empty string ""')
        assert message(KeyError, lambda: add("forward")) == repr(
            "attribute 'forward' already exists")
    assert message(TypeError, lambda: m.add_module("a", 3)) == "int is not a Module subclass"
    assert message(KeyError, lambda: m.add_module("a.b", None)) == repr(
        'module name can\'t contain ".", got: a.b')
    assert message(TypeError, lambda: m.register_parameter("p", torch.ones(1))) == (
        "cannot assign 'torch.FloatTensor' object to parameter 'p' (torch.nn.Parameter or None "
        "required)")
    grown = nn.Parameter(torch.ones(1)) * 2
    grown._is_param = True
    assert message(ValueError, lambda: m.register_parameter("p", grown)).startswith(
        "Cannot assign non-leaf Tensor to parameter 'p'.")


def test_constructor_arguments_are_refused():
    assert message(TypeError, lambda: nn.Module(3)) == (
        "Module.__init__() takes 1 positional argument but 2 were given")
    assert message(TypeError, lambda: nn.Module(a=3)) == (
        "Module.__init__() got an unexpected keyword argument 'a'")


def test_forward_is_required():
    with pytest.raises(NotImplementedError) as caught:
        nn.Module()(1)
    assert str(caught.value) == 'Module [Module] is missing the required "forward" function'


# Finding.

def test_iteration_gives_names_and_each_thing_once():
    net = nn.Sequential(Net(), nn.ReLU())
    net.again = net[0].fc1
    assert [n for n, _ in net.named_parameters()] == [
        "0.fc1.weight", "0.fc1.bias", "0.fc2.weight", "0.fc2.bias"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)][4:] == [
        "again.weight", "again.bias"]
    assert [n for n, _ in net.named_parameters("p", recurse=False)] == []
    assert [n for n, _ in net.named_buffers()] == ["0.seen", "0.scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "0", "0.fc1", "0.fc2", "1"]
    assert [n for n, _ in net.named_children()] == ["0", "1", "again"]
    assert len(list(net.parameters())) == 4 and len(list(net.modules())) == 5
    assert len(list(net.children())) == 3


def test_paths_lead_to_modules_parameters_and_buffers():
    net = nn.Sequential(OrderedDict(body=Net()))
    assert net.get_submodule("") is net
    assert net.get_submodule("body.fc1") is net.body.fc1
    assert net.get_parameter("body.fc1.weight") is net.body.fc1.weight
    assert net.get_buffer("body.seen") is net.body.seen
    assert message(AttributeError, lambda: net.get_submodule("body.x")) == (
        "Net has no attribute `x`")
    assert message(AttributeError, lambda: net.get_submodule("body.seen")) == (
        "`seen` is not an nn.Module")
    assert message(AttributeError, lambda: net.get_parameter("body.seen")) == (
        "`seen` is not an nn.Parameter")
    assert message(AttributeError, lambda: net.get_buffer("body.fc1.weight")) == (
        "`weight` is not a buffer")
    net.set_submodule("body.fc1", nn.Identity())
    assert isinstance(net.body.fc1, nn.Identity)


# Changing everything inside.

def test_train_and_eval_reach_all_modules():
    net = nn.Sequential(Net(), nn.Dropout())
    assert net.eval() is net and not any(m.training for m in net.modules())
    assert net.train() is net and all(m.training for m in net.modules())
    assert message(ValueError, lambda: net.train(1)) == "training mode is expected to be boolean"


def test_casts_keep_parameters_and_their_gradients():
    net = Net()
    weight = net.fc1.weight
    net(torch.ones(1, 4)).sum().backward()
    assert net.double() is net and net.fc1.weight is weight
    assert weight.dtype == torch.float64 and weight.grad.dtype == torch.float64
    assert net.seen.dtype == torch.float64
    net.to(torch.float16)
    assert weight.dtype == torch.float16
    net.to("cpu", torch.float32)
    assert weight.dtype == torch.float32
    net.to(torch.zeros(1, dtype=torch.float64))
    assert weight.dtype == torch.float64
    net.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    assert net.float().count.dtype == torch.int64
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex"):
        net.to(torch.int32)


def test_apply_visits_children_first():
    seen = []
    nn.Sequential(nn.ReLU(), nn.Tanh()).apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["ReLU", "Tanh", "Sequential"]


def test_gradients_are_cleared_or_zeroed():
    net = Net()
    net(torch.ones(1, 4)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad is not None and not p.grad.any() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


# State.

def test_state_has_all_names_and_versions_in_order():
    state = nn.Sequential(Net(), nn.BatchNorm1d(2)).state_dict()
    assert list(state) == [
        "0.seen", "0.fc1.weight", "0.fc1.bias", "0.fc2.weight", "0.fc2.bias", "1.weight",
        "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert dict(state._metadata) == {
        "": {"version": 1}, "0": {"version": 1}, "0.fc1": {"version": 1},
        "0.fc2": {"version": 1}, "1": {"version": 2}}
    assert not state["0.fc1.weight"].requires_grad
    kept = Net().state_dict(prefix="p.", keep_vars=True)
    assert kept["p.fc1.weight"].requires_grad and "p.seen" in kept


def test_state_is_copied_in_place():
    a, b = Net(), Net()
    before = b.fc1.weight
    result = b.load_state_dict(a.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert b.fc1.weight is before and torch.equal(before, a.fc1.weight)
    b.load_state_dict(a.state_dict(), assign=True)
    assert b.fc1.weight is not before and isinstance(b.fc1.weight, nn.Parameter)
    assert b.fc1.weight.data_ptr() == a.fc1.weight.data_ptr()


def test_keys_that_do_not_match_are_listed():
    state = Net().state_dict()
    state["new"] = torch.ones(1)
    state["fc1.extra.deep"] = torch.ones(1)
    del state["fc2.bias"]
    state["fc2.weight"] = torch.ones(3)
    assert message(RuntimeError, lambda: Net().load_state_dict(state)) == (
        "Error(s) in loading state_dict for Net:\n\t"
        'Missing key(s) in state_dict: "fc2.bias". \n\t'
        'Unexpected key(s) in state_dict: "new", "fc1.extra.deep". \n\t'
        "size mismatch for fc2.weight: copying a param with shape torch.Size([3]) from "
        "checkpoint, the shape in current model is torch.Size([2, 8]).")
    del state["fc2.weight"]
    missing, unexpected = Net().load_state_dict(state, strict=False)
    assert missing == ["fc2.weight", "fc2.bias"]
    assert unexpected == ["new", "fc1.extra.deep"]
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'int'>"):
        Net().load_state_dict(3)
    text = message(RuntimeError, lambda: nn.Linear(1, 1, False).load_state_dict({"weight": 3}))
    assert text.endswith('While copying the parameter named "weight", expected torch.Tensor or '
                         "Tensor-like object from checkpoint but received <class 'int'>")


def test_extra_state_is_saved_and_loaded():
    class Counter(nn.Module):
        n = 0

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    a, b = Counter(), Counter()
    a.n = 5
    assert list(a.state_dict()) == ["_extra_state"]
    b.load_state_dict(a.state_dict())
    assert b.n == 5
    assert "Unexpected key(s)" in message(
        RuntimeError, lambda: nn.Identity().load_state_dict({"_extra_state": 1}))
    assert "Missing key(s)" in message(RuntimeError, lambda: b.load_state_dict({}))


def test_state_hooks_run_in_order():
    net, seen = nn.Linear(1, 1), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append("save before"))
    net.register_state_dict_post_hook(lambda m, state, p, meta: seen.append("save after"))
    net.register_load_state_dict_pre_hook(lambda m, *rest: seen.append(len(rest)))
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    net.load_state_dict({"weight": torch.ones(1, 1)})
    net.state_dict()
    assert seen == [7, "save before", "save after"]
    net.register_state_dict_post_hook(lambda *a: 3)
    assert message(RuntimeError, net.state_dict) == "state_dict post-hook must return None"


def test_positional_arguments_of_state_dict_warn():
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        out = nn.Linear(1, 1).state_dict(OrderedDict(), "p.")
    assert list(out) == ["p.weight", "p.bias"]


def test_modules_are_copied_and_pickled():
    net = Net()
    net.shared = net.fc1
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.fc1 is other.shared and other.fc1 is not net.fc1
        assert isinstance(other.fc1.weight, nn.Parameter) and other.fc1.weight.requires_grad
        assert torch.equal(other.fc1.weight, net.fc1.weight)
        assert other.fc1.weight.data_ptr() != net.fc1.weight.data_ptr()
        assert other(torch.ones(1, 4)).tolist() == net(torch.ones(1, 4)).tolist()


# Parameters.

def test_a_parameter_is_a_leaf_that_requires_gradients():
    data = torch.ones(2)
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and isinstance(p, torch.Tensor)
    assert p.data_ptr() == data.data_ptr() and not data.requires_grad
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)
    assert type(p * 2) is torch.Tensor and not isinstance(p * 2, nn.Parameter)
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert copy.deepcopy(p) is not p and type(copy.deepcopy(p)) is nn.Parameter
    again = pickle.loads(pickle.dumps(nn.Parameter(data, False)))
    assert type(again) is nn.Parameter and not again.requires_grad


# Hooks of calls.

def test_forward_hooks_see_and_change_the_call():
    net, seen = nn.Identity(), []
    first = net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    net.register_forward_pre_hook(lambda m, args: seen.append(args[0].item()))
    net.register_forward_pre_hook(lambda m, args: seen.append("first"), prepend=True)
    net.register_forward_hook(lambda m, args, out: out * 10)
    net.register_forward_hook(lambda m, args, kwargs, out: seen.append((kwargs, out.item())),
                              with_kwargs=True)
    assert net(torch.tensor(1.0)).item() == 20
    assert seen == ["first", 2.0, ({}, 20.0)]
    first.remove()
    assert net(torch.tensor(1.0)).item() == 10
    with net.register_forward_hook(lambda m, args, out: out + 1):
        assert net(torch.tensor(1.0)).item() == 11
    assert net(torch.tensor(1.0)).item() == 10


def test_pre_hooks_with_keywords_must_return_both():
    net = nn.Identity()
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    assert message(RuntimeError, lambda: net(1)) == (
        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got 3.")


def test_an_always_called_hook_runs_after_a_failure():
    seen = []

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    net = Fails()
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert seen == [None]


def test_global_hooks_see_every_module():
    seen = []
    hooks = [nn.modules.module.register_module_forward_pre_hook(
                 lambda m, args: seen.append("before " + type(m).__name__)),
             nn.modules.module.register_module_forward_hook(
                 lambda m, args, out: seen.append("after " + type(m).__name__)),
             nn.modules.module.register_module_parameter_registration_hook(
                 lambda m, name, p: seen.append(name))]
    nn.Sequential(nn.ReLU())(torch.ones(1))
    nn.Linear(1, 1)
    for hook in hooks:
        hook.remove()
    nn.ReLU()(torch.ones(1))
    assert seen == ["before Sequential", "before ReLU", "after ReLU", "after Sequential",
                    "weight", "bias"]


def test_backward_hooks_see_and_change_gradients():
    net, seen = nn.Linear(2, 1, bias=False), []
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[2.0, 3.0]]))
    net.register_full_backward_pre_hook(lambda m, grad: (grad[0] * 2,))
    net.register_full_backward_hook(lambda m, gin, gout: seen.append(
        (gin[0].tolist(), gout[0].tolist())))
    handle = net.register_full_backward_hook(lambda m, gin, gout: (gin[0] * 10,))
    x = torch.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    assert seen == [([[4.0, 6.0]], [[2.0]])]
    assert x.grad.tolist() == [[40.0, 60.0]] and net.weight.grad.tolist() == [[2.0, 2.0]]
    handle.remove()
    x.grad = None
    net(x).sum().backward()
    assert x.grad.tolist() == [[4.0, 6.0]]


def test_backward_hooks_without_input_gradients_warn():
    net, seen = nn.Linear(1, 1), []
    net.register_full_backward_hook(lambda m, gin, gout: seen.append((gin, gout[0].item())))
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients"):
        net(torch.ones(1, 1)).sum().backward()
    assert seen == [((None,), 1.0)]


def test_backward_hooks_are_of_one_kind():
    net = nn.ReLU()
    net.register_full_backward_hook(lambda *a: None)
    assert "Cannot use both regular backward hooks and full backward hooks on a single Module" in (
        message(RuntimeError, lambda: net.register_backward_hook(lambda *a: None)))
    net = nn.ReLU()
    net.register_full_backward_hook(lambda m, gin, gout: (None, None))
    x = torch.ones(1, requires_grad=True)
    assert message(RuntimeError, lambda: net(x).backward()) == (
        "Backward hook returned an invalid number of grad_input, got 2, but expected 1")


# Printing.

def test_printing_nests():
    net = nn.Sequential(OrderedDict(a=nn.Linear(2, 3), b=nn.ModuleList([nn.ReLU()] * 2),
                                    c=nn.Sequential()))
    assert repr(net) == """Sequential(
  (a): Linear(in_features=2, out_features=3, bias=True)
  (b): ModuleList(
    (0-1): 2 x ReLU()
  )
  (c): Sequential()
)"""


# Containers.

def test_sequential_is_a_list_that_calls():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    assert len(net) == 2 and net[0] is a and net[-1] is b and list(net) == [a, b]
    assert isinstance(net[:1], nn.Sequential) and len(net[:1]) == 1
    assert net.append(c) is net and net.pop(0) is a and list(net._modules) == ["0", "1"]
    net.insert(0, a)
    net[1] = c
    assert [type(m) for m in net] == [nn.ReLU, nn.Sigmoid, nn.Sigmoid]
    del net[1:]
    assert len(net + nn.Sequential(b, c)) == 3 and len(net * 3) == 3
    net += nn.Sequential(b)
    net *= 2
    assert list(net) == [a, b, a, b]
    assert net(torch.tensor(-1.0)).item() == 0
    assert message(IndexError, lambda: net[9]) == "index 9 is out of range"
    assert message(ValueError, lambda: net * 0).startswith("Non-positive multiplication factor 0")


def test_module_list_and_dict():
    items = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    items.insert(1, nn.Sigmoid())
    items.extend([nn.ReLU()])
    assert [type(m).__name__ for m in items] == ["ReLU", "Sigmoid", "Tanh", "ReLU"]
    assert isinstance(items[1:3], nn.ModuleList) and len(items[1:3]) == 2
    del items[-1]
    assert len(items + [nn.ReLU()]) == 4 and type(items.pop(1)) is nn.Sigmoid
    assert message(TypeError, lambda: items.extend(3)) == (
        "ModuleList.extend should be called with an iterable, but got int")
    with pytest.raises(NotImplementedError):
        items(1)
    table = nn.ModuleDict({"a": nn.ReLU()})
    table.update([("b", nn.Tanh())])
    table["c"] = nn.Sigmoid()
    assert list(table) == list(table.keys()) == ["a", "b", "c"] and "a" in table
    assert type(table.pop("b")) is nn.Tanh and len(table) == 2
    assert message(ValueError, lambda: table.update([(1, 2, 3)])) == (
        "ModuleDict update sequence element #0 has length 3; 2 is required")


def test_parameter_list_and_dict():
    items = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1)), "text"])
    assert len(items) == 3 and isinstance(items[0], nn.Parameter) and items[2] == "text"
    assert len(list(items.parameters())) == 2
    assert repr(items) == ("ParameterList(\n"
                           "    (0): Parameter containing: [torch.float32 of size 2]\n"
                           "    (1): Parameter containing: [torch.float32 of size 1]\n"
                           "    (2): Object of type: str\n)")
    table = nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(2)})
    assert list(table) == ["a", "b"] and isinstance(table["a"], nn.Parameter)
    assert table.get("z", 5) == 5 and table.setdefault("c", torch.ones(1)) is table["c"]
    assert table.popitem()[0] == "c" and len(table | {"d": torch.ones(1)}) == 3
    assert repr(table) == (
        "ParameterDict(\n"
        "    (a): Parameter containing: [torch.FloatTensor of size 2]\n"
        "    (b): Parameter containing: [torch.FloatTensor of size 1]\n)")
    assert message(RuntimeError, lambda: items(1)) == "ParameterList should not be called."


# Layers that check their arguments.

@pytest.mark.parametrize("make, kind, text", [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
    (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError,
     "out_channels must be divisible by groups"),
    (lambda: nn.Conv2d(4, 4, 3, groups=0), ValueError, "groups must be a positive integer"),
    (lambda: nn.Conv2d(4, 4, 3, padding="same", stride=2), ValueError,
     "padding='same' is not supported for strided convolutions"),
    (lambda: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"), ValueError,
     'Only "zeros" padding mode is supported for ConvTranspose2d'),
    (lambda: nn.ConvTranspose2d(1, 1, 3, stride=2)(torch.ones(1, 1, 4, 4), [20, 20]), ValueError,
     "requested an output size of [20, 20], but valid sizes range from [9, 9] to [10, 10] (for "
     "an input of torch.Size([4, 4]))"),
    (lambda: nn.BatchNorm2d(3)(torch.ones(2, 3)), ValueError, "expected 4D input (got 2D input)"),
    (lambda: nn.BatchNorm1d(3)(torch.ones(1, 3)), ValueError,
     "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"),
    (lambda: nn.InstanceNorm1d(3, affine=True)(torch.ones(2, 4, 5)), ValueError,
     "expected input's size at dim=1 to match num_features (3), but got: 4."),
    (lambda: nn.GroupNorm(2, 3), ValueError, "num_channels (3) must be divisible by num_groups (2)"),
    (lambda: nn.Dropout(1.5), ValueError,
     "dropout probability has to be between 0 and 1, but got 1.5"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError,
     "Padding_idx must be within num_embeddings"),
    (lambda: nn.CircularPad2d(1)(torch.ones(2, 2)), ValueError,
     "expected 3D or 4D input (got 2D input)"),
    (lambda: nn.Hardtanh(1, -1), AssertionError, "max_val (-1) must be greater than min_val (1)"),
    (lambda: nn.MultiheadAttention(5, 2), AssertionError,
     "embed_dim must be divisible by num_heads"),
    (lambda: nn.MultiheadAttention(0, 2), ValueError,
     "embed_dim and num_heads must be greater than 0, got embed_dim=0 and num_heads=2 instead"),
    (lambda: nn.Unflatten(1, 3), TypeError,
     "unflattened_size must be a tuple of ints, but found type int"),
    (lambda: nn.MultiMarginLoss(p=3), ValueError, "only p == 1 and p == 2 supported"),
    (lambda: nn.TripletMarginLoss(margin=0), ValueError,
     "TripletMarginLoss: expected margin to be greater than 0, got 0 instead"),
    (lambda: nn.LSTM(2, 3, proj_size=3), ValueError,
     "proj_size has to be smaller than hidden_size"),
    (lambda: nn.GRU(2, 3, proj_size=1), ValueError,
     "proj_size argument is only supported for LSTM, not RNN or GRU"),
    (lambda: nn.RNN(2, 3, nonlinearity="x"), ValueError,
     "Unknown nonlinearity 'x'. Select from 'tanh' or 'relu'."),
    (lambda: nn.LSTM(2, 0), ValueError, "hidden_size must be greater than zero"),
    (lambda: nn.LSTM(2, 3)(torch.ones(4, 1, 5)), RuntimeError,
     "input.size(-1) must be equal to input_size. Expected 2, got 5"),
    (lambda: nn.LSTM(2, 3)(torch.ones(4, 1, 2).double()), ValueError,
     "RNN input dtype (torch.float64) does not match weight dtype (torch.float32). Convert "
     "input: input.to(torch.float32), or convert model: model.to(torch.float64)"),
    (lambda: nn.LSTM(2, 3)(torch.ones(2)), ValueError,
     "LSTM: Expected input to be 2D or 3D, got 1D instead"),
    (lambda: nn.GRU(2, 3)(torch.ones(4, 1, 2), torch.ones(1, 2, 3)), RuntimeError,
     "Expected hidden size (1, 1, 3), got [1, 2, 3]"),
    (lambda: nn.LSTM(2, 3)(torch.ones(4, 1, 2), (torch.ones(1, 1, 3), torch.ones(2, 1, 3))),
     RuntimeError, "Expected hidden[1] size (1, 1, 3), got [2, 1, 3]"),
    (lambda: nn.RNNCell(2, 3)(torch.ones(1, 1, 2)), ValueError,
     "RNNCell: Expected input to be 1D or 2D, got 3D instead"),
    (lambda: nn.GRUCell(2, 3)(torch.ones(1, 5)), RuntimeError,
     "input has inconsistent input_size: got 5 expected 2"),
])
def test_wrong_arguments_are_refused(make, kind, text):
    assert message(kind, make) == text


def test_unused_dropout_of_one_layer_warns():
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(2, 3, dropout=0.5)


def test_batch_norm_loads_checkpoints_without_a_count():
    norm = nn.BatchNorm1d(2)
    state = OrderedDict((k, v) for k, v in norm.state_dict().items() if "num" not in k)
    state._metadata = {"": {"version": 1}}
    norm.num_batches_tracked.fill_(7)
    norm.load_state_dict(state)
    assert norm.num_batches_tracked.item() == 7


def test_encoder_stack_detects_the_causal_mask_and_clears_padding():
    torch.manual_seed(0)
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    x = torch.arange(32.0).view(1, 4, 8).sin()
    full = stack.eval()(x, mask=causal)
    assert torch.allclose(full[:, :2], stack(x[:, :2], mask=causal[:2, :2]), atol=1e-5)
    padding = torch.tensor([[False, False, True, True]])
    with torch.no_grad():
        out = stack(x, src_key_padding_mask=padding)
        alone = stack(x[:, :2])
    assert not out[:, 2:].any() and torch.allclose(out[:, :2], alone, atol=1e-5)


def test_saving_through_a_file():
    if not hasattr(torch, "save"):
        pytest.skip("saving is not part of this build")
    net, file = Net(), io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    other = Net()
    other.load_state_dict(torch.load(file))
    assert torch.equal(other.fc1.weight, net.fc1.weight)


def test_nothing_warns_in_an_ordinary_step():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net = Net()
        net(torch.ones(2, 4)).sum().backward()
        net.zero_grad()
        copy.deepcopy(net).load_state_dict(net.state_dict())
    assert not caught


def test_flat_weights_of_recurrent_layers_may_be_plain_tensors():
    m, x = nn.LSTM(2, 3), torch.ones(1, 1, 2)
    before, first = m(x)[0], m.weight_ih_l0
    m._flat_weights = [w.detach() * 0 for w in m._flat_weights]
    assert not m(x)[0].any() and m.weight_ih_l0 is first and first in set(m.parameters())
    assert not copy.deepcopy(m)(x)[0].any()
    m.bias_ih_l0 = nn.Parameter(torch.ones(12))
    assert m._flat_weights[2] is m.bias_ih_l0 and m(x)[0].any()
    m.bias_ih_l0 = nn.Parameter(torch.zeros(12))
    m.double().float()
    assert m._flat_weights[0] is m.weight_ih_l0
    m._flat_weights = [w.detach() for w in nn.LSTM(2, 3).parameters()]
    m._flat_weights = list(m.parameters())
    assert all(a is b for a, b in zip(m._flat_weights, m.parameters())) and before.shape == m(x)[0].shape


def test_the_gradient_of_a_target_in_a_full_backward_hook_is_zeros():
    seen = []
    loss = nn.CrossEntropyLoss()
    loss.register_full_backward_hook(lambda module, given, out: seen.append(given))
    x, y = torch.zeros(1, 2, requires_grad=True), torch.tensor([1])
    loss(x, y).backward()
    assert seen[0][0].tolist() == [[0.5, -0.5]] and seen[0][1].dtype == torch.int64 and seen[0][1].tolist() == [0]


def test_a_module_gets_a_class_with_another_first_base():
    class Mixin:
        def forward(self, x):
            return 2 * super().forward(x)

    class Plus(nn.Module):
        def forward(self, x):
            return x + 1

    m = Plus()
    m.__class__ = type("Mixed", (Mixin, Plus), {})
    assert m(1) == 4 and nn.Module.__bases__ == (object,)
    m.register_forward_hook(lambda module, args, result: -result)
    assert m(1) == -4
    type(m).__call__ = lambda self, x: "mine"
    assert m(1) == "mine" and Plus()(1) == 2


def test_lazy_modules_are_sized_by_keyword_arguments_too():
    class Sum(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, x, *, y):
            if self.has_uninitialized_params():
                self.weight.materialize((x.shape[-1], y.shape[-1]))
                with torch.no_grad():
                    self.weight.fill_(1.)

        def forward(self, x, *, y):
            return x @ self.weight + y
    net = Sum()
    assert torch.equal(net(torch.ones(2, 3), y=torch.ones(4)), torch.full((2, 4), 4.))
    assert net.weight.shape == (3, 4) and not net.has_uninitialized_params()
