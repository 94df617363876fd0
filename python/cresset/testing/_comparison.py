"""assert_close: comparison up to rounding, with a message about the differences."""
from collections.abc import Mapping, Sequence

from .. import _C
from .._C import Tensor
from .._tensor_str import SPARSE_PARTS

_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5),
               _C.float64: (1e-7, 1e-7), _C.complex64: (1.3e-6, 1e-5),
               _C.complex128: (1e-7, 1e-7)}


class _Fail(Exception):
    def __init__(self, cls, text, path=()):
        super().__init__(text)
        self.cls, self.text, self.path = cls, text, path


def _default_tolerance(dtypes):
    found = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
    return max(r for r, _ in found), max(a for _, a in found)


def _tolerances(options, dtypes):
    if options["rtol"] is None:
        return _default_tolerance(dtypes)
    return options["rtol"], options["atol"]


def _as_tensor(x):
    if isinstance(x, Tensor):
        return x
    try:
        return _C.as_tensor(x)
    except Exception:
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(x)} and "
                        "the other one.") from None


def _attributes(a, b, options):
    if a.shape != b.shape:
        raise _Fail(AssertionError, "The values for attribute 'shape' do not match: "
                    f"{a.shape} != {b.shape}.")
    checks = [("device", "check_device"), ("dtype", "check_dtype"), ("layout", "check_layout")]
    for name, option in checks:
        if options[option] and getattr(a, name) != getattr(b, name):
            raise _Fail(AssertionError, f"The values for attribute '{name}' do not match: "
                        f"{getattr(a, name)} != {getattr(b, name)}.")
    if options["check_stride"] and a.stride() != b.stride():
        raise _Fail(AssertionError, "The values for attribute 'stride()' do not match: "
                    f"{a.stride()} != {b.stride()}.")


def _exact(dtype):
    return not (dtype.is_floating_point or dtype.is_complex)


def _close(a, b, rtol, atol, equal_nan):
    if _exact(a.dtype) and not rtol and not atol:
        return a == b
    return _C.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _where(mask, index):
    out = []
    for n in reversed(mask.shape):
        out.append(index % n)
        index //= n
    return tuple(reversed(out))


def _worst(values, mask):
    """Returns (the largest value outside the mask, its index)."""
    values = values.masked_fill(mask, 0).flatten()
    index = int(values.argmax().item())
    return values[index].item(), _where(mask, index)


def _describe(a, b, close, rtol, atol, kind):
    count, total = int((~close).sum().item()), close.numel()
    if _exact(a.dtype):
        a, b = a.to(_C.int64), b.to(_C.int64)
    distance = (a - b).abs()
    exact = not rtol and not atol
    if kind == "Scalars":
        return _describe_scalar(a, b, distance, rtol, atol)
    relative = distance / b.abs()
    lines = [f"{kind} are not equal!" if exact else f"{kind} are not close!", "",
             f"Mismatched elements: {count} / {total} ({count / total:.1%})"]
    for name, values, allowed in (("absolute", distance, atol), ("relative", relative, rtol)):
        value, index = _worst(values, close)
        suffix = "" if exact else f" (up to {allowed} allowed)"
        lines.append(f"Greatest {name} difference: {value} at index {index}{suffix}")
    return "\n".join(lines)


def _describe_scalar(a, b, distance, rtol, atol):
    exact = not rtol and not atol
    head = f"Expected {b.item()} but got {a.item()}."
    if exact:
        return (f"Scalars are not equal!\n\n{head}\nAbsolute difference: {distance.item()}\n"
                f"Relative difference: {(distance / b.abs()).item()}")
    return (f"Scalars are not close!\n\n{head}\n"
            f"Absolute difference: {distance.item()} (up to {atol} allowed)\n"
            f"Relative difference: {(distance / b.abs()).item()} (up to {rtol} allowed)")


def _compare_sparse(a, b, options):
    """Compares the indices, then the values; tensors of different layouts as strided ones."""
    if a.layout != b.layout:
        return _compare_tensors(a.to_dense(), b.to_dense(), options, "Tensor-likes")
    name = "Sparse " + str(a.layout).rpartition("_")[2].upper()
    if a._nnz() != b._nnz() and not a.is_sparse:
        raise _Fail(AssertionError, f"The number of specified values in {name} tensors does not "
                    f"match: {a._nnz()} != {b._nnz()}")
    parts = ("indices", "values") if a.is_sparse else SPARSE_PARTS[a.layout]
    if a.is_sparse:
        a, b = a.coalesce(), b.coalesce()
        if a._nnz() != b._nnz():
            raise _Fail(AssertionError, "The number of specified values in sparse COO tensors does "
                        f"not match: {a._nnz()} != {b._nnz()}")
    for part in parts:
        exact = {} if part == "values" else {"rtol": 0, "atol": 0}
        _compare_tensors(getattr(a, part)(), getattr(b, part)(), {**options, **exact},
                         f"{name} {part}")


def _compare_tensors(a, b, options, kind):
    _attributes(a, b, options)
    a, b = a.detach(), b.detach()
    rtol, atol = _tolerances(options, (a.dtype, b.dtype))
    if a.dtype != b.dtype:
        common = _C.promote_types(a.dtype, b.dtype)
        a, b = a.to(common), b.to(common)
    if a.is_meta or b.is_meta or not a.numel():
        return
    if a.layout != _C.strided or b.layout != _C.strided:
        return _compare_sparse(a, b, {**options, "rtol": rtol, "atol": atol})
    close = _close(a, b, rtol, atol, options["equal_nan"])
    if not bool(close.all().item()):
        raise _Fail(AssertionError, _describe(a, b, close, rtol, atol, kind))


def _numbers(a, b, options):
    numeric = (bool, int, float, complex)
    if type(a) in numeric and type(b) in numeric:
        if options["check_dtype"] and type(a) is not type(b):
            raise _Fail(AssertionError, f"The (d)types do not match: {type(a)} != {type(b)}.")
        options = {**options, "check_dtype": False}
        wide = {bool: _C.bool, int: _C.int64, float: _C.float64, complex: _C.complex128}
        a, b = (_C.tensor(x, dtype=wide[type(x)]) for x in (a, b))
        _compare_tensors(a, b, options, "Scalars")
        return True
    return False


def _compare(a, b, options, path):
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            raise _Fail(AssertionError, "The keys of the mappings do not match:\n"
                        f"Missing keys in the actual mapping: {sorted(set(b) - set(a))}\n"
                        f"Additional keys in the actual mapping: {sorted(set(a) - set(b))}")
        items = [(key, a[key], b[key]) for key in a]
    elif (isinstance(a, Sequence) and isinstance(b, Sequence) and not isinstance(a, str)
          and not isinstance(b, str)):
        if len(a) != len(b):
            raise _Fail(AssertionError, "The length of the sequences mismatch: "
                        f"{len(a)} != {len(b)}")
        items = [(i, x, y) for i, (x, y) in enumerate(zip(a, b))]
    elif a is None or b is None:
        if a is not b:
            raise _Fail(AssertionError, f"None mismatch: {a} is not {b}")
        return
    else:
        _compare_leaves(a, b, options)
        return
    for key, x, y in items:
        try:
            _compare(x, y, options, (*path, key))
        except _Fail as fail:
            raise _Fail(fail.cls, fail.text, (key, *fail.path)) from None


def _compare_leaves(a, b, options):
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if (not options["allow_subclasses"] and type(a) is not type(b)):
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and "
                            f"{type(b)}.")
        _compare_tensors(a, b, options, "Tensor-likes")
    elif not _numbers(a, b, options):
        if isinstance(a, Tensor) != isinstance(b, Tensor):
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and "
                            f"{type(b)}.")
        _compare_tensors(_as_tensor(a), _as_tensor(b), options, "Tensor-likes")


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None,
                 equal_nan=False, check_device=True, check_dtype=True, check_layout=True,
                 check_stride=False, msg=None):
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Sequences and mappings are compared item by item.  Default tolerances depend on the dtype.
    """
    options = {"allow_subclasses": allow_subclasses, "rtol": rtol, "atol": atol,
               "equal_nan": equal_nan, "check_device": check_device, "check_dtype": check_dtype,
               "check_layout": check_layout, "check_stride": check_stride}
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified, but got no "
                         + ("rtol." if rtol is None else "atol."))
    try:
        _compare(actual, expected, options, ())
    except _Fail as fail:
        text = fail.text
        if fail.path:
            text += "\n\nThe failure occurred for item " + "".join(f"[{k!r}]" for k in fail.path)
        if callable(msg):
            text = msg(text)
        elif msg is not None:
            text = msg
        raise fail.cls(text) from None


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The old form of assert_close."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 msg=msg or None)
