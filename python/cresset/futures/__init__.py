"""Futures: values that another thread or a callback will set."""
import threading
from functools import partial
from types import GenericAlias
from typing import Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class _Future:
    """The result of work that may not have finished yet."""

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self):
        self._finished = threading.Condition()
        self._completed = False
        self._value = self._error = None
        self._callbacks = []

    def done(self):
        """Returns whether the result, or an exception, is set."""
        return self._completed

    def wait(self):
        """Waits for the result and returns it, or raises the exception that was set."""
        with self._finished:
            self._finished.wait_for(self.done)
        try:
            return self.value()
        finally:
            del self  # the exception has this frame, and the future the exception

    def value(self):
        """Returns the result of a completed future, or raises the exception that was set."""
        if not self._completed:
            raise RuntimeError("value() of a Future that is not completed; wait() waits for it")
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self
        return self._value

    def _complete(self, value, error=None):
        with self._finished:
            if self._completed:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once.")
            self._value, self._error, self._completed = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._finished.notify_all()
        for callback in callbacks:
            callback()

    def _when_completed(self, callback):
        """Calls `callback` after completion, or now when the future is completed."""
        with self._finished:
            if not self._completed:
                self._callbacks.append(callback)
                return
        callback()


def _described(error):
    """Returns the class and text of an exception, and the frames from the failing one outwards."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    lines, frame, line = [], trace and trace.tb_frame, trace and trace.tb_lineno
    while frame is not None:
        lines.append(f"  {frame.f_code.co_filename}({line}): {frame.f_code.co_name}\n")
        frame = frame.f_back
        line = frame.f_lineno if frame else 0
    return f"{type(error).__name__}: {error}\n\nAt:\n{''.join(lines)}"


def _callback_failure(error):
    """Returns the RuntimeError that torch makes from an exception in a callback."""
    return RuntimeError(f"Got the following error when running the callback: {_described(error)}")


def _check_callback(method, callback):
    if not callable(callback):
        raise TypeError(f"{method}(): incompatible function arguments. The callback must be callable, not "
                        f"{type(callback).__name__}")


def _check_devices(devices):
    from .. import device as make
    for device in map(make, devices or ()):
        if device.index is None:
            raise ValueError(f"Expected devices to have indices, got {device}")
        raise RuntimeError(f"PyTorch is not linked with support for {device.type} devices")


class Future(_Future, Generic[T]):
    """A value that is set later, by set_result or set_exception.

    Callbacks run in the thread that completes the future, or at once when it is completed.
    """

    def __init__(self, *, devices=None):
        _check_devices(devices)
        super().__init__()

    def then(self, callback):
        """Returns a future with callback(self), which is called after this future completes."""
        _check_callback("then", callback)
        follower = Future()

        def run():
            try:
                value = callback(self)
            except Exception as error:
                follower._complete(None, _callback_failure(error))
            else:
                follower._complete(value)
        self._when_completed(run)
        return follower

    def add_done_callback(self, callback):
        """Calls callback(self) after this future completes.  Its exceptions are printed."""
        _check_callback("add_done_callback", callback)

        def run():
            try:
                callback(self)
            except Exception as error:
                import sys
                print(_callback_failure(error), file=sys.stderr)
        self._when_completed(run)

    def __reduce_ex__(self, protocol):
        raise RuntimeError("Can not pickle torch.futures.Future")

    def set_result(self, result):
        """Completes the future with a value."""
        self._complete(result)

    def set_exception(self, result):
        """Completes the future with an exception, which wait() and value() raise."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)


def collect_all(futures):
    """Returns a future whose value is the list `futures`, when all of them are completed.

    It completes early with the first exception of one.
    """
    futures = list(futures)
    for future in futures:
        if not isinstance(future, _Future):
            raise TypeError(f"collect_all(): expected a list of futures, not {[type(f).__name__ for f in futures]}")
    collected, lock = Future(), threading.Lock()
    waiting = len(futures)

    def finished(future):
        nonlocal waiting
        with lock:
            last = waiting == 1 or (waiting > 0 and future._error is not None)
            waiting = 0 if last else waiting - 1  # below zero: it has completed
        if last:
            collected._complete(futures, future._error)
    for future in futures:
        future._when_completed(partial(finished, future))
    if not futures:
        collected._complete([])
    return collected


def wait_all(futures):
    """Waits for all futures and returns the list of their values."""
    return [future.wait() for future in collect_all(futures).wait()]
