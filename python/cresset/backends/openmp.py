"""OpenMP, which runs the threads of kernels."""


def is_available():
    return True
