"""torch.cuda on the stand-in of tests/fake_cuda; `make test-fake-cuda`, or on a GPU with CR_CUDA unset.

Results are compared with the host's bit for bit.  On the stand-in, device memory is protected and work is
delayed, so an access from the host or a missing wait fails."""
import copy
import ctypes
import gc
import os
import subprocess
import sys

import numpy as np
import place_cases
import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
FAKE = torch.cuda.is_available() and torch.cuda.get_device_name() == "Fake GPU"


def same(a, b):
    return torch.equal(a.cpu(), b) and a.dtype == b.dtype


def same_with_nan(a, b):
    a = a.cpu()
    return same(a.isnan(), b.isnan()) and same(a.masked_fill(a.isnan(), 0), b.masked_fill(b.isnan(), 0))


def test_device():
    x = torch.empty(0, device="cuda")
    assert str(x.device) == "cuda:0" and x.is_cuda and x.type() == "torch.cuda.FloatTensor"
    assert torch.cuda.current_device() == 0 and torch.cuda.is_initialized()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.empty(1, device="cuda:63")
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        torch.ones(2, device="cuda").numpy()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, device="cuda") + torch.ones(2)


def test_an_integer_names_an_accelerator():
    assert str(torch.device(0)) == "cuda:0"
    assert str(torch.nn.Linear(1, 1).to(0).weight.device) == "cuda:0"
    assert str(torch.ones(1).to(0).device) == str(torch.zeros(1, device=0).device) == "cuda:0"
    with pytest.raises(RuntimeError, match="Device index must not be negative"):
        torch.device(-1)


def count_of(library, name):
    """What a stand-in of a library counts."""
    counted = getattr(ctypes.CDLL(os.path.join(os.environ["CR_CUDA"], library)), name)
    counted.restype = ctypes.c_long
    return counted()


@pytest.mark.skipif(not FAKE, reason="a stand-in counts what is kept")
def test_plans_of_many_sizes_are_not_kept():
    """Of sizes that vary, plans of products and convolutions are bounded; one that was dropped is made again."""
    x, w = torch.arange(5000.).cuda(), torch.tensor([[[1., 2]]]).cuda()
    some = torch.arange(5000.)
    for n in [*range(1, 4200), 3]:
        y = x[:n].view(1, n) @ x[:n].view(n, 1)
    assert y.item() == 5 and count_of("libcublasLt.so.13", "fake_cublas_layouts") <= 3 * 2 * 2048
    most = 0
    for n in [*range(2, 1200), 3]:
        y = torch.nn.functional.conv1d(x[:n].view(1, 1, n), w)
        most = max(most, count_of("libcudnn.so.9", "fake_cudnn_objects"))
    assert torch.equal(y.cpu(), torch.nn.functional.conv1d(some[:3].view(1, 1, 3), w.cpu()))
    assert 0 < most <= 2 * 512 * 16 and count_of("libcudnn.so.9", "fake_cudnn_objects") < most


def launches(f):
    """The number of kernels that f launches; 0 on a GPU."""
    if not FAKE:
        f()
        return 0
    counted = ctypes.CDLL(os.path.join(os.environ["CR_CUDA"], "libcuda.so.1")).fake_cuda_launches
    counted.restype = ctypes.c_long
    f()  # kernels for copies of operands may be built
    before = counted()
    f()
    return counted() - before


def strided(shape, order, gaps):
    """A tensor whose dims are in memory in the order `order`, with `gaps` unused elements after each."""
    sizes = [shape[d] + gaps[d] for d in order]
    t = torch.randn(sizes).permute([order.index(d) for d in range(len(order))])
    return t[tuple(slice(0, n) for n in shape)]


OUTER = [((3, 4, 5), (0, 1, 2), (0, 0, 0)), ((3, 4, 5), (0, 1, 2), (0, 2, 0)), ((3, 4, 5), (2, 0, 1), (0, 0, 0)),
         ((3, 4, 2, 7), (0, 1, 2, 3), (0, 1, 1, 1)), ((3, 4, 2, 7), (3, 1, 0, 2), (0, 1, 0, 1)),
         ((2, 3, 1, 2, 5), (0, 1, 2, 3, 4), (1, 1, 1, 1, 1)), ((2, 2, 2, 2, 2, 2, 2, 2, 3), tuple(range(9)), (0,) + (1,) * 8)]


@pytest.mark.parametrize("shape, order, gaps", OUTER)
def test_folds_of_dims_that_do_not_merge(shape, order, gaps):
    torch.manual_seed(8)
    x = strided(shape, order, gaps)
    there = torch.empty_strided(x.shape, x.stride(), device="cuda").copy_(x)
    for dim in range(len(shape)):
        assert same(there.sum(dim), x.sum(dim)), dim
        assert same(there.argmax(dim), x.argmax(dim)), dim
        assert all(same(a, b) for a, b in zip(there.max(dim, True), x.max(dim, True))), dim
    assert same(there.mean((0, len(shape) - 1)), x.mean((0, len(shape) - 1)))


def test_a_fold_is_one_launch():
    x = torch.randn(6, 5, 3, 4)
    gapped, long = torch.randn(6, 5, 4, 4)[:, :, :3], torch.randn(1030, 8200)
    for t, f, most in ((x, lambda t: t.sum(-1), 1), (x, lambda t: t.sum(1), 1), (gapped, lambda t: t.sum(-1), 1),
                       (gapped, lambda t: t.sum(1), 1), (x, lambda t: t.sum((0, 2, 3)), 2), (x, lambda t: t.argmax(1), 1),
                       (gapped, lambda t: t.argmax(-1), 1), (long, lambda t: t.sum(1), 1), (long[:3], lambda t: t.sum(1), 3),
                       (long[:9], lambda t: t.argmax(1), 1), (long[:2], lambda t: t.softmax(1), 1)):
        there = torch.empty_strided(t.shape, t.stride(), device="cuda").copy_(t)
        assert same(f(there), f(t))
        assert launches(lambda: f(there)) <= most


@pytest.mark.parametrize("shape, dim", [((40000,), 0), ((3, 32768), 1), ((2, 33000), 1), ((300, 7), 0), ((2, 256, 5), 1),
                                        ((2, 3, 257, 2), 2)])
def test_extremes_of_long_lines_are_found_in_parts(shape, dim):
    torch.manual_seed(10)
    for x in (torch.randint(0, 50, shape), torch.randn(shape), torch.randn(shape).bfloat16()):
        there = x.cuda()
        for f in (torch.argmax, torch.argmin):
            assert same(f(there, dim), f(x, dim))
        for f in (torch.max, torch.min):
            assert all(same(a, b) for a, b in zip(f(there, dim), f(x, dim)))
    x = torch.zeros(shape)
    x.select(dim, shape[dim] - 2).fill_(float("nan"))
    assert same(x.cuda().argmax(dim), x.argmax(dim))
    assert launches(lambda: x.cuda().argmax(dim)) <= 6


@pytest.mark.parametrize("columns", [1, 4, 7, 16, 31])
def test_narrow_rows(columns):
    torch.manual_seed(11)
    x = torch.randn(70, columns)
    for t in (x, x.bfloat16(), x.double()):
        assert same(t.cuda().sum(1), t.sum(1))
    assert same((x > 0).cuda().all(1), (x > 0).all(1)) and same(x.cuda().softmax(1), x.softmax(1))


def run_alone(program, **variables):
    """The output of a program in a new process."""
    made = subprocess.run([sys.executable, "-c", "import cresset as torch\n" + program], capture_output=True, text=True,
                          env={**os.environ, **variables})
    assert not made.returncode, made.stderr
    return made.stdout.split()


@pytest.mark.skipif(not FAKE, reason="the compiler refuses no kernel")
def test_a_group_that_the_device_cannot_compile_calls_its_nodes():
    program = """
x, y = torch.linspace(-1, 1, 12, device="cuda"), torch.ones(12, device="cuda")
f = torch.compile(lambda x, y: ((x * y + y).sigmoid() * 2, (x - y).exp()))
for _ in range(3):
    print(*[torch.equal(a, b) for a, b in zip(f(x, y), ((x * y + y).sigmoid() * 2, (x - y).exp()))])
"""
    assert run_alone(program, FAKE_CUDA_REFUSES="CK(group_") == ["True"] * 6


def test_a_group_of_many_operands_compiles():
    xs = [torch.randn(6, 40) for _ in range(40)]
    f = torch.compile(lambda *xs: (sum(x.tanh() for x in xs), sum(x.tanh() for x in xs[:24]).sum(-1)))
    for a, b in zip(f(*[x.cuda() for x in xs]), (sum(x.tanh() for x in xs), sum(x.tanh() for x in xs[:24]).sum(-1))):
        assert same(a, b)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta"])
@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_optimizer_states_load_onto_either_device(name, place):
    def train(device, state=None):
        w = torch.nn.Parameter(torch.linspace(-1, 1, 6, device=device))
        optimizer = getattr(torch.optim, name)([w], lr=0.1)
        if state:
            optimizer.load_state_dict(copy.deepcopy(state))
        for step in range(2):
            w.grad = torch.linspace(0, step + 1, 6, device=device)
            optimizer.step()
        return w.detach().cpu(), optimizer.state_dict()

    _, state = train("cpu")
    want = train("cpu", state)
    for values in state["state"].values():
        values["step"] = values["step"].to(place)
    have = train("cuda", state)
    assert torch.equal(have[0], want[0])
    assert have[1]["state"][0]["step"].item() == 4 and have[1]["state"][0]["step"].device.type == place


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_fused_steps_are_on_the_device(name):
    w, here = torch.nn.Parameter(torch.ones(5, device="cuda")), torch.nn.Parameter(torch.ones(5))
    for p in (w, here):
        optimizer = getattr(torch.optim, name)([p], fused=True)
        for _ in range(2):
            p.grad = torch.linspace(0, 1, 5, device=p.device)
            optimizer.step()
        assert optimizer.state[p]["step"].device == p.device and optimizer.state[p]["step"].item() == 2
    assert same(w.detach(), here.detach())


def test_ctc_loss_takes_targets_and_lengths_of_either_device():
    torch.manual_seed(12)
    x = torch.randn(5, 2, 4).log_softmax(-1)
    targets, steps, lengths = torch.tensor([[1, 2], [1, 3]]), torch.tensor([5, 4]), torch.tensor([2, 1])
    want = torch.nn.functional.ctc_loss(x, targets, steps, lengths)
    for t in (targets, targets.cuda()):
        for n in ((steps, lengths), (steps.cuda(), lengths.cuda()), ((5, 4), (2, 1))):
            assert same(torch.nn.functional.ctc_loss(x.cuda(), t, *n), want)


def test_an_entry_without_a_kernel_raises():
    x = torch.eye(3, device="cuda")
    for f, name in ((lambda: torch.linalg.matrix_exp(x), "linalg_matrix_exp"), (lambda: torch.histogram(x, 3), "histogram")):
        with pytest.raises(NotImplementedError, match=f"Could not run 'aten::{name}' with arguments from the 'CUDA' backend.*"
                           r"enable_host_fallback\(True\), or CR_HOST_FALLBACK=1"):
            f()
        torch.backends.cuda.enable_host_fallback(True)
        made = f()
        assert (made if isinstance(made, torch.Tensor) else made[0]).is_cuda
        torch.backends.cuda.enable_host_fallback(False)


def test_empty_factorizations_and_histograms_of_integers(host_fallback):
    assert torch.linalg.ldl_factor_ex(torch.zeros(2, 0, 0, device="cuda"))[2].tolist() == [0, 0]
    x = torch.tensor([1, 2, 3, 2, 9, -4])
    for dtype in (torch.int32, torch.int64, torch.int16):
        made = torch.histc(x.to(dtype).cuda(), bins=4, min=0, max=3)
        assert made.dtype == dtype and made.tolist() == [0, 1, 2, 1]
    assert torch.histc(x.cuda(), bins=3).tolist() == [1, 4, 1]
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.histc(x, bins=4)


def test_pin_memory_is_an_operator():
    x = torch.arange(6.0).reshape(2, 3).t()
    p = torch.ops.aten._pin_memory(x)
    assert p.is_pinned() and torch.equal(p, x) and p.stride() == x.stride()


@pytest.mark.skipif(not FAKE, reason="needs a process without devices")
def test_a_driver_without_visible_devices():
    program = """
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.ones(1).item())
try:
    torch.ones(1, device="cuda")
except RuntimeError as error:
    print(str(error).replace(" ", "_"))
"""
    assert run_alone(program, CUDA_VISIBLE_DEVICES="") == ["False", "0", "1.0", "No_CUDA_GPUs_are_available"]


def test_dlpack_shares_device_memory_and_orders_streams():
    x = torch.arange(6.0, device="cuda").reshape(2, 3).t()
    assert x.__dlpack_device__() == (2, 0)
    y = torch.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr() and y.stride() == x.stride() and y.device == x.device
    y.add_(1)
    assert same(x, torch.arange(1.0, 7.0).reshape(2, 3).t())
    side, value = torch.cuda.Stream(), torch.zeros(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            value += 1
        capsule = value.__dlpack__(stream=1)
    assert (torch.from_dlpack(capsule) * 2).tolist() == [40.0] * 1000
    with torch.cuda.stream(side):
        moved = torch.from_dlpack(x)  # side waits for nothing: it exports on its own stream
        assert (moved + 1).sum().item() == 27
    for stream, error in ((0, AssertionError), (2, BufferError), ("1", TypeError)):
        with pytest.raises(error):
            x.__dlpack__(stream=stream)
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(1).__dlpack__(stream=1)


def test_cuda_array_interface():
    x = torch.zeros(2, 3, dtype=torch.int16, device="cuda")
    assert x.__cuda_array_interface__ == {"typestr": "<i2", "shape": (2, 3), "strides": None, "data": (x.data_ptr(), False),
                                          "version": 2}
    assert x.t().__cuda_array_interface__["strides"] == (2, 6)
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(1, device="cuda", requires_grad=True).__cuda_array_interface__


AUTOCAST = {"float32": ["x.softmax(-1)", "x.log_softmax(-1)", "F.layer_norm(x, (4,))", "x.sum()", "x.sum(0)", "x.cumsum(0)", "x.norm()",
                        "x.exp()", "x.log()", "x.pow(2)", "x.rsqrt()", "F.softplus(x)", "F.cosine_similarity(x, x)",
                        "F.group_norm(x[None], 2)", "x.prod()", "F.mse_loss(x, x)", "x.tan()", "x.reciprocal()", "torch.cdist(x, x)",
                        "x.logsumexp(0)", "torch.dist(x, x)", "x.renorm(1, 0, 1.0)", "x.expm1()", "x.log1p()", "2 ** x"],
            "float16": ["x @ y", "F.linear(y, y)", "F.gelu(x)", "x.sigmoid()", "x.mean()", "x.var()", "x.std(0)", "x.sum(dtype=torch.float16)", "x + x",
                        "torch.einsum('ij,jk', y, y)", "F.prelu(y, y[0, :1])", "x.softmax(-1, dtype=torch.float16)",
                        "torch.addcmul(x, x, x)", "F.avg_pool3d(x[None, None, None], 1)", "x.mv(y[0])"]}


def test_autocast_uses_torchs_list_for_cuda():
    import cresset.nn.functional as F
    y = torch.rand(4, 4, device="cuda") + 0.5
    x = y.half()
    with torch.autocast("cuda"):
        for dtype, programs in AUTOCAST.items():
            for program in programs:
                made = eval(program, {"x": x, "y": y, "torch": torch, "F": F})
                assert made.dtype == getattr(torch, dtype), program
        assert torch.addcmul(x, x, y).dtype == torch.atan2(x, y).dtype == torch.float32
    big = torch.full((400, 400), 100.0, device="cuda").half()
    with torch.autocast("cuda"):
        assert big.pow(2).sum().item() == 400 * 400 * 1e4
    def both(x):
        with torch.autocast("cuda"):
            return x.softmax(-1), x.mean(), x.softmax(-1, dtype=torch.float16), x.var()

    compiled = torch.compile(both)
    for _ in range(2):
        assert all(same(a, b.cpu()) for a, b in zip(compiled(x), both(x)))
    here = torch.rand(4, 4).bfloat16()
    with torch.autocast("cpu"):
        assert here.softmax(-1).dtype == here.exp().dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.int64, torch.complex128], ids=str)
def test_triangles_are_one_launch(dtype):
    x = torch.arange(2 * 3 * 7).reshape(2, 3, 7).to(dtype)
    for y in (x, x.transpose(1, 2), x[0, :, 1::2], x[:, :1], x[:0]):
        for d in (-9, -1, 0, 2, 9):
            for name in ("tril", "triu"):
                got, want = getattr(y.cuda(), name)(d), getattr(y, name)(d)
                assert same(got, want) and got.stride() == want.stride()
                assert same(getattr(y.cuda(), name + "_")(d), want)
    wide = torch.arange(2 * 5 * 16).reshape(2, 5, 16).to(dtype)  # rows of accesses of 16 bytes
    for d in range(-5, 17, 3):
        assert same(wide.cuda().tril(d), wide.tril(d)) and same(wide.cuda().triu(d), wide.triu(d))
    z = x.cuda()
    assert launches(lambda: z.tril()) <= 1


def test_a_result_of_a_composition_is_not_copied():
    torch.empty(1 << 18, device="cuda")
    first = torch.empty(1 << 18, device="cuda").data_ptr()  # freed, and the result's before the composition is called
    x = torch.randn(1 << 18, device="cuda")
    assert x.data_ptr() != first and x._version == 0 and 0.9 < x.std().item() < 1.1


def test_compiled_planes_share_launches():
    torch.manual_seed(9)
    x, y = torch.randn(9, 5, 4, 6), torch.randn(9, 1, 4, 1)
    f = torch.compile(lambda x, y: ((x * y).tanh() + y, (x + y).sum(-1)))
    for part in (lambda t: t, lambda t: t[:, :, 1:]):
        a, b = part(x), part(y)
        for have, want in zip(f(part(x.cuda()), part(y.cuda())), ((a * b).tanh() + b, (a + b).sum(-1))):
            assert same(have, want)
    there, other = x.cuda()[:, :, 1:], y.cuda()[:, :, 1:]
    assert launches(lambda: f(there, other)) <= 3  # of 27 planes


def test_numbers_and_flexible_operands():
    torch.manual_seed(1)
    x = torch.randn(5, 33)
    there = x.cuda()
    assert same(there * 2.5, x * 2.5)
    assert same(there + torch.tensor(3.0), x + torch.tensor(3.0))
    assert same(there * there[2, 3], x * x[2, 3])
    assert same(there[:, ::2] + there[:, :1], x[:, ::2] + x[:, :1])


def test_long_reductions_have_the_hosts_bits():
    torch.manual_seed(2)
    for shape, dim in (((3, 20000), 1), ((1100, 37), 0), ((2, 600, 5), 1), ((30000,), 0)):
        x = torch.randn(shape)
        assert same(x.cuda().sum(dim), x.sum(dim)), (shape, dim)


@pytest.mark.parametrize("name", ["AdamW", "Adagrad"])
def test_fused_steps_are_read_once(name):
    """Each read would make the host wait for all queued work.  A step with an infinite gradient is not counted."""
    here, there = (torch.nn.Parameter(torch.arange(6.0, device=device)) for device in ("cpu", "cuda"))
    plain, fused = getattr(torch.optim, name)([here], lr=0.1), getattr(torch.optim, name)([there], lr=0.1, fused=True)
    found = torch.zeros((), device="cuda")
    for i in range(5):
        here.grad, there.grad = torch.full_like(here, i + 0.5), torch.full_like(there, i + 0.5)
        if i == 2:
            fused.load_state_dict(fused.state_dict())
        if i == 3:
            fused.grad_scale, fused.found_inf = torch.ones((), device="cuda"), found.fill_(1)
            fused.step()
            del fused.grad_scale, fused.found_inf
        torch.cuda.set_sync_debug_mode("error" if i in (1, 4) else "default")
        try:
            fused.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        plain.step()
    assert same(there.detach().cpu(), here.detach()) and fused.state[there]["step"].item() == 5 and fused.state[there]["step"].is_cuda


@pytest.mark.parametrize("alive", [False, True])
def test_fused_steps_that_a_program_writes_are_read(alive):
    """Writes through .data, while it is there or after, and through memory of others leave the version."""
    results = []
    for device in ("cpu", "cuda"):
        p = torch.nn.Parameter(torch.arange(6.0, device=device))
        optimizer = torch.optim.Adam([p], lr=0.1, fused=True)
        for i in range(6):
            p.grad = torch.full_like(p, i + 0.5)
            optimizer.step()
            if i == 0:
                kept = optimizer.state[p]["step"].data if alive else None
            if i in (2, 3):
                (kept if alive else optimizer.state[p]["step"].data).fill_(i - 2)
            if i == 4:
                optimizer.state[p]["step"].data = torch.full((), 7.0, device=device)
        results.append((p.detach().cpu(), optimizer.state[p]["step"].item()))
    assert results[0][1] == results[1][1] == 8 and same(results[1][0], results[0][0])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float64", "complex64"])
def test_conversions(dtype):
    x = torch.tensor([0.0, -0.0, 1.5, -2.5, 65519.9, 1e-8, 3e9, -3e9, float("inf"), float("nan")])
    to = getattr(torch, dtype)
    have, want = x.cuda().to(to).cpu(), x.to(to)
    assert have.view(torch.uint8).tolist() == want.view(torch.uint8).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_of_vectors_with_nan(dtype):
    """A vector's halves are rounded in pairs, and those with NaN once more: each place of a vector, alone and beside others."""
    dtype = getattr(torch, dtype)
    x = torch.linspace(-3, 3, 8 * 64).reshape(64, 8).to(dtype)
    for i in range(8):
        x[i, i] = float("nan")
        x[8 + i] = float("nan")
        x[8 + i, i] = -0.5
    x[16] = torch.tensor([float("inf"), -float("inf")] * 4)
    for f in (torch.nn.functional.gelu, lambda t: t * 1.25, lambda t: t / t):
        assert same_with_nan(f(x.cuda()), f(x))
    wide = torch.tensor([1.0, float("nan"), -float("nan"), 3e38, 1e-41, 65519.0, 65520.0, -2.0])
    assert same_with_nan(wide.cuda().to(dtype), wide.to(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_gelu_has_the_bits_of_the_host(dtype):
    x = torch.cat([torch.linspace(-7, 7, 4001), torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-30])])
    x = x.to(getattr(torch, dtype))
    f = torch.nn.functional.gelu
    assert same_with_nan(f(x.cuda()), f(x))
    leaves = [t.detach().requires_grad_() for t in (x.cuda(), x)]
    grads = [torch.autograd.grad(f(t).sum(), t)[0] for t in leaves]
    assert same_with_nan(grads[0], grads[1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_read_and_written_in_place(dtype):
    """Kernels convert in registers; rows of more than 8192 columns keep unrounded values in a buffer."""
    torch.manual_seed(4)
    x, y = ((torch.randn(6, 333) * 3).to(getattr(torch, dtype)) for _ in range(2))
    long = torch.randn(2, 9000).to(x.dtype)
    functional = torch.nn.functional
    for f in (lambda a, b: a + b, lambda a, b: a * b[:1] + b[:, :1], lambda a, b: functional.gelu(a[:, 1:]) - 0.3,
              lambda a, b: a.add(b.float()), lambda a, b: torch.where(a > b, a, b), lambda a, b: a.clone().mul_(b).add_(1),
              lambda a, b: a.sum(), lambda a, b: a.sum(0), lambda a, b: a.sum(1), lambda a, b: a.amax(1),
              lambda a, b: a.softmax(1), lambda a, b: a.softmax(0), lambda a, b: functional.layer_norm(a, (333,), b[0], b[1])):
        assert same(f(x.cuda(), y.cuda()), f(x, y))
    assert same(long.cuda().softmax(1), long.softmax(1)) and same(long.cuda().sum(1), long.sum(1))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_groups_read_and_write_halves(dtype):
    torch.manual_seed(5)
    x, w = torch.randn(5, 300).to(getattr(torch, dtype)), torch.randn(300).to(getattr(torch, dtype))

    def f(x, w):
        y = (x * w).softmax(1)
        return y + x, torch.tanh(y - w).sum(1)

    for a, b in zip(torch.compile(f)(x.cuda(), w.cuda()), f(x, w)):
        assert same(a, b)


MOVED = [((40, 70), (1, 0)), ((2, 37, 9, 8), (0, 2, 3, 1)), ((2, 9, 8, 36), (0, 3, 1, 2)), ((2, 130, 3, 5, 4), (0, 2, 3, 4, 1)),
         ((33, 2, 65), (2, 1, 0)), ((3, 8, 5, 16), (0, 2, 1, 3)), ((2, 3, 1, 2, 2, 3, 2, 9, 8), (8, 1, 2, 5, 4, 3, 6, 0, 7))]


@pytest.mark.parametrize("shape, order", MOVED)
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "float64", "complex128"])
def test_copies_between_layouts(shape, order, dtype):
    """Tiles through shared memory, elements joined to wider ones, and both with addresses and sizes that allow neither."""
    torch.manual_seed(13)
    x = (torch.randn(shape) * 50).to(getattr(torch, dtype))
    there = x.cuda()
    for part in (lambda t: t, lambda t: t[..., 1:], lambda t: t[1:]):
        assert same(part(there).permute(order).contiguous(), part(x).permute(order).contiguous())
        wide = torch.zeros([n + 1 for n in part(x).permute(order).shape], dtype=x.dtype)
        inside = tuple(slice(1, None) for _ in shape)
        filled = wide.cuda()
        filled[inside] = part(there).permute(order)
        wide[inside] = part(x).permute(order)
        assert same(filled, wide)


def test_a_copy_between_layouts_is_one_launch():
    x = torch.randn(2, 40, 9, 8, device="cuda")
    y = x.bfloat16().contiguous(memory_format=torch.channels_last)
    assert launches(lambda: x.contiguous(memory_format=torch.channels_last)) <= 1
    assert launches(lambda: y.contiguous()) <= 1 and launches(lambda: y.float()) <= 1
    assert same(y.float().contiguous(), x.bfloat16().cpu().float())


def test_fills_of_parts():
    for dtype in (torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.complex128):
        for part in (lambda t: t[:, 2:6], lambda t: t[:, 1:4], lambda t: t[:, ::2], lambda t: t.t()[4:]):
            here = torch.zeros(5, 8, dtype=dtype)
            there = here.cuda()
            part(here).fill_(3)
            part(there).fill_(3)
            assert same(there, here)


def test_results_over_an_argument():
    torch.manual_seed(6)
    x = torch.randn(40)
    there = x.cuda()
    assert same(there.add_(there), x + x)


READS = {
    "gather": lambda x, i: x.gather(1, i % 6), "take": lambda x, i: x.take(i), "roll": lambda x, i: x.roll(2, 1),
    "index_select": lambda x, i: x.index_select(0, i[:, 0] % 4), "flip": lambda x, i: x.flip(0, 1),
    "int32": lambda x, i: x.index_select(1, (i[0] % 6).int()), "negative": lambda x, i: x[i[:, 0] % 4 - 4],
    "index": lambda x, i: x[i % 4], "two": lambda x, i: x[i % 4, i % 6], "tril": lambda x, i: x.tril(1),
    "embedding": lambda x, i: torch.nn.functional.embedding(i % 4, x), "cat": lambda x, i: torch.cat([x, x[:, :2]], 1),
    "stack": lambda x, i: torch.stack([x, x], 1), "pad": lambda x, i: torch.nn.functional.pad(x, (1, 2), value=3.0),
    "reflect": lambda x, i: torch.nn.functional.pad(x[None], (1, 2), mode="reflect"),
    "circular": lambda x, i: torch.nn.functional.pad(x[None], (1, 2), mode="circular"),
    "slice_scatter": lambda x, i: x.slice_scatter(x[:, :2], 1, 3, 5), "select_scatter": lambda x, i: x.select_scatter(x[0], 0, 2),
    "index_copy": lambda x, i: x.index_copy(0, torch.tensor([3, 1], device=x.device), x[:2]),
    "scatter": lambda x, i: x.scatter(1, i % 2, x[:, :3] + 1), "one_hot": lambda x, i: torch.nn.functional.one_hot(i % 5, 5),
    "expanded": lambda x, i: x.gather(0, (i[:1] % 4).expand(3, 3)), "repeat": lambda x, i: x.repeat(2, 3),
    "masked_fill": lambda x, i: x.masked_fill(x > 0, 2.0),
}


@pytest.mark.parametrize("shape, pad", [((2, 3), (1, 2)), ((1, 3, 3), (0, 2)), ((2, 3, 4), (1, 2, 2, 1)), ((2, 3, 3, 3), (1, 1, 0, 2, 2, 1))])
def test_gradients_of_reflections_run_on_the_device(shape, pad):
    x = torch.randn(shape)
    there, here = x.cuda().requires_grad_(), x.clone().requires_grad_()
    y = torch.nn.functional.pad(here, pad, mode="reflect")
    g = torch.randn_like(y)
    y.backward(g)
    made, g = torch.nn.functional.pad(there, pad, mode="reflect"), g.cuda()
    try:
        torch.cuda.set_sync_debug_mode("error")  # an operator on the host would wait
        made.backward(g)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert same(there.grad, here.grad)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_elements_at_computed_places(name, dtype):
    """Of several elements that are written to one place, the last one remains, as on the host."""
    torch.manual_seed(7)
    x, i = (torch.randn(4, 6) * 3).to(getattr(torch, dtype)), torch.randint(0, 24, (4, 3))
    assert same(READS[name](x.cuda(), i.cuda()), READS[name](x, i))


def test_long_rows_at_computed_places():
    table, i = torch.randn(50, 256), torch.randint(0, 50, (7, 9))
    for t in (table, table[:, 1:], table.bfloat16(), table.t().contiguous().t()):
        assert same(torch.nn.functional.embedding(i.cuda(), t.cuda()), torch.nn.functional.embedding(i, t))
    out = torch.zeros(50, 256)
    assert same(out.cuda().index_copy_(0, i.flatten().cuda(), table.cuda().repeat(2, 1)[:63]),
                out.index_copy_(0, i.flatten(), table.repeat(2, 1)[:63]))


@pytest.mark.parametrize("name", place_cases.WRITES)
@pytest.mark.parametrize("dtype", place_cases.DTYPES)
def test_writes_that_combine_elements(name, dtype):
    if not place_cases.takes(name, dtype):
        pytest.skip("the host has no such call")
    here = place_cases.writes(dtype)
    there, f = [x.cuda() for x in here], place_cases.WRITES[name]
    assert place_cases.equal(f(*there), f(*here))
    assert not FAKE or launches(lambda: f(*there)) > 0


def test_long_columns_are_added_in_the_order_of_the_host():
    torch.manual_seed(23)
    i, v = torch.randint(0, 2, (40000,)), torch.randn(40000, 2)
    for x in (v, v.bfloat16()):
        out = torch.zeros(2, 2, dtype=x.dtype)
        assert place_cases.equal(out.cuda().index_add(0, i.cuda(), x.cuda()), out.index_add(0, i, x))


@pytest.mark.parametrize("n, places", [(70, 1), (2300, 3), (5000, 4000)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "complex64", "int64", "uint8"])
def test_runs_of_many_entries(n, places, dtype):
    """Sorts by one block and by tiles; destinations of one block of entries and of several, beside each other."""
    torch.manual_seed(24)
    dtype = getattr(torch, dtype)
    i = torch.randint(0, places, (n,))
    i[::3] = i[0]
    v = (torch.randn(n, 3) * 9).to(dtype)
    out = torch.zeros(places, 3, dtype=dtype)
    assert place_cases.equal(out.cuda().index_add(0, i.cuda(), v.cuda()), out.index_add(0, i, v))
    if not dtype.is_complex:
        for how in ("prod", "amin", "amax"):
            assert place_cases.equal(out.cuda().index_reduce(0, i.cuda(), v.cuda(), how), out.index_reduce(0, i, v, how))
    assert same(torch.zeros(places).cuda().scatter_add(0, i.cuda(), v[:, 0].real.float().cuda() if dtype.is_complex else v[:, 0].float().cuda()),
                torch.zeros(places).scatter_add(0, i, v[:, 0].real.float() if dtype.is_complex else v[:, 0].float()))


@pytest.mark.parametrize("name", place_cases.WINDOWS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_windows(name, dtype):
    x, f = place_cases.images(dtype), place_cases.WINDOWS[name]
    there = x.cuda()
    assert place_cases.equal(f(there), f(x))
    assert not FAKE or launches(lambda: f(there)) > 0
    if name != "which":
        x = x.nan_to_num(0, 3, -3)
        assert place_cases.equal(place_cases.gradient(name, x.cuda()), place_cases.gradient(name, x))


def on_the_device(f):
    """No entry of f takes the host (CR_LOG=backend names those that do)."""
    code = f"import cresset as torch\nimport cresset.nn.functional as F\n{f}\ntorch.cuda.synchronize()"
    r = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CR_LOG": "backend", "CR_HOST_FALLBACK": "1"}, capture_output=True,
                       text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    return "computed on the host" not in r.stderr


def parameters(dtype, device):
    """More than one launch takes, with gradients: of several blocks, without elements, with gaps."""
    torch.manual_seed(26)
    made = []
    for i in range(130):
        size = (2, 8192) if i == 4 else (8192 + 3,) if i == 10 else [(1,), (7, 5), (2,), (0,), (9,), (30,)][i % 6]
        p = torch.nn.Parameter(torch.randn(size).to(dtype).to(device))
        g = torch.randn(size).to(dtype)
        p.grad = g.t().contiguous().t().to(device) if i == 1 else torch.cat([g, g]).to(device)[::2] if i == 5 else g.to(device)
        made.append(p)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lists_of_parameters_take_few_launches(dtype):
    here, there = parameters(dtype, "cpu"), parameters(dtype, "cuda")
    for few, kept in ((False, slice(None)), (True, [i for i in range(130) if i % 6 not in (3, 5) and i != 1])):
        a, b = ([x[i] for i in kept] if few else x for x in (here, there))
        assert same(torch.nn.utils.get_total_norm([p.grad for p in b]), torch.nn.utils.get_total_norm([p.grad for p in a]))
        assert same(torch.nn.utils.clip_grad_norm_(b, 0.5), torch.nn.utils.clip_grad_norm_(a, 0.5))
        assert all(same(y.grad, x.grad) for x, y in zip(a, b))
        assert not few or launches(lambda: torch.nn.utils.clip_grad_norm_(b, 0.5)) <= 20
    for x, y in zip(here, there):
        y.grad.copy_(x.grad)
    for options in ({"fused": True}, {"amsgrad": True}):
        steps = [torch.optim.AdamW(p, lr=0.1, **options) for p in (here, there)]
        for _ in range(2):
            for o in steps:
                o.step()
        assert all(same(y, x) for x, y in zip(here, there))
        for name in steps[0].state[here[0]]:
            assert all(torch.equal(steps[1].state[y][name].cpu(), steps[0].state[x][name]) for x, y in zip(here, there)), name
    assert launches(torch.optim.AdamW([there[i] for i in kept], fused=True).step) <= 10
    before = there[0]._version
    torch.nn.utils.clip_grads_with_norm_([there[0], there[0]], 1.0, torch.tensor(4.0, dtype=dtype, device="cuda"))
    torch.nn.utils.clip_grads_with_norm_([here[0], here[0]], 1.0, torch.tensor(4.0, dtype=dtype))
    assert same(there[0].grad, here[0].grad) and there[0].grad._version and there[0]._version == before


def test_losses_and_triangles_stay_on_the_device():
    torch.manual_seed(24)
    x, t, w = torch.randn(300, 17), torch.randint(0, 17, (300,)), torch.rand(17)
    t[::3] = -100
    for reduction in ("mean", "sum", "none"):
        for weight in (None, w):
            here = torch.nn.functional.nll_loss(x, t, weight, reduction=reduction)
            there = torch.nn.functional.nll_loss(x.cuda(), t.cuda(), None if weight is None else w.cuda(), reduction=reduction)
            assert same(there, here)
    for shape in ((5, 7), (2, 9, 4)):
        y = torch.randn(shape)
        for d in (-20, -1, 0, 2, 20):
            assert same(y.cuda().tril(d), y.tril(d)) and same((y > 0).cuda().triu(d), (y > 0).triu(d))
    assert on_the_device("""x = torch.ones(8, 16, requires_grad=True, device="cuda")
t = torch.zeros(8, dtype=torch.int64, device="cuda")
F.cross_entropy(x, t).backward()
torch.ones(100, 100, device="cuda").tril()
torch.ones(4, 4, device="cuda", requires_grad=True)[t % 4, t % 4].sum().backward()
F.max_pool2d(torch.ones(1, 2, 8, 8, device="cuda", requires_grad=True), 2).sum().backward()
F.embedding(t, x).sum().backward()
F.interpolate(x[None], scale_factor=2.0, mode="linear").sum().backward()
F.embedding_bag(t, x, t[:1]).sum().backward()
torch.arange(9, device="cuda") + torch.linspace(0, 1, 9, device="cuda")""")
    # Entries of the host are told: any of these is enough, as each may get a kernel.
    assert not on_the_device("""x = torch.eye(3, device="cuda")
torch.linalg.ldl_factor(x), torch.linalg.matrix_exp(x), torch.special.bessel_j0(x), torch.logspace(0, 1, 3, device="cuda")
F.ctc_loss(x[:, None].log_softmax(-1), torch.ones(1, 1, dtype=torch.int64, device="cuda"), [3], [1])""")


ATTENTIONS = [((1, 2, 1, 140, 150, 64), True, None, "bfloat16"), ((1, 2, 1, 33, 90, 40), False, None, "float16"),
              ((1, 1, 1, 70, 40, 128), True, None, "bfloat16"), ((1, 1, 1, 40, 100, 104), False, None, "bfloat16"),
              ((2, 2, 2, 20, 37, 16), False, "bool", "bfloat16"), ((2, 2, 1, 20, 37, 16), False, "float32", "bfloat16"),
              ((2, 2, 2, 20, 37, 16), False, "own", "float16"), ((1, 1, 1, 5, 3, 8), True, None, "float16"),
              ((1, 2, 1, 70, 135, 64), True, None, "float32"), ((2, 2, 2, 66, 65, 20), False, "bool", "float32"),
              ((1, 2, 2, 20, 37, 40), False, "float32", "float32")]


def plain_attention(q, k, v, mask, causal):
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -float("inf")) if mask.dtype == torch.bool else scores + mask.float()
    return scores.softmax(-1).nan_to_num(0) @ v


@pytest.mark.parametrize("sizes, causal, kind, dtype", ATTENTIONS)
def test_attention(sizes, causal, kind, dtype):
    """Results are nearer to those of float32 than the dtype's rounding of a few terms; one launch, without scores in memory."""
    torch.manual_seed(16)
    (batch, heads, shared, queries, keys, width), dtype = sizes, getattr(torch, dtype)
    masks = {None: lambda: None, "bool": lambda: torch.rand(batch, 1, queries, keys) > 0.3, "float32": lambda: torch.randn(queries, keys),
             "own": lambda: torch.randn(heads, 1, keys).to(dtype)}
    mask = masks[kind]()
    if kind == "bool":
        mask[:, :, 3] = False
    given = [torch.randn(batch, queries, heads, width).transpose(1, 2), torch.randn(batch, shared, keys, width),
             torch.randn(batch, shared, width, keys).transpose(2, 3)]
    given = [x.to(dtype) for x in given]
    here = [x.float().clone().requires_grad_() for x in given]
    there = [x.cuda().requires_grad_() for x in given]
    g = torch.randn(batch, heads, queries, width).to(dtype)
    want = plain_attention(*here, mask, causal)
    want.backward(g.float())

    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask if mask is None else mask.cuda(), is_causal=causal,
                                                                enable_gqa=heads != shared)

    made = attend(*there)
    made.backward(g.cuda())
    eps = {torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11, torch.float32: 2.0 ** -18}[dtype]
    for have, right in zip([made.detach()] + [x.grad for x in there], [want.detach()] + [x.grad for x in here]):
        assert have.dtype == dtype and (have.cpu().float() - right).abs().max() <= 2 * eps * right.abs().max() + eps
    with torch.no_grad():
        assert launches(lambda: attend(*there)) <= 3  # a copy of the values, which are dense along the keys; a mask
        assert same(torch.compile(attend)(*there), attend(*there).cpu())


@pytest.mark.parametrize("dtype, heads, shared, length, width", [(torch.float32, 2, 2, 5, 8), (torch.bfloat16, 4, 2, 9, 16),
                                                                 (torch.bfloat16, 2, 2, 128, 64)])
def test_gradients_of_one_projection_are_stored_side_by_side(dtype, heads, shared, length, width):
    """A compiled program copies none of the gradients of query, key and value, and has eager's bits."""
    size, parts = heads * width, [heads * width, shared * width, shared * width]
    torch.manual_seed(36)
    start, g = torch.randn(2, length, size).to("cuda", dtype), torch.randn(2, length, size).to("cuda", dtype)
    weight, bias = (torch.randn(*n).div(8).to("cuda", dtype).requires_grad_() for n in ((sum(parts), size), (sum(parts),)))

    def attend(x):
        q, k, v = (t.view(2, length, -1, width).transpose(1, 2) for t in torch.nn.functional.linear(x, weight, bias).split(parts, 2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != shared)
        return y.transpose(1, 2).reshape(2, length, size)

    made, taken = [], []
    for f in (attend, torch.compile(attend)):
        x = start.clone().requires_grad_()
        for _ in range(3):
            grads = torch.autograd.grad(f(x), (x, weight, bias), g)
        y = f(x)
        taken.append(launches(lambda: torch.autograd.grad(y, (x, weight, bias), g, retain_graph=True)))
        made.append([y.detach(), *grads])
    assert all(torch.equal(have, right) for have, right in zip(*made))
    assert not FAKE or taken[1] < taken[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_computed_again_is_beside_its_gradient(dtype):
    """One launch reads gelu's argument for gelu, which a compiled program computes again, and for its gradient; bits are eager's."""
    torch.manual_seed(37)
    start, *weights = (torch.randn(n, 40).to("cuda", dtype) for n in (24, 56, 40))
    for w in weights:
        w.requires_grad_()

    def net(x):
        y = torch.nn.functional.gelu(torch.nn.functional.linear(x, weights[0]))
        return torch.nn.functional.linear(y, weights[0].t()).sin() @ weights[1]

    made, taken = [], []
    for f in (net, torch.compile(net)):
        x = start.clone().requires_grad_()
        for _ in range(3):
            y = f(x)
            grads = torch.autograd.grad(y, (x, *weights), start, retain_graph=True)
        taken.append(launches(lambda: torch.autograd.grad(y, (x, *weights), start, retain_graph=True)))
        made.append([y.detach(), *grads])
    assert all(torch.equal(have, right) for have, right in zip(*made))
    assert not FAKE or taken[1] <= taken[0]


HALVES = {"bfloat16": torch.nn.functional.silu, "float16": lambda x: torch.nn.functional.softplus(x, beta=0.5)}


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_by_tables(dtype):
    """A costly function of many halves has the host's bits for each of the 65,536, wherever they are."""
    f, dtype = HALVES[dtype], getattr(torch, dtype)
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    x = torch.cat([every.repeat(16), every[3:8]])
    there = x.cuda()
    for i in (0, 1):  # of the second copy the address is not that of a vector
        assert same_with_nan(f(there.clone()[i:]), f(x.clone()[i:]))
    with torch.no_grad():
        assert not FAKE or launches(lambda: f(there)) == 1


@pytest.mark.parametrize("f, dtype", [(torch.nn.functional.silu, torch.bfloat16), (torch.nn.functional.gelu, torch.float16)])
def test_products_by_tables(f, dtype):
    """So has the product of many halves with a costly function of others, for each of the 65,536: the gradient of f."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    x = torch.cat([every.repeat(16), every[3:8]])
    g = torch.randn(x.shape).to(dtype)
    g[5::97], g[7::101], g[11::103] = float("nan"), float("inf"), 0

    def gradient(x, g):
        leaf = x.detach().requires_grad_()
        return lambda y=f(leaf): torch.autograd.grad(y, leaf, g, retain_graph=True)[0]

    here, there = gradient(x, g)(), gradient(x.cuda(), g.cuda())
    assert same_with_nan(there(), here)
    assert not FAKE or launches(there) == 1
    assert same_with_nan(gradient(x.cuda(), g.cuda()[:1].expand(x.shape))(), gradient(x, g[:1].expand(x.shape))())
    assert same_with_nan(gradient(x.cuda()[1:], g.cuda()[1:])(), here[1:])


@pytest.mark.parametrize("given, result", [(torch.bfloat16, torch.float16), (torch.float16, torch.bfloat16), (torch.float16, torch.float16)], ids=str)
def test_products_of_halves_as_other_halves(given, result):
    """A table multiplies halves of one dtype: operands of another one than the result's have a kernel."""
    @torch.compile
    def product(x, y):
        return (x.float() * torch.nn.functional.silu(y.float())).to(result)

    torch.manual_seed(4)
    x, y = torch.randn(2, 1 << 20).to(given)
    want = (x.float() * torch.nn.functional.silu(y.float())).to(result)
    assert same(product(x.cuda(), y.cuda()), want) and same(product(x.cuda(), y.cuda()), want)


# Whole tiles, which cuDNN takes.
TILED = [((1, 2, 2, 64, 128, 64), True, "contiguous"), ((1, 4, 2, 128, 64, 40), False, "contiguous"), ((2, 2, 2, 64, 64, 16), True, "packed")]


def check_planned_attention(sizes, causal, layout):
    """Results near those of float32, which do not change from call to call, without a kernel of ours."""
    batch, heads, shared, queries, keys, width = sizes
    packed = layout == "packed"
    leaves = [torch.randn(batch, queries, 3, heads, width).bfloat16()] if packed else \
             [torch.randn(batch, h, n, width).bfloat16() for h, n in ((heads, queries), (shared, keys), (shared, keys))]
    here = [x.float().requires_grad_() for x in leaves]
    there = [x.cuda().requires_grad_() for x in leaves]
    g = torch.randn(batch, heads, queries, width).bfloat16()

    def split(given):
        return [given[0][:, :, i].transpose(1, 2) for i in range(3)] if packed else given

    def attend(given):
        return torch.nn.functional.scaled_dot_product_attention(*split(given), is_causal=causal, enable_gqa=heads != shared)

    want = plain_attention(*split(here), None, causal)
    want.backward(g.float())
    made = attend(there)
    grads = torch.autograd.grad(made, there, g.cuda(), retain_graph=True)
    for have, right in zip([made.detach(), *grads], [want.detach()] + [x.grad for x in here]):
        assert (have.cpu().float() - right).abs().max() <= 2 ** -7 * right.abs().max() + 2 ** -8
    assert all(same(x, y.cpu()) for x, y in zip(torch.autograd.grad(made, there, g.cuda(), retain_graph=True), grads))
    with torch.no_grad():
        assert not FAKE or launches(lambda: attend(there)) == 0


@pytest.mark.parametrize("sizes, causal, layout", TILED)
def test_attention_by_plans(sizes, causal, layout):
    torch.manual_seed(17)
    check_planned_attention(sizes, causal, layout)


@pytest.mark.skipif(not FAKE, reason="the limit of the stand-in")
def test_attention_by_plans_of_parts():
    """Scores that are more than a part of the memory: parts of the batch, and parts of the heads, each with a rest."""
    code = f"""import sys
sys.path[:0] = {sys.path!r}
import test_cuda as t
t.check_planned_attention((3, 5, 5, 64, 64, 8), True, "contiguous")
t.check_planned_attention((1, 18, 6, 64, 64, 8), False, "contiguous")"""
    r = subprocess.run([sys.executable, "-c", code], env={**os.environ, "FAKE_CUDA_MEMORY": "24", "CR_LOG": "cuda"}, capture_output=True, text=True, timeout=200)
    assert r.returncode == 0, r.stderr
    assert r.stderr.count("the gradients of attention takes") == 4


@pytest.mark.skipif(not FAKE, reason="the limit of the stand-in")
def test_attention_where_a_block_has_less_shared_memory():
    """Gradients of wide heads of float32 need 102.5 KiB a block; compute capability 8.6 has 99."""
    code = """import cresset as torch
here = [torch.randn(1, 1, 3, 40, requires_grad=True) for _ in range(3)]
there = [x.detach().cuda().requires_grad_() for x in here]
for leaves in (here, there):
    torch.nn.functional.scaled_dot_product_attention(*leaves).sum().backward()
for x, y in zip(here, there):
    assert (x.grad - y.grad.cpu()).abs().max() < 1e-5"""
    r = subprocess.run([sys.executable, "-c", code], env={**os.environ, "FAKE_CUDA_SHARED": str(99 << 10)}, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr


KEPT_SCORES = """import hashlib
import cresset as t
t.manual_seed(38)
for heads, shared, queries, keys, width, masked in ((2, 2, 70, 130, 40, False), (4, 2, 130, 70, 32, True), (2, 1, 65, 65, 64, False)):
    for causal in (False, True)[:1 if masked else 2]:
        q, k, v = (t.randn(5, n, rows, width, device="cuda", requires_grad=True) for n, rows in ((heads, queries), (shared, keys), (shared, keys)))
        mask = t.rand(5, 1, queries, keys, device="cuda") > 0.3 if masked else None
        y = t.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=True)
        grads = t.autograd.grad(y, (q, k, v), t.randn(5, heads, queries, width, device="cuda"))
        print(*(hashlib.sha256(g.cpu().numpy().tobytes()).hexdigest()[:16] for g in grads))"""


@pytest.mark.skipif(not FAKE, reason="the memory of the stand-in")
def test_gradients_of_attention_do_not_depend_on_the_memory_for_scores():
    """Of float32: with 512 MB, gradients of scores of all batches are kept, with 128 MB those of two at once, with 24 MB of none."""
    printed = [subprocess.run([sys.executable, "-c", KEPT_SCORES], env={**os.environ, "FAKE_CUDA_MEMORY": megabytes}, capture_output=True, text=True,
                              timeout=300) for megabytes in ("512", "128", "24")]
    assert not any(r.returncode for r in printed), [r.stderr for r in printed]
    assert len(printed[0].stdout.split()) == 15
    assert printed[1].stdout == printed[2].stdout == printed[0].stdout


RANGES = {"arange": lambda **k: torch.arange(-3, 97, 1.3, **k), "whole": lambda **k: torch.arange(5, -40, -2, **k),
          "few": lambda **k: torch.arange(3, **k), "none": lambda **k: torch.arange(0, **k),
          "range": lambda **k: torch.range(1, 30, 0.7, **k), "linspace": lambda **k: torch.linspace(-1, 7, 50, **k),
          "point": lambda **k: torch.linspace(2, 7, 1, **k)}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8"])
def test_ranges_are_made_on_the_device(name, dtype):
    dtype, f = getattr(torch, dtype), RANGES[name]
    assert same(f(dtype=dtype, device="cuda"), f(dtype=dtype))
    if dtype == torch.float32:
        out = torch.empty(f().numel() * 2, device="cuda")[::2]
        assert same(f(out=out), f(dtype=f(device="cuda").dtype).float())


RESAMPLED = [("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2), ("bicubic", 2),
             ("trilinear", 3)]


@pytest.mark.parametrize("mode, dims", RESAMPLED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8"])
def test_resampling(mode, dims, dtype):
    torch.manual_seed(14)
    dtype = getattr(torch, dtype)
    channels = 8 if mode in ("nearest", "linear", "bilinear") else 3  # a thread has four
    x = (torch.rand(2, channels, *(5, 4, 6)[:dims]) * 200).to(dtype)
    if dtype == torch.uint8 and dims != 2:
        pytest.skip("torch resamples bytes in two dims")
    resample = torch.nn.functional.interpolate
    ways = [{"size": (9, 7, 3)[:dims]}, {"scale_factor": 2.0}, {"scale_factor": 0.6}, {"size": x.shape[2:]}]
    ways += [{"size": (9, 7, 3)[:dims], "align_corners": True}] if "linear" in mode or "cubic" in mode else []
    ways += [{"size": (2, 3), "antialias": True}] if mode in ("bilinear", "bicubic") else []
    formats = (torch.contiguous_format, torch.channels_last) if dims == 2 else (torch.contiguous_format,)
    for way in ways:
        for layout in formats:
            here = x.clone(memory_format=layout)
            there = here.cuda()
            if dtype != torch.uint8:
                here, there = here.requires_grad_(), there.requires_grad_()
            made, want = resample(there, mode=mode, **way), resample(here, mode=mode, **way)
            assert same(made.detach(), want.detach()) and made.stride() == want.stride(), way
            if dtype != torch.uint8:
                g = torch.randn(want.shape).to(dtype)
                made.backward(g.cuda())
                want.backward(g)
                assert same(there.grad, here.grad), way


def test_resampling_names_its_limit():
    x = torch.ones(1, 1, 1, dtype=torch.float16, device="cuda")
    resample = torch.nn.functional.interpolate
    with pytest.raises(RuntimeError, match="of 2147483648 elements is resampled to 4 elements .* at most 2\\^31 - 1 of each"):
        resample(x.expand(1, 1, 2 ** 31), size=4)
    assert resample(x.expand(1, 1, 2 ** 31 - 1), size=4).tolist() == [[[1.0] * 4]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_bags(mode, dtype):
    torch.manual_seed(15)
    w = torch.randn(7, 5).to(getattr(torch, dtype))
    i, offsets = torch.randint(0, 7, (20,)), torch.tensor([0, 4, 4, 9, 19])
    bag = torch.nn.functional.embedding_bag
    for kind in (torch.int64, torch.int32):
        for way in ({}, {"padding_idx": 2}, {"include_last_offset": True}) + (({"per_sample_weights": w.flatten()[:20]},) if mode == "sum" else ()):
            there = {k: v.cuda() if torch.is_tensor(v) else v for k, v in way.items()}
            a, b = w.cuda().requires_grad_(), w.clone().requires_grad_()
            made = bag(i.to(kind).cuda(), a, offsets.to(kind).cuda(), mode=mode, **there)
            want = bag(i.to(kind), b, offsets.to(kind), mode=mode, **way)
            assert same(made.detach(), want.detach())
            for have, right in zip(torch.embedding_bag(a, i.cuda(), offsets.cuda(), False, ["sum", "mean", "max"].index(mode)),
                                   torch.embedding_bag(b, i, offsets, False, ["sum", "mean", "max"].index(mode))):
                assert same(have.detach(), right.detach())
            g = torch.randn(want.shape).to(w.dtype)
            made.backward(g.cuda())
            want.backward(g)
            assert torch.allclose(a.grad.cpu(), b.grad, rtol=0.02, atol=0.02)
    assert same(bag(i[:0].cuda(), w.cuda(), offsets[:1].cuda()), bag(i[:0], w, offsets[:1]))


@pytest.mark.parametrize("index", [torch.int64, torch.int32], ids=str)
def test_steps_of_embedding_bags(index):
    """The calls of graphs that have no embedding_bag."""
    steps = torch.ops.aten
    w = torch.randn(7, 5)
    w[2, 1] = float("nan")
    i = torch.tensor([1, 2, 2, 4, 0, 6, 5], dtype=index)
    for offsets, bags in (([0, 3, 3, 5], 3), ([0, 3, 3], 3), ([0], 1), ([0, 0, 7], 2)):
        o = torch.tensor(offsets, dtype=index)
        calls = [lambda w, i, o: steps._bags_of(i, o, bags), lambda w, i, o: steps._largest_of_bags(w, i, o, bags, 4)]
        for call in calls:
            for have, right in zip(call(w.cuda(), i.cuda(), o.cuda()), call(w, i, o)):
                assert have.dtype == right.dtype and torch.allclose(have.cpu(), right, 0, 0, equal_nan=True)
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0, .* However, got 1"):
        steps._bags_of(i.cuda(), torch.tensor([1, 2], dtype=index, device="cuda"), 2)[0].cpu()


def test_wrong_bags_are_raised_by_the_next_wait():
    w, bag = torch.randn(7, 5).cuda(), torch.nn.functional.embedding_bag
    for i, offsets, error, text in (([0, 9], [0], IndexError, "index out of range in self"),
                                    ([0, 1], [1], RuntimeError, "has to start from position 0. However, got 1"),
                                    ([0, 1], [0, 5], RuntimeError, r"input's length 2 but got offsets\[-1\] of 5")):
        bag(torch.tensor(i).cuda(), w, torch.tensor(offsets).cuda())
        with pytest.raises(error, match=text):
            torch.cuda.synchronize()
        torch.cuda.synchronize()


def test_sizes_of_results_need_no_wait():
    w, i = torch.randn(7, 5).cuda().requires_grad_(), torch.randint(0, 5, (3, 5)).cuda()
    x, bag = w.detach(), torch.nn.functional.embedding_bag
    calls = [lambda mode=mode: bag(i, w, mode=mode) for mode in ("sum", "mean")]
    calls += [lambda: bag(i, x, mode="max"), lambda: torch.nn.functional.embedding(i, w), lambda: w.gather(0, i), lambda: w.take(i),
              lambda: w.scatter_add(0, i, w), lambda: w.scatter(0, i, 2.0), lambda: w.index_select(0, i[0]), lambda: w.index_add(1, i[0], w)]
    for call in calls:
        call()  # kernels are built
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        made = [call() for call in calls]
        for y in made:
            if y.requires_grad:
                y.sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert w.grad.isfinite().all() and all(y.isfinite().all() for y in made)


def test_an_index_out_of_range_is_raised_by_the_next_wait():
    x = torch.arange(12.0).reshape(3, 4).cuda()
    for bad, f, error in ((7, lambda i: x.index_select(0, i), IndexError), (-9, lambda i: x.gather(1, i[None]), RuntimeError),
                          (5, lambda i: torch.nn.functional.embedding(i, x), IndexError)):
        here = torch.tensor([0, bad])
        with pytest.raises(error) as want:
            f_host = {7: lambda: x.cpu().index_select(0, here), -9: lambda: x.cpu().gather(1, here[None]),
                      5: lambda: torch.nn.functional.embedding(here, x.cpu())}[bad]
            f_host()
        made = f(here.cuda())
        with pytest.raises(type(want.value)) as found:
            torch.cuda.synchronize()
        assert str(found.value) == str(want.value)
        torch.cuda.synchronize()
        assert made.cpu().flatten()[0] == 0 and same(x + 1, x.cpu() + 1)


def test_copies_of_any_strides():
    x = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    for view in (lambda t: t.permute(3, 1, 0, 2), lambda t: t[:, :, ::2, 1::3], lambda t: t[:1].expand(4, 3, 4, 5)):
        assert same(view(x.cuda()).contiguous(), view(x).contiguous())
        assert same(view(x.cuda()), view(x))


def test_backward_and_optimizer():
    def train(device):
        torch.manual_seed(3)
        w = torch.randn(4, 6).to(device).requires_grad_()
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        x = torch.linspace(-1, 1, 24).reshape(4, 6).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            (w * x).softmax(1).square().sum().backward()
            optimizer.step()
        return w.detach(), w.grad

    for a, b in zip(train("cuda"), train("cpu")):
        assert same(a, b)


def test_compiled_equals_eager_and_is_recorded_once():
    w = torch.linspace(-2, 2, 12).reshape(3, 4).cuda().requires_grad_()

    def step(x):
        w.grad = None
        loss = ((w * x).sigmoid() + x).sum()
        loss.backward()
        return loss

    x = torch.linspace(0, 1, 12).reshape(3, 4).cuda()
    want = step(x).item(), w.grad.cpu()
    compiled, made = torch.compile(step), []
    for _ in range(5):
        assert compiled(x).item() == want[0] and same(w.grad, want[1])
        made.append(torch._C._programs_made())
    assert made[-1] == made[2] > 0


def test_waits_are_reported():
    x = torch.ones(3, device="cuda")
    try:
        torch.cuda.set_sync_debug_mode("error")
        assert torch.cuda.get_sync_debug_mode() == 2
        for wait in (lambda: x.sum().item(), lambda: x.cpu(), lambda: x.tolist(), lambda: bool(x[0])):
            with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
                wait()
        y = x * 2 + x.sum()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode(1)
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            assert y.tolist() == [5.0] * 3
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.cuda.set_sync_debug_mode(3)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert y.sum().item() == 15


def test_cudnn_is_acceptable():
    for device, dtype, takes in (("cuda", torch.float32, True), ("cuda", torch.float64, True), ("cuda", torch.int64, False), ("cpu", torch.float32, False)):
        x = torch.ones(2, device=device).to(dtype)
        assert torch.backends.cudnn.is_acceptable(x) == torch.cudnn_is_acceptable(x) == (takes and torch.backends.cudnn.is_available())
    half = torch.ones(2, device="cuda").bfloat16()
    assert not torch.backends.cudnn.is_acceptable(half) and torch.cudnn_is_acceptable(half) == torch.backends.cudnn.is_available()
    assert not torch.cudnn_is_acceptable(torch.ones(0, device="cuda"))


def test_streams_and_events():
    x = torch.ones(1000).cuda()
    s, done = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    start = torch.cuda.Event(enable_timing=True)
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        assert torch.cuda.current_stream() == s != torch.cuda.default_stream()
        start.record()
        y = x + 1
        done.record()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.current_stream().wait_event(done)
    assert (y + 1).sum().item() == 3000
    done.synchronize()
    assert done.query() and s.query() and start.elapsed_time(done) >= 0


def test_memory_is_cached_and_counted():
    gc.collect()  # tensors that earlier tests left in cycles
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.empty(1000, device="cuda")
    assert torch.cuda.memory_allocated() == before + 4096 and torch.cuda.memory_reserved() >= 2 << 20
    at = x.data_ptr()
    del x
    assert torch.empty(1000, device="cuda").data_ptr() == at
    assert torch.cuda.memory_allocated() == before and torch.cuda.max_memory_allocated() == before + 4096
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and stats["num_ooms"] == 0
    blocks = [torch.empty(n * 1000, device="cuda") for n in range(1, 60)]
    del blocks[::2]
    del blocks
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before


def test_errors_of_the_driver():
    for call in (lambda: torch.empty(1, device="cuda:63"), lambda: torch.cuda.set_device(63),
                 lambda: torch.cuda.synchronize(63), lambda: torch.cuda.device(63).__enter__()):
        with pytest.raises(torch.AcceleratorError, match="invalid device ordinal") as found:
            call()
        assert found.value.error_code == 101
    assert issubclass(torch.AcceleratorError, RuntimeError) and torch.OutOfMemoryError is torch.cuda.OutOfMemoryError
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(63)
    for device in ("cuda", None, 1.5):
        with pytest.raises(ValueError, match="Expected a torch.device with a specified index or an integer"):
            torch.cuda.set_device(device)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.set_device("cpu")
    with pytest.raises(ValueError, match="must be recorded"):
        torch.cuda.Event(enable_timing=True).elapsed_time(torch.cuda.Event(enable_timing=True))


def test_memory_of_blocks_is_the_drivers():
    code = """
import cresset as torch
x = torch.arange(7, device="cuda", dtype=torch.uint8)
assert torch.cuda.memory_reserved() == torch.cuda.memory_allocated() == 7
y, other = x + 1, torch.cuda.Stream()
with torch.cuda.stream(other):
    other.wait_stream(torch.cuda.default_stream())
    z = y * 2
y.record_stream(other)
del x, y
torch.cuda.synchronize()
assert z.tolist() == [2, 4, 6, 8, 10, 12, 14]
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() == 7
"""
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1"),
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_memory_waits_for_the_streams_that_use_it():
    side = torch.cuda.Stream()
    x = torch.full((1000,), 3.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x
        for _ in range(20):
            y = y + 1
    x.record_stream(side)
    del x
    other = [torch.full((1000,), -1.0, device="cuda") for _ in range(20)]
    torch.cuda.current_stream().wait_stream(side)
    assert y.tolist() == [23.0] * 1000 and len(other) == 20
    with pytest.raises(RuntimeError, match="unknown parameter type"):
        y.record_stream(3)
    with pytest.raises(NotImplementedError, match="aten::record_stream"):
        torch.ones(1).record_stream(side)


def test_threads_leave_their_own_streams():
    import threading
    s, seen = torch.cuda.Stream(), []
    ready, done = threading.Event(), threading.Event()

    def other():
        t = torch.cuda.Stream()
        with torch.cuda.stream(t):
            with torch.cuda.stream(s):
                ready.set()
                done.wait()
            seen.append(torch.cuda.current_stream() == t)

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    with torch.cuda.stream(s):
        pass
    seen.append(torch.cuda.current_stream() == torch.cuda.default_stream())
    done.set()
    thread.join()
    assert seen == [True, True]
    same_stream = torch.cuda.Stream(stream_ptr=s.cuda_stream)
    assert same_stream == s
    with pytest.raises(TypeError, match="unexpected keyword|invalid keyword"):
        torch.cuda.Stream(wrong=1)


@pytest.mark.skipif(not FAKE, reason="takes the device's memory")
def test_a_limit_of_nothing():
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.0)
    with pytest.raises(torch.OutOfMemoryError, match="0 bytes allowed"):
        torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.skipif(not FAKE, reason="takes the device's memory")
def test_out_of_memory_in_torchs_words():
    before = torch.cuda.memory_stats()["num_ooms"]
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory. Tried to allocate 1.00 TiB|1024.00 GiB"):
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] == before + 1
    assert torch.ones(3, device="cuda").sum().item() == 3
    torch.cuda.set_per_process_memory_fraction(0.01)
    with pytest.raises(torch.cuda.OutOfMemoryError, match="allowed"):
        torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_forked_child_gets_torchs_error():
    torch.ones(1, device="cuda")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            torch.ones(1, device="cuda")
            text = "no error"
        except RuntimeError as error:
            text = str(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 1000).decode().startswith("Cannot re-initialize CUDA in forked subprocess.")


def test_entries_without_a_statement_are_the_hosts():
    x = torch.tensor([3.0, 1.0, 2.0])
    assert same(x.cuda().sort()[1], x.sort()[1])
    z = torch.tensor([0.5 + 1j, -2j])
    assert same(z.cuda().asin(), z.asin())


def test_arrays_come_in():
    x = torch.tensor(np.arange(6.0).reshape(2, 3), device="cuda")
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and x.sum().item() == 15


def test_cuda_is_the_accelerator():
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.device_count() == torch.cuda.device_count()
    assert torch.accelerator.current_stream() == torch.cuda.default_stream()
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()


CONVOLUTIONS = [((2, 3, 9, 8), (4, 3, 3, 3), dict(padding=1)), ((2, 4, 9, 8), (6, 2, 3, 2), dict(stride=2, groups=2)),
                ((1, 2, 11), (3, 2, 4), dict(stride=2, padding=3, dilation=2)), ((1, 2, 5, 4, 5), (2, 2, 2, 3, 2), dict(padding=(1, 0, 1)))]


@pytest.mark.parametrize("size, kernel, how", CONVOLUTIONS)
def test_convolutions(size, kernel, how):
    torch.manual_seed(4)
    f = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d, 5: torch.nn.functional.conv3d}[len(size)]
    x, w, b = (torch.randn(n).double() for n in (size, kernel, kernel[:1]))
    results = []
    for device in ("cuda", "cpu"):
        leaves = [t.to(device).requires_grad_() for t in (x, w, b)]
        y = f(*leaves, **how)
        y.square().sum().backward()
        results.append([y.detach().cpu()] + [t.grad.cpu() for t in leaves])
    for a, b in zip(*results):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_with_the_channels_last(dtype, last, groups):
    """Arrays are computed in their layout; what cuDNN then refuses, in the other one."""
    torch.manual_seed(6)
    layout = torch.channels_last if last else torch.contiguous_format
    x, w, b = (torch.randint(-4, 5, n).to(dtype) for n in ((2, 4, 5, 6), (8, 4 // groups, 3, 2), (8,)))
    results = []
    for device in ("cuda", "cpu"):
        leaves = [t.to(device).to(memory_format=layout) if t.dim() == 4 else t.to(device) for t in (x, w, b)]
        leaves = [t.detach().requires_grad_() for t in leaves]
        y = torch.nn.functional.conv2d(*leaves, padding=1, groups=groups)
        y.sum().backward()
        assert y.is_contiguous(memory_format=layout) and leaves[0].grad.is_contiguous(memory_format=layout)
        results.append([y.detach().cpu()] + [t.grad.cpu() for t in leaves])
    for a, b in zip(*results):
        assert torch.equal(a, b)


ENGINES = """
import cresset as torch
conv = torch.nn.functional.conv2d
x, w = (torch.randn(n).cuda() for n in ((1 + 2 * 4 * 5 * 6,), (8, 4, 3, 3)))
whole, shifted = x[:-1].view(2, 4, 5, 6), x[1:].view(2, 4, 5, 6)
for image in (whole, shifted, whole):  # of the shifted one, no vector is aligned
    assert torch.allclose(conv(image, w).cpu(), conv(image.cpu(), w.cpu()), atol=1e-5)
a_channel_a_group = torch.ones(8, 1, 3, 3).cuda().to(torch.bfloat16)
last = torch.ones(2, 8, 5, 5).cuda().to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
assert torch.equal(conv(last, a_channel_a_group, groups=8), torch.full((2, 8, 3, 3), 9.).cuda().bfloat16())
"""


def test_a_key_of_a_convolution_has_one_engine():
    """The first proposal of cuDNN is not deterministic, so the second is taken; it declines groups of one channel."""
    done = subprocess.run([sys.executable, "-c", ENGINES], env={**os.environ, "CR_LOG": "cuda"}, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-1000:]
    assert "no engine" not in done.stderr
    if FAKE:
        assert done.stderr.count("a convolution takes choice 1 of 2, 1000 bytes") == 3 and "choice 0" not in done.stderr


ROOMS = """
import cresset as torch
x, w = torch.randn(2, 4, 5, 6).cuda(), torch.randn(8, 4, 3, 3).cuda()
assert torch.allclose(torch.nn.functional.conv2d(x, w).cpu(), torch.nn.functional.conv2d(x.cpu(), w.cpu()), atol=1e-5)
"""


@pytest.mark.skipif(not FAKE, reason="the proposals are those of the stand-in")
@pytest.mark.parametrize("room, choice", [(32 << 20, 1), ((32 << 20) + 1, 2)])
def test_engines_that_need_many_times_the_arrays_come_last(room, choice):
    done = subprocess.run([sys.executable, "-c", ROOMS], env={**os.environ, "CR_LOG": "cuda", "FAKE_CUDNN_ROOM": str(room)},
                          capture_output=True, text=True)
    assert not done.returncode, done.stderr[-1000:]
    assert f"takes choice {choice} of 3" in done.stderr


def test_transposed_convolution_and_other_layouts():
    torch.manual_seed(5)
    x, w, b = torch.randn(2, 4, 5, 6), torch.randn(4, 3, 3, 2), torch.randn(6)
    f = torch.nn.functional.conv_transpose2d
    how = dict(stride=2, padding=1, groups=2, output_padding=(1, 0))
    assert torch.allclose(f(x.cuda(), w.cuda(), b.cuda(), **how).cpu(), f(x, w, b, **how), atol=1e-5)
    x, w = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3)
    got = torch.nn.functional.conv2d(x.cuda(), w.cuda().transpose(2, 3), b[:4].cuda())
    assert torch.allclose(got.cpu(), torch.nn.functional.conv2d(x, w.transpose(2, 3), b[:4]), atol=1e-5)


SIZES_WITHOUT_ALGORITHM = [((2, 4, 5), (4, 3, 3), dict(dilation=2, output_padding=1)),
                           ((2, 4, 5, 6), (4, 3, 3, 2), dict(dilation=2, output_padding=1, padding=1)),
                           ((1, 4, 5, 6), (4, 2, 1, 3), dict(stride=(1, 2), dilation=(4, 3), output_padding=(3, 2), groups=2)),
                           ((1, 2, 3, 4, 3), (2, 2, 2, 1, 2), dict(dilation=3, output_padding=(2, 0, 1)))]


@pytest.mark.parametrize("size, kernel, how", SIZES_WITHOUT_ALGORITHM)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_transposed_convolutions_without_an_algorithm_of_cudnn(size, kernel, how, dtype):
    """An output padding of the stride or more leaves elements that no convolution of these sizes has."""
    torch.manual_seed(7)
    f = {3: torch.nn.functional.conv_transpose1d, 4: torch.nn.functional.conv_transpose2d,
         5: torch.nn.functional.conv_transpose3d}[len(size)]
    channels = kernel[1] * how.get("groups", 1)
    x, w, b = (torch.randint(-3, 4, n).to(dtype) for n in (size, kernel, (channels,)))
    results = []
    for device in ("cuda", "cpu"):
        leaves = [t.to(device).requires_grad_() for t in (x, w, b)]
        y = f(*leaves, **how)
        (y * torch.arange(y.numel(), device=device).view(y.shape).remainder(3).to(dtype)).sum().backward()
        results.append([y.detach().cpu()] + [t.grad.cpu() for t in leaves])
    for a, b in zip(*results):
        assert torch.equal(a, b)


def test_pinned_memory():
    x = torch.arange(24.0).reshape(4, 6).t()
    assert not x.is_pinned()
    p = x.pin_memory()
    assert p.is_pinned() and p.pin_memory() is p and p.stride() == x.stride() and torch.equal(p, x)
    assert p[1:].is_pinned() and not p.clone().is_pinned() and not p.cuda().is_pinned()
    there = p.cuda(non_blocking=True)
    p.zero_()  # after the copy has read it
    assert same(there, x)
    assert torch.empty(0, 3, dtype=torch.bool).pin_memory().shape == (0, 3)
    at = p.data_ptr()
    del p
    assert x.pin_memory().data_ptr() == at
    with pytest.raises(RuntimeError, match="cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors"):
        there.pin_memory()


@pytest.mark.parametrize("workers", [0, 1])
def test_data_loader_pins_batches(workers):
    from cresset.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.arange(10.0), torch.arange(10))
    seen = []
    for x, y in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers):
        assert x.is_pinned() and y.is_pinned()
        seen += x.cuda(non_blocking=True).tolist()
    assert seen == list(range(10))


BROADCASTS = [((5, 33), (33,)), ((5, 33), (5, 1)), ((3, 4, 5, 6), (4, 1, 1)), ((3, 4, 5, 6), (1, 4, 1, 6)), ((3, 1, 7), (2, 1)),
              ((2, 3, 4), (3, 1)), ((70, 2, 3, 5), (1, 2, 1, 5)), ((6,), (4, 1))]


@pytest.mark.parametrize("a, b", BROADCASTS)
def test_broadcast_operands_are_read_in_place(a, b):
    torch.manual_seed(6)
    x, y = torch.randn(a), torch.randn(b)
    there, other = x.cuda(), y.cuda()
    shape = torch.broadcast_shapes(a, b)
    assert same(there * other - other, x * y - y)
    assert same(there.expand(shape).clone().mul_(other), x.expand(shape) * y)
    for turned in (lambda t: t.transpose(0, -1), lambda t: t.flip(0)):
        assert same(turned(there) + 1, turned(x) + 1)
    assert same(torch.where(other > 0, there, other), torch.where(y > 0, x, y))
    if len(a) == 4:
        last = there.to(memory_format=torch.channels_last)
        assert same(last + other, x + y)


def test_broadcasts_take_no_memory():
    x, row, column = torch.ones(64, 1024, device="cuda"), torch.ones(1024, device="cuda"), torch.ones(64, 1, device="cuda")
    for other in (row, column):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        y = x + other
        assert torch.cuda.max_memory_allocated() - before == y.numel() * 4
        del y


@pytest.mark.parametrize("n", [1, 8, 1003, 70001])
def test_dense_conversions(n):
    torch.manual_seed(7)
    x = torch.randn(n + 8) * 100
    for a, b in (("float32", "bfloat16"), ("float16", "float32"), ("int64", "uint8"), ("bool", "complex64"), ("float64", "int16")):
        from_, to = getattr(torch, a), getattr(torch, b)
        for start in (0, 1):  # aligned, and not
            part = x.to(from_)[start:start + n]
            assert same(x.to(from_).cuda()[start:start + n].to(to), part.to(to)), (a, b, start)


def test_compiled_rows_of_each_form():
    """Constants without digits pass through the text of the program, from which a form is printed."""
    def f(x, m):
        least = x.masked_fill(m, float("-inf")).softmax(-1)
        some = torch.where(m, torch.full_like(x, float("nan")), x).nan_to_num(1e-40).logsumexp(-1)
        return least, some, (x * 3e38 * 10).clamp(max=float("inf")).sum(-1), (x > 0).any(-1)

    compiled = torch.compile(f)
    for n in (5, 128, 300, 2048):
        torch.manual_seed(0)
        x = torch.randn(6, n)
        m = x > 1.0
        for _ in range(3):
            for a, b in zip(compiled(x.cuda(), m.cuda()), f(x, m)):
                assert same(a.nan_to_num(7.0) if a.is_floating_point() else a, b.nan_to_num(7.0) if b.is_floating_point() else b)


def products(f):
    """The calls of cuBLASLt that f makes; 0 on a GPU."""
    if not FAKE:
        f()
        return 0
    counted = ctypes.CDLL(os.path.join(os.environ["CR_CUDA"], "libcublasLt.so.13")).fake_cublas_products
    counted.restype = ctypes.c_long
    before = counted()
    f()
    return counted() - before


def heads(dtype, batch=3, length=4, n=2, size=5):
    """Queries, keys and values as attention takes them out of one packed tensor."""
    packed = torch.randint(-3, 4, (batch, length, 3 * n * size)).to(dtype)
    return [x.view(batch, length, n, size).transpose(1, 2) for x in packed.split(n * size, -1)]


BATCHES = {
    "scores": lambda q, k, v: (q, k.transpose(-1, -2)),
    "dense": lambda q, k, v: (q.contiguous(), k.contiguous().transpose(-1, -2)),
    "values": lambda q, k, v: (torch.ones(3, 2, 4, 4).to(v.dtype), v),
    "turned": lambda q, k, v: (q.transpose(-1, -2), v),
    "one for all": lambda q, k, v: (q, k[:1].transpose(-1, -2)),
    "one for a head": lambda q, k, v: (q[:, :1], k.transpose(-1, -2)),
    "a batch dim less": lambda q, k, v: (q, k[0].transpose(-1, -2)),
    "reversed order of dims": lambda q, k, v: (q.transpose(0, 1), k.transpose(0, 1).transpose(-1, -2)),
    "five dims": lambda q, k, v: (q[:, :, None], k.transpose(-1, -2)[:, None]),
    "empty batch": lambda q, k, v: (q[:0], k[:0].transpose(-1, -2)),
    "empty sum": lambda q, k, v: (q[..., :0], k[..., :0].transpose(-1, -2)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("kind", BATCHES)
def test_batches_of_products(kind, dtype):
    a, b = BATCHES[kind](*heads(dtype))
    x, y = a.cuda(), b.cuda()
    if a.numel():  # copies keep the strides under test
        x, y = (torch.empty_strided(t.size(), t.stride(), dtype=dtype, device="cuda").copy_(t) for t in (a, b))
    assert same(x @ y, a @ b)


def test_batches_of_expanded_operands():
    q, _, v = heads(torch.float32)
    for f in (lambda q, v: q[:, :1].expand(3, 2, 4, 5) @ v[:1].expand(3, 2, 4, 5).transpose(-1, -2),
              lambda q, v: q @ v[:, :, :1].expand(3, 2, 4, 5).transpose(-1, -2)):
        assert same(f(q.cuda(), v.cuda()), f(q, v))


@pytest.mark.parametrize("kind", ["scores", "dense", "values", "turned"])
def test_a_batch_of_heads_is_one_product(kind):
    a, b = BATCHES[kind](*heads(torch.float32))
    x, y = (torch.empty_strided(t.size(), t.stride(), device="cuda").copy_(t) for t in (a, b))
    assert products(lambda: x @ y) == FAKE
    assert products(lambda: x @ y[:1]) == (2 if FAKE else 0)  # two heads share no distance with one sequence


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("bias", ["dense", "strided", "offset", "matrix", "one for all"])
def test_products_with_a_bias(bias, dtype):
    whole = torch.randint(-3, 4, (6, 17)).to(dtype)
    b = {"dense": whole[0, :8], "strided": whole[0, ::2][:8], "offset": whole[0, 1:9], "matrix": whole[:, :8], "one for all": whole[0, :1]}[bias]
    x, w = torch.randint(-3, 4, (6, 5)).to(dtype), torch.randint(-3, 4, (8, 5)).to(dtype)
    on = whole.cuda()
    c = {"dense": on[0, :8], "strided": on[0, ::2][:8], "offset": on[0, 1:9], "matrix": on[:, :8], "one for all": on[0, :1]}[bias]
    assert same(torch.addmm(c, x.cuda(), w.cuda().t()), torch.addmm(b, x, w.t()))
    assert same(torch.addmm(c, x.cuda(), w.cuda().t(), beta=2, alpha=3), torch.addmm(b, x, w.t(), beta=2, alpha=3))
    if b.dim() == 1 and len(b) == 8:
        assert same(torch.nn.functional.linear(x.cuda(), w.cuda(), c), torch.nn.functional.linear(x, w, b))
        assert same(torch.nn.functional.linear(x.reshape(2, 3, 5).cuda(), w.cuda(), c), torch.nn.functional.linear(x.reshape(2, 3, 5), w, b))
        assert same(torch.nn.functional.linear(x[:, :0].cuda(), w[:, :0].cuda(), c), torch.nn.functional.linear(x[:, :0], w[:, :0], b))


def test_a_linear_layer_is_one_product_and_no_copy_of_its_bias():
    layer = torch.nn.Linear(5, 8).cuda()
    x = torch.randn(6, 5, device="cuda")
    assert launches(lambda: layer(x)) == 0 and products(lambda: layer(x)) == FAKE


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8, torch.float32, torch.complex64], ids=str)
def test_products_of_any_dims(dtype):
    """Vectors as rows and columns, batches, operands without elements; integers have a kernel of their own."""
    def of(*size):
        return (torch.rand(size) * 9).to(dtype)
    for a, b in (([4], [4, 5]), ([3, 4], [4]), ([4], [4]), ([4], [2, 4, 5]), ([2, 3, 4], [4]), ([2, 1, 3, 4], [5, 4, 6]), ([3, 0], [0, 2]), ([0, 4], [4]),
                 ([40, 70], [70, 33])):
        a, b = of(*a), of(*b)
        assert torch.allclose((a.cuda() @ b.cuda()).cpu(), a @ b)
        assert torch.allclose((a.cuda() @ b.cuda().t().contiguous().t()).cpu(), a @ b) if b.ndim == 2 else True
    for x, w, bias in (([4], [5, 4], [5]), ([2, 4], [4], None), ([4], [4], None), ([3, 0], [5, 0], [5])):
        x, w, bias = of(*x), of(*w), None if bias is None else of(*bias)
        assert torch.allclose(torch.nn.functional.linear(x.cuda(), w.cuda(), None if bias is None else bias.cuda()).cpu(),
                              torch.nn.functional.linear(x, w, bias))
    c, a, b = of(2, 3, 5), of(2, 3, 4), of(2, 4, 5)
    assert torch.allclose(torch.baddbmm(c.cuda(), a.cuda(), b.cuda(), beta=2, alpha=3).cpu(), torch.baddbmm(c, a, b, beta=2, alpha=3))
    assert torch.allclose(torch.addmm(c[0].cuda(), a[0, :, :0].cuda(), b[0, :0].cuda(), beta=3).cpu(), c[0] * 3)


def test_factors_of_products_of_integers_are_exact():
    x = torch.tensor([[2 ** 62 + 1, 3]])
    want = torch.addmm(x, x[:, :1], torch.ones(1, 2, dtype=torch.int64), beta=2 ** 61 + 1, alpha=2 ** 60 + 1)
    assert same(torch.addmm(x.cuda(), x.cuda()[:, :1], torch.ones(1, 2, dtype=torch.int64, device="cuda"), beta=2 ** 61 + 1, alpha=2 ** 60 + 1), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=str)
def test_powers_at_equal_distances(dtype):
    for start, end, n in ((0, 2, 7), (1.5, 1.9, 1), (0, 1, 0)):
        want = torch.logspace(start, end, n, base=3, dtype=dtype)
        assert torch.allclose(torch.logspace(start, end, n, base=3, dtype=dtype, device="cuda").cpu(), want, rtol=1e-6)


def test_packed_sequences_of_recurrent_layers():
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        net = kind(3, 4, bidirectional=True)
        rows = [torch.randn(n, 3) for n in (4, 2, 3)]
        packed = torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
        want = net(packed)[0].data
        out = net.cuda()(packed.to("cuda"))[0].data
        assert torch.allclose(out.cpu(), want, atol=1e-5)
        out.sum().backward()
        assert net.weight_ih_l0.grad.is_cuda
    with pytest.raises(RuntimeError, match="batch_sizes must be a 1-D tensor of int64 on the CPU"):
        torch.gru(packed.data.cuda(), packed.batch_sizes.cuda(), torch.zeros(2, 3, 4).cuda(), list(net.parameters()), True, 1, 0.0, False, True)


def test_a_convolution_of_cudnn_has_its_own_switches(monkeypatch):
    seen, rounds = [], torch.backends.cudnn._round
    monkeypatch.setattr(torch.backends.cudnn, "_round", lambda on: (seen.append(on), rounds(on)))
    x, w = torch.rand(1, 1, 3, 3).cuda(), torch.rand(1, 1, 2, 2).cuda()
    for on in (False, True):
        seen.clear()
        torch.cudnn_convolution(x, w, [0, 0], [1, 1], [1, 1], 1, True, True, on)
        assert seen[0] is on and seen[-1] is False and not torch.backends.cudnn.deterministic and torch.backends.cudnn.allow_tf32


def test_operators_under_the_names_of_cudnn():
    x, w, b = torch.rand(2, 4, 5, 5), torch.rand(4, 2, 3, 3), torch.rand(4)
    X, W, B = x.cuda(), w.cuda(), b.cuda()
    plain = torch.nn.functional.conv2d(X, W, None, 2, 1, 1, 2)
    assert torch.equal(torch.cudnn_convolution(X, W, [1, 1], [2, 2], [1, 1], 2, False, False, False), plain)
    biased = torch.nn.functional.conv2d(X, W, B, 2, 1, 1, 2)
    assert torch.equal(torch.cudnn_convolution_relu(X, W, B, [2, 2], [1, 1], [1, 1], 2), biased.relu())
    assert torch.equal(torch.cudnn_convolution_add_relu(X, W, biased, -2, B, [2, 2], [1, 1], [1, 1], 2), (biased - 2 * biased).relu())
    turned = torch.nn.functional.conv_transpose2d(X, W, None, 2, 1, 1, 2)
    assert torch.equal(torch.cudnn_convolution_transpose(X, W, [1, 1], [1, 1], [2, 2], [1, 1], 2, False, False, False), turned)
    grid = torch.cudnn_affine_grid_generator(torch.rand(2, 2, 3).cuda(), 2, 4, 3, 3)
    assert torch.equal(torch.cudnn_grid_sampler(X, grid), torch.nn.functional.grid_sample(X, grid, align_corners=True))
    normed = torch.cudnn_batch_norm(X, B, B, None, None, True, 0.1, 1e-5)
    assert torch.equal(normed[0], torch.nn.functional.batch_norm(X, None, None, B, B, True)) and len(normed) == 4
    with pytest.raises(NotImplementedError, match="cudnn_convolution"):
        torch.cudnn_convolution(x, w, [1, 1], [2, 2], [1, 1], 2, False, False, False)


@pytest.mark.parametrize("size, weight", [((0, 3, 5, 5), (4, 3, 3, 3)), ((2, 0, 5, 5), (4, 0, 3, 3))], ids=["no image", "no channel"])
def test_convolutions_of_no_element(size, weight):
    bias = torch.rand(4)
    for b in (bias, None):
        made = []
        for device in ("cpu", "cuda"):
            x, w = torch.rand(size, device=device, requires_grad=True), torch.rand(weight, device=device, requires_grad=True)
            y = torch.nn.functional.conv2d(x, w, b if b is None else b.to(device))
            y.sum().backward()
            made.append([t.cpu() for t in (y, x.grad, w.grad)])
        assert all(torch.equal(p, q) for p, q in zip(*made))
    c = torch.rand(3, 5)
    assert same(torch.addbmm(c.cuda(), torch.rand(0, 3, 4).cuda(), torch.rand(0, 4, 5).cuda(), beta=2), c * 2)
