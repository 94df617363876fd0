"""vmap: a function of one example becomes a function of a batch.

Inside of the function a batch is a tensor of the example's sizes that refers to the whole batch (`_Batched`).
Calls of such tensors become calls for the batch in C, by the table (tensor/batch.c).  Its __torch_dispatch__ gets the
calls that C leaves: of programs' own operators, with random numbers, with results whose sizes depend on elements, and
of a few functions that are called once for each example, whose results are stacked.  Calls for the batch are recorded
by autograd, and so are those of the function: derivatives may be taken inside and outside of it.
"""
import functools
import inspect
import warnings
from collections import namedtuple

from .. import _C
from .._C import Tensor
from .._tags import changes_sizes
from ..autograd.function import Transforms
from ..utils._python_dispatch import TorchDispatchMode
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten

_loops = {"warn": False, "refuse": False}  # what calls of one example after the other do besides
_running = {}  # levels whose function has not returned, and the modes of their random numbers


class _Batched(Tensor):
    """One example of a batch: `inner` is the batch, along its first dim."""

    __torch_function__ = _C._disabled_torch_function_impl
    _records_parts = True  # the batch and tensors that are not batches may have histories outside of the map

    level = property(_C._level_of_example)

    @staticmethod
    def __new__(cls, inner, level):
        if not inner.is_nested:
            return _C._make_example(cls, inner, level)
        made = Tensor._make_wrapper_subclass(cls, inner.shape[1:], strides=inner.stride()[1:], dtype=inner.dtype,
                                             storage_offset=inner, device=inner.device)
        _C._set_example(made, inner, level)
        return made

    @property
    def inner(self):
        return _C._batch_of_example(self)

    @inner.setter
    def inner(self, batch):
        _C._set_example(self, batch, self.level)

    def as_subclass(self, cls):
        """Returns a batch that is also of class `cls`, with the same history."""
        with _C.DisableTorchFunctionSubclass():
            made = Tensor.as_subclass(self, Tensor)
        made.__class__ = cls if issubclass(cls, _Batched) else _batched_class(cls)
        return made

    def detach(self):
        _check_runs(self.level)
        return _Batched(self.inner.detach(), self.level)

    def item(self):
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
            "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere "
            "inside PyTorch internals, please file a bug report.")

    def __bool__(self):
        raise RuntimeError("vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
                           "flow. We don't support that yet, please file an issue at "
                           "https://github.com/pytorch/pytorch/issues .")

    __int__ = __float__ = __index__ = tolist = numpy = item

    @property
    def data(self):
        raise RuntimeError("accessing `data` under vmap transform is not allowed")

    @data.setter
    def data(self, value):
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")

    def is_conj(self):
        return self.inner.is_conj()

    def is_neg(self):
        return self.inner.is_neg()

    def __repr__(self, *, tensor_contents=None):
        return f"BatchedTensor(lvl={self.level}, bdim=0, value=\n{self.inner!r}\n)"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        level = max(x.level for x in _tensors_of([*args, *kwargs.values()]) if isinstance(x, _Batched))
        _check_runs(level)
        with _C._ReentrantDispatch():
            return _call_batch(func, args, kwargs, level)


def _check_runs(level):
    """Refuses an example whose function has returned."""
    if level not in _running and not level % 2:  # odd ones are C's and do not end
        raise RuntimeError(
            "Either your tensor may have escaped from inside a function being vmapped and this is a user error (see "
            "https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in "
            "`gen_vmap_plumbing` Please file an issue if it looks like the latter")


_C._set_example_class(_Batched)


@functools.cache
def _batched_class(cls):
    """Returns the class of batches of examples of class `cls`."""
    if cls is Tensor:
        return _Batched
    return type(cls.__name__, (_Batched, cls), {"__torch_function__": inspect.getattr_static(cls, "__torch_function__")})


def plain(x):
    """Returns x without a class that only overrides functions: inside of a transform a tensor is a plain one."""
    kind = type(x)
    dispatched = kind.__torch_dispatch__ is not _C._disabled_torch_dispatch_impl
    if kind is Tensor or dispatched:
        return x
    with _C.DisableTorchFunctionSubclass():
        return x.as_subclass(Tensor)


def fresh(x):
    """Returns an alias of x without the history of x at its own level; a batch keeps its history."""
    return _Batched(x.inner, x.level) if isinstance(x, _Batched) else x.detach()


def _is_at(x, level):
    return isinstance(x, _Batched) and x.level == level


def _debug_only_display_vmap_fallback_warnings(enabled):
    """Whether a call of one example after the other warns."""
    _loops["warn"] = enabled


def _debug_only_are_vmap_fallback_warnings_enabled():
    return _loops["warn"]


def _requires_grad(x):
    """Whether a derivative around the map, at any level, is by x."""
    return x.requires_grad or isinstance(x, _Batched) and _requires_grad(x.inner)


def _tensors_of(values):
    """Returns the tensors among arguments of an operator and in lists of them."""
    found = [x for x in values if isinstance(x, Tensor)]
    for x in values:
        if isinstance(x, (list, tuple)):
            found += [y for y in x if isinstance(y, Tensor)]
    return found


# --- calls for a batch ---

# Refused even where the sizes of the examples' results happen to agree.  nonzero is not: argwhere and nonzero_static call it.
_DYNAMIC = {"_unique2", "unique_dim", "unique_consecutive"}
VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


def _call_batch(func, args, kwargs, level):
    """Calls an operator for the batch that tensors of a level wrap."""
    if func._opname == "detach":  # of a saved result: the batch keeps its history
        return _Batched(args[0].inner, level)
    if func._opname == "_local_scalar_dense":
        return args[0].item()
    call = _Call(func, args, kwargs, level)
    if getattr(func, "_batching", None) is not None:
        return call.registered(func._batching)
    call.check_writes()
    if changes_sizes(func):
        return call.moved()
    if func._opname in _DYNAMIC:
        call.refuse_dynamic()
    if func._opname == "index" and any(call.is_batch(x) and x.dtype in (_C.bool, _C.uint8) for x in call.given["indices"]):
        raise RuntimeError("vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
                           "indexing with a boolean mask.")
    rule = _rule(func)
    result = rule(call) if rule else NotImplemented
    return call.each_example() if result is NotImplemented else call.wrapped(result)


@functools.cache
def _parameters(func):
    """Returns the names of an operator's parameters, and of those that it writes."""
    arguments = func._schema.arguments
    return [a.name for a in arguments], [a.name for a in arguments if a.is_write] + func._record["updates"]


class _Call:
    """A call of an operator in which some tensors wrap batches of one level."""

    def __init__(self, func, args, kwargs, level, size=None):
        self.func, self.kwargs, self.level = func, dict(kwargs), level
        self.args = list(args)
        self.record, self.words = func._record, func.words
        self.size = next(x.inner.shape[0] for x in self.tensors() if _is_at(x, level)) if size is None else size
        names, self.written = _parameters(func)
        self.given = dict(zip(names, args)) | self.kwargs  # without arguments that have their defaults

    def is_batch(self, x):
        return _is_at(x, self.level)

    @functools.cached_property
    def _flat(self):
        return tree_flatten((self.args, self.kwargs))

    @property
    def leaves(self):
        return self._flat[0]

    @property
    def spec(self):
        return self._flat[1]

    def tensors(self):
        return _tensors_of([*self.args, *self.kwargs.values()])

    def as_batch(self, x):
        """Returns the batch that x wraps; another tensor, repeated."""
        return x.inner if self.is_batch(x) else x.expand(self.size, *x.shape)

    def check_writes(self):
        """Refuses to write examples that differ into a tensor that is no batch."""
        if self.written and not all(map(self.is_batch, _tensors_of([self.given.get(name) for name in self.written]))):
            from .functionalize import _plain_form
            plain = getattr(_plain_form(self.func), "_record", {"does": ""})
            name = "inplace arithmetic" if self.func._opname == "copy_" or plain["does"] == "body" else self.func._opname
            raise RuntimeError(
                f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
                "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being "
                f"vmapped over in a vmap. Please try to use out-of-place operators instead of {name}. If said operator is "
                "being called inside the PyTorch framework, please file a bug report instead.")

    def wrapped(self, result):
        if self.func._schema.is_mutable:
            return self.args[0]
        if isinstance(result, Tensor):
            return _Batched(result, self.level)
        return tree_map(lambda x: _Batched(x, self.level) if isinstance(x, Tensor) else x, result)

    def registered(self, function):
        """Calls what library.register_vmap gave: function(info, in_dims, *args) -> (results, out_dims)."""
        def dim(x):
            return 0 if self.is_batch(x) else None
        args = [tree_map(lambda x: x.inner if self.is_batch(x) else x, a) for a in self.args]
        kwargs = {k: x.inner if self.is_batch(x) else x for k, x in self.kwargs.items()}
        result, out_dims = function(VmapInfo(self.size, "error"), tuple(tree_map(dim, a) for a in self.args), *args, **kwargs)
        leaves, spec = tree_flatten(result)
        dims = out_dims if isinstance(out_dims, (tuple, list)) else [out_dims] * len(leaves)
        return tree_unflatten([x if d is None else _Batched(x.movedim(d, 0), self.level) for x, d in zip(leaves, dims)], spec)

    def moved(self):
        """transpose_ and others: the wrapper shows another view of the batch.  The tensor that the map was given stays."""
        x = self.args[0]
        if self.func._opname in ("resize_", "resize_as_"):
            like = self.given.get("the_template")
            return self.resized(x, self.given["size"] if like is None else like.shape)
        plain = _plain_view(self.func)
        if plain is None:
            raise RuntimeError(f"Batching rule not implemented for {self.func._schema.name}; the fallback path doesn't work "
                               "on out= or view ops.")
        inner = plain(*self.args, **self.kwargs).inner
        with _C._FakesOnly():
            self.func(*self.args, **self.kwargs)
        x.inner = inner
        return x

    def resized(self, x, size):
        """Gives each example other sizes; elements are kept as far as they fit."""
        before = x.numel()
        with _C._FakesOnly():
            x.resize_(size)
        flat = x.inner.reshape(self.size, before)
        if x.numel() > before:
            flat = _C.cat([flat, flat.new_empty(self.size, x.numel() - before)], 1)
        x.inner = flat[:, :x.numel()].reshape(self.size, *x.shape)
        return x

    def run(self, changed, leading=()):
        """Calls the operator with some arguments (by name) changed."""
        given = {name: x.inner if self.is_batch(x) else x for name, x in {**self.given, **changed}.items()}
        positional = [a.name for a in self.func._schema.arguments if not a.kwarg_only]
        args, missing = [], False
        for name in positional:
            missing = missing or name not in given
            if not missing:
                args.append(given.pop(name))
        return self.func(*args, **given)

    def each_example(self):
        """Calls the operator for one example after the other; a composition of other operators in its parts."""
        if self.is_taken_apart():
            with _C._TakenApart():
                return self.func(*self.args, **self.kwargs)
        if _loops["refuse"]:
            raise RuntimeError(f"{self.func._schema.name} hit the vmap fallback which is currently disabled")
        if _loops["warn"]:
            warnings.warn("There is a performance drop because we have not yet implemented the batching rule for "
                          f"{self.func._schema.name}. Please file us an issue on GitHub so that we can prioritize its "
                          "implementation.", stacklevel=2)
        if not self.size:
            return self.no_example()
        outs = [self.example(k) for k in range(self.size)]
        if "meets" in self.words and not self.func._schema.is_mutable:  # calls between ranks that have started
            outs = tree_map(_C._collective_waited, outs)
        if self.func._schema.is_mutable:
            return self.args[0]
        flat = [tree_flatten(out) for out in outs]
        if any(x is not None and not isinstance(x, Tensor) for x in flat[0][0]) and self.func._opname != "is_same_size":
            self.refuse_number()
        stacked = [self.stack(parts) if isinstance(parts[0], Tensor) else parts[0] for parts in zip(*(leaves for leaves, _ in flat))]
        return tree_unflatten(stacked, flat[0][1])

    def is_taken_apart(self):
        """A derivative around the map takes the composition's own gradient, so it stays whole; so do those that
        give a number, whose refusal names them."""
        if any(str(r.type) not in ("Tensor", "List[Tensor]") for r in self.func._schema.returns):
            return False
        if self.record["does"] != "is" or not self.size or self.func._schema.is_mutable or self.written:
            return False
        return not (_C.is_grad_enabled() and self.record["grads"]
                    and any(_requires_grad(x.inner if self.is_batch(x) else x) for x in self.tensors()))

    def example(self, k):
        """Calls the operator for example k."""
        leaves = [x.inner[k] if self.is_batch(x) else x for x in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.func(*args, **kwargs)

    def no_example(self):
        """Returns empty batches of the sizes that an example's results would have."""
        if self.func._schema.is_mutable:
            return self.args[0]
        fakes = [_C.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, Tensor) else x for x in self.leaves]
        args, kwargs = tree_unflatten(fakes, self.spec)
        device = self.tensors()[0].device

        def empty(x):
            return _Batched(_C.empty(0, *x.shape, dtype=x.dtype, device=device), self.level)
        return tree_map(lambda x: empty(x) if isinstance(x, Tensor) else x, self.func(*args, **kwargs))

    def refuse_dynamic(self):
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"{self.func._schema.name}. Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature.")

    def refuse_number(self):
        """A number or a truth of elements has no batch: a program would branch by that of one example for all."""
        if self.func._opname == "allclose":
            raise RuntimeError("vmap over torch.allclose isn't supported yet. Please file an issue at https://github.com/pytorch/pytorch/issues if "
                               "you need this feature.")
        raise RuntimeError(f"Batching rule not implemented for {self.func._schema.name}. We could not generate a fallback.")

    def stack(self, parts):
        """Returns the batch of the examples' results."""
        if any(x.shape != parts[0].shape for x in parts):
            self.refuse_dynamic()
        return _Batched(_C.stack(parts), self.level)


# --- autograd.Function with a method `vmap` ---

def levels_of(args):
    """Returns the levels of the examples among the arguments."""
    return [x.level for x in tree_flatten(args)[0] if isinstance(x, _Batched)]


def differentiated(args, level):
    """Returns whether an example of a level is differentiated inside of the map."""
    return _C.is_grad_enabled() and any(_is_at(x, level) and x.requires_grad for x in tree_flatten(args)[0])


def call_function(cls, args, level):
    """Calls cls.vmap(info, in_dims, *args) with the batches that the arguments wrap."""
    size = next(x.inner.shape[0] for x in tree_flatten(args)[0] if _is_at(x, level))
    in_dims = tree_map(lambda x: 0 if _is_at(x, level) else None, tuple(args))
    given = tree_map(lambda x: x.inner if _is_at(x, level) else x, tuple(args))
    result = cls.vmap(VmapInfo(size, _running[level].way), in_dims, *given)
    if not isinstance(result, tuple) or len(result) != 2:
        found = f"{len(result)} returns" if isinstance(result, tuple) else f"a {type(result)}"
        raise RuntimeError("Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
                           f"compatible with the output. Got {found}.")
    out, out_dims = result
    leaves, spec = tree_flatten(out)

    def misfit():
        raise RuntimeError("The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
                           f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
                           f"{tree_flatten(out_dims)[1]} but output has structure {spec}. For more details, please see "
                           "https://pytorch.org/docs/main/notes/extending.func.html")
    dims = broadcast_to_tree(out_dims, spec, misfit)
    return tree_unflatten([x if d is None else _Batched(x.movedim(d, 0), level) for x, d in zip(leaves, dims)], spec)


# --- calls that tensor/batch.c leaves: the result for the batch, or NotImplemented ---

def _selected(call):
    """masked_select with one mask for all examples: the results have one size."""
    x, mask = call.given["self"], call.given["mask"]
    if call.is_batch(mask):
        raise RuntimeError("vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each "
                           "batch this would return a differently shaped Tensor. Please file an issue at "
                           "https://github.com/pytorch/pytorch/issues if you need this feature.")
    if mask.dtype != _C.bool:
        return NotImplemented  # an example alone raises
    rows = x.inner.reshape([call.size, *[1] * (mask.dim() - x.dim()), *x.shape])
    rows = _C.broadcast_tensors([rows, mask])[0]
    return rows[:, mask.expand(rows.shape[1:])]


def _elements(call):
    """A view that shows the elements in another dtype: a wider or narrower one has another last dim."""
    x = call.args[0]
    if x.dim() == 0 and call.given["dtype"].itemsize != x.dtype.itemsize:
        return NotImplemented  # an example alone raises
    return call.func(x.inner, *call.args[1:], **call.kwargs)


_FORMATS = {_C.channels_last: 4, _C.channels_last_3d: 5}  # the dims of an example in this memory format


def _formatted(call):
    """A new tensor like a batch, in a memory format that names the dims of an example."""
    x, *args = call.args
    ndim = _FORMATS.get(call.kwargs.get("memory_format"))
    if not ndim or x.dim() != ndim:
        return NotImplemented  # an example alone raises
    last = call.func(x.inner.movedim(2, -1), *args, **{**call.kwargs, "memory_format": _C.contiguous_format})
    return last.movedim(-1, 2)


@functools.cache
def _plain_view(func):
    """Returns the operator that gives the view which a call in place makes of its tensor, or None."""
    from .. import ops
    packet = getattr(ops.aten, func._opname.removesuffix("_"), None)
    views = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    names = [a.name for a in func._schema.arguments]
    same = [v for v in views if v.is_view and [a.name for a in v._schema.arguments] == names]
    return next((v for v in same if v._overloadname == func._overloadname), same[0] if same else None)


@functools.cache
def _rule(func):
    """Returns the rule that may have the call for a batch, or None."""
    types = _types(func)
    if func._opname == "masked_select":
        return _selected
    if func._opname == "view" and func._overloadname == "dtype":
        return _elements
    return _formatted if types.get("memory_format") and "self" in types else None


def _types(func):
    return {p["name"]: p["type"] for p in func._record["params"]}


# --- random numbers ---

class _Randomness(TorchDispatchMode):
    """Applies vmap's `randomness` to calls that draw numbers."""

    _handles_draws = True

    def __init__(self, way, size, level):
        self.way, self.size, self.level = way, size, level

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not func._nondeterministic_seeded:
            return func(*args, **kwargs)
        batched = [x for x in _tensors_of([*args, *kwargs.values()]) if _is_at(x, self.level)]
        if self.way == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap")
        if self.way == "same" and not batched:
            return func(*args, **kwargs)
        if self.way == "different" and func._schema.is_mutable and not batched:
            raise RuntimeError("vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
                               "appear like same randomness. If this is necessary for your usage, please file an "
                               "issue with functorch.")
        with _C._ReentrantDispatch():
            call = _Call(func, args, kwargs, self.level, self.size)
            if self.way == "different":
                call.check_writes()
                return self.at_once(call)
            by_values = self.check_alike(call)
            call.check_writes()
            return self.each_alike(call) if by_values else self.once(call)

    @staticmethod
    def at_once(call):
        """Calls the operator for the batch where it then draws as for one tensor; else for each example."""
        size, tensors = call.given.get("size"), call.tensors()
        if not tensors and isinstance(size, (list, tuple)):
            return call.wrapped(call.run({"size": [call.size, *size]}))
        if not tensors or call.record["does"] not in ("extern", "is"):
            return call.each_example()
        # One number for each element: the operands become batches with equally many dims.
        ndim = max(x.dim() for x in tensors)

        def whole(x):
            if not isinstance(x, Tensor):
                return x
            x = x.inner if call.is_batch(x) else x.expand(call.size, *x.shape)
            return x if x.dim() > ndim else x.reshape(call.size, *[1] * (ndim + 1 - x.dim()), *x.shape[1:])
        args, kwargs = tree_unflatten(list(map(whole, call.leaves)), call.spec)
        return call.wrapped(call.func(*args, **kwargs))

    @staticmethod
    def check_alike(call):
        """Refuses an operator that draws by the elements of each example.  Returns whether it reads elements of examples."""
        drawn_by = [name for name, x in call.given.items()
                    if call.is_batch(x) and name not in call.record["unread"] and name not in call.written]
        lists = any(isinstance(x, (list, tuple)) and any(map(call.is_batch, x)) for x in call.given.values())
        of_values = call.record["does"] != "is" or "generator" in _types(call.func) and not call.func._opname.endswith("_like")
        if drawn_by and of_values:
            raise RuntimeError("Vmap does not currently support same randomness with a batched tensor input. Please file an issue "
                               "with functorch")
        return drawn_by or lists

    @staticmethod
    def once(call):
        """Calls the operator for the first example; its numbers are those of all."""
        if not call.size:
            return call.no_example()
        if not call.func._schema.is_mutable:
            return call.wrapped(tree_map(lambda x: x.expand(call.size, *x.shape), call.example(0)))
        batch, one = call.args[0].inner, call.args[0].inner[0].clone(memory_format=_C.contiguous_format)
        call.func(one, *call.args[1:], **call.kwargs)
        batch.copy_(one)
        return call.args[0]

    @staticmethod
    def each_alike(call):
        """Calls the operator for each example with the generator's same state."""
        generator = call.given.get("generator") or _C.default_generator
        state = generator.get_state()

        def example(k):
            generator.set_state(state)
            return _Call.example(call, k)
        call.example = example
        return call.each_example()


# --- vmap ---

def _get_name(func):
    return getattr(func, "__name__", repr(func))


def broadcast_to_tree(prefix, spec, error):
    """Returns the leaves of `prefix` spread over a structure; calls error() if they do not fit."""
    own = tree_flatten(prefix)[1]
    if own.is_leaf():
        return [prefix] * spec.num_leaves
    if spec.is_leaf() or own.type != spec.type or len(own.children()) != len(spec.children()):
        error()
    parts = [prefix[key] for key in own.context] if isinstance(prefix, dict) else list(prefix)
    return [leaf for part, child in zip(parts, spec.children()) for leaf in broadcast_to_tree(part, child, error)]


def _broadcast_to_and_flatten(tree, treespec):
    """Returns the leaves of `tree` spread over a structure; None if they do not fit."""
    class Misfit(Exception):
        pass

    def misfit():
        raise Misfit
    try:
        return broadcast_to_tree(tree, treespec, misfit)
    except Misfit:
        return None


def _process_batched_inputs(in_dims, args, func):
    """Returns (size of the batch, dims of the leaves, leaves, their structure)."""
    said = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{said}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
                         f"structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
                         "trying to vmap over a function with no inputs. The latter is unsupported.")
    leaves, spec = tree_flatten(args)

    def misfit():
        raise ValueError(f"{said}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                         f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}.")
    dims = broadcast_to_tree(in_dims, spec, misfit)
    for k, (x, d) in enumerate(zip(leaves, dims)):
        if d is not None and not isinstance(d, int):
            raise ValueError(f"{said}: Got in_dim={d} for an input but in_dim must be either an integer dimension or "
                             "None.")
        if d is not None and not isinstance(x, Tensor):
            raise ValueError(f"{said}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap "
                             "over non-Tensor arguments, please use None as the respective in_dim")
        if d is not None and not -x.dim() <= d < x.dim():
            raise ValueError(f"{said}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality "
                             f"{x.dim()} so expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}.")
    sizes = [x.size(0) if x.is_nested else x.shape[d] for x, d in zip(leaves, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError("vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{sizes} for the mapped dimension")
    return sizes[0], dims, leaves, spec


# Libraries with containers of tensors replace _process_batched_inputs, _create_batched_inputs and _unwrap_batched,
# so they have torch's names and parameters, and are looked up at each call.

def _add_batch_dim(x, d, level):
    """Returns the example of a level that x wraps along dim d."""
    if x.is_nested:
        if d != 0:
            raise RuntimeError(f"Nested tensors can only be vmapped over dim=0, but got dim={d}")
        if isinstance(x, _Batched):
            raise RuntimeError("Only one level of vmap is supported when vmapping over nested tensors")
    x = plain(x)
    return _Batched(x if d in (0, -x.dim()) else x.movedim(d, 0), level)


def _remove_batch_dim(x, level, size, d):
    """Returns the batch of a level with the examples along dim d; another tensor is repeated."""
    inner = x.inner if _is_at(x, level) else x.expand(size, *x.shape)
    return inner if d == 0 else inner.movedim(0, d)


def _maybe_remove_batch_dim(name, x, level, size, d):
    if not isinstance(x, Tensor):
        if d is None:
            return x
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. "
                         "Did you mean to set out_dims= to None for output?")
    if d is None:
        if _is_at(x, level):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return x
    return _remove_batch_dim(x, level, size, d)


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    given = [x if d is None else _add_batch_dim(x, d, vmap_level) for x, d in zip(flat_args, flat_in_dims)]
    return tree_unflatten(given, args_spec)


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    outs, out_spec = tree_flatten(batched_outputs)

    def misfit():
        raise ValueError(f"vmap({_get_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the "
                         f"structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs "
                         f"has structure {out_spec}.")
    if isinstance(batched_outputs, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    if isinstance(out_dims, int) or out_dims is None:
        places = [out_dims] * len(outs)
    else:
        places = broadcast_to_tree(out_dims, out_spec, misfit)
    for d in places:
        if d is not None and not isinstance(d, int):
            raise ValueError(f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                             "collection of ints representing where in the outputs the vmapped dimension should appear.")
    name = _get_name(func)
    return tree_unflatten([_maybe_remove_batch_dim(name, x, vmap_level, batch_size, d) for x, d in zip(outs, places)], out_spec)


def _flat_vmap(func, batch_size, flat_in_dims, flat_args, args_spec, out_dims, randomness, /, **kwargs):
    level = _start_level(batch_size, randomness)
    try:
        given = _create_batched_inputs(flat_in_dims, flat_args, level, args_spec)
        with _running[level], Transforms():
            out = func(*given, **kwargs)
        return _unwrap_batched(out, out_dims, level, batch_size, func)
    finally:
        _end_level(level)


def _start_level(batch_size, randomness):
    level = _C._new_level()
    _running[level] = _Randomness(randomness, batch_size, level)
    _C._level_starts(level)
    return level


def _end_level(level):
    _C._level_ends(level)
    return _running.pop(level)


def _vmap_increment_nesting(batch_size, randomness):
    """Starts a level by hand and returns its number; _vmap_decrement_nesting ends the level that was started last."""
    level = _start_level(batch_size, randomness)
    _running[level].__enter__()
    return level


def _vmap_decrement_nesting():
    level = next(reversed(_running))
    _end_level(level).__exit__(None, None, None)
    return level


def _run_chunks(func, size, dims, leaves, spec, out_dims, randomness, kwargs, chunk):
    parts = []
    state = _C.default_generator.get_state() if randomness == "same" else None
    for start in range(0, size, chunk):
        n = min(chunk, size - start)
        if state is not None:
            _C.default_generator.set_state(state)
        some = [x if d is None else x.narrow(d, start, n) for x, d in zip(leaves, dims)]
        parts.append(tree_flatten(_flat_vmap(func, n, dims, some, spec, out_dims, randomness, **kwargs)))
    out_spec = parts[0][1]
    places = [out_dims] * len(parts[0][0]) if isinstance(out_dims, int) else broadcast_to_tree(
        out_dims, out_spec, lambda: None)
    joined = [xs[0] if d is None else _C.cat(xs, d) for d, xs in zip(places, map(list, zip(*(p for p, _ in parts))))]
    return tree_unflatten(joined, out_spec)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """Returns a function that maps `func` over a dim of its tensors.

        in_dims     the dim of each input, None for an input that is not mapped over
        out_dims    where the dim goes in each output
        randomness  "error", "same" or "different": calls that draw random numbers
        chunk_size  examples that are computed together
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, assigned=("__name__", "__doc__"), updated=())
    def mapped(*args, **kwargs):
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
        if chunk_size is not None and chunk_size < size:
            return _run_chunks(func, size, dims, leaves, spec, out_dims, randomness, kwargs, chunk_size)
        return _flat_vmap(func, size, dims, leaves, spec, out_dims, randomness, **kwargs)
    return mapped


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """vmap over a number of chunks of the batch, one after the other; chunk_size of vmap() is the newer form."""
    if chunks < 1:
        raise ValueError(f"chunk_vmap: chunks should be greater than 0. (got {chunks})")

    @functools.wraps(func, assigned=("__name__", "__doc__"), updated=())
    def mapped(*args, **kwargs):
        size = _process_batched_inputs(in_dims, args, func)[0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(1, -(-size // chunks)))(*args, **kwargs)
    return mapped


def restore_vmap(func, in_dims, batch_size, randomness):
    """Returns a function like vmap(func), whose results are (results, where each has its batch: None without one).

    Inputs need no batch."""
    def mapped(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        dims = broadcast_to_tree(in_dims, spec, lambda: None)
        level = _start_level(batch_size, randomness)
        try:
            with _running[level]:
                out = func(*_create_batched_inputs(dims, leaves, level, spec), **kwargs)
        finally:
            _end_level(level)
        return (tree_map(lambda x: x.inner if _is_at(x, level) else x, out),
                tree_map(lambda x: 0 if _is_at(x, level) else None, out))
    return mapped
