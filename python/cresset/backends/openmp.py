"""OpenMP, which runs the kernels' threads."""


def is_available():
    return True
