"""Prints what processes append to their files."""
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["TailLog", "tail_logfile"]

log = logging.getLogger(__name__)


def tail_logfile(header, file, dst, finished, interval_sec, log_line_filter=None):
    """Copies a file's lines, also those that come later, to a stream, each after a header, until `finished` is set.
    With a filter only the lines for which it is true."""
    while True:
        ends = finished.is_set()  # a file that a short process made before the end is read below
        if os.path.exists(file):
            break
        if ends:
            return
        finished.wait(interval_sec)
    with open(file, "rb") as source:  # a letter of several bytes may come in two reads
        rest = b""
        while True:
            ends = finished.is_set()  # lines that were written before the end are read below
            *lines, rest = (rest + source.read()).split(b"\n")
            lines = [line + b"\n" for line in lines]
            if ends and rest:
                lines, rest = [*lines, rest], b""
            if lines:
                texts = (line.decode(errors="replace") for line in lines)
                dst.write("".join(header + text for text in texts if log_line_filter is None or log_line_filter(text)))
                dst.flush()
            elif ends:
                return
            else:
                finished.wait(interval_sec)


class TailLog:
    """Prints several files' lines, by ranks, in threads, between start() and stop()."""

    def __init__(self, name, log_files, dst, log_line_prefixes=None, interval_sec=0.1, log_line_filter=None):
        self._files, self._dst, self._interval, self._filter = log_files, dst, interval_sec, log_line_filter
        self._headers = {rank: (log_line_prefixes or {}).get(rank, f"[{name}{rank}]:") for rank in log_files}
        self._finished, self._stopped, self._futures = threading.Event(), False, []
        self._threadpool = ThreadPoolExecutor(max_workers=len(log_files), thread_name_prefix=f"TailLog_{name}") if log_files else None

    def start(self):
        """Starts the threads."""
        if not self._dst:
            return self
        self._futures = [self._threadpool.submit(tail_logfile, self._headers[rank], file, self._dst, self._finished, self._interval,
                                                 self._filter)
                         for rank, file in self._files.items()]
        return self

    def stop(self):
        """Prints the rest and ends the threads."""
        self._finished.set()
        for file, future in zip(self._files.values(), self._futures):
            try:
                future.result()
            except Exception as error:
                log.error("the file %s cannot be printed: %s: %s", file, type(error).__name__, error)
        if self._threadpool is not None:
            self._threadpool.shutdown()
        self._stopped = True

    def stopped(self):
        """Returns whether stop() was called."""
        return self._stopped
