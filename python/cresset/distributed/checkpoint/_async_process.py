"""Saves by other processes: each rank has one, these make a group of their own, and write the copies that they get."""
import socket
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from .. import distributed_c10d as dist
from .api import CheckpointException

_TIMEOUT = timedelta(minutes=30)


def _join(pipe, rank, size, engine):
    """Makes the group of the processes that write: the first one has the store, and tells its port."""
    host, port = pipe.recv()
    store = dist.TCPStore(host, port, size, rank == 0, _TIMEOUT, wait_for_workers=False)
    if rank == 0:
        pipe.send(store.port)
    dist.init_process_group(engine, store=store, rank=rank, world_size=size, timeout=_TIMEOUT)


def _save(job):
    from .state_dict_saver import _save_state_dict
    state, writer, planner, use_collectives = job
    return _save_state_dict(state, writer, None, 0, not dist.is_initialized(), planner, use_collectives)


def _serve(pipe, rank, size, engine):
    """Writes one copy after another until the program ends."""
    warnings.simplefilter("ignore")
    try:
        if size:
            _join(pipe, rank, size, engine)
        pipe.send(("ready", None))
        while True:
            job = pipe.recv()
            try:
                answer = ("saved", _save(job))
            except (Exception, CheckpointException) as error:  # the latter is no Exception, as in torch
                answer = ("failed", error)
            try:
                pipe.send(answer)
            except (TypeError, AttributeError, ValueError):  # an error that cannot be pickled
                pipe.send(("failed", RuntimeError("".join(traceback.format_exception(answer[1])))))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the program has ended


class _Writer:
    """This rank's process that writes."""

    def __init__(self, group):
        from cresset import multiprocessing as mp
        rank, size = (group.rank(), group.size()) if group is not None else (0, 0)
        engine = "gloo" if dist.is_gloo_available() else "mpi"
        self._pipe, end = mp.get_context("spawn").Pipe()
        self._process = mp.get_context("spawn").Process(target=_serve, args=(end, rank, size, engine), daemon=True)
        self._process.start()
        end.close()
        self._executor = ThreadPoolExecutor(1)  # one save after another
        if size:
            self._meet(group, rank, size)
        kind, _ = self._receive()
        assert kind == "ready", kind

    def _meet(self, group, rank, size):
        """Tells the processes of all ranks where the first one's store is."""
        hosts, place = [None] * size, [None]
        dist.all_gather_object(hosts, socket.gethostname(), group)
        host = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
        if rank == 0:
            self._pipe.send((host, 0))
            place = [self._receive()]
        dist.broadcast_object_list(place, group=group, group_src=0)
        if rank:
            self._pipe.send((host, place[0]))

    def _receive(self):
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(10)
            raise RuntimeError(f"the process {self._process.pid} that writes checkpoints has ended, "
                               f"exit code {self._process.exitcode}") from None

    def _write(self, job):
        try:
            self._pipe.send(job)
        except BrokenPipeError:
            pass  # _receive tells the cause
        kind, value = self._receive()
        if kind == "failed":
            raise value
        return value

    def submit(self, staged, *job):
        """Returns the future of a save."""
        return self._executor.submit(lambda: self._write((staged.result() if hasattr(staged, "result") else staged, *job)))

    def lives(self):
        return self._process.is_alive()


_writers = {}


def writer_for(group):
    """Returns the process that writes for a group's calls, or for this process alone.  All ranks make theirs together."""
    for of in [of for of in _writers if of is not None and of not in dist._world.pg_map]:
        _writers.pop(of)._process.terminate()
    made = _writers.get(group)
    if made is not None and not made.lives():
        del _writers[group]
        raise RuntimeError(f"async_save: the process that writes has ended, exit code {made._process.exitcode}")
    if made is None:
        made = _writers[group] = _Writer(group)
    return made
