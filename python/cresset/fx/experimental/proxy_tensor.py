"""make_fx: the graph of the operators that a call runs.

The dispatcher records every operator of the thread (`_C.Recorder`), including those of a backward
pass; compositions are recorded as their parts.  The Python code between the operators is arbitrary.
The graph contains the operators that ran for these arguments.
"""
import functools
import inspect
import math
import operator
import threading

from ... import Tensor, _C, nn, no_grad, sym_sqrt
from ..._ops import overload_of, split_arguments
from ...utils._pytree import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from ..graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from ..graph_module import GraphModule
from ..interpreter import Interpreter

__all__ = ["get_proxy_mode", "make_fx"]


# --- from the recorded graph to fx ---

_ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
               "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "neg": operator.neg,
               "abs": operator.abs, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
               "sqrt": sym_sqrt}


class _Builder:
    """Builds an fx graph from a `_C.RecordedGraph`.  `env` maps every value to its fx node."""

    def __init__(self, recorded, cuts=False):
        """cuts: results that were made without gradients of values with one are detached, because backends run the graph
        with gradients."""
        self.recorded, self.numbers = recorded, recorded.numbers
        self.types = recorded.types() if cuts else None
        self.graph, self.env, self.attributes = Graph(), {}, {}
        self.symbols = {}  # index in `numbers` -> fx node or number

    def value(self, x):
        if type(x) is tuple:
            return self.env[x[0]]
        if self.numbers and type(x) in (int, float):
            k = _C._symbol_of(x)
            return x if k < 0 else self.symbol(k)
        return [self.value(item) for item in x] if isinstance(x, list) else x

    def symbol(self, k):
        if k not in self.symbols:
            self.symbols[k] = self.new_symbol(*self.numbers[k])
        return self.symbols[k]

    def new_symbol(self, how, *of):
        if how == "const":
            return of[0]
        if how == "size":
            return self.graph.call_method("size", (self.env[of[0]], of[1]))
        return self.graph.call_function(_ARITHMETIC[how], tuple(map(self.symbol, of)))

    def placeholders(self, names, numbers):
        """The first `numbers` placeholders are the numbers of a call, the others its tensors."""
        made = [self.graph.create_node("placeholder", name, name=name) for name in names]
        inputs = {how[1]: k for k, how in enumerate(self.numbers) if how[0] == "input"}
        self.symbols.update((inputs[i], made[i]) for i in range(numbers))
        self.env.update(zip(self.recorded.inputs, made[numbers:]))

    def constant(self, name, tensor):
        kind = "_param_constant" if isinstance(tensor, nn.Parameter) else "_tensor_constant"
        attribute = f"{kind}{sum(name.startswith(kind) for name in self.attributes)}"
        self.attributes[attribute] = tensor
        self.env[name] = self.graph.create_node("get_attr", attribute)

    def call(self, names, op, overload, arguments, source):
        target = overload_of(op, overload, arguments)
        args, kwargs = split_arguments(target._schema, arguments)
        node = self.graph.call_function(target, tuple(map(self.value, args)),
                                        {key: self.value(x) for key, x in kwargs.items()}, name=op)
        if source:
            node.meta["stack_trace"] = source
        listed = len(names) == 1 and not target._schema.returns[0].type.startswith("List")
        if listed:
            self.env[names[0]] = node
        else:
            for k, name in enumerate(names):
                self.env[name] = self.graph.call_function(operator.getitem, (node, k))
        if self.types and op != "detach" and not target._schema.is_mutable:
            self.cut(names, arguments)

    def cut(self, names, arguments):
        plain = (None,) * 5
        if any(self.types.get(name, plain)[4] for name in names) or \
           not any(self.types.get(name, plain)[4] for name in _names_in(arguments)):
            return
        for name in names:
            dtype = self.types.get(name, plain)[0]
            if dtype is not None and (dtype.is_floating_point or dtype.is_complex):
                self.env[name] = self.graph.call_function(overload_of("detach", "", {"self": (name,)}), (self.env[name],))

    def call_unseen(self, names, op, overload, arguments, source):
        """A call that writes under no_grad: it writes to detached tensors, because backends run the graph with gradients."""
        written = {a.name: arguments[a.name] for a in overload_of(op, overload, arguments)._schema.arguments
                   if a.is_write and a.name in arguments}
        self.call(names, op, overload, {**arguments, **{name: self.detached(x) for name, x in written.items()}}, source)
        for result, x in zip(names, written.values()):
            if type(x) is tuple:
                self.env[result] = self.env[x[0]]

    def detached(self, x):
        if type(x) is list:
            return [self.detached(item) for item in x]
        if type(x) is not tuple:
            return x
        name = f"{x[0]} detached"
        self.env[name] = self.graph.call_function(overload_of("detach", "", {"self": x}), (self.env[x[0]],))
        return (name,)

    def nodes(self):
        unseen = set(self.recorded.unseen) if self.types else ()
        for i, (names, op, *rest) in enumerate(self.recorded.nodes()):
            if op is None:
                self.constant(names[0], rest[0])
            elif i in unseen:
                self.call_unseen(names, op, *rest)
            else:
                self.call(names, op, *rest)

    def module(self, outputs, name):
        """Ends the graph with `outputs` (fx arguments) and removes unused nodes."""
        self.graph.output(outputs)
        self.graph.eliminate_dead_code()
        return GraphModule(self.attributes, self.graph, name)


def _names_in(arguments):
    """The names of the values among a call's arguments."""
    for x in arguments.values():
        for item in x if isinstance(x, list) else (x,):
            if type(item) is tuple:
                yield item[0]


def to_graph_module(recorded, input_names, name="GraphModule", outputs=None, numbers=0, cuts=False):
    """Returns a GraphModule with the nodes of a `_C.RecordedGraph`.  Its inputs have the names
    `input_names`; the first `numbers` of them are numbers."""
    b = _Builder(recorded, cuts)
    b.placeholders(input_names, numbers)
    b.nodes()
    out = tuple(None if v is None else b.env[v] for v in recorded.outputs)
    return b.module(out if outputs is None else outputs(out), name)


# --- recording ---

_thread = threading.local()  # `recorder` while make_fx records


def get_proxy_mode():
    """The recorder of the make_fx that the thread is in, or None."""
    return getattr(_thread, "recorder", None)


def record(fn, tensors):
    """Records fn() with the inputs `tensors`.  Returns (graph, leaves of the result, their
    structure)."""
    recorder = _C.Recorder(parts=True)
    for t in tensors:
        recorder.input(t)
    outer, _thread.recorder = get_proxy_mode(), recorder
    recorder.start()
    try:
        out = fn()
    finally:
        recorder.stop()
        _thread.recorder = outer
    leaves, spec = tree_flatten(out)
    return recorder.finish([x for x in leaves if isinstance(x, Tensor)]), leaves, spec


def _parameter_names(fn, count):
    """Returns the names of a function's parameters; arg0, arg1 for parameters without names."""
    plain = getattr(inspect.unwrap(fn), "__code__", None)  # a transform of a function has its names
    if plain is not None and plain.co_argcount == count and not plain.co_flags & inspect.CO_VARARGS:
        return list(plain.co_varnames[:count])
    code = getattr(fn, "__code__", None)
    if code is None or inspect.ismethod(fn) or code.co_flags & inspect.CO_VARARGS:
        return [f"arg{i}" for i in range(count)]
    if code.co_argcount != count:
        raise RuntimeError(f"Tracing expected {code.co_argcount} arguments but got {count} "
                           "concrete arguments")
    return list(code.co_varnames[:count])


class _Decomposed(Interpreter):
    """Runs a graph with functions of the table instead of operators."""

    def __init__(self, module, table):
        super().__init__(module)
        self.table = table

    def call_function(self, target, args, kwargs):
        return super().call_function(self.table.get(target, target), args, kwargs)


def _trace(fn, args, names):
    """Returns the builder of a graph whose inputs are the leaves of `args`, and the graph's
    result."""
    leaves = tree_leaves(args)
    # A tensor that is passed twice is one input.  Numbers are unused placeholders.
    tensors = list({id(x): x for x in leaves if isinstance(x, Tensor)}.values())
    recorded, out, out_spec = record(lambda: fn(*args), tensors)
    b, place = _Builder(recorded), {id(t): name for t, name in zip(tensors, recorded.inputs)}
    for x, name in zip(leaves, names):
        node = b.graph.placeholder(name)
        if isinstance(x, Tensor):
            b.env[place[id(x)]] = node
    b.nodes()
    values = iter(recorded.outputs)
    b.graph.output(tree_unflatten([b.env[next(values)] if isinstance(x, Tensor) else x for x in out], out_spec),
                   type_expr=getattr(fn, "__annotations__", {}).get("return"))
    return b


def _nest(graph, names, args):
    """Makes the code of a graph of leaves take nested arguments and return nested results."""
    in_spec = tree_structure(tuple(args))
    if not all(child.is_leaf() for child in in_spec.children()):
        output = graph.output_node()
        leaves, out_spec = tree_flatten(output.args[0])
        output.args = (leaves,)
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(names), in_spec, out_spec)))


def _uses(graph, table):
    return any(node.op == "call_function" and node.target in table for node in graph.nodes)


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *,
            pre_dispatch=False, record_module_stack=False, **unused):
    """Returns a function that runs `f` and returns a GraphModule of the operators that ran.

        decomposition_table  {OpOverload: function}: the function's operators replace the operator
        tracing_mode         "real"; the other modes need symbolic sizes, which this build lacks
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing type: {tracing_mode}")
    if tracing_mode == "symbolic":
        raise RuntimeError("make_fx: tracing_mode='symbolic' needs symbolic sizes, which this build "
                           "does not have")

    table = decomposition_table or {}

    @functools.wraps(f)
    def wrapped(*args):
        parameters, leaves = _parameter_names(f, len(args)), tree_leaves(args)
        # Placeholders of a parameter x are called `x_1`, as in torch; a container's leaves are
        # numbered.
        names = [f"{name}_{i}" for name, arg in zip(parameters, args)
                 for i in range(1, len(tree_leaves(arg)) + 1)]
        b = _trace(f, args, names)
        while _uses(b.graph, table):
            module = GraphModule(b.attributes, b.graph)
            with no_grad():
                b = _trace(_Decomposed(module, table).run, leaves, names)
        _nest(b.graph, parameters, args)
        return GraphModule(b.attributes, b.graph, getattr(f, "__name__", "GraphModule"))
    return wrapped
