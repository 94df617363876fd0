"""The agent of remote procedure calls: what its messages mean, and the threads that answer them.

src/comm/agent.h moves the messages, matches replies and requests, and ends those that are late or whose process is gone.  A
message has a head (kind, fields, descriptions of tensors, autograd's numbers), a pickled payload, and the bytes of tensors.
Functions of programs run in at most num_worker_threads threads.  Replies and the requests of references and of autograd are
answered by other threads, of which one is always free, so that callbacks may wait for further replies.
"""
import itertools
import pickle
import queue
import re
import socket
import threading
import time
import traceback

from ... import _C
from ...futures import Future
from . import _wire, constants, internal

REQUEST, CONTROL, REPLY, LATE, LOST = range(len(_C._comm_message_kinds))


class WorkerInfo:
    """A process of the group: its name and its number."""

    __slots__ = ("name", "id")

    def __init__(self, name, id):
        if not name:
            raise RuntimeError("Worker name must be non-empty.")
        if len(name) >= 128:
            raise RuntimeError(f"Worker name must be shorter than 128, but got {name}")
        if not re.fullmatch(r"[A-Za-z0-9_\-:]*", name):
            raise RuntimeError(f"Worker name must match ^[A-Za-z0-9-_:]*$, but got {name}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "id", id)

    def __setattr__(self, name, value):
        raise AttributeError("can't set attribute")

    def __eq__(self, other):
        return isinstance(other, WorkerInfo) and (self.name, self.id) == (other.name, other.id)

    def __hash__(self):
        return hash((self.name, self.id))

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"

    def __reduce__(self):
        return WorkerInfo, (self.name, self.id)


class RpcAgent:
    """What backends give to init_rpc."""


def _address(store):
    """Returns an address of this host at which the others reach it: the loopback device where the store is there."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None)
    if host is None or host in ("localhost", "127.0.0.1", "::1"):
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((host, store.port))
        return s.getsockname()[0]


class TensorPipeAgent(RpcAgent):
    """Sends the calls of this process and answers those of the others."""

    def __init__(self, store, name, rank, world_size, options):
        self._info, self._options, self._store = WorkerInfo(name, rank), options, store
        self._timeout = options.rpc_timeout
        self.is_static_group = world_size is not None
        self._lock = threading.Condition()
        self._calls = 0       # requests of this process without a reply; control requests are not counted
        self._serving = 0     # requests of programs that this process has taken and not answered
        self._futures = {}    # of requests, by their ids
        self._ids = itertools.count(1)
        self._threads = {True: 0, False: 0}
        self._starting = {True: False, False: False}
        self._ended = False
        self._gone = queue.SimpleQueue()  # references that were collected
        self._gil_profiling = False
        self._mail = _C._comm_agent(store._handle, rank, _address(store))
        self._workers = {}
        try:
            self._meet(world_size)
        except BaseException:
            self._mail.shut()
            raise

    def start(self):
        """Begins to answer; messages wait until then."""
        for requests in (True, False):
            self._grow(requests)
        threading.Thread(target=self._bury, daemon=True, name="rpc-references").start()

    # --- the group ---
    def _meet(self, world_size):
        store, me = self._store, self._info
        kind = b"static" if self.is_static_group else b"dynamic"
        if store.compare_set("kind", "", kind.decode()) != kind:
            raise RuntimeError("RPC group mixes statically and dynamically initialized members which is not supported.")
        if not self.is_static_group:
            return self._join()
        if not 0 <= me.id < world_size:
            raise RuntimeError(f"rank {me.id} is not in [0, {world_size})")
        store.set(f"name/{me.id}", me.name)
        for rank in range(world_size):
            self._know(WorkerInfo(store.get(f"name/{rank}").decode(), rank))

    def _know(self, info):
        other = self._workers.get(info.name)
        if other is not None and other.id != info.id:
            raise RuntimeError(f"RPC worker name {info.name} is not unique. Workers {other.id} and {info.id} share the name.")
        self._workers[info.name] = info

    def _join(self):
        """Adds this process to the list of members in the store."""
        while True:
            before = self._store.compare_set("members", "", "-").decode()
            members = self._members(before)
            if any(info.id == self._info.id for info in members):
                raise RuntimeError(f"a member of the RPC group has the rank {self._info.id} already")
            for info in (*members, self._info):
                self._know(info)
            after = ",".join([*(f"{i.id} {i.name}" for i in members), f"{self._info.id} {self._info.name}"])
            if self._store.compare_set("members", before, after).decode() == after:
                return

    @staticmethod
    def _members(text):
        return [WorkerInfo(name, int(rank)) for rank, name in (entry.split() for entry in text.split(",") if entry != "-")]

    def _refresh(self):
        if not self.is_static_group:
            self._workers = {info.name: info for info in self._members(self._store.get("members").decode())}

    def _leave(self):
        if self.is_static_group:
            return
        while True:
            before = self._store.get("members").decode()
            left = [f"{i.id} {i.name}" for i in self._members(before) if i != self._info]
            after = ",".join(left) or "-"
            if self._store.compare_set("members", before, after).decode() == after:
                return

    def get_worker_info(self, name=None):
        """Returns the WorkerInfo of a name or number; that of this process without."""
        if name is None:
            return self._info
        for again in (False, True):
            if again:
                self._refresh()
            for info in self._workers.values():
                if name in (info.name, info.id):
                    return info
        raise RuntimeError(f"name:{self._info.name},rank:{self._info.id} could not find destination "
                           f"{'id ' if isinstance(name, int) else ''}{name}")

    def get_worker_infos(self):
        """Returns the WorkerInfo of every process of the group."""
        self._refresh()
        return list(self._workers.values())

    def get_debug_info(self):
        """Returns numbers about the agent, as text."""
        info = {"agent.num_pending_requests": str(self._calls), "agent.thread_pool_size": str(self._options.num_worker_threads),
                "agent.num_idle_threads": str(self._options.num_worker_threads - self._serving),
                "agent.client_active_calls": str(self._calls), "agent.server_active_calls": str(self._serving),
                "agent.server_active_async_calls": "0"}
        return {**info, "agent.gil_average_wait_time_us": "0"} if self._gil_profiling else info

    # --- sending ---
    def _get_device_map(self, dst):
        """Returns {device here: device there} for a worker."""
        return dict(self._options.device_maps.get(dst.name, {}))

    def _parts(self, to, head, payload, tensors):
        parts = [b"", payload]
        device_map = self._options.device_maps.get(to.name, {})
        described = [_wire.pack(x, parts, device_map) for x in tensors]
        parts[0] = pickle.dumps((*head, described), protocol=5)
        return parts

    def request(self, to, kind, fields=(), payload=b"", tensors=(), timeout=constants.UNSET_RPC_TIMEOUT, control=True,
                autograd=None):
        """Sends a request; returns a Future of its reply's value.  Seconds of timeout: 0 is none, -1 the agent's; a
        request with another negative one is late at once."""
        seconds = self._timeout if timeout == constants.UNSET_RPC_TIMEOUT else timeout
        future, number = Future(), next(self._ids)
        parts = self._parts(to, (kind, fields, autograd), payload, tensors)
        ms = 0 if not seconds else round(seconds * 1000) if seconds < 0 else max(1, round(seconds * 1000))
        with self._lock:
            self._futures[number] = (future, ms, to, control)
            self._calls += not control
        try:
            self._mail.ask(control, to.id, number, max(1, ms) if ms else 0, parts)
        except Exception as error:
            if (entry := self._take(number)) is not None:
                self._end(entry, None, RuntimeError(f"{to}: {error}"))
        return future

    def _take(self, number):
        with self._lock:
            return self._futures.pop(number, None)

    def _end(self, entry, value, error):
        """Completes the future of a request, whose callbacks run here."""
        future, _, _, control = entry
        try:
            future._complete(value, error)
        finally:
            with self._lock:
                self._calls -= not control
                self._lock.notify_all()

    # --- answering ---
    def _grow(self, requests):
        with self._lock:
            if self._ended or self._starting[requests] or (requests
                                                           and self._threads[True] >= self._options.num_worker_threads):
                return
            self._starting[requests] = True
            self._threads[requests] += 1
        threading.Thread(target=self._work, args=(requests,), daemon=True, name="rpc").start()

    def _work(self, requests):
        """Takes messages.  A thread that leaves no other one waiting starts one."""
        self._starting[requests] = False
        while (message := self._mail.next(requests)) is not None:
            kind, rank, number, parts, waiting = message
            if not waiting:
                self._grow(requests)
            try:
                if kind in (REQUEST, CONTROL):
                    self._answer(kind, rank, number, parts)
                elif (entry := self._take(number)) is not None:
                    self._reply_came(entry, kind, parts)
            except Exception:  # of a callback: the thread has further messages
                traceback.print_exc()
            message = parts = entry = None

    def _reply_came(self, entry, kind, parts):
        value = error = None
        if kind == LATE:
            error = RuntimeError(f"RPCErr:1:RPC ran for more than set timeout ({entry[1]} ms) and will now be marked with an error")
        elif kind == LOST:
            error = RuntimeError(f"{entry[2]} has closed its connection: connection reset by peer")
        else:
            try:
                _, entry[0]._remote_events, value, _ = self._opened(entry[2].id, parts)
                if isinstance(value, internal.RemoteException):
                    of = internal._exception_of if entry[3] else internal._exception_of_call
                    error, value = of(value), None
            except Exception as failure:
                error = failure
        self._end(entry, value, error)

    def _opened(self, rank, parts):
        """Returns the kind, fields and value of a message, and its autograd context."""
        from ..autograd import _received
        kind, fields, autograd, described = pickle.loads(parts[0])
        blocks = iter(parts[2:])
        tensors = [_wire.unpack(d, blocks) for d in described]
        context = None
        if autograd is not None:
            context, tensors = _received(autograd, rank, tensors, kind != "REPLY")
        try:
            value = internal._internal_rpc_pickler.deserialize(parts[1], tensors) if len(memoryview(parts[1])) else None
        except BaseException as error:
            if kind not in ("CALL", "REMOTE"):
                raise
            value = internal._remote_failure(error)  # a reference to the call's result gets it, too
        return kind, fields, value, context

    def _answer(self, kind, rank, number, parts):
        from . import _serve
        program = kind == REQUEST
        if program:
            with self._lock:
                self._serving += 1
        try:
            result = _serve.serve(self, rank, parts)
        except BaseException as error:
            result = internal._remote_failure(error)
        if isinstance(result, _serve.Later):
            result.future._when_completed(lambda: self._send_reply(program, rank, number, result.value, result.context, result.profile))
        else:
            self._send_reply(program, rank, number, lambda: result, None)

    def _send_reply(self, program, rank, number, value, context, profile=None):
        """Sends what value() returns, and the events of a profile; an exception of value() is the caller's."""
        from ..autograd import _sent
        events = () if profile is None else profile.sent()
        try:
            to = self.get_worker_info(rank)
            try:
                payload, tensors = internal._internal_rpc_pickler.serialize(value())
                autograd = _sent(context, to, tensors) if context is not None else None
                parts = self._parts(to, ("REPLY", events, autograd), payload, tensors)
            except BaseException as error:
                payload, tensors = internal._internal_rpc_pickler.serialize(internal._remote_failure(error))
                parts = self._parts(to, ("REPLY", events, None), payload, tensors)
            self._mail.reply(rank, number, parts)
        except Exception:
            pass  # the caller is gone, or has given up: its agent tells it
        finally:
            if program:
                with self._lock:
                    self._serving -= 1
                    self._lock.notify_all()

    # --- references that were collected ---
    def _bury(self):
        """Tells owners of deleted references.  The garbage collector runs anywhere, so it only puts them into a queue."""
        while (deletion := self._gone.get()) is not None:
            try:
                deletion()
            except Exception:
                pass  # the owner is gone, and its values with it

    # --- ending ---
    def _set_timeout(self, seconds):
        self._timeout = seconds

    def join(self, shutdown=False, timeout=constants.DEFAULT_SHUTDOWN_TIMEOUT):
        """Waits until the requests of this process and of the others have their replies; of all processes, with shutdown."""
        from . import api
        end = time.monotonic() + timeout if timeout else None
        rounds = 0
        while True:
            with self._lock:
                if not self._lock.wait_for(lambda: not self._calls and not self._serving,
                                           None if end is None else max(0.0, end - time.monotonic())):
                    raise RuntimeError(f"RPC agent: {self._calls} requests have no reply after {timeout} seconds")
                quiet = not self._calls and not self._serving
            if not shutdown or not self.is_static_group:
                return
            busy = api._all_gather(not quiet or rounds == 0, timeout=timeout)
            rounds += 1
            if not any(busy.values()):
                break
        with self._lock:  # the leader waits for the reply to its last request
            self._lock.wait_for(lambda: not self._serving, 10)

    def shutdown(self):
        """Ends the threads and connections.  Calls without a reply fail."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        try:
            self._leave()
        except Exception:
            pass  # the store may have ended
        self._gone.put(None)
        self._mail.shut()
        with self._lock:
            left = list(self._futures)
        for number in left:
            if (entry := self._take(number)) is not None:
                self._end(entry, None, RuntimeError("the RPC agent was shut down"))
