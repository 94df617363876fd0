"""A lock by a file, for processes that make one thing."""
import os
import time


class FileBaton:
    """The process that creates the file has the lock."""

    def __init__(self, lock_file_path, wait_seconds=0.1, warn_after_seconds=None):
        self.lock_file_path, self.wait_seconds, self.warn_after_seconds = lock_file_path, wait_seconds, warn_after_seconds
        self.fd = None

    def try_acquire(self):
        """Creates the file; False where it exists."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
            return True
        except FileExistsError:
            return False

    def wait(self):
        """Returns when the file is gone."""
        began, warned = time.monotonic(), False
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if self.warn_after_seconds is not None and not warned and time.monotonic() - began > self.warn_after_seconds:
                import warnings
                warnings.warn(f"Waited on lock file \"{self.lock_file_path}\" for {time.monotonic() - began:.0f} seconds.", stacklevel=2)
                warned = True

    def release(self):
        """Removes the file."""
        if self.fd is not None:
            os.close(self.fd)
        os.remove(self.lock_file_path)
