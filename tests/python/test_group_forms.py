"""Fusion groups of all forms (rows, views, strides, dtypes) have the bits of the single nodes."""
import os
import random
import re

import pytest

import cresset as torch
import cresset.nn.functional as F

from test_graph import record, same

FINE = 60.0  # seconds to wait for native code
COMPILER = os.environ.get("CR_CC") != "none"


@pytest.fixture(autouse=True)
def settings():
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def groups_of(compiled):
    return str(compiled).count("= group {")


def strides(x):
    """Types leave out the strides of dims of one element."""
    return [step for step, size in zip(x.stride(), x.shape) if size > 1]


def check(f, *inputs, native=True, groups=None):
    """Compares eager and compiled results at one and two threads, as tiles and as native code."""
    graph, _ = record(f, *inputs, parts=True)
    compiled = graph.compile()
    if groups is not None:
        assert groups_of(compiled) == groups, str(compiled)
    with torch.no_grad():
        for native in ([False, True] if native and COMPILER else [False]):
            if native:
                assert compiled.wait(FINE) == len(compiled.sources)
            for threads in (1, 2):
                torch.set_num_threads(threads)
                want = f(*inputs)
                want = want if isinstance(want, tuple) else (want,)
                got = compiled.run(list(inputs))
                for k, (a, b) in enumerate(zip(got, want)):
                    assert a.shape == b.shape and same(a, b), f"result {k}\n{compiled}"
                    assert strides(a) == strides(b), f"result {k}\n{compiled}"
    return compiled


ROWS = {
    "sum": lambda x, r: (x * 2).sum(-1) + r,
    "mean": lambda x, r: (x - (x * 3).mean(-1, keepdim=True)) * 2,
    "extremes": lambda x, r: (x.exp().amax(-1), (x * 2).amin(-1, keepdim=True) * x),
    "softmax": lambda x, r: (x * 0.3 + 1).softmax(-1) * 2,
    "log_softmax": lambda x, r: -(x * 0.3).log_softmax(-1),
    "layer_norm": lambda x, r: F.layer_norm(x * 2, x.shape[-1:], eps=1e-3).relu(),
    "weighted layer_norm": lambda x, r: F.layer_norm(x + 1, x.shape[-1:], x[0].exp(), x[1]).tanh(),
    "rms": lambda x, r: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
    "variance": lambda x, r: ((x * 2).var(-1, keepdim=True) + x, (x + 1).std(-1, correction=0) * r),
    "logsumexp": lambda x, r: (x * 2).logsumexp(-1) - r,
    "norm": lambda x, r: (x * 2) / (x * 2).square().sum(-1, keepdim=True).sqrt(),
    "truth": lambda x, r: ((x * 2 > 1).any(-1), (x + 3 > 0).all(-1, keepdim=True) & (x > 0)),
    "product": lambda x, r: (x + 1).prod(-1) * r,
    "two sums": lambda x, r: ((x * 2).sum(-1) * (x + 1).mean(-1)).sqrt() + r,
    "row after row": lambda x, r: ((x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True) + 1).rsqrt() * x,
    "heavy": lambda x, r: F.gelu(x).softmax(-1) + F.gelu(x).sum(-1, keepdim=True),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("size", [(7, 33), (40, 513)])
def test_rows_with_surrounding_operators(name, size):
    assert groups_of(check(ROWS[name], torch.randn(*size), torch.randn(size[0])))


@pytest.mark.parametrize("p", [-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, float("inf"), -float("inf")])
def test_norms_of_every_order(p):
    """pow also has special cases by its exponent 1 / p: 1 / 2 is a square root."""
    compiled = check(lambda x: torch.norm(x + 1, p, -1, keepdim=True) * 2, torch.randn(5, 33), native=p in (-2, 3), groups=1)
    assert p in (1.5, 3, 4) or "pow" not in compiled.sources[0]


SHORT = {
    **{name: ROWS[name] for name in ("sum", "extremes", "softmax", "layer_norm", "variance", "truth", "product", "row after row",
                                     "heavy", "norm", "logsumexp")},
    "distances": lambda x, r: ((x[:, None, :] - x[None, :7, :] * 2) ** 2).sum(-1),
    "distances to rows": lambda x, r: (x[:, None, :] * x[None, 3:, :]).sum(-1).sqrt() + r[:-3],
    "a value for each column": lambda x, r: ((x * x[0] - x[1]).softmax(-1) + x[2]).amax(-1) * r,
    "transposed": lambda x, r: (x.t().contiguous().t() * 2 + x).amax(-1) + r,
    "integers": lambda x, r: (x * 9).long().sum(-1) + (x * 3).long().amax(-1) * 2,
    "three dims": lambda x, r: (x.view(-1, 2, x.shape[1]) * 2).softmax(-1).sum(-1) if x.shape[0] % 2 == 0 else x.sum(-1) * 2,
}


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=lambda t: str(t)[6:])
def test_short_rows(name, dtype):
    """Vectors of native code have several rows; rows beyond the last whole vector are there, too."""
    for size in ((64, 2), (67, 5), (1000, 8), (515, 15), (100, 16), (63, 7)):
        check(SHORT[name], (torch.randn(*size) * 2).to(dtype), torch.randn(size[0]).to(dtype), native=size in ((67, 5), (1000, 8)))


def test_short_rows_are_one_group():
    x, c = torch.randn(3000, 8), torch.randn(16, 8)
    compiled = check(lambda x, c: ((x[:, None] - c[None]) ** 2).sum(-1).sqrt(), x, c, groups=1)
    assert "r += CV_LANES_f32" in compiled.sources[0]
    assert "r += CV_LANES_f32" not in check(lambda x: (x * 2).softmax(-1), torch.randn(30, 8), groups=1).sources[0]


def test_short_rows_for_all_sizes():
    """Other sizes share the kernel whatever the number of rows, until a row has more columns than lanes."""
    f = torch.compile(lambda x: ((x * 2 + 1).softmax(-1) * 3).sum(-1) + 1, dynamic=True)
    for rows, columns in ((100, 8), (120, 9), (7, 12), (1, 8), (300, 40), (200, 64), (80, 65), (90, 700), (64, 2)):
        x = torch.randn(rows, columns)
        for _ in range(2):
            assert same(f(x), ((x * 2 + 1).softmax(-1) * 3).sum(-1) + 1)


SCANS = {
    "sum": lambda x, r: (x * 0.5 + 1).cumsum(-1).sigmoid() * 2,
    "product": lambda x, r: (x * 0.1 + 1).cumprod(-1) + r,
    "after a softmax": lambda x, r: ((x * 2).softmax(-1).cumsum(-1) < 0.9).to(x.dtype) * x,
    "of a scan": lambda x, r: (x + 1).cumsum(-1).cumsum(-1) * r,
    "two": lambda x, r: (x + 1).cumsum(-1) * (x * 0.1 + 1).cumprod(-1),
    "extreme": lambda x, r: tuple(v + 1 for v in (x * 2).cummax(-1)),
    "count": lambda x, r: (x > 0).cumsum(-1) * 2,
    "of what is read elsewhere": lambda x, r: (x.flip(-1) * 2).cumsum(-1) * 0.5,
    "view": lambda x, r: (x * 2).cumsum(-1).view(-1).neg(),
    "beside a sum": lambda x, r: ((x * 2).sum(-1, keepdim=True) + x).cumsum(-1) / (x * 2).sum(-1, keepdim=True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("name", SCANS)
def test_scans_are_one_group(name, dtype):
    for size in [(9, 13), (2, 3, 64), (33, 300), (70, 5), (3, 4000)]:
        check(SCANS[name], torch.randn(size, dtype=dtype), torch.randn(*size[:-1], 1, dtype=dtype), groups=1)


def test_a_sum_of_a_scan_is_another_group():
    check(lambda x: ((x * 2).cumsum(-1) * 3).sum(-1) + 1, torch.randn(9, 300), groups=2)


def test_scans_for_all_sizes():
    f = torch.compile(lambda x: (x * 2 + 1).cumsum(-1) * 0.5, dynamic=True)
    for size in [(3, 70), (4, 70), (5, 300), (2, 1), (1, 9), (0, 3)]:
        x = torch.randn(size)
        assert same(f(x), (x * 2 + 1).cumsum(-1) * 0.5)


def has_rows(name, size):
    """Whether eager takes the size: extremes need an element, and layer_norm's weight is a row of a matrix."""
    return not (0 in size and name in ("extremes", "weighted layer_norm", "logsumexp")) and \
        not (len(size) > 2 and name == "weighted layer_norm")


@pytest.mark.parametrize("name, size", [(name, size) for size in ((8, 20000), (2, 3), (5, 1), (2, 70), (2, 1), (2, 3, 4), (2, 0), (0, 5))
                                        for name in ROWS if has_rows(name, size)])
def test_rows_of_other_sizes(name, size):
    rest = torch.randn(size[:-1]) if len(size) < 3 else torch.randn(size[:-1] if name != "norm" else 1)
    check(ROWS[name], torch.randn(*size), rest, native=False)


# --- views and strides ---

VIEWS = {
    "reshapes": lambda x, y: ((x * 2).reshape(-1) + 1).view(x.shape[1], -1).exp().flatten(),
    "a view that leaves": lambda x, y: ((x * 2).view(-1), (x * 2).view(-1) + 1, (x * 2).unsqueeze(0).tanh()),
    "transposed": lambda x, y: (x.t() * 2 + y.t().contiguous()).contiguous().exp(),
    "transposed operand": lambda x, y: (y.t().contiguous() + x.t()) * x.t(),
    "chunks": lambda x, y: torch.mul(*[c.sigmoid() * 2 for c in x.chunk(2, 1)]) if x.shape[1] % 2 == 0 else x * 2 + 1,
    "slices": lambda x, y: (x[:, 1:] * 3 - y[:, :-1]).tanh() + x[:, :1],
    "steps": lambda x, y: (x[:, ::2] + 1) * 2 + y[:, ::2],
    "expanded": lambda x, y: (x[0].expand(x.shape) * 2 + y) * x[:, :1].expand(x.shape),
    "middle": lambda x, y: (x.unsqueeze(1) * 2 + y.unsqueeze(0)).exp() - x.unsqueeze(1),
    "permuted": lambda x, y: (x.reshape(x.shape[0], 1, -1).permute(2, 0, 1).contiguous() * 2).add(1).relu(),
    "rows of a slice": lambda x, y: (x[:, :-1] * 2).softmax(-1) + 1,
    "mean beside a transpose": lambda x, y: (y.t().contiguous().t() + x.square().mean(), x.square().mean() * 2),
    "transpose beside a mean": lambda x, y: (lambda z: (z, z.contiguous().mean() + 1))(y.t().contiguous().t() * 2),
    "sum of a transpose": lambda x, y: (x.t() * 2).contiguous().sum(-1) * 3,
    "rows of strided columns": lambda x, y: (y.contiguous() * x.t().contiguous().t()).softmax(-1),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("size", [(6, 8), (70, 66), (1, 4), (4, 2), (300, 3)])
def test_views_and_strides(name, size):
    check(VIEWS[name], torch.randn(*size), torch.randn(*size), native=size[0] < 10)


MEAN, SCALE = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.25])
IMAGES = {
    "normalized": lambda x: (x.permute(0, 3, 1, 2).float() / 255 - MEAN.view(1, 3, 1, 1)) / SCALE.view(1, 3, 1, 1),
    "normalized in rows": lambda x: (x.float() / 255 - MEAN) / SCALE,
    "planes": lambda x: ((x.permute(0, 3, 1, 2).float() / 255 - MEAN.view(3, 1, 1)) * 2).contiguous(),
    "both": lambda x: (lambda y: (y * 2, (y * 3).contiguous()))(x.permute(0, 3, 1, 2).float() + 1),
    "a value for each pixel": lambda x: (x.float() * 2 + x[..., :1].float()) * x[:, :1].float(),
    "a value for each image": lambda x: (x.double() + x[:, :1, :1, :1]) * 0.5 - MEAN.double(),
    "planes to pixels": lambda x: (lambda p: (p.permute(0, 2, 3, 1) * 2 + MEAN).contiguous())(
        x.permute(0, 3, 1, 2).contiguous().float()),
    "turned": lambda x: (x.permute(2, 0, 3, 1).float() * 2 + 1, x.permute(3, 2, 1, 0).double() * 2 - 1),
    "half": lambda x: (x.permute(0, 3, 1, 2).half() * 0.5 - MEAN.half().view(3, 1, 1)).relu(),
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("size", [(2, 5, 7, 3), (3, 40, 50, 3), (1, 1, 4, 3), (2, 1, 1, 3), (1, 90, 91, 3), (0, 4, 4, 3)])
def test_images_in_any_stride_order(name, size):
    x = torch.randint(0, 256, size).to(torch.uint8)
    compiled = check(IMAGES[name], x, native=size[1] == 40)
    assert groups_of(compiled) == (2 if name == "turned" else 1) or 0 in size or size[1] == 1


def test_rows_of_fewer_elements_than_a_vector_in_one_group():
    for columns in (2, 3, 5, 8, 31, 63):
        x, y = torch.randn(3000, columns), torch.randn(columns, 3000).t()
        w, v = torch.randn(columns), torch.randn(3000, 1)
        check(lambda x, w, v: ((x * w + v).exp() - w) * v, x, w, v, groups=1)
        check(lambda x, y, w: (x * w + y) * 2, x, y, w, native=False)
    x = torch.randn(10, 300, 4)
    check(lambda x, p: (x + p) * 2 - p, x, torch.randn(300, 4), groups=1)
    check(lambda x, p: (x + p) * 2 - p, torch.randn(4, 3000, 4), torch.randn(3000, 4), groups=1)


def test_a_view_of_a_groups_value_is_made_from_its_result():
    graph, _ = record(lambda x: ((x * 2).exp(), (x * 2).exp().view(-1)), torch.randn(4, 6), parts=True)
    a, b = graph.compile().run([torch.randn(4, 6)])
    f = lambda x: (lambda y: (y, y.view(-1)))((x * 2).exp())
    graph, _ = record(f, torch.randn(4, 6), parts=True)
    a, b = graph.compile().run([torch.randn(4, 6)])
    assert a.data_ptr() == b.data_ptr()


# --- types ---

def half_step(x, y):
    h = x.relu() * 1.5 + y
    return h.softmax(-1), (h.float() * 2).to(x.dtype), h.sum(-1, keepdim=True) * h


TYPES = {
    "half": lambda x, y: ((x * 1.7 + y).sigmoid() * 2 - y).relu(),
    "half rows": half_step,
    "means": lambda x, y: ((x * 3).mean(-1) + 1, F.layer_norm(x, x.shape[-1:]) * y),
    "casts": lambda x, y: ((x.float() * 2 + y).to(x.dtype) * y.to(x.dtype)).float() + 1,
    "mixed": lambda x, y: (x * y.float() + y) * 0.1,
    "masks": lambda x, y: torch.where((x > 0) & (y < 1), x * 2, 0) * (x > y),
    "integers": lambda x, y: (x * (y * 3).long() + (y > 0).int() * 2) / 3,
    "powers": lambda x, y: (x.abs() + 1) ** 0.5 * x ** 2 + x ** 3,
    "logsumexp": lambda x, y: (x * 2).logsumexp(-1) + 1,
    "numbers": lambda x, y: (2 - x.clamp(-1, 1) * 0.3) / 7 + torch.lerp(x, y.to(x.dtype), 0.25),
}
KINDS = [(torch.float16, torch.float16), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32),
         (torch.float32, torch.float64), (torch.float64, torch.float32), (torch.float16, torch.float32),
         (torch.float32, torch.int64), (torch.float32, torch.bool), (torch.float64, torch.int32),
         (torch.float16, torch.int64), (torch.float32, torch.uint8)]


def operand(dtype, *size):
    x = torch.randn(*size) * 3
    return x > 0 if dtype == torch.bool else x.to(dtype) if dtype != torch.uint8 else x.abs().to(dtype)


@pytest.mark.parametrize("kinds", KINDS, ids=lambda k: f"{k[0]}-{k[1]}".replace("torch.", ""))
@pytest.mark.parametrize("name", TYPES)
def test_types(name, kinds):
    for size in ((5, 37), (3, 1), (1, 1), (0, 4), (40, 300)):
        x, y = operand(kinds[0], *size), operand(kinds[1], *size)
        if name == "logsumexp" and 0 in size:
            continue
        try:
            TYPES[name](x, y)
        except RuntimeError as eager:
            with pytest.raises(RuntimeError, match=re.escape(str(eager))):
                torch.compile(TYPES[name])(x, y)
            continue
        check(TYPES[name], x, y, native=size == (5, 37))


WIDTHS = {
    "double between": lambda x, d, i, u: ((x.double() * d).sin() + 1).float() * x,
    "choice by double": lambda x, d, i, u: torch.where(d > 0, x * 2, x - 1) * (d < 1),
    "double by choice": lambda x, d, i, u: torch.where(x > 0, d * 2, d - 1),
    "indices beside floats": lambda x, d, i, u: torch.where(i % 7 == 0, x * i.float(), (i + 1) * 0.5),
    "integers of both widths": lambda x, d, i, u: (i * 3 + i.int() * 2, (i.int() - 5).float() * x),
    "bytes": lambda x, d, i, u: ((u.float() * 0.3 + x).clamp(0, 255).to(torch.uint8), u.double() * d, u.long() + i),
    "bytes and back": lambda x, d, i, u: (x * 40).to(torch.uint8).float() * 0.5 + (d * 300).to(torch.uint8),
    "bytes from integers": lambda x, d, i, u: ((i * 77).to(torch.uint8), (i.int() * 77).to(torch.uint8).double() + d),
    "bytes alone": lambda x, d, i, u: ((u + 7) * (u > 100), (u * 3).float() * x),
    "truths counted": lambda x, d, i, u: ((x > 0.5).sum(-1), ((d > 0) & (x < 1)).sum(-1) * 2, u.sum(-1) + 1),
    "sums of several types": lambda x, d, i, u: ((x * 2).sum(-1).double() + (d * 2).sum(-1), (i * 3).sum(-1) * x.amax(-1)),
    "rows in double": lambda x, d, i, u: (x.double().softmax(-1).float() * x, (x.double() - x.double().mean(-1, keepdim=True)).to(x.dtype)),
    "extremes of both": lambda x, d, i, u: torch.maximum(x.double().amax(-1), d.amin(-1)) + i.amax(-1),
    "any of doubles": lambda x, d, i, u: ((d > 2).any(-1), ((d > -3) | (x > 0)).all(-1)),
    "halves": lambda x, d, i, u: (x.half().double() * d, (x.bfloat16() * 2).float() + i, d.float().half() * 3),
    "one double": lambda x, d, i, u: (x * d[0, 0].float() + 1) * x,
    "a row of doubles": lambda x, d, i, u: (x * 2 + d[0].float()) * d[:, :1].float(),
}


NEED_ELEMENTS = "extremes of both", "sums of several types", "one double", "a row of doubles"


@pytest.mark.parametrize("name, size", [(name, size) for size in ((5, 37), (40, 300), (3, 2100), (70, 5), (300, 16), (2, 1), (0, 4), (1, 64))
                                        for name in WIDTHS if 0 not in size or name not in NEED_ELEMENTS])
def test_values_of_several_widths(name, size):
    x, d = torch.randn(*size), torch.randn(*size, dtype=torch.float64)
    i, u = torch.randint(-99, 99, size), torch.randint(0, 256, size).to(torch.uint8)
    check(WIDTHS[name], x, d, i, u, native=size in ((5, 37), (70, 5), (3, 2100)))


def test_values_of_several_widths_are_one_group():
    for name in ("double between", "indices beside floats", "bytes and back"):
        x, d = torch.randn(64, 100), torch.randn(64, 100, dtype=torch.float64)
        i, u = torch.randint(-99, 99, (64, 100)), torch.randint(0, 256, (64, 100)).to(torch.uint8)
        check(WIDTHS[name], x, d, i, u, native=False, groups=1)


def test_conversions_of_every_kind_of_number():
    """Numbers that do not fit give in a kernel what they give in eager."""
    edges = [0.0, -0.0, 0.5, -0.5, 1.5, 255.5, 256.0, -1.0, -255.9, 2.0 ** 31, -2.0 ** 31, 2.0 ** 31 - 1, 2.0 ** 32 + 3, 2.0 ** 53 + 2,
             2.0 ** 62, 2.0 ** 63, -2.0 ** 63, 1e19, 1e300, -1e300, 1e-320, 3e38, 4e38, float("inf"), -float("inf"), float("nan"), 16777217.0]
    d = torch.tensor(edges * 3, dtype=torch.float64)
    x = d.float()
    i = torch.tensor([0, 1, -1, 255, 256, -2 ** 31, 2 ** 31, 2 ** 32 + 5, 2 ** 53 + 1, 2 ** 62 + 1, 2 ** 63 - 1, -2 ** 63, 16777217] * 5)
    kinds = [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64, torch.bool]
    check(lambda x: tuple((x * 1).to(k) for k in kinds if k != x.dtype), x)
    check(lambda x: tuple((x * 1).to(k) for k in kinds if k != x.dtype), d)
    check(lambda x: tuple((x * 1).to(k) for k in kinds if k != x.dtype), i)
    check(lambda x: tuple((x * 1).to(k) for k in kinds if k != x.dtype), i.int())


def test_every_half_is_rounded_as_eager_rounds():
    bits = torch.arange(-2 ** 15, 2 ** 15, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        x = bits.view(dtype)
        check(lambda x: (x * 1.0009765625 + 0.1, (x.float() * 0.3333).to(dtype) * 1.5, x * 65504 + 1, x * 1e-7 * 1), x)
    wide = torch.randint(-2 ** 31, 2 ** 31 - 1, (100000,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    check(lambda x: ((x * 1).to(torch.float16).float() + 0.0, (x * 1).to(torch.bfloat16).float() + 0.0), wide)


# --- random programs ---

UNARY = [torch.neg, torch.exp, torch.tanh, torch.relu, torch.sigmoid, F.silu, lambda x: x * 3, lambda x: 1 - x,
         lambda x: x / 7, lambda x: x ** 2, lambda x: x.clamp(-1, 1), F.gelu, lambda x: x.abs().sqrt()]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda a, b: a / (b.abs() + 1),
          lambda a, b: torch.where(a > b, a, b * 2), lambda a, b: torch.add(a, b, alpha=0.3)]
REDUCING = [lambda x: x.sum(-1, keepdim=True), lambda x: x.mean(-1, keepdim=True), lambda x: x.amax(-1, keepdim=True),
            lambda x: x.softmax(-1), lambda x: x.log_softmax(-1), lambda x: F.layer_norm(x, x.shape[-1:]) if x.dim() else x.tanh(),
            lambda x: x.var(-1, keepdim=True), lambda x: x.logsumexp(-1, keepdim=True),
            lambda x: x.sum(-1).unsqueeze(-1), lambda x: x.sum(0), lambda x: x.square().mean(),
            lambda x: x.norm(dim=-1, keepdim=True), lambda x: x.cumsum(-1) if x.dim() else x, lambda x: x.cumprod(-1) if x.dim() else x]
TURNING = [lambda x: x.reshape(-1).view(x.shape), lambda x: x.t().contiguous().t(), lambda x: x.unsqueeze(0).squeeze(0),
           lambda x: x.view(*x.shape, 1).flatten(1) if x.dim() > 1 and x.is_contiguous() else x,
           lambda x: x.expand(3, *x.shape)[1], lambda x: x.to(torch.float16).to(x.dtype), lambda x: x.bfloat16().to(x.dtype),
           lambda x: x.t().reshape(x.shape) if x.dim() == 2 else x, lambda x: x.clone(), lambda x: x * (x > 0),
           lambda x: torch.cat(x.chunk(2, -1)[::-1], -1) if x.dim() else x, lambda x: x.float(), lambda x: x.cumsum(0),
           lambda x: x.amax(-1, keepdim=True).expand(x.shape) if x.dim() else x]


def along(x, dim):
    """Indices in x's dim, computed from x."""
    return (x.detach().abs().nan_to_num(1, 1, 1).clamp(max=1e4) * 7).long() % x.shape[dim]


def of_any_dims(f):
    return lambda x: f(x) if x.dim() and x.numel() else x * 2


READING = [of_any_dims(f) for f in (
    lambda x: x.roll(1, 0), lambda x: x.roll((-2, 3), (0, -1)), lambda x: x.roll(2), lambda x: x.flip(0), lambda x: x.flip(-1),
    lambda x: F.pad(x, (1, 0))[..., 1:], lambda x: F.pad(x, (2, 0), value=0.5)[..., :-2], lambda x: F.pad(x, (-1, 1)),
    lambda x: torch.cat([x[..., 1:], x[..., :1]], -1), lambda x: torch.cat([x[:1], x[1:]], 0), lambda x: x.tril(0) if x.dim() == 2 else x.flip(0),
    lambda x: x.gather(-1, along(x, -1)), lambda x: x.gather(0, along(x, 0).int().long()), lambda x: x.index_select(0, along(x, 0).flatten()[:x.shape[0]]),
    lambda x: x.index_select(-1, along(x, -1).flatten()[:x.shape[-1]].int()), lambda x: x.repeat(*[2] * x.dim())[tuple(slice(1, n + 1) for n in x.shape)],
    lambda x: x.repeat_interleave(2, 0)[::2], lambda x: F.embedding(along(x, 0).flatten()[:x.shape[0]], x) if x.dim() == 2 else x.flip(0))]


def random_function(r):
    plan = []
    for _ in range(r.randrange(3, 20)):
        kind = r.random()
        fn = r.choice(BINARY if kind < 0.4 else UNARY if kind < 0.6 else READING if kind < 0.75 else REDUCING if kind < 0.87 else TURNING)
        plan.append((fn, *(r.randrange(99) for _ in range(2 if kind < 0.4 else 1))))
    outputs = [r.randrange(99) for _ in range(3)]

    def f(*inputs):
        values = list(inputs)
        for fn, *at in plan:
            values.append(fn(*(values[-1 - i % len(values)] for i in at)))
        return tuple(values[len(inputs):][i % len(plan)] for i in outputs)
    return f


def random_inputs(r, dtype):
    rows, columns = r.choice([(9, 13), (2, 64), (33, 40), (1, 5), (17, 2), (4, 1), (64, 257)])
    return [torch.randn(rows, columns, dtype=dtype), torch.randn(columns, rows, dtype=dtype).t(),
            torch.randn(columns, dtype=dtype), torch.randn(rows, 1, dtype=dtype), torch.randn((), dtype=dtype),
            torch.randn(rows, 2 * columns, dtype=dtype)[:, columns:]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16],
                         ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_keep_their_bits(seed, dtype):
    r = random.Random(seed)
    for k in range(10):
        check(random_function(r), *random_inputs(r, dtype), native=not k)


# --- values of rows that are repeated ---

def with_gradients(f):
    """The result of f and the gradients of its inputs."""
    def g(*inputs):
        leaves = [x.detach().requires_grad_() for x in inputs]
        with torch.enable_grad():
            y = f(*leaves)
            return (y.detach(), *torch.autograd.grad((y * y.detach()).sum(), leaves))
    return g


REPEATED = {
    "softmax by hand": lambda x, y: (lambda e: e / e.sum(-1, keepdim=True))((x - 3).exp() * y),
    "rms norm": lambda x, y: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * y,
    "rows after rows": lambda x, y: ((x * 2).square().sum(-1) + 1).log() * (y * 2).sigmoid().sum(-1),
    "standardized": lambda x, y: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1).sqrt() + y,
    "expanded values of rows": lambda x, y: (x[:, 0] * 2 + y[:, 0].exp()).unsqueeze(1).expand(x.shape) * x + y,
    "expanded and left": lambda x, y: (lambda r: (r * 3).unsqueeze(1).expand(x.shape).cumsum(1) + r.unsqueeze(1))(x[:, 0] * y[:, 1]),
    "a repeated sum that is folded": lambda x, y: ((x.exp() + y).sum(-1, keepdim=True).expand(x.shape) * x).sum(0),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=lambda t: str(t)[6:])
def test_values_of_rows_that_are_repeated(name, dtype):
    for size in ((5, 37), (300, 7), (64, 128), (2, 33), (3, 2500)):
        x, y = operand(dtype, *size), operand(dtype, *size)
        check(REPEATED[name], x, y, native=False)
        check(with_gradients(REPEATED[name]), x, y, native=size in ((5, 37), (64, 128)))


def test_a_sum_does_not_end_its_group_in_the_backward_pass():
    check(with_gradients(REPEATED["softmax by hand"]), torch.randn(64, 128), torch.rand(64, 128), native=False, groups=2)


# --- reads at other places ---

READS = {
    "embedding and norm": lambda x, y, i: F.layer_norm(F.embedding(i[0] % x.shape[0], x) + x[0], x.shape[-1:]),
    "gather": lambda x, y, i: x.gather(1, i) * y + 1,
    "gather of rows": lambda x, y, i: x.gather(0, i % x.shape[0]) * 2 - y,
    "selected rows": lambda x, y, i: (x.index_select(0, i[:, 0] % x.shape[0]) + y).relu(),
    "selected columns": lambda x, y, i: (x.index_select(1, i[0].int()) + y).softmax(-1),
    "stencil": lambda x, y, i: x + 0.1 * (x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x),
    "turned": lambda x, y, i: (x.flip(1) * y + y.flip(0)) * x.flip(0, 1),
    "padded": lambda x, y, i: (F.pad(x, (1, 2, 2, 1), value=0.5) * 2).relu() + F.pad(y, (2, 1, 1, 2)),
    "beside": lambda x, y, i: torch.cat([x, y, x], 0) * 2 + 1,
    "beside in rows": lambda x, y, i: torch.cat([x, y[:, :1], y], 1).exp().sum(-1),
    "repeated": lambda x, y, i: x.repeat(2, 3) * 0.5 - y.repeat(2, 3),
    "interleaved": lambda x, y, i: x.repeat_interleave(3, 1) + y.repeat_interleave(3, 1),
    "masked": lambda x, y, i: torch.where(y > 0, x.gather(1, i), -1.0) * 2,
    "read and left": lambda x, y, i: (lambda g: (g, g * y, g.sum(-1)))(x.gather(1, i)),
    "reads of a transpose": lambda x, y, i: (x.t().contiguous().t().gather(1, i) * 2 + y).t().contiguous() * 3,
    "columns of a read": lambda x, y, i: (x.roll(1, 0) * y).sum(0) + 1,
    "a view of a read": lambda x, y, i: (x.flip(0).view(-1) * 2).view(x.shape) + y,
    "several types": lambda x, y, i: (x.roll(1, 1).double() + i.flip(1)) * (y > 0).roll(1, 0),
    "of one group": lambda x, y, i: ((x * 2).roll(1, 0) + y) * 3,
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.int64], ids=lambda t: str(t)[6:])
def test_reads_at_other_places(name, dtype):
    for size in ((5, 37), (300, 7), (40, 300), (3, 2500)):
        x, y = operand(dtype, *size), operand(dtype, *size)
        i = torch.randint(0, size[1], size)
        try:
            READS[name](x, y, i)
        except RuntimeError as eager:
            with pytest.raises(RuntimeError, match=re.escape(str(eager))):
                torch.compile(READS[name])(x, y, i)
            continue
        check(READS[name], x, y, i, native=size in ((5, 37), (3, 2500)))


@pytest.mark.parametrize("name", ["embedding and norm", "gather", "selected rows", "stencil", "turned", "padded", "beside", "repeated", "masked"])
def test_reads_are_part_of_one_group(name):
    check(READS[name], torch.randn(30, 70), torch.randn(30, 70), torch.randint(0, 70, (30, 70)), native=False, groups=1)


WRONG = {
    "gather": (lambda x, i: x.gather(1, i) * 2 + 1, (40, 60)),
    "rows": (lambda x, i: x.index_select(0, i[:, 0]) * 2 + 1, (40, 60)),
    "embedding": (lambda x, i: F.layer_norm(F.embedding(i[:, 0], x) + x[0], (60,)), (40, 60)),
    "the second read": (lambda x, i: x.flip(0) + x.gather(1, i.clamp(0, 39)) * x.gather(1, i), (40, 60)),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("bad", [-1, 60, 2 ** 40])
def test_an_index_outside_is_eagers_error(name, bad):
    f, size = WRONG[name]
    x, good = torch.randn(*size), torch.randint(0, 40, size)
    i = good.clone()
    i[39, 0] = bad
    with pytest.raises((IndexError, RuntimeError)) as eager:
        f(x, i)
    graph, _ = record(f, x, good, parts=True)
    compiled = graph.compile()
    assert groups_of(compiled) == 1
    for native in ([False, True] if COMPILER else [False]):
        if native:
            compiled.wait(FINE)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with pytest.raises(type(eager.value), match=re.escape(str(eager.value))):
                compiled.run([x, i])
            assert same(compiled.run([x, good])[0], f(x, good))


def test_reads_for_all_sizes():
    f = torch.compile(lambda x, i: (x.gather(1, i) * 2 + x.flip(0) + F.pad(x, (1, 0))[:, 1:].roll(1, 0)).relu(), dynamic=True)
    for size in ((8, 9), (20, 30), (7, 12), (300, 40), (2, 2500)):
        x, i = torch.randn(*size), torch.randint(0, size[1], size)
        for _ in range(2):
            assert same(f(x, i), (x.gather(1, i) * 2 + x.flip(0) + F.pad(x, (1, 0))[:, 1:].roll(1, 0)).relu())


def test_a_result_does_not_overwrite_what_it_reads_elsewhere():
    f = lambda x: (lambda y: y * 2 + y.roll(1, 0) + y.flip(1))(x.cumsum(0))
    check(f, torch.randn(50, 60), groups=1)


# --- windows of columns ---

def lstm(x, h, c, w, u, b):
    hs = []
    for t in range(x.shape[0]):
        i, f, n, o = (x[t] @ w + h @ u + b).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * n.tanh()
        h = o.sigmoid() * c.tanh()
        hs.append(h)
    return hs


def lstm_step(*inputs):
    leaves = [x.detach().requires_grad_() for x in inputs]
    with torch.enable_grad():
        loss = sum((h * h).sum() for h in lstm(*leaves))
        return (loss.detach(), *torch.autograd.grad(loss, leaves[3:]))


def test_a_step_of_an_lstm_is_a_group_forward_and_one_backward():
    steps, batch, size = 5, 3, 6
    inputs = [torch.randn(steps, batch, 4), torch.randn(batch, size), torch.randn(batch, size),
              torch.randn(4, 4 * size), torch.randn(size, 4 * size), torch.randn(4 * size)]
    compiled = check(lambda *a: tuple(lstm(*a)), *inputs, groups=steps)
    assert compiled.built <= 2
    assert groups_of(check(lstm_step, *inputs)) <= 3 * steps


def test_windows_that_are_also_read_outside():
    def f(x, y, w):
        g = x * 2 + w
        a, b, c = g.chunk(3, -1)
        return a * b.sigmoid() + c, b, y.cumsum(0) * c, (y.t() @ a.exp())
    check(f, torch.randn(5, 12), torch.randn(5, 4), torch.randn(12))
    check(f, torch.randn(5, 12, dtype=torch.bfloat16), torch.randn(5, 4, dtype=torch.bfloat16), torch.randn(12).bfloat16())


def test_a_value_that_is_split_and_read_as_a_whole_is_one_group():
    def f(x, w):
        g = x * 2 + w
        a, b, c = g.chunk(3, -1)
        return a * b.sigmoid() + c, g
    check(f, torch.randn(5, 12), torch.randn(12), groups=1)
    check(f, torch.randn(70, 36).double(), torch.randn(12, 36).double()[:1], groups=1)
    check(lambda x, w: (*f(x, w), f(x, w)[1].sum(-1), f(x, w)[1].exp()), torch.randn(5, 12), torch.randn(12))
    check(lambda x, w: (f(x, w)[0], f(x, w)[1].t() @ f(x, w)[0]), torch.randn(5, 12).bfloat16(), torch.randn(12).bfloat16())


def test_values_beside_each_other():
    def f(x, y):
        a, b = x * 2 + y, x.exp()
        return torch.cat([a, b, a * b], 1) , torch.cat([b, a], -1) + 1, torch.cat([a, y], 1), a.sum(-1)
    check(f, torch.randn(7, 9), torch.randn(7, 9))
    check(f, torch.randn(7, 1), torch.randn(7, 1), native=False)
    check(lambda x, y: torch.cat([(x * y).softmax(-1), x * 2 + y], -1), torch.randn(3, 4, 8), torch.randn(3, 4, 8))
    check(lambda x, y: torch.cat([t.tanh() * 2 for t in (x * y).split(3, 1)[::-1]], 1), torch.randn(4, 12), torch.randn(12))
    check(lambda x, y: [t.softmax(-1) + y[:, :1] for t in (x * y + 1).chunk(2, -1)][1], torch.randn(4, 12), torch.randn(4, 12))


# --- columns ---

COLUMNS = {
    "a sum": lambda x, y: (x * y + 1).sum(0),
    "a sum and its rows": lambda x, y: ((x * 2).exp(), (x * 2).exp().sum(0) + 1),
    "bias": lambda x, y: (lambda g: (y.t() @ g, g.sum(0, keepdim=True), (g * x).sum(0)))(x.relu() * y),
    "extremes": lambda x, y: ((x * y).amax(0), (x - y).amin(0)),
    "rows and columns": lambda x, y: (lambda s: (s * 2, s.sum(0), s.sum(-1)))((x * 0.5).softmax(-1) * y),
    "of three dims": lambda x, y: (x.view(2, -1, x.shape[1]) * 2 + y.view(2, -1, x.shape[1])).sum((0, 1)) + 1,
    "read again": lambda x, y: (lambda s: s + s.exp())((x * y).sum(0)) * (x * y).tanh(),
    "of a strided operand": lambda x, y: (x.t().contiguous().t() * y[:, :1]).tanh().sum(0),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("size", [(6, 6), (64, 3), (130, 33), (4, 2000), (1300, 70), (5000, 7), (9000, 2), (2, 1)])
def test_columns_are_folded_in_eagers_order(name, size):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(COLUMNS[name], torch.randn(*size).to(dtype), torch.randn(*size).to(dtype), native=size == (130, 33))


def test_columns_of_a_layer_norms_backward():
    def f(x, w, b):
        leaves = [t.detach().requires_grad_() for t in (x, w, b)]
        with torch.enable_grad():
            loss = F.layer_norm(leaves[0], x.shape[-1:], leaves[1], leaves[2]).square().sum(-1).exp().tanh()
            return torch.autograd.grad(loss, leaves, torch.ones_like(loss) * 0.5)
    compiled = check(f, torch.randn(300, 20), torch.randn(20), torch.randn(20))
    assert all("= sum(" not in line for line in str(compiled).splitlines() if line.startswith("  %"))


# --- dropout ---

def test_dropout_draws_what_eager_draws():
    def f(x, w):
        h = F.dropout(F.relu(x * 2 + 1), 0.3)
        s = F.dropout((h * w).softmax(-1), 0.5)
        return F.dropout(s + x, 0.1), h.t().relu()
    x, w = torch.randn(20, 33), torch.randn(33)
    graph, _ = record(f, x, w, parts=True)
    compiled = graph.compile()
    assert groups_of(compiled) == 1 and sum("_dropout_mask(" in n for n in str(compiled).splitlines()) == 3
    for wait in (1e-9, FINE):
        compiled.wait(wait)
        torch.manual_seed(5)
        want = f(x, w)
        after = torch.rand(3)
        torch.manual_seed(5)
        with torch.no_grad():
            got = compiled.run([x, w])
        assert all(same(a, b) for a, b in zip(got, want)) and torch.equal(torch.rand(3), after)


def test_results_whose_reduction_was_simplified_away_are_calls():
    """Rows and columns of a fusion group need a reduction: a program without one would write a row
    as columns."""
    compiled = check(lambda x: torch.isfinite((x.sum(dim=(0, 1, 2), keepdim=True) < 0)[:]), torch.randn(4, 4, 17) > 0)
    assert groups_of(compiled) == 1 and not compiled.sources


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("shape", [(2000, 3, 2), (700, 5, 3), (1111, 2, 4), (300, 17, 2), (5, 700, 3, 3)], ids=str)
def test_short_rows_of_few_rows_that_repeat(shape, dtype):
    """The distances of points from a few centres: planes of few rows are copied row by row, across all planes."""
    points = (torch.randn(*shape[:-2], 1, shape[-1]) * 9).to(dtype)
    centres = (torch.randn(*shape[-2:]) * 9).to(dtype)
    weight = (torch.rand(*shape[:-1], 1) * 9).to(dtype).expand(shape)
    check(lambda p, c, w: ((p - c) ** 2 * w).float().sum(-1), points, centres, weight)
    check(lambda p, c, w: ((p - c) ** 2 * w).float().amax(-1) + p[..., 0], points, centres, weight)
