"""Entries that the table states as loops: pieces of axes, index tensors, kept plans."""
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import cresset as torch
import cresset.nn.functional as F

RNG = np.random.default_rng(5)
DTYPES = [np.bool_, np.int16, np.float32, np.float64, np.complex128]


def values(shape, dtype=np.float32):
    return (RNG.integers(-99, 99, shape) + RNG.integers(0, 2, shape)).astype(dtype)


def same(got, want):
    assert tuple(got.shape) == want.shape
    assert got.dtype == torch.from_numpy(np.zeros(1, want.dtype)).dtype
    np.testing.assert_array_equal(got.numpy(), want)


def layouts(x):
    """The array as tensors with several strides."""
    t = torch.from_numpy(x)
    yield t
    if x.ndim > 1:
        yield torch.from_numpy(np.ascontiguousarray(x.T)).permute(*range(x.ndim - 1, -1, -1))
    yield torch.from_numpy(np.repeat(x, 2, -1))[..., ::2] if x.ndim else t


@pytest.mark.parametrize("mode, name", [("constant", "constant"), ("reflect", "reflect"),
                                        ("replicate", "edge"), ("circular", "wrap")])
@pytest.mark.parametrize("pads", [(1, 2), (0, 3), (2, 1, 1, 2), (3, 0, 0, 3)])
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.complex128])
def test_pads(mode, name, pads, dtype):
    x = values((2, 3, 5, 4)[4 - len(pads) // 2 - 2:], dtype)
    pairs = [(0, 0)] * (x.ndim - len(pads) // 2) + [tuple(pads[i:i + 2]) for i in range(len(pads) - 2, -1, -2)]
    for t in layouts(x):
        same(F.pad(t, pads, mode=mode), np.pad(x, pairs, mode=name))


def test_a_negative_pad_cuts_and_a_pad_may_leave_nothing_of_self():
    x = values((3, 4))
    same(F.pad(torch.from_numpy(x), (-1, 2, 1, -2), value=7),
         np.pad(x, ((1, 0), (0, 2)), constant_values=7)[:2, 1:])
    same(F.pad(torch.from_numpy(x), (-5, 8), value=2), np.full((3, 7), 2, np.float32))
    same(F.pad(torch.from_numpy(x), (-4, 0)), x[:, :0])


def test_kept_plans_are_those_of_sizes_strides_and_numbers():
    x = values((4, 4))
    for t, want in ((x, x), (x.T, x.T), (x[:, :3], x[:, :3]), (x, x)):
        for value in (1, 2):
            same(F.pad(torch.from_numpy(t), (1, 0), value=value),
                 np.pad(want, ((0, 0), (1, 0)), constant_values=value))
        for by in (1, 2):
            same(torch.from_numpy(t).roll(by, 1), np.roll(want, by, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_turned_rolled_and_repeated(dtype):
    x = values((2, 3, 4), dtype)
    for t in layouts(x):
        same(t.flip([0, -1]), np.flip(x, (0, 2)))
        same(t.flip([]), x)
        same(t.roll((1, -6, 2), (0, 1, 1)), np.roll(np.roll(x, 1, 0), -4, 1))
        same(t.roll(-5), np.roll(x, -5))
        same(t.repeat(2, 1, 3, 2), np.tile(x, (2, 1, 3, 2)))
        same(t.repeat_interleave(3, 1), np.repeat(x, 3, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_reads_at_indices(dtype, index_dtype):
    x = values((5, 6, 7), dtype)
    for dim in range(3):
        shape = [3, 4, 5]
        shape[dim] = 9
        index = RNG.integers(0, x.shape[dim], shape).astype(index_dtype)
        part = x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(shape))]
        line = index.flat[:8].astype(index_dtype)
        for t in layouts(x):
            for i in layouts(index):
                same(torch.gather(t, dim, i), np.take_along_axis(part, index.astype(np.int64), dim))
            same(torch.index_select(t, dim, torch.from_numpy(line)), np.take(x, line, dim))
    index = RNG.integers(0, 5, (2, 3)).astype(index_dtype)
    for t in layouts(x[:, :, 0]):
        same(F.embedding(torch.from_numpy(index), t), x[:, :, 0][index])


def test_threads_and_long_rows_change_nothing():
    x, long = values((300, 700)), RNG.integers(0, 5000, 100_000)
    index = RNG.integers(0, 300, (300, 700))
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        same(torch.gather(torch.from_numpy(x), 0, torch.from_numpy(index)), np.take_along_axis(x, index, 0))
        same(torch.gather(torch.from_numpy(x[0]), 0, torch.from_numpy(long % 700)), x[0][long % 700])
        same(F.embedding(torch.from_numpy(index[0]), torch.from_numpy(x)), x[index[0]])
    torch.set_num_threads(1)


@pytest.mark.parametrize("call, error, text", [
    (lambda x, bad: torch.gather(x, -1, torch.full((3, 2), bad)), RuntimeError,
     "index {} is out of bounds for dimension 1 with size 4"),
    (lambda x, bad: torch.index_select(x, 0, torch.tensor([0, bad])), IndexError, "index out of range in self"),
    (lambda x, bad: F.embedding(torch.tensor([[bad]]), x), IndexError, "index out of range in self"),
    (lambda x, bad: torch.index_select(x[:, :0], 0, torch.tensor([bad])), IndexError, "index out of range in self"),
])
@pytest.mark.parametrize("bad", [-1, 4, 2**62])
def test_indices_outside(call, error, text, bad):
    with pytest.raises(error, match=text.format(bad)):
        call(torch.zeros(3, 4), bad)


@pytest.mark.parametrize("write", [
    lambda x, bad: x.scatter_(0, torch.tensor([[0], [bad]]), torch.ones(2, 1)),
    lambda x, bad: x.scatter_(1, torch.tensor([[0, bad]]), 5.0),
    lambda x, bad: x.scatter_add_(0, torch.tensor([[0], [bad]]), torch.ones(2, 1)),
    lambda x, bad: x.index_add_(1, torch.tensor([0, bad]), torch.ones(3, 2)),
    lambda x, bad: x.index_copy_(1, torch.tensor([0, bad]), torch.ones(3, 2)),
])
@pytest.mark.parametrize("bad", [-1, 4, 2**62])
def test_nothing_is_written_before_an_index_error(write, bad):
    x = torch.zeros(3, 4)
    with pytest.raises((RuntimeError, IndexError), match=f"index {bad} is out of bounds for dimension . with size"):
        write(x, bad)
    assert x.sum().item() == 0


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.complex128])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_writes_at_indices(dtype, index_dtype):
    x = values((5, 6, 7), dtype)
    for dim in range(3):
        shape = [3, 4, 5]
        shape[dim] = 9
        index = RNG.integers(0, x.shape[dim], shape).astype(index_dtype)
        src = values([n + 1 for n in shape], dtype)
        places = list(np.indices(shape))
        places[dim] = index
        part = src[tuple(slice(n) for n in shape)]
        want, added = x.copy(), x.copy()
        for at, v in zip(zip(*(p.flat for p in places)), part.flat):
            want[at] = v
        np.add.at(added, tuple(places), part)
        line = index.flat[:8]
        rows = values([8 if d == dim else n for d, n in enumerate(x.shape)], dtype)
        summed = np.moveaxis(x, dim, 0).copy()
        np.add.at(summed, line, np.moveaxis(rows, dim, 0) * 3)
        for t in layouts(x):
            for i in layouts(index):
                same(t.scatter(dim, i, torch.from_numpy(src)), want)
                same(t.scatter_add(dim, i, torch.from_numpy(src)), added)
            i = torch.from_numpy(line)
            same(t.index_add(dim, i, torch.from_numpy(rows), alpha=3), np.moveaxis(summed, 0, dim))
            same(t.clone().index_add_(dim, i, torch.from_numpy(rows), alpha=3), np.moveaxis(summed, 0, dim))


def test_negative_indices_of_fills_count_from_the_end():
    x = values((4, 5))
    for value in (7.0, torch.tensor(7.0)):
        want = x.copy()
        want[:, [1, -1]] = 7
        same(torch.from_numpy(x).index_fill(1, torch.tensor([1, -1]), value), want)
        same(torch.from_numpy(x.copy()).index_fill_(-1, torch.tensor([-1, 9, 1])[::2], value), want)
    y = torch.zeros(3)
    with pytest.raises(IndexError, match="index -4 is out of bounds for dimension 0 with size 3"):
        y.index_fill_(0, torch.tensor([0, -4]), 1.0)
    assert y.sum().item() == 0
    assert torch.zeros(()).index_fill(0, torch.tensor([0, -1]), 2.0).item() == 2


def test_of_two_writes_to_one_place_the_later_stays():
    x = torch.zeros(2)
    same(x.scatter(0, torch.tensor([1, 1, 0], dtype=torch.int32), torch.tensor([1.0, 2.0, 3.0])),
         np.array([3, 2], np.float32))
    same(x.index_copy(0, torch.tensor([1, 1]), torch.tensor([4.0, 5.0])), np.array([0, 5], np.float32))


@pytest.mark.parametrize("mode, pads", [("reflect", (2, 1)), ("replicate", (3, 2)), ("circular", (1, 3)),
                                        ("replicate", (-1, 2)), ("reflect", (2, 1, 1, 3)),
                                        ("replicate", (2, 1, 0, 3)), ("circular", (2, 1, 1, 3))])
def test_the_gradient_of_a_pad_sums_the_copies_of_an_element(mode, pads):
    shape = (2, 3, 4, 5)[4 - len(pads) // 2 - 2:]
    place = torch.arange(float(np.prod(shape))).reshape(shape)
    x = torch.zeros(shape, requires_grad=True)
    g = values(F.pad(place, pads, mode=mode).shape)
    F.pad(x, pads, mode=mode).backward(torch.from_numpy(g))
    want = np.zeros(int(np.prod(shape)), np.float32)
    np.add.at(want, F.pad(place, pads, mode=mode).numpy().astype(int), g)
    same(x.grad, want.reshape(shape))


STATED = """
import numpy as np
import cresset as torch
x = np.arange(2 * 5 * 4.).reshape(2, 5, 4)
for k in range(-6, 7):
    for t, n in ((x, x), (x.transpose(0, 2, 1), x.transpose(0, 2, 1))):
        assert (torch.tril(torch.from_numpy(t), k).numpy() == np.tril(n, k)).all()
        assert (torch.triu(torch.from_numpy(t), k).numpy() == np.triu(n, k)).all()


# the sums of columns [n, c * kernel, blocks] at their blocks
def folded(columns, size, kernel, apart, pad, step, blocks):
    (h, w), (kh, kw) = size, kernel
    out = np.zeros((columns.shape[0], columns.shape[1] // (kh * kw), h + 2 * pad, w + 2 * pad), columns.dtype)
    parts = columns.reshape(columns.shape[0], -1, kh, kw, *blocks)
    for i, j in np.ndindex(kh, kw):
        out[:, :, i * apart:i * apart + blocks[0] * step:step, j * apart:j * apart + blocks[1] * step:step] += parts[:, :, i, j]
    return out[:, :, pad:pad + h, pad:pad + w]


rng = np.random.default_rng(3)
for size, kernel, apart, pad, step in (((4, 5), (2, 3), 1, 1, 1), ((9, 7), (3, 2), 2, 1, 2), ((8, 8), (4, 4), 1, 0, 4),
                                       ((2, 70), (1, 5), 1, 2, 3), ((3, 3), (5, 5), 1, 2, 1)):
    blocks = [(n + 2 * pad - apart * (k - 1) - 1) // step + 1 for n, k in zip(size, kernel)]
    for dtype in (np.float32, np.float64, np.complex64, np.complex128, np.int16, np.uint8, np.bool_):
        x = rng.integers(0, 7, (2, 3 * kernel[0] * kernel[1], blocks[0] * blocks[1])).astype(dtype)
        for t in (torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(x.swapaxes(1, 2))).transpose(1, 2)):
            got = torch.nn.functional.fold(t, size, kernel, apart, pad, step)
            want = folded(x, size, kernel, apart, pad, step, blocks)
            assert got.numpy().dtype == x.dtype and (got.numpy() == want).all(), (size, dtype)
"""


COMPOSED = """
import sys
import numpy as np
import cresset as torch
import cresset.nn.functional as F

ops = torch.ops.aten


def draw(*shape, dtype=torch.float32, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def numbers(below, *shape, seed=2):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def gradients(f, *args):
    args = [x.clone().requires_grad_() for x in args]
    out = f(*args)
    return torch.autograd.grad(out, args, draw(*out.shape, dtype=out.dtype, seed=9))


def seeded(f, *args, **kwargs):
    return f(*args, generator=torch.Generator().manual_seed(4), **kwargs)


def calls():
    mask, bags = numbers(2, 3, 4).bool(), torch.tensor([0, 3, 3, 7])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        one, weight = draw(5, 4, dtype=dtype), draw(4, dtype=dtype).abs()
        for x in (one, draw(4, 5, dtype=dtype).t(), one[:0], one[0]):
            target = numbers(4, x.shape[0]) if x.dim() == 2 else torch.tensor(2)
            for reduction in (0, 1, 2):
                for given in (None, weight):
                    yield lambda: ops.nll_loss_forward(x, target, given, reduction, 1)
                    grad = draw(x.shape[0], dtype=dtype) if reduction == 0 and x.dim() == 2 else draw(1, dtype=dtype)[0]
                    yield lambda: ops.nll_loss_backward(grad, x, target, given, reduction, 1, weight[1])
        table, rows = draw(6, 5, dtype=dtype), numbers(6, 3, 3)
        for padding in (None, 2):
            for scaled in (False, True):
                yield lambda: gradients(lambda w: F.embedding(rows, w, padding, scale_grad_by_freq=scaled), table)
                for mode in ("sum", "mean", "max"):
                    yield lambda: gradients(lambda w: F.embedding_bag(
                        rows.flatten(), w, bags, mode=mode, padding_idx=padding, scale_grad_by_freq=scaled), table)
        yield lambda: gradients(lambda w, s: F.embedding_bag(
            rows.flatten(), w, bags, mode="sum", per_sample_weights=s), table, draw(9, dtype=dtype))
        for shape in ((), (3, 17), (0, 3)):
            yield lambda: [seeded(torch.rand, shape, dtype=dtype), seeded(torch.randn, shape, dtype=dtype),
                           seeded(torch.randint, -3, 9, shape, dtype=dtype), seeded(torch.normal, 2., 3., shape, dtype=dtype)]
        x = draw(3, 4, dtype=dtype)
        yield lambda: [x.masked_select(mask), x[0].masked_select(mask), x.t().masked_select(mask.t())]
        yield lambda: [x.masked_scatter(mask, x), x.masked_scatter(mask[0], x), x.masked_scatter(mask & False, x[:0])]
        for repeats in (torch.tensor([1, 0, 2]), torch.tensor([2]), torch.zeros(3, dtype=torch.int32)):
            yield lambda: [x.repeat_interleave(repeats, 0), x.t().repeat_interleave(repeats, -1)]
        images = draw(2, 3, 7, 6, dtype=dtype)
        for window in ((2, 1, 0, 1), ((3, 2), 1, 1, 2), (2, 2, (1, 2), (2, 1))):
            yield lambda: [F.unfold(images, *window), F.unfold(images[0].transpose(1, 2), *window)]
        yield lambda: [torch.mv(x, weight), torch.mv(x[:, :3].t(), weight[:3]), torch.dot(weight, weight)]
        places = numbers(12, 2, 3, 2, 3)
        yield lambda: ops._pool_scatter(draw(2, 3, 2, 3, dtype=dtype), places, [2, 3, 3, 4], 2)
        yield lambda: [torch.bucketize(x, torch.tensor([-1., 0., 1.]), right=True), torch.bucketize(x[:0], weight)]
    for shape in ((3, 4, 0), (3, 4, 2), (3, 4, -2), (0, 4, 0), (5, 2, 9)):
        yield lambda: [torch.tril_indices(*shape), torch.triu_indices(*shape, dtype=torch.int32)]
    yield lambda: F.nll_loss(draw(3, 4), torch.tensor([1, 9, 2]))
    yield lambda: F.nll_loss(draw(3, 4), torch.tensor([1, -9, 2]), weight=draw(4))
    yield lambda: F.nll_loss(draw(3, 4), torch.tensor([1, 2, 2], dtype=torch.int32))
    yield lambda: ops.embedding_dense_backward(draw(3, 4), torch.tensor([1, 7, 2]), 5, -1, False)
    yield lambda: draw(3, 4).masked_scatter(mask | True, draw(1))
    yield lambda: ops._pool_scatter(draw(1, 3), torch.tensor([[0, 6, 1]]), [1, 5], 1)
    yield lambda: torch.bucketize(draw(3), draw(2, 2))
    yield lambda: torch.randint(300, (4,), dtype=torch.uint8)


def answers():
    for call in calls():
        try:
            got = call()
            yield [(str(x.dtype), x.double().numpy()) for x in (got if isinstance(got, (list, tuple)) else [got])]
        except Exception as error:
            yield repr(error)
"""


def test_compositions_beside_kernels_compute_the_same(tmp_path):
    write = COMPOSED + "import pickle\npickle.dump(list(answers()), open(sys.argv[1], 'wb'))"
    answers = []
    for stated in "01":
        path = str(tmp_path / stated)
        done = subprocess.run([sys.executable, "-c", write, path], env=dict(os.environ, CR_STATED=stated))
        assert done.returncode == 0
        with open(path, "rb") as f:
            answers.append(pickle.load(f))
    assert len(answers[0]) > 200
    for kernel, statement in zip(*answers):
        if isinstance(kernel, str) or isinstance(statement, str):
            assert kernel == statement
            continue
        for (dtype, want), (other, got) in zip(kernel, statement):
            near = 1e-2 if "bfloat16" in dtype else 1e-5 if "float32" in dtype else 1e-12
            assert dtype == other and want.shape == got.shape
            np.testing.assert_allclose(got, want, near, near)


def test_loops_beside_kernels_compute_the_same():
    done = subprocess.run([sys.executable, "-c", STATED], env=dict(os.environ, CR_STATED="1"))
    assert done.returncode == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_indices_without_elements_may_have_other_dims(dtype):
    x = torch.randn(5, dtype=dtype, requires_grad=True)
    index = torch.empty((2, 0), dtype=torch.uint8)
    picked = x.gather(0, index)
    assert picked.shape == (2, 0)
    assert torch.autograd.grad(picked, x, torch.ones_like(picked))[0].tolist() == [0] * 5
    assert torch.equal(x.scatter(0, index.long(), 7), x)


def test_diagonals_of_new_dims():
    x = values((2, 3, 4))
    for t in layouts(x):
        for offset in (-2, 0, 1):
            for one in range(-4, 4):
                for two in range(-4, 4):
                    if one % 4 != two % 4:
                        y = torch.diag_embed(t, offset, one, two).numpy()
                        same(torch.from_numpy(np.diagonal(y, offset, one, two).copy()), x)
                        assert np.count_nonzero(y) == np.count_nonzero(x)
    assert torch.diag_embed(torch.zeros(2, 0), 2).shape == (2, 2, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_with_a_part_replaced(dtype):
    x = values((3, 4, 5), dtype)
    for t in layouts(x):
        for dim in range(-3, 3):
            for index in (-3, 0, 2):
                part = [slice(None)] * 3
                part[dim] = index
                want = x.copy()
                src = want[tuple(part)] = values(want[tuple(part)].shape, dtype)
                for s in layouts(src):
                    same(torch.select_scatter(t, s, dim, index), want)
            for start, end, step in [(None, None, 1), (0, 0, 1), (1, None, 2), (-2, None, 1), (-9, 2, 1), (None, -1, 3)]:
                part[dim] = slice(start, end, step)
                want = x.copy()
                src = want[tuple(part)] = values(want[tuple(part)].shape, dtype)
                for s in layouts(src):
                    same(torch.slice_scatter(t, s, dim, start, end, step), want)
        for offset, one, two in [(0, 0, 1), (-1, 2, 0), (1, -1, 1), (3, 0, 1)]:
            want = x.copy()
            src = values(np.diagonal(x, offset, one, two).shape, dtype)
            y = torch.diagonal_scatter(t, torch.from_numpy(src), offset, one, two)
            same(y.diagonal(offset, one, two), src)
            mask = torch.diagonal_scatter(torch.ones(3, 4, 5), torch.zeros(src.shape), offset, one, two).numpy() == 1
            np.testing.assert_array_equal(y.numpy()[mask], want[mask])


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.complex128])
@pytest.mark.parametrize("size, step", [(1, 1), (2, 1), (3, 2), (2, 3), (3, 1)])
def test_windows_that_overlap_add_up(dtype, size, step):
    for dim in range(-3, 3):
        shape = (4, 5, 3)
        count = (shape[dim] - size) // step + 1
        sizes = list(shape)
        sizes[dim] = count
        g = values((*sizes, size), dtype)
        want = np.zeros(shape, dtype)
        for k in range(size):
            part = [slice(None)] * 3
            part[dim] = slice(k, k + (count - 1) * step + 1, step)
            want[tuple(part)] += g[..., k]
        for t in layouts(g):
            same(torch.unfold_backward(t, shape, dim, size, step), want)
    same(torch.unfold_backward(torch.ones(1), [], 0, 1, 1), np.float32(1))


@pytest.mark.parametrize("sizes, dim, size, step", [([5], 0, 2, 1), ([5], 1, 2, 1), ([5], 0, 2, 0), ([1], 0, 2, 1)])
def test_windows_that_are_not_those_of_the_sizes_are_refused(sizes, dim, size, step):
    with pytest.raises(RuntimeError, match="unfold_backward: grad_in has not the sizes of windows of input_sizes"):
        torch.unfold_backward(torch.ones(3, 2), sizes, dim, size, step)


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices_that_count_the_elements(dtype):
    x = values((3, 4, 5), dtype)
    for shape in [(), (7,), (2, 3), (2, 0), (2, 4, 0), (3, 0, 2)]:
        index = RNG.integers(-60, 60, shape)
        src = values(index.size, dtype)
        put, added = x.copy(), x.copy()
        for at, v in zip(index.flat, src):
            put.flat[at % 60] = v
            added.flat[at % 60] += v
        for t in layouts(x):
            for i in layouts(index):
                same(torch.take(t, i), np.take(x, index))
                for accumulate, want in [(False, put), (True, added)]:
                    same(t.put(i, torch.from_numpy(src), accumulate), want)
                    same(t.put(i, torch.zeros(i.shape, dtype=t.dtype).copy_(torch.from_numpy(src.reshape(shape))), accumulate), want)
                    base = torch.zeros(3, 4, 10, dtype=t.dtype)
                    same(base[..., ::2].copy_(t).put_(i, torch.from_numpy(src.reshape(shape)), accumulate), want)
                    assert not base[..., 1::2].any()


@pytest.mark.parametrize("call, text", [
    (lambda x: torch.take(x, torch.tensor([0, 12])), "tried to access index 12 on a tensor of 12 elements"),
    (lambda x: x.put_(torch.tensor([0, -13]), torch.ones(2)), "tried to access index -13 on a tensor of 12 elements"),
    (lambda x: torch.take(x[:0], torch.tensor([0])), r"take\(\): tried to take from an empty tensor"),
    (lambda x: x[:0].put_(torch.tensor([0]), torch.ones(1)), r"put_\(\): Tried to put elements into an empty tensor")])
def test_numbers_of_elements_outside(call, text):
    x = torch.zeros(3, 4)
    for t in (x, x.t()):
        with pytest.raises(IndexError, match=text):
            call(t)
    assert x.sum().item() == 0


def test_scatter_reduces_by_its_operation():
    x, index = values((4, 3)), RNG.integers(0, 4, (6, 3))
    src = values((6, 3))
    added, times = x.copy(), x.copy()
    for i in range(6):
        for j in range(3):
            added[index[i, j], j] += src[i, j]
            times[index[i, j], j] *= src[i, j]
    for t in layouts(x):
        i = torch.from_numpy(index)
        same(t.scatter(0, i, torch.from_numpy(src), reduce="add"), added)
        np.testing.assert_allclose(t.scatter(0, i, torch.from_numpy(src), reduce="multiply").numpy(), times, 1e-5)
        same(t.clone().scatter_(0, i, 2, reduce="add"),
             x + 2 * (index[:, :, None] == np.arange(4)).sum(0).T.astype(np.float32))


def test_elements_at_positions_in_planes():
    for dims, lead, plane, shape in [(1, (2, 3), (9,), (5,)), (2, (2, 3), (5, 6), (2, 4)), (3, (3,), (3, 4, 2), (2, 1, 3))]:
        x, index = values((*lead, *plane)), RNG.integers(0, np.prod(plane), (*lead, *shape))
        flat = (*lead, -1)
        want = np.take_along_axis(x.reshape(flat), index.reshape(flat), -1).reshape(index.shape)
        for t in layouts(x):
            for i in layouts(index):
                same(torch.ops.aten._pool_gather(t, i, dims), want)
        for bad in (-1, np.prod(plane)):
            index[..., -1] = bad
            sizes = "x".join(map(str, plane if dims > 1 else (*plane, 1)))
            with pytest.raises(RuntimeError, match=rf"Found an invalid max index: {bad} \(output volumes are of size {sizes}\)"):
                torch.ops.aten._pool_gather(torch.from_numpy(x), torch.from_numpy(index), dims)


def test_one_hot_rows():
    for shape in [(), (4,), (2, 3), (2, 0)]:
        index = RNG.integers(0, 5, shape)
        for i in layouts(index):
            same(F.one_hot(i, 6), np.eye(6, dtype=np.int64)[index])
    assert F.one_hot(torch.tensor([1, 3])).tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]
    for bad, text in [(-1, "non-negative"), (3, "smaller than num_classes")]:
        with pytest.raises(RuntimeError, match=f"Class values must be {text}."):
            F.one_hot(torch.tensor([1, bad]), 3)


def test_ones_on_the_diagonal():
    for n, m in [(0, 0), (1, 1), (3, 5), (5, 3), (0, 4), (100, 7)]:
        for dtype in DTYPES:
            same(torch.eye(n, m, dtype=torch.from_numpy(np.zeros(1, dtype)).dtype), np.eye(n, m, dtype=dtype))
        out = torch.full((2 * n, m), 7.0)[::2]
        same(torch.eye(n, m, out=out), np.eye(n, m, dtype=np.float32))
    same(torch.eye(4), np.eye(4, dtype=np.float32))


@pytest.mark.parametrize("shape", [(2, 0), (2, 4, 0), (3, 4, 0, 1)])
def test_numbers_without_elements_pick_nothing(shape):
    x = torch.ones(3, 4, requires_grad=True)
    picked = torch.take(x, torch.zeros(shape, dtype=torch.int64))
    picked.backward(torch.ones(shape))
    assert picked.shape == shape and x.grad.tolist() == [[0] * 4] * 3


@pytest.mark.parametrize("shape, call", [
    ((3, 4), lambda x: torch.diag_embed(x, 1, 0, 2)),
    ((3, 4), lambda x: torch.take(x, torch.tensor([[0, -1], [5, 5]]))),
    ((3, 4), lambda x: torch.zeros(3, 4, dtype=x.dtype).put(torch.arange(12) * 5 % 12, x, True)),
    ((4,), lambda x: torch.select_scatter(torch.zeros(3, 4, dtype=x.dtype), x, 0, 1)),
    ((3, 2), lambda x: torch.slice_scatter(torch.zeros(3, 4, dtype=x.dtype), x, 1, 1, None, 2)),
    ((3,), lambda x: torch.diagonal_scatter(torch.zeros(3, 4, dtype=x.dtype), x, 1)),
    ((6, 3, 2), lambda x: torch.unfold_backward(x, [7, 3], 0, 2, 1)),
    ((2, 3, 9), lambda x: torch.ops.aten._pool_gather(x, torch.tensor([8, 0, 8]).expand(2, 3, 3), 1)),
    ((3, 4), lambda x: x.roll((1, 2), (0, 1))),
    ((3, 4), lambda x: F.pad(x, (2, 1), mode="reflect"))])
def test_the_gradient_is_the_transposed_loop(shape, call):
    x = torch.from_numpy(values(shape, np.float64)).requires_grad_()
    y = call(x)
    g = torch.from_numpy(values(tuple(y.shape), np.float64))
    y.backward(g)
    assert (y.detach() * g).sum().item() == (x.detach() * x.grad).sum().item()
    assert y.detach().any() and x.grad.any()


def combined(x, dim, index, source, fn, start, mean):
    """The elements of source combined into x by a loop over its places; a mean when asked."""
    out, count = x.copy(), np.ones(x.shape, np.int64)
    places = [(at, at[:dim] + (int(index[at]),) + at[dim + 1:]) for at in np.ndindex(source.shape)]
    if start is not None:
        for _, to in places:
            out[to], count[to] = start, 0
    for at, to in places:
        out[to] = fn(out[to], source[at])
        count[to] += 1
    divide = np.floor_divide if x.dtype.kind == "i" else np.divide
    return divide(out, np.maximum(count, 1)).astype(x.dtype) if mean else out


REDUCTIONS = {"sum": (np.add, 0), "prod": (np.multiply, 1), "mean": (np.add, 0), "amax": (np.maximum, None),
              "amin": (np.minimum, None)}


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("dtype", [np.int16, np.float64])
def test_reductions_start_from_self_only_when_asked(reduce, keep, dtype):
    fn, start = REDUCTIONS[reduce]
    x, source = RNG.integers(-5, 5, (3, 4, 2)).astype(dtype), RNG.integers(-5, 5, (3, 6, 2)).astype(dtype)
    if start is None:
        start = (-1 if reduce == "amax" else 1) * (np.inf if dtype == np.float64 else 32767) - (
            reduce == "amax" and dtype == np.int16)
    start = None if keep else start
    index, line = RNG.integers(0, 3, (3, 6, 2)), RNG.integers(0, 3, 6)
    want = combined(x, 1, index, source, fn, start, reduce == "mean")
    lines = combined(x, 1, np.broadcast_to(line[:, None], source.shape), source, fn, start, reduce == "mean")
    for t in list(layouts(x.copy())):
        same(torch.scatter_reduce(t, 1, torch.from_numpy(index), torch.from_numpy(source), reduce, include_self=keep), want)
        if reduce != "sum":
            same(torch.index_reduce(t, 1, torch.from_numpy(line), torch.from_numpy(source), reduce, include_self=keep), lines)
            t.index_reduce_(1, torch.from_numpy(line.astype(np.int32)), torch.from_numpy(source), reduce, include_self=keep)
            same(t, lines)


def test_nothing_is_reduced_when_an_index_is_outside():
    x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 1 with size 3"):
        x.scatter_reduce_(1, torch.tensor([[0, 1, 3]]), torch.ones(1, 3), "mean", include_self=False)
    with pytest.raises(IndexError, match="index out of range in self"):
        x.index_reduce_(1, torch.tensor([0, -1]), torch.ones(2, 2), "prod", include_self=False)
    same(x, np.zeros((2, 3), np.float32))


def test_indices_from_the_end_are_found_among_others():
    x = values((4, 5))
    index = np.array([[3, -1, 19], [-20, 0, 7]])
    for t in layouts(x):
        same(torch.take(t, torch.from_numpy(index)), np.take(x, index))
        given = torch.from_numpy(index.copy())
        put = x.ravel().copy()
        np.add.at(put, index, 2)
        same(t.put(given, torch.full((2, 3), 2.), accumulate=True), put.reshape(4, 5))
        same(given, index)
        same(t.index_fill(1, torch.tensor([1, -1]), 9.), np.where(np.arange(5) % 3 == 1, 9, x).astype(np.float32))
        for outside in (20, -21):
            out = t.clone()
            with pytest.raises(IndexError, match="out of range"):
                torch.take(t, torch.tensor([0, -1, outside]))
            with pytest.raises(IndexError, match="out of range"):
                out.put_(torch.tensor([0, -1, outside]), torch.ones(3))
            same(out, x)


def average(x, kernel, step, pad, count_pad, places):
    """Averages of windows along the last dim, from the definition."""
    out = []
    for p in range(places):
        low, high = p * step - pad, min(p * step - pad + kernel, x.shape[-1] + pad)
        part = x[..., max(low, 0):max(min(high, x.shape[-1]), 0)]
        count = high - low if count_pad else part.shape[-1]
        out.append(part.sum(-1) / count if part.shape[-1] else np.zeros(x.shape[:-1]))
    return np.stack(out, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("size, kernel, step, pad", [(9, 3, 2, 1), (9, 3, 1, 0), (5, 8, 3, 4), (700, 5, 4, 2),
                                                     (60, 2, 2, 0), (64, 33, 1, 16), (7, 2, 5, 1)])
def test_averages_of_windows(dtype, size, kernel, step, pad):
    x = values((2, 3, size)).astype(dtype)
    for ceil in (False, True):
        for count_pad in (False, True):
            for t in layouts(x):
                got = F.avg_pool1d(t, kernel, step, pad, ceil, count_pad)
                want = average(x.astype(np.float64), kernel, step, pad, count_pad, got.shape[-1])
                np.testing.assert_allclose(got.double().numpy(), want, rtol=2e-3 if dtype == np.float16 else 1e-6,
                                           atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("kernel, step, pad, apart", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (5, 3, 2, 1)])
def test_extremes_of_windows_and_their_places(dtype, kernel, step, pad, apart):
    x = values((2, 3, 17, 40)).astype(dtype)
    x[..., ::3] = x[..., 1::3][..., :x[..., ::3].shape[-1]][..., :1]
    places = [(n + 2 * pad - apart * (kernel - 1) - 1) // step + 1 for n in x.shape[2:]]
    at = [[[p * step - pad + k * apart for k in range(kernel) if 0 <= p * step - pad + k * apart < n]
           for p in range(count)] for n, count in zip(x.shape[2:], places)]
    for t in layouts(x):
        got, index = F.max_pool2d(t, kernel, step, pad, apart, return_indices=True)
        for y, rows in enumerate(at[0]):
            for z, columns in enumerate(at[1]):
                part = x[:, :, rows][..., columns].reshape(2, 3, -1)
                best = part.argmax(-1)
                numbers = np.array([r * 40 + c for r in rows for c in columns])
                np.testing.assert_array_equal(got.numpy()[:, :, y, z], part.max(-1))
                np.testing.assert_array_equal(index.numpy()[:, :, y, z], numbers[best])


@pytest.mark.parametrize("layer", [lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 2, 3, 1, True, False),
                                   lambda x: F.adaptive_avg_pool2d(x, (5, 3)), lambda x: F.avg_pool2d(x, 5, 1, 2, divisor_override=7),
                                   lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.adaptive_avg_pool2d(x, (20, 9))])
def test_threads_change_no_bit_of_windows(layer):
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        x = torch.linspace(-3, 4, 8 * 16 * 13 * 17).reshape(8, 16, 13, 17).sin().requires_grad_()
        y = layer(x)
        y.backward(torch.ones_like(y).cumsum(-1))
        results.append((y.detach().numpy(), x.grad.numpy()))
    torch.set_num_threads(1)
    for y, grad in results[1:]:
        np.testing.assert_array_equal(y, results[0][0])
        np.testing.assert_array_equal(grad, results[0][1])


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_lists_are_pieces_along_any_dim(dim):
    arrays = [values((3, 4), dtype) for dtype in (np.float32, np.int16, np.float32)]
    for strided in zip(*map(layouts, arrays)):
        same(torch.stack(strided, dim), np.stack(arrays, dim).astype(np.float32))
        if dim < 2:
            same(torch.cat(strided + (torch.zeros(0),), dim), np.concatenate(arrays, dim).astype(np.float32))


@pytest.mark.parametrize("dim", [0, 1])
def test_threads_share_pieces(dim):
    arrays = [values((512, 300)) for _ in range(6)]
    tensors = [torch.from_numpy(a) for a in arrays]
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        same(torch.cat(tensors, dim), np.concatenate(arrays, dim))
        same(torch.stack(tensors, dim), np.stack(arrays, dim))
        same(torch.cat(tensors[:5] + [tensors[5][:1]], 0), np.concatenate(arrays[:5] + [arrays[5][:1]]))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_a_stack_is_read_in_groups(dim):
    def scaled(a, b):
        return (torch.stack([a, b], dim) * 2 + 1).sum(-1)

    a, b = torch.from_numpy(values((24, 130))), torch.from_numpy(values((130, 24))).t()
    same(torch.compile(scaled)(a, b), scaled(a, b).numpy())


@pytest.mark.parametrize("dtype", [np.int16, np.float64, np.complex128])
def test_what_is_scattered_takes_the_dtype_of_self(dtype):
    x, row = values((3, 4)), values(4, dtype)
    want = x.copy()
    want[1] = row.real
    for t in layouts(x):
        same(torch.select_scatter(t, torch.from_numpy(row), 0, -2), want)
        same(torch.slice_scatter(t, torch.from_numpy(row[None]), 0, 1, 2), want)
    same(torch.diagonal_scatter(torch.from_numpy(x), torch.from_numpy(row[:3]), 1),
         np.where(np.eye(3, 4, 1) > 0, np.roll(row.real, 1), x).astype(np.float32))


def test_derivatives_of_scatters_have_the_dtypes_of_their_arguments():
    x, row = torch.ones(3, 4, requires_grad=True), torch.ones(4, dtype=torch.float64, requires_grad=True)
    y = torch.select_scatter(x, row, 0, 1)
    (y * torch.arange(12.).reshape(3, 4)).sum().backward()
    same(row.grad, np.arange(4.) + 4)
    same(x.grad, np.where(np.arange(3)[:, None] == 1, 0, np.arange(12.).reshape(3, 4)).astype(np.float32))


@pytest.mark.parametrize("size, stride, offset", [((2, 3), (4, 1), 1), ((3,), (0,), 2), ((), (), 3), ((2, 1, 2), (3, 7, 1), 0),
                                                  ((2, 2), (1, 1), None), ((0, 2), (1, 1), 5)])
def test_scattered_elements_are_numbered_by_strides(size, stride, offset):
    x, source = values((3, 4)), np.asarray(values(size, np.int16))
    want = x.copy()
    for at in np.ndindex(size):
        want.flat[(offset or 0) + sum(i * s for i, s in zip(at, stride))] = source[at]
    for t in layouts(x):
        same(torch.as_strided_scatter(t, torch.from_numpy(source), size, stride, offset), want)


def test_the_gradient_of_as_strided_scatter_is_torchs():
    x, source = torch.ones(3, 4, requires_grad=True), torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    y = torch.as_strided_scatter(x, source, (2, 2), (4, 1), 1)
    (y * torch.arange(12.).reshape(3, 4)).sum().backward()
    same(source.grad, np.array([[1., 2.], [5., 6.]]))
    same(x.grad, np.array([[0, 1, 2, 0], [0, 5, 6, 0], [0, 0, 0, 0]], np.float32))


LIMITS = """
import cresset as torch
x = torch.arange(12.).view(3, 4)
for d in (2 ** 63 - 1, 2 ** 63 - 2, -2 ** 63, -2 ** 63 + 1):
    assert torch.equal(torch.tril(x, d), x if d > 0 else torch.zeros_like(x)), d
    assert torch.equal(torch.triu(x, d), x if d < 0 else torch.zeros_like(x)), d
"""


def test_diagonals_at_the_limits_of_integers():
    done = subprocess.run([sys.executable, "-c", LIMITS], env=dict(os.environ, CR_STATED="1"))
    assert done.returncode == 0


def test_divisors_of_integers_are_exact():
    x = torch.full((1, 1, 3), 2 ** 62 + 1)
    assert F.avg_pool2d(x[None], (1, 1), divisor_override=2 ** 62 + 1).flatten().tolist() == [1, 1, 1]
    assert F.avg_pool2d(x[None] - 1, (1, 1), divisor_override=2 ** 62 + 1).flatten().tolist() == [0, 0, 0]


def test_plans_of_long_windows_are_dropped():
    F.avg_pool1d(torch.ones(1, 1, 999), 3, padding=1)
    assert 0 < torch._C._stated_kept_bytes() < 1 << 23
    for n in range(2_000_000, 2_000_004):
        F.avg_pool1d(torch.ones(1, 1, n), 3, padding=1, stride=1)
        assert torch._C._stated_kept_bytes() <= 1 << 23
