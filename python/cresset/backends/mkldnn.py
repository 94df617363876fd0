"""oneDNN: not exposed as a layout."""


def is_available():
    return False
