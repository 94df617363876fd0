"""torch._C._distributed_c10d: the names that libraries import from it."""
import json
import pickle
import signal
import subprocess
import sys
import time

import pytest

import cresset as torch
import cresset.distributed as dist
import cresset._C._distributed_c10d as c10d
from cresset.futures import Future


@pytest.fixture(autouse=True)
def alone():
    yield
    c10d._unregister_all_process_groups()
    if dist.is_initialized():
        dist.destroy_process_group()


def empty(*sizes):
    return [torch.empty(n) for n in sizes]


MIXED = [torch.empty(n, dtype=d) for n, d in ((50, torch.float32), (25, torch.float64)) * 3]


# torch 2.13 gives these
@pytest.mark.parametrize("arguments, buckets, limits", [
    ((empty(100, 200, 100, 50), [400]), [[0], [1], [2], [3]], [400] * 4),
    ((empty(100, 200, 100, 50), [400, 1000]), [[0], [1, 2], [3]], [400, 1000, 1000]),
    ((MIXED, [400]), [[0, 2], [1, 3], [4], [5]], [400] * 4),
    ((empty(50, 25, 50, 25), [200, 400], [False, True, False, False]), [[0], [1], [2, 3]], [200, 0, 400]),
    ((empty(50, 25, 50, 25), [200, 400], [], [3, 2, 1, 0]), [[3], [2, 1, 0]], [200, 400]),
    ((empty(50, 25, 50, 25), [200, 400], [False, True, False, False], [3, 2, 1, 0]), [[3], [1], [2, 0]], [200, 0, 400]),
    ((empty(10, 10, 10, 10, 10), [80, 1000]), [[0, 1], [2, 3, 4]], [80, 1000])])
def test_buckets_are_torchs(arguments, buckets, limits):
    assert dist._compute_bucket_assignment_by_size(*arguments) == (buckets, limits)


@pytest.mark.parametrize("arguments, words", [
    (([], [4]), r"tensors.size\(\) > 0"), ((empty(2), []), r"bucket_size_limits.size\(\) > 0"),
    ((empty(2), [4], [True, False]), "expect_sparse_gradient"), (([torch.ones(2).to_sparse()], [4]), "No support for sparse tensors.")])
def test_bad_buckets_are_refused(arguments, words):
    with pytest.raises(RuntimeError, match=words):
        dist._compute_bucket_assignment_by_size(*arguments)


def test_works_of_futures_and_functions():
    future = Future()
    work = c10d._create_work_from_future(future)
    assert not work.is_completed() and work.get_future() is future
    future.set_result([torch.ones(2)])
    assert work.wait() is True and work.is_completed() and work.is_success() and work.result()[0].tolist() == [1, 1]
    failed = Future()
    failed.set_exception(ValueError("no"))
    work = c10d._create_work_from_future(failed)
    assert not work.is_success() and isinstance(work.exception(), ValueError)
    with pytest.raises(ValueError, match="no"):
        work.wait()
    answers = [False, True]
    work = c10d.PythonCallbackWork(lambda timeout: answers.pop(0))
    assert [work.wait(), work.is_completed(), work.wait(), work.is_completed()] == [False, False, True, True]


def test_a_fake_group_is_a_backend_that_programs_register():
    def make(facts, options):
        return c10d.FakeProcessGroup._create_internal(facts.group_rank, facts.group_size, options)
    plugins = dict(dist.Backend._plugins)
    dist.Backend.register_backend(dist.Backend.FAKE, make, extended_api=True, devices=["cpu", "cuda"])
    try:
        assert dist.Backend.default_device_backend_map["cpu"] == "gloo"  # a fake backend takes no device away
        options = c10d.FakeProcessGroup.Options()
        dist.init_process_group("fake", store=dist.HashStore(), rank=2, world_size=8, pg_options=options)
        x = torch.ones(3)
        dist.all_reduce(x)
        assert dist.get_world_size() == 8 and dist.get_rank() == 2 and x.shape == (3,)
        options.error_on_collective = True
        with pytest.raises(RuntimeError, match="error_on_collective=True"):
            dist.all_reduce(x)
    finally:
        dist.Backend._plugins.clear()
        dist.Backend._plugins.update(plugins)


def test_groups_are_found_by_the_names_that_programs_register():
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=2)
    group = dist.new_group([0, 1])
    c10d._register_process_group("mine", group)
    assert c10d._resolve_process_group("mine") is group
    assert torch.ops._c10d_functional.all_reduce(torch.ones(2), "sum", "mine").shape == (2,)
    c10d._unregister_process_group("mine")
    with pytest.raises(RuntimeError, match="registered under the name mine"):
        c10d._resolve_process_group("mine")


def test_operators_wait_for_works_that_programs_register():
    future, x = Future(), torch.ones(2)
    before = c10d._get_work_registry_size()
    c10d._register_work(x, c10d._create_work_from_future(future))
    assert c10d._get_work_registry_size() == before + 1
    future.set_result(None)
    assert torch.ops._c10d_functional.wait_tensor(x).tolist() == [1, 1] and c10d._get_work_registry_size() == before


def test_the_last_calls_are_dumped_as_torch_does():
    dist.init_process_group("fake", store=dist.HashStore(), rank=1, world_size=4)
    before = time.time_ns()
    dist.all_reduce(torch.ones(3, 2))
    dist.all_gather([torch.ones(5) for _ in range(4)], torch.ones(5))
    dist.barrier(dist.new_group([0, 1]))
    trace, text = pickle.loads(c10d._dump_fr_trace()), json.loads(c10d._dump_fr_trace_json())
    # what torch 2.13 writes, but for times, threads and its unnamed group
    assert trace["version"] == text["version"] == "2.10" and trace["pg_config"] == text["pg_config"]
    assert [group["ranks"] for group in trace["pg_config"].values()] == ["[0, 1, 2, 3]", "[0, 1]"]
    assert trace["pg_status"]["0"] == {"last_enqueued_collective": "2", "last_started_collective": "2", "last_completed_collective": "2"}
    first, second, third = trace["entries"]
    assert [(e["profiling_name"], e["record_id"], e["pg_id"], e["collective_seq_id"], e["input_sizes"], e["output_sizes"],
             e["input_dtypes"], e["state"], e["retired"], e["is_p2p"]) for e in trace["entries"]] == [
        ("custom:all_reduce", 0, 0, 1, [[6]], [[6]], ["Float"], "completed", True, False),
        ("custom:all_gather", 1, 0, 2, [[5]], [[20]], ["Float"], "completed", True, False),
        ("custom:barrier", 2, 1, 1, [], [], [], "completed", True, False)]
    assert [frame["filename"] for frame in first["frames"]] == ["test_c10d_names.py"] and "frames" not in text["entries"][0]
    # the clock of calls is another one than that of dates, which a host may set
    assert abs(first["time_created_ns"] - before) < 3600e9 and first["time_created_ns"] <= third["time_created_ns"]
    assert first["process_group"][1] == "default_pg" and text["entries"][1]["time_discovered_completed_ns"] > 0
    assert "entries" not in pickle.loads(c10d._dump_fr_trace(includeCollectives=False))
    assert pickle.loads(c10d._dump_fr_trace(onlyActive=True))["entries"] == []


def test_kinds_have_torchs_numbers():
    assert dict(c10d.OpType.__members__)["BARRIER"] == 15 and c10d.OpType.UNKNOWN == 100
    assert [c10d.BuiltinCommHookType.ALLREDUCE.value, c10d.BuiltinCommHookType.FP16_COMPRESS.value] == [1, 2]
    assert [int(e) for e in c10d.ErrorType] == [0, 1, 2, 3]


def test_groups_of_programs_tell_their_facts_by_methods():
    class Own(dist.ProcessGroup):
        def getRank(self):
            return 3

        def getSize(self):
            return 5

        def setGroupName(self, name):
            self.kept = f"own {name}"

        def getGroupName(self):
            return self.kept
    group = Own(0, 1)
    group._set_group_name("a")
    group._set_group_desc("text")
    assert (group.rank(), group.size(), group.group_name, group.group_desc) == (3, 5, "own a", "text")


def test_each_thread_has_groups_of_its_own():
    """Tests of libraries replace the world by one of each thread, and play ranks in threads."""
    import threading
    world, failed = dist.distributed_c10d._world, []

    class Worlds:
        local = threading.local()

        def __getattr__(self, name):
            return getattr(self._own(), name)

        def __setattr__(self, name, value):
            setattr(self._own(), name, value)

        def _own(self):
            if not hasattr(self.local, "world"):
                self.local.world = type(world)()
            return self.local.world

    def rank(r):
        try:
            dist.init_process_group("fake", store=dist.HashStore(), rank=r, world_size=4)
            part = dist.new_group([r], use_local_synchronization=True)
            c10d._register_process_group("part", part)
            meeting.wait(20)
            assert dist.get_rank() == r and c10d._resolve_process_group("part") is part
            dist.destroy_process_group()
            assert not dist.is_initialized()
        except BaseException as error:
            failed.append(error)
    meeting = threading.Barrier(4)
    dist.distributed_c10d._world = Worlds()
    c10d._set_thread_isolation_mode(True)
    try:
        threads = [threading.Thread(target=rank, args=(r,)) for r in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
    finally:
        dist.distributed_c10d._world = world
        c10d._set_thread_isolation_mode(False)
    assert not dist.is_initialized()


@pytest.mark.parametrize("on", [True, False])
def test_stacks_are_printed_before_a_signal_ends_the_process(on):
    program = ("import cresset as torch, os, signal\n"
               "def here():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
               f"torch._C._set_print_stack_traces_on_fatal_signal({on})\nhere()\n")
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGSEGV and ("in here" in done.stderr) == on


def test_functorch_has_make_fx():
    from cresset.functorch import make_fx
    graph = make_fx(lambda x: x.sin() + 1)(torch.ones(3))
    x = torch.arange(3.0)
    assert torch.equal(graph(x), x.sin() + 1) and [n.op for n in graph.graph.nodes][-1] == "output"


@pytest.mark.parametrize("use_libuv", ["0", "1"])
def test_the_store_of_a_group_leads_to_the_one_that_made_it(monkeypatch, use_libuv):
    for name, value in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "0"), ("USE_LIBUV", use_libuv)):
        monkeypatch.setenv(name, value)
    dist.init_process_group("fake", rank=0, world_size=1, init_method="env://")
    store = dist.distributed_c10d._get_process_group_store(dist.group.WORLD)
    store.set("key", "value")
    assert isinstance(store, dist.PrefixStore) and dist.distributed_c10d._get_default_store().get("key") == b"value"
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    assert isinstance(store, dist.TCPStore) and store.libuvBackend == (use_libuv == "1")
    part = dist.new_group([0])
    dist.distributed_c10d._get_process_group_store(part).set("key", "the part's")
    assert dist.distributed_c10d._get_default_store().get("key") == b"value"
    with pytest.raises(KeyError):
        dist.distributed_c10d._get_process_group_store(None)
