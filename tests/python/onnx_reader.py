"""A reader of ONNX files and an evaluator of their nodes by NumPy, for tests: written from onnx.proto and the operators' pages."""
import math
import struct

import numpy
from numpy.lib.stride_tricks import sliding_window_view

DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}


def fields(data):
    """[(number, value)] of a message; values are ints, and bytes of other fields."""
    at, out = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
            value -= (value >> 63) << 64
        else:
            n = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + n], at + n
            assert len(value) == n, "a field ends after its message"
        out.append((key >> 3, value))
    return out


def every(message, number):
    return [v for k, v in message if k == number]


def text(message, number):
    found = every(message, number)
    return found[-1].decode() if found else ""


def tensor(data, folder=None):
    """(name, array or None) of a TensorProto."""
    m = fields(data)
    dtype, sizes = numpy.dtype(DTYPES[every(m, 2)[0]]), every(m, 1)
    raw = every(m, 9)
    if every(m, 14):
        place = dict((text(fields(e), 1), text(fields(e), 2)) for e in every(m, 13))
        with open(f"{folder}/{place['location']}", "rb") as file:
            file.seek(int(place["offset"]))
            raw = [file.read(int(place["length"]))]
    return text(m, 8), numpy.frombuffer(raw[0], dtype).reshape(sizes) if raw else None


def attribute(data):
    m = fields(data)
    kind = every(m, 20)[0]
    value = {1: lambda: struct.unpack("<f", every(m, 2)[0])[0], 2: lambda: every(m, 3)[0], 3: lambda: text(m, 4),
             4: lambda: tensor(every(m, 5)[0])[1], 6: lambda: [struct.unpack("<f", x)[0] for x in every(m, 7)], 7: lambda: every(m, 8)}[kind]
    return text(m, 1), value()


def port(data):
    """(name, dtype, dims) of a ValueInfoProto; a dim is an int, a name, or None."""
    m = fields(data)
    kind = fields(every(fields(every(m, 2)[0]), 1)[0])
    dims = []
    for dim in every(fields((every(kind, 2) or [b""])[0]), 1):
        d = fields(dim)
        dims.append(every(d, 1)[0] if every(d, 1) else text(d, 2) or None)
    return text(m, 1), DTYPES[every(kind, 1)[0]], dims


class Node:
    def __init__(self, data):
        m = fields(data)
        self.inputs, self.outputs = [v.decode() for v in every(m, 1)], [v.decode() for v in every(m, 2)]
        self.op, self.doc, self.attributes = text(m, 4), text(m, 6), dict(map(attribute, every(m, 5)))


class Model:
    """A file, which must have each value once and before it is read."""

    def __init__(self, data, folder=None):
        m = fields(data)
        self.ir_version, self.producer = every(m, 1)[0], text(m, 2)
        opset, = every(m, 8)
        self.opset = every(fields(opset), 2)[0]
        graph = fields(every(m, 7)[0])
        self.nodes = [Node(x) for x in every(graph, 1)]
        self.weights = dict(tensor(x, folder) for x in every(graph, 5))
        self.inputs, self.outputs = [port(x) for x in every(graph, 11)], [port(x) for x in every(graph, 12)]
        made = {*self.weights, *(name for name, *_ in self.inputs)}
        for n in self.nodes:
            assert {x for x in n.inputs if x} <= made, n.op
            assert not made & {*n.outputs}
            made.update(n.outputs)
        assert {name for name, *_ in self.outputs} <= made

    def run(self, *arrays):
        values = dict(self.weights)
        for (name, dtype, dims), x in zip(self.inputs, arrays, strict=True):
            x = numpy.asarray(x)
            assert x.dtype == dtype and len(dims) == x.ndim and all(not isinstance(d, int) or d == n for d, n in zip(dims, x.shape)), name
            values[name] = x
        with numpy.errstate(all="ignore"):
            for n in self.nodes:
                out = OPS[n.op](*[values[x] if x else None for x in n.inputs], **n.attributes)
                values.update(zip(n.outputs, out if isinstance(out, tuple) else (out,)))
        results = []
        for name, dtype, dims in self.outputs:
            x = numpy.asarray(values[name])
            assert x.dtype == dtype and len(dims) == x.ndim and all(not isinstance(d, int) or d == n for d, n in zip(dims, x.shape)), name
            results.append(x)
        return results


# --- nodes ---

def _as(f):
    """A function whose result has the dtype of the first operand."""
    return lambda *x, **a: numpy.asarray(f(*x, **a)).astype(x[0].dtype)


def _axes(axes):
    return tuple(int(d) for d in axes)


def _reduce(f):
    return lambda x, axes, keepdims=1: f(x, axis=_axes(axes), keepdims=bool(keepdims)).astype(x.dtype)


def reshape(x, sizes):
    return x.reshape([x.shape[k] if n == 0 else n for k, n in enumerate(sizes.tolist())])


def slice_(x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes.tolist()
    for k, d in enumerate(axes):
        step = 1 if steps is None else int(steps[k])
        end = int(ends[k])
        index[d] = slice(int(starts[k]), None if step < 0 and end < -x.shape[d] else end, step)
    return x[tuple(index)]


def shape(x, start=0, end=None):
    return numpy.array(x.shape[start:end], "int64")


def cast(x, to):
    return x.astype(DTYPES[to])


def unsqueeze(x, axes):
    return numpy.expand_dims(x, _axes(axes))


def softmax(x, axis=-1):
    e = numpy.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, weight, bias=None, axis=-1, epsilon=1e-5):
    axes = tuple(range(axis % x.ndim, x.ndim))
    c = x - x.mean(axes, keepdims=True, dtype="float64")
    out = c / numpy.sqrt((c * c).mean(axes, keepdims=True) + epsilon) * weight
    return (out if bias is None else out + bias).astype(x.dtype)


def batch_norm(x, weight, bias, mean, var, epsilon=1e-5):
    at = (1, -1) + (1,) * (x.ndim - 2)
    return ((x - mean.reshape(at)) / numpy.sqrt(var.reshape(at) + epsilon) * weight.reshape(at) + bias.reshape(at)).astype(x.dtype)


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    out = (a.T if transA else a) @ (b.T if transB else b)
    out = out if alpha == 1 else out * alpha
    return (out if c is None else out + (c if beta == 1 else c * beta)).astype(a.dtype)


def _padded(x, pads, value):
    n = x.ndim - 2
    return numpy.pad(x, [(0, 0), (0, 0), *zip(pads[:n], pads[n:])], constant_values=value)


def _windows(x, kernel, strides, dilations):
    """Windows [N, C, positions.., kernel..]."""
    n = len(kernel)
    span = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    w = sliding_window_view(x, span, tuple(range(2, 2 + n)))
    return w[(slice(None),) * 2 + tuple(slice(None, None, s) for s in strides) + tuple(slice(None, None, d) for d in dilations)]


def conv(x, w, b=None, strides=None, pads=None, dilations=None, group=1):
    n = x.ndim - 2
    windows = _windows(_padded(x, pads, 0), w.shape[2:], strides, dilations).astype("float64")
    size, each = w.shape[0] // group, w.shape[1]
    out = [numpy.tensordot(windows[:, g * each:(g + 1) * each], w[g * size:(g + 1) * size],
                           ([1, *range(2 + n, 2 + 2 * n)], list(range(1, 2 + n)))) for g in range(group)]
    out = numpy.moveaxis(numpy.concatenate(out, -1), -1, 1)
    return (out if b is None else out + b.reshape((1, -1) + (1,) * n)).astype(x.dtype)


def conv_transpose(x, w, b=None, strides=None, pads=None, dilations=None, output_padding=None, group=1):
    n = x.ndim - 2
    wide = numpy.zeros((*x.shape[:2], *((s - 1) * t + 1 for s, t in zip(x.shape[2:], strides))), x.dtype)
    wide[(slice(None),) * 2 + tuple(slice(None, None, t) for t in strides)] = x
    turned = numpy.flip(w, tuple(range(2, 2 + n)))
    turned = numpy.concatenate([part.swapaxes(0, 1) for part in numpy.split(turned, group, 0)], 0)
    reach = [d * (k - 1) for d, k in zip(dilations, w.shape[2:])]
    edges = [r - p for r, p in zip(reach, pads[:n])] + [r - p + o for r, p, o in zip(reach, pads[n:], output_padding)]
    return conv(wide, turned, b, [1] * n, edges, dilations, group)


def max_pool(x, kernel_shape, strides, pads, dilations):
    n = len(kernel_shape)
    low = -numpy.inf if x.dtype.kind == "f" else numpy.iinfo(x.dtype).min
    return _windows(_padded(x, pads, low), kernel_shape, strides, dilations).max(tuple(range(-n, 0)))


def average_pool(x, kernel_shape, strides, pads, ceil_mode=0, count_include_pad=0):
    assert not ceil_mode
    n, ones = len(kernel_shape), [1] * len(kernel_shape)
    axes = tuple(range(-n, 0))
    total = _windows(_padded(x, pads, 0), kernel_shape, strides, ones).sum(axes, dtype="float64")
    count = _windows(_padded(numpy.ones_like(x), pads, 1 if count_include_pad else 0), kernel_shape, strides, ones).sum(axes)
    return (total / count).astype(x.dtype)


def trilu(x, k=0, upper=1):
    return numpy.triu(x, int(k)) if upper else numpy.tril(x, int(k))


def top_k(x, k, axis=-1, largest=1, sorted=1):
    order = numpy.argsort(-x if largest else x, axis=axis, kind="stable")
    index = numpy.take(order, range(int(k[0])), axis)
    return numpy.take_along_axis(x, index, axis), index.astype("int64")


def pad(x, pads, value=0, mode="constant"):
    n = x.ndim
    width = [(int(pads[d]), int(pads[n + d])) for d in range(n)]
    if mode == "constant":
        cut = tuple(slice(max(-a, 0), s - max(-b, 0)) for (a, b), s in zip(width, x.shape))
        return numpy.pad(x[cut], [(max(a, 0), max(b, 0)) for a, b in width], constant_values=value)
    return numpy.pad(x, width, mode=mode)


def gather_nd(x, index):
    return x[tuple(numpy.moveaxis(index, -1, 0))]


def scatter_nd(x, index, values, reduction="none"):
    out, at = x.copy(), tuple(numpy.moveaxis(index, -1, 0))
    if reduction == "add":
        numpy.add.at(out, at, values)
    else:
        out[at] = values
    return out


def scatter_elements(x, index, values, axis=0, reduction="none"):
    at = list(numpy.indices(index.shape, sparse=True))
    at[axis] = index
    return scatter_nd(x, numpy.stack(numpy.broadcast_arrays(*at), -1), values, reduction)


def _sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def lstm(x, w, r, b, lengths, h, c, hidden_size, direction="forward"):
    bias = 0 if b is None else b[0, :4 * hidden_size] + b[0, 4 * hidden_size:]
    h, c, out = h[0], c[0], [None] * len(x)
    for t in reversed(range(len(x))) if direction == "reverse" else range(len(x)):
        i, o, f, g = numpy.split(x[t] @ w[0].T + h @ r[0].T + bias, 4, 1)
        c = _sigmoid(f) * c + _sigmoid(i) * numpy.tanh(g)
        h = out[t] = _sigmoid(o) * numpy.tanh(c)
    return numpy.stack(out)[:, None].astype(x.dtype), h[None].astype(x.dtype), c[None].astype(x.dtype)


def gru(x, w, r, b, lengths, h, hidden_size, linear_before_reset, direction="forward"):
    assert linear_before_reset == 1
    a, own = (0, 0) if b is None else (b[0, :3 * hidden_size], b[0, 3 * hidden_size:])
    h, out = h[0], [None] * len(x)
    for t in reversed(range(len(x))) if direction == "reverse" else range(len(x)):
        (z, reset, n), (hz, hr, hn) = numpy.split(x[t] @ w[0].T + a, 3, 1), numpy.split(h @ r[0].T + own, 3, 1)
        z, n = _sigmoid(z + hz), numpy.tanh(n + _sigmoid(reset + hr) * hn)
        h = out[t] = (1 - z) * n + z * h
    return numpy.stack(out)[:, None].astype(x.dtype), h[None].astype(x.dtype)


def rnn(x, w, r, b, lengths, h, hidden_size, direction="forward"):
    h, out = h[0], [None] * len(x)
    for t in reversed(range(len(x))) if direction == "reverse" else range(len(x)):
        h = out[t] = numpy.tanh(x[t] @ w[0].T + h @ r[0].T + (0 if b is None else b[0, :hidden_size] + b[0, hidden_size:]))
    return numpy.stack(out)[:, None].astype(x.dtype), h[None].astype(x.dtype)


def resize(x, roi, scales, sizes=None, mode="nearest", coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_floor",
           cubic_coeff_a=-0.75, antialias=0):
    assert not antialias and mode in ("nearest", "linear")
    sizes = [int(n) for n in sizes] if sizes is not None else [int(n * s) for n, s in zip(x.shape, scales)]
    out = x.astype("float64")
    for d in range(2, x.ndim):
        n, m = x.shape[d], sizes[d]
        scale = float(scales[d]) if scales is not None and len(scales) else m / n
        at = {"asymmetric": lambda p: p / scale, "half_pixel": lambda p: (p + 0.5) / scale - 0.5,
              "align_corners": lambda p: p * (n - 1) / max(m - 1, 1)}[coordinate_transformation_mode](numpy.arange(m))
        if mode == "nearest":
            near = numpy.floor(at) if nearest_mode == "floor" else numpy.floor(at + 0.5)
            out = numpy.take(out, near.clip(0, n - 1).astype(int), d)
            continue
        at = at.clip(0, n - 1)
        low = numpy.floor(at).astype(int)
        part = (at - low).reshape((-1,) + (1,) * (x.ndim - 1 - d))
        out = numpy.take(out, low, d) * (1 - part) + numpy.take(out, (low + 1).clip(0, n - 1), d) * part
    return out.astype(x.dtype)


def arg(f):
    return lambda x, axis=0, keepdims=1: f(x, axis=axis, keepdims=bool(keepdims)).astype("int64")


def cum_sum(x, axis, reverse=0):
    assert not reverse
    return numpy.cumsum(x, int(axis), dtype=x.dtype)


def div(a, b):
    return a / b if a.dtype.kind == "f" else numpy.trunc(a / b).astype(a.dtype)


OPS = {
    "Add": numpy.add, "Sub": numpy.subtract, "Mul": numpy.multiply, "Div": div, "Pow": _as(numpy.power), "Max": lambda *x: _extreme(numpy.maximum, x),
    "Min": lambda *x: _extreme(numpy.minimum, x), "Mod": lambda a, b, fmod=0: numpy.fmod(a, b) if fmod else numpy.mod(a, b), "Neg": numpy.negative,
    "Abs": numpy.abs, "Reciprocal": _as(lambda x: 1 / x), "Sqrt": numpy.sqrt, "Sign": numpy.sign, "Round": numpy.round, "Floor": numpy.floor,
    "Ceil": numpy.ceil, "Exp": numpy.exp, "Log": numpy.log, "Sin": numpy.sin, "Cos": numpy.cos, "Tan": numpy.tan, "Asin": numpy.arcsin,
    "Acos": numpy.arccos, "Atan": numpy.arctan, "Sinh": numpy.sinh, "Cosh": numpy.cosh, "Tanh": numpy.tanh, "Asinh": numpy.arcsinh,
    "Acosh": numpy.arccosh, "Atanh": numpy.arctanh, "Sigmoid": _as(_sigmoid), "Erf": _as(numpy.vectorize(math.erf, otypes=["float64"])),
    "And": numpy.logical_and, "Or": numpy.logical_or, "Xor": numpy.logical_xor, "Not": numpy.logical_not, "BitwiseAnd": numpy.bitwise_and,
    "BitwiseOr": numpy.bitwise_or, "BitwiseXor": numpy.bitwise_xor, "BitwiseNot": numpy.invert, "Equal": numpy.equal, "Less": numpy.less,
    "LessOrEqual": numpy.less_equal, "Greater": numpy.greater, "GreaterOrEqual": numpy.greater_equal, "IsNaN": numpy.isnan, "IsInf": numpy.isinf,
    "Where": numpy.where, "Cast": cast, "CastLike": lambda x, y: x.astype(y.dtype), "Identity": lambda x: x, "Reshape": reshape, "Shape": shape,
    "Transpose": lambda x, perm: x.transpose(perm), "Expand": lambda x, n: numpy.broadcast_to(x, numpy.broadcast_shapes(x.shape, tuple(n.tolist()))),
    "Concat": lambda *x, axis: numpy.concatenate(x, axis), "Slice": slice_, "Unsqueeze": unsqueeze, "Squeeze": lambda x, axes: x.squeeze(_axes(axes)),
    "Gather": lambda x, i, axis=0: numpy.take(x, i, axis), "GatherElements": lambda x, i, axis=0: numpy.take_along_axis(x, i, axis),
    "GatherND": gather_nd, "ScatterND": scatter_nd, "ScatterElements": scatter_elements, "ReduceSum": _reduce(numpy.sum),
    "ReduceProd": _reduce(numpy.prod), "ReduceMax": _reduce(numpy.max), "ReduceMin": _reduce(numpy.min), "ArgMax": arg(numpy.argmax),
    "ArgMin": arg(numpy.argmin), "CumSum": cum_sum, "MatMul": numpy.matmul, "Gemm": gemm, "Softmax": softmax,
    "LogSoftmax": lambda x, axis=-1: numpy.log(softmax(x, axis)), "LayerNormalization": layer_norm, "BatchNormalization": batch_norm, "Conv": conv,
    "ConvTranspose": conv_transpose, "MaxPool": max_pool, "AveragePool": average_pool, "Trilu": trilu, "TopK": top_k, "Pad": pad, "Resize": resize,
    "ConstantOfShape": lambda n, value=numpy.zeros(1, "float32"): numpy.full(tuple(n.tolist()), value[0]), "Range": lambda a, b, c: numpy.arange(a, b, c).astype(a.dtype),
    "Tile": lambda x, n: numpy.tile(x, n.tolist()), "EyeLike": lambda x: numpy.eye(*x.shape, dtype=x.dtype), "LSTM": lstm, "GRU": gru, "RNN": rnn,
    "OneHot": lambda i, n, v: numpy.where(i[..., None] == numpy.arange(int(n)), v[1], v[0]),
}


def _extreme(f, arrays):
    out = arrays[0]
    for x in arrays[1:]:
        out = f(out, x)
    return out
