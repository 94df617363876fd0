"""checkpoint(): a module recomputes its values in backward, by hooks around its forward."""
from contextlib import contextmanager, nullcontext

from ...utils.checkpoint import _checkpoint_without_reentrant_generator
from .contract import _State, contract


class _CheckpointState(_State):
    enable_hook = False
    _ac_generator = None


@contextmanager
def _no_hook(module, around=None):
    """The hooks do nothing while forward is computed again."""
    state = checkpoint.state(module)
    with around or nullcontext():
        before, state.enable_hook = state.enable_hook, False
        try:
            yield
        finally:
            state.enable_hook = before


@contract(_CheckpointState)
def checkpoint(module, **kwargs):
    """Makes a module keep its inputs alone for backward, which computes its values again.  Options are those of
    utils.checkpoint.checkpoint without reentrance."""
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError("use_reentrant=True is not supported in composable checkpoint. "
                                  "Please use torch.utils.checkpoint.checkpoint instead.")
    preserve, contexts = kwargs.pop("preserve_rng_state", True), kwargs.pop("context_fn", None)
    check, debug, early_stop = kwargs.pop("determinism_check", "default"), kwargs.pop("debug", False), kwargs.pop("early_stop", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    state = checkpoint.state(module)

    def context_fn():
        first, second = contexts() if contexts is not None else (nullcontext(), None)
        return first, _no_hook(module, second)

    def before(module, args, kwargs):
        if state.enable_hook:
            state._ac_generator = _checkpoint_without_reentrant_generator(module, preserve, context_fn, check, debug, early_stop,
                                                                          *args, **kwargs)
            next(state._ac_generator)

    def after(module, args, output):
        generator, state._ac_generator = state._ac_generator, None
        if state.enable_hook and generator is not None:
            if next(generator, generator) is not generator:
                raise RuntimeError("Expected non-reentrant activation checkpoint generator to be exhausted, but it was not!")
    state.enable_hook = True
    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after, prepend=True, always_call=True)
    return module
