"""Names of TorchScript that libraries import from torch's private module."""
from .futures import Future
from .jit import (Final, annotate as _annotate, export, ignore, is_scripting, unused,
                  _overload, _overload_method, _warn_if_empty, isinstance as _isinstance)
from .jit._forms import boolean_dispatched
from .jit.annotations import (BroadcastingList1, BroadcastingList2, BroadcastingList3, is_dict,
                              is_list, is_optional, is_tuple, is_union)


def _copy_to_script_wrapper(fn):
    """Marks a method that compiled modules keep."""
    fn._torchscript_modifier = "if this method is not scripted, copy the python method onto the scripted model"
    return fn


def is_ignored_fn(fn):
    """Returns whether compiled code leaves the function out."""
    return getattr(fn, "_torchscript_modifier", "").startswith(("ignore", "unused"))


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """Returns a function that calls if_true or if_false, by the value of one argument."""
    def dispatch(*args, **kwargs):
        flag = kwargs[arg_name] if arg_name in kwargs else (
            args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)
    dispatch.__name__ = func_name or dispatch.__name__
    dispatch.__module__ = module_name or dispatch.__module__
    boolean_dispatched[dispatch] = {"if_true": if_true, "if_false": if_false, "index": arg_index, "default": default,
                                    "arg_name": arg_name}
    return dispatch


def check_empty_containers(obj):
    """Warns of an empty list, dict or tuple: jit.isinstance does not see the type of its items."""
    _warn_if_empty(obj)
