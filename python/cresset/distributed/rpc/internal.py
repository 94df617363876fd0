"""How functions, arguments, results and exceptions become bytes."""
import collections
import copyreg
import enum
import importlib
import io
import pickle
import sys
import threading
import traceback
from typing import NamedTuple

from ... import Tensor
from ...futures import _described

__all__ = ["RPCExecMode", "serialize", "deserialize", "PythonUDF", "RemoteException"]

_tables = threading.local()  # .sent, .received: tensors of the message in progress


class RPCExecMode(enum.Enum):
    """The calls that programs make."""
    SYNC = "sync"
    ASYNC = "async"
    ASYNC_JIT = "async_jit"
    REMOTE = "remote"


class PythonUDF(NamedTuple):
    """A call of a Python function."""
    func: object
    args: tuple
    kwargs: dict


class RemoteException(NamedTuple):
    """The exception of a function that another process ran: its text with the traceback, and its class (None: the request could
    not be answered)."""
    msg: str
    exception_type: type


def _received_tensor(index):
    return _tables.received[index]


def _named(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _loaded_module(data):
    from ... import jit
    return jit.load(io.BytesIO(data))


def _name_of_script(fn):
    """Returns the module and the name under which a function of torch.jit.script is known."""
    module, _, name = fn.qualified_name.removeprefix("__torch__.").rpartition(".")
    main = sys.modules.get("__main__")
    return ("__main__", name) if not module and hasattr(main, name) else (module, name)


def _reduce_script(obj):
    from ... import jit
    if isinstance(obj, jit.ScriptFunction):
        return _named, _name_of_script(obj)
    if isinstance(obj, jit.ScriptModule):
        data = io.BytesIO()
        jit.save(obj, data)
        return _loaded_module, (data.getvalue(),)
    return NotImplemented


class _Pickler(pickle.Pickler):
    def __init__(self, file, reducers):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._reducers = reducers

    def reducer_override(self, obj):
        from ._rref import PyRRef
        kind = type(obj)
        if kind is Tensor:
            _tables.sent.append(obj)
            return _received_tensor, (len(_tables.sent) - 1,)
        if isinstance(obj, PyRRef):
            return obj._fork()
        if kind in self._reducers:
            return self._reducers[kind](obj)
        if isinstance(obj, type) or kind is type(_named):
            return NotImplemented
        return _reduce_script(obj) if kind.__module__.startswith(__package__.partition(".")[0]) else NotImplemented


class _InternalRPCPickler:
    """Serializes objects with their tensors apart.  Functions and classes travel by their names."""

    def __init__(self):
        self._class_reducer_dict = {}

    def _register_reducer(self, obj_class, reducer):
        self._class_reducer_dict.setdefault(obj_class, reducer)

    def serialize(self, obj):
        """Returns (bytes, tensors)."""
        before, _tables.sent = getattr(_tables, "sent", None), []
        try:
            data = io.BytesIO()
            _Pickler(data, {**copyreg.dispatch_table, **self._class_reducer_dict}).dump(obj)
            return data.getvalue(), _tables.sent
        finally:
            _tables.sent = before

    def deserialize(self, binary_data, tensor_table):
        """Returns the object; an AttributeError where this process lacks a name that the object has."""
        before, _tables.received = getattr(_tables, "received", None), tensor_table
        try:
            return pickle.loads(binary_data)
        except AttributeError as error:
            missing = AttributeError(f"{error} Default RPC pickler does not serialize\n            function code. Ensure that "
                                     "UDFs are defined on both caller and\n            callee modules.")
            missing.__cause__ = error
            return missing
        finally:
            _tables.received = before


_internal_rpc_pickler = _InternalRPCPickler()


def serialize(obj):
    """Returns (bytes, tensors) of an object."""
    return _internal_rpc_pickler.serialize(obj)


def deserialize(binary_data, tensor_table):
    """Returns the object of serialize()."""
    return _internal_rpc_pickler.deserialize(binary_data, tensor_table)


def _remote_exception(error, where):
    """Returns what the caller of a function gets for its exception."""
    text = "".join(traceback.format_exception(error))
    return RemoteException(f"On {where}:\n{error!r}\n{text}", type(error))


def _remote_failure(error):
    """Returns what the caller gets where a request could not be answered: the failure is no function's."""
    return RemoteException(_described(error), None)


def _run_function(python_udf):
    """Calls a function; returns its result, or a RemoteException."""
    from ... import jit
    from . import api
    try:
        if isinstance(python_udf, AttributeError):
            raise RuntimeError(str(python_udf)) from python_udf
        return python_udf.func(*python_udf.args, **(python_udf.kwargs or {}))
    except Exception as error:
        failed = _remote_exception(error, api._get_current_rpc_agent().get_worker_info())
        if isinstance(error, jit.Error):
            failed = failed._replace(exception_type=RuntimeError)
        print(failed.msg, file=sys.stderr)
        return failed


def _exception_of(remote):
    """Returns the exception that a RemoteException stands for; a RuntimeError where its request could not be answered."""
    if remote.exception_type is None:
        return RuntimeError(remote.msg)
    text = remote.msg.encode("latin-1", "backslashreplace").decode("unicode_escape")  # repr() escaped the message's lines
    try:
        return remote.exception_type(text)
    except BaseException as error:  # a class whose constructor wants other arguments
        return RuntimeError(f"Failed to create original exception type. Error msg was {error}. Original exception on remote side "
                            f"was {text}")


def _exception_of_call(remote):
    """Returns the exception of a called function, as its caller gets it: a ValueError, TypeError or RuntimeError."""
    error = _exception_of(remote)
    if remote.exception_type is None:
        return error
    kind = next((kind for kind in (ValueError, TypeError) if isinstance(error, kind)), RuntimeError)
    return kind(f"{type(error).__name__}: {error}")


def _handle_exception(result):
    if isinstance(result, RemoteException):
        raise _exception_of(result) from None


def _build_rpc_profiling_key(exec_type, func_name, current_worker_name, dst_worker_name):
    """Returns the name of a call's record in a profile."""
    return f"rpc_{exec_type.value}#{func_name}({current_worker_name} -> {dst_worker_name})"


RPCProfilingKey = collections.namedtuple("RPCProfilingKey", ["profiling_key"])
