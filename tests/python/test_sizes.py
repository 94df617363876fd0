"""One program for all sizes: instances for new sizes, whose bits are eager's."""
import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import _C, nn

pytestmark = pytest.mark.records("counts programs")


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Block(nn.Module):
    """As of a Llama: tables for rotary embeddings and the causal mask are cut to the length."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.before, self.between = RMSNorm(dim), RMSNorm(dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(dim, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin, mask):
        b, n, c = x.shape
        h = self.before(x)
        q, k, v = (f(h).view(b, n, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        cos, sin = cos[:n], sin[:n]
        q, k = q * cos + rotated(q) * sin, k * cos + rotated(k) * sin
        w = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        w = w.masked_fill(mask[:, :, :n, :n] == 0, float("-inf")).softmax(-1)
        x = x + self.o((w @ v).transpose(1, 2).reshape(b, n, -1))
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, layers=1, vocab=40, dim=32, heads=2, hidden=48, longest=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([Block(dim, heads, hidden) for _ in range(layers)])
        self.norm, self.head = RMSNorm(dim), nn.Linear(dim, vocab, bias=False)
        d = dim // heads
        angle = torch.outer(torch.arange(longest).float(), 1e-4 ** (torch.arange(0, d, 2).float() / d))
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, i):
        x = self.embed(i)
        for block in self.blocks:
            x = block(x, self.cos, self.sin, self.mask)
        return self.head(self.norm(x))


def gradients(net):
    out = [p.grad for p in net.parameters()]
    net.zero_grad()
    return out


def infers(net, call, *x):
    with torch.no_grad():
        return [call(*x)]


def trains(net, call, *x):
    out = call(*x)
    out.square().mean().backward()
    return [out.detach()] + gradients(net)


def made():
    return _C._programs_made(), _C._jit_counts()["requested"]



def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) and x.stride() == y.stride() for x, y in zip(a, b))


BATCHES, LENGTHS = range(2, 80), range(2, 42)


@pytest.mark.deferred_calls(0)
@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("run", [infers, trains])
def test_a_llama_of_all_sizes_is_one_program(run, dynamic):
    torch.manual_seed(0)
    net, pick = Llama(), random.Random(1)
    compiled = torch.compile(net, dynamic=dynamic)
    sizes = [(b, 5) for b in BATCHES] + [(4, n) for n in LENGTHS] + \
        [(pick.choice(BATCHES), pick.choice(LENGTHS)) for _ in range(20)]
    pick.shuffle(sizes)
    # Without dynamic=True the second size is recorded anew, and the first call of a recording makes no program.
    first = [(3, 7), (5, 12)] if dynamic else [(3, 7), (5, 12), (6, 9)]
    before = None
    for k, size in enumerate(first + sizes):
        x = torch.randint(0, 40, size)
        assert same(run(net, compiled, x), run(net, net, x)), size
        if k == len(first) - 1:
            before = made()
    assert made() == before


def test_a_training_step_of_all_sizes_is_one_program():
    """Where the function itself runs the backward pass, its sizes are fixed: each has a recording."""
    net = nn.Linear(4, 3)

    def step(x):
        net(x).square().mean().backward()
    compiled = torch.compile(step, dynamic=True)
    for n in (2, 3, 3, 4):
        x = torch.randn(n, 4)
        compiled(x)
        got = gradients(net)
        step(x)
        assert same(got, gradients(net))


W, bias, table = torch.randn(16, 8, requires_grad=True), torch.randn(16, requires_grad=True), torch.randn(64, 8)
norm, lengths = nn.LayerNorm(8), torch.randn(50, 8, requires_grad=True)
encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

# Functions of x[b, n, 8] with 5 <= n <= 64: one program each.
SHARED = {
    "mean": lambda x: x.mean(),
    "mean of columns": lambda x: x.mean(1) * x.shape[1],
    "narrow product": lambda x: F.linear(x, W, bias).relu(),
    "layer norm": lambda x: norm(x),
    "cat": lambda x: torch.cat([x, x[:, :1] * 2, table[:x.shape[1]].expand(x.shape[0], -1, -1)], 1),
    "variance": lambda x: x.var(1, keepdim=True) + x.std(-1, keepdim=True),
    "stack": lambda x: torch.stack([x, x * 2], 1).sum(1),
    "positions": lambda x: x + torch.arange(x.shape[1]).float()[None, :, None] / 7,
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "mask of the length": lambda x: (x @ x.transpose(1, 2)).masked_fill(
        torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), float("-inf")).softmax(-1) @ x,
    "flat": lambda x: x.reshape(-1, 8).cumsum(0).view(x.shape).flip(1),
    "last": lambda x: x[:, -1] + x[:, x.shape[1] - 1] + x[:, 0],
    "pooling": lambda x: F.adaptive_avg_pool1d(x.transpose(1, 2), 3),
    "encoder": lambda x: encoder(x),
    "sort": lambda x: x.sort(1)[0] + x.sum(-1, keepdim=True).topk(2, 1)[0].sum(1, keepdim=True),
    "gather": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "pad": lambda x: F.pad(x, (0, 0, 1, 2)).roll(1, 1),
    "repeat": lambda x: x.repeat(2, 1, 1) + x.repeat_interleave(2, 0),
    "einsum": lambda x: torch.einsum("bnd,bmd->bnm", x, x),
    "cross entropy": lambda x: F.cross_entropy(x.reshape(-1, 8), torch.zeros(x.shape[0] * x.shape[1], dtype=torch.long)),
    "diagonal": lambda x: (x @ x.transpose(1, 2)).diagonal(dim1=1, dim2=2),
    "two results": lambda x: (x.exp().sum(1), (x * x.shape[0]).mean(0)),
    "factories": lambda x: torch.where(x > 0, x, torch.zeros_like(x)) + torch.full((x.shape[1], 1), 2.0),
    "outer": lambda x: x.unsqueeze(1) - x.unsqueeze(2),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x),
    "embedding": lambda x: F.embedding((x.detach().sum(-1) * 3).long().abs() % 50, lengths),
    "windows": lambda x: x.unfold(1, 2, 1).sum(-1),
}
# Programs in which sizes decide more than sizes of values; their results must still be right.
OTHERS = {
    "chunks": lambda x: sum((k + 1) * part.sum() for k, part in enumerate(x.chunk(2, 1))),
    "halves": lambda x: x[:, :x.shape[1] // 2].sum(1) - x[:, x.shape[1] // 2:].exp().sum(1),
    "every second": lambda x: x[:, ::2].sum() + x[:, 1::2].exp().sum(),
    "at most": lambda x: x[:, :min(x.shape[1], 9)] * 2,
    "beyond the end": lambda x: x[:, :20] * table[:x.shape[1]][:20],
    "a power": lambda x: x * x.shape[1] ** -0.5 + 1 / x.shape[0],
    "in place": lambda x: x.clone()[:, 1:].add_(x[:, :-1]).mul_(2),
    "broadcast or not": lambda x: x[:, :x.shape[1] - 4] + x[:, :1],
    "equal sizes": lambda x: x.sum(-1) + (x.sum((1, 2)) if x.shape[0] == x.shape[1] else 1),
}


def outputs_and_gradients(f, x):
    out = f(x)
    out = out if isinstance(out, tuple) else (out,)
    loss = sum((o * torch.arange(o.numel()).view(o.shape)).sum() for o in out if o.requires_grad)
    got = torch.autograd.grad(loss, [x, W, bias, lengths, *norm.parameters(), *encoder.parameters()], allow_unused=True)
    return [o.detach() for o in out] + [g for g in got if g is not None]


def sizes_of(seed, shortest=5):
    pick = random.Random(seed)
    for _ in range(14):
        yield pick.choice([2, 3, 4, 5, 8, 17, 64]), pick.choice([n for n in (2, 3, 4, 5, 7, 8, 9, 12, 16, 33, 64) if n >= shortest])


@pytest.mark.parametrize("name", [*SHARED, *OTHERS])
def test_any_sizes(name):
    f = SHARED.get(name) or OTHERS[name]
    compiled = torch.compile(f, dynamic=True, recompile_limit=100)
    for k, (b, n) in enumerate(sizes_of(3, 5 if name in SHARED else 2)):
        x = torch.randn(b, n, 8, requires_grad=True)
        want, got = outputs_and_gradients(f, x), outputs_and_gradients(compiled, x)
        assert len(want) == len(got) and all(torch.equal(p, q) for p, q in zip(want, got)), (b, n)
        if k == 2:
            before = made()[0]
    if name in SHARED:
        entry, = compiled._entries
        assert entry.runner.shared == 1 and made()[0] == before


class Residual(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for _ in range(2))

    def forward(self, x):
        h = F.relu(self.norms[0](self.convs[0](x)))
        return F.relu(x + self.norms[1](self.convs[1](h)))


class Pooled(nn.Module):
    """Convolutions whose results stay in blocks of channels, through pooling and a sum."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.last, self.head = nn.Conv2d(32, 64, 3, stride=2), nn.Linear(64, 5)

    def forward(self, x):
        h = F.max_pool2d(self.first(x).relu(), 2)
        h = self.last(h + self.second(h).sigmoid())
        return self.head(h.mean((2, 3)))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(8, momentum=0.3), nn.Linear(8, 8)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


# Nets, the sizes of their inputs behind the first, and whether they train.
NETS = {
    "batch norm, training": (Normed, (8,), True),
    "batch norm": (Normed, (8,), False),
    "residual block, training": (Residual, (16, 8, 8), True),
    "residual block": (Residual, (16, 8, 8), False),
    "pooled": (Pooled, (3, 16, 16), False),
    "pooled, training": (Pooled, (3, 16, 16), True),
    "one convolution": (lambda: nn.Conv2d(16, 16, 3), (16, 8, 8), False),
}


def state(net):
    return [v.detach().clone() for v in net.state_dict().values()]


@pytest.mark.deferred_calls(0)
@pytest.mark.parametrize("name", NETS)
def test_nets_of_all_batches_are_one_program(name):
    make, shape, training = NETS[name]
    torch.manual_seed(0)
    net, other = make().train(training), make().train(training)
    other.load_state_dict(net.state_dict())
    compiled = torch.compile(net, dynamic=True)
    for k, n in enumerate((3, 5, 5, 9, 2, 17, 8, 4, 6)):
        x, run = torch.randn(n, *shape), trains if training else infers
        assert same(run(net, compiled, x), run(other, other, x)), n
        assert same(state(net), state(other)), n
        if k == 1:
            before = made()
    assert made() == before
    entries = (compiled._compiled_forward if hasattr(compiled, "_compiled_forward") else compiled)._entries
    assert entries[0].runner.shared == 1


@pytest.mark.parametrize("make", [Residual, Pooled])
@pytest.mark.parametrize("training", [False, True])
def test_images_of_all_sizes_with_any_number_of_threads(make, training):
    torch.manual_seed(1)
    net, other, was = make().train(training), make().train(training), torch.get_num_threads()
    other.load_state_dict(net.state_dict())
    compiled, run = torch.compile(net, dynamic=True), trains if training else infers
    channels = 16 if make is Residual else 3
    try:
        for k, (n, side) in enumerate(((3, 12), (4, 16), (2, 9), (5, 16), (4, 16), (2, 9), (6, 20), (3, 12))):
            torch.set_num_threads(1 + k // 2 % 2)
            x = torch.randn(n, channels, side, side)
            assert same(run(net, compiled, x), run(other, other, x)), (n, side)
            assert same(state(net), state(other)), (n, side)
    finally:
        torch.set_num_threads(was)
    entries = (compiled._compiled_forward if hasattr(compiled, "_compiled_forward") else compiled)._entries
    # The mean's gradient is divided by ((side // 2 - 3) // 2 + 1) ** 2, which is no arithmetic that is looked for.
    assert entries[0].runner.shared or (make is Pooled and training)


@pytest.mark.deferred_calls(0)
@pytest.mark.parametrize("make", [nn.GRU, nn.LSTM, nn.LSTMCell])
def test_a_recurrent_net_of_all_batches_whose_state_is_not_used(make):
    torch.manual_seed(0)
    net = make(8, 16)
    compiled = torch.compile(net, dynamic=True)
    for k, n in enumerate((3, 5, 9, 2, 17, 5)):
        x, got = (torch.randn(n, 8) if make is nn.LSTMCell else torch.randn(6, n, 8)), []
        for call in (compiled, net):
            out = call(x)[0]
            out.square().mean().backward()
            got.append([out.detach()] + gradients(net))
        assert same(*got), n
        if k == 1:
            before = made()
    assert made() == before


def test_a_backward_pass_through_some_results():
    f = torch.compile(lambda x: (x.exp().sum(1), (x * x).mean(0)), dynamic=True)
    for n in (3, 4, 5, 6, 7, 9):
        if n == 5:
            before = made()
        x = torch.randn(n, 2 * n, requires_grad=True)
        for k in (0, 1):
            got, = torch.autograd.grad(f(x)[k].sum(), x)
            want, = torch.autograd.grad((x.exp().sum(1), (x * x).mean(0))[k].sum(), x)
            assert torch.equal(got, want)
    assert f._entries[0].runner.shared == 1 and made() == before


def test_whole_numbers_are_sizes_too():
    def f(x, k):
        return x.repeat(k, 1)[:, :k] * k
    g, x = torch.compile(f), torch.randn(3, 40)
    for k in (2, 3, 4, 7, 9, 30):
        assert torch.equal(g(x, k), f(x, k))
    assert g._entries[0].runner.shared == 1 and len(g._entries) == 2


def test_sizes_that_were_one_may_part():
    """Two sizes that were equal in all calls are one until they differ."""
    f = torch.compile(lambda x, y: x.sum(0) + y.exp().sum(0), dynamic=True)
    for a, b in ((3, 3), (4, 4), (5, 5), (4, 6), (7, 2), (3, 9)):
        x, y = torch.randn(a, 4), torch.randn(b, 4)
        assert torch.equal(f(x, y), x.sum(0) + y.exp().sum(0))
    assert len(f._entries) == 1 and f._entries[0].runner.shared == 2


CALLED = """
import cresset as torch
f = torch.compile(lambda x: torch.minimum(x, x.floor()).exp(), dynamic=True)
with torch.no_grad():
    for n in (2, 10, 3, 12, 3, 33, 10):
        x = torch.randn(n)
        assert torch.equal(f(x), torch.minimum(x, x.floor()).exp()), n
assert f._entries[0].runner.shared == 1
"""


def test_sizes_that_return_where_groups_call_their_nodes():
    run = subprocess.run([sys.executable, "-c", CALLED], capture_output=True, text=True,
                         env={**os.environ, "CR_CC": "none", "CR_TILES": "0"})
    assert not run.returncode, run.stderr


LIMITED = """
import sys
sys.path.insert(0, sys.argv[1])
from test_sizes import *
net = Llama(layers=2)
f = torch.compile(net, dynamic=True)
for b in list(range(2, 80)) + [3, 4]:
    x = torch.randint(0, 40, (b, 5))
    assert same(trains(net, f, x), trains(net, net, x))
calls = f._compiled_forward._entries[0].runner
print(calls.count, calls.bytes)
"""


def test_the_oldest_sizes_go():
    run = subprocess.run([sys.executable, "-c", LIMITED, os.path.dirname(__file__)], capture_output=True, text=True,
                         env={**os.environ, "CR_SIZES_LIMIT": "1"})
    assert not run.returncode, run.stderr
    count, size = map(int, run.stdout.split())
    assert 2 < count < 78 and size <= 1 << 20


def test_a_guard_on_a_remainder_is_not_taken_for_a_constant():
    """Recorded where n % 3 is 0: it is 0 at all sizes with which the shared program is made."""
    @torch.compile
    def f(x, n):
        return x + 1 if n % 3 else x - 1
    assert [f(torch.zeros(1), n).item() for n in range(1, 13)] == [1, 1, -1] * 4


SIZES = [(3, 4), (3, 12), (12, 4), (5, 4), (3, 4), (12, 12), (2, 4), (40, 4), (4, 40)]


@pytest.mark.parametrize("f", [lambda x: torch.var_mean(torch.diagonal(x)),
                               lambda x: torch.diagonal(x) * torch.diagonal(x).numel(),
                               lambda x: torch.diagonal(x, 2).mean(),
                               lambda x: torch.topk(x, min(x.shape[0], 6), 0)[0].sum(0)],
                         ids=["variance", "number", "offset", "bounded"])
def test_the_lesser_of_two_sizes_is_neither_of_them(f):
    compiled = torch.compile(f)
    for size in SIZES:
        x = torch.randn(size, dtype=torch.float64)
        for _ in range(4):
            got, wanted = compiled(x), f(x)
            for a, b in zip(*[(v,) if isinstance(v, torch.Tensor) else v for v in (got, wanted)]):
                assert a.equal(b) or (a.isnan() & b.isnan()).all(), size


@pytest.mark.parametrize("dynamic", (None, True, False))
def test_running_statistics_of_steps_with_other_batch_sizes(dynamic):
    """A batch norm counts its elements: the factor n / (n - 1) of the running variance is another one for each n."""
    m = nn.BatchNorm1d(3)

    def step(x, y):
        loss = nn.functional.cross_entropy(m(x), y)
        loss.backward()
        return loss
    compiled = torch.compile(step, dynamic=dynamic)
    for n in (8, 8, 8, 3, 5, 3, 8, 20):
        x, before = torch.randn(n, 3), m.running_var.clone()
        compiled(x, torch.arange(n) % 3)
        wanted = np.asarray(before) * .9 + x.numpy().var(0, ddof=1) * .1
        np.testing.assert_allclose(m.running_var.numpy(), wanted, rtol=1e-5)


def test_steps_of_further_sizes_leave_out_the_search_for_a_recording(monkeypatch):
    """A training step fixes its sizes.  Calls of other sizes are deferred at once; one with another flag is recorded."""
    from cresset._dynamo.capture import Compiler
    missed, miss = [], Compiler.miss
    monkeypatch.setattr(Compiler, "miss", lambda self, compiled, args, kwargs: missed.append(args) or miss(self, compiled, args, kwargs))
    nets = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())

    def step(net):
        optimizer = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)

        def run(x, y, doubled):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y) * (2 if doubled else 1)
            loss.backward()
            optimizer.step()
            return loss.detach()
        return run

    eager, compiled = step(nets[0]), torch.compile(step(nets[1]))

    def call(rows, doubled=False):
        x, y = torch.arange(rows * 4.).view(rows, 4).sin(), torch.arange(rows) % 3
        assert eager(x, y, doubled).item() == compiled(x, y, doubled).item()

    for rows in (8, 8, 8, 5, 6, 7, 9):
        call(rows)
    count = len(missed)
    for rows in (6, 7, 10, 11, 8, 12):
        call(rows)
    assert len(missed) == count
    call(8, True)
    assert len(missed) == count + 1
    for name, value in nets[0].state_dict().items():
        assert value.equal(nets[1].state_dict()[name]), name
    with torch.compiler.set_stance("fail_on_recompile"):
        with pytest.raises(RuntimeError, match="recompile"):
            compiled(torch.ones(13, 4), torch.zeros(13, dtype=torch.int64), False)


@pytest.mark.parametrize("n", [4, 40_000])
def test_a_float_that_varies_needs_no_program_of_its_own(n):
    x = torch.randn(n)
    f = torch.compile(lambda x, s: x * s)
    for k in range(12):
        assert torch.equal(f(x, k + 0.5), x * (k + 0.5))
    assert len(f._entries) == 2 and f._entries[0].runner.count == 1


def asks_for_its_type(module, x):
    return (x @ x.mT).softmax(-1) * len(type(module).__name__)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_sizes_of_code_that_may_tell_symbols_from_numbers_have_few_recordings(dynamic, wanted):
    """The code reads `type`, so no size is a symbol: calls of further sizes are deferred, and have one program."""
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    module = nn.Linear(1, 1)
    f, before = torch.compile(asks_for_its_type, dynamic=dynamic), _C._programs_made()
    for n in (*range(3, 15), 3, 4, 5):
        x = torch.randn(2, n, 4).requires_grad_(wanted)
        y, z = f(module, x), asks_for_its_type(module, x)
        assert torch.equal(y, z)
        if wanted:
            assert torch.equal(*(torch.autograd.grad(r.sum(), x)[0] for r in (y, z)))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == (1 if dynamic else 2)
    assert _C._programs_made() - before <= 8


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.

    def forward(self, x, s):
        return torch.tanh(x * self.scale) / s


@pytest.mark.parametrize("form", ["argument", "arithmetic", "attribute"])
def test_a_float_that_a_derivative_keeps_makes_few_recordings(form):
    """A guard fixes it in a recording; calls with other floats are deferred, and share one program."""
    w, net = torch.randn(8, 5, requires_grad=True), Scaled()

    def run(f, s):
        net.scale = s if form == "attribute" else 1.
        y = f(w, {"argument": s, "arithmetic": 2 * s + 1, "attribute": 3.}[form])
        return y, *torch.autograd.grad(y.square().sum(), w)

    compiled = torch.compile(net)
    for k in range(20):
        for got, want in zip(run(compiled, k + 0.5), run(net, k + 0.5)):
            assert torch.equal(got, want)
    assert len(compiled._compiled_forward._entries) <= 2
    with torch.no_grad():  # whose programs read it
        for k in range(8):
            assert torch.equal(compiled(w, k + 0.5), net(w, k + 0.5))
