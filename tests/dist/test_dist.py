"""Groups of processes: calls, messages, groups, and faults, by each engine that is here."""
import os
import signal
import socket
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import cresset as torch
import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("gloo", "mpi") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_ranks.py")


@pytest.fixture(autouse=True)
def alone():
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def alarm():
    """Runs a call that waits, with a signal whose handler raises."""
    def handler(*args):
        raise InterruptedError("alarm")

    def run(call):
        with pytest.raises(InterruptedError, match="alarm"):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            call()

    before = signal.signal(signal.SIGALRM, handler)
    yield run
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def passes(name, size, backend, killed=(), **env):
    result = ranks.run(HERE, name, size, backend, **env)
    assert not result.late and result.codes == [-signal.SIGKILL if r in killed else 0 for r in range(size)], result


def test_an_engine_is_here():
    assert BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [2, 4])
def test_calls_messages_and_groups(size, backend):
    passes("everything", size, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_messages_that_differ_are_told_by_both_ranks(backend):
    passes("other_messages", 2, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_that_differ_are_an_error_at_every_rank(backend):
    passes("differences", 2, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_errors_of_a_part_have_the_runs_numbers_of_ranks(backend):
    passes("differences_in_a_part", 3, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("call", ["all_reduce", "broadcast"])
def test_a_killed_rank_is_named(call, backend):
    passes("one_dies", 3, backend, killed=[1], CALL=call, ELEMENTS="50000")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("call", ["all_reduce"])
def test_a_stopped_rank_is_named_after_the_timeout(call, backend):
    passes("one_stops", 2, backend, killed=[1], CALL=call, ELEMENTS="50000", timeout=3.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_late_rank_is_named(backend):
    passes("one_is_late", 2, backend, timeout=3.0)


JOIN = """
import sys
from datetime import timedelta
import cresset.distributed as dist
url, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
try:
    dist.init_process_group(sys.argv[4], init_method=url, rank=rank, world_size=size, timeout=timedelta(seconds=float(sys.argv[5])))
    print("joined")
except (dist.DistError, ValueError) as error:
    print(type(error).__name__, error)
"""


def join(url, places, seconds, engines=None, lacking=None):
    """Processes of these (rank, size) try to make a group; returns what each says.  engines: one for each; the first of
    BACKENDS without.  lacking: the place of a process that does not find MPI's library."""
    engines = engines or [BACKENDS[0]] * len(places)
    env = [{**os.environ, "CR_MPI": "/none"} if i == lacking else None for i in range(len(places))]
    processes = [subprocess.Popen([sys.executable, "-c", JOIN, url, str(r), str(n), engine, str(seconds)], text=True, env=e,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                 for (r, n), engine, e in zip(places, engines, env)]
    try:
        assert [p.stdout.readline() for p in processes] == ["ready\n"] * len(places)
        for p in processes:
            p.stdin.write("go\n")
            p.stdin.flush()
        return [p.communicate(timeout=seconds + ranks.LIMIT)[0].strip() for p in processes]
    finally:
        for p in processes:
            p.kill()


@pytest.fixture(params=["tcp", "file"])
def url(request, tmp_path):
    return f"tcp://127.0.0.1:{ranks.free_port()}" if request.param == "tcp" else f"file://{tmp_path}/store"


def test_ranks_that_state_other_sizes_say_so(url):
    texts = join(url, [(0, 3), (1, 3), (2, 4)], 60)
    for rank, text in enumerate(texts):
        assert text.startswith(f"DistBackendError rank {rank} cannot join the group 'default_pg': ") and (
            "different sizes" in text) and "rank 2 has 4" in text and " has 3" in text, texts


AGAIN = """
import sys
from datetime import timedelta
import cresset as torch, cresset.distributed as dist
kind, place, rank, engine = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
limit = timedelta(seconds=60)
store = dist.FileStore(place, 2) if kind == "file" else dist.TCPStore("127.0.0.1", int(place), 2, rank == 0, limit)
tries = [(rank, 3 if rank else 2), (0, 2), (rank, 2)]  # other sizes; two processes of one rank; right
for n, (number, size) in enumerate(tries):
    try:
        if n < 2:
            dist.init_process_group(engine, store=store, rank=number, world_size=size, timeout=limit)
        else:
            dist.init_process_group(engine, store=store, rank=number, world_size=size, timeout=limit)
        x = torch.full((2,), rank + 1.0)
        dist.all_reduce(x)
        print(x.tolist())
    except dist.DistError as error:
        print(error)
store.barrier("end", 2, limit)
"""


@pytest.mark.parametrize("engine", BACKENDS)
@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_a_refused_group_may_be_tried_again(kind, engine, tmp_path):
    place = str(tmp_path / "store") if kind == "file" else str(ranks.free_port())
    processes = [subprocess.Popen([sys.executable, "-c", AGAIN, kind, place, str(r), engine], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) for r in range(2)]
    try:
        texts = [p.communicate(timeout=ranks.LIMIT)[0].splitlines() for p in processes]
    finally:
        for p in processes:
            p.kill()
    for text in texts:
        assert len(text) == 3 and "different sizes" in text[0] and "have the same rank" in text[1] and text[2] == "[3.0, 3.0]", texts


def test_two_processes_of_one_rank_are_named_at_all_ranks(url):
    texts = join(url, [(0, 3), (1, 3), (1, 3)], 60)
    assert all("rank 1 is process" in text and "have the same rank" in text for text in texts), texts
    assert texts[0].startswith("DistBackendError rank 0 cannot join the group 'default_pg': "), texts


THREADS = '''
import threading, sys
from datetime import timedelta
import cresset.distributed as dist
store, texts = dist.HashStore(), []
def join():
    try:
        dist.ProcessGroupGloo(store, 1, 2, timedelta(seconds=int(sys.argv[1])))
        texts.append("joined")
    except dist.DistError as error:
        texts.append(str(error))
threads = [threading.Thread(target=join) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
one = dist.HashStore()
again = [dist.ProcessGroupGloo(one, 0, 1) for _ in range(2)]  # one thread after another group of its own
print(*texts, sep="\\n")
'''


@pytest.mark.skipif("gloo" not in BACKENDS, reason="wants Gloo")
def test_two_threads_of_one_rank_are_named():
    text = subprocess.run([sys.executable, "-c", THREADS, "60"], text=True, capture_output=True, timeout=ranks.LIMIT).stdout.splitlines()
    assert len(text) == 2 and all("rank 1 is another thread of process" in t and "have the same rank" in t for t in text), text


def test_a_rank_that_never_comes_is_named_at_all_others(url):
    texts = join(url, [(0, 3), (1, 3)], 4)
    for rank, text in enumerate(texts):
        assert text == (f"DistStoreError rank {rank} cannot join the group 'default_pg': Timed out after 4000ms: 1 of 3 ranks "
                        "have not joined the group (rank 2)"), texts


@pytest.mark.skipif(len(BACKENDS) < 2, reason="one engine is there")
@pytest.mark.parametrize("size, other", [(2, 0), (3, 0), (3, 1)])
def test_ranks_that_name_other_engines_say_so(url, size, other):
    texts = join(url, [(r, size) for r in range(size)], 60, [BACKENDS[r == other] for r in range(size)])
    for rank, text in enumerate(texts):
        assert text.startswith(f"DistBackendError rank {rank} cannot join the group 'default_pg': the ranks name different "
                               "engines of the group: rank "), texts
        assert f"rank {other} names '{BACKENDS[1]}' (<string>:9)" in text and f"names '{BACKENDS[0]}' (<string>:9)" in text, texts


def mpi_can_be_hidden():
    code = "import cresset.distributed as dist; print(dist.is_mpi_available())"
    return "mpi" in BACKENDS and subprocess.run([sys.executable, "-c", code], env={**os.environ, "CR_MPI": "/none"}, text=True,
                                                capture_output=True).stdout == "False\n"


@pytest.mark.parametrize("size, lacking", [(2, 0), (3, 0), (3, 1)])
def test_a_rank_that_lacks_the_engine_is_named_at_all_others(url, size, lacking):
    if not mpi_can_be_hidden():
        pytest.skip("no MPI, or it is found without CR_MPI")
    texts = join(url, [(r, size) for r in range(size)], 60, ["mpi"] * size, lacking)
    for rank, text in enumerate(texts):
        if rank == lacking:
            assert text.startswith("DistBackendError ") and "/none" in text and "cannot join" not in text, texts
        else:
            assert text.startswith(f"DistBackendError rank {rank} cannot join the group 'default_pg': rank {lacking} has no "
                                   "engine 'mpi' (<string>:9): ") and "/none" in text, texts


@pytest.mark.parametrize("rank", [-2, 3])
def test_a_rank_outside_of_the_run_is_refused_at_once(rank):
    with pytest.raises(ValueError, match=f"rank {rank} is not in a run of 3 ranks"):
        dist.init_process_group(BACKENDS[0], init_method="tcp://127.0.0.1:1", rank=rank, world_size=3)


def test_a_group_that_was_refused_can_be_made_again():
    store = dist.HashStore()
    how = {"store": store, "rank": 0, "world_size": 2, "timeout": timedelta(milliseconds=50)}
    for _ in range(2):
        with pytest.raises(dist.DistStoreError, match=r"1 of 2 ranks have not joined the group \(rank 1\)"):
            dist.init_process_group(BACKENDS[0], **how)
    assert not [key for key in store.list_keys() if "refusal" in key]


def test_monitored_barrier_names_missing_ranks():
    passes("barrier_names_missing", 3, BACKENDS[0])


def test_a_lost_store_is_an_error_and_calls_go_on():
    code = ("import sys, time, cresset.distributed as dist\n"
            "s = dist.TCPStore('127.0.0.1', 0, None, True)\nprint(s.port, flush=True)\n"
            "s.set_timeout(60)\ns.get('lose')\ntime.sleep(0.3)\n")
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip()
    passes("store_is_lost", 2, BACKENDS[0], RANKS_PORT=port)
    assert server.wait(10) == 0


# --- one process ----------------------------------------------------------------------------------

def start(**how):
    dist.init_process_group(BACKENDS[0], store=dist.HashStore(), rank=0, world_size=1, **how)


def test_stores_answer_as_torch_does():
    for store in (dist.HashStore(), dist.TCPStore("127.0.0.1", 0, None, True), dist.PrefixStore("p", dist.HashStore())):
        store.set("k", "v")
        assert store.get("k") == b"v" and store.add("n", 2) == 2 and store.add("n", 3) == 5
        assert store.compare_set("k", "v", "w") == b"w" and store.compare_set("k", "v", "x") == b"w"
        assert store.compare_set("new", "", "first") == b"first" and store.compare_set("no", "a", "b") == b"a"
        assert store.check(["k", "n"]) and not store.check(["k", "absent"])
        store.append("k", "!")
        store.multi_set(["a", "b"], ["1", "2"])
        assert store.multi_get(["a", "b", "k"]) == [b"1", b"2", b"w!"]
        assert store.delete_key("a") and not store.delete_key("a") and sorted(store.list_keys()) == ["b", "k", "n", "new"]
        store.queue_push("q", "1")
        assert store.queue_len("q") == 1 and store.queue_pop("q") == b"1"
        with pytest.raises(dist.QueueEmptyError, match="empty"):
            store.queue_pop("q", block=False)
        store.set_timeout(timedelta(milliseconds=50))
        with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: "):
            store.get("never")
        with pytest.raises(TypeError):
            store.set("k", 3)


def test_processes_that_share_a_store_call_each_other():
    from multiprocessing.pool import ThreadPool
    store, limit = dist.HashStore(), timedelta(seconds=10)

    def calls(rank):
        c = dist._StoreCollectives(store, rank, 3)
        c.barrier("met", limit, True)
        sent = c.broadcast_send("one", b"x", limit) if rank == 2 else c.broadcast_recv("one", limit)
        given = c.scatter_send("each", ["0", "1", "2"], limit) if rank == 0 else c.scatter_recv("each", limit)
        to_one = c.gather_recv("to one", str(rank), limit) if rank == 1 else c.gather_send("to one", str(rank), limit)
        return sent, given, to_one, c.all_gather("all", str(rank), limit), c.all_sum("sum", rank + 1, limit)
    with ThreadPool(3) as pool:
        got = pool.map(calls, range(3))
    each = [b"0", b"1", b"2"]
    assert got == [(None if r == 2 else b"x", each[r], each if r == 1 else None, each, 6) for r in range(3)]


@pytest.mark.parametrize("call, words", [
    (lambda c, limit: c.barrier("k", limit, True), "barrier failed -- missing ranks: 0, 2"),
    (lambda c, limit: c.all_gather("k", "x", limit), "all_gather failed -- missing ranks: 0, 2"),
    (lambda c, limit: c.gather_recv("k", "x", limit), "gather failed -- missing ranks: 0, 2"),
    (lambda c, limit: c.all_sum("k", 1, limit), "missing ranks: 0, 2"),
    (lambda c, limit: c.broadcast_recv("k", limit), "Wait timeout"), (lambda c, limit: c.scatter_recv("k", limit), "Wait timeout")])
def test_late_processes_of_a_store_are_named(call, words):
    calls = dist._StoreCollectives(dist.HashStore(), 1, 3)
    with pytest.raises(dist.DistStoreError, match=words):
        call(calls, timedelta(milliseconds=1))
    with pytest.raises(ValueError, match="Key k has already been used"):
        call(calls, timedelta(milliseconds=1))


@pytest.mark.parametrize("query, given", [("rank=12&world_size=16", (12, 16)), ("rank=1", (-1, 2)), ("world_size=2", (0, -1))])
def test_an_address_with_a_rank_takes_no_other_one(query, given):
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous(f"file://foo?{query}", *given)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_store_refuses_ports_that_do_not_exist(port):
    with pytest.raises(ValueError, match=f"a port is a number from 0 to 65535, not {port}"):
        dist.TCPStore("127.0.0.1", port, None, True)


def _tcp(**how):
    return dist.TCPStore("127.0.0.1", 0, is_master=True, **how)


@pytest.mark.parametrize("make", [
    lambda path: dist.HashStore(), lambda path: dist.FileStore(path), lambda path: _tcp(),
    lambda path: dist.PrefixStore("p", _tcp())], ids=["hash", "file", "tcp", "prefix"])
def test_handlers_of_signals_end_waits_of_stores(make, tmp_path, alarm):
    store = make(str(tmp_path / "store"))
    for wait in (lambda: store.get("k"), lambda: store.wait(["k"]), lambda: store.multi_get(["k", "l"]),
                 lambda: store.queue_pop("q"), lambda: store.barrier("b", 2)):
        alarm(wait)
    store.set("k", "v")
    assert store.get("k") == b"v"


def test_handlers_of_signals_end_the_making_of_stores_and_groups(alarm):
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    alarm(lambda: dist.TCPStore("127.0.0.1", closed.getsockname()[1], 2))
    alarm(lambda: _tcp(world_size=2))
    for backend in BACKENDS:
        alarm(lambda: dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=2))


def test_a_handler_that_returns_leaves_a_wait_alone():
    called, before = [], signal.signal(signal.SIGALRM, lambda *a: called.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(dist.DistStoreError, match="wait timeout after 400ms"):
            dist.HashStore().wait(["k"], timedelta(milliseconds=400))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert called == [1]


@pytest.mark.parametrize("use_libuv", [False, True])
def test_a_tcp_store_takes_a_bound_socket(use_libuv):
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    store = dist.TCPStore("127.0.0.1", port, 1, True, master_listen_fd=bound.detach(), use_libuv=use_libuv)
    store.set("k", "v")
    assert store.get("k") == b"v" and store.port == port and store.libuvBackend == use_libuv


def test_a_file_store_is_removed_by_the_last_of_its_world(tmp_path):
    path = str(tmp_path / "store")
    a, b = dist.FileStore(path, 2), dist.FileStore(path, 2)
    a.set("k", "v")
    assert b.get("k") == b"v"
    del a
    assert os.path.exists(path)
    del b
    assert not os.path.exists(path)


def test_a_programs_store_may_leave_methods_out():
    class Small(dist.Store):
        def __init__(self):
            super().__init__()
            self.table = {}

        def set(self, key, value):
            self.table[key] = value

        def get(self, key):
            return self.table[key]

        def compare_set(self, key, expected, desired):
            if self.table.get(key, b"") == expected:
                self.table[key] = desired
            return self.table[key]

    class Large(Small):
        asked = ()

        def multi_get(self, keys):
            self.asked = keys
            return [b"x"] * len(keys)

        def has_extended_api(self):
            return True

    for store in (Small(), dist.PrefixStore("p", Small())):
        store.append("k", "po")
        store.append("k", b"tato")
        store.multi_set(["a", "b"], ["1", b"2"])
        assert store.multi_get(["k", "a", "b"]) == [b"potato", b"1", b"2"] and not store.has_extended_api()
    for store in (dist.Store(), dist.PrefixStore("p", dist.Store())):
        for call in (lambda: store.set("k", "v"), lambda: store.get("k"), lambda: store.append("k", "v"),
                     lambda: store.multi_get(["k", "l"]), lambda: store.multi_set(["k", "l"], ["v", "w"]),
                     lambda: store.add("k", 1), lambda: store.queue_len("k")):
            with pytest.raises(RuntimeError, match="Not implemented."):
                call()
    large = Large()
    store = dist.PrefixStore("p", large)
    assert store.has_extended_api() and store.multi_get(["a", "b"]) == [b"x", b"x"] and large.asked == ["p/a", "p/b"]


@pytest.mark.parametrize("make, key", [(_tcp, "/k"), (lambda: dist.PrefixStore("p", _tcp()), "/p/k")])
def test_errors_of_tcp_stores_name_keys_as_torch_does(make, key):
    store = make()
    store.set_timeout(timedelta(milliseconds=20))
    with pytest.raises(dist.DistStoreError, match=f"wait timeout after 20ms, keys: {key}$"):
        store.get("k")


def test_a_tcp_store_of_no_processes_is_refused():
    with pytest.raises(ValueError, match="TCPStore world size cannot be 0"):
        dist.TCPStore("127.0.0.1", 0, world_size=0, is_master=False)


def test_a_programs_store_serves_groups():
    class Mine(dist.Store):
        def __init__(self):
            super().__init__()
            self.table, self.changed = {}, threading.Condition()

        def set(self, key, value):
            with self.changed:
                self.table[key] = value.encode("latin-1") if isinstance(value, str) else value
                self.changed.notify_all()

        def get(self, key):
            self.wait([key])
            return self.table[key]

        def wait(self, keys, timeout=timedelta(seconds=5)):
            with self.changed:
                if not self.changed.wait_for(lambda: all(k in self.table for k in keys), timeout.total_seconds()):
                    raise RuntimeError("late")

        def compare_set(self, key, expected, desired):
            if key not in self.table:
                self.set(key, desired)
            return self.table[key]

        def check(self, keys):
            return all(k in self.table for k in keys)

        def add(self, key, amount):
            self.set(key, str(int(self.table.get(key, b"0")) + amount))
            return int(self.table[key])
    dist.init_process_group(BACKENDS[0], store=Mine(), rank=0, world_size=1)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [1, 1]


def test_bad_input_has_torchs_words(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    cases = [
        (lambda: dist.all_reduce(torch.ones(1)), ValueError, "Default process group has not been initialized"),
        (lambda: dist.init_process_group("gloo"), ValueError, "environment variable RANK expected, but not set"),
        (lambda: dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1"), ValueError, "rank parameter missing"),
        (lambda: dist.init_process_group("gloo", init_method="bad://x"), RuntimeError, "No rendezvous handler for bad://"),
        (lambda: dist.init_process_group("gloo", store=dist.HashStore()), AssertionError, "world_size must be positive"),
        (lambda: dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1), RuntimeError, "NCCL built in"),
        (lambda: dist.init_process_group("no", store=dist.HashStore(), rank=0, world_size=1), dist.DistBackendError, "'no'"),
        (lambda: dist.init_process_group(BACKENDS[0], store=dist.HashStore(), rank=3, world_size=2), ValueError, "no rank 3"),
        (lambda: dist.init_process_group("gloo", timeout=3), TypeError, "timedelta"),
        (lambda: dist.TCPStore("127.0.0.1", 1, None, False, timedelta(seconds=0.2)), dist.DistNetworkError, "timed out after 200ms"),
        (lambda: dist.TCPStore("no.such.host.invalid", 1, None, False, timedelta(seconds=0.2)), dist.DistNetworkError, "cannot be retrieved"),
        (lambda: dist.Backend(3), ValueError, "string-ish"),
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
    assert not dist.is_initialized()


def test_bad_calls_of_a_group():
    start()
    cases = [
        (lambda: dist.all_reduce([1]), TypeError, "Expected parameter `tensor` of type torch.Tensor"),
        (lambda: dist.all_gather(torch.ones(1), torch.ones(1)), TypeError, "type List"),
        (lambda: dist.all_gather([torch.ones(2)] * 2, torch.ones(2)), RuntimeError, "expected length 1, got 2"),
        (lambda: dist.all_gather([torch.ones(2)], torch.ones(3)), (RuntimeError, ValueError),
         "invalid tensor size at index 0|3 elements"),
        (lambda: dist.all_gather([torch.ones(2)], torch.ones(2, dtype=torch.int32)), ValueError, "different dtypes"),
        (lambda: dist.broadcast(torch.ones(2), 3), (RuntimeError, ValueError), "rank"),
        (lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX), ValueError, "complex"),
        (lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND), RuntimeError, "non-integral"),
        (lambda: dist.send(torch.ones(1), 0), ValueError, "Invalid destination rank"),
        (lambda: dist.gather(torch.ones(1)), ValueError, "must be specified on destination rank"),
        (lambda: dist.new_group([5]), ValueError, "Rank 5 is out of range"),
        (lambda: start(), ValueError, "twice"),
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()
    pg = dist.group.WORLD
    dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="destroyed"):
        pg.allreduce([torch.ones(1)])


@pytest.mark.skipif("gloo" not in BACKENDS, reason="wants Gloo")
def test_the_process_with_the_store_may_end_when_it_has_joined():
    result = ranks.run(HERE, "ends_at_once", 3, "gloo")
    assert result.codes == [0] * 3 and all("joined" in text for text in result.texts), result


@pytest.mark.skipif("gloo" not in BACKENDS, reason="wants Gloo")
def test_a_gloo_group_is_made_without_the_group_of_all_ranks():
    how = dist.ProcessGroupGloo.Options(timedelta(seconds=7))
    how._devices = [dist.ProcessGroupGloo.create_device(interface="lo")]
    group = dist.ProcessGroupGloo(dist.HashStore(), 0, 1, how)
    x = torch.ones(2)
    group.allreduce([x]).wait()
    assert x.tolist() == [1, 1] and group.options._timeout == timedelta(seconds=7)
    how._devices = [dist.ProcessGroupGloo.create_device(interface="no-such-device")]
    with pytest.raises(RuntimeError, match="Unable to find address for: no-such-device"):
        dist.ProcessGroupGloo(dist.HashStore(), 0, 1, how)


def test_a_fake_group_has_any_size():
    dist.init_process_group("fake", store=dist.HashStore(), rank=3, world_size=4096)
    x = torch.ones(2)
    dist.all_reduce(x)
    parts = [torch.zeros(2) for _ in range(4096)]
    dist.all_gather(parts, x)
    assert dist.get_world_size() == 4096 and parts[7].tolist() == [1, 1]


def test_a_registered_backend_gets_the_calls():
    class Mine(dist.ProcessGroup):
        def allreduce(self, tensors, opts=None):
            tensors[0].mul_(10)
            work = dist.Work()
            work.wait = lambda *args: True
            return work

        def getBackendName(self):
            return "mine"
    dist.Backend.register_backend("mine", lambda store, rank, size, timeout: Mine(rank, size), devices=["cpu"])
    dist.init_process_group("mine", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [10, 10] and dist.get_backend() == "mine"


def test_public_names_are_torchs():
    """At least nine in ten of the names of torch 2.13's torch.distributed."""
    with open(os.path.join(os.path.dirname(HERE), "torch_names.txt"), encoding="utf-8") as file:
        names = file.read().split()
    missing = [name for name in names if not hasattr(dist, name)]
    assert len(missing) <= len(names) // 10, missing


@pytest.mark.parametrize("shape", [(7, 5), (12, 6), (1, 2)])
def test_parts_of_a_placed_tensor_tile_it(shape):
    """transformers computes the parts of files from placements."""
    from cresset.distributed.tensor import Replicate, Shard
    from cresset.distributed.tensor._utils import compute_local_shape_and_global_offset as part_of
    for placements, copies in (([Shard(0), Shard(0)], 1), ([Shard(0), Shard(1)], 1), ([Shard(1), Shard(1)], 1), ([Replicate(), Shard(1)], 2)):
        counts = torch.zeros(shape)
        for rank in range(6):
            dist.init_process_group("fake", store=dist.HashStore(), rank=rank, world_size=6)
            sizes, first = part_of(shape, dist.init_device_mesh("cpu", (2, 3)), placements)
            dist.destroy_process_group()
            assert all(first[d] == shape[d] for d in range(2) if not sizes[d])
            counts[first[0]:first[0] + sizes[0], first[1]:first[1] + sizes[1]] += 1
        assert counts.eq(copies).all(), (placements, counts)
    assert Shard.local_shard_size_and_offset(10, 4, 3) == (1, 9)


def test_classes_that_libraries_ask_for():
    """Libraries import these names wherever torch.distributed is available."""
    from cresset.distributed import fsdp, tensor
    from cresset.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
    net = torch.nn.Linear(2, 2)
    assert not isinstance(net, (fsdp.FSDPModule, FullyShardedDataParallel)) and not isinstance(net.weight, tensor.DTensor)
    assert fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16).cast_forward_inputs and fsdp.CPUOffloadPolicy().pin_memory
