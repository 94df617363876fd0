"""FakeTensorMode and functionalize as programs use them; texts are those of torch 2.13."""
import copy
import gc

import pytest

import cresset as torch
from cresset import nn
from cresset._guards import detect_fake_mode
from cresset._subclasses import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode
from cresset._subclasses.fake_tensor import FakeCopyMode, FakeTensorDeviceMismatchError, is_fake, unset_fake_temporarily
from cresset.func import functionalize, grad, vmap
from cresset.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.filterwarnings("ignore")


def lines(module):
    return [line.strip() for line in module.code.strip().splitlines()][1:]


# --- FakeTensorMode ---

def test_a_model_of_any_size_runs_without_memory():
    with FakeTensorMode():
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                            nn.Linear(8, 1 << 40))
        y = net(torch.empty(4, 3, 8, 8))
        y.sum().backward()
    assert y.shape == (4, 1 << 40) and net[0].weight.grad.shape == (8, 3, 3, 3)
    assert repr(y) == f"FakeTensor(..., size=(4, {1 << 40}), grad_fn=<AddmmBackward0>)"
    assert repr(net[2 + 3].bias)[:21] == "Parameter(FakeTensor("


def test_devices_that_this_machine_lacks():
    with FakeTensorMode():
        net = nn.Linear(3, 4).to("cuda").half()
        x = torch.ones(2, 3, device="cuda", dtype=torch.float16)
        assert repr(net(x)) == "FakeTensor(..., device='cuda:0', size=(2, 4), dtype=torch.float16, grad_fn=<AddmmBackward0>)"
        assert repr(x.cpu().float().cuda()) == "FakeTensor(..., device='cuda:0', size=(2, 3))"
        assert repr(torch.ones(()) + x) == "FakeTensor(..., device='cuda:0', size=(2, 3), dtype=torch.float16)"
        with pytest.raises(FakeTensorDeviceMismatchError, match="at least two devices, cpu and cuda:0!"):
            torch.ones(3) + x


def test_tensors_with_elements():
    mode, real = FakeTensorMode(), torch.ones(2, 3)
    fake = mode.from_tensor(real)
    assert fake is mode.from_tensor(real) and isinstance(fake, FakeTensor) and fake.fake_mode is mode and is_fake(fake)
    assert repr(fake + 1) == "FakeTensor(..., size=(2, 3))"
    with pytest.raises(AssertionError, match=r"Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode "
                       r"with 'allow_non_fake_inputs'. Found in aten.add.Tensor\(FakeTensor\(..., size=\(2, 3\)\), "
                       r"tensor\(\[...\], size=\(2, 3\)\)\)"):
        fake + real
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert repr(real @ real.t()) == "FakeTensor(..., size=(2, 2))"
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        FakeTensorMode().from_tensor(fake)
    assert repr(mode.from_tensor(nn.Parameter(real))) == "Parameter(FakeTensor(..., size=(2, 3), requires_grad=True))"
    assert detect_fake_mode([1, fake]) is mode and detect_fake_mode([real]) is None


def test_fakes_share_memory_as_their_tensors_do_and_end_with_them():
    mode, real = FakeTensorMode(), torch.zeros(4, 4)
    parts = real[1:, 1], real[2]
    fakes = [mode.from_tensor(x) for x in parts]
    assert [(x.shape, x.stride(), x.storage_offset()) for x in fakes] == [((3,), (4,), 5), ((4,), (1,), 8)]
    assert len(mode._fakes) == 2
    del parts, fakes, real
    gc.collect()
    assert not mode._fakes and not mode._wholes


def test_elements_that_are_known_and_those_that_are_not():
    with FakeTensorMode():
        n = torch.tensor(3)
        assert n.item() == 3 and (n + 1).item() == 4 and bool(n > 2)
        n.add_(2)
        assert n.item() == 5
        n.copy_(torch.empty((), dtype=torch.int64))
        for call, error, text in (
                (n.item, DataDependentOutputException, "aten._local_scalar_dense.default"),
                (lambda: bool(torch.ones(2).sum() > 0), DataDependentOutputException, "aten._local_scalar_dense.default"),
                (lambda: torch.equal(torch.ones(2), torch.ones(2)), DataDependentOutputException, "aten.equal.default"),
                (lambda: torch.nonzero(torch.ones(2)), DynamicOutputShapeException, "aten.nonzero.default"),
                (lambda: torch.unique(torch.ones(2)), DynamicOutputShapeException, "aten._unique2.default")):
            with pytest.raises(error, match=text):
                call()


def test_training_copies_and_transforms():
    model = nn.Linear(2, 3)
    mode = FakeTensorMode()
    with FakeCopyMode(mode):
        made = copy.deepcopy(model)
    assert repr(made.weight) == "Parameter(FakeTensor(..., size=(3, 2), requires_grad=True))"
    state = torch.get_rng_state()
    with mode:
        optimizer = torch.optim.AdamW(made.parameters())
        for _ in range(2):
            made(torch.randn(1, 2)).sum().backward()
            optimizer.step()
        assert repr(copy.deepcopy(made).weight) == repr(made.weight)
        assert vmap(lambda a: a.sum())(torch.ones(2, 3)).shape == (2,)
        assert repr(grad(lambda a: a.sum())(torch.ones(2, 3))) == "FakeTensor(..., size=(2, 3))"
        with unset_fake_temporarily() as active:
            assert active is mode and torch.ones(2).tolist() == [1, 1]
    assert torch.equal(state, torch.get_rng_state())
    assert type(torch.ones(2)) is torch.Tensor


def test_files_are_read_as_fakes(tmp_path):
    torch.save(nn.Linear(2, 3).state_dict(), tmp_path / "m.pt")
    with FakeTensorMode():
        model = nn.Linear(2, 3)
        assert "All keys matched" in str(model.load_state_dict(torch.load(tmp_path / "m.pt")))
        assert repr(torch.load(tmp_path / "m.pt")["bias"]) == "FakeTensor(..., size=(3,))"
    assert type(torch.load(tmp_path / "m.pt")["bias"]) is torch.Tensor


def test_indices_and_masks():
    with FakeTensorMode():
        x = torch.ones(2, 3)
        assert x[torch.tensor([0, 1, 1])].shape == (3, 3) and x[..., None].shape == (2, 3, 1) and x[0, 1].shape == ()
        with pytest.raises(DynamicOutputShapeException):
            x[x > 0]


def test_indices_on_the_host_of_tensors_on_a_device():
    with FakeTensorMode():
        x, at = torch.ones(3, 4, device="cuda", requires_grad=True), torch.tensor([0, 1])
        for index, size in (((at,), (2, 4)), ((at, at), (2,)), ((slice(None), at), (3, 2)), ((at.cuda(), at), (2,))):
            y = x[index]
            assert y.shape == size and y.device.type == "cuda"
        y.sum().backward()
        assert x.grad.shape == x.shape and x.grad.device.type == "cuda"
        z = torch.empty(3, device="cuda").index_put_((at,), torch.tensor(1.))
        assert repr(z) == "FakeTensor(..., device='cuda:0', size=(3,))"
        with pytest.raises(RuntimeError, match="same device"):
            torch.empty(3)[at.cuda()]


def test_parts_of_one_memory_with_other_dtypes():
    mode, bytes_ = FakeTensorMode(), torch.zeros(7, dtype=torch.uint8)
    parts = bytes_[:4].view(torch.int32), bytes_[5:], bytes_
    fakes = [mode.from_tensor(x) for x in parts]
    assert [(x.dtype, x.shape, x.storage_offset()) for x in fakes] == [(x.dtype, x.shape, x.storage_offset()) for x in parts]


def test_fakes_have_the_state_of_their_tensors():
    mode, z, leaf = FakeTensorMode(), torch.zeros(3, dtype=torch.complex64), torch.ones(4, requires_grad=True)
    (leaf * leaf).sum().backward()
    result = leaf * 2
    given = (z, z.conj(), z.conj()[1:], torch._neg_view(z), z.conj().imag, leaf, result, result[1:], result[::2])
    for x in given:
        y = mode.from_tensor(x)
        assert (y.is_conj(), y.is_neg(), y.is_leaf, y.requires_grad) == (x.is_conj(), x.is_neg(), x.is_leaf, x.requires_grad)
        assert (y.dtype, y.shape, y.stride(), y.storage_offset()) == (x.dtype, x.shape, x.stride(), x.storage_offset())
    assert repr(mode.from_tensor(leaf).grad) == "FakeTensor(..., size=(4,))"


def test_numbers_that_lists_and_keywords_write_are_not_known():
    for write in (lambda n, x: torch._foreach_add_([n], [x]), lambda n, x: torch.add(x, 1, out=n)):
        with FakeTensorMode():
            n = torch.tensor(3.)
            write(n, torch.empty(()))
            with pytest.raises(DataDependentOutputException):
                n.item()


def test_sparse_fakes_have_no_items():
    with FakeTensorMode():
        x = torch.ones(3, 4).to_sparse()
    assert isinstance(x, FakeTensor) and x.layout == torch.sparse_coo and x.shape == (3, 4)
    assert x._indices().shape == (2, 0) and x._values().shape == (0,)


def test_graphs_of_fakes():
    mode = FakeTensorMode()
    with mode:
        module = make_fx(lambda x: (x + torch.zeros(3)).sum(0))(torch.ones(2, 3))
    assert lines(module)[0].startswith("zeros = torch.ops.aten.zeros.default([3]")
    assert torch.equal(module(torch.ones(2, 3)), torch.full((3,), 2.))
    with mode, pytest.raises(DataDependentOutputException):
        make_fx(lambda x: x.sum().item())(torch.ones(2))


# --- functionalize, and graphs of transforms ---

def test_graphs_of_functionalized_functions_write_inputs_only():
    def f(a):
        b = a + 1
        b.view(-1).add_(1)
        a.mul_(2)
        return b
    assert lines(make_fx(functionalize(f))(torch.ones(2, 2))) == [
        "add = torch.ops.aten.add.Tensor(a_1, 1)",
        "view = torch.ops.aten.view.default(add, [-1]);  add = None",
        "add_1 = torch.ops.aten.add.Tensor(view, 1);  view = None",
        "view_1 = torch.ops.aten.view.default(add_1, [2, 2]);  add_1 = None",
        "mul = torch.ops.aten.mul.Tensor(a_1, 2)",
        "copy_ = torch.ops.aten.copy_.default(a_1, mul);  a_1 = mul = copy_ = None",
        "return view_1"]


def test_functionalize_with_transforms_and_parameters():
    def f(a):
        b = a.clone()
        b.mul_(a)
        b[0] += 1
        return b.sum()
    x, model = torch.arange(3.), nn.Linear(3, 3)
    assert torch.equal(grad(functionalize(f))(x), 2 * x)
    assert torch.equal(functionalize(grad(lambda a: (a * a).sum()))(x), 2 * x)
    assert torch.equal(vmap(functionalize(f))(torch.ones(2, 3)), torch.tensor([4., 4.]))
    assert torch.equal(functionalize(vmap(lambda a: a.clone().add_(1)))(torch.ones(2, 3)), torch.full((2, 3), 2.))
    y = functionalize(lambda a: torch.relu_(model(a)).mul_(2))(x)
    y.sum().backward()
    want, = torch.autograd.grad((torch.relu(model(x)) * 2).sum(), model.bias)
    assert torch.equal(model.bias.grad, want)
    given = {"a": torch.zeros(2), "b": [torch.ones(2)]}
    functionalize(lambda tree: tree["a"].add_(tree["b"][0]))(given)
    assert given["a"].tolist() == [1, 1]


def test_what_functionalize_refuses():
    outside = torch.ones(2)
    with pytest.raises(RuntimeError, match="mutating a non-functional tensor with a functional tensor is not allowed"):
        functionalize(lambda a: outside.add_(a))(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"functionalize\(f, remove='mutations'\): received invalid argument for remove=all"):
        functionalize(len, remove="all")


def test_graphs_of_batches_and_derivatives():
    x = torch.arange(6.).view(2, 3)
    for f in (vmap(lambda a: a.sum() * 2), vmap(grad(lambda a: a.sin().sum()))):
        assert torch.equal(make_fx(f)(x)(x), f(x))
