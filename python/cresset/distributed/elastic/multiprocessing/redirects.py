"""Output to files, also that of C code and of child processes."""
import ctypes
import os
import sys
from contextlib import contextmanager

__all__ = ["redirect", "redirect_stderr", "redirect_stdout"]

_libc = ctypes.CDLL(None)
_NUMBERS = {"stdout": 1, "stderr": 2}


def _point(std, target):
    """Makes a stream's descriptor another one's copy, when all that was printed has been written."""
    getattr(sys, std).flush()
    _libc.fflush(None)
    os.dup2(target, _NUMBERS[std])


@contextmanager
def redirect(std, to_file):
    """Sends "stdout" or "stderr" to a file."""
    if std not in _NUMBERS:
        raise ValueError(f"unknown standard stream <{std}>, must be one of {set(_NUMBERS)}")
    before = os.dup(_NUMBERS[std])
    try:
        with open(to_file, "wb") as file:
            _point(std, file.fileno())
            try:
                yield
            finally:
                _point(std, before)
    finally:
        os.close(before)


def redirect_stdout(to_file):
    """Sends stdout to a file."""
    return redirect("stdout", to_file)


def redirect_stderr(to_file):
    """Sends stderr to a file."""
    return redirect("stderr", to_file)
