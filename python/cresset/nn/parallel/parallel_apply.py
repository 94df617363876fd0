"""Calls of several modules at the same time."""
import threading

import cresset
from ..._utils import ExceptionWrapper

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """Returns the first tensor inside nested lists, tuples and dicts, or None."""
    if isinstance(obj, cresset.Tensor):
        return obj
    items = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    for found in map(get_a_var, items):
        if found is not None:
            return found
    return None


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Calls each module with its arguments, in a thread for each.  Returns the list of results."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs "
                             f"{len(inputs)}")
    kwargs_tup = ({},) * len(modules) if kwargs_tup is None else kwargs_tup
    if len(modules) != len(kwargs_tup):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of kwargs_tup "
                             f"{len(kwargs_tup)}")
    results = [None] * len(modules)
    grad_enabled = cresset.is_grad_enabled()

    def work(i):
        try:
            args = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
            with cresset.set_grad_enabled(grad_enabled):
                results[i] = modules[i](*args, **kwargs_tup[i])
        except Exception:
            results[i] = ExceptionWrapper(where=f"in replica {i} on device {devices[i] if devices else i}")
    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results
