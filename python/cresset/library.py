"""Operators of programs: definitions, kernels, derivatives, fakes.  They are in torch.ops."""
import contextlib
import functools
import inspect
import sys

from . import _C
from ._C import Tensor
from ._library.operators import _DEVICE_KEYS as _KINDS, Operator, TableOperator, forget, registry, split_name
from ._library.schemas import infer_schema
from ._ops import OpOverload, OpOverloadPacket, table_overloads

__all__ = ["Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
           "infer_schema", "opcheck", "register_autocast", "register_autograd", "register_fake", "register_kernel",
           "register_torch_dispatch", "register_vmap", "get_kernel", "triton_op", "wrap_triton"]

_owners = {}  # {namespace: where Library(namespace, "DEF") was made}
_ATEN = ("aten", "prim")


def fallthrough_kernel():
    """Stands for the absence of a kernel in Library.impl."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _caller(depth=2):
    frame = sys._getframe(depth)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """Definitions (kind DEF or FRAGMENT) or kernels (IMPL) of operators of a namespace."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "prims") and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF":
            self._own(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs, self._op_impls = set(), set()

    @staticmethod
    def _own(ns):
        here = _caller(3)
        first = "the operator table" if ns == "aten" else _owners.get(ns)
        if first is not None:
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                "definitions in a single TORCH_LIBRARY block.  If you were trying to specify implementations, "
                "consider using TORCH_LIBRARY_IMPL (which can be duplicated).  If you really intended to define "
                "operators for a single namespace in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to "
                f"explicitly indicate this.  Previous registration of TORCH_LIBRARY was registered at {first}; "
                f"latest registration was registered at {here}")
        _owners[ns] = here

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema, alias_analysis="", *, tags=()):
        """Defines an operator: "f(Tensor x, int n=2) -> Tensor".  Returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        name, parenthesis, rest = schema.partition("(")
        _define(f"{self.ns}::{name.strip()}", parenthesis + rest, _caller())
        self._op_defs.add(f"{self.ns}::{name.strip()}")
        return name.strip()

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Registers a kernel for a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = op_name._schema.name if isinstance(op_name, OpOverload) else op_name
        if isinstance(op_name, OpOverload) and op_name._schema.overload_name:
            name += f".{op_name._schema.overload_name}"
        name = name.rpartition("::")[2]
        pair = name, key
        if pair in self._op_impls and not allow_override:
            raise RuntimeError(
                f"This is not allowed since there's already a kernel registered from python overriding {name}'s "
                f"behavior for {key} dispatch key and {self.ns} namespace.")
        self._op_impls.add(pair)
        if fn is not fallthrough_kernel:
            _find(f"{self.ns}::{name}").impl(fn, key)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        _set_fake(_find(f"{self.ns}::{op_name}"), fn)

    def _destroy(self):
        """Removes the operators that this library defined."""
        for name in self._op_defs:
            forget(name)
        self._op_defs.clear()
        if self.kind == "DEF":
            _owners.pop(self.ns, None)


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """A Library whose operators exist inside of the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def _define(qualname, schema, place):
    old = registry.get(qualname)
    if old is not None:
        raise RuntimeError(
            f"Tried to register an operator ({qualname}{schema}) with the same name and overload name multiple "
            "times. Each overload's schema should only be registered with a single call to def(). Duplicate "
            f"registration: registered at {place}. Original registration: registered at {old.definition}")
    operator = Operator(qualname, schema)
    operator.definition = place
    return operator


def _find(op, what="operator"):
    """Returns the Operator of a name, an overload, a packet or a CustomOpDef."""
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, OpOverload):
        name = op._schema.name + (f".{op._overloadname}" if op._overloadname != "default" else "")
    elif isinstance(op, OpOverloadPacket):
        name = op._qualified_op_name
    else:
        name = op.removesuffix(".default")
    found = registry.get(name)
    if found is None and "::" in name and not name.startswith("aten::") and table_overloads(name):
        return TableOperator(name)
    if found is None:
        raise RuntimeError(f"{what} {name} does not exist")
    return found


def _set_fake(operator, function):
    operator.fake = function
    if operator.below_autograd or operator.backward is not None:
        operator.make_opaque()


# --- definitions of single operators ---

def define(qualname, schema=None, *, lib=None, tags=()):
    """Defines "ns::name" with the schema "(Tensor x) -> Tensor".

    define(library, "name(Tensor x) -> Tensor") decorates the kernel of all devices.
    """
    if isinstance(qualname, Library):
        name = qualname.define(schema)
        return lambda function: qualname.impl(name, function) or function
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    if "::" not in qualname:
        raise ValueError("define(qualname, ...): expected a name with a namespace, like mylib::f, but got "
                         f"{qualname}")
    if schema is None or not schema.lstrip().startswith("("):
        raise ValueError('define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" '
                         f'but got "{schema}"')
    _define(qualname, schema.strip(), _caller())


_DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "meta": "Meta", "default": "CompositeExplicitAutograd"}


def impl(qualname, types, func=None, *, lib=None):
    """Registers a kernel for kinds of devices ("cpu", or "default" for all) or dispatch keys.

    impl(library, "name", key="") decorates a kernel of an operator of the library's namespace.
    """
    if isinstance(qualname, Library):
        return lambda function: qualname.impl(types, function, func or "") or function
    kinds = (types,) if isinstance(types, str) else tuple(types)

    def register(function):
        operator = _find(qualname)
        for kind in kinds:
            operator.impl(function, _DEVICE_KEYS.get(kind, kind))
        return function
    return register if func is None else register(func) and None


class CustomOpDef:
    """An operator that custom_op defined; calling it calls torch.ops.ns.name."""

    guarded_by_identity = True  # a recording keeps its calls and does not look inside

    def __init__(self, qualname, schema, function, mutates_args):
        self._qualname = qualname
        self._namespace, self._name, _ = split_name(qualname)
        self._schema, self._init_fn, self.mutates_args = schema, function, mutates_args
        self._disabled = set()
        self._operator = Operator(qualname, schema)
        self._operator.below_autograd = True
        self._operator.checks_alias = not self._operator.written
        self._operator.definition = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        self._operator.make_opaque()
        functools.update_wrapper(self, function, updated=())

    @property
    def _opoverload(self):
        return self._operator.op

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args, **kwargs):
        return self._operator.op(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        """Registers a kernel for kinds of devices; None means all."""
        kinds = (device_types,) if isinstance(device_types, str) or device_types is None else device_types

        def register(function):
            for kind in kinds:
                if kind is None:
                    self._operator.kernels["all"] = function
                elif kind not in self._disabled:
                    self._operator.kernels[kind] = function
            return function
        return register if fn is None else register(fn)

    def register_fake(self, fn, /):
        """Registers the function that gives results without elements."""
        self._operator.fake = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """Registers the derivative: backward(ctx, *grads), and setup_context(ctx, inputs, output)."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func=None):
        """Registers the operator for batches; see library.register_vmap."""
        return register_vmap(self, func)

    def register_autocast(self, device_type, cast_inputs):
        """Registers the dtype of arguments under autocast."""
        register_autocast(self, device_type, cast_inputs)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes a function with annotations an operator "ns::name", which graphs keep as one call."""
    def make(function):
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        namespace, short = name.split("::")
        op = CustomOpDef(name, text.strip(), function, mutates_args)
        if schema is not None:
            _check_mutated(op, mutates_args)
        op.register_kernel(device_types)(function)
        return op
    return make if fn is None else make(fn)


def _check_mutated(op, mutates_args):
    operator = op._operator
    written = {operator.params[i] for i in operator.written}
    if mutates_args != "unknown" and written != set(mutates_args):
        raise ValueError(f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={op._schema}. "
                         "The schema suggests that the op mutates {}which is different from what was provided to us in "
                         "`mutates_args`. Please make these consistent.".format(f"{written} " if written else ""))


# --- registrations ---

def _decorated(func, register):
    return register if func is None else register(func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Registers a kernel for kinds of devices; None means all."""
    kinds = (device_types,) if isinstance(device_types, str) or device_types is None else tuple(device_types)

    def register(function):
        operator = _find(op)
        for kind in kinds:
            operator.kernels["all" if kind is None else kind] = function
        return function
    return _decorated(func, register)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Registers the function that gives an operator's results without elements."""
    def register(function):
        _set_fake(_find(op), function)
        return function
    return _decorated(func, register)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Registers an operator's derivative: backward(ctx, *grads), and setup_context(ctx, inputs, output)."""
    operator = _find(op)
    if operator.written:
        raise RuntimeError(f"Cannot register autograd formula for non-functional operator {op} with schema "
                           f"{operator.op._schema}. Please create a functional operator and register an autograd "
                           "formula for that.")
    if setup_context is not None:
        wanted = {"ctx", "inputs", "output"} | ({"keyword_only_inputs"} if operator.keyword_only else set())
        found = set(inspect.signature(setup_context).parameters)
        if not wanted <= found and not any(p.kind is p.VAR_KEYWORD for p in
                                           inspect.signature(setup_context).parameters.values()):
            raise TypeError(f"setup_context must have the parameters {sorted(wanted)}, not {sorted(found)}")
    operator.set_derivative(backward, setup_context)


def register_vmap(op, func=None, /, *, lib=None):
    """Registers what vmap calls for an operator: func(info, in_dims, *args) -> (results, out_dims).

    info.batch_size is the size of the batch; a dim is None where a tensor has no batch.
    """
    def register(function):
        _find(op).op._batching = function
        return function
    return register if func is None else register(func)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Registers what a call does when a subclass of Tensor or a TorchDispatchMode of this class handles it:
    func(mode, function, types, args, kwargs) for a mode, func(function, types, args, kwargs) for a subclass."""
    from .utils._python_dispatch import set_rule

    def register(function):
        _find(op)  # raises for an unknown operator
        set_rule(torch_dispatch_class, _overload(op), function)
        return function
    return _decorated(func, register)


def _overload(op):
    """The overload that a name, an overload, a packet or a CustomOpDef names."""
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        return op.default
    from . import torch
    namespace, name, overload = split_name(op)
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


_COMPOSITE = {"CompositeExplicitAutograd", "CompositeImplicitAutograd"}


class _Kernel:
    """What an operator calls for tensors of a kind of device."""

    def __init__(self, op, key, function):
        self.op, self.key, self._function = op, key, function

    def call_boxed(self, keys, *args, **kwargs):
        """Calls it; the keys are those of its registration."""
        return self._function(*args, **kwargs)


def get_kernel(op, dispatch_key):
    """What an operator calls for a dispatch key: "CPU", torch.DispatchKey.CUDA."""
    key = getattr(dispatch_key, "name", dispatch_key)
    if key not in _COMPOSITE and key not in _KINDS:
        raise RuntimeError(f"unknown dispatch key {key}: a kind of device is expected, such as CPU")
    found = _overload(op)
    name = found.name().removesuffix(".default")
    operator = registry.get(name)
    if operator is None:  # an entry of the table has one kernel for all kinds of devices
        return _Kernel(op, key, found)
    function = operator.kernels.get(_KINDS.get(key, "all")) or operator.kernels.get("all")
    if function is None:
        raise RuntimeError(f"{name} has no kernel for {key}; it has those for {sorted(operator.kernels)}")
    return _Kernel(op, key, function)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """Makes a function that starts kernels of Triton an operator "ns::name"; on meta tensors and fakes the function
    itself is called, so it needs no further registration."""
    def make(function):
        op = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        op.register_fake(function)
        return op
    return make if fn is None else make(fn)


def wrap_triton(triton_kernel, /):
    """A kernel of Triton, for calls inside of a triton_op."""
    if not (hasattr(triton_kernel, "run") and hasattr(triton_kernel, "__getitem__")):
        raise RuntimeError("wrap_triton only works on functions annotated with triton.jit or triton.autotune")
    return triton_kernel


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Registers the dtype to which floating-point arguments are converted under autocast."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    _find(op).cast[device_type] = cast_inputs


class _FakeContext:
    """What a fake may ask for; sizes that depend on values are not supported in graphs."""

    def new_dynamic_size(self, *, min=0, max=None):
        raise RuntimeError("the size of a result depends on the values: such operators run outside of graphs")

    new_symint = create_unbacked_symint = new_dynamic_size


def get_ctx():
    """Returns the context of the fake that runs."""
    return _FakeContext()


# --- checks ---

def _same_kind(real, fake):
    return (isinstance(fake, Tensor) and real.shape == fake.shape and real.dtype == fake.dtype
            and real.stride() == fake.stride())


def _list_of(result):
    return [r for r in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(r, Tensor)]


def _to_meta(x):
    if isinstance(x, Tensor):
        return _C.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
    return type(x)(map(_to_meta, x)) if isinstance(x, (list, tuple)) else x


def _copied(x):
    if isinstance(x, Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    return type(x)(map(_copied, x)) if isinstance(x, (list, tuple)) else x


class OpCheckError(Exception):
    """An operator fails a check."""


def _check_schema(op, operator, args, kwargs):
    given = _copied(args)
    before = [x._version for x in given if isinstance(x, Tensor)]
    values = [x.detach().clone() for x in given if isinstance(x, Tensor)]
    results = _list_of(op(*given, **kwargs))
    tensors = [x for x in given if isinstance(x, Tensor)]
    written = {operator.params[i] for i in operator.written}
    names = [n for n, x in zip(operator.params, given) if isinstance(x, Tensor)]
    for name, x, old in zip(names, tensors, values):
        if name not in written and not _C.equal(x, old):
            raise OpCheckError(f"Argument {name} is not defined as mutable but was mutated")
    addresses = {x.untyped_storage().data_ptr() for x in tensors if x.numel()}
    if any(r.numel() and r.untyped_storage().data_ptr() in addresses for r in results):
        raise OpCheckError("a result shares memory with an argument")


def _check_fake(op, operator, args, kwargs):
    real = _list_of(op(*_copied(args), **kwargs))
    fake = _list_of(op(*_to_meta(args), **{k: _to_meta(v) for k, v in kwargs.items()}))
    if len(real) != len(fake) or not all(map(_same_kind, real, fake)):
        raise OpCheckError(f"the fake gives {[(f.shape, f.dtype, f.stride()) for f in fake]}, the kernel "
                           f"{[(r.shape, r.dtype, r.stride()) for r in real]}")


def _check_autograd(op, operator, args, kwargs):
    if any(isinstance(x, Tensor) and x.requires_grad for x in args):
        for result in _list_of(op(*args, **kwargs)):
            if result.is_floating_point() and result.requires_grad and result.grad_fn is None:
                raise OpCheckError("a result requires a gradient and has no grad_fn")


def _check_compiled(op, operator, args, kwargs):
    from . import compile as compiled
    from .testing import assert_close
    function = compiled(lambda *a: op(*a, **kwargs))
    want = _list_of(op(*_copied(args), **kwargs))
    for _ in range(3):
        for a, b in zip(_list_of(function(*_copied(args))), want):
            assert_close(a, b)


_CHECKS = {"test_schema": _check_schema, "test_autograd_registration": _check_autograd,
           "test_faketensor": _check_fake, "test_aot_dispatch_dynamic": _check_compiled}


def opcheck(op, args, kwargs=None, *, test_utils=tuple(_CHECKS), raise_exception=True, atol=None, rtol=None):
    """Checks an operator of a program with these arguments: its schema, fake, derivative, and compiled calls."""
    results = {}
    for name in (test_utils,) if isinstance(test_utils, str) else test_utils:
        try:
            _CHECKS[name](op, _find(op), args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = error
    return results
