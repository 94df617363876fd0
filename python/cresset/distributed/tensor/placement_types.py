"""Placements: how a tensor is distributed over the devices of one dimension of a mesh."""
from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The base class."""

    def is_shard(self, dim=None):
        """Whether the tensor is split, along dimension `dim` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        """Whether each device has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        """Whether the devices' tensors must be reduced, by `reduce_op` if that is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


class _Divided(Placement):
    """Each device has a part along dimension `dim`."""

    def _places(self, size, num_chunks):
        """Returns the positions of each part along a dim of this size."""
        import cresset
        return [x.tolist() for x in self._chunks(cresset.arange(size), 0, num_chunks)]

    def _split_tensor(self, tensor, num_chunks, *, with_padding=True, contiguous=True):
        """Returns the parts of a tensor, and how many places each lacks to the length of the first; with_padding fills them by
        zeros."""
        from ._collective_utils import pad_tensor
        if self.dim > tensor.ndim:
            raise AssertionError(f"Sharding dim {self.dim} greater than tensor ndim {tensor.ndim}")
        parts = self._chunks(tensor, self.dim, num_chunks)
        lacking = [parts[0].shape[self.dim] - x.shape[self.dim] for x in parts] if with_padding else []
        parts = [pad_tensor(x, self.dim, n) for x, n in zip(parts, lacking or [0] * num_chunks)]
        return [x.contiguous() if contiguous else x for x in parts], lacking

    def _to_replicate_tensor(self, local_tensor, mesh, mesh_dim, current_logical_shape):
        """Returns the whole tensor of parts that the ranks of a dimension of the mesh have."""
        from ._collective_utils import pad_tensor
        from ._redistribute import _gather
        import cresset
        ranks, size = mesh.size(mesh_dim), current_logical_shape[self.dim]
        places = self._places(size, ranks)
        length = max(map(len, places))
        own = pad_tensor(local_tensor, self.dim, length - local_tensor.shape[self.dim])
        joined = _gather(own, self.dim, length * ranks, mesh.get_group(mesh_dim), ranks)
        order = [0] * size
        for r, part in enumerate(places):
            for j, at in enumerate(part):
                order[at] = r * length + j
        return joined.index_select(self.dim, cresset.tensor(order, dtype=cresset.int64, device=joined.device))


def _parts(x, dim, count):
    """Returns parts as by chunk(), and empty ones at the end."""
    length = -(-x.shape[dim] // count)
    starts = [min(r * length, x.shape[dim]) for r in range(count)]
    return [x.narrow(dim, a, min(length, x.shape[dim] - a)) for a in starts]


@dataclass(frozen=True)
class Shard(_Divided):
    """Each device has a part along dimension `dim`."""

    dim: int

    def _chunks(self, x, dim, count):
        return _parts(x, dim, count)

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """Returns the length of a part and its first index.  Parts have equal lengths except at the end, as by chunk()."""
        length = -(-curr_local_size // num_chunks)
        first = min(length * rank, curr_local_size)
        return min(length, curr_local_size - first), first

    def _length(self, size, count, rank):
        return self.local_shard_size_and_offset(size, count, rank)[0]

    def __str__(self):
        return f"S({self.dim})"


class _StridedShard(_Divided):
    """Each device has a part of each of split_factor groups along dimension `dim`."""

    def __init__(self, dim, *, split_factor=1, sf=None):
        self.dim, self.split_factor = dim, split_factor if sf is None else sf

    def _chunks(self, x, dim, count):
        from ... import cat
        groups = [_parts(group, dim, count) for group in _parts(x, dim, self.split_factor)]
        return [cat([group[r] for group in groups], dim) for r in range(count)]

    def _length(self, size, count, rank):
        part = Shard.local_shard_size_and_offset
        return sum(part(part(size, self.split_factor, k)[0], count, rank)[0] for k in range(self.split_factor))

    def __eq__(self, other):
        return isinstance(other, _StridedShard) and (self.dim, self.split_factor) == (other.dim, other.split_factor)

    def __hash__(self):
        return hash((self.dim, self.split_factor))

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


def dim_of(placement):
    """Returns the dim that a placement divides, or None."""
    return placement.dim if isinstance(placement, (Shard, _StridedShard)) else None


def divisions(placements):
    """Returns the dims of the mesh that divide the tensor, in the order of the divisions: a _StridedShard divides the parts that the
    Shards after it have made."""
    plain = [i for i, p in enumerate(placements) if isinstance(p, Shard)]
    return plain + [i for i in reversed(range(len(placements))) if isinstance(placements[i], _StridedShard)]


def interleaves(placements, mesh):
    """Whether each _StridedShard divides the parts of the Shards after it, and of no others: a part is then one block of the whole."""
    for i, p in enumerate(placements):
        if isinstance(p, _StridedShard):
            parts = 1
            for j in range(i + 1, len(placements)):
                if isinstance(placements[j], Shard) and placements[j].dim == p.dim:
                    parts *= mesh.size(j)
            if parts != p.split_factor:
                return False
    return True


def block_divisions(placements, mesh):
    """divisions(), of parts that are one block each."""
    if not interleaves(placements, mesh):
        raise NotImplementedError(f"the first index of a part that is not one block of the tensor: {tuple(placements)}")
    return divisions(placements)


def steps(placements, mesh):
    """Returns (dim of the mesh, placement) for each division, in their order.  Where interleaves() holds, a step divides the block
    that the steps before it have made, as a Shard; else the dims of the mesh divide one after the other, as their placements say."""
    if interleaves(placements, mesh):
        return [(i, Shard(placements[i].dim)) for i in divisions(placements)]
    return [(i, p) for i, p in enumerate(placements) if dim_of(p) is not None]


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device has the whole tensor."""

    def __str__(self):
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the reduction of the devices' tensors by `reduce_op`."""

    reduce_op: str = "sum"

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


_Partial = Partial  # its former name
