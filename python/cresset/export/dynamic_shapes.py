"""Dim and dynamic_shapes: sizes that may vary in an exported program."""
import dataclasses
import enum
import sys

from .. import Tensor
from .._dynamo.exc import ConstraintViolationError, UserError
from ..utils._pytree import SUPPORTED_NODES, tree_flatten, tree_leaves, tree_map

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "dims", "refine_dynamic_shapes_from_suggested_fixes"]

INFINITY = sys.maxsize  # a Dim without an upper bound


class _DimHintType(enum.Enum):
    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclasses.dataclass(frozen=True)
class _DimHint:
    """Dim.AUTO, Dim.DYNAMIC or Dim.STATIC, with bounds: Dim.DYNAMIC(max=64)."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None

    def __call__(self, min=None, max=None):
        if self.min is not None or self.max is not None:
            raise AssertionError("'_DimHint' object is not callable")
        if min is not None and min < 0:
            raise AssertionError(f"min must be non-negative, got {min}")
        if max is not None and max < 0:
            raise AssertionError(f"max must be non-negative, got {max}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min, max)

    def __repr__(self):
        bounds = [f"{name}={x}" for name, x in (("min", self.min), ("max", self.max)) if x is not None]
        return f"DimHint({', '.join([self.type.name, *bounds])})"


class Dim:
    """A size that may vary in an exported program, with a name and bounds.

    Sizes with the same Dim are equal in every call.  2 * dim + 1 is a Dim, too.  Dim.AUTO may vary if the program
    allows it, Dim.DYNAMIC must vary, Dim.STATIC does not.

    Example::

        >>> torch.export.Dim("batch", min=2, max=64)
        Dim('batch', max=64)
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, INFINITY if max is None else max
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    root, scale, offset = None, 1, 0

    def _check(self, x, verb, preposition, kind):
        least = 1 if "positive" in kind else None
        if type(x) is not int or least is not None and x < least:
            raise NotImplementedError(f"Attempted to {verb} {x} {preposition} {self.__name__}, where {kind} was expected. (Only "
                                      "increasing linear operations with integer coefficients are supported.)")

    def __add__(self, other):
        self._check(other, "add", "to", "an integer")
        return _DerivedDim(self.root or self, self.scale, self.offset + other)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        self._check(other, "subtract", "from", "an integer")
        return _DerivedDim(self.root or self, self.scale, self.offset - other)

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. (Only increasing linear operations with integer "
                                  "coefficients are supported.)")

    def __mul__(self, other):
        self._check(other, "multiply", "with", "a positive integer")
        return _DerivedDim(self.root or self, self.scale * other, self.offset * other)

    def __rmul__(self, other):
        return self * other

    def __repr__(self):
        low = "" if self.min == 2 else f", min={self.min}"  # torch leaves out the least size that it does not fix
        high = "" if self.max == INFINITY else f", max={self.max}"
        return f"Dim('{self.__name__}'{low}{high})"

    __str__ = __repr__


class _DerivedDim(Dim):
    """scale * root + offset."""

    def __init__(self, root, scale, offset):
        self.root, self.scale, self.offset = root, scale, offset
        times = root.__name__ if scale == 1 else f"{scale}*{root.__name__}"
        self.__name__ = times if not offset else f"{times} {'+' if offset > 0 else '-'} {abs(offset)}"

    @property
    def min(self):
        least = self.scale * self.root.min + self.offset
        if least < 0:
            raise AssertionError(f"Expected derived min value of {self.__name__} to be >= 0. Please specify an appropriate min value for "
                                 f"{self.root.__name__} (currently {self.root.min}).")
        return least

    @property
    def max(self):
        return INFINITY if self.root.max == INFINITY else self.scale * self.root.max + self.offset

    def __repr__(self):
        return self.__name__

    __str__ = __repr__


def dims(*names, min=None, max=None):
    """Returns a Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class Constraint:
    """A size of an argument, and the Dim that states its bounds."""

    def __init__(self, name, dim, tensor):
        self.name, self.dim, self.tensor = name, dim, tensor


class DimSpec:
    """One dim of an argument, and what dynamic_shapes says about it."""

    def __init__(self, leaf, dim, spec):
        self.leaf, self.dim, self.spec = leaf, dim, spec
        self.hint = leaf.value.shape[dim]
        self.source = f"{leaf.source}.size()[{dim}]"
        self.name = spec.__name__ if isinstance(spec, Dim) else self.source
        self.number = None  # of the recording

    @property
    def is_hint(self):
        return isinstance(self.spec, _DimHint)

    @property
    def wanted(self):
        """Whether a size that cannot vary is an error."""
        return not (self.is_hint and self.spec.type is _DimHintType.AUTO)

    @property
    def varies(self):
        return self.hint > 1

    @property
    def bounds(self):
        """The least and greatest size; None: no greatest."""
        low, high = self.spec.min, self.spec.max
        return low if low is not None else 0, None if high in (None, INFINITY) else high


# --- from dynamic_shapes ---

_LINK = ("For more information about this error, see: https://pytorch.org/docs/main/generated/exportdb/index.html#"
         "dynamic-shapes-validation")


def _refuse_shape(shape, path, why="(expected either a list/tuple of dimensions, or a dict mapping indices to dimensions, where "
                  "each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)"):
    raise UserError(f"Unexpected input tensor shape {shape} specified at `{path}` {why}\n{_LINK}")


def _check_dim(i, dim, path, shape):
    if not (dim is None or isinstance(dim, (int, Dim, _DimHint))):
        where, gap = (f"mapped to index {i}", "  ") if isinstance(shape, dict) else (f"#{i}", " ")  # torch's text has two spaces
        raise UserError(f"Unexpected dimension {where} in input tensor shape {shape} specified at `{path}` (expected None, an int, a Dim, "
                        f"Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC,{gap}but got {dim!r} instead)\n{_LINK}")


def _shape_items(shape, tensor, path):
    """(dim, spec) of a tensor's entry in dynamic_shapes."""
    if shape is None:
        return []
    if isinstance(shape, dict):
        items = list(shape.items())
        for i, dim in items:
            if type(i) is not int:
                raise TypeError(f"list indices must be integers or slices, not {type(i).__name__}")
            if not -tensor.dim() <= i < tensor.dim():
                raise IndexError(f"`{path}` has the dim {i}, but the tensor has {tensor.dim()} dims")
            _check_dim(i, dim, path, shape)
    elif isinstance(shape, (list, tuple)):
        items = list(enumerate(shape))
        for i, dim in items:
            _check_dim(i, dim, path, shape)
        if len(shape) != tensor.dim():
            raise UserError(f"Expected dynamic shape spec {shape} specified at `{path}` to have the same length as the actual tensor "
                            f"shape {tensor.shape} (expected {tensor.dim()}, but got {len(shape)} instead)\n{_LINK}")
    else:
        _refuse_shape(shape, path)
    return [(i % tensor.dim(), dim) for i, dim in items]


def _mismatch(what):
    raise UserError(f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: {what}\n{_LINK}")


def _children(x):
    """The items of a container by key; None for a leaf."""
    if isinstance(x, dict):
        return dict(x)
    if isinstance(x, (list, tuple)):
        return dict(enumerate(x))
    node = SUPPORTED_NODES.get(type(x))
    return None if node is None else dict(enumerate(node.flatten_fn(x)[0]))


def _walk(x, shape, path, out, where):
    """Adds (tensor leaf, its entry, path) for all leaves of an argument."""
    children = None if isinstance(x, Tensor) else _children(x)
    if children is None:
        out.append((x, shape, path))
        return
    if shape is None:
        for key, child in children.items():
            _walk(child, None, f"{path}[{key!r}]", out, where)
        return
    parts = _children(shape)
    if parts is None:
        _mismatch(f"`inputs{where}` is a {type(x)}, but `dynamic_shapes{where}` is not")
    if isinstance(x, (list, tuple, dict)) and not _same_kind(x, shape):
        _mismatch(f"`inputs{where}` is a {type(x)}, but `dynamic_shapes{where}` is a {type(shape)}")
    if len(parts) != len(children):
        _mismatch(f"`inputs{where}` has {len(children)} elements, but `dynamic_shapes{where}` has {len(parts)} elements")
    if isinstance(x, dict) and set(parts) != set(children):
        _mismatch(f"`inputs{where}` has keys {list(children)}, but `dynamic_shapes{where}` has keys {list(parts)}")
    for key, child in children.items():
        _walk(child, parts[key], f"{path}[{key!r}]", out, f"{where}[{key!r}]")


def _same_kind(x, shape):
    return isinstance(shape, next(kind for kind in (dict, list, tuple) if isinstance(x, kind)))


def _advice(named, dynamic_shapes):
    only = next(iter(named.values())) if len(named) == 1 else None
    if isinstance(only, dict) and set(only) == set(dynamic_shapes):
        return ("Since here `inputs` is a list/tuple enclosing a single dict, maybe you just forgot to enclose `dynamic_shapes` in a "
                "list/tuple?\n")
    return "Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`. "


def _check_definitions(specs):
    """Raises if two Dims of one name have other bounds."""
    known = {}
    for spec in specs:
        root = spec.root or spec
        first = known.setdefault(root.__name__, root)
        if (first.min, first.max) != (root.min, root.max):
            raise UserError(f"Found different definitions {first} and {root} for the same symbolic dimension {root}!")


def _entries(named, dynamic_shapes):
    """(argument's leaf, entry, path) for all leaves of the arguments."""
    out = []
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(named):
            raise UserError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {list(named)} of `inputs`, but "
                f"here they are {list(dynamic_shapes)}. {_advice(named, dynamic_shapes)}{_LINK}")
        for name, x in named.items():
            _walk(x, dynamic_shapes[name], f"dynamic_shapes[{name!r}]", out, f"[{name!r}]")
        return out
    if len(dynamic_shapes) != len(named):
        _mismatch(f"`inputs` has {len(named)} elements, but `dynamic_shapes` has {len(dynamic_shapes)} elements")
    for i, (x, shape) in enumerate(zip(named.values(), dynamic_shapes)):
        _walk(x, shape, f"dynamic_shapes[{i}]", out, f"[{i}]")
    return out


def _check_static(spec, leaf, dim):
    if leaf.value.shape[dim] != spec:
        raise ConstraintViolationError(f"Static shape constraint of {spec} does not match input size of {leaf.value.shape[dim]}, for "
                                       f"{leaf.source}.size()[{dim}]")


def dim_specs(mod, args, kwargs, leaves, dynamic_shapes):
    """The DimSpec of each size that may vary, in the order of the arguments."""
    from ._inputs import named_arguments
    if dynamic_shapes is None or isinstance(dynamic_shapes, (dict, list, tuple)) and not dynamic_shapes:
        return []
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    if not isinstance(dynamic_shapes, (dict, list, tuple)):
        raise UserError(f"Expected dynamic_shapes to be a dict, list or tuple, got {type(dynamic_shapes)}")
    named = named_arguments(mod, args, kwargs)
    by_tensor, out = {}, []
    for leaf in leaves:
        by_tensor.setdefault(id(leaf.value), []).append(leaf)
    for x, shape, path in _entries(named, dynamic_shapes):
        if not isinstance(x, Tensor):
            if isinstance(shape, (Dim, dict, list, tuple)) or isinstance(shape, _DimHint) and shape.type is _DimHintType.DYNAMIC:
                raise UserError(f"Cannot associate shape {shape} specified at `{path}` to non-tensor type {type(x)} at `inputs"
                                f"{path.removeprefix('dynamic_shapes')}` (expected None)\n{_LINK}")
            continue
        leaf = by_tensor[id(x)].pop(0) if len(by_tensor[id(x)]) > 1 else by_tensor[id(x)][0]
        for dim, spec in _shape_items(shape, x, path):
            if type(spec) is int:
                _check_static(spec, leaf, dim)
            elif spec is not None and not (isinstance(spec, _DimHint) and spec.type is _DimHintType.STATIC):
                out.append(DimSpec(leaf, dim, spec))
    _check_definitions(x.spec for x in out if isinstance(x.spec, Dim))
    return out


# --- collections ---

class ShapesCollection:
    """Sizes that may vary, by tensor: shapes[x] = {0: Dim("batch")}; an argument of export()."""

    def __init__(self):
        self._shapes, self._tensors = {}, {}

    def __setitem__(self, t, shape):
        if not isinstance(t, Tensor):
            raise AssertionError(f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}")
        old = self._shapes.get(id(t), shape)
        if old != shape:
            raise AssertionError(f"Shapes assigned to input do not match: expected {old}, got {shape}")
        self._shapes[id(t)], self._tensors[id(t)] = shape, t

    def __getitem__(self, t):
        return self._shapes.setdefault(id(t), {}) if self._tensors.setdefault(id(t), t) is t else None

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The dynamic_shapes of a call."""
        from ._inputs import named_arguments
        found = set()

        def shape_of(x):
            if id(x) in self._shapes:
                found.add(id(x))
                return self._shapes[id(x)]
            return None
        out = tree_map(shape_of, named_arguments(m, args, kwargs or {}))
        if found != set(self._shapes):
            raise ValueError("Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when passing "
                             "them as args? Maybe such tensors are contained in classes that were not registered with pytree?")
        return out


class AdditionalInputs:
    """Further calls, from which the sizes that vary follow; an argument of export()."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        """Adds a call."""
        if not isinstance(args, tuple):
            raise AssertionError(f"Representative args {args} must be a tuple")
        if not (kwargs is None or isinstance(kwargs, dict)):
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args, kwargs=None):
        """The dynamic_shapes of a call: Dim.DYNAMIC for sizes that differ among the calls."""
        from ._inputs import named_arguments
        calls = [named_arguments(m, a, k or {}) for a, k in [(args, kwargs), *self._examples]]
        flat, spec = tree_flatten(calls[0])
        others = [tree_flatten(call) for call in calls[1:]]
        if any(s != spec for _, s in others):
            raise ValueError("The calls' arguments have different structures")

        def shape(i, x):
            if not isinstance(x, Tensor):
                return None
            rest = [leaves[i].shape for leaves, _ in others]
            return tuple(Dim.DYNAMIC if any(r[d] != x.shape[d] for r in rest) else None for d in range(x.dim()))
        from ..utils._pytree import tree_unflatten
        return tree_unflatten([shape(i, x) for i, x in enumerate(flat)], spec)

    def verify(self, ep):
        """Calls the program with each call's arguments."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """dynamic_shapes with the fixes that an error of export() suggests."""
    import re
    text = msg.partition("Suggested fixes:")[2]
    fixes = dict(re.findall(r"^\s+(\w+) = (.+)$", text, re.MULTILINE))

    def fixed(x):
        if not isinstance(x, Dim) or x.__name__ not in fixes:
            return x
        fix = fixes[x.__name__]
        if fix.isdigit():
            return int(fix)
        bounds = {k: int(v) for k, v in re.findall(r"(min|max)=(\d+)", fix)}
        return Dim(x.__name__, **bounds) if fix.startswith("Dim(") else made(fix)

    def made(fix):
        scale, name, offset = re.fullmatch(r"(?:(\d+)\*)?(\w+)(?: ([+-] \d+))?", fix).groups()
        root = known.setdefault(name, Dim(name))
        out = root if scale is None else int(scale) * root
        return out if offset is None else out + int(offset.replace(" ", ""))
    known = {x.__name__: x for x in tree_leaves(dynamic_shapes) if isinstance(x, Dim)}
    return tree_map(fixed, dynamic_shapes)
