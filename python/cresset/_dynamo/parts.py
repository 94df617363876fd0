"""Calls that other backends compile in parts.

A call that cannot be skipped as a whole runs its Python code each time, and its operators are recorded.  A
part ends where the program needs a value, and with the call.  The backend gets the graph of each part that it
has not compiled.  The operators of the call are deferred, so that the backend's function makes the results of a
part that Python still holds, with their histories.  A part that draws random numbers, makes calls between ranks,
saves tensors through hooks, writes to its inputs, or has results that another thread used, is run by the operators themselves, and so is a part with a
result that shares memory with anything else.
"""
import inspect
import sys
import warnings
from _weakref import ref

from .. import Tensor, _C, is_grad_enabled
from . import config
from .capture import counters, without_autocast
from .guards import tensor_facts

_HOME = __file__.removesuffix("_dynamo/parts.py")
_MOST = 64  # graphs of parts of a function, for each of its recordings
_SILENT = ("it warns", "it logs")  # the program goes on; only a skipped call would lose them


class Plan:
    """What a backend made of a part: its function, and which of the part's inputs it takes."""

    def __init__(self, function, takes):
        self.function, self.takes = without_autocast(function), takes

    def run(self, inputs):
        return self.function(*[inputs[i] for i in self.takes])


class Parts:
    """The parts of one call.  deferred: its operators are, and a part's function makes the results."""

    def __init__(self, compiler, backend, deferred):
        self.compiler, self.backend, self.deferred = compiler, backend, deferred
        self.named = []  # (name, tensor): inputs that a part may have
        self.recorder, self.recorders = None, []
        self.count, self.why, self.error = 0, None, None
        self.resumed = False  # the part begins inside of a call that made a result of unknown size

    def follow(self, recorder):
        """Takes over a recorder, whose graph ends where a value is needed."""
        self.recorder, self.packs, self.apart = recorder, _C._recorded_packs(), _C._defer_flushed_apart()
        self.recorders.append(recorder)  # the C code that called end() may still refer to it
        recorder.ends(self.end)

    def start(self, made=()):
        """Begins a part.  made: results of earlier parts."""
        recorder = _C.Recorder(parts=False, sources=True, borrow=True)
        self.inputs = {}
        for t in [*(t for _, t in self.named), *made]:
            if id(t) not in self.inputs and not _C._is_meta_or_subclass(t) and t.layout == _C.strided and \
               not t.is_conj() and not t.is_neg():
                recorder.input(t)
                self.inputs[id(t)] = t, _C._storage_state(t)
        self.made = list(map(ref, made))
        self.follow(recorder)
        recorder.start()

    def end(self, why, part):
        """Ends a part in the middle of the call.  part: what one graph has of the value that is read."""
        self.why = self.why or why
        if why in _SILENT:
            return
        place = self.compiler.place_of(_user_frame()) if self.compiler.fullgraph else None
        if not self.compiler.fullgraph:
            counters["graph_break"][why] += 1
        elif not self.compiler.holds(part, place):
            self.refuse(why, f"\n  at {place}" if place else "")
        made = self.close()
        self.inputs, self.resumed = {}, part == "size"
        made += [t for t in (r() for r in self.made) if t is not None]
        if self.error is None:
            self.start(made)

    def close(self):
        """Ends a part, and returns its results that Python holds."""
        made = self.recorder.made()
        self.recorder.stop()
        _C._compiled_off(1)
        try:
            with _C.DisableTorchFunctionSubclass():  # the program sees the calls that it makes
                self.give(made)
        except RuntimeError as why:
            _C._log("capture", 1, f"{self.compiler.name}: a part has no graph: {why}")
            if self.compiler.fullgraph and not self.resumed:
                self.refuse(why)
        except Exception as why:
            self.error = self.error or why
        finally:
            _C._compiled_off(-1)
        return made

    def give(self, made):
        graph = self.recorder.finish(made)
        if graph.size:
            self.part(graph, made)

    def refuse(self, why, at=""):
        """The call raises under fullgraph=True."""
        if self.error is None:
            counters["unimplemented"][str(why)] += 1
            from .exc import Unsupported
            self.error = Unsupported(f"{self.compiler.name} cannot be one graph: {why}{at}")

    def finish(self):
        """Ends the last part."""
        self.close()
        self.leave()

    def leave(self):
        """Ends the references between this object and the recorders."""
        self.recorders.clear()
        self.recorder = None
        self.inputs = self.made = ()

    def check(self):
        if self.error is not None:
            raise self.error

    def part(self, graph, made):
        given = list(self.inputs.values())
        origins = graph.lift()
        inputs = [given[o][0] if isinstance(o, int) else o for o in origins]
        if any(t.is_conj() or t.is_neg() for t in inputs):  # graphs do not have these bits
            return
        key, inputs, order = _key(graph, inputs)
        plan = self.compiler.parts.get(key)
        if plan is None:
            if not self.may_compile(graph):
                return
            plan = self.compiler.parts[key] = self.compile(graph, inputs, order)
        self.count += 1
        packed = self.packs != _C._recorded_packs()  # by hooks of the call, which the backend's function would not call
        if self.deferred and not graph.once and not packed and not self.is_apart() and self.inputs_stay(graph, inputs):
            self.supply(plan, inputs, made)

    def is_apart(self):
        """Whether other threads ran calls of the part; they may have written to its results."""
        return self.apart != _C._defer_flushed_apart()

    def may_compile(self, graph):
        """Graphs of the same operators, for other sizes and numbers, are as many as recordings may be."""
        c, operators = self.compiler, tuple(op for _, op, *_ in graph.nodes())
        c.alike[operators] += 1
        return c.alike[operators] <= c.most_records and len(c.parts) < _MOST * c.most_records

    def inputs_stay(self, graph, inputs):
        """Whether the inputs are what they were in the part, which no array and no other program has written or can."""
        return all(self.stays(t, _C._storage_state(t), graph.writes) for t in inputs)

    def stays(self, t, state, writes):
        if state is None or id(t) in self.inputs:
            return state is not None and self.inputs[id(t)][1] == state
        return not writes and not state[1]  # met in the part: no array of it has ended

    def compile(self, graph, inputs, order):
        from ..fx.experimental.proxy_tensor import to_graph_module
        names = {id(t): name for name, t in reversed(self.named)}
        wanted = [names.get(id(t), f"input_{i}") for i, t in enumerate(inputs)]
        place = [order.index(i) for i in range(len(order))]
        module = to_graph_module(graph, [wanted[i] for i in place], cuts=True)
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += graph.size
        try:
            return Plan(self.backend(module, [inputs[i] for i in place]), place)
        except Exception as why:
            if config.suppress_errors:
                warnings.warn(f"torch.compile: {self.compiler.name} runs eagerly: the backend raised "
                              f"{type(why).__name__}: {why}", stacklevel=2)
                return Plan(module.forward, place)
            from .exc import BackendCompilerFailed
            self.error = BackendCompilerFailed(self.backend, why)
            self.error.__cause__ = why
            raise

    def supply(self, plan, inputs, made):
        """The results of a plan become those of the deferred calls, which are dropped unrun.  All of them or none
        do: a history leads through one of the two.  Results that share memory stay as they are, and so do those that other
        threads met while the backend's function ran."""
        alone = self.recorder.sole
        if not made or any(type(t) is not Tensor for t in made) or not alone(made):
            return
        results = plan.run(inputs)
        if not isinstance(results, (list, tuple)):
            return
        results = list(results)
        if len(results) == len(made) and all(type(x) is Tensor for x in results) and alone(results) and \
           all(tensor_facts(t) == tensor_facts(x) for t, x in zip(made, results)) and not self.is_apart() and alone(made):
            _C._exchange_results(made, results)


def _user_frame():
    """The innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        frame = frame.f_back
    return frame


def _canonical(graph):
    """Returns the calls of a graph as a text, in which its inputs are numbered by their first use, and for each
    number the place of the input.  A line after each call says which results have a gradient."""
    place = {name: i for i, name in enumerate(graph.inputs)}
    order, known = [], {}

    def text(x):
        if type(x) is tuple:
            if x[0] not in known:
                known[x[0]] = f"i{len(order)}"
                order.append(place[x[0]])
            return known[x[0]]
        if type(x) is list:
            return f"[{', '.join(map(text, x))}]"
        return repr(x)

    lines, types = [], graph.types()
    for i, (results, op, overload, arguments, *_) in enumerate(graph.nodes()):
        lines.append(f"{op}.{overload}({', '.join(f'{name}={text(x)}' for name, x in arguments.items())})")
        known.update((name, f"v{i}.{k}") for k, name in enumerate(results))
        lines.append("".join("g" if name in types and types[name][4] else "-" for name in results))
    lines.append(text([(name,) for name in graph.outputs if name is not None]))
    return "\n".join(lines), order


def _key(graph, inputs):
    """The key of a part, and its inputs in the order of their first use."""
    text, order = _canonical(graph)
    inputs = [inputs[i] for i in order]
    return (text, tuple(map(tensor_facts, inputs)), is_grad_enabled()), inputs, order


def plan_of(compiler, graph, inputs):
    """The function of a part with this graph, for inputs in the graph's order; None: there is none."""
    key, _, order = _key(graph, inputs)
    plan = compiler.parts.get(key)
    return plan and (lambda *given: plan.run([given[i] for i in order]))


def _named_inputs(fn, args, kwargs):
    """Returns the tensors among the arguments, and the parameters and buffers of a module, with names."""
    from ..utils._pytree import tree_flatten
    code = getattr(getattr(fn, "forward", fn), "__code__", None)
    names = code.co_varnames[inspect.ismethod(getattr(fn, "forward", fn)):code.co_argcount] if code else ()
    found = []
    for i, x in enumerate(args):
        found.append((names[i] if i < len(names) else f"arg{i}", x))
    out = []
    for name, x in [*found, *kwargs.items()]:
        if isinstance(x, Tensor):
            out.append((f"L_{name}_", x))
        elif isinstance(x, (list, tuple, dict)):
            out += [(f"L_{name}_{k}_", t) for k, t in enumerate(tree_flatten(x)[0]) if isinstance(t, Tensor)]
    owner = fn if hasattr(fn, "named_parameters") else getattr(fn, "__self__", None)
    if hasattr(owner, "named_parameters") and hasattr(owner, "named_buffers"):
        out += [(f"L_self_{name.replace('.', '_')}_", t) for name, t in [*owner.named_parameters(), *owner.named_buffers()]]
    return out


def call(compiler, backend, fn, args, kwargs):
    """A call in parts."""
    parts = Parts(compiler, backend, True)
    parts.named = _named_inputs(fn, args, kwargs)
    _C._defer(True)
    try:
        parts.start()
        try:
            out = fn(*args, **kwargs)
        finally:
            parts.finish()
    finally:
        _C._defer(False)
        _C._defer_flush("the end of a compiled function")
    parts.check()
    return out
