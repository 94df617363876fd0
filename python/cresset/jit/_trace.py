"""Tracing: the operators that run for example inputs become a TorchScript program.

Calls of operators are seen by a function mode, calls of modules by hooks.  Each call of a module is
a frame: the values that it uses from outside become the parameters of its method, the values that
are used outside its results.  The methods are written as TorchScript and compiled.
"""
import inspect
import types
import warnings

import cresset
from cresset.nn import Module
from cresset.nn.modules import module as _module
from cresset.overrides import TorchFunctionMode

from .. import _C
from . import _frontend, _recursive

_PYTHON_VALUE = ("Converting a tensor to a Python {} might cause the trace to be incorrect. We can't record the data flow "
                 "of Python values, so this value will be treated as a constant in the future. This means that the trace "
                 "might not generalize to other inputs!")
_WARNINGS = {
    "bool": _PYTHON_VALUE.format("boolean"), "int": _PYTHON_VALUE.format("integer"),
    "float": _PYTHON_VALUE.format("float"), "index": _PYTHON_VALUE.format("index"),
    "item": _PYTHON_VALUE.format("number"), "tolist": _PYTHON_VALUE.format("list"),
    "len": "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be "
           "tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give incorrect results.",
    "iter": "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape won't "
            "change the number of iterations executed (and might lead to errors or silently give incorrect results).",
    "tensor": "torch.tensor results are registered as constants in the trace. You can safely ignore this warning if you "
              "use this function to create tensors out of constant variables that would be the same every time you call "
              "this function. In any other case, this might cause the trace to be incorrect.",
}
_current = []  # the recorders that are active, innermost last


def recording():
    """The active recorder, or None."""
    return _current[-1] if _current else None


class _Value:
    """A tensor of the trace."""

    def __init__(self, frame, name=None, attribute=None, constant=None, kind=None):
        self.frame, self.name, self.attribute, self.constant = frame, name, attribute, constant
        self.kind = kind  # of a parameter that is no tensor: its type's text


def _results(name, result):
    """The tensors of a call's result, in order; refuses those inside of further containers."""
    items = result if isinstance(result, (list, tuple)) else [result]
    tensors = [t for t in items if isinstance(t, cresset.Tensor)]
    if len(tensors) != len(_flatten(result)):
        raise RuntimeError(f"Tracer cannot record '{name}': its result has tensors inside of nested containers")
    return tensors


class _Call:
    """An operator's call: parts of its text, of which values are operands; and its results."""

    def __init__(self, parts, results, several=False, effect=False):
        self.parts, self.results, self.several, self.effect = parts, results, several, effect

    def operands(self):
        return [p for p in self.parts if isinstance(p, _Value)]


class _Frame:
    """A call of a module, or the traced function."""

    def __init__(self, module, parent):
        self.module, self.parent = module, parent
        self.items = []  # calls and frames, in order
        self.arguments = None  # of a compiled module
        self.results = []
        self.method = "forward"

    def encloses(self, other):
        while other is not None and other is not self:
            other = other.parent
        return other is self


class Recorder(TorchFunctionMode):
    """Records what runs inside `with`."""

    def __init__(self, module):
        self.top = self.frame = _Frame(module, None)
        self.values, self.kept, self.constants = {}, [], {}
        if module is not None:
            for table in (module.named_parameters, module.named_buffers):
                for path, t in table(remove_duplicate=False):
                    self.bind(t, _Value(None, attribute=t))

    def bind(self, tensor, value):
        self.kept.append(tensor)
        self.values[id(tensor)] = value
        return value

    def value(self, tensor):
        found = self.values.get(id(tensor))
        if found is None:
            name = f"_constant{len(self.constants)}"
            self.constants[name] = tensor.detach()
            found = self.bind(tensor, _Value(None, constant=name))
        return found

    # --- calls ---

    def parts(self, x):
        """The text of an argument, with values in it."""
        if isinstance(x, cresset.Tensor):
            return [self.value(x)]
        if isinstance(x, (list, tuple)):
            out = ["["]
            for i, item in enumerate(x):
                out += ([", "] if i else []) + self.parts(item)
            return out + ["]"]
        if isinstance(x, cresset.device):
            return [f'torch.device("{x}")']
        if isinstance(x, (cresset.dtype, cresset.layout, cresset.memory_format)):
            return ["torch." + str(x).rpartition(".")[2]]
        if x is None or isinstance(x, (bool, int, float, complex, str)):
            return [repr(x)]
        raise RuntimeError(f"Tracer cannot record an argument of type '{type(x).__name__}'")

    def index_parts(self, index):
        items = index if isinstance(index, tuple) else (index,)
        out = []
        for i, item in enumerate(items):
            out += [", "] if i else []
            if isinstance(item, slice):
                for k, bound in enumerate((item.start, item.stop, item.step)):
                    if k < 2 or bound is not None:
                        out += ([":"] if k else []) + ([] if bound is None else self.parts(bound))
            else:
                out += ["..."] if item is Ellipsis else self.parts(item)
        return out

    def call_parts(self, name, args, kwargs):
        out = [f"ops.aten.{name}("]
        for i, x in enumerate(args):
            out += ([", "] if i else []) + self.parts(x)
        for i, (key, x) in enumerate(kwargs.items()):
            out += ([", "] if i or args else []) + [f"{key}="] + self.parts(x)
        return out + [")"]

    def record(self, name, parts, result, effect=False):
        several = isinstance(result, (list, tuple))
        tensors = _results(name, result)
        if not tensors and not effect:
            return
        call = _Call(parts, [], several, effect)
        self.frame.items.append(call)
        for t in tensors:
            call.results.append(self.bind(t, _Value(self.frame)))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        wrapped = getattr(func, "__wrapped__", None)
        if wrapped is not None and not self.is_operator(func, name):
            with self:
                return wrapped(*args, **kwargs)
        if name == "tensor":
            note("tensor")
            return func(*args, **kwargs)
        return self.operator(func, name, args, kwargs)

    def is_operator(self, func, name):
        return type(func).__name__ in ("function", "method") and _C._script_has_operator(f"aten::{name}")

    def operator(self, func, name, args, kwargs):
        if name == "__getitem__":
            parts = [self.value(args[0]), "[", *self.index_parts(args[1]), "]"]
            result = func(*args)
            self.record(name, parts, result)
            return result
        if name == "__setitem__":
            parts = [self.value(args[0]), "[", *self.index_parts(args[1]), "] = ", *self.parts(args[2])]
            result = func(*args)
            self.frame.items.append(_Call(parts, [], effect=True))
            return result
        known = _C._script_has_operator(f"aten::{name}")
        cast = _CASTS.get(name)
        parts = None
        if cast is not None and args:
            parts = self.call_parts("to", (args[0], cast), {})
        elif known:
            given = [a for a in args]
            if len(given) > 1 and name in _VARIADIC and isinstance(given[1], int):
                given = [given[0], list(given[1:])]
            parts = self.call_parts(name, given, {k: v for k, v in kwargs.items() if k != "out"})
        result = func(*args, **kwargs)
        if parts is not None:
            self.record(name, parts, result, effect=name.endswith("_") and not name.startswith("__"))
        elif _flatten(result):
            raise RuntimeError(f"Tracer cannot record '{name}': TorchScript has no such operator")
        return result

    # --- modules ---

    def enter(self, module, args):
        frame = _Frame(module, self.frame)
        if isinstance(module, cresset.jit.ScriptModule):
            frame.arguments = [self.parts(a) for a in args]
        self.frame.items.append(frame)
        self.frame = frame

    def leave(self, module, args, result):
        frame = self.frame
        self.frame = frame.parent
        if frame.arguments is not None:
            frame.several = isinstance(result, (list, tuple))
            for t in _results(type(module).__name__, result):
                frame.results.append(self.bind(t, _Value(frame)))

    def script_call(self, function, args, kwargs, result):
        self.scripted = getattr(self, "scripted", {})
        name = f"_function{len(self.scripted)}"
        self.scripted[name] = function
        parts = [f"{name}("]
        for x in args:
            parts += [*self.parts(x), ", "]
        for key, x in kwargs.items():
            parts += [f"{key}=", *self.parts(x), ", "]
        self.record(getattr(function, "name", name), [*parts, ")"], result, effect=True)


_CASTS = {"float": cresset.float32, "double": cresset.float64, "half": cresset.float16, "long": cresset.int64,
          "int": cresset.int32, "short": cresset.int16, "char": cresset.int8, "byte": cresset.uint8, "bool": cresset.bool,
          "bfloat16": cresset.bfloat16}
_VARIADIC = {"view", "reshape", "permute", "expand", "repeat", "flip", "tile", "new_zeros", "new_ones", "new_empty"}


def note(kind):
    """Warns of a use of a tensor that a trace cannot record."""
    recorder = recording()
    if recorder is None:
        return
    frame, depth = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("cresset."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(_WARNINGS[kind], cresset.jit.TracerWarning, stacklevel=depth)


class _Hooks:
    """While active, the recorder sees calls of modules, of compiled functions, and conversions of tensors."""

    def __init__(self, recorder):
        self.recorder = recorder

    def __enter__(self):
        r = self.recorder
        _current.append(r)
        self.handles = [_module.register_module_forward_pre_hook(lambda m, args: self.before(m, args)),
                        _module.register_module_forward_hook(lambda m, args, out: self.after(m, args, out))]
        _C._set_trace_hooks(note, r.script_call)
        self.depth = 0

    def before(self, module, args):
        if module is self.recorder.top.module and self.depth == 0:
            self.depth = 1
            return
        self.depth += 1
        self.recorder.enter(module, args)

    def after(self, module, args, out):
        self.depth -= 1
        if self.depth:
            self.recorder.leave(module, args, out)

    def __exit__(self, *exc):
        _C._set_trace_hooks(None, None)
        _current.pop()
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


class _Writer:
    """Writes the methods of a recorded trace."""

    def __init__(self, recorder, outputs):
        self.recorder = recorder
        self.outputs = outputs
        self.live = {recorder.value(t) for t in _flatten(outputs)}
        self.prune(recorder.top)

    def prune(self, frame):
        """Removes calls whose results are not used, from the last on."""
        kept = []
        for item in reversed(frame.items):
            if isinstance(item, _Frame):
                if item.arguments is not None:
                    self.live.update(p for parts in item.arguments for p in parts if isinstance(p, _Value))
                self.prune(item)
                kept.append(item)
            elif item.effect or any(v in self.live for v in item.results):
                self.live.update(item.operands())
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
        if module is None:
            return None
        for table in (module.named_parameters, module.named_buffers):
            for path, t in table(remove_duplicate=False):
                if t is tensor:
                    return path
        return None

    def results(self, frame):
        """The values of a frame that are used behind it."""
        if frame.arguments is not None:
            return frame.results
        used, made = set(), []
        self.collect_uses(self.recorder.top, frame, used)
        used.update(self.recorder.value(t) for t in _flatten(self.outputs))
        for v in self.defined(frame):
            if v in used and v not in made:
                made.append(v)
        return made

    def collect_uses(self, at, skipped, used):
        for item in at.items:
            if item is skipped:
                continue
            if isinstance(item, _Call):
                used.update(item.operands())
            elif item.arguments is not None:
                used.update(p for parts in item.arguments for p in parts if isinstance(p, _Value))
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
        """The source of a frame's method; `result` gives the text of what it returns."""
        names, gets, body = {}, [], []
        for i, v in enumerate(parameters):
            names[v] = v.name or f"argument_{i + 1}"
        number = [0]

        def get(path):
            name = path.rpartition(".")[2]
            name = name if not name.isdigit() else "_" + name
            text = f"self.{path}" if not any(p.isdigit() for p in path.split(".")) else _getattrs(path)
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

        def define(values):
            taken = {line for line, _ in gets}
            for v in values:
                while f"_{number[0]}" in taken:
                    number[0] += 1
                names[v] = f"_{number[0]}"
                number[0] += 1
            return ", ".join(names[v] for v in values)

        for item in frame.items:
            if isinstance(item, _Call):
                line = text(item.parts)
                if item.results:
                    line = define(item.results) + (", = " if item.several else " = ") + line
                body.append(line)
                continue
            path = self.module_path(frame.module, item.module)
            owner = get(path)
            if item.arguments is not None:
                line = f"{owner}({', '.join(text(parts) for parts in item.arguments)})"
                several = item.several
            else:
                line = f"{owner}.{item.method}({', '.join(read(v) for v in self.inputs(item))})"
                several = len(self.results(item)) > 1
            results = self.results(item)
            if results:
                line = define(results) + (", = " if several else " = ") + line
            body.append(line)
        returned = result(read)
        lines = [f"{name} = {path}" for name, path in reversed(gets)] + body + [f"return {returned}"]
        head = ["self"] if frame.module is not None else []
        params = [names[v] if v.kind is None else f"{names[v]}: {v.kind}" for v in parameters]
        return head, "".join(f"    {line}\n" for line in lines), params

    def module_path(self, module, child):
        for path, m in module.named_modules(remove_duplicate=False):
            if m is child:
                return path
        raise RuntimeError(f"the traced code calls a module of type '{type(child).__name__}' that is not a submodule")


def _getattrs(path):
    text = "self"
    for part in path.split("."):
        text = f'getattr({text}, "{part}")' if part.isdigit() else f"{text}.{part}"
    return text


def _returned(x, recorder, read):
    if isinstance(x, cresset.Tensor):
        return read(recorder.value(x))
    if isinstance(x, tuple):
        inner = ", ".join(_returned(v, recorder, read) for v in x)
        return f"({inner}{',' if len(x) == 1 else ''})"
    if isinstance(x, list):
        return f"[{', '.join(_returned(v, recorder, read) for v in x)}]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {_returned(v, recorder, read)}" for k, v in x.items()) + "}"
    raise RuntimeError("Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
                       "functions")


class _TraceScope:
    """What names of traced sources mean."""

    def __init__(self, recorder):
        self.names = {"torch": cresset, **recorder.constants, **getattr(recorder, "scripted", {})}

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
    name = _frontend.qualified_name(type(module))
    _C._script_add_class(name, "module")
    _frontend._modules[name] = module
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
        if child is None:
            _C._script_add_attribute(name, key, "NoneType", False, False)
            values[key] = None
        else:
            values[key] = _traced_object(child, made)
            _C._script_add_submodule(name, key, values[key])
    value = _C._script_new(name, values)
    made.append((module, name, value))
    return value


def _define(recorder, cls, name, head, parameters, body):
    qualified = f"{cls}.{name}" if cls else _frontend.free_name(name)
    _frontend._scopes[qualified] = _TraceScope(recorder)
    short = qualified.rpartition(".")[2]
    _C._script_define(qualified, cls, f"def {short}({', '.join(head + parameters)}):\n{body}", None, 1, 0)
    return qualified


def _compile_frames(recorder, writer, frame, classes, counts):
    for item in frame.items:
        if not isinstance(item, _Frame) or item.arguments is not None:
            continue
        _compile_frames(recorder, writer, item, classes, counts)
        cls = classes[id(item.module)]
        n = counts.get(cls, 0)
        counts[cls] = n + 1
        item.method = "forward" if n == 0 else f"forward{n}"
        results = writer.results(item)

        def result(read, results=results):
            texts = [read(v) for v in results]
            return "None" if not texts else texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

        head, body, parameters = writer.method(item, writer.inputs(item), result)
        _C._script_compile(_define(recorder, cls, item.method, head, parameters, body))


# --- entry points ---

def _names(fn, count):
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"argument_{i + 1}" for i in range(count)]


class _Buffers:
    """Buffers of a module, which are as before at the end of each `with`."""

    def __init__(self, module):
        modules = () if module is None else module.modules()
        self.state = [(m._buffers, name, t, t.detach().clone())
                      for m in modules for name, t in m._buffers.items() if t is not None]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with cresset.no_grad():
            for table, name, t, old in self.state:
                table[name] = t
                t.copy_(old)


def _input_type(x):
    """The text of an input's type; raises for inputs that are not tensors, or lists, tuples and dicts of them."""
    if isinstance(x, cresset.Tensor):
        return "Tensor"
    if isinstance(x, tuple) and x:
        return f"Tuple[{', '.join(map(_input_type, x))}]"
    if isinstance(x, list) and len({_input_type(v) for v in x}) == 1:
        return f"List[{_input_type(x[0])}]"
    if isinstance(x, dict) and len({_input_type(v) for v in x.values()}) == 1 and len({type(k) for k in x}) == 1:
        key, value = next(iter(x.items()))
        return f"Dict[{type(key).__name__}, {_input_type(value)}]"
    raise RuntimeError(f"Type '{type(x).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and "
                       "Tuples of Tensors can be traced")


def _bind_input(recorder, x, text, parameters):
    """A copy of an input whose tensors the recorder knows by the text that reads them."""
    if isinstance(x, cresset.Tensor):
        copy = x.view_as(x) if not x.requires_grad or not x.is_leaf else x
        value = recorder.bind(copy, _Value(recorder.top, text if parameters is not None else None))
        if parameters is None:
            recorder.top.items.append(_Call([text], [value]))
        else:
            parameters.append(value)
        return copy
    if isinstance(x, dict):
        return {k: _bind_input(recorder, v, f"{text}[{k!r}]", None) for k, v in x.items()}
    items = [_bind_input(recorder, v, f"{text}[{i}]", None) for i, v in enumerate(x)]
    return items if isinstance(x, list) else type(x)(*items) if hasattr(x, "_fields") else tuple(items)


def _run(fn, module, inputs, kwargs):
    """Calls `fn` and returns (recorder, parameters, outputs)."""
    recorder = Recorder(module)
    parameters = []
    given = []
    names = _names(fn if module is None else getattr(fn, "forward", fn), len(inputs)) + list(kwargs)
    for name, x in zip(names, [*inputs, *kwargs.values()]):
        kind = _input_type(x)
        if kind != "Tensor":
            parameters.append(_Value(recorder.top, name, kind=kind))
        given.append(_bind_input(recorder, x, name, parameters if kind == "Tensor" else None))
    with _Hooks(recorder), recorder:
        outputs = fn(*given[:len(inputs)], **dict(zip(kwargs, given[len(inputs):])))
    return recorder, parameters, outputs


def _check(traced, fn, inputs, kwargs, tolerance, buffers):
    """Warns of results that differ; each call finds the buffers of the example call."""
    with buffers, cresset.random.fork_rng():
        want = [t.clone() for t in _flatten(fn(*inputs, **kwargs))]
    with buffers, cresset.random.fork_rng():
        got = [t.clone() for t in _flatten(traced(*inputs, **kwargs))]
    for i, (a, b) in enumerate(zip(want, got)):
        try:
            cresset.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as e:
            warnings.warn(f"Output nr {i + 1}. of the traced function does not match the corresponding output of the "
                          f"Python function. Detailed error:\n{e}", cresset.jit.TracerWarning, stacklevel=4)


def _refuse_dicts(outputs):
    if isinstance(outputs, dict):
        raise RuntimeError("Encountering a dict at the output of the tracer might cause the trace to be incorrect, this is "
                           "only valid if the container structure does not change based on the module's inputs. Consider "
                           "using a constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a "
                           "`NamedTuple` instead). If you absolutely need this and know the side effects, pass strict=False "
                           "to trace() to allow this behavior.")
    for item in outputs if isinstance(outputs, (list, tuple)) else ():
        _refuse_dicts(item)


def trace(fn, inputs, kwargs, check, tolerance, strict=True):
    """Traces a function or a module's forward."""
    from ._loaded import LoadedModule
    if isinstance(fn, cresset.jit.ScriptFunction) or isinstance(fn, cresset.jit.ScriptModule):
        return fn
    module = fn if isinstance(fn, Module) else None
    buffers = _Buffers(module)
    with _frontend.attempt():
        with buffers:
            recorder, parameters, outputs = _run(fn, module, inputs, kwargs)
        if strict:
            _refuse_dicts(outputs)
        writer = _Writer(recorder, outputs)

        def result(read):
            return _returned(outputs, recorder, read)

        if module is None:
            head, body, names = writer.method(recorder.top, parameters, result)
            wanted = f"{_frontend._module_name(fn)}.{getattr(fn, '__name__', 'forward')}".replace("<lambda>", "_lambda")
            traced = _C._script_compile(_define(recorder, None, wanted, head, names, body))
        else:
            made = []
            value = _traced_object(module, made)
            classes = {id(m): cls for m, cls, _ in made}
            _compile_frames(recorder, writer, recorder.top, classes, {})
            head, body, names = writer.method(recorder.top, parameters, result)
            _C._script_compile(_define(recorder, classes[id(module)], "forward", head, names, body))
            traced = LoadedModule(value)
    if check:
        _check(traced, fn, inputs, kwargs, tolerance, buffers)
    return traced
