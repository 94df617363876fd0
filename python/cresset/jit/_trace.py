"""Tracing: the operators that run for example inputs become a TorchScript program.

Calls of operators are seen by a function mode, calls of modules by hooks.  Each call of a module is
a frame: the values that it uses from outside become the parameters of its method, the values that
are used outside its results.  The methods are written as TorchScript and compiled.
"""
import collections
import contextlib
import dis
import functools
import inspect
import itertools
import keyword
import operator
import re
import sys
import threading
import types
import warnings

import cresset
from cresset import overrides
from cresset.nn import Module
from cresset.nn.modules import module as _module
from cresset.overrides import TorchFunctionMode

from .. import _C
from .._ops import OpOverload
from . import _frontend, _recursive
from ._loaded import recorders
from ._trace_numbers import TracedInt, TracedNumber, as_tensors

_PYTHON_VALUE = ("Converting a tensor to a Python {} might cause the trace to be incorrect. We can't record the data flow "
                 "of Python values, so this value will be treated as a constant in the future. This means that the trace "
                 "might not generalize to other inputs!")
_CONSTRUCTOR = ("torch.{} results are registered as constants in the trace. You can safely ignore this warning if you use this "
                "function to create tensors out of constant variables that would be the same every time you call this "
                "function. In any other case, this might cause the trace to be incorrect.")
_WARNINGS = {
    "bool": _PYTHON_VALUE.format("boolean"), "int": _PYTHON_VALUE.format("integer"),
    "float": _PYTHON_VALUE.format("float"), "complex": _PYTHON_VALUE.format("complex"),
    "item": _PYTHON_VALUE.format("number"), "tolist": _PYTHON_VALUE.format("list"),
    "numpy": _PYTHON_VALUE.replace("Python {}", "NumPy array"),
    "len": "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be "
           "tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give incorrect results.",
    "iter": "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape won't "
            "change the number of iterations executed (and might lead to errors or silently give incorrect results).",
    **{name: _CONSTRUCTOR.format(name) for name in ("tensor", "as_tensor", "from_numpy")},
}


_forced = threading.local()


@contextlib.contextmanager
def written_out_of_place(on):
    """While active, recorders of this thread record operators in place as those that return a new tensor, where `on` says so."""
    before, _forced.on = getattr(_forced, "on", False), bool(on)
    try:
        yield
    finally:
        _forced.on = before


def recording():
    """The active recorder of this thread, or None."""
    return recorders.active[-1] if recorders.active else None


class _Value:
    """A tensor of the trace."""

    def __init__(self, frame, name=None, attribute=None, constant=None, kind=None):
        self.frame, self.name, self.attribute, self.constant = frame, name, attribute, constant
        self.kind = kind  # of a parameter that is no tensor: its type's text
        self.hint = None  # the variable of the program that has it when it is first read
        self.seen = None  # the text of the type that its graph shows
        self.memory = None  # a number that values with the same memory share; None: not known


class _Call:
    """An operator's call: parts of its text, of which values are operands; and its results."""

    def __init__(self, parts, results, several=False, effect=False, memory=None):
        self.parts, self.results, self.several, self.effect = parts, results, several, effect
        self.memory = memory  # what a call in place writes to; None: other effects

    def operands(self):
        return [p for p in self.parts if isinstance(p, _Value)]


class _Frame:
    """A call of a module, or the traced function."""

    def __init__(self, module, parent):
        self.module, self.parent = module, parent
        self.items = []  # calls and frames, in order
        self.arguments = None  # of a compiled module's method, whose `object` is the program's
        self.object, self.module_called = None, False
        self.results, self.several = [], False
        self.method = "forward"

    def encloses(self, other):
        while other is not None and other is not self:
            other = other.parent
        return other is self


class Recorder(TorchFunctionMode):
    """Records what runs inside `with`."""

    def __init__(self, module):
        self.top = self.frame = _Frame(module, None)
        self.values, self.kept, self.constants, self.scripted, self.numbers = {}, [], {}, {}, {}
        self.outplace = getattr(_forced, "on", False)
        self.given = set()  # the memory of inputs, parameters and constants
        self.quiet = False  # tensors become numbers without a warning
        self.unnamed = False  # the call that is recorded is one where torch does not see the program's variables
        self.paths = {}  # of parameters and buffers as the call finds them, by module and tensor
        if module is not None:
            for table in (module.named_parameters, module.named_buffers):
                for path, t in table(remove_duplicate=False):
                    self.bind(t, _Value(None, attribute=t))
            for m in module.modules():
                named = [*m.named_parameters(remove_duplicate=False), *m.named_buffers(remove_duplicate=False)]
                self.paths[id(m)] = {id(t): path for path, t in reversed(named)}

    def bind(self, tensor, value):
        self.kept.append(tensor)
        self.values[id(tensor)] = value
        value.seen, memory = _C._script_type_seen(tensor)
        value.memory = memory or None
        if value.frame is None or value.name is not None:
            self.given.add(value.memory)
        return value

    def value(self, tensor):
        found = self.values.get(id(tensor))
        if found is None:
            if tensor.requires_grad:
                raise RuntimeError("Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter "
                                   f"or input, or detaching the gradient\nTensor:\n{tensor}")
            name = f"_constant{len(self.constants)}"
            self.constants[name] = tensor.detach()
            found = self.bind(tensor, _Value(None, constant=name))
        elif found.frame is not None and found.hint is None and not self.unnamed:
            found.hint = _variable_of(tensor)
        return found

    def number_constant(self, x):
        """The parts of a number that stands where an operator takes a tensor: a constant tensor, as in torch."""
        kind = type(x)
        if (kind, x) not in self.numbers:
            dtype = {bool: cresset.bool, int: cresset.int64, float: cresset.float64, complex: cresset.complex128}[kind]
            with self.without_warnings():
                self.numbers[kind, x] = cresset.full((), x, dtype=dtype)
        return [self.value(self.numbers[kind, x])]

    # --- calls ---

    def parts(self, x, exact=False):
        """The text of an argument, with values in it.  `exact`: tuples and dicts are no lists."""
        if isinstance(x, cresset.Tensor):
            return [self.value(x)]
        if isinstance(x, dict) and exact:
            return _listed("{", "}", [[repr(k) + ": ", *self.parts(v, exact)] for k, v in x.items()])
        if isinstance(x, (list, tuple)):
            items = [self.parts(item, exact) for item in x]
            return _listed("(", ",)" if len(x) == 1 else ")", items) if exact and isinstance(x, tuple) else \
                _listed("[", "]", items)
        if isinstance(x, cresset.device):
            return [f'torch.device("{x}")']
        if isinstance(x, (cresset.dtype, cresset.layout, cresset.memory_format)):
            return ["torch." + str(x).rpartition(".")[2]]
        if x is None or isinstance(x, (bool, int, float, complex, str)):
            return [repr(x)]
        raise RuntimeError(f"Tracer cannot record an argument of type '{type(x).__name__}'")

    def number(self, tensor, wanted=None):
        """The text of a tensor where a number of type `wanted` stands, and the number.  None: of the tensor's own type."""
        own = bool if tensor.dtype == cresset.bool else float if tensor.is_floating_point() else int
        kind = wanted or own
        with self.without_warnings():
            return self.converted(self.value(tensor), kind.__name__ + "("), kind(tensor.item())

    def converted(self, value, start):
        """The parts of a tensor's number: in the call of a module that made the tensor, its own step right behind that, as in torch."""
        parts = [start, value, ")"]
        at = next((i for i in reversed(range(len(self.frame.items))) if isinstance(self.frame.items[i], _Call)
                   and value in self.frame.items[i].results), None) if value.frame is self.frame else None
        if at is None:
            return parts
        made = _Value(self.frame)
        self.frame.items.insert(at + 1, _Call(parts, [made]))
        return [made]

    def argument(self, x, kinds):
        """The text of an argument of which a parameter has one of these types, and the value to call with."""
        plain = {k.removeprefix("Optional[").removesuffix("]") if k.startswith("Optional[") else k for k in kinds}
        if isinstance(x, cresset.Tensor):
            if not kinds or any("Tensor" in k for k in kinds):
                return self.parts(x), x
            if plain == {"number"}:
                value = self.number(x)[1]
                return self.converted(self.value(x), "annotate(number, "), value
            return self.number(x, float if plain == {"float"} and not x.is_complex() else None)
        if isinstance(x, (list, tuple)) and any(isinstance(item, cresset.Tensor) for item in x):
            if kinds and not any("Tensor" in k for k in kinds):
                lists = {k for k in plain if k.startswith("List[")}
                wanted = {"List[int]": int, "List[float]": float}.get(*lists) if len(lists) == 1 else None
                pairs = [self.number(item, wanted) if isinstance(item, cresset.Tensor) else (self.parts(item), item) for item in x]
                return _listed("[", "]", [text for text, _ in pairs]), [value for _, value in pairs]
        if plain == {"List[Optional[Tensor]]"}:
            return [f"annotate({min(plain)}, ", *self.parts(x), ")"], x
        if x in ([], ()) and plain:
            return [f"annotate({min(plain)}, [])"], x
        if "float" in plain and not plain & {"int", "number", "bool"} and type(x) is int:
            return [repr(float(x))], x
        if "List[float]" in plain and "List[int]" not in plain and isinstance(x, (list, tuple)):
            return [repr([float(v) for v in x])], x
        return self.parts(x), x

    # --- indexing: a view for each item, as torch has it ---

    def step(self, name, texts, result, effect=False):
        """Records a call of an operator whose arguments have these texts; returns its result."""
        self.record(_listed(f"ops.aten.{name}(", ")", texts), result, effect, in_place=effect)
        return result

    def bound(self, x, usual):
        """The text of a slice's bound, and the bound."""
        return ([usual], None) if x is None else self.argument(as_tensors(x, self), ("int",))

    def sliced(self, x, items):
        """The views that the items of an index make, each a call, and the tensors among the items by dim."""
        dim, tensors, missing, y = 0, {}, x.dim() - _named_dims(items), x
        for item in items:
            before, at = (slice(None),) * dim, str(dim)
            if item is Ellipsis:
                dim += missing
            elif isinstance(item, bool):
                y = self.step("unsqueeze", [[self.value(y)], [at]], y.unsqueeze(dim))
                tensors[dim] = self.index_of_bool(item, x.device)
                dim += 1
            elif item is None:
                y = self.step("unsqueeze", [[self.value(y)], [at]], y.unsqueeze(dim))
                dim += 1
            elif isinstance(item, slice):
                start, stop, step = self.bound(item.start, "0"), self.bound(item.stop, _END), self.bound(item.step, "1")
                part = y[(*before, slice(start[1], stop[1], step[1]))]
                y = self.step("slice", [[self.value(y)], [at], start[0], stop[0], step[0]], part)
                dim += 1
            elif isinstance(item, int) or (isinstance(item, cresset.Tensor) and item.dim() == 0):
                text, i = self.argument(as_tensors(item, self), ("int",))
                y = self.step("select", [[self.value(y)], [at], text], y[(*before, int(i))])
            else:
                tensors[dim] = item if isinstance(item, cresset.Tensor) else self.constant_of(self.listed(item, x.device))
                dim += 1
        return y, tensors

    def listed(self, items, device):
        """The tensor that a list of numbers in an index stands for."""
        with self.without_warnings():
            return cresset.tensor(items, device=device)

    def index_of_bool(self, item, device):
        """The index that stands for True, of one item, or False, of none."""
        made = cresset.zeros(int(item), dtype=cresset.int64, device=device)
        options = f'dtype=torch.int64, layout=torch.strided, device=torch.device("{device}")'
        self.step("empty", [[f"[{int(item)}]"], [options]], made)
        return self.step("fill_", [[self.value(made)], ["0."]], made, effect=True) if item else made

    def constant_of(self, tensor, detached=False):
        """A tensor of the program's numbers, which torch makes of a constant: a constant, moved to its device and dtype."""
        with self.without_warnings():
            constant = tensor.detach().clone()
        target = f'torch.device("{tensor.device}"), {_dtype_text(tensor.dtype)}'
        self.step("to", [[self.value(constant)], [target]], tensor)
        return self.step("detach", [[self.value(tensor)]], tensor) if detached else tensor

    def index_parts(self, tensors):
        """The text of the tensors of an index, by dims, and the index to use."""
        count = max(tensors) + 1
        texts = [self.parts(tensors[i]) if i in tensors else ["None"] for i in range(count)]
        return ["annotate(List[Optional[Tensor]], ", *_listed("[", "]", texts), ")"], \
            tuple(tensors.get(i, slice(None)) for i in range(count))

    def item(self, func, x, index):
        """x[index]."""
        items = _items(index, x)
        if items is None:
            func(x, index)  # raises where the index is wrong
            raise RuntimeError(f"Tracer cannot record an index of type '{type(index).__name__}'")
        y, tensors = self.sliced(x, items)
        if tensors:
            text, index = self.index_parts(tensors)
            return self.step("index", [[self.value(y)], text], y[index])
        return self.step("alias", [[self.value(x)]], func(x, index)) if y is x else y

    def assigned(self, x, value):
        """The tensor that is assigned to elements of x."""
        value = as_tensors(value, self)
        if isinstance(value, cresset.Tensor):
            return value
        return cresset.full((), value, dtype=x.dtype, device=x.device)

    def write(self, x, value):
        """Copies a value to the elements of x, as an assignment does."""
        if self.outplace:
            self.note_others(x, "copy_ (possibly due to an assignment)")
        elif value.shape != x.shape and value.dim() == 0 and value.device.type == "cpu":
            return self.step("fill_", [[self.value(x)], [self.value(value)]], x.fill_(value), effect=True)
        if value.shape != x.shape:
            value = self.without_ones(value, always=True)
        if value.shape != x.shape:
            sizes = list(x.shape)
            value = self.step("expand", [[self.value(value)], [repr(sizes)]], value.expand(sizes))
        return self.step("copy_", [[self.value(x)], [self.value(value)]], x.copy_(value), effect=True)

    def without_ones(self, value, always=False):
        """The value without its leading dims of one element."""
        sizes = list(value.shape)
        while sizes and sizes[0] == 1:
            sizes.pop(0)
        if not always and len(sizes) == value.dim():
            return value
        return self.step("view", [[self.value(value)], self.parts(sizes) if sizes else ["annotate(List[int], [])"]], value.view(sizes))

    def assign(self, func, x, index, value):
        """x[index] = value."""
        items = _items(None if index is True else index, x)
        if items is None or not isinstance(value, (cresset.Tensor, bool, int, float, complex)):
            func(x, index, value)  # raises where it is wrong
            raise RuntimeError(f"Tracer cannot record an assignment of type '{type(value).__name__}' to an index of type "
                               f"'{type(index).__name__}'")
        value = self.assigned(x, value)
        y, tensors = self.sliced(x, items)
        if not tensors:
            self.write(y, value)
            return
        value = self.without_ones(value)
        text, index = self.index_parts(tensors)
        y[index] = value
        name = "index_put" if self.outplace else "index_put_"
        if self.outplace:
            self.note_others(y, "index_put_ (possibly due to an assignment)")
        self.step(name, [[self.value(y)], text, [self.value(value)]], y, effect=not self.outplace)

    def call_parts(self, name, args, kwargs):
        """The text of an operator's call, and the arguments to call with."""
        schemas = _C._script_parameters(f"aten::{name}")
        sized = [None if isinstance(x, cresset.Tensor) and not x.dim() else x for x in args]  # sizes are numbers for schemas
        options = _options(name, _of_tensors(sized, schemas), kwargs)
        if len(args) == 1 and not kwargs and _has_correction(schemas):
            kwargs = {"dim": None, "correction": None}
        texts, given, named = [], [], {}
        kwargs, moved = {_schema_name(key, schemas): x for key, x in kwargs.items()}, _place_of_self(args, schemas)
        args = [*args[1:moved + 1], args[0], *args[moved + 1:]] if moved else args
        fitting = _of_tensors(args, schemas)
        for i, x in enumerate(_gathered(args, schemas)):
            text, value = self.argument(x, {p[i][1] for p in schemas if i < len(p)})
            taken = i == 1 and not kwargs.keys() - {"out"} and _takes_tensor(name.rstrip("_"))
            if type(x) in (bool, int, float, complex) and (taken or {p[i][1] for p in fitting if i < len(p)} == {"Tensor"}):
                text = self.number_constant(x)
            texts.append(text)
            given.append(value)
        if moved:
            given.insert(0, given.pop(moved))
        for key, x in kwargs.items():
            if key == "out" and not isinstance(x, cresset.Tensor):
                named[key] = x  # write_several records it
                continue
            kinds = {p[1] for params in schemas for p in params if p[0] == key}
            text, named[key] = self.argument(x, kinds)
            off = schemas and not kinds and (x is None or x is False)  # an option of Python, such as requires_grad
            off = off or key in options
            off = off or (options and key == "requires_grad")
            texts += [] if off else [[f"{key}=", *text]]
        for key, usual in options.items():
            texts.append([f"{key}=", *(self.parts(kwargs[key]) if kwargs.get(key) is not None else [usual])])
        return _listed(f"ops.aten.{_name_of_call(name, args)}(", ")", texts), given, named

    def bind_items(self, value, x, add):
        """Knows the tensors inside of a container by the text that reads them."""
        items = x.items() if isinstance(x, dict) else enumerate(x)
        for key, item in items:
            text = [value, f"[{key!r}]"]
            if isinstance(item, cresset.Tensor):
                add(_Call(text, [self.bind(item, _Value(self.frame))]))
            elif _flatten(item):
                inner = _Value(self.frame)
                add(_Call(text, [inner]))
                self.bind_items(inner, item, add)

    def results(self, result, add):
        """The values of a call's results, and whether they are several; `add` gets calls that read items."""
        if isinstance(result, (list, tuple)) and all(isinstance(t, cresset.Tensor) for t in result) and result:
            return [self.bind(t, _Value(self.frame)) for t in result], True
        if isinstance(result, cresset.Tensor):
            return [self.bind(result, _Value(self.frame))], False
        if not _flatten(result):
            return [], False
        whole = _Value(self.frame)
        self.bind_items(whole, result, add)
        return [whole], False

    def record(self, parts, result, effect=False, in_place=False):
        later = []
        values, several = self.results(result, later.append)
        if values or effect:
            memory = values[0].memory if in_place and len(values) == 1 else None
            self.frame.items += [_Call(parts, values, several, effect, memory), *later]

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return self.property(func, args[0], sys._getframe(1))
        wrapped = getattr(func, "__wrapped__", None)
        if wrapped is not None:
            with self:
                return wrapped(*args, **kwargs)
        if overrides._asks(func):
            with self:
                return overrides._run_inside(func, args, kwargs)
        if name in ("tensor", "as_tensor"):
            return self.copy_of(func, args, kwargs)
        if name in ("size", "numel", "nelement"):
            return self.sizes(func, name, args, kwargs, sys._getframe(1))
        return self.operator(func, name, args, kwargs)

    # --- ranges of profiles ---

    def begin_range(self, name, args):
        """Records the begin of a range; the value is for `end_range`.  None inside of a program, which has ranges of its own."""
        if self.frame.arguments is not None:
            return None
        made = _Value(self.frame)
        given = repr(name) if args is None else f"{name!r}, {args!r}"
        self.frame.items.append(_Call([f"ops.profiler._record_function_enter_new({given})"], [made], effect=True))
        return made

    def end_range(self, value):
        """Records the end of a range in the call of the module that began it."""
        if value.frame is self.frame:
            self.frame.items.append(_Call(["ops.profiler._record_function_exit(", value, ")"], [], effect=True))

    # --- sizes: tensors, and for functions of this package numbers that know theirs ---

    def size_of(self, x, text, inside):
        """The size of a dim, or the number of elements: a tensor, `inside` of the package a number."""
        made = cresset.full((), x, dtype=cresset.int64)
        value = self.bind(made, _Value(self.frame))
        value.seen = "Long(device=cpu)"
        self.frame.items.append(_Call(["ops.prim.NumToTensor(", *text, ")"], [value]))
        return TracedInt.of(x, self, made) if inside else made

    def computes(self, x):
        """Whether a tensor is an input or a result: parameters and constants have one size."""
        known = self.values.get(id(x))
        return known is not None and known.frame is not None and self.frame.arguments is None

    def sizes(self, func, name, args, kwargs, caller):
        answer, inside = func(*args, **kwargs), _frontend.ours(caller.f_globals.get("__name__"))
        if inside and not self.computes(args[0]):
            return answer
        x = self.value(args[0])
        if name != "size":
            return self.size_of(answer, ["ops.aten.numel(", x, ")"], inside)
        if isinstance(answer, int):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            dim = self.argument(as_tensors(dim, self), ("int",))[0]
            return self.size_of(answer, ["ops.aten.size(", x, ", ", *dim, ")"], inside)
        made = [self.size_of(n, ["ops.aten.size(", x, f", {i})"], inside) for i, n in enumerate(answer)]
        return cresset.Size() + tuple(made)

    def property(self, func, x, caller):
        """Attributes of tensors: sizes, views and facts."""
        name = func.__self__.__name__
        if name == "shape":
            return self.sizes(func, "size", (x,), {}, caller)
        result = func(x)
        if isinstance(result, cresset.Tensor) and name not in ("grad", "_base"):
            operator = next((n for n in (_VIEWS.get(name), f"numpy_{name}", name)
                             if n and _C._script_has_operator(f"aten::{n}")), None)
            if operator is not None:
                self.record([f"ops.aten.{operator}(", self.value(x), ")"], result)
        return result

    # --- operators ---

    def copy_of(self, func, args, kwargs):
        """torch.tensor() and torch.as_tensor(): of a tensor, such as a size, a copy; a constant for other data."""
        result, given = func(*args, **kwargs), as_tensors(args[0], self) if args else None
        if isinstance(given, cresset.Tensor) and self.computes(given) and (result is not given or func.__name__ == "as_tensor"):
            result = given.view_as(given) if result is given else result
            copies = func.__name__ == "tensor"
            source = self.step("detach", [[self.value(given)]], given.detach()) if copies else given
            to = [[self.value(source)], [f'torch.device("{result.device}"), {_dtype_text(result.dtype)}']]
            self.step("to", to + [["False, True"]] * copies, result)
            if copies:
                self.step("detach", [[self.value(result)]], result)
        elif args and not isinstance(given, cresset.Tensor) and not result.requires_grad:
            self.constant_of(result, detached=func.__name__ == "tensor")
        return result

    @contextlib.contextmanager
    def without_warnings(self):
        """Tensors become numbers without a warning."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def whole_number(self, tensor):
        """The number in a tensor, which the trace follows."""
        with self.without_warnings():
            value = int(tensor)
        return TracedInt.of(value, self, tensor) if self.computes(tensor) else value

    def conversion(self, func, name, args, kwargs):
        """x.to(...), x.float(), x.cpu()."""
        x, result = args[0], func(*args, **kwargs)
        if result is x and self.value(x).frame is None:
            return result  # a parameter or a constant stays one
        dtype, given = _dtype_text(result.dtype), (*args[1:], *kwargs.values())
        places = [a for a in given if isinstance(a, (str, cresset.device))] or name in ("cpu", "cuda")
        other = next((a for a in given if isinstance(a, cresset.Tensor)), None)
        if other is not None:
            target = [self.value(other)]  # torch records its dtype, as a constant
        elif places and any(isinstance(a, cresset.dtype) for a in given):
            target = [f'torch.device("{result.device}"), {dtype}']
        else:
            target = [f'dtype={dtype}, layout=torch.strided, device=torch.device("{result.device}")' if places else dtype]
        named = [[f"{k}=", *self.parts(v)] for k, v in kwargs.items() if k in ("non_blocking", "copy", "memory_format")]
        self.record(_listed("ops.aten.to(", ")", [[self.value(x)], target, *named]), result)
        return result

    def operator(self, func, name, args, kwargs):
        if name in _CONVERSIONS:
            return self.conversion(func, name, args, kwargs)
        if name == "__getitem__":
            return self.item(func, *args)
        if name == "__setitem__":
            return self.assign(func, *args)
        if name == "requires_grad_":
            return func(*args, **kwargs)  # torch does not record it
        if name == "view" and any(isinstance(x, cresset.dtype) for x in (*args, *kwargs.values())):
            raise RuntimeError("Tracer cannot record a view with another dtype: programs read the dtype as a size")
        if name == "detach_":
            parts = ["ops.aten.detach(", self.value(args[0]), ")"]
            result = func(*args)
            self.record(parts, result)
            return result
        shown, given, name = name, _written_by_name(func), _operator_name(func)
        if name in _SIGNS and _sign(sys._getframe(1)):
            name = _SIGNS[name]
        if self.outplace and name.endswith("_") and not name.startswith("__") and args and not given and name != "normal_" and \
                (name in _OUT_OF_PLACE or _C._script_has_operator(f"aten::{name[:-1]}")):
            return self.out_of_place(func, name, args, kwargs)
        if name in _CONVOLUTIONS and not _holds_numbers((args, kwargs)):
            return self.convolution(func, name, args, kwargs)
        writes = bool(given or _flatten(kwargs.get("out"))) or (name.endswith("_") and not name.startswith("__"))
        if not _C._script_has_operator(f"aten::{name}") or not _programs_write(name, given, kwargs):
            result = func(*args, **kwargs)
            if (_flatten(result) or (writes and result is None)) and name != "requires_grad_":
                raise RuntimeError(f"Tracer cannot record '{shown}': TorchScript has no such operator")
            return result
        self.unnamed = _in_python(func, name, args)
        try:
            parts, args, kwargs = self.call_parts(name, as_tensors(args, self), as_tensors(kwargs, self))
        finally:
            self.unnamed = False
        if isinstance(kwargs.get("out"), (list, tuple)):
            return self.write_several(func, shown, parts, args, kwargs)
        result = func(*args, **kwargs)
        if _flatten(result) or (writes and result is None):
            self.record(parts, result, effect=writes, in_place=writes and result is args[0])
        if kwargs.get("requires_grad"):
            self.seen_without_gradient(result)
        return result

    def out_of_place(self, func, name, args, kwargs):
        """A call in place, as one that returns a new tensor."""
        x = args[0]
        self.note_others(x, name)
        if name in _OUT_OF_PLACE:
            result, options = func(*args, **kwargs), _LIKE.format(x.device)
            value = args[1] if len(args) > 1 else kwargs.get("value", kwargs.get("other", kwargs.get("src")))
            other, texts = _OUT_OF_PLACE[name]
            return self.step(other, texts(self.parts(x), None if value is None else self.parts(value), [options]), result)
        parts, args, kwargs = self.call_parts(name[:-1], as_tensors(args, self), as_tensors(kwargs, self))
        result = func(*args, **kwargs)
        self.record(parts, result)
        return result

    def note_others(self, x, name):
        """Warns when other tensors of the program have the memory that a call in place writes to."""
        memory = self.value(x).memory
        held = collections.Counter(map(id, self.kept))
        shared = {id(t): t for t in self.kept if self.values[id(t)].memory == memory is not None}
        alive = [key for key in shared if sys.getrefcount(shared[key]) > held[key] + 2]  # those of the dict and of this call
        if len(alive) > 1:
            _warn(f"There are {len(alive)} live references to the data region being modified when tracing in-place operator {name}. "
                  "This might cause the trace to be incorrect, because all other views that also reference this data will not "
                  "reflect this change in the trace! On the other hand, if all other views use the same memory chunk, but are "
                  "disjoint (e.g. are outputs of torch.split), this might still be safe.")

    def convolution(self, func, name, args, kwargs):
        """A convolution of one of Python's names: aten::_convolution, as torch has it."""
        names = _CONVOLUTIONS[name]
        given = dict(zip(names, args)) | kwargs
        x, weight, bias, padding = given["input"], given["weight"], given.get("bias"), given.get("padding", 0)
        dims, result = weight.dim() - 2, func(*args, **kwargs)
        batched, groups = x.dim() == dims + 2, repr(int(given.get("groups", 1)))

        def listed(key, usual):
            value = given.get(key, usual)
            return [repr([value] * dims if isinstance(value, int) else [*value, *value][:dims] if len(value) == 1 else list(value))]
        y = result if batched else result.unsqueeze(0)
        x = x if batched else self.step("unsqueeze", [[self.value(x)], ["0"]], x.unsqueeze(0))
        tensors = [[self.value(x)], [self.value(weight)], ["None"] if bias is None else [self.value(bias)], listed("stride", 1)]
        if isinstance(padding, str):
            self.step("_convolution_mode", [*tensors, [repr(padding)], listed("dilation", 1), [groups]], y)
        else:
            transposed, cudnn = repr("transpose" in name), cresset.backends.cudnn
            flags = [cudnn.benchmark, cudnn.deterministic, cudnn.enabled, cudnn.allow_tf32]
            self.step("_convolution", [*tensors, listed("padding", 0), listed("dilation", 1), [transposed], listed("output_padding", 0),
                                       [groups], *([repr(bool(flag))] for flag in flags)], y)
            self.seen_without_gradient(y)
        return result if batched else self.step("squeeze", [[self.value(y)], ["0"]], result)

    def seen_without_gradient(self, tensor):
        """The type of a result, which torch sees before it knows that the result requires a gradient."""
        value = self.value(tensor)
        value.seen = value.seen.replace("requires_grad=1", "requires_grad=0")

    def write_several(self, func, name, parts, args, kwargs):
        """A call with a tuple of tensors as `out`: the call without them, and a copy to each."""
        before = [(self.value(t), t.shape) for t in kwargs["out"]]
        result = func(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != len(before):
            raise RuntimeError(f"Tracer cannot record '{name}': TorchScript has no such operator")
        self.record(parts, result)
        for t, (old, shape) in zip(result, before):
            if t.shape == shape:  # one of another size has new elements, which no other tensor shares
                made = self.value(t)
                self.frame.items.append(_Call(["ops.aten.copy_(", old, ", ", made, ")"],
                                              [self.bind(t, _Value(self.frame))], effect=True))
        return result

    # --- modules ---

    def enter(self, module, args):
        """Begins the call of a module.  None where the caller does not have it: what it does is then part of the caller."""
        if self.frame.arguments is not None:
            return None
        if not isinstance(module, cresset.jit.ScriptModule) and \
                all(m is not module for m in (self.frame.module.modules() if self.frame.module is not None else ())):
            return None
        frame = _Frame(module, self.frame)
        if isinstance(module, cresset.jit.ScriptModule):
            frame.object = module._c
            frame.arguments = [self.parts(a, exact=True) for a in args]
        self.frame.items.append(frame)
        self.frame = frame
        return frame

    def method_call(self, object, name, args, kwargs):
        """A method of a compiled module.  `forward` inside of a call of the module is that call."""
        frame = self.frame
        if frame.arguments is not None or not object.is_module:
            if frame.arguments is not None and frame.object == object and not frame.module_called:
                frame.module_called = True
                frame.arguments += self.named_parts(kwargs)
            return object.call(name, args, kwargs)
        self.frame = called = _Frame(None, frame)
        called.object, called.method, called.module_called = object, name, True
        called.arguments = [self.parts(a, exact=True) for a in args] + self.named_parts(kwargs)
        frame.items.append(called)
        try:
            result = object.call(name, args, kwargs)
        except BaseException as error:
            self.abandon(called, error)
            raise
        self.leave(called, result)
        return result

    def named_parts(self, kwargs):
        return [[f"{key}=", *self.parts(x, exact=True)] for key, x in kwargs.items()]

    def compiled_results(self, frame, result):
        _check_compiled_result(result)
        frame.results, frame.several = self.results(result, self.frame.items.append)

    def leave(self, frame, result):
        self.frame = frame.parent
        if frame.arguments is not None:
            self.compiled_results(frame, result)

    def abandon(self, frame, error):
        """Ends a call that raised.  What ran stays; a program that did not begin, as its arguments did not fit, did not run."""
        self.frame = frame.parent
        if frame.arguments is not None and not _ran(error):
            self.frame.items.remove(frame)

    def script_call(self, function, args, kwargs, result):
        _check_compiled_result(result)
        name = f"_function{len(self.scripted)}"
        self.scripted[name] = function
        texts = [self.parts(x, exact=True) for x in args] + self.named_parts(kwargs)
        self.record(_listed(f"{name}(", ")", texts), result, effect=True)


_LIKE = 'dtype=None, layout=torch.strided, device=torch.device("{}"), pin_memory=False, memory_format=torch.preserve_format'
# With _force_outplace, a call of the key is recorded as one of the named operator, whose arguments have the texts that the
# function gives for x, the value and the options.
_OUT_OF_PLACE = {
    "copy_": ("expand_as", lambda x, value, options: [value, x]),
    "fill_": ("full_like", lambda x, value, options: [x, value, options]),
    "zero_": ("zeros_like", lambda x, value, options: [x, options])}
_CONVERSIONS = {"to", "cpu", "cuda", "float", "double", "half", "long", "int", "short", "char", "byte", "bool", "bfloat16",
                "cfloat", "cdouble", "chalf"}
_CONVOLUTIONS = {
    **{f"conv{n}d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups") for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation") for n in (1, 2, 3)}}
_VIEWS = {"data": "detach", "H": "matrix_H"}


_KINDS = {bool: "Bool", int: "Int", float: "Double", complex: "ComplexDouble", str: "String", cresset.device: "Device",
          type(None): "None"}


def _check_compiled_result(x):
    """Refuses what a compiled function returned where it is no tensor: the trace would have it as a constant."""
    if isinstance(x, (list, tuple, dict)):
        for item in x.values() if isinstance(x, dict) else x:
            _check_compiled_result(item)
    elif type(x) in _KINDS:
        raise RuntimeError(f"Tracer cannot set value trace for type {_KINDS[type(x)]}. Supported types are tensor, tensor list, "
                           "and tuple of tensors.")


def _ran(error):
    """Whether an error of a compiled method came while its program ran."""
    return isinstance(error, cresset.jit.Error) or str(error).startswith("The following operation failed in the TorchScript")


def _operator_name(func):
    """The name under which programs call an operator: that of its packet, without the overload."""
    if isinstance(func, OpOverload) and func.namespace == "aten":
        return func._opname
    return getattr(func, "__name__", "")


def _written_by_name(func):
    """The keywords of an overload for the tensors that it writes to."""
    return {a.name for a in func._schema.arguments if a.kwarg_only and a.is_write} if isinstance(func, OpOverload) else set()


def _programs_write(name, given, kwargs):
    """Whether programs have a schema with the tensors that a call writes to."""
    given = given | ({"out"} if isinstance(kwargs.get("out"), cresset.Tensor) else set())
    schemas = [{p[0] for p in params if p[1] == "Tensor"} for params in _C._script_parameters(f"aten::{name}")]
    return not given or any(given <= names for names in schemas)


@functools.cache
def _takes_tensor(name):
    """Whether calls of Python take a number as a tensor: torch has no signature of Python for the overload with numbers."""
    return any(o["numbers"] for o in _C._overloads(name))


def _has_correction(schemas):
    """Whether an operator has an overload with a correction, by which torch also computes a result of all elements."""
    return any({"dim", "correction"} <= {p[0] for p in params} for params in schemas)


def _in_python(func, name, args):
    """Whether torch makes the call in a function of Python, whose variables have no names of the program: powers, `//`, and
    signs with a number on the left that are not commutative."""
    if name in ("split", "unflatten"):
        return type(func).__name__ == "method_descriptor"
    sign = _sign(sys._getframe(2))
    number_left = name in ("rsub", "reciprocal") or bool(args and not isinstance(args[0], cresset.Tensor))
    return sign is not None and (sign in ("**", "**=", "//") or (number_left and sign[0] not in "+*&|^"))


def _holds_numbers(x):
    """Whether numbers of the trace, or complex tensors, are among arguments."""
    if isinstance(x, dict):
        return any(map(_holds_numbers, x.values()))
    if isinstance(x, (list, tuple)):
        return any(map(_holds_numbers, x))
    return isinstance(x, TracedNumber) or (isinstance(x, cresset.Tensor) and (x.is_complex() or not x.dim()))


_END = "9223372036854775807"  # of a slice to the end


def _dtype_text(dtype):
    return "torch." + str(dtype).rpartition(".")[2]


def _item(x):
    """An item of an index, as a tensor where it is a list of numbers; NotImplemented for one that the trace cannot lower."""
    if isinstance(x, cresset.Tensor):
        return x if x.dim() > 0 or x.dtype not in (cresset.bool, cresset.uint8) else NotImplemented
    if x is None or x is Ellipsis or isinstance(x, (bool, int, slice)):
        return x
    if hasattr(x, "__index__"):
        return operator.index(x)
    if hasattr(x, "tolist"):  # an array
        return _item(x.tolist())
    numbers = list(x) if isinstance(x, (list, tuple, range)) else None
    return numbers if numbers is not None and all(isinstance(i, int) for i in numbers) else NotImplemented


def _named_dims(items):
    """How many dims the items of an index name."""
    return sum(item.dim() if isinstance(item, cresset.Tensor) and item.dtype == cresset.bool else 1
               for item in items if item is not None and item is not Ellipsis and not isinstance(item, bool))


def _items(index, x):
    """The items of an index of x; None for an index that the trace cannot lower, or that is wrong."""
    items = [_item(i) for i in (index if isinstance(index, tuple) else (index,))]
    usual = all(i is not NotImplemented for i in items) and sum(i is Ellipsis for i in items) < 2
    return items if usual and _named_dims(items) <= x.dim() else None


def _listed(start, end, texts):
    """Parts of texts, with commas between them."""
    out = [start]
    for i, text in enumerate(texts):
        out += ([", "] if i else []) + text
    return out + [end]


_OPTIONS = ("dtype", "layout", "device", "pin_memory")


def _options(name, schemas, kwargs):
    """The options of an operator that makes a tensor, with the texts that a trace has where a call gives none; {} for others."""
    made = [{p[0] for p in params} for params in schemas]
    if not any(names.issuperset(_OPTIONS) for names in made) or "out" in kwargs or isinstance(kwargs.get("out"), cresset.Tensor):
        return {}
    whole = "torch.int64" if any(p[4] for params in schemas for p in params if p[0] == "dtype") else "None"
    place = "None" if name.startswith("new_") or name.endswith("_like") else f'torch.device("{_C.get_default_device()}")'
    return {"dtype": whole, "layout": "None", "device": place, "pin_memory": "False"}


def _name_of_call(name, args):
    """The operator that a call of Python's name with these arguments is in torch."""
    return "split_with_sizes" if name == "split" and len(args) > 1 and isinstance(args[1], (list, tuple)) else name


def _schema_name(given, schemas):
    """The name that schemas have for a keyword, which may be Python's or NumPy's."""
    names = {p[0] for params in schemas for p in params}
    if given in names:
        return given
    name = _C._script_torch_name(given)
    name = "self" if name == "input" and "self" in names else name
    return name if name in names else given


def _place_of_self(args, schemas):
    """Where schemas have the tensor of a method that Python has first, x.polygamma(2); 0 where it is first there, too."""
    firsts = [p[0] for p in schemas if p]
    if len(args) < 2 or not isinstance(args[0], cresset.Tensor) or not firsts or any("Tensor" in p[1] for p in firsts):
        return 0
    at = next((i for i, p in enumerate(schemas[0]) if p[0] == "self"), 0)
    return at if at < len(args) and not isinstance(args[at], cresset.Tensor) else 0


def _of_tensors(args, schemas):
    """The schemas that take tensors where the arguments are tensors."""
    at = [i for i, x in enumerate(args) if isinstance(x, cresset.Tensor)]
    return [p for p in schemas if all(i < len(p) and "Tensor" in p[i][1] for i in at)]


def _gathered(args, schemas):
    """Arguments in which what is given one by one is a list: view(2, 3), einsum("ij,jk", x, y)."""
    for i, x in enumerate(args):
        kinds = {p[i][1] + "!" * bool(p[i][2]) for p in schemas if i < len(p) and p[i][3] and p[i][0] != "dtype"}
        if (kinds == {"List[int]"} and isinstance(x, (int, cresset.Tensor))) or \
                (kinds == {"List[Tensor]"} and isinstance(x, cresset.Tensor)):
            return [*args[:i], list(args[i:])]
    return args


def _variable_of(tensor):
    """The variable that has the tensor where the program now is, or None: in functions of the package only `input`."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _OWN_FILES:
        frame = frame.f_back
    for name, x in frame.f_locals.items() if frame is not None else ():
        if x is tensor:
            own = _frontend.ours(frame.f_globals.get("__name__"))
            meant = not name.isidentifier() or name[0] == "_" or name in _RESERVED or keyword.iskeyword(name)
            return None if meant or (own and not _is_shown(frame, name)) else name
    return None


def _is_shown(frame, name):
    """Whether torch has a function with a variable of this name where a function of the package runs."""
    code = frame.f_code
    parameters = code.co_varnames[:code.co_argcount] if frame.f_globals["__name__"].endswith(".nn.functional") else ()
    return name == "input" or name in parameters


_SIGNS = {"bitwise_and": "__and__", "bitwise_or": "__or__", "bitwise_xor": "__xor__"}


def _sign(frame):
    """The sign by which the program calls an operator, as in x & y; None where it calls it by its name."""
    while frame is not None and frame.f_code.co_filename in _OWN_FILES:
        frame = frame.f_back
    if frame is None or dis.opname[frame.f_code.co_code[frame.f_lasti]] != "BINARY_OP":
        return None
    return dis._nb_ops[frame.f_code.co_code[frame.f_lasti + 1]][1]


_RESERVED = {"self", "torch", "ops", "annotate", "getattr", "int", "float", "bool", "complex", "str"}  # of traced sources
_OWN_FILES = {__file__, overrides.__file__}


def note(kind):
    """Warns of a use of a tensor that a trace cannot record."""
    recorder = recording()
    if recorder is None or recorder.quiet:
        return
    _warn(_WARNINGS[kind])


def _warn(text):
    """Warns with the line of the program that called the package."""
    frame, depth = inspect.currentframe(), 1
    while frame is not None and _frontend.ours(frame.f_globals.get("__name__")):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, cresset.jit.TracerWarning, stacklevel=depth)


def _note_call(function, args, kwargs, result):
    recorder = recording()
    if recorder is not None:
        recorder.script_call(function, args, kwargs, result)


class _Entered:
    """A call of a module that runs."""

    def __init__(self, module):
        self.module = module
        self.frame = None  # the call's own; None where the call is part of its caller
        self.returned = False


class _Hooks:
    """While active, the recorder sees calls of modules, of compiled functions, and conversions of tensors: those of its thread."""

    lock, active = threading.Lock(), 0

    def __init__(self, recorder):
        self.recorder = recorder
        self.entered = []  # outermost first

    def __enter__(self):
        recorders.active.append(self.recorder)
        self.handles = [_module.register_module_forward_pre_hook(self.before), _module.register_module_forward_hook(self.after),
                        _module.register_module_forward_hook(self.end, always_call=True)]
        self.count(1)

    def count(self, step):
        with _Hooks.lock:
            _Hooks.active += step
            _C._set_trace_hooks(*((note, _note_call) if _Hooks.active else (None, None)))

    def before(self, module, args):
        if recording() is not self.recorder:
            return
        outermost = module is self.recorder.top.module and not self.entered
        self.entered.append(_Entered(module))
        if not outermost:
            self.entered[-1].frame = self.recorder.enter(module, args)

    def after(self, module, args, out):
        if recording() is not self.recorder:
            return
        call = self.entered[-1]
        call.returned = True
        if call.frame is not None:
            self.recorder.leave(call.frame, out)

    def end(self, module, args, out):
        """Runs behind `after`, and alone where the call raises."""
        if recording() is not self.recorder or not self.entered or self.entered[-1].module is not module:
            return
        call = self.entered.pop()
        if call.frame is not None and not call.returned:
            self.recorder.abandon(call.frame, sys.exc_info()[1])

    def __exit__(self, *exc):
        self.count(-1)
        recorders.active.pop()
        for handle in self.handles:
            handle.remove()


# --- from records to source ---

def _flatten(x):
    if isinstance(x, cresset.Tensor):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in _flatten(item)]
    if isinstance(x, dict):
        return [t for item in x.values() for t in _flatten(item)]
    return []


def _inner_first(x):
    """The tensors of a result in the order in which a program makes its containers."""
    items = list(x.values()) if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]
    inner = [t for item in items if isinstance(item, (list, tuple, dict)) for t in _inner_first(item)]
    return inner + [item for item in items if isinstance(item, cresset.Tensor)]


class _Writer:
    """Writes the methods of a recorded trace."""

    def __init__(self, recorder, outputs):
        self.recorder = recorder
        self.outputs = outputs
        self.live = {recorder.value(t) for t in _flatten(outputs)}
        self.read = recorder.given | {v.memory for v in self.live}
        self.prune(recorder.top)

    def prune(self, frame):
        """Removes calls whose results are not used, from the last on, and writes to memory that nothing reads behind them."""
        kept = []
        for item in reversed(frame.items):
            if isinstance(item, _Frame):
                if item.arguments is not None:
                    read = [p for parts in item.arguments for p in parts if isinstance(p, _Value)]
                    self.live.update(read)
                    self.read.update(v.memory for v in read)
                self.prune(item)
                kept.append(item)
            elif any(v in self.live for v in item.results) or \
                    (item.effect and (item.memory is None or item.memory in self.read)):
                self.live.update(item.operands())
                self.read.update(v.memory for v in item.operands())
                kept.append(item)
        frame.items = kept[::-1]

    def uses(self, frame):
        """The values that a frame reads, in order."""
        for item in frame.items:
            if isinstance(item, _Call):
                yield from item.operands()
            elif item.arguments is not None:
                yield from (p for parts in item.arguments for p in parts if isinstance(p, _Value))
            else:
                yield from self.uses(item)

    def inputs(self, frame):
        """The values from outside that a frame needs as parameters."""
        made = []
        for v in self.uses(frame):
            inside = v.frame is not None and frame.encloses(v.frame)
            if inside or v.constant is not None or v in made:
                continue
            if v.attribute is not None and self.path(frame.module, v.attribute) is not None:
                continue
            made.append(v)
        return made

    def path(self, module, tensor):
        return self.recorder.paths.get(id(module), {}).get(id(tensor))

    def results(self, frame):
        """The values of a frame that are used behind it."""
        if frame.arguments is not None:
            return frame.results
        used, defined = {}, set(self.defined(frame))
        self.collect_uses(self.recorder.top, frame, used)
        used.update((self.recorder.value(t), None) for t in _inner_first(self.outputs))
        return [v for v in used if v in defined]

    def collect_uses(self, at, skipped, used):
        """Adds to a dict the values that calls outside of a frame read, in order."""
        for item in at.items:
            if item is skipped:
                continue
            if isinstance(item, _Call):
                used.update((v, None) for v in item.operands())
            elif item.arguments is not None:
                used.update((p, None) for parts in item.arguments for p in parts if isinstance(p, _Value))
            else:
                self.collect_uses(item, skipped, used)

    def defined(self, frame):
        for item in frame.items:
            if isinstance(item, _Call):
                yield from item.results
            elif item.arguments is not None:
                yield from item.results
            else:
                yield from self.defined(item)

    # --- text ---

    def method(self, frame, parameters, result):
        """The source of a frame's method, and the types that its lines show; `result` gives the text of what it returns."""
        names, gets, body, seen = {}, [], [], []
        for i, v in enumerate(parameters):
            names[v] = v.name or f"argument_{i + 1}"
        number, last, owners, at = [0], self.last_reads(frame, result), {name: v for v, name in names.items()}, [0]

        def get(path):
            name = _variable(path.rpartition(".")[2])
            text = f"self.{path}" if all(map(_is_name, path.split("."))) else _getattrs(path)
            for line, given in gets:
                if given == text:
                    return line
            while any(line == name for line, _ in gets) or name in names.values():
                name += "_"
            gets.append((name, text))
            return name

        def read(v):
            if v in names:
                return names[v]
            if v.constant is not None:
                return v.constant
            if v.attribute is not None:
                names[v] = get(self.path(frame.module, v.attribute))
                return names[v]
            raise RuntimeError("the trace uses a value that it did not record")

        def text(parts):
            return "".join(p if isinstance(p, str) else read(p) for p in parts)

        def define(values, named=True):
            taken = {line for line, _ in gets}
            for v in values:
                before = owners.get(v.hint)
                if named and v.hint is not None and v.hint not in taken and (before is None or last.get(before, -1) <= at[0]):
                    names[v], owners[v.hint] = v.hint, v
                    continue
                if named and v.hint is not None and v.hint not in taken:  # another tensor has the name, still
                    free = next(name for name in (f"{v.hint}{i}" for i in itertools.count()) if name not in owners and name not in taken)
                    names[v], owners[free] = free, v
                    continue
                while f"_{number[0]}" in taken or f"_{number[0]}" in owners:
                    number[0] += 1
                names[v] = f"_{number[0]}"
                number[0] += 1
            return ", ".join(names[v] for v in values)

        for at[0], item in enumerate(frame.items):
            if isinstance(item, _Call):
                line = text(item.parts)
                if item.results:
                    line = define(item.results) + (", = " if item.several else " = ") + line
                body.append(line)
                seen.append(tuple(v.seen for v in item.results))
                continue
            path = self.module_path(frame.module, item)
            owner = get(path)
            if item.arguments is not None:
                called = owner if item.module is not None else f"{owner}.{item.method}"
                line = f"{called}({', '.join(text(parts) for parts in item.arguments)})"
                several = item.several
            else:
                line = f"{owner}.{item.method}({', '.join(read(v) for v in self.inputs(item))})"
                several = len(self.results(item)) > 1
            results = self.results(item)
            if results:
                line = define(results, named=False) + (", = " if several else " = ") + line
            body.append(line)
            seen.append(tuple(v.seen for v in results) if several else ())
        returned = result(read)
        lines = [f"{name} = {path}" for name, path in reversed(gets)] + body + [f"return {returned}"]
        head = ["self"] if frame.module is not None else []
        params = [f"{names[v]}: {v.kind or 'Tensor'}" for v in parameters]
        types = [(*(None for _ in head), *(v.seen for v in parameters)), *(() for _ in gets), *seen]
        return _Source(head + params, "".join(f"    {line}\n" for line in lines), self.scope(frame), types)

    def scope(self, frame):
        """The path of a frame's module, as nodes of torch's traces have it; None of the traced module or function itself."""
        paths = []
        while frame.parent is not None:
            paths.append(self.module_path(frame.parent.module, frame))
            frame = frame.parent
        whole = ["__module"]
        for path in reversed(paths):
            whole.append(f"{whole[-1]}.{path}")
        return "/".join(whole[1:]) or None

    def last_reads(self, frame, result):
        """The number of the last item of a frame that reads a value; behind the last one what the frame returns."""
        last = {}
        for i, item in enumerate(frame.items):
            reads = item.operands() if isinstance(item, _Call) else \
                [p for parts in item.arguments for p in parts if isinstance(p, _Value)] if item.arguments is not None else \
                self.inputs(item)
            last.update(dict.fromkeys(reads, i))

        def note_read(v):
            last[v] = len(frame.items)
            return "x"
        result(note_read)
        return last

    def module_path(self, module, called):
        child, object = called.module, called.object
        for path, m in () if module is None else module.named_modules(remove_duplicate=False):
            if m is child or (object is not None and getattr(m, "_c", None) == object):
                return path
        if object is not None:
            raise RuntimeError(f"Tried to trace <{object.name} object at {id(object):#x}> but it is not part of the active "
                               "trace. Modules that are called during a trace must be registered as submodules of the thing "
                               "being traced.")
        raise RuntimeError(f"the traced code calls a module of type '{type(child).__name__}' that is not a submodule")


def _is_name(text):
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _variable(attribute):
    """The variable for an attribute, whose name may be any text without a dot (`block1-0`): as torch's code has it."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", attribute)
    return name if _is_name(name) else f"{name}0" if keyword.iskeyword(name) else f"_{name}"


def _getattrs(path):
    text = "self"
    for part in path.split("."):
        text = f"{text}.{part}" if _is_name(part) else f"getattr({text}, {part!r})"
    return text


_STRICT = (" might cause the trace to be incorrect, this is only valid if the container structure does not change based on the "
           "module's inputs. Consider using a constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, "
           "use a `NamedTuple` instead). If you absolutely need this and know the side effects, pass strict=False to trace() "
           "to allow this behavior.")


def _is_tensors(x):
    return isinstance(x, cresset.Tensor) or (isinstance(x, tuple) and all(isinstance(v, cresset.Tensor) for v in x))


def _warn_of_lists(x):
    """Warns of each list of tensors in a result, up to the first part that is refused.  Returns whether none is."""
    if isinstance(x, tuple):
        return all(map(_warn_of_lists, x))
    if isinstance(x, list) and all(isinstance(v, cresset.Tensor) for v in x):
        _warn("Encountering a list at the output of the tracer" + _STRICT)
        return True
    return isinstance(x, cresset.Tensor)


def _returned(x, recorder, read, strict):
    """The text of a result."""
    if isinstance(x, cresset.Tensor):
        return read(recorder.value(x))
    if isinstance(x, tuple):
        inner = ", ".join(_returned(v, recorder, read, strict) for v in x)
        return f"({inner}{',' if len(x) == 1 else ''})"
    if isinstance(x, list) and all(isinstance(v, cresset.Tensor) for v in x):
        return f"[{', '.join(_returned(v, recorder, read, strict) for v in x)}]"
    if isinstance(x, dict):
        if strict:
            raise RuntimeError("Encountering a dict at the output of the tracer" + _STRICT)
        if not all(isinstance(k, (str, cresset.Tensor)) and _is_tensors(v) for k, v in x.items()):
            raise RuntimeError(f"output 0 ({x}) of traced region cannot be understood by the tracer, only outputs matching "
                               "dict[Union[str, Tensor], Union[Tensor, Tuple[Tensor, ...]]] can be a dictionary output of a "
                               "traced function")
        pairs = [(repr(k) if isinstance(k, str) else read(recorder.value(k)), _returned(v, recorder, read, strict))
                 for k, v in x.items()]
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
    raise RuntimeError("Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
                       "functions")


class _TraceScope:
    """What names of traced sources mean."""

    def __init__(self, recorder):
        self.names = {"torch": cresset, **recorder.constants, **recorder.scripted}

    def find(self, name):
        return self.names.get(name, _frontend._absent)

    def evaluate(self, text):
        return eval(text, dict(self.names))


# --- compiled classes of traced modules ---

def _traced_object(module, made):
    """The object of a module whose class has no methods yet; `made` collects (module, class, object)."""
    if isinstance(module, cresset.jit.ScriptModule):
        return module._c
    for known, _, value in made:
        if known is module:
            return value
    if module._backward_hooks:
        raise ValueError(f"Modules that have backward hooks assigned can't be compiled: {module}")
    name = _frontend.qualified_name(type(module))
    _C._script_add_class(name, "module")
    _frontend.keep_module(name, module)
    values = {}
    for table, parameter in ((module._parameters, True), (module._buffers, False)):
        for key, t in table.items():
            text = "NoneType" if t is None else "Tensor"
            _C._script_add_attribute(name, key, text, parameter and t is not None, not parameter and t is not None)
            values[key] = t
    _C._script_add_attribute(name, "training", "bool", False, False)
    _C._script_add_attribute(name, "_is_full_backward_hook", "Optional[bool]", False, False)
    values.update(training=module.training, _is_full_backward_hook=None)
    for key, child in module._modules.items():
        if child is not None:
            values[key] = _traced_object(child, made)
            _C._script_add_submodule(name, key, values[key])
    if _exports(module):
        for key, x in vars(module).items():
            text = None if key in values or key.startswith("_") else _recursive.infer(x)
            if text is not None:
                _C._script_add_attribute(name, key, text, False, False)
                values[key] = x
    value = _C._script_new(name, values)
    made.append((module, name, value))
    return value


def _exports(module):
    """Names of methods that are compiled, not traced."""
    return [name for name in _recursive._exported(module) if name != "forward"]


def _compile_exports(made):
    for module, cls, _ in made:
        for name in _exports(module):
            if f"{cls}.{name}" not in _frontend._scopes:
                _C._script_compile(_frontend.define(_recursive._find_method(module, name), cls, name))


class _Source:
    """The source of a method, its module's path, and the types that a trace saw: of the parameters, and of each line."""

    def __init__(self, parameters, body, scope, types):
        self.parameters, self.body, self.scope, self.types = parameters, body, scope, types


def _compile(recorder, cls, name, source):
    """Compiles a traced method or function.  Its names are of no use then: tensors of the recorder are not kept."""
    qualified = f"{cls}.{name}" if cls else _frontend.free_name(name)
    _frontend._scopes[qualified] = _TraceScope(recorder)
    short = qualified.rpartition(".")[2]
    try:
        _C._script_define(qualified, cls, f"def {short}({', '.join(source.parameters)}):\n{source.body}", None, 1, 0)
        made = _C._script_compile(qualified)
        _C._script_note_trace(qualified, source.scope, source.types)
        return made
    finally:
        _frontend._scopes[qualified] = _frontend._UnitScope({}, {})


def _define_frames(recorder, writer, frame, classes, counts, define):
    for item in frame.items:
        if not isinstance(item, _Frame) or item.arguments is not None:
            continue
        _define_frames(recorder, writer, item, classes, counts, define)
        cls = classes[id(item.module)]
        n = counts.get(cls, 0)
        counts[cls] = n + 1
        item.method = "forward" if n == 0 else f"forward{n}"
        results = writer.results(item)

        def result(read, results=results):
            texts = [read(v) for v in results]
            return "None" if not texts else texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

        define(recorder, cls, item.method, writer.method(item, writer.inputs(item), result))


# --- inputs ---

def _names(fn, count):
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    first = isinstance(fn, types.MethodType)  # behind self
    return [names[i] if i < len(names) else f"argument_{i + first}" for i in range(count)]


def _one_type(kind, types):
    """The type that all have; raises where they differ."""
    for t in types:
        if t != types[0]:
            raise RuntimeError(f"{kind} must have consistent element type. Found {types[0]} and {t}")
    return types[0]


def _input_type(x):
    """The text of an input's type; raises for lists and dicts that are empty or of several types."""
    if isinstance(x, cresset.Tensor):
        return "Tensor"
    if isinstance(x, tuple) and x:
        return f"Tuple[{', '.join(map(_input_type, x))}]"
    if isinstance(x, list):
        if not x:
            raise RuntimeError("List trace inputs must have elements")
        return f"List[{_one_type('List inputs to traced functions', [_input_type(v) for v in x])}]"
    if isinstance(x, dict):
        if not x:
            raise RuntimeError("Dictionary inputs must have entries")
        value = _one_type("Dictionary inputs to traced function", [_input_type(v) for v in x.values()])
        return f"Dict[{_one_type('Dictionary inputs to traced function', [type(k).__name__ for k in x])}, {value}]"
    return type(x).__name__


def _type_of_tuple(x):
    """The text of a tuple's type with those of its tensors; None where it has other containers, and of those."""
    if isinstance(x, cresset.Tensor):
        return _C._script_type_seen(x)[0]
    items = [_type_of_tuple(item) for item in x] if isinstance(x, tuple) and not hasattr(x, "_fields") else [None]
    return None if None in items else f"({', '.join(items)})"


def _check_input(types):
    inner = set("".join(c if c.isalnum() else " " for c in " ".join(types)).split())
    if inner - {"Tensor", "Tuple", "List", "Dict", "str", "int", "bool", "float"} or \
            any(t in ("str", "int", "bool", "float") or "[int]" in t for t in types):
        raise RuntimeError(f"Type 'Tuple[{', '.join(types)}]' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, "
                           "and Tuples of Tensors can be traced")


def _bind_input(recorder, x, name, parameters):
    """A copy of an input whose tensors the recorder knows: a parameter, or parts of one that is a container."""
    if isinstance(x, cresset.Tensor):
        copy = x.view_as(x)
        parameters.append(recorder.bind(copy, _Value(recorder.top, name)))
        return copy
    return _bind_parts(recorder, x, [name])


def _bind_parts(recorder, x, text):
    """A copy of a container that the text reads, whose tensors the recorder knows."""
    values, copies = [], []
    for item in x.values() if isinstance(x, dict) else x:
        value = _Value(recorder.top)
        values.append(value)
        if isinstance(item, cresset.Tensor):
            copies.append(item.view_as(item))
            recorder.bind(copies[-1], value)
    if isinstance(x, dict):
        for key, value in zip(x, values):
            recorder.top.items.append(_Call([*text, f"[{key!r}]"], [value]))
    elif values:
        recorder.top.items.append(_Call(text, values, several=True))
    tensors = iter(copies)
    made = [next(tensors) if isinstance(item, cresset.Tensor) else _bind_parts(recorder, item, [value])
            for item, value in zip(x.values() if isinstance(x, dict) else x, values)]
    if isinstance(x, dict):
        return dict(zip(x, made))
    return made if isinstance(x, list) else type(x)(*made) if hasattr(x, "_fields") else tuple(made)


def _run(fn, module, inputs, kwargs):
    """Calls `fn`, of a module or not, and returns (recorder, parameters, outputs)."""
    recorder = Recorder(module)
    parameters = []
    given = []
    names = _names(fn.forward if isinstance(fn, Module) else fn, len(inputs)) + list(kwargs)
    kinds = [_input_type(x) for x in (*inputs, *kwargs.values())]
    _check_input(kinds)
    for name, kind, x in zip(names, kinds, [*inputs, *kwargs.values()]):
        if kind != "Tensor":
            parameters.append(_Value(recorder.top, name, kind=kind))
            parameters[-1].seen = _type_of_tuple(x)
        given.append(_bind_input(recorder, x, name, parameters))
    with _Hooks(recorder), recorder:
        outputs = fn(*given[:len(inputs)], **dict(zip(kwargs, given[len(inputs):])))
    return recorder, parameters, outputs


# --- checks ---

def _clone(x):
    if isinstance(x, cresset.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    if isinstance(x, dict):
        return {k: _clone(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        items = [_clone(v) for v in x]
        return items if isinstance(x, list) else type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x


def _random_calls(graph):
    return [str(node).strip() for node in graph.nodes() if node.kind().startswith("aten::") and _draws(node)]


def _draws(node):
    """Whether a call draws random numbers: a dropout only while it trains."""
    train = [v.toIValue() for v in node.inputs() if v.type().kind() == "BoolType"]
    packet = getattr(cresset.ops.aten, node.kind()[len("aten::"):], None)
    random = packet is not None and any(getattr(packet, name)._draws for name in packet.overloads())
    return random and (not train or train[0] is not False)


def _results(f, inputs, kwargs):
    return [t.clone() for t in _flatten(f(*_clone(inputs), **_clone(kwargs)))]


def _agree(graph, want, got, tolerance, what):
    """Whether results are equal; warns otherwise, of random numbers first."""
    drawn, agree = _random_calls(graph), True
    for i, (a, b) in enumerate(zip(want, got)):
        try:
            cresset.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as e:
            if drawn and agree:
                _warn("Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n" +
                      "\n".join("\t" + line for line in drawn) + "\nThis may cause errors in trace checking. To disable trace "
                      "checking, pass check_trace=False to torch.jit.trace()")
            _warn(f"Output nr {i + 1}. of the traced function does not match the corresponding output of the {what}. "
                  f"Detailed error:\n{e}")
            agree = False
    return agree


def _check(traced, fn, inputs, kwargs, tolerance):
    """Warns of results that differ, of the function or of a further call.  Buffers keep what the calls write, as in torch."""
    with cresset.no_grad():
        got, want = _results(traced, inputs, kwargs), _results(fn, inputs, kwargs)
        if _agree(traced.inlined_graph, want, got, tolerance, "Python function"):
            again = _results(traced, inputs, kwargs)
            _agree(traced.inlined_graph, again, got, tolerance, "repeated trace")


def _compare_graphs(traced, again):
    """Raises when two traces of a function differ."""
    import difflib
    import re
    one, two = (re.sub(r"\.___torch_mangle_\d+", "", re.sub(r" # .*", "", str(g))).splitlines(True) for g in (traced, again))
    if one != two:
        raise cresset.jit.TracingCheckError("ERROR: Graphs differed across invocations!\n\tGraph diff:\n" +
                                            "".join("\t\t" + line for line in difflib.ndiff(one, two)), None)


# --- entry points ---

class _Sources:
    """The methods that a trace defines.  They are compiled, unless the trace is repeated only to see whether it is the same."""

    def __init__(self, compiles=True):
        self.compiles, self.texts, self.constants = compiles, [], []

    def define(self, recorder, cls, name, source):
        self.texts.append((cls, name, *source.parameters, source.body))
        self.constants += recorder.constants.values()
        return _compile(recorder, cls, name, source) if self.compiles else None

    def same(self, other):
        return self.texts == other.texts and all(
            a.shape == b.shape and a.dtype == b.dtype and cresset.allclose(a, b, equal_nan=True)
            for a, b in zip(self.constants, other.constants))


def _trace_function(fn, inputs, kwargs, strict, sources):
    return _compiled(fn, *_run(fn, None, inputs, kwargs), strict, sources)


def _compiled(fn, recorder, parameters, outputs, strict, sources):
    writer = _Writer(recorder, outputs)
    if strict:
        _warn_of_lists(outputs)
    source = writer.method(recorder.top, parameters, lambda read: _returned(outputs, recorder, read, strict))
    wanted = f"{_frontend._module_name(fn)}.{getattr(fn, '__name__', 'forward')}".replace("<lambda>", "_lambda")
    return sources.define(recorder, None, wanted, source)


def trace_graph(fn, inputs, kwargs, strict):
    """The graph of a function or module, what the call returned, and the inputs.  Parameters and buffers of a module are inputs."""
    if isinstance(fn, Module):
        module, count = fn, len(inputs)
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        inputs = (*inputs, *state.values())

        def fn(*given):
            return cresset.func.functional_call(module, dict(zip(state, given[count:])), given[:count], kwargs)
        fn.__module__, fn.__name__, kwargs = type(module).__module__, type(module).__name__, {}
    with _frontend.attempt():
        recorder, parameters, outputs = _run(fn, None, inputs, kwargs)
        function = _compiled(fn, recorder, parameters, outputs, strict, _Sources())
    return function.graph, outputs, inputs


def _keep_compiled(traced, module):
    """Modules inside that were compiled before are the same ones in the traced module."""
    for name, child in module._modules.items():
        if isinstance(child, cresset.jit.ScriptModule):
            dict.__setitem__(traced._modules, name, child)
        elif child is not None and name in traced._modules:
            _keep_compiled(traced._modules[name], child)


def _record_methods(module, calls, strict, classes, sources):
    counts = {}
    for name, (inputs, kwargs) in calls.items():
        recorder, parameters, outputs = _run(module if name == "forward" else getattr(module, name), module, inputs, kwargs)
        writer = _Writer(recorder, outputs)
        _define_frames(recorder, writer, recorder.top, classes, counts, sources.define)
        if strict:
            _warn_of_lists(outputs)
        source = writer.method(recorder.top, parameters, lambda read: _returned(outputs, recorder, read, strict))
        sources.define(recorder, classes[id(module)], name, source)


def _trace_methods(module, calls, strict, sources):
    """The module whose methods are those of `calls`: {name: (arguments, named arguments)}; and the classes of its modules."""
    from ._loaded import TopLevelTracedModule
    made = []
    value = _traced_object(module, made)
    classes = {id(m): cls for m, cls, _ in made}
    _record_methods(module, calls, strict, classes, sources)
    _compile_exports(made)
    traced = TopLevelTracedModule(value)
    _keep_compiled(traced, module)
    return traced, classes


def trace_methods(module, calls, checks, tolerance, strict=True):
    """Traces methods of a module.  `checks` are further calls: {name: (arguments, named arguments)}; None: no checks."""
    if isinstance(module, cresset.jit.ScriptModule):
        return module
    sources = _Sources()
    with _frontend.attempt():
        traced, classes = _trace_methods(module, calls, strict, sources)
    for check in () if checks is None else checks or [calls]:
        repeated = _Sources(compiles=False)
        with _frontend.attempt():
            _record_methods(module, _clone(check), strict, classes, repeated)
        for name, (inputs, kwargs) in check.items():
            fn = module if name == "forward" else getattr(module, name)
            _check(getattr(traced, name), fn, inputs, kwargs, tolerance)
        if not sources.same(repeated):
            with _frontend.attempt():
                again, _ = _trace_methods(module, _clone(check), strict, _Sources())
            for name in check:
                _compare_graphs(getattr(traced, name).inlined_graph, getattr(again, name).inlined_graph)
    return traced


def trace(fn, inputs, kwargs, checks, tolerance, strict=True):
    """Traces a function, or a module's forward."""
    if isinstance(fn, cresset.jit.ScriptFunction):
        return fn
    if isinstance(fn, types.MethodType) and isinstance(fn.__self__, Module):
        if fn.__name__ != "forward":
            raise AttributeError("trace doesn't support compiling individual module's functions.\nPlease use trace_module")
        fn = fn.__self__
    if isinstance(fn, Module):
        return trace_methods(fn, {"forward": (inputs, kwargs)},
                             None if checks is None else [{"forward": check} for check in checks], tolerance, strict)
    sources = _Sources()
    with _frontend.attempt():
        traced = _trace_function(fn, inputs, kwargs, strict, sources)
    for check in () if checks is None else checks or [(inputs, kwargs)]:
        repeated = _Sources(compiles=False)
        with _frontend.attempt():
            _trace_function(fn, *_clone(check), strict, repeated)
        _check(traced, fn, *check, tolerance)
        if not sources.same(repeated):
            with _frontend.attempt():
                again = _trace_function(fn, *_clone(check), strict, _Sources())
            _compare_graphs(traced.graph, again.graph)
    return traced
