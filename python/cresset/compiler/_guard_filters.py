"""Filters of guards, for compile(options={"guard_filter_fn": ...}).

A filter returns for each guard whether it is kept.  This package keeps every guard, because a
check takes nanoseconds and a result without it may be wrong.
"""


def keep_portable_guards_unsafe(guard_entries):
    """Keeps guards on tensors that are no globals, on sizes and on modes."""
    return [g.guard_type in ("GLOBAL_STATE", "SHAPE_ENV") or g.guard_type == "TENSOR_MATCH" and not g.is_global
            for g in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """Leaves out guards on modules of torch.nn."""
    return [not g.orig_guard.source.is_unspecialized_builtin_nn_module() for g in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """Leaves out guards on modules."""
    return [not g.orig_guard.source.is_unspecialized_nn_module() for g in guard_entries]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Keeps guards on tensors, of parameters only with keep_parameters."""
    from ..nn import Parameter
    return [g.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(g.value, Parameter))
            for g in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    """Leaves out guards on globals."""
    return [not g.is_global for g in guard_entries]


def skip_all_guards_unsafe(guard_entries):
    """Leaves out every guard."""
    return [False] * len(guard_entries)
