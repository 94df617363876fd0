"""MKL: not used."""


def is_available():
    return False
