"""Printing of tensors: options, and what stands around the elements, which autograd/print.c prints."""
import math
import sys

from . import _C, _root

__all__ = ["set_printoptions"]

_DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {"default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
             "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
             "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80}}


class _Options:
    def __init__(self):
        self.__dict__.update(_DEFAULTS)


PRINT_OPTS = _Options()


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """Sets the format of printed tensors.

    precision: digits after the point; threshold: tensors with more elements are summarized;
    edgeitems:  elements shown at each end of a summarized dim; linewidth: characters of a line;
    profile: "default", "short" or "full"; sci_mode: True, False, or None to choose by value.
    """
    if profile in _PROFILES:
        PRINT_OPTS.__dict__.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems,
             "linewidth": linewidth}
    PRINT_OPTS.__dict__.update({k: v for k, v in given.items() if v is not None})
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions():
    """The settings of set_printoptions as a dict."""
    return dict(PRINT_OPTS.__dict__)


class printoptions:
    """A context manager with the arguments of set_printoptions."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs

    def __enter__(self):
        self.before = get_printoptions()
        set_printoptions(**self.kwargs)

    def __exit__(self, *exc):
        PRINT_OPTS.__dict__.update(self.before)


def _tensor_str(tensor, indent):
    """Returns the elements as text (autograd/print.c)."""
    if tensor.numel() == 0:
        return "[]"
    o = PRINT_OPTS
    return _C._tensor_elements(tensor, indent, o.precision, o.threshold, o.edgeitems, o.linewidth, o.sci_mode)


def _part_text(part, name, indent):
    """The text of an index or value tensor of a sparse one."""
    indent += len(name) + len("=tensor(")
    if part.is_meta:
        text = "..."
    else:
        text = _tensor_str(part, indent) if part.numel() else "[]"
    if part.is_meta or not part.numel():
        text += ", size=" + str(tuple(part.shape))
    return f"{name}=tensor({text})"


_ROWS, _COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
SPARSE_PARTS = {_C.sparse_coo: ("_indices", "_values"), _C.sparse_csr: _ROWS, _C.sparse_bsr: _ROWS,
                _C.sparse_csc: _COLUMNS, _C.sparse_bsc: _COLUMNS}


def _sparse_contents(tensor, indent):
    names = SPARSE_PARTS[tensor.layout]
    return (",\n" + " " * indent).join(
        _part_text(getattr(tensor, name)(), name.lstrip("_"), indent) for name in names)


def _add_suffixes(text, suffixes, indent, force_newline=False):
    parts = [text]
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or used + len(suffix) + 2 > PRINT_OPTS.linewidth:
            force_newline = False
            parts.append(",\n" + " " * indent + suffix)
            used = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            used += len(suffix) + 2
    return "".join(parts) + ")"


def _dual_suffixes(tensor):
    """What is said of a tensor's history, which make_dual is no part of, and of its tangent in a dual level."""
    from .autograd.function import _dual_levels
    if not _dual_levels or not _dual_levels[-1].tangents:
        return _grad_suffix(tensor)
    from .autograd.forward_ad import unpack_dual
    try:
        with _C.enable_grad():
            primal, tangent = unpack_dual(tensor)
    except RuntimeError:  # a backward freed what the tangent is computed from
        return _grad_suffix(tensor)
    return _grad_suffix(tensor) if tangent is None else _grad_suffix(primal) + [f"tangent={tangent}"]


def _grad_suffix(tensor):
    try:
        grad_fn = tensor.grad_fn
    except RuntimeError:
        return ["grad_fn=<Invalid>"]
    if grad_fn is not None:
        return [f"grad_fn=<{type(grad_fn).__name__}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _str(self, *, tensor_contents=None):
    """Returns the text of `repr(tensor)`."""
    # Subclasses print their class.  Parameters print as tensors, because Parameter adds a
    # heading.
    parameter = sys.modules.get(f"{_root.NAME}.nn.parameter")
    plain = type(self) is _C.Tensor or (parameter and type(self) is parameter.Parameter)
    prefix = ("tensor" if plain else type(self).__name__) + "("
    indent = len(prefix)
    default = _C.get_default_dtype()
    usual = (default, default.to_complex(), _C.int64, _C.bool)
    suffixes = []
    with _C.no_grad():
        data = self.detach().as_subclass(_C.Tensor) if type(self) is not _C.Tensor else self.detach()
        if data.is_meta or data.device.type != _C.get_default_device().type:
            suffixes.append(f"device='{data.device}'")
        if data.layout != _C.strided:
            suffixes.append("size=" + str(tuple(data.shape)))
            if not data.is_meta:
                suffixes.append(f"nnz={data._nnz()}")
            if data.dtype not in usual:
                suffixes.append(f"dtype={data.dtype}")
            suffixes.append(f"layout={data.layout}")
            text = _sparse_contents(data, indent) if tensor_contents is None else tensor_contents
        elif data.is_meta:
            suffixes.append("size=" + str(tuple(data.shape)))
            if data.dtype != default:
                suffixes.append("dtype=" + str(data.dtype))
            text = "..."
        elif data.numel() == 0:
            if data.dim() != 1:
                suffixes.append("size=" + str(tuple(data.shape)))
            if data.dtype != default:
                suffixes.append("dtype=" + str(data.dtype))
            text = "[]"
        else:
            if PRINT_OPTS.edgeitems == 0 and data.numel() > PRINT_OPTS.threshold:
                suffixes.append("size=" + str(tuple(data.shape)))
            if data.dtype not in usual:
                suffixes.append("dtype=" + str(data.dtype))
            text = _tensor_str(data, indent) if tensor_contents is None else tensor_contents
    return _add_suffixes(prefix + (tensor_contents or text), suffixes + _dual_suffixes(self), indent,
                          data.is_sparse)


_str_intern = _str
