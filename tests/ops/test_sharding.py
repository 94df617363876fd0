"""Every strategy that follows from an entry's statement, on fake ranks: the results equal those of the whole tensors.

A strategy (src/dist/shard.h) says how each tensor of a call is placed on the ranks.  Here the ranks are a list: each computes
the call on its parts, and the parts of the results are put together."""
import functools
import warnings

import pytest

import cresset as torch
from cresset import _C
from cresset.utils._pytree import tree_flatten, tree_unflatten

from table import BY_KEY, ENTRIES, Draw, leaves

REPLICATE, SUM, PRODUCT, MIN, MAX = -1, -2, -3, -4, -5
REDUCED = {SUM: lambda xs: sum(xs[1:], xs[0]), PRODUCT: lambda xs: functools.reduce(torch.mul, xs),
           MIN: lambda xs: functools.reduce(torch.minimum, xs), MAX: lambda xs: functools.reduce(torch.maximum, xs)}
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and e.tensor_params]


def split(x, placement, ranks):
    """Returns the parts of a tensor."""
    if placement >= 0:
        length = -(-x.shape[placement] // ranks)
        return [x.narrow(placement, min(r * length, x.shape[placement]),
                         max(min(length, x.shape[placement] - r * length), 0)).contiguous() for r in range(ranks)]
    if placement == SUM:  # unequal terms
        terms = [x * 0.25 if x.is_floating_point() or x.is_complex() else x * 0 for _ in range(ranks - 1)]
        return [x - sum(terms), *terms]
    assert placement == REPLICATE
    return [x.clone() for _ in range(ranks)]


def whole(parts, placement):
    """Returns the tensor of its parts."""
    if placement >= 0:
        return torch.cat(parts, placement)
    if placement == REPLICATE:
        for x in parts[1:]:
            torch.testing.assert_close(x, parts[0], rtol=0, atol=0, equal_nan=True)
        return parts[0]
    return REDUCED[placement](parts)


def same(got, want, where):
    assert (got.shape, got.dtype) == (want.shape, want.dtype), where
    digits = 1e-5 if got.dtype == torch.float32 else 1e-8
    torch.testing.assert_close(got, want, rtol=digits, atol=digits, equal_nan=True, msg=str(where))


class OnRanks(torch.Tensor):
    """A tensor whose parts are on fake ranks; calls take the cheapest strategy."""

    __torch_function__ = _C._disabled_torch_function_impl
    gathered = False  # whether a call needed a split tensor in another placement

    @staticmethod
    def __new__(cls, parts, placement, shape, strides=None):
        made = torch.Tensor._make_wrapper_subclass(cls, shape, strides=strides, dtype=parts[0].dtype, device=parts[0].device)
        made.parts, made.placement = parts, placement
        return made

    def whole(self):
        return whole(self.parts, self.placement)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flat, spec = tree_flatten((args, kwargs))
        ranks = next(len(x.parts) for x in flat if isinstance(x, cls))
        tensors = [k for k, x in enumerate(flat) if isinstance(x, torch.Tensor)]
        placed = tuple(flat[k].placement if isinstance(flat[k], cls) else REPLICATE for k in tensors)
        mutable = [k for k, a in enumerate(func._schema.arguments) if a.is_write]
        if "random" in func.words or any("Tensor" not in str(r.type) for r in func._schema.returns):
            return cls.run_whole(func, flat, spec, mutable)
        rule, best, strategies, shapes = _C._shard(func._op, args, kwargs, ranks, placed)
        if not shapes and not mutable:
            return cls.run_whole(func, flat, spec, mutable)
        if mutable:
            kept = [s for s in strategies if s[5] >= 0 and all(s[0][k] == placed[k] for k in mutable)]
            if not kept or mutable != [0]:
                return cls.run_whole(func, flat, spec, mutable)
            strategies, best = [min(kept, key=lambda s: s[5])], 0
        inputs, outputs, sized, parts, _, _, looked = strategies[best]
        local = []
        for k, placement in zip(tensors, inputs):
            x = flat[k]
            if not isinstance(x, cls) or x.placement != placement:
                cls.gathered |= isinstance(x, cls) and x.placement >= 0
                x = cls(split(x.whole() if isinstance(x, cls) else x, placement, ranks), placement, x.shape)
            local.append(x)
        if parts:
            for k, x in zip(tensors, local):
                flat[k] = x
            args, kwargs = tree_unflatten(flat, spec)
            with _C._ReentrantDispatch():
                made = _C._call_parts(func._op, args, kwargs)
            return made[0] if len(made) == 1 else made
        made = cls.run(func, list(flat), spec, tensors, local, outputs, sized, ranks, shapes, looked)
        return flat[0] if mutable else made

    @classmethod
    def run_whole(cls, func, flat, spec, written):
        """Calls the operator on whole tensors."""
        cls.gathered |= any(isinstance(x, cls) and x.placement != REPLICATE for x in flat)
        wholes = [x.whole().clone() if isinstance(x, cls) else x for x in flat]
        args, kwargs = tree_unflatten(wholes, spec)
        made, ranks = func(*args, **kwargs), next(len(x.parts) for x in flat if isinstance(x, cls))
        for x, y in zip(flat, wholes):
            for part, new in zip(x.parts, split(y, x.placement, ranks)) if isinstance(x, cls) and written else ():
                part.copy_(new)

        def wrap(y):
            return cls([y.clone() for _ in range(ranks)], REPLICATE, y.shape, y.stride()) if isinstance(y, torch.Tensor) else y
        if written:
            return flat[0]
        return tuple(map(wrap, made)) if isinstance(made, (tuple, list)) else wrap(made)

    @classmethod
    def run(cls, func, flat, spec, tensors, local, outputs, sized, ranks, shapes, looked=None):
        made = []
        for r in range(ranks):
            for k, x in zip(tensors, local):
                flat[k] = x.parts[r]
            args, kwargs = tree_unflatten(flat, spec)
            args, kwargs = with_size(func, args, kwargs, sized, shapes[0][0], outputs, r, ranks)
            if sized and "reshape" in func.words:  # parts may have gaps
                args = (args[0].contiguous(), *args[1:])
            if looked:
                made.append(looked_up(func, list(flat), spec, tensors, local, looked, r))
                continue
            made.append(func(*args, **kwargs))
        if func._schema.is_mutable:
            return None
        results = [cls(list(parts), p, size, strides)
                   for parts, p, (size, strides, _) in zip(zip(*(list(leaves(x)) for x in made)), outputs, shapes)]
        return results[0] if isinstance(made[0], torch.Tensor) else results


def looked_up(func, flat, spec, tensors, local, looked, r):
    """Returns a rank's result of a call that looks up places in an operand of which it has a part."""
    places, over = looked
    table = next(k for k, x in enumerate(local) if x.placement >= 0)
    dim, length = local[table].placement, local[table].parts[0].shape[local[table].placement]
    at = flat[tensors[places]] - r * length
    mine = (at >= 0) & (at < local[table].parts[r].shape[dim])
    flat[tensors[places]] = torch.where(mine, at, 0)
    args, kwargs = tree_unflatten(flat, spec)
    view = mine.permute([d for d in over if d >= 0]).reshape([mine.shape[d] if d >= 0 else 1 for d in over])
    return torch.where(view, func(*args, **kwargs), 0)


def with_size(func, args, kwargs, sized, shape, outputs, r, ranks):
    """Gives a parameter the sizes of the local result."""
    if sized is None:
        return args, kwargs
    size = list(shape)
    if outputs[0] >= 0:
        length = -(-size[outputs[0]] // ranks)
        size[outputs[0]] = max(min(length, size[outputs[0]] - r * length), 0)
    names = [a.name for a in func._schema.arguments]
    at = names.index(sized)
    if at < len(args):
        return (*args[:at], size, *args[at + 1:]), kwargs
    return args, {**kwargs, sized: size}


def overload(entry):
    """Returns torch's overload whose callable is the entry's."""
    packet = getattr(getattr(torch.ops, entry.name.split("::")[0]) if "::" in entry.name else torch.ops.aten,
                     entry.name.split("::")[-1])
    for name in packet.overloads():
        func = getattr(packet, name)
        record = func._record
        if (record["name"], record["overload"]) == (entry.name, entry.overload) and not func._schema.is_mutable:
            return func
    return None


def first_dtype(entry):
    return next((d for d in ("float64", "complex128", "int64", "bool") if d in entry.dtypes), "float32")


def tried(key, ranks, seen=None):
    """Compares all strategies of an entry's cases; returns the number of those that split a tensor."""
    entry, count = BY_KEY[key], 0
    func = overload(entry)
    if func is None:
        return 0
    for case in entry.cases():
        draw = Draw(entry, case, first_dtype(entry))
        args, kwargs = draw.call_arguments()
        args = tuple(args)
        try:
            want = list(leaves(func(*args, **kwargs)))
            rule, _, strategies, shapes = _C._shard(func._op, args, kwargs or None, ranks, ())
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
            continue
        operands = [x for x in leaves([args, list(kwargs.values())]) if isinstance(x, torch.Tensor)]
        placed = [tuple(SUM if i == k else REPLICATE for i in range(len(operands))) for k in range(len(operands))]
        placed.append((SUM,) * len(operands))
        more = []
        for p in placed:
            more += [s for s in _C._shard(func._op, args, kwargs or None, ranks, p)[2] if SUM in s[0] and s not in more]
        for strategy in strategies[1:] + [s for s in more if s not in strategies]:
            check(func, args, kwargs, strategy, want, ranks, shapes, (key, case, ranks, strategy))
            count += 1
    return count


def check(func, args, kwargs, strategy, want, ranks, shapes, where):
    inputs, outputs, sized, parts, _, _, looked = strategy
    flat, spec = tree_flatten((args, kwargs))
    tensors = [k for k, x in enumerate(flat) if isinstance(x, torch.Tensor)]
    try:
        local = [OnRanks(split(flat[k], p, ranks), p, flat[k].shape) for k, p in zip(tensors, inputs)]
        if parts:
            for k, x in zip(tensors, local):
                flat[k] = x
            args, kwargs = tree_unflatten(flat, spec)
            made = _C._call_parts(func._op, args, kwargs)
        else:
            made = OnRanks.run(func, flat, spec, tensors, local, outputs, sized, ranks, shapes, looked)
    except Exception as error:
        raise AssertionError(where) from error
    got = [x.whole() if isinstance(x, OnRanks) else x for x in leaves(list(made) if isinstance(made, (tuple, list)) else made)]
    assert len(got) == len(want), where
    for x, y in zip(got, want):
        same(x, y, where)


@pytest.mark.parametrize("ranks", [2, 4])
def test_parts_make_the_whole(ranks):
    """Every strategy of every entry whose samples are drawn; most entries have one that splits a tensor."""
    drawn, split_ones, failed = [e.key for e in DRAWN if not {"random", "undefined"} & set(e.words)], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key in drawn:
            try:
                split_ones += [key] * (tried(key, ranks) > 0)
            except AssertionError as error:
                failed.append(f"{error}: {error.__cause__!r}")
    assert not failed, "\n".join(failed)
    print(len(split_ones), "of", len(drawn), "entries; on whole tensors:", *sorted(set(drawn) - set(split_ones)))
    assert len(split_ones) > 0.75 * len(drawn)


# Calls that move places along some dims: the operator, its arguments, the sizes of its operand, and the dims that can be split.
MOVED = [
    ("flip", ([1],), (4, 6, 3), {0, 2}), ("flip", ([0, -1],), (4, 6, 3), {1}), ("flip", ([],), (4, 6), {0, 1}),
    ("roll", ([2], [1]), (4, 6, 3), {0, 2}), ("roll", ([1, 1], [0, 1]), (4, 6, 3), {2}), ("roll", ([6], [0]), (6, 2), {0, 1}),
    # Turned by its own size a dim stays, but parts of it do not: 5 places are 3 and 2.
    ("_roll", ([5], [0]), (5, 2), {1}),
    ("repeat", ([2, 1, 3],), (4, 6), {0}), ("repeat", ([1, 1],), (4, 6), {0, 1}), ("tile", ([2],), (4, 6), {0}),
    ("constant_pad_nd", ([1, 2],), (4, 6, 3), {0, 1}), ("constant_pad_nd", ([0, 0, -1, 1],), (4, 6, 3), {0, 2}),
    ("reflection_pad1d", ([1, 2],), (4, 8, 5), {0, 1}), ("reflection_pad2d", ([1, 2, 0, 0],), (4, 4, 8, 5), {0, 1, 2}),
    ("replication_pad1d", ([1, 2],), (4, 8, 5), {0, 1}), ("_pad_circular", ([1, 2],), (4, 6, 5), {0, 1}),
    ("tril", (), (4, 6, 5), {0}), ("unfold_backward", ([4, 6, 8], 1, 2, 2), None, {0, 2}),
]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name, more, sizes, dims", MOVED)
def test_dims_whose_places_stay_are_split(name, more, sizes, dims, ranks):
    x = torch.arange(float(torch.Size(sizes).numel())).view(sizes) if sizes else torch.arange(4.0 * 3 * 8 * 2).view(4, 3, 8, 2)
    func = getattr(torch.ops.aten, name).default
    want = [func(x, *more)]
    _, _, strategies, shapes = _C._shard(func._op, (x, *more), None, ranks, ())
    assert {s[0][0] for s in strategies if s[0][0] >= 0} == dims
    for s in strategies:
        check(func, (x, *more), {}, s, want, ranks, shapes, (name, more, s))


def test_numbers_of_a_wrapped_tensor_are_read():
    """tensor_split reads places of tensors that have no bytes of their own by their handler."""
    x = torch.arange(12.0).view(6, 2)
    for places in (torch.tensor(2), torch.tensor([1, 4])):
        wrapped = OnRanks([places] * 2, REPLICATE, places.shape)
        for got, want in zip(torch.tensor_split(OnRanks([x] * 2, REPLICATE, x.shape), wrapped), torch.tensor_split(x, places)):
            same(got.whole(), want, places)
