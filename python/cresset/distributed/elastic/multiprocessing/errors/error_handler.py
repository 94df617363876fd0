"""Writes an exception to the file that TORCHELASTIC_ERROR_FILE names."""
import faulthandler
import json
import logging
import os
import time
import traceback

__all__ = ["ErrorHandler"]


def _write(record):
    """Writes a record, whole or not at all.  Returns False where the environment names no file."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return False
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(record, file)
    os.replace(path + ".new", path)
    return True


class ErrorHandler:
    """Writes exceptions of this process, or of a worker, to the error file."""

    def initialize(self):
        """Prepares the process: prints Python's frames when it dies by a signal."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception:
            logging.getLogger(__name__).warning("faulthandler cannot be enabled", exc_info=True)

    def record_exception(self, e):
        """Writes an exception."""
        _write({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": {
            "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}})

    def dump_error_file(self, rootcause_error_file, error_code=0):
        """Writes the contents of a worker's error file, with its exit code; without a file, logs them."""
        with open(rootcause_error_file) as file:
            record = json.load(file)
        if error_code and isinstance(record.get("message"), dict):
            record["message"]["errorCode"] = error_code
        if not _write(record):
            logging.getLogger(__name__).error("%s has: %s", rootcause_error_file, json.dumps(record, indent=2))
