"""Pruning: parameters multiplied by masks.

A pruned parameter `name` is replaced by the parameter `name_orig` and the buffer `name_mask`; the
attribute `name` is their product, which a forward pre-hook renews.
"""
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import cresset
from cresset import torch

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
           "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
           "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
           "random_structured", "random_unstructured", "remove"]


class BasePruningMethod(ABC):
    """A way to choose the elements that are pruned.  Subclasses define compute_mask."""

    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """Returns a mask of zeros and ones for `t`; elements that default_mask prunes stay pruned."""

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module):
        """Returns the product of the original parameter and the mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes the parameter `name`.  Returns the method, which is the module's pre-hook."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        former = [(key, hook) for key, hook in module._forward_pre_hooks.items()
                  if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
        if len(former) > 1:
            raise AssertionError(f"Avoid adding multiple pruning hooks to the same tensor {name} of module "
                                 f"{module}. Use a PruningContainer.")
        if former:
            key, hook = former[0]
            del module._forward_pre_hooks[key]
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
        method._install(module, name, importance_scores, fresh=not former)
        return method

    def _install(self, module, name, scores, fresh):
        original = getattr(module, name)
        _check_scores(scores, original)
        scores = original if scores is None else scores
        if fresh:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default_mask = cresset.ones_like(original)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone(
                memory_format=cresset.contiguous_format)
        try:
            with cresset.no_grad():
                mask = self.compute_mask(scores, default_mask=default_mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, self.apply_mask(module))
            module.register_forward_pre_hook(self)
        except Exception:
            if fresh:  # the module is as before
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            raise

    def prune(self, t, default_mask=None, importance_scores=None):
        """Returns the pruned tensor of one that belongs to no module."""
        _check_scores(importance_scores, t)
        scores = t if importance_scores is None else importance_scores
        default_mask = cresset.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module):
        """Makes the product the parameter again; the hook must be removed by the caller."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _check_scores(scores, t):
    if scores is not None and scores.shape != t.shape:
        raise AssertionError("importance_scores should have the same shape as parameter")


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, which prune one after the other."""

    def __init__(self, *args):
        self._pruning_methods = ()
        for method in args:
            if not self._pruning_methods and isinstance(method, BasePruningMethod):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Adds a method for the same parameter."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer {self}. Found "
                             f"'{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, index):
        return self._pruning_methods[index]

    def compute_mask(self, t, default_mask):
        """Applies the last method to the elements that earlier methods left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        part = self._remaining(method, mask)
        found = method.compute_mask(t[part], default_mask=mask[part])
        mask = mask.clone()
        mask[part] = found.to(dtype=mask.dtype)
        return mask

    @staticmethod
    def _remaining(method, mask):
        """Returns the index of the elements, or of the channels, that are not pruned yet."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % mask.dim()
            others = [d for d in range(mask.dim()) if d != dim]
            kept = mask.sum(dim=others) != 0
            return (slice(None),) * dim + (kept,)
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * mask.dim()
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


class Identity(BasePruningMethod):
    """Prunes nothing, but makes mask and original parameter."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask

    @classmethod
    def apply(cls, module, name):
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """Prunes a share (float) or a number (int) of elements or channels."""

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount


class RandomUnstructured(_ByAmount):
    """Prunes random elements."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=cresset.contiguous_format)
        if count != 0:
            chances = cresset.rand_like(t)
            mask.view(-1)[cresset.topk(chances.view(-1), k=count).indices] = 0
        return mask

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """Prunes the elements with the smallest absolute values."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=cresset.contiguous_format)
        if count != 0:
            smallest = cresset.topk(cresset.abs(t).view(-1), k=count, largest=False).indices
            mask.view(-1)[smallest] = 0
        return mask

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _ByChannel(_ByAmount):
    """Prunes whole channels: slices along `dim`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def _channel_count(self, t):
        if t.dim() <= 1:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor "
                             f"of shape {t.shape} with {t.dim()} dims")
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        return _count(self.amount, t.shape[self.dim])

    def _without(self, t, default_mask, kept):
        """Returns default_mask with zeros outside of the kept channels."""
        mask = cresset.zeros_like(t)
        mask[tuple(kept if d == self.dim % t.dim() else slice(None) for d in range(t.dim()))] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_ByChannel):
    """Prunes random channels."""

    def compute_mask(self, t, default_mask):
        count = self._channel_count(t)
        if count == 0:
            return default_mask
        chances = cresset.rand(t.shape[self.dim])
        threshold = cresset.kthvalue(chances, k=count).values
        return self._without(t, default_mask, chances > threshold)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_ByChannel):
    """Prunes the channels with the smallest n-norms."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t, default_mask):
        count = self._channel_count(t)
        if count == 0:
            return default_mask
        dims = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norm = cresset.norm(t, p=self.n, dim=dims)
        kept = cresset.topk(norm, k=t.shape[self.dim] - count, largest=True).indices
        return self._without(t, default_mask, kept)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError("mask shape must match default_mask shape")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


# --- functions ---

def identity(module, name):
    """Makes mask and original parameter, and prunes nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes random elements of a parameter."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the elements of a parameter with the smallest absolute values or scores."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes random channels along `dim`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the channels along `dim` with the smallest n-norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prunes where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several parameters (pairs of module and name) together, as one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores should be of type dict")
    parameters = [(module, name) for module, name in parameters]
    vector = cresset.nn.utils.parameters_to_vector(
        [scores.get((module, name), getattr(module, name)) for module, name in parameters])
    masks = cresset.nn.utils.parameters_to_vector(
        [getattr(module, name + "_mask", cresset.ones_like(getattr(module, name)))
         for module, name in parameters])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    final = container.compute_mask(vector, masks)
    at = 0
    for module, name in parameters:
        parameter = getattr(module, name)
        custom_from_mask(module, name, mask=final[at:at + parameter.numel()].view_as(parameter))
        at += parameter.numel()


def is_pruned(module):
    """Returns whether a parameter of the module, or of one inside it, is pruned."""
    return any(isinstance(hook, BasePruningMethod)
               for child in module.modules() for hook in child._forward_pre_hooks.values())


def remove(module, name):
    """Makes the pruned parameter permanent."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    integral = isinstance(amount, numbers.Integral)
    if (integral and amount < 0) or (not integral and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount, size):
    """Returns the number of elements or channels to prune."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return amount
