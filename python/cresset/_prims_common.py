"""Properties of tensors that decompositions ask for."""


def is_contiguous(x):
    return x.is_contiguous()


def is_contiguous_or_false(x):
    """Whether the elements are contiguous; False where that is not known."""
    return x.is_contiguous()
