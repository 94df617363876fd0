"""The error of a save or a load."""
import traceback

__all__ = ["CheckpointException"]


def _wrap_exception(error):
    trace = traceback.extract_tb(error.__traceback__)
    for frame in trace:  # Python 3.13 keeps code objects, which have no pickle
        if hasattr(frame, "_code"):
            frame._code = None
    return error, trace


def _is_wrapped_exception(obj):
    return isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], BaseException) and \
        isinstance(obj[1], traceback.StackSummary)


class CheckpointException(BaseException):
    """A save or load failed at some ranks; `failures` is {rank: (exception, traceback)}."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        """The exceptions by rank."""
        return self._failures

    def __str__(self):
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, trace) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(trace)) if trace is not None else ""
            text += "".join(traceback.format_exception_only(type(error), value=error))
        return text
