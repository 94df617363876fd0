"""A stage that calls a function for every sample."""
from ..datapipe import MapDataPipe, check_function, functional_datapipe

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data):
    """Returns its argument."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """fn of every sample."""

    def __init__(self, datapipe, fn=default_fn):
        check_function(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)
