"""Divisions of tensors into boxes, and tensors that are made by them; the values are torch 2.13's."""
import os

import pytest

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
import ranks
from cresset.distributed._shard import sharded_tensor
from cresset.distributed._shard.sharding_spec import api, chunk_sharding_spec, ChunkShardingSpec, EnumerableShardingSpec, ShardMetadata
from cresset.distributed.remote_device import _remote_device

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_optim.py")
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
    (lambda: M([-1], [1]), ValueError, "shard_offsets should be >=0"), (lambda: M([0], [-1]), ValueError, "shard_sizes should be >= 0"),
    (lambda: M([0, 0], [1]), ValueError, r"the same number of elements, found 2 and \[1\] respectively"),
    (lambda: EnumerableShardingSpec([M([0], [2], "rank:0/cpu"), M([1], [2], "rank:1/cpu")]), ValueError,
     r"^Shards ShardMetadata\(shard_offsets=\[0\], shard_sizes=\[2\], placement=rank:0/cpu\) and .*placement=rank:1/cpu\) overlap$"),
    (lambda: EnumerableShardingSpec([M([0], [2])]).shard(torch.ones(2)), NotImplementedError, "EnumerableShardingSpec.shard not impl"),
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


@pytest.mark.parametrize("options, error, words", [
    ({"memory_format": torch.channels_last}, ValueError, "Only torch.contiguous_format memory_format is currently supported"),
    ({"layout": torch.sparse_coo}, ValueError, "Only torch.strided layout is currently supported"),
    ({"init_rrefs": True}, RuntimeError, "RPC Framework needs to be initialized using torch.distributed.rpc.init_rpc if init_rrefs")])
def test_options_without_a_meaning_are_refused(rank_1_of_2, options, error, words):
    spec, st = ChunkShardingSpec(0, places(2)), sharded_tensor
    for make in (st.empty, st.ones, st.zeros, st.rand, st.randn, lambda spec, *size, **how: st.full(spec, size, 3, **how)):
        with pytest.raises(error, match=words):
            make(spec, 4, 2, **options)


def test_bad_places_are_refused(rank_1_of_2):
    for place, error, words in (("rank:2", ValueError, r"Global rank 2 does not exist in input process group: \[0, 1\]"),
                                ("name/cpu", RuntimeError, "RPC framework needs to be initialized for using worker names: name")):
        spec = ChunkShardingSpec(0, ["rank:0", place])
        for call in (lambda: sharded_tensor.ones(spec, 4), lambda: spec.shard(torch.ones(4))):
            with pytest.raises(error, match=words):
                call()
    with pytest.raises(ValueError, match="remote device is None"):
        sharded_tensor.ones(EnumerableShardingSpec([M([0], [4])]), 4)
    with pytest.raises(AssertionError, match="gives each of the ranks"):
        ChunkShardingSpec(0, ["rank:0", "rank:0"]).shard(torch.ones(4))
    with pytest.raises(RuntimeError, match="init_rrefs is set to True"):
        sharded_tensor.init_from_local_shards([], 4, init_rrefs=True)
    with pytest.raises(RuntimeError, match="created with init_rrefs=False"):
        sharded_tensor.ones(ChunkShardingSpec(0, places(2)), 4).remote_shards()


@pytest.mark.parametrize("dim, size, n", [(0, (10, 4), 4), (1, (3, 5), 3), (1, (3, 2), 5), (0, (4,), 2)])
def test_chunks_are_found_in_a_list_of_boxes(dim, size, n):
    boxes = ChunkShardingSpec(dim, places(n)).build_metadata(size, None).shards_metadata
    assert api._infer_sharding_spec_from_shards_metadata(boxes) == ChunkShardingSpec(dim, places(n))
    assert len({hash(box) for box in boxes}) == n and all(isinstance(box.placement, _remote_device) for box in boxes)
    if min(boxes[-1].shard_sizes):
        assert api._infer_sharding_spec_from_shards_metadata(boxes[::-1]) == ChunkShardingSpec(dim, places(n))
        boxes[-1].shard_sizes[dim] += n * boxes[0].shard_sizes[dim]  # the last box is the largest
        assert isinstance(api._infer_sharding_spec_from_shards_metadata(boxes), EnumerableShardingSpec)


def test_divisions_of_tensors(rank_1_of_2):
    two = [M([0, 0], [2, 2], "rank:0"), M([0, 2], [2, 2], "rank:1"), M([2, 0], [2, 4], "rank:0")]
    assert isinstance(api._infer_sharding_spec_from_shards_metadata(two), EnumerableShardingSpec)
    assert isinstance(api._infer_sharding_spec_from_shards_metadata([M([0], [4], "rank:0")]), EnumerableShardingSpec)
    spec = ChunkShardingSpec(1, places(2))
    assert sharded_tensor.ones(spec, 3, 5).sharding_spec() is spec
    t = sharded_tensor.ShardedTensor([], spec.build_metadata((3, 5), sharded_tensor.TensorProperties()))
    assert t.sharding_spec() == spec and chunk_sharding_spec.ChunkShardingSpec is ChunkShardingSpec


def test_a_tensor_is_divided_among_two_ranks():
    if not dist.is_gloo_available():
        pytest.skip("Gloo is not there")
    result = ranks.run(HERE, "divided_tensors", 2, "gloo")
    assert result.codes == [0, 0], result


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
