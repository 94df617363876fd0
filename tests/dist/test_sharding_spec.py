"""Divisions of tensors into boxes, and tensors that are made by them; the values are torch 2.13's."""
import pytest

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
from cresset.distributed._shard import sharded_tensor
from cresset.distributed._shard.sharding_spec import ChunkShardingSpec, EnumerableShardingSpec, ShardMetadata
from cresset.distributed.remote_device import _remote_device

M = ShardMetadata


def places(n):
    return [f"rank:{i}/cpu" for i in range(n)]


@pytest.mark.parametrize("dim, size, n, wanted", [
    (0, (10, 4), 4, [([0, 0], [3, 4]), ([3, 0], [3, 4]), ([6, 0], [3, 4]), ([9, 0], [1, 4])]),
    (1, (3, 5), 3, [([0, 0], [3, 2]), ([0, 2], [3, 2]), ([0, 4], [3, 1])]),
    (-1, (3, 5), 2, [([0, 0], [3, 3]), ([0, 3], [3, 2])]),
    (0, (2, 2), 3, [([0, 0], [1, 2]), ([1, 0], [1, 2]), ([2, 0], [0, 2])])])
def test_chunks_of_a_dim(dim, size, n, wanted):
    made = ChunkShardingSpec(dim, places(n)).build_metadata(size, sharded_tensor.TensorProperties())
    assert [(s.shard_offsets, s.shard_sizes) for s in made.shards_metadata] == wanted
    assert [str(s.placement) for s in made.shards_metadata] == places(n) and made.size == torch.Size(size)


def build(shards, size):
    return EnumerableShardingSpec(shards).build_metadata(size, sharded_tensor.TensorProperties())


@pytest.mark.parametrize("call, error, words", [
    (lambda: ChunkShardingSpec("a", places(1)), NotImplementedError, "does not support named dimension"),
    (lambda: ChunkShardingSpec(1.5, places(1)), ValueError, "needs to be an integer, found: 1.5"),
    (lambda: ChunkShardingSpec(4, places(1)).build_metadata((2, 2), None), ValueError, "Invalid sharding dim: 4"),
    (lambda: build([], (1,)), ValueError, r"Empty shard list provided: \[\]"),
    (lambda: build([M([0], [2]), M([0, 0], [1, 1])], (1,)), ValueError, "inconsistent ranks for shards: 1 and 2"),
    (lambda: build([M([0, 0], [2, 2]), M([1, 0], [2, 2])], (4, 2)), ValueError, "Shards .* overlap"),
    (lambda: build([M([0, 0], [2, 2]), M([2, 0], [2, 2])], (5, 2)), ValueError, "volume of shards: 8 does not match tensor volume: 10"),
    (lambda: build([M([0, 0], [2, 2])], (2,)), ValueError, "Rank of tensor is 1, but shards rank is 2"),
    (lambda: build([M([0, 0], [2, 4])], (4, 2)), ValueError, "Shard offset 0 and length 4 exceeds tensor dim: 2")])
def test_bad_divisions_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("text, worker, rank, device", [
    ("cpu", None, None, "cpu"), ("cuda:0", None, None, "cuda:0"), ("rank:0", None, 0, "cpu"), ("rank:1/cuda:0", None, 1, "cuda:0"),
    ("foo", "foo", None, "cpu"), ("foo/cpu", "foo", None, "cpu")])
def test_remote_devices(text, worker, rank, device):
    made = _remote_device(text)
    assert (made.worker_name(), made.rank(), str(made.device())) == (worker, rank, device)
    assert made == _remote_device(repr(made)) and hash(made) == hash(_remote_device(repr(made)))


@pytest.mark.parametrize("text", ["rank:x/cpu", "a/b/c", "", "/cpu", "cpu:x/y/z"])
def test_bad_remote_devices_are_refused(text):
    with pytest.raises(ValueError, match="Could not parse remote_device"):
        _remote_device(text)


@pytest.fixture
def rank_1_of_2():
    dist.init_process_group("fake", rank=1, world_size=2, store=dist.HashStore())
    yield
    dist.destroy_process_group()


def test_tensors_of_a_division(rank_1_of_2):
    spec = ChunkShardingSpec(0, places(2))
    for make, value in ((sharded_tensor.ones, 1), (sharded_tensor.zeros, 0)):
        for size in ((5, 2), ([5, 2],)):
            t = make(spec, *size, dtype=torch.float64)
            assert t.size() == torch.Size([5, 2]) and t.local_tensor().tolist() == [[value] * 2] * 2 and t.dtype is torch.float64
    assert sharded_tensor.full(spec, (5, 2), 7, requires_grad=True).local_tensor().requires_grad
    own = sharded_tensor.rand(spec, 100, 2).local_tensor()
    assert own.shape == (50, 2) and 0 <= own.min() and own.max() < 1 and own.std() > 0.1
    assert sharded_tensor.randn(spec, 100, 2).local_tensor().min() < 0 and sharded_tensor.empty(spec, 4).local_tensor().shape == (2,)
    both = EnumerableShardingSpec([M([0, 0], [2, 4], "rank:1/cpu"), M([2, 0], [2, 4], "rank:0"), M([4, 0], [1, 4], "rank:1/cpu")])
    assert [s.metadata.shard_offsets for s in sharded_tensor.ones(both, 5, 4).local_shards()] == [[0, 0], [4, 0]]


def test_modules_have_such_tensors_in_their_states(rank_1_of_2):
    def net(value):
        made = nn.Sequential(nn.Linear(1, 1))
        made[0].table = sharded_tensor.full(ChunkShardingSpec(0, places(2)), (4,), value)
        made._register_state_dict_hook(sharded_tensor.state_dict_hook)
        made._register_load_state_dict_pre_hook(sharded_tensor.pre_load_state_dict_hook, True)
        return made
    one, two = net(1), net(2)
    state = one.state_dict()
    assert list(state) == ["0.weight", "0.bias", "0.table"]
    two.load_state_dict(state, strict=False)
    assert two[0].table.local_tensor().tolist() == [1, 1]
