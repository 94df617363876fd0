"""Fake tensors: sizes, strides, dtype and device, but no elements.

A fake is a tensor whose memory has the flag `fake` (docs/design/device.md): every operator checks its arguments
and finds the types of its results, on any device, also one that this machine lacks.  FakeTensorMode handles each
call inside of it; outside, a call with a FakeTensor is handled by the mode that made the tensor.

A tensor of one element that torch.tensor made keeps its element (`constant`), and so do results of operators on
such tensors only, so that `item()` works on them.
"""
import contextlib
import operator
import weakref

from .. import Tag, Tensor, _C, nn
from .._functorch import config
from .._ops import ops
from ..overrides import TorchFunctionMode
from ..utils._python_dispatch import (TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack,
                                      is_traceable_wrapper_subclass)
from ..utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

__all__ = ["FakeTensor", "FakeTensorMode", "FakeCopyMode", "FakeTensorDeviceMismatchError", "UnsupportedFakeTensorException",
           "DynamicOutputShapeException", "DataDependentOutputException", "is_fake", "maybe_get_fake_mode",
           "unset_fake_temporarily"]


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that cannot be faked."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class _OfOperator(RuntimeError):
    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class DynamicOutputShapeException(_OfOperator):
    """The sizes of an operator's results depend on elements."""


class DataDependentOutputException(_OfOperator):
    """An operator's result is a number that depends on elements."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """Arguments of an operator are on different devices."""


# --- the tensor ---

class FakeTensor(Tensor):
    """A tensor without elements; `fake_mode` made it.

    Example::

        >>> from cresset._subclasses import FakeTensorMode
        >>> with FakeTensorMode():
        ...     y = nn.Linear(3, 4)(torch.empty(2, 3))
        >>> y.shape
        torch.Size([2, 4])
    """

    __torch_function__ = _C._disabled_torch_function_impl
    _recorded_whole = True  # make_fx records the call, not what dispatch() calls
    fake_mode = None
    constant = None
    real_tensor = None  # the tensor with elements, where _functorch.config.fake_tensor_propagate_real_tensors is true

    @staticmethod
    def __new__(cls, fake_mode, elem, device):
        made = Tensor._make_wrapper_subclass(cls, elem.shape, strides=elem.stride(), dtype=elem.dtype,
                                             device=device, requires_grad=elem.requires_grad)
        made.fake_mode = fake_mode
        return made

    @property
    def fake_device(self):
        return self.device

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        modes = {id(x.fake_mode): x.fake_mode for x in tree_leaves((args, kwargs)) if isinstance(x, FakeTensor)}
        return next(iter(modes.values())).dispatch(func, args, kwargs or {})

    def item(self):
        values = self.fake_mode.values if self.constant is None else None
        return super().item() if values is None else values.item(self)

    def __bool__(self):
        values = self.fake_mode.values if self.constant is None else None
        return bool((self if values is None or self.dtype == _C.bool else self.ne(0)).item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        return operator.index(self.item())

    def tolist(self):
        if self.dim() == 0:
            return self.item()
        return [x.tolist() for x in self.unbind(0)]

    def numpy(self, *, force=False):
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __repr__(self, *, tensor_contents=None):
        parts = ["..."]
        if self.device.type != "cpu":
            parts.append(f"device='{self.device}'")
        parts.append(f"size={tuple(self.shape)}")
        if self.dtype not in (_C.get_default_dtype(), _C.bool):
            parts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({text})" if isinstance(self, nn.Parameter) else text

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            made = self.detach().clone().requires_grad_(self.requires_grad)
            memo[id(self)] = nn.Parameter(made, self.requires_grad) if isinstance(self, nn.Parameter) else made
        return memo[id(self)]

    def __copy__(self):
        return self.detach().requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol):
        raise RuntimeError("a FakeTensor has no elements to pickle")


# --- the mode ---

def _is_real(x):
    return isinstance(x, Tensor) and not isinstance(x, FakeTensor)


def _is_other_wrapper(x):
    return _is_real(x) and type(x).__torch_dispatch__ is not _C._disabled_torch_dispatch_impl


def _shown(x):
    return f"tensor([...], size={tuple(x.shape)})" if _is_real(x) else repr(x)


def _call_text(func, args, kwargs):
    args, kwargs = tree_map_only(Tensor, lambda x: _Text(_shown(x)), (args, kwargs))
    return f"{func}({', '.join([*map(repr, args), *(f'{k}={v!r}' for k, v in kwargs.items())])})"


class _Text(str):
    __repr__ = str.__str__


def _takes_several_devices(func):
    """True if tensors of a call may be on several devices: it copies the elements of one, or indices of the host."""
    record = func._record
    copies = any(p["name"] == record["functional"] and p["type"] == "Tensor" for p in record["params"])
    return copies or bool({"host_indices", "cast", "resets"} & set(func.words))


def _check_devices(func, fakes):
    """Raises for two devices; a number on the host may be with tensors of any device."""
    found = list(dict.fromkeys(x.device for x in fakes if x.dim() or x.device.type != "cpu"))
    if len(found) > 1 and not _takes_several_devices(func):
        raise FakeTensorDeviceMismatchError("Expected all tensors to be on the same device, but found at least two devices, "
                                            f"{found[0]} and {found[1]}!")


def _with_indices_there(func, args):
    """Returns arguments whose indices on the host are fakes on the indexed tensor's device."""
    if "host_indices" not in func.words or not isinstance(args[0], FakeTensor) or args[0].device.type == "cpu":
        return args

    def there(x):
        return FakeTensor(x.fake_mode, x, args[0].device) if x.device.type == "cpu" else x
    return args[0], tree_map_only(FakeTensor, there, args[1]), *args[2:]


class FakeTensorMode(TorchDispatchMode):
    """Inside, new tensors are fakes and operators compute sizes, dtypes and devices only.

        allow_non_fake_inputs   True: tensors with elements become fakes in calls; False: they are an error
        allow_fallback_kernels, shape_env, static_shapes, export   accepted: all operators have a fake form, and sizes
                                are numbers

    Example::

        >>> from cresset._subclasses import FakeTensorMode
        >>> with FakeTensorMode() as mode:
        ...     x = torch.randn(2, 3, device="cuda")
        >>> x @ mode.from_tensor(torch.ones(3, 4)).cuda()
        FakeTensor(..., device='cuda:0', size=(2, 4))
    """

    _recorded_whole = True
    values = None  # makes numbers and sizes that depend on elements, while torch.export traces (export/_unbacked.py)

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
                 export=False):
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.static_shapes, self.export = shape_env, static_shapes, export
        self._fakes = {}                                   # id of a tensor -> (reference to it, its fake)
        self._wholes = weakref.WeakValueDictionary()       # address of a storage -> the fake of all its elements
        self._constants = weakref.WeakValueDictionary()    # id of a fake with `constant` -> the fake

    # --- fakes of tensors ---

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """Returns the fake of a tensor; tensors that share memory have fakes that do."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return tensor
        key = id(tensor)
        if key not in self._fakes:
            paused = contextlib.nullcontext() if self.values is None else self.values.paused()
            with paused, _disable_current_modes(), _C.DisableTorchFunctionSubclass():
                made = self._fake_of(tensor)
            self._fakes[key] = weakref.ref(tensor, lambda _: self._fakes.pop(key, None)), made
        return self._fakes[key][1]

    def _fake_of(self, tensor):
        if tensor.layout != _C.strided:
            return self._sparse_fake_of(tensor)
        whole = self._whole_of(tensor)
        made = self._part_of(whole, tensor)
        made._whole = whole
        if config.fake_tensor_propagate_real_tensors:
            made.real_tensor = tensor.detach().clone()
        if isinstance(tensor, nn.Parameter):
            made, real = nn.Parameter(made, tensor.requires_grad), made.real_tensor
            made.real_tensor = real
        elif tensor.requires_grad and tensor.is_leaf:
            made.requires_grad_()
        elif tensor.requires_grad:
            with self, _C.enable_grad():  # a result has a history
                made.copy_(_C.empty_like(made).requires_grad_())
        if tensor.is_leaf and tensor.grad is not None:
            made.grad = self.from_tensor(tensor.grad)
        return made

    def _sparse_fake_of(self, tensor):
        """Returns the fake of a sparse tensor.  It has no items, because their number depends on elements."""
        with _C._DisableTorchDispatch(), _C.no_grad():
            empty = tensor.detach().to("meta")
            made = with_fake_parts(self, empty, tensor.device)
            if tensor.layout == _C.sparse_coo:
                made._coalesced_(tensor.is_coalesced())
        if config.fake_tensor_propagate_real_tensors:
            made.real_tensor = tensor.detach().clone()
        return made.requires_grad_(tensor.requires_grad)

    def _part_of(self, whole, tensor):
        """Returns the fake of a tensor without a history as a part of its storage's."""
        place, bits = tensor.storage_offset(), tensor.is_conj() or tensor.is_neg()
        if not (place or bits):
            made = FakeTensor(self, tensor.detach(), tensor.device)
            _C._share_storage(made, whole)
            return made
        size = tensor.element_size()
        with _C._DisableTorchDispatch(), _C.no_grad():
            made = whole[:whole.numel() // size * size].view(tensor.dtype)
            made = made.as_strided(tensor.shape, tensor.stride(), place)
            made = made.conj() if tensor.is_conj() else made
            made = _C._neg_view(made) if tensor.is_neg() else made
        return self._marked(made.detach())

    def _whole_of(self, tensor):
        """Returns the fake of all elements of a tensor's storage."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        whole = self._wholes.get(address) if address else None
        if whole is None or not any(of() is not None for of in whole._of):
            whole = FakeTensor(self, _C.empty(storage.nbytes(), dtype=_C.uint8, device="meta"), tensor.device)
            whole._of = []
            self._wholes[address] = whole
        whole._of.append(weakref.ref(tensor))
        return whole

    def as_fake(self, x):
        """Returns a tensor without elements as a FakeTensor of this mode."""
        return x if isinstance(x, FakeTensor) else self._marked(x)

    def again(self, x):
        """Returns a fake of another mode as one of this mode."""
        with _C._DisableTorchDispatch(), _C.no_grad():
            return self._marked(x.detach())

    def _marked(self, x):
        made = x.as_subclass(FakeTensor)
        made.fake_mode = self
        return made

    # --- calls ---

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(map(_is_other_wrapper, tree_leaves((args, kwargs)))):
            return NotImplemented
        return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func, args, kwargs):
        """Calls an operator on fakes and returns fakes."""
        if getattr(func, "of_groups", False):  # a call between ranks does nothing for fakes
            args, kwargs = self._all_fakes(func, args, kwargs)
            return func(*args, **kwargs)
        if func._opname in ("lift_fresh", "lift"):
            return self._lifted(args[0])
        if self.values is not None and not self.values.inside and Tag.dynamic_output_shape in func.tags and \
                "sparse" not in func.words:
            return self.values.dispatch(func, args, kwargs)
        args, kwargs = self._all_fakes(func, args, kwargs)
        fakes = [x for x in tree_leaves((args, kwargs)) if isinstance(x, FakeTensor)]
        if self._keeps_constants(func, fakes, kwargs):
            return self._of_constants(func, args, kwargs, fakes)
        self._forget_constants(func, args, kwargs)
        args = _with_indices_there(func, args)
        _check_devices(func, fakes)
        if fakes and func._schema.returns and not any("Tensor" in r.type for r in func._schema.returns):
            raise DataDependentOutputException(func)
        out = self._run(func, args, kwargs, fakes)
        if config.fake_tensor_propagate_real_tensors and fakes and func.namespace != "cresset_export" and \
                all(x.real_tensor is not None for x in fakes):
            self.set_real(func, args, kwargs, out)
        return out

    def set_real(self, func, args, kwargs, out):
        """Gives the results of a call the elements that the operator computes."""
        with _disable_current_modes(), _C.no_grad(), contextlib.nullcontext() if self.values is None else self.values.paused():
            real = func(*tree_map_only(FakeTensor, lambda x: x.real_tensor, args), **tree_map_only(FakeTensor, lambda x: x.real_tensor, kwargs))
        for x, value in zip(tree_leaves(out), tree_leaves(real)):
            if isinstance(x, FakeTensor):
                x.real_tensor = value

    def _all_fakes(self, func, args, kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        if not any(map(_is_real, leaves)):
            return args, kwargs
        if not self.allow_non_fake_inputs:
            raise AssertionError("Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                                 f"'allow_non_fake_inputs'. Found in {_call_text(func, args, kwargs)}")
        return tree_unflatten([self.from_tensor(x) if _is_real(x) else x for x in leaves], spec)

    def _run(self, func, args, kwargs, fakes):
        """Finds the results' types; those of an operator that takes a device are new tensors there."""
        device = kwargs.get("device")
        if device is not None or not fakes:
            device = _with_index(_C.device(device if device is not None else _C.get_default_device()))
            kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
            if not fakes:
                kwargs["device"] = _C.device("meta")
        try:
            with _C._FakesOnly():
                out = func(*args, **kwargs)
        except RuntimeError as error:
            if Tag.dynamic_output_shape in func.tags and "depends on" in str(error):
                raise DynamicOutputShapeException(func) from error
            raise
        if device is not None:  # a call that changes nothing returns its argument
            return tree_map_only(Tensor, lambda x: x if any(x is y for y in fakes) and x.device == device else FakeTensor(self, x, device), out)
        return tree_map_only(Tensor, self.as_fake, out)

    # --- numbers that are known ---

    def _lifted(self, x):
        if isinstance(x, FakeTensor):
            return x
        made = FakeTensor(self, x, x.device)
        self._set_constant(made, x)
        return made

    def _set_constant(self, fake, value):
        if value.numel() == 1:
            fake.constant = value
            self._constants[id(fake)] = fake

    def _keeps_constants(self, func, fakes, kwargs):
        moves = kwargs.get("device") is not None and kwargs["device"].type != "cpu"
        return fakes and all(x.constant is not None for x in fakes) and not (func._nondeterministic_seeded or moves)

    def _of_constants(self, func, args, kwargs, fakes):
        """Calls an operator on the numbers, too, and keeps those of the result."""
        with _C._DisableTorchDispatch():
            known = func(*tree_map_only(FakeTensor, lambda x: x.constant, args),
                         **tree_map_only(FakeTensor, lambda x: x.constant, kwargs))
        if not any(isinstance(x, Tensor) for x in tree_leaves(known)):
            return known
        if Tag.dynamic_output_shape in func.tags:
            return tree_map_only(Tensor, lambda x: FakeTensor(self, x, x.device), known)
        out = self._run(func, args, kwargs, fakes)
        for x, value in zip(tree_leaves(out), tree_leaves(known)):
            if isinstance(x, FakeTensor) and x.constant is None:
                self._set_constant(x, value)
        return out

    def _forget_constants(self, func, args, kwargs):
        """The numbers that a call writes are not known afterwards."""
        named = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
        written = [x.constant for x in tree_leaves([named.get(a.name) for a in func._schema.arguments if a.is_write])
                   if isinstance(x, FakeTensor) and x.constant is not None]
        for address in [value.untyped_storage().data_ptr() for value in written]:
            for fake in list(self._constants.values()):
                if fake.constant is not None and fake.constant.untyped_storage().data_ptr() == address:
                    fake.constant = None


def with_fake_parts(mode, empty, device):
    """Returns a sparse FakeTensor of a sparse tensor on meta, of which the parts are on `device`."""
    names = {_C.sparse_coo: ("_indices",), _C.sparse_csr: ("crow_indices", "col_indices"), _C.sparse_bsr: ("crow_indices", "col_indices"),
             _C.sparse_csc: ("ccol_indices", "row_indices"), _C.sparse_bsc: ("ccol_indices", "row_indices")}[empty.layout]
    with _C._FakesOnly():
        parts = [FakeTensor(mode, getattr(empty, name)(), device) for name in (*names, "_values" if len(names) == 1 else "values")]
        if empty.layout == _C.sparse_coo:
            made = ops._sparse_coo(*parts, empty.shape, empty.is_coalesced(), False)
        else:
            made = ops._sparse_compressed(*parts, empty.shape, empty.layout, False)
    return mode._marked(made)


def _with_index(device):
    return device if device.index is not None or device.type in ("cpu", "meta") else _C.device(device.type, 0)


# --- around modes ---

class FakeCopyMode(TorchFunctionMode):
    """Inside, copies of tensors (copy.deepcopy, clone) are fakes of a mode.

    Example::

        >>> from cresset._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
        >>> import copy
        >>> with FakeCopyMode(FakeTensorMode()):
        ...     model = copy.deepcopy(nn.Linear(2, 3))
        >>> model.weight
        Parameter(FakeTensor(..., size=(3, 2), requires_grad=True))
    """

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is Tensor.clone:
            return func(self.fake_mode.from_tensor(args[0]), **kwargs)
        if func is Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor)
            return memo[id(tensor)]
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


def is_fake(x):
    """Returns whether x is a FakeTensor, or wraps one."""
    return maybe_get_fake_mode(x) is not None


def maybe_get_fake_mode(t):
    """Returns the mode of a FakeTensor, or of the one that a tensor wraps; else None."""
    if isinstance(t, FakeTensor):
        return t.fake_mode
    if is_traceable_wrapper_subclass(t):
        names, _ = t.__tensor_flatten__()
        return next((mode for mode in (maybe_get_fake_mode(getattr(t, name)) for name in names) if mode), None)
    return None


def active_fake_mode():
    """Returns the FakeTensorMode inside of which the call is, or None."""
    return next((m for m in reversed(_get_current_dispatch_mode_stack()) if isinstance(m, FakeTensorMode)), None)


@contextlib.contextmanager
def unset_fake_temporarily():
    """Inside, no FakeTensorMode is active.  Yields the one that was, or None."""
    mode = active_fake_mode()
    if mode is None:
        yield None
        return
    with _disable_current_modes() as modes, contextlib.ExitStack() as stack:
        for other in modes:
            if not isinstance(other, FakeTensorMode):
                stack.enter_context(other)
        yield mode


def detect_fake_mode(inputs=None):
    """Returns the mode of the fakes among `inputs`, else the active one, or None."""
    found = [mode for mode in map(maybe_get_fake_mode, tree_leaves(inputs)) if mode is not None]
    found += [mode for mode in [active_fake_mode()] if mode is not None]
    if any(mode is not found[0] for mode in found):
        raise AssertionError("fake mode from several sources differ")
    return found[0] if found else None
