"""Parameters that are computed from other parameters.

`module.weight` becomes a property that computes the weight from `parametrizations.weight`: a
list of modules that are called one after another on the original tensor or tensors.  The
property is in a class that is made for the module.
"""
from contextlib import contextmanager

import cresset
from ... import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized",
           "remove_parametrizations", "type_before_parametrizations",
           "transfer_parametrizations_and_params"]

_cache_enabled = 0
_cache = {}


@contextmanager
def cached():
    """Inside, every parametrized tensor is computed once."""
    global _cache_enabled, _cache
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register(module, name, tensor):
    add = (module.register_parameter if isinstance(tensor, Parameter)
           else module.register_buffer)
    add(name, tensor)


def _check_same(kind, a, b, changed, first, second):
    if a != b:
        raise ValueError(f"{changed} the {kind} of the tensor, unless `unsafe` flag is enabled.\n"
                         f"{first} {kind}: {a}\n{second} {kind}: {b}")


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, and its original tensors."""

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = self._invert(original)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, (list, tuple)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors "
                             f"(list, tuple...). Got {type(new).__name__}")
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._keep_one(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            self._check(self(), shape, dtype)

    def _invert(self, value):
        with cresset.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        pass  # the module accepts no assignment
        return value

    def _keep_one(self, original, new):
        for kind in ("dtype", "device"):
            a, b = getattr(original, kind), getattr(new, kind)
            if a != b:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {kind}.\n"
                    f"original.{kind}: {a}\nright_inverse(original).{kind}: {b}")
        with cresset.no_grad():
            original.set_(new)
        _register(self, "original", original)

    def _keep_several(self, original, new):
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors "
                                 f"(list, tuple...). Got element {i} of the sequence with type "
                                 f"{type(tensor).__name__}.")
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", tensor)

    @staticmethod
    def _check(value, shape, dtype):
        if not isinstance(value, Tensor):
            raise ValueError(
                f"A parametrization must return a tensor. Got {type(value).__name__}.")
        changed = "Registering a parametrization may not change"
        _check_same("dtype", dtype, value.dtype, changed, "unparametrized", "parametrized")
        _check_same("shape", shape, value.shape, changed, "unparametrized", "parametrized")

    def _originals(self):
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Sets the originals so that the tensor becomes `value`."""
        with cresset.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not "
                                       "implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                self._assign_one(value)
            else:
                self._assign_several(value)

    def _assign_one(self, value):
        if not isinstance(value, Tensor):
            raise ValueError(
                f"`right_inverse` should return a tensor. Got {type(value).__name__}")
        if value.dtype != self.original.dtype:
            raise ValueError(f"The tensor returned by `right_inverse` has dtype {value.dtype} "
                             f"while `original` has dtype {self.original.dtype}")
        self.original.set_(value)

    def _assign_several(self, values):
        if not isinstance(values, (list, tuple)):
            raise ValueError("'right_inverse' must return a sequence of tensors. Got "
                             f"{type(values).__name__}.")
        if len(values) != self.ntensors:
            raise ValueError("'right_inverse' must return a sequence of tensors of length "
                             f"{self.ntensors}. Got a sequence of length {len(values)}.")
        for i, (original, value) in enumerate(zip(self._originals(), values)):
            if original.dtype != value.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {value.dtype} while "
                    f"`original{i}` has dtype {original.dtype}")
            original.set_(value)

    def forward(self):
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _refuse_pickling(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-"
        "general-checkpoint-for-inference-and-or-resuming-training")


def _copy_deeply(self, memo):
    from copy import deepcopy
    if id(self) not in memo:
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__ = deepcopy(self.__dict__, memo)
    return memo[id(self)]


def _give_own_class(module):
    cls = type(module)
    members = {"__getstate__": _refuse_pickling}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _copy_deeply
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _add_property(module, name):
    def get(self):
        steps = self.parametrizations[name]
        if not _cache_enabled:
            return steps()
        key = (id(module), name)
        if _cache.get(key) is None:
            _cache[key] = steps()
        return _cache[key]

    def set_(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, set_))


def _check_another(module, name, parametrization):
    """Checks that a further module keeps dtype and shape in both directions."""
    old = getattr(module, name)
    new = parametrization(old)
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
    texts = ("Registering a parametrization may not change", f"module.{name}",
             f"parametrization(module.{name})")
    for kind in ("dtype", "shape"):
        a, b = getattr(old, kind), getattr(new, kind)
        if a != b:
            raise ValueError(f"{texts[0]} the {kind} of the tensor, unless the `unsafe` flag is "
                             f"enabled.\n{texts[1]}.{kind}: {a}\n{texts[2]}.{kind}: {b}")
    if hasattr(parametrization, "right_inverse"):
        try:
            _check_inverse(name, old, parametrization.right_inverse(new))
        except NotImplementedError:
            pass


def _check_inverse(name, old, back):
    if not isinstance(back, Tensor):
        raise ValueError("parametrization.right_inverse must return a tensor. Got: "
                         f"{type(back).__name__}")
    for kind in ("dtype", "shape"):
        a, b = getattr(old, kind), getattr(back, kind)
        if a != b:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {kind} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\nmodule.{name}.{kind}: "
                f"{a}\nreturned {kind}: {b}")


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Makes `module.<tensor_name>` the value of `parametrization` on the original tensor."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        steps = module.parametrizations[tensor_name]
        steps.append(parametrization)
        steps.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        steps = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = steps
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a "
                         f"parametrized element with name '{tensor_name}'")
    return module


def is_parametrized(module, tensor_name=None):
    """Returns whether the module (or one of its tensors) is parametrized."""
    table = getattr(module, "parametrizations", None)
    if not isinstance(table, ModuleDict):
        return False
    return len(table) > 0 if tensor_name is None else tensor_name in table


def _final_tensor(module, tensor_name, steps, leave_parametrized):
    if steps.is_tensor:
        original = steps.original
        if leave_parametrized:
            with cresset.no_grad():
                original.set_(getattr(module, tensor_name))
        return original
    if not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that "
                         "is parametrized in terms of a sequence of tensors.")
    value = getattr(module, tensor_name)
    return Parameter(value) if value.requires_grad else value


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes the tensor an ordinary tensor: with its computed value, or the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    steps = module.parametrizations[tensor_name]
    tensor = _final_tensor(module, tensor_name, steps, leave_parametrized)
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives another module the same parametrizations with the same originals."""
    if not is_parametrized(from_module):
        return to_module
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in list(names):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for step in source:
            register_parametrization(to_module, name, step)
        target = to_module.parametrizations[name]
        for key, tensor in [*source._parameters.items(), *source._buffers.items()]:
            setattr(target, key, tensor)
    return to_module
