"""cuSPARSELt: not used."""


def is_available():
    return False


def version():
    """None: the library is not loaded."""
    return None


def get_max_alg_id():
    """None: there are no algorithms to choose from."""
    return None
