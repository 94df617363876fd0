"""The class of nested tensors.

A call with a nested tensor runs on its parts, and its results are nested tensors again.  Which dim of a result is ragged
follows from two runs of the call on the meta device, whose ragged dims have other sizes.  Functions of single elements
and of rows run on the values of all parts at once.

A nested tensor is one node of autograd's graph.  `_Parts` makes dense tensors of it, `_Nested` makes it of dense tensors,
and both pass gradients on, so all derivatives are those of dense tensors.
"""
import inspect

from ... import _C
from ..._C import Tensor
from ...autograd import Function

__all__ = ["NestedTensor", "jagged_from_list", "nested_view_from_values_offsets"]

_DIMS = frozenset(("dim", "dim0", "dim1", "dims", "axis", "start_dim", "end_dim", "source", "destination"))
_SIZES = frozenset(("size", "shape"))


class NestedInt:
    """The size of a ragged dim; it is equal to that of tensors with the same offsets."""

    count = 0

    def __init__(self):
        NestedInt.count += 1
        self.number = NestedInt.count

    def __repr__(self):
        return f"j{self.number}"


class NestedSize(tuple):
    """The sizes of a nested tensor."""

    def __repr__(self):
        return f"torch.Size([{', '.join(map(repr, self))}])"

    def numel(self):
        raise RuntimeError("the number of elements does not follow from the sizes of a nested tensor")


def _filled(number, count, device):
    return _C.full((count,), number, dtype=_C.int64, device=device)


def _offsets_of(lengths):
    return _C.cat([lengths.new_zeros(1, dtype=_C.int64), lengths.cumsum(0)])


def _size_of_ragged(offsets):
    """The offsets' NestedInt."""
    if "_nested_int" not in offsets.__dict__:
        offsets._nested_int = NestedInt()
    return offsets._nested_int


# --- the graph ---

class _Parts(Function):
    """The tensors of a nested tensor: its values, or its parts."""

    @staticmethod
    def forward(ctx, nested):
        ctx.like = nested
        return tuple(x.detach() for x in nested._tensors)

    @staticmethod
    def backward(ctx, *grads):
        like = ctx.like
        return like._with([g if g is not None else x.new_zeros(x.shape) for g, x in zip(grads, like._tensors)])


class _Nested(Function):
    """A nested tensor with the history of its tensors."""

    @staticmethod
    def forward(ctx, form, *tensors):
        return form([x.detach() for x in tensors])

    @staticmethod
    def backward(ctx, grad):
        return None, *grad._tensors


def _made(form, tensors):
    if _C.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return _Nested.apply(form, *tensors)
    return form(tensors)


# --- making ---

def _jagged(offsets, lengths, ragged):
    return lambda tensors: NestedTensor._new(tensors, offsets, lengths, ragged)


def _strided(tensors):
    return NestedTensor._new(tensors, None, None, None)


def _of_values(values, offsets, lengths, ragged):
    if offsets.dim() != 1 or not 1 <= ragged <= values.dim():
        raise RuntimeError(f"nested_tensor_from_jagged(): offsets have 1 dim, and jagged_dim is 1 to {values.dim()}, "
                           f"but got {offsets.dim()} dims and jagged_dim {ragged}")
    ends = offsets[:-1] + lengths if lengths is not None else offsets
    if offsets.numel() == 0 or (offsets.numel() > 1 and (
            offsets.min() < 0 or ends.max() > values.size(ragged - 1) or (offsets.diff() < 0).any() or
            (lengths is not None and lengths.min() < 0))):
        raise RuntimeError(f"nested_tensor_from_jagged(): offsets and lengths are outside the values' size {values.size(ragged - 1)}")
    return _made(_jagged(offsets, lengths, ragged), [values])


def _ragged_dim(parts):
    """The dim, counted from 1, in which the parts' sizes differ; 1 when none does."""
    first, differing = parts[0].shape, set()
    for x in parts:
        differing.update(d for d in range(len(first)) if x.shape[d] != first[d])
    if len(differing) > 1:
        raise RuntimeError("Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
                           "layout only represents shapes of the form (B, *_0, *_1, ..., *_N) where only one * dim is ragged. "
                           "Found dims that vary: " + ", ".join(map(str, sorted(d + 1 for d in differing))))
    return differing.pop() + 1 if differing else 1


def _joined(parts, ragged, offsets=None):
    """A jagged tensor of parts; `offsets` are those of another tensor, which it shares if they fit."""
    lengths = [x.size(ragged - 1) for x in parts]
    made = _offsets_of(_C.tensor(lengths, device=parts[0].device))
    if offsets is not None and offsets.shape == made.shape and _C.equal(made.to(offsets.dtype), offsets):
        made = offsets
    return _made(_jagged(made, None, ragged), [_C.cat(parts, ragged - 1)])


def _check_parts(parts):
    for i, x in enumerate(parts):
        if x.dim() != parts[0].dim():
            raise RuntimeError("All Tensors given to nested_tensor must have the same dimension. "
                               f"Found dimension {x.dim()} for Tensor at index {i} and dimension {parts[0].dim()} for Tensor at index 0.")
        if x.dtype != parts[0].dtype:
            raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dtype")
        if x.device != parts[0].device:
            raise RuntimeError("When constructing a nested tensor, all tensors in list must be on the same device")


def _of_parts(parts, layout):
    _check_parts(parts)
    if layout == _C.strided:
        return _made(_strided, parts) if parts else _strided([_C.zeros(0)])
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if parts[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor with the jagged layout from tensors without dims")
    return _joined(parts, _ragged_dim(parts))


# --- calls ---

def _map(x, function):
    if isinstance(x, (list, tuple)):
        items = [_map(item, function) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return function(x)


def _leaves(x):
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for item in x for leaf in _leaves(item)] if isinstance(x, (list, tuple)) else [x]


def _records():
    """{name: the table's entries of it}"""
    if not hasattr(_records, "made"):
        _records.made = {}
        for record in _C._records():
            _records.made.setdefault(record["name"], []).append(record)
    return _records.made


class _Call:
    """A call with nested tensors.  Attribute `like` is the first of them."""

    def __init__(self, func, args, kwargs):
        self.func, self.name = func, getattr(func, "__name__", str(func))
        nested = [x for x in _leaves([args, kwargs]) if isinstance(x, NestedTensor)]
        self.like = nested[0]
        self.records = _records().get(self.name.strip("_") if self.name.startswith("__") else self.name, [])
        self.args, self.kwargs = args, kwargs
        for x in nested[1:]:
            self.check(x)

    def check(self, other):
        a, b = self.like, other
        fits = len(a._tensors) == len(b._tensors) and (
            a._offsets is b._offsets if a._offsets is not None else b._offsets is None)
        if not fits:
            raise RuntimeError(f"cannot call binary pointwise function {self.name} with inputs of shapes "
                               f"{tuple(a._sizes())} and {tuple(b._sizes())}")

    def names(self):
        """The parameters' names, in order."""
        if inspect.isfunction(self.func):
            return list(inspect.signature(self.func).parameters)
        fitting = [r for r in self.records if len(r["params"]) >= len(self.args)] or self.records
        dims = [r for r in fitting if any(p["name"] in _DIMS for p in r["params"])]
        chosen = dims if len(self.args) > 1 or self.kwargs else fitting
        return [p["name"] for p in (chosen or fitting)[0]["params"]] if fitting else []

    def list_parameter(self):
        """The name of a list of integers that is the only argument, and may be given item by item; None without one."""
        for record in self.records:
            names = [(p["name"], p["type"]) for p in record["params"][1:] if not p["keyword_only"]]
            if len(names) == 1 and names[0][1].startswith("int["):
                return names[0][0]
        return None

    def named(self):
        """(name, value) of each argument."""
        names = self.names()
        positional = [(names[i] if i < len(names) else names[-1] if names else "", x) for i, x in enumerate(self.args)]
        return positional, list(self.kwargs.items())

    def elementwise(self):
        return any(r["does"] == "body" or "pointwise" in (r["tags"] or "") or {"identity", "cast"} & set(r["words"])
                   for r in self.records)

    # functions in place

    def changed(self):
        """The argument that a function in place changes; None of other functions."""
        positional, named = self.named()
        every = positional + named
        given = dict(every)
        if given.get("out") is not None:
            return given["out"]
        augmented = self.name.startswith("__i") and hasattr(Tensor, "__" + self.name[3:])  # __iadd__
        plain = self.name.endswith("_") and not self.name.startswith("__")
        return every[0][1] if plain or augmented or given.get("inplace") is True else None

    def check_in_place(self, changed):
        """Refuses changes that the graph has no node for."""
        if self.name == "__setitem__":
            raise RuntimeError(f"{self.name}(): not supported for NestedTensor")
        if changed is None:
            return
        if not isinstance(changed, NestedTensor):
            raise RuntimeError(f"{self.name}(): a tensor that is not nested is not changed by nested tensors")
        if not _C.is_grad_enabled():
            return
        if changed.requires_grad and changed.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        if any(x.requires_grad for x in _leaves([self.args, self.kwargs]) if isinstance(x, Tensor)):
            raise RuntimeError(f"{self.name}(): a nested tensor is not changed in place where a derivative is recorded")

    # dims and sizes

    def dim(self, d, ndim):
        if isinstance(d, (list, tuple)):
            return type(d)(self.dim(x, ndim) for x in d)
        if not isinstance(d, int) or isinstance(d, bool):
            return d
        if not -ndim <= d < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
        if d % ndim == 0:
            raise RuntimeError(f"{self.name}(): not supported for NestedTensor on dim=0")
        return d if d < 0 else d - 1

    def size(self, sizes, i):
        like = self.like
        if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
            sizes = sizes[0]
        if sizes[0] not in (len(like), -1):
            raise RuntimeError(f"{self.name}(): the first size must be the batch's, {len(like)}, but got {sizes[0]}")
        return tuple(like._length(i) if isinstance(s, NestedInt) else s for s in sizes[1:])

    def argument(self, name, x, i, part):
        ndim = self.like.dim() + (self.name in ("unsqueeze", "stack"))
        if name in _DIMS:
            return self.dim(x, ndim)
        if name in _SIZES and not self.name.startswith("new_") and isinstance(x, (list, tuple)):
            return self.size(x, i)
        return _map(x, lambda leaf: part(leaf, i))

    def run(self, i, part):
        positional, named = self.named()
        alone = self.list_parameter()
        if alone and len(positional) > 1:
            rest = [x for _, x in positional[1:]]
            rest = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
            if not isinstance(rest[0], _C.dtype):
                positional = [positional[0], (alone, tuple(rest))]
        if self.name == "permute" and positional[1][1][0] == 0:
            positional[1] = ("dims", positional[1][1][1:])
        args = [self.argument(name, x, i, part) for name, x in positional]
        return self.func(*args, **{name: self.argument(name, x, i, part) for name, x in named})

    # parts

    def part(self, x, i):
        if isinstance(x, NestedTensor):
            return self.parts[id(x)][i]
        if isinstance(x, Tensor) and x.dim() == self.like.dim():
            if x.size(0) not in (1, len(self.like)):
                raise RuntimeError(f"{self.name}(): a tensor of sizes {list(x.shape)} does not fit to a nested tensor of "
                                   f"sizes {list(self.like._sizes())}")
            return x[i if x.size(0) > 1 else 0]
        return x

    def probe(self, length):
        """The results' sizes for parts whose ragged dim has a length."""
        def part(x, i):
            if isinstance(x, NestedTensor):
                size = list(x._tensors[0].shape)
                size[x._ragged - 1] = length
                return _C.empty(size, dtype=x.dtype, device="meta")
            x = self.part(x, i)
            return x.detach().to("meta") if isinstance(x, Tensor) else x
        like = self.like
        held, like._length = like._length, lambda i: length
        try:
            return [tuple(x.shape) for x in _leaves([self.run(0, part)]) if isinstance(x, Tensor)]
        finally:
            like._length = held

    def ragged(self, results):
        """For each tensor of a result, the ragged dim counted from 1; None if there is none."""
        try:
            few, many = self.probe(5), self.probe(7)
        except Exception:  # a call that reads elements: what the parts have tells
            few, many = ([tuple(x.shape) for x in _leaves([r]) if isinstance(x, Tensor)] for r in (results[0], results[-1]))
        found = []
        for a, b in zip(few, many):
            if len(a) != len(b):
                raise RuntimeError(f"{self.name}(): the results of the parts have different dims")
            differing = [d for d in range(len(a)) if a[d] != b[d]]
            if len(differing) > 1:
                raise RuntimeError(f"{self.name}(): not supported between inputs of shapes {tuple(self.like._sizes())}: "
                                   "more than one dim of the result is ragged")
            found.append(differing[0] + 1 if differing else None)
        return found

    def gathered(self, items, ragged):
        if self.like._offsets is None:
            return _made(_strided, items)
        return _C.stack(items) if ragged is None else _joined(items, ragged, self.like._offsets)

    def by_parts(self, changed=None):
        nested = [x for x in _leaves([self.args, self.kwargs]) if isinstance(x, NestedTensor)]
        self.parts = {id(x): x._parts() for x in nested}
        held = [(x.shape, x.stride()) for x in self.parts[id(changed)]] if changed is not None else None
        results = [self.run(i, self.part) for i in range(len(self.like))]
        if changed is not None:
            if changed._offsets is not None and held != [(x.shape, x.stride()) for x in self.parts[id(changed)]]:
                raise RuntimeError(f"{self.name}(): the sizes of a jagged tensor are not changed in place")
            return changed
        if not isinstance(results[0], (Tensor, list, tuple)):
            raise RuntimeError(f"{self.name}(): not supported for NestedTensor")
        ragged = iter(self.ragged(results) if self.like._offsets is not None else [None] * len(_leaves([results[0]])))

        def zipped(items):
            if isinstance(items[0], (list, tuple)):
                made = [zipped([x[k] for x in items]) for k in range(len(items[0]))]
                kind = type(items[0])
                return kind(made) if kind in (list, tuple) or not hasattr(kind, "_fields") else kind(*made)
            return self.gathered(items, next(ragged))
        return zipped(results)

    # values of all parts at once

    def fits_values(self):
        like = self.like
        if like._offsets is None:
            return False
        behind = like.dim() - 1 - like._ragged
        plain = [x for x in _leaves([self.args, self.kwargs]) if isinstance(x, Tensor) and not isinstance(x, NestedTensor)]
        same = all(x._ragged == like._ragged and x.dim() == like.dim() and x._lengths is like._lengths
                   for x in _leaves([self.args, self.kwargs]) if isinstance(x, NestedTensor))
        if any("rows" in r["words"] for r in self.records):
            return like._ragged == 1 and same
        return self.elementwise() and same and all(x.dim() <= behind for x in plain)

    def on_values(self, changed=None):
        def values(x):
            return x._open()[0] if isinstance(x, NestedTensor) else x
        like, kwargs = self.like, {name: _map(x, values) for name, x in self.kwargs.items()}
        made = self.func(*_map(tuple(self.args), values), **kwargs)
        if changed is not None:
            return changed
        if like._ragged != 1 and any(made.size(d) != like._tensors[0].size(d) for d in range(like._ragged)):
            raise RuntimeError(f"{self.name}(): the ragged dim has changed")
        return _made(_jagged(like._offsets, like._lengths, like._ragged), [made])

    # reductions

    def reduced_dims(self):
        """The dims of a reduction as a tuple; None where there are none; False where the call is no reduction."""
        if not any(r["does"] == "fold" or any(p["name"] == "keepdim" for p in r["params"]) for r in self.records):
            return False
        given = dict(self.named()[0][1:] + self.named()[1])
        dims = [x for name, x in given.items() if name in ("dim", "axis")]
        if not dims or dims[0] is None or isinstance(dims[0], Tensor):
            return None if not any(isinstance(x, Tensor) for x in given.values()) else False
        return tuple(d % self.like.dim() for d in (dims[0] if isinstance(dims[0], (list, tuple)) else [dims[0]]))

    def reduce(self, dims):
        like = self.like
        if dims is None:
            flat = _C.cat([x.reshape(-1) for x in like._parts()])
            return self.func(flat, *self.args[1:], **self.kwargs)
        if like._ragged is None or like._ragged not in dims:
            raise RuntimeError(f"{self.name}(): reducing along the batch dimension but not the ragged dimension is not "
                               "supported for nested tensors")
        moved = _C.cat([x.movedim(like._ragged - 1, 0) for x in like._parts()])  # the ragged dim first
        rest = [d for d in range(1, like.dim()) if d != like._ragged]
        wanted = tuple([0] + [1 + rest.index(d) for d in dims if d not in (0, like._ragged)])
        kwargs = {name: x for name, x in self.kwargs.items() if name not in ("dim", "axis")}
        return self.func(moved, wanted, *self.args[2:], **kwargs)

    def result(self):
        changed = self.changed()
        self.check_in_place(changed)
        dims = self.reduced_dims()
        if dims is None or (dims and 0 in dims):
            return self.reduce(dims)
        return self.on_values(changed) if self.fits_values() else self.by_parts(changed)


class NestedTensor(Tensor):
    """A batch of tensors whose sizes differ."""

    @staticmethod
    def __new__(cls, values, offsets, *, lengths=None, requires_grad=False, _ragged_idx=1, **options):
        made = _of_values(values.detach(), offsets, lengths, _ragged_idx)
        return made.requires_grad_() if requires_grad else made

    def __init__(self, *args, **kwargs):
        pass

    @staticmethod
    def _new(tensors, offsets, lengths, ragged):
        """tensors: the values of a jagged tensor, or the parts of a strided one."""
        first = tensors[0]
        made = Tensor._make_wrapper_subclass(NestedTensor, (sum(x.numel() for x in tensors),), dtype=first.dtype,
                                             device=first.device)
        made._tensors, made._offsets, made._lengths, made._ragged = list(tensors), offsets, lengths, ragged
        return made

    def _with(self, tensors):
        """Other tensors in the same places."""
        return NestedTensor._new(tensors, self._offsets, self._lengths, self._ragged)

    def _open(self):
        """The tensors with this one's history."""
        if self.requires_grad and _C.is_grad_enabled():
            return _Parts.apply(self)
        return tuple(self._tensors)

    def _bounds(self):
        starts = self._offsets.tolist()
        ends = starts[1:] if self._lengths is None else [a + n for a, n in zip(starts, self._lengths.tolist())]
        return list(zip(starts, ends))

    def _parts(self):
        opened = self._open()
        if self._offsets is None:
            return list(opened)
        return [opened[0].narrow(self._ragged - 1, a, b - a) for a, b in self._bounds()]

    def _length(self, i):
        a, b = self._bounds()[i]
        return b - a

    def _sizes(self):
        if self._offsets is None:
            shapes = {tuple(x.shape) for x in self._tensors}
            return [len(self)] + [d[0] if len(set(d)) == 1 else -1 for d in zip(*shapes)]
        size = list(self._tensors[0].shape)
        size[self._ragged - 1] = _size_of_ragged(self._offsets)
        return [len(self), *size]

    # what a tensor tells

    @property
    def is_nested(self):
        return True

    @property
    def layout(self):
        return _C.strided if self._offsets is None else _C.jagged

    @property
    def shape(self):
        return self.size()

    @property
    def ndim(self):
        return self.dim()

    @property
    def _values(self):
        return self._tensors[0]

    @property
    def _ragged_idx(self):
        return self._ragged

    def size(self, dim=None):
        sizes = self._sizes()
        if dim is None:
            if -1 in sizes:
                raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
            return NestedSize(sizes)
        if not -len(sizes) <= dim < len(sizes):
            raise IndexError(f"Dimension out of range (expected to be in range of [{-len(sizes)}, {len(sizes) - 1}], but got {dim})")
        if sizes[dim] == -1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return sizes[dim]

    def dim(self):
        return self._tensors[0].dim() + 1

    def numel(self):
        return sum(x.numel() for x in self._parts())

    def element_size(self):
        return self._tensors[0].element_size()

    def __len__(self):
        return len(self._tensors) if self._offsets is None else self._offsets.numel() - 1

    def is_contiguous(self, memory_format=_C.contiguous_format):
        return all(x.is_contiguous(memory_format=memory_format) for x in self._tensors) and self._lengths is None

    def contiguous(self, memory_format=_C.contiguous_format):
        if self.is_contiguous():
            return self
        parts = [x.contiguous(memory_format=memory_format) for x in self._parts()]
        return _made(_strided, parts) if self._offsets is None else _joined(parts, self._ragged, self._offsets)

    def values(self):
        """The tensor that has the parts one after another."""
        return self._open()[0] if self._offsets is not None else _C.cat([x.reshape(-1) for x in self._parts()])

    def offsets(self):
        """Where each part starts, and where the last one ends."""
        if self._offsets is None:
            raise AttributeError("a nested tensor of the layout strided has no offsets")
        return self._offsets

    def lengths(self):
        """The parts' lengths where they do not follow from the offsets; else None."""
        return self._lengths

    def _get_max_seqlen(self):
        return max(b - a for a, b in self._bounds())

    def _get_min_seqlen(self):
        return min(b - a for a, b in self._bounds())

    _max_seqlen, _min_seqlen = property(_get_max_seqlen), property(_get_min_seqlen)

    def stride(self, dim=None):
        if self._offsets is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")
        strides = (f"{self._tensors[0].stride(0)}*{_size_of_ragged(self._offsets)}", *self._tensors[0].stride())
        return strides if dim is None else strides[dim]

    # The library converts sizes before it asks a class: a NestedInt has no number.
    def view(self, *size):
        return _sized(Tensor.view, self, size)

    def reshape(self, *shape):
        return _sized(Tensor.reshape, self, shape)

    def expand(self, *size):
        return _sized(Tensor.expand, self, size)

    def unbind(self, dim=0):
        """The parts."""
        if dim not in (0, -self.dim()):
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        return tuple(self._parts())

    def to_padded_tensor(self, padding, output_size=None):
        """A tensor of all parts, padded at their ends."""
        from ...nn.functional import pad
        parts = self._parts()
        largest = [max(sizes) for sizes in zip(*(x.shape for x in parts))]
        if output_size is not None:
            wanted = list(output_size)[1:]
            if len(wanted) != len(largest) or any(w < n for w, n in zip(wanted, largest)):
                raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
            largest = wanted
        return _C.stack([pad(x, [n for d in reversed(range(x.dim())) for n in (0, largest[d] - x.size(d))], value=padding)
                         for x in parts])

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, index):
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"index {index} is out of bounds for dimension 0 with size {len(self)}")
            return self._parts()[index]
        index = index if isinstance(index, tuple) else (index,)
        if isinstance(index[0], int):
            return self[index[0]][index[1:]]
        if index[0] is Ellipsis and len(index) > 1:
            index = (slice(None),) * (self.dim() - len(index) + 1) + index[1:]
        if index == (Ellipsis,) or index == (slice(None),):
            return self
        if index[0] != slice(None):
            raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
        rest = index[1:]

        def get_item(part):
            return part[rest]
        with _C.DisableTorchFunctionSubclass():
            return _Call(get_item, (self,), {}).by_parts()

    def __repr__(self, *, tensor_contents=None):
        history = f", grad_fn={self.grad_fn}" if self.grad_fn is not None else ", requires_grad=True" if self.requires_grad else ""
        if self._offsets is None:
            parts = [] if not self._tensors[0].numel() and len(self) == 1 else self._tensors
            text = ",\n".join("  " + repr(x).replace("\n", "\n  ") for x in parts)
            return f"nested_tensor([\n{text}\n]{history})"
        size = ", ".join(map(repr, self._sizes()))
        return f"NestedTensor(size=({size}), offsets={self._offsets}{history}, contiguous={self.is_contiguous()})"

    # copies

    def __reduce_ex__(self, protocol):
        return _rebuilt, ([x.detach() for x in self._tensors], self._offsets, self._lengths, self._ragged, self.requires_grad)

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            return super().__deepcopy__(memo)
        made = self._with([x.detach().clone() for x in self._tensors])
        memo[id(self)] = made
        return made.requires_grad_(self.requires_grad)

    def detach(self):
        return self._with([x.detach() for x in self._tensors])

    def tolist(self):
        return [x.tolist() for x in self._tensors] if self._offsets is None else [x.tolist() for x in self._parts()]

    # calls

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in _OWN or getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__"):  # or a property, as grad
            with _C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if getattr(func, "__name__", "") in _METHODS:  # a function, or Tensor's method, of which the class has its own
            return getattr(NestedTensor, func.__name__)(*args, **kwargs)
        with _C.DisableTorchFunctionSubclass():
            return _Call(func, args, kwargs).result()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """What backward passes and the functions above need: sums and copies of cotangents."""
        nested = [x for x in _leaves([args, kwargs or {}]) if isinstance(x, NestedTensor)]

        def at(x, i):
            return x._tensors[i] if isinstance(x, NestedTensor) else x
        made = [func(*_map(tuple(args), lambda x: at(x, i)), **{k: at(v, i) for k, v in (kwargs or {}).items()})
                for i in range(len(nested[0]._tensors))]
        return args[0] if func._schema.is_mutable else nested[0]._with(made)


_METHODS = frozenset(("size", "dim", "numel", "unbind", "contiguous", "is_contiguous", "to_padded_tensor", "tolist", "detach", "values",
                      "element_size"))
_OWN = frozenset((Tensor.requires_grad_, Tensor.backward, Tensor.register_hook, Tensor.retain_grad, Tensor.as_subclass,
                  Tensor.__hash__))


def _sized(method, self, sizes):
    with _C.DisableTorchFunctionSubclass():
        return _Call(method, (self, *sizes), {}).result()


def _rebuilt(tensors, offsets, lengths, ragged, requires_grad):
    return NestedTensor._new(tensors, offsets, lengths, ragged).requires_grad_(requires_grad)


def jagged_from_list(tensors, offsets=None, dtype=None, device=None):
    """A jagged tensor of tensors, and its offsets; those that are given are shared if they fit."""
    parts = [x.to(device=device, dtype=dtype) for x in tensors]
    _check_parts(parts)
    made = _joined(parts, _ragged_dim(parts), offsets)
    return made, made._offsets


def nested_view_from_values_offsets(values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A jagged tensor of values."""
    return _of_values(values, offsets, None, ragged_idx)
