"""Functions of NumPy's arrays as functions of tensors."""
import functools

import numpy as np

from .. import get_default_device
from .._C import Tensor, from_numpy
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from . import convert
from . import functions, indexing, ufuncs  # noqa: F401  their tables are made now: names read in a call are the program's
from .array import ndarray

_ARRAY, _SCALAR, _OTHER = range(3)  # kinds of results


def is_array(x):
    """Returns whether an argument is wrapped when it enters."""
    return type(x) is np.ndarray and convert.is_computed(x)


def are_in(args, kwargs):
    """Returns whether arguments, or lists, tuples and dicts in them, have an array that is wrapped."""
    for x in (*args, *kwargs.values()) if kwargs else args:
        kind = type(x)
        if kind is np.ndarray and convert.is_computed(x):
            return True
        if kind in (list, tuple) and are_in(x, {}) or kind is dict and are_in((), x):
            return True
    return False


def with_tensors(fn, which, args, kwargs):
    """Calls `fn` with arrays in the places `which` of the arguments' leaves, where tensors are.

    Returns (kinds of the results' leaves, the results with tensors in place of arrays).  The function is an
    argument, so that compile() sees what it reads.
    """
    leaves, spec = tree_flatten((args, kwargs))
    for i in which:
        leaves[i] = ndarray(leaves[i])
    args, kwargs = tree_unflatten(leaves, spec)
    made, spec = tree_flatten(fn(*args, **kwargs))
    kinds = tuple((_SCALAR if x._is_scalar else _ARRAY) if type(x) is ndarray else _OTHER for x in made)
    return kinds, tree_unflatten([x._t if type(x) is ndarray else x for x in made], spec)


def _leave(kind, x):
    if kind == _OTHER:
        return x
    array = convert.to_array(x)
    return array[()] if kind == _SCALAR else array


def call(with_tensors, fn, args, kwargs):
    """Calls `fn` with real arrays by with_tensors(), or a compiled one, and returns real arrays.

    On another device than the host, arrays that the function wrote are copied back.
    """
    device = get_default_device()
    leaves, spec = tree_flatten((args, kwargs))
    which = tuple(i for i, x in enumerate(leaves) if is_array(x))
    entered = [(leaves[i], convert.from_array(leaves[i], device)) for i in which]
    for i, (_, t) in zip(which, entered):
        leaves[i] = t
    versions = [t._version for _, t in entered]
    kinds, out = with_tensors(fn, which, *tree_unflatten(leaves, spec))
    if device.type != "cpu":
        for (array, t), version in zip(entered, versions):
            if t._version != version:
                array[...] = convert.to_array(t)
    made, spec = tree_flatten(out)
    return tree_unflatten([_leave(kind, x) for kind, x in zip(kinds, made)], spec)


def wrap_numpy(fn):
    """Returns a function of tensors: `fn` gets arrays that stand for them, and its arrays become tensors."""
    def leave(x):
        if type(x) is ndarray:
            return x._t
        return from_numpy(np.asarray(x)) if isinstance(x, (np.ndarray, np.generic)) else x

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        args, kwargs = tree_map(lambda x: ndarray(x, x.dim() == 0) if type(x) is Tensor else x, (args, kwargs))
        return tree_map(leave, fn(*args, **kwargs))
    return wrapped
