"""Answers to the requests of other processes, by their kinds."""
from ...autograd import profiler_legacy
from ...futures import Future
from . import internal
from ._rref import context as references

_SERVERS = {}


class Later:
    """An answer that a future's completion makes: `value` returns it or raises.  The events of `profile` go with it."""

    def __init__(self, future, value=None, context=None, profile=None):
        self.future, self.value, self.context, self.profile = future, value or future.value, context, profile


def serves(kind):
    """Decorates the function (agent, rank, fields, value, autograd context) that answers requests of a kind."""
    def add(fn):
        _SERVERS[kind] = fn
        return fn
    return add


def serve(agent, rank, parts):
    """Answers a request: returns the value, or Later."""
    from ..autograd import _in_context
    with references.collecting() as pending:
        kind, fields, value, context = agent._opened(rank, parts)
    for reference in pending:  # a function finds the references that it gets confirmed
        reference._confirmation.wait()
    with _in_context(context):
        result = _SERVERS[kind](agent, rank, fields, value, context)
    return _with_context(result, context)


def _with_context(result, context):
    if isinstance(result, Later):
        result.context = context
        return result
    if context is None:
        return result
    done = Future()
    done._complete(result)
    return Later(done, context=context)


def _run(udf):
    """Returns a Future of a function's result, or RemoteException; `udf` is one where the call could not be read."""
    done = Future()
    try:
        result = udf if isinstance(udf, internal.RemoteException) else internal._run_function(udf)
    except BaseException as error:  # SystemExit and KeyboardInterrupt end no thread that answers
        result = internal._remote_failure(error)
    func = getattr(udf, "func", None)
    if not hasattr(func, "_wrapped_async_rpc_function") or isinstance(result, internal.RemoteException):
        done._complete(result)
        return done
    if not isinstance(result, Future):
        def wrong():
            raise RuntimeError("Functions decorated with @rpc.async_function must return a torch.futures.Future object, but got "
                               f"{result} of type {type(result)}")
        done._complete(internal._run_function(internal.PythonUDF(wrong, (), None)))
        return done

    def ended():
        error = result._error
        done._complete(result._value if error is None else _failure(error))
    result._when_completed(ended)
    return done


def _failure(error):
    from . import api
    return internal._remote_exception(error, api._get_current_rpc_agent().get_worker_info())


def _run_profiled(udf, how=None):
    """Returns the same Future, and the function's profile if the caller wants one."""
    if how is None:
        return _run(udf), None
    with profiler_legacy.profile(**how) as profile:
        return _run(udf), profile


@serves("CALL")
def _call(agent, rank, fields, udf, context):
    done, profile = _run_profiled(udf, *fields)
    return Later(done, profile=profile)


@serves("REMOTE")
def _remote(agent, rank, fields, udf, context):
    """Makes the value of a reference that this process owns.  The caller's fork exists before its first fetch."""
    reference, fork, *how = fields
    owner = references.owned(reference)
    references.add_fork(owner, fork)
    done, (result, profile) = Future(), _run_profiled(udf, *how)

    def made():
        owner.set(result.value())
        done._complete(None)
    result._when_completed(made)
    return Later(done, profile=profile)


@serves("HERE")
def _here(agent, rank, fields, value, context):
    """Says that this process lives."""


@serves("FETCH")
def _fetch(agent, rank, fields, value, context):
    owner = references.owned(fields[0])
    return Later(owner.future)


@serves("FORK")
def _fork(agent, rank, fields, value, context):
    reference, fork = fields
    references.add_fork(references.owned(reference), fork)


@serves("ACCEPT")
def _accept(agent, rank, fields, value, context):
    references.child_accepted(fields[0])


@serves("DELETE")
def _delete(agent, rank, fields, value, context):
    references.delete_fork(*fields)


@serves("TYPE")
def _type(agent, rank, fields, value, context):
    owner = references.owned(fields[0])

    def kind():
        value = owner.future.value()
        return value if isinstance(value, internal.RemoteException) else type(value)
    return Later(owner.future, kind)


@serves("PROPAGATE")
def _propagate(agent, rank, fields, gradients, context):
    from ..autograd import _propagated
    return Later(_propagated(*fields, gradients))


@serves("CLEANUP")
def _cleanup(agent, rank, fields, value, context):
    from ..autograd import _released
    _released(fields[0])


@serves("BACKWARD")
def _backward(agent, rank, fields, value, context):
    """Runs backward from the value of a reference that this process owns."""
    from ..autograd import _start_backward
    from ._rref import root_of
    reference, number, retain_graph = fields
    owner, done = references.owned(reference), Future()

    def ready():
        try:
            value = owner.future.value()
            if isinstance(value, internal.RemoteException):
                raise internal._exception_of(value)
            run = _start_backward(number, [root_of(value)], retain_graph)
        except Exception as error:
            done._complete(None, error)
        else:
            run._when_completed(lambda: done._complete(None, run._error))
    owner.future._when_completed(ready)
    return Later(done)
