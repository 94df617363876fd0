"""torch.onnx.export: files are read and run by onnx_reader, and compared with the module."""
import io
import os

import cresset as torch
import numpy
import onnx_reader
import pytest
from cresset import nn
from cresset.export import Dim
from cresset.nn import functional as F

BATCH = Dim("batch", min=2, max=64)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def module_of(f):
    return f if isinstance(f, nn.Module) else Function(f)


def model_of(program, **options):
    file = io.BytesIO()
    program.save(file, **options)
    return onnx_reader.Model(file.getvalue())


def results(x):
    return [x] if isinstance(x, torch.Tensor) else [r for y in x for r in results(y)]


def compare(model, module, args, tolerance=2e-5):
    with torch.no_grad():
        expected = results(module(*args))
    got = model.run(*(x.numpy() for x in args))
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        b = b.numpy()
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check(f, *args, varies=True, tolerance=2e-5, opset=None):
    """The file of f for args; with `varies`, the first dim of each argument may have other sizes."""
    module = module_of(f).eval()
    shapes = None
    if varies:
        shapes = (tuple({0: BATCH} for _ in args),) if isinstance(module, Function) else tuple({0: BATCH} for _ in args)
    program = torch.onnx.export(module, args, dynamic_shapes=shapes, opset_version=opset)
    model = model_of(program)
    compare(model, module, args, tolerance)
    if varies:
        for n in (2, 7):
            compare(model, module, [torch.cat([x] * 4)[:n].contiguous() for x in args], tolerance)
    return model


def R(*sizes):
    torch.manual_seed(len(sizes))
    return torch.randn(*sizes)


X = R(3, 4, 6)

# --- entries by their loops ---

UNARY = """abs ceil floor round trunc neg exp exp2 expm1 sqrt rsqrt sin cos tan sinh cosh tanh asinh sigmoid erf erfc square sign sgn frac
    reciprocal relu isnan isinf isfinite logical_not atan deg2rad rad2deg sinc positive log_sigmoid""".split()


@pytest.mark.parametrize("name", [n for n in UNARY if hasattr(torch, n)])
def test_functions_of_elements(name):
    function = getattr(torch, name)
    check(lambda x: function(x), X.abs() + 0.5 if name in ("sqrt", "rsqrt") else X)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p", "lgamma", "acosh"])
def test_functions_of_positive_elements(name):
    function, x = getattr(torch, name), X.abs() + 1.5
    if name == "lgamma":
        with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="aten::lgamma.*ONNX has no lgamma of float32"):
            torch.onnx.export(Function(function), (x,))
        return
    check(lambda x: function(x), x)


@pytest.mark.parametrize("name", """relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardswish hardsigmoid leaky_relu
    logsigmoid hardshrink softshrink threshold""".split())
def test_activations(name):
    function = getattr(F, name)
    check(lambda x: function(x, 0.1, 20.0) if name == "threshold" else function(x), X)


BINARY = """add sub mul div maximum minimum remainder fmod floor_divide eq ne lt le gt ge logical_and logical_or logical_xor""".split()


@pytest.mark.parametrize("name, dtype", [*((n, torch.float32) for n in [*BINARY, "hypot", "logaddexp", "fmax", "fmin"]),
                                         *((n, torch.int64) for n in BINARY)])
def test_functions_of_two_tensors(name, dtype):
    a, b = (R(3, 1, 6) * 9).to(dtype), (R(3, 5, 1) * 9).to(dtype)
    b = torch.where(b == 0, 3, b)
    function = getattr(torch, name)
    check(lambda x, y: function(x, y), a, b)


@pytest.mark.parametrize("f", [
    lambda x: x + 1, lambda x: 2 - x, lambda x: x ** 2, lambda x: x * 3.5 // 1.5, lambda x: torch.clamp(x, -0.5, 0.5), lambda x: torch.clamp(x, min=0.1),
    lambda x: torch.where(x > 0, x, x * 0.1), lambda x: torch.where(x > 0, 1.0, x), lambda x: x.masked_fill(x < 0, -7), lambda x: (x * 3).to(torch.int32) + 1,
    lambda x: (x > 0) & (x < 1) | ~(x > -1), lambda x: x.double() * 2, lambda x: torch.add(x, x, alpha=3), lambda x: torch.lerp(x, x * 2, 0.3),
    lambda x: torch.addcmul(x, x, x, value=0.5), lambda x: x.bool(), lambda x: (x * 4).long() & 3, lambda x: torch.nan_to_num(x / (x > 0))])
def test_expressions(f):
    check(f, X)


@pytest.mark.parametrize("f", [
    lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum((0, -1), keepdim=True), lambda x: x.mean(1), lambda x: x.mean(), lambda x: x.prod(2), lambda x: x.amax(0),
    lambda x: x.amin((1, 2)), lambda x: x.max(1), lambda x: x.min(-1, keepdim=True)[1], lambda x: x.argmax(2), lambda x: x.argmin(), lambda x: x.max(),
    lambda x: (x > 0).any(1), lambda x: (x > 0).all(), lambda x: x.var(1), lambda x: x.std(0, correction=0), lambda x: torch.logsumexp(x, 2), lambda x: x.cumsum(1),
    lambda x: (x > 0).sum(1), lambda x: x.norm(dim=1), lambda x: F.normalize(x, dim=-1), lambda x: x.softmax(1), lambda x: F.log_softmax(x, 0),
    lambda x: torch.count_nonzero(x > 0, 1), lambda x: torch.var_mean(x, (0, 2)), lambda x: x.abs().sum(-1).sqrt()])
def test_reductions_and_rows(f):
    check(f, X)


# --- views and copies ---

@pytest.mark.parametrize("f", [
    lambda x: x.view(x.shape[0], -1), lambda x: x.view(-1, 2, 3), lambda x: x.reshape(x.shape[0] * 4, 6), lambda x: x.reshape(-1), lambda x: x.flatten(1),
    lambda x: x.flatten(), lambda x: x.unflatten(2, (2, 3)), lambda x: x.permute(2, 0, 1), lambda x: x.transpose(1, -1), lambda x: x.mT, lambda x: x.movedim(0, 2),
    lambda x: x.unsqueeze(1).squeeze(1), lambda x: x[:, None, :, None], lambda x: x[:, :1].expand(-1, 5, -1), lambda x: x.expand(2, *x.shape), lambda x: x[:, 1],
    lambda x: x[-1], lambda x: x[1:], lambda x: x[:, ::2, -3:], lambda x: x[..., :-1], lambda x: x.narrow(1, 1, 2), lambda x: x.narrow(2, -3, 2),
    lambda x: torch.cat([x, x * 2], 0), lambda x: torch.cat([x, x[:, :2]], 1), lambda x: torch.stack([x, -x], 1), lambda x: x.chunk(2, 2), lambda x: x.split([1, 3], 1),
    lambda x: x.unbind(1), lambda x: torch.tensor_split(x, 4, 2), lambda x: x.repeat(2, 1, 3), lambda x: x.repeat(2, 1, 1, 1), lambda x: x.flip(1), lambda x: x.flip(0, 2),
    lambda x: x.roll(2, 1), lambda x: x.roll((1, -2), (0, 2)), lambda x: x.roll(1), lambda x: x.repeat_interleave(3, 1), lambda x: x.tril(), lambda x: x.triu(1),
    lambda x: x.contiguous().clone(), lambda x: torch.zeros_like(x) + x.new_ones(x.shape[0], 1, 1), lambda x: x + torch.arange(6), lambda x: torch.arange(x.shape[0]),
    lambda x: torch.full((x.shape[0], 2), 3), lambda x: torch.full((x.shape[0], 2), 2 ** 60 + 1), lambda x: torch.full((2,), True), lambda x: torch.eye(3), lambda x: torch.linspace(0, 1, 5) + x[0, 0, 0], lambda x: F.pad(x, (1, 2)),
    lambda x: F.pad(x, (1, 0, 2, 1), value=3.0), lambda x: F.pad(x, (-1, 1)), lambda x: F.pad(x, (2, 1), mode="reflect"), lambda x: F.pad(x, (2, 1), mode="replicate"),
    lambda x: x.view(x.shape[0], 2, 2, 6).transpose(1, 2).reshape(x.shape[0], -1), lambda x: x * x.shape[0], lambda x: x.sum() / x.numel(),
    lambda x: x[:, : x.shape[0] // 2 + 1] if x.shape[1] > 64 else x])
def test_layouts(f):
    check(f, X)


@pytest.mark.parametrize("f", [
    lambda x, i: x.gather(2, i), lambda x, i: x.index_select(1, i[0, 0]), lambda x, i: x[:, i[0, 0]], lambda x, i: x[i[:, 0, 0]], lambda x, i: x[i[:, 0], i[:, 1]],
    lambda x, i: x.scatter(2, i, x), lambda x, i: x.scatter(1, i, 5.0), lambda x, i: x.scatter_add(2, i, x), lambda x, i: torch.take_along_dim(x, i, 2),
    lambda x, i: F.one_hot(i, 3), lambda x, i: x.topk(2, 1), lambda x, i: x.sort(2), lambda x, i: x.argsort(1, descending=True), lambda x, i: F.embedding(i, x[0])])
def test_elements_by_index(f):
    check(f, X, torch.arange(3 * 4 * 6).view(3, 4, 6) * 7 % 2)


def _relu_in_place(x):
    y = x * 2
    y.relu_()
    y[:, 1] = 5.0
    y[:, 2:] += 1
    z = y.view(y.shape[0], -1)
    z.mul_(3)
    return y, z


def test_writes_are_values():
    check(_relu_in_place, X)


def test_one_graph_for_equal_calls():
    model = check(lambda x: (x.sigmoid() * 2) + (x.sigmoid() * 2), X)
    assert [n.op for n in model.nodes] == ["Sigmoid", "Mul", "Add", "Identity"]


# --- layers ---

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.b = nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, groups=4, dilation=1, padding=(1, 0)), nn.GroupNorm(2, 8), nn.GELU(), nn.AvgPool2d(2, 1))
        self.c = nn.Linear(8, 5)
        with torch.no_grad():
            self.a[1].running_mean.copy_(R(8))
            self.a[1].running_var.copy_(R(8).abs() + 0.5)

    def forward(self, x):
        return self.c(self.b(self.a(x)).mean((2, 3)))


def _seeded(make):
    torch.manual_seed(3)
    return make()


@pytest.mark.parametrize("make, sizes", [
    (lambda: nn.Linear(6, 5), (3, 4, 6)), (lambda: nn.Linear(6, 5, bias=False), (3, 6)), (lambda: nn.Linear(6, 5), (3, 6)), (lambda: nn.LayerNorm(6), (3, 4, 6)),
    (lambda: nn.LayerNorm((4, 6), elementwise_affine=False), (3, 4, 6)), (lambda: nn.RMSNorm(6), (3, 4, 6)), (lambda: nn.GroupNorm(2, 4), (3, 4, 6)),
    (lambda: nn.InstanceNorm1d(4), (3, 4, 6)), (lambda: nn.BatchNorm1d(4), (3, 4, 6)), (lambda: nn.BatchNorm1d(4, affine=False), (3, 4)),
    (lambda: nn.Conv1d(4, 6, 3, padding="same"), (3, 4, 6)), (lambda: nn.Conv1d(4, 6, 2, stride=2), (3, 4, 6)), (lambda: nn.Conv2d(4, 6, (3, 2), padding=1), (3, 4, 6, 5)),
    (lambda: nn.Conv3d(2, 3, 2), (3, 2, 4, 3, 5)), (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (3, 4, 5, 6)),
    (lambda: nn.ConvTranspose1d(4, 2, 3), (3, 4, 6)), (lambda: nn.MaxPool2d(3, 2, 1), (3, 2, 7, 8)), (lambda: nn.MaxPool2d(2, ceil_mode=True), (3, 2, 7, 5)), (lambda: nn.MaxPool2d(3, 3, 1, ceil_mode=True), (3, 2, 9, 11)),
    (lambda: nn.AvgPool2d(3, 3, 1, ceil_mode=True), (3, 2, 11, 11)), (lambda: nn.AvgPool2d(3, 2, 0, ceil_mode=True, count_include_pad=False), (3, 2, 8, 11)),
    (lambda: nn.MaxPool1d(2), (3, 4, 6)), (lambda: nn.AvgPool2d(3, 2, 1), (3, 2, 7, 8)), (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (3, 2, 7, 8)),
    (lambda: nn.AdaptiveAvgPool2d(1), (3, 4, 5, 6)), (lambda: nn.AdaptiveAvgPool2d((2, 4)), (3, 4, 5, 6)), (lambda: nn.AdaptiveAvgPool1d(4), (3, 4, 6)),
    (lambda: nn.Upsample(scale_factor=2), (3, 2, 3, 4)), (lambda: nn.Upsample(size=(5, 7), mode="bilinear"), (3, 2, 3, 4)),
    (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True), (3, 2, 4, 6)), (lambda: nn.Upsample(size=5, mode="nearest-exact"), (3, 2, 3)),
    (lambda: nn.PixelShuffle(2), (3, 8, 3, 2)), (lambda: nn.Softmax(1), (3, 4, 6)), (lambda: nn.PReLU(4), (3, 4, 6)), (lambda: nn.GLU(), (3, 4, 6)),
    (lambda: nn.ReflectionPad2d(1), (3, 2, 4, 5)), (lambda: nn.ChannelShuffle(2), (3, 4, 5, 5)), (lambda: nn.Dropout(0.5), (3, 4)), (Net, (3, 3, 10, 12))])
def test_layers(make, sizes):
    check(_seeded(make), R(*sizes), tolerance=1e-4)


@pytest.mark.parametrize("make", [
    lambda: nn.LSTM(6, 5, 2, batch_first=True), lambda: nn.LSTM(6, 5, bidirectional=True, batch_first=True, bias=False), lambda: nn.GRU(6, 5, batch_first=True),
    lambda: nn.GRU(6, 5, 2, bidirectional=True, batch_first=True), lambda: nn.RNN(6, 5, batch_first=True)])
def test_recurrent_layers(make):
    check(_seeded(make), R(3, 4, 6), tolerance=1e-4)


def test_the_last_states_of_a_recurrent_layer():
    module = _seeded(lambda: nn.LSTM(6, 5, 2, bidirectional=True))
    model = model_of(torch.onnx.export(module, (R(4, 3, 6),), dynamic_shapes={"input": {1: "batch"}}))
    assert model.inputs[0][2] == [4, "batch", 6] and sum(n.op == "LSTM" for n in model.nodes) == 4
    for n in (3, 2, 7):
        compare(model, module, (R(4, n, 6),), 1e-4)


@pytest.mark.parametrize("causal, masked", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention(causal, masked, heads):
    def f(q, k, v, *mask):
        return F.scaled_dot_product_attention(q, k, v, *mask, is_causal=causal, enable_gqa=heads == 2)
    q, k, v = R(3, 4, 5, 8), R(3, heads, 5, 8), R(3, heads, 5, 8) * 2
    mask = [(R(3, 1, 5, 5) > -1) | torch.eye(5, dtype=torch.bool)] if masked else []
    check(f, q, k, v, *mask)
    if masked:
        check(f, q, k, v, R(3, 1, 5, 5))


def test_a_transformer():
    module = _seeded(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False))
    model = check(module, R(3, 5, 8), tolerance=1e-4)
    assert set(model.weights) >= {name for name, _ in module.named_parameters()}


# --- files ---

def test_names_and_dims():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(R(4, 2))
            self.register_buffer("offset", R(2))
            self.register_buffer("unread", R(2))

        def forward(self, first, second):
            return first @ self.w + self.offset, torch.cat([first, second])
    module = M()
    program = torch.onnx.export(module, (R(3, 4), R(5, 4)), dynamic_shapes={"first": {0: "rows"}, "second": {0: Dim("more")}},
                                input_names=["a"], output_names=["product"], opset_version=18)
    model = model_of(program)
    assert (model.opset, model.ir_version, model.producer) == (18, 8, "cresset")
    assert model.inputs == [("a", "float32", ["rows", 4]), ("second", "float32", ["more", 4])]
    assert model.outputs == [("product", "float32", ["rows", 2]), (program.output_names[1], "float32", [None, 4])]
    assert {"w", "offset"} <= model.weights.keys() and "unread" not in model.weights
    numpy.testing.assert_array_equal(model.weights["w"], module.w.detach().numpy())
    compare(model, module, (R(2, 4), R(9, 4)))
    assert all(f"{os.path.basename(__file__)}:" in n.doc for n in model.nodes if n.op != "Identity")
    program.rename_axes({"rows": "n"})
    assert model_of(program).inputs[0][2] == ["n", 4]
    assert repr(program) == f"ONNXProgram(inputs=['a', 'second'], outputs={program.output_names}, opset_version=18)"


def test_dynamic_axes():
    with pytest.warns(UserWarning, match="dynamic_axes"):
        program = torch.onnx.export(Function(lambda x, y: x + y.sum()), (R(3, 4), R(2, 2)), input_names=["x", "y"], output_names=["z"],
                                    dynamic_axes={"x": {0: "batch"}, "y": [0, 1], "z": {0: "batch"}})
    model = model_of(program)
    assert [dims for _, _, dims in model.inputs] == [["batch", 4], ["y_dynamic_axes_1", "y_dynamic_axes_2"]] and model.outputs[0][2] == ["batch", 4]
    with pytest.raises(ValueError, match="'q' is no name of input_names or output_names"), pytest.warns(UserWarning):
        torch.onnx.export(nn.ReLU(), (R(3),), input_names=["x"], dynamic_axes={"q": [0]})


def test_files_with_weights_apart(tmp_path):
    module, x = _seeded(lambda: nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 3))), R(2, 64)
    program = torch.onnx.export(module, (x,), tmp_path / "m.onnx")
    assert os.path.getsize(tmp_path / "m.onnx") < 3000 and os.path.getsize(tmp_path / "m.onnx.data") == 64 * 32 * 4
    model = onnx_reader.Model((tmp_path / "m.onnx").read_bytes(), tmp_path)
    compare(model, module, (x,))
    assert torch.onnx.export(module, (x,), tmp_path / "n.onnx", dynamo=False, input_names=["q"]) is None
    assert not (tmp_path / "n.onnx.data").exists()
    compare(onnx_reader.Model((tmp_path / "n.onnx").read_bytes()), module, (x,))
    program.save(tmp_path / "bare.onnx", include_initializers=False)
    fields = onnx_reader.fields
    graph = fields(onnx_reader.every(fields((tmp_path / "bare.onnx").read_bytes()), 7)[0])
    bare = [onnx_reader.port(p)[0] for p in onnx_reader.every(graph, 11)]
    assert bare == ["input", "0.weight", "0.bias", "1.weight", "1.bias"]
    both = model_of(program, keep_initializers_as_inputs=True)
    assert [name for name, *_ in both.inputs] == bare and set(bare[1:]) <= set(both.weights)
    with pytest.raises(TypeError, match="must be a path"):
        program.save(io.BytesIO(), external_data=True)


def test_other_weights():
    module, x = _seeded(lambda: nn.Linear(4, 3)), R(2, 4)
    program, other = torch.onnx.export(module, (x,)), nn.Linear(4, 3)
    program.apply_weights(other.state_dict())
    compare(model_of(program), other, (x,))
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="'q' not found"):
        program.apply_weights({"q": x})
    with pytest.raises(ValueError, match="Weight 'bias' has the size"):
        program.apply_weights({"bias": x})


def _session(model):
    """What onnxruntime's session does, by the reader."""
    read = onnx_reader.Model(model)
    return type("Session", (), {"run": lambda self, names, feed: read.run(*feed.values())})()


def test_calls_use_new_weights_and_the_order_of_export():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x, y, z):
            return x * self.w, y + 1, z + 2
    x, y, z = R(3), R(3), R(3)
    program = torch.onnx.export(M(), (x,), kwargs={"z": z, "y": y})
    expected = x, y + 1, z + 2
    for kwargs in ({"y": y, "z": z}, {"z": z, "y": y}):
        for args, more in (((x,), {}), ((), {"x": x})):
            program.initialize_inference_session(_session)
            assert all(torch.equal(a, b) for a, b in zip(program(*args, **more, **kwargs), expected))
    program.apply_weights({"w": torch.zeros(3)})
    assert program._session is None
    program.initialize_inference_session(_session)
    assert not program(x, y=y, z=z)[0].any()
    with pytest.raises(ValueError, match="keyword mismatch"):
        program(x, y=y)
    named = torch.onnx.export(nn.ReLU(), (R(3, 2),), dynamic_shapes=({0: "n"},))
    named.initialize_inference_session(_session)
    named.rename_axes({"n": "m"})
    assert named._session is None


class Three(nn.Module):
    def forward(self, x, y, z):
        return x * 2, y["b"] + 1, y["a"] + 2, z + 3


@pytest.mark.parametrize("shapes", [
    {"z": {0: "nz"}, "y": {"a": {0: "na"}, "b": {0: "nb"}}, "x": {0: "nx"}}, ({0: "nx"}, {"b": {0: "nb"}, "a": {0: "na"}}, ("nz", None)),
    (None, None, {0: "nz"}), (None, {"b": None, "a": {0: "na"}}, (Dim("nz"), None)), {"y": {"b": [Dim.AUTO, None], "a": {-2: "na"}}, "x": None, "z": None},
])
def test_names_follow_the_arguments(shapes):
    x, y, z = R(3, 2), {"b": R(4, 2), "a": R(5, 2)}, R(6, 2)
    program = torch.onnx.export(Three(), (x, y, z), dynamic_shapes=shapes)
    sizes = {3: "nx", 4: "nb", 5: "na", 6: "nz"}
    for (_, _, dims), n in zip(model_of(program).inputs, (3, 4, 5, 6)):
        said = sizes[n] in str(shapes)
        assert dims[0] == (sizes[n] if said else n) or n == 4 and "AUTO" in str(shapes)


def test_dims_may_exchange_their_names():
    program = torch.onnx.export(Function(lambda x, y: (x * 2, y + 1)), (R(3, 4), R(5, 4)), dynamic_shapes=(({0: "nx"}, {0: "ny"}),))
    program.rename_axes({"nx": "ny", "ny": "nx"})
    model = model_of(program)
    assert [dims[0] for _, _, dims in [*model.inputs, *model.outputs]] == ["ny", "nx"] * 2
    with pytest.raises(ValueError, match="two dims are called 'nx', but their sizes are"):
        program.rename_axes({"ny": "nx"})
    with pytest.raises(TypeError, match="the name of a dim is a str, not NoneType"):
        program.rename_axes({"nx": None})
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="Axis 'q' not found"):
        program.rename_axes({"q": "r"})
    assert [dims[0] for _, _, dims in model_of(program).inputs] == ["ny", "nx"]


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 3])
@pytest.mark.parametrize("where", ["input", "output", "dim", "axis"])
def test_names_that_a_file_cannot_have(where, name):
    options = {"input": {"input_names": [name]}, "output": {"output_names": [name]}, "dim": {"dynamic_shapes": ({0: name},)},
               "axis": {"input_names": ["x"], "dynamic_axes": {"x": {0: name}}, "dynamo": False, "f": io.BytesIO()}}[where]
    if where in ("dim", "axis") and name == 3:
        pytest.skip("a size, or its text")
    with pytest.raises(TypeError if name == 3 else ValueError, match="name of"):
        torch.onnx.export(nn.ReLU(), (R(3, 2),), **options)


def test_dims_and_places_that_are_none():
    with pytest.raises(ValueError, match="two dims are called 'n', but their sizes are 3 and 5"):
        torch.onnx.export(Function(lambda x, y: (x * 2, y + 1)), (R(3), R(5)), dynamic_shapes=(({0: "n"}, {0: "n"}),))
    for d in (9, -9):
        with pytest.raises(ValueError, match=f"'x' has 1 dims, and no dim {d}"), pytest.warns(UserWarning):
            torch.onnx.export(nn.ReLU(), (R(3),), input_names=["x"], dynamic_axes={"x": {d: "n"}})
    for opset in ("20", 20.0, True):
        with pytest.raises(ValueError, match=f"opset_version is 18 to 21, not {opset!r}"):
            torch.onnx.export(nn.ReLU(), (R(3),), opset_version=opset)
    with pytest.raises(TypeError, match="not int"):
        torch.onnx.export(nn.ReLU(), (R(3),)).save(5)


@pytest.mark.parametrize("f, name", [
    (lambda x: F.layer_norm(x, (3,), eps=1 / x.shape[0]), "eps"), (lambda x: F.group_norm(x.t()[None], 1, eps=1 / x.shape[0]), "eps"),
    (lambda x: F.interpolate(x.t()[None], scale_factor=12 / x.shape[0]), "scales"), (lambda x: F.layer_norm(x, (3,), eps=x.shape[0]), "eps"),
])
def test_numbers_that_depend_on_a_size_are_not_frozen(f, name):
    with pytest.raises(torch.onnx.OnnxExporterError, match=f"argument '{name}\\w*' depends on a size"):
        torch.onnx.export(Function(f), (R(6, 3),), dynamic_shapes=(({0: "n"},),))


def test_verify_leaves_the_module_as_it_was(monkeypatch):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.zeros(3))

        def forward(self, x):
            self.c.add_(1)
            return x + self.c
    monkeypatch.setattr(torch.onnx.ONNXProgram, "initialize_inference_session",
                        lambda self, initializer=None: setattr(self, "_session", _session(self.model_bytes())))
    module, x = Counts(), R(3)
    torch.onnx.export(module, (x,), verify=True)
    assert not module.c.any()
    norm = nn.BatchNorm1d(3)
    torch.onnx.export(norm, (R(4, 3),), verify=True)
    assert norm.num_batches_tracked == 0 and not norm.running_mean.any()
    with pytest.raises(TypeError, match="bfloat16, which NumPy"):
        torch.onnx.export(nn.ReLU(), (x.bfloat16(),), verify=True)


def test_exported_programs_and_callables():
    program = torch.export.export(nn.ReLU(), (R(3, 2),), dynamic_shapes=({0: Dim("n")},))
    model = model_of(torch.onnx.export(program))
    compare(model, nn.ReLU(), (R(7, 2),))
    compare(model_of(torch.onnx.export(lambda x, *, scale: x * scale, (R(3),), kwargs={"scale": 2.0})), Function(lambda x: x * 2), (R(3),))


def test_sizes_that_are_computed():
    model = check(lambda x: (torch.ones(x.shape[0] * 2 + 3), torch.zeros(x.shape[0] // 2, 4), torch.arange(x.shape[0] * x.shape[0])), X)
    assert [dims for _, _, dims in model.outputs] == [[None], [None, 4], [None]]


@pytest.mark.parametrize("opset", [18, 19, 20, 21])
def test_opsets(opset):
    assert check(_seeded(Net), R(3, 3, 10, 12), tolerance=1e-4, opset=opset).opset == opset


def test_refusals():
    with pytest.raises(ValueError, match="opset_version is 18 to 21, not 17"):
        torch.onnx.export(nn.ReLU(), (R(2),), opset_version=17)
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match=r"'aten::linalg_qr' .*test_onnx.py:\d+\)") as error:
        torch.onnx.export(Function(lambda x: torch.linalg.qr(x)[0]), (R(3, 3),))
    assert isinstance(error.value, torch.onnx.OnnxExporterError) and isinstance(error.value, RuntimeError)
    with pytest.raises(torch.onnx.OnnxExporterError, match="'aten::fft_fft'"):
        torch.onnx.export(Function(lambda x: torch.fft.fft(x).real), (R(4),))
    with pytest.raises(torch.onnx.OnnxExporterError, match="Expected at most 1 input names, but got 2"):
        torch.onnx.export(nn.ReLU(), (R(2),), input_names=["a", "b"])
    with pytest.raises(ValueError, match="two values are called 'x'"):
        torch.onnx.export(nn.ReLU(), (R(2),), input_names=["x"], output_names=["x"])
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="no form in ONNX with these arguments"):
        torch.onnx.export(nn.Upsample(size=3, mode="bicubic"), (R(1, 1, 4, 4),)), torch.onnx.export(
            Function(lambda x: F.interpolate(x, size=3, mode="bilinear", antialias=True)), (R(1, 1, 4, 4),))
    with pytest.raises(TypeError, match="not int"):
        torch.onnx.export(3, (R(2),))
    with pytest.raises(NotImplementedError, match="custom_translation_table"):
        torch.onnx.export(nn.ReLU(), (R(2),), custom_translation_table={1: 2})
    with pytest.raises(torch.onnx.OnnxExporterError, match="no tensor"):
        torch.onnx.export(Function(lambda x: (x, 3)), (R(2),))
