"""Modules as functions of their parameters and buffers; torch.func.functional_call is the newer form."""
import copy
import warnings

from .. import _C
from ..nn import Module, Parameter
from ..nn.utils._named_member_accessor import NamedMemberAccessor

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "make_functional", "make_functional_with_buffers",
           "combine_state_for_ensemble"]


def _warn(name, other):
    warnings.warn("We've integrated functorch into PyTorch. As the final step of the integration, "
                  f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of "
                  f"PyTorch >= 2.3. Please use `{other}` instead; see the PyTorch 2.0 release notes and/or "
                  "the `torch.func` migration guide for more details "
                  "https://pytorch.org/docs/main/func.migrating.html", FutureWarning, stacklevel=3)


def _take(members, named, emptied):
    """Replaces tensors by ones without elements.  Returns the tensors, their first names, and {first name: names}."""
    tensors, names, first = [], {}, {}
    for name, tensor in named:
        if id(tensor) not in first:
            first[id(tensor)] = name
            tensors.append(tensor)
        names.setdefault(first[id(tensor)], []).append(name)
    for tensor, shared in zip(tensors, names.values()):
        for name in shared:
            members.set_tensor(name, emptied(tensor))
    return tuple(tensors), tuple(names), names


class _Functional(Module):
    """A copy of a module that is called with its tensors."""

    def __init__(self, stateless_model, names):
        super().__init__()
        self.stateless_model = stateless_model
        self._names = names

    def _call(self, tensors, args, kwargs):
        members = NamedMemberAccessor(self.stateless_model)
        given = {name: tensor for names, tensor in zip(self._names.values(), tensors) for name in names}
        before, _ = members.swap_tensors_dict(given)
        try:
            return self.stateless_model(*args, **kwargs)
        finally:
            members.swap_tensors_dict(before)


def _split(model, disable_autograd_tracking):
    """A copy of the model without elements, and its parameters and buffers: tensors, names, names of each."""
    model = copy.deepcopy(model)
    members = NamedMemberAccessor(model)
    parameters = _take(members, list(members.named_parameters(remove_duplicate=False)),
                       lambda x: Parameter(_C.empty_like(x, device="meta"), requires_grad=x.requires_grad))
    buffers = _take(members, list(members.named_buffers(remove_duplicate=False)),
                    lambda x: _C.empty_like(x, device="meta"))
    if disable_autograd_tracking:
        for x in parameters[0]:
            x.requires_grad_(False)
    return model, parameters, buffers


class FunctionalModule(_Functional):
    """A module as a function of its parameters: call it with (params, *args, **kwargs)."""

    def __init__(self, stateless_model, param_names, names_map):
        super().__init__(stateless_model, names_map)
        self.param_names, self.names_map = param_names, names_map

    @staticmethod
    def _create_from(model, disable_autograd_tracking=False):
        model, (params, names, names_map), _ = _split(model, disable_autograd_tracking)
        return FunctionalModule(model, names, names_map), params

    def forward(self, params, *args, **kwargs):
        """The module's result with these parameters."""
        return self._call(params, args, kwargs)


class FunctionalModuleWithBuffers(_Functional):
    """A module as a function of its parameters and buffers: call it with (params, buffers, *args, **kwargs)."""

    def __init__(self, stateless_model, param_names, buffer_names, param_names_map, buffer_names_map):
        super().__init__(stateless_model, {**param_names_map, **buffer_names_map})
        self.param_names, self.buffer_names, self.all_names_map = param_names, buffer_names, self._names

    @staticmethod
    def _create_from(model, disable_autograd_tracking=False):
        model, (params, names, names_map), (buffers, buffer_names, buffer_map) = _split(model,
                                                                                        disable_autograd_tracking)
        return FunctionalModuleWithBuffers(model, names, buffer_names, names_map, buffer_map), params, buffers

    def forward(self, params, buffers, *args, **kwargs):
        """The module's result with these parameters and buffers."""
        return self._call((*params, *buffers), args, kwargs)


def make_functional(model, disable_autograd_tracking=False):
    """Returns a function of the parameters of a module without buffers, and copies of the parameters."""
    _warn("make_functional", "torch.func.functional_call")
    if list(model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use "
                           "make_functional_with_buffers(model) instead.")
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """Returns a function of the parameters and buffers of a module, and copies of both."""
    _warn("make_functional_with_buffers", "torch.func.functional_call")
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(models):
    """Returns a function of the state of modules of one class, and their parameters and buffers, stacked."""
    _warn("combine_state_for_ensemble", "torch.func.stack_module_state")
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*map(FunctionalModuleWithBuffers._create_from, models))
    stacked = [tuple(_C.stack(list(same)).detach() for same in zip(*rows)) for rows in (params, buffers)]
    return functions[0], *stacked


def _called_with_tuple(function):
    """The older form: the module's arguments are one tuple behind the tensors."""
    def call(*tensors_and_args):
        *tensors, args = tensors_and_args
        return function(*tensors, *args)
    return call


def _make_models(model_class, ensemble_shape, device, args, kwargs):
    if len(ensemble_shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if ensemble_shape and ensemble_shape[0] <= 0:
        raise ValueError(f"num_models {ensemble_shape[0]} should be > 0")
    count = ensemble_shape[0] if ensemble_shape else 1
    made = [FunctionalModuleWithBuffers._create_from(model_class(*args, **kwargs).to(device)) for _ in range(count)]
    functions, params, buffers = zip(*made)
    if ensemble_shape:
        params, buffers = [tuple(_C.stack(list(same)).detach() for same in zip(*rows)) for rows in (params, buffers)]
    else:
        params, buffers = params[0], buffers[0]
    return functions[0], params, buffers


def functional_init(model_class, ensemble_shape=(), device="cpu"):
    """Returns a function of the class's arguments that makes models and returns (their parameters, stacked; a function
    of parameters and a tuple of arguments; names of the parameters)."""
    def wrapped(*args, **kwargs):
        function, params, buffers = _make_models(model_class, ensemble_shape, device, args, kwargs)
        if buffers:
            raise RuntimeError("functional_init(model): `model` has buffers. Please use functional_init_with_buffers(model) instead.")
        return params, _called_with_tuple(lambda given, *rest: function(given, (), *rest)), function.param_names
    return wrapped


def functional_init_with_buffers(model_class, ensemble_shape=(), device="cpu"):
    """The same for classes with buffers: (parameters, buffers, function, names of parameters, names of buffers)."""
    def wrapped(*args, **kwargs):
        function, params, buffers = _make_models(model_class, ensemble_shape, device, args, kwargs)
        return params, buffers, _called_with_tuple(function), function.param_names, function.buffer_names
    return wrapped
