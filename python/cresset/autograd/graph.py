"""The nodes of the graph, their saved tensors, and hooks."""
import contextlib
import functools
import threading
import typing

from .. import _C
from .._C import Node, Tensor
from ..utils.hooks import RemovableHandle

__all__ = ["Node", "get_gradient_edge", "GradientEdge", "saved_tensors_hooks", "save_on_cpu",
           "disable_saved_tensors_hooks", "register_multi_grad_hook", "increment_version",
           "allow_mutation_on_saved_tensors", "region_activation_memory_budget", "set_override_stale_capture_stream",
           "set_warn_on_accumulate_grad_stream_mismatch"]


class GradientEdge(typing.NamedTuple):
    """A node and the index of one of its inputs.  `ownership_token` keeps the graph of a custom
    function alive; here the node does, and it is None."""

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor):
    """Returns the edge that receives the gradient of `tensor`."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does "
                           "not require gradients.")
    if tensor.grad_fn is not None:
        return GradientEdge(tensor.grad_fn, tensor.output_nr)
    with _C.enable_grad():  # any view of a leaf shows the leaf's node
        return GradientEdge(tensor.view_as(tensor).grad_fn.next_functions[0][0], 0)


def increment_version(tensor):
    """Increments the version of a tensor, or of several."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(t)


class saved_tensors_hooks:
    """Inside, backward saves the result of pack_hook(tensor), and unpack_hook restores the
    tensor."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    _gives_equal_tensors = False  # True: compiled functions need not call the hooks

    # In C: an interrupt at the begin or end of a method in Python would leave the hooks on.
    __enter__, __exit__ = _C._enter_saved_tensors_hooks, _C._exit_saved_tensors_hooks


class save_on_cpu(saved_tensors_hooks):
    """Inside, tensors saved for backward are kept on the CPU, with pin_memory in pinned pages where there is a GPU."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        import cresset
        backend = getattr(cresset, device_type, cresset.cuda)

        def pack(tensor):
            if not pin_memory or tensor.is_sparse or not backend.is_available():
                return tensor.device, tensor.cpu()
            packed = _C.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
            packed.copy_(tensor)
            return tensor.device, packed

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside, using saved_tensors_hooks raises an error with this message."""
    before = _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_tensors_hooks(before)


class _MultiHandle(RemovableHandle):
    """Removes several hooks at once."""

    handles = ()

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state):
        self.handles = state


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn once for each backward: with all gradients (None for missing ones) after the last
    one has arrived, or with mode="any" with the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    return _hook_any(tensors, fn) if mode == "any" else _hook_all(tensors, fn)


def _hook_all(tensors, fn):
    counts, wanted, buffers = {}, {}, {}
    nodes = [get_gradient_edge(t)[0] for t in tensors]
    lock = threading.Lock()

    def seen(index, grad):
        run = _C._current_graph_task_id()
        with lock:
            if run not in counts:
                counts[run] = 0
                buffers[run] = [None] * len(tensors)
                wanted[run] = sum(_C._will_engine_execute_node(n) for n in nodes)
            buffers[run][index] = grad
            counts[run] += 1
            last = counts[run] == wanted[run]
            grads = buffers[run]
            if last:
                del counts[run], buffers[run], wanted[run]
        if last:
            fn(grads)

    return _MultiHandle(t.register_hook(functools.partial(seen, i)) for i, t in enumerate(tensors))


def _hook_any(tensors, fn):
    ran, lock = {}, threading.Lock()

    @functools.wraps(fn)
    def first(grad):
        run = _C._current_graph_task_id()
        with lock:
            if ran.get("run") == run:
                return
            ran["run"] = run
        fn(grad)

    return _MultiHandle(t.register_hook(first) for t in tensors if t.requires_grad)


class allow_mutation_on_saved_tensors:
    """Inside, tensors that backward needs are saved as copies, so programs may change them afterwards."""

    def __init__(self):
        self._hooks = saved_tensors_hooks(lambda tensor: tensor.clone(), lambda tensor: tensor)

    def __enter__(self):
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception):
        self._hooks.__exit__(*exception)

    def clear(self):
        """Drops the copies that no graph needs: there are none."""


_warns = {"stream_mismatch": True, "stale_capture_stream": False}


def set_warn_on_accumulate_grad_stream_mismatch(enabled):
    """Stores whether a gradient that comes on another stream than its leaf's is reported."""
    _warns["stream_mismatch"] = bool(enabled)


def set_override_stale_capture_stream(enabled):
    """Stores whether backward in a capture leaves streams that are not captured."""
    _warns["stale_capture_stream"] = bool(enabled)


_budget = []


@contextlib.contextmanager
def region_activation_memory_budget(budget):
    """Stores the part of activations, from 0 to 1, that compiled code may keep inside."""
    if not 0 <= budget <= 1:
        raise ValueError(f"activation memory budget must be in [0, 1], got {budget}")
    _budget.append(budget)
    try:
        yield
    finally:
        _budget.pop()
