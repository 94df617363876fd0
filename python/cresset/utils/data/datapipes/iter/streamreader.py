"""A stage that reads open files."""
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(name, bytes or text) of every (name, open file), in pieces of `chunk`; closes the files."""

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for name, stream in self.datapipe:
            while piece := stream.read(self.chunk):
                yield name, piece
            if hasattr(stream, "close"):
                stream.close()
