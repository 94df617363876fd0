"""functionalize: a function whose calls write no tensor.

Inside, a tensor is a `_Functional`: a storage (`_Storage`) with a value that is never written, and the views that
lead from it to the tensor.  A call that writes becomes the call that computes the new elements, which are put into
the storage's value through the views (`_put_back`).  Other tensors of the storage look again at their next use.  At
the end, inputs that were written get their new elements by copy_.
"""
import contextlib
import functools
import itertools

from .. import Tensor, _C
from .._tags import changes_sizes
from ..autograd.function import Transforms
from ..utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack
from ..utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from .vmap import _Batched

_REFUSED = ("mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your "
            "inputs are wrapped inside of a functionalize() call.")
_STRIDED = ("functionalize: as_strided counts places of a storage, so that it cannot be behind another view or of a tensor "
            "with gaps or an offset when elements are written or views are copied")


def _packet(name):
    """Returns torch.ops.aten.NAME, or None."""
    from .. import ops
    return getattr(ops.aten, name, None)


def _overload(name, overload):
    """Returns an overload of torch.ops.aten.NAME, or None."""
    packet = _packet(name)
    return getattr(packet, overload) if packet is not None and overload in packet.overloads() else None


@functools.cache
def _plain_form(func):
    """Returns the operator that computes the new elements of a call in place, or None: it has the same parameters.

    A draw in place does not read the tensor, so its plain form has the same types of parameters, too.
    """
    packet = _packet(func._opname[:-1])
    names, types = [a.name for a in func._schema.arguments], [a.type for a in func._schema.arguments][1:]
    same = [getattr(packet, name) for name in (packet.overloads() if packet is not None else ())
            if [a.name for a in getattr(packet, name)._schema.arguments] == names]
    exact = [plain for plain in same if plain._overloadname == func._overloadname] + \
            [plain for plain in same if [a.type for a in plain._schema.arguments][1:] == types]
    return exact[0] if exact else packet if same and not func._nondeterministic_seeded else None


def _other_defaults(func, plain, args):
    """Returns the defaults of a call in place that its plain form lacks, by name."""
    if not hasattr(plain, "_schema"):
        return {}
    both = list(zip(func._schema.arguments, plain._schema.arguments))[len(args):]
    return {a.name: a.default_value for a, b in both
            if a.has_default_value() and not (b.has_default_value() and b.default_value == a.default_value)}


class _Storage:
    """The value of a storage, how many times it was replaced, and whether a view of it was made."""

    def __init__(self, value, given=False):
        self.value, self.writes, self.shared = value, 0, False
        self.dense, self.given = value.is_contiguous(), value if given else None
        self.conj, self.neg = value.is_conj(), value.is_neg()

    def at_start(self):
        """True if the tensor that the function was given starts its memory, as tensors made inside do."""
        return self.given is None or self.given.storage_offset() == 0

    def replace(self, value):
        """Makes `value` the storage's value, with the strides that the storage has where it is dense."""
        value = value.resolve_conj() if value.is_conj() and not self.conj else value
        value = value.resolve_neg() if value.is_neg() and not self.neg else value
        self.value = value.contiguous() if self.dense and not value.is_contiguous() else value
        self.writes += 1


class _View:
    """A call that gives a view of its first argument, or with `item` several."""

    def __init__(self, func, args, kwargs, item=None):
        self.func, self.args, self.kwargs, self.item = func, args, kwargs, item

    def of(self, x):
        out = self.func(x, *self.args, **self.kwargs)
        return out if self.item is None else out[self.item]

    def put_back(self, x, new):
        """Returns x with the elements that the view shows replaced by `new`."""
        record = self.func._record
        if record["scatter"]:
            return _packet(record["scatter"])(x, new, *self.args, **self.kwargs)
        if self.flips_bits():
            return self.of(new)
        if record["inverse"]:
            name, _, overload = record["inverse"].partition(".")
            return _overload(name, overload or "default")(new, *self.args, **self.kwargs)
        if self.func._opname == "unbind":
            return _packet("select_scatter")(x, new, *(self.args or [0]), self.item)
        if self.func._opname in ("split", "split_with_sizes"):
            return self._put_piece(x, new)
        if new.dtype != x.dtype:
            return new.contiguous().view(x.dtype).view(x.shape)
        if new.numel() == x.numel() and {"reshape", "identity"} & set(record["words"]):
            return new.reshape(x.shape)
        places = self.of(_C.arange(x.numel(), device=x.device).view(x.shape))
        return x.reshape(-1).scatter(0, places.reshape(-1), new.reshape(-1)).view(x.shape)

    def counts_from_start(self, storage):
        """True if as_strided of a storage's value shows the places that it shows of the storage."""
        offset = self.kwargs.get("storage_offset", self.args[2] if len(self.args) > 2 else None)
        return storage.dense and (offset is None or storage.at_start())

    def flips_bits(self):
        """True for views that show the elements with another sign: each is its own inverse."""
        return {"view", "bits"} <= set(self.func._record["words"])

    def _put_piece(self, x, new):
        sizes, dim = self.args[0], self.args[1] if len(self.args) > 1 else 0
        start = sum(sizes[:self.item]) if isinstance(sizes, (list, tuple)) else sizes * self.item
        return _packet("slice_scatter")(x, new, dim, start, start + new.size(dim))


class _Functional(Tensor):
    """A tensor inside of functionalize(): views of a storage's value."""

    __torch_function__ = _C._disabled_torch_function_impl
    _records_parts = True  # the values may have histories outside

    @staticmethod
    def __new__(cls, value, storage, views, mode, strides=None):
        made = Tensor._make_wrapper_subclass(cls, value.shape, strides=strides or value.stride(), dtype=value.dtype,
                                             device=value.device)
        made.storage, made.views, made.mode, made.seen = storage, views, mode, (storage.writes, value)
        made.first, made.moves = storage, []
        return made

    def current(self):
        """Returns the tensor's value after all writes to its storage."""
        writes, value = self.seen
        if writes != self.storage.writes:
            value = self.storage.value
            with self.mode.paused():
                self.check_strided()
                for view in self.views:
                    value = view.of(value)
            self.seen = self.storage.writes, value
        return value

    def write(self, new):
        """Makes `new` the tensor's elements."""
        self.check_strided()
        values = [self.storage.value]
        for view in self.views[:-1]:
            values.append(view.of(values[-1]))
        for view, x in zip(reversed(self.views), reversed(values)):
            new = view.put_back(x, new)
        self.storage.replace(new)

    def check_strided(self):
        """Raises where as_strided among the views has other elements of the value than of the storage."""
        for k, view in enumerate(self.views):
            if view.func._opname == "as_strided" and (k or not view.counts_from_start(self.storage)):
                raise RuntimeError(_STRIDED)

    def fitted(self, new, resizes):
        """Returns elements that were computed for this tensor with its dtype and sizes; with `resizes` it takes theirs."""
        new = new if new.dtype == self.dtype else new.to(self.dtype)
        if new.shape != self.shape and resizes:
            self.check_grows()
            with _C._FakesOnly():
                self.resize_(new.shape)
            self.views, self.moves, self.storage = [], [], _Storage(new)
        return new if new.shape == self.shape else new.expand(self.shape)

    def give(self, x):
        """Makes the calls on an input that the function made on its wrapper: new elements, other sizes."""
        if self.storage is not self.first:
            x.resize_(self.storage.value.shape)
        if self.storage.writes or self.storage is not self.first:
            x.copy_(self.storage.value if self.moves else self.current())
        for move in self.moves:
            move(x)

    def check_grows(self):
        """Raises where other tensors may see that this one takes other memory."""
        if self.numel() and (self.views or self.storage.shared):
            raise RuntimeError("functionalize: a tensor that shares memory with others is not resized")

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        raise RuntimeError("functionalize: the memory of a tensor is not exchanged (`x.data = y`)")

    def set_(self, *args, **kwargs):
        raise RuntimeError("functionalize: the memory of a tensor is not exchanged (set_)")

    def __repr__(self, *, tensor_contents=None):
        with self.mode.paused():
            return f"FunctionalTensor({self.current()!r})"

    def detach(self):
        with self.mode.paused():
            value = self.current().detach()
        return self.mode.view_of(self, value, _View(_overload("detach", "default"), (), {}))

    def item(self):
        with self.mode.paused():
            return self.current().item()

    def tolist(self):
        with self.mode.paused():
            return self.current().tolist()

    def numpy(self, *, force=False):
        with self.mode.paused():
            return self.current().numpy(force=force)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        found = next(x for x in tree_leaves((args, kwargs)) if isinstance(x, _Functional))
        return found.mode.__torch_dispatch__(func, types, args, kwargs)


def _values(tree):
    return tree_map_only(_Functional, _Functional.current, tree)


class _Mode(TorchDispatchMode):
    """Handles the calls of one functionalized function."""

    _records_parts = True

    def __init__(self, removes_views):
        self.removes_views = removes_views

    def paused(self):
        """Returns a context in which the mode does not act."""
        active = any(mode is self for mode in _get_current_dispatch_mode_stack())
        return _disable_current_modes() if active else contextlib.nullcontext()

    def wrap(self, value, given=False):
        return _Functional(value, _Storage(value, given), [], self)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        inside = [x for x in leaves if isinstance(x, _Functional)]
        if any(x.mode is not self for x in inside) or any(isinstance(x, _Batched) and _wraps(x, self) for x in leaves):
            return NotImplemented
        with _C._ReentrantDispatch():
            if leaves and not inside and (func._schema.is_mutable or any(x.requires_grad for x in leaves)):
                return func(*args, **kwargs)
            return self.call(func, args, kwargs)

    def call(self, func, args, kwargs):
        if func._schema.is_mutable:
            return self.writing(func, args, kwargs)
        if func._schema.returns and func._schema.returns[0].alias_info and isinstance(args[0], _Functional):
            return self.viewing(func, args, kwargs)
        out = func(*_values(args), **_values(kwargs))
        given = any(r.alias_info for r in func._schema.returns)
        return tree_map_only(Tensor, lambda y: self.wrap(y, given), out)

    # --- views ---

    def viewing(self, func, args, kwargs):
        x = args[0]
        if func._opname == "detach":  # of a saved result: the value keeps its history
            return self.view_of(x, x.current())
        if func._opname == "as_strided" and (self.removes_views or x.storage.writes):
            self.view_of(x, x.current(), _View(func, args[1:], kwargs)).check_strided()
        strides = self.strides_of(func, x, args[1:], kwargs)
        func = self.view_function(func)
        out = func(x.current(), *args[1:], **kwargs)
        if isinstance(out, Tensor) and not (func.is_view or _share_memory(out, x.current())):
            return self.wrap(out)  # contiguous() made a copy
        if isinstance(out, Tensor):
            return self.view_of(x, out, _View(func, args[1:], kwargs), next(strides))
        return type(out)(self.view_of(x, y, _View(func, args[1:], kwargs, k), next(strides)) for k, y in enumerate(out))

    def strides_of(self, func, x, args, kwargs):
        """Yields the strides that the views have outside where copies of views have others, else None."""
        from ..fx.experimental.proxy_tensor import get_proxy_mode
        if not self.removes_views:
            return itertools.repeat(None)
        recorder = get_proxy_mode()
        if recorder is not None:
            recorder.stop()
        try:
            with _disable_current_modes(), _C.no_grad():
                out = func(_C.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"), *args, **kwargs)
        finally:
            if recorder is not None:
                recorder.start()
        return iter([y.stride() for y in tree_leaves(out)])

    def view_of(self, x, value, view=None, strides=None):
        x.storage.shared = True
        made = _Functional(value, x.storage, x.views if view is None else [*x.views, view], self, strides)
        made.seen = x.storage.writes, value
        return made

    def view_function(self, func):
        """Returns the operator, or with removes_views the one that copies."""
        made = _overload(f"{func._opname}_copy", func._overloadname) if self.removes_views else None
        return func if made is None else _Copying(made, func._record)

    # --- writes ---

    def writing(self, func, args, kwargs):
        named = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
        written = {a.name: named[a.name] for a in func._schema.arguments if a.is_write and named.get(a.name) is not None}
        if not all(isinstance(x, _Functional) for x in tree_leaves(list(written.values())) if isinstance(x, Tensor)):
            raise RuntimeError(_REFUSED)
        first = next(iter(written.values()), None)
        plain = _overload(func._opname.removesuffix("_"), func._overloadname)
        if changes_sizes(func) and plain is not None and plain.is_view:
            return self.moved(func, plain, first, args, kwargs)
        if func._opname in ("resize_", "resize_as_"):
            return self.resized(func, args, kwargs)
        if "resets" in func.words:
            raise RuntimeError(f"functionalize: the memory of a tensor is not exchanged ({func._opname})")
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        is_out = func._opname == "copy_" and _is_empty_out(args[1], first)
        if all(isinstance(x, _Functional) for x in tensors) and not is_out:
            with _C._FakesOnly():
                func(*args, **kwargs)  # for its checks: it has no elements to write
        news = self.new_values(func, args, kwargs, written)
        for x, new in zip(tree_leaves(list(written.values())), news):
            x.write(x.fitted(new, changes_sizes(func) or all(k in kwargs for k in written) or is_out))
        results = list(written.values())
        return results[0] if len(func._schema.returns) <= 1 and results else tuple(results)

    def moved(self, func, plain, x, args, kwargs):
        """unsqueeze_ and others: the tensor is another view of its storage."""
        with _C._FakesOnly():
            func(x, *args[1:], **kwargs)
        x.moves.append(lambda real: func(real, *args[1:], **kwargs))
        return self.move(x, _View(plain, args[1:], kwargs))

    def move(self, x, view):
        x.seen, x.views = (x.storage.writes, view.of(x.current())), [*x.views, view]
        x.check_strided()
        return x

    def resized(self, func, args, kwargs):
        """resize_: fewer elements are a view of the first; more are new memory."""
        x = args[0]
        before, contiguous = x.numel(), x.is_contiguous()
        size = kwargs.get("size", args[1] if len(args) > 1 else None)
        size = kwargs["the_template"].shape if size is None else size.shape if isinstance(size, Tensor) else size
        made = _C.empty(size, device="meta")
        if made.shape == x.shape:
            return x
        if not contiguous or kwargs.get("memory_format") not in (None, _C.contiguous_format):
            raise RuntimeError("functionalize: resize_ of a tensor with gaps, or to another memory format")
        if made.numel() > before:
            x.check_grows()
            new, = self.on_copies(func, args, kwargs)
        with _C._FakesOnly():
            func(*args, **kwargs)
        if made.numel() > before:
            x.views, x.moves, x.storage = [], [], _Storage(new)
            x.seen = x.storage.writes, new
            return x
        x.moves.append(lambda real: real.resize_(made.shape))
        view, piece = _overload("view", "default"), _overload("slice", "Tensor")
        for plain, given in ((view, ([-1],)), (piece, (0, 0, made.numel())), (view, (list(made.shape),))):
            self.move(x, _View(self.view_function(plain), given, {}))
        return x

    def new_values(self, func, args, kwargs, written):
        """Returns the elements that a call writes, in the order of the arguments that it writes."""
        name, values, options = func._opname, _values(args), _values(kwargs)
        if name == "copy_":
            return [_copy(values[1], args[0])]
        if name == "zero_":
            return [_C.zeros_like(values[0])]
        plain = _plain_form(func) if name.endswith("_") and not changes_sizes(func) else None
        if plain is not None:
            return [plain(*values, **(_other_defaults(func, plain, args) | options))]
        if all(k in options for k in written):
            return tree_leaves(_packet(name)(*values, **{k: v for k, v in options.items() if k not in written}))
        return self.on_copies(func, args, kwargs)

    def on_copies(self, func, args, kwargs):
        """Calls an operator that only writes on copies of the tensors that it writes."""
        made = []

        def value(x, writes):
            x = _values(x)
            if writes and isinstance(x, Tensor):
                made.append(x.clone())
            return made[-1] if writes and isinstance(x, Tensor) else x
        writes = {a.name: a.is_write for a in func._schema.arguments}
        args = [value(x, a.is_write) for a, x in zip(func._schema.arguments, args)]
        func(*args, **{k: value(x, writes[k]) for k, x in kwargs.items()})
        return made


def _copy(x, like):
    """Returns the elements of x in new memory, with the sizes, dtype and device of another tensor."""
    if x.shape == like.shape or _is_empty_out(x, like):
        return x.to(like.device, like.dtype, copy=True).resolve_conj().resolve_neg()
    return x.to(like.device, like.dtype).expand(like.shape).clone().resolve_conj().resolve_neg()


def _is_empty_out(x, to):
    """True for the copy that ends a call with out=, an empty tensor that takes the result's sizes."""
    fits = x.dim() <= to.dim() and all(n in (1, m) for n, m in zip(reversed(x.shape), reversed(to.shape)))
    return to.numel() == 0 and (to.dim() == 1 or not fits)


def _wraps(x, mode):
    """True for a batch of tensors of the function."""
    while isinstance(x, _Batched):
        x = x.inner
    return isinstance(x, _Functional) and x.mode is mode


def _check_apart(inputs, written):
    """Raises where an input was written that has elements in common with another."""
    from ..fx.experimental.proxy_tensor import get_proxy_mode
    if len(inputs) < 2 or not any(written) or get_proxy_mode() is not None:
        return
    known = [(*_places(x), wrote) for x, wrote in zip(inputs, written) if _has_elements(x)]
    for k, (start, end, wrote) in enumerate(known):
        if any((wrote or other[2]) and start < other[1] and other[0] < end for other in known[:k]):
            raise RuntimeError("functionalize: an input that is written shares memory with another input")


def _has_elements(x):
    return type(x).__torch_dispatch__ is _C._disabled_torch_dispatch_impl and x.layout == _C.strided and not x.is_meta


def _places(x):
    """Returns the addresses of the first byte of a tensor's elements and of that after the last."""
    last = sum((n - 1) * stride for n, stride in zip(x.shape, x.stride())) if x.numel() else -1
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def _share_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


class _Copying:
    """An operator that copies a view, with the view's record."""

    is_view = True

    def __init__(self, func, record):
        self.func, self._record, self._opname = func, record, func._opname.removesuffix("_copy")

    def __call__(self, *args, **kwargs):
        return self.func(*args, **kwargs)


def functionalize(func, *, remove="mutations"):
    """Returns a function with the results and effects of `func`, whose operators write no tensor.

        remove  "mutations": calls in place and with out= become others; "mutations_and_views": views become
                copies, too

    Inputs that func writes get their new elements at the end, by copy_.

    Example::

        >>> from cresset.fx.experimental.proxy_tensor import make_fx
        >>> def f(x):
        ...     y = x.clone()
        ...     y[0] = 7
        ...     return y
        >>> torch.func.functionalize(f)(torch.zeros(2))
        tensor([7., 0.])
        >>> any("_." in str(node.target) for node in make_fx(torch.func.functionalize(f))(torch.zeros(2)).graph.nodes)
        False
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with "
            "their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be replaced "
            "with their non-aliasing counterparts, {view}_copy.\n")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        mode = _Mode(remove == "mutations_and_views")
        leaves, spec = tree_flatten((args, kwargs))
        made = {id(x): mode.wrap(x, given=True) for x in leaves if isinstance(x, Tensor)}
        inside = [made.get(id(x), x) for x in leaves]
        args, kwargs = tree_unflatten(inside, spec)
        with mode, Transforms():
            out = func(*args, **kwargs)
        out = _values(out)
        inputs = list({id(x): x for x in leaves if id(x) in made}.values())
        _check_apart(inputs, [made[id(x)].storage.writes > 0 for x in inputs])
        for x in inputs:
            made[id(x)].give(x)
        return out
    return wrapped
