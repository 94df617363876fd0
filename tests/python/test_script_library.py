"""Operators that the table lacks, which programs have (src/script/library.def), lists in place, and out=.

The wanted values are written down, or computed by other operators."""
import copy
import io
import math
import zipfile

import pytest

import cresset as torch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

X = torch.tensor([[1., -2, 3], [4, 5, -6]])
I = torch.tensor([[1, 2, 3], [4, 5, 6]])
INF = math.inf


def compiled(call, **given):
    """The function of these parameters that returns the call."""
    kinds = {int: "int", float: "float", bool: "bool", list: "List[Tensor]"}
    params = ", ".join(f"{k}: {kinds.get(type(v), 'Tensor')}" for k, v in given.items())
    return torch.jit.CompilationUnit(f"def f({params}):\n    return {call}\n").f


def plain(x):
    if isinstance(x, torch.Tensor):
        return x.tolist()
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def near(got, want):
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(map(near, got, want))
    return got == want or isinstance(want, float) and abs(got - want) < 1e-5


MASK = torch.tensor([True, False])
CALLS = [
    ("_cast_Int(x)", {"x": torch.tensor([1.9, -1.9])}, [1, -1]),
    ("_cast_Double(x)", {"x": I}, [[1., 2, 3], [4, 5, 6]]),
    ("__iand__(x, 6)", {"x": I.clone()}, [[0, 2, 2], [4, 4, 6]]),
    ("__ior__(x, x)", {"x": I.clone()}, plain(I)),
    ("__ixor__(x, 1)", {"x": I.clone()}, [[0, 3, 2], [5, 4, 7]]),
    ("__ilshift__(x, 2)", {"x": I.clone()}, [[4, 8, 12], [16, 20, 24]]),
    ("__lshift__(x, 3)", {"x": I}, [[8, 16, 24], [32, 40, 48]]),
    ("__rshift__(x, 1)", {"x": I}, [[0, 1, 1], [2, 2, 3]]),
    ("__rshift__(x, 1)", {"x": X}, [[.5, -1, 1.5], [2, 2.5, -3]]),
    ("relu6_(x)", {"x": torch.tensor([-1., 3, 7])}, [0, 3, 6]),
    ("float_power_(x, 3)", {"x": torch.tensor([2.], dtype=torch.float64)}, [8]),
    ("float_power(2.0, x)", {"x": I}, [[2., 4, 8], [16, 32, 64]]),
    ("_add_relu(x, x, alpha=-2)", {"x": X}, [[0, 2, 0], [0, 0, 6]]),
    ("_adaptive_avg_pool2d(x, [1, 1])", {"x": X[None]}, [[[5 / 6]]]),
    ("_aminmax(x, 1)", {"x": X}, [[-2, -6], [3, 5]]),
    ("_euclidean_dist(x, x)", {"x": X}, [[0, math.sqrt(139)], [math.sqrt(139), 0]]),
    ("_shape_as_tensor(x)", {"x": X}, [2, 3]),
    ("_dim_arange(x, 1)", {"x": X}, [0, 1, 2]),
    ("_list_to_tensor([3, 4])", {}, [3, 4]),
    ("sym_size(x, 1)", {"x": X}, 3),
    ("sym_stride(x)", {"x": X}, [3, 1]),
    ("_unsafe_index(x, [i, None])", {"x": X, "i": torch.tensor([1])}, [[4, 5, -6]]),
    ("_unsafe_index(x, i)", {"x": X, "i": [torch.tensor([1, 0]), torch.tensor([0, 2])]}, [4, 3]),
    ("index(x, i)", {"x": X, "i": [torch.tensor([1, 0]), torch.tensor([0, 2])]}, [4, 3]),
    ("_unsafe_masked_index(x, m, [i, None], 9)", {"x": X, "m": MASK[:, None], "i": torch.tensor([1, 7])},
     [[4, 5, -6], [9, 9, 9]]),
    ("_unsafe_masked_index_put_accumulate(x, m, [i, None], v)",
     {"x": torch.ones(2, 1), "m": MASK[:, None], "i": torch.tensor([1, 5]), "v": torch.tensor([[3.], [4]])}, [[1], [4]]),
    ("_weight_norm(v, g)", {"v": torch.tensor([[3., 4], [0, 2]]), "g": torch.tensor([[10.], [3]])}, [[6, 8], [0, 3]]),
    ("_weight_norm_interface(v, g)", {"v": torch.tensor([[3., 4]]), "g": torch.tensor([[10.]])}, [[[6, 8]], [[5]]]),
    ("_native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 0.0)[0]",
     {"x": torch.tensor([[3., 9]]), "m": torch.tensor([1., 1]), "v": torch.tensor([4., 16])}, [[1, 2]]),
    ("_batch_norm_with_update(x, None, None, m, v, 0.5, 0.0)[1]",
     {"x": torch.tensor([[3.], [9]]), "m": torch.zeros(1), "v": torch.ones(1)}, [6]),
    ("_chunk_cat([x, y], 0, 2)", {"x": torch.arange(3.), "y": torch.arange(2.)}, [[0, 1, 0], [2, 0, 1]]),
    ("_fused_rms_norm(x, [2], None, 0.0)", {"x": torch.tensor([[1., 7]])}, [[[.2, 1.4]], [[.2]]]),
    ("broadcast_shapes([2, 1], [4])", {}, [2, 4]),
    ("result_type(x, 1.5)", {"x": I}, 6),
    ("result_type(1, 2.5)", {}, 6),
    ("promote_types(5, 15)", {}, 6),
    ("can_cast(6, 4)", {}, False),
    ("can_cast(4, 6)", {}, True),
    ("is_signed(x)", {"x": torch.ones(1, dtype=torch.uint8)}, False),
    ("is_conj(x)", {"x": torch.tensor([1j])}, False),
    ("_unique(x, True, True)", {"x": torch.tensor([3, 1, 3])}, [[1, 3], [1, 0, 1]]),
    ("rrelu_with_noise(x, n, 0.2, 0.4)", {"x": torch.tensor([-2., 2]), "n": torch.empty(2)}, [-.6, 2]),
    ("pad_sequence(x, True, 9.0)", {"x": [torch.arange(2.), torch.arange(3.)]}, [[0, 1, 9], [0, 1, 2]]),
    ("pad_sequence(x, False, 9.0, 'left')", {"x": [torch.arange(2.), torch.arange(3.)]}, [[9, 0], [0, 1], [1, 2]]),
    ("flatten_dense_tensors(x)", {"x": [torch.ones(1, 2), torch.zeros(1)]}, [1, 1, 0]),
    ("unflatten_dense_tensors(f, x)", {"f": torch.arange(3.), "x": [torch.ones(1, 2), torch.zeros(1)]}, [[[0, 1]], [2]]),
    ("_convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True)",
     {"x": X[None, None], "w": torch.full([1, 1, 1, 1], 2.)}, plain((X * 2)[None, None])),
    ("sparse_coo_tensor(i, x, [2, 3]).to_dense()", {"i": torch.tensor([[0, 1], [2, 0]]), "x": torch.tensor([3., 4])},
     [[0, 0, 3], [4, 0, 0]]),
    ("sparse_coo_tensor(i, x, dtype=4).to_dense()", {"i": torch.tensor([[0, 1]]), "x": torch.tensor([3., 4])}, [3, 4]),
    ("sparse_coo_tensor([2, 1], dtype=6).to_dense()", {}, [[0.], [0]]),
    ("sparse_csc_tensor(c, r, x, [2, 2]).to_dense()",
     {"c": torch.tensor([0, 1, 2]), "r": torch.tensor([1, 0]), "x": torch.tensor([3., 4])}, [[0, 4], [3, 0]]),
    ("sort(torch.ops.aten.as_tensor(x, dtype=4), -1, True)[0]", {"x": torch.tensor([1.5, 3.5])}, [3, 1]),
    ("thnn_conv2d(x, w, [1, 1])", {"x": X[None], "w": torch.full([1, 1, 1, 1], 2.)}, plain((X * 2)[None])),
    ("Complex(x, 2)", {"x": torch.tensor(1.5)}, 1.5 + 2j),
    ("copy_(x, 2.5)", {"x": torch.zeros(2)}, [2.5, 2.5]),
]


@pytest.mark.parametrize("call, given, want", CALLS, ids=[c for c, _, _ in CALLS])
def test_values(call, given, want):
    f = compiled("torch.ops.aten." + call, **given)
    for g in (f, torch.jit.load(io.BytesIO(f.save_to_buffer()))):
        assert near(plain(g(*copy.deepcopy(list(given.values())))), want)


def test_operators_are_saved_under_their_names():
    f = compiled("torch.ops.aten._weight_norm(v, g)", v=X, g=X)
    assert "torch._weight_norm(v, g)" in f.code and "__library__" not in f.code


def test_weights_get_norms_and_gradients():
    layer = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    f = compiled("torch.ops.aten._weight_norm(v, g)", v=layer.weight_v, g=layer.weight_g)
    v, g = (p.detach().clone().requires_grad_() for p in (layer.weight_v, layer.weight_g))
    f(v, g).square().sum().backward()
    assert near(plain(g.grad), plain(2 * g)) and v.grad.abs().max() < 1e-5


def test_rows_of_an_embedding_are_shortened():
    f = compiled("torch.ops.aten.embedding_renorm_(w, i, 1.0, 2.0)", w=X, i=I)
    got = f(torch.tensor([[3., 4], [0, .5], [6, 8]]), torch.tensor([0, 1, 0]))
    assert near(plain(got), [[.6, .8], [0, .5], [6, 8]])


def test_bits_of_views_are_told():
    f = compiled("torch.ops.aten.is_conj(x), torch.ops.aten.is_neg(x)", x=X)
    x = torch.tensor([1 + 2j])
    assert f(x.conj()) == (True, False) and f(x.conj().imag) == (False, True) and f(x) == (False, False)


def test_checks_raise():
    f = compiled("torch.ops.aten._assert_async(x, 'no')", x=X)
    f(torch.tensor(1))
    with pytest.raises(RuntimeError, match="RuntimeError: no$") as error:
        f(torch.tensor(0))
    assert error.type is RuntimeError and "__library__" not in str(error.value)


OUTS = [("celu(x, 2.0, out=a)", lambda x: (torch.celu(x, 2.0),)), ("clone(x, out=a)", lambda x: (x,)),
        ("flip(x, [1], out=a)", lambda x: (x.flip(1),)), ("sort(x, 1, values=a, indices=b)", lambda x: x.sort(1)),
        ("max(x, 1, max=a, max_values=b)", lambda x: x.max(1))]


@pytest.mark.parametrize("call, want", OUTS, ids=[c for c, _ in OUTS])
def test_outputs_that_the_entry_lacks_are_written(call, want):
    f = compiled("torch.ops.aten." + call, x=X, a=X, b=X)
    for g in (f, torch.jit.load(io.BytesIO(f.save_to_buffer()))):
        a, b = torch.empty(0), torch.empty(0, dtype=torch.int64)
        g(X, a, b)
        for got, value in zip((a, b), want(X)):
            assert got.tolist() == value.tolist()


def test_an_output_of_a_lower_kind_is_refused():
    f = compiled("torch.ops.aten.celu(x, out=a)", x=X, a=X)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got long int instead"):
        f(X, torch.zeros(6, dtype=torch.int64))


def test_a_tensor_by_the_name_of_an_input_is_no_output():
    with pytest.raises(RuntimeError, match="Keyword argument wrong unknown|Arguments for call"):
        compiled("torch.ops.aten.relu(x, wrong=3)", x=X)
    with pytest.raises(RuntimeError, match="Expected a value of type .number. for argument .alpha."):
        compiled("torch.ops.aten.celu(x, alpha=[1], out=a)", x=X, a=X)


class Listed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.ones(2), torch.full((2,), 3.0)])

    def forward(self, x):
        for w in self.weights:
            x = x * w
        return x


def test_torch_declares_attributes_whose_names_are_numbers():
    saved, file = zipfile.ZipFile(io.BytesIO(torch.jit.script(Listed()).save_to_buffer())), io.BytesIO()
    with zipfile.ZipFile(file, "w") as rewritten:
        for name in saved.namelist():
            text = saved.read(name)
            if name.endswith("container.py"):
                assert b'  __annotations__["0"]' in text
                text = text.replace(b'  __annotations__["0"]', b'  __annotations__ = []\n  __annotations__["0"]')
            rewritten.writestr(name, text)
    assert torch.jit.load(io.BytesIO(file.getvalue()))(torch.ones(2)).tolist() == [3, 3]


def test_lists_change_in_place():
    unit = torch.jit.CompilationUnit("""
def f(n: int):
    a = [1, 2]
    b = a
    a += [3]
    a *= n
    return a, b

def empty(n: int):
    a = [""]
    a *= n
    return a
""")
    assert unit.f(2) == ([1, 2, 3] * 2, [1, 2, 3] * 2)
    assert unit.f(0) == ([], [])
    assert unit.empty(-1) == [] and unit.empty(3) == [""] * 3
    assert "torch.add_(a, [3])" in unit.f.code and "torch.mul_(" in unit.f.code
    with pytest.raises(RuntimeError, match="repeated|more than"):
        unit.empty(1 << 40)


def test_outputs_of_overloads_without_a_name_are_saved_under_the_operators_name():
    for call in ("std(x, [1], out=a)", "var(x, out=a)", "arange(0, 3, out=a)", "linalg_pinv(x, out=a)"):
        f = compiled("torch.ops.aten." + call, x=X, a=X)
        assert "_out(" not in f.code and f"torch.{call.partition('(')[0]}(" in f.code


def test_whole_numbers_of_a_trace_are_whole():
    def padded(x):
        size = torch.tensor(x.shape[-1])
        return torch.nn.functional.pad(x, [0, torch.clamp((size / 2).ceil() * 3 - size, min=0)])
    traced = torch.jit.trace(padded, torch.ones(1, 3), check_trace=False)
    assert traced(torch.ones(1, 3)).tolist() == [[1, 1, 1, 0, 0, 0]]


def ranges(run):
    """The names and parents of the ranges and calls that a profile of `run` has."""
    with torch.autograd.profiler.profile() as profile:
        run()
    return [(e.name, e.cpu_parent.name if e.cpu_parent else None) for e in profile.function_events]


def range_function(x):
    with torch.profiler.record_function("block"):
        y = x + 1
    with torch.profiler.record_function("block"):
        y = y * 2
    return y


def test_ranges_of_programs_are_in_profiles(tmp_path):
    """A program's ranges are those of the function, also traced, frozen, saved and loaded."""
    class Module(torch.nn.Module):
        def forward(self, x):
            return range_function(x)

    x, want = torch.ones(2), [("block", None), ("aten::add", "block"), ("block", None), ("aten::mul", "block")]
    scripted, traced = torch.jit.script(Module().eval()), torch.jit.trace(Module(), x)
    torch.jit.save(scripted, tmp_path / "scripted.pt")
    torch.jit.save(traced, tmp_path / "traced.pt")
    programs = [range_function, torch.jit.script(range_function), scripted, traced, torch.jit.freeze(scripted),
                torch.jit.load(tmp_path / "scripted.pt"), torch.jit.load(tmp_path / "traced.pt")]
    for program in programs:
        assert ranges(lambda: program(x)) == want
        assert program(x).tolist() == [4.0, 4.0]


def test_operators_of_ranges():
    def run():
        event = torch.ops.profiler._record_function_enter_new("block", "argument")
        torch.ones(2) + 1
        torch.ops.profiler._record_function_exit(event)
        torch.ops.profiler._record_function_exit(event)
    assert ("aten::add", "block") in ranges(run)
    with pytest.raises(RuntimeError, match="_call_end_callbacks_on_future can only be called once."):
        with torch.profiler.record_function("block") as r:
            future = torch.futures.Future()
            done = r._call_end_callbacks_on_future(future)
            future.set_result(3)
            assert done.wait() == 3
            r._call_end_callbacks_on_future(future)
    assert torch.classes.profiler._RecordFunction is torch.classes.profiler._RecordFunction
    with pytest.raises(RuntimeError, match="Tried to instantiate class 'profiler.Other', but it does not exist!"):
        torch.classes.profiler.Other
