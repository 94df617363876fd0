"""An operator that a program defined: its kernels, its derivative, and how a call uses them."""
import inspect
import sys

from .. import _C
from .._C import Tensor
from .._ops import OpOverload, OpOverloadPacket, defined_packets
from .schemas import shown

registry = {}  # {"ns::name" or "ns::name.overload": Operator}

# Dispatch keys of kernels for a kind of device, and for all.
_DEVICE_KEYS = {"CPU": "cpu", "CUDA": "cuda", "XPU": "xpu", "Meta": "meta", "PrivateUse1": "privateuseone"}
_ALL = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def split_name(qualname):
    """Returns namespace, name and overload of "ns::name.overload"."""
    namespace, rest = qualname.split("::")
    name, _, overload = rest.partition(".")
    return namespace, name, overload or "default"


class _Packet(OpOverloadPacket):
    """The overloads of a defined operator; a call takes the first one that its arguments fit."""

    def __init__(self, namespace, name):
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._namespace = namespace
        self._qualified_op_name = f"{namespace}::{name}"
        self._made = {}

    def add(self, made):
        """Adds an overload, or replaces it."""
        self._made[made["name"]] = made
        overload = self.__dict__[made["name"]] = _Overload(self, made)
        return overload

    def __call__(self, /, *args, **kwargs):
        overloads = [getattr(self, name) for name in self._made]
        for overload in overloads[:-1]:
            if overload._fits(args, kwargs):
                return overload(*args, **kwargs)
        return overloads[-1](*args, **kwargs)


class _Overload(OpOverload):
    """An overload whose calls report arguments of wrong types in torch's words."""

    def __init__(self, packet, made):
        super().__init__(packet, made)
        self._lists = [kind == "Tensor[]" for _, kind in made["returns"]]

    def __call__(self, /, *args, **kwargs):
        try:
            out = self._op(*args, **kwargs)
        except TypeError:
            self._schema.refuse(args, kwargs)
            self._refuse_types(args, kwargs)
            raise
        return self._with_lists(out) if any(self._lists) else out

    def _with_lists(self, out):
        """Returns lists for results of type Tensor[]; C gives tuples."""
        if len(self._lists) == 1:
            return list(out)
        return tuple(list(x) if is_list else x for x, is_list in zip(out, self._lists))

    def _fits(self, args, kwargs):
        try:
            self._schema.refuse(args, kwargs)
            self._refuse_types(args, kwargs)
        except RuntimeError:
            return False
        return True

    def _refuse_types(self, args, kwargs):
        for i, argument in enumerate(self._schema.arguments):
            positional = i < len(args)
            expected = _PLAIN.get(argument.type)
            if expected is None or not (positional or argument.name in kwargs):
                continue
            given = args[i] if positional else kwargs[argument.name]
            if not isinstance(given, expected):
                raise RuntimeError(
                    f"{self._schema.name}() Expected a value of type '{argument.type}' for argument "
                    f"'{argument.name}' but instead found type '{type(given).__name__}'.\n"
                    f"{f'Position: {i}' if positional else ''}\nValue: {given!r}\nDeclaration: {self._schema}\n"
                    f"Cast error details: Unable to cast {given!r} to {argument.type}")


class TableOperator:
    """An operator of another library that is in this package's table, like torchvision::nms.

    The table's entry states the derivative, the sizes and the dtypes under autocast.  What the
    library's Python code registers for these is ignored.
    """

    written, keyword_only = (), set()
    below_autograd, backward = False, None
    _STATED = "Autograd", "Autocast", "Meta"

    def __init__(self, qualname):
        self.qualname = qualname
        self.fake, self.cast = None, {}

    def set_derivative(self, backward, setup_context):
        """Ignores a derivative: the entry has one."""

    def impl(self, function, key):
        """Ignores what the entry states; raises for a kernel, which would not be called."""
        if not key.startswith(self._STATED):
            raise RuntimeError(f"the kernel of {self.qualname} cannot be replaced for {key}: the operator is part "
                               "of this package")


_NUMBERS = int, float, complex
_PLAIN = {"Tensor": Tensor, "int": (int, _C.dtype, _C.layout, _C.memory_format), "float": (float, int), "bool": bool, "str": str,
          "number": (*_NUMBERS, Tensor), "List[Tensor]": (list, tuple), "Device": (_C.device, str)}


def forget(qualname):
    """Removes the definition of an operator: later calls by its name do not find it."""
    found = registry.pop(qualname, None)
    if found is None:
        return
    found.packet._made.pop(found.overload, None)
    found.packet.__dict__.pop(found.overload, None)
    if not found.packet._made:
        defined_packets.pop((found.namespace, found.name), None)


def composites():
    """{overload: function} of operators of programs that are made of other operators."""
    return {found.op: found.kernels["all"] for found in registry.values()
            if found.composite and not found.opaque and found.namespace != "aten"}


class Operator:
    """One overload.  C calls the object with all arguments, in the schema's order."""

    def __init__(self, qualname, schema):
        self.namespace, self.name, self.overload = split_name(qualname)
        self.qualname = qualname
        self.kernels = {}   # {device type, "all" or "autograd": function}
        self.fake = None
        self.backward = self.setup_context = None
        self.below_autograd = False  # kernels run without history, and without a formula it has no derivative
        self.cast = {}      # {device type: dtype under autocast}
        self.checks_alias = False
        self.opaque = False  # graphs keep its calls as they are
        self.composite = False  # its kernel is made of other operators, also for derivatives
        self.function = None
        self.definition = None  # where the program defined it
        self._define(schema)

    def _define(self, schema):
        registry[self.qualname] = self
        dot = "" if self.overload == "default" else f".{self.overload}"
        internal = f"{self.namespace}::{self.name}"
        for n in range(1, sys.maxsize):  # a name of C that is free: definitions are never removed
            try:
                made = _C._define_op(internal if n == 1 else f"{internal}#{n}", f"f{dot}{schema}", self)
                break
            except ValueError as error:
                if "is in the table twice" not in str(error):
                    raise RuntimeError(str(error)) from None
        made.update(name=self.overload, schema=shown(f"{internal}{dot}{schema}"), absent=0, scalars=0, required=0,
                    positional=0, numbers=0, random=False, view=False)
        self.index, params = made["index"], made["record"]["params"]
        self.params = [p["name"] for p in params]
        self.keyword_only = {p["name"] for p in params if p["keyword_only"]}
        self.written = [i for i, p in enumerate(params) if p["written"]]
        self.results = [kind for _, kind in made["returns"]]
        key = self.namespace, self.name
        self.packet = defined_packets.setdefault(key, _Packet(*key))
        self.op = self.packet.add(made)

    # --- what the program registers ---

    def make_opaque(self):
        """Makes graphs keep calls of this operator as they are."""
        self.opaque = True
        _C._set_op_opaque(self.index)

    def impl(self, function, key):
        """Registers a kernel for a dispatch key."""
        if key in _ALL:
            self.kernels["all"] = function
            self.composite = key == "CompositeImplicitAutograd"
        elif key == "Meta":
            self.fake = function
            self.kernels["meta"] = function
        elif key.startswith("Autograd"):
            self.kernels["autograd"] = function
        elif key in _DEVICE_KEYS:
            self.kernels[_DEVICE_KEYS[key]] = function
            self.make_opaque()
        else:
            raise RuntimeError(f"could not parse dispatch key: {key}")

    def set_derivative(self, backward, setup_context):
        self.backward, self.setup_context = backward, setup_context
        self.function = None
        self.make_opaque()

    # --- calls ---

    def __call__(self, *args):
        return self._call_opaque(args) if self.opaque else self._call(args)

    def _call_opaque(self, args):
        """Programs of a recording make this call, too: what it reads needs no guard (_dynamo/capture.py)."""
        return self._call(args)

    def _call(self, args):
        if self.cast:
            args = self._autocast(args)
        wants = _C.is_grad_enabled() and any(t.requires_grad for t in _tensors(args))
        if wants and "autograd" in self.kernels:
            return self._apply(self.kernels["autograd"], args)
        if wants and (self.backward is not None or self.below_autograd) and self._may_differentiate(args):
            return self._recorded(args)
        return self._run(args)

    def _may_differentiate(self, args):
        """An operator that writes its arguments has no derivative."""
        return not self.written and any(t in ("Tensor", "Tensor[]") for t in self.results)

    def _autocast(self, args):
        device = _device_type(args)
        dtype = self.cast.get(device)
        if dtype is None or not _C.is_autocast_enabled(device):
            return args

        def cast(x):
            if isinstance(x, Tensor) and x.is_floating_point() and x.dtype != _C.float64:
                return x.to(dtype)
            return [cast(item) for item in x] if isinstance(x, list) else x
        return tuple(map(cast, args))

    def _apply(self, function, args):
        """Calls a kernel; keyword-only parameters are passed by name."""
        positional = [x for name, x in zip(self.params, args) if name not in self.keyword_only]
        named = {name: x for name, x in zip(self.params, args) if name in self.keyword_only}
        return function(*positional, **named)

    def _run(self, args):
        fake = any(map(_C._is_fake, _tensors(args)))
        kernel = self._fake_kernel() if fake else self._kernel(_device_type(args))
        if self.below_autograd:
            with _C.no_grad():
                result = self._apply(kernel, args)
        else:
            result = self._apply(kernel, args)
        if not fake:
            self._after(args, result)
        return result

    def _fake_kernel(self):
        kernel = self.fake or (self.kernels.get("all") if not self.below_autograd else None)
        if kernel is None and not self.results:
            return lambda *args, **kwargs: None
        if kernel is None:
            who = f"<CustomOpDef({self.qualname})>" if self.below_autograd else self.qualname
            advice = (f"`{self.name}.register_fake`" if self.below_autograd else "`torch.library.register_fake`")
            raise RuntimeError(f"There was no fake impl registered for {who}. This is necessary for "
                               f"torch.compile/export/fx tracing to work. Please use {advice} to add an fake impl.")
        return kernel

    def _kernel(self, device):
        found = self.kernels.get(device) or self.kernels.get("all")
        if found is None:
            known = sorted(k for k in self.kernels if k != "autograd")
            raise NotImplementedError(
                f"Could not run '{self.qualname}' with arguments from the '{device.upper()}' backend. This could be "
                "because the operator doesn't exist for this backend, or was omitted during the selective/custom "
                f"build process (if using custom build). '{self.qualname}' is only available for these backends: "
                f"{known}.")
        return found

    def _after(self, args, result):
        if self.checks_alias:
            self._refuse_alias(args, result)
        for i in self.written:
            for tensor in _tensors((args[i],)):
                _C._bump_version(tensor)

    def _refuse_alias(self, args, result):
        results = list(_tensors(result if isinstance(result, (tuple, list)) else (result,)))
        if not results:
            return
        known = {t.untyped_storage().data_ptr() for t in _tensors(args) if t.numel()}
        for t in results:
            address = t.untyped_storage().data_ptr()
            if t.numel() and address in known:
                raise RuntimeError(
                    f"{self.name} (with implementation in {inspect.getmodule(self._kernel(_device_type(args)))}): The "
                    "output of this custom operator (1) must not also be an input to this custom operator and (2) "
                    "may not alias any inputs to this custom operator or other returns. The most common way to "
                    "trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please "
                    "instead return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor "
                    "the custom operator to not return y.")
            known.add(address)

    # --- history ---

    def _recorded(self, args):
        """Runs the operator inside an autograd.Function, which has the tensors of lists as further
        arguments."""
        if self.function is None:
            self.function = _make_function(self)
        flat, shape = _flatten(args)
        lengths = []
        out = self.function.apply(shape, lengths, *flat)
        if not lengths:
            return out
        values = _unflatten(out, lengths)
        return values[0] if len(self.results) == 1 else values


def _tensors(args):
    for x in args:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


def _device_type(args):
    """Returns the kind of device that chooses the kernel."""
    for x in _tensors(args):
        return x.device.type
    for x in args:
        if isinstance(x, _C.device):
            return x.type
    return "cpu"


def _flatten(values):
    """Returns all items with lists spread, and for each value the length of its list or None."""
    flat, shape = [], []
    for x in values:
        is_list = isinstance(x, (list, tuple))
        shape.append(len(x) if is_list else None)
        flat.extend(x if is_list else (x,))
    return flat, tuple(shape)


def _unflatten(flat, shape):
    items = iter(flat)
    return tuple(next(items) if n is None else [next(items) for _ in range(n)] for n in shape)


def _make_function(op):
    """Makes the autograd.Function of an operator."""
    from ..autograd import Function
    dotted = f"{op.namespace}.{op.name}.{op.overload}"

    def forward(ctx, shape, lengths, *flat):
        args = _unflatten(flat, shape)
        result = op._run(args)
        ctx._shape, ctx._lengths = shape, None
        if op.setup_context is not None:
            _set_up(op, ctx, args, result)
        if op.results == ["Tensor"]:
            return result
        spread, ctx._lengths = _flatten([result] if len(op.results) == 1 else result)
        lengths.extend(ctx._lengths)
        return tuple(spread)

    def backward(ctx, *grads):
        if op.backward is None:
            raise RuntimeError(f"Trying to backward through {dotted} but no autograd formula was registered. Please "
                               "use register_autograd to add one.")
        if ctx._lengths is not None:
            grads = _unflatten(grads, ctx._lengths)
        found = op.backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return None, None, *_spread(op, found, ctx._shape)
    name = f"GeneratedBackwardFor_{op.namespace}_{op.name}_{op.overload}"
    return type(name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def _set_up(op, ctx, args, result):
    positional = tuple(x for name, x in zip(op.params, args) if name not in op.keyword_only)
    named = {name: x for name, x in zip(op.params, args) if name in op.keyword_only}
    if named:
        op.setup_context(ctx=ctx, inputs=positional, keyword_only_inputs=named, output=result)
    else:
        op.setup_context(ctx=ctx, inputs=positional, output=result)


def _spread(op, grads, shape):
    """Returns a gradient for each flat argument from those of the positional parameters."""
    given = iter(grads)
    expected = sum(name not in op.keyword_only for name in op.params)
    if len(grads) != expected:
        raise RuntimeError(f"{op.qualname}: the derivative returned {len(grads)} gradients for {expected} inputs")
    flat = []
    for name, n in zip(op.params, shape):
        grad = None if name in op.keyword_only else next(given)
        if n is None:
            flat.append(grad)
        else:
            flat.extend([None] * n if grad is None else grad)
    return flat
