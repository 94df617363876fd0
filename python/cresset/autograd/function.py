"""Custom Functions with a derivative."""
import functools
import inspect

from .. import _C
from .._C import Tensor

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable",
           "BackwardCFunction", "FunctionMeta", "NestedIOFunction"]


_forward_modes = []  # an item for each jvp that runs and each dual level
_dual_levels = []  # the active level, forward_ad._Level


class Transforms:
    """Counts the transforms of torch.func that run, of all threads.  A call that transforms refuse looks for one on its
    thread's stack only where the count is not 0."""

    # In C: an interrupt at the begin or end of a method in Python would leave the count wrong.
    __enter__, __exit__ = _C._enter_transform, _C._exit_transform


class FunctionCtx(_C._FunctionBase):
    """The context that forward passes to backward."""

    def save_for_forward(self, *tensors):
        """Saves tensors for jvp.  Outside of forward mode nothing reads them, and they are dropped."""
        if _forward_modes:
            self._save_for_forward(*tensors)


class BackwardCFunction(FunctionCtx):
    """The base of the context classes.  A context is also the grad_fn."""


class FunctionMeta(type):
    """Makes a context class for each Function and checks its methods."""

    def __init__(cls, name, bases, attrs):
        context = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        context.__module__ = attrs.get("__module__", cls.__module__)
        cls._backward_cls = context
        cls._setup_function = None if cls.setup_context is _no_setup else cls.setup_context
        super().__init__(name, bases, attrs)

    @property
    def _backward_function(cls):
        backward, vjp = cls.backward, cls.vjp
        if backward is not _no_backward and vjp is not _no_backward:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is "
                               "not allowed. You should only implement one of them.")
        return vjp if vjp is not _no_backward else backward

    @property
    def _has_jvp(cls):
        return cls.jvp is not _no_jvp


def _no_forward(*args, **kwargs):
    raise NotImplementedError("You must implement the forward function for custom "
                              "autograd.Function.")


def _no_setup(ctx, inputs, output):
    raise NotImplementedError("setup_context is not implemented.")


def _no_backward(ctx, *grad_outputs):
    raise NotImplementedError("You must implement either the backward or vjp method for your "
                              "custom autograd.Function to use it with backward mode AD.")


def _no_vmap(info, in_dims, *args):
    raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap static method or set "
                              "generate_vmap_rule=True.")


def _no_jvp(ctx, *grad_inputs):
    raise NotImplementedError("You must implement the jvp function for custom autograd.Function "
                              "to use it with forward mode AD.")


class Function(FunctionCtx, metaclass=FunctionMeta):
    """Subclass it, write static methods `forward` and `backward`, and call `apply`.

    forward(ctx, *inputs), or forward(*inputs) together with setup_context(ctx, inputs, output);
    backward(ctx, *grad_outputs) returns one gradient an input.
    """

    forward = staticmethod(_no_forward)
    setup_context = staticmethod(_no_setup)
    backward = staticmethod(_no_backward)
    vjp = staticmethod(_no_backward)
    jvp = staticmethod(_no_jvp)
    vmap = staticmethod(_no_vmap)
    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        import warnings
        warnings.warn(f"{type(self)} should not be instantiated. Methods on autograd functions "
                      "are all static, so you should invoke them on the class itself. "
                      "Instantiating an autograd function will raise an error in a future version "
                      "of PyTorch.", DeprecationWarning, stacklevel=2)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is "
                           "deprecated. Please use new-style autograd function with static "
                           "forward method. (Example: https://pytorch.org/docs/stable/autograd.html"
                           "#torch.autograd.Function)")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs forward and records the call."""
        if _C._are_transforms_running() and kwargs and any(isinstance(x, Tensor) for x in kwargs.values()):
            _check_keywords(cls, kwargs)
        if kwargs or cls._setup_function is not None:
            args = _with_defaults(cls, args, kwargs)
        if _C._are_transforms_running() and not cls.__module__.startswith(_PACKAGE):
            batch = _check_transformed(cls, args)
            if batch is not None:
                return _apply_to_batch(cls, args, batch)
        if _dual_levels and _dual_levels[-1].tangents:
            return _apply_to_duals(cls, args)
        return _C._apply_function(cls, args)


_PACKAGE = __package__.partition(".")[0] + "."
_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


def _check_keywords(cls, kwargs):
    """Refuses tensors as arguments by keyword inside of a map."""
    from .._functorch import _are_functorch_transforms_active
    if _are_functorch_transforms_active() and any(p.kind is p.KEYWORD_ONLY for p in inspect.signature(cls.forward).parameters.values()):
        raise NotImplementedError("Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only Tensors to "
                                  f"autograd.Function. Got: {kwargs}")


def _check_transformed(cls, args):
    """Refuses a Function that a transform cannot run.  Returns the innermost level of examples among the arguments if
    the Function has a static method `vmap`."""
    from .._functorch import _are_functorch_transforms_active
    from .._functorch.vmap import levels_of
    if not _are_functorch_transforms_active():
        return None
    if cls._setup_function is None:
        raise RuntimeError("In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
                           f"must override the setup_context staticmethod. {_MORE}")
    levels = levels_of(args)
    if not levels:
        return None
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap "
                           "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
                           f"ambiguity. {_MORE}")
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
                           f"the vmap staticmethod or set generate_vmap_rule=True. {_MORE}")
    return max(levels) if own else None


@functools.cache
def _of_batches(cls):
    """Returns the Function whose forward calls the method `vmap`; the derivative is that of an example."""
    def forward(*args):
        from .._functorch.vmap import call_function, levels_of
        with _C.enable_grad():  # derivatives outside of the map see the batches
            return call_function(cls, args, max(levels_of(args)))
    return type(cls)(cls.__name__, (cls,), {"forward": staticmethod(forward), "__module__": cls.__module__})


def _apply_to_batch(cls, args, level):
    """Calls the static method `vmap` with the batches of a level."""
    from .._functorch.vmap import call_function, differentiated
    if differentiated(args, level):
        return _C._apply_function(_of_batches(cls), args)
    return call_function(cls, args, level)


def _apply_to_duals(cls, args):
    """Runs forward, and jvp if an argument has a tangent."""
    from .forward_ad import add_dual, tangent_of
    tangents = [tangent_of(x, kept=True) if isinstance(x, Tensor) else None for x in args]
    out = _C._apply_function(cls, args)
    several = isinstance(out, tuple)
    outs = out if several else (out,)
    call = next((y.grad_fn for y in outs if isinstance(y, Tensor) and isinstance(y.grad_fn, cls._backward_cls)), None)
    if call is None or all(t is None for t in tangents):
        return out
    call._jvp_ran = True
    for y, t in zip(outs, _call_jvp(call, _materialized(call, tangents, args), len(outs))):
        if t is not None and isinstance(y, Tensor) and y.requires_grad:
            add_dual(y, t)
    return out


def _materialized(call, tangents, likes):
    """The tangents with zeros for tensors without one, unless the call wants None."""
    if not call.materialize_grads:
        return tangents
    return [_C.zeros_like(x) if t is None and isinstance(x, Tensor) else t for x, t in zip(likes, tangents)]


def _call_jvp(call, tangents, count):
    given = [None if t is None else t.clone() for t in tangents]  # jvp may change a tangent in place
    call._in_jvp = True
    try:
        found = call._forward_cls.jvp(call, *given)
    finally:
        call._in_jvp = False
    return _checked_tangents(found if isinstance(found, tuple) else (found,), count)


def _with_defaults(cls, args, kwargs):
    """Binds defaults, because setup_context receives all parameters of forward."""
    if cls._setup_function is None:
        raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _checked_tangents(found, count):
    if len(found) != count:
        raise RuntimeError("Function's jvp returned an invalid number of forward gradients (expected "
                           f"{count} but got {len(found)})")
    for k, t in enumerate(found):
        if t is not None and not isinstance(t, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(t).__name__}) for grad output {k}.")
    return found


def _push_call(ctx, tangents, count):
    """The tangents of a call's results: none if jvp gave them at the call."""
    if hasattr(ctx, "_jvp_ran"):
        return ()
    if not ctx._forward_cls._has_jvp:
        _no_jvp(ctx)
    return _call_jvp(ctx, _materialized(ctx, tangents, ctx._input_likes), count)


class _Refuse(Function):
    """Returns its inputs; differentiating it is an error."""

    @staticmethod
    def forward(ctx, message, *tensors):
        ctx.message = message
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)


def _requiring(x):
    x.requires_grad = True  # requires_grad_() is refused inside of transforms
    return x


def once_differentiable(function):
    """Decorates a backward whose derivative would be wrong: differentiating it is an error."""
    @functools.wraps(function)
    def wrapper(ctx, *args):
        with _C.no_grad():
            outputs = function(ctx, *args)
        if not _C.is_grad_enabled():
            return outputs
        if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            return outputs
        several = isinstance(outputs, tuple)
        values = outputs if several else (outputs,)
        guarded = iter(_Refuse.apply(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            *[_requiring(v.detach()) for v in values if v is not None]))
        values = tuple(None if v is None else next(guarded) for v in values)
        return values if several else values[0]
    return wrapper


class InplaceFunction(Function):
    """Exists for old programs."""

    def __init__(self, inplace=False):
        self.inplace = inplace


def _flat(values, wanted):
    """The tensors (or Nones) inside lists, tuples and dicts, in order."""
    if values is None or isinstance(values, Tensor):
        return [values] if values is not None or wanted else []
    if isinstance(values, dict):
        values = values.values()
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__iter__"):
        raise ValueError(f"Auto nesting doesn't know how to process an input object of type {type(values).__name__}")
    return [item for value in values for item in _flat(value, wanted)]


def _nested(flat, like):
    """Values from an iterator in the form of `like`."""
    if like is None or isinstance(like, Tensor):
        return next(flat) if like is not None else None
    if isinstance(like, dict):
        return {key: _nested(flat, value) for key, value in like.items()}
    return type(like)(_nested(flat, value) for value in like)


class NestedIOFunction(Function):
    """Exists for old programs: a Function whose inputs and results may be in lists, tuples and dicts.

    Subclasses define forward_extended(ctx, *inputs) and backward_extended(ctx, *grads) as static methods.
    """

    @classmethod
    def apply(cls, *inputs):
        """Runs forward_extended and records the call."""
        made = {}
        out = super().apply(inputs, made, *_flat(inputs, False))
        return _nested(iter(out if isinstance(out, tuple) else (out,)), made["like"])

    @staticmethod
    def forward(ctx, inputs, made, *flat):
        result = ctx._forward_cls.forward_extended(ctx, *_nested(iter(flat), inputs))
        ctx._inputs, ctx._results = inputs, result
        made["like"] = result
        return tuple(_flat(result, False))

    @staticmethod
    def backward(ctx, *grads):
        found = ctx._forward_cls.backward_extended(ctx, *_as_arguments(_nested(iter(grads), ctx._results)))
        return None, None, *_flat(found, True)

    @staticmethod
    def forward_extended(ctx, *inputs):
        """The results for the inputs, in the form of the call."""
        raise NotImplementedError

    @staticmethod
    def backward_extended(ctx, *grads):
        """The gradients of the inputs: as many as there are tensors."""
        raise NotImplementedError


def _as_arguments(value):
    return value if isinstance(value, tuple) else (value,)
