"""Random numbers of torch.cuda on the stand-in of tests/fake_cuda: generators, and numbers beside Philox in NumPy."""
import math

import numpy as np
import pytest

import cresset as torch
from test_cuda import FAKE, run_alone
from test_order import on_the_host

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def philox(seed, low, high):
    """The four words of a block for arrays of counters."""
    low, high = np.broadcast_arrays(np.uint64(low), np.uint64(high))
    mask, key = np.uint64(0xffffffff), [seed & 0xffffffff, seed >> 32]
    c = [low & mask, low >> np.uint64(32), high & mask, high >> np.uint64(32)]
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(q >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]), q & mask, (p >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]), p & mask]
        key = [(key[0] + 0x9E3779B9) & 0xffffffff, (key[1] + 0xBB67AE85) & 0xffffffff]
    return np.stack(c, -1)


def grid(n, numbers=4):
    """The threads of a fill, and the blocks that each draws."""
    p = torch.cuda.get_device_properties(0)
    threads = 256 * min((n + 255) // 256, p.multi_processor_count * (p.max_threads_per_multi_processor // 256))
    return threads, (n - 1) // (threads * numbers) + 1


def words(seed, offset, n, numbers=4):
    """Words in the order of elements, `numbers` of each block, or the block where that is None."""
    threads, blocks = grid(n, numbers)
    c = philox(seed, offset // 4 + np.arange(blocks)[:, None], np.arange(threads)[None])  # block, thread, word
    return c, 4 * blocks


def in_order(values, n):
    """Values of [block, thread, number] in the order of elements."""
    return np.moveaxis(values, 2, 1).reshape(-1)[:n]


SEED = 0x123456789abcdef


@pytest.mark.parametrize("n", [1, 5, 300, 70000])
def test_uniform_numbers(n):
    torch.cuda.manual_seed(SEED)
    offset = 0
    for _ in range(2):
        c, used = words(SEED, offset, n)
        u = np.float32(in_order(c, n).astype(np.float32) * np.float32(2 ** -32) + np.float32(2 ** -33))
        want = np.where(u == 1, np.float32(0), u)
        assert np.array_equal(torch.rand(n, device="cuda").cpu().numpy(), want)
        offset += used
    assert torch.cuda.get_rng_state().view(torch.int64).tolist() == [SEED, offset]


def test_numbers_of_64_bits():
    n = 700
    torch.cuda.manual_seed(SEED)
    c, used = words(SEED, 0, n, 2)
    long = (c[..., 0::2] ^ (c[..., 1::2] << np.uint64(21))).astype(np.float64) * 2.0 ** -53 + 2.0 ** -54
    assert np.array_equal(torch.rand(n, dtype=torch.float64, device="cuda").cpu().numpy(), in_order(long, n))
    c, _ = words(SEED, used, n, 2)
    pair = (c[..., 0::2] << np.uint64(32)) | c[..., 1::2]
    high = 2 ** 40 + 7
    assert np.array_equal(torch.randint(high, (n,), device="cuda").cpu().numpy(), (in_order(pair, n) % np.uint64(high)).astype(np.int64))


def test_integers():
    torch.cuda.manual_seed(5)
    c, used = words(5, 0, 400)
    x = torch.randint(-3, 9, (400,), dtype=torch.int16, device="cuda").cpu()
    assert x.tolist() == [int(w % 12) - 3 for w in in_order(c, 400)]
    assert torch.empty(99, dtype=torch.int16, device="cuda").random_().min() >= 0
    with pytest.raises(RuntimeError, match="random_ expects 'from' to be less than 'to'"):
        torch.randint(3, 3, (2,), device="cuda")


def test_normal_numbers():
    n = 600
    torch.cuda.manual_seed(6)
    c, _ = words(6, 0, n)
    u, v = (c[..., k::2].astype(np.float64) * 2.0 ** -32 + 2.0 ** -33 for k in (0, 1))
    r = np.sqrt(-2 * np.log(u))
    want = np.stack([r * np.sin(2 * math.pi * v), r * np.cos(2 * math.pi * v)], -1).reshape(*c.shape)
    x = torch.randn(n, device="cuda").cpu().numpy()
    assert np.allclose(x, in_order(want, n), atol=2e-5)
    torch.cuda.manual_seed(6)
    assert np.allclose(torch.empty(n, device="cuda").normal_(3, 2).cpu().numpy(), 2 * x + 3, atol=1e-5)
    for dtype in (torch.float64, torch.complex64):
        z = torch.randn(20000, dtype=dtype, device="cuda").cpu()
        assert abs(z.abs().double().pow(2).mean().item() - 1) < 0.05 and abs(z.mean().abs().item()) < 0.05


@pytest.mark.parametrize("fill, mean", [(lambda t: t.exponential_(2), 0.5), (lambda t: t.bernoulli_(0.3), 0.3),
                                        (lambda t: t.bernoulli_(torch.full((30000,), 0.7, device="cuda")), 0.7)])
def test_means(fill, mean):
    torch.cuda.manual_seed(7)
    x = fill(torch.empty(30000, device="cuda")).double().mean().item()
    assert abs(x - mean) < 0.05 * max(1, mean)


@pytest.mark.parametrize("shape", [(3,), (4, 5), (2, 3, 7)])
def test_masks_of_dropout(shape):
    x, n = torch.ones(shape, device="cuda"), math.prod(shape)
    torch.cuda.manual_seed(SEED)
    torch.nn.functional.dropout(x, 0.5)
    blocks = (n + 3) // 4
    assert torch.cuda.get_rng_state().view(torch.int64).tolist() == [SEED, 4 * blocks]
    w = philox(SEED, np.arange(blocks, 2 * blocks), 0).reshape(-1)[:n]
    kept = ((w >> np.uint64(8)).astype(np.float32) * np.float32(2 ** -24) >= 0.25).reshape(shape)
    y = torch.nn.functional.dropout(x, 0.25).cpu().numpy()
    assert np.array_equal(y, np.where(kept, np.float32(1 / 0.75), np.float32(0)))
    # the host's counted form with the same seed and offset
    mask = torch.ops.aten._philox_dropout(torch.ones(shape), 0.25, SEED, blocks)[1] if hasattr(torch.ops.aten, "_philox_dropout") else None
    assert mask is None or np.array_equal(mask.numpy(), kept)


@pytest.mark.skipif(not FAKE, reason="a card runs threads")
def test_a_device_that_runs_no_threads_is_an_error():
    program = """
try:
    torch.rand(5, device="cuda")
except RuntimeError as e:
    print("threads" in str(e))
"""
    assert run_alone(program, FAKE_CUDA_THREADS="0") == ["True"]


def test_draws_by_weights():
    weights = torch.tensor([[0, 1, 3, 0, 4.0], [1, 1, 0, 0, 0]], device="cuda")
    torch.manual_seed(2)
    for many, again in ((1, False), (2, False), (2000, True)):
        x = torch.multinomial(weights, many, again).cpu()
        assert x.shape == (2, many) and (weights.cpu().gather(1, x) > 0).all()
    assert abs((x[0] == 4).float().mean() - 0.5) < 0.05 and abs((x[1] == 0).float().mean() - 0.5) < 0.05
    for dtype in (torch.bfloat16, torch.float16):  # sums and draws have more bits than the weights
        drawn = torch.multinomial(torch.full((1000,), 0.3, dtype=dtype, device="cuda"), 40000, True)
        times = torch.bincount(drawn, minlength=1000)
        assert times.min() > 8 and times.max() < 80
    with pytest.raises(RuntimeError, match="either `inf`, `nan` or element < 0"):
        torch.multinomial(-weights, 1)
    mean = torch.full((20000,), 3.0, device="cuda")
    assert abs(torch.normal(mean, 2.0).mean().item() - 3) < 0.1 and abs(torch.normal(1.0, mean).std().item() - 3) < 0.1


def test_generators_are_apart():
    torch.manual_seed(1)
    host = torch.get_rng_state()
    a = torch.randn(5, device="cuda")
    torch.nn.functional.dropout(a, 0.5), torch.poisson(a.abs()), torch.multinomial(a.abs(), 2), torch.randperm(5, device="cuda")
    assert torch.equal(torch.get_rng_state(), host)
    torch.manual_seed(1)
    assert torch.cuda.initial_seed() == 1 and torch.equal(torch.randn(5, device="cuda"), a)
    with torch.random.fork_rng():
        b = torch.rand(3, device="cuda")
    assert torch.equal(torch.rand(3, device="cuda"), b)
    g = torch.Generator(device="cuda").manual_seed(1)
    assert torch.equal(torch.randn(5, device="cuda", generator=g), a) and g.get_state().numel() == 16
    kept = g.clone_state()
    assert torch.equal(torch.rand(4, device="cuda", generator=g), torch.rand(4, device="cuda", generator=kept))
    state = torch.cuda.get_rng_state()
    c = torch.poisson(torch.full((6,), 30.0, device="cuda"))
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.poisson(torch.full((6,), 30.0, device="cuda")), c)
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.cuda.set_rng_state(torch.get_rng_state())
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.rand(3, device="cuda", generator=torch.Generator())


def test_checkpoints_draw_again():
    x = torch.ones(40, device="cuda", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_chances_out_of_range():
    with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1"):
        torch.bernoulli(torch.tensor([0.5, 1.5], device="cuda")).cpu()
    assert torch.bernoulli(torch.tensor([0.0, 1.0], device="cuda")).tolist() == [0, 1]


def test_nothing_is_computed_on_the_host():
    assert on_the_host("""
x = torch.empty(9, device="cuda")
x.uniform_(), x.normal_(), x.exponential_(), x.bernoulli_(0.5), torch.randint(4, (3,), device="cuda"), torch.nn.functional.dropout(x)
torch.bernoulli(torch.rand(3, device="cuda"))
""") == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_elements_with_gaps_have_the_same_numbers(dtype):
    for size in ((1000,), (3, 5), (), (700, 3)):
        for fill in (lambda x: x.normal_(), lambda x: x.uniform_(-1, 3), lambda x: x.exponential_(), lambda x: x.random_(0, 7)):
            made = []
            for room in (size, size + (2,)):
                torch.cuda.manual_seed(3)
                x = torch.zeros(room, dtype=dtype, device="cuda")
                made.append(fill(x if room == size else x[..., 1]))
            assert torch.equal(*made)
