"""Printing of tensors.

Elements are read with `tolist()`, for a large tensor from a summary.  All numbers of a tensor
have one format: integral values of floating dtypes as `1.`, others with `precision` digits, or
in scientific notation when the magnitudes require it.
"""
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
_CUT = object()  # marks elements that are left out


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


class _Format:
    """The width and notation for all of `values`."""

    def __init__(self, values, floating):
        self.floating = floating
        self.width = 1
        self.whole = self.scientific = False
        if floating:
            self._choose([v for v in values if v and math.isfinite(v)], len(values))
        else:
            self.width = max([1, *(len(str(v)) for v in values)])

    def _choose(self, values, count):
        self.whole = all(v == math.ceil(v) for v in values)
        if not values:
            return
        low, high = min(map(abs, values)), max(map(abs, values))
        if PRINT_OPTS.sci_mode is None:
            self.scientific = high / low > 1000 or high > 1e8 or (not self.whole and low < 1e-4)
        else:
            self.scientific = PRINT_OPTS.sci_mode
        self.width = max([1, *(len(self._text(v)) for v in values)])

    def _text(self, v):
        if self.scientific:
            return f"{v:.{PRINT_OPTS.precision}e}"
        if not self.whole:
            return f"{v:.{PRINT_OPTS.precision}f}"
        return f"{v:.0f}" + ("." if math.isfinite(v) else "")

    def __call__(self, v):
        return (self._text(v) if self.floating else str(v)).rjust(self.width)


class _ComplexFormat:
    def __init__(self, values):
        self.real = _Format([v.real for v in values], True)
        self.imag = _Format([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, v):
        imag = (self.imag(v.imag) + "j").lstrip()
        return self.real(v.real) + ("" if imag[0] in "+-" else "+") + imag


def _shown(tensor, summarise):
    """Returns the elements as nested lists, with `_CUT` where elements are left out."""
    if tensor.dim() == 0:
        return tensor.item()
    edge = PRINT_OPTS.edgeitems
    n = tensor.size(0)
    cut = summarise and n > 2 * edge
    if tensor.dim() == 1:
        if not cut:
            return tensor.tolist()
        return tensor[:edge].tolist() + [_CUT] + tensor[n - edge:].tolist()
    if not cut:
        return [_shown(tensor[i], summarise) for i in range(n)]
    ends = [[_shown(tensor[i], summarise) for i in part]
            for part in (range(edge), range(n - edge, n))]
    return ends[0] + [_CUT] + ends[1]


def _flatten(nested, out):
    if isinstance(nested, list):
        for item in nested:
            _flatten(item, out)
    elif nested is not _CUT:
        out.append(nested)
    return out


def _row(items, indent, form):
    # The width of a complex element as torch counts it: both widths, the sign and the j.
    length = form.width + 2
    per_line = max(1, int((PRINT_OPTS.linewidth - indent) // length))
    texts = [" ..." if item is _CUT else form(item) for item in items]
    lines = [", ".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _layout(nested, dims, indent, form):
    if dims == 0:
        return form(nested)
    if dims == 1:
        return _row(nested, indent, form)
    parts = ["..." if item is _CUT else _layout(item, dims - 1, indent + 1, form)
             for item in nested]
    return "[" + ("," + "\n" * (dims - 1) + " " * (indent + 1)).join(parts) + "]"


def _contents(tensor, indent):
    summarise = tensor.numel() > PRINT_OPTS.threshold
    nested = _shown(tensor, summarise)
    values = _flatten(nested, [])
    form = _ComplexFormat(values) if tensor.is_complex() else _Format(
        values, tensor.is_floating_point())
    return _layout(nested, tensor.dim(), indent, form)


def _part_text(part, name, indent):
    """The text of an index or value tensor of a sparse one."""
    indent += len(name) + len("=tensor(")
    if part.is_meta:
        text = "..."
    else:
        text = _contents(part, indent) if part.numel() else "[]"
    if part.is_meta or not part.numel():
        text += ", size=" + str(tuple(part.shape))
    return f"{name}=tensor({text})"


_PARTS = {"sparse_coo": ("_indices", "_values"),
          "sparse_csr": ("crow_indices", "col_indices", "values"),
          "sparse_csc": ("ccol_indices", "row_indices", "values")}


def _sparse_contents(tensor, indent):
    names = _PARTS[str(tensor.layout).partition(".")[2]]
    return (",\n" + " " * indent).join(
        _part_text(getattr(tensor, name)(), name.lstrip("_"), indent) for name in names)


def _with_suffixes(text, suffixes, indent, new_line=False):
    parts = [text]
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if new_line or used + len(suffix) + 2 > PRINT_OPTS.linewidth:
            new_line = False
            parts.append(",\n" + " " * indent + suffix)
            used = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            used += len(suffix) + 2
    return "".join(parts) + ")"


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
            if data.dtype not in usual:
                suffixes.append("dtype=" + str(data.dtype))
            text = _contents(data, indent) if tensor_contents is None else tensor_contents
    return _with_suffixes(prefix + (tensor_contents or text), suffixes + _grad_suffix(self), indent,
                          data.is_sparse)
