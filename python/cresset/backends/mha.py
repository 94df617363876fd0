"""The fast path of nn.MultiheadAttention and nn.TransformerEncoder.  There is one path, with the same values."""

_is_fastpath_enabled = True


def get_fastpath_enabled():
    """The value that set_fastpath_enabled stored."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value):
    """Stores the value."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
