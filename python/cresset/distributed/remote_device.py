"""A device of a rank or of a named worker: "rank:1/cpu", "worker/cuda:0", "cpu"; without a device it is the host."""
import cresset

__all__ = []


def _is_device(text):
    try:
        cresset.device(text)
    except RuntimeError:
        return False
    return True


class _remote_device:
    """A device, and the rank or the name of the worker that has it."""

    def __init__(self, remote_device):
        text = str(remote_device)
        worker, slash, device = text.rpartition("/")
        bad = (f"Could not parse remote_device: {text}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or "
               "'<device>'")
        if text and not slash and not _is_device(text):
            worker, device = text, "cpu"
        if "/" in worker or slash and not (worker and device) or not text:
            raise ValueError(bad)
        self._rank, self._worker_name, self._device = None, worker or None, cresset.device(device)
        if worker.startswith("rank:"):
            if not worker[5:].isdecimal():
                raise ValueError(bad)
            self._rank, self._worker_name = int(worker[5:]), None

    def worker_name(self):
        """Returns the worker's name, or None."""
        return self._worker_name

    def rank(self):
        """Returns the rank, or None."""
        return self._rank

    def device(self):
        """Returns the device."""
        return self._device

    def __repr__(self):
        owner = f"rank:{self._rank}/" if self._rank is not None else f"{self._worker_name}/" if self._worker_name else ""
        return f"{owner}{self._device}"

    def __eq__(self, other):
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))
