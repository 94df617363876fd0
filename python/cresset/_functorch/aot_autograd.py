"""Forward and backward graphs ahead of time, for compilers of graphs.

A call is recorded together with its backward pass.  The joint graph is partitioned (aot/aot.h),
and both graphs are given to the compilers.  A call runs the compiled graphs as one autograd
node.  New sizes, dtypes or requires_grad flags need a new graph.
"""
import functools
import warnings

from .. import (Tensor, enable_grad, get_default_dtype, get_rng_state, is_autocast_enabled, is_grad_enabled, no_grad,
                set_rng_state)
from ..autograd import Function, grad
from ..fx.experimental.proxy_tensor import record, to_graph_module
from ..fx.graph_module import GraphModule
from ..random import fork_rng
from ..utils._pytree import tree_flatten, tree_unflatten

__all__ = ["aot_function", "aot_module", "compiled_function", "compiled_module", "default_partition",
           "min_cut_rematerialization_partition", "make_boxed_compiler", "make_boxed_func", "nop",
           "print_compile"]


# --- calling conventions ---

def make_boxed_func(f):
    """Wraps a function of arguments as a function of one list, which it may empty."""
    def boxed(args):
        return f(*args)
    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """Makes a compiler's results take boxed arguments."""
    @functools.wraps(compiler)
    def wrapped(module, example_inputs):
        return make_boxed_func(compiler(module, example_inputs))
    return wrapped


def _without_hooks(compiled):
    """A graph's function: hooks of all modules are for the program's modules."""
    return compiled.forward if isinstance(compiled, GraphModule) else compiled


def _caller(compiled):
    compiled = _without_hooks(compiled)
    if getattr(compiled, "_boxed_call", False):
        return lambda args: compiled(list(args))
    return lambda args: compiled(*args)


def nop(fx_g, _):
    """A compiler that returns the graph unchanged."""
    return make_boxed_func(_without_hooks(fx_g))


def print_compile(fx_g, _):
    """A compiler that prints the graph's code."""
    print(fx_g.code)
    return fx_g


# --- partition ---

def _partition(joint_module, num_fwd_outputs, recompute):
    joint = joint_module.meta["joint_graph"]
    primals = joint_module.meta["primals"]
    forward, backward, saved, _, _ = joint.partition(primals, num_fwd_outputs, recompute)
    names = [node.name for node in joint_module.graph.nodes if node.op == "placeholder"]
    known = dict(zip(joint.inputs, names))
    return (to_graph_module(forward, [known[v] for v in forward.inputs]),
            to_graph_module(backward, [known.get(v, v) for v in backward.inputs]))


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs, **unused):
    """(forward, backward): saves all forward values that the backward graph reads."""
    return _partition(joint_module, num_fwd_outputs, False)


def min_cut_rematerialization_partition(joint_module, _joint_inputs, compiler="inductor", *, num_fwd_outputs,
                                        **unused):
    """(forward, backward): saves the fewest bytes; cheap nodes are recomputed."""
    return _partition(joint_module, num_fwd_outputs, True)


# --- one set of sizes ---

class WritesHistory(RuntimeError):
    """The backward pass of the function goes through an argument that it writes to."""


def _is_output(x):
    return isinstance(x, Tensor)


class _Compiled:
    """The compiled graphs of `fn` for one signature: inputs -> leaves of the result."""

    def __init__(self, fn, inputs, options):
        self.options = options
        needs = [x.requires_grad for x in inputs]
        # Records with separate leaves, so that the caller's graph is not involved, and with copies, because the recorded
        # calls run: a write to an argument is made by the compiled graph alone.
        def own():
            return [x.detach().clone().requires_grad_(need) for x, need in zip(inputs, needs)]
        with fork_rng():  # the compiled graphs draw again
            if is_grad_enabled() and any(needs):
                self._with_backward(fn, own)
            else:
                self._forward_only(fn, own())

    def _remember(self, leaves, spec):
        self.leaves = [None if _is_output(x) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if _is_output(x)]
        self.spec = spec

    def _forward_only(self, fn, own):
        with no_grad():
            recorded, leaves, spec = record(lambda: fn(*own), own)
        self._remember(leaves, spec)
        module = to_graph_module(recorded, [f"arg{i}_1" for i in range(len(own))])
        self.run = _caller(self.options["inference"](module, own))

    def _with_backward(self, fn, fresh):
        state = get_rng_state()
        with enable_grad():
            own = [x.clone() for x in fresh()]
        before = [x.grad_fn for x in own]
        outs, leaves, spec = self._eager(fn, own)
        if any(x.grad_fn is not node for x, node in zip(own, before)):
            raise WritesHistory("aot_function: the function gives a history to an argument that it writes to; the graphs "
                                "of this build have results with a history only")
        self._remember(leaves, spec)
        self.differentiable = [i for i, x in enumerate(outs) if x.requires_grad]
        if not self.differentiable:
            set_rng_state(state)
            return self._forward_only(fn, fresh())
        tangents, own = [outs[i].detach().clone() for i in self.differentiable], fresh()
        wanted = [x for x in own if x.requires_grad]

        def joint():
            outs = self._eager(fn, own)[0]
            grads = iter(grad([outs[i] for i in self.differentiable], wanted, tangents, allow_unused=True))
            return outs + [next(grads) if x.requires_grad else None for x in own]
        recorded, out, _ = record(joint, own + tangents)
        if recorded.writes:  # a partition needs the writes at the end, as copies to the inputs
            recorded = recorded.apply("functional")
        self.absent = [x is None for x in out[len(outs):]]
        names = ([f"primals_{i + 1}" for i in range(len(own))] +
                 [f"tangents_{i + 1}" for i in range(len(tangents))])
        module = to_graph_module(recorded, names, "joint")
        module.meta.update(joint_graph=recorded, primals=len(own))
        forward, backward = self.options["partition"](module, own + tangents, num_fwd_outputs=len(outs))
        own = fresh()
        with no_grad():
            made = _without_hooks(forward)(*own)
        saved = list(made[len(outs):])
        self.node = self._function(_caller(self.options["forward"](forward, own)),
                                   _caller(self.options["backward"](backward, saved + tangents)), len(outs))
        without = [absent and x.requires_grad for absent, x in zip(self.absent, own)]  # no result depends on these
        self.run = lambda args: self.node.apply(*(x.detach() if alone else x for x, alone in zip(args, without)))

    @staticmethod
    def _eager(fn, own):
        with enable_grad():
            leaves, spec = tree_flatten(fn(*own))
        return [x for x in leaves if _is_output(x)], leaves, spec

    def _function(self, forward, backward, outputs):
        compiled = self

        class CompiledFunctionBackward(Function):
            @staticmethod
            def forward(ctx, *given):
                with no_grad():
                    return tuple(backward(list(given)))

            @staticmethod
            def backward(ctx, *cotangents):
                raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")

        class CompiledFunction(Function):
            @staticmethod
            def forward(ctx, *args):
                with no_grad():
                    out = forward(args)
                ctx.save_for_backward(*(x for x in out[outputs:]))
                plain = [x for i, x in enumerate(out[:outputs]) if i not in compiled.differentiable]
                ctx.mark_non_differentiable(*plain)
                return tuple(out[:outputs])

            @staticmethod
            def backward(ctx, *cotangents):
                given = [cotangents[i].contiguous() for i in compiled.differentiable]
                grads = iter(CompiledFunctionBackward.apply(*ctx.saved_tensors, *given))
                return tuple(None if absent else next(grads) for absent in compiled.absent)
        return CompiledFunction

    def __call__(self, inputs):
        leaves = list(self.leaves)
        out = self.run(inputs)
        for place, x in zip(self.places, out if isinstance(out, (tuple, list)) else [out]):
            leaves[place] = x
        return tree_unflatten(leaves, self.spec)


# --- functions and modules ---

def _kind(x):
    if isinstance(x, Tensor):
        return x.dtype, tuple(x.shape), x.stride(), x.requires_grad
    return type(x), x


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                 num_params_buffers=0, keep_inference_input_mutations=False, inference_compiler=None, **unused):
    """Runs `fn` as graphs compiled by fw_compiler(module, example_inputs) and bw_compiler.

    Arguments are tensors, numbers and containers of them.  A new signature is compiled
    separately.  A function that writes a result with a history to an argument raises RuntimeError.
    """
    if decompositions:
        raise RuntimeError("aot_function: decompositions need a retraced joint graph, which this build does "
                           "not have; give them to make_fx")
    options = {"forward": fw_compiler, "backward": bw_compiler or fw_compiler, "partition": partition_fn,
               "inference": inference_compiler or fw_compiler}
    cache = {}

    @functools.wraps(fn)
    def returned(*args, **kwargs):
        if is_autocast_enabled("cpu"):
            raise RuntimeError("aot_function: recording under autocast is a part this build does not have")
        leaves, spec = tree_flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        inputs = [leaves[i] for i in places]
        key = spec, is_grad_enabled(), get_default_dtype(), tuple(map(_kind, leaves))
        if key not in cache:
            def call(*tensors):
                given = list(leaves)
                for place, x in zip(places, tensors):
                    given[place] = x
                args, kwargs = tree_unflatten(given, spec)
                return fn(*args, **kwargs)
            cache[key] = _Compiled(call, inputs, options)
        return cache[key](inputs)
    return returned


def aot_module(mod, *args, **kwargs):
    """A module whose forward runs by `aot_function`.  Its parameters are inputs of the graphs."""
    from ..nn import Module
    from ..nn.utils.stateless import _functional_call

    def functional(state, inputs, keywords):
        return _functional_call(mod, state, inputs, keywords)
    compiled = aot_function(functional, *args, **kwargs)

    class AOTModule(Module):
        def __init__(self):
            super().__init__()
            self.orig_module = mod

        def forward(self, *inputs, **keywords):
            return compiled({**dict(mod.named_parameters()), **dict(mod.named_buffers())}, inputs, keywords)
    return AOTModule()


compiled_function, compiled_module = aot_function, aot_module
