"""Calls of operators on DTensors.

The strategies of a call come from the operator's entry in the table (src/dist/shard.c): for each dimension of the mesh the
cheapest is taken, operands are redistributed to it, and the operator is called on the parts.  An entry without strategies is
called on whole tensors.
"""
import warnings

import cresset

from ... import _C
from ...utils._pytree import tree_flatten, tree_unflatten
from .. import distributed_c10d as dist
from ._redistribute import redistribute_local, sizes_at
from ._dtensor_spec import DTensorSpec, TensorMeta, code_of, placement_of, row_major
from ._utils import compute_local_shape_and_global_offset
from .placement_types import Partial, Replicate, Shard, _StridedShard, dim_of, interleaves

calls = {}  # {operator: function} that is called in place of a plan; it may return NotImplemented
strategies = {}  # {operator: function} that lists a program's own strategies (experimental/_register_sharding.py)
replicates = False  # whether plain tensors count as replicated ones
_plans = {}  # (operator, arguments, mesh) -> _Plan
_ALL = 4096  # plans that are kept


class _Plan:
    """Placements of operands and results for each dimension of the mesh."""

    def __init__(self, inputs, outputs, sized, parts, metas, looked=None):
        self.inputs, self.outputs, self.sized, self.parts, self.metas = inputs, outputs, sized, parts, metas
        self.looked = looked  # (operand, its dim, the operand of places along it, whose dims are along those of the result), or None


_INTERLEAVED = _Plan((), (), None, False, ())  # operands with a _StridedShard must be redistributed first


def _written(func):
    return [k for k, a in enumerate(func._schema.arguments) if a.is_write]


def _keeps(strategy, placed, written):
    """Whether a strategy leaves the tensors in place that the call writes."""
    return all(strategy[0][k] == placed[k] for k in written)


def _choose(func, args, kwargs, mesh, dim, placed, written, sizes):
    """Returns the strategy along one dimension of the mesh, and the results' types."""
    if func in strategies:
        found, metas = _own_strategies(func, args, kwargs, mesh, dim, placed)
        kept = [s for s in found if s[5] >= 0 and _keeps(s, placed, written)]
        if not kept and not written:
            raise RuntimeError(f"{func}: no registered strategy takes tensors that are placed as {list(map(_placement_named, placed))}")
        return min(kept, key=lambda s: s[5]) if kept else None, metas
    rule, best, known, metas = _C._shard(func._op, args, kwargs, mesh.size(dim), placed)
    if rule is None:
        _C._log("shard", 1, f"{func}: called on whole tensors, since no axes of the call are known")
    elif any(p >= 0 for p in placed) and not written and known[best][5] >= 0 and all(p == -1 for p in known[best][0]):
        _C._log("shard", 2, f"{func} ({rule}): called on whole tensors, since no strategy divides them as {placed}")
    if written:
        kept = [s for s in known if _keeps(s, placed, written) and s[5] >= 0]
        if not kept:
            return None, metas
        return min(kept, key=lambda s: s[5]), metas
    chosen = known[best]
    return (chosen if chosen[5] >= 0 else known[0]), metas


def _placement_named(code):
    return Partial("another") if code == -7 else placement_of(code)


def _code_for(func, placement, x):
    """Returns the number of a placement that a program registered for a tensor."""
    dim = dim_of(placement)
    if dim is None:
        return code_of(placement)
    if not -x.ndim <= dim < x.ndim:
        raise ValueError(f"{func}: a strategy with {placement!r} was registered for a tensor of {x.ndim} dims")
    return dim % x.ndim


def forget_plans():
    """Makes all plans anew: strategies have changed."""
    _plans.clear()


def _own_strategies(func, args, kwargs, mesh, dim, placed):
    """Returns the program's strategies along a dimension of the mesh, as _C._shard gives them, and the results' types."""
    flat, spec_tree = tree_flatten((args, kwargs))
    tensors = [x for x in flat if isinstance(x, cresset.Tensor)]
    as_specs = [getattr(x, "_spec", x) for x in flat]
    given, named = tree_unflatten(as_specs, spec_tree)
    listed = strategies[func](*given, **named)
    fakes = [cresset.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") if isinstance(x, cresset.Tensor) else x for x in flat]
    given, named = tree_unflatten(fakes, spec_tree)
    made = [y for y in tree_flatten(func(*given, **named))[0] if isinstance(y, cresset.Tensor)]
    found = []
    for outputs, inputs in listed:
        inputs = [p for p in inputs if p is not None]
        if len(inputs) != len(tensors) or len(outputs) != len(made):
            raise ValueError(f"{func}: a strategy of {len(outputs)} results and {len(inputs)} tensors was registered for a call of "
                             f"{len(made)} results and {len(tensors)} tensors")
        inputs = tuple(_code_for(func, p, x) for p, x in zip(inputs, tensors))
        outputs = tuple(_code_for(func, p, x) for p, x in zip(outputs, made))
        costs = [_C._shard_cost(a, b, x.numel() * x.element_size(), mesh.size(dim)) for a, b, x in zip(placed, inputs, tensors)]
        cost = -1.0 if any(c < 0 for c in costs) else sum(costs)
        found.append((inputs, outputs, None, False, False, cost, None))
    return found, [(tuple(y.shape), y.stride(), y.dtype) for y in made]


def _clash(strategies, k):
    """Whether two dimensions of the mesh divide one dim of a tensor that must be divided evenly."""
    seen, even = [], False
    for s in strategies:
        even = even or s[4]
        seen += [p for p in s[0] if p >= 0]
    return even and len([s for s in strategies if any(p >= 0 for p in s[0])]) > 1


def _looked(strategies):
    """Returns what strategies say of places that are looked up in parts of an operand; False where two differ."""
    found = {(next(k for k, p in enumerate(s[0]) if p >= 0), max(s[0]), *s[6]) for s in strategies if s[6] is not None}
    return (found.pop() if found else None) if len(found) < 2 else False


def _make_plan(func, args, kwargs, mesh, specs):
    """Finds the placements of a call."""
    written = _written(func)
    chosen, metas = [], []
    random = "random" in func.words
    for i in range(mesh.ndim):
        placed = tuple(code_of(spec.placements[i]) if spec is not None else -1 for spec in specs)
        if random:
            whole = (-1,) * len(specs)
            chosen.append((whole, (), None, False, False, 0.0, None))
            continue
        strategy, metas = _choose(func, args, kwargs, mesh, i, placed, written, None)
        if strategy is None:
            return None
        chosen.append(strategy)
    looked = _looked(chosen)
    if len(chosen) > 1 and (_clash(chosen, 0) or looked is False):
        if written:
            return None
        whole = (-1,) * len(specs)
        chosen, looked = [(whole, (-1,) * len(metas), None, False, False, 0.0, None)] * mesh.ndim, None
    inputs = [tuple(placement_of(s[0][k]) for s in chosen) for k in range(len(specs))]
    outputs = [tuple(placement_of(s[1][k]) for s in chosen) for k in range(len(metas) if all(s[1] for s in chosen) else 0)]
    sized = next((s[2] for s in chosen if s[2] is not None), None)
    if any(not s[1] for s in chosen):
        metas = []
    plan = _Plan(inputs, outputs, sized, any(s[3] for s in chosen), metas, looked)
    if any(map(_has_strides, specs)):
        plan = _with_strides(plan, mesh, specs)
        return plan if plan is not None or written else _INTERLEAVED
    return plan


def _has_strides(spec):
    return spec is not None and any(isinstance(p, _StridedShard) for p in spec.placements)


def _stays(planned, spec):
    """Whether a plan leaves an operand as it is placed: a plan has dims, which a _StridedShard divides too."""
    return spec is not None and [code_of(p) for p in planned] == [code_of(p) for p in spec.placements]


def _with_strides(plan, mesh, specs):
    """Returns a plan whose divided operands and results have the _StridedShard of the operands on a dim of the mesh: each rank's
    elements along an axis are then the same of all tensors.  None where the operands differ or others are moved."""
    inputs, outputs = [list(p) for p in plan.inputs], [list(p) for p in plan.outputs]
    for i in range(mesh.ndim):
        kinds = {spec.placements[i].split_factor for spec in specs if _has_strides(spec) and
                 isinstance(spec.placements[i], _StridedShard)}
        if not kinds:
            continue
        split = [k for k, placed in enumerate(inputs) if isinstance(placed[i], Shard)]
        if len(kinds) > 1 or any(not _stays(plan.inputs[k], specs[k]) or not isinstance(specs[k].placements[i], _StridedShard)
                                 for k in split):
            return None
        factor = kinds.pop()
        for placed in (*(inputs[k] for k in split), *outputs):
            if isinstance(placed[i], Shard):
                placed[i] = _StridedShard(placed[i].dim, split_factor=factor)
    if not all(interleaves(placed, mesh) for placed in (*inputs, *outputs)):
        return None
    return _Plan([tuple(p) for p in inputs], [tuple(p) for p in outputs], plan.sized, plan.parts, plan.metas, plan.looked)


def _key(x, DTensor):
    if isinstance(x, DTensor):
        return x._spec.placements, x._spec.tensor_meta
    if isinstance(x, cresset.Tensor):
        return x.dtype, x.dim()
    return type(x), x


def _plan_of(func, args, kwargs, flat, mesh, specs, spec_tree, DTensor):
    try:
        key = (func, mesh, str(spec_tree), *(_key(x, DTensor) for x in flat))
        found = _plans.get(key)
    except TypeError:  # an argument without a hash
        return _make_plan(func, args, kwargs, mesh, specs)
    if found is None:
        found = _make_plan(func, args, kwargs, mesh, specs)
        if len(_plans) >= _ALL:
            _plans.clear()
        _plans[key] = found
    return found


def _refuse_write(func, flat, tensors):
    """An operator would have to change the placement of the tensor that it writes."""
    _refuse_placement(func, flat[tensors[_written(func)[0]]])


def _refuse_placement(func, x):
    raise RuntimeError(f"{func}: in-place operations that require placement changes are not supported. The input has placement "
                       f"{x.placements}, but no valid strategy preserves this placement. Please use the out-of-place version of "
                       "this operation instead.")


def _refuse_copies(func, args, kwargs, DTensor):
    """Raises where an operator writes a view whose base had to be redistributed: the base would not change."""
    for k in _written(func):
        x = args[k] if k < len(args) else kwargs.get(func._schema.arguments[k].name)
        for y in x if isinstance(x, (list, tuple)) else (x,):
            if isinstance(y, DTensor) and y._copied_from is not None:
                _refuse_placement(func, y._copied_from)


def _is_view(func):
    """Whether a caller may write the first operand of an operator by writing its results: those of a derivative are values."""
    return ("identity" not in func.words and not func._schema.is_mutable and _C._current_graph_task_id() < 0 and
            any(r.alias_info is not None for r in func._schema.returns))


def _marked(made, x, DTensor):
    """Marks views of a DTensor that had to be redistributed; returns them."""
    for y in made if isinstance(made, (tuple, list)) else (made,):
        if isinstance(y, DTensor) and y is not x:
            y._copied_from = x._spec if x._copied_from is None else x._copied_from
    return made


def _mixed(func):
    raise RuntimeError(f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
                       "distributed operators!")


def _local_size(plan, mesh):
    sizes, _, _ = plan.metas[0]
    return sizes_at(sizes, mesh, plan.outputs[0], mesh.ndim)


def _with_size(func, args, kwargs, name, size):
    names = [a.name for a in func._schema.arguments]
    at = names.index(name)
    if at < len(args):
        return (*args[:at], size, *args[at + 1:]), kwargs
    return args, {**kwargs, name: size}


_synchronized = set()


def _synchronize(mesh):
    """Gives all ranks of a mesh the state of the first one's generator, once: later calls draw the same numbers everywhere."""
    if mesh in _synchronized or not dist.is_initialized():
        return
    _synchronized.add(mesh)
    state = cresset.get_rng_state()
    for i in range(mesh.ndim):
        group = mesh.get_group(i)
        dist.broadcast(state, group=group, group_src=0)
    cresset.set_rng_state(state)


def _random(func, flat, spec_tree, tensors, mesh, DTensor):
    """Draws the numbers of the whole at every rank, and keeps the parts: they are those of one process."""
    _synchronize(mesh)
    whole = list(flat)
    for k in tensors:
        if isinstance(flat[k], DTensor):
            whole[k] = flat[k]._whole()
    args, kwargs = tree_unflatten(whole, spec_tree)
    made = func(*args, **kwargs)
    first = next(flat[k] for k in tensors if isinstance(flat[k], DTensor))
    if func._schema.is_mutable:
        for n in _written(func):
            x, y = flat[tensors[n]], whole[tensors[n]]
            spec = x._spec
            rest = tuple(Replicate() for _ in spec.placements)
            x._local_tensor.copy_(redistribute_local(y, spec.shape, mesh, rest, spec.placements))
        return flat[tensors[0]]

    def wrap(y):
        if not isinstance(y, cresset.Tensor):
            return y
        spec = DTensorSpec(mesh, tuple(Replicate() for _ in range(mesh.ndim)), TensorMeta(y.shape, y.stride(), y.dtype))
        made = DTensor(y, spec)
        if y.shape != first.shape or any(isinstance(p, Partial) for p in first.placements):
            return made
        local = redistribute_local(y, y.shape, mesh, spec.placements, first.placements)
        return DTensor(local, spec.placed(first.placements))
    return tuple(map(wrap, made)) if isinstance(made, (tuple, list)) else wrap(made)


def _each(func, args, kwargs, mesh, DTensor):
    """Calls an operator that computes the tensors at one position of its lists element by element: each position has the placements
    of the tensor that is written there."""
    given = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
    written = next(a.name for a in func._schema.arguments if a.is_write)
    specs = [x._spec if isinstance(x, DTensor) else None for x in given[written]]

    def local(x, spec):
        if not isinstance(x, DTensor):
            return x
        if x._spec is spec or (spec is not None and x._spec.placements == spec.placements and x._spec.shape == spec.shape):
            return x._local_tensor
        if spec is None or x.shape != spec.shape:
            return x._whole()
        return redistribute_local(x._local_tensor, x.shape, mesh, x.placements, spec.placements)

    def part(x):
        if isinstance(x, (list, tuple)) and len(x) == len(specs):
            return [local(y, spec) for y, spec in zip(x, specs)]
        return x._whole() if isinstance(x, DTensor) else x
    names = [a.name for a in func._schema.arguments if not a.kwarg_only and a.name in given]
    func(*(part(given[n]) for n in names), **{n: part(x) for n, x in given.items() if n not in names})
    return args[0] if func._schema.returns else None


def _whole_call(func, flat, spec_tree, tensors, mesh, DTensor):
    """Calls an operator whose results' sizes depend on values, or that returns a number, on whole tensors."""
    whole = [x._whole() if isinstance(x, DTensor) else x for x in flat]
    args, kwargs = tree_unflatten(whole, spec_tree)
    made = func(*args, **kwargs)
    if func._schema.is_mutable:
        for x, y in zip(flat, whole):
            if isinstance(x, DTensor) and (y is not x._local_tensor):
                rest = tuple(Replicate() for _ in x.placements)
                x._local_tensor.copy_(redistribute_local(y, x.shape, mesh, rest, x.placements))

    def wrap(y):
        if not isinstance(y, cresset.Tensor):
            return y
        placements = tuple(Replicate() for _ in range(mesh.ndim))
        return DTensor(y, DTensorSpec(mesh, placements, TensorMeta(y.shape, y.stride(), y.dtype)))
    return tuple(map(wrap, made)) if isinstance(made, (tuple, list)) else wrap(made)


def _check_call(func, flat, spec_tree, DTensor):
    """Raises the operator's error where it does not accept the whole sizes, before any rank sends parts."""
    if any(w in func.words for w in ("sized_by_values", "sparse")):
        return
    fakes = [cresset.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") if isinstance(x, DTensor) else
             x.to("meta") if isinstance(x, cresset.Tensor) else x for x in flat]
    args, kwargs = tree_unflatten(fakes, spec_tree)
    try:
        func(*args, **kwargs)
    except NotImplementedError:  # results that depend on values
        pass


def _plainly_divided(x, DTensor):
    """Returns a DTensor that no _StridedShard divides."""
    if not isinstance(x, DTensor) or not _has_strides(x._spec):
        return x
    placements = tuple(Replicate() if isinstance(p, _StridedShard) else p for p in x.placements)
    return DTensor(redistribute_local(x._local_tensor, x.shape, x.device_mesh, x.placements, placements), x._spec.placed(placements))


def _redistributed(flat, tensors, plan, DTensor, mesh):
    """Returns the arguments with operands as the plan places them."""
    changed = list(flat)
    for k, placements in zip(tensors, plan.inputs):
        x = flat[k]
        if not isinstance(x, DTensor):
            size = x.shape
            spec = DTensorSpec(mesh, tuple(Replicate() for _ in range(mesh.ndim)), TensorMeta(size, x.stride(), x.dtype))
            x = DTensor(x, spec)
        if x.placements != placements:
            local = redistribute_local(x._local_tensor, x.shape, mesh, x.placements, placements)
            x = DTensor(local, x._spec.placed(placements).of_part(local))
        changed[k] = x
    return changed


def _keeps_parts(func, x, DTensor):
    """Whether a new tensor with the elements of x is the result of an operator of one operand: each rank calls it with its part, and
    no plan is needed.  Backward detaches the gradient of each parameter."""
    return ("identity" in func.words and "itself" not in func.words and func not in strategies and isinstance(x, DTensor) and
            x.device_mesh.get_coordinate() is not None and all(type(p) in (Shard, Replicate) for p in x.placements))


def _one_mesh(args, kwargs, DTensor):
    """Returns the mesh of arguments that are lists of DTensors of one mesh, of other tensors and of numbers; None of others."""
    mesh = args[0][0]._spec.mesh if args and isinstance(args[0], list) and args[0] and isinstance(args[0][0], DTensor) else None
    if mesh is None or mesh.get_coordinate() is None:
        return None
    for x in (*args, *kwargs.values()):
        for y in x if isinstance(x, (list, tuple)) else (x,):
            if isinstance(y, DTensor) and y._spec.mesh is not mesh and y._spec.mesh != mesh:
                return None
    return mesh


def dispatch(DTensor, func, args, kwargs):
    """Calls an operator on DTensors."""
    if len(args) == 1 and not kwargs and func not in calls and _keeps_parts(func, args[0], DTensor):
        local = func(args[0]._local_tensor)
        return DTensor(local, args[0]._spec.of_part(local))
    mesh = _one_mesh(args, kwargs, DTensor) if func._record["axes"] == "each" and func not in calls else None
    if mesh is not None:
        if func._schema.is_mutable:
            _refuse_copies(func, args, kwargs, DTensor)
        return _each(func, args, kwargs, mesh, DTensor)
    flat, spec_tree = tree_flatten((args, kwargs))
    tensors = [k for k, x in enumerate(flat) if isinstance(x, cresset.Tensor)]
    first = next(x for x in flat if isinstance(x, DTensor))
    if func in calls:
        made = calls[func](*args, **kwargs)
        if made is not NotImplemented:
            return made
    mesh, each = first.device_mesh, func._record["axes"] == "each"
    for k in tensors:
        x = flat[k]
        if isinstance(x, DTensor):
            if x.device_mesh != mesh:
                raise RuntimeError(f"{func}: DTensor does not support cross-mesh operation yet! Got meshes: {mesh} {x.device_mesh}. "
                                   "Please make sure all the arguments have the same DeviceMesh.")
        elif replicates:
            continue
        elif x.numel() != 1 and not each:
            _mixed(func)
        elif x.dim() == 1 and not each:
            warnings.warn("Found a non-scalar tensor with numel=1 and ndim!=0, we are implicitly creating a replicated DTensor for it. "
                          "However, please consider changing it to a scalar tensor or explicitly create a DTensor under distributed "
                          "environment.", stacklevel=2)
    if func._schema.is_mutable:
        _refuse_copies(func, args, kwargs, DTensor)
    if mesh.get_coordinate() is None:
        return _outside(func, flat, spec_tree, mesh, DTensor)
    if each:
        return _each(func, args, kwargs, mesh, DTensor)
    if "random" in func.words:
        return _random(func, flat, spec_tree, tensors, mesh, DTensor)
    results = func._schema.returns
    if not results or any("Tensor" not in str(r.type) for r in results):
        return _whole_call(func, flat, spec_tree, tensors, mesh, DTensor)
    specs = [flat[k]._spec if isinstance(flat[k], DTensor) else None for k in tensors]
    plan = _plan_of(func, args, kwargs, flat, mesh, specs, spec_tree, DTensor)
    if plan is None:
        _refuse_write(func, flat, tensors)
    view = flat[tensors[0]] if _is_view(func) and isinstance(flat[tensors[0]], DTensor) else None
    if plan is _INTERLEAVED:
        args, kwargs = tree_unflatten([_plainly_divided(x, DTensor) for x in flat], spec_tree)
        made = dispatch(DTensor, func, args, kwargs)
        return made if view is None else _marked(made, view, DTensor)
    if not plan.metas and not func._schema.is_mutable:
        _check_call(func, flat, spec_tree, DTensor)
        made = _whole_call(func, flat, spec_tree, tensors, mesh, DTensor)
        whole = view is None or all(p.is_replicate() for p in view.placements)
        return made if whole and (view is None or view._copied_from is None) else _marked(made, view, DTensor)
    changed = _redistributed(flat, tensors, plan, DTensor, mesh)
    copied = view is not None and (view._copied_from is not None or changed[tensors[0]] is not view)
    if plan.parts:
        args, kwargs = tree_unflatten(changed, spec_tree)
        with _C._ReentrantDispatch():
            made = _C._call_parts(func._op, args, kwargs)
        made = made[0] if len(made) == 1 else made
        return _marked(made, view, DTensor) if copied else made
    local = [x._local_tensor if isinstance(x, DTensor) else x for x in changed]
    if plan.looked is not None:
        return _wrapped(_look_up(func, changed, local, spec_tree, tensors, plan.looked, mesh), plan, mesh, DTensor)
    args, kwargs = tree_unflatten(local, spec_tree)
    if plan.sized is not None:
        args, kwargs = _with_size(func, args, kwargs, plan.sized, _local_size(plan, mesh))
    if plan.sized and "reshape" in func.words:  # parts may have gaps
        part = args[0].contiguous()
        copied, args = copied or part is not args[0], (part, *args[1:])
    made = func(*args, **kwargs)
    if func._schema.is_mutable:
        return flat[tensors[_written(func)[0]]]
    made = _wrapped(made, plan, mesh, DTensor)
    return _marked(made, view, DTensor) if copied and view is not None else made


def _look_up(func, changed, local, spec_tree, tensors, looked, mesh):
    """Calls an operator on this rank's part of an operand that it looks up; elements at places of other ranks are zeros."""
    table, dim, places, over = looked
    table, places = tensors[table], tensors[places]
    x, at = changed[table], local[places]
    sizes, first = compute_local_shape_and_global_offset(x.shape, mesh, x.placements)
    inside = (at >= first[dim]) & (at < first[dim] + sizes[dim])
    right = (at >= 0) & (at < x.shape[dim])
    local = list(local)
    local[places] = cresset.where(inside, at - first[dim], at.masked_fill(right, 0))
    if not sizes[dim]:  # a place to read
        local[table] = local[table].new_zeros([1 if d == dim else n for d, n in enumerate(sizes)])
    args, kwargs = tree_unflatten(local, spec_tree)
    try:
        made = func(*args, **kwargs)
    except (IndexError, RuntimeError):  # the whole's sizes are in the message
        local[table], local[places] = local[table].new_zeros(()).expand(x.shape), at
        args, kwargs = tree_unflatten(local, spec_tree)
        func(*args, **kwargs)
        raise
    dims = [d for d in over if d >= 0]
    left = inside.logical_not().permute(dims).reshape([inside.shape[d] if d >= 0 else 1 for d in over])
    return made.masked_fill_(left, 0)


def _wrapped(made, plan, mesh, DTensor):
    """Returns DTensors of local results."""
    metas, outputs = iter(plan.metas), iter(plan.outputs)

    def wrap(y):
        if isinstance(y, (tuple, list)):
            return type(y)(map(wrap, y)) if type(y) in (tuple, list) else tuple(map(wrap, y))
        if not isinstance(y, cresset.Tensor):
            return y
        sizes, strides, _ = next(metas)
        spec = DTensorSpec(mesh, next(outputs), TensorMeta(cresset.Size(sizes), tuple(strides), y.dtype))
        return DTensor(y, spec.of_part(y))
    return wrap(made)


def _outside(func, flat, spec_tree, mesh, DTensor):
    """Returns DTensors without elements: this rank is not part of the mesh."""
    fakes = [cresset.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, cresset.Tensor) else x for x in flat]
    args, kwargs = tree_unflatten(fakes, spec_tree)
    if func._schema.is_mutable:
        return flat[0]

    def wrap(y):
        if not isinstance(y, cresset.Tensor):
            return y
        placements = tuple(Replicate() for _ in range(mesh.ndim))
        none = cresset.zeros((), dtype=y.dtype) if y.dim() == 0 else cresset.empty(0, dtype=y.dtype)
        return DTensor(none, DTensorSpec(mesh, placements, TensorMeta(y.shape, row_major(y.shape), y.dtype)))
    made = func(*args, **kwargs)
    return tuple(map(wrap, made)) if isinstance(made, (tuple, list)) else wrap(made)
