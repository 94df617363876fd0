"""The operators of torchvision, which the table has, against plain loops in NumPy."""
import math

import numpy
import pytest

import cresset as torch

ops = torch.ops.torchvision
FLOATS = torch.float32, torch.float64


# --- references: one element at a time ---

def rounded(x):
    """Half away from zero."""
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def interpolated(plane, y, x):
    """roi_align's sample: positions up to one element outside are moved to the border."""
    h, w = plane.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    i, j = int(y), int(x)
    k, n = min(i + 1, h - 1), min(j + 1, w - 1)
    v, u = y - i, x - j
    return ((1 - v) * (1 - u) * plane[i, j] + (1 - v) * u * plane[i, n] + v * (1 - u) * plane[k, j]
            + v * u * plane[k, n])


def align_reference(x, rois, scale, height, width, samples, aligned, sensitive=False):
    channels = x.shape[1] // (height * width) if sensitive else x.shape[1]
    out = numpy.zeros((len(rois), channels, height, width))
    shift = 0.5 if aligned else 0
    for (k, c, p, q), _ in numpy.ndenumerate(out):
        image, x1, y1, x2, y2 = rois[k]
        x1, y1, x2, y2 = (v * scale - shift for v in (x1, y1, x2, y2))
        h, w = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1), max(x2 - x1, 1))
        rows = samples if samples > 0 else math.ceil(h / height)
        columns = samples if samples > 0 else math.ceil(w / width)
        plane = x[int(image), (c * height + p) * width + q if sensitive else c]
        total = sum(interpolated(plane, y1 + p * h / height + (i + 0.5) * h / height / rows,
                                 x1 + q * w / width + (j + 0.5) * w / width / columns)
                    for i in range(rows) for j in range(columns))
        out[k, c, p, q] = total / (rows * columns if sensitive else max(rows * columns, 1))
    return out


def pool_windows(roi, scale, height, width, p, q, size, sensitive):
    """The rows and columns of a bin."""
    x1, y1, x2, y2 = (rounded(v * scale) for v in roi[1:])
    h, w = (max(b - a + (0 if sensitive else 1), 1) for a, b in ((y1, y2), (x1, x2)))
    def window(low, length, bins, i, n):
        last = n - 1 if sensitive else n
        first, end = math.floor(i * (length / bins)) + low, math.ceil((i + 1) * (length / bins)) + low
        return range(min(max(first, 0), last), min(max(end, 0), last))
    return window(y1, h, height, p, size[0]), window(x1, w, width, q, size[1])


def pool_reference(x, rois, scale, height, width):
    out = numpy.zeros((len(rois), x.shape[1], height, width))
    at = numpy.full(out.shape, -1)
    for (k, c, p, q), _ in numpy.ndenumerate(out):
        rows, columns = pool_windows(rois[k], scale, height, width, p, q, x.shape[2:], False)
        plane = x[int(rois[k][0]), c]
        if len(rows) and len(columns):
            at[k, c, p, q] = max((i * x.shape[3] + j for i in rows for j in columns),
                                 key=lambda i: (plane.ravel()[i], -i))
            out[k, c, p, q] = plane.ravel()[at[k, c, p, q]]
    return out, at


def ps_pool_reference(x, rois, scale, height, width):
    out = numpy.zeros((len(rois), x.shape[1] // (height * width), height, width))
    for (k, c, p, q), _ in numpy.ndenumerate(out):
        rows, columns = pool_windows(rois[k], scale, height, width, p, q, x.shape[2:], True)
        plane = x[int(rois[k][0]), (c * height + p) * width + q]
        values = [plane[i, j] for i in rows for j in columns]
        out[k, c, p, q] = sum(values) / len(values) if values else 0
    return out


def nms_reference(boxes, scores, most):
    def area(b):
        return (b[2] - b[0]) * (b[3] - b[1])
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        def overlap(k):
            common = (max(0, min(boxes[i][2], boxes[k][2]) - max(boxes[i][0], boxes[k][0]))
                      * max(0, min(boxes[i][3], boxes[k][3]) - max(boxes[i][1], boxes[k][1])))
            return common / (area(boxes[i]) + area(boxes[k]) - common)
        if all(overlap(k) <= most for k in kept):
            kept.append(i)
    return kept


def deform_reference(x, weight, offset, mask, bias, stride, pad, dilation, groups, offset_groups):
    kh, kw = weight.shape[2:]
    out = numpy.zeros((x.shape[0], weight.shape[0], *offset.shape[2:])) + bias[:, None, None]
    each = x.shape[1] // offset_groups
    for (n, o, r, s), _ in numpy.ndenumerate(out):
        for c in range(weight.shape[1]):
            channel = o // (weight.shape[0] // groups) * weight.shape[1] + c
            for t in range(kh * kw):
                tap = channel // each * kh * kw + t
                y = r * stride[0] - pad[0] + t // kw * dilation[0] + offset[n, 2 * tap, r, s]
                z = s * stride[1] - pad[1] + t % kw * dilation[1] + offset[n, 2 * tap + 1, r, s]
                i, j = math.floor(y), math.floor(z)
                value = sum(x[n, channel, a, b] * (1 - abs(y - a)) * (1 - abs(z - b))
                            for a in (i, i + 1) for b in (j, j + 1)
                            if 0 <= a < x.shape[2] and 0 <= b < x.shape[3])
                out[n, o, r, s] += weight[o, c, t // kw, t % kw] * value * mask[n, tap, r, s]
    return out


def iou_reference(a, b, n=400):
    """The overlap of two rotated boxes, counted on a grid of points."""
    low = min(v[i] - v[2] - v[3] for v in (a, b) for i in (0, 1))
    high = max(v[i] + v[2] + v[3] for v in (a, b) for i in (0, 1))
    x, y = numpy.meshgrid(*[numpy.linspace(low, high, n)] * 2)
    def inside(v):
        t = math.radians(v[4])
        u, w = x - v[0], y - v[1]
        return (abs(u * math.cos(t) - w * math.sin(t)) <= v[2] / 2) & (abs(u * math.sin(t) + w * math.cos(t)) <= v[3] / 2)
    return (inside(a) & inside(b)).sum() / max(1, (inside(a) | inside(b)).sum())


# --- arguments ---

def regions(random, n, images, size=8):
    first = random.uniform(-2, size, (n, 2))
    return numpy.concatenate([random.integers(0, images, (n, 1)), first, first + random.uniform(-1, size, (n, 2))], 1)


def case(seed, channels=1):
    """Planes, regions, their scale and the numbers of bins."""
    random = numpy.random.default_rng(seed)
    bins = [int(v) for v in random.integers(1, 4, 2)]
    x = random.standard_normal((2, channels * bins[0] * bins[1], *random.integers(1, 9, 2)))
    return x, regions(random, int(random.integers(0, 5)), 2), float(random.choice([1, 0.5, 0.3])), *bins


def deform_case(seed, dtype=torch.float64):
    random = numpy.random.default_rng(seed)
    groups, offset_groups = (int(v) for v in random.integers(1, 3, 2))
    kernel, stride, dilation = ([int(v) for v in random.integers(1, 3, 2)] for _ in range(3))
    pad = [int(v) for v in random.integers(0, 2, 2)]
    channels, results = groups * offset_groups, groups * int(random.integers(1, 3))
    size = [int(v) for v in random.integers(4, 7, 2)]
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, pad, dilation, kernel, stride)]
    taps = offset_groups * kernel[0] * kernel[1]
    shapes = ((2, channels, *size), (results, channels // groups, *kernel), (2, 2 * taps, *places), (2, taps, *places),
              (results,))
    tensors = [torch.from_numpy(random.uniform(-1.5, 1.5, s)).to(dtype) for s in shapes]
    return tensors, (*stride, *pad, *dilation, groups, offset_groups), (stride, pad, dilation, groups, offset_groups)


def apart(t):
    """The same values with gaps between elements, and dims in reverse order."""
    wide = torch.zeros([2 * n for n in reversed(t.shape)], dtype=t.dtype)
    part = wide[tuple(slice(None, None, 2) for _ in t.shape)].permute(*reversed(range(t.ndim)))
    part.copy_(t)
    return part


def pooled(name, x, rois, scale, height, width, samples=2, aligned=True):
    more = {"roi_align": (samples, aligned), "ps_roi_align": (samples,)}.get(name, ())
    out = getattr(ops, name)(x, rois, scale, height, width, *more)
    return out if isinstance(out, tuple) else (out, None)


POOLINGS = ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"]


def pooled_reference(name, x, rois, scale, height, width, samples, aligned):
    if name == "roi_pool":
        return pool_reference(x, rois, scale, height, width)[0]
    if name == "ps_roi_pool":
        return ps_pool_reference(x, rois, scale, height, width)
    sensitive = name == "ps_roi_align"
    return align_reference(x, rois, scale, height, width, samples, aligned or sensitive, sensitive)


# --- values ---

@pytest.mark.parametrize("dtype", [*FLOATS, torch.float16], ids=str)
@pytest.mark.parametrize("name", POOLINGS)
def test_pooled_values(name, dtype):
    for seed in range(12):
        x, rois, scale, height, width = case(seed, channels=2)
        rois = numpy.round(rois * 16) / 16  # such numbers are the same in each dtype
        x = numpy.round(x * 64) / 64
        samples, aligned = (-1, 1, 2, 3)[seed % 4], seed % 3 > 0
        if samples < 0 and name.endswith("align"):
            rois[:, 3:] = numpy.maximum(rois[:, 3:], rois[:, 1:3] + 0.25)
        x_, rois_ = (torch.from_numpy(v).to(dtype) for v in (x, rois))
        got, more = pooled(name, x_, rois_, scale, height, width, samples, aligned)
        want = pooled_reference(name, x, rois, scale, height, width, samples, aligned)
        tolerance = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 6e-3}[dtype]
        assert got.dtype == dtype and (more is None or more.dtype == torch.int32)
        if dtype == torch.float16 and scale == 0.3:
            continue  # 0.3 of a coordinate is rounded to another element
        numpy.testing.assert_allclose(got.double().numpy(), want, rtol=tolerance, atol=tolerance, err_msg=f"{seed}")


def test_positions_of_roi_pool_and_channels_of_the_others():
    for seed in range(8):
        x, rois, scale, height, width = case(seed, channels=2)
        args = torch.from_numpy(x), torch.from_numpy(rois), scale, height, width
        numpy.testing.assert_array_equal(pooled("roi_pool", *args)[1].numpy(), pool_reference(x, rois, *args[2:])[1])
        channels = numpy.arange(x.shape[1]).reshape(1, 2, height, width).repeat(len(rois), 0)
        for name in ("ps_roi_align", "ps_roi_pool"):
            numpy.testing.assert_array_equal(pooled(name, *args)[1].numpy(), channels)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nms(dtype):
    random = numpy.random.default_rng(0)
    for n in (0, 1, 7, 60):
        boxes = random.integers(0, 40, (n, 4)) / 8
        boxes[:, 2:] += boxes[:, :2] + 1 / 8
        scores = random.integers(0, 9, n) / 8  # with ties
        got = ops.nms(torch.from_numpy(boxes).to(dtype), torch.from_numpy(scores).to(dtype), 0.25)
        assert got.dtype == torch.int64 and got.tolist() == nms_reference(boxes, scores, 0.25)
        assert got.tolist() == ops.nms(apart(torch.from_numpy(boxes).to(dtype)), apart(torch.from_numpy(scores).to(dtype)),
                                       0.25).tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rotated_boxes(dtype):
    random = numpy.random.default_rng(0)
    a = numpy.concatenate([random.uniform(0, 2, (6, 2)), random.uniform(1, 3, (6, 2)), random.uniform(-200, 200, (6, 1))], 1)
    b = numpy.concatenate([a[:2], a[2:4] * [1, 1, 0.5, 1, 1], a[4:] + [9, 9, 0, 0, 0]])
    got = ops.box_iou_rotated(torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype))
    assert got.dtype == torch.float32 and got.shape == (6, 6)
    want = [[iou_reference(v, w) for w in b] for v in a]
    numpy.testing.assert_allclose(got.numpy(), want, atol=0.02)
    numpy.testing.assert_allclose(got.numpy()[[0, 1], [0, 1]], 1, rtol=1e-5)
    assert ops.box_iou_rotated(torch.from_numpy(a).to(dtype)[:0], torch.from_numpy(b).to(dtype)).shape == (0, 6)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float16], ids=str)
@pytest.mark.parametrize("use_mask", [False, True])
def test_deformed_convolution(use_mask, dtype):
    for seed in range(8):
        tensors, numbers, named = deform_case(seed, dtype)
        got = ops.deform_conv2d(*tensors, *numbers, use_mask)
        arrays = [t.double().numpy() for t in tensors]
        if not use_mask:
            arrays[3] = numpy.ones_like(arrays[3])
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-2}[dtype]
        assert got.dtype == dtype
        numpy.testing.assert_allclose(got.double().numpy(), deform_reference(*arrays, *named), rtol=tolerance, atol=tolerance)


# --- layouts and sizes ---

@pytest.mark.parametrize("name", POOLINGS)
def test_pooled_layouts_and_threads(name):
    x, rois, *numbers = case(3, channels=4)
    x, rois = torch.from_numpy(x), torch.from_numpy(regions(numpy.random.default_rng(1), 40, 2))
    want = pooled(name, x, rois, *numbers)[0]
    assert torch.equal(want, pooled(name, apart(x), apart(rois), *numbers)[0])
    def run():
        leaf = x.clone().requires_grad_()
        pooled(name, leaf, rois, *numbers)[0].square().sum().backward()
        return leaf.grad
    before = torch.get_num_threads()
    try:
        grads = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            grads.append(run())
            assert torch.equal(want, pooled(name, x, rois, *numbers)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(grads[0], grads[1]) and torch.equal(grads[0], grads[2])


@pytest.mark.parametrize("name", POOLINGS)
def test_pooled_sizes(name):
    rois = torch.tensor([[0, 0.0, 0, 2, 2]])
    out = pooled(name, torch.ones(1, 4, 3, 3), rois[:0], 1.0, 2, 2)[0]
    assert out.shape == (0, 1 if name.startswith("ps") else 4, 2, 2)
    assert pooled(name, torch.ones(1, 0, 3, 3), rois, 1.0, 2, 2)[0].numel() == 0
    empty = pooled(name, torch.ones(1, 4, 0, 3), rois, 1.0, 2, 2)[0]
    assert empty.shape[0] == 1 and not empty.any()
    x = torch.ones(2, 4, 3, 3, requires_grad=True)
    pooled(name, x, rois[:0], 1.0, 2, 2)[0].sum().backward()
    assert x.grad.shape == x.shape and not x.grad.any()
    meta = pooled(name, torch.ones(2, 4, 3, 3, device="meta"), torch.ones(5, 5, device="meta"), 1.0, 2, 2)
    assert meta[0].is_meta and meta[0].shape == (5, *out.shape[1:])
    huge = torch.tensor([[0, -1e30, -1e30, 1e30, 1e30], [0, math.nan, 0, 2, 2], [0, 0, 0, math.inf, 2]])
    assert pooled(name, torch.ones(1, 4, 3, 3), huge, 1.0, 2, 2, samples=-1)[0].shape[0] == 3


def test_deformed_sizes():
    tensors, numbers, _ = deform_case(0)
    out = ops.deform_conv2d(*tensors, *numbers, True)
    assert torch.equal(out, ops.deform_conv2d(*map(apart, tensors), *numbers, True))
    none = [t[:0] if t.ndim == 4 and t.shape[0] == 2 and i != 1 else t for i, t in enumerate(tensors)]
    assert ops.deform_conv2d(*none, *numbers, True).shape == (0, *out.shape[1:])
    assert ops.deform_conv2d(*[t.to("meta") for t in tensors], *numbers, True).shape == out.shape
    far = [t.clone() for t in tensors]
    far[2].view(-1)[:3] = torch.tensor([math.nan, math.inf, -1e300])
    assert ops.deform_conv2d(*far, *numbers, True).shape == out.shape


# --- derivatives ---

@pytest.mark.parametrize("name", POOLINGS)
def test_pooled_gradients(name):
    for seed in range(6):
        x, rois, *numbers = case(seed, channels=2)
        x, rois = torch.from_numpy(x).requires_grad_(), torch.from_numpy(rois).requires_grad_()
        assert torch.autograd.gradcheck(lambda v: pooled(name, v, rois.detach(), *numbers)[0], (x,))
        out, more = pooled(name, x, rois, *numbers)
        assert out.grad_fn.name() == f"GeneratedBackwardFor_torchvision_{name}_defaultBackward"
        assert more is None or not more.requires_grad
        grad, none = torch.autograd.grad(out.square().sum(), (x, rois), create_graph=True, allow_unused=True)
        assert none is None
        with pytest.raises(RuntimeError, match=f"double backwards on {name} not supported"):
            grad.sum().backward()


@pytest.mark.parametrize("use_mask", [False, True])
def test_deformed_gradients(use_mask):
    for seed in range(4):
        tensors, numbers, _ = deform_case(seed)
        tensors = [t.requires_grad_() for t in tensors]
        assert torch.autograd.gradcheck(lambda *t: ops.deform_conv2d(*t, *numbers, use_mask), tensors)
        out = ops.deform_conv2d(*tensors, *numbers, use_mask)
        g = torch.randn(out.shape, dtype=out.dtype)
        want = torch.autograd.grad(out, tensors, g, allow_unused=True)
        for a, b in zip(want, ops._deform_conv2d_backward(g, *tensors, *numbers, use_mask)):
            assert torch.allclose(a, b)
        grad = torch.autograd.grad(ops.deform_conv2d(*tensors, *numbers, use_mask).square().sum(), tensors[0],
                                   create_graph=True)[0]
        with pytest.raises(RuntimeError, match="double backwards on deform_conv2d not supported"):
            grad.sum().backward()


# --- compiled, autocast ---

def test_compiled_as_eager():
    x, rois, *numbers = case(5, channels=2)
    x, rois = torch.from_numpy(x).float(), torch.from_numpy(rois).float()
    tensors, more, _ = deform_case(1, torch.float32)
    functions = [lambda v, name=name: pooled(name, v * 2, rois, *numbers)[0] + 1 for name in POOLINGS]
    functions.append(lambda v: ops.deform_conv2d(v * 2, *tensors[1:], *more, True) + 1)
    for function, given in zip(functions, [x] * 4 + [tensors[0]]):
        compiled = torch.compile(function)
        for _ in range(2):
            results = []
            for f in (function, compiled):
                leaf = given.clone().requires_grad_()
                out = f(leaf)
                out.sin().sum().backward()
                results.append((out, leaf.grad))
            assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


def test_autocast():
    x, rois = torch.rand(2, 4, 6, 6), torch.tensor([[0.0, 1, 1, 4, 4]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = ops.roi_align(x.bfloat16(), rois, 1.0, 2, 2, 2, False)
        kept = ops.nms(torch.tensor([[0.0, 0, 1, 1]]).bfloat16(), torch.ones(1).half(), 0.5)
        with pytest.raises(NotImplementedError, match="roi_pool_forward_kernel"):
            ops.roi_pool(x.bfloat16(), rois.bfloat16(), 1.0, 2, 2)
    assert out.dtype == torch.bfloat16 and kept.tolist() == [0]
    assert torch.equal(out, ops.roi_align(x.bfloat16().float(), rois, 1.0, 2, 2, 2, False).bfloat16())


# --- errors ---

X, ROIS = torch.ones(2, 8, 6, 6), torch.tensor([[0.0, 1, 1, 4, 4]])
REFUSED = [
    (lambda: ops.roi_align(X, ROIS[:, :4], 1.0, 2, 2, 2, False), RuntimeError, "rois must have shape as Tensor[K, 5]"),
    (lambda: ops.roi_pool(X, ROIS[:, :4], 1.0, 2, 2), RuntimeError, "rois must have shape as Tensor[K, 5]"),
    (lambda: ops.ps_roi_pool(X, ROIS[:, :4], 1.0, 2, 2), RuntimeError, "Tensor rois should have shape as Tensor[K, 5]"),
    (lambda: ops.ps_roi_align(X, ROIS, 1.0, 3, 2, 2), RuntimeError,
     "input channels must be a multiple of pooling height * pooling width"),
    (lambda: ops.ps_roi_align(X, ROIS, 1.0, 0, 2, 2), RuntimeError,
     "input channels must be a multiple of pooling height * pooling width"),
    (lambda: ops.roi_align(X, ROIS.double(), 1.0, 2, 2, 2, False), RuntimeError,
     "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'rois'; but type "
     "torch.FloatTensor does not equal torch.DoubleTensor (while checking arguments for roi_align_forward_kernel)"),
    (lambda: ops.roi_align(X[0], ROIS, 1.0, 2, 2, 2, False), IndexError,
     "Dimension out of range (expected to be in range of [-3, 2], but got 3)"),
    (lambda: ops.roi_align(X, ROIS[0], 1.0, 2, 2, 2, False), IndexError,
     "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
    (lambda: ops.roi_align(X, ROIS, 1.0, -1, 2, 2, False), RuntimeError, "zeros: Dimension size must be non-negative."),
    (lambda: ops.roi_align(X.bfloat16(), ROIS.bfloat16(), 1.0, 2, 2, 2, False), NotImplementedError,
     "\"roi_align_forward_kernel\" not implemented for 'BFloat16'"),
    (lambda: ops.roi_align(X, ROIS + 2, 1.0, 2, 2, 2, False), IndexError,
     "roi_align: region 0 is of image 2, the input has 2 images"),
    (lambda: ops.roi_pool(X, ROIS - 1.5, 1.0, 2, 2), IndexError, "roi_pool: region 0 is of image -1.5"),
    (lambda: ops._roi_align_backward(torch.ones(1, 8, 2, 3), ROIS, 1.0, 2, 2, 2, 8, 6, 6, 2, False), RuntimeError,
     "grad has sizes [1, 8, 2, 3], expected [1, 8, 2, 2]"),
    (lambda: ops._roi_pool_backward(torch.ones(1, 8, 2, 2), ROIS, torch.full((1, 8, 2, 2), 36, dtype=torch.int32), 1.0, 2,
                                    2, 2, 8, 6, 6), IndexError, "argmax 36 is out of range of planes with 36 elements"),
    (lambda: ops.nms(torch.ones(3), torch.ones(3), 0.5), RuntimeError, "boxes should be a 2d tensor, got 1D"),
    (lambda: ops.nms(torch.ones(3, 5), torch.ones(3), 0.5), RuntimeError,
     "boxes should have 4 elements in dimension 1, got 5"),
    (lambda: ops.nms(torch.ones(3, 4), torch.ones(3, 1), 0.5), RuntimeError, "scores should be a 1d tensor, got 2D"),
    (lambda: ops.nms(torch.ones(3, 4), torch.ones(4), 0.5), RuntimeError,
     "boxes and scores should have same number of elements in dimension 0, got 3 and 4"),
    (lambda: ops.nms(torch.ones(3, 4), torch.ones(3).double(), 0.5), RuntimeError,
     "dets should have the same type as scores"),
    (lambda: ops.nms(torch.ones(3, 4).half(), torch.ones(3).half(), 0.5), NotImplementedError,
     "\"nms_kernel\" not implemented for 'Half'"),
    (lambda: ops.nms(torch.ones(3, 4, device="meta"), torch.ones(3, device="meta"), 0.5), RuntimeError,
     "the size of the result depends on the values"),
    (lambda: ops.box_iou_rotated(torch.ones(3, 4), torch.ones(2, 5)), RuntimeError,
     "boxes1 should have shape (N, 5), got [3, 4]"),
    (lambda: ops.box_iou_rotated(torch.ones(3, 5), torch.ones(2, 5).double()), RuntimeError,
     "boxes1 and boxes2 must have the same dtype"),
    (lambda: ops.qnms(torch.ones(3, 4), torch.ones(3), 0.5), NotImplementedError, "Could not run 'torchvision::qnms'"),
]
EXPECTED = "Expected {} to be true, but got false.  (Could this error message be improved?"
DEFORM_REFUSED = [
    (dict(x=(8, 6, 6)), EXPECTED.format("input_c.ndimension() == 4")),
    (dict(weight=(8, 3, 3)), EXPECTED.format("weight_c.ndimension() == 4")),
    (dict(offset=(18, 4, 4)), EXPECTED.format("offset_c.ndimension() == 4")),
    (dict(mask=(9, 4, 4)), EXPECTED.format("!use_mask || mask_c.ndimension() == 4")),
    (dict(numbers=(0, 1, 0, 0, 1, 1, 1, 1)), "stride_h: 0 stride_w: 1"),
    (dict(numbers=(1, 1, -1, 0, 1, 1, 1, 1)), "pad_h: -1 pad_w: 0"),
    (dict(numbers=(1, 1, 0, 0, 0, 1, 1, 1)), "dilation_h: 0 dilation_w: 1"),
    (dict(weight=(4, 8, 0, 3)), "weight_h: 0 weight_w: 3"),
    (dict(weight=(4, 7, 3, 3)), EXPECTED.format("weight_c.size(1) * n_weight_grps == input_c.size(1)")),
    (dict(numbers=(1, 1, 0, 0, 1, 1, 0, 1)), EXPECTED.format("weight_c.size(1) * n_weight_grps == input_c.size(1)")),
    (dict(weight=(5, 4, 3, 3), numbers=(1, 1, 0, 0, 1, 1, 2, 1)), EXPECTED.format("weight_c.size(0) % n_weight_grps == 0")),
    (dict(numbers=(1, 1, 0, 0, 1, 1, 1, 3)), "offset.shape[1] is not valid: got: 18 expected: 54"),
    (dict(mask=(2, 8, 4, 4)), "mask.shape[1] is not valid: got: 8 expected: 9"),
    (dict(offset=(1, 18, 4, 4)), "invalid batch size of offset"),
    (dict(mask=(1, 9, 4, 4)), "invalid batch size of mask"),
    (dict(offset=(2, 18, 3, 4)), "offset output dims: (3, 4) - computed output dims: (4, 4)"),
    (dict(mask=(2, 9, 3, 4)), "mask output dims: (3, 4) - computed output dims: (4, 4)"),
    (dict(bias=(3,)), "shape '[1, 4, 1, 1]' is invalid for input of size 3"),
]


@pytest.mark.parametrize("call, kind, text", REFUSED, ids=[text[:50] for _, _, text in REFUSED])
def test_refusals(call, kind, text):
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("given, text", DEFORM_REFUSED, ids=[text[:50] for _, text in DEFORM_REFUSED])
def test_deform_refusals(given, text):
    sizes = dict(x=(2, 8, 6, 6), weight=(4, 8, 3, 3), offset=(2, 18, 4, 4), mask=(2, 9, 4, 4), bias=(4,))
    numbers = given.get("numbers", (1, 1, 0, 0, 1, 1, 1, 1))
    for device in ("cpu", "meta"):
        tensors = [torch.ones(given.get(name, size), device=device) for name, size in sizes.items()]
        with pytest.raises(RuntimeError) as caught:
            ops.deform_conv2d(*tensors, *numbers, True)
        assert text in str(caught.value)


# --- names and registrations ---

def test_overloads():
    assert str(ops.nms) == "torchvision.nms" and repr(ops.nms.default) == "<OpOverload(op='torchvision.nms', overload='default')>"
    assert str(ops.nms.default._schema) == "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert {"nms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"} <= set(dir(ops))
    assert ops._cuda_version() == -1
    for namespace, name in (("torchvision", "add"), ("aten", "nms"), ("torchvision", "nothing"),
                            ("aten", "torchvision::nms")):
        with pytest.raises(AttributeError, match=f"'{namespace}' object has no attribute '{name}'"):
            getattr(getattr(torch.ops, namespace), name)
    assert not any("::" in name for name in (*dir(torch.ops.aten), *dir(torch)))


def test_registrations_of_the_package_change_nothing():
    library = torch.library.Library("torchvision", "IMPL")
    def wrong(*args):
        raise AssertionError("the table has this operator")
    torch.library.register_autograd("torchvision::roi_align", wrong, setup_context=lambda ctx, inputs, output: wrong())
    torch.library.register_fake("torchvision::nms")(wrong)
    library.impl("roi_align", wrong, "AutocastCPU")
    library.impl(ops.roi_align.default, wrong, "Meta")
    x = X.clone().requires_grad_()
    ops.roi_align(x, ROIS, 1.0, 2, 2, 2, False).sum().backward()
    assert x.grad.sum() == 32
    with pytest.raises(RuntimeError, match="the kernel of torchvision::nms cannot be replaced for CPU"):
        library.impl("nms", wrong, "CPU")
    with pytest.raises(RuntimeError, match="operator torchvision::nothing does not exist"):
        torch.library.register_fake("torchvision::nothing")(wrong)


# --- images of bytes ---

def weights_of_bytes(positions, n, cubic):
    """Rows of weights that sum to 1, and the fraction bits with which they fit 16 bits."""
    rows = numpy.zeros((len(positions), n))
    for o, at in enumerate(positions):
        low = math.floor(at)
        for k in range(low - 1, low + 3) if cubic else (low, low + 1):
            d = abs(at - k)
            near = ((1.25 * d - 2.25) * d * d + 1) if d <= 1 else ((-0.75 * d + 3.75) * d - 6) * d + 3
            rows[o, min(max(k, 0), n - 1)] += near if cubic else 1 - d
    bits = max(b for b in range(23) if b == 0 or 0.5 + rows.max() * 2.0 ** b < 2 ** 15)
    return numpy.trunc(rows * 2.0 ** bits + numpy.where(rows < 0, -0.5, 0.5)).astype(numpy.int64), bits


def bytes_reference(x, out, cubic):
    """Columns first, then rows; each rounds to bytes."""
    for dim in (-1, -2):
        n = x.shape[dim]
        if n == out[dim]:
            continue
        at = (numpy.arange(out[dim]) + 0.5) * n / out[dim] - 0.5
        rows, bits = weights_of_bytes(at if cubic else numpy.clip(at, 0, None), n, cubic)
        sums = numpy.moveaxis(numpy.tensordot(rows, x.astype(numpy.int64), (1, x.ndim + dim)), 0, dim)
        x = numpy.clip((sums + (1 << (bits - 1))) >> bits, 0, 255)
    return x


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resampled_bytes(mode):
    random = numpy.random.default_rng(0)
    for size, out in (((7, 9), (13, 5)), ((20, 16), (31, 16)), ((5, 6), (5, 20)), ((9, 9), (3, 4)), ((4, 1), (2, 3))):
        x = random.integers(0, 256, (2, 3, *size)).astype("uint8")
        for given in (torch.from_numpy(x), apart(torch.from_numpy(x))):
            got = torch.nn.functional.interpolate(given, out, mode=mode)
            assert got.dtype == torch.uint8
            numpy.testing.assert_array_equal(got.numpy(), bytes_reference(x, out, mode == "bicubic"))
        smooth = torch.nn.functional.interpolate(torch.from_numpy(x), out, mode=mode, antialias=True)
        plain = torch.nn.functional.interpolate(torch.from_numpy(x).double(), out, mode=mode, antialias=True)
        assert (smooth.double() - plain.clamp(0, 255)).abs().max() < 1.2  # each dimension rounds


def test_nearest_bytes():
    x = torch.from_numpy(numpy.random.default_rng(0).integers(0, 256, (2, 3, 5, 6, 7)).astype("uint8"))
    for mode in ("nearest", "nearest-exact"):
        for given, out in ((x, (3, 9, 7)), (x[:, :, 0], (9, 4)), (x[:, :, 0, 0], (11,))):
            want = torch.nn.functional.interpolate(given.double(), out, mode=mode)
            got = torch.nn.functional.interpolate(given, out, mode=mode)
            assert got.dtype == torch.uint8 and torch.equal(got.double(), want)


@pytest.mark.parametrize("dtype, mode, sizes, name", [
    (torch.int32, "nearest", (3,), "compute_indices_weights_nearest"), (torch.uint8, "linear", (3,), "compute_indices_weights_linear"),
    (torch.uint8, "trilinear", (3, 3, 3), "compute_indices_weights_linear"), (torch.int32, "bicubic", (3, 3), "compute_indices_weights_cubic")])
def test_resampling_refuses_dtypes(dtype, mode, sizes, name):
    with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for'):
        torch.nn.functional.interpolate(torch.ones(1, 3, *[5] * len(sizes)).to(dtype), sizes, mode=mode)


def smooth_weights(n, m, step):
    """The weights of linear interpolation with antialiasing, from n positions to m."""
    weights = numpy.zeros((m, n))
    for i in range(m):
        center, reach = step * (i + 0.5), max(step, 1)
        low, high = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), n)
        weights[i, low:high] = numpy.maximum(0, 1 - abs(numpy.arange(low, high) - center + 0.5) / reach)
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("factors", [(0.3, 0.2), (0.25, 0.5), (0.9, 0.15), (1.7, 0.3)])
def test_antialiasing_reads_all_that_a_result_covers(align, factors):
    x = torch.randn(1, 1, 10, 20, dtype=torch.float64)
    got = torch.nn.functional.interpolate(x, scale_factor=factors, mode="bilinear", antialias=True, align_corners=align)[0, 0]
    steps = [(n - 1) / (m - 1) if align else 1 / f for n, m, f in zip((10, 20), got.shape, factors)]
    rows, columns = (smooth_weights(n, m, step) for n, m, step in zip((10, 20), got.shape, steps))
    assert numpy.allclose(got, rows @ x[0, 0].numpy() @ columns.T)
    sizes = torch.ops.aten._upsample_bilinear2d_aa(x, list(got.shape), align, *factors)
    assert torch.equal(sizes[0, 0], got)
