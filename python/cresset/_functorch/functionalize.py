"""functionalize: a function whose calls write no tensor.

Inside, a tensor is a `_Functional`: a storage (`_Storage`) with a value that is never written, and the views that
lead from it to the tensor.  A call that writes becomes the call that computes the new elements, which are put into
the storage's value through the views (`_put_back`).  Other tensors of the storage look again at their next use.  At
the end, inputs that were written get their new elements by copy_.
"""
import contextlib
import functools

from .. import Tensor, _C
from .._tags import changes_sizes
from ..utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack
from ..utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from .vmap import _Batched

_REFUSED = ("mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your "
            "inputs are wrapped inside of a functionalize() call.")


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
    """Returns the operator that computes the new elements of a call in place, or None: it has the same parameters."""
    packet = _packet(func._opname[:-1])
    names = [a.name for a in func._schema.arguments]
    same = [getattr(packet, name) for name in (packet.overloads() if packet is not None else ())
            if [a.name for a in getattr(packet, name)._schema.arguments] == names]
    return next((plain for plain in same if plain._overloadname == func._overloadname), packet if same else None)


class _Storage:
    """The value of a storage, and how many times it was replaced."""

    def __init__(self, value):
        self.value, self.writes = value, 0


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
        if record["inverse"]:
            name, _, overload = record["inverse"].partition(".")
            return _overload(name, overload or "default")(new, *self.args, **self.kwargs)
        if self.func._opname == "unbind":
            return _packet("select_scatter")(x, new, *(self.args or [0]), self.item)
        if self.func._opname in ("split", "split_with_sizes"):
            return self._put_piece(x, new)
        if new.dtype != x.dtype:
            return new.contiguous().view(x.dtype).view(x.shape)
        if new.numel() == x.numel() and self.func._opname in ("view", "unflatten", "squeeze", "alias", "detach"):
            return new.reshape(x.shape)
        places = self.of(_C.arange(x.numel(), device=x.device).view(x.shape))
        return x.reshape(-1).scatter(0, places.reshape(-1), new.reshape(-1)).view(x.shape)

    def _put_piece(self, x, new):
        sizes, dim = self.args[0], self.args[1] if len(self.args) > 1 else 0
        start = sum(sizes[:self.item]) if isinstance(sizes, (list, tuple)) else sizes * self.item
        return _packet("slice_scatter")(x, new, dim, start, start + new.size(dim))


class _Functional(Tensor):
    """A tensor inside of functionalize(): views of a storage's value."""

    __torch_function__ = _C._disabled_torch_function_impl
    _records_parts = True  # the values may have histories outside

    @staticmethod
    def __new__(cls, value, storage, views, mode):
        made = Tensor._make_wrapper_subclass(cls, value.shape, strides=value.stride(), dtype=value.dtype,
                                             device=value.device)
        made.storage, made.views, made.mode, made.seen = storage, views, mode, (storage.writes, value)
        return made

    def current(self):
        """Returns the tensor's value after all writes to its storage."""
        writes, value = self.seen
        if writes != self.storage.writes:
            value = self.storage.value
            with self.mode.paused():
                for view in self.views:
                    value = view.of(value)
            self.seen = self.storage.writes, value
        return value

    def write(self, new):
        """Makes `new` the tensor's elements."""
        values = [self.storage.value]
        for view in self.views[:-1]:
            values.append(view.of(values[-1]))
        for view, x in zip(reversed(self.views), reversed(values)):
            new = view.put_back(x, new)
        self.storage.value = new
        self.storage.writes += 1

    def fitted(self, new, resizes):
        """Returns elements that were computed for this tensor with its dtype and sizes; with `resizes` it takes theirs."""
        new = new if new.dtype == self.dtype else new.to(self.dtype)
        if new.shape != self.shape and resizes:
            with _C._FakesOnly():
                self.resize_(new.shape)
            self.views, self.storage = [], _Storage(new)
        return new if new.shape == self.shape else new.expand(self.shape)

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

    def wrap(self, value):
        return _Functional(value, _Storage(value), [], self)

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
        return tree_map_only(Tensor, self.wrap, out)

    # --- views ---

    def viewing(self, func, args, kwargs):
        x = args[0]
        if func._opname == "detach":  # of a saved result: the value keeps its history
            return self.view_of(x, x.current())
        func = self.view_function(func)
        out = func(x.current(), *args[1:], **kwargs)
        if isinstance(out, Tensor) and not (func.is_view or _share_memory(out, x.current())):
            return self.wrap(out)  # contiguous() made a copy
        if isinstance(out, Tensor):
            return self.view_of(x, out, _View(func, args[1:], kwargs))
        return type(out)(self.view_of(x, y, _View(func, args[1:], kwargs, k)) for k, y in enumerate(out))

    def view_of(self, x, value, *views):
        made = _Functional(value, x.storage, [*x.views, *views], self)
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
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if all(isinstance(x, _Functional) for x in tensors) and not _is_out(func, first):
            with _C._FakesOnly():
                func(*args, **kwargs)  # for its checks: it has no elements to write
        news = self.new_values(func, args, kwargs, written)
        for x, new in zip(tree_leaves(list(written.values())), news):
            x.write(x.fitted(new, changes_sizes(func) or all(k in kwargs for k in written) or _is_out(func, x)))
        results = list(written.values())
        return results[0] if len(func._schema.returns) <= 1 and results else tuple(results)

    def moved(self, func, plain, x, args, kwargs):
        """unsqueeze_ and others: the tensor is another view of its storage."""
        with _C._FakesOnly():
            func(x, *args[1:], **kwargs)
        view = _View(plain, args[1:], kwargs)
        x.seen = x.storage.writes, view.of(x.current())
        x.views = [*x.views, view]
        return x

    def new_values(self, func, args, kwargs, written):
        """Returns the elements that a call writes, in the order of the arguments that it writes."""
        name, values, options = func._opname, _values(args), _values(kwargs)
        if name == "copy_":
            return [values[1].to(args[0].dtype)]
        if name == "zero_":
            return [_C.zeros_like(values[0])]
        plain = _plain_form(func) if name.endswith("_") and not changes_sizes(func) else None
        if plain is not None:
            return [plain(*values, **options)]
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


def _is_out(func, x):
    """True for the copy that ends a call with out=, an empty tensor that takes the result's sizes."""
    return func._opname == "copy_" and x.numel() == 0


def _wraps(x, mode):
    """True for a batch of tensors of the function."""
    while isinstance(x, _Batched):
        x = x.inner
    return isinstance(x, _Functional) and x.mode is mode


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
        made = {id(x): mode.wrap(x) for x in leaves if isinstance(x, Tensor)}
        inside = [made.get(id(x), x) for x in leaves]
        args, kwargs = tree_unflatten(inside, spec)
        with mode:
            out = func(*args, **kwargs)
        out = _values(out)
        for x in {id(x): x for x in leaves if id(x) in made}.values():
            if made[id(x)].storage.writes:
                x.copy_(made[id(x)].current())
        return out
    return wrapped
