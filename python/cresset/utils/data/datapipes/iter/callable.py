"""Stages that call a function for every sample."""
from ..._utils.collate import default_collate
from ..datapipe import IterDataPipe, check_function, functional_datapipe

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


def _put(data, output_col, value):
    """Stores a column; -1 appends it."""
    if isinstance(data, dict):
        return {**data, output_col: value}
    items = list(data)
    if output_col == -1:
        items.append(value)
    else:
        items[output_col] = value
    return tuple(items) if isinstance(data, tuple) else items


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """fn of every sample, or of its columns input_col; the result goes to column output_col."""

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        check_function(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply(self, data):
        if self.input_col is None:
            return self.fn(data)
        several = isinstance(self.input_col, (list, tuple))
        value = self.fn(*(data[c] for c in self.input_col)) if several else self.fn(data[self.input_col])
        if self.output_col is not None:
            return _put(data, self.output_col, value)
        if not several:
            return _put(data, self.input_col, value)
        out = _put(data, self.input_col[0], value)
        rest = set(self.input_col[1:])
        if isinstance(out, dict):
            return {k: v for k, v in out.items() if k not in rest}
        kept = [v for k, v in enumerate(out) if k not in rest]
        return tuple(kept) if isinstance(out, tuple) else kept

    def __iter__(self):
        for data in self.datapipe:
            yield self._apply(data)

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Makes tensors of batches."""

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        function = collate_fn if collate_fn is not None else conversion
        if not callable(function):
            raise ValueError("conversions of data frames are not supported; a function is expected")
        super().__init__(datapipe, fn=function)
