"""Reports about values, dtypes and errors of single operators."""
import cresset as torch
from cresset import nn

from . import calls, reported

F = nn.functional
nan, inf = float("nan"), float("inf")


def tensors(*values, dtype=None):
    return lambda: tuple(torch.tensor(v, dtype=dtype) for v in values)


def bits(x):
    return torch.sqrt(x).view(torch.int32), (-x.abs().sqrt()).view(torch.int32)


def signed_zero(x):
    return torch.reciprocal(torch.ceil(x) + torch.zeros_like(x)), F.elu(-0. * x.abs()).reciprocal()


def half_and_others(x):
    h = torch.full((3,), 1.5).half()
    return [torch.ldexp(a, b) for a, b in ((x.bool(), h), (x, h), (h, x.float()))]


def chain(x):
    t = F.normalize(F.adaptive_avg_pool2d(F.instance_norm(x), (1, 1)), dim=0) * x
    return F.normalize(F.hardswish(t), dim=0)


def addcdiv_half(p, e):
    d = e * 0.25
    return p.clone().addcdiv_(e, d + 1, value=-1), p.clone().addcdiv_(e, -(d + 1))


def two_randints():
    torch.manual_seed(0)
    a = torch.randint(0, 100, (4, 1))
    torch.randint(0, 100, (2, 1))
    return a


def randn_of_a_transposed(x):
    torch.manual_seed(0)
    return torch.randn_like(x)


def exponent(x):
    return torch.clamp(torch.ceil(torch.log2(x.abs() + 1e-7)), -127, 127).add(127).to(torch.uint8)


@reported(185246, "probabilities of Bernoulli that eager refuses are accepted")
def refused_probabilities(compile):
    g = compile(lambda p: torch.bernoulli(p))
    for v in (0.0, 1.5, 1.0, -0.5, nan):
        try:
            yield g(torch.tensor([v]))
        except RuntimeError as e:
            yield "refused", str(e)[:40]


calls(93784, "clamp, maximum and minimum lose NaN", "inductor",
      lambda a, b: (F.relu(a), a.clamp_min(0.5), a.clamp_max(0.5), torch.maximum(a, b), torch.minimum(a, b), a.max(), a.amin()),
      tensors([nan, -1., 2., 3.], [1., nan, 0., 3.]))
calls(195675, "a bound of clamp that the dtype does not have is ignored", "inductor",
      lambda x: torch.clamp(x, min=-3.4e39, max=3.4e39), lambda: (torch.randn(4),))
calls(196596, "addmm with beta=0 or alpha=0 lets NaN through", "inductor",
      lambda x, a, b: (torch.addmm(x, a, b, beta=0), torch.addmm(b[0], a * nan, b, alpha=0), torch.addmv(x, b, a[0], beta=0)),
      lambda: (torch.full((4,), nan), torch.randn(1, 4), torch.randn(4, 4)))
calls(189799, "the sign of zero is lost in sums and elu", "inductor", signed_zero, tensors([-0.5, -0.1, -0.9, 1.5]))
calls(189808, "the sign of the NaN of sqrt", "inductor", bits, tensors([-1., -4., 0., 2.]))
calls(178013, "an integer division by zero gives a number", "inductor", torch.floor_divide, tensors([4, 1], [2, 0]))
calls(177630, "a product of half and float in three dimensions is accepted", "inductor", torch.matmul,
      lambda: (torch.ones(2, 2, 3).half(), torch.ones(2, 3, 2)))
calls(191308, "a batched product of int8 is int64", "inductor", torch.matmul,
      lambda: (torch.ones(1, 1, 2, dtype=torch.int8), torch.ones(1, 2, 2, dtype=torch.int8) * 3))
calls(112449, "normal() ignores its dtype", "inductor", lambda: torch.normal(2., 3., (4, 5), dtype=torch.float64), tuple)
calls(189518, "cumsum of ones ignores its dtype", "inductor",
      lambda: torch.ones((2, 4, 4), dtype=torch.bool).cumsum(1, dtype=torch.bfloat16), tuple)
calls(197091, "the dtype of ldexp with half operands", "inductor", half_and_others, tensors([1, 2, 0]))
calls(194547, "a sample of Normal with half and float parameters is float", "inductor",
      lambda m, s: torch.distributions.Normal(m, s).sample(), lambda: (torch.zeros(8).half(), torch.ones(8)))
calls(109925, "cumsum of a bool tensor is bool", "inductor",
      lambda: torch.cumsum(torch.full([2, 4], 1).to(dtype=torch.bool), 1), tuple)
calls(100466, "x * (x >= 0) is NaN when the condition becomes a float tensor", "inductor",
      lambda x: x * (x >= 0).to(torch.float32).clone(), lambda: (torch.rand(3, 3),))
calls(93829, "neg of uint8 is compared as a wider number", "inductor",
      lambda x: (torch.neg(x), torch.lt(torch.neg(x), torch.tensor(4, dtype=torch.uint8))), tensors(6, dtype=torch.uint8))
calls(98149, "pow of uint8 does not wrap before cos", "inductor", lambda x: torch.cos(x.pow(5)),
      tensors([4, 3, 250], dtype=torch.uint8))
calls(105264, "a sum of uint8 does not wrap before int16", "inductor", lambda x: (x + x).to(torch.int16),
      tensors([128, 200, 7], dtype=torch.uint8))
calls(109105, "products of int8 do not wrap", "inductor", lambda x, y: (x + y) * 6 // 4,
      tensors([5, 100, -100], [4, 100, -90], dtype=torch.int8))
calls(156788, "negative floats become 0 in uint8", "inductor", lambda x: x.to(torch.uint8),
      tensors([1.54, -0.29, -2.18, 0.57, -1.08] * 8))
calls(131910, "byte() of negative floats becomes 0", "inductor", lambda x: x.byte() + 1, tensors([-1.5, -3., 2., 0.] * 5))
calls(143566, "a left shift by 64 gives the number itself", "inductor", torch.bitwise_left_shift,
      tensors([1000, 1, 7], [64, 65, 62]))
calls(118265, "a right shift by more bits than the dtype has", "inductor", torch.bitwise_right_shift,
      tensors([100, -5, 90, 7], [64, 70, 1, 63]))
calls(131321, "a negative index of scatter_reduce counts from the end", "inductor",
      lambda x, i, s: torch.scatter_reduce(x, 0, i, s, "sum"),
      lambda: (torch.arange(4.), torch.tensor([0, 1, -1]), torch.ones(3)))
calls(185885, "a negative index of index_add counts from the end", "inductor",
      lambda x, i, s: torch.index_add(x, 0, i, s),
      lambda: (torch.zeros(4, 3), torch.tensor([0, -1]), torch.ones(2, 3)))
calls(183769, "select of an index that does not exist gives other memory", "inductor",
      lambda x: torch.select(x.unsqueeze(1), 1, 1) * 2, lambda: (torch.rand(3, 4),))
calls(183608, "a negative index of embedding counts from the end", "inductor", F.embedding,
      lambda: (torch.tensor([2, -2, 4]), torch.rand(5, 2)))
calls(111952, "an index past the end reads other memory", "inductor", lambda x: x[torch.tensor([1]) + 1],
      lambda: (torch.zeros(2),))
calls(194501, "a negative beta of smooth_l1_loss is accepted", "inductor",
      lambda a, b: F.smooth_l1_loss(a, b, beta=-1.), tensors([1.], [0.]))
calls(171838, "pixel_shuffle of channels that do not divide is accepted", "aot", lambda x: F.pixel_shuffle(x, 3),
      lambda: (torch.rand(1, 4, 2, 2),))
calls(113151, "asinh of a large negative number is -inf", "inductor", torch.asinh,
      tensors([487875.875, -956238.8125, 630736., -161079.578125, 1e30, -1e30, -0.] * 2))
calls(187332, "i0 of infinity", "inductor", torch.special.i0, tensors([inf, -inf, 0., 3.]))
calls(173793, "layer_norm of numbers near the largest float", "inductor", lambda x: F.layer_norm(x, (4,)),
      lambda: (torch.full((2, 4), 8.5071e37) * torch.tensor([1., 0.5, 0.25, 1.]),))
calls(183601, "instance_norm, pooling, normalize and hardswish in a chain", "inductor", chain,
      lambda: (torch.randn(4, 3, 10, 12),))
calls(142839, "instance_norm of a large image", "inductor", F.instance_norm, lambda: (torch.randn(1, 2, 64, 64),))
calls(174891, "a broadcast sum of complex numbers adds to the imaginary part", "inductor",
      lambda x: x + torch.ones(2, 1, dtype=torch.complex64), lambda: (torch.ones(2, 2, dtype=torch.complex64),))
calls(121238, "addcdiv_ of half with a value", "dynamo", addcdiv_half,
      lambda: (torch.randn(2, 3).half(), torch.rand(2, 3).half()))
calls(179570, "log2, ceil and uint8 at powers of two", "inductor", exponent,
      tensors([1., 2., 4., 3.9999998, 4.0000005, 0., 1e-30, 65536.]))
calls(175156, "a second randint changes the first", "inductor", two_randints, tuple)
calls(177652, "randn_like of a transposed tensor draws other numbers", "inductor", randn_of_a_transposed,
      lambda: (torch.zeros(5, 7).permute(1, 0),))
calls(143431, "random numbers differ from eager mode's", "aot",
      lambda x: x[torch.arange(2).unsqueeze(-1), torch.argsort(torch.rand(2, 12), dim=-1)[:, :6]],
      lambda: (torch.rand(2, 12, 3),))
calls(172207, "a random mask differs from eager mode's", "inductor",
      lambda x: (x * (torch.rand(4, 4) < 0.5), F.dropout(x, 0.3)), lambda: (torch.rand(4, 4),))
calls(188074, "bernoulli draws other numbers", "inductor", lambda p: torch.bernoulli(p), lambda: (torch.full((10,), 0.5),))
