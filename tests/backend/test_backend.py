"""The example of a device outside the library (examples/backend): `make test-backend`.

The device's memory cannot be read or written by the host, so these tests also show that the library
does not touch it."""
import ctypes
import io
import os
import re
import subprocess
import sys

import place_cases
import pytest

import cresset as torch
from cresset import nn

BACKEND = os.path.join(os.environ.get("CRESSET_BUILD", "build"), "examples", "libdemo.so")


@pytest.fixture(scope="module", autouse=True)
def demo():
    if not hasattr(torch, "demo"):
        torch.utils.load_backend(BACKEND)
    return torch.demo


# --- names ---

def test_the_device_has_a_name_a_module_and_methods():
    assert torch.utils.backend_registration._C._get_privateuse1_backend_name() == "demo"
    assert torch.device("privateuseone:1") == torch.device("demo:1")
    assert torch.demo.is_available() and torch.demo.device_count() == 2
    assert torch.demo.get_device_name(0) == "demo"
    x = torch.ones(3)
    y = x.demo()
    assert y.device == torch.device("demo", 0) and y.is_demo and not x.is_demo and not y.is_cpu
    assert y.demo() is y and y.get_device() == 0 and x.demo(1).device.index == 1
    assert nn.Linear(2, 2).demo().weight.is_demo
    assert repr(y) == "tensor([1., 1., 1.], device='demo:0')"


def test_a_name_is_given_once():
    torch.utils.rename_privateuse1_backend("demo")
    with pytest.raises(RuntimeError, match="has already been set! Current backend: demo"):
        torch.utils.rename_privateuse1_backend("other")


def test_a_second_module_or_method_is_refused():
    with pytest.raises(RuntimeError, match="The runtime module of 'demo' has already been registered"):
        torch._register_device_module("demo", torch.demo)
    with pytest.raises(RuntimeError, match="Can not automatically generate is_demo"):
        torch.utils.generate_methods_for_privateuse1_backend()


def test_the_current_device():
    assert torch.demo.current_device() == 0
    with torch.demo.device(1):
        assert torch.demo.current_device() == 1
        assert torch.zeros(2, device="demo").device == torch.device("demo:1")
    assert torch.zeros(2, device="demo").device == torch.device("demo:0")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(2, device="demo:2")
    with torch.device("demo:1"):
        assert torch.rand(2).device == torch.device("demo:1")


def test_a_number_is_a_device_of_the_backend():
    assert torch.device(1) == torch.device("demo:1") and torch.ones(2).to(1).device == torch.ones(2, device=1).device
    assert torch.nn.Linear(2, 2).to(1).weight.device == torch.device("demo:1")


# --- mistakes ---

@pytest.mark.parametrize("call", [lambda a, b: a + b, lambda a, b: torch.mm(a, b),
                                  lambda a, b: torch.cat([a, b]), lambda a, b: torch.where(a > 0, a, b),
                                  lambda a, b: a.add_(b), lambda a, b: torch.nn.functional.linear(a, b)])
def test_tensors_of_several_devices_are_refused(call):
    here, there = torch.ones(3, 3), torch.ones(3, 3, device="demo")
    text = "Expected all tensors to be on the same device, but found at least two devices, %s and %s!"
    for a, b in ((here, there), (there, here), (there, there.to("demo:1"))):
        with pytest.raises(RuntimeError, match=text % (a.device, b.device)):
            call(a, b)


def test_numbers_of_the_host_go_with_every_device():
    x = torch.arange(3.0, device="demo")
    assert ((x + torch.tensor(2.0)) * torch.tensor(3)).tolist() == [6.0, 9.0, 12.0]
    assert (torch.tensor(2.0) - x).device == x.device


def test_the_host_is_given_no_view_of_the_memory():
    x = torch.ones(3, device="demo")
    with pytest.raises(TypeError, match="can't convert demo(:0)? device type tensor to numpy"):
        x.numpy()
    with pytest.raises(BufferError):
        memoryview(x.untyped_storage())
    with pytest.raises(BufferError):
        x.__dlpack__()


def test_generators_serve_one_kind_of_device():
    g = torch.Generator("demo:1")
    assert g.device == torch.device("demo:1") and torch.Generator().device == torch.device("cpu")
    g.manual_seed(4)
    x = torch.rand(5, device="demo:1", generator=g)
    assert torch.equal(x.cpu(), torch.rand(5, generator=torch.Generator().manual_seed(4)))
    with pytest.raises(RuntimeError, match="Expected a 'demo' device type for generator but found 'cpu'"):
        torch.rand(5, device="demo", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'demo'"):
        torch.randn(5, generator=g)


# --- moving elements ---

@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16,
                                   torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_copies_between_places_layouts_and_dtypes(dtype):
    x = torch.arange(24).reshape(2, 3, 4).to(dtype)
    for turn in (lambda t: t, lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2], lambda t: t[:, :1].expand(2, 3, 4)):
        there = turn(x.demo())
        assert torch.equal(there.cpu(), turn(x)) and torch.equal(turn(x).demo().cpu(), turn(x))
        assert torch.equal(there.to("demo:1").cpu(), turn(x))
        assert torch.equal(there.to(torch.float64).cpu(), turn(x).to(torch.float64))
    to = torch.zeros(4, 3, 2, device="demo", dtype=torch.float32)
    to.permute(2, 1, 0).copy_(x.float() if not dtype.is_complex else x.real.float())
    assert torch.equal(to.permute(2, 1, 0).cpu(), x.real.float() if dtype.is_complex else x.float())


def test_views_writes_and_overlap():
    x, y = torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4).demo()
    for t in (x, y):
        t[1:, ::2] = -1
        t[0].fill_(7)
        t.t()[3].mul_(2)
        t[:, 1:].copy_(t[:, :-1].clone())
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            t.view(-1)[1:].copy_(t.view(-1)[:-1])
        t[torch.tensor([True, False, True], device=t.device)] = 3
        t.resize_(2, 2)
    assert torch.equal(y.cpu(), x)


def test_values_reach_python():
    x = torch.tensor([[1.5, 2.0], [3.0, 4.0]], device="demo")
    assert x.tolist() == [[1.5, 2.0], [3.0, 4.0]] and x[0, 0].item() == 1.5 and bool(x[1, 1] > 3)
    assert f"{x[0, 0]:.2f}" == "1.50" and int(x.sum()) == 10 and torch.equal(x, x.clone())
    assert x.nonzero().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]] and x[x > 1.7].tolist() == [2, 3, 4]


def test_streams_and_events():
    s = torch.demo.Stream()
    with s:
        x = torch.ones(1000, device="demo") * 2
        e = s.record_event()
    e.wait()
    e.synchronize()
    assert e.query() and x.sum().item() == 2000
    torch.demo.synchronize()


# --- training ---

OPTIMIZERS = [lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.Adam(p, 0.01),
              lambda p: torch.optim.AdamW(p, 0.01), lambda p: torch.optim.RMSprop(p, 0.01),
              lambda p: torch.optim.Adagrad(p, 0.01), lambda p: torch.optim.Adadelta(p),
              lambda p: torch.optim.Adamax(p), lambda p: torch.optim.NAdam(p),
              lambda p: torch.optim.RAdam(p), lambda p: torch.optim.ASGD(p), lambda p: torch.optim.Rprop(p)]


def trained(device, make, steps=3):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4))
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    model, x, y = model.to(device), x.to(device), y.to(device)
    optimizer = make(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_training_has_the_hosts_bits(make):
    host, there = trained("cpu", make)[0], trained("demo", make)[0]
    for a, b in zip(host.parameters(), there.parameters()):
        assert b.is_demo and b.grad.is_demo
        assert torch.equal(a, b.cpu()) and torch.equal(a.grad, b.grad.cpu())


def test_checkpoints():
    model, optimizer = trained("demo", OPTIMIZERS[1])
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for where, index in ((None, 0), ("cpu", None), ("demo:1", 1), ({"demo:0": "demo:1"}, 1)):
        file.seek(0)
        state = torch.load(file, map_location=where)
        weight = state["model"]["0.weight"]
        assert weight.device.index == index
        assert torch.equal(weight.cpu(), model[0].weight.cpu())
    fresh, again = trained("demo", OPTIMIZERS[1], steps=0)
    file.seek(0)
    state = torch.load(file)
    fresh.load_state_dict(state["model"])
    again.load_state_dict(state["optimizer"])
    assert torch.equal(fresh[4].bias.cpu(), model[4].bias.cpu())


def test_safetensors_files(tmp_path):
    model, _ = trained("demo", OPTIMIZERS[1], steps=1)
    torch.safetensors.save_file(model.state_dict(), str(tmp_path / "m"))
    state = torch.safetensors.load_file(str(tmp_path / "m"), device="demo")
    assert state["0.weight"].is_demo and torch.equal(state["0.weight"].cpu(), model[0].weight.cpu())


# --- work of the host ---

def run(code, **env):
    return subprocess.run([sys.executable, "-c", f"import cresset as torch\n{code}"], capture_output=True, text=True,
                          env={**os.environ, **env})


def test_the_hosts_help_is_logged_once_an_operator():
    r = run(f"torch.utils.load_backend({BACKEND!r})\n"
            "x = torch.ones(3, device='demo')\n"
            "for _ in range(3): x.sort(); x + x; x.softmax(0); x.flip(0)\n"
            "torch.demo.synchronize()", CR_LOG="backend")
    assert r.returncode == 0, r.stderr
    assert r.stderr.count("sort has no kernel for demo and is computed on the host") == 1
    assert r.stderr.count("[backend]") == 1


def test_in_place_forms_of_functions_that_read_elements():
    x = torch.tensor([float("nan"), 1.0, float("inf")])
    y = x.to("demo")
    assert y.nan_to_num_(nan=2.0, posinf=3.0) is y
    assert y.tolist() == x.nan_to_num(nan=2.0, posinf=3.0).tolist() == [2.0, 1.0, 3.0]


def test_without_the_hosts_help_an_operator_is_refused():
    r = run(f"torch.utils.load_backend({BACKEND!r})\n"
            "torch._C._backend_fallback(False)\n"
            "x = torch.arange(3.0).demo(); print((x + x).tolist(), x.flip(0).tolist())\nx.sort()")
    assert "[0.0, 2.0, 4.0] [2.0, 1.0, 0.0]" in r.stdout
    assert "NotImplementedError: Could not run 'aten::sort' with arguments from the 'PrivateUse1' backend" in r.stderr


def test_reading_device_memory_on_the_host_stops_the_process():
    r = run(f"torch.utils.load_backend({BACKEND!r})\nimport ctypes\n"
            "ctypes.string_at(torch.ones(3, device='demo').data_ptr(), 4)")
    assert r.returncode < 0


def test_files_that_are_no_backends_are_refused(tmp_path):
    path = tmp_path / "none.so"
    path.write_bytes(b"no object")
    r = run(f"torch.utils.load_backend({str(path)!r})")
    assert "RuntimeError" in r.stderr and r.returncode == 1


# --- compiled programs ---

def block(x, w, b):
    y = nn.functional.gelu(nn.functional.layer_norm(x @ w, (16,)) + b)
    return torch.softmax(y, -1).sum(0), (y * 2 - 1).tanh()


def test_compiled_programs_have_the_hosts_bits():
    torch.manual_seed(1)
    given = [torch.randn(8, 16), torch.randn(16, 16), torch.randn(16)]
    results = []
    for device in ("cpu", "demo", "demo:1"):
        compiled = torch.compile(block)
        leaves = [t.clone().to(device).requires_grad_() for t in given]
        for _ in range(3):
            outs = compiled(*leaves)
            grads = torch.autograd.grad(outs, leaves, [torch.ones_like(o) for o in outs])
        assert all(t.device == leaves[0].device for t in (*outs, *grads))
        results.append([t.detach().cpu() for t in (*outs, *grads)])
        assert all(torch.equal(a, b) for a, b in zip(results[-1], (o.cpu() for o in block(*leaves))))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


def test_gradients_of_views_by_strides():
    given, results = torch.arange(12.0), []
    for device in ("cpu", "demo"):
        x = given.to(device).requires_grad_()
        y = x.as_strided((4, 3), (2, 1), 1) * 2
        z = x.expand(3, 12).as_strided((3, 2), (0, 5))
        results.append(torch.autograd.grad([y, z], x, [torch.ones_like(y), torch.ones_like(z)])[0].cpu())
    assert torch.equal(*results)


def test_a_compiled_training_step():
    torch.manual_seed(2)
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    trained_weights = []
    for device in ("cpu", "demo"):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)

        @torch.compile
        def step(a, b):
            loss = nn.functional.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        for _ in range(4):
            step(x.to(device), y.to(device))
        trained_weights.append([p.detach().cpu() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*trained_weights))


GROUPS = [
    lambda x, y, v: (x * 2 + y).tanh() - v,
    lambda x, y, v: torch.softmax(x * 2, -1) * y,
    lambda x, y, v: ((x - x.mean(-1, keepdim=True)) * v).sum(-1),
    lambda x, y, v: (x.bfloat16() * 2 + v.bfloat16()).float() + y,
    lambda x, y, v: (x > y).float() * v + x.double().sin().float(),
    lambda x, y, v: (x.transpose(0, 1).contiguous() + y.transpose(0, 1)) * 3,
    lambda x, y, v: (x[:, :, ::2] * 2 + y[:, :, 1::2]).exp(),
    lambda x, y, v: (x.sum(-1, keepdim=True) + y).relu(),
    lambda x, y, v: torch.cat([x * 2, x + 1], -1),
    lambda x, y, v: sum(part.tanh() for part in (x * y).chunk(2, -1)),
    lambda x, y, v: (x.half() + 1, (x.long() + 3) * 2),
]


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_fused_kernels_have_the_hosts_bits(number):
    torch.manual_seed(number)
    given = [torch.randn(3, 5, 16), torch.randn(5, 3, 16).transpose(0, 1), torch.randn(16)]
    there = [t.demo() for t in given]
    recorder = torch._C.Recorder(parts=True)
    for t in there:
        recorder.input(t)
    recorder.start()
    recorded = GROUPS[number](*there)
    recorder.stop()
    recorded = list(recorded) if isinstance(recorded, tuple) else [recorded]
    program = recorder.finish(recorded).compile()
    assert "= group {" in str(program)
    wants = GROUPS[number](*given)
    for out, want in zip(program.run(there), wants if isinstance(wants, tuple) else [wants]):
        assert out.is_demo and out.dtype == want.dtype and torch.equal(out.cpu(), want)


def launches():
    count = ctypes.CDLL(BACKEND).demo_launches
    count.restype = ctypes.c_uint64
    torch.demo.synchronize()
    return count()


ROWS = [
    (1, lambda x, y: (x * 2 + y).tanh() - y),
    (1, lambda x, y: torch.softmax(x * 2, -1) * y),
    (1, lambda x, y: ((x - x.mean(-1, keepdim=True)) * y).sum(-1)),
    (2, lambda x, y: (x + y, (x[0] * 2).exp())),  # two groups: no row of one is a row of the other
]


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_compile_runs_a_group_as_one_launch(number):
    groups, f = ROWS[number]
    torch.manual_seed(number)
    given = [torch.randn(5, 300), torch.randn(5, 300)]
    there = [t.demo() for t in given]
    compiled, before = torch.compile(f), launches()
    f(*there)
    eager = launches() - before
    for _ in range(2):  # the first call is deferred, the second one is recorded
        compiled(*there)
    before = launches()
    out = compiled(*there)
    assert launches() - before == groups < eager
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (out, f(*given)))):
        assert a.is_demo and torch.equal(a.cpu(), b)


def test_the_kernel_of_a_group_comes_with_its_program():
    x = torch.randn(5, 300).demo()
    compiled = torch.compile(lambda x: torch.softmax(x * 3, -1).log1p())
    for _ in range(3):  # the first call is deferred, the second one runs one operator after the other
        compiled(x)
    program = ctypes.CDLL(BACKEND).demo_program
    program.restype = ctypes.c_char_p
    text = program().decode()
    assert re.search(r"maximum\[\w+<\w+\]\(", text) and "add[" in text and "log1p(" in text and "exp(" in text


# --- indices ---

def test_indices_of_the_host_go_with_every_device():
    rows, columns, mask = torch.tensor([2, 0]), torch.tensor([1, 3]), torch.tensor([True, False, True])
    here = torch.arange(12.0).reshape(3, 4)
    for index in (rows, mask, (rows, columns), (slice(None), columns), (slice(None), columns, None)):
        x, y = here.clone(), here.demo()
        assert y[index].is_demo and torch.equal(y[index].cpu(), x[index])
        x[index] = y[index] = -1
        x[index] += 2
        y[index] += 2
        assert torch.equal(x, y.cpu())
    y = here.demo().requires_grad_()
    y[rows].sum().backward()
    assert y.grad.is_demo and y.grad.tolist() == [[1.0] * 4, [0.0] * 4, [1.0] * 4]
    assert torch.equal(here.demo()[rows.demo(), columns].cpu(), here[rows, columns])


def test_indices_of_another_device_are_refused():
    x, rows = torch.ones(3), torch.tensor([0])
    for t, i in ((x, rows.demo()), (x.demo(), rows.to("demo:1"))):
        text = f"indices should be either on cpu or on the same device as the indexed tensor \\({t.device}\\)"
        with pytest.raises(RuntimeError, match=text):
            t[i]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.tensor(5.0).index_put_((torch.tensor(True),), torch.ones(1).demo())


def test_a_compiled_composition_with_indices():
    x = torch.arange(4.0).demo()
    compiled = torch.compile(lambda t: torch.combinations(t, 2))
    for _ in range(2):
        assert torch.equal(compiled(x).cpu(), torch.combinations(x.cpu(), 2))


# --- the accelerator ---

def test_the_accelerator_is_the_device():
    a = torch.accelerator
    assert a.is_available() and a.device_count() == 2
    assert a.current_accelerator() == torch.device("demo") and a.current_device_index() == 0
    with a.device_index(1):
        assert a.current_device_index() == 1 and torch.ones(1, device="demo").device.index == 1
    a.set_device_index("demo:1")
    assert torch.demo.current_device() == 1
    a.set_device_index(0)
    with pytest.raises(ValueError, match="cpu doesn't match the current accelerator demo"):
        a.set_device_index("cpu")


def test_streams_of_the_accelerator():
    a = torch.accelerator
    default, other = a.current_stream(), torch.demo.Stream()
    with other:
        assert a.current_stream() == other != default
        x = torch.ones(1000, device="demo").cumsum(0)
    assert a.current_stream("demo:0") == default
    a.set_stream(other)
    assert a.current_stream() == other
    a.set_stream(torch.demo.Stream())
    assert a.current_stream() != torch.demo.Stream() and a.current_stream() != default
    a.set_stream(default)
    a.synchronize()
    assert x[-1].item() == 1000.0


# --- elements at computed places ---

@pytest.fixture
def no_fallback():
    torch._C._backend_fallback(False)
    yield
    torch._C._backend_fallback(True)


@pytest.mark.parametrize("name", place_cases.WRITES)
def test_writes_that_combine_elements(name, no_fallback):
    here = place_cases.writes("float32")
    there, f = [x.demo() for x in here], place_cases.WRITES[name]
    assert place_cases.equal(f(*there), f(*here))


@pytest.mark.parametrize("name", place_cases.WINDOWS)
def test_windows(name, no_fallback):
    x, f = place_cases.images("float32"), place_cases.WINDOWS[name]
    assert place_cases.equal(f(x.demo()), f(x))


def test_an_index_out_of_range_is_raised_by_the_next_wait():
    x, i = torch.ones(3, 2).demo(), torch.tensor([0, 7]).demo()
    for f, text in ((lambda: x.index_select(0, i), "index out of range in self"),
                    (lambda: x.index_add(0, i, x[:2]), "index 7 is out of bounds for dimension 0 with size 3")):
        f()
        with pytest.raises(RuntimeError, match=text):
            torch.demo.synchronize()
        torch.demo.synchronize()
