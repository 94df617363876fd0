"""torchrun: environment, restarts, error files, signals, no process left."""
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import ranks

PROGRAM = """
import faulthandler, os, signal, sys, time
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

faulthandler.register(signal.SIGUSR1)  # prints stacks

@record
def main():
    dist.init_process_group()
    x = torch.ones(1) * dist.get_rank()
    dist.all_reduce(x)
    count = os.environ["TORCHELASTIC_RESTART_COUNT"]
    # one write: the launcher starts Python without buffers, and the ranks share a pipe
    sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {x.item()} start {count} pid {os.getpid()}\\n")
    if sys.argv[1] == "kill" and dist.get_rank() == 1 and count == "0":
        os.kill(os.getpid(), 9)
    if sys.argv[1] == "raise" and dist.get_rank() == 1:
        raise ValueError("no luck")
    if sys.argv[1] == "sleep":
        for _ in range(600):  # a signal that arrives just before a sleep is handled after it
            time.sleep(0.1)
    dist.barrier()
    dist.destroy_process_group()

main()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def launch(*args, module="cresset.distributed.run"):
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen([sys.executable, "-m", module, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env=env)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def stacks(run, pids):
    """Ends the launcher and returns what its workers that live do."""
    states = [f"{pid} lives: {lives(pid)}\n" for pid in pids]
    for pid in filter(lives, pids):
        os.kill(pid, signal.SIGUSR1)
    time.sleep(1)  # in which they print
    run.kill()
    return "".join(states) + run.communicate()[0]


def all_gone(pids, limit=60.0):
    end = time.monotonic() + limit
    while any(map(lives, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(lives, pids))


def pids_of(text):
    words = text.split()
    return [int(words[i + 1]) for i, word in enumerate(words) if word == "pid"]


def test_the_launcher_does_not_import_layers():
    code = "import sys, cresset.distributed.run; print('cresset.nn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=ranks.LIMIT)
    assert done.stdout == "False\n", done


def test_ranks_meet_by_the_environment(program):
    run = launch("--standalone", "--nproc-per-node", "2", program, "end")
    text = run.communicate(timeout=ranks.LIMIT)[0]
    assert run.returncode == 0 and "rank 0 of 2 sum 1.0" in text and "rank 1 of 2 sum 1.0" in text, text


def test_a_killed_worker_is_restarted(program):
    run = launch("--standalone", "--nproc_per_node=2", "--max-restarts=1", program, "kill")
    text = run.communicate(timeout=ranks.LIMIT)[0]
    assert run.returncode == 0 and text.count("start 0") == 2 and text.count("start 1") == 2, text


def test_the_first_failure_is_shown(program):
    run = launch("--standalone", "--nproc-per-node", "2", program, "raise")
    text = run.communicate(timeout=ranks.LIMIT)[0]
    assert run.returncode == 1 and "Root Cause" in text and "ValueError: no luck" in text and "rank      : 1" in text, text
    assert all_gone(pids_of(text))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_launcher(program, number):
    run = launch("--standalone", "--nproc-per-node", "2", program, "sleep")
    lines = [run.stdout.readline() for _ in range(2)]
    pids = [pid for line in lines for pid in pids_of(line)]
    assert len(pids) == 2, lines
    run.send_signal(number)
    try:
        run.wait(ranks.LIMIT)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the launcher {run.pid} still runs; its workers:\n{stacks(run, pids)}")
    run.stdout.close()
    assert run.returncode != 0 and all_gone(pids)


def test_agents_of_two_hosts_meet(program):
    how = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{ranks.free_port()}",
           "--rdzv-id", "two")
    runs = [launch(*how, program, "end") for _ in range(2)]
    texts = [run.communicate(timeout=ranks.LIMIT)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0] and "".join(texts).count("of 2 sum 1.0") == 2, texts


def test_agents_of_two_hosts_restart_and_fail_together(program):
    """A worker of one host fails: all start again, with one number of restarts; then both agents end."""
    how = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "again", "--max-restarts", "1",
           "--rdzv-endpoint", f"127.0.0.1:{ranks.free_port()}")
    runs = [launch(*how, program, "raise") for _ in range(2)]
    text = "".join(run.communicate(timeout=ranks.LIMIT)[0] for run in runs)
    assert [run.returncode for run in runs] == [1, 1] and text.count("start 0") == text.count("start 1") == 2, text
    # The worker of the other host fails, too, when its barrier ends; whether its agent sees that before it hears of the first
    # failure is a matter of milliseconds.
    assert "no luck" in text and ("workers of another node failed" in text or "the run again has ended" in text or
                                  text.count("Root Cause") == 2), text
    assert "AttributeError" not in text and "another exception" not in text, text


def _handlers(count, **how):
    """Handlers of hosts that meet by one store, and their stores."""
    from cresset.distributed import HashStore
    from cresset.distributed.elastic.rendezvous import RendezvousParameters
    from cresset.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    from cresset.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
    store = HashStore()
    return [create_handler(store, C10dRendezvousBackend(store, "run"), RendezvousParameters(
        "c10d", "", "run", local_addr="127.0.0.1", join_timeout=20, **how)) for _ in range(count)], store


def _meet(*handlers):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(len(handlers)) as pool:
        return list(pool.map(lambda handler: handler.next_rendezvous(), handlers))


def test_hosts_come_and_die_between_the_least_and_the_most():
    from cresset.distributed.elastic.rendezvous import RendezvousClosedError
    (one, two, three), _ = _handlers(3, min_nodes=1, max_nodes=2, last_call_timeout=20, keep_alive_interval=1, keep_alive_max_attempt=3)
    first = _meet(one, two)
    assert sorted(info.rank for info in first) == [0, 1] and {info.world_size for info in first} == {2}
    assert len({info.bootstrap_store_info.master_port for info in first}) == 1
    two._stop_heartbeats()  # the host dies; the third one takes its place when the first one meets again
    late = threading.Thread(target=three.next_rendezvous)
    late.start()
    end = time.monotonic() + 20
    while one.num_nodes_waiting() == 0 and time.monotonic() < end:
        time.sleep(0.05)
    info = one.next_rendezvous()
    late.join()
    assert info.world_size == 2 and set(one._state_holder.state.participants) == {one._this_node, three._this_node}
    assert one.shutdown() and one.is_closed()
    with pytest.raises(RendezvousClosedError):
        three.next_rendezvous()


def test_a_state_has_no_other_objects():
    import pickle
    from cresset.distributed.elastic.rendezvous import RendezvousStateError
    (handler,), store = _handlers(1, min_nodes=1, max_nodes=1)
    handler._state_holder._backend.set_state(pickle.dumps(os.system))
    with pytest.raises(RendezvousStateError, match="corrupt"):
        handler.next_rendezvous()
    store.set("torch.rendezvous.run", "???")
    with pytest.raises(RendezvousStateError, match="corrupt"):
        handler.is_closed()


def test_a_name_that_is_loopback_here_alone_is_served_at_all_addresses(monkeypatch):
    from cresset.distributed.elastic.rendezvous.dynamic_rendezvous import _listening_address
    assert [_listening_address(h) for h in ("localhost", "127.0.0.1", "::1")] == ["localhost", "127.0.0.1", "::1"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port: [(2, 1, 6, "", ("127.0.1.1" if host == "own" else "10.0.0.1", 0))])
    assert [_listening_address(h) for h in ("own", "other")] == ["0.0.0.0", "other"]


def _is_late(client, *args):
    from cresset.distributed.elastic import timer
    timer.configure(getattr(timer, client)(*args))
    with timer.expires(after=60):
        pass
    with timer.expires(after=0.01, scope="late"):
        time.sleep(60)


@pytest.mark.parametrize("kind", ["Local", "File"])
def test_a_late_worker_is_killed(kind, tmp_path):
    import multiprocessing
    from cresset.distributed.elastic import timer
    context = multiprocessing.get_context("fork")
    way = context.Queue() if kind == "Local" else str(tmp_path / "pipe")
    server = getattr(timer, f"{kind}TimerServer")(way, *([] if kind == "Local" else ["run"]), max_interval=0.02)
    server.start()
    try:
        process = context.Process(target=_is_late, args=(f"{kind}TimerClient", way))
        process.start()
        process.join(300)
        assert process.exitcode == -signal.SIGKILL
    finally:
        server.stop()
    with pytest.raises(RuntimeError, match="Configure timer client"), timer.expires(1):
        pass


def ends(server, end):
    """Whether a server that waits for requests ends."""
    server.start()
    ending = threading.Thread(target=getattr(server, end), daemon=True)
    ending.start()
    ending.join(60)
    return not ending.is_alive()


def test_a_server_that_waits_for_a_queue_ends():
    import multiprocessing

    from cresset.distributed.elastic import timer
    assert ends(timer.LocalTimerServer(multiprocessing.get_context("spawn").Queue(), max_interval=1e6), "stop")


@pytest.mark.parametrize("end", ["stop", "run_once"])
def test_a_server_that_waits_for_requests_ends(end, tmp_path):
    from cresset.distributed.elastic import timer
    server = timer.FileTimerServer(str(tmp_path / "pipe"), "run", max_interval=1e6)
    assert ends(server, end)
    server.stop()
    assert not os.path.exists(tmp_path / "pipe")


BAD_LINES = ["???", "[1]", "7", "\xff", '{"pid": 1}', '{"worker_pid": 1, "scope_id": "a", "expiration_time": 1}'] + [
    f'{{"pid": {pid}, "scope_id": {scope}, "expiration_time": {when}, "signal": {number}}}' for pid, scope, when, number in [
        (-1, '"a"', 1, 0), (0, '"a"', 1, 0), (1 << 40, '"a"', 1, 0), ('"1"', '"a"', 1, 0), ("PID", "[]", 1, 0), ("PID", '"a"', '"1"', 0),
        ("PID", '"a"', "null", 0), ("PID", '"a"', 1, 4096), ("PID", '"a"', 1, "9.5")]]


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_leaves_the_requests_beside_it(bad, tmp_path, caplog):
    from cresset.distributed.elastic import timer
    ended = []
    server = timer.FileTimerServer(str(tmp_path / "pipe"), "run", log_event=lambda name, request: request and ended.append(request.scope_id))
    sent = [timer.FileTimerRequest(os.getpid(), *rest).to_json() for rest in [("in time", 1), ("late", 2), ("in time", -1)]]
    assert json.loads(sent[1]) == {"version": 1, "pid": os.getpid(), "scope_id": "late", "expiration_time": 2, "signal": 0}
    server.start()
    with open(tmp_path / "pipe", "wb") as pipe:
        pipe.write("\n".join([*sent[:2], bad.replace("PID", str(os.getpid())), sent[2], ""]).encode("latin-1"))
    server.run_once()
    server.stop()
    assert ended == ["late"] and caplog.text.count("no request is dropped") == 1


def test_requests_may_name_groups_of_processes(tmp_path):
    """A request of a negative number is kept while the group exists; a late group gets the signal."""
    from cresset.distributed.elastic import timer
    path = str(tmp_path / "pipe")
    groups = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
    late, early, gone = -groups[0].pid, -groups[1].pid, -(2**31 - 1)  # no process has the last number
    try:
        server, client = timer.FileTimerServer(path, "run"), timer.FileTimerClient(path)
        server.start()
        for pid, scope, when in [(late, "a", 1), (late, "b", 1e12), (early, "a", 1e12), (early, "b", 1e12), (early, "b", -1), (gone, "a", 1e12)]:
            client._send_request(timer.FileTimerRequest(pid, scope, when, signal.SIGKILL))
        server.run_once()
        assert set(server._timers) == {(early, "a")} and server._request_count == 6
        server.stop()
        assert groups[0].wait(ranks.LIMIT) == -signal.SIGKILL and groups[1].poll() is None
    finally:
        for group in groups:
            group.kill()
            group.wait()


SAVES = """
import os, signal, sys, time
from cresset.distributed.elastic import timer

timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
def save(number, frame):
    with timer.expires(after=60):
        open(sys.argv[1], "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_worker_that_saves_at_its_end_may_set_a_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_ENABLE_FILE_TIMER", "1")
    monkeypatch.setenv("TORCHELASTIC_TIMER_FILE", str(tmp_path / "pipe"))
    (tmp_path / "saves.py").write_text(SAVES)
    run = launch("--standalone", str(tmp_path / "saves.py"), str(tmp_path / "saved"))
    while "ready" not in (line := run.stdout.readline()):
        assert line
    run.terminate()
    out, _ = run.communicate(timeout=ranks.LIMIT)
    assert (tmp_path / "saved").exists() and not (tmp_path / "pipe").exists() and "BrokenPipeError" not in out, out


def test_bad_arguments_are_refused(program):
    run = launch("--nproc-per-node", "none", program)
    assert "Unsupported nproc_per_node value: none" in run.communicate(timeout=ranks.LIMIT)[0] and run.returncode == 1


FILTERED = """
import os, sys
for line in ("apple", "pear", "a, b", "plum"):
    sys.stdout.write(f"{line} {os.environ['RANK']}\\n")
    sys.stderr.write(f"no {line} {os.environ['RANK']}\\n")
"""


def test_lines_with_a_filters_text_are_written_to_a_file_as_well(tmp_path):
    (tmp_path / "program.py").write_text(FILTERED)
    run = launch("--nproc-per-node", "2", "--standalone", "--log-dir", str(tmp_path / "logs"), "--tee", "3",
                 "--duplicate-stdout-filters", "apple,a,, b", "--duplicate-stderr-filters", "plum", str(tmp_path / "program.py"))
    out = run.communicate(timeout=ranks.LIMIT)[0]
    assert run.returncode == 0 and all(f"[default{r}]:{line} {r}" in out for r in (0, 1) for line in ("apple", "pear", "a, b", "plum"))
    [stdout], [stderr] = (list((tmp_path / "logs").glob(f"*/attempt_0/filtered_{name}.log")) for name in ("stdout", "stderr"))
    assert sorted(stdout.read_text().splitlines()) == sorted(f"[default{r}]:{line} {r}" for r in (0, 1) for line in ("apple", "a, b"))
    assert sorted(stderr.read_text().splitlines()) == ["[default0]:no plum 0", "[default1]:no plum 1"]


IGNORES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *_: (sys.stdout.write("got the signal\\n"), sys.stdout.flush()))
print("ready pid", os.getpid(), flush=True)
while True:
    time.sleep(1)
"""


def test_signals_that_the_command_names_reach_workers_which_end_by_force_at_a_limit(tmp_path):
    (tmp_path / "program.py").write_text(IGNORES)
    run = launch("--standalone", "--signals-to-handle", "SIGUSR1,SIGNONE", "--shutdown-timeout", "1", str(tmp_path / "program.py"))
    text = ""
    while "ready" not in text:
        text += run.stdout.readline()
    run.send_signal(signal.SIGUSR1)
    text += run.communicate(timeout=ranks.LIMIT)[0]
    assert run.returncode == 128 + signal.SIGUSR1 and "got the signal" in text and "there is no signal SIGNONE" in text
    assert all_gone(pids_of(text))


def test_files_of_a_run_are_those_of_a_packages_class(program):
    run = launch("--standalone", "--logs-specs", "nowhere", program, "end")
    text = run.communicate(timeout=ranks.LIMIT)[0]
    assert run.returncode == 1 and "Could not find entrypoint under 'torchrun.logs_specs[nowhere]' key" in text


def test_a_program_that_calls_main_gets_the_failure(tmp_path):
    from cresset.distributed.elastic.multiprocessing.errors import ChildFailedError
    from cresset.distributed.run import main
    (tmp_path / "fails.py").write_text("import sys; sys.exit(3)")
    with pytest.raises(ChildFailedError, match="exitcode *: 3"):
        main(["--standalone", str(tmp_path / "fails.py")])


def test_options_have_defaults_in_the_environment(monkeypatch):
    import argparse
    from cresset.distributed.argparse_util import check_env, env

    def parsed(*args):
        parser = argparse.ArgumentParser()
        parser.add_argument("-f", "--foo", action=env, default="1", required=True, type=int)
        parser.add_argument("--bar", action=check_env)
        found = parser.parse_args(args)
        return found.foo, found.bar
    assert parsed() == (1, False) and parsed("-f", "2", "--bar") == (2, True)
    monkeypatch.setenv("PET_FOO", "3")
    monkeypatch.setenv("PET_BAR", "1")
    assert parsed() == (3, True) and parsed("--foo", "4") == (4, True)


@pytest.mark.parametrize("option, wanted", [([], "['--local-rank=1', 'a']"), (["--use-env"], "['a']")])
def test_the_former_launcher_gives_local_ranks_as_arguments(tmp_path, option, wanted):
    path = tmp_path / "program.py"
    path.write_text("import os, sys\nif os.environ['LOCAL_RANK'] == '1': print(sys.argv[1:])\n")
    out, _ = launch("--nproc-per-node", "2", "--standalone", *option, str(path), "a", module="cresset.distributed.launch").communicate(timeout=ranks.LIMIT)
    assert out.strip() == wanted


def test_numbers_may_be_text(program, monkeypatch, capfd):
    """accelerate's launch calls run() with a namespace of texts."""
    from cresset.distributed import run
    monkeypatch.delenv("RANK", raising=False)
    args = run.parse_args(["--nproc-per-node", "2", "--rdzv-backend", "static", program, "plain"])
    for name in ("master_port", "node_rank", "max_restarts", "monitor_interval", "nproc_per_node"):
        setattr(args, name, str(getattr(args, name)))
    args.master_port = str(ranks.free_port())
    run.run(args)
    assert capfd.readouterr().out.count("of 2 sum 1.0 start 0") == 2


def _times(rank_factor):
    rank = int(os.environ["RANK"])
    print(f"rank {rank}")
    return rank * rank_factor


def _raises():
    raise ValueError("no luck")


@pytest.mark.parametrize("program, args", [(functools.partial(_raises, 1), ()), (sys.executable, ("-c", "", 1)), (sys.executable, (1,))])
def test_a_failure_is_told_whatever_is_called(program, args, monkeypatch):
    from cresset.distributed.elastic.agent.server import RunResult, WorkerState
    from cresset.distributed.elastic.multiprocessing import ProcessFailure
    from cresset.distributed.elastic.multiprocessing.errors import ChildFailedError
    from cresset.distributed.launcher import LaunchConfig, api, launch_agent
    failed = RunResult(WorkerState.FAILED, failures={0: ProcessFailure(0, 7, 1, "")})
    monkeypatch.setattr(api.LocalElasticAgent, "run", lambda self: failed)
    with pytest.raises(ChildFailedError):
        launch_agent(LaunchConfig(1, 1, 1, max_restarts=0), program, args)


def _config(tmp_path, **how):
    from cresset.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from cresset.distributed.launcher import LaunchConfig
    return LaunchConfig(1, 1, 2, DefaultLogsSpecs(str(tmp_path), redirects=Std.OUT), "one", max_restarts=0, **how)


def test_a_function_runs_in_processes_and_returns(tmp_path, monkeypatch):
    import logging.handlers
    from cresset.distributed.elastic.events import Event, handlers
    from cresset.distributed.elastic.multiprocessing.errors import ChildFailedError
    from cresset.distributed.launcher import elastic_launch
    events = logging.handlers.BufferingHandler(100)
    monkeypatch.setitem(handlers._log_handlers, "kept", events)
    assert elastic_launch(_config(tmp_path, event_log_handler="kept"), _times)(3) == {0: 0, 1: 3}
    [folder] = tmp_path.glob("one_*")  # a new one for each run
    assert [(folder / f"attempt_0/{r}/stdout.log").read_text() for r in range(2)] == ["rank 0\n", "rank 1\n"]
    assert [Event.deserialize(e.getMessage()).metadata["state"] for e in events.buffer] == ["SUCCEEDED"] * 3  # two workers, the agent
    with pytest.raises(ChildFailedError, match="no luck"):
        elastic_launch(_config(tmp_path), _raises)()


def test_lines_have_the_prefix_of_a_template_and_metrics_are_configured(tmp_path, capfd, monkeypatch):
    from cresset.distributed.elastic import metrics
    from cresset.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from cresset.distributed.launcher import LaunchConfig, elastic_launch
    seen = []
    monkeypatch.setattr(metrics, "initialize_metrics", lambda config: seen.append(config.params))
    config = LaunchConfig(1, 1, 2, DefaultLogsSpecs(str(tmp_path), tee=Std.OUT), max_restarts=0, metrics_cfg={"to": "x"},
                          log_line_prefix_template="<${rank} of ${role_name}>")
    elastic_launch(config, _times)(3)
    out = capfd.readouterr().out
    assert "<0 of default_role>rank 0" in out and "<1 of default_role>rank 1" in out and seen == [{"to": "x"}]


def test_a_file_that_is_there_at_the_end_is_printed(tmp_path):
    import io
    from cresset.distributed.elastic.multiprocessing.tail_log import tail_logfile

    class Ends:  # the file is made, and the end is said, while the reader waits for the file
        said = False

        def is_set(self):
            return self.said

        def wait(self, seconds):
            (tmp_path / "log").write_text("all\n")
            self.said = True
            return True
    to = io.StringIO()
    tail_logfile("> ", str(tmp_path / "log"), to, Ends(), 0.01)
    assert to.getvalue() == "> all\n"


def test_logs_go_nowhere_by_devnull(tmp_path, capfd):
    from cresset.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes, Std
    specs = DefaultLogsSpecs("/dev/null", tee=Std.ALL)
    result = start_processes("echo", _raises, {0: ()}, {0: {}}, specs, start_method="fork").wait()
    assert result.failures[0].exitcode == 1 and result.failures[0].error_file == "<N/A>" and result.stdouts == {0: ""}
    assert not list(tmp_path.iterdir()) and not os.path.exists("/dev/null.new")


def test_processes_of_a_fork_server_start_at_one_time(monkeypatch):
    import cresset.multiprocessing as mp
    monkeypatch.setenv(mp.ENV_VAR_PARALLEL_START, "1")
    context = mp.start_processes(print, nprocs=3, join=False, start_method="forkserver")
    while not context.join():
        pass
    assert [p.exitcode for p in context.processes] == [0, 0, 0] and len(set(context.pids())) == 3
    assert mp.start_processes(print, nprocs=0, start_method="forkserver") is None


def test_letters_that_come_in_two_reads_are_printed(tmp_path):
    import io
    from cresset.distributed.elastic.multiprocessing.tail_log import tail_logfile
    path, to, ends = tmp_path / "log", io.StringIO(), threading.Event()
    path.write_bytes("a\u00e9".encode()[:2])
    thread = threading.Thread(target=tail_logfile, args=("> ", str(path), to, ends, 0.01))
    thread.start()
    time.sleep(0.05)
    with path.open("ab") as file:
        file.write("\u00e9".encode()[1:] + b"\rb\nrest")
    ends.set()
    thread.join()
    assert to.getvalue() == "> a\u00e9\rb\n> rest"


def test_a_value_that_is_sent_at_the_end_arrives_and_processes_are_ended_once(tmp_path, monkeypatch):
    import multiprocessing
    from cresset.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from cresset.distributed.elastic.multiprocessing.api import MultiprocessContext
    signals = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: signals.append((pid, number)))
    context = MultiprocessContext("one", _times, {0: ()}, {0: {}}, "spawn", DefaultLogsSpecs(str(tmp_path)))
    context._pipes[0], end = multiprocessing.Pipe(duplex=False)

    class Ends:
        """A process that sends its value and ends just before its exit code is read."""
        pid, is_alive, join = 7, lambda self: False, lambda self, limit: None

        @property
        def exitcode(self):
            end.send("sent")
            return 0
    context._processes[0] = Ends()
    assert context.wait().return_values == {0: "sent"}
    assert {pid for pid, _ in signals} == {7}
    signals.clear()
    context.close()
    assert not signals


def test_a_launcher_runs_in_another_thread(tmp_path, caplog):
    from cresset.distributed.launcher import elastic_launch
    results, launch = [], elastic_launch(_config(tmp_path, start_method="fork"), _times)
    thread = threading.Thread(target=lambda: results.append(launch(3)))
    thread.start()
    thread.join()
    assert results == [{0: 0, 1: 3}] and "outside of the main thread" in caplog.text


def test_hosts_meet_by_a_programs_handler(tmp_path):
    """A backend of rendezvous that a program registers."""
    from cresset.distributed import HashStore
    from cresset.distributed.elastic import rendezvous
    from cresset.distributed.launcher import elastic_launch

    class Alone(rendezvous.RendezvousHandler):
        closed = False
        get_backend = lambda self: "alone"
        get_run_id = lambda self: "alone"
        is_closed = lambda self: self.closed
        num_nodes_waiting = lambda self: 0

        def next_rendezvous(self):
            return rendezvous.RendezvousInfo(HashStore(), 0, 1)

        def set_closed(self):
            self.closed = True

        def shutdown(self):
            self.set_closed()
            return True
    rendezvous.rendezvous_handler_registry.register("alone", lambda params: Alone())
    config = _config(tmp_path, rdzv_backend="alone", rdzv_endpoint="none", start_method="fork")
    assert elastic_launch(config, _times)(2) == {0: 0, 1: 2}


def test_what_hosts_say_of_their_meeting_is_checked():
    from cresset.distributed.elastic.multiprocessing import Std
    from cresset.distributed.elastic.rendezvous import RendezvousParameters, get_rendezvous_handler
    from cresset.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
    assert parse_rendezvous_endpoint("[::1]:7", 5) == ("::1", 7) and parse_rendezvous_endpoint("", 5) == ("localhost", 5)
    assert Std.from_str("0:1,1:3") == {0: Std.OUT, 1: Std.ALL}
    for call, words in ((lambda: parse_rendezvous_endpoint("host:x", 5), "must be an integer between 0 and 65536"),
                        (lambda: RendezvousParameters("", "a:1", "id", 1, 1), "non-empty string"),
                        (lambda: RendezvousParameters("c10d", "a:1", "id", 2, 1), r"greater than or equal to .* \(2\)"),
                        (lambda: get_rendezvous_handler(RendezvousParameters("none", "a:1", "id", 1, 1)), "is not registered"),
                        (lambda: get_rendezvous_handler(RendezvousParameters("static", "a:1", "id", 1, 1)), "rank is absent"),
                        (lambda: Std.from_str("4"), "does not match")):
        with pytest.raises(ValueError, match=words):
            call()


def test_ranks_that_do_not_come_to_a_barrier_are_named():
    from multiprocessing.pool import ThreadPool
    import cresset.distributed as dist
    from cresset.distributed.elastic.utils import store as meeting
    store = dist.HashStore()

    def come(rank):
        assert meeting.synchronize(store, f"data{rank}", rank, 2, "a") == [b"data0", b"data1"]
        meeting.barrier(store, 2, "a")  # the same prefix
        try:
            meeting.barrier(store, 3, "b", 4, rank, "host {}".format, 2)
        except dist.DistStoreError as error:
            return str(error)
    with ThreadPool(2) as pool:
        first, second = pool.map(come, range(2))
    assert "missing_ranks=[host 2]" in first and "check rank 0 (host 0)" in second
    with pytest.raises(AssertionError, match="Tracing requires rank information"):
        meeting.barrier(store, 3, "c", 0.1, rank_tracing_decoder=str)
