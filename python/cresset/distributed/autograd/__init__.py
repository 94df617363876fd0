"""Gradients of computations that go through several processes by remote procedure calls.

A context collects the calls of a computation.  A message that carries tensors which require gradients is numbered: its sender
keeps the tensors, and its receiver gets results of a function whose derivative sends gradients back to the sender
(PROPAGATE).  The sender then runs backward from the tensors that it kept, and answers when its own messages have answers: the
first process's backward ends when all have.  Gradients go into the context, not into .grad.

Backward is linear in what arrives, so each message of gradients runs a backward for itself and the context adds the results:
no process has to know which other messages will come.
"""
import contextlib
import functools
import itertools
import threading

from ... import Tensor, tensor, zeros_like
from ...autograd import backward as _run, Function
from ...futures import Future

__all__ = ["context", "backward", "get_gradients", "DistAutogradContext"]

_RANK_SHIFT = 48  # a number has the process that made it in the upper 16 bits
_lock = threading.RLock()
_contexts = {}
_current = threading.local()
_counters = {"context": itertools.count(), "message": itertools.count()}
_rank = 0


class _Sent:
    """A message that was sent: where backward starts when its gradients arrive."""

    def __init__(self, tensors):
        self.tensors = tensors

    def name(self):
        return "torch::distributed::autograd::SendRpcBackward"

    @property
    def next_functions(self):
        return tuple((_node(x), 0) for x in self.tensors)


class DistAutogradContext:
    """The messages and gradients of one computation in this process."""

    def __init__(self, number):
        self._number, self._sent, self._received = number, {}, {}
        self._known, self._gradients = set(), {}

    def _context_id(self):
        return self._number

    def _send_functions(self):
        return dict(self._sent)

    def _recv_functions(self):
        return dict(self._received)

    def _known_worker_ids(self):
        return set(self._known)

    def _add(self, leaf, gradient):
        before = self._gradients.get(leaf)
        self._gradients[leaf] = gradient if before is None else before + gradient


def _init(rank):
    """Sets the number of this process."""
    global _rank
    with _lock:
        _rank = rank
        _contexts.clear()
        for name in _counters:
            _counters[name] = itertools.count()


def _next(name):
    return _rank << _RANK_SHIFT | next(_counters[name])


def _get_max_id():
    return (1 << _RANK_SHIFT) - 1 | _rank << _RANK_SHIFT


def _new_context():
    if getattr(_current, "number", -1) >= 0:
        raise RuntimeError("Already have an autograd context id for this thread")
    with _lock:
        made = DistAutogradContext(_next("context"))
        _contexts[made._number] = made
    _current.number = made._number
    return made


def _retrieve_context(context_id):
    with _lock:
        if context_id not in _contexts:
            raise RuntimeError(f"Could not find autograd context with id: {context_id}")
        return _contexts[context_id]


def _is_valid_context(context_id):
    _retrieve_context(context_id)


def _current_context():
    number = getattr(_current, "number", -1)
    if number < 0:
        raise RuntimeError("Current thread doesn't have a valid autograd context. Please wrap your code using: `with "
                           "torch.distributed.autograd.context() as context_id` to generate a valid context")
    return _retrieve_context(number)


def _release_context(context_id):
    """Frees a context here and in all processes that its messages reached."""
    _retrieve_context(context_id)
    _released(context_id)


def _released(number):
    from ..rpc import api
    with _lock:
        gone = _contexts.pop(number, None)
    if getattr(_current, "number", -1) == number:
        _current.number = -1
    if gone is None:
        return
    agent = api._current_agent
    for rank in gone._known if agent is not None else ():
        with contextlib.suppress(RuntimeError):  # a process that is gone has no context
            agent.request(agent.get_worker_info(rank), "CLEANUP", (number,))


def _get_debug_info():
    with _lock:
        return {"num_current_backward_passes": str(_running.passes), "num_autograd_contexts": str(len(_contexts))}


class context:
    """with context() as context_id: calls inside of the block take part in backward(context_id, ...)."""

    def __enter__(self):
        self.autograd_context = _new_context()
        return self.autograd_context._context_id()

    def __exit__(self, type, value, traceback):
        _release_context(self.autograd_context._context_id())


# --- messages ---
@contextlib.contextmanager
def _in_context(here):
    """Makes a context that of the thread."""
    before = getattr(_current, "number", -1)
    _current.number = -1 if here is None else here._number
    try:
        yield
    finally:
        _current.number = before


def _sent(here, to, tensors):
    """Notes a message of a context; returns what the message says about it."""
    places = [i for i, x in enumerate(tensors) if x.requires_grad]
    number = _next("message")
    with _lock:
        here._known.add(to.id)
        if places:
            here._sent[number] = _Sent([tensors[i] for i in places])
    return here._number, number, places


def _outgoing(to, tensors):
    """The same for the thread's context; None without one."""
    number = getattr(_current, "number", -1)
    with _lock:
        here = _contexts.get(number)
    return None if here is None else _sent(here, to, tensors)


class _Received(Function):
    """The tensors of a message.  The derivative sends their gradients to the process that sent them."""

    @staticmethod
    def forward(ctx, anchor, message, tensors):
        ctx.message = message
        return tuple(tensors)

    @staticmethod
    def backward(ctx, *gradients):
        _running.answers.append(_propagate(*ctx.message, [g.detach() for g in gradients]))
        return zeros_like(_anchor()), None, None


_Received.__name__ = "torch::distributed::autograd::RecvRpc"  # the name of its node has "Backward" added


@functools.cache
def _anchor():
    """Returns the leaf because of which autograd calls _Received.  Its gradient means nothing."""
    return tensor(0.0, requires_grad=True)


def _received(said, rank, tensors, create):
    """Returns the context of a message that arrived, made where it is new, and its tensors with their history."""
    number, message, places = said
    with _lock:
        here = _contexts.get(number)
        if here is None and create:
            here = _contexts[number] = DistAutogradContext(number)
        if here is None:
            return None, tensors
        here._known.add(rank)
    if places:
        apart = _Received.apply(_anchor(), (rank, number, message), [tensors[i].detach() for i in places])
        tensors = list(tensors)
        for i, x in zip(places, apart):
            tensors[i] = x
        with _lock:
            here._received[message] = apart[0].grad_fn
    return here, tensors


def _propagate(rank, number, message, gradients):
    from ..rpc import api, internal
    agent = api._get_current_rpc_agent()
    payload, tensors = internal._internal_rpc_pickler.serialize(gradients)
    return agent.request(agent.get_worker_info(rank), "PROPAGATE", (number, message), payload, tensors)


def _propagated(number, message, gradients):
    """Runs backward from the tensors of a message; returns a Future of its end, and of that of the processes before."""
    here = _retrieve_context(number)
    with _lock:
        sent = here._sent.get(message)
    if sent is None:
        raise RuntimeError(f"Could not find send function for autograd message id: {message}")
    try:
        with _in_context(here):
            answers = _backward(here, sent.tensors, gradients, True)
    except Exception as error:
        raise RuntimeError(f"Error on Node {_rank}: {error}") from error
    return answers


# --- backward ---
class _Running:
    """The backward pass of this process: they run one after another, because each borrows the leaves' .grad."""

    def __init__(self):
        self.lock, self.answers, self.passes = threading.RLock(), [], 0


_running = _Running()


def _node(x):
    """Returns the node of a tensor: for a leaf, the one that accumulates its gradient."""
    return x.grad_fn if x.grad_fn is not None else x.view_as(x).grad_fn.next_functions[0][0]


def _leaves(roots):
    """Returns the leaves that a backward pass from the roots reaches."""
    found, seen = {}, set()
    waiting = [_node(x) for x in roots]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        waiting.extend(n for n, _ in node.next_functions)
    return list(found.values())


def _backward(here, roots, gradients, retain_graph):
    """Adds gradients to a context; returns a Future that completes when the other processes have added theirs."""
    leaves = _leaves(roots)
    with _running.lock:
        before, kept = _running.answers, [leaf.grad for leaf in leaves]
        _running.answers = answers = []
        _running.passes += 1
        for leaf in leaves:
            leaf.grad = None
        try:
            _run(roots, gradients, retain_graph=retain_graph)
            with _lock:
                for leaf in leaves:
                    if leaf.grad is not None and leaf is not _anchor():
                        here._add(leaf, leaf.grad)
        finally:
            for leaf, grad in zip(leaves, kept):
                leaf.grad = grad
            _running.answers = before
            _running.passes -= 1
    return _all(answers)


def _all(answers):
    """Returns a Future that completes with the last of the answers; its error is the first one."""
    done, left, lock = Future(), [len(answers)], threading.Lock()

    def one():
        with lock:
            left[0] -= 1
            if left[0] > 0:
                return
        done._complete(None, next((a._error for a in answers if a._error is not None), None))
    if not answers:
        done._complete(None)
    for answer in answers:
        answer._when_completed(one)
    return done


def _start_backward(context_id, roots, retain_graph):
    here = _retrieve_context(context_id)
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not isinstance(root, Tensor):
            raise TypeError("backward(): incompatible function arguments: roots must be a list of tensors")
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError(f"{list(root.shape)}: all roots need to be scalar")
    return _backward(here, roots, None, retain_graph)


def backward(context_id, roots, retain_graph=False):
    """Computes gradients of `roots`, tensors of one element, through all processes that took part in the context.  Waits for
    their end.  get_gradients(context_id) has the gradients of each process's leaves."""
    _start_backward(context_id, roots, retain_graph).wait()


def get_gradients(context_id):
    """Returns a dict of the gradients of this process's leaves in a context, by the leaves."""
    here = _retrieve_context(context_id)
    with _lock:
        return dict(here._gradients)
