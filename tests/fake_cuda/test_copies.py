"""Copies that share a launch, and elements that an index picks, on the stand-in of tests/fake_cuda: the host's elements."""
import io
import itertools
import pickle
import random
import struct

import pytest

import cresset as torch
from test_cuda import FAKE, launches, run_alone

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.complex128, torch.bool]


def drawn(dtype, *size):
    return (torch.randn(size) * 5).to(dtype)


def layouts(x):
    """x with other strides: turned, with gaps, expanded, and at an odd address."""
    yield x
    yield x.transpose(0, -1).contiguous().transpose(0, -1)
    gaps = torch.empty(*x.shape[:-1], 2 * x.shape[-1] + 1, dtype=x.dtype)
    gaps[..., 1::2] = x
    yield gaps[..., 1::2]
    wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype)
    wide[..., 1:-2] = x
    yield wide[..., 1:-2]


def there(x):
    """The same elements on the device, at the same strides."""
    room = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage(), 0, (x.untyped_storage().nbytes() // x.element_size(),), (1,))
    return room.cuda().as_strided(x.size(), x.stride(), x.storage_offset())


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_one_after_another(dtype):
    draw = random.Random(7)
    torch.manual_seed(7)
    for _ in range(30):
        ndim = draw.randint(1, 3)
        dim, count = draw.randrange(ndim), draw.choice((2, 3, 5))
        size = [draw.choice((1, 2, 3, 8, 16, 33)) for _ in range(ndim)]
        parts = []
        for _ in range(count):
            size[dim] = draw.choice((0, 1, 4, 7, 16))
            x = drawn(dtype, *size)
            parts.append(draw.choice(list(layouts(x))) if x.numel() else x)
        want = torch.cat(parts, dim)
        assert torch.equal(torch.cat([there(x) for x in parts], dim).cpu(), want), (size, dim, [x.stride() for x in parts])
        stacked = [parts[0], drawn(dtype, *parts[0].shape)]
        for d in range(ndim + 1):
            assert torch.equal(torch.stack([there(x) for x in stacked], d).cpu(), torch.stack(stacked, d))


@pytest.mark.skipif(not FAKE, reason="the stand-in counts launches")
def test_copies_of_rows_are_one_launch():
    for dim, most in ((0, 1), (1, 1)):
        parts = [torch.randn(4, 16, device="cuda") for _ in range(40)]
        assert launches(lambda: torch.cat(parts, dim)) <= most
    parts = [torch.full((3, 4 + k % 3), float(k)) for k in range(150)]  # three launches' pieces, of several sizes of elements
    assert torch.equal(torch.cat([x.cuda() for x in parts], 1).cpu(), torch.cat(parts, 1))


def test_other_dtypes_are_converted():
    parts = [torch.randn(3, 4), torch.arange(6).view(3, 2), torch.ones(3, 1, dtype=torch.bool), torch.randn(3, 2).half()]
    assert torch.equal(torch.cat([x.cuda() for x in parts], 1).cpu(), torch.cat(parts, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_that_an_index_picks(dtype):
    torch.manual_seed(8)
    for columns, index in itertools.product((768, 1, 3, 7, 16, 33), (torch.int64, torch.int32)):
        table = drawn(dtype, 50, columns)
        for ids in (torch.randint(-50, 50, (40,)), torch.randint(0, 50, (3, 11)), torch.randint(0, 50, (40, 2))[:, 0]):
            ids = ids.to(index)
            for t in layouts(table):
                assert torch.equal(there(t)[there(ids)].cpu(), t[ids.long()])
        ids = torch.randint(0, 50, (9,)).to(index)
        assert torch.equal(table.cuda().t().index_select(1, ids.cuda()).cpu(), table.t().index_select(1, ids))
        rows = torch.randint(0, columns, (50, 9))
        assert torch.equal(table.cuda().gather(1, rows.cuda()).cpu(), table.gather(1, rows))
        assert torch.equal(torch.take(table.cuda(), rows.cuda()).cpu(), torch.take(table, rows))
    with pytest.raises(IndexError, match="index 50 is out of bounds"):
        table.cuda()[torch.tensor([0, 50], device="cuda")].cpu()


# With 8 MB in all, the cotangents of scores have at most 32 KB: those of two heads of 64 x 64, and of none of 128 x 128.
@pytest.mark.skipif(not FAKE, reason="the stand-in has as much memory as it is told")
def test_gradients_of_attention_in_parts():
    program = """
torch.manual_seed(9)
for batch, heads, shared, queries, keys, causal in ((3, 1, 1, 60, 64, True), (2, 4, 2, 64, 50, False), (1, 3, 1, 64, 64, True), (1, 2, 2, 100, 70, True)):
    q, k, v = (torch.randn(batch, h, n, 32) for h, n in ((heads, queries), (shared, keys), (shared, keys)))
    g, grads = torch.randn(q.shape), []
    for device in ("cpu", "cuda"):
        leaves = [x.to(device).requires_grad_() for x in (q, k, v)]
        y = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=heads != shared)
        grads.append(torch.autograd.grad(y, leaves, g.to(device)))
    print(max(float((a.cpu() - b).norm() / b.norm()) for a, b in zip(grads[1], grads[0])) < 1e-5)
"""
    assert run_alone(program, FAKE_CUDA_MEMORY="8") == ["True"] * 4
    assert run_alone(program) == ["True"] * 4


@pytest.mark.parametrize("way", ["pickle", "old", "new"])
def test_files_and_pickles_of_tensors_of_a_device(way):
    """The layout before torch 1.6, which pickles have, keeps bytes behind the objects; tensors of one storage share it again."""
    x = torch.arange(12., device="cuda").view(3, 4)
    given = {"x": x, "row": x[1], "turned": x.t(), "host": torch.ones(2), "ids": torch.arange(3, device="cuda")}
    file = io.BytesIO()
    if way != "pickle":
        torch.save(given, file, _use_new_zipfile_serialization=way == "new")

    def read(**options):
        file.seek(0)
        return torch.load(file, **options) if way != "pickle" else pickle.loads(pickle.dumps(given))
    for have in (read(), read(map_location="cuda"), read(map_location="cpu")):
        for name, want in given.items():
            assert have[name].tolist() == want.tolist() and have[name].stride() == want.stride()
    have = read()
    assert all(have[name].device == want.device for name, want in given.items())
    if way != "pickle":
        have["x"].fill_(5)
        assert have["row"].tolist() == [5] * 4 and have["turned"].sum().item() == 60
        assert {t.device.type for t in read(map_location="cpu").values()} == {"cpu"}
        assert {t.device.type for t in read(map_location=lambda storage, location: storage.cuda()).values()} == {"cuda"}


@pytest.mark.parametrize("location", ["cpu", "cuda:0"])
def test_files_with_views_of_storages(location):
    """Files of torch 0.1.12 and before: a storage may be a part of another one."""
    class Part:
        def __init__(self, *view):
            self.view = view

    class Pickler(pickle.Pickler):
        def persistent_id(self, item):
            return ("storage", torch.FloatStorage, "0", location, 6, item.view) if isinstance(item, Part) else None

    file = io.BytesIO()
    for item in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(item, file, protocol=2)
    Pickler(file, protocol=2).dump([Part("a", 2, 3), Part("a", 2, 3), Part("b", 6, 0)])
    pickle.dump(["0"], file, protocol=2)
    file.write(struct.pack("<q6f", 6, *range(6)))
    file.seek(0)
    part, same_part, none = torch.load(file, weights_only=False)
    assert str(part.device) == location and part.tolist() == [2, 3, 4] and none.tolist() == []
    part[1] = 9
    assert same_part.tolist() == [2, 9, 4]
