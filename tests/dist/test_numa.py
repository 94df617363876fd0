"""Processes that a launcher binds to processors."""
import os
import subprocess
import sys

import pytest

from cresset.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, start_processes
from cresset.numa import binding
from cresset.numa.binding import AffinityMode, NumaOptions

MODES = [m.value for m in AffinityMode]


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Three nodes of memory, the first two of one socket; four cores of two processors each a node; a cache for each half of it."""
    def write(path, text):
        path = tmp_path / "devices/system" / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    write("node/online", "0-2")
    for node in range(3):
        write(f"node/node{node}/cpulist", f"{4 * node}-{4 * node + 3},{4 * node + 12}-{4 * node + 15}")
    for p in range(24):
        core, half = p % 12, p % 12 // 2 * 2
        write(f"cpu/cpu{p}/topology/thread_siblings_list", f"{core},{core + 12}")
        write(f"cpu/cpu{p}/topology/physical_package_id", core // 8)
        write(f"cpu/cpu{p}/cache/index0/level", 1)
        write(f"cpu/cpu{p}/cache/index0/shared_cpu_list", f"{core},{core + 12}")
        write(f"cpu/cpu{p}/cache/index3/level", 3)
        write(f"cpu/cpu{p}/cache/index3/shared_cpu_list", f"{half}-{half + 1},{half + 12}-{half + 13}")
    monkeypatch.setattr(binding, "SYSTEM", str(tmp_path))
    monkeypatch.setattr(binding.os, "sched_getaffinity", lambda _: set(range(24)) - {3})
    return tmp_path


@pytest.mark.parametrize("mode, index, count, processors", [
    ("node", 0, 2, [0, 1, 2, 12, 13, 14, 15]), ("node", 4, 5, [4, 5, 6, 7, 16, 17, 18, 19]),
    ("socket", 1, 2, [0, 1, 2, 4, 5, 6, 7, *range(12, 20)]), ("socket", 2, 3, [8, 9, 10, 11, 20, 21, 22, 23]),
    ("exclusive", 1, 9, [4, 16, 5, 17]), ("exclusive", 4, 9, [6, 18]), ("exclusive", 7, 9, [7, 19]),
    ("exclusive", 3, 4, [2, 14, 15]), ("core-complex", 0, 4, [0, 1, 12, 13]), ("core-complex", 3, 4, [2, 14, 15]),
    ("core-complex", 6, 7, [0, 1, 12, 13])])
def test_processors_of_a_process(host, mode, index, count, processors):
    assert binding.processors_of(mode, index, count) == processors


def test_shares_are_disjoint_and_failures_may_be_ignored(host):
    shares = [binding.processors_of("exclusive", i, 7) for i in range(7)]
    assert sorted(sum(shares, [])) == sorted(set(range(24)) - {3})
    with pytest.raises(RuntimeError, match="There are only 4 physical cores for 5 processes of one node"):
        binding.processors_of("exclusive", 0, 13)
    (host / "devices/system/node/online").unlink()
    with pytest.raises(FileNotFoundError):
        with binding.bound(NumaOptions(AffinityMode.NODE), 0, 1):
            pass
    assert binding._chosen(NumaOptions(AffinityMode.NODE, True), 0, 1) is None


def test_commands_of_several_gpus_share_nothing(host, monkeypatch):
    monkeypatch.setattr(binding.cuda, "device_count", lambda: 7)
    lists = [binding.maybe_wrap_command_args_with_numa_binding(("a",), gpu_index=i, numa_options=NumaOptions(AffinityMode.EXCLUSIVE))[2]
             for i in range(7)]
    assert sorted(int(p) for text in lists for p in text.split(",")) == sorted(set(range(24)) - {3})
    assert binding.maybe_wrap_command_args_with_numa_binding(("a",), gpu_index=0, numa_options=None) == ("a",)


def test_a_system_that_refuses_binding(host, monkeypatch):
    def refuse(thread, processors):
        raise PermissionError("not permitted")
    monkeypatch.setattr(binding.os, "sched_setaffinity", refuse)
    for options in (None, NumaOptions(AffinityMode.NODE, True)):
        with binding.bound(options, 0, 1):
            binding.bind(options, 0, 1)
    with pytest.raises(PermissionError), binding.bound(NumaOptions(AffinityMode.NODE), 0, 1):
        pass


def processors():
    return sorted(os.sched_getaffinity(0))


PRINT = "import os, threading; print('on', sorted(os.sched_getaffinity(0)))"


@pytest.mark.parametrize("mode", MODES)
def test_processes_run_on_their_processors(mode, tmp_path):
    before, options = processors(), NumaOptions(AffinityMode(mode))
    count = min(2, len(binding._grouped(before, binding._core)))
    expected = [sorted(binding.processors_of(mode, i, count)) for i in range(count)]
    logs = DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT)
    envs, args = {i: {} for i in range(count)}, {i: ("-c", PRINT) for i in range(count)}
    result = start_processes("p", sys.executable, args, envs, logs, numa_options=options).wait(300)
    assert [open(result.stdouts[i]).read().strip() for i in range(count)] == [f"on {e}" for e in expected]
    made = start_processes("f", processors, {i: () for i in range(count)}, envs, DefaultLogsSpecs(), start_method="fork",
                           numa_options=options).wait(300)
    assert list(made.return_values.values()) == expected and processors() == before


def test_torchrun_binds(tmp_path):
    (tmp_path / "program.py").write_text(PRINT)
    out = subprocess.run([sys.executable, "-m", "cresset.distributed.run", "--standalone", "--numa-binding", "exclusive",
                          str(tmp_path / "program.py")],
                         capture_output=True, text=True, timeout=300)
    assert f"on {sorted(binding.processors_of('exclusive', 0, 1))}" in out.stdout, out
