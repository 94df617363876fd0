"""Reads, sets and exchanges tensors and submodules of a module by their dotted names."""
from ..._C import Tensor

_MISSING = object()  # stands for a tensor that a module does not have


def _check_name(kind, name):
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')


def _check_module(module):
    from ..modules.module import Module
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")


def _check_tensor(tensor):
    if tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")


def _table_of(module, name):
    """The parameters or buffers that have a name; None for other attributes."""
    return next((table for table in (module._parameters, module._buffers) if name in table), None)


def set_tensor(module, name, tensor):
    """Sets a parameter, a buffer, or another attribute."""
    _check_module(module)
    _check_tensor(tensor)
    _check_name("tensor", name)
    table = _table_of(module, name)
    if table is not None:
        table[name] = tensor
    else:
        setattr(module, name, tensor)


def swap_tensor(module, name, tensor, allow_missing=False):
    """Sets a tensor and returns the one before.  With allow_missing, _MISSING stands for none: it is returned where
    the module has no such attribute, and deletes one."""
    _check_module(module)
    if tensor is not _MISSING:
        _check_tensor(tensor)
    _check_name("tensor", name)
    table = _table_of(module, name)
    old = table[name] if table is not None else getattr(module, name, _MISSING)
    if old is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if old is not _MISSING and old is not None and table is None and not isinstance(old, Tensor):
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        set_tensor(module, name, tensor)
    elif table is not None:
        del table[name]
    elif old is not _MISSING:
        delattr(module, name)
    return old


def swap_submodule(module, name, submodule):
    """Sets a submodule and returns the one before."""
    _check_module(module)
    _check_module(submodule)
    _check_name("submodule", name)
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    old = module._modules[name]
    if old is None:
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return old


class NamedMemberAccessor:
    """The tensors and submodules of a module and of those inside of it, by dotted names."""

    def __init__(self, module):
        self.module = module

    def _owner(self, name):
        path, _, last = name.rpartition(".")
        return self.get_submodule(path), last

    def get_submodule(self, name):
        """The submodule of a name; the module itself for the empty one."""
        found = self.module
        for part in name.split(".") if name else ():
            if not hasattr(found, part):
                raise AttributeError(f"{found._get_name()} has no attribute `{part}`")
            found = getattr(found, part)
            _check_submodule(part, found)
        return found

    def swap_submodule(self, path, value):
        """Sets a submodule and returns the one before."""
        return swap_submodule(*self._owner(path), value)

    def get_tensor(self, name):
        """The tensor of a name."""
        owner, last = self._owner(name)
        if not hasattr(owner, last):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        found = getattr(owner, last)
        _check_tensor(found)
        return found

    def set_tensor(self, name, value):
        """Sets the tensor of a name."""
        owner, last = self._owner(name)
        set_tensor(owner, last, value)

    def del_tensor(self, name):
        """Deletes the tensor of a name."""
        owner, last = self._owner(name)
        try:
            delattr(owner, last)
        except AttributeError:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from None

    def swap_tensor(self, name, value, allow_missing=False):
        """Sets the tensor of a name and returns the one before."""
        owner, last = self._owner(name)
        return swap_tensor(owner, last, value, allow_missing)

    def get_tensors(self, names):
        """The tensors of several names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        """Sets the tensors of several names."""
        self.set_tensors_dict(_paired(names, values))

    def set_tensors_dict(self, named_tensors):
        """Sets the tensors of a dict's names."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names):
        """Deletes the tensors of several names."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        """Sets the tensors of several names and returns those before."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in _paired(names, values).items()]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """Sets the tensors of a dict's names.  Returns a dict of those before, and the names that were missing; these
        are an error, which leaves the module as it was, unless allow_missing is set."""
        before, missing = {}, []
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
                if before[name] is _MISSING:
                    missing.append(name)
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys):
        """The names of tensors that `keys` lacks, and the keys that are no names of tensors."""
        given, known = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    def named_parameters(self, remove_duplicate=True):
        """Yields names and parameters."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        """Yields names and buffers."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        """Yields names and parameters, then names and buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        """Yields names and modules."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _check_submodule(name, module):
    from ..modules.module import Module
    if not isinstance(module, Module):
        raise TypeError(f"submodule `{name}`: {module} is not an instance of torch.nn.Module")


def _paired(names, values):
    names, values = list(names), list(values)
    if len(names) != len(values):
        raise AssertionError(f"names and values must have the same length, got {len(names)} names and {len(values)} values")
    return dict(zip(names, values))
