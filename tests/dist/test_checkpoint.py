"""torch.distributed.checkpoint: torch's files both ways, other layouts, asynchronous saves, kills, refusals."""
import json
import logging
import os
import pickle
import re
import signal
import subprocess
import sys

import pytest

import cresset as torch
import cresset.distributed as dist
import cresset.distributed.checkpoint as dcp
import ranks
from cresset._utils import own_name
from cresset.distributed._shard.sharded_tensor import (Shard, ShardedTensor, ShardedTensorMetadata, ShardMetadata,
                                                       TensorProperties)
from cresset.distributed.checkpoint import default_planner, format_utils
from cresset.distributed.checkpoint import logger as dcp_logger

BACKEND = [b for b in ("mpi", "gloo") if dist.is_backend_available(b)][0]
FOLDER = os.path.dirname(os.path.abspath(__file__))
TORCHS = os.path.join(FOLDER, os.pardir, "data", "checkpoints", "distributed")


def passes(name, size, folder, killed=()):
    result = ranks.run(os.path.join(FOLDER, "in_checkpoint.py"), name, size, BACKEND, CHECKPOINT=str(folder))
    assert not result.late and result.codes == [-signal.SIGKILL if r in killed else 0 for r in range(size)], result


@pytest.mark.parametrize("saved, loaded", [(4, [3]), pytest.param(8, [3, 4], marks=pytest.mark.full)])
def test_saved_on_some_ranks_loaded_on_others(saved, loaded, tmp_path):
    passes("save", saved, tmp_path / "c")
    for size in loaded:
        passes("load", size, tmp_path / "c")


def test_a_checkpoint_of_torch_loads_on_other_ranks():
    passes("load_torchs", 3, TORCHS)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_checkpoint_of_torch_loads_in_one_process(tmp_path):
    format_utils.dcp_to_torch_save(TORCHS, tmp_path / "one.pt")
    one = torch.load(tmp_path / "one.pt")
    assert torch.equal(one["model"]["w"], torch.arange(70.0).view(7, 10)) and one["optim"][0]["lr"] == 0.5
    format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "many")
    loaded = {"model": {"w": torch.zeros(7, 10)}, "epoch": 0}
    dcp.load(loaded, checkpoint_id=tmp_path / "many")
    assert torch.equal(loaded["model"]["w"], one["model"]["w"]) and loaded["epoch"] == 7


def test_names_in_the_index_are_torchs(tmp_path):
    seen = set()

    class Names(pickle.Unpickler):
        def find_class(self, module, name):
            seen.add(module)
            return super().find_class(own_name(module), name)
    dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    with open(tmp_path / ".metadata", "rb") as index:
        assert Names(index).load().state_dict_metadata["x"].size == torch.Size([2])
    assert "torch.distributed.checkpoint.metadata" in seen and not any(m.startswith("cresset") for m in seen)


def test_asynchronous_saves(tmp_path):
    passes("asynchronous", 2, tmp_path)


def test_saves_by_other_processes(tmp_path):
    passes("by_processes", 2, tmp_path)


def test_a_process_that_writes_for_one_process(tmp_path):
    from cresset.distributed.checkpoint import _async_process, state_dict_saver
    how = {"async_checkpointer_type": state_dict_saver.AsyncCheckpointerType.PROCESS, "no_dist": True}
    try:
        x = torch.ones(3)
        saved = dcp.async_save({"x": x}, checkpoint_id=tmp_path / "c", **how)
        x.zero_()
        saved.result()
        loaded = {"x": torch.zeros(3)}
        dcp.load(loaded, checkpoint_id=tmp_path / "c", no_dist=True)
        assert loaded["x"].tolist() == [1, 1, 1]
        process = _async_process._writers[None]._process
        process.kill()
        process.join()
        with pytest.raises(RuntimeError, match="the process that writes has ended, exit code -9"):
            dcp.async_save({"x": x}, checkpoint_id=tmp_path / "d", **how)
        dcp.async_save({"x": x}, checkpoint_id=tmp_path / "d", **how).result()  # a new one
    finally:
        _async_process._writers.pop(None)._process.kill()


def test_errors_name_ranks(tmp_path):
    passes("errors", 3, tmp_path)


def test_training_goes_on(tmp_path):
    passes("training", 2, tmp_path)


def test_a_rank_killed_while_saving_leaves_the_checkpoint_before(tmp_path):
    passes("killed_while_saving", 3, tmp_path, killed=[1])
    loaded = {"x": torch.zeros(50, 20), "n": 0}
    dcp.load(loaded, checkpoint_id=tmp_path, no_dist=True)
    assert loaded["n"] == 2 and loaded["x"].unique().tolist() == [2.0]


@pytest.mark.parametrize("number", [30, pytest.param(200, marks=pytest.mark.full)])
def test_kills_at_any_time_leave_a_whole_checkpoint(number, tmp_path):
    out = subprocess.run([sys.executable, os.path.join(FOLDER, "checkpoint_kills.py"), str(tmp_path), str(number)],
                         capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert out.returncode == 0, out.stdout + out.stderr
    kills, torn, advanced, left = map(int, re.findall(r"\d+", out.stdout))
    assert (kills, torn) == (number, 0) and advanced > number // 4 and left > number // 4, out.stdout


def test_boxes_of_ranks_in_files_of_safetensors(tmp_path):
    passes("save_boxes_of_safetensors", 3, tmp_path)
    files = sorted(f for f in os.listdir(tmp_path / "sharded"))
    assert len(files) == 3 * 2 + 3 and files[0] == "shard-00001-model-00001-of-00002.safetensors", files  # "both" has two boxes a rank
    whole = torch.safetensors.load_file(tmp_path / "model-00002-of-00002.safetensors")
    assert set(whole) == {"columns", "both"} and whole["both"].shape == (23, 10) and whole["columns"].dtype == torch.bfloat16


def test_whole_tensors_in_files_of_safetensors(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    numbers = {name: 1 + name.startswith("1.") for name in net.state_dict()}
    dcp.save(net.state_dict(), storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, numbers, thread_count=2), no_dist=True)
    with open(tmp_path / "model.safetensors.index.json") as file:
        index = json.load(file)
    assert index["weight_map"]["1.weight"] == "model-00002-of-00002.safetensors"
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in net.state_dict().values())
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).state_dict()
    dcp.load(other, storage_reader=dcp.HuggingFaceStorageReader(tmp_path, thread_count=2), no_dist=True)
    assert all(torch.equal(other[name], value) for name, value in net.state_dict().items())


def test_files_of_safetensors_refuse_other_objects_and_gaps(tmp_path):
    from cresset.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files as consolidate
    for state, numbers, words in (({"epoch": 3}, None, "tensors alone; epoch is another object"),
                                  ({"w": torch.ones(2)}, {"v": 1}, "has no file for w")):
        with pytest.raises(dcp.CheckpointException, match=words):
            dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, numbers), no_dist=True)
    with pytest.raises(ValueError, match="joins the files of save_distributed"):
        dcp.HuggingFaceStorageWriter(tmp_path, enable_consolidation=True)
    torch.safetensors.save_file({"w": torch.ones(2)}, tmp_path / "shard-00002-model-00001-of-00001.safetensors",
                                {"DCP_SHARDING_INFO": '{"w": {"saved_offsets": [2]}}'})
    with pytest.raises(ValueError, match=r"the boxes of w have 2 elements, but the tensor of size \[4\] has 4"):
        consolidate(tmp_path, tmp_path / "out", {"w": 1})
    with pytest.raises(KeyError, match="have no tensor v"):
        consolidate(tmp_path, tmp_path / "out", {"v": 1})
    for shard, first in ((1, 0), (2, 4), (3, 1)):  # elements 0 1, 4 5 and 1 2: 6 in all, as the tensor has
        torch.safetensors.save_file({"w": torch.ones(2)}, tmp_path / f"shard-{shard:05}-model-00001-of-00001.safetensors",
                                    {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": [first]}})})
    with pytest.raises(ValueError, match="boxes of w overlap and leave 1 of 6 elements without a value"):
        consolidate(tmp_path, tmp_path / "out", {"w": 1})


def test_files_of_an_earlier_save_are_removed(tmp_path):
    def save(value, numbers, **how):
        state = {name: torch.full((2,), value) for name in ("a", "b")}
        dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path, numbers, **how), no_dist=True)
        read = {name: torch.zeros(2) for name in state}
        dcp.load(read, storage_reader=dcp.HuggingFaceStorageReader(tmp_path), no_dist=True)
        assert all(torch.equal(read[name], state[name]) for name in state)
        return sorted(os.listdir(tmp_path))
    torch.safetensors.save_file({"c": torch.ones(1)}, tmp_path / "adapter.safetensors")
    index, other = "model.safetensors.index.json", "adapter.safetensors"  # a file of another writer is kept
    two = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert save(1.0, {"a": 1, "b": 2}) == [other, *two, index]
    assert save(2.0, None) == [other, "model-00001-of-00001.safetensors", index]
    assert save(3.0, {"a": 1, "b": 2}, save_distributed=True) == [other, *(f"shard-00001-{name}" for name in two)]
    joined = {"save_distributed": True, "enable_consolidation": True}
    assert save(4.0, {"a": 1, "b": 2}, **joined) == [other, *two, index, "sharded"]
    assert save(5.0, None, **joined) == [other, "model-00001-of-00001.safetensors", index, "sharded"]
    assert os.listdir(tmp_path / "sharded") == ["shard-00001-model-00001-of-00001.safetensors"]


def test_dicts_that_torch_2_3_took_apart_are_read(tmp_path):
    """Dicts without a tensor are one object there."""
    from cresset.distributed.checkpoint import _version

    def state(n):
        return {"a": torch.full((2, 2), float(n)), "plain": {"x": {"one": n}, "y": [n, n]}, "deep": {"t": torch.full((1,), float(n)), "k": n}}
    _version._derived_version = "2_3"
    try:
        dcp.save(state(3), checkpoint_id=tmp_path, no_dist=True)
    finally:
        _version._derived_version = None
    assert {"a", "plain", "deep.t", "deep.k"} == set(dcp.FileSystemReader(tmp_path).read_metadata().state_dict_metadata)
    into = state(0)
    dcp.load(into, checkpoint_id=tmp_path, no_dist=True)
    assert into["plain"] == {"x": {"one": 3}, "y": [3, 3]} and into["deep"]["k"] == 3 and into["deep"]["t"].item() == 3
    assert torch.equal(into["a"], state(3)["a"]) and _version._derived_version is None


def boxed_on(rank, size, elements):
    """A tensor of which each of `size` ranks has one box, as rank `rank` has it."""
    n = elements // size
    boxes = [ShardMetadata([n * r], [n], f"rank:{r}/cpu") for r in range(size)]
    own = Shard.from_tensor_and_offsets(torch.arange(n * rank, n * rank + n).float(), [n * rank], rank)
    facts = ShardedTensorMetadata(boxes, torch.Size([elements]), TensorProperties(torch.float32))
    return {"st": ShardedTensor._init_from_local_shards_and_global_metadata([own], facts)}


@pytest.mark.parametrize("saved, wanted", [(8, 4), (4, 8), (4, 3), (3, 4), (1, 5), (6, 1)])
def test_an_index_of_one_rank_has_the_boxes_of_all(saved, wanted):
    """Each wanted box is filled once by the boxes that overlap it: a plan beside sets of positions."""
    elements = 120
    index = default_planner._create_default_local_metadata(boxed_on(0, saved, elements))
    for rank in range(wanted):
        plan = default_planner.create_default_local_load_plan(boxed_on(rank, wanted, elements), index)
        n, filled = elements // wanted, []
        for item in plan.items:
            to = item.dest_index.offset[0] + item.dest_offsets[0]
            assert to == item.storage_index.offset[0] + item.storage_offsets[0]
            filled += range(to, to + item.lengths[0])
        assert filled == list(range(n * rank, n * rank + n))
        first, last = n * rank // (elements // saved), (n * rank + n - 1) // (elements // saved)
        assert len(plan.items) == last - first + 1


def test_saves_and_loads_are_logged(tmp_path):
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record.msg)
    handler = Keep()
    dcp_logger._dcp_logger.addHandler(handler)
    try:
        dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "c", no_dist=True)
        with pytest.raises(dcp.CheckpointException):
            dcp.load({"b": torch.ones(2)}, checkpoint_id=tmp_path / "c", no_dist=True)
    finally:
        dcp_logger._dcp_logger.removeHandler(handler)
    assert [(r["func_name"], r["event"]) for r in records] == [
        ("save", "start"), ("save", "end"), ("load", "start"), ("load", "exception")]
    assert {r["checkpoint_id"] for r in records} == {str(tmp_path / "c")} and "Missing key" in records[-1]["error"]
    assert records[0]["uuid"] == records[1]["uuid"] != records[2]["uuid"] and records[1]["times_spent"] > 0


def test_warnings_of_saves_name_the_programs_line(tmp_path):
    for call in (lambda: dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "c"),
                 lambda: dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path / "c"),
                 lambda: dcp.async_save({"a": torch.ones(2)}, checkpoint_id=tmp_path / "d").result()):
        with pytest.warns(UserWarning, match="single process") as found:
            call()
        assert {w.filename for w in found} == {__file__}


def test_a_file_is_sent_to_all_ranks(tmp_path):
    torch.save({"model": {"w": torch.arange(24.0).view(6, 4).t(), "n": torch.tensor(3)}, "other": 1}, tmp_path / "one.pt")
    passes("broadcast_file", 3, tmp_path / "one.pt")
