"""Groups over all their forms - rows, views, strides, types - have the bits of the nodes called one by one."""
import random

import pytest

import cresset as torch
import cresset.nn.functional as F

from test_graph import record, same

FINE = 60.0  # seconds to wait for native code


@pytest.fixture(autouse=True)
def settings():
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def groups_of(compiled):
    return str(compiled).count("= group {")


def check(f, *inputs, native=True, groups=None):
    """Eager and compiled, at one and two threads, by tiles and by native code."""
    graph, _ = record(f, *inputs, parts=True)
    compiled = graph.compile()
    if groups is not None:
        assert groups_of(compiled) == groups, str(compiled)
    with torch.no_grad():
        for native in ([False, True] if native else [False]):
            if native:
                assert compiled.wait(FINE) == len(compiled.sources)
            for threads in (1, 2):
                torch.set_num_threads(threads)
                want = f(*inputs)
                want = want if isinstance(want, tuple) else (want,)
                got = compiled.run(list(inputs))
                for k, (a, b) in enumerate(zip(got, want)):
                    assert a.shape == b.shape and same(a, b), f"result {k}\n{compiled}"
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
def test_rows_and_what_is_around_them(name, size):
    assert groups_of(check(ROWS[name], torch.randn(*size), torch.randn(size[0])))


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("size", [(3, 20000), (2, 3), (5, 1), (2, 70), (2, 1), (2, 3, 4), (2, 0), (0, 5)])
def test_rows_of_other_sizes(name, size):
    if (0 in size and name in ("extremes", "weighted layer_norm", "logsumexp")) or \
            (len(size) > 2 and name == "weighted layer_norm"):
        return
    rest = torch.randn(size[:-1]) if len(size) < 3 else torch.randn(size[:-1] if name != "norm" else 1)
    check(ROWS[name], torch.randn(*size), rest, native=False)
