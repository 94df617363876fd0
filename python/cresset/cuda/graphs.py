"""Graphs of CUDA devices, which are captured once and launched often, and pools of memory."""
import contextlib
import gc
import warnings

from .. import _C

__all__ = ["is_current_stream_capturing", "graph_pool_handle", "CUDAGraph", "graph", "make_graphed_callables", "MemPool",
           "use_mem_pool"]


def is_current_stream_capturing():
    """Whether work on the current stream is captured."""
    return _C._cuda_is_capturing()


def graph_pool_handle():
    """The number of a pool of memory that graphs may share: the argument `pool` of captures."""
    if not _C._cuda_count():
        raise RuntimeError("Tried to instantiate dummy base class _graph_pool_handle")
    return _C._cuda_graph_pool_new()


class MemPool:
    """Memory of the current device that only requests inside of use_mem_pool() and captures with its `id` get.

    When the pool and its tensors are dropped, its memory goes back to the driver, or to `allocator` if that is given:
    CUDAPluggableAllocator(...).allocator().  With use_on_oom, its free blocks also serve requests outside of the pool that
    would fail.  With no_split, a block of it is never divided.

        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(1 << 20, device="cuda")
    """

    def __new__(cls, *args, **kwargs):
        if not _C._cuda_count():
            raise RuntimeError("Tried to instantiate dummy base class _MemPool")
        return object.__new__(cls)

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        from .memory import _cuda_CUDAAllocator
        if not isinstance(allocator, (_cuda_CUDAAllocator, type(None))):
            raise TypeError(f"MemPool(): the allocator must be a _cuda_CUDAAllocator or None, but got {type(allocator).__name__}")
        self._allocator = allocator
        get, free = (allocator._get, allocator._free) if allocator else (0, 0)
        self._pool = _C._cuda_pool_make(get, free, use_on_oom, no_split)

    @property
    def allocator(self):
        return self._allocator

    @property
    def id(self):
        """The two numbers that name the pool."""
        return _C._cuda_pool_state(self._pool)[:2]

    def use_count(self):
        """How many objects, contexts and captures use the pool now."""
        return _C._cuda_pool_state(self._pool)[2]

    def snapshot(self, include_traces=True):
        """The pool's segments and their blocks, as torch.cuda.memory_snapshot() lists them."""
        from ._device import memory_snapshot
        return memory_snapshot(self.id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Requests of this thread on the device (default: the current one) come from the pool.

    Requests of other threads, such as those of backward(), do not.  Of nested contexts the outer one counts."""
    from . import _device
    index = _device._index(device)
    _C._cuda_pool_route(index, pool.id, True)
    try:
        yield
    finally:
        _C._cuda_pool_route(index, pool.id, False)


class CUDAGraph:
    """Work that was captured. Memory that it requested lasts as long as the graph."""

    def __new__(cls, keep_graph=False):
        if not _C._cuda_count():
            raise RuntimeError("Tried to instantiate dummy base class CUDAGraph")
        self = object.__new__(cls)
        self._graph = _C._cuda_graph_new(keep_graph)
        self._keeps, self._debugs = bool(keep_graph), False
        return self

    def __init__(self, keep_graph=False):
        pass

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False):
        """Captures the work of the current stream, which must not be the default one."""
        _C._cuda_graph_begin(self._graph, capture_error_mode, pool)

    def capture_end(self):
        if _C._cuda_graph_end(self._graph):
            warnings.warn("The CUDA Graph is empty. This usually means that the graph was attempted to be captured on "
                          "wrong device or stream.", stacklevel=2)

    def instantiate(self):
        """Makes a graph launchable that was made with keep_graph=True; replay() does so, too."""
        if not self._keeps:
            raise RuntimeError("instantiate() is intended to be called by the user only when keep_graph=true")
        _C._cuda_graph_make(self._graph)

    def replay(self):
        """Launches the captured work on the current stream of its device."""
        _C._cuda_graph_replay(self._graph)

    def reset(self):
        """Drops the graph; its memory is free when its tensors are dropped."""
        _C._cuda_graph_reset(self._graph)

    def pool(self):
        """The number of the graph's pool of memory, which other captures may use."""
        return _C._cuda_graph_pool(self._graph)

    def register_generator_state(self, generator):
        """Each launch draws anew from the generator; the default generator of the device is registered."""
        _C._cuda_graph_register(self._graph, generator)

    def enable_debug_mode(self):
        """Keeps the graph for debug_dump()."""
        self._debugs = True

    def debug_dump(self, debug_path):
        """Writes the graph in the language of Graphviz."""
        if not (self._debugs or self._keeps):
            warnings.warn("CUDA Graphs debugging not enabled, set with [graph].enable_debug_mode()", stacklevel=2)
            return
        _C._cuda_graph_print(self._graph, debug_path)

    def raw_cuda_graph(self):
        """The driver's graph as a number; it needs keep_graph=True."""
        return _C._cuda_graph_raw(self._graph, False)

    def raw_cuda_graph_exec(self):
        """What the driver launches, as a number."""
        return _C._cuda_graph_raw(self._graph, True)


class graph:
    """`with torch.cuda.graph(g):` captures work on another stream into g, a CUDAGraph."""

    default_capture_stream = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", enable_annotations=False,
                 check_input_liveness=False):
        from . import Stream, stream as choose
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.pool = () if pool is None else (pool,)
        self.capture_stream = graph.default_capture_stream if stream is None else stream
        self.stream_ctx = choose(self.capture_stream)
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode

    def __enter__(self):
        from . import empty_cache, synchronize
        synchronize()
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(*self.pool, capture_error_mode=self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, *exception):
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*exception)


class _Part:
    """A callable of make_graphed_callables: its tensors, and a graph for each direction."""

    def __init__(self, function, args, allow_unused):
        from .. import Tensor, nn
        from ..utils import _pytree
        self.function, self.args, self.allow_unused = function, args, allow_unused
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        given = _pytree.tree_leaves(args)
        self.params = ()
        if isinstance(function, nn.Module):
            if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
                raise AssertionError("Modules must not have hooks registered at the time they are passed. However, "
                                     "registering hooks on modules after passing them through make_graphed_callables is "
                                     "allowed.")
            if any(b.requires_grad for b in function.buffers()):
                raise AssertionError("In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only "
                                     "parameters may be trainable. All buffers must have ``requires_grad=False``.")
            self.params = tuple(function.parameters())
        if not all(isinstance(t, Tensor) for t in given):
            raise AssertionError("In the beta API, sample_args for each callable must contain only Tensors. Other types are "
                                 "not allowed.")
        self.given = len(given)
        self.inputs = (*given, *self.params)

    def gradients(self, outputs, cotangents):
        """The gradients of the outputs in the inputs that require one."""
        from .. import autograd
        wanted = tuple(t for t in self.inputs if t.requires_grad)
        if not outputs:
            return (None,) * len(wanted)
        return autograd.grad(outputs, wanted, cotangents, allow_unused=self.allow_unused)

    def warm_up(self, times):
        """Runs both directions, so that libraries and kernels are loaded before a capture."""
        from .. import empty_like
        from ..utils import _pytree
        for _ in range(times):
            outputs = [t for t in _pytree.tree_leaves(self.function(*self.args)) if t.requires_grad]
            self.gradients(outputs, [empty_like(t) for t in outputs])

    def capture_forward(self, pool):
        from ..utils import _pytree
        with graph(self.forward, pool=pool):
            made = self.function(*self.args)
        outputs, self.spec = _pytree.tree_flatten(made)
        self.outputs = tuple(outputs)

    def capture_backward(self, pool):
        from .. import empty_like
        self.cotangents = tuple(empty_like(t) if t.requires_grad else None for t in self.outputs)
        found = iter(())
        used = [(t, c) for t, c in zip(self.outputs, self.cotangents) if c is not None]
        if used:
            with graph(self.backward, pool=pool):
                made = self.gradients([t for t, _ in used], [c for _, c in used])
            found = iter(made)
        self.grads = tuple(next(found, None) if t.requires_grad else None for t in self.inputs)

    def run(self, inputs):
        for to, t in zip(self.inputs[:self.given], inputs):
            if to.data_ptr() != t.data_ptr():
                to.copy_(t)
        self.forward.replay()
        return tuple(t.detach() for t in self.outputs)

    def run_backward(self, cotangents):
        for to, t in zip(self.cotangents, cotangents):
            if to is not None and to.data_ptr() != t.data_ptr():
                to.copy_(t)
        if any(t is not None for t in self.grads):
            self.backward.replay()
        return tuple(None if t is None else t.detach() for t in self.grads)

    def graphed(self):
        """A function that runs the graphs in the place of the callable."""
        from .. import autograd
        from ..autograd.function import once_differentiable
        from ..utils import _pytree
        part = self

        class Graphed(autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                return part.run(inputs)

            @staticmethod
            @once_differentiable
            def backward(ctx, *cotangents):
                return part.run_backward(cotangents)

        def call(*args):
            made = Graphed.apply(*_pytree.tree_leaves(args), *part.params)
            return _pytree.tree_unflatten(made, part.spec)

        return call

    def result(self):
        """The callable with graphs; a module keeps its own forward for the other mode of training."""
        from .. import nn
        call, function = self.graphed(), self.function
        if not isinstance(function, nn.Module):
            return call
        training, before = function.training, function.forward

        def forward(*args, **kwargs):
            return call(*args, **kwargs) if function.training == training else before(*args, **kwargs)

        function.forward = forward
        return function


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Returns callables whose forward and backward work is a graph each, captured with the sample arguments. Several
    callables, a tuple, share a pool of memory and have to run in their order."""
    from .. import is_autocast_cache_enabled, is_autocast_enabled
    from . import Stream, stream, synchronize
    if is_autocast_enabled() and is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set "
                           "`cache_enabled=False`.")
    one = not isinstance(callables, tuple)
    if one:
        callables, sample_args = (callables,), (sample_args,)
    parts = [_Part(f, args, allow_unused_input) for f, args in zip(callables, sample_args)]
    pool = graph_pool_handle() if pool is None else pool
    synchronize()
    with stream(Stream()):
        for part in parts:
            part.warm_up(num_warmup_iters)
    synchronize()
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool)
    made = tuple(part.result() for part in parts)
    return made[0] if one else made


for _name in __all__:
    globals()[_name].__module__ = "torch.cuda.graphs"
