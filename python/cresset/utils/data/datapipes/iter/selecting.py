"""A stage that drops samples."""
from ..datapipe import IterDataPipe, check_function, functional_datapipe

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The samples for which filter_fn returns True."""

    def __init__(self, datapipe, filter_fn, input_col=None):
        check_function(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def _keeps(self, data):
        if self.input_col is None:
            keeps = self.filter_fn(data)
        elif isinstance(self.input_col, (list, tuple)):
            keeps = self.filter_fn(*(data[c] for c in self.input_col))
        else:
            keeps = self.filter_fn(data[self.input_col])
        if not isinstance(keeps, bool):
            raise ValueError("Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(keeps))
        return keeps

    def __iter__(self):
        for data in self.datapipe:
            if self._keeps(data):
                yield data
