"""Calls that combine elements at indices or fold windows, for the tests of devices: on a device they have the bits
of the host, because sums and products have one order."""
import cresset as torch
from cresset.nn import functional as F

DTYPES = ["float32", "bfloat16", "int64", "complex64"]
REDUCTIONS = ["sum", "prod", "amin", "amax", "mean"]

# (x [40, 7], indices [300] below 40, indices [300, 7], values [300, 7]) -> result
WRITES = {
    "index_add": lambda x, i, at, v: x.index_add(0, i, v), "int32": lambda x, i, at, v: x.index_add(0, i.int(), v),
    "scaled": lambda x, i, at, v: x.index_add(0, i, v, alpha=3), "columns": lambda x, i, at, v: x.t().index_add(1, i, v.t()),
    "few places": lambda x, i, at, v: x.index_add(0, i % 3, v), "one place": lambda x, i, at, v: x.index_add(0, i * 0, v),
    "scatter": lambda x, i, at, v: x.scatter(0, at, v), "scatter_add": lambda x, i, at, v: x.scatter_add(0, at, v),
    "rows": lambda x, i, at, v: x.scatter_add(1, at[:40] % 7, v[:40]), "number": lambda x, i, at, v: x.scatter(0, at, 5),
    "fill": lambda x, i, at, v: x.index_fill(0, i - 40, 3), "copy": lambda x, i, at, v: x.index_copy(0, i, v),
    "put": lambda x, i, at, v: x.put(i * 14 - 280, v[:, 0]), "put more": lambda x, i, at, v: x.put(i * 3, v[:, 0], accumulate=True),
    "put in columns": lambda x, i, at, v: x.t().put(i * 3, v[:, 0], accumulate=True),
    "list": lambda x, i, at, v: x[i - 40], "list of columns": lambda x, i, at, v: x[:, i % 14 - 7], "lists": lambda x, i, at, v: x[i, at[:, 0] % 7 - 7],
    "set by list": lambda x, i, at, v: x.index_put((i,), v), "set by lists": lambda x, i, at, v: x.index_put((i, at[:, 0] % 14 - 7), v[:, 0]),
    "add by list": lambda x, i, at, v: x.index_put((i,), v, True), "add by columns": lambda x, i, at, v: x.index_put((None, i % 7), v[:, 0], True),
    "take": lambda x, i, at, v: x.t().take(i * 3 - 120), "gather": lambda x, i, at, v: x.gather(0, at),
}
WRITES.update({f"scatter_reduce {r} {own}": lambda x, i, at, v, r=r, own=own: x.scatter_reduce(0, at, v, r, include_self=own)
               for r in REDUCTIONS for own in (True, False)})
WRITES.update({f"segment_reduce {r}": lambda x, i, at, v, r=r: torch.segment_reduce(v, r, lengths=i[:9] // 2 + 10, unsafe=True)
               for r in ("sum", "mean", "max", "min", "prod")})
WRITES["segments of rows"] = lambda x, i, at, v: torch.segment_reduce(v.t(), "sum", lengths=at[:7, :5], axis=1, unsafe=True)

# images [2, 3, 13, 17] -> result
WINDOWS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1), "max of pairs": lambda x: F.max_pool2d(x, 2), "tall": lambda x: F.max_pool2d(x, (3, 2), 2),
    "which": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], "turned": lambda x: F.max_pool2d(x.transpose(2, 3), 3, 2, 1),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1), "inner": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "ceil": lambda x: F.avg_pool2d(x, 2, ceil_mode=True), "by seven": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (5, 4)), "adaptive max": lambda x: F.adaptive_max_pool2d(x, (5, 4)),
    "line": lambda x: F.avg_pool1d(x[0], 4, 3), "cube": lambda x: F.max_pool3d(x, 2), "fold": lambda x: F.fold(F.unfold(x, 3), (13, 17), 3),
}


def writes(dtype):
    """The arguments of WRITES."""
    torch.manual_seed(21)
    x, v = ((torch.randn(n, 7) * 8).to(getattr(torch, dtype)) for n in (40, 300))
    return x, torch.randint(0, 40, (300,)), torch.randint(0, 40, (300, 7)), v


def takes(name, dtype):
    """Whether the host has the call."""
    try:
        WRITES[name](*writes(dtype))
    except (RuntimeError, NotImplementedError):
        return False
    return True


def images(dtype):
    torch.manual_seed(22)
    x = torch.randn(2, 3, 13, 17)
    x[0, 0, 3, 4] = float("nan")
    x[1, 1, 5:9, 5:9] = float("-inf")
    return x.to(getattr(torch, dtype))


def gradient(name, x):
    x = x.detach().requires_grad_()
    y = WINDOWS[name](x).float()
    y.mul(torch.arange(y.numel(), device=y.device).reshape(y.shape)).sum().backward()
    return x.grad


def equal(there, here):
    """Equal bits; NaNs are equal."""
    there = there.cpu()
    assert there.dtype == here.dtype and there.shape == here.shape
    same = torch.equal(there.isnan(), here.isnan()) and torch.equal(there.nan_to_num(), here.nan_to_num())
    signs = here.dtype.is_complex or torch.equal(there.signbit() & ~there.isnan(), here.signbit() & ~here.isnan())
    return same and signs
