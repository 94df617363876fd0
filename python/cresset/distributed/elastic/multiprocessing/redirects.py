"""Output to files, also that of C code and of child processes."""
import ctypes
import os
import sys
from contextlib import contextmanager

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]

_libc = ctypes.CDLL(None)
_NUMBERS = {"stdout": 1, "stderr": 2}


def _descriptors(std):
    """Returns the stream's number, and that of Python's object where a program has put another one there."""
    try:
        return list(dict.fromkeys((_NUMBERS[std], getattr(sys, std).fileno())))
    except (AttributeError, OSError, ValueError):  # an object without a descriptor
        return [_NUMBERS[std]]


def _point(std, targets):
    """Makes descriptors others' copies, when all that was printed has been written."""
    getattr(sys, std).flush()
    _libc.fflush(None)
    for number, target in targets.items():
        os.dup2(target, number)


@contextmanager
def redirect(std, to_file):
    """Sends "stdout" or "stderr" to a file."""
    if std not in _NUMBERS:
        raise ValueError(f"unknown standard stream <{std}>, must be one of {set(_NUMBERS)}")
    before = {number: os.dup(number) for number in _descriptors(std)}
    try:
        with open(to_file, "wb") as file:
            _point(std, dict.fromkeys(before, file.fileno()))
            try:
                yield
            finally:
                _point(std, before)
    finally:
        for copy in before.values():
            os.close(copy)


def redirect_stdout(to_file):
    """Sends stdout to a file."""
    return redirect("stdout", to_file)


def redirect_stderr(to_file):
    """Sends stderr to a file."""
    return redirect("stderr", to_file)
