"""A stage of file names."""
import fnmatch
import os

from ..datapipe import IterDataPipe, functional_datapipe
from .utils import IterableWrapperIterDataPipe

__all__ = ["FileListerIterDataPipe"]


def _files(root, masks, recursive, abspath):
    if not os.path.isdir(root):
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if not masks or any(fnmatch.fnmatch(name, mask) for mask in masks):
                path = os.path.join(folder, name)
                yield os.path.abspath(path) if abspath else path
        if not recursive:
            return


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """The files in folders whose names fit one of the masks."""

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        roots = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks = ([masks] if masks else []) if isinstance(masks, str) else masks
        self.recursive, self.abspath, self.length = recursive, abspath, length

    def __iter__(self):
        for root in self.datapipe:
            yield from _files(root, self.masks, self.recursive, self.abspath)

    def __len__(self):
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
