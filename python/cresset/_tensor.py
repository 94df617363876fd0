"""Methods of Tensor in Python: printing, copying, pickling and others.

The class itself is in C; importing this module completes it.
"""
from . import _C, _linalg_utils
from ._C import Tensor
from ._tensor_str import SPARSE_PARTS

__all__ = ["Tensor"]

_C._TensorMeta = type(Tensor)  # the metaclass, under the name that libraries import


def __repr__(self, *, tensor_contents=None):
    if type(self) is not Tensor and _C._has_torch_function((self,)):
        from .overrides import handle_torch_function
        return handle_torch_function(Tensor.__repr__, (self,), self,
                                     tensor_contents=tensor_contents)
    from ._tensor_str import _str
    return _str(self, tensor_contents=tensor_contents)


# --- copying and pickling ---

def _rebuild_from_type_v2(func, new_type, args, state):
    """Makes a tensor of a subclass, or with attributes, from a checkpoint's description."""
    tensor = func(*args)
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    if getattr(tensor.__class__, "__setstate__", __setstate__) is not __setstate__:
        tensor.__setstate__(state)
        return tensor
    slots = None
    if isinstance(state, tuple):
        state, slots = state
    for name, value in {**(state or {}), **(slots or {})}.items():
        setattr(tensor, name, value)
    return tensor


def _rebuild_args(self):
    """Returns the function and arguments that make a tensor equal to this one."""
    from . import _utils
    from collections import OrderedDict
    from .storage import _to_pickle, storage_class
    from .utils.hooks import warn_if_has_hooks
    warn_if_has_hooks(self)
    if self.is_meta:
        return _utils._rebuild_meta_tensor_no_storage, (
            self.dtype, tuple(self.shape), self.stride(), self.requires_grad)
    if self.layout == _C.sparse_coo:
        return _utils._rebuild_sparse_tensor, (
            self.layout, (self._indices(), self._values(), self.size(), self.is_coalesced()))
    if self.layout != _C.strided:
        parts = [getattr(self, name)() for name in SPARSE_PARTS[self.layout]]
        return _utils._rebuild_sparse_tensor, (self.layout, (*parts, self.size()))
    place = self.storage_offset(), tuple(self.shape), self.stride(), self.requires_grad, OrderedDict()
    bits = {name: True for name, on in (("conj", self.is_conj()), ("neg", self.is_neg())) if on}
    bits = (bits,) if bits else ()
    if not storage_class(self.dtype):
        return _utils._rebuild_tensor_v3, (self.untyped_storage(), *place, self.dtype, *bits)
    return _utils._rebuild_tensor_v2, (
        _to_pickle(self.untyped_storage(), self.dtype), *place, *bits)


def __reduce_ex__(self, protocol):
    if type(self).__reduce__ is not object.__reduce__ and type(self) is not Tensor:
        return self.__reduce__()
    func, args = _rebuild_args(self)
    if type(self) is Tensor and not self.__dict__:
        return func, args
    return _rebuild_from_type_v2, (func, type(self), args, dict(self.__dict__))


def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy
    with _C.no_grad():
        if self.layout != _C.strided or self.is_meta or self.is_conj() or self.is_neg():
            new = self.detach().clone()
        else:
            new = _C.empty(0, dtype=self.dtype, device=self.device)
            new.set_(deepcopy(self.untyped_storage(), memo), self.storage_offset(), self.shape,
                     self.stride())
        if type(self) is not Tensor:
            new = Tensor._make_subclass(type(self), new)
        new.requires_grad_(self.requires_grad)
    memo[id(self)] = new
    if self.grad is not None:
        new.grad = self.grad.__deepcopy__(memo)
    if self.__dict__:
        new.__dict__.update(deepcopy(self.__dict__, memo))
    return new


def __setstate__(self, state):
    if isinstance(state, dict):
        self.__dict__.update(state)
        return
    if not self.is_leaf:
        raise RuntimeError("__setstate__() can be only called on leaf Tensors")
    if len(state) == 4:  # files of torch 0.1
        self.set_(*state)
        return
    if len(state) == 5:
        self.data = state[0]
        state = (state[3], state[4], state[2])
    self.requires_grad = bool(state[0])


# --- shared memory ---

def is_shared(self):
    """Returns whether other processes can share the memory."""
    from .multiprocessing import shared
    return shared.is_shared(self)


def share_memory_(self):
    """Moves the storage to memory that processes share."""
    from .multiprocessing import shared
    return shared.share_tensor(self)


# --- NumPy ---

def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array) if array.ndim else _C.tensor(array.item(), dtype=_dtype_of(array))


def _dtype_of(array):
    return getattr(_C, array.dtype.name)


# --- membership, attributes ---

def __contains__(self, element):
    from numbers import Number
    if isinstance(element, (Tensor, Number)):
        return bool((self == element).any().item())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def storage(self):
    """Returns the storage, typed with this tensor's dtype."""
    from .storage import TypedStorage, _warn_typed_storage_removal
    _warn_typed_storage_removal()
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def storage_type(self):
    """Returns the class of storage()."""
    from .storage import TypedStorage
    return TypedStorage


def _refuse_history(name, *tensors):
    """Raises for a tensor that requires a gradient, for a method that records none."""
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")


def apply_(self, callable):
    """Replaces every element by callable(element); slow."""
    _refuse_history("apply_", self)
    flat = [callable(v) for v in self.detach().reshape(-1).tolist()]
    self.detach().copy_(_C.tensor(flat, dtype=self.dtype).reshape(self.shape))
    return self


def map_(self, tensor, callable):
    """Replaces every element by callable(element, element of tensor); slow."""
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"map_(): argument 'other' (position 1) must be Tensor, not {type(tensor).__name__}")
    _refuse_history("map_", self, tensor)
    other = tensor.detach().expand(self.shape).reshape(-1).tolist()
    flat = [callable(a, b) for a, b in zip(self.detach().reshape(-1).tolist(), other)]
    self.detach().copy_(_C.tensor(flat, dtype=self.dtype).reshape(self.shape))
    return self


def __dir__(self):
    return sorted(set(dir(type(self))) | set(self.__dict__))


def _unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Returns the distinct elements; see torch.unique.

    Example::

        >>> torch.tensor([3, 1, 3]).unique()
        tensor([1, 3])
    """
    from .functional import unique
    return unique(self, sorted, return_inverse, return_counts, dim)


def _unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """Replaces runs of equal elements by one; see torch.unique_consecutive.

    Example::

        >>> torch.tensor([3, 3, 1]).unique_consecutive()
        tensor([3, 1])
    """
    from .functional import unique_consecutive
    return unique_consecutive(self, return_inverse, return_counts, dim)


def _lu(self, pivot=True, get_infos=False):
    """The LU factorization in compact form; see torch.lu.

    Example::

        >>> torch.eye(2).lu()[0].diagonal()
        tensor([1., 1.])
    """
    from .functional import lu
    return lu(self, pivot=pivot, get_infos=get_infos)


def _nonzero(self, *, as_tuple=False):
    """The coordinates of the elements that are not zero; see torch.nonzero.

    Example::

        >>> torch.tensor([0, 5, 7]).nonzero().flatten()
        tensor([1, 2])
    """
    from .functional import nonzero
    return nonzero(self, as_tuple=as_tuple)


def _norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """A vector or matrix norm; see torch.norm.

    Example::

        >>> torch.tensor([3., 4.]).norm()
        tensor(5.)
    """
    from .functional import norm
    return norm(self, p, dim, keepdim, dtype=dtype)


_norm.__qualname__ = "Tensor.norm"  # errors of Python name the method


def _stft(self, n_fft, hop_length=None, win_length=None, window=None, center=True,
          pad_mode="reflect", normalized=False, onesided=None, return_complex=None):
    """The Fourier transforms of overlapping windows; see torch.stft.

    Example::

        >>> torch.ones(8).stft(4, window=torch.ones(4), return_complex=True).shape
        torch.Size([3, 9])
    """
    from .functional import stft
    return stft(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
                return_complex)


def _istft(self, n_fft, hop_length=None, win_length=None, window=None, center=True,
           normalized=False, onesided=None, length=None, return_complex=False):
    """Inverts stft; see torch.istft.

    Example::

        >>> x = torch.ones(8).stft(4, window=torch.ones(4), return_complex=True)
        >>> x.istft(4, window=torch.ones(4)).shape
        torch.Size([8])
    """
    from .functional import istft
    return istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
                 return_complex)


class _VariableFunctionsMeta(type):
    def __getattr__(cls, name):
        return getattr(_C, name)


class _VariableFunctionsClass(metaclass=_VariableFunctionsMeta):
    """The functions of operators, which torch's pickles name as attributes of this class."""

    __module__ = _C.__name__


_C.TensorBase = Tensor  # torch's methods are attributes of a base class
_C._VariableFunctionsClass = _C._VariableFunctions = _VariableFunctionsClass

def record_stream(self, stream):
    """Says that work on a stream of the tensor's device uses the tensor."""
    from .cuda import _device
    _device._record_stream(self, stream)


def pin_memory(self, device=None):
    """A copy in memory that a device reads directly; itself if it is pinned."""
    if self.device.type == "cpu" and _C._cuda_is_pinned(self):
        return self
    return _C.ops._pin_memory(self, None if device is None else _C.device(device))


def is_pinned(self, device=None):
    """Whether the elements are in page-locked memory of the host."""
    return _C._cuda_is_pinned(self)


_ARRAY_TYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "bfloat16": "<V2", "complex64": "<c8",
                "complex128": "<c16", "bool": "|b1", "uint8": "|u1", "int8": "|i1", "int16": "<i2", "int32": "<i4",
                "int64": "<i8", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8"}


@property
def cuda_array_interface(self):
    """The memory of a CUDA tensor, as Numba's protocol describes it (version 2)."""
    if not self.is_cuda:
        raise AttributeError(f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} "
                             "If CUDA data is required use tensor.cuda() to copy tensor to device memory.")
    if self.is_sparse:
        raise AttributeError(f"Can't get __cuda_array_interface__ on sparse type: {self.type()} "
                             "Use Tensor.to_dense() to convert to a dense tensor first.")
    if self.requires_grad:
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad. "
                           "If gradients aren't required, use var.detach() to get Variable that doesn't require grad.")
    size = self.element_size()
    strides = None if self.is_contiguous() else tuple(step * size for step in self.stride())
    return {"typestr": _ARRAY_TYPES[str(self.dtype).rpartition(".")[2]], "shape": tuple(self.shape), "strides": strides,
            "data": (self.data_ptr() if self.numel() else 0, False), "version": 2}


def dim_order(self, *, ambiguity_check=False):
    """The dims in the order of their strides, the largest first."""
    if ambiguity_check is not False and len(set(self.stride())) < self.dim():
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory "
                           "formats.")
    return tuple(sorted(range(self.dim()), key=lambda d: -self.stride(d)))


def float_power_(self, exponent):
    """self ** exponent, in place, for float64 and complex128."""
    result = _C.float_power(self, exponent)
    if result.dtype != self.dtype:
        names = {_C.float64: "Double", _C.complex128: "ComplexDouble", _C.float32: "Float", _C.float16: "Half",
                 _C.bfloat16: "BFloat16", _C.int64: "Long", _C.int32: "Int", _C.int16: "Short", _C.int8: "Char",
                 _C.uint8: "Byte", _C.bool: "Bool", _C.complex64: "ComplexFloat"}
        raise RuntimeError(f"the base given to float_power_ has dtype {names.get(self.dtype, self.dtype)} but the "
                           f"operation's result requires dtype {names[result.dtype]}")
    return self.copy_(result)


def polygamma_(self, n):
    """The derivative of order n of digamma, in place."""
    return self.copy_(_C.polygamma(n, self))


def map2_(self, x, y, function):
    """Replaces each element by function(element, element of x, element of y)."""
    _refuse_history("map2_", self, x, y)
    x, y = x.expand_as(self), y.expand_as(self)
    values = map(function, self.flatten().tolist(), x.flatten().tolist(), y.flatten().tolist())
    return self.copy_(_C.tensor(list(values), dtype=self.dtype).reshape(self.shape))


def _resized(self, sizes):
    count = _C.Size(sizes).numel()
    if count != self.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, sizes))} ({count} elements in total), but the given tensor has a size of "
            f"{'x'.join(map(str, self.shape))} ({self.numel()} elements). autograd's resize can only change the shape of a given "
            "tensor, while preserving the number of elements. ")
    return self.reshape(sizes)


def resize(self, *sizes):
    """The elements under other sizes (deprecated).

    Example::

        >>> torch.arange(4).resize(2, 2).shape
        torch.Size([2, 2])
    """
    import warnings
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return _resized(self, sizes)


def resize_as(self, tensor):
    """The elements under the sizes of another tensor (deprecated)."""
    import warnings
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return _resized(self, tensor.size())


def module_load(self, other, assign=False):
    """What Module.load_state_dict puts in the place of a parameter under __future__'s swap_tensors."""
    if assign:
        return other
    with _C.no_grad():
        return other.to(device=self.device, dtype=self.dtype).clone()


@staticmethod
def _make_wrapper_subclass(cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None,
                           layout=None, device=None, pin_memory=False, requires_grad=False, **options):
    """Makes an object of a class with __torch_dispatch__ that has sizes and no elements."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if getattr(cls, "__torch_dispatch__", None) in (None, Tensor.__torch_dispatch__):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    place = _C.get_default_device() if device is None else device
    return _C._make_wrapper(cls, tuple(size), None if strides is None else tuple(strides),
                            0 if storage_offset is None else storage_offset,
                            _C.get_default_dtype() if dtype is None else dtype, place, requires_grad)


def reinforce(self, reward):
    """Was removed: torch.distributions has log_prob()."""
    advice = "Use torch.distributions instead: the loss is -distribution.log_prob(sample) * reward."
    raise RuntimeError(f"reinforce() was removed.\n{advice}")


@property
def volatile(self):
    """False; no_grad() has replaced this attribute."""
    import warnings
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _device_copy(kind):
    """The method that copies to the device `kind`."""
    def copy(self, device=None, non_blocking=False, memory_format=_C.preserve_format):
        return self.to(kind if device is None else device, non_blocking=non_blocking, memory_format=memory_format)
    copy.__name__ = copy.__qualname__ = kind
    copy.__doc__ = f"A copy on the device {kind}, or on that one of its devices; itself if it is there."
    return copy


def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
    """The tensor of which self is the slice: src's sizes and strides over self's storage."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return self.as_strided(src.size(), src.stride(), src.storage_offset())


def _attach(name, method):
    """Gives Tensor a method, whose errors have the names that users know."""
    if isinstance(method, type(_attach)) and method.__module__ == __name__:
        method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    setattr(Tensor, name, method)


for _name, _method in {
        "eig": _linalg_utils.eig, "lstsq": _linalg_utils.lstsq, "solve": _linalg_utils.solve, "symeig": _linalg_utils.symeig,
        "reinforce": reinforce, "volatile": volatile, "slice_inverse": slice_inverse,
        "xpu": _device_copy("xpu"), "mtia": _device_copy("mtia"), "ipu": _device_copy("ipu"),
        "_make_wrapper_subclass": _make_wrapper_subclass, "dim_order": dim_order, "float_power_": float_power_,
        "polygamma_": polygamma_, "map2_": map2_, "resize": resize, "resize_as": resize_as,
        "is_distributed": lambda self: False, "const_data_ptr": Tensor.data_ptr, "module_load": module_load,
        "__cuda_array_interface__": cuda_array_interface, "pin_memory": pin_memory, "is_pinned": is_pinned, "record_stream": record_stream,
        "__repr__": __repr__, "__reduce_ex__": __reduce_ex__, "__deepcopy__": __deepcopy__,
        "__setstate__": __setstate__, "__array_wrap__": __array_wrap__,
        "__contains__": __contains__, "is_shared": is_shared, "share_memory_": share_memory_,
        "storage": storage, "_typed_storage": storage,
        "storage_type": storage_type, "apply_": apply_, "map_": map_,
        "__dir__": __dir__}.items():
    _attach(_name, _method)
# Methods whose operators the table lacks stay undefined.
for _name, _method, _needs in [("unique", _unique, "_unique2"),
                               ("unique_consecutive", _unique_consecutive, "unique_consecutive"),
                               ("nonzero", _nonzero, "nonzero"), ("lu", _lu, "_lu_with_info"),
                               ("norm", _norm, "linalg_vector_norm"),
                               ("stft", _stft, "stft"), ("istft", _istft, "istft")]:
    if hasattr(_C.ops, _needs):
        _attach(_name, _method)
