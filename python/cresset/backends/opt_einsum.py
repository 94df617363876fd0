"""The order of products in einsum: this build has its own, and does not use the package opt_einsum."""

enabled = False
strategy = None


def is_available():
    """Whether einsum uses the package opt_einsum."""
    return False


def get_opt_einsum():
    """The package that einsum uses, or None."""
    return None


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
