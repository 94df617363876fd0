"""Entries with several results of which a compiled function reads some, for sizes that vary, and
backward passes through some of a function's results."""
import itertools
import zlib

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import nn

L = torch.linalg
COLUMNS = 8
SIZES = ((3, 5, 8, 9, 12, 17, 2, 1), (17, 12, 9, 8, 4, 1), (5, 0, 6, 7, 1, 0, 9), (12, 10, 8, 6, 4, 2))


def square(x):
    return x.T @ x + torch.eye(COLUMNS)


def weights(kind, *sizes):
    torch.manual_seed(0)
    return [p.detach() for p in kind(*sizes).parameters()]


SCALE = torch.arange(float(COLUMNS)).sin() + 0.1
LSTM, GRU = weights(nn.LSTM, COLUMNS, 5), weights(nn.GRU, COLUMNS, 5)


def lstm(x):
    zero = torch.zeros(1, 1, 5)
    return torch.lstm(x[:, None], (zero, zero), LSTM, True, 1, 0.0, True, False, False)


def lstm_cell(x):
    zero = torch.zeros(x.shape[0], 5)
    return torch.lstm_cell(x, (zero, zero), *LSTM)


def attention(x):
    x = x[:, None]
    return F.multi_head_attention_forward(x, x, x, COLUMNS, 2, torch.full((24, 8), 0.1), torch.zeros(24), None, None,
                                          False, 0.0, torch.eye(8), torch.zeros(8), need_weights=True)


FUNCTIONS = {
    "qr": L.qr, "qr complete": lambda x: L.qr(x, mode="complete"), "svd": lambda x: L.svd(x, full_matrices=False),
    "old svd": torch.svd, "eigh": lambda x: L.eigh(square(x)), "lu": L.lu, "lu_factor": lambda x: L.lu_factor(square(x)),
    "slogdet": lambda x: L.slogdet(square(x)), "inv_ex": lambda x: L.inv_ex(square(x)),
    "cholesky_ex": lambda x: L.cholesky_ex(square(x)), "lstsq": lambda x: tuple(L.lstsq(x, x.sin())[:2]),
    "solve_ex": lambda x: L.solve_ex(square(x), x.T), "geqrf": torch.geqrf, "ldl": lambda x: L.ldl_factor(square(x)),
    "max": lambda x: x.max(1), "min": lambda x: x.min(0), "sort": lambda x: x.sort(0), "topk": lambda x: x.topk(2, 1),
    "kthvalue": lambda x: x.kthvalue(2, 1), "median": lambda x: x.median(1), "nanmedian": lambda x: x.nanmedian(0),
    "mode": lambda x: x.mode(1), "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)), "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(1), "std_mean": lambda x: torch.std_mean(x, 1), "var_mean": lambda x: torch.var_mean(x, 0),
    "frexp": torch.frexp, "layer norm": lambda x: torch.native_layer_norm(x, (COLUMNS,), SCALE, SCALE, 1e-5),
    "group norm": lambda x: torch.native_group_norm(x[:, :, None], SCALE, SCALE, x.shape[0], COLUMNS, 1, 4, 1e-5),
    "batch norm": lambda x: torch.native_batch_norm(x, SCALE, SCALE, None, None, True, 0.1, 1e-5),
    "unique": lambda x: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: torch.unique_consecutive(x.round(), return_inverse=True, return_counts=True),
    "lstm": lstm, "gru": lambda x: torch.gru(x[:, None], torch.zeros(1, 1, 5), GRU, True, 1, 0.0, True, False, False),
    "lstm_cell": lstm_cell, "attention": attention, "max_pool1d": lambda x: F.max_pool1d(x[None], 2, return_indices=True),
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], (1, 2), return_indices=True),
    "adaptive": lambda x: F.adaptive_max_pool1d(x[None], 3, return_indices=True), "split": lambda x: x.split(3, 1),
    "chunk": lambda x: x.chunk(2, 0), "unbind": lambda x: x.unbind(1), "gradient": lambda x: tuple(torch.gradient(x, dim=1)),
    "nonzero": lambda x: (x > 0).nonzero(as_tuple=True), "native_dropout": lambda x: torch.native_dropout(x, 0.5, True),
    "draws": lambda x: (torch.rand(COLUMNS) * x, torch.bernoulli(x.sigmoid().detach()), x.abs().log1p()),
}


def only(f, which):
    return lambda x: tuple(v for i, v in enumerate(f(x * 1)) if i in which)


def rest_viewed(f, which):
    def g(x):
        out = f(x + 0)
        [v[..., :1].reshape(-1) for i, v in enumerate(out) if i not in which and v.ndim]
        return tuple(out[i][..., None] for i in which if i < len(out))
    return g


def rest_changed(f, which):
    def g(x):
        out = f(x.sin())
        for i, v in enumerate(out):
            if i not in which:
                v.detach().clone().add_(1)
        return tuple(out[i] * 2 for i in which if i < len(out))
    return g


def results(f, n, grad, reached):
    torch.manual_seed(n)
    x = torch.randn(n, COLUMNS).requires_grad_(grad)
    try:
        out = tuple(f(x))
        roots = [out[i] for i in reached if i < len(out) and out[i].requires_grad]
        torch.autograd.backward(roots, [torch.full_like(r, k + 1) for k, r in enumerate(roots)])
        return [*out, x.grad]
    except Exception as e:
        return type(e), str(e)


def is_same(a, b):
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a == b
    if (a.dtype, a.shape, a.requires_grad) != (b.dtype, b.shape, b.requires_grad):
        return False
    return torch.equal(*(torch.nan_to_num(t.detach()) if t.is_floating_point() else t for t in (a, b)))


def check(f, sizes, grad, reached, what):
    compiled = torch.compile(f, dynamic=True)
    for n in sizes:
        want, got = results(f, n, grad, reached), results(compiled, n, grad, reached)
        assert len(want) == len(got) and all(map(is_same, want, got)), (what, n, want, got)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_some_results_are_read(name):
    f, every = FUNCTIONS[name], (0, 1, 2)[:len(tuple(FUNCTIONS[name](torch.randn(9, COLUMNS))))]
    for count in range(1, len(every) + 1):
        for which in itertools.combinations(every, count):
            sizes = SIZES[zlib.crc32(f"{name}{which}".encode()) % len(SIZES)]
            check(only(f, which), sizes, False, every, ("read", which))
            for form in (only, rest_viewed, rest_changed):
                check(form(f, which), sizes, True, every, (form.__name__, which))
            check(f, sizes, True, which, ("reached", which))


def test_a_factor_alone_over_all_sizes():
    """The derivative of wide matrices is another formula than that of tall ones, with other saved values."""
    check(lambda x: (L.qr(x)[1],), range(3, 40), True, (0,), "qr")


def test_a_choice_by_sizes_is_not_that_of_other_sizes():
    """The derivative of a square matrix's decomposition has no projection."""
    check(lambda x: L.svd(x, full_matrices=False), (64, 33, 17, 9, 8, 4), True, (0, 1, 2), "svd")


# --- gradients through some of a function's results ---

PARTS = {
    "relu6": F.relu6, "hardtanh": F.hardtanh, "elu": F.elu, "gelu": F.gelu, "sinc": torch.sinc, "clamp": lambda x: x.clamp(-.5, .5),
    "nan_to_num": torch.nan_to_num, "amax": lambda x: x.amax(0), "prod": lambda x: x.prod(0), "norm": lambda x: x.norm(dim=0),
    "cumprod": lambda x: x.cumprod(0), "inv": L.inv, "qr": lambda x: L.qr(x)[0], "svdvals": L.svdvals,
    "where": lambda x: torch.where(x > 0, x * x, x * 3), "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "matrix_exp": L.matrix_exp, "huber": lambda x: F.huber_loss(x, x.flip(0), reduction="none"),
    "smooth": lambda x: F.smooth_l1_loss(x, x.flip(0), reduction="none"), "entr": lambda x: torch.special.entr(x.abs()),
    "slogdet": lambda x: L.slogdet(x)[1], "dropout": lambda x: F.dropout(x * x, 0.5), "renorm": lambda x: x.renorm(2, 0, 1.0),
}


def gradients(f, reached):
    torch.manual_seed(3)
    x, w = (torch.randn(8, 8).requires_grad_() for _ in range(2))
    out = f(x, w)
    sum((out[k] * torch.arange(float(out[k].numel())).reshape(out[k].shape)).sum() for k in reached).backward()
    return [*out, x.grad, w.grad]


@pytest.mark.parametrize("first", PARTS)
def test_gradients_through_one_result(first):
    """Values that only the derivatives compute have counted names, which depend on the results that are reached."""
    for second in PARTS:
        def f(x, w, a=PARTS[first], b=PARTS[second]):
            return a(x @ w), b(w @ x)
        compiled = torch.compile(f)
        for reached in ((0, 1), (0, 1), (1,), (0,)):
            want, got = gradients(f, reached), gradients(compiled, reached)
            assert all(map(is_same, want, got)), (second, reached)
