"""OpenMP, with which oneDNN runs its threads."""


def is_available():
    return True
