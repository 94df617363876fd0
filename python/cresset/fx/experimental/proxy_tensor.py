"""make_fx: the graph of the operators that a call really runs.

The dispatcher writes down every operator of the thread (`_C.Recorder`), those of a backward pass
included; compositions are their parts.  So any Python may stand between the operators, and what is
seen is what ran for these arguments. """
import functools
import inspect
import operator

from ... import Tensor, _C, no_grad
from ..._ops import _packet
from ...utils._pytree import tree_flatten, tree_unflatten
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Interpreter

__all__ = ["make_fx"]


# --- operators as torch names them ---

def _is_default(value, parameter):
    default = parameter["default"]
    return parameter["has_default"] and type(value) is type(default) and value == default


@functools.lru_cache(maxsize=None)
def _overloads_of(name, overload):
    made = [m for m in _C._overloads(name) or () if m["record"]["overload"] == overload and not m["scalars"]]
    if not made:
        raise RuntimeError(f"the operator {name}{overload and '.'}{overload} has no name in torch.ops.aten")
    return made


def _target(name, overload, arguments):
    """The overload whose parameters hold the arguments, and its own parameters."""
    for made in _overloads_of(name, overload):
        params = made["record"]["params"]
        absent = [p for i, p in enumerate(params) if made["absent"] >> i & 1]
        if all(_is_default(arguments[p["name"]], p) for p in absent):
            kept = [p for i, p in enumerate(params) if not made["absent"] >> i & 1]
            return getattr(_packet(name), made["name"]), kept
    raise RuntimeError(f"no overload of aten.{name} takes these arguments")


def _split(parameters, arguments):
    """Arguments by position and by name, without those that the defaults give."""
    args = [p for p in parameters if not p["keyword_only"]]
    while args and _is_default(arguments[args[-1]["name"]], args[-1]):
        args.pop()
    kwargs = {p["name"]: arguments[p["name"]] for p in parameters
              if p["keyword_only"] and not _is_default(arguments[p["name"]], p)}
    return [arguments[p["name"]] for p in args], kwargs


# --- from the recorded graph to fx ---

class _Builder:
    """An fx graph from a `_C.Graph`; `env` holds the fx node of every value."""

    def __init__(self, recorded):
        self.recorded = recorded
        self.graph, self.env, self.attributes = Graph(), {}, {}

    def value(self, x):
        if type(x) is tuple:
            return self.env[x[0]]
        return [self.value(item) for item in x] if isinstance(x, list) else x

    def constant(self, name, tensor):
        attribute = f"_tensor_constant{len(self.attributes)}"
        self.attributes[attribute] = tensor
        self.env[name] = self.graph.create_node("get_attr", attribute)

    def call(self, names, op, overload, arguments, source):
        target, parameters = _target(op, overload, arguments)
        args, kwargs = _split(parameters, arguments)
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

    def nodes(self):
        for names, op, *rest in self.recorded.nodes():
            if op is None:
                self.constant(names[0], rest[0])
            else:
                self.call(names, op, *rest)

    def module(self, outputs, name):
        """Ends the graph with `outputs` (fx arguments); what nobody reads goes."""
        self.graph.output(outputs)
        self.graph.eliminate_dead_code()
        return GraphModule(self.attributes, self.graph, name)


def to_graph_module(recorded, input_names, name="GraphModule", outputs=None):
    """A GraphModule that calls the nodes of a `_C.Graph`; its inputs are called `input_names`."""
    b = _Builder(recorded)
    for value, wanted in zip(recorded.inputs, input_names):
        b.env[value] = b.graph.create_node("placeholder", wanted, name=wanted)
    b.nodes()
    out = tuple(None if v is None else b.env[v] for v in recorded.outputs)
    return b.module(out if outputs is None else outputs(out), name)


# --- recording ---

def record(fn, tensors):
    """(the graph of fn(), what it returned as leaves, their structure); `tensors` are the inputs."""
    recorder = _C.Recorder(parts=True)
    for t in tensors:
        recorder.input(t)
    recorder.start()
    try:
        out = fn()
    finally:
        recorder.stop()
    leaves, spec = tree_flatten(out)
    return recorder.finish([x for x in leaves if isinstance(x, Tensor)]), leaves, spec


def _argument_names(fn, args, leaves):
    """`x_1` for a parameter x, as torch names placeholders; `arg0_1` where there is no name."""
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    if len(args) == len(leaves) and len(names) >= len(args):
        return [f"{name}_1" for name in names[:len(args)]]
    return [f"arg{i}_1" for i in range(len(leaves))]


class _Decomposed(Interpreter):
    """Runs a graph with functions of the table in place of operators."""

    def __init__(self, module, table):
        super().__init__(module)
        self.table = table

    def call_function(self, target, args, kwargs):
        return super().call_function(self.table.get(target, target), args, kwargs)


def _trace(fn, args):
    leaves, spec = tree_flatten(args)
    # A tensor that is given twice is one input; numbers are placeholders that nobody reads.
    tensors = list({id(x): x for x in leaves if isinstance(x, Tensor)}.values())
    recorded, out, out_spec = record(lambda: fn(*tree_unflatten(leaves, spec)), tensors)
    b, place = _Builder(recorded), {id(t): name for t, name in zip(tensors, recorded.inputs)}
    for x, name in zip(leaves, _argument_names(fn, args, leaves)):
        node = b.graph.create_node("placeholder", name, name=name)
        if isinstance(x, Tensor):
            b.env.setdefault(place[id(x)], node)
    b.nodes()
    values = iter(recorded.outputs)
    return b.module(tree_unflatten([b.env[next(values)] if isinstance(x, Tensor) else x for x in out], out_spec),
                    getattr(fn, "__name__", "GraphModule"))


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *,
            pre_dispatch=False, record_module_stack=False, **unused):
    """A function that runs `f` and returns the GraphModule of the operators that ran.

    decomposition_table  {OpOverload: function}: operators that are replaced by what the function runs
    tracing_mode         "real"; the others need symbolic sizes, which this build does not have """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing type: {tracing_mode}")
    if tracing_mode == "symbolic":
        raise RuntimeError("make_fx: tracing_mode='symbolic' needs symbolic sizes, which this build "
                           "does not have")

    @functools.wraps(f)
    def wrapped(*args):
        module = _trace(f, args)
        if decomposition_table:
            leaves = tree_flatten(args)[0]
            with no_grad():
                names = [node.target for node in module.graph.nodes if node.op == "placeholder"]
                module = _trace(_named(_Decomposed(module, decomposition_table).run, names), leaves)
        return module
    return wrapped


def _named(run, names):
    """`run` with parameters that are called as the placeholders were, without their "_1"."""
    def call(*args):
        return run(*args)
    call.__signature__ = inspect.Signature([
        inspect.Parameter(name.removesuffix("_1"), inspect.Parameter.POSITIONAL_ONLY) for name in names])
    return call
