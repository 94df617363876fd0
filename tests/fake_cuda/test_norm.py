"""Batch norm by the kernels of emit/norm.cuh, beside float64 on the host."""
import pytest
from test_cuda import FAKE, launches, same

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
norm = torch.nn.functional.batch_norm
EPS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11}

# Vectors of 16 bytes and single elements, several parts of the lines, several blocks of channels
SIZES = [((4, 16, 4, 8), False), ((3, 5, 5, 7), False), ((3, 2, 4000), False), ((6, 16, 5, 3), True), ((700, 5, 2, 2), True),
         ((1300, 40), False), ((2, 3, 2, 3, 2), True), ((9, 4, 1, 1), False)]


def near(have, want, dtype, terms=1):
    """No farther from the float64 value than rounding to the dtype, and sums in float32, explain."""
    assert have.shape == want.shape
    return (have.detach().cpu().double() - want).abs().max() <= terms * EPS[dtype] * (1 + want.abs().max())


def arrays(size, last, dtype, shift=0.0):
    torch.manual_seed(31)
    layout = torch.contiguous_format if not last else torch.channels_last if len(size) == 4 else torch.channels_last_3d
    x, g = (torch.randn(size).add(shift).to(dtype).contiguous(memory_format=layout) for _ in range(2))
    return x, g, torch.rand(size[1]) + 0.5, torch.randn(size[1])


def run(x, g, w, b, training=True):
    """The result, the gradients of x, w and b, and the running statistics."""
    x, w, b = (t if t is None else t.detach().requires_grad_() for t in (x, w, b))
    mean, var = (f(x.shape[1], dtype=x.dtype if w is None else w.dtype, device=x.device) for f in (torch.zeros, torch.ones))
    y = norm(x, mean, var, w, b, training, 0.25, 0.01)
    y.backward(g)
    return [y, x.grad] + [t.grad for t in (w, b) if t is not None] + [mean, var]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("size, last", SIZES)
def test_batch_norm(size, last, dtype, training):
    x, g, w, b = arrays(size, last, dtype)
    own = torch.float64 if dtype == torch.float64 else torch.float32 if last else dtype  # of weights beside half types
    w, b = w.to(own), b.to(own)
    made = run(*(t.cuda() for t in (x, g, w, b)), training)
    want = run(*(t.double() for t in (x, g, w, b)), training)
    assert made[0].stride() == x.stride() and made[1].stride() == x.stride() and made[0].dtype == made[1].dtype == dtype
    assert made[2].dtype == made[3].dtype == own
    # a gradient of x is a difference of three terms; one of w or b is a sum
    for have, right, type_, terms in zip(made, want, (dtype, dtype, own, own, own, own), (2, 4, 8, 8, 2, 2)):
        assert near(have, right, type_, terms)
    if dtype == torch.float32 and not training:
        assert same(made[0].detach(), run(x, g, w, b, False)[0].detach())


@pytest.mark.parametrize("last", [False, True])
def test_variances_of_elements_far_from_zero(last):
    x, g, w, b = arrays((40, 8, 9, 8), last, torch.float32, 3000.0)
    made, want = run(x.cuda(), g.cuda(), w.cuda(), b.cuda()), run(x.double(), g.double(), w.double(), b.double())
    assert near(made[0], want[0], torch.float32, 200) and near(made[-1], want[-1], torch.float32, 4)


@pytest.mark.parametrize("part", [lambda t: t[:, 1:4], lambda t: t.transpose(2, 3), lambda t: t[:1].expand(5, 6, 4, 8)])
def test_other_layouts_are_copied(part):
    x, _, w, b = arrays((3, 6, 4, 8), False, torch.float32)
    x, there = part(x), part(x.cuda())
    w, b, g = w[:x.shape[1]], b[:x.shape[1]], torch.ones(()).expand(x.shape)
    made, want = run(there, g.cuda(), w.cuda(), b.cuda()), run(x.double(), g.double(), w.double(), b.double())
    for have, right in zip(made, want):
        assert near(have, right, torch.float32, 8)


def test_without_parameters():
    x, g, *_ = arrays((5, 6, 8), False, torch.bfloat16)
    for have, right in zip(run(x.cuda(), g.cuda(), None, None), run(x.double(), g.double(), None, None)):
        assert near(have, right, torch.bfloat16, 4)


def test_batch_norm_is_three_launches_each_way():
    x, g, w, b = (t.cuda() for t in arrays((4, 16, 4, 8), True, torch.bfloat16))
    w.requires_grad_()
    leaf, mean, var = x.clone().requires_grad_(), torch.zeros(16, device="cuda"), torch.ones(16, device="cuda")
    y = norm(leaf, None, None, w, b, True)
    assert launches(lambda: norm(x, None, None, w.detach(), b, True)) == (3 if FAKE else 0)
    assert launches(lambda: norm(x, mean, var, w.detach(), b)) == (1 if FAKE else 0)
    assert launches(lambda: torch.autograd.grad(y, (leaf, w), g, retain_graph=True)) == (3 if FAKE else 0)


@pytest.mark.parametrize("training", [True, False])
def test_second_derivatives(training):
    def second(device):
        torch.manual_seed(32)
        x, w, b, v = (torch.randn(n, dtype=torch.float64).to(device).requires_grad_() for n in ((4, 3, 5), (3,), (3,), (4, 3, 5)))
        mean, var = torch.zeros(3, dtype=torch.float64, device=device), torch.ones(3, dtype=torch.float64, device=device)
        first = torch.autograd.grad((norm(x, mean, var, w, b, training).sin() * v).sum(), (x, w, b), create_graph=True)
        return torch.autograd.grad(sum(t.square().sum() for t in first), (x, w, v))

    for have, right in zip(second("cuda"), second("cpu")):
        assert near(have, right, torch.float64, 100)


def test_instance_norm_and_compiled_batch_norm():
    x, _, w, b = arrays((3, 4, 6, 8), False, torch.float32)
    have = torch.nn.functional.instance_norm(x.cuda(), weight=w.cuda(), bias=b.cuda())
    assert near(have, torch.nn.functional.instance_norm(x.double(), weight=w.double(), bias=b.double()), torch.float32, 4)
    layer = torch.nn.BatchNorm2d(4).cuda()
    compiled, there = torch.compile(lambda x: layer(x).relu()), x.cuda()
    for _ in range(3):
        made = compiled(there)
    assert same(made.detach(), layer(there).relu().detach().cpu())


class Joined(torch.nn.Module):
    """A block whose norms are followed by relu, by a sum and relu, by a sum of two norms, and by relu and another reader."""

    def __init__(self, layout, dtype):
        super().__init__()
        torch.manual_seed(33)
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(16, affine=k != 1) for k in range(5)])
        for p in self.norms.parameters():
            torch.nn.init.normal_(p)
        self.to("cuda", dtype)

    def forward(self, x):
        a, b, c, d, e = self.norms
        y = a(x).relu_()
        y = torch.relu(b(y.sin()) + y)
        y = torch.relu(c(y.flip(1)) + d(y.cos()))
        z = e(y * x)
        return torch.relu(z) + z.exp()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_relu_after_batch_norm_is_computed_by_its_kernels(last, dtype):
    layout = torch.channels_last if last else torch.contiguous_format
    start, g = (torch.randn(3, 16, 5, 4, generator=torch.Generator().manual_seed(k)).to("cuda", dtype).contiguous(memory_format=layout)
                for k in (34, 35))
    start[0, 3] = float("nan")  # passes through relu and its gradient
    made, taken = [], []
    for compiled in (False, True):
        module = Joined(layout, dtype)
        f, x = torch.compile(module) if compiled else module, start.clone().requires_grad_()

        def step():
            x.grad = None
            module.zero_grad()
            y = f(x)
            y.backward(g)
            return y
        for _ in range(3):
            y = step()
        made.append([t.detach().cpu() for t in (y, x.grad, *(p.grad for p in module.parameters()), *module.buffers())])
        taken.append(launches(step))
    for have, right in zip(*made):
        assert torch.equal(have.nan_to_num(7), right.nan_to_num(7)) and have.stride() == right.stride()
    assert made[0][1].isnan().any() and not made[0][1].isnan().all()
    assert not FAKE or taken[1] <= taken[0] - 20
