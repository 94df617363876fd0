"""Arrays whose elements a recording has as constants of its graph.

The recorder of a call follows them: an array that changes during the call makes the recording be refused, because
later calls would read the elements of the first read everywhere.
"""
from _thread import _local as local

from .. import _C

_followed = local()  # of the thread: .arrays: [(array, its bytes)] of the call that is recorded, or None


class Followed:
    """The arrays that operators read during the call in this context, which a recorder records."""

    def __enter__(self):
        self.outer = getattr(_followed, "arrays", None)
        _followed.arrays = []
        return self

    def __exit__(self, kind, error, trace):
        arrays, _followed.arrays = _followed.arrays, self.outer
        self.outer = None
        if kind is None and any(array.tobytes() != before for array, before in arrays):
            _C._refuse_recording("it changes an array that an earlier call reads")


def follow(array):
    """Notes an array as it is now, if a call is followed."""
    arrays = getattr(_followed, "arrays", None)
    if arrays is not None:
        arrays.append((array, array.tobytes()))
