"""Names of the reducer that programs use: buckets of gradients, kinds of built-in hooks."""
import enum

from .. import _C

Reducer = _C._Reducer


class BuiltinCommHookType(enum.Enum):
    """Built-in communication hooks."""
    ALLREDUCE, FP16_COMPRESS = range(2)


class Logger:
    """What a data-parallel module tells about itself."""

    def __init__(self, module):
        self._module = module

    def _get_ddp_logging_data(self):
        return self._module._get_ddp_logging_data()


class GradBucket:
    """A bucket of gradients, as communication hooks get it."""

    def __init__(self, index, reducer, parameters):
        self._index, self._reducer, self._all = index, reducer, parameters
        self._buffer = reducer.buffer(index)

    def index(self):
        """Returns the bucket's number, in the order of their starts."""
        return self._index

    def buffer(self):
        """Returns the gradients as one flat tensor."""
        return self._buffer

    def set_buffer(self, buffer):
        """Replaces the flat tensor."""
        self._buffer = buffer

    def gradients(self):
        """Returns the gradients as views of the bucket."""
        return self._reducer.views(self._index)

    def parameters(self):
        """Returns the parameters, in the order of the gradients."""
        return [self._all[i] for i in self._reducer.members(self._index)]

    def is_last(self):
        """Returns whether this is the last bucket of a backward."""
        return self._index == self._reducer.bucket_count - 1
