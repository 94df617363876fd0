"""compile() of functions of NumPy's arrays: results are NumPy's in value and dtype."""
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import cresset as torch
from cresset._numpy.array import in_numpy
from numpy_programs import PROGRAMS

pytestmark = pytest.mark.filterwarnings("ignore:torch.compile")


def same(got, expected):
    if isinstance(expected, tuple):
        assert isinstance(got, tuple) and len(got) == len(expected)
        for a, b in zip(got, expected):
            same(a, b)
        return
    assert type(got) is type(expected) and got.dtype == expected.dtype and got.shape == expected.shape
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(got, expected, rtol=1e-5 if expected.dtype == np.float32 else 1e-10, atol=1e-9)
    elif expected.dtype == np.uint8 and expected.max(initial=0) > 1:  # rounded floats
        assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1 and (got != expected).mean() < 1e-3
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    program, arguments = PROGRAMS[name]
    compiled = torch.compile(program)
    for n in (24, 24, 24, 33, 24):
        args = arguments(n)
        expected = program(*(a.copy() for a in args))
        given = [a.copy() for a in args]
        same(compiled(*given), expected)
        for a, b in zip(given, args):
            np.testing.assert_array_equal(a, b)


def test_the_first_compiled_function_of_a_process_is_recorded():
    """What the library reads when its functions of arrays are imported is not the program's."""
    program = """import numpy as np, cresset as torch
f = torch.compile(lambda p: np.sqrt((p ** 2).sum(-1)).min(0))
for _ in range(4):
    f(np.ones((5, 2)))"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "CR_LOG": "graph"})
    assert "recorded:" in done.stderr and "is deferred" not in done.stderr, done.stderr


# Programs whose calls read values, and those in which NumPy makes an array without a wrapped argument (np.array, np.eye):
# these are not one graph.
READS = {"a branch on a value", "histogram equalization"}
MAKES = {"k-means, step", "Gaussian blur", "grey and threshold", "smoothed labels", "Mandelbrot", "running mean"}


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - READS - MAKES))
def test_programs_are_one_graph_without_calls_of_numpy(name):
    program, arguments = PROGRAMS[name]
    before = sum(in_numpy.values())
    compiled = torch.compile(program, fullgraph=True)
    for _ in range(3):
        same(compiled(*arguments(16)), program(*arguments(16)))
    assert sum(in_numpy.values()) == before


def test_writes_reach_the_array_that_entered():
    @torch.compile
    def f(x, out):
        out[1:] = x[:-1] * 2
        x += 1
        return out.sum()
    for _ in range(3):
        x, out = np.arange(4.), np.zeros(4)
        assert f(x, out) == 6. and x.tolist() == [1., 2., 3., 4.] and out.tolist() == [0., 0., 2., 4.]


SCALE = 2


def test_globals_closures_and_containers_are_seen():
    global SCALE
    shift = 1
    held = {"add": np.ones(3)}

    @torch.compile
    def f(items, *, more):
        return {"a": [items[0] * SCALE + shift, more["x"] + held["add"]], "n": len(items)}
    for scale in (2, 2, 5, 2):
        SCALE, shift = scale, scale + 1
        got = f((np.arange(3), np.ones(1)), more={"x": np.arange(3.)})
        assert got["a"][0].tolist() == [shift, scale + shift, 2 * scale + shift] and got["n"] == 2
        assert got["a"][0].dtype == np.int64 and got["a"][1].tolist() == [1., 2., 3.]
    held["add"] = np.zeros(3)
    assert f((np.arange(3), np.ones(1)), more={"x": np.arange(3.)})["a"][1].tolist() == [0., 1., 2.]
    held["add"][0] = 7
    assert f((np.arange(3), np.ones(1)), more={"x": np.arange(3.)})["a"][1].tolist() == [7., 1., 2.]
    SCALE = 2


def test_dtypes_and_other_arguments_make_other_graphs():
    f = torch.compile(lambda x, mode, k: x * k if mode == "a" else np.sqrt(x) + k)
    for dtype in (np.float32, np.float64, np.int16, np.uint8, np.bool_):
        for mode, k in (("a", 2), ("b", 2), ("a", 2.5)):
            x = np.arange(4).astype(dtype)
            expected = x * k if mode == "a" else np.sqrt(x) + k
            got = f(x, mode, k)
            assert got.dtype == expected.dtype and np.allclose(got, expected)


def test_arrays_without_operators_stay_numpys():
    f = torch.compile(lambda x: x + x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (np.array(["a", "b"], dtype=object), np.array([1, 2], dtype="u4"), np.array([1.], dtype=">f8")):
            for _ in range(2):
                assert f(x).tolist() == (x + x).tolist() and f(x).dtype == (x + x).dtype


def test_errors_are_numpys():
    f = torch.compile(lambda x, y: x + y)
    for _ in range(2):
        with pytest.raises(ValueError, match="operands could not be broadcast together with shapes"):
            f(np.ones(3), np.ones(4))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        torch.compile(np.linalg.inv)(np.zeros((2, 2)))


def test_scalars_leave_as_scalars_and_views_as_arrays():
    f = torch.compile(lambda x: (x.sum(), x.mean(axis=0), x[0, 0], x.reshape(-1)[:1].reshape(()), x.T, x > 1, x.argmax()))
    x = np.arange(6.).reshape(2, 3)
    for _ in range(3):
        got = f(x)
        assert [type(y).__name__ for y in got] == ["float64", "ndarray", "float64", "ndarray", "ndarray", "ndarray", "int64"]
        assert got[4].tolist() == x.T.tolist() and got[5].dtype == bool and got[6] == 5


def test_the_default_device_is_where_it_computes():
    f = torch.compile(lambda x: np.sin(x) + 1)
    with torch.device("meta"):
        with pytest.raises(Exception, match="meta"):
            f(np.ones(3))


def test_wrap_numpy_is_a_function_of_tensors():
    f = torch.compiler.wrap_numpy(lambda a, b=2: (np.sum(np.tanh(a) * b), a.shape, [a[::-1], np.zeros(2)]))
    for g in (f, torch.compile(f)):
        for _ in range(3):
            x = torch.arange(3., requires_grad=True)
            total, shape, (back, zeros) = g(x, b=3)
            total.backward()
            assert torch.allclose(x.grad, 3 * (1 - torch.tanh(torch.arange(3.)) ** 2)) and shape == (3,)
            assert back.tolist() == [2., 1., 0.] and zeros.dtype == torch.float64


def test_a_method_and_a_module_take_arrays():
    class Scaler(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 3

        def forward(self, x):
            return np.maximum(x * self.k, 0)
    model = torch.compile(Scaler())
    for k in (3, 3, 4):
        model.k = k
        assert model(np.array([1., -1.])).tolist() == [k, 0.]


def test_functions_that_make_tensors_take_wrapped_arrays():
    f = torch.compile(lambda a: (torch.from_numpy(a) * 2, torch.as_tensor(a) + 1, torch.asarray(a).numpy() * 3, torch.tensor(a)))
    for n in (2, 2, 3):
        doubled, more, tripled, copied = f(np.arange(n))
        assert doubled.tolist() == [2 * i for i in range(n)] and more.tolist() == [i + 1 for i in range(n)]
        assert tripled.tolist() == [3 * i for i in range(n)] and isinstance(tripled, np.ndarray) and copied.tolist() == list(range(n))
    with pytest.raises(TypeError, match="expected a type"):
        torch._C._set_stand_in(3)


SCALES, ARRAY = [1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0])


class Settings:
    weights = (0.5, 0.25, 2.0)


def of_a_made_array(x):
    return x * np.array([0.299, 0.587, 0.114]) + np.arange(3) - np.zeros(3)


def of_a_list(x):
    return x + np.array(SCALES)


def of_an_attribute(x):
    return (x * np.asarray(Settings.weights)).sum()


def of_two_states(x):
    a = np.zeros(3)
    y = x + a
    a[0] = 1
    return y * (x + a)


def of_one_state(x):
    a = np.zeros(3)
    a[1] = 4
    return x + a


def with_a_destination(x):
    a = np.zeros(3)
    np.add(x, 1, out=a)
    return x * a


def of_a_matrix(x):
    return np.ones((3, 3)) @ x + np.concatenate(([1.0], x[1:]))


def of_an_array_that_was_there(x):
    return x + ARRAY


MADE = (of_a_made_array, of_a_list, of_an_attribute, of_two_states, of_one_state, with_a_destination, of_a_matrix,
        of_an_array_that_was_there)


@pytest.mark.parametrize("f", MADE, ids=lambda f: f.__name__)
def test_arrays_that_a_call_makes_are_constants_of_its_recording(f):
    compiled = torch.compile(f)

    def check():
        for k in range(4):
            x = np.array([1.0, -2.0, 0.5 + k])
            got, want = compiled(x), f(x)
            assert type(got) is type(want) and np.allclose(got, want, rtol=1e-15)
    check()
    if f in (of_a_made_array, of_a_list, of_an_attribute, of_one_state, of_a_matrix):
        assert sum(e.calls for e in compiled._compiler.of_tensors._entries) > 0
    SCALES[0], ARRAY[0], Settings.weights = 7.0, 9.0, (1.0, 2.0, 3.0)
    check()
    SCALES[0], ARRAY[0], Settings.weights = 1.0, 1.0, (0.5, 0.25, 2.0)
    check()


def in_a_wrapped_function(x, change=True):
    a = np.zeros(3)

    def f(x):
        y = x + a
        a[0] += change
        return y * (x + a)
    return torch.compiler.wrap_numpy(f)(x)


def test_a_wrapped_function_that_changes_an_array_is_no_constant():
    compiled = torch.compile(in_a_wrapped_function)
    for k in range(4):
        x = torch.tensor([1.0, -2.0, 0.5 + k], dtype=torch.float64)
        assert compiled(x).equal(in_a_wrapped_function(x))
    assert not compiled._entries


def fails(x):
    a = np.zeros(3)
    raise KeyError(a, x + a)


@pytest.mark.parametrize("f, x", ((fails, np.ones(3)), (torch.compiler.wrap_numpy(fails), torch.ones(3, dtype=torch.float64))))
def test_an_array_that_a_failed_call_read_may_change(f, x):
    compiled, other, arrays = torch.compile(f), torch.compile(of_a_made_array), []
    other(np.ones(3))
    for _ in range(3):
        with pytest.raises(KeyError) as raised:
            compiled(x)
        arrays.append(raised.value.args[0])
    for i in range(3):
        arrays[i][0] = 1
    check_that_it_is_recorded(other, of_a_made_array)


def check_that_it_is_recorded(compiled, f):
    for k in range(4):
        x = np.array([1.0, -2.0, 0.5 + k])
        assert np.allclose(compiled(x), f(x), rtol=1e-15)
    assert sum(e.calls for e in compiled._compiler.of_tensors._entries) > 0


CHANCE = (lambda x: x + np.empty(3) * 0, lambda x: x + np.ndarray((3,)) * 0, lambda x: x + np.ones(3) + np.empty(3) * 0)


@pytest.mark.parametrize("f", CHANCE)
def test_elements_of_chance_are_no_constants(f):
    compiled = torch.compile(f)
    for _ in range(4):
        compiled(np.ones(3))
    assert not compiled._compiler.of_tensors._entries


def test_arrays_that_numpy_fills_are_constants():
    def f(x):
        return x + np.ones(3) + np.full(3, 2.0) + np.identity(3)[0]
    check_that_it_is_recorded(torch.compile(f), f)


def test_the_length_of_a_made_array_may_vary():
    def f(x, n):
        return (np.arange(n) * x[:, None]).sum(0)
    compiled = torch.compile(f)
    for n in (3, 3, 3, 4, 5, 3, 2):
        x = np.linspace(0, 1, 4)
        assert np.allclose(compiled(x, n), f(x, n), rtol=1e-15) and compiled(x, n).shape == (n,)
