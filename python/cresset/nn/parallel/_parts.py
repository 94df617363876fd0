"""The parts of a batch of DistributedDataParallel(deterministic="ranks"): the same bits for any number of ranks."""
import cresset

from ... import _C


class Batch:
    """What the parts of a batch have in common.  Each part starts with the buffers before the batch, and with random numbers
    that depend on the batch's and the part's numbers alone; gradients and buffers are averages over the parts."""

    def __init__(self, ddp, parts):
        from ... import distributed as dist
        self.ddp, self.count = ddp, int(parts)
        self.group = ddp.process_group._handle
        size = dist.get_world_size(ddp.process_group)
        if self.count < 1 or self.count % size:
            raise ValueError(f"{size} ranks do not divide {parts} parts")
        box = [cresset.initial_seed()]
        dist.broadcast_object_list(box, group=ddp.process_group, group_src=0)
        self.seed, self.batches, self.inside = box[0], 0, False

    def check(self):
        """A call of the module outside of parts() would not be averaged."""
        if cresset.is_grad_enabled() and not self.inside:
            raise RuntimeError("with deterministic='ranks' the module is called in the parts of a batch: "
                               "for part in model.parts(batch): ...")

    def _pieces(self, tensors, n):
        for t in tensors:
            if not isinstance(t, cresset.Tensor) or t.dim() == 0 or t.size(0) % n:
                size = t.size(0) if isinstance(t, cresset.Tensor) and t.dim() else t
                raise ValueError(f"this rank has {n} parts of a batch, which {size} rows do not divide into")
        return [t.chunk(n) if t.size(0) else [t] * n for t in tensors]

    def parts(self, tensors):
        """Yields the tensors of each of this rank's parts."""
        params = self.ddp._parameters_list
        if any(p.grad is not None for p in params):
            raise RuntimeError("gradients must be None before a batch of parts; call zero_grad() first")
        buffers = [b for b in self.ddp.module.buffers() if b.is_floating_point()]
        other = [b for b in self.ddp.module.buffers() if not b.is_floating_point()]
        before = [b.clone() for b in (*buffers, *other)]
        sums = _C._comm_parts(self.group, self.count, tuple(p.detach() for p in params) + tuple(buffers))
        first, after = sums.range
        pieces, state = self._pieces(tensors, after - first), cresset.get_rng_state()
        self.batches, self.inside = self.batches + 1, True
        try:
            for v in range(first, after):
                with cresset.no_grad():
                    for b, value in zip((*buffers, *other), before):
                        b.copy_(value)
                cresset.manual_seed((self.seed + self.batches * self.count + v) % 2 ** 63)
                yield pieces[0][v - first] if len(pieces) == 1 else tuple(p[v - first] for p in pieces)
                sums.take(tuple(p.grad for p in params) + tuple(buffers))
                for p in params:
                    p.grad = None
        finally:
            self.inside = False
            cresset.set_rng_state(state)
        self._give(sums.finish(), params, buffers)

    def _give(self, averages, params, buffers):
        for p, average in zip(params, averages):
            p.grad = average
        with cresset.no_grad():
            for b, average in zip(buffers, averages[len(params):]):
                b.copy_(average)

    def average(self, values):
        """Returns the average over all parts of all ranks."""
        values = [cresset.as_tensor(v).detach() for v in values]
        if not values:
            raise ValueError("average_of_parts() needs the value of each part")
        sums = _C._comm_parts(self.group, self.count, (values[0],))
        for value in values:
            sums.take((value,))
        return sums.finish()[0]
