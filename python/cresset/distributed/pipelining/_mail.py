"""Tensors that stages send each other.

A rank posts receives from a peer in the order in which the peer's list of actions sends, so that messages need no names.  Sends do
not wait.  Ahead of the outputs of a part goes a header with sizes and dtypes, in every step: batches may have other sizes.  Gradients
have those of the outputs.
"""
from collections import deque

import cresset

from .. import distributed_c10d as dist
from ._actions import Kind

_DTYPES = (cresset.float32, cresset.float64, cresset.float16, cresset.bfloat16, cresset.int64, cresset.int32, cresset.int16, cresset.int8,
           cresset.uint8, cresset.bool, cresset.complex64, cresset.complex128)
_HEADER = 256  # numbers


def _header(tensors, device):
    numbers = [len(tensors)]
    for x in tensors:
        numbers += [_DTYPES.index(x.dtype), x.requires_grad, x.dim(), *x.shape]
    if len(numbers) > _HEADER:
        raise ValueError(f"the sizes of {len(tensors)} tensors do not fit a header of {_HEADER} numbers")
    return cresset.tensor(numbers + [0] * (_HEADER - len(numbers)), dtype=cresset.int64, device=device)


def _metas(header):
    """Returns [(sizes, dtype, requires_grad)] of a header."""
    numbers, made = iter(header.tolist()), []
    for _ in range(next(numbers)):
        dtype, grad, dims = next(numbers), next(numbers), next(numbers)
        made.append((tuple(next(numbers) for _ in range(dims)), _DTYPES[dtype], bool(grad)))
    return made


def _meta(x):
    return tuple(x.shape), x.dtype, x.requires_grad


class Mail:
    """The messages of a schedule at one rank."""

    def __init__(self, group, device, order, where, rank):
        self.group, self.device, self.where, self.rank, self.order = group, device, where, rank, order
        self.begin(True)

    def begin(self, trains):
        """Begins a step."""
        self.trains, self.sent, self.got, self.here = trains, [], {}, {}
        self.known = {}  # {(stage, part): metas} of tensors that cross from a stage to the next
        self.queues = {peer: deque(self._messages(peer)) for peer in self.order if peer != self.rank}

    def _messages(self, peer):
        for a in self.order[peer]:
            if a is None or a.computation_type is Kind.BACKWARD_WEIGHT:
                continue
            forward = a.computation_type is Kind.FORWARD
            if not forward and not self.trains:
                continue
            to = a.stage_index + (1 if forward else -1)
            if self.where.get(to) == self.rank:
                yield forward, to, a.microbatch_index

    def send(self, forward, to, part, tensors):
        """Gives tensors to a stage: outputs, or gradients of inputs."""
        if self.where[to] == self.rank:
            self.here[forward, to, part] = [x.detach() for x in tensors]
            if forward:
                self.known[to - 1, part] = [_meta(x) for x in tensors]
            return
        peer = self.where[to]
        if forward:
            self._post(_header(tensors, self.device), peer)
            self.known[to - 1, part] = [_meta(x) for x in tensors]
        for x in tensors:
            self._post(x.detach().contiguous(), peer)

    def _post(self, x, peer):
        if x.numel():
            self.sent.append((x, dist.isend(x, group=self.group, group_dst=peer)))

    def take(self, forward, to, part):
        """Returns the tensors for a stage, and waits for them."""
        key = forward, to, part
        if key in self.here:
            tensors = self.here.pop(key)
        else:
            queue = self.queues[self.where[to - 1 if forward else to + 1]]
            while key not in self.got:
                following = queue.popleft()
                self.got[following] = self._receive(*following)
            tensors, works = self.got.pop(key)
            for work in works:
                work.wait()
        if forward:
            for x, (_, _, grad) in zip(tensors, self.known[to - 1, part]):
                x.requires_grad_(grad and self.trains)
        return tensors

    def _receive(self, forward, to, part):
        peer = self.where[to - 1 if forward else to + 1]
        if forward:
            header = cresset.empty(_HEADER, dtype=cresset.int64, device=self.device)
            dist.recv(header, group=self.group, group_src=peer)
            self.known[to - 1, part] = _metas(header)
        metas = self.known[to - 1 if forward else to, part]
        tensors = [cresset.empty(sizes, dtype=dtype, device=self.device) for sizes, dtype, grad in metas if forward or grad]
        return tensors, [dist.irecv(x, group=self.group, group_src=peer) for x in tensors if x.numel()]

    def end(self):
        """Waits for what was sent."""
        for _, work in self.sent:
            work.wait()
        self.sent = []
