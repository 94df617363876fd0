"""Digests of random numbers, ranges and initial weights from one seed.

Recorded with torch 2.13 on the CPU (its AVX2 and AVX-512 kernels agree):
    ATEN_CPU_CAPABILITY=avx2 python tests/python/bits_cases.py
"""
import hashlib
import json
import pathlib
import warnings

import nn_cases

EXPECTED = pathlib.Path(__file__).parent / "bits_expected.json"
SIZES = (1, 2, 5, 15, 16, 17, 31, 32, 33, 100, 1000, 4097)
# More than one thread's share; torch's arange has these bits on one thread.
LARGE = 70001

FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
SHORT = ("uint8", "int16", "int32", "int64")

RANDOM = {
    "rand": lambda t, n, dtype: t.rand(n, dtype=dtype),
    "randn": lambda t, n, dtype: t.randn(n, dtype=dtype),
    "uniform_": lambda t, n, dtype: t.empty(n, dtype=dtype).uniform_(-0.37, 1.31),
    "normal_": lambda t, n, dtype: t.empty(n, dtype=dtype).normal_(0.3, 1.7),
    "log_normal_": lambda t, n, dtype: t.empty(n, dtype=dtype).log_normal_(0.2, 0.7),
    "cauchy_": lambda t, n, dtype: t.empty(n, dtype=dtype).cauchy_(0.2, 0.7),
    "exponential_": lambda t, n, dtype: t.empty(n, dtype=dtype).exponential_(0.7),
    "normal of tensors": lambda t, n, dtype: t.normal(t.linspace(0, 1, n, dtype=dtype),
                                                      t.linspace(1, 2, n, dtype=dtype)),
    "normal of means": lambda t, n, dtype: t.normal(t.linspace(0, 1, n, dtype=dtype), 1.5),
    "normal of stds": lambda t, n, dtype: t.normal(0.3, t.linspace(0, 1, n, dtype=dtype)),
}
PLAIN = ("rand", "randn")  # with complex numbers, too

# Numbers around parameters.
DRAWS = {
    "_standard_gamma": lambda t, a: t._standard_gamma(a),
    "_standard_gamma in another order": lambda t, a: t._standard_gamma(a.expand(3, -1).t()),
    "_sample_dirichlet": lambda t, a: t._sample_dirichlet(a),
    "_sample_dirichlet of rows": lambda t, a: t._sample_dirichlet(a.expand(3, -1).t()),
    "poisson": lambda t, a: t.poisson(a),
    "bernoulli": lambda t, a: t.bernoulli(a / a.max()),
    "multinomial": lambda t, a: t.multinomial(a, a.numel()),
    "multinomial with replacement": lambda t, a: t.multinomial(a, 9, replacement=True),
    **{f"binomial {p}": lambda t, a, p=p: t.binomial((4 * a).ceil()[:, None], t.tensor([p, p / 2]).to(a))
       for p in (0.05, 0.3, 0.5, 0.7, 0.95)},
}

# Parts of a larger tensor: the whole tensor is compared.
PARTS = {
    "behind the first row": lambda x: x[1:],
    "transposed": lambda x: x.t(),
    "every second column": lambda x: x[:, ::2],
}

BOUNDS = ((0, 1), (-1.3, 2.7), (3, -0.1), (0.1, 100.3))
STEPS = ((0, 1), (0, 0.1), (0.3, 0.07), (-5, 0.013), (10, -0.3), (1 / 3, 1 / 7))
WHOLE_STEPS = ((0, 1), (-5, 3), (100, -2))

LAYERS = {
    "Linear(300, 77)": lambda nn: nn.Linear(300, 77),
    "Linear(300, 77) float64": lambda nn: nn.Linear(300, 77).double(),
    "Conv1d": lambda nn: nn.Conv1d(5, 7, 3),
    "Conv2d": lambda nn: nn.Conv2d(16, 33, (3, 5), groups=1),
    "Conv3d": lambda nn: nn.Conv3d(4, 6, 3, groups=2),
    "ConvTranspose1d": lambda nn: nn.ConvTranspose1d(5, 7, 3),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(16, 9, 3),
    "ConvTranspose3d": lambda nn: nn.ConvTranspose3d(4, 6, 3),
    "Bilinear": lambda nn: nn.Bilinear(17, 19, 23),
    "Embedding": lambda nn: nn.Embedding(101, 37, padding_idx=5),
    "EmbeddingBag": lambda nn: nn.EmbeddingBag(101, 37),
    "RNN": lambda nn: nn.RNN(19, 23, 2, bidirectional=True),
    "LSTM": lambda nn: nn.LSTM(19, 24, 2, proj_size=7),
    "GRU": lambda nn: nn.GRU(19, 23, 2),
    "LSTMCell": lambda nn: nn.LSTMCell(19, 23),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(64, 4),
    "MultiheadAttention kdim": lambda nn: nn.MultiheadAttention(64, 4, kdim=33, vdim=17,
                                                                add_bias_kv=True),
    "Transformer": lambda nn: nn.Transformer(32, 4, 2, 2, 65),
    "TransformerEncoderLayer": lambda nn: nn.TransformerEncoderLayer(48, 4, 77),
    "AdaptiveLogSoftmaxWithLoss": lambda nn: nn.AdaptiveLogSoftmaxWithLoss(32, 200, [20, 100]),
}

INITS = {
    "uniform_": lambda i, w: i.uniform_(w, -0.3, 1.7),
    "normal_": lambda i, w: i.normal_(w, 0.1, 0.02),
    "trunc_normal_": lambda i, w: i.trunc_normal_(w, std=0.02),
    "trunc_normal_ of two sides": lambda i, w: i.trunc_normal_(w, 0.5, 2.0, -1.0, 1.0),
    "xavier_uniform_": lambda i, w: i.xavier_uniform_(w, 1.3),
    "xavier_normal_": lambda i, w: i.xavier_normal_(w),
    "kaiming_uniform_": lambda i, w: i.kaiming_uniform_(w, 5 ** 0.5),
    "kaiming_normal_": lambda i, w: i.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    "constant_": lambda i, w: i.constant_(w, 0.7),
    "sparse_": lambda i, w: i.sparse_(w, 0.3),
    "eye_": lambda i, w: i.eye_(w),
}


def digest(t, tensors):
    """Returns eight hexadecimal digits of the elements' bits."""
    total = hashlib.sha256()
    for x in tensors:
        x = x.detach().contiguous()
        x = t.view_as_real(x) if x.is_complex() else x
        x = x.view(t.int16) if x.dtype == t.bfloat16 else x
        total.update(x.numpy().tobytes())
    return total.hexdigest()[:8]


def random_groups(t):
    for name, draw in RANDOM.items():
        for kind in FLOATS + (COMPLEX if name in PLAIN else ()):
            dtype = getattr(t, kind)
            yield f"{name} {kind}", lambda: (draw(t, n, dtype) for n in (*SIZES, LARGE))


def draw_groups(t):
    for name, draw in DRAWS.items():
        for kind in FLOATS[:2]:
            yield f"{name} {kind}", lambda: (
                draw(t, t.linspace(low, high, n, dtype=getattr(t, kind)))
                for low, high in ((0.01, 1), (0.5, 5), (5, 500)) for n in SIZES)


def part_groups(t):
    for name, part in PARTS.items():
        for kind in FLOATS:
            for fill in ("normal_", "uniform_"):
                def parts():
                    for rows, columns in ((5, 4), (17, 16), (18, 33)):
                        whole = t.zeros(rows, columns, dtype=getattr(t, kind))
                        getattr(part(whole), fill)()
                        yield whole
                yield f"{fill} {name} {kind}", parts
    yield "normal numbers after an odd number", lambda: [t.randn(5), t.randn(17), t.randn(3)]


def range_groups(t):
    for kind in FLOATS + COMPLEX + SHORT:
        dtype = getattr(t, kind)
        bounds = ((0, 1), (0, 100), (3, 90)) if kind in SHORT else BOUNDS
        sizes = (*SIZES, LARGE)
        yield f"linspace {kind}", lambda: (t.linspace(a, b, n, dtype=dtype)
                                           for a, b in bounds for n in sizes)
        yield f"logspace {kind}", lambda: (
            t.logspace(a, min(b, 2), n, base=base, dtype=dtype)
            for a, b in bounds[:2] for n in sizes for base in (10, 2, 2.5))
        if kind in COMPLEX:
            continue
        steps = WHOLE_STEPS if kind in SHORT else STEPS
        yield f"arange {kind}", lambda: (t.arange(a, a + by * (n - 0.5), by, dtype=dtype)
                                         for a, by in steps for n in sizes)
        yield f"range {kind}", lambda: (t.range(a, a + by * (n - 0.5), by, dtype=dtype)
                                        for a, by in steps for n in sizes)


def weights(module):
    return list(module.state_dict().values())


def weight_groups(t):
    for name, make in LAYERS.items():
        yield f"layer {name}", lambda: weights(make(t.nn))
    for label, (make, _) in nn_cases.CASES.items():
        yield f"case {label}", lambda: weights(make(t, t.nn))
    for name, fill in INITS.items():
        for shape in ((3, 5), (64, 33)):
            for kind in FLOATS:
                yield (f"init.{name} {list(shape)} {kind}",
                       lambda: [fill(t.nn.init, t.empty(*shape, dtype=getattr(t, kind)))])
    yield "init.dirac_", lambda: [t.nn.init.dirac_(t.empty(8, 4, 3, 3), 2)]


def cases(t):
    """Yields names and functions that return tensors."""
    for groups in (random_groups, draw_groups, part_groups, range_groups, weight_groups):
        yield from groups(t)


def run(t):
    """Returns the digest of every case that has elements."""
    out = {}
    for name, make in cases(t):
        t.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensors = list(make())
        if tensors:
            out[name] = digest(t, tensors)
    return out


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    EXPECTED.write_text(json.dumps(run(torch), indent=0) + "\n")
