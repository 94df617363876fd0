"""Pictures of the parts of a DTensor."""
from itertools import product

from ..placement_types import Shard, block_divisions

__all__ = ["visualize_sharding"]


def _box(sizes, mesh, placements, place):
    """Returns the sizes and first indices of the part at a place of the mesh."""
    sizes, first = list(sizes), [0] * len(sizes)
    for i in block_divisions(placements, mesh):
        dim = placements[i].dim
        sizes[dim], at = Shard.local_shard_size_and_offset(sizes[dim], mesh.size(i), place[i])
        first[dim] += at
    return sizes, first


def visualize_sharding(dtensor, header="", use_rich=False):
    """Prints which ranks have which elements of a DTensor of one or two dims, at the first rank of its mesh."""
    mesh = dtensor.device_mesh
    if dtensor.numel() == 0:
        return
    if dtensor.dim() >= 3:
        raise RuntimeError("visualize sharding supports only 1D or 2D DTensor")
    if mesh.get_coordinate() is None or any(mesh.get_coordinate()):
        return
    cells = {}
    for place in product(*(range(n) for n in mesh.shape)):
        sizes, first = _box(dtensor.shape, mesh, dtensor.placements, place)
        sizes, first = [*sizes, 1, 1][:2], [*first, 0, 0][:2]
        if all(sizes):
            key = tuple((a, a + n - 1) for a, n in zip(first, sizes))
            cells.setdefault(key, []).append(int(mesh.mesh[place]))
    rows, cols = (sorted({key[d] for key in cells}) for d in (0, 1))
    table = [["", *(f"Col {a}-{b}" for a, b in cols)]]
    for row in rows:
        own = [", ".join(f"{mesh.device_type}:{r}" for r in cells.get((row, col), ())) for col in cols]
        table.append([f"Row {row[0]}-{row[1]}", *own])
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    lines = ["  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in table]
    lines.insert(1, "  ".join("-" * w for w in widths))
    print("\n".join([header, *lines] if header else lines))
