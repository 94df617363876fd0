"""Dicts of states, plans without doubles, checkpoints at URLs, former names, and the log of failed calls."""
import io
import logging
import sys
import types

import pytest

import cresset as torch
import cresset.distributed as dist
import cresset.distributed.checkpoint as dcp
from cresset.distributed import _state_dict_utils as utils


@pytest.fixture
def one_rank():
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def state():
    return {"w": torch.arange(6.0).view(2, 3), "n": 3, "deep": {"b": [torch.ones(2, dtype=torch.int32), "text"], "t": (torch.tensor(2.5),)}}


def test_states_are_copied_into_host_tensors():
    empty = utils._create_cpu_state_dict(state(), share_memory=True)
    assert empty["w"].shape == (2, 3) and empty["w"].is_shared() and empty["deep"]["b"][0].dtype == torch.int32
    into = empty["w"]
    made = utils._copy_state_dict(state(), empty)
    assert made["w"] is into and torch.equal(into, state()["w"]) and made["deep"]["t"][0].item() == 2.5 and made["n"] == 3
    with pytest.raises(utils.CompanionMismatch):
        utils._copy_state_dict({"w": torch.ones(1)}, {"v": torch.ones(1)})
    with pytest.raises(ValueError, match="Unexpected value type"):
        utils._offload_state_dict_to_cpu({"w": object()})
    host = utils._offload_state_dict_to_cpu(state())
    assert torch.equal(host["w"], state()["w"]) and host["deep"]["b"][1] == "text"


@pytest.mark.parametrize("other, same", [
    (state(), True), ({**state(), "n": 9}, True), ({**state(), "w": torch.ones(3, 2)}, False), ({"w": state()["w"]}, False),
    ({**state(), "w": state()["w"].double()}, False), ({**state(), "deep": {"b": [torch.ones(2, dtype=torch.int32)], "t": ()}}, False)])
def test_states_are_similar(other, same):
    assert utils._check_state_dict_similarity(state(), other) == same


def test_rank_0s_states_are_for_all(one_rank):
    local = {"a": torch.zeros(2), "old": 1}
    utils._broadcast_state_dict({"a": torch.ones(2), "k": 5}, local, torch.device("cpu"))
    assert local["a"].tolist() == [1, 1] and local["k"] == 5 and local["old"] == 1
    utils._broadcast_state_dict({"a": torch.full((2,), 3.0)}, local, torch.device("cpu"), strict=True)
    assert list(local) == ["a"] and local["a"].tolist() == [3, 3]
    flat, paths = utils._flatten_state_dict(state())
    assert "deep.b.0" in flat and utils._unflatten_state_dict(flat, paths)["deep"]["b"][1] == "text"


def plans():
    from cresset.distributed.checkpoint.default_planner import create_default_local_save_plan
    return [create_default_local_save_plan({"w": torch.ones(4), "only": torch.ones(2 + r), "o": object}, r == 0) for r in range(2)]


def test_tensors_that_several_ranks_have_are_written_once():
    from cresset.distributed.checkpoint._dedup_save_plans import dedup_save_plans
    from cresset.distributed.checkpoint._dedup_tensors import dedup_tensors
    for dedup in (dedup_tensors, lambda p: dedup_save_plans(p, save_to_lowest_rank=True)):
        made = dedup(plans())
        names = [[item.index.fqn for item in plan.items] for plan in made]
        assert names[0].count("w") == 1 and sum(n.count("w") for n in names) == 1


class MemoryFiles:
    """What a file system of fsspec offers."""

    def __init__(self):
        self.files = {}

    def open(self, path, mode):
        files = self.files

        class Writer(io.BytesIO):
            def close(self):
                files[path] = self.getvalue()
                super().close()
        return Writer() if "w" in mode else io.BytesIO(files[path])

    def makedirs(self, path, exist_ok):
        pass

    def mv(self, path, to):
        self.files[to] = self.files.pop(path)

    def exists(self, path):
        return path in self.files

    def rm(self, path):
        del self.files[path]

    def ls(self, path, detail):
        return [name for name in self.files if name.startswith(path)]


@pytest.fixture
def memory(monkeypatch):
    files, core = MemoryFiles(), types.ModuleType("fsspec.core")

    def url_to_fs(url, **kwargs):
        if not str(url).startswith("mem://"):
            raise ValueError(f"Protocol not known: {url}")
        return files, url
    core.url_to_fs = url_to_fs
    monkeypatch.setitem(sys.modules, "fsspec", types.ModuleType("fsspec"))
    monkeypatch.setitem(sys.modules, "fsspec.core", core)
    monkeypatch.delitem(sys.modules, dcp.__name__ + "._fsspec_filesystem", raising=False)
    return files


def test_checkpoints_are_at_urls(memory, one_rank):
    dcp.save(state(), checkpoint_id="mem://place/one")
    assert sorted(memory.files) == ["mem://place/one/.metadata", "mem://place/one/__0_0.distcp"]
    target = {"w": torch.zeros(2, 3), "n": 0, "deep": {"b": [torch.zeros(2, dtype=torch.int32), ""], "t": (torch.tensor(0.0),)}}
    dcp.load(target, checkpoint_id="mem://place/one")
    assert torch.equal(target["w"], state()["w"]) and target["n"] == 3 and target["deep"]["b"][1] == "text"
    from cresset.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
    with pytest.raises(dcp.CheckpointException, match="Checkpoint already exists"):
        dcp.save(state(), storage_writer=FsspecWriter("mem://place/one", overwrite=False))
    with pytest.warns(UserWarning, match="The argument order of load has been changed"):
        dcp.load(target, FsspecReader("mem://place/one"))
    with pytest.raises(RuntimeError, match="Cannot detect which StorageReader or StorageWriter to use"):
        dcp.save(state(), checkpoint_id="other://place")


def test_a_file_whose_write_fails_is_removed(memory):
    from cresset.distributed.checkpoint._fsspec_filesystem import FileSystem
    fs = FileSystem()
    fs.init_path("mem://x")
    with pytest.raises(OSError, match="full"):
        with fs.create_stream("mem://x/a", "wb"):
            memory.files["mem://x/a"] = b"part"
            raise OSError("full")
    assert memory.files.get("mem://x/a", b"") == b""


def test_the_former_names_of_tensors_are_the_same_classes():
    from cresset.distributed import _tensor, tensor
    from cresset.distributed._tensor import api, device_mesh, placement_types
    assert _tensor.DTensor is api.DTensor is tensor.DTensor and _tensor.Shard is placement_types.Shard is tensor.Shard
    assert _tensor.DeviceMesh is device_mesh.DeviceMesh is dist.DeviceMesh


def test_failed_calls_are_logged(one_rank):
    from cresset.distributed import c10d_logger
    seen = []

    class Keep(logging.Handler):
        def emit(self, record):
            seen.append(record.msg)

    @c10d_logger._exception_logger
    def fails(group=None):
        """Fails."""
        raise ValueError("no luck")
    handler = Keep()
    c10d_logger._c10d_logger.addHandler(handler)
    try:
        with pytest.raises(ValueError, match="no luck"):
            fails()
    finally:
        c10d_logger._c10d_logger.removeHandler(handler)
    [record] = seen
    assert fails.__doc__ == "Fails." and record["func_name"] == "fails" and record["error"] == "no luck"
    assert record["backend"] == "fake" and record["world_size"] == "1" and record["global_rank"] == "0"
