"""Layers and losses with small inputs, and numbers that describe their results.

A case runs from a fixed seed on inputs computed by formulas, so that it can be recorded with
one library and checked with another.  A tensor is described by its shape, its sum and its
product with a fixed vector.
"""
import warnings
from math import prod


def wave(t, *shape, phase=0.0):
    """Returns numbers between -1 and 1."""
    n = t.arange(prod(shape), dtype=t.float32)
    return (n * 0.7 + phase).sin().reshape(shape)


def share(t, *shape, phase=0.0):
    """Returns numbers between 0.05 and 0.95."""
    return wave(t, *shape, phase=phase) * 0.45 + 0.5


def ids(t, high, *shape):
    """Returns integers below `high`."""
    return ((t.arange(prod(shape)) * 7 + 3) % high).reshape(shape)


def sign(t, *shape):
    """Returns ones and minus ones."""
    return wave(t, *shape, phase=0.4).sign()


def log_share(t, *shape):
    """Returns logarithms of probabilities along dim 1."""
    return wave(t, *shape).log_softmax(1)


def packed(t, nn):
    data = wave(t, 4, 3, 5)
    return nn.utils.rnn.pack_padded_sequence(data, [2, 4, 1], enforce_sorted=False)


def pooled(t, nn, dims):
    """Returns maxima and their indices, for unpooling."""
    pool = getattr(nn.functional, f"max_pool{dims}d")
    return list(pool(wave(t, *((2, 3) + (4,) * dims)), 2, return_indices=True))


def layer(name, *args, **kwargs):
    return lambda t, nn: getattr(nn, name)(*args, **kwargs)


def waves(*shapes):
    return lambda t, nn: [wave(t, *shape, phase=i) for i, shape in enumerate(shapes)]


CASES = {}
RANDOM = set()  # cases with random numbers in training: only shapes are recorded


def case(label, make, inputs):
    assert label not in CASES, label
    CASES[label] = (make, inputs)
    if "Dropout" in label or "dropout" in label:
        RANDOM.add(label)


def simple(name, shape, *args, **kwargs):
    extra = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
    case(f"{name}({', '.join(extra)}) {shape}", layer(name, *args, **kwargs), waves(shape))


simple("Linear", (2, 4), 4, 3)
simple("Linear", (2, 4), 4, 3, bias=False)
simple("Identity", (3,), 54, unused=0.1)
case("Bilinear", layer("Bilinear", 4, 5, 3), waves((2, 4), (2, 5)))
simple("Conv1d", (2, 4, 8), 4, 6, 3, padding=1, groups=2)
simple("Conv2d", (2, 4, 9, 9), 4, 6, (3, 2), stride=2, dilation=2, padding="valid")
simple("Conv2d", (2, 4, 7, 7), 4, 6, 4, padding="same", padding_mode="circular", bias=False)
simple("Conv2d", (1, 2, 5, 5), 2, 3, 3, padding=1, padding_mode="reflect")
simple("Conv3d", (1, 2, 4, 4, 4), 2, 3, 2, padding=1, padding_mode="replicate")
simple("ConvTranspose1d", (2, 4, 8), 4, 6, 3, stride=2, output_padding=1)
simple("ConvTranspose2d", (2, 4, 5, 5), 4, 6, 3, stride=2, groups=2)
simple("ConvTranspose3d", (1, 2, 3, 3, 3), 2, 3, 2)
case("ConvTranspose2d output_size", layer("ConvTranspose2d", 4, 6, 3, stride=2),
     lambda t, nn: [wave(t, 2, 4, 5, 5), [12, 12]])
simple("BatchNorm1d", (5, 4), 4)
simple("BatchNorm1d", (5, 4, 3), 4, affine=False)
simple("BatchNorm2d", (5, 4, 3, 3), 4, momentum=None)
simple("BatchNorm2d", (5, 4, 3, 3), 4, track_running_stats=False, bias=False)
simple("BatchNorm3d", (2, 4, 3, 3, 3), 4, eps=0.1, momentum=0.3)
simple("InstanceNorm1d", (5, 4, 3), 4, affine=True)
simple("InstanceNorm2d", (4, 3, 3), 4, track_running_stats=True)
simple("InstanceNorm3d", (2, 4, 3, 3, 3), 4)
simple("LayerNorm", (5, 4), 4)
simple("LayerNorm", (5, 3, 4), [3, 4], bias=False)
simple("LayerNorm", (5, 4), 4, elementwise_affine=False)
simple("GroupNorm", (5, 4, 3), 2, 4)
simple("GroupNorm", (5, 4, 3), 2, 4, affine=False)
simple("RMSNorm", (5, 4), 4)
simple("RMSNorm", (5, 4), 4, elementwise_affine=False, eps=1e-3)
simple("LocalResponseNorm", (2, 4, 5), 2)
simple("LocalResponseNorm", (2, 4, 5, 5), 2)
for options in ({}, {"padding_idx": -1}, {"max_norm": 1.0, "scale_grad_by_freq": True}):
    case(f"Embedding {options}", layer("Embedding", 10, 3, **options),
         lambda t, nn: [ids(t, 10, 2, 4)])
case("EmbeddingBag mean", layer("EmbeddingBag", 10, 3), lambda t, nn: [ids(t, 10, 2, 4)])
case("EmbeddingBag max", layer("EmbeddingBag", 10, 3, mode="max"),
     lambda t, nn: [ids(t, 10, 8), t.tensor([0, 3])])
case("EmbeddingBag sum", layer("EmbeddingBag", 10, 3, mode="sum", padding_idx=3),
     lambda t, nn: [ids(t, 10, 8), t.tensor([0, 3]), wave(t, 8)])
simple("Dropout", (4, 5))
simple("Dropout1d", (4, 5, 3))
simple("Dropout1d", (5, 3), 0.3)
simple("Dropout2d", (4, 5, 3, 3), 0.3)
simple("Dropout3d", (4, 5, 2, 2, 2))
simple("AlphaDropout", (4, 5))
simple("FeatureAlphaDropout", (4, 5, 3))
simple("MaxPool1d", (2, 3, 8), 2)
simple("MaxPool1d", (2, 3, 8), 2, return_indices=True)
simple("MaxPool2d", (2, 3, 8, 8), 3, 2, 1, return_indices=True)
simple("MaxPool2d", (2, 3, 7, 7), 2, ceil_mode=True)
simple("MaxPool3d", (2, 3, 5, 5, 5), 2, ceil_mode=True)
for n in (1, 2, 3):
    case(f"MaxUnpool{n}d", layer(f"MaxUnpool{n}d", 2), lambda t, nn, n=n: pooled(t, nn, n))
    simple(f"AdaptiveAvgPool{n}d", (2, 3) + (5,) * n, 2)
    simple(f"AdaptiveMaxPool{n}d", (2, 3) + (5,) * n, 2, return_indices=True)
    simple(f"LPPool{n}d", (2, 3) + (6,) * n, 2, 3)
    for kind in ("Circular", "Reflection", "Replication", "Zero"):
        simple(f"{kind}Pad{n}d", (2, 3) + (4,) * n, tuple(range(1, 2 * n + 1))
               if kind == "Zero" else 1)
    simple(f"ConstantPad{n}d", (2, 3) + (4,) * n, 1, 2.5)
simple("AdaptiveAvgPool2d", (2, 3, 5, 6), (3, None))
simple("AvgPool1d", (2, 3, 8), 2)
simple("AvgPool2d", (2, 3, 8, 8), 3, 2, 1, count_include_pad=False)
simple("AvgPool2d", (2, 3, 8, 8), 3, divisor_override=2)
simple("AvgPool3d", (2, 3, 4, 4, 4), 2)
simple("Flatten", (2, 3, 4))
simple("Unflatten", (2, 6), 1, (3, 2))
simple("Fold", (2, 12, 12), (4, 5), (2, 2))
simple("Unfold", (2, 3, 4, 4), 2, padding=1)
simple("Upsample", (2, 3, 4), scale_factor=2)
simple("Upsample", (2, 3, 4, 4), scale_factor=2)
simple("Upsample", (2, 3, 4, 4), size=(5, 6), mode="bilinear")
simple("Upsample", (2, 3, 4, 4), scale_factor=(1.5, 2.0), mode="bicubic", align_corners=True)
simple("Upsample", (2, 3, 4), scale_factor=1.5, mode="linear")
simple("Upsample", (1, 2, 3, 3, 3), size=4, mode="trilinear")
simple("UpsamplingNearest2d", (2, 3, 4, 4), scale_factor=2)
simple("UpsamplingBilinear2d", (2, 3, 4, 4), scale_factor=2)
simple("PixelShuffle", (2, 8, 3, 3), 2)
simple("PixelUnshuffle", (2, 2, 4, 4), 2)
simple("ChannelShuffle", (2, 4, 3, 3), 2)
case("PairwiseDistance", layer("PairwiseDistance"), waves((3, 4), (3, 4)))
case("CosineSimilarity", layer("CosineSimilarity"), waves((3, 4), (3, 4)))

for name in ("ReLU ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU GELU "
             "Hardshrink LeakyReLU LogSigmoid Softplus Softshrink Softsign Tanhshrink "
             "Hardtanh GLU RReLU").split():
    simple(name, (3, 4))
simple("GELU", (3, 4), approximate="tanh")
simple("Threshold", (3, 4), 0.1, 20.0)
simple("Hardtanh", (3, 4), -0.5, 0.25)
simple("ELU", (3, 4), 0.5)
simple("PReLU", (2, 3, 2), 3)
simple("Softmax", (2, 3), 1)
simple("Softmin", (2, 3), 0)
simple("LogSoftmax", (2, 3, 4), -1)
simple("Softmax2d", (2, 3, 4, 4))
simple("ReLU", (3, 4), inplace=False)

simple("RNNCell", (2, 4), 4, 3)
simple("RNNCell", (4,), 4, 3, nonlinearity="relu")
case("LSTMCell", layer("LSTMCell", 4, 3, bias=False),
     lambda t, nn: [wave(t, 2, 4), (wave(t, 2, 3), wave(t, 2, 3, phase=2))])
case("GRUCell", layer("GRUCell", 4, 3), waves((2, 4), (2, 3)))
simple("RNN", (4, 2, 5), 5, 3, num_layers=2, bidirectional=True)
simple("RNN", (2, 4, 5), 5, 3, nonlinearity="relu", batch_first=True)
simple("LSTM", (2, 6, 5), 5, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.5)
simple("LSTM", (6, 2, 5), 5, 4, proj_size=2, num_layers=2)
case("LSTM unbatched", layer("LSTM", 5, 4, bias=False),
     lambda t, nn: [wave(t, 6, 5), (wave(t, 1, 4), wave(t, 1, 4, phase=1))])
case("GRU with state and dropout", layer("GRU", 5, 4, num_layers=2, dropout=0.3),
     waves((6, 2, 5), (2, 2, 4)))
simple("GRU", (6, 5), 5, 4)
for name, options in (("RNN", {"bidirectional": True}), ("GRU", {}),
                      ("LSTM", {"bidirectional": True})):
    case(f"{name} packed", layer(name, 5, 3, num_layers=2, **options),
         lambda t, nn: [packed(t, nn)])
case("MultiheadAttention", layer("MultiheadAttention", 8, 2),
     lambda t, nn: [wave(t, 4, 3, 8)] * 3)
case("MultiheadAttention separate, dropout",
     layer("MultiheadAttention", 8, 2, batch_first=True, kdim=5, vdim=6, add_bias_kv=True,
           add_zero_attn=True, dropout=0.2), waves((3, 4, 8), (3, 5, 5), (3, 5, 6)))
case("MultiheadAttention unbatched", layer("MultiheadAttention", 8, 2),
     lambda t, nn: [wave(t, 4, 8)] + [wave(t, 5, 8, phase=1)] * 2)
simple("TransformerEncoderLayer", (3, 4, 8), 8, 2, 16, 0.0, batch_first=True)
case("TransformerDecoderLayer",
     layer("TransformerDecoderLayer", 8, 2, 16, 0.0, norm_first=True, activation="gelu"),
     waves((3, 4, 8), (5, 4, 8)))
case("Transformer with dropout", layer("Transformer", 8, 2, 2, 2, 16),
     waves((3, 4, 8), (5, 4, 8)))

for name in "L1Loss MSELoss SmoothL1Loss HuberLoss SoftMarginLoss HingeEmbeddingLoss".split():
    for reduction in ("none", "mean", "sum"):
        case(f"{name} {reduction}", layer(name, reduction=reduction),
             lambda t, nn: [wave(t, 3, 4), sign(t, 3, 4)])
case("NLLLoss", lambda t, nn: nn.NLLLoss(weight=share(t, 4)),
     lambda t, nn: [log_share(t, 3, 4), ids(t, 4, 3)])
case("NLLLoss images", layer("NLLLoss", ignore_index=1, reduction="sum"),
     lambda t, nn: [log_share(t, 2, 4, 3, 3), ids(t, 4, 2, 3, 3)])
case("CrossEntropyLoss classes", layer("CrossEntropyLoss", label_smoothing=0.1, ignore_index=1),
     lambda t, nn: [wave(t, 3, 4), ids(t, 4, 3)])
case("CrossEntropyLoss probabilities", layer("CrossEntropyLoss"),
     lambda t, nn: [wave(t, 3, 4), wave(t, 3, 4, phase=1).softmax(1)])
case("PoissonNLLLoss", layer("PoissonNLLLoss", full=True),
     lambda t, nn: [wave(t, 3, 4), share(t, 3, 4) * 5])
case("GaussianNLLLoss", layer("GaussianNLLLoss", full=True),
     lambda t, nn: [wave(t, 3, 4), wave(t, 3, 4, phase=1), share(t, 3, 1)])
for reduction in ("mean", "batchmean"):
    case(f"KLDivLoss {reduction}", layer("KLDivLoss", reduction=reduction),
         lambda t, nn: [log_share(t, 3, 4), wave(t, 3, 4, phase=1).softmax(1)])
case("BCELoss", layer("BCELoss"), lambda t, nn: [share(t, 3, 4), share(t, 3, 4, phase=1)])
case("BCEWithLogitsLoss", lambda t, nn: nn.BCEWithLogitsLoss(pos_weight=share(t, 4)),
     lambda t, nn: [wave(t, 3, 4), share(t, 3, 4, phase=1)])
case("MultiLabelSoftMarginLoss", layer("MultiLabelSoftMarginLoss"),
     lambda t, nn: [wave(t, 3, 4), share(t, 3, 4).round()])
case("CTCLoss", layer("CTCLoss"),
     lambda t, nn: [wave(t, 10, 2, 5).log_softmax(2), ids(t, 4, 2, 3) + 1, t.tensor([10, 8]),
                    t.tensor([3, 2])])
case("MultiLabelMarginLoss", layer("MultiLabelMarginLoss"),
     lambda t, nn: [wave(t, 3, 4), ids(t, 5, 3, 4) - 1])
case("CosineEmbeddingLoss", layer("CosineEmbeddingLoss", 0.1),
     lambda t, nn: [wave(t, 3, 4), wave(t, 3, 4, phase=1), sign(t, 3)])
case("MarginRankingLoss", layer("MarginRankingLoss", 0.1),
     lambda t, nn: [wave(t, 3), wave(t, 3, phase=1), sign(t, 3)])
case("MultiMarginLoss", layer("MultiMarginLoss", p=2),
     lambda t, nn: [wave(t, 3, 4), ids(t, 4, 3)])
case("TripletMarginLoss", layer("TripletMarginLoss", swap=True),
     waves((3, 4), (3, 4), (3, 4)))
case("TripletMarginWithDistanceLoss", layer("TripletMarginWithDistanceLoss"),
     waves((3, 4), (3, 4), (3, 4)))


def flatten(t, value):
    """Returns all tensors in nested tuples and lists."""
    if isinstance(value, t.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in flatten(t, part)]
    return []


def describe(t, tensor):
    """Returns [shape, sum, product with cos(0), cos(1), ...]; None for a missing gradient."""
    if tensor is None:
        return None
    values = tensor.detach().to(t.float64).reshape(-1)
    weights = t.arange(values.numel(), dtype=t.float64).cos()
    return [list(tensor.shape), float(values.sum()), float((values * weights).sum())]


# Losses whose second argument is data and gets no gradient.
_FIXED_TARGET = ("SoftMarginLoss", "HingeEmbeddingLoss", "CosineEmbeddingLoss",
                 "MarginRankingLoss", "NLLLoss", "MultiLabel", "GaussianNLLLoss")


def _prepare(t, label, inputs):
    """Makes inputs require gradients, except integers and data."""
    for i, value in enumerate(inputs):
        for tensor in flatten(t, value):
            if tensor.is_floating_point() and not (i and label.startswith(_FIXED_TARGET)):
                tensor.requires_grad_(True)
    return inputs


def run(t, nn, label):
    """Returns the results of a case as plain data."""
    make, inputs = CASES[label]
    t.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = make(t, nn)
        out = {"repr": repr(module), "keys": list(module.state_dict()),
               "state": [describe(t, v) for v in module.state_dict().values()]}
        for mode in ("train", "eval"):
            module.train(mode == "train")
            module.zero_grad()
            t.manual_seed(3)
            given = _prepare(t, label, inputs(t, nn))
            result = flatten(t, module(*given))
            out[mode] = [describe(t, r) for r in result]
            wanted = [r for r in result if r.requires_grad]
            if wanted:
                sum((r * r).sum() for r in wanted).backward()
            leaves = [*module.parameters(), *flatten(t, given)]
            out[mode + " gradients"] = [describe(t, x.grad) for x in leaves if x.is_leaf]
        out["state after"] = [describe(t, v) for v in module.state_dict().values()]
    return out
