"""Calls a module with other tensors instead of its parameters and buffers."""
import warnings
from contextlib import contextmanager

from ._named_member_accessor import NamedMemberAccessor

__all__ = ["functional_call"]


def _untie(module, tensors):
    """Sets all names that share a tensor to the value that is given for one of them."""
    owners = {}
    members = (*module.named_parameters(remove_duplicate=False),
               *module.named_buffers(remove_duplicate=False))
    for name, tensor in members:
        owners.setdefault(tensor, []).append(name)
    out = dict(tensors)
    for names in owners.values():
        given = [name for name in names if name in tensors]
        if len({id(tensors[name]) for name in given}) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, "
                             "which are tied. Consider using tie_weights=False")
        for name in names if given else ():
            out[name] = tensors[given[0]]
    return out


def _check_keys(module, tensors):
    known = {n for n, _ in module.named_parameters(remove_duplicate=False)}
    known.update(n for n, _ in module.named_buffers(remove_duplicate=False))
    errors = []
    for title, keys in (("Unexpected", sorted(set(tensors) - known)),
                        ("Missing", sorted(known - set(tensors)))):
        if keys:
            errors.append(f"{title} key(s): {', '.join(map(repr, keys))}.")
    if errors:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(
            module._get_name(), "\n\t".join(errors)))


@contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False,
                          stack_weights=False):
    """Inside, the module has the given tensors; afterwards the dict has their final values."""
    tensors = parameters_and_buffers
    if tie_weights:
        tensors = _untie(module, tensors)
    if strict:
        _check_keys(module, tensors)
    originals, members = {}, NamedMemberAccessor(module)
    try:
        for name, tensor in tensors.items():
            originals[name] = members.swap_tensor(name, tensor, allow_missing=True)
        yield
    finally:
        for name, tensor in reversed(list(originals.items())):
            now = members.swap_tensor(name, tensor, allow_missing=True)
            if name in parameters_and_buffers:
                parameters_and_buffers[name] = now


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *,
                     tie_weights=True, strict=False):
    """Calls module(*args, **kwargs) with the given tensors."""
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *,
                    tie_weights=True, strict=False):
    """The old name of torch.func.functional_call."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.", FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs,
                            tie_weights=tie_weights, strict=strict)
