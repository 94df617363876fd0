"""The reader or writer of a place."""
import functools
import warnings

from .filesystem import FileSystemReader, FileSystemWriter


def _of_url(checkpoint_id, reader):
    """Returns the class for places that fsspec knows; None without fsspec, and for other places."""
    try:
        from ._fsspec_filesystem import FsspecReader, FsspecWriter
    except ImportError:
        return None
    kind = FsspecReader if reader else FsspecWriter
    return kind if kind.validate_checkpoint_id(checkpoint_id) else None


def _by_position(name):
    """Lets programs give the reader or writer as the second argument, with a warning, as torch does."""
    def decorate(func):
        @functools.wraps(func)
        def call(*args, **kwargs):
            if len(args) == 2:
                warnings.warn(f"The argument order of {func.__name__} has been changed. Please check the document to avoid future "
                              "breakages.", stacklevel=3)
                if name in kwargs:
                    raise AssertionError(f"{name} in kwargs: {(args, kwargs)}")
                return func(args[0], **{name: args[1]}, **kwargs)
            return func(*args, **kwargs)
        return call
    return decorate


def _storage_setup(storage, checkpoint_id, reader=False):
    if storage is not None:
        if checkpoint_id is not None:
            storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    kind = FileSystemReader if reader else FileSystemWriter
    if not kind.validate_checkpoint_id(checkpoint_id):
        kind = _of_url(checkpoint_id, reader)
    if kind is None:
        raise RuntimeError("Cannot detect which StorageReader or StorageWriter to use. "
                           "Please specify the storage_reader/storage_writer.")
    storage = kind(checkpoint_id)
    storage.reset(checkpoint_id)
    return storage
