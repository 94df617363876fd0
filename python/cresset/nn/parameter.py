"""Tensors of a module: parameters, which are trained, and buffers, which are not."""
import sys
from collections import OrderedDict

import cresset
from .. import Tensor
from .._C import _disabled_torch_function_impl
from .._utils import _rebuild_parameter, _rebuild_parameter_with_state

__all__ = ["Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer", "UninitializedTensorMixin", "is_lazy"]


class _ParameterMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or (
            cls is Parameter and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module registers when it is assigned as an attribute.

    It requires a gradient, is among `parameters()` and in `state_dict()`.

    Shape:
        of `data`: (*)

    Example::

        >>> net = torch.nn.Module()
        >>> net.scale = torch.nn.Parameter(torch.ones(1))
        >>> [name for name, p in net.named_parameters()]
        ['scale']
    """

    # Results of operators on parameters and buffers are plain tensors.
    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = cresset.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        param = data.detach().requires_grad_(requires_grad)
        if type(param) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires "
                "that detach() returns an instance of the same type, but return type "
                f"{type(param).__name__} was found instead. To use the type as a Parameter, "
                "please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation.")
        param._is_param = True
        return param

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            data = self.data.clone(memory_format=cresset.preserve_format)
            memo[id(self)] = type(self)(data, self.requires_grad)
        return memo[id(self)]

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, proto):
        # A detached tensor shares this tensor's storage (`.data` would not), so tied tensors
        # remain tied.
        args = (self.detach(), self.requires_grad, OrderedDict())
        state = getattr(self, "__dict__", None)
        if not state:
            return _rebuild_parameter, args
        return _rebuild_parameter_with_state, (*args, state)


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or (
            cls is Buffer and isinstance(instance, Tensor)
            and getattr(instance, "_is_buffer", False))


class Buffer(Tensor, metaclass=_BufferMeta):
    """Makes a tensor that a module registers as a buffer when it is assigned."""

    __torch_function__ = _disabled_torch_function_impl

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = cresset.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """A tensor whose size is not known yet."""

    cls_to_become = None

    def materialize(self, shape, device=None, dtype=None):
        """Sets the size, with undefined elements; the object then has its ordinary class."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = cresset.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes.")

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, proto):
        return type(self), (self.requires_grad,)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose size is not known yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = cresset.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose size is not known yet."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = cresset.empty(0, device=device, dtype=dtype)
        buffer = Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def is_lazy(param):
    """Returns whether a tensor's size is unknown."""
    return isinstance(param, UninitializedTensorMixin)


# Processes may have been made to send tensors before: now parameters, too.
getattr(sys.modules.get(f"{__name__.partition('.')[0]}.multiprocessing.reductions"), "init_reductions", lambda: None)()
