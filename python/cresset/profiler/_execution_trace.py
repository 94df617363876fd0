"""Traces of the calls of operators as a graph in a file."""
import json
import os

from ..autograd import profiler as _profiler

__all__ = ["ExecutionTraceObserver"]


class ExecutionTraceObserver:
    """Records the calls between start() and stop() and writes them to the file of register_callback().

    The file has a node for each call: its name, number, the number of the call around it, and the
    sizes of its inputs.
    """

    def __init__(self):
        self._path, self._profile = None, None

    def register_callback(self, output_file_path):
        """Sets the file, which is written by stop()."""
        if self._path is None:
            self._path = os.fspath(output_file_path)
        return self

    @property
    def is_registered(self):
        """Whether a file is set."""
        return self._path is not None

    def is_running(self):
        """Whether calls are being recorded."""
        return self._profile is not None

    def get_output_file_path(self):
        """The file; None before register_callback()."""
        return self._path

    def start(self):
        """Begins to record."""
        if self._path is not None and self._profile is None:
            self._profile = _profiler.profile(record_shapes=True).__enter__()

    def stop(self):
        """Ends the recording and writes the file."""
        made, self._profile = self._profile, None
        if made is not None:
            made.__exit__(None, None, None)
            self._write(made.function_events)

    def unregister_callback(self):
        """Ends the recording; further ones need another file."""
        self.stop()
        self._path = None

    cleanup = unregister_callback

    def _write(self, events):
        number = {id(event): i + 2 for i, event in enumerate(events)}
        nodes = [{"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "inputs": {"shapes": []}}]
        nodes += [{"id": number[id(event)], "name": event.name, "ctrl_deps": number.get(id(event.cpu_parent), 1),
                   "inputs": {"shapes": event.input_shapes}} for event in events]
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump({"schema": "1.1.0-chakra", "pid": os.getpid(), "nodes": nodes}, file)

    __enter__ = start

    def __exit__(self, *exception):
        self.stop()
