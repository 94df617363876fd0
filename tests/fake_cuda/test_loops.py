"""Loops of the host on a device (kern/loops.h): results and gradients have the host's bits, and nothing is computed on
the host."""
import os
import subprocess
import sys

import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
V = torch.ops.torchvision
REGIONS = [[0, 1., 2, 7, 8], [1, 0, 0, 10.5, 9], [1, 3, 3, 2, 2], [0, -3, -2, 20, 15]]


def leaves(values, device):
    return [v.detach().clone().to(device).requires_grad_(v.is_floating_point()) for v in values]


def compare(f, *values, tolerance=0):
    """Results and gradients of f on both devices."""
    found = []
    for device in ("cpu", "cuda"):
        given = leaves(values, device)
        out = f(*given)
        out = out if isinstance(out, (tuple, list)) else [out]
        torch.manual_seed(4)
        loss = sum((o * torch.randn(o.shape, dtype=o.dtype).to(device)).sum() for o in out if o.requires_grad)
        if isinstance(loss, torch.Tensor):
            loss.backward()
        found.append([o.detach().cpu() for o in out] + [v.grad.cpu() for v in given if v.grad is not None])
    assert len(found[0]) == len(found[1]) > 0
    for a, b in zip(*found):
        assert torch.allclose(a, b, tolerance, tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions(dtype, samples):
    torch.manual_seed(1)
    x, regions = torch.randn(2, 12, 9, 11, dtype=dtype), torch.tensor(REGIONS, dtype=dtype)
    for aligned in (False, True):
        compare(lambda x: V.roi_align(x, regions.to(x.device), 0.7, 2, 2, samples, aligned), x)
    compare(lambda x: V.ps_roi_align(x, regions.to(x.device), 0.7, 2, 2, samples), x)
    compare(lambda x: V.roi_pool(x, regions.to(x.device), 0.7, 2, 2), x)
    compare(lambda x: V.ps_roi_pool(x, regions[:2].to(x.device), 0.7, 2, 2), x)


@pytest.mark.parametrize("samples", [1, 3, -1])
def test_many_regions_of_many_channels(samples):
    torch.manual_seed(11)
    x, corners = torch.randn(3, 19, 6, 5), torch.rand(20, 2) * 12 - 3
    regions = torch.cat([torch.randint(0, 3, (20, 1)).float(), corners, corners + torch.rand(20, 2) * 9], 1)
    compare(lambda x: V.roi_align(x, regions.to(x.device), 0.6, 3, 2, samples, True), x)


@pytest.mark.parametrize("samples", [2, 0])
def test_the_gradient_of_regions_has_the_hosts_bits(samples):
    """Regions that end outside, have no length, are turned around, or are as large as a float allows."""
    torch.manual_seed(12)
    corners = torch.rand(70, 2) * 14 - 4
    regions = torch.cat([torch.randint(0, 2, (70, 1)).float(), corners, corners + torch.rand(70, 2) * 11 - 1], 1)
    regions[:3, 1:] = torch.tensor([[2., 2, 2, 2], [-1e6, -3, 1e6, 90], [5, 7, 4, 3]])
    g = torch.randn(70, 10, 3, 2)
    for aligned in (True, False):
        of = [torch.ops.torchvision._roi_align_backward(g.to(d), regions.to(d), 0.9, 3, 2, 2, 10, 9, 8, samples, aligned).cpu()
              for d in ("cpu", "cuda")]
        assert torch.equal(*of) and of[0].abs().sum() > 0


def test_a_region_of_no_image():
    with pytest.raises(IndexError, match="region 1 is of an image that does not exist"):
        V.roi_align(torch.randn(1, 2, 3, 3).cuda(), torch.tensor([[0., 0, 0, 1, 1], [3, 0, 0, 1, 1]]).cuda(), 1., 2, 2, 2,
                    False).cpu()
    assert torch.ones(2).cuda().sum().item() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_deformed_convolution(dtype):
    torch.manual_seed(2)
    sizes = ((2, 8, 9, 11), (6, 4, 3, 2), (2, 24, 7, 10), (2, 12, 7, 10), (6,))
    values = [torch.randn(*s, dtype=dtype) for s in sizes]
    compare(lambda *v: V.deform_conv2d(*v, 1, 1, 0, 0, 1, 1, 2, 2, True), *values, tolerance=1e-3)


@pytest.mark.parametrize("n", [0, 1, 5, 64, 65, 150])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_boxes(n, dtype):
    torch.manual_seed(3)
    boxes, scores = torch.rand(n, 4, dtype=dtype) * 10, (torch.rand(n, dtype=dtype) * 20).round()
    boxes[:, 2:] += boxes[:, :2]
    assert torch.equal(V.nms(boxes.cuda(), scores.cuda(), 0.3).cpu(), V.nms(boxes, scores, 0.3))
    a, b = torch.rand(n, 5, dtype=dtype) * 5, torch.rand(4, 5, dtype=dtype) * 5
    assert torch.allclose(V.box_iou_rotated(a.cuda(), b.cuda()).cpu(), V.box_iou_rotated(a, b), 1e-5, 1e-5)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_sampling_at_points(dims, padding):
    torch.manual_seed(5)
    x = torch.randn(2, 3, *(12, 15, 6)[:dims])  # several bands of 64 elements
    grid = torch.rand(2, *(2, 3, 4)[:dims], dims) * 2.6 - 1.3
    for mode in (0, 1, 2)[:5 - dims]:
        for aligned in (False, True):
            compare(lambda x, grid: torch.grid_sampler(x, grid, mode, padding, aligned), x, grid)


@pytest.mark.parametrize("dims", [2, 3])
def test_many_points_at_few_places(dims):
    """Contributions to a place are added in the host's order: thousands to one, channels that fill no group, NaN."""
    torch.manual_seed(8)
    x = torch.randn(2, 11, *(3, 2, 2)[:dims])
    grid = torch.randn(2, *(40, 25, 2)[:dims], dims) * 3
    grid.view(-1)[::97] = float("nan")
    for mode, padding in ((0, 0), (0, 1), (1, 2), (2, 1))[:5 - dims + 1]:
        compare(lambda x, grid: torch.grid_sampler(x, grid, mode, padding, False), x, grid)
    for size in ((0, 11), (2, 0)):
        compare(lambda x, grid: torch.grid_sampler(x, grid, 0, 0, False), torch.randn(*size, *x.shape[2:]), grid[:size[0]])


@pytest.mark.parametrize("masked", [False, True])
def test_offset_groups_of_many_channels(masked):
    torch.manual_seed(9)
    x, offset = torch.randn(2, 22, 5, 4), torch.randn(2, 2 * 2 * 4, 4, 3) * 3
    weight, mask = torch.randn(2, 22, 2, 2), torch.rand(2, 2 * 4, 4, 3)
    compare(lambda *v: V.deform_conv2d(*v[:4], torch.zeros(2, device=v[0].device), 1, 1, 0, 0, 1, 1, 1, 2, masked),
            x, weight, offset, mask, tolerance=1e-4)


def used_memory(*size, dtype=torch.float32):
    """Memory that later tensors of these sizes get has NaN."""
    kept = [torch.full(size, float("nan"), device="cuda", dtype=dtype) for _ in range(8)]
    del kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_call_that_fails_leaves_nothing_unwritten(dtype):
    """Kernels of a call with a wrong argument write all elements: initcheck finds no read of memory that nothing wrote."""
    logs, image = torch.randn(5, 2, 4, dtype=dtype).log_softmax(-1).cuda(), torch.randn(1, 4, 3, 3, dtype=dtype).cuda()
    regions = torch.tensor([[0., 0, 0, 2, 2], [1, 0, 0, 2, 2]], dtype=dtype).cuda()
    calls = [lambda: torch._ctc_loss(logs, torch.tensor([[1, 2], [1, 7]]).cuda(), [5, 5], [2, 2])[0],
             lambda: torch._ctc_loss(logs, torch.tensor([[1, 2], [1, 7]]).cuda(), [5, 5], [2, 2])[1].nan_to_num(neginf=0),
             lambda: V.roi_align(image, regions, 1., 2, 2, 2, False), lambda: V.roi_pool(image, regions, 1., 2, 2)[0],
             lambda: V.ps_roi_pool(image, regions, 1., 2, 2)[0], lambda: V.ps_roi_align(image, regions, 1., 2, 2, 2)[0]]
    for call in calls:
        used_memory(*call().shape, dtype=dtype)
        made = call()
        with pytest.raises(IndexError):
            torch.cuda.synchronize()
        assert made[-1].isfinite().all() and not made[-1].any(), made


def test_nothing_is_computed_on_the_host():
    made = subprocess.run([sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", __file__, "-k",
                           "not test_nothing and not too_few and (float32 or dtype0 or not dtype)"],
                          capture_output=True, text=True, env={**os.environ, "CR_LOG": "backend", "FAKE_CUDA_PART": "0/1"})
    assert not made.returncode and " passed" in made.stdout, made.stdout
    assert "is computed on the host" not in made.stdout + made.stderr


def on_both(f, *values, tolerance=0):
    a, b = f(*values), f(*[v.cuda() for v in values])
    assert b.is_cuda and a.dtype == b.dtype and a.shape == b.shape
    assert torch.allclose(b.cpu(), a, tolerance, tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polynomials_and_slopes(dtype):
    torch.manual_seed(6)
    x, n = torch.rand(60, dtype=dtype) * 2.4 - 1.2, torch.randint(0, 12, (60,)).to(dtype)
    for name in ("chebyshev_polynomial_t", "chebyshev_polynomial_w", "hermite_polynomial_he", "laguerre_polynomial_l",
                 "shifted_chebyshev_polynomial_u"):
        on_both(getattr(torch.special, name), x, n, tolerance=1e-4)
    shape = torch.rand(60, dtype=dtype) * 12
    on_both(torch._standard_gamma_grad, shape, torch._standard_gamma(shape), tolerance=1e-5)
    alpha = torch.rand(20, 3, dtype=dtype) * 8
    on_both(torch._dirichlet_grad, torch._sample_dirichlet(alpha), alpha, alpha.sum(-1, True).expand_as(alpha), tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("dims", [(3,), (0,), (1, 2), (2, 3), (3, 1), (0, 1, 2, 3)])
def test_fourier_transforms(dtype, dims):
    torch.manual_seed(7)
    z = torch.randn(3, 4, 5, 6, dtype=dtype)
    close = 1e-3 if dtype == torch.complex64 else 1e-11
    for f in (torch.fft.fftn, torch.fft.irfftn):
        on_both(lambda t: f(t, dim=dims, norm="ortho"), z, tolerance=close)
    for f in (torch.fft.rfftn, torch.fft.ifftn):
        on_both(lambda t: f(t, dim=dims), z.real.contiguous(), tolerance=close)
    on_both(lambda t: torch.fft.irfft(t, n=7, dim=dims[0]), z.transpose(0, 1), tolerance=close)
    flat = z.reshape(-1)
    on_both(lambda t: torch.fft.fft(t[1:8]), flat, tolerance=close)  # not aligned
    for f in (torch.fft.fftn, torch.fft.irfftn):  # whose argument stays as it is
        there = z.cuda()
        f(there, dim=dims)
        assert torch.equal(there.cpu(), z)


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu"])
def test_floats_of_eight_bits_are_refused_as_on_the_host(name):
    x = torch.ones(2).to(getattr(torch, name))
    for t in (x, x.cuda()):
        with pytest.raises(NotImplementedError, match="\"nan_to_num\" not implemented for 'Float8_"):
            torch.nan_to_num(t)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "complex64"])
def test_numbers_for_nan_are_those_of_the_dtype(name):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5, -2.0]).to(getattr(torch, name))
    for numbers in ((), (1e6, 2e6, -3e6), (0.1, 0.3, -0.7), (1e300, float("nan"), 0)):
        want, got = torch.nan_to_num(x, *numbers), torch.nan_to_num(x.cuda(), *numbers).cpu()
        assert got.dtype == x.dtype and torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def real_of_spectrum(n):
    torch.manual_seed(9)
    on_both(lambda t: torch.ops.aten._fft_c2r(t, [1], 0, n), torch.randn(2, 10, 2, dtype=torch.complex64), tolerance=1e-4)


@pytest.mark.parametrize("n", [1, 4, 5, 18, 19])
def test_a_spectrum_that_is_longer_than_the_result_needs(n):
    real_of_spectrum(n)


def test_a_spectrum_of_too_few_elements():
    for device in ("cpu", "cuda"):
        with pytest.raises(RuntimeError, match="length 30 needs 16 elements, but got 10"):
            torch.ops.aten._fft_c2r(torch.ones(2, 10, dtype=torch.complex64, device=device), [1], 0, 30).cpu()


def test_plans_of_transforms_are_limited():
    plans = torch.backends.cuda.cufft_plan_cache[0]
    plans.clear()
    assert plans.size == 0 and plans.max_size == 4096
    x = torch.ones(40, dtype=torch.complex64).cuda()
    try:
        for most, kept in ((4, 4), (0, 0), (30, 8)):
            plans.max_size = most
            for n in (*range(1, 9), 8, 1):
                assert torch.fft.fft(x[:n]).cpu()[0] == n
            assert plans.size == kept and plans.max_size == most
        with pytest.raises(RuntimeError, match="must not be negative"):
            plans.max_size = -1
        plans.clear()
        assert plans.size == 0 and plans.max_size == 30
    finally:
        plans.max_size = 4096


def test_plans_of_transforms_are_limited_by_their_bytes():
    """A plan of the stand-in has 300 KiB of the host's memory; a device keeps 64 MiB."""
    plans = torch.backends.cuda.cufft_plan_cache[0]
    plans.clear()
    x = torch.ones(400, dtype=torch.complex64).cuda()
    for n in range(1, 401):
        assert torch.fft.fft(x[:n])[0].item() == n
    assert 200 <= plans.size <= (64 << 20) // (300 << 10) + 1


def test_a_graph_keeps_the_plan_of_its_transform():
    plans = torch.backends.cuda.cufft_plan_cache[0]
    x = torch.randn(8, dtype=torch.complex64).cuda()
    torch.fft.fft(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.fft.fft(x)
    plans.clear()
    assert plans.size == 0
    x.copy_(torch.arange(8) * (1 + 2j))
    graph.replay()
    assert torch.equal(y.cpu(), torch.fft.fft(x.clone()).cpu())


@pytest.mark.parametrize("wrong", [0, -1, 1])
def test_repeats_of_a_given_size(wrong):
    """The host's elements, and the host's error for another size than the repeats have."""
    x, repeats = torch.arange(40).reshape(20, 2), torch.arange(20) % 4
    for f in (lambda to: torch.repeat_interleave(to(x), to(repeats), 0, output_size=30 + wrong),
              lambda to: torch.repeat_interleave(to(repeats), output_size=30 + wrong)):
        if wrong:
            for to in (lambda t: t, lambda t: t.cuda()):
                with pytest.raises(RuntimeError, match="allocated size does not match required size"):
                    f(to).cpu()
        else:
            assert torch.equal(f(lambda t: t.cuda()).cpu(), f(lambda t: t))


@pytest.mark.parametrize("dtype, bins", [(torch.float32, 100), (torch.bfloat16, 7), (torch.float16, 9000), (torch.float64, 1)])
def test_counts_of_bins(dtype, bins):
    """The host's counts: copies of few bins, bins that a block has no room for, elements outside, NaN."""
    torch.manual_seed(31)
    x = (torch.randn(30_011, dtype=torch.float64) * 3).to(dtype)
    x[::7] = float("nan")
    low, high = torch.tensor(-4.0).to(dtype), torch.tensor(3.7).to(dtype)
    counts = torch.ops.aten._bin_counts(x.cuda(), low.cuda(), high.cuda(), bins)
    assert torch.equal(counts.cpu(), torch.ops.aten._bin_counts(x, low, high, bins))
    assert torch.equal(torch.histc(x.cuda(), bins, -4, 3.7).cpu(), torch.histc(x, bins, -4, 3.7))


def test_compositions_beside_kernels_of_the_host():
    torch.manual_seed(8)
    on_both(lambda *v: torch.addmv(*v, beta=2), torch.randn(()), torch.randn(4, 5), torch.randn(5), tolerance=1e-5)
    on_both(lambda *v: torch.addbmm(*v, alpha=3), torch.randn(3, 4), torch.randn(5, 3, 2), torch.randn(5, 2, 4), tolerance=1e-4)
    on_both(torch.repeat_interleave, torch.tensor([2, 0, 3, 1], dtype=torch.int32))
    on_both(torch.sparse.mm, torch.eye(4).to_sparse() * 3, torch.randn(4, 3))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(100).to(dtype)
        on_both(lambda t: torch.histc(t, 7), x)
        on_both(lambda t: torch.histc(t, 5, -1, 1), x)
        x[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
        on_both(torch.nan_to_num, x)
    on_both(lambda t: torch.histc(t, 5), torch.ones(4))
    with pytest.raises(RuntimeError, match="torch.histc: range"):
        torch.histc(torch.tensor([1., float("nan")]).cuda(), 5).cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_that_elements_draw(dtype):
    """Means and variances of 4,000 numbers are within five standard errors; equal seeds give equal numbers."""
    n = 4000
    full = lambda x: torch.full((n,), x, dtype=dtype, device="cuda")
    torch.cuda.manual_seed(5)
    for f, mean, variance in ((lambda: torch.poisson(full(0.5)), 0.5, 0.5), (lambda: torch.poisson(full(30.)), 30, 30),
                              (lambda: torch._standard_gamma(full(0.3)), 0.3, 0.3), (lambda: torch._standard_gamma(full(20.)), 20, 20),
                              (lambda: torch.binomial(full(10.), full(0.3)), 3, 2.1), (lambda: torch.binomial(full(100.), full(0.8)), 80, 16)):
        x = f().cpu().double()
        assert abs(x.mean() - mean) < 5 * (variance / n) ** 0.5 and abs(x.var() / variance - 1) < 0.35
    shares = torch._sample_dirichlet(torch.rand(50, 3, dtype=dtype).cuda() * 4 + 1)
    assert shares.is_cuda and torch.allclose(shares.sum(-1).cpu(), torch.ones(50, dtype=dtype)) and shares.min() > 0
    g = torch.Generator("cuda")
    drawn = [torch.poisson(full(4.), g.manual_seed(3)) for _ in range(2)]
    assert torch.equal(*drawn) and not torch.equal(drawn[0], torch.poisson(full(4.), g))
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        torch.poisson(full(-1.)).cpu()


def test_choices_of_too_few():
    """An index_select of no elements."""
    assert torch.combinations(torch.arange(3).cuda(), 5).cpu().shape == (0, 5)


def test_choices_and_bits():
    for n, r in ((5, 1), (6, 3), (4, 4), (30, 2)):
        for again in (False, True):
            x = torch.arange(n)
            assert torch.equal(torch.combinations(x.cuda(), r, again).cpu(), torch.combinations(x, r, again))
    for dtype in (torch.float16, torch.float32, torch.int32, torch.bool):
        x = (torch.randn(5, 6, 700) * 9).to(dtype)
        for dims in ([], [1], [0, 2]):
            a, b = (torch.hash_tensor(t, dims).cpu().view(torch.int64) for t in (x, x.cuda()))
            assert torch.equal(a, b)
