"""Compiled programs: aoti_compile_and_package(), aoti_load_package(), and the C functions of cresset_aot.h."""
import io
import os
import shutil
import struct
import subprocess
import sys
import zipfile

import cresset as torch
import pytest
from cresset import nn
from cresset._inductor import _aoti
from cresset.export import Dim, export

F = nn.functional
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CRESSET_BUILD", os.path.join(ROOT, "build"))
compile_and_package, load_package = torch._inductor.aoti_compile_and_package, torch._inductor.aoti_load_package

pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("gcc", "clang", "cc"))), reason="no C compiler")


@pytest.fixture(autouse=True)
def eager():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def loaded(folder, module, args, kwargs=None, **more):
    configs = more.pop("configs", {})
    path = compile_and_package(export(module.eval(), args, kwargs, **more), package_path=folder / "model.pt2", inductor_configs=configs)
    return load_package(path)


def check(model, module, *args, **kwargs):
    got, want = model(*args, **kwargs), module(*args, **kwargs)
    flat = [torch.utils._pytree.tree_flatten(x) for x in (got, want)]
    assert flat[0][1] == flat[1][1]
    for a, b in zip(flat[0][0], flat[1][0]):
        assert a is b is None or (a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-4, atol=2e-5))


class Picture(nn.Module):
    """Convolutions with and without groups and bias, norms that can be folded and one that cannot, pools."""

    def __init__(self):
        super().__init__()
        self.a, self.na = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.b, self.nb = nn.Conv2d(16, 16, 3, 2, 1, groups=16), nn.BatchNorm2d(16, affine=False)
        self.c, self.nc, self.out = nn.Conv2d(16, 24, 1), nn.BatchNorm2d(16), nn.Linear(16, 5)
        for norm in (self.na, self.nb, self.nc):
            nn.init.uniform_(norm.running_mean, -1, 1)
            nn.init.uniform_(norm.running_var, 0.5, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.na(self.a(x))), 2)
        x = F.relu(self.nb(self.b(x)))
        return self.out(F.adaptive_avg_pool2d(self.nc(self.c(x)[:, 8:]), 1).flatten(1))


class Deep(nn.Module):
    """Convolutions and products whose results, places and terms fill tiles, and that do not; few places, many results."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 45, 3, padding=1), nn.Conv2d(45, 70, 3, 2, 1)
        self.c, self.d = nn.Conv2d(70, 56, 3, padding=1), nn.Conv2d(56, 20, 1)
        self.up, self.down = nn.Linear(49, 70), nn.Linear(70, 1100)
        self.out = nn.Linear(1100, 37, bias=False)

    def forward(self, x):
        x = self.d(F.relu(self.c(F.relu(self.b(F.relu(self.a(x)))))))
        return self.out(torch.tanh(self.down(torch.tanh(self.up(x.flatten(2))))))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")

    def forward(self, ids):
        x = self.layer(self.word(ids))
        return {"all": x, "first": (x[:, 0], None)}


class Keyed(nn.Module):
    def forward(self, x, pair, *, scale, shift=None):
        return [x * scale + pair[0], (pair[1] - x).sum(1)], x if shift is None else x + shift


class Kinds(nn.Module):
    """Conversions that name a device, too, which programs of type_as and to(other) do."""

    def forward(self, x, k):
        return k.type_as(x) * x, x.to(k), x.to(x.device, torch.float64) / 3


class Masked(nn.Module):
    """Positions from sums of a mask so far, and rows that two indices pick, as language models compute them."""

    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(50, 8), nn.Embedding(400, 8)

    def forward(self, ids, mask):
        at = mask.cumsum(1) - 1
        x = self.word(ids) + self.place(at * mask) + self.place(torch.arange(1, 2 * ids.shape[1], 2) // 2)
        last = x[torch.arange(ids.shape[0]), mask.sum(1) - 1]
        return x.cumsum(1), x.cummax(0)[0], last, mask.float().cumsum(0)


MODELS = {
    "masked": (Masked, lambda n: (torch.randint(0, 50, (n, 6)), torch.ones(n, 6, dtype=torch.int64).index_fill_(1, torch.tensor([5]), 0))),
    "kinds": (Kinds, lambda n: (torch.randn(n, 4) * 9, torch.arange(4 * n).view(n, 4))),
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 4), nn.Softmax(-1)), lambda n: (torch.randn(n, 8),)),
    "picture": (Picture, lambda n: (torch.randn(n, 3, 12, 20),)),
    "deep": (Deep, lambda n: (torch.randn(n, 3, 14, 14),)),
    "words": (Words, lambda n: (torch.randint(0, 50, (n, 6)),)),
    "lstm": (lambda: nn.LSTM(4, 5, batch_first=True), lambda n: (torch.randn(n, 3, 4),)),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_the_modules(name, threads, tmp_path):
    make, arguments = MODELS[name]
    module, args = make().eval(), arguments(3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        check(loaded(tmp_path, module, args), module, *args)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["perceptron", "picture", "deep", "words", "masked"])
def test_a_batch_of_any_size(name, tmp_path):
    make, arguments = MODELS[name]
    module = make().eval()
    model = loaded(tmp_path, module, arguments(4), dynamic_shapes=({0: Dim("batch", max=300)},) * len(arguments(4)))
    for n in (1, 2, 7, 64, 300):
        check(model, module, *arguments(n))
    with pytest.raises(ValueError, match=r"the size of dim 0 is 301, but s\d+ must be at most 300"):
        model(*arguments(301))


def test_scans_and_several_indices(tmp_path):
    """A length that varies; an index out of range is an error."""
    module = Masked().eval()
    arguments = (lambda n: (torch.randint(0, 50, (2, n)), torch.cat([torch.ones(2, n - 1, dtype=torch.int64), torch.zeros(2, 1, dtype=torch.int64)], 1)))
    model = loaded(tmp_path, module, arguments(6), dynamic_shapes=({1: Dim("length", min=2, max=300)},) * 2)
    for n in (2, 3, 17, 256, 300):
        check(model, module, *arguments(n))
    ids, mask = arguments(6)
    with pytest.raises(IndexError):
        module(ids, mask * 3)
    with pytest.raises(IndexError, match="an index of an element is out of range|out of range"):
        model(ids, mask * 3)


def test_a_length_that_varies(tmp_path):
    """Its square is a size, too, and strides inside of kernels depend on it."""
    module = Words().eval()
    model = loaded(tmp_path, module, (torch.randint(0, 50, (2, 6)),), dynamic_shapes=({1: Dim("length", min=2, max=200)},))
    for n in (2, 3, 16, 129, 200):
        check(model, module, torch.randint(0, 50, (2, n)))


def test_a_length_of_convolutions_that_varies(tmp_path):
    module = nn.Sequential(nn.Conv1d(3, 20, 3, padding=1), nn.ReLU(), nn.Conv1d(20, 9, 2), nn.Conv1d(9, 2, 1)).eval()
    model = loaded(tmp_path, module, (torch.randn(1, 3, 30),), dynamic_shapes=({2: Dim("n", min=4, max=200)},))
    for n in (4, 9, 17, 40, 64, 200):
        check(model, module, torch.randn(1, 3, n))


def test_sizes_that_depend_on_one_that_varies(tmp_path):
    class Two(nn.Module):
        def forward(self, x, y):
            return (x @ y.mT).softmax(-1), y[:, 1:].sum(), x.flatten()

    n = Dim("n", min=3, max=50)
    model = loaded(tmp_path, Two(), (torch.randn(4, 6), torch.randn(9, 6)), dynamic_shapes=({0: n}, {0: 2 * n + 1}))
    for k in (3, 4, 20, 50):
        check(model, Two(), torch.randn(k, 6), torch.randn(2 * k + 1, 6))
    with pytest.raises(ValueError, match=r"input y: the size of dim 0 must be 2 \* s\d+ \+ 1, not 10"):
        model(torch.randn(4, 6), torch.randn(10, 6))
    with pytest.raises(ValueError, match=r"must be 2 \* s\d+ \+ 1 with s\d+ = 4, as in the inputs before, not 11"):
        model(torch.randn(4, 6), torch.randn(11, 6))


def test_arguments_and_results_have_the_modules_structure(tmp_path):
    args, kwargs = (torch.randn(2, 3), (torch.randn(3), torch.randn(2, 1))), {"scale": torch.randn(2, 3), "shift": torch.randn(())}
    model = loaded(tmp_path, Keyed(), args, kwargs)
    check(model, Keyed(), *args, **kwargs)
    check(model, Keyed(), args[0].t().contiguous().t(), args[1], shift=kwargs["shift"], scale=kwargs["scale"])
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        model(*args, scale=kwargs["scale"])
    with pytest.raises(ValueError, match="exported input tree spec"):
        model(args[0], **kwargs)
    with pytest.raises(TypeError, match="takes a tensor, not int"):
        model(3, args[1], **kwargs)


def test_inputs_that_do_not_fit_are_refused(tmp_path):
    model = loaded(tmp_path, nn.Linear(3, 2), (torch.randn(4, 3),))
    for x, words in ((torch.randn(4, 2), "input input: the size of dim 1 must be 3, not 2"), (torch.randn(4), "must have 2 dims, not 1"),
                     (torch.randn(4, 3).double(), "must have the dtype float32, not float64")):
        with pytest.raises(ValueError, match=words):
            model(x)


def test_an_index_out_of_range_is_an_error(tmp_path):
    model = loaded(tmp_path, nn.Embedding(5, 2), (torch.tensor([1, 2]),))
    with pytest.raises(IndexError, match="index out of range in the model"):
        model(torch.tensor([1, 5]))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor([3.0]))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_buffers_that_are_written_keep_their_values(tmp_path):
    model, x = loaded(tmp_path, Counter(), (torch.ones(2),)), torch.ones(2)
    assert [model(x)[0].item() for _ in range(3)] == [4, 5, 6]
    assert load_package(tmp_path / "model.pt2")(x)[0].item() == 4


class Writer(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def test_inputs_that_are_written(tmp_path):
    model = loaded(tmp_path, Writer(), (torch.ones(3, 2),))
    for x in (torch.zeros(3, 2), torch.zeros(2, 3).t(), torch.zeros(3, 4)[:, ::2]):
        version = x._version
        assert model(x).equal(torch.full((3, 2), 2.0)) and x.equal(torch.ones(3, 2)) and x._version > version
    x, w = torch.ones(3, 2), torch.ones(3, 2, requires_grad=True)
    with torch.enable_grad():
        loss = (x * w).sum()
    model(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_numbers_are_those_of_the_exported_program(tmp_path):
    class Scaled(nn.Module):
        def forward(self, x, scale, *, shift=None):
            return x * scale + (shift or 0)

    x = torch.ones(2)
    model = loaded(tmp_path, Scaled(), (x, 3), {"shift": 0.5})
    assert model(x, 3, shift=0.5).tolist() == [3.5, 3.5]
    for scale, shift, words in ((4, 0.5, "scale must be 3, .* not 4"), (3, None, "shift must be 0.5, .* not None")):
        with pytest.raises(ValueError, match=words):
            model(x, scale, shift=shift)


def test_in_a_region_of_deferred_calls(tmp_path):
    """Exports flush, and so do calls of models before they read or write an input."""
    def files():
        with torch.no_grad():
            module = nn.Linear(4, 2)
            module.weight.copy_(torch.arange(8.0).view(2, 4) * 2)
            module.bias.fill_(1)
            program = export(module, (torch.ones(3, 4) * 2,))
        return torch.export.to_c(program), torch.export.to_rt(program), program

    want = files()
    torch._C._defer(True)
    try:
        got = files()
        model = load_package(compile_and_package(got[2], package_path=tmp_path / "model.pt2"))
        writer = loaded(tmp_path, Writer(), (torch.ones(3, 2),))
        a = torch.ones(3, 2) * 2
        before = a * 3
        result = writer(a)
        found = [x.tolist() for x in (before, a, result, model(torch.ones(1, 4).expand(3, 4) * 1))]
    finally:
        torch._C._defer(False)
    assert got[0] == want[0] and got[1] == want[1]
    assert found == [[[6, 6]] * 3, [[3, 3]] * 3, [[6, 6]] * 3, [[13, 45]] * 3]


def test_constants_can_be_replaced(tmp_path):
    first, second = (nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)) for _ in range(2))
    model, x = loaded(tmp_path, first, (torch.randn(4, 6),)), torch.randn(4, 6)
    assert sorted(model.get_constant_fqns()) == sorted(first.state_dict())
    check(model, first, x)
    model.load_constants(dict(second.state_dict()), check_full_update=True)
    check(model, second, x)
    with pytest.raises(ValueError, match="also the constants 0.bias"):
        model.load_constants({"0.weight": first[0].weight}, check_full_update=True)
    with pytest.raises(ValueError, match="must have the sizes"):
        model.load_constants({"0.weight": torch.zeros(2, 2)}, check_full_update=False)


def test_open_files_and_metadata(tmp_path):
    file, x = io.BytesIO(), torch.randn(2, 3)
    module = nn.Linear(3, 2)
    compile_and_package(export(module, (x,)), package_path=file, inductor_configs={"aot_inductor.metadata": {"a": "b"}})
    file.seek(0)
    model = load_package(file, run_single_threaded=True)
    check(model, module, x)
    assert model.get_metadata() == {"AOTI_DEVICE_KEY": "cpu", "a": "b"}
    with pytest.raises(AssertionError, match="Expect package path to be a file ending in .pt2"):
        compile_and_package(export(module, (x,)), package_path=tmp_path / "model.so")
    with pytest.raises(ValueError, match="Only ExportedProgram is supported"):
        compile_and_package(module)


def test_damaged_files_are_refused(tmp_path):
    loaded(tmp_path, nn.Linear(3, 2), (torch.randn(4, 3),))
    data = (tmp_path / "model.pt2").read_bytes()
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:
        records = [i for i in archive.infolist() if "aotinductor" in i.filename]
        at = [i.header_offset + 30 + sum(struct.unpack_from("<HH", data, i.header_offset + 26)) for i in records]
    assert len(records) == 4
    bad = tmp_path / "bad.pt2"
    for start, info in zip(at, records):
        for place in {start, start + info.file_size // 2, start + info.file_size - 1}:
            changed = bytearray(data)
            changed[place] ^= 1
            bad.write_bytes(changed)
            with pytest.raises(RuntimeError, match="damaged|not a compiled model"):
                load_package(bad)
    for n in (0, 10, len(data) // 2, len(data) - 1):
        bad.write_bytes(data[:n])
        with pytest.raises((RuntimeError, OSError)):
            load_package(bad)
    with pytest.raises(RuntimeError, match="file open failed"):
        load_package(tmp_path / "none.pt2")
    torch.export.save(export(nn.Linear(3, 2), (torch.randn(4, 3),)), bad)
    with pytest.raises(RuntimeError, match="has no code for this package"):
        load_package(bad)


def test_what_has_no_form_is_refused(tmp_path):
    class Sorted(nn.Module):
        def forward(self, x):
            return x.sort()[0]

    with pytest.raises(ValueError, match="^aoti_compile_and_package: .*sort, which has no C99 form"):
        loaded(tmp_path, Sorted(), (torch.randn(4),))
    a, b = Dim("a", min=2), Dim("b", min=2)
    with pytest.raises(ValueError, match="at most one size"):
        loaded(tmp_path, nn.ReLU(), (torch.randn(4, 5),), dynamic_shapes=({0: a, 1: b},))


# --- libraries ---

LIBRARIES = {"aot_inductor.libraries": True}
has_dnnl = pytest.mark.skipif(torch.backends.mkldnn.is_available() is False, reason="no oneDNN")

# A library with the functions that models call: it counts products, and its sums are in double.
STAND_IN = r"""
#include <stdint.h>
#include <stdio.h>
int omp_get_max_threads(void) { return 4; }
void omp_set_num_threads(int n) { (void)n; }
int dnnl_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
               float beta, float *c, int64_t ldc)
{
    if (lda < (ta == 'N' ? k : m) || ldb < (tb == 'N' ? n : k) || ldc < n)
        return 1;
    printf("%c%c %d %d %d\n", ta, tb, (int)m, (int)n, (int)k);
    fflush(stdout);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < k; q++)
                sum += (double)(ta == 'N' ? a[i * lda + q] : a[q * lda + i]) * (tb == 'N' ? b[q * ldb + j] : b[j * ldb + q]);
            c[i * ldc + j] = alpha * (float)sum + (beta ? beta * c[i * ldc + j] : 0);
        }
    return 0;
}
"""


class Products(nn.Module):
    """Products of matrices that are whole, transposed, a part of another one, broadcast, and repeated."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 20)

    def forward(self, x, y):
        return (self.layer(x), x @ x.mT, x.mT @ x, x[:, 1:4] @ x[:, 2:].mT, x[::2] @ y[0], x.double() @ x.double().mT, torch.bmm(y, y.mT),
                x.unsqueeze(0).expand(2, -1, -1) @ y, x[:, :1] @ x[:1], x[0] @ y[0])


PRODUCTS = (torch.randn(7, 5), torch.randn(2, 5, 5))


@has_dnnl
@pytest.mark.parametrize("name", ["deep", "words", "products"])
def test_products_of_a_library(name, tmp_path):
    make, arguments = MODELS.get(name, (Products, lambda n: PRODUCTS))
    module, args = make().eval(), arguments(3)
    model, before = loaded(tmp_path, module, args, configs=LIBRARIES), torch.get_num_threads()
    found = []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            check(model, module, *args)
            found.append(torch.utils._pytree.tree_flatten(model(*args))[0])
    finally:
        torch.set_num_threads(before)
    assert all(a is b is None or a.equal(b) for more in found[1:] for a, b in zip(found[0], more))


@has_dnnl
@pytest.mark.parametrize("name", ["perceptron", "words"])
def test_products_of_a_library_in_a_batch_of_any_size(name, tmp_path):
    make, arguments = MODELS[name]
    module = make().eval()
    model = loaded(tmp_path, module, arguments(4), dynamic_shapes=({0: Dim("batch", max=300)},), configs=LIBRARIES)
    for n in (1, 2, 7, 300):
        check(model, module, *arguments(n))


@has_dnnl
def test_constants_of_a_library_can_be_replaced(tmp_path):
    first, second = (nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)) for _ in range(2))
    model, x = loaded(tmp_path, first, (torch.randn(4, 6),), configs=LIBRARIES), torch.randn(4, 6)
    model.load_constants(dict(second.state_dict()), check_full_update=True)
    check(model, second, x)


def with_library(folder, source, *models):
    """Loads models in a process whose libdnnl.so.2 is this source, and runs them; the text, or the error."""
    os.makedirs(folder / "lib", exist_ok=True)
    (folder / "lib" / "dnnl.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "dnnl.c", "-o", "libdnnl.so.2"], cwd=folder / "lib", check=True)
    code = """
import sys
import cresset as torch
torch.set_num_threads(1)
x = torch.arange(35.0).view(7, 5).sin()
for path in sys.argv[1:]:
    try:
        model = torch._inductor.aoti_load_package(path)
    except RuntimeError as e:
        print(e)
        continue
    with torch.no_grad():
        print(*(round(float(r.double().abs().sum()), 3) for r in model(x, torch.ones(2, 5, 5))))
"""
    ran = subprocess.run([sys.executable, "-c", code, *map(str, models)], env=dict(os.environ, LD_LIBRARY_PATH=str(folder / "lib")),
                         capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Paths of the same model that calls libraries, and that calls none."""
    folder = tmp_path_factory.mktemp("packages")
    program, paths = export(Products().eval(), PRODUCTS), [folder / "with.pt2", folder / "without.pt2"]
    for path, configs in zip(paths, (LIBRARIES, {})):
        compile_and_package(program, package_path=path, inductor_configs=configs)
    return paths


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_each_product_of_float32_calls_the_library(tmp_path, packages):
    *calls, found, other = with_library(tmp_path, STAND_IN, *packages)
    assert found == other
    assert sorted(calls) == sorted(["NT 7 20 5", "NT 7 7 5", "TN 5 5 7", "NT 7 7 3", "NN 4 5 5", *2 * ["NT 5 5 5"], *2 * ["NN 7 5 5"], "NN 7 5 1",
                                    "NN 1 5 5"])


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_a_missing_library_is_an_error(tmp_path, packages):
    """Only of models that call it."""
    text, _ = with_library(tmp_path, "int dnnl_other;", *packages)
    assert text == f"{packages[0]} cannot be loaded: it calls oneDNN, and the system has no libdnnl.so.2 with dnnl_sgemm and OpenMP"


def test_versions_of_packages(tmp_path, monkeypatch):
    """Packages that call no library are of the first version, which older loaders read; later ones are refused."""
    compiled, version, head = _aoti._compiled, [None], "cresset_aot_model = {"

    def of_version(text, *more):
        assert head + "1, " in text
        return compiled(text.replace(head + "1", head + version[0]), *more)

    monkeypatch.setattr(_aoti, "_compiled", of_version)
    for version[0], module, configs in (("1", nn.ReLU(), LIBRARIES), ("2", nn.ReLU(), {})):
        check(loaded(tmp_path, module, (torch.randn(2, 3),), configs=configs), module, torch.randn(2, 3))
    for version[0] in ("0", "3"):
        with pytest.raises(RuntimeError, match="model.pt2 was compiled by another version of this library"):
            loaded(tmp_path, nn.ReLU(), (torch.randn(2, 3),))


PROGRAM = r"""
#include <cresset_aot.h>
#include <stdio.h>
int main(int n, char **path)
{
    float x[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}, y[3][2];
    int64_t size[] = {3, 4}, got[2];
    cr_aot_value in = {x, "float32", 2, size};
    void *out[] = {y};
    cr_aot *m = NULL;
    if (n < 2 || cr_aot_load(&m, path[1], 2)) {
        puts(cr_error_message());
        return 1;
    }
    printf("%s %s %d %d\n", cr_aot_input(m, 0)->name, cr_aot_output(m, 0)->dtype, (int)cr_aot_input(m, 0)->most[0], cr_aot_input(m, 1) == NULL);
    if (cr_aot_output_size(m, &in, 1, 0, got) || cr_aot_run(m, &in, 1, out, 1))
        return 2;
    printf("%d %d\n", (int)got[0], (int)got[1]);
    for (int i = 0; i < 3; i++)
        printf("%.5f %.5f\n", y[i][0], y[i][1]);
    in.data = out[0] = NULL;
    printf("%d ", cr_aot_run(m, &in, 1, out, 1) != 0);
    puts(cr_error_message());
    in.data = x;
    printf("%d ", cr_aot_run(m, &in, 1, out, 1) != 0);
    puts(cr_error_message());
    size[0] = INT64_MIN;
    printf("%d ", cr_aot_run(m, &in, 1, out, 1) != 0 && cr_aot_run(m, NULL, 1, out, 1) != 0);
    printf("%d\n", cr_aot_load(NULL, path[1], 2) != 0 && cr_aot_load(&m, NULL, 2) != 0);
    size[0] = 9;
    printf("%d ", cr_aot_run(m, &in, 1, out, 1) != 0);
    puts(cr_error_message());
    cr_aot_free(m);
    return 0;
}
"""


def test_from_c(tmp_path):
    library = os.path.join(BUILD, "libcresset_aot.so")
    if not os.path.exists(library) or not shutil.which("gcc"):
        pytest.skip("no gcc, or the library is not built")
    module = nn.Linear(4, 2)
    loaded(tmp_path, module, (torch.randn(5, 4),), dynamic_shapes=({0: Dim("batch", max=8)},))
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), "main.c", library,
                    f"-Wl,-rpath,{os.path.abspath(BUILD)}", "-o", "main"], cwd=tmp_path, check=True)
    ran = subprocess.run(["./main", "model.pt2"], cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0 and lines[:2] == ["input float32 8 1", "3 2"], ran
    want = module(torch.arange(1.0, 13).view(3, 4))
    assert torch.allclose(torch.tensor([[float(v) for v in line.split()] for line in lines[2:5]]), want, atol=2e-5)
    assert lines[5:8] == ["1 input input has no memory: data is NULL", "1 output 0 has no memory: it is NULL", "1 1"]
    assert lines[8].startswith("1 input input: the size of dim 0 is 9, but s") and lines[8].endswith("must be at most 8")
    assert subprocess.run(["./main", "none.pt2"], cwd=tmp_path, capture_output=True, text=True, check=False).stdout.startswith("none.pt2: No such file")


@pytest.mark.parametrize("name, value, text", [("libraries", "no", "True or False"), ("fold_norms", 1, "True or False"), ("metadata", 3, "a dict")])
def test_wrong_settings(name, value, text):
    program = torch.export.export(torch.nn.Linear(2, 3), (torch.zeros(4, 2),))
    with pytest.raises(TypeError, match=f"aot_inductor.{name} is {text}, not {value!r}"):
        torch._inductor.aoti_compile_and_package(program, inductor_configs={f"aot_inductor.{name}": value})
