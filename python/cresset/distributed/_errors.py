"""The errors of distributed runs."""
_MODULE = "torch.distributed"


class DistError(RuntimeError):
    """An error of a distributed operation."""

    __module__ = _MODULE


class DistBackendError(DistError):
    """An error of a backend."""

    __module__ = _MODULE


class DistNetworkError(DistError):
    """An error of the network."""

    __module__ = _MODULE


class DistStoreError(DistError):
    """An error of the store."""

    __module__ = _MODULE


class QueueEmptyError(DistStoreError):
    """A queue of the store is empty."""

    __module__ = _MODULE


# Names of torch._C.
_DistError, _DistBackendError, _DistNetworkError, _DistStoreError = DistError, DistBackendError, DistNetworkError, DistStoreError
