"""A stage over a sequence or mapping."""
from ..datapipe import MapDataPipe, copied

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe):
    """The items of a sequence or mapping, which is copied."""

    def __init__(self, sequence, deepcopy=True):
        self.sequence = copied(sequence, deepcopy)

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)
