"""Reductions over an empty list of dims: all() and any() reduce nothing, all others reduce all dims."""
import pytest

import cresset as torch

INPUTS = {"matrix": lambda: torch.tensor([[1., 0., 2.], [float("nan"), -3., 4.]]), "scalar": lambda: torch.tensor(0.),
          "nothing": lambda: torch.zeros(0, 3), "transposed": lambda: torch.arange(8.).reshape(2, 2, 2).permute(2, 0, 1)}
DTYPES = (torch.float32, torch.float16, torch.bool, torch.uint8, torch.int64, torch.complex64)


@pytest.mark.parametrize("empty", [(), []])
@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("shape", INPUTS)
def test_all_and_any_of_no_dims_are_elementwise(shape, name, empty):
    of, aten = getattr(torch, name), getattr(torch.ops.aten, name)
    for dtype in DTYPES:
        x = torch.nan_to_num(INPUTS[shape](), 7.).to(dtype)
        right = (x != 0).to(torch.uint8 if dtype is torch.uint8 else torch.bool).contiguous()
        calls = [lambda x: of(x, dim=empty), lambda x: of(x, dim=empty, keepdim=True), lambda x: of(x, axis=empty),
                 lambda x: getattr(x, name)(empty), lambda x: aten.dims(x, empty)]
        for call in calls:
            made = call(x)
            assert made.dtype == right.dtype and torch.equal(made, right) and made.is_contiguous()
            assert call(x.to("meta")).shape == x.shape
        assert torch.equal(torch.compile(calls[0])(x), right)
        if x.dim():
            assert torch.equal(torch.func.vmap(calls[0])(x), right)
        given = torch.empty_like(right)
        assert of(x, dim=empty, out=given) is given and torch.equal(given, right)
        assert of(x).dim() == 0 and of(x, dim=None, keepdim=True).shape == (1,) * x.dim()


OTHERS = {"sum": torch.sum, "nansum": torch.nansum, "mean": torch.mean, "nanmean": torch.nanmean, "amax": torch.amax, "amin": torch.amin,
          "var": torch.var, "std": torch.std, "logsumexp": torch.logsumexp, "norm": lambda x, dim, **k: torch.norm(x, 2, dim, **k),
          "vector_norm": lambda x, dim, **k: torch.linalg.vector_norm(x, 3, dim, **k), "masked": torch.masked.sum,
          "masked_var": torch.masked.var}


@pytest.mark.parametrize("empty", [(), []])
@pytest.mark.parametrize("name", OTHERS)
def test_others_reduce_all_dims(name, empty):
    x = INPUTS["transposed"]().requires_grad_()
    right = OTHERS[name](x, (0, 1, 2))
    made, kept = OTHERS[name](x, empty), OTHERS[name](x, empty, keepdim=True)
    assert made.shape == () and kept.shape == (1, 1, 1)
    assert torch.equal(made, right) and torch.equal(kept.reshape(()), right)
    assert torch.equal(*(torch.autograd.grad(r, x)[0] for r in (made, right)))


def test_messages_name_the_function():
    for of in (torch.var_mean, torch.std_mean):
        with pytest.raises(RuntimeError, match=f"^{of.__name__} only support floating point and complex dtypes"):
            of(torch.ones(2, dtype=torch.int64), dim=())
    with pytest.raises(ValueError, match=r"^mean\(\): Could not infer output dtype"):
        torch.masked.mean(torch.ones(2, dtype=torch.int64))
    assert torch.masked.var(torch.ones(2) + 0j).dtype == torch.complex64
