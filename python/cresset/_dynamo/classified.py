"""Functions in C that read only the objects they are given, and no state of these objects that a guard
does not check.

Guards need all reads of the recorded call.  Python code is observed; of the functions in C only these, and this
package's, may have been called."""
import collections
import functools
import operator
import types

from .. import Generator, _C, _root


def _names(*functions):
    return frozenset(f.__name__ for f in functions)


_FUNCTIONS = {
    "builtins": _names(abs, all, any, callable, chr, delattr, divmod, getattr, hasattr, isinstance, issubclass, iter, len,
                       max, min, ord, pow, round, setattr, sorted, sum) | {"__build_class__"},
    "math": None,  # all
    "_operator": _names(operator.add, operator.and_, operator.contains, operator.eq, operator.floordiv, operator.ge,
                        operator.getitem, operator.gt, operator.index, operator.le, operator.length_hint, operator.lt,
                        operator.mod, operator.mul, operator.ne, operator.neg, operator.not_, operator.or_, operator.sub,
                        operator.truediv),
    "_functools": frozenset(("reduce",)),
    # A recording has the elements of arrays that the call makes; the walk refuses arrays that were there before it.
    # Those of empty() and ndarray() are chance: only NumPy's code, which writes them, may call these.
    "numpy": frozenset(("arange", "array", "asanyarray", "asarray", "ascontiguousarray", "zeros")),
}
_TYPES = frozenset((bool, complex, dict, enumerate, filter, float, frozenset, int, list, map, object, range, reversed,
                    set, slice, super, tuple, type, zip, collections.OrderedDict, collections.defaultdict,
                    functools.partial, property, staticmethod, classmethod, types.SimpleNamespace))
_BASES = _TYPES | {str, bytes, BaseException}
_TEXT = frozenset(("format", "format_map", "__format__", "__repr__", "__str__", "__reduce__", "__reduce_ex__", "__sizeof__",
                   "__dir__"))  # these read objects to any depth, or memory


OF_NUMPY = ("ufunc", "_ArrayFunctionDispatcher")  # their objects are functions of their arguments


# Of the functions of _C that are no operators: those that read their arguments and the modes that every recording has,
# or whose effect the recording has, and those whose results a guard compares, with the arguments to ask for.
_OF_C = frozenset((
    "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack", "detach_", "get_device", "numel", "is_tensor", "is_complex",
    "is_conj", "is_floating_point", "is_inference", "is_neg", "is_signed", "can_cast", "promote_types", "result_type",
    "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "get_default_dtype", "clear_autocast_cache",
    "autocast_increment_nesting", "autocast_decrement_nesting", "get_rng_state", "set_rng_state",
    "_apply_function", "_set_grad_enabled", "_run_backward", "_enter_autocast", "_exit_autocast", "_exit_saved_tensors_hooks",
    "_push_saved_tensors_hooks", "_pop_saved_tensors_hooks", "_disable_saved_tensors_hooks", "_saved_hooks_active",
    "_has_torch_function", "_disabled_torch_function_impl", "_disabled_torch_dispatch_impl", "_push_function_mode",
    "_pop_function_mode", "_refuse_recording", "_literal", "_break_graph", "_is_compiling", "_current_graph_task_id", "_compiled_off",
    "_call_pulling", "_call_pushing", "_bump_version", "_increment_version", "_return_type", "_dtype_of_type", "_rebuild_tensor",
    "_enter_transform", "_exit_transform", "_enter_hook_refusal", "_exit_hook_refusal",
    "_make_wrapper", "_is_fake", "_is_meta_or_subclass", "_at_backward_end", "_leaf_has_hooks", "_will_engine_execute_node", "_outline",
    "_quicken_module", "_profile_enabled", "_profile_enter", "_profile_leave", "_log", "_log_wants", "_overloads",
    "_tensor_elements", "_truth", "_cuda_count", "_cuda_is_initialized", "_cuda_properties", "_cuda_set_current", "_backend_count"))
_STATE_OF_C = {"is_autocast_cache_enabled": ((),), "get_autocast_dtype": (("cpu",), ("cuda",)), "get_num_threads": ((),),
               "is_anomaly_enabled": ((),), "is_anomaly_check_nan_enabled": ((),), "_cuda_current": ((),),
               "_are_transforms_running": ((),)}


def state_reads(kind, what, owner):
    """[(function, arguments)] whose results the call of a function of _C read; None where the table does not state it.
    Of other functions this says nothing."""
    if kind != "f" or owner not in (_root.NAME, f"{_root.NAME}._C", "torch", "torch._C", "_C") or what in _OF_C:
        return ()
    return [(getattr(_C, what), given) for given in _STATE_OF_C[what]] if what in _STATE_OF_C else None


def is_ours(module):
    return type(module) is str and module.partition(".")[0] in ("cresset", "torch", "_C", _root.NAME)


def _is_our_class(t):
    """A class of this package whose methods in C read what a guard has.  Those of generators read and set their state."""
    return is_ours(t.__module__) and t is not Generator


def _is_function(name, owner):
    if isinstance(owner, type):
        owner = next((base for base in owner.__mro__ if name in base.__dict__ and  # that defines it in C
                      type(base.__dict__[name]) is not types.FunctionType), owner)
        if owner is object:
            return name in ("__new__", "__init__", "__init_subclass__")
        return _is_our_class(owner) or owner in _BASES and name not in _TEXT or name == "__init_subclass__"
    if is_ours(owner):
        return True
    allowed = _FUNCTIONS.get(owner, ())
    return allowed is None or name in allowed


def _is_type(t):
    """Whether making an object of this class calls only its Python code and classified C code."""
    if is_ours(t.__module__) or t.__module__ == "numpy" and hasattr(t, "__array_priority__") and t.__name__ != "ndarray":
        return True
    heap = 1 << 9
    return all(base in _BASES or issubclass(base, BaseException) or base.__flags__ & heap for base in t.__mro__)


def is_classified(kind, what, owner):
    """Whether a call that _C.Observation.calls() lists is of a function that this table states."""
    if kind == "i":  # checked before, see _Recording.check_names
        return True
    if kind == "f":
        return _is_function(what, owner)
    if kind == "d":
        owner = what.__objclass__
        return _is_our_class(owner) or (owner in _BASES or issubclass(owner, BaseException)) and what.__name__ not in _TEXT
    if kind == "t":
        return _is_type(what)
    if is_ours(what.__module__) or what is functools.partial or what.__name__ in OF_NUMPY:
        return True
    call = next((base.__dict__["__call__"] for base in what.__mro__ if "__call__" in base.__dict__), None)
    return type(call) is types.FunctionType or is_ours(getattr(getattr(call, "__objclass__", None), "__module__", None))
