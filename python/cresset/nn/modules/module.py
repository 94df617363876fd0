"""The base class of modules, which have parameters and compute with them.

A module has four kinds of ordered tables: `_parameters`, `_buffers`, `_modules` and its hooks.
Reading an attribute falls back to the first three.  Writing an attribute chooses one by the
value's type.  Programs edit these tables directly, so nothing derived from them is cached.
"""
import warnings
import weakref
from collections import OrderedDict, namedtuple

import cresset
from ... import Tensor, _C
from ..._utils import typename
from ...utils.hooks import BackwardHook, RemovableHandle
from ..parameter import Buffer, Parameter

__all__ = [
    "register_module_forward_pre_hook", "register_module_forward_hook",
    "register_module_full_backward_pre_hook", "register_module_backward_hook",
    "register_module_full_backward_hook", "register_module_buffer_registration_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
    "Module"]


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line if line.strip() else "" for line in rest])


class _WrappedHook:
    """A hook that may receive its module first, without a reference on the module."""

    def __init__(self, hook, module=None):
        self.hook = hook
        self.__name__ = getattr(hook, "__name__", type(hook).__name__)
        self.with_module = module is not None
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        if state["with_module"] and state["module"] is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.__init__(state["hook"], state.get("module"))


# Hooks of all modules.
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def _add_hook(hooks, hook, prepend=False, marks=()):
    """Appends `hook`.  `marks` are tables that also get its id.  Returns the handle."""
    handle = RemovableHandle(hooks, extra_dict=[table for table, _ in marks])
    hooks[handle.id] = hook
    for table, wanted in marks:
        if wanted:
            table[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook):
    """Calls hook(module, name, buffer) for every buffer registered from now on."""
    return _add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Calls hook(module, name, submodule) for every module registered from now on."""
    return _add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Calls hook(module, name, param) for every parameter registered from now on."""
    return _add_hook(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook):
    """Calls hook(module, args) before the forward of every module."""
    return _add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Calls hook(module, args, output) after the forward of every module."""
    return _add_hook(_global_forward_hooks, hook, marks=[
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call)])


def _register_global_backward_hook(hook, full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a "
                           "global Module hook. Please use only one of them.")
    _global_is_full_backward_hook = full
    return _add_hook(_global_backward_hooks, hook)


def register_module_backward_hook(hook):
    """The old form of register_module_full_backward_hook."""
    return _register_global_backward_hook(hook, False)


def register_module_full_backward_pre_hook(hook):
    """Calls hook(module, grad_output) before the backward of every module."""
    return _add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """Calls hook(module, grad_input, grad_output) after the backward of every module."""
    return _register_global_backward_hook(hook, True)


def _run_registration_hooks(hooks, module, name, value):
    for hook in hooks.values():
        out = hook(module, name, value)
        if out is not None:
            value = out
    return value


def _is_tensor_like(obj):
    return isinstance(obj, Tensor) or hasattr(obj, "__torch_function__")


def _forward_unimplemented(self, *input):
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function')


def _parse_to(*args, **kwargs):
    """Splits the arguments of `to` into (device, dtype, non_blocking, memory_format)."""
    memory_format = kwargs.pop("memory_format", None)
    values = {"device": None, "dtype": None, "non_blocking": False, "copy": False}
    order = ["device", "dtype", "non_blocking", "copy"]
    if args and isinstance(args[0], Tensor) or "tensor" in kwargs:
        other = args[0] if args else kwargs.pop("tensor")
        values.update(device=other.device, dtype=other.dtype)
        order, args = order[2:], args[1:]
    elif args and isinstance(args[0], cresset.dtype):
        order = order[1:]
    if len(args) > len(order):
        raise TypeError(f"to() takes at most {len(order)} positional arguments "
                        f"({len(args)} given)")
    values.update(zip(order, args))
    for name, value in kwargs.items():
        if name not in values:
            raise TypeError(f"to() got an unexpected keyword argument '{name}'")
        values[name] = value
    if values["copy"]:
        raise RuntimeError(".to() does not accept copy argument")
    if values["dtype"] is not None and not isinstance(values["dtype"], cresset.dtype):
        raise TypeError("to() received an invalid combination of arguments - got "
                        f"dtype={type(values['dtype']).__name__}")
    if values["device"] is not None:
        values["device"] = cresset.device(values["device"])
    return values["device"], values["dtype"], values["non_blocking"], memory_format


class _CallSignature:
    """What inspect.signature(module) returns: __call__ in C has none, and the class has that of __init__."""

    def __get__(self, module, cls):
        if module is None:
            raise AttributeError("__signature__")
        import inspect
        call = cls.__call__
        if inspect.isfunction(call):  # of a subclass
            return inspect.signature(call.__get__(module))
        kinds = inspect.Parameter
        return inspect.Signature([kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD)])


class Module:
    """Base class: define submodules and parameters in `__init__`, and compute in `forward`.

    Example::

        >>> sum(p.numel() for p in nn.Linear(3, 4).parameters())
        16
    """

    __signature__ = _CallSignature()
    dump_patches = False
    _version = 1
    call_super_init = False
    _compiled_call_impl = None
    forward = _forward_unimplemented

    def __init__(self, *args, **kwargs):
        if self.call_super_init is False:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword "
                                f"argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument "
                                f"but {len(args) + 1} were given")
        self.__dict__.update(
            training=True, _parameters={}, _buffers={}, _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(), _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None, _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(), _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(), _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(), _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(), _modules={})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Calling.

    def _call_impl(self, *args, **kwargs):
        if (self._backward_hooks or self._backward_pre_hooks or self._forward_hooks
                or self._forward_pre_hooks or _global_backward_pre_hooks
                or _global_backward_hooks or _global_forward_hooks
                or _global_forward_pre_hooks):
            return _HookedCall(self, args, kwargs).run()
        return self.forward(*args, **kwargs)

    # `__call__` is set below to a function in C: it calls the compiled form, or _call_impl when
    # there are hooks, or forward.

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        _C._quicken_module(cls)

    def compile(self, *args, **kwargs):
        """Compiles this module's forward in place."""
        self._compiled_call_impl = cresset.compile(self._call_impl, *args, **kwargs)

    # Attributes.

    def __getattr__(self, name):
        tables = self.__dict__
        if "_parameters" in tables and name in tables["_parameters"]:
            return tables["_parameters"][name]
        if "_modules" in tables and name in tables["_modules"]:
            return tables["_modules"][name]
        if "_buffers" in tables and name in tables["_buffers"]:
            return tables["_buffers"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        tables = self.__dict__
        params = tables.get("_parameters")
        if isinstance(value, Tensor) and isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif params is not None and name in params:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
        else:
            self._set_module_or_other(name, value)

    def _set_module_or_other(self, name, value):
        modules = self.__dict__.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
        elif modules is None or name not in modules:
            return self._set_buffer_or_other(name, value)
        elif value is not None:
            raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' "
                            "(torch.nn.Module or None expected)")
        modules[name] = _run_registration_hooks(
            _global_module_registration_hooks, self, name, value)

    def _set_buffer_or_other(self, name, value):
        buffers = self.__dict__.get("_buffers")
        known = buffers is not None and name in buffers
        if not known and not (isinstance(value, Tensor) and isinstance(value, Buffer)):
            return object.__setattr__(self, name, value)
        if value is not None and not _is_tensor_like(value):
            raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' "
                            "(torch.nn.Buffer, torch.Tensor or None expected)")
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in self._non_persistent_buffers_set
        self._register_assigned_buffer(name, value, persistent)

    def _register_assigned_buffer(self, name, value, persistent):
        register = self.register_buffer
        if getattr(register, "__func__", None) is not Module.register_buffer:
            import inspect
            if "persistent" not in inspect.signature(register).parameters:
                if not persistent:
                    raise RuntimeError(
                        "Registering a non-persistent buffer on a Module subclass that "
                        "implements register_buffer() without the persistent argument is not "
                        "allowed.")
                return register(name, value)
        register(name, value, persistent)

    def _forget(self, name, *tables):
        """Removes `name` from the instance, from `tables` and from the buffer set."""
        self.__dict__.pop(name, None)
        for table in tables:
            self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self):
        keys = (*dir(type(self)), *self.__dict__, *self._parameters, *self._modules,
                *self._buffers)
        return sorted(key for key in keys if not key[0].isdigit())

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Pickles of older versions lack newer tables.
        for name in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
                     "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
                     "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks", "_backward_pre_hooks"):
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # Registering.

    def _check_name(self, kind, name, table):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but not a parameter; it is saved only when `persistent`."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        self._buffers[name] = _run_registration_hooks(
            _global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a parameter; None reserves the name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method.")
        self._parameters[name] = _run_registration_hooks(
            _global_parameter_registration_hooks, self, name, param)

    def add_module(self, name, module):
        """Adds a child module under `name`."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = _run_registration_hooks(
            _global_module_registration_hooks, self, name, module)

    def register_module(self, name, module):
        """Another name of add_module."""
        self.add_module(name, module)

    # Finding.

    def _get_name(self):
        return type(self).__name__

    def _require(self, name):
        if not hasattr(self, name):
            raise AttributeError(f"{self._get_name()} has no attribute `{name}`")
        return getattr(self, name)

    def get_submodule(self, target):
        """The module at the dotted path `target`."""
        module = self
        for name in target.split(".") if target else ():
            module = module._require(name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Replaces the module at the dotted path `target`."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict:
            parent._require(name)
        if not isinstance(getattr(parent, name, module), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at the dotted path `target`."""
        path, _, name = target.rpartition(".")
        param = self.get_submodule(path)._require(name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target):
        """The buffer at the dotted path `target`."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        buffer = module._require(name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    def get_extra_state(self):
        """Override it together with set_extra_state to save state that is not a tensor."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template="
            "bug-report.yml to report this bug.")

    def set_extra_state(self, state):
        """Override together with get_extra_state."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template="
            "bug-report.yml to report this bug.")

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def parameters(self, recurse=True):
        """Iterates over the parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Iterates over (dotted name, parameter)."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse,
                                       remove_duplicate)

    def buffers(self, recurse=True):
        """Iterates over the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Iterates over (dotted name, buffer)."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse,
                                       remove_duplicate)

    def children(self):
        """Iterates over the direct children, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """Iterates over (name, direct child)."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate=True):
        """Iterates over this module and all modules in it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Iterates over (dotted name, module), this module first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    # --- changes of all parameters and buffers ---

    def _apply(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        for key, param in self._parameters.items():
            if param is not None:
                self._parameters[key] = _apply_to_parameter(fn, param)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[key] = fn(buffer)
        return self

    def apply(self, fn):
        """Calls fn(module) for every module inside, children first, then for this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def cuda(self, device=None):
        """Moves parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self):
        """Moves parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type):
        """Casts parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Casts floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Casts floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Casts floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self, *, device, recurse=True):
        """Moves to `device` without copying the values."""
        return self._apply(lambda t: cresset.empty_like(t, device=device), recurse=recurse)

    def to(self, *args, **kwargs):
        """Moves and casts parameters and buffers: to(device), to(dtype), to(tensor), ..."""
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None:
            _check_module_dtype(dtype)

        def convert(t):
            kind = dtype if t.is_floating_point() or t.is_complex() else None
            options = {}
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return t.to(device, kind, non_blocking, **options)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different "
                    "device.") from None

        return self._apply(convert)

    def train(self, mode=True):
        """Puts this module and its children into training mode (or evaluation mode)."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Puts this module and its children into evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Sets requires_grad of every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Clears (or zeroes) the gradients of all parameters."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no "
                "effect. The parameters are copied (in a differentiable manner) from the "
                "original module. This means they are not leaf nodes in autograd and so don't "
                "accumulate gradients. If you need gradients in your forward method, consider "
                "using autograd.grad instead.", stacklevel=2)
        for param in self.parameters():
            grad = param.grad
            if grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def share_memory(self):
        """Moves parameters and buffers to shared memory."""
        return self._apply(lambda t: t.share_memory_())

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    # Hooks.

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls hook(module, grad_output) before this module's gradients are computed."""
        return _add_hook(self._backward_pre_hooks, hook, prepend)

    def _register_backward_hook(self, hook, prepend, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks "
                               "on a single Module. Please use only one of them.")
        self._is_full_backward_hook = full
        return _add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """The old form of register_full_backward_hook."""
        return self._register_backward_hook(hook, False, False)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls hook(module, grad_input, grad_output) when the input's gradient is known."""
        return self._register_backward_hook(hook, prepend, True)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls hook(module, args) before forward; it may return new arguments."""
        return _add_hook(self._forward_pre_hooks, hook, prepend,
                         [(self._forward_pre_hooks_with_kwargs, with_kwargs)])

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False,
                              always_call=False):
        """Calls hook(module, args, output) after forward; it may return another output."""
        return _add_hook(self._forward_hooks, hook, prepend,
                         [(self._forward_hooks_with_kwargs, with_kwargs),
                          (self._forward_hooks_always_called, always_call)])

    def _get_backward_hooks(self):
        full, plain = [], []
        for kind, hooks in ((_global_is_full_backward_hook, _global_backward_hooks),
                            (self._is_full_backward_hook, self._backward_hooks)):
            if kind is not None:
                (full if kind else plain).extend(hooks.values())
        return full, plain

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    # State.

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook")
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Calls hook(module, state_dict, prefix, local_metadata) after state_dict."""
        hook._from_public_api = True
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """Calls hook(module, prefix, keep_vars) before state_dict."""
        return _add_hook(self._state_dict_pre_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """An ordered dict of all parameters and persistent buffers by dotted name."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
                "state_dict for details.", FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.",
                                  keep_vars=keep_vars)
        return self._run_state_dict_hooks(destination, prefix, local_metadata)

    def _run_state_dict_hooks(self, destination, prefix, local_metadata):
        for hook in self._state_dict_hooks.values():
            out = hook(self, destination, prefix, local_metadata)
            if out is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = out
        return destination

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add_hook(self._load_state_dict_pre_hooks,
                         _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook):
        """Calls hook(module, state_dict, prefix, ...) before this module's state is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Calls hook(module, incompatible_keys) after this module's state was loaded."""
        return _add_hook(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)
        state = {k: v for k, v in self._parameters.items() if v is not None}
        state.update((k, v) for k, v in self._buffers.items()
                     if v is not None and k not in self._non_persistent_buffers_set)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in state.items():
            key = prefix + name
            if key in state_dict:
                _load_one(self, name, param, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            self._find_unexpected(state_dict, prefix, extra_key, state, unexpected_keys)

    def _find_unexpected(self, state_dict, prefix, extra_key, state, unexpected_keys):
        for key in state_dict:
            if key.startswith(prefix) and key != extra_key:
                name, dot, _ = key[len(prefix):].partition(".")
                if name not in (self._modules if dot else state):
                    unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies (or, with `assign`, adopts) the values of `state_dict`.

        Returns the missing and the unexpected keys; both are errors when `strict`. """
        if not hasattr(state_dict, "keys") or not hasattr(state_dict, "__getitem__"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        _load_module(self, state_dict, "", metadata, assign, missing, unexpected, errors)
        if strict:
            for title, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    names = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(0, f"{title} key(s) in state_dict: {names}. ")
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(
                type(self).__name__, "\n\t".join(errors)))
        return _IncompatibleKeys(missing, unexpected)

    # Printing.

    def extra_repr(self):
        """Override it to add text between the parentheses of repr."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): " + _addindent(repr(module), 2)
                       for name, module in self._modules.items()]
        inside = ""
        if len(extra_lines) == 1 and not child_lines:
            inside = extra_lines[0]
        elif extra_lines or child_lines:
            inside = "\n  " + "\n  ".join(extra_lines + child_lines) + "\n"
        return f"{self._get_name()}({inside})"


_C._set_module_parts(Module, _global_forward_hooks, _global_forward_pre_hooks,
                     _global_backward_hooks, _global_backward_pre_hooks)
_C._quicken_module(Module)
Module._wrapped_call_impl = Module.__call__


def _check_module_dtype(dtype):
    if not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError("nn.Module.to only accepts floating point or complex dtypes, but got "
                        f"desired dtype={dtype}")
    if dtype.is_complex:
        warnings.warn(
            "Complex modules are a new feature under active development whose design may "
            "change, and some modules might not work as expected when using complex tensors as "
            "parameters or buffers. Please file an issue at https://github.com/pytorch/pytorch/"
            "issues/new?template=bug-report.yml if a complex module does not work as expected.",
            stacklevel=3)


def _same_kind(a, b):
    return a.is_meta == b.is_meta


def _apply_to_parameter(fn, param):
    """Returns `param` with fn's value: the same object where possible, else a new one."""
    with cresset.no_grad():
        value = fn(param)
    grad = param.grad
    if _same_kind(param, value) and hasattr(type(value), "__tensor_flatten__"):  # its elements are in tensors inside
        made = Parameter(value, param.requires_grad)
        if grad is not None:
            with cresset.no_grad():
                made.grad = fn(grad).requires_grad_(grad.requires_grad)
        cresset.utils.swap_tensors(param, made)
        return param
    if _same_kind(param, value):
        param.data = value
        out = param
    else:
        out = Parameter(value, param.requires_grad)
    if grad is not None:
        with cresset.no_grad():
            new = fn(grad)
        if out is param and _same_kind(grad, new):
            out.grad.data = new
        else:
            out.grad = new.requires_grad_(grad.requires_grad)
    return out


def _load_one(module, name, param, key, value, assign, errors):
    if not _is_tensor_like(value):
        errors.append(f'While copying the parameter named "{key}", expected torch.Tensor or '
                      f"Tensor-like object from checkpoint but received {type(value)}")
        return
    if len(param.shape) == 0 and len(value.shape) == 1 and value.shape[0] == 1:
        value = value[0]  # old versions saved scalars with one dim
    if value.shape != param.shape:
        errors.append(f"size mismatch for {key}: copying a param with shape {value.shape} from "
                      f"checkpoint, the shape in current model is {param.shape}.")
        return
    if param.is_meta and not value.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to "
            "assign items in the state dictionary to their corresponding key in the module "
            "instead of copying them in place?)", stacklevel=3)
    try:
        with cresset.no_grad():
            if assign:
                _adopt(module, name, param, value)
            else:
                param.copy_(value)
    except Exception as error:
        errors.append(f'While copying the parameter named "{key}", whose dimensions in the model '
                      f"are {param.size()} and whose dimensions in the checkpoint are "
                      f"{value.size()}, an exception occurred : {error.args}.")


def _adopt(module, name, param, value):
    if isinstance(param, Parameter):
        if isinstance(value, Parameter):
            value.requires_grad_(param.requires_grad)
        else:
            value = Parameter(value, requires_grad=param.requires_grad)
    setattr(module, name, value)


def _load_module(module, state_dict, prefix, metadata, assign, missing, unexpected, errors):
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state_dict, prefix, local_metadata, True, missing, unexpected,
                                 errors)
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            part = {k: v for k, v in state_dict.items() if k.startswith(path)}
            _load_module(child, part, path, metadata, assign, missing, unexpected, errors)
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                "to return new values, if incompatible_keys need to be modified, it should be "
                "done inplace.")


class _HookedCall:
    """One call of a module that has hooks, or while global hooks exist."""

    def __init__(self, module, args, kwargs):
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result = None
        self.called = set()  # forward hooks with always_call that have run

    def run(self):
        try:
            return self._run()
        except Exception:
            self._call_always_hooks(_global_forward_hooks, _global_forward_hooks_always_called,
                                    {}, "global module")
            module = self.module
            self._call_always_hooks(module._forward_hooks, module._forward_hooks_always_called,
                                    module._forward_hooks_with_kwargs, "module")
            raise

    def _run(self):
        module = self.module
        pre_hooks = full = plain = ()
        if module._backward_pre_hooks or _global_backward_pre_hooks:
            pre_hooks = module._get_backward_pre_hooks()
        if module._backward_hooks or _global_backward_hooks:
            full, plain = module._get_backward_hooks()
        self._run_pre_hooks()
        backward = None
        if full or pre_hooks:
            backward = BackwardHook(module, full, pre_hooks)
            self.args = backward.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        self._run_forward_hooks()
        if backward is not None:
            if not isinstance(self.result, (Tensor, tuple)):
                warnings.warn("For backward hooks to be called, module output should be a Tensor "
                              f"or a tuple of Tensors but received {type(self.result)}",
                              stacklevel=4)
            self.result = backward.setup_output_hook(self.result)
        if plain:
            self._attach_plain_backward_hooks(plain)
        return self.result

    def _run_pre_hooks(self):
        module = self.module
        hooks = (*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items())
        for hook_id, hook in hooks:
            if hook_id in module._forward_pre_hooks_with_kwargs:
                out = hook(module, self.args, self.kwargs)
                if out is None:
                    continue
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise RuntimeError("forward pre-hook must return None or a tuple of "
                                       f"(new_args, new_kwargs), but got {out}.")
                self.args, self.kwargs = out
            else:
                out = hook(module, self.args)
                if out is not None:
                    self.args = out if isinstance(out, tuple) else (out,)

    def _run_forward_hooks(self):
        module = self.module
        for hook_id, hook in (*_global_forward_hooks.items(), *module._forward_hooks.items()):
            if (hook_id in module._forward_hooks_always_called
                    or hook_id in _global_forward_hooks_always_called):
                self.called.add(hook_id)
            if (hook_id in module._forward_hooks_with_kwargs
                    or hook_id in _global_forward_hooks_with_kwargs):
                out = hook(module, self.args, self.kwargs, self.result)
            else:
                out = hook(module, self.args, self.result)
            if out is not None:
                self.result = out

    def _call_always_hooks(self, hooks, always, with_kwargs, kind):
        for hook_id, hook in hooks.items():
            if hook_id not in always or hook_id in self.called:
                continue
            kwargs = (self.kwargs,) if hook_id in with_kwargs else ()
            try:
                out = hook(self.module, self.args, *kwargs, self.result)
                if out is not None:
                    self.result = out
            except Exception as error:
                warnings.warn(f"{kind} forward hook with ``always_call=True`` raised an "
                              "exception that was silenced as another error was raised in "
                              f"forward: {error}", stacklevel=4)

    def _attach_plain_backward_hooks(self, hooks):
        value = self.result
        while not isinstance(value, Tensor):
            if isinstance(value, dict):
                value = next(v for v in value.values() if isinstance(v, Tensor))
            else:
                value = value[0]
        if value.grad_fn is not None:
            for hook in hooks:
                value.grad_fn.register_hook(_WrappedHook(hook, self.module))
            _warn_about_plain_hook(self.args, self.result, value.grad_fn)


def _warn_plain(text):
    warnings.warn(text, FutureWarning, stacklevel=6)


def _all_tensors(value):
    return isinstance(value, tuple) and all(isinstance(v, Tensor) for v in value)


def _warn_about_plain_hook(inputs, result, grad_fn):
    """Warns when an old backward hook sees only one autograd node of the module."""
    advice = "Please use register_full_backward_hook to get the documented behavior."
    result = (result,) if isinstance(result, Tensor) else result
    if not _all_tensors(result):
        return _warn_plain(
            "Using non-full backward hooks on a Module that does not return a single Tensor or a "
            "tuple of Tensors is deprecated and will be removed in future versions. This hook "
            "will be missing some of the grad_output. " + advice)
    if not _all_tensors(inputs):
        return _warn_plain(
            "Using non-full backward hooks on a Module that does not take as input a single "
            "Tensor or a tuple of Tensors is deprecated and will be removed in future versions. "
            "This hook will be missing some of the grad_input. " + advice)
    nodes = {r.grad_fn for r in result if r.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and grad_fn not in nodes):
        return _warn_plain(
            "Using a non-full backward hook when outputs are nested in python data structure is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_output.")
    if len(nodes) > 1:
        return _warn_plain(
            "Using a non-full backward hook when outputs are generated by different autograd "
            "Nodes is deprecated and will be removed in future versions. This hook will be "
            "missing some grad_output. " + advice)
    sources = {i.grad_fn for i in inputs if i.grad_fn is not None}
    if sources != {n[0] for n in grad_fn.next_functions}:
        _warn_plain(
            "Using a non-full backward hook when the forward contains multiple autograd Nodes is "
            "deprecated and will be removed in future versions. This hook will be missing some "
            "grad_input. " + advice)
