"""Runs functions of a test file in several processes, one a rank.

`run("file.py", "name", size, backend)` starts the processes and returns their exit codes and output; each
imports the file and calls the function `name` after init_process_group.  The processes are forks of one that
has imported the package: to start Python for each rank takes most of the time of a short test.  Each run has new
processes, so that a test may end or stop them.  All are ended at a limit, after they have printed their stacks."""
import atexit
import faulthandler
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT = 300  # seconds; many times what the slowest test takes, because a loaded machine is no failure

_source = None
_ports = 0


class Result:
    """Exit codes and outputs by rank."""

    def __init__(self, codes, texts, late):
        self.codes, self.texts, self.late = codes, texts, late

    def __repr__(self):
        return f"late: {self.late}\n" + "\n".join(
            f"--- rank {r}: {c}\n{t}" for r, (c, t) in enumerate(zip(self.codes, self.texts)))


def run(path, name, size, backend, timeout=60.0, **env):
    """Runs one function in `size` ranks."""
    import cresset.distributed as dist
    store = dist.TCPStore("127.0.0.1", 0, None, True)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [os.path.join(folder, str(r)) for r in range(size)]
        everything = {**os.environ, "OMP_NUM_THREADS": "1", "RANKS_PORT": str(store.port), "RANKS_SIZE": str(size),
                      "RANKS_BACKEND": backend, "RANKS_TIMEOUT": str(timeout), "RANKS_LIMIT": str(LIMIT), **env}
        codes, late = _ask({"path": os.path.abspath(path), "name": name, "env": everything, "outputs": outputs})
        texts = []
        for output in outputs:
            with open(output, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
    return Result(codes, texts, late)


def forms():
    """Marks a test that runs with `short` "1", and with "" where long forms run: the value of RANKS_SHORT."""
    import pytest
    return pytest.mark.parametrize("short", ["1", pytest.param("", marks=pytest.mark.full)], ids=["short", "long"])


def free_port():
    """A port that is free, below those that the system gives: no store or engine of another test gets it meanwhile."""
    global _ports
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first, end = 10240, max(int(file.read().split()[0]), 11264)
    while True:
        _ports += 1
        port = first + (os.getpid() * 101 + _ports) % (end - first)
        with socket.socket() as place:
            try:
                place.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def _ask(job):
    """Sends a job to the process that forks ranks, which starts with the first job."""
    global _source
    if _source is None or _source.poll() is not None:
        _source = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                                        "MKL_NUM_THREADS": "1"})  # the pools of NumPy are threads, too
        atexit.register(_source.communicate)  # its input ends, and it with it
    _source.stdin.write(json.dumps(job) + "\n")
    _source.stdin.flush()
    answer = _source.stdout.readline()
    assert answer, "the process that forks ranks has ended"
    return json.loads(answer)


def _fork(job):
    """Starts the ranks of a job.  Returns their numbers of processes, and None in each rank."""
    pids = []
    for rank, output in enumerate(job["outputs"]):
        pid = os.fork()
        if not pid:
            os.environ.clear()
            os.environ.update(job["env"], RANKS_RANK=str(rank))
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, to in ((nothing, 0), (file, 1), (file, 2)):
                os.dup2(source, to)
            return None
        pids.append(pid)
    return pids


def _wait(pids, limit):
    """Exit codes of processes, and whether some were ended at the limit."""
    handles = [os.pidfd_open(pid) for pid in pids]
    end, late, poll = time.monotonic() + limit, False, select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left = set(handles)
    while left:
        ended = poll.poll(max(0, end - time.monotonic()) * 1000)
        if not ended:
            late = True
            for number in (signal.SIGUSR2, signal.SIGKILL):  # the stacks; a stopped process prints none
                for handle in left:
                    signal.pidfd_send_signal(handle, number)
                time.sleep(1)
            break
        for handle, _ in ended:
            poll.unregister(handle)
            left.remove(handle)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    for handle in handles:
        os.close(handle)
    return codes, late


def _main():
    """Forks the ranks of job after job.  Returns the job of this rank, or None at the end of the jobs."""
    import numpy  # noqa: F401
    import cresset.distributed.checkpoint
    import cresset.distributed.fsdp
    import cresset.distributed.tensor.parallel  # noqa: F401
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"the package started {threads - 1} threads when it was imported: a fork has one"
    gc.collect()
    gc.freeze()  # ranks do not look through the package's objects when they end
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        job = json.loads(line)
        pids = _fork(job)
        if pids is None:
            return job
        answers.write(json.dumps(_wait(pids, float(job["env"]["RANKS_LIMIT"]))) + "\n")
        answers.flush()
    return None


def _rank(job):
    from datetime import timedelta
    import cresset.distributed as dist
    faulthandler.register(signal.SIGUSR2)
    rank, size = int(os.environ["RANKS_RANK"]), int(os.environ["RANKS_SIZE"])
    spec = importlib.util.spec_from_file_location("in_rank", job["path"])
    module = sys.modules["in_rank"] = importlib.util.module_from_spec(spec)  # pickle finds its functions
    spec.loader.exec_module(module)
    patience = timedelta(seconds=LIMIT)
    store = dist.TCPStore("127.0.0.1", int(os.environ["RANKS_PORT"]), None, False, patience)
    dist.init_process_group(os.environ["RANKS_BACKEND"], store=store, rank=rank, world_size=size,
                            timeout=timedelta(seconds=float(os.environ["RANKS_TIMEOUT"])))
    getattr(module, job["name"])(rank, size)
    # ranks end together, so that no engine's end disturbs a slower rank
    store.barrier("end of the test", size, patience)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    own = _main()
    if own is not None:
        _rank(own)
