"""Handles of hooks, and the implementation of module backward hooks."""
import warnings
import weakref
from collections import OrderedDict

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks", "BackwardHook"]


class RemovableHandle:
    """The handle of a registered hook; `remove()`, or leaving a `with` block, removes the hook."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        if isinstance(extra_dict, dict):
            extra_dict = [extra_dict]
        self.extra_dict_ref = tuple(map(weakref.ref, extra_dict or ()))

    def remove(self):
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state):
        hooks = state[0] if state[0] is not None else OrderedDict()
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        extra = state[2] if len(state) > 2 and state[2] is not None else ()
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.remove()


def unserializable_hook(function):
    """Marks a hook for which saving its tensor gives no warning."""
    function.__torch_unserializable__ = True
    return function


def warn_if_has_hooks(tensor):
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is "
                "expected, you can decorate the function with "
                "@torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2)


def _spread(indices, values, size):
    out = [None] * size
    for index, value in zip(indices, values):
        out[index] = value
    return tuple(out)


_identity = None


def _identity_function():
    """An autograd node that returns its inputs, on which hooks can be registered."""
    global _identity
    if _identity is None:
        from ..autograd import Function

        class BackwardHookFunction(Function):
            @staticmethod
            def forward(ctx, *args):
                ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
                return args

            @staticmethod
            def backward(ctx, *grads):
                return grads

        _identity = BackwardHookFunction
    return _identity


class BackwardHook:
    """Calls a module's backward hooks for one call of the module.

    Inputs and outputs pass through identity nodes.  The node of the outputs stores their
    gradients (after the pre-hooks).  The node of the inputs then calls the user's hooks with
    both gradients.
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.n_inputs = self.n_outputs = -1
        self.input_tensors_index = self.output_tensors_index = None
        self._plain = {}  # {position among tensors: sizes, dtype and device of an input without a gradient}

    def setup_input_hook(self, args):
        res, self.input_tensors_index = self._pass_through(self._on_inputs, args)
        self._plain = {k: (args[i].shape, args[i].dtype, args[i].device) for k, i in enumerate(self.input_tensors_index or ())
                       if not args[i].requires_grad}
        self.n_inputs = len(args)
        return res

    def setup_output_hook(self, args):
        single = not isinstance(args, tuple)
        if single:
            args = (args,)
        res, self.output_tensors_index = self._pass_through(self._on_outputs, args)
        self.n_outputs = len(args)
        return res[0] if single else res

    def _pass_through(self, hook, args):
        import cresset
        index = [i for i, a in enumerate(args) if isinstance(a, cresset.Tensor)]
        needs_grad = any(args[i].requires_grad for i in index)
        if not (needs_grad and cresset.is_grad_enabled()):
            return args, None
        made = _identity_function().apply(*[args[i] for i in index])
        next(t.grad_fn for t in made if t.grad_fn is not None).register_hook(hook)
        out = list(args)
        for i, tensor in zip(index, made):
            out[i] = tensor
        return (tuple(out) if type(args) is tuple else type(args)(*out)), index

    def _on_inputs(self, grad_input, _):
        if self.grad_outputs is None:
            return None  # the gradient does not come from this call's outputs
        res = _spread(self.input_tensors_index, self._with_zeros(grad_input), self.n_inputs)
        for hook in self.user_hooks:
            out = hook(self.module, res, self.grad_outputs)
            if out is None:
                continue
            if len(out) != len(res):
                raise RuntimeError("Backward hook returned an invalid number of grad_input, "
                                   f"got {len(out)}, but expected {len(res)}")
            res = out
        self.grad_outputs = None
        return tuple(None if k in self._plain else res[i] for k, i in enumerate(self.input_tensors_index))

    def _with_zeros(self, grads):
        """The gradients; zeros for tensors that do not require one, such as targets."""
        import cresset
        return [cresset.zeros(self._plain[k][0], dtype=self._plain[k][1], device=self._plain[k][2]) if k in self._plain else grad
                for k, grad in enumerate(grads)]

    def _on_outputs(self, _, grad_output):
        self.grad_outputs = _spread(self.output_tensors_index, grad_output, self.n_outputs)
        self._call_pre_hooks()
        grads = self.grad_outputs
        if self.input_tensors_index is None:
            self._call_hooks_without_inputs()
        return tuple(grads[i] for i in self.output_tensors_index)

    def _call_pre_hooks(self):
        expected = len(self.grad_outputs)
        for hook in self.user_pre_hooks:
            out = hook(self.module, self.grad_outputs)
            if out is None:
                continue
            if len(out) != expected:
                raise RuntimeError("Backward pre hook returned an invalid number of grad_output, "
                                   f"got {len(out)}, but expected {expected}")
            self.grad_outputs = out

    def _call_hooks_without_inputs(self):
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See https://docs.pytorch.org/docs/main/"
            "generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more "
            "details.", stacklevel=5)
        for hook in self.user_hooks:
            res = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if res is not None and not (isinstance(res, tuple) and all(e is None for e in res)):
                raise RuntimeError("Backward hook for Modules where no input requires gradient "
                                   "should always return None or None for all gradients.")
        self.grad_outputs = None
