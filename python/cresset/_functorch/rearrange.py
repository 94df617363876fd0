"""func.rearrange: dims by names."""
import functools
import math
import re

from .. import _C

_TOKEN = re.compile(r"\s*(\.\.\.|\(|\)|[A-Za-z_]\w*|\d+)")


def _side(text, pattern):
    """The dims of a side: names, "...", and tuples of names that are one dim."""
    dims, inner, at, text = [], None, 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"Invalid character {text[at:].strip()[:1]!r} in the pattern {pattern!r}")
        word, at = found.group(1), found.end()
        if word in "()":
            if (word == "(") == (inner is not None):
                raise ValueError(f"Brackets are not balanced in the pattern {pattern!r}")
            if word == ")":
                dims.append(tuple(inner))
            inner = [] if word == "(" else None
            continue
        if word.isdigit():
            if word != "1":
                raise ValueError(f"Only the number 1 is a dim in a pattern, got {word} in {pattern!r}")
            word = ""  # of size 1
        (dims if inner is None else inner).extend([word] if word or inner is None else [])
    if inner is not None:
        raise ValueError(f"Brackets are not balanced in the pattern {pattern!r}")
    return dims


def _names(dims):
    return [name for dim in dims for name in (dim if isinstance(dim, tuple) else (dim,)) if name]


@functools.lru_cache(256)
def _read(pattern):
    left, arrow, right = pattern.partition("->")
    if not arrow or "->" in right:
        raise ValueError(f"Pattern must contain one '->' separator: {pattern!r}")
    left, right = _side(left, pattern), _side(right, pattern)
    for names in (_names(left), _names(right)):
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"Dims {repeated} are more than once in a side of {pattern!r}")
    if set(_names(left)) != set(_names(right)):
        raise ValueError(f"Identifiers only on one side of expression (should be on both): "
                         f"{sorted(set(_names(left)) ^ set(_names(right)))}")
    if any("..." in dim for dim in left if isinstance(dim, tuple)):
        raise ValueError(f"An ellipsis is not allowed in brackets on the left side: {pattern!r}")
    return left, right


def _sizes(left, shape, known, pattern):
    """{name: size} of the left side's names."""
    sizes = dict(known)
    for dim, size in zip(left, shape):
        if dim == "":
            if size != 1:
                raise ValueError(f"A dim of size {size} cannot be 1 in {pattern!r}")
            continue
        names = dim if isinstance(dim, tuple) else (dim,)
        missing = [name for name in names if name not in sizes]
        rest = math.prod(sizes[name] for name in names if name in sizes)
        if len(missing) > 1:
            raise ValueError(f"Could not infer sizes for {missing} in {pattern!r}")
        if size % rest if missing and rest else size != rest:
            raise ValueError(f"A dim of size {size} does not fit the sizes of {dim} in {pattern!r}: "
                             f"{ {name: sizes[name] for name in names if name in sizes} }")
        if missing:
            sizes[missing[0]] = size // rest if rest else 0
    return sizes


def rearrange(tensor, pattern, **axes_lengths):
    """See func.rearrange."""
    if not isinstance(tensor, _C.Tensor):
        tensor = _C.stack(list(tensor))
    left, right = _read(pattern)
    unknown = sorted(set(axes_lengths) - set(_names(left)))
    if unknown:
        raise ValueError(f"Sizes are given for {unknown}, which are not in {pattern!r}")
    more = tensor.dim() - (len(left) - left.count("..."))
    if more < 0 or (more and "..." not in left):
        raise ValueError(f"Number of dimensions in pattern ({len(left)}) and tensor ({tensor.dim()}) must be equal: {pattern!r}")
    rest = tuple(f"...{i}" for i in range(more))
    def spread(dims):
        return [part for dim in dims for part in (rest if dim == "..." else (
            tuple(n for name in dim for n in (rest if name == "..." else (name,))),) if isinstance(dim, tuple) else (dim,))]
    left, right = spread(left), spread(right)
    sizes = _sizes(left, tensor.shape, axes_lengths, pattern)
    order, wanted = _names(left), _names(right)
    split = tensor.reshape([sizes[name] for name in order])
    moved = split.permute([order.index(name) for name in wanted])
    return moved.reshape([math.prod(sizes[n] for n in (dim if isinstance(dim, tuple) else (dim,)) if n) for dim in right])
