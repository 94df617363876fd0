"""uint16, uint32, uint64, complex32 and float8: what torch gives (stored_cases.py), files, arrays."""
import io
import json
import pathlib
import pickle
import zipfile

import cresset
import numpy
import pytest
import stored_cases
from stored_cases import STORED

EXPECTED = json.loads((pathlib.Path(__file__).parent / "stored_expected.json").read_text())


@pytest.mark.parametrize("pair", EXPECTED["digests"])
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_conversion_of_all_patterns(pair):
    assert stored_cases.digest(cresset, *pair.split()) == EXPECTED["digests"][pair]


@pytest.mark.parametrize("name", STORED)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_operators_and_refusals(name):
    assert stored_cases.operators(cresset, name) == EXPECTED["operators"][name]


@pytest.mark.parametrize("name", STORED)
def test_promotions(name):
    assert stored_cases.promotions(cresset, name) == EXPECTED["promotions"][name]


@pytest.mark.parametrize("name", STORED)
def test_files(name, tmp_path):
    x = stored_cases.patterns(cresset, name)[:200].reshape(2, 100)
    file = io.BytesIO()
    cresset.save({"x": x, "row": x[1]}, file)
    names = zipfile.ZipFile(file).read("archive/data.pkl")
    assert b"_rebuild_tensor_v3" in names and b"UntypedStorage" in names and name.encode() in names
    file.seek(0)
    for y in (cresset.load(file)["x"], pickle.loads(pickle.dumps(x))):
        assert y.dtype == x.dtype and y.shape == x.shape
        assert y.view(cresset.uint8).tolist() == x.view(cresset.uint8).tolist()


@pytest.mark.parametrize("name", [n for n in STORED if n != "complex32"])
def test_safetensors(name, tmp_path):
    x = stored_cases.patterns(cresset, name)[:64]
    cresset.safetensors.save_file({"x": x}, tmp_path / "file")
    y = cresset.safetensors.load_file(tmp_path / "file")["x"]
    assert y.dtype == x.dtype and y.view(cresset.uint8).equal(x.view(cresset.uint8))


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_numpy_shares_memory(name):
    array = numpy.array([1, numpy.iinfo(name).max], name)
    x = cresset.from_numpy(array)
    assert x.dtype == getattr(cresset, name) and x.numpy().dtype == name
    x[0] = 5
    assert array.tolist() == [5, numpy.iinfo(name).max] == x.tolist()


@pytest.mark.parametrize("name", STORED)
def test_dlpack(name):
    x = cresset.ones(3).to(getattr(cresset, name))
    assert cresset.from_dlpack(x).dtype == x.dtype


def test_uint64_beyond_int64():
    x = cresset.tensor([2**64 - 1, 2**63], dtype=cresset.uint64)
    assert x.tolist() == [2**64 - 1, 2**63] and (x == 2**64 - 1).tolist() == [True, False]
    assert x.double().tolist() == [float(2**64 - 1), float(2**63)]
    assert cresset.full((1,), 2**63, dtype=cresset.uint64).item() == 2**63
    assert (cresset.ones(1) + 2**63).item() == float(2**63)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        cresset.tensor([2**63])
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        cresset.tensor([-1], dtype=cresset.uint64)
    with pytest.raises(RuntimeError, match="type int64_t without overflow"):
        cresset.ones(1).long().fill_(2**63)


def test_scaled_mm():
    a = (cresset.arange(12.0).reshape(3, 4) / 4).to(cresset.float8_e4m3fn)
    b = (cresset.arange(8.0).reshape(2, 4) - 3).to(cresset.float8_e5m2).t()
    scale, other = cresset.tensor(0.5), cresset.tensor(3.0)
    product = (a.float() * scale) @ (b.float() * other)
    assert cresset._scaled_mm(a, b, scale, other, out_dtype=cresset.float32).equal(product)
    assert cresset._scaled_mm(a, b, scale, other).dtype == a.dtype
    bias = cresset.tensor([1.0, 2.0], dtype=cresset.bfloat16)
    with_bias = cresset._scaled_mm(a, b, scale, other, bias=bias, out_dtype=cresset.float32)
    assert with_bias.equal(product + bias.float())
    rows, columns = cresset.ones(3, 1), cresset.tensor([[1.0, 2.0]])
    by_rows = cresset._scaled_mm(a, b, rows, columns, out_dtype=cresset.float32)
    assert by_rows.equal(a.float() @ (b.float() * columns))
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        cresset._scaled_mm(a, b, cresset.ones(3), other)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        cresset._scaled_mm(a.float(), b, scale, other)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        cresset._scaled_mm(a, b.t(), scale, other)


def test_compiled_functions_call_operators():
    x = cresset.tensor([1, 2, 65535], dtype=cresset.uint16)
    f = cresset.compile(lambda x: (x * x).to(cresset.float32) + 1)
    assert f(x).tolist() == [2.0, 5.0, 2.0]
    y = cresset.tensor([1.5, 3.0]).to(cresset.float8_e4m3fn)
    assert cresset.compile(lambda y: y.float() * 2)(y).tolist() == [3.0, 6.0]


def test_hash_tensor():
    x = cresset.tensor([[1.5, 2.5], [3.0, -4.0]])
    bits = x.double().view(cresset.int64)
    assert cresset.hash_tensor(x).dtype == cresset.uint64
    assert (cresset.hash_tensor(x, 1).view(cresset.int64) == bits[:, 0] ^ bits[:, 1]).all()
    assert cresset.hash_tensor(x.t(), -1, keepdim=True).tolist() == \
        [[v] for v in cresset.hash_tensor(x, 0).tolist()]
    assert cresset.hash_tensor(x.half()).equal(cresset.hash_tensor(x))
    assert cresset.tensor([1, -2], dtype=cresset.int8).hash_tensor().item() == 2**64 - 1
    assert cresset.hash_tensor(cresset.arange(2000) % 3, 0).item() == 1
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        cresset.hash_tensor(cresset.ones(0, 3), 0)
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode: 1"):
        x.hash_tensor(mode=1)


@pytest.mark.parametrize("dtype", [cresset.uint16, cresset.uint32, cresset.uint64])
def test_products_of_unsigned_numbers_are_empty_or_zeros(dtype):
    def made(*size):
        return cresset.ones(size).to(dtype)

    for a, b in [((2, 0), (0, 3)), ((0, 3), (3, 2)), ((2, 1, 0), (2, 0, 1)), ((0, 1, 3), (0, 3, 1)), ((2, 0), (0,))]:
        got = made(*a) @ made(*b)
        assert got.dtype == dtype and got.tolist() == (cresset.ones(a) @ cresset.ones(b)).tolist()
    assert cresset.mm(made(2, 0), made(0, 2)).tolist() == [[0, 0], [0, 0]]
    assert cresset.mv(made(2, 0), made(0)).tolist() == [0, 0]
    assert cresset.bmm(made(1, 1, 0), made(1, 0, 1)).tolist() == [[[0]]]
    for kernel, a, b in [("addmm_impl_cpu_", (1, 3), (3, 1)), ("bmm", (2, 1, 3), (2, 3, 1)), ("dot", (3,), (3,)),
                         ("dot", (0,), (0,)), ("addmv_impl_cpu", (2, 3), (3,))]:
        with pytest.raises(NotImplementedError, match=f'"{kernel}" not implemented for \'UInt'):
            made(*a) @ made(*b)


def elements(name, layout):
    """Ones of a dtype, as a tensor of 2 x 2, one without dims, or a sparse one."""
    if layout == "number":
        return cresset.ones(()).to(getattr(cresset, name))
    x = cresset.ones(2, 2).to(getattr(cresset, name))
    return x if layout == "strided" else cresset.ones(2, 2).to_sparse(layout=layout).to(x.dtype)


REFUSED = [("float8_e4m3fn", "float32"), ("float8_e5m2", "float8_e4m3fn"), ("uint64", "int64"), ("uint16", "bool"),
           ("complex32", "uint16"), ("float8_e5m2", "complex64")]
TWO_OPERANDS = sorted({e["name"] for e in cresset._C._records()
                       if e["does"] == "body" and [p["name"] for p in e["params"][:2]] == ["self", "other"]
                       and e["params"][1]["type"] == "Tensor" and all(p["has_default"] for p in e["params"][2:])})


@pytest.mark.parametrize("name", TWO_OPERANDS)
def test_two_operands_without_a_common_dtype_are_refused(name):
    for pair in REFUSED:
        for a, b in (pair, pair[::-1]):
            for layout in ("strided", "number"):
                with pytest.raises((RuntimeError, NotImplementedError)):
                    getattr(cresset._C.ops, name)(elements(a, layout), elements(b, layout))


@pytest.mark.parametrize("pair", REFUSED)
@pytest.mark.parametrize("layouts", [(cresset.sparse_coo, cresset.sparse_coo), (cresset.sparse_csr, cresset.sparse_csr),
                                     ("strided", cresset.sparse_coo), (cresset.sparse_csr, "strided"),
                                     ("strided", cresset.sparse_csr)], ids=str)
def test_sums_with_sparse_tensors_without_a_common_dtype_are_refused(layouts, pair):
    for a, b in (pair, pair[::-1]):
        x, y = elements(a, layouts[0]), elements(b, layouts[1])
        for call in (lambda: x + y, lambda: x - y, lambda: x.add(y, alpha=2), lambda: x.add_(y), lambda: x.sub_(y)):
            with pytest.raises(RuntimeError, match="Promotion for"):
                call()


def test_a_list_of_tensors_without_a_common_dtype_is_refused():
    with pytest.raises(RuntimeError, match="attempted to promote Float8_e4m3fn and Float"):
        cresset.tensor([elements("float8_e4m3fn", "number"), 2.0])
    with pytest.raises(RuntimeError, match="attempted to promote UInt64 and Long"):
        cresset.tensor([[elements("uint64", "number")], [2]])


def test_float8_is_no_default_dtype():
    with pytest.raises(TypeError, match="couldn't find storage object Float8_e5m2Storage"):
        cresset.set_default_dtype(cresset.float8_e5m2)
    assert cresset.get_default_dtype() == cresset.float32
