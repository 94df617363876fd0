"""Libraries whose containers go through vmap replace its steps and make batches by hand."""
import pytest

import cresset as torch
from cresset._C import _functorch as batches
from cresset._functorch import vmap as steps
from cresset.utils._pytree import tree_flatten


class Box:
    """Tensors by name, and a size of the batch that vmap shall remove."""

    def __init__(self, size, **tensors):
        self.size, self.tensors = size, tensors

    def map(self, function, size):
        return Box(size, **{name: function(x) for name, x in self.tensors.items()})


@pytest.fixture
def boxes(monkeypatch):
    made, unwrapped = steps._create_batched_inputs, steps._unwrap_batched

    def inputs(in_dims, args, func):
        leaves, spec = tree_flatten(args)
        return leaves[0].size, steps._broadcast_to_and_flatten(in_dims, spec), leaves, spec

    def create(dims, leaves, level, spec):
        leaves = [x.map(lambda t: steps._add_batch_dim(t, d, level), None) if isinstance(x, Box) else x
                  for x, d in zip(leaves, dims)]
        return made([None] * len(leaves), leaves, level, spec)

    def unwrap(out, out_dims, level, size, func):
        if isinstance(out, Box):
            return out.map(lambda t: steps._maybe_remove_batch_dim("f", t, level, size, out_dims), size)
        return unwrapped(out, out_dims, level, size, func)
    monkeypatch.setattr(steps, "_process_batched_inputs", inputs)
    monkeypatch.setattr(steps, "_create_batched_inputs", create)
    monkeypatch.setattr(steps, "_unwrap_batched", unwrap)


def test_a_container_goes_through(boxes):
    box = Box(4, a=torch.arange(12.0).reshape(4, 3), b=torch.ones(4))
    seen = []

    def double(x):
        seen.extend([x.size, tuple(x.tensors["a"].shape)])
        return x.map(lambda t: t.sum() * 2, None)
    out = torch.vmap(double)(box)
    assert seen == [None, (3,)] and out.size == 4
    assert out.tensors["a"].tolist() == [6.0, 24.0, 42.0, 60.0] and out.tensors["b"].tolist() == [2.0] * 4


def test_batches_by_hand():
    x = torch.arange(6.0).reshape(2, 3)
    level = batches._vmap_increment_nesting(3, "error")
    row = batches._add_batch_dim(x, 1, level)
    assert row.shape == (2,) and batches.is_batchedtensor(row) and batches.maybe_get_level(row) == level
    assert batches.get_unwrapped(row).select(batches.maybe_get_bdim(row), 2).tolist() == [2.0, 5.0]
    assert torch.equal(batches._remove_batch_dim(row * 2, level, 3, 1), x * 2)
    assert batches._remove_batch_dim(torch.ones(2), level, 3, 0).shape == (3, 2)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.rand_like(row)
    assert batches._vmap_decrement_nesting() == level
    with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
        row * 2


def test_other_tensors_are_no_batches():
    x = torch.ones(2)
    assert not batches.is_batchedtensor(x) and batches.maybe_get_level(x) == batches.maybe_get_bdim(x) == -1
    with pytest.raises(RuntimeError, match="No wrappers present"):
        batches.get_unwrapped(x)
    assert torch.vmap(batches.is_batchedtensor, out_dims=None)(x) is True


def test_prefixes_that_do_not_fit_give_none():
    spec = tree_flatten((1, (2, 3)))[1]
    assert steps._broadcast_to_and_flatten((0, None), spec) == [0, None, None]
    assert steps._broadcast_to_and_flatten((0, 1, 2), spec) is None


def test_arguments_may_have_any_name():
    out = torch.vmap(lambda x, *, func, randomness, batch_size: x * func * randomness * batch_size)(
        torch.ones(2), func=2, randomness=3, batch_size=4)
    assert out.tolist() == [24.0, 24.0]
