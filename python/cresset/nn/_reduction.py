"""Reductions of losses: names, and their numbers in operators."""
import warnings

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction):
    """Returns the number of a reduction's name."""
    number = _NUMBERS.get(reduction)
    if number is None:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. "
                      "Please use reduction='mean' instead.", stacklevel=2)
    return number


def legacy_get_string(size_average, reduce, emit_warning=True):
    """Returns the name for the old arguments `size_average` and `reduce`."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    name = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn("size_average and reduce args will be deprecated, please use "
                      f"reduction='{name}' instead.", stacklevel=2)
    return name


def legacy_get_enum(size_average, reduce, emit_warning=True):
    """Returns the number for the old arguments."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))

