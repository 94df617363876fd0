"""to_c(): the C99 file of a program, compiled by gcc without a warning and run beside the program."""
import copy
import os
import random
import re
import shutil
import subprocess

import cresset as torch
import pytest
from cresset import nn
from cresset.export import export, to_c

F = nn.functional
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
COMPILERS = [c for c in ("gcc", "clang-14") if shutil.which(c)]
# Processors without fused multiply-add round twice where the file rounds once.
EXACT = torch.backends.cpu.get_cpu_capability() != "DEFAULT"

MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <stddef.h>
%(head)s
static void *read_file(const char *path, size_t n)
{
    void *p = malloc(n + 1);
    FILE *f = fopen(path, "rb");
    if (!p || !f || fread(p, 1, n, f) != n)
        exit(2);
    fclose(f);
    return p;
}
int main(void)
{
    void *work = malloc(model_work_bytes() + 1);
    FILE *f;
    int rc;
%(body)s
    return rc;
}
"""


def run_file(folder, text, inputs, results, compiler, flags, weights=None):
    """The results of the file's function, and what it returned."""
    (folder / "model.c").write_text(text)
    head = "\n".join(re.findall(r"^(?:size_t|int) model_\w+\([^{;]*\);", text, re.M))
    body, call, frees = "", [], ["work"]
    named = [("weights", weights)] if weights else []
    for k, x in enumerate(inputs):
        (folder / f"in{k}").write_bytes(bytes(x.contiguous().view(-1).view(torch.uint8).tolist()))
        named.append((f"in{k}", x.numel() * x.element_size()))
    for name, n in named:
        body += f'    void *{name} = read_file("{name}", {n});\n'
        call.append(name)
        frees.append(name)
    for k, x in enumerate(results):
        body += f"    void *out{k} = malloc({max(1, x.numel() * x.element_size())});\n"
        call.append(f"out{k}")
        frees.append(f"out{k}")
    body += f"    rc = model_run({', '.join([*call, 'work'])});\n"
    for k, x in enumerate(results):
        body += f'    f = fopen("out{k}", "wb");\n    fwrite(out{k}, 1, {x.numel() * x.element_size()}, f);\n    fclose(f);\n'
    body += "".join(f"    free({name});\n" for name in frees)
    (folder / "main.c").write_text(MAIN % {"head": head, "body": body})
    built = subprocess.run([compiler, *FLAGS, *flags, "-c", "model.c"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    subprocess.run([compiler, "-std=c11", *flags, "main.c", "model.o", "-lm", "-o", "main"], cwd=folder, check=True)
    # leaks are not looked for: that needs ptrace, which containers may lack
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    rc = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, env=environment)
    assert rc.stderr == "", rc.stderr
    read = [torch.frombuffer(bytearray((folder / f"out{k}").read_bytes()), dtype=x.dtype).view(x.shape) if x.numel() else x
            for k, x in enumerate(results)]
    return rc.returncode, read


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.out = nn.Linear(6 * 3 * 3, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        return F.log_softmax(self.out(F.relu(self.b(x)).flatten(1)), 1)


class Means(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.register_buffer("start", torch.randn(4, 3))

    def forward(self, x):
        c = self.start
        for _ in range(self.steps):
            near = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)
            n = torch.zeros(4).index_add(0, near, torch.ones(x.shape[0]))
            c = torch.zeros(4, 3).index_add(0, near, x) / n.clamp(min=1)[:, None]
        return c, near


class First(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)[0]


class Conv3d(nn.Module):
    def forward(self, x, w):
        return F.conv3d(x, w)


class Products(nn.Module):
    """Products of all kinds of operands: turned, broadcast, thin, long, of vectors, of none."""

    def __init__(self):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(37, 21)), nn.Parameter(torch.randn(21, 300))

    def forward(self, a, b, x):
        h = a @ self.w  # 5 x 37
        return (h, h @ self.v, F.linear(a, self.w.t()), a @ a.t(), a[:, :3].t() @ a, torch.bmm(b, b.mT), b @ a.t(), b.mT @ b[0], a[0] @ self.w,
                a @ a[1], a[0].dot(a[1]), torch.mv(a, x), F.linear(x, self.w.t()), torch.addmm(x[:21], a, self.w), torch.addmm(a[:, :1], a, self.w),
                a[:, :0] @ self.w[:0], b[:0] @ self.w, torch.addmv(a[:, 0], a, x), torch.baddbmm(b[:, :1], b, b.mT @ b))


class Factors(nn.Module):
    """Products with factors, of which some are 1 or 0, and the sum of a batch of products."""

    def forward(self, c, a, b, v, n):
        wide, x, y = n.expand(3, 4, 5), a.expand(3, 4, 6), b.expand(3, 6, 5)
        return (torch.addmm(c, a, b, beta=2, alpha=3), torch.addmm(v, a, b, beta=0.5), torch.addmm(n, a, b, alpha=-1.5),
                torch.addmm(n / 0, a, b, beta=0, alpha=2), torch.addmv(c[:, 0], a, b[:, 0], beta=-1, alpha=0.25), torch.baddbmm(wide, x, y, beta=0.3, alpha=0.7),
                torch.baddbmm(wide / 0, x, y, beta=0), torch.addbmm(c, x, y), torch.addbmm(c, x, y, beta=2, alpha=0.1), torch.addr(c, a[:, 0], v, beta=2, alpha=3))


class Convolutions(nn.Module):
    """Images with many and few places, groups, strides, padding, dilation, and layouts."""

    def __init__(self):
        super().__init__()
        self.w, self.g, self.d = (nn.Parameter(torch.randn(*s)) for s in ((13, 6, 3, 3), (12, 2, 2, 3), (6, 1, 3, 3)))
        self.bias = nn.Parameter(torch.randn(13))

    def forward(self, x):
        y = x[..., 1::2, :]
        return (F.conv2d(x, self.w, self.bias), F.conv2d(x, self.w, self.bias, 3, 1), F.conv2d(x, self.w, None, (1, 2), (2, 0), (2, 1)),
                F.conv2d(x, self.g, self.bias[:12], groups=3), F.conv2d(x, self.d, None, 1, 1, groups=6), F.conv2d(x, self.d, None, 2, 1, groups=6),
                F.conv2d(x, self.d, None, 3, groups=6), F.conv2d(y, self.w[:, :, :1], self.bias, padding=(0, 1)), F.conv2d(y.mT, self.g, groups=3),
                F.conv2d(x.contiguous(memory_format=torch.channels_last), self.w, self.bias, padding=1),
                F.conv1d(x[:, :, 0], self.w[:, :, 0], self.bias, padding=1), F.conv1d(x[:, :, 0], self.d[:, :, 0], groups=6))


class Windows(nn.Module):
    """Convolutions of drawn geometries: groups of one channel, strides, padding, dilation, rows that fill vectors and that do not."""

    def __init__(self, count=24):
        super().__init__()
        draw, self.forms, self.ws, self.images = random.Random(7), [], nn.ParameterList(), []
        for _ in range(count):
            group, groups = draw.choice(((1, 5), (2, 2), (3, 1), (5, 1)))
            results = draw.choice((1, 1, 2, 4, 13))
            window, stride, dilation = ([draw.choice(c) for _ in range(2)] for c in ((1, 2, 3, 5), (1, 1, 2, 3, 5), (1, 1, 2)))
            padding = [draw.choice((0, 1, 2, 3)) for _ in range(2)]
            size = [max(draw.choice((1, 4, 8, 14, 16, 35, 70)), (w - 1) * d + 1 - 2 * p) for w, d, p in zip(window, dilation, padding)]
            self.ws.append(nn.Parameter(torch.randn(results * groups, group, *window)))
            self.images.append((group * groups, *size))
            self.forms.append((nn.Parameter(torch.randn(results * groups)) if draw.random() < 0.5 else None, stride, padding, dilation, groups))

    def forward(self, x):
        return tuple(F.conv2d(x[:, :c * h * w].view(-1, c, h, w), weight, *form) for weight, form, (c, h, w) in zip(self.ws, self.forms, self.images))


class Lines(nn.Module):
    """Sums, products and softmax of rows of each length up to a block, and argmax of few columns."""

    LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 1000, 1023, 1024, 1025)

    def forward(self, x):
        rows = [x[:, :n].contiguous() for n in self.LENGTHS]
        return (*(r.sum(1) for r in rows), *(r.prod(1) for r in rows), *(r.softmax(1) for r in rows[::4]), *(r.argmax(1) for r in rows[:9]))


class Pictures(nn.Module):
    """Convolutions of weights of their own: results, places and terms that fill tiles and that do not."""

    FORMS = (((4, 8, 3), {"padding": 1}), ((4, 30, 3), {"stride": 2, "padding": 1}), ((4, 13, 1), {}), ((4, 33, 3), {"padding": (0, 2), "dilation": 2}),
             ((4, 7, 5), {"stride": 3}), ((4, 24, (1, 3)), {"padding": (0, 1), "bias": False}))

    def __init__(self):
        super().__init__()
        self.of = nn.ModuleList(nn.Conv2d(*args, **more) for args, more in self.FORMS)
        self.deep = nn.Conv2d(70, 14, 3, padding=1)

    def forward(self, x, y, z):
        return [f(x) for f in self.of] + [self.deep(y), self.of[0](z[:, :, :, ::2])]


class ManyTransposed(nn.Module):
    """Transposed convolutions to many channels: columns of their products are channels."""

    def __init__(self):
        super().__init__()
        self.w, self.g = nn.Parameter(torch.randn(6, 41, 3, 3)), nn.Parameter(torch.randn(6, 9, 2, 3))
        self.bias = nn.Parameter(torch.randn(41))

    def forward(self, x):
        w, y = self.w, x[..., :7]
        return (F.conv_transpose2d(x, w, self.bias), F.conv_transpose2d(x, w, None, 2, 1, 1), F.conv_transpose2d(y, w, self.bias, (1, 3), (2, 0), (0, 2), 1, (2, 1)),
                F.conv_transpose2d(y, self.g, self.bias[:27], 2, groups=3), F.conv_transpose2d(y, w[:, :16]), F.conv_transpose2d(y.mT, w[:, :17], None, 2),
                F.conv_transpose2d(y.contiguous(memory_format=torch.channels_last), w[:, :33], None, 1, 1), F.conv_transpose2d(y[:0], w))


class Transposed(nn.Module):
    """Transposed convolutions: groups, strides, padding, dilation, output padding, one dim, and a layout."""

    def __init__(self):
        super().__init__()
        self.w, self.g, self.d = (nn.Parameter(torch.randn(*s)) for s in ((6, 5, 3, 3), (6, 2, 2, 3), (6, 1, 3, 3)))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x):
        return (F.conv_transpose2d(x, self.w, self.bias[:5]), F.conv_transpose2d(x, self.w, None, 2, 1, 1), F.conv_transpose2d(x, self.w, None, (1, 3), (2, 0), (0, 2), 1, (2, 1)),
                F.conv_transpose2d(x, self.g, self.bias, 2, groups=3), F.conv_transpose2d(x, self.d, None, 1, 1, groups=6),
                F.conv_transpose2d(x.contiguous(memory_format=torch.channels_last), self.w, self.bias[:5], 2),
                F.conv_transpose2d(x.mT, self.w.mT), F.conv_transpose1d(x[:, :, 0], self.w[:, :, 0], self.bias[:5], 2, 1))


class Resampled(nn.Module):
    def forward(self, x):
        return (F.interpolate(x, scale_factor=2), F.interpolate(x, (3, 20), mode="nearest-exact"), F.interpolate(x, scale_factor=2, mode="bilinear"),
                F.interpolate(x, (13, 4), mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=1.5, mode="bicubic"),
                F.interpolate(x, (5, 5), mode="bilinear", antialias=True), F.interpolate(x[:, 0], 11, mode="linear"), F.interpolate(x.mT, scale_factor=2))


class Words(nn.Module):
    """Functions of float32 for which the file has words."""

    def forward(self, x):
        y = x.abs() + 0.5
        return (x.exp(), x.expm1(), x.sigmoid(), x.tanh(), y.log(), y.log1p(), x.erf(), F.gelu(x), F.silu(x), x.floor(), x.ceil(),
                x.trunc(), x.round(), x.sign(), y.sqrt(), y.rsqrt(), y.reciprocal(), torch.maximum(x, y), torch.minimum(x, -y),
                x.relu(), x.clamp(-1, 1), F.softplus(x), F.hardswish(x), F.leaky_relu(x), torch.where(x > 0, x, y), (x > 0) & (y < 2))


class MoreWords(nn.Module):
    """Quotients, remainders, tests and functions of the C library, of floats, doubles and integers of all widths."""

    def forward(self, x, y, i, j):
        n, m = i % 9 + 1, j % 5 - 7
        real = [f for a, b in ((x, y), (x.double(), y.double())) for f in (
            a % b, torch.fmod(a, b), a // b, a.isinf(), a.isfinite(), a.signbit(), torch.nextafter(a, b), a.nan_to_num(0.5, 2.0, -3.0),
            torch.isclose(a, b), torch.frexp(a)[0], torch.copysign(a, b), a.remainder(0.7), a // -0.3, torch.div(a, b, rounding_mode="trunc"))]
        whole = [f for t in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8) for a, b in ((i.to(t), n.to(t)), (i.to(t), m.to(t) | 1)) for f in (
            a // b, a % b, torch.fmod(a, b), a << b, a >> b, a.sign(), a ** n.to(t), torch.div(a, b, rounding_mode="trunc"))]
        numbers = [f for t in (torch.int16, torch.int8, torch.uint8) for a in (i.to(t),) for f in (a - 1, 255 - a, a * 3, a.clamp(2, 100), a // 2)]
        return (*real, *whole, *numbers, torch.hypot(x, y), x.logit(0.1))


class Folds(nn.Module):
    def forward(self, x):
        return (x.sum(1), x.sum(0), x.sum(), x.mean((0, 1)), x.prod(1), x.amax(0), x.amin(1), x.argmax(1), x.max(0)[1], x.var(1), x.std(0),
                x.logsumexp(1), x.softmax(0), x.log_softmax(1), (x > 0).any(1), (x > 0).sum(0), x.norm())


class Pools(nn.Module):
    def forward(self, x):
        return (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool1d(x[:, 0], 3),
                F.adaptive_avg_pool2d(x, (2, 4)), F.max_pool2d(x, 3, 2, 1), F.max_pool1d(x[:, 1], 2), F.adaptive_max_pool2d(x, 3))


class Greatest(nn.Module):
    """Greatest elements of windows, with and without their places: windows of one element, of rows longer than 64, of
    infinities and NaN only."""

    def forward(self, x):
        x = torch.cat([x, x[:, :, :4] * float("-inf"), x[:, :, :4] * float("nan")], 2)
        return (*(F.max_pool2d(x, n, step, n // 2) for n in (1, 2, 3) for step in (1, 2, 3)), *F.max_pool2d(x, 3, 2, 1, return_indices=True))


class Sums(nn.Module):
    """Sums at places that several elements have, of values that are broadcast and of others."""

    def forward(self, i, x, v):
        return (torch.zeros(5).scatter_add(0, i, torch.ones(()).expand(6)), torch.zeros(5).index_add(0, i, v.expand(6)),
                torch.zeros(5, 3).index_add(0, i, v.expand(6, 3)), torch.zeros(5, 3).index_add(0, i, x[:, :1].expand(6, 3)),
                torch.zeros(5, 3).index_add(0, i, x[1].expand(6, 3)), torch.zeros(5).index_put((i,), v[0], accumulate=True),
                torch.zeros(5, 3).index_put((i,), x[0], accumulate=True), torch.ones(5, 3).index_add(0, i, x),
                torch.ones(3, 5).index_add(1, i, x.t()), torch.zeros(5, 3).scatter_add(0, i[:, None].expand(6, 3), x),
                torch.zeros(5, dtype=torch.float64).index_add(0, i, v.double().expand(6)))


class Adds(nn.Module):
    def __init__(self, places):
        super().__init__()
        self.places = places

    def forward(self, i, x):
        return torch.zeros(self.places, 2).index_add(0, i, x), torch.zeros(2, 2).index_add(0, (i > 300).long(), x)


class Rows(nn.Module):
    """Sums at places of whole rows, of parts whose places are apart, and of more elements than a block of a column has."""

    def forward(self, i, x, y):
        wide = torch.zeros(9, 33).index_add(0, i, x)
        apart = torch.zeros(3, 40, 50).scatter_add(2, (y > 0).long() + i[:20].abs(), y)
        return (wide, torch.zeros(700, 33).index_add(0, i * 80, x), torch.zeros(2, 33).index_add(0, i.clamp(max=1), x), apart,
                torch.zeros(3, 40, 50).scatter_add(1, i[None, :20, None].expand(3, 20, 20), y[:, :20, :20].contiguous()),
                torch.ones(33, 9).index_add(1, i, x.t()), torch.zeros(2).index_add(0, i.clamp(max=1), x[:, 0]),
                torch.zeros(9, 33, dtype=torch.float64).index_add(0, i, x.double()))


class Columns(nn.Module):
    """Sums and products of columns."""

    def forward(self, x):
        y = x.double()
        return (x.sum(0), (x * x + 1).sum(0), x.prod(0), x.mean(0), (x - x.sum(0)).sum(0), y.sum(0), y.prod(0), x.sum(0) * x.prod(0), x[:, None].sum(0),
                x[None].expand(2, *x.shape).sum(1), x.t().sum(1))


class Chains(nn.Module):
    """Elementwise calls that pass on many elements: of one length, with numbers of tensors between them, with writes, and views of one buffer."""

    def forward(self, x, y):
        a = x * 2 + y
        n = y[0] * 3
        b = (a.abs() + n).sqrt() / (a * a + 1)
        c = b.clone()
        c.mul_(0.5).addcmul_(a, b).add_(n * n)
        whole = torch.cat([x, y])
        whole[:5000].add_(y)
        whole[1:5001].mul_(2)
        whole[3000:8000].add_(x)
        whole[:1].add_(whole[1:2])
        return b, c, c[0] - n, whole, (c > 0) & (a < n), torch.zeros(5000) + n, c.double().lerp(a.double(), 0.25), c.flip(0) + c


class Nothing(nn.Module):
    """A parameter and inputs behind an input without elements, which also is that of transposed convolutions to many channels."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 3))

    def forward(self, nothing, x, w):
        return x * 2, x @ self.w, x.sum(0), F.conv_transpose2d(nothing, w), nothing + 1


class Bounds(nn.Module):
    """Numbers whose bits are those of the least integer."""

    def forward(self, x):
        return (x.double() + -0.0, torch.full((3,), -0.0, dtype=torch.float64) * x.double(), torch.full((3,), -2**63) + x.long(),
                torch.full((3,), 2**63 - 1) - x.long(), torch.full((3,), -2**31 - 1) + x.long())


class Kinds(nn.Module):
    """Conversions that name a device, too, which programs of type_as and to(other) do."""

    def forward(self, x, k):
        return k.type_as(x) * x, x.to(k), k.to("cpu", torch.float64) / 3, torch.zeros_like(x, device="cpu") + k, x.to(x.device, torch.int32)


class Picked(nn.Module):
    """Several index tensors: broadcast, of two widths, below 0, apart, and after whole dims; read, written, and added to."""

    def forward(self, x, i, j):
        k = i.int()
        ones = torch.ones(2, 2)
        return (x[i, j], x[j, k], x[i, :, j], x[:, i, j], x[i, j, j.t()], x[i[0], j[0, 0]], x[None, i, j], x.mT[i, :, j], x[i[:, :0], j[:, :0]],
                x.index_put((i, j), x[0, 0]), x.index_put((i, k, j), torch.tensor(2.0)), x.index_put((i, None, j), x[0, 0, :5]),
                torch.zeros(4, 5).index_put((i * 0, j * 0), x[0, :2, :2], accumulate=True),
                torch.ones(4, 5).index_put((i, j), ones, accumulate=True), torch.zeros(4, 5, dtype=torch.int16).index_put((i, j * 0), ones.short() * 9, accumulate=True),
                x.take(j), x.mT.take(i), x.put(j, x[:2, 0, :2]))


class Scans(nn.Module):
    """Sums, products and extremes so far, along each dim, of floats, doubles, integers and truths."""

    def forward(self, x):
        n = (x * 9).to(torch.int64)
        each = [f for d in range(x.ndim) for f in (
            x.cumsum(d), x.cumprod(d), *x.cummax(d), *x.cummin(d), n.cumsum(d), *n.cummax(d), (x > 0).cumsum(d), x.double().cumsum(d), n.cumprod(d),
            n.cumsum(d, dtype=torch.int8), *x.double().cummin(d))]
        return (*each, x.mT.cumsum(0), x.flip(0).cumsum(0).flip(0), x[:0].cumsum(0), x[0, 0].cumsum(0), *x[0, 0].cummax(0), x.mT.cummin(-1)[1])


class LogScans(nn.Module):
    """Logarithms of running sums of exponentials, which the C library computes, along each dim."""

    def forward(self, x):
        y = x.mT
        return (*(x.logcumsumexp(d) for d in range(3)), y.logcumsumexp(1), x.double().logcumsumexp(-1), x[:0].logcumsumexp(0), x[0, 0, 0].logcumsumexp(0))


class Combined(nn.Module):
    """Extremes, products, means and integer sums at places, and parts of tensors that are replaced."""

    def forward(self, x, i, y):
        n, m = (x * 9).long(), (y * 9).long()
        kinds = [(how, own) for how in ("sum", "prod", "amin", "amax", "mean") for own in (True, False)]
        forms = [(x, y, kinds), (n, m, kinds), (x.double(), y.double(), kinds[2::3]), (n.int(), m.int(), kinds[::4])]
        reduced = [a.scatter_reduce(0, i, b, how, include_self=own) for a, b, each in forms for how, own in each]
        return (*reduced, x.scatter(0, i, 2.0, reduce="multiply"), x.slice_scatter(y[:2] * 2, 0, 1, 5, 2),
                x.select_scatter(y[0], 0, 3), x[:4, :4].diagonal_scatter(y[0, :4]), torch.diag_embed(y[:2]), torch.diagflat(y[0]),
                (x > 0).scatter_reduce(0, i, y > 0, "sum"))


def lstm():
    return First(nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True))


def special(x):
    """NaN, infinities and zeros of both signs among the elements."""
    for k, value in enumerate((0.0, -0.0, float("nan"), float("inf"), -0.0, 0.0)):
        if x.numel() > 7 * k + 30:
            x.view(-1)[7 * k + 3] = value
    return x


# name: (module, arguments, whether it has products)
MODELS = {
    "words": (Words, lambda: (torch.cat([torch.randn(61) * 3, torch.tensor([0.0, -0.0, 88.9, -88.9, -103.9, 1e-30, float("inf"), float("nan")])]),), False),
    "more words": (MoreWords, lambda: (special(torch.randn(300) * 4), special(torch.randn(300) * 2), torch.randint(-2**40, 2**40, (300,)), torch.randint(-99, 99, (300,))), False),
    "folds": (Folds, lambda: (torch.randn(70, 33),), False),
    "long rows": (Folds, lambda: (torch.randn(3, 20000),), False),
    "long columns": (Folds, lambda: (torch.randn(1300, 3),), False),
    "means": (lambda: Means(3), lambda: (torch.randn(50, 3),), False),
    "sums": (Sums, lambda: (torch.tensor([1, 1, 3, 1, 0, 3]), torch.randn(6, 3), torch.tensor([2.7])), False),
    "sums of many": (lambda: Adds(700), lambda: (torch.randint(0, 700, (3000,)), torch.randn(3000, 2)), False),
    "sums of rows": (Rows, lambda: (torch.randint(0, 9, (1200,)), torch.randn(1200, 33), torch.randn(3, 40, 20)), False),
    **{f"columns of {n} x {m}": (Columns, (lambda n, m: lambda: (torch.randn(n, m) * 1.1,))(n, m), False)
       for n, m in ((1, 1), (5, 1), (63, 17), (64, 16), (70, 50), (512, 3), (513, 33), (1500, 20), (0, 5))},
    "chains": (Chains, lambda: (torch.randn(5000), torch.randn(5000)), False),
    "an input without elements": (Nothing, lambda: (torch.randn(0, 3, 4, 5), torch.randn(5, 4), torch.randn(3, 9, 2, 2)), True),
    "bounds": (Bounds, lambda: (torch.tensor([-0.0, 1, 2]),), False),
    "picked": (Picked, lambda: (torch.randn(4, 5, 6), torch.tensor([[1, -2]]), torch.tensor([[0, 3], [-1, 2]])), False),
    **{f"scans of {n} x {m}": (Scans, (lambda n, m: lambda: (special(torch.randn(n, m) * 1.3),))(n, m), False)
       for n, m in ((1, 1), (17, 16), (300, 40), (5000, 2))},
    "scans of 3 x 20 x 35": (Scans, lambda: (torch.randn(3, 20, 35),), False),
    "scans of logarithms": (LogScans, lambda: (special(torch.randn(3, 5, 40) * 20),), False),
    "combined": (Combined, lambda: (special(torch.randn(5, 6)), torch.randint(0, 5, (40, 6)), torch.randn(40, 6)), False),
    "embedding": (lambda: nn.Embedding(7, 3), lambda: (torch.tensor([1, 2, 0, 6]),), False),
    "kinds": (Kinds, lambda: (torch.randn(4, 3) * 9, torch.arange(12).view(4, 3)), False),
    "norms": (lambda: nn.Sequential(nn.LayerNorm(8), nn.Softmax(-1), nn.RMSNorm(8)), lambda: (torch.randn(3, 5, 8),), False),
    "turned": (lambda: nn.Flatten(), lambda: (torch.randn(3, 5, 8),), False),
    "pools": (Pools, lambda: (torch.randn(2, 3, 7, 9),), False),
    "greatest": (Greatest, lambda: (special(torch.randn(2, 2, 6, 150)),), False),
    "products": (Products, lambda: (torch.randn(5, 37), torch.randn(3, 4, 37), torch.randn(37)), True),
    "products of float64": (lambda: Products().double(), lambda: (torch.randn(5, 37).double(), torch.randn(3, 4, 37).double(), torch.randn(37).double()), True),
    "factors": (Factors, lambda: (torch.randn(4, 5), torch.randn(4, 6), torch.randn(6, 5), torch.randn(5), torch.randn(1)), True),
    "convolutions": (Convolutions, lambda: (torch.randn(2, 6, 9, 24),), True),
    "pictures": (Pictures, lambda: (torch.randn(2, 4, 11, 14), torch.randn(1, 70, 7, 7), torch.randn(1, 4, 11, 28)), True),
    "small pictures": (Pictures, lambda: (torch.randn(1, 4, 7, 7), torch.randn(2, 70, 3, 3), torch.randn(1, 4, 7, 14)), True),
    "windows": (Windows, lambda: (torch.randn(2, 25000),), True),
    "lines": (Lines, lambda: (torch.randn(5, 1025) * 1.1,), False),
    "transposed convolutions": (Transposed, lambda: (torch.randn(2, 6, 5, 70),), True),
    "transposed convolutions to many channels": (ManyTransposed, lambda: (torch.randn(2, 6, 5, 70),), True),
    "resampled": (Resampled, lambda: (torch.randn(2, 3, 6, 9),), False),
    "convolutions of float64": (lambda: Convolutions().double(), lambda: (torch.randn(2, 6, 9, 24).double(),), True),
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1)),
                   lambda: (torch.randn(2, 8),), True),
    "digits": (Digits, lambda: (torch.randn(2, 1, 14, 14),), True),
    "lstm": (lstm, lambda: (torch.randn(2, 3, 4),), True),
    "gru": (lambda: First(nn.GRU(4, 5)), lambda: (torch.randn(3, 2, 4),), True),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"), lambda: (torch.randn(2, 3, 8),), True),
    "picture": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
                lambda: (torch.randn(1, 3, 6, 6),), True),
}


# Programs of many kernels, which compilers take long for; test_rt.py runs the same programs.
SLOW = {"scans of 1 x 1", "scans of 3 x 20 x 35", "scans of 17 x 16", "scans of 5000 x 2"}


def equal_bits(a, b):
    same = a == b
    return bool((same | (a.isnan() & b.isnan()) if a.is_floating_point() else same).all()) and \
        (not a.is_floating_point() or bool((a.signbit() == b.signbit())[~a.isnan()].all()))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.full) if n in SLOW or "float64" in n else n for n in MODELS])
def test_results(name, tmp_path):
    if not COMPILERS:
        pytest.skip("no C compiler")
    make, arguments, products = MODELS[name]
    torch.manual_seed(0)
    module, args = make().eval(), arguments()
    with torch.no_grad():
        want = module(*args)
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    text = to_c(export(module, args))
    assert not re.search(r"\b(malloc|calloc|realloc|free|printf)\b", text)
    for compiler in COMPILERS:
        rc, got = run_file(tmp_path, text, args, want, compiler, SANITIZED if compiler == "gcc" else [])
        assert rc == 0
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            if products or not EXACT:
                double = b.dtype == torch.float64
                assert torch.allclose(a.double(), b.double(), rtol=1e-12 if double else 1e-4, atol=1e-12 if double else 2e-5, equal_nan=True), k
            else:
                assert equal_bits(a, b), (k, a, b)


# Sums of 37 products by the C library's fused multiply-add, then the bias.
FUSED = """#include <math.h>
#include <stdio.h>
static float x[5 * 37], w[20 * 37], b[20];
int main(void)
{
    int i, j, k;
    if (fread(x, 4, 185, stdin) != 185 || fread(w, 4, 740, stdin) != 740 || fread(b, 4, 20, stdin) != 20)
        return 1;
    for (i = 0; i < 5; i++)
        for (j = 0; j < 20; j++) {
            float sum = 0;
            for (k = 0; k < 37; k++)
                sum = fmaf(x[i * 37 + k], w[j * 37 + k], sum);
            sum += b[j];
            fwrite(&sum, 4, 1, stdout);
        }
    return 0;
}
"""


@pytest.mark.skipif(not EXACT or not COMPILERS, reason="needs a processor with fused multiply-adds and a C compiler")
def test_fused_products_have_one_result(tmp_path):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.turned, self.many = nn.Linear(37, 20), nn.ConvTranspose2d(6, 5, 2, 2), nn.ConvTranspose2d(6, 41, 3, 2, 1)
            self.ways = nn.ModuleList([nn.Conv2d(6, 20, 3, padding=1), nn.Conv2d(6, 3, 3, 2), nn.Conv2d(6, 12, 3, groups=6), nn.Conv2d(6, 16, (6, 21))])

        def forward(self, x, y):
            return self.linear(x), self.turned(y), self.many(y), *(f(y) for f in self.ways)

    torch.manual_seed(0)
    module, args = Both(), (torch.randn(5, 37), torch.randn(1, 6, 9, 24))
    with torch.no_grad():
        want = module(*args)
    text, (first, *others) = to_c(export(module, args)), [(c, f) for c in COMPILERS for f in (["-O1", "-mfma"], ["-O3", "-march=native"], [])]
    _, fused = run_file(tmp_path, text, args, want, first[0], ["-DMODEL_FUSED", *first[1]])
    for compiler, flags in others:
        _, got = run_file(tmp_path, text, args, want, compiler, ["-DMODEL_FUSED", *flags])
        assert all(equal_bits(a, b) for a, b in zip(got, fused, strict=True)), (compiler, flags)
    plain = [run_file(tmp_path, text, args, want, *first)[1] for first in others]
    assert all(equal_bits(a, b) for more in plain[1:] for a, b in zip(more, plain[0], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(plain[0], fused, strict=True))
    (tmp_path / "fused.c").write_text(FUSED)
    subprocess.run([COMPILERS[0], "fused.c", "-lm", "-o", "fused"], cwd=tmp_path, check=True)
    data = b"".join(x.detach().numpy().tobytes() for x in (args[0], module.linear.weight, module.linear.bias))
    read = subprocess.run(["./fused"], input=data, cwd=tmp_path, capture_output=True, check=True).stdout
    assert equal_bits(fused[0], torch.frombuffer(bytearray(read), dtype=torch.float32).view(5, 20))


def test_weights_in_a_file(tmp_path):
    if not COMPILERS:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), torch.randn(4, 3)
    text = to_c(export(module, (x,)), tmp_path / "model.c", weights="file")
    assert (tmp_path / "model.c").read_text() == text and "const void *weights" in text
    data = (tmp_path / "model.c.weights").read_bytes()
    (tmp_path / "weights").write_bytes(data)
    assert len(data) == 16 * 3 * 4 + 32 + 16 * 5 * 4 + 16  # matrices as panels of 16 columns
    rc, (got,) = run_file(tmp_path, text, (x,), [torch.empty(4, 2)], COMPILERS[0], [], weights=len(data))
    with torch.no_grad():
        assert rc == 0 and torch.allclose(got, module(x), atol=1e-6)


def test_parameters_that_wait_for_deferred_calls_are_printed():
    torch.manual_seed(0)
    first, x = torch.randn(2, 3), torch.randn(4, 3)
    with torch.lazy():
        module = nn.Linear(3, 2, bias=False)
        module.weight.data = first * 2
        text = to_c(export(module, (x + 1,)))
    module.weight.data = torch.tensor((first * 2).tolist())
    assert text == to_c(export(module, (x,)))


STEPS = """#include <stdio.h>
#include <stdint.h>
#include <stddef.h>
%(head)s
static double memory[%(states)d + 2][65536];
int main(void)
{
    unsigned char *work = (unsigned char *)memory[%(states)d], out[4096];
    static unsigned char in[%(inputs)d + 1][8192];
    int k;

    if (model_work_bytes() > sizeof memory[0] * 2)
        return 2;
    model_start(%(start)s);
    for (k = 0; k < %(steps)d; k++) {
%(reads)s
        if (model_run(%(run)s) || fwrite(out, 1, %(bytes)d, stdout) != %(bytes)d)
            return 1;
    }
    return 0;
}
"""


def run_steps(folder, text, steps, result, compiler, flags):
    """The result of each call of the file's function, whose states start with their first values."""
    (folder / "model.c").write_text(text)
    signs = {n: re.search(rf"^(?:void|int) model_{n}\(([^;{{]*)\);", text, re.M)[1].split(",") for n in ("start", "run")}
    names = {n: [x.split("*")[1] for x in signs[n]] for n in signs}
    states = {x: f"(void *)memory[{k}]" for k, x in enumerate(names["start"])}
    inputs = [x for x in names["run"] if x.startswith("in_")]
    for k in range(len(inputs)):
        (folder / f"in{k}").write_bytes(b"".join(bytes(step[k].contiguous().view(-1).view(torch.uint8).tolist()) for step in steps))
    reads = "".join(f'        {{ FILE *f = fopen("in{k}", "rb"); if (!f || fseek(f, k * {x.numel() * x.element_size()}L, SEEK_SET) || '
                    f'fread(in[{k}], 1, {x.numel() * x.element_size()}, f) == 0) return 3; fclose(f); }}\n' for k, x in enumerate(steps[0]))
    call = [states.get(x) or ("work" if x == "work" else "(void *)out" if x == "out0" else f"(void *)in[{inputs.index(x)}]") for x in names["run"]]
    head = "\n".join(re.findall(r"^(?:size_t|int|void) model_\w+\([^{;]*\);", text, re.M))
    (folder / "main.c").write_text(STEPS % {
        "head": head, "states": len(states), "inputs": len(inputs), "start": ", ".join(states.values()), "steps": len(steps), "reads": reads,
        "run": ", ".join(call), "bytes": result.numel() * result.element_size()})
    built = subprocess.run([compiler, *FLAGS, *flags, "-c", "model.c"], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0 and built.stderr == "", built.stderr
    subprocess.run([compiler, "-std=c11", *flags, "main.c", "model.o", "-lm", "-o", "main"], cwd=folder, check=True)
    ran = subprocess.run(["./main"], cwd=folder, capture_output=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    assert ran.returncode == 0 and ran.stderr == b"", ran.stderr
    return torch.frombuffer(bytearray(ran.stdout), dtype=result.dtype).view(len(steps), *result.shape)


class Memory(nn.Module):
    """A buffer that each call writes, and another one that counts calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(5, 3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.w = nn.Linear(3, 3)

    def forward(self, x, at):
        self.keys.index_copy_(0, at, self.w(x))
        self.calls += 1
        return (self.keys @ x[0]).softmax(0) * self.calls


@pytest.mark.parametrize("functional", [False, True])
def test_states(functional, tmp_path):
    if not COMPILERS:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    module = Memory().eval()
    steps = [(torch.randn(1, 3), torch.tensor([k % 5])) for k in range(7)]
    program = export(module, steps[0])
    text = to_c(program.run_decompositions() if functional else program)
    assert not module.keys.any() and "float *state_" in text
    got = run_steps(tmp_path, text, steps, torch.zeros(5), COMPILERS[0], SANITIZED)
    with torch.no_grad():
        want = torch.stack([module(*step) for step in steps])
    assert torch.allclose(got, want, atol=1e-6)


class Loss(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, y):
        return F.cross_entropy(self.module(x), y)


OPTIMIZERS = {"Adam": (True, torch.optim.Adam), "AdamW": (lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),) * 2,
              "SGD": (lambda p: torch.optim.SGD(p, 0.1),) * 2,
              "momentum": (lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.1, nesterov=True),) * 2,
              "maximize": (lambda p: torch.optim.SGD(p, 0.01, 0.5, maximize=True),) * 2}


class Convolved(nn.Module):
    """Convolutions whose weights and images have gradients: strides, padding, groups, a transposed one, and resampling."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 4, 3, 2, 1, groups=2)
        self.up, self.out = nn.ConvTranspose2d(4, 3, 2, 2), nn.Linear(3, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        x = F.interpolate(self.up(F.relu(self.b(x))), scale_factor=2, mode="bilinear")
        return self.out(x.mean((2, 3)))


class Channels(nn.Module):
    """Convolutions of many channels whose weights and images have gradients: strides, padding, dilation, groups, and rows of many places."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(1, 9, 3, padding=1), nn.Conv2d(9, 41, 3, (2, 1), 1), nn.Conv2d(41, 16, (2, 3), (1, 3), (1, 2), (1, 2))
        self.d, self.out = nn.Conv2d(16, 6, 2, 2, groups=2), nn.Linear(6, 3)

    def forward(self, x):
        x = torch.tanh(self.b(torch.tanh(self.a(x))))
        return self.out(self.d(torch.tanh(self.c(x))).mean((2, 3)))


TRAINED = {
    "channels": (Channels, lambda: torch.randn(5, 1, 3, 70)),
    "convolutions": (Convolved, lambda: torch.randn(5, 2, 12, 12)),
    "strides": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1), nn.Tanh(), nn.ConvTranspose2d(4, 2, 3, 2, groups=2), nn.Flatten(), nn.Linear(98, 3)),
                lambda: torch.randn(5, 2, 6, 6)),
    "perceptron": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)), lambda: torch.randn(5, 6)),
    "recurrent": (lambda: nn.Sequential(First(nn.LSTM(6, 20)), First(nn.GRU(20, 3))), lambda: torch.randn(5, 2, 6)[:, 0]),
    "words": (lambda: nn.Sequential(nn.Embedding(7, 4), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(12, 3)),
              lambda: torch.randint(0, 7, (5, 3))),
}


@pytest.mark.parametrize("model, name", [
    pytest.param(m, n, marks=[pytest.mark.full] if n == "AdamW" or m == "words" or (n != "Adam" and m != "perceptron") else [])
    for m in TRAINED for n in OPTIMIZERS])
def test_training(model, name, tmp_path):
    """Losses of 20 steps are those of the same steps here."""
    if not COMPILERS:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    (make, example), (training, optimizer) = TRAINED[model], OPTIMIZERS[name]
    module = Loss(make())
    steps = [(example(), torch.randint(0, 3, (5,))) for _ in range(20)]
    text = to_c(export(module, steps[0]), training=training)
    got = run_steps(tmp_path, text, steps, torch.zeros(()), COMPILERS[0], SANITIZED if name == "AdamW" else [])
    trained, want = optimizer(module.parameters()), []
    for step in steps:
        trained.zero_grad()
        loss = module(*step)
        loss.backward()
        trained.step()
        want.append(loss.detach())
    assert torch.allclose(got, torch.stack(want), rtol=1e-5, atol=0)
    assert not torch.allclose(got[:1].expand(20), got, rtol=1e-4)


class Partly(nn.Module):
    """A loss of two layers."""

    def __init__(self, frozen):
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)
        self.a.requires_grad_(not frozen)

    def forward(self, x, y):
        return F.cross_entropy(self.b(self.a(x).tanh()), y)


@pytest.mark.parametrize("frozen", [True, False])
def test_only_parameters_of_the_optimizer_are_trained(frozen, tmp_path):
    """The first layer requires no gradient, or was not given to the optimizer."""
    if not COMPILERS:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    module = Partly(frozen)
    choose = (lambda p: p) if frozen else (lambda p: p[2:])
    steps = [(torch.randn(6, 4), torch.randint(0, 3, (6,))) for _ in range(8)]
    text = to_c(export(module, steps[0]), training=lambda p: torch.optim.Adam(choose(p), 0.1))
    assert "state_p_a_weight" not in text and "state_p_b_weight_exp_avg" in text
    got = run_steps(tmp_path, text, steps, torch.zeros(()), COMPILERS[0], [])
    trained, want = torch.optim.Adam(choose(list(module.parameters())), 0.1), []
    for step in steps:
        trained.zero_grad()
        loss = module(*step)
        loss.backward()
        trained.step()
        want.append(loss.detach())
    assert torch.allclose(got, torch.stack(want), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adamax", "LBFGS", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SparseAdam"])
def test_other_optimizers_are_refused(name):
    program = export(Loss(nn.Linear(2, 3, bias=False)), (torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)))
    with pytest.raises(ValueError, match=f"training with {name} has no C99 form; Adam, AdamW and SGD have one"):
        to_c(program, training=getattr(torch.optim, name))


def test_steps_of_sgd_that_differ_are_refused():
    program = export(Loss(nn.Linear(2, 3, bias=False)), (torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)))

    class Mine(torch.optim.SGD):
        @staticmethod
        def _momentum(state, grad, momentum, group):
            return grad

    with pytest.raises(ValueError, match="training with SGD has no C99 form with dampening"):
        to_c(program, training=lambda p: torch.optim.SGD(p, 0.1, 0.9, 0.5))
    with pytest.raises(ValueError, match="training with Mine has no C99 form"):
        to_c(program, training=Mine)


class Shared(nn.Module):
    """Two buffers in one memory."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.register_buffer("whole", torch.zeros(3))
        self.register_buffer("part", self.whole[:2])

    def forward(self, x):
        if self.write:
            getattr(self, self.write).add_(1)
        return x + self.part + self.whole[1:]


@pytest.mark.parametrize("write", ["whole", "part"])
def test_written_buffers_with_shared_memory_are_refused(write):
    x = torch.zeros(2)
    assert "w_b_part" in to_c(export(Shared(None), (x,)))
    with pytest.raises(ValueError, match=f"writes {write}, which shares its memory with (whole|part)"):
        to_c(export(Shared(write), (x,)))


def test_what_training_cannot_do_is_refused():
    class Own(torch.optim.Adam):
        def step(self, closure=None):
            return None

    x, y = torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64)
    program = export(Partly(False), (x, y))
    with pytest.raises(ValueError, match="training with Own has no C99 form"):
        to_c(program, training=Own)
    with pytest.raises(ValueError, match="a tensor that is no parameter of the program"):
        to_c(program, training=lambda p: torch.optim.Adam([*p, torch.zeros(2, requires_grad=True)]))
    with pytest.raises(ValueError, match="needs a parameter that requires a gradient"):
        to_c(export(Partly(False).requires_grad_(False), (x, y)), training=True)


@pytest.mark.parametrize("n, k, m", [(0, 4, 3), (3, 4, 0), (0, 4, 0), (0, 0, 3), (3, 0, 4), (0, 4, 20), (20, 4, 0), (1, 4, 0), (0, 4, 1)])
def test_empty_products(n, k, m, tmp_path):
    if not COMPILERS:
        pytest.skip("no C compiler")

    class Product(nn.Module):
        def forward(self, x, y):
            return x @ y

    args = torch.ones(n, k), torch.ones(k, m)
    rc, (got,) = run_file(tmp_path, to_c(export(Product(), args)), args, [torch.empty(n, m)], COMPILERS[0], SANITIZED)
    assert rc == 0 and torch.equal(got, torch.zeros(n, m))


def test_an_index_out_of_range_is_reported(tmp_path):
    if not COMPILERS:
        pytest.skip("no C compiler")
    text = to_c(export(nn.Embedding(7, 3), (torch.tensor([1, 2]),)))
    for index, wanted in (([6, 0], 0), ([7, 0], 1), ([0, -1], 1)):
        assert run_file(tmp_path, text, (torch.tensor(index),), [torch.empty(2, 3)], COMPILERS[0], SANITIZED)[0] == wanted


class Lookup(nn.Module):
    """A buffer that each call writes at several indices."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(3, 4))

    def forward(self, i, j):
        self.table[i, j] = 7.0
        return self.table[i, j]


@pytest.mark.parametrize("compiler", COMPILERS[:1])
def test_several_indices_are_checked_before_anything_is_written(compiler, tmp_path):
    steps = [(torch.tensor([0, 2]), torch.tensor([3, -4])), (torch.tensor([0, -3]), torch.tensor([-1, 0]))]
    text = to_c(export(Lookup(), steps[0]))
    assert equal_bits(run_steps(tmp_path, text, steps, torch.zeros(2), compiler, SANITIZED), torch.full((2, 2), 7.0))
    for i, j in (([0, 3], [0, 0]), ([1, 0], [1, 4]), ([0, -4], [1, 1]), ([0, 0], [2, -5])):
        with pytest.raises(IndexError):
            Lookup()(torch.tensor(i), torch.tensor(j))
        bad = text.replace("int model_run(", "int run_checked(") + CHECKED
        assert run_steps(tmp_path, bad, [(torch.tensor(i), torch.tensor(j))], torch.zeros(2), compiler, SANITIZED).tolist() == [[1.0, 0.0]]


# A call of the file whose results are what it returns, and the sum of the table's elements.
CHECKED = """
int model_run(const int64_t *in_i, const int64_t *in_j, float *state_b_table, float *out0, void *work);
int model_run(const int64_t *in_i, const int64_t *in_j, float *state_b_table, float *out0, void *work)
{
    int k, rc = run_checked(in_i, in_j, state_b_table, out0, work);

    out0[0] = (float)rc;
    out0[1] = 0;
    for (k = 0; k < 12; k++)
        out0[1] += state_b_table[k];
    return 0;
}
"""


def test_threads_share_scans(tmp_path):
    """Rows that depend on each other are computed by one thread."""
    torch.manual_seed(0)
    x = torch.randn(3, 40, 300)
    want = list(Scans()(x))
    rc, got = run_file(tmp_path, in_parts(to_c(export(Scans(), (x,)), threads=True)), (x,), want, "gcc", SANITIZED)
    assert rc == 0 and all(equal_bits(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("module, args, words", [
    (Conv3d(), (torch.zeros(1, 2, 3, 3, 3), torch.zeros(2, 2, 1, 1, 1)), "calls convolution of three dims"),
    (First(nn.Identity()), ([torch.zeros(2, dtype=torch.complex64)],), "has complex64"),
])
def test_what_has_no_form_is_refused(module, args, words):
    with pytest.raises(ValueError, match=f"to_c: the program {words}"):
        to_c(export(module, args))


def functions(text):
    """The kernels of a file by their titles, and how often each is called."""
    found = re.findall(r"/\* (\w+) \*/\nstatic void (kernel_\d+)\((.*?)\n}\n", text, re.S)
    return {title: (body, text.count(f"({name}, p") + text.count(f" {name}(p")) for title, name, body in found}


def test_results_of_a_kernel_share_its_loop():
    """Values that several results need are computed once."""
    body, calls = functions(to_c(export(nn.LSTM(3, 4), (torch.randn(5, 2, 3),))))["_lstm_step"]
    assert (body.count("cv_sigmoid_f32("), body.count("cv_tanh_f32("), body.count("for ("), calls) == (3, 2, 2, 5)
    body, _ = functions(to_c(export(nn.LayerNorm(6), (torch.randn(5, 6),))))["_layer_norm"]
    assert (len(re.findall(r"const float r\d+ =", body)), body.count("for ("), body.count("CV_APART")) == (2, 4, 1)


def test_gradients_of_recurrent_layers_are_computed_once():
    for layer, title, steps in ((nn.LSTM, "_lstm_step_backward", 5), (nn.GRU, "_gru_step_backward", 5)):
        text = to_c(export(Loss(First(layer(3, 4))), (torch.randn(steps, 3), torch.zeros(steps, dtype=torch.int64))), training=True)
        assert functions(text)[title][1] == steps


def test_what_nothing_reads_is_not_computed():
    """Attention also gives logarithms of sums, which derivatives read, and pools the places of their results."""
    pool, x = nn.MaxPool2d(2), torch.randn(1, 1, 6, 6)
    assert "cv_greatest(" in to_c(export(pool, (x,))) and "cv_maxima(" not in to_c(export(pool, (x,)))
    assert "cv_maxima(" in to_c(export(nn.MaxPool2d(2, return_indices=True), (x,)))

    class Attention(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    text = to_c(export(Attention(), (torch.randn(1, 2, 5, 8),)))
    assert "/* _softmax */" in text and "/* log */" not in text


# --- parameters in halves ---

class Halves(nn.Module):
    """Parameters that products, convolutions, kernels and lookups read, also the same one, and one that is a part of a sum."""

    def __init__(self):
        super().__init__()
        self.e, self.a, self.n = nn.Embedding(20, 24), nn.Linear(24, 70), nn.LayerNorm(70)
        self.b, self.tied = nn.Linear(70, 18, bias=False), nn.Linear(24, 20, bias=False)
        self.tied.weight = self.e.weight
        self.w = nn.Parameter(torch.randn(3, 24, 9))
        self.c, self.d, self.t = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 18, 3, stride=2), nn.ConvTranspose2d(18, 4, 2, 2)
        self.register_buffer("k", torch.tensor([1e-9, 1e9]))

    def forward(self, i, x):
        h = self.e(i)
        y = self.b(self.n(self.a(h)))
        return y, self.tied(h) * self.k[0], torch.matmul(h, self.w), self.t(self.d(F.relu(self.c(x))))


def rounded(module, dtype):
    """A module with the parameters' values in a half dtype."""
    other = copy.deepcopy(module)
    with torch.no_grad():
        for p in other.parameters():
            p.copy_(p.to(dtype).float())
    return other


def in_parts(text):
    """A file that takes threads, with functions that compute three parts one after another."""
    text = text.replace("model_run(", "run_parts(").replace("model_work_bytes(", "parts_bytes(")
    parameters = re.search(r"^int run_parts\(([^{;]*), const model_threads \*threads\);", text, re.M)[1]
    arguments = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
    return text + f"""
static void each(void *context, void (*part)(void *argument, int k), void *argument, int parts)
{{
    int k;

    (void)context;
    for (k = 0; k < parts; k++)
        part(argument, k);
}}
size_t model_work_bytes(void);
size_t model_work_bytes(void) {{ return parts_bytes(3); }}
int model_run({parameters});
int model_run({parameters})
{{
    static const model_threads threads = {{NULL, 3, each}};

    return run_parts({arguments}, &threads);
}}
"""


@pytest.mark.parametrize("dtype, threads", [(torch.float16, False), (torch.bfloat16, False), (torch.float16, True)])
def test_halves_give_the_bits_of_rounded_parameters(dtype, threads, tmp_path):
    torch.manual_seed(3)
    module, args = Halves(), (torch.randint(0, 20, (1, 11)), torch.randn(1, 3, 9, 9))
    with torch.no_grad():
        module.a.weight[:4, 0] = torch.tensor([6e-8, -1e-7, 65504.0 if dtype == torch.float16 else 3e38, -0.0])
        module.a.weight[4, 1] = float("inf")
    want = rounded(module, dtype)(*args)
    found, sizes = [], []
    for k, (m, d) in enumerate([(module, dtype), (rounded(module, dtype), None)]):
        folder = tmp_path / str(k)
        folder.mkdir()
        text = to_c(export(m, args), folder / "file.c", dtype=d, weights="file", threads=threads)
        text = in_parts(text) if threads else text
        (folder / "file.c.weights").rename(folder / "weights")
        sizes.append((folder / "weights").stat().st_size)
        for compiler in COMPILERS[:1] if threads else COMPILERS:
            rc, got = run_file(folder, text, args, want, compiler, [] if k else SANITIZED, sizes[-1])
            assert rc == 0
            found.append(got)
    assert sizes[0] < 0.53 * sizes[1]
    assert all(equal_bits(a, b) for got in found for a, b in zip(got, found[-1]))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True) for a, b in zip(found[0], want))


def test_halves_in_the_file_and_what_they_cannot_hold():
    module = nn.Linear(3, 2)
    text = to_c(export(module, (torch.zeros(4, 3),)), dtype=torch.bfloat16)
    assert "static const uint16_t w_p_weight[] = {" in text and "static const float w_" not in text
    with torch.no_grad():
        module.weight[1, 2] = 7e4
    to_c(export(module, (torch.zeros(4, 3),)), dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="the parameter weight has 70000, which torch.float16 cannot hold"):
        to_c(export(module, (torch.zeros(4, 3),)), dtype=torch.float16)
    with pytest.raises(ValueError, match="dtype=torch.float16 is for parameters that the program only reads, and training writes them"):
        to_c(export(module, (torch.zeros(4, 3),)), dtype=torch.float16, training=True)
    doubles = to_c(export(nn.Linear(3, 2).double(), (torch.zeros(4, 3, dtype=torch.float64),)), dtype=torch.float16)
    assert "static const uint16_t" not in doubles and "static const double w_p_weight[]" in doubles


def test_bad_arguments():
    program = export(nn.Identity(), (torch.zeros(2),))
    with pytest.raises(ValueError, match="weights is 'array' or 'file', not 'both'"):
        to_c(program, weights="both")
    with pytest.raises(ValueError, match="weights='file' needs a path"):
        to_c(program, weights="file")
    for wrong in (nn.Identity(), None):
        with pytest.raises(TypeError, match="the program is an ExportedProgram, which torch.export.export makes, not"):
            to_c(wrong)
    with pytest.raises(TypeError, match="training is True, or a function of the parameters that returns an optimizer, not 3"):
        to_c(program, training=3)
    for wrong in ("float64", torch.float32, torch.int8, torch.zeros(2)):
        with pytest.raises(ValueError, match="dtype is None, torch.float16, torch.bfloat16 or torch.float64, not"):
            to_c(program, dtype=wrong)
    with pytest.raises(ValueError, match="'a b' is no name of C"):
        to_c(program, name="a b")
    with pytest.raises(ValueError, match="first result is the loss"):
        to_c(export(nn.Linear(2, 2), (torch.zeros(3, 2),)), training=True)
    with pytest.raises(ValueError, match="training with LBFGS has no C99 form"):
        to_c(export(nn.Linear(2, 2), (torch.zeros(3, 2),)), training=torch.optim.LBFGS)
