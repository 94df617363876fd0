"""Recomputes values in backward instead of saving them.

Without reentrance, tensors that a function saves for backward are replaced by holders.  The
first holder that backward unpacks runs the function again and fills all holders.  With
reentrance, the function is one node.  Its backward runs the function again and then backward
through it.
"""
import contextlib
import contextvars
import itertools
import traceback
import warnings
import weakref

from .. import _C
from .._C import Tensor
from ..amp import autocast
from ..autograd import backward as _backward
from ..autograd.function import Function
from ..autograd.graph import saved_tensors_hooks
from ..random import fork_rng

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction",
           "check_backward_validity", "detach_variable", "get_device_states",
           "set_device_states", "noop_context_fn", "set_checkpoint_early_stop",
           "set_checkpoint_debug_enabled", "DefaultDeviceType", "GraphExecGroup",
           "CheckpointPolicy", "SelectiveCheckpointContext", "SAC_IGNORED_OPS",
           "create_selective_checkpoint_contexts"]



def __getattr__(name):
    if name in ("CheckpointPolicy", "SelectiveCheckpointContext", "SAC_IGNORED_OPS",
                "create_selective_checkpoint_contexts"):
        from . import _selective_checkpoint
        return getattr(_selective_checkpoint, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class GraphExecGroup:
    """Backwards inside `with group:` count as one: a later one takes the values that an earlier one
    recomputed and did not need."""

    _current = None

    def __enter__(self):
        if GraphExecGroup._current is not None:
            raise RuntimeError("GraphExecGroup can only be used once at a time")
        GraphExecGroup._current = self

    def __exit__(self, *exception):
        GraphExecGroup._current = None

    @classmethod
    def _get_current_group(cls):
        return cls._current


_early_stop = contextvars.ContextVar("early_stop", default=True)
_debug = contextvars.ContextVar("debug", default=None)


class CheckpointError(RuntimeError):
    """Recomputed values differ from the original ones."""


class _Stop(Exception):
    """Raised when all values that backward needs have been recomputed."""


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Inside, sets whether recomputation stops when all needed values exist."""
    token = _early_stop.set(enable)
    try:
        yield
    finally:
        _early_stop.reset(token)


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Inside, overrides the `debug` argument of checkpoint; None does not."""
    token = _debug.set(enabled)
    try:
        yield
    finally:
        _debug.reset(token)


class DefaultDeviceType:
    """The device type whose generator is saved when no argument determines it."""

    _device = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        DefaultDeviceType._device = device

    @staticmethod
    def get_device_type():
        return DefaultDeviceType._device


def noop_context_fn():
    """Returns two contexts that do nothing, for the original run and the recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs):
    """Returns the inputs as new leaves with the same requires_grad."""
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: ",
                           type(inputs).__name__)
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x
                 for x in inputs)


def check_backward_validity(inputs):
    """Warns when no input requires a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None",
                      stacklevel=2)


def get_device_states(*args):
    """Returns the devices of the arguments other than the CPU, and their generators' states."""
    from .. import cuda
    found = [x.get_device() for x in args if isinstance(x, Tensor) and x.device.type == "cuda"]
    devices = list(dict.fromkeys(found))
    return devices, [cuda.get_rng_state(d) for d in devices]


def set_device_states(devices, states, *, device_type=None):
    """Restores states of get_device_states."""
    from .. import cuda
    for d, state in zip(devices, states):
        cuda.set_rng_state(state, d)


class _Surroundings:
    """The random state and the autocast state of a run."""

    def __init__(self, preserve_rng_state):
        from .. import cuda
        self.rng = _C.get_rng_state() if preserve_rng_state else None
        self.devices = cuda.get_rng_state_all() if preserve_rng_state else []
        self.autocast = {"enabled": _C.is_autocast_enabled("cpu"),
                         "dtype": _C.get_autocast_dtype("cpu"),
                         "cache_enabled": _C.is_autocast_cache_enabled()}

    @contextlib.contextmanager
    def random(self):
        """The random state inside."""
        with fork_rng(enabled=self.rng is not None):
            if self.rng is not None:
                _C.set_rng_state(self.rng)
                set_device_states(range(len(self.devices)), self.devices)
            yield

    def casts(self):
        """The autocast state inside: a context in C, which an interrupt cannot leave half."""
        return autocast("cpu", **self.autocast)


# --- with reentrance ---

class CheckpointFunction(Function):
    """One node for the whole function."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.preserve_rng_state = preserve_rng_state
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.tensor_indices = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_indices))
        with _C.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument.")
        inputs = list(ctx.inputs)
        for i, tensor in zip(ctx.tensor_indices, ctx.saved_tensors):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings.random(), ctx.surroundings.casts(), _C.enable_grad():
            outputs = ctx.run_function(*detached)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        wanted = [(out, grad) for out, grad in zip(outputs, grads)
                  if isinstance(out, Tensor) and out.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not "
                               "necessary")
        _backward(*zip(*wanted))
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in detached))


# --- without reentrance ---

class _SaveInputs(Function):
    """Saves the inputs as saved tensors, so that surrounding hooks see them."""

    @staticmethod
    def forward(ctx, unused, *tensors):
        ctx.save_for_backward(*tensors)
        return _C.empty(0)

    @staticmethod
    def backward(ctx, *grads):
        raise AssertionError("Did not expect to backward on this graph")


class _Inputs:
    """The arguments of a call; its tensors are saved in the node of `result`."""

    def __init__(self, args, kwargs):
        self.values = [*args, *kwargs.values()]
        self.names, self.count = list(kwargs), len(args)
        self.places = [i for i, x in enumerate(self.values) if isinstance(x, Tensor)]
        tensors = [self.values[i] for i in self.places]
        for i in self.places:
            self.values[i] = None
        self.result = _SaveInputs.apply(_C.empty(0, requires_grad=True), *tensors)

    def get(self):
        values = list(self.values)
        for i, tensor in zip(self.places, self.result.grad_fn.saved_tensors):
            values[i] = tensor
        return values[:self.count], dict(zip(self.names, values[self.count:]))


class _Holder:
    """Replaces a saved tensor; `values` has the recomputed tensor for each backward."""

    __slots__ = ("values", "place", "__weakref__")

    def __init__(self, place):
        self.values, self.place = {}, place


class _Recomputing(saved_tensors_hooks):
    _gives_equal_tensors = True


def _described(x):
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


class _Frame:
    """One checkpointed call."""

    def __init__(self, run_again, inputs, early_stop, check, debug):
        self.run_again, self.inputs = run_again, inputs
        self.early_stop, self.check = early_stop, check
        self.holders = []  # weak references, because unneeded holders need no values
        self.metadata = []
        self.traces = ([], []) if debug else None
        self.done = set()

    def hooks(self):
        return _Recomputing(self._hold, self._give)

    def _trace(self, again):
        if self.traces:
            self.traces[again].append("".join(traceback.format_stack()[:-2]))

    def _hold(self, tensor):
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.metadata.append(self.check(tensor))
        self._trace(False)
        return holder

    def _give(self, holder):
        run = GraphExecGroup._current or _C._current_graph_task_id()
        run = object() if isinstance(run, int) and run < 0 else run
        if run not in self.done:
            self._fill(run)
            self.done.add(run)
        if run not in holder.values:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                "unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do "
                "so only once. Otherwise please open an issue with details on your use case.")
        return holder.values.pop(run)

    def _fill(self, run):
        args, kwargs = self.inputs.get()
        count = itertools.count()
        metadata = {}

        def put(tensor):
            i = next(count)
            self._trace(True)
            if i < len(self.holders):
                holder = self.holders[i]()
                metadata[i] = self.check(tensor)
                if holder is not None:
                    holder.values[run] = tensor.detach()
                if self.early_stop and i + 1 == len(self.holders):
                    raise _Stop
            return tensor.detach()

        try:
            with _Recomputing(put, lambda x: x), _C.enable_grad():
                self.run_again(*args, **kwargs)
        except _Stop:
            pass
        self._compare(next(count), metadata)

    def _compare(self, count, metadata):
        if count != len(self.holders):
            self._fail("A different number of tensors was saved during the original forward and "
                       "recomputation.\nNumber of tensors saved during forward: "
                       f"{len(self.holders)}\nNumber of tensors saved during recomputation: "
                       f"{count}.", min(count, len(self.holders)))
        different = [i for i, known in enumerate(self.metadata) if metadata[i] != known]
        if different:
            text = "".join(f"tensor at position {i}:\nsaved metadata: {self.metadata[i]}\n"
                           f"recomputed metadata: {metadata[i]}\n" for i in different)
            self._fail("Recomputed values for the following tensors have different metadata than "
                       f"during the forward pass.\n{text}.", different[0])

    def _fail(self, text, first):
        text = "torch.utils.checkpoint: " + text
        if self.traces:
            stacks = [t[first] if first < len(t) else "(nothing was saved)\n" for t in self.traces]
            text += f"\n\nSaved first at:\n{stacks[0]}\nSaved again at:\n{stacks[1]}"
        raise CheckpointError(text)


_CHECKS = {"default": _described, "none": lambda x: None}


@contextlib.contextmanager
def _checkpointed(function, args, kwargs, preserve, context_fn, check, debug, early_stop):
    """What is computed inside is function(*args, **kwargs), whose saved tensors are recomputed in backward."""
    if check not in _CHECKS:
        raise ValueError("determinism_check should be one of ['default', 'none'], but got "
                         f"{check}")
    first, second = context_fn()
    if not _C.is_grad_enabled():
        yield
        return
    around = _Surroundings(preserve)

    def again(*args, **kwargs):
        with around.random(), around.casts(), second:
            function(*args, **kwargs)

    wished = _debug.get()
    frame = _Frame(again, _Inputs(args, kwargs), early_stop and _early_stop.get(),
                   _CHECKS[check], debug if wished is None else wished)
    with frame.hooks(), first:
        yield


def _checkpoint_without_reentrant_generator(fn, preserve_rng_state=True, context_fn=noop_context_fn, determinism_check="default",
                                            debug=False, early_stop=True, *args, **kwargs):
    """A generator that is advanced before and after a call fn(*args, **kwargs) of its caller."""
    with _checkpointed(fn, args, kwargs, preserve_rng_state, context_fn, determinism_check, debug, early_stop):
        yield


def _without_reentrance(function, args, kwargs, preserve, context_fn, check, debug, early_stop):
    with _checkpointed(function, args, kwargs, preserve, context_fn, check, debug, early_stop):
        return function(*args, **kwargs)


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn,
               determinism_check="default", debug=False, early_stop=True, **kwargs):
    """Calls function(*args, **kwargs) and recomputes its intermediate values in backward.

    use_reentrant: the method (False is recommended); preserve_rng_state: True draws the same
    random numbers again; context_fn: returns two contexts, for the original run and the
    recomputation; determinism_check:  "default" compares shapes, dtypes and devices, "none"
    does not; debug: a mismatch reports the origin of both tensors; early_stop: True stops the
    recomputation after the last needed value.
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
            "exception. use_reentrant=False is recommended, but if you need to preserve the "
            "current default behavior, you can pass use_reentrant=True. Refer to docs for more "
            "details on the differences between the two variants.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs and use_reentrant:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if not use_reentrant:
        return _without_reentrance(function, args, kwargs, preserve, context_fn,
                                   determinism_check, debug, early_stop)
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when "
                         "use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Calls the functions one after another, in `segments` parts of which all but the last are
    checkpointed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly. In version 2.9 we will raise an exception if use_reentrant is not "
            "passed. use_reentrant=False is recommended, but if you need to preserve the current "
            "default behavior, you can pass use_reentrant=True. Refer to docs for more details on "
            "the differences between the two variants.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    from ..nn import Sequential
    if isinstance(functions, Sequential):
        functions = list(functions.children())

    def part(start, end):
        def run(x):
            for function in functions[start:end]:
                x = function(x)
            return x
        return run

    size = len(functions) // segments
    ends = [size * k for k in range(segments)]
    for start, end in zip(ends, ends[1:]):
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant,
                           preserve_rng_state=preserve)
    return part(ends[-1], len(functions))(input)
