"""Where each of NumPy's names runs, for a call that has a wrapped array."""
import numpy as np

from . import functions, ufuncs


def where_it_runs(name):
    """Returns "operator", "composition", "NumPy" (the call reads the arrays) or "no arrays" for a name like sum or fft.fft.

    A name of the last kind takes no wrapped arrays: a type, a constant, or a function that makes an array.
    """
    holder, _, last = name.rpartition(".")
    value = getattr(getattr(np, holder) if holder else np, last)
    if isinstance(value, np.ufunc):
        return "operator" if value.__name__ in ufuncs.CALLS else "NumPy"
    if name in functions.FUNCTIONS:
        return "composition"
    return "NumPy" if hasattr(value, "_implementation") else "no arrays"


def names():
    """Returns all names of NumPy's __all__, those of linalg and fft among them."""
    return [*np.__all__, *(f"linalg.{n}" for n in np.linalg.__all__), *(f"fft.{n}" for n in np.fft.__all__)]
