"""Changes of placements by calls of the mesh's groups, below autograd."""
import cresset

from ... import ops
from ...utils._python_dispatch import _disable_current_modes
from .. import distributed_c10d as dist
from .placement_types import Partial, Replicate, Shard, _StridedShard, interleaves, steps

_OPS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX}


watchers = []  # functions that are told each call, as an operator


def _call(name, function, *args):
    """Makes a call, of which watchers are told as an operator; modes do not see the group's call as well."""
    for watcher in watchers:
        watcher(getattr(ops._c10d_functional, name))
    with _disable_current_modes():
        function(*args)


def part_of(x, dim, ranks, rank):
    """Returns a rank's part of a tensor along a dim, as by chunk()."""
    size, first = Shard.local_shard_size_and_offset(x.shape[dim], ranks, rank)
    return x.narrow(dim, first, size).contiguous()


def _as_numbers(x):
    return x.to(cresset.uint8) if x.dtype == cresset.bool else x


def _padded(x, dim, length):
    """Returns a tensor whose first dim is `dim`, of this length."""
    x = x.movedim(dim, 0) if dim else x
    if x.shape[0] < length:
        x = cresset.cat([x, x.new_zeros((length - x.shape[0], *x.shape[1:]))])
    return x.contiguous()


def _gather(x, dim, size, group, ranks):
    """Returns the whole along a dim of `size`, of parts of all ranks."""
    length = -(-size // ranks)
    mine = _padded(_as_numbers(x), dim, length)
    whole = mine.new_empty((length * ranks, *mine.shape[1:]))
    _call("all_gather_into_tensor", dist.all_gather_into_tensor, whole, mine, group)
    return whole[:size].movedim(0, dim).to(x.dtype).contiguous()


def _reduce(x, op, group, ranks):
    """Returns the reduction of the tensors of all ranks."""
    made = _as_numbers(x).clone(memory_format=cresset.contiguous_format)
    _call("all_reduce", dist.all_reduce, made, _OPS[op], group)
    return (made / ranks if op == "avg" else made).to(x.dtype)


def _reduce_scatter(x, dim, op, group, ranks, rank):
    """Returns a rank's part of the reduction of the tensors of all ranks."""
    size = x.shape[dim]
    length = -(-size // ranks)
    whole = _padded(_as_numbers(x), dim, length * ranks)
    mine = whole.new_empty((length, *whole.shape[1:]))
    _call("reduce_scatter_tensor", dist.reduce_scatter_tensor, mine, whole, _OPS[op], group)
    n, _ = Shard.local_shard_size_and_offset(size, ranks, rank)
    mine = mine[:n].movedim(0, dim)
    return (mine / ranks if op == "avg" else mine).to(x.dtype).contiguous()


def _exchange(x, old, new, sizes, group, ranks, rank):
    """Returns a rank's part along dim `new` of a tensor that is divided along `old`."""
    whole, length = sizes[new], -(-sizes[old] // ranks)
    sent = []
    for r in range(ranks):
        n, first = Shard.local_shard_size_and_offset(whole, ranks, r)
        sent.append(_padded(_as_numbers(x).narrow(new, first, n), old, length))
    mine, _ = Shard.local_shard_size_and_offset(whole, ranks, rank)
    shape = list(x.movedim(old, 0).shape[1:])
    at = new if new < old else new - 1
    got = []
    for _ in range(ranks):
        own = list(shape)
        own[at] = mine
        got.append(sent[0].new_empty((length, *own)))
    flat = [y.numel() for y in sent]
    out = sent[0].new_empty((sum(y.numel() for y in got),))
    _call("all_to_all_single", dist.all_to_all_single, out, cresset.cat([y.flatten() for y in sent]), [y.numel() for y in got], flat, group)
    parts = [y.view(z.shape) for y, z in zip(out.split([z.numel() for z in got]), got)]
    return cresset.cat(parts)[:sizes[old]].movedim(0, old).to(x.dtype).contiguous()


def _whole_first(current, target):
    """Returns the dims of the mesh that must be gathered first: a dim of the tensor that is divided several times is divided from
    the first dim of the mesh to the last, so that a change of one changes those after it."""
    changed, found = set(), set()
    for i, (a, b) in enumerate(zip(current, target)):
        if isinstance(a, Shard) and a.dim in changed:
            found.add(i)
        if a != b:
            changed |= {p.dim for p in (a, b) if isinstance(p, Shard)}
    return found


def _sizes_after(sizes, mesh, divided):
    """Returns the sizes of this rank's part after some steps of a division."""
    sizes, place = list(sizes), mesh.get_coordinate()
    for i, p in divided:
        sizes[p.dim] = p._length(sizes[p.dim], mesh.size(i), place[i])
    return sizes


def sizes_at(sizes, mesh, placements, count):
    """Returns the sizes of this rank's part, divided along the first `count` dims of the mesh."""
    return _sizes_after(sizes, mesh, [(i, p) for i, p in steps(placements, mesh) if i < count])


def _strided(local, sizes, mesh, current, target):
    """Redistributes where one side has a _StridedShard.  One that divides blocks divides last: it is gathered first and divided last.
    Where one takes elements from several places, all divisions are undone and made one by one."""
    place, current, done = mesh.get_coordinate(), list(current), steps(current, mesh)
    blocks = interleaves(current, mesh)
    for k, (i, p) in reversed(list(enumerate(done))):
        if isinstance(current[i], _StridedShard) or not blocks:
            before, ranks = _sizes_after(sizes, mesh, done[:k]), mesh.size(i)
            if isinstance(p, Shard):
                local = _gather(local, p.dim, before[p.dim], mesh.get_group(i), ranks)
            else:
                local = p._to_replicate_tensor(local, mesh, i, before)
            current[i] = Replicate()
    wanted, blocks = steps(target, mesh), interleaves(target, mesh)
    late = [(i, p) for i, p in wanted if isinstance(target[i], _StridedShard) or not blocks]
    rest = list(target)
    for i, _ in late:
        rest[i] = Replicate()
    local = redistribute_local(local, sizes, mesh, current, rest)
    for i, p in late:
        local = p._chunks(local, p.dim, mesh.size(i))[place[i]].contiguous()
    return local


def redistribute_local(local, sizes, mesh, current, target):
    """Returns this rank's part under other placements."""
    if tuple(current) == tuple(target) or mesh.get_coordinate() is None:
        return local
    if any(isinstance(p, _StridedShard) for p in (*current, *target)):
        return _strided(local, sizes, mesh, current, target)
    place, current = mesh.get_coordinate(), list(current)
    gathered = _whole_first(current, target)
    shared = [p.dim for p in (*current, *target) if isinstance(p, Shard)]
    for i in reversed(range(mesh.ndim)):
        a, b, ranks = current[i], target[i], mesh.size(i)
        if a == b and i not in gathered:
            continue
        if isinstance(a, Shard):
            alone = isinstance(b, Shard) and i not in gathered and shared.count(a.dim) == 1 and shared.count(b.dim) == 1
            before = sizes_at(sizes, mesh, current, i)
            if alone:
                local, current[i] = _exchange(local, a.dim, b.dim, before, mesh.get_group(i), ranks, place[i]), b
            else:
                local, current[i] = _gather(local, a.dim, before[a.dim], mesh.get_group(i), ranks), Replicate()
        elif isinstance(a, Partial) and not isinstance(b, Shard):
            local, current[i] = _reduce(local, a.reduce_op, mesh.get_group(i), ranks), Replicate()
    for i, b in enumerate(target):
        a, ranks = current[i], mesh.size(i)
        if a == b:
            continue
        if isinstance(a, Partial) and isinstance(b, Shard):
            local = _reduce_scatter(local, b.dim, a.reduce_op, mesh.get_group(i), ranks, place[i])
        elif isinstance(b, Shard):
            local = part_of(local, b.dim, ranks, place[i])
        elif isinstance(b, Partial) and b.reduce_op == "sum":  # one rank has the value, the others zeros
            local = local if place[i] == 0 else cresset.zeros_like(local)
        elif isinstance(b, Partial) and b.reduce_op == "product":
            local = local if place[i] == 0 else cresset.ones_like(local)
        current[i] = b
    return local


def __getattr__(name):
    if name == "Redistribute":
        from ._api import Redistribute
        return Redistribute
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
