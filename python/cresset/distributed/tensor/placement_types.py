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


@dataclass(frozen=True)
class Shard(Placement):
    """Each device has a part along dimension `dim`."""

    dim: int

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """Returns the length of a part and its first index.  Parts have equal lengths except at the end, as by chunk()."""
        length = -(-curr_local_size // num_chunks)
        first = min(length * rank, curr_local_size)
        return min(length, curr_local_size - first), first

    def __str__(self):
        return f"S({self.dim})"


class _StridedShard(Placement):
    """Each device has a part of each of split_factor groups along dimension `dim`."""

    def __init__(self, dim, *, split_factor=1, sf=None):
        self.dim, self.split_factor = dim, split_factor if sf is None else sf

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
