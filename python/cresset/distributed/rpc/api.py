"""Calls of functions in other processes."""
import collections
import contextlib
import functools
import threading
from time import monotonic_ns

import cresset

from ...autograd import profiler_legacy
from ...futures import Future
from . import _rref, internal
from ._agent import RpcAgent, TensorPipeAgent, WorkerInfo  # noqa: F401
from ._rref import PyRRef, RRef  # noqa: F401
from .constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from .internal import (_build_rpc_profiling_key, _internal_rpc_pickler, PythonUDF, RemoteException,  # noqa: F401
                       RPCExecMode)

__all__ = ["shutdown", "get_worker_info", "remote", "rpc_sync", "rpc_async", "RRef", "AllGatherStates", "method_factory",
           "new_method"]

_ignore_rref_leak = True
_default_pickler = _internal_rpc_pickler
_current_agent = None
_thread_local_var = threading.local()


@contextlib.contextmanager
def _use_rpc_pickler(rpc_pickler):
    """Sets the pickler of functions and arguments."""
    global _default_pickler
    _default_pickler = rpc_pickler
    try:
        yield
    finally:
        _default_pickler = _internal_rpc_pickler


# --- the agent ---
def _is_current_rpc_agent_set():
    return _current_agent is not None


def _get_current_rpc_agent():
    if _current_agent is None:
        raise RuntimeError("Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling `rpc.init_rpc`)?")
    return _current_agent


def _set_and_start_rpc_agent(agent):
    global _current_agent
    _current_agent = agent
    profiler_legacy.set_node(-1 if agent is None else agent.get_worker_info().id)


def _reset_current_rpc_agent():
    _set_and_start_rpc_agent(None)


def _init_rpc_states(agent):
    """Makes an agent that of this process; one of this package answers from now on."""
    if agent is not _current_agent:
        _set_and_start_rpc_agent(agent)
        if isinstance(agent, TensorPipeAgent):
            agent.start()


def _set_rpc_timeout(rpcTimeoutSeconds):
    """Sets the time limit of calls that state none, in seconds."""
    _get_current_rpc_agent()._set_timeout(rpcTimeoutSeconds)


def get_rpc_timeout():
    """Returns the time limit of calls that state none, in seconds."""
    return _get_current_rpc_agent()._timeout


def enable_gil_profiling(flag):
    """Makes get_debug_info() have the time of waits for the interpreter's lock."""
    _get_current_rpc_agent()._gil_profiling = flag


def _require_initialized(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        if not _is_current_rpc_agent_set():
            raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
        return func(*args, **kwargs)
    return wrapper


def _rref_context_get_debug_info():
    return _rref.context.debug_info()


def _get_debug_info():
    from .. import autograd
    return {**_rref_context_get_debug_info(), **_get_current_rpc_agent().get_debug_info(), **autograd._get_debug_info()}


def _delete_all_user_and_unforked_owner_rrefs(timeout=0):
    _rref.context.delete_users(_get_current_rpc_agent(), timeout)


def _destroy_rref_context(ignoreRRefLeak):
    _rref.context.destroy(ignoreRRefLeak)


def _cleanup_python_rpc_handler():
    """Does nothing: this package keeps no handles that the end of a group would have to free."""


# --- calls between all processes ---
class AllGatherStates:
    """An _all_gather in progress: the objects that came, and whether all have."""

    def __init__(self):
        self.gathered_objects = {}
        self.proceed_signal = threading.Event()


_all_gather_lock = threading.RLock()
_all_gather_sequence_id = collections.Counter()
_all_gather_states = collections.defaultdict(AllGatherStates)


def _gather_to_leader(sequence_id, worker_name, obj, worker_names=None):
    with _all_gather_lock:
        names = worker_names or [info.name for info in _get_current_rpc_agent().get_worker_infos()]
        if worker_name not in names:
            raise AssertionError(f"{worker_name} is not expected by leader.")
        states = _all_gather_states[sequence_id]
        if worker_name in states.gathered_objects:
            raise AssertionError(f"{worker_name} reported intent sequence id {sequence_id} twice. ")
        states.gathered_objects[worker_name] = obj
        if set(names) == set(states.gathered_objects):
            states.proceed_signal.set()


def _broadcast_to_followers(sequence_id, objects_map):
    with _all_gather_lock:
        states = _all_gather_states[sequence_id]
    if states.proceed_signal.is_set():
        raise AssertionError(f"Termination signal sequence id {sequence_id} got set twice.")
    states.gathered_objects = objects_map
    states.proceed_signal.set()


def _wait_for_signal(states, names, timeout):
    """Waits for the objects of other processes, and asks every second whether these still live."""
    left = timeout
    while not states.proceed_signal.wait(1.0 if left is None else min(1.0, left)):
        left = None if left is None else left - 1.0
        if left is not None and left <= 0:
            raise RuntimeError(f"_all_gather timed out after waiting for {timeout} sec")
        missing = [name for name in names if name not in states.gathered_objects]
        for name in missing:
            answer = _get_current_rpc_agent().request(get_worker_info(name), "HERE", timeout=0)
            answer._when_completed(functools.partial(_missed, states, name, answer))
        if (lost := getattr(states, "lost", None)) is not None and not states.proceed_signal.is_set():
            raise RuntimeError(f"_all_gather: {lost[0]} has ended: {lost[1]}")


def _missed(states, name, answer):
    if answer._error is not None:
        states.lost = name, answer._error


@_require_initialized
def _all_gather(obj, worker_names=None, timeout=UNSET_RPC_TIMEOUT):
    """Returns a dict of the objects of all processes by their names.  The first name's process collects and spreads them."""
    agent = _get_current_rpc_agent()
    names = sorted(worker_names) if worker_names is not None else sorted(i.name for i in agent.get_worker_infos())
    leader, me = names[0], agent.get_worker_info().name
    rpc_timeout = get_rpc_timeout() if timeout == UNSET_RPC_TIMEOUT else timeout
    wait = None if timeout in (UNSET_RPC_TIMEOUT, DEFAULT_SHUTDOWN_TIMEOUT) else timeout
    with _all_gather_lock:
        group = ",".join(names)
        sequence_id = f"{group} {_all_gather_sequence_id[group]}"
        _all_gather_sequence_id[group] += 1
    if me == leader:
        _gather_to_leader(sequence_id, me, obj, names)
    else:
        rpc_sync(leader, _gather_to_leader, args=(sequence_id, me, obj, names), timeout=rpc_timeout)
    with _all_gather_lock:
        states = _all_gather_states[sequence_id]
    _wait_for_signal(states, names if me == leader else [leader], wait)
    if me == leader:
        _spread(sequence_id, states.gathered_objects, [name for name in names if name != leader], rpc_timeout)
    with _all_gather_lock:
        return _all_gather_states.pop(sequence_id).gathered_objects


def _spread(sequence_id, objects, followers, timeout):
    answers = [(name, rpc_async(name, _broadcast_to_followers, args=(sequence_id, objects), timeout=timeout))
               for name in followers]
    errors = []
    for name, answer in answers:
        try:
            answer.wait()
        except RuntimeError as error:
            errors.append((name, error))
    if errors:
        raise RuntimeError(f"Followers {[name for name, _ in errors]} timed out in _all_gather after {timeout:.2f} seconds. "
                           f"The first exception is {errors[0][1]}")


@_require_initialized
def _barrier(worker_names):
    """Waits until all named processes are here."""
    _all_gather(None, set(worker_names))


@_require_initialized
def _wait_all_workers(timeout=DEFAULT_SHUTDOWN_TIMEOUT):
    """Waits until all processes are here."""
    _all_gather(None, timeout=timeout)


@_require_initialized
def shutdown(graceful=True, timeout=DEFAULT_SHUTDOWN_TIMEOUT):
    """Ends the agent.  A graceful end waits for all processes and for the calls in progress, at most `timeout` seconds (0: no
    limit)."""
    try:
        if graceful:
            agent = _get_current_rpc_agent()
            if agent.is_static_group:
                _wait_all_workers(timeout)
            _delete_all_user_and_unforked_owner_rrefs()
            agent.join(shutdown=True, timeout=timeout)
    finally:
        _finalize_shutdown()


def _finalize_shutdown():
    agent = _current_agent
    try:
        _destroy_rref_context(_ignore_rref_leak)
    finally:
        if agent is not None:
            agent.shutdown()
        _cleanup_python_rpc_handler()
        _reset_current_rpc_agent()
        with _all_gather_lock:
            _all_gather_sequence_id.clear()
            _all_gather_states.clear()


@_require_initialized
def get_worker_info(worker_name=None):
    """Returns the WorkerInfo of a name; that of this process without."""
    return _get_current_rpc_agent().get_worker_info(worker_name)


def _to_worker_info(to):
    if isinstance(to, WorkerInfo):
        return to
    if isinstance(to, (str, int)):
        return get_worker_info(to)
    raise ValueError(f"Cannot get WorkerInfo from name {to}")


# --- calls of functions ---
def _request(to, kind, fields=(), payload=b"", tensors=(), timeout=UNSET_RPC_TIMEOUT, control=True):
    """Sends a request with the thread's context of torch.distributed.autograd."""
    from ..autograd import _outgoing
    return _get_current_rpc_agent().request(to, kind, fields, payload, tensors, timeout, control, _outgoing(to, tensors))


def _call(to, func, args, kwargs):
    """Returns the WorkerInfo, and the payload and tensors of a call."""
    if not callable(func):
        raise TypeError("function should be callable.")
    info = _to_worker_info(to)
    return info, _default_pickler.serialize(PythonUDF(func, tuple(args or ()), dict(kwargs or {})))


def _name_of(func):
    return f"aten::{func.__name__}" if type(func) is type(cresset.add) else getattr(func, "__qualname__", None) or type(func).__qualname__


def _profiled(mode, func, info, send):
    """Sends a request; in a profile of the thread (profiler_legacy) the other process profiles the function, too.

    `send` gets how the function is to be profiled, in a tuple, which is empty without a profile.  The returned future completes when the
    profile has the events."""
    running = profiler_legacy.current()
    if running is None:
        return send(())
    name = _build_rpc_profiling_key(mode, _name_of(func), get_worker_info().name, info.name)
    start, done = monotonic_ns(), Future()
    sent = send(({"record_shapes": running.record_shapes, "with_flops": running.with_flops, "profile_memory": running.profile_memory},))

    def ended():
        running.add_call(name, start, getattr(sent, "_remote_events", ()))
        done._complete(sent._value, sent._error)
    sent._when_completed(ended)
    return done


def _invoke_rpc(to, func, args, kwargs, timeout, mode):
    info, (payload, tensors) = _call(to, func, args, kwargs)
    return _profiled(mode, func, info, lambda how: _request(info, "CALL", how, payload, tensors, timeout, control=False))


@_require_initialized
def rpc_sync(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Calls func(*args, **kwargs) in process `to` (a name, number or WorkerInfo), and returns its result.  Raises its
    exception, and RuntimeError after `timeout` seconds (0: no limit), or when the process is gone."""
    return _invoke_rpc(to, func, args, kwargs, timeout, RPCExecMode.SYNC).wait()


@_require_initialized
def rpc_async(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """The same; returns a Future of the result."""
    future = _invoke_rpc(to, func, args, kwargs, timeout, RPCExecMode.ASYNC)
    if hasattr(_thread_local_var, "future_list"):
        _thread_local_var.future_list.append(future)
    return future


@_require_initialized
def remote(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Calls func(*args, **kwargs) in process `to`, which keeps the result.  Returns an RRef to it at once."""
    context = _rref.context
    info, (payload, tensors) = _call(to, func, args, kwargs)
    number = context.number()
    fork = context.number()
    agent = _get_current_rpc_agent()
    here = info == agent.get_worker_info()
    made = _rref._bare(RRef, info, number, None if here else fork, context.owned(number) if here else None)
    if here:
        made._creation = Future()
        context.add_fork(made._state, fork)
    sent = _profiled(RPCExecMode.REMOTE, func, info,
                     lambda how: _request(info, "REMOTE", (number, fork, *how), payload, tensors, timeout, control=False))
    if here:
        sent._when_completed(lambda: _made_here(made, sent, number, fork))
    else:
        context.wait_for_owner(made, sent)
    return made


def _made_here(made, sent, number, fork):
    made._creation._complete(None, sent._error)
    _rref.context.delete_fork(number, fork)


@contextlib.contextmanager
def _wait_all():
    """Waits at its end for the futures of the thread's rpc_async calls inside."""
    _thread_local_var.future_list = []
    try:
        yield
    finally:
        try:
            futures = _thread_local_var.future_list
            for future in futures:
                future.wait()
        finally:
            del _thread_local_var.future_list


def new_method(func, method_name):
    """Returns a method that calls the method of that name of the first argument's local value."""
    def method(rref, *args, **kwargs):
        return getattr(rref.local_value(), method_name)(*args, **kwargs)
    method.__doc__ = func.__doc__
    return method


def method_factory(method_name, docstring):
    """Returns a method of that name which calls the one of the base class."""
    def method(self, *args, **kwargs):
        return getattr(super(RRef, self), method_name)(*args, **kwargs)
    method.__doc__ = docstring
    return method


def _rref_typeof_on_owner(rref, blocking=True):
    return rref._get_type(blocking=blocking)


def _rref_typeof_on_user(rref, timeout=UNSET_RPC_TIMEOUT, blocking=True):
    return rref._get_type(timeout=timeout, blocking=blocking)
