"""Parts of elastic runs that programs use alone: redirections, recorded errors, stores."""
import ctypes
import json
import os
import signal
import subprocess
import sys

import pytest

import cresset as torch
import cresset.distributed as dist
from cresset.distributed.elastic.agent.server.api import RunResult, SimpleElasticAgent, WorkerSpec, WorkerState
from cresset.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, redirects, start_processes
from cresset.distributed.elastic.multiprocessing.errors import record
from cresset.distributed.elastic.utils.distributed import create_c10d_store

REDIRECTED = """
import ctypes, io, os, sys
from cresset.distributed.elastic.multiprocessing.redirects import redirect_stdout
if {replaced}:
    sys.stdout = open({own!r}, "w")
with redirect_stdout({file!r}):
    print("python")
    ctypes.CDLL(None).puts(b"c")
    os.system("echo child")
print("after")
sys.stdout.flush()
"""


@pytest.mark.parametrize("replaced", [False, True])
def test_redirected_output_is_pythons_and_cs(tmp_path, replaced):
    """Also where the program has put another file in sys.stdout's place."""
    file, own = tmp_path / "file", tmp_path / "own"
    program = REDIRECTED.format(replaced=replaced, own=str(own), file=str(file))
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert sorted(file.read_text().split()) == ["c", "child", "python"]
    assert (own.read_text() if replaced else done.stdout) == "after\n" and (not replaced or done.stdout == "")


def test_redirections_keep_no_descriptors(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with redirects.redirect_stderr(tmp_path / "x"):
            ctypes.CDLL(None)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("code, returns, recorded", [(0, True, False), (None, False, False), (3, False, True), ("no", False, True)])
def test_ends_of_recorded_scripts(tmp_path, monkeypatch, code, returns, recorded):
    """exit(0) returns None, as with torch 2.13; other ends go on."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    call = record(lambda: sys.exit(code))
    if returns:
        assert call() is None
    else:
        with pytest.raises(SystemExit) as found:
            call()
        assert found.value.code == code
    assert (tmp_path / "error.json").exists() == recorded
    if recorded:
        assert "SystemExit" in json.loads((tmp_path / "error.json").read_text())["message"]["message"]


def test_stores_that_nobody_joins_raise_the_stores_errors():
    """torch 2.13's classes."""
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        create_c10d_store(True, "localhost", 0, 2, timeout=1)
    with pytest.raises(dist.DistNetworkError, match="timed out"):
        create_c10d_store(False, "localhost", 0, 2, timeout=1)
    for name in ("DistError", "DistBackendError", "DistNetworkError", "DistStoreError"):
        assert getattr(torch._C, f"_{name}") is getattr(dist, name)


@pytest.mark.parametrize("method", ["alltoall_base", "all_to_all_single"])
def test_programs_groups_exchange_by_either_name(method):
    calls = []

    def exchange(self, output, tensor, output_sizes, input_sizes, opts=None):
        calls.append((output_sizes, input_sizes))
        output.copy_(tensor)
        work = dist.Work()
        work.wait = lambda timeout=None: True
        return work
    made = type("Mine", (dist.ProcessGroup,), {method: exchange})
    dist.Backend.register_backend("mine" + method.replace("_", ""), lambda store, rank, size, timeout: made(rank, size),
                                  devices=["cpu"])
    dist.init_process_group("mine" + method.replace("_", ""), store=dist.HashStore(), rank=0, world_size=1)
    try:
        output = torch.zeros(3)
        dist.all_to_all_single(output, torch.arange(3.0), [3], [3])
        dist.all_to_all_single(output, torch.arange(3.0), torch.tensor([3]), torch.tensor([3]))
        dist.all_to_all_single(output, torch.arange(3.0))
        assert output.tolist() == [0, 1, 2] and calls == [([3], [3])] * 2 + [([], [])]
    finally:
        dist.destroy_process_group()


def test_no_processes_end_at_once_as_in_torch(tmp_path):
    for entrypoint, kind in ((print, "MultiprocessContext"), ("/bin/true", "SubprocessContext")):
        context = start_processes("none", entrypoint, {}, {}, DefaultLogsSpecs(log_dir=tmp_path))
        result = context.wait(5)
        assert type(context).__name__ == kind and context.pids() == {}
        assert (result.return_values, result.failures, result.stdouts, result.stderrs) == ({}, {}, {}, {})
        with pytest.raises(RuntimeError, match=r"local rank mapping mismatch, expected: set\(\), actual: \{0\}"):
            start_processes("none", entrypoint, {}, {0: {}}, DefaultLogsSpecs(log_dir=tmp_path))


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("words, got", [
    ("self, *death_sig", {}), ("self, death_sig=None", {}), ("self, death_sig=None, timeout=30", {"timeout": 9}),
    ("self, *death_sig, **more", {"more": {"timeout": 9}})])
def test_agents_whose_shutdown_has_no_timeout_end(words, got, stopped):
    seen = []
    names = {"seen": seen}
    exec(f"def _shutdown({words}): seen.append(dict(locals()))", names)

    def run(self, role="default"):
        if stopped:
            raise SignalException("stopped", signal.SIGINT)
        return RunResult(WorkerState.SUCCEEDED)
    nothing = dict.fromkeys(("_start_workers", "_stop_workers", "_monitor_workers", "_record_metrics", "_record_worker_events"),
                            lambda self, *_: None)
    made = type("Agent", (SimpleElasticAgent,), {**nothing, "_shutdown": names["_shutdown"], "_invoke_run": run})
    agent = made(WorkerSpec("trainer", 1, None, entrypoint=print), shutdown_timeout=9)
    if stopped:
        with pytest.raises(SignalException):
            agent.run()
    else:
        assert agent.run().state is WorkerState.SUCCEEDED
    (call,) = seen
    assert {name: call[name] for name in got} == got
    assert (call["death_sig"] in (signal.SIGINT, (signal.SIGINT,))) == stopped
