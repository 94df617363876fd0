"""Nested tensors: a batch of tensors whose sizes differ in one dim (layout jagged), or in any (layout strided)."""
from .. import _C
from .._C import Tensor
from .._settings import warn_once
from ._internal.nested_tensor import NestedTensor, _filled, _of_parts, _of_values, _offsets_of

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
           "to_padded_tensor"]


def _layout(layout):
    layout = _C.strided if layout is None else layout
    if layout not in (_C.strided, _C.jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    if layout == _C.strided:
        warn_once("The PyTorch API of nested tensors is in prototype stage and will change in the near future. We recommend "
                  "specifying layout=torch.jagged when constructing a nested tensor, as this layout receives active "
                  "development, has better operator coverage, and works with torch.compile.", stacklevel=3)
    return layout


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor, a leaf, with copies of a list's tensors, or of lists of numbers.

        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    """
    layout = _layout(layout)
    if layout == _C.strided and not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    parts = [x.detach().clone() if isinstance(x, Tensor) else _C.tensor(x) for x in tensor_list]
    made = _of_parts([x.to(device=device, dtype=dtype) for x in parts], layout)
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_() if requires_grad else made


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of a list's tensors, or of a tensor's rows, with their history."""
    layout = _layout(layout)
    if isinstance(ts, NestedTensor) and ts.layout == layout:
        return ts.to(device=device, dtype=dtype)
    parts = list(ts.unbind()) if isinstance(ts, Tensor) else ts
    if not isinstance(parts, (list, tuple)):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    parts = [x if isinstance(x, Tensor) else _C.tensor(x) for x in parts]
    return _of_parts([x.to(device=device, dtype=dtype) for x in parts], layout)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A nested tensor of a tensor that has its parts one after another along a dim.

    Part i starts at offsets[i]; it ends at offsets[i + 1], or has lengths[i] rows.

        torch.nested.nested_tensor_from_jagged(torch.rand(5, 2), torch.tensor([0, 2, 5]))
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = _offsets_of(lengths), None
    return _of_values(values, offsets, lengths, 1 if jagged_dim is None else jagged_dim)


def narrow(tensor, dim, start, length, layout=None):
    """The rows start[i] to start[i] + length[i] of tensor[i], for each i; start and length may be numbers."""
    layout = _C.strided if layout is None else layout
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    if layout == _C.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(tensor, layout=layout).narrow(dim, start, length)
    if layout != _C.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    count = tensor.size(0)
    start, length = (x if isinstance(x, Tensor) else _filled(x, count, tensor.device) for x in (start, length))
    begin = start + _C.arange(count, device=tensor.device) * tensor.size(1)
    offsets = _C.cat([begin, (begin[-1] + length[-1]).reshape(1)])
    return _of_values(tensor.flatten(0, 1), offsets, length, 1)


def masked_select(tensor, mask):
    """The elements of each row of a matrix where the mask is True, as a nested tensor of the layout jagged."""
    if tensor.layout != _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}")
    if mask.layout != _C.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, given: {mask.layout}")
    mask = mask.expand(tensor.shape)
    return _of_values(tensor.masked_select(mask), _offsets_of(mask.sum(1)), None, 1)


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A tensor of all parts, padded at their ends to the largest sizes, or to output_size.

        torch.nested.to_padded_tensor(nested, 0.0)
    """
    if out is not None:
        raise RuntimeError("to_padded_tensor(): the argument 'out' is not supported")
    return input.to_padded_tensor(padding, output_size)
