"""Runs functions of a test file in several processes, one a rank.

`run("file.py", "name", size, backend)` starts the processes and returns their exit codes and output; each
imports the file and calls the function `name` after init_process_group.  All processes are ended at a limit."""
import importlib.util
import os
import subprocess
import sys
import time

LIMIT = 40


class Result:
    """Exit codes and outputs by rank."""

    def __init__(self, codes, texts, late):
        self.codes, self.texts, self.late = codes, texts, late

    def __repr__(self):
        return f"late: {self.late}\n" + "\n".join(
            f"--- rank {r}: {c}\n{t}" for r, (c, t) in enumerate(zip(self.codes, self.texts)))


def run(path, name, size, backend, timeout=15.0, **env):
    """Runs one function in `size` ranks."""
    import cresset.distributed as dist
    store = dist.TCPStore("127.0.0.1", 0, None, True)
    everything = {**os.environ, "OMP_NUM_THREADS": "1", "RANKS_PORT": str(store.port), "RANKS_SIZE": str(size),
                  "RANKS_BACKEND": backend, "RANKS_TIMEOUT": str(timeout), **env}
    processes = [subprocess.Popen([sys.executable, __file__, os.path.abspath(path), name], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env={**everything, "RANKS_RANK": str(r)})
                 for r in range(size)]
    end, texts, late = time.monotonic() + LIMIT, [], False
    for p in processes:
        try:
            texts.append(p.communicate(timeout=max(0.1, end - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            late = True
            p.kill()
            texts.append(p.communicate()[0])
    return Result([p.returncode for p in processes], texts, late)


def _main():
    from datetime import timedelta
    import cresset.distributed as dist
    rank, size = int(os.environ["RANKS_RANK"]), int(os.environ["RANKS_SIZE"])
    spec = importlib.util.spec_from_file_location("in_rank", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    limit = timedelta(seconds=float(os.environ["RANKS_TIMEOUT"]))
    store = dist.TCPStore("127.0.0.1", int(os.environ["RANKS_PORT"]), None, False, timedelta(seconds=20))
    dist.init_process_group(os.environ["RANKS_BACKEND"], store=store, rank=rank, world_size=size, timeout=limit)
    getattr(module, sys.argv[2])(rank, size)
    # ranks end together, so that no engine's end disturbs a slower rank
    store.barrier("end of the test", size, timedelta(seconds=20))
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    _main()
