"""Tensors some of whose elements do not exist: a mask says which ones do.

Operators that compute each element, views, and copies handle calls below autograd, so their derivatives are
those of tensors.  Reductions call the functions of torch.masked on the data.
"""
import functools
import inspect
import warnings

from .. import _C, torch
from .._C import Tensor
from ..autograd import Function

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]


def is_masked_tensor(obj, /):
    """Whether an object is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def masked_tensor(data, mask, requires_grad=False):
    """A MaskedTensor, a leaf, of the elements of data where mask is True."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """The same with the history of data."""
    return MaskedTensor._from_values(data, mask)


def _check(data, mask):
    for value, name in ((data, "data"), (mask, "mask")):
        if not isinstance(value, Tensor) or is_masked_tensor(value):
            raise TypeError(f"{name} must be a Tensor")
    if data.layout != _C.strided or mask.layout != _C.strided:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if mask.dtype != _C.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")


class _GetData(Function):
    """The elements with the history of a MaskedTensor."""

    @staticmethod
    def forward(ctx, masked):
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad if is_masked_tensor(grad) else MaskedTensor._wrapped(grad, ctx.mask)


class _FromValues(Function):
    """A MaskedTensor with the history of its data."""

    @staticmethod
    def forward(ctx, data, mask):
        return MaskedTensor._wrapped(data.detach(), mask)

    @staticmethod
    def backward(ctx, grad):
        return _data(grad), None


def _data(x):
    return x._masked_data if is_masked_tensor(x) else x


def _mask_of(args):
    """The mask of the operands, which must be the same."""
    masks = [x._masked_mask for x in args if is_masked_tensor(x)]
    if any(m is not masks[0] and (m.shape != masks[0].shape or not _C.equal(m, masks[0])) for m in masks[1:]):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    return masks[0]


def _items(args):
    """The arguments with the items of lists spread."""
    return [x for arg in args for x in (arg if isinstance(arg, (list, tuple)) else (arg,))]


def _mapped(x, function):
    if isinstance(x, (list, tuple)):
        return type(x)(_mapped(item, function) for item in x)
    return function(x)


def _both(func, args, kwargs):
    """A view or a join: of the data, and of the mask."""
    data = func(*_mapped(args, _data), **kwargs)
    mask = func(*_mapped(args, lambda x: x._masked_mask if is_masked_tensor(x) else x), **kwargs)
    if isinstance(data, (list, tuple)):
        return type(data)(map(MaskedTensor._wrapped, data, mask))
    return MaskedTensor._wrapped(data, mask)


def _elements(func, args, kwargs):
    """An operator that computes each element: of the data, under the operands' mask."""
    mask, data = _mask_of(_items(args)), func(*_mapped(args, _data), **kwargs)
    if func._schema.is_mutable:
        return args[0]
    if mask.shape != data.shape:
        mask = mask.expand(data.shape)
    return MaskedTensor._wrapped(data, mask)


def _reads_sizes_only(record):
    """True for ones_like and its kin: the result has the sizes of a tensor whose elements are not read."""
    return record["unread"] == ["self"] and all(p["name"] != "size" for p in record["params"])


def _kind(func):
    """How a call of an operator is handled; None where it is not."""
    record, name = func._record, func._opname
    if {"identity", "cast"} & set(record["words"]) or _reads_sizes_only(record):
        return _elements
    if func.is_view or "join" in record["words"] or "split" in record["words"]:
        return _both
    if record["does"] == "inplace":  # add_: as add
        return _kind(getattr(getattr(torch.ops.aten, name[:-1]), func._overloadname))
    return _elements if record["does"] == "body" or "pointwise" in str(func.tags) else None


# --- reductions ---

def _all(input, dim=None, *, keepdim=False, mask=None):
    filled = _C.where(mask, input, _C.ones_like(input))
    return filled.all() if dim is None else filled.all(dim, keepdim)


def _reduction(name):
    from .. import masked
    return _all if name == "all" else getattr(masked, name)


_NORMALIZED = frozenset(("softmax", "log_softmax", "softmin"))


@functools.lru_cache(maxsize=None)
def _is_reduced(name):
    """True if elements that exist are reduced or normalized by a function of this module's package."""
    from .. import masked
    found = None if name.startswith("_") else getattr(masked, name, None)
    options = inspect.signature(found).parameters if inspect.isfunction(found) else ()
    return name == "all" or name in _NORMALIZED or {"dim", "keepdim", "mask"} <= set(options)


def _normalize(name, x, dim, dtype=None):
    """A softmax over the elements that exist."""
    made = _reduction(name)(x.get_data(), dim, mask=x._masked_mask, **({} if dtype is None else {"dtype": dtype}))
    return MaskedTensor._from_values(made, x._masked_mask)


def _reduce(name, x, dim=None, keepdim=False, *, dtype=None, p=2.0, correction=1, unbiased=None,
            out=None):
    """A reduction of the elements that exist; the result has none where there are none."""
    if out is not None:
        raise TypeError(f"{name}() of a MaskedTensor takes no argument 'out'")
    mask, options = x._masked_mask, {} if dtype is None else {"dtype": dtype}
    if dim is not None:
        options["keepdim"] = keepdim
    if name in ("std", "var"):
        if correction not in (0, 1):
            raise TypeError(f"{name}() of a MaskedTensor takes the corrections 0 and 1, not {correction}")
        options["unbiased"] = bool(correction) if unbiased is None else unbiased
    p = 2.0 if p in (None, "fro") else p
    leading = (p,) if name == "norm" else ()
    made = _reduction(name)(x.get_data(), *leading, dim=dim, mask=mask, **options)
    return MaskedTensor._from_values(made, mask.any() if dim is None else _any(mask, dim, keepdim))


def _any(mask, dim, keepdim):
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for d in sorted((d % (mask.dim() or 1) for d in dims), reverse=True):
        mask = mask.any(d, keepdim)
    return mask


# --- text ---

def _formatted(data, mask):
    values = []
    for value, there in zip(data.flatten().tolist(), mask.flatten().tolist()):
        text = f"{value:8.4f}" if isinstance(value, float) else str(value)
        values.append(text if there else "--".rjust(8))
    if data.dim() == 0:
        return values[0].lstrip() if not mask else values[0]
    rows = values
    for depth, size in reversed(list(enumerate(data.shape))):
        last = depth == data.dim() - 1
        pad = "  " * (depth + 1)
        groups = [rows[i:i + size] for i in range(0, len(rows), size or 1)]
        rows = [f"{pad}[{', '.join(g)}]" if last else f"{pad}[\n" + ",\n".join(g) + f"\n{pad}]" for g in groups]
    return rows[0] if rows else "[]"


class MaskedTensor(Tensor):
    """A tensor with a mask: elements where the mask is False do not exist."""

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        _check(data, mask)
        if requires_grad and data.requires_grad:
            warnings.warn("It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid "
                          "this, you can use data.detach().clone()", UserWarning, stacklevel=2)
        warnings.warn("The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please "
                      "open a Github issue for features requests and see our documentation on the torch.masked module "
                      "for further information about the project.", UserWarning, stacklevel=2)
        return cls._wrapped(data.detach(), mask, requires_grad)

    def __init__(self, data, mask, requires_grad=False):
        pass

    @staticmethod
    def _wrapped(data, mask, requires_grad=False):
        made = Tensor._make_wrapper_subclass(MaskedTensor, data.size(), strides=data.stride(), dtype=data.dtype,
                                             device=data.device, requires_grad=requires_grad)
        made._masked_data, made._masked_mask = data, mask
        return made

    @staticmethod
    def _from_values(data, mask):
        _check(data, mask)
        return _FromValues.apply(data, mask)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), dict(kwargs or {})
        if args and is_masked_tensor(args[0]) and _is_reduced(name):
            kwargs.pop("_stacklevel", None)
            with _C.DisableTorchFunctionSubclass():
                return (_normalize if name in _NORMALIZED else _reduce)(name, *args, **kwargs)
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._opname in ("_local_scalar_dense", "item"):
            return args[0]._masked_data.item()
        if _is_reduced(func._opname):
            return (_normalize if func._opname in _NORMALIZED else _reduce)(func._opname, *args, **kwargs)
        handle = _kind(func)
        return NotImplemented if handle is None else handle(func, args, kwargs)

    def __repr__(self):
        text = _formatted(self._masked_data.detach(), self._masked_mask)
        if self.dim() == 0:
            return f"MaskedTensor({text}, {self._masked_mask.item()})"
        return f"MaskedTensor(\n{text}\n)"

    def get_data(self):
        """The elements, with those that do not exist, and with this tensor's history."""
        return _GetData.apply(self)

    def get_mask(self):
        """The mask."""
        return self._masked_mask

    def to_tensor(self, value):
        """The elements, with a value where there are none."""
        return self.get_data().masked_fill(~self._masked_mask, value)
