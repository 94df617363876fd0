"""Calls that warn, in torch's words: every time, or in the first such call of a process."""
import warnings

import pytest

import cresset as torch
import cresset.nn.functional as F

FEW = "(): degrees of freedom is <= 0. Correction should be strictly less than the "
SPREAD = FEW + "reduction factor (input numel divided by output numel)."
COV = "cov" + FEW + "number of observations."
NO_DIMS = " is deprecated on 0-D tensors. "
SAME = "This function is the identity in these cases."
CONJ = "Consider using x.conj()."
BYTE_INDEX = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
CAST = "Casting complex values to real discards the imaginary part"

one = torch.ones(1)
dot = torch.tensor(1.)
eye = torch.eye(3)
window = torch.hann_window(8)
spectrum = torch.stft(torch.ones(32), 8, window=window, return_complex=True)
turned = torch.ones(3, dtype=torch.complex64)
BYTES = torch.tensor([1, 0, 1], dtype=torch.uint8)


def told(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    assert all(w.category in (UserWarning, FutureWarning, DeprecationWarning) for w in seen)
    return [str(w.message) for w in seen]


@pytest.fixture(autouse=True)
def always():
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.parametrize("name", ("var", "std", "var_mean", "std_mean"))
def test_spreads_of_too_few_elements(name):
    f = getattr(torch, name)
    text = [name + SPREAD]
    assert told(lambda: f(one)) == told(lambda: f(one, unbiased=True)) == told(lambda: f(dot)) == text
    assert told(lambda: f(torch.ones(1, 3), 0)) == told(lambda: f(torch.ones(3, 0), 1)) == text
    assert told(lambda: f(torch.ones(3, 3), correction=9)) == text
    assert told(lambda: f(torch.ones(3, 3), correction=8)) == told(lambda: f(one, unbiased=False)) == []


def test_covariances_of_too_few_observations():
    assert told(lambda: torch.cov(torch.ones(2, 1))) == told(lambda: torch.corrcoef(torch.ones(2, 1))) == [COV]
    assert told(lambda: torch.cov(torch.ones(2, 3), correction=3)) == [COV]
    assert told(lambda: torch.cov(torch.ones(2, 2))) == told(lambda: torch.cov(torch.ones(2, 1), correction=0)) == []


# A call, the beginning of its warning, and a call beside it that does not warn.
@pytest.mark.parametrize("call, text, silent", [
    (lambda: dot.T, "Tensor.T" + NO_DIMS + SAME, lambda: eye.T),
    (lambda: dot.mT, "Tensor.mT" + NO_DIMS + SAME, lambda: eye.mT),
    (lambda: dot.H, "Tensor.H" + NO_DIMS + CONJ, lambda: eye.H),
    (lambda: dot.mH, "Tensor.mH" + NO_DIMS + CONJ, lambda: eye.mH),
    (lambda: dot.adjoint(), "adjoint()" + NO_DIMS + CONJ, lambda: eye.adjoint()),
    (lambda: torch.qr(eye), "torch.qr is deprecated in favor of torch.linalg.qr", lambda: torch.linalg.qr(eye)),
    (lambda: torch.cholesky(eye), "torch.cholesky is deprecated in favor of torch.linalg.cholesky",
     lambda: torch.linalg.cholesky(eye)),
    (lambda: eye.lu(), "torch.lu is deprecated in favor of torch.linalg.lu_factor", lambda: torch.linalg.lu(eye)),
    (lambda: torch.triangular_solve(eye, eye), "torch.triangular_solve is deprecated in favor of",
     lambda: torch.linalg.solve_triangular(eye, eye, upper=True)),
    (lambda: torch.lu_solve(eye, *torch.linalg.lu_factor(eye)), "torch.lu_solve is deprecated in favor of",
     lambda: torch.linalg.lu_solve(*torch.linalg.lu_factor(eye), eye)),
    (lambda: torch.cross(eye, eye), "Using torch.cross without specifying the dim arg is deprecated.",
     lambda: torch.cross(eye, eye, dim=0)),
    (lambda: torch.chain_matmul(eye, eye), "torch.chain_matmul is deprecated", lambda: torch.linalg.multi_dot([eye, eye])),
    (lambda: torch.range(0, 3), "torch.range is deprecated", lambda: torch.arange(3)),
    (lambda: torch.stft(torch.ones(32), 8, return_complex=True), "A window was not provided.",
     lambda: torch.stft(torch.ones(32), 8, window=window, return_complex=True)),
    (lambda: torch.stft(torch.ones(32), 8, window=window, return_complex=False), "stft with return_complex=False is deprecated",
     lambda: torch.istft(spectrum, 8, window=window)),
    (lambda: torch.istft(spectrum, 8, window=window, length=60), "The length of signal is shorter than the length parameter.",
     lambda: torch.istft(spectrum, 8, window=window, length=10)),
    (lambda: F.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding="same"), "Using padding='same' with even kernel lengths",
     lambda: F.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding="same", dilation=2)),
    (lambda: eye.scatter(0, torch.tensor([[0]]), one[None], reduce="add"), "The reduce argument of torch.scatter with Tensor src",
     lambda: eye.scatter(0, torch.tensor([[0]]), 1., reduce="add")),
    (lambda: eye.index_reduce(0, torch.tensor([0]), torch.ones(1, 3), "prod"), "index_reduce() is in beta",
     lambda: eye.index_add(0, torch.tensor([0]), torch.ones(1, 3))),
    (lambda: eye[[slice(0, 1), 0]], "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed",
     lambda: eye[slice(0, 1), 0]),
    (lambda: one.new_tensor(one), "To copy construct from a tensor", lambda: one.new_tensor([1.])),
    (lambda: F.affine_grid(torch.ones(1, 2, 3), (1, 1, 1, 2), align_corners=True), "Since version 1.3.0, affine_grid behavior",
     lambda: F.affine_grid(torch.ones(1, 2, 3), (1, 1, 1, 2), align_corners=False)),
    (lambda: turned.float(), CAST, lambda: turned.bool()),
    (lambda: turned.to(torch.int32), CAST, lambda: turned.to(torch.bool)),
    (lambda: torch.zeros(3).copy_(turned), CAST, lambda: torch.zeros(3, dtype=torch.bool).copy_(turned)),
    (lambda: torch.zeros(3).__setitem__(slice(None), turned), CAST, lambda: torch.zeros(3).__setitem__(0, 1.)),
    (lambda: torch.sum(turned, dtype=torch.float32), CAST, lambda: torch.sum(turned, dtype=torch.bool)),
    (lambda: torch.cumprod(turned, 0, dtype=torch.int32), CAST, lambda: torch.cumprod(turned, 0)),
    (lambda: torch.softmax(turned, 0, torch.float64), CAST, lambda: torch.softmax(turned.abs(), 0, torch.float64)),
    (lambda: torch.zeros(3).fill_(turned[0]), CAST, lambda: torch.zeros(3).fill_(dot)),
    (lambda: torch.where(BYTES, 1., 2.), "where received a uint8 condition tensor.", lambda: torch.where(BYTES > 0, 1., 2.)),
    (lambda: eye[BYTES], BYTE_INDEX, lambda: eye[BYTES > 0]),
    (lambda: torch.zeros(3).__setitem__(BYTES, torch.ones(2)), BYTE_INDEX, lambda: torch.zeros(3).__setitem__(BYTES > 0, 1.)),
    (lambda: torch.zeros(3).index_put_((BYTES,), torch.ones(2)), BYTE_INDEX, lambda: eye.index_put_((torch.tensor([0]),), dot)),
    (lambda: eye.to_sparse_csr(), "Sparse CSR tensor support is in beta state.", lambda: eye.to_sparse()),
    (lambda: torch.backends.cuda.sdp_kernel(), "`torch.backends.cuda.sdp_kernel()` is deprecated.", lambda: eye.mT),
    (lambda: torch.set_autocast_cpu_dtype(torch.bfloat16), "torch.set_autocast_cpu_dtype(dtype) is deprecated. Please use "
     "torch.set_autocast_dtype('cpu', dtype) instead.", lambda: torch.set_autocast_dtype("cpu", torch.bfloat16)),
    (lambda: torch.ones(2).add(2, torch.ones(2)), "This overload of add is deprecated:\n\tadd(Number alpha, Tensor other)",
     lambda: torch.ones(2).add(torch.ones(2), alpha=2)),
])
def test_calls_that_warn(call, text, silent):
    for _ in range(2):
        (got,) = told(call)
        assert got.startswith(text)
    assert told(silent) == []


def test_once():
    torch.set_warn_always(False)
    told(lambda: torch.qr(eye))
    assert told(lambda: torch.qr(eye)) == []
    assert told(lambda: torch.range(0, 1)) and told(lambda: one.var()) == told(lambda: one.var()) != []


def test_a_warning_that_is_an_error_ends_the_call():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="degrees of freedom"):
            one.var()
        with pytest.raises(UserWarning, match="degrees of freedom"):
            torch.var(one, 0, out=torch.empty(()))
    assert told(lambda: one.sum()) == []


def test_compositions_warn_of_their_own_call():
    x = torch.ones(1, requires_grad=True)
    assert told(lambda: x.std().backward()) == ["std" + SPREAD]
    assert told(lambda: F.batch_norm(torch.ones(3, 2), None, None, training=True)) == []


def test_assignment_of_a_number_by_a_byte_mask_is_refused_without_a_warning():
    def assign():
        with pytest.raises(RuntimeError, match="masked_fill_ only supports boolean masks"):
            torch.zeros(3)[BYTES] = 1.
    assert told(assign) == []


def test_a_batched_call_warns_once():
    assert told(lambda: torch.vmap(torch.var)(torch.ones(5, 1))) == ["var" + SPREAD]
    assert told(lambda: torch.vmap(lambda x: torch.std(x, 0))(torch.ones(5, 1, 2))) == ["std" + SPREAD]


def test_typed_storages_warn_once():
    import subprocess
    import sys
    program = ("import warnings, cresset as torch\nwith warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n"
               "    for _ in range(2): torch.ones(2).storage()\nprint([str(w.message)[:26] for w in seen])")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert out.stdout == "['TypedStorage is deprecated']\n", out.stderr
