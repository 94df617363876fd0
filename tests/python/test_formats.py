"""Strides and memory formats of results: of dims of one element, and of channels_last arguments."""
import pytest

import cresset as torch
import cresset.nn.functional as F


@pytest.mark.parametrize("sizes, strides", [((3, 1, 5), (5, 5, 1)), ((1, 3, 1, 4), (12, 4, 4, 1)), ((0, 3), (3, 1)), ((1,), (1,))])
def test_dlpack_keeps_strides(sizes, strides):
    x = torch.zeros(*sizes)
    assert torch.from_dlpack(x).stride() == strides
    assert torch.from_dlpack(x.transpose(0, -1)).stride() == x.transpose(0, -1).stride()


@pytest.mark.parametrize("sizes, strides", [((1, 3, 1, 1), (3, 1, 3, 3)), ((2, 1, 4, 5), (20, 1, 5, 1)), ((2, 3, 1, 5), (15, 1, 15, 3)),
                                            ((2, 3, 4, 5), (60, 1, 15, 3))])
def test_conversion_to_channels_last(sizes, strides):
    x = torch.zeros(*sizes)
    y = x.to(memory_format=torch.channels_last)
    assert y.stride() == strides and y.is_contiguous(memory_format=torch.channels_last)
    assert y.to(memory_format=torch.channels_last) is y
    assert torch.nn.Conv2d(3, 2, 1).to(memory_format=torch.channels_last).weight.stride() == (3, 1, 3, 3)
    z = torch.zeros(*sizes, 2).to(memory_format=torch.channels_last_3d)
    assert z.stride() == torch.empty(*sizes, 2, memory_format=torch.channels_last_3d).stride()


INDEX = torch.tensor([1, 0])
IMAGES = {
    "convolution": lambda x: F.conv2d(x, torch.ones(3, x.shape[1], 3, 3), padding=1),
    "weight": lambda x: F.conv2d(x.contiguous(), torch.ones(3, x.shape[1], 3, 3).to(memory_format=torch.channels_last)),
    "transposed": lambda x: F.conv_transpose2d(x, torch.ones(x.shape[1], 3, 3, 3)),
    "groups": lambda x: F.conv2d(x, torch.ones(x.shape[1], 1, 3, 3), groups=x.shape[1]),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "antialias": lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "max_pool_index": lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, 2),
    "constant": lambda x: F.pad(x, (1, 1, 0, 1)),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "cat": lambda x: torch.cat([x, x], 1),
    "group_norm": lambda x: F.group_norm(x, 2),
    "group_norm_weight": lambda x: F.group_norm(x, 2, torch.ones(x.shape[1]), torch.ones(x.shape[1])),
    "pixel_shuffle": lambda x: F.pixel_shuffle(torch.cat([x, x], 1), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(F.interpolate(x, scale_factor=2), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "roll": lambda x: x.roll(1, 2),
    "flip": lambda x: x.flip(2),
    "sort": lambda x: x.sort(1)[0],
    "put": lambda x: x.put(INDEX, torch.ones(2)),
    "index_put": lambda x: x.index_put((INDEX,), torch.ones(())),
    "index_fill": lambda x: x.index_fill(2, INDEX, 3.0),
}
VOLUMES = {
    "convolution": lambda x: F.conv3d(x, torch.ones(3, x.shape[1], 1, 1, 1)),
    "trilinear": lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
    "max_pool": lambda x: F.max_pool3d(x, 2),
    "constant": lambda x: F.pad(x, (1, 1)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "cat": lambda x: torch.cat([x, x], 0),
}


@pytest.mark.parametrize("function", IMAGES.values(), ids=IMAGES)
@pytest.mark.parametrize("backend", ["eager", "compiled", "meta"])
def test_results_of_channels_last(function, backend):
    x = torch.randn(2, 4, 6, 5).to(memory_format=torch.channels_last)
    run = torch.compile(function) if backend == "compiled" else function
    if backend == "meta":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "ones", lambda *size: torch.empty(*size, device="meta"))
            patch.setitem(globals(), "INDEX", torch.empty(2, dtype=torch.int64, device="meta"))
            assert function(x.to("meta")).is_contiguous(memory_format=torch.channels_last)
        return
    for _ in range(3):
        y = run(x)
        assert y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
    assert torch.equal(y, function(x.contiguous()))
    half = x[:, :, ::2]
    assert function(half).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("function", VOLUMES.values(), ids=VOLUMES)
def test_results_of_channels_last_3d(function):
    x = torch.randn(2, 4, 4, 6, 5).to(memory_format=torch.channels_last_3d)
    y = function(x)
    assert y.is_contiguous(memory_format=torch.channels_last_3d) and not y.is_contiguous()
    assert torch.equal(y, function(x.contiguous()))


def test_an_average_of_each_channel_keeps_the_format():
    x = torch.randn(2, 4, 6, 5)
    assert F.adaptive_avg_pool2d(x, 1).stride() == (4, 1, 1, 1)
    assert F.adaptive_avg_pool2d(x.to(memory_format=torch.channels_last), 1).stride() == (4, 1, 4, 4)


def test_results_of_mixed_formats_are_row_major():
    x = torch.randn(2, 4, 6, 5).to(memory_format=torch.channels_last)
    assert torch.cat([x, x.contiguous()], 1).is_contiguous()
    assert F.avg_pool3d(torch.zeros(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d), 2).is_contiguous()
    assert torch.conv2d(torch.zeros(2, 1, 4, 4), torch.zeros(3, 1, 2, 2)).is_contiguous()


@pytest.mark.parametrize("function", [f for n, f in IMAGES.items() if "index" not in n and n != "put"],
                         ids=[n for n in IMAGES if "index" not in n and n != "put"])
def test_gradients_of_channels_last(function):
    x = torch.randn(2, 4, 6, 5, dtype=torch.float64)
    y = x.to(memory_format=torch.channels_last)
    for leaf in (x, y):
        leaf.requires_grad_(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "ones", lambda *size: torch.full(size, 1.0, dtype=torch.float64))
        a, b = function(x), function(y)
        w = torch.randn(a.shape, dtype=torch.float64)
        ga, = torch.autograd.grad((a * w).sum(), x)
        gb, = torch.autograd.grad((b * w).sum(), y)
    assert torch.allclose(ga, gb, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (1, 3, 4, 5)])
def test_gradients_of_resampled_images_keep_the_format(mode, sizes):
    x = torch.randn(sizes).to(memory_format=torch.channels_last).requires_grad_()
    grad, = torch.autograd.grad(F.interpolate(x, scale_factor=2, mode=mode).pow(2).sum(), x)
    assert grad.stride() == x.stride()


@pytest.mark.parametrize("function", [lambda x: F.pixel_shuffle(x, 1), lambda x: F.pixel_unshuffle(x, 1), lambda x: F.channel_shuffle(x, 1),
                                      lambda x: F.pixel_shuffle(x[:, :4, :1, :1], 2), lambda x: F.pixel_unshuffle(x[:, :, :2, :2], 2)])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (1, 0, 2, 3)])
def test_shuffles_are_copies_where_nothing_moves(function, order):
    x = torch.arange(2 * 4 * 6 * 6.0).reshape(2, 4, 6, 6).permute(order).contiguous().permute(*(order.index(d) for d in range(4)))
    kept, compiled = x.clone(), torch.compile(function)
    for run in (function, compiled, compiled, compiled):
        y = run(x)
        y.add_(1)
        assert torch.equal(x, kept) and torch.equal(y, function(kept) + 1)
        assert y.is_contiguous(memory_format=torch.channels_last if order == (0, 2, 3, 1) else torch.contiguous_format)


@pytest.mark.parametrize("function", [lambda x: F.pixel_shuffle(x, 1), lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 1),
                                      lambda x: F.channel_shuffle(x, 1), lambda x: F.group_norm(x, 2)])
def test_shuffles_and_group_norm_of_batches(function):
    x = torch.randn(3, 2, 4, 6, 6)
    each = torch.stack([function(t) for t in x])
    rows = x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    for batch, d in ((x, 0), (rows, 0), (x.permute(1, 2, 3, 4, 0), -1), (rows.permute(1, 2, 3, 4, 0).contiguous(), -1)):
        assert torch.allclose(torch.vmap(function, in_dims=d)(batch), each, atol=1e-6)
    y = torch.vmap(function)(rows)
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in y)


@pytest.mark.parametrize("ndim, layout", [(4, torch.channels_last), (5, torch.channels_last_3d)])
def test_memory_formats_of_batches(ndim, layout):
    x = torch.arange(2.0 * 3 ** ndim).reshape(2, *[3] * ndim)
    makers = [lambda t: t.clone(memory_format=layout), lambda t: t.to(torch.float64, memory_format=layout),
              lambda t: t.contiguous(memory_format=layout), lambda t: torch.full_like(t, 2, memory_format=layout)]
    for make in makers:
        y, each = torch.vmap(make)(x), [make(t) for t in x]
        assert torch.equal(y, torch.stack(each)) and y.dtype == each[0].dtype
        assert all(t.stride() == e.stride() for t, e in zip(y, each))
        with pytest.raises(RuntimeError, match="required rank"):
            torch.vmap(make)(x[0])


@pytest.mark.parametrize("dim, strides", [(0, (120, 60, 1, 15, 3)), (1, (120, 3, 1, 30, 6)), (2, (120, 1, 60, 15, 3)),
                                          (3, (120, 1, 30, 15, 3)), (4, (120, 40, 10, 2, 1)), (-5, (120, 60, 1, 15, 3))])
def test_stacked_images(dim, strides):
    x = torch.arange(120.).reshape(2, 3, 4, 5)
    y = x.to(memory_format=torch.channels_last)
    made = torch.stack([y, y + 1], dim)
    assert made.stride() == strides and torch.equal(made, torch.stack([x, x + 1], dim))
    assert torch.stack([x, y], dim).is_contiguous() and torch.stack([y[:, :1], y[:, :1]]).is_contiguous()
    z = torch.zeros(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    assert torch.stack([z, z]).stride() == (720, 360, 1, 90, 18, 3) and torch.stack([z, z], 4).stride() == (720, 1, 180, 36, 18, 3)
    compiled = torch.compile(lambda a: torch.stack([a, a + 1], dim))(y)
    assert torch.equal(compiled, made) and compiled.stride() == strides


def test_vectors_of_places_are_contiguous():
    x = torch.tensor([[0., 2., 0.], [3., 0., 4.]])
    for found in (torch.where(x), torch.nonzero(x, as_tuple=True), x.nonzero(as_tuple=True)):
        assert [i.tolist() for i in found] == [[0, 1, 1], [1, 0, 2]] and all(i.stride() == (1,) for i in found)
    assert torch.where(torch.tensor(3.))[0].tolist() == [0]


def test_rows_without_columns_take_no_time():
    assert torch.nonzero_static(torch.tensor(3.0), size=2 ** 62).shape == (2 ** 62, 0)


def test_scatter_reduce_takes_both_names():
    x, index, source = torch.tensor([1., 5., 2.]), torch.tensor([0, 1, 1]), torch.tensor([3., 4., 6.])
    for short, long in (("max", "amax"), ("min", "amin")):
        for kept in (True, False):
            a, b = ([t.clone().requires_grad_() for t in (x, source)] for _ in range(2))
            first = a[0].scatter_reduce(0, index, a[1], short, include_self=kept)
            second = b[0].scatter_reduce(0, index, b[1], long, include_self=kept)
            assert torch.equal(first, second)
            first.sum().backward(), second.sum().backward()
            assert torch.equal(a[0].grad, b[0].grad) and torch.equal(a[1].grad, b[1].grad)


@pytest.mark.parametrize("call", [
    lambda x: torch.rot90(x, 0, (0, 1)), lambda x: torch.narrow_copy(x, 0, 1, 2), lambda x: torch.view_copy(x, (4, 15))])
def test_copies_are_row_major(call):
    x = torch.arange(60.).reshape(3, 4, 5).permute(2, 1, 0)
    y = call(x)
    assert y.is_contiguous() and torch.equal(y, call(x.contiguous()))


def test_positions_of_any_integers():
    x = torch.tensor([[3, 8, 13], [0, 5, 255]], dtype=torch.uint8)
    rows, columns = torch.unravel_index(x, (100, 5))
    assert rows.dtype == columns.dtype == torch.int64 and torch.equal(rows * 5 + columns, x.long()) and rows.stride() == (6, 2)
    assert [v.item() for v in torch.unravel_index(torch.tensor(7), 10)] == [7]


LAYOUTS = {"transposed": lambda: torch.arange(6.).reshape(2, 3).t(),
           "channels_last": lambda: torch.arange(24.).reshape(2, 3, 2, 2).to(memory_format=torch.channels_last),
           "reversed": lambda: torch.arange(24.).reshape(2, 3, 4).permute(2, 1, 0)}
WRITTEN = {"add": lambda x, out: torch.add(x, x, out=out), "mul": lambda x, out: torch.mul(x, 2, out=out),
           "where": lambda x, out: torch.where(x > 1, x, x, out=out), "lerp": lambda x, out: torch.lerp(x, x, 0.5, out=out),
           "cat": lambda x, out: torch.cat([x], out=out), "sigmoid": lambda x, out: torch.sigmoid(x, out=out)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITTEN)
def test_tensors_given_as_out_get_strides_of_the_result(name, layout):
    x, call = LAYOUTS[layout](), WRITTEN[name]
    plain = call(x, None)
    for given in (torch.empty(0), torch.empty(30)[:0]):
        out = call(x, given)
        assert out is given and out.stride() == plain.stride() and torch.equal(out, plain)
    kept = call(x, torch.empty(x.shape))  # a tensor of these sizes keeps its strides
    assert kept.is_contiguous() and torch.equal(kept, plain)
    row_major = torch.sum(x, 0, out=torch.empty(0))
    assert row_major.is_contiguous() and torch.equal(row_major, x.sum(0))
    compiled = torch.compile(lambda x: call(x, torch.empty(0)))(x)
    assert compiled.stride() == plain.stride() and torch.equal(compiled, plain)
    assert name == "cat" or plain.stride() == x.stride()


PICKED = {
    "first": ("channels_last", lambda x: x[INDEX], (12, 1, 6, 3)), "third": ("channels_last", lambda x: x[:, :, INDEX], (12, 1, 3, 6)),
    "last": ("channels_last", lambda x: x[..., INDEX], (12, 2, 6, 1)),
    "matrix": ("channels_last", lambda x: x[torch.stack([INDEX, INDEX])], (24, 12, 1, 6, 3)),
    "two": ("channels_last", lambda x: x[INDEX, :, INDEX], (6, 1, 3)),
    "mask": ("channels_last", lambda x: x[torch.tensor([True, False])], (12, 1, 6, 3)),
    "turned": ("transposed", lambda x: x[torch.tensor([[1, 0], [2, 2]]).t()], (2, 4, 1)),
    "reversed": ("reversed", lambda x: x[:, :, INDEX], (2, 8, 1)),
}


@pytest.mark.parametrize("case", PICKED)
def test_results_of_indexing_have_the_order_of_strides(case):
    layout, pick, strides = PICKED[case]
    x = LAYOUTS[layout]()
    picked, compiled = pick(x), torch.compile(pick)(x)
    assert picked.stride() == strides and torch.equal(picked, pick(x.contiguous()))
    assert compiled.stride() == strides and torch.equal(compiled, picked)
    x.requires_grad_()
    assert torch.equal(torch.autograd.grad(pick(x).sum(), x)[0], torch.autograd.grad(pick(x.contiguous()).sum(), x)[0])


@pytest.mark.parametrize("make", [torch.complex, torch.polar])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_complex_numbers_have_the_layout_of_their_parts(layout, make):
    x = LAYOUTS[layout]()
    for dtype in (torch.float32, torch.float64):
        a, b = x.to(dtype).requires_grad_(), (x.to(dtype) / 3).requires_grad_()
        z, plain = make(a, b), make(a.contiguous(), b.contiguous())
        assert z.stride() == x.stride() and torch.allclose(z, plain) and z.dtype == plain.dtype
        assert torch.allclose(make(a, b.detach()[..., :1]), make(a, b.detach()[..., :1].expand_as(b).contiguous()))
    assert torch.autograd.gradcheck(make, (a, b))
    x, out = x.detach(), torch.empty(0, dtype=torch.complex64)
    assert torch.complex(x, x, out=out) is out and torch.equal(out, torch.complex(x, x))
    with pytest.raises(RuntimeError, match="Expected object of scalar type ComplexFloat but got scalar type Float for argument 'out'"):
        torch.complex(x, x, out=torch.empty(0))


@pytest.mark.parametrize("of", [torch.unique, torch.unique_consecutive])
def test_slices_of_unique_lie_one_after_another(of):
    x = torch.arange(24).reshape(2, 3, 4)
    for y in (x, x.permute(2, 0, 1), x.permute(2, 1, 0)):
        for dim in range(3):
            found = of(y, dim=dim)
            assert found.movedim(dim, 0).is_contiguous() and torch.equal(found, y)
