"""An exported graph from a recording."""
import operator
import random

import cresset

from .._ops import overload_of, split_arguments
from .._sym_int import symbolic
from ..fx.experimental.proxy_tensor import _ARITHMETIC
from ..fx.graph import Graph, _snake_case
from ..fx.passes.shape_prop import _extract_tensor_metadata
from .._size_expr import Size, parse
from ._fakes import make_fake
from ._sources import kept_meta
from .graph_signature import (ConstantArgument, InputKind, InputSpec, OutputKind, OutputSpec, SymBoolArgument,
                              SymFloatArgument, SymIntArgument, TensorArgument)

_EXPRESSIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "pow": operator.pow,
                "floordiv": lambda a, b: Size.apply("floordiv", a, b), "mod": lambda a, b: Size.apply("mod", a, b),
                "neg": lambda a, _=None: -a}


def samples_of(recorded, known, hints, bounds=None, facts=()):
    """Up to 12 choices {number: size} that the program takes, those of the example first.  hints and bounds: of symbols;
    facts: Conditions that hold."""
    draw, out = random.Random(0), [{k: e.at(hints) for k, e in known.items()}]
    symbols = list(dict.fromkeys(s for e in known.values() for s in e.free_symbols))
    elements = [s for s in symbols if s.startswith("u")]
    for attempt in range(120):
        values = dict(hints)
        for s in symbols:
            low, high = (bounds or {}).get(s, (1, None))
            n = hints[s]
            new = (n + draw.randint(1, 9), n * draw.randint(1, 4), 2 * n + draw.randint(0, 6), draw.randint(max(low, 1), n + 4))[attempt % 4]
            values[s] = max(max(low, 1), new if high is None else min(high, new))
        if attempt % 3 == 2:  # numbers that depend on elements may have to be equal
            values.update({s: values[elements[0]] for s in elements})
        one = {k: e.at(values) for k, e in known.items()}
        if not all(fact.holds(values) for fact in facts):
            continue
        if len(out) < 12 and one not in out and all(n > 0 for n in one.values()) and takes(recorded, one):
            out.append(one)
    return out


def takes(recorded, sizes):
    """Whether a recording runs with these sizes: its guards hold, and no operator refuses."""
    try:
        return recorded.takes(sizes)
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return False


def value_sizes(recorded, known, hints, bounds=None, facts=()):
    """{value: its sizes as Sizes}, where known has those of inputs, {number: Size}; empty if no size varies."""
    if all(e.is_number for e in known.values()):
        return {name: [Size.of(int(n)) for n in sizes] for name, (_, sizes, *_) in recorded.types().items()} if known else {}
    samples = samples_of(recorded, known, hints, bounds, facts)
    if len(samples) < 2:
        return {}
    names, out = {f"_s{k}": e for k, e in known.items()}, {}
    for line in recorded.sizes(samples).splitlines():
        name, _, sizes = line.partition(": ")
        texts = sizes.replace("$", "_s").split(", ") if sizes else []
        out[name.rstrip(":")] = [parse(text).subs(names) for text in _joined(texts)]
    return out


def number_expressions(numbers, known, sized):
    """For each number of a recording its Size, or None for one that is no integer expression.  known: {number: Size}
    for sizes of inputs; sized: the sizes of values."""
    out = []
    for k, (how, *of) in enumerate(numbers):
        if k in known:
            out.append(known[k])
        elif how == "size":
            out.append(sized[of[0]][of[1]] if of[0] in sized else None)
        elif how == "const":
            out.append(Size.of(of[0]) if type(of[0]) is int else None)
        else:
            operands = [out[i] for i in of] if how in _EXPRESSIONS else [None]
            try:
                out.append(None if None in operands else _EXPRESSIONS[how](*operands))
            except (TypeError, ArithmeticError):
                out.append(None)
    return out


def dependent_values(recorded, is_source):
    """The names of values that numbers, for which is_source(numbers, k) holds, or sizes that have these numbers, go into."""
    numbers, found = recorded.numbers, set()
    found.update(of[0] for k, (how, *of) in enumerate(numbers) if how == "size" and is_source(numbers, k))

    def reads(x):
        if type(x) in (int, float):
            k = cresset._C._symbol_of(x)
            return k >= 0 and is_source(numbers, k)
        if isinstance(x, tuple) and len(x) == 1 and isinstance(x[0], str):  # a value
            return x[0] in found
        return isinstance(x, (list, tuple)) and any(map(reads, x))
    for names, op, *rest in recorded.nodes():
        if op is not None and any(map(reads, rest[1].values())):
            found.update(names)
    return found


def used_sizes(recorded):
    """The indices of the sizes of tensors that arguments and arithmetic of a recording have."""
    numbers = recorded.numbers
    used = {i for how, *of in numbers if how in _ARITHMETIC for i in of}

    def look(x):
        if type(x) in (int, float):
            used.add(cresset._C._symbol_of(x))
        elif isinstance(x, list):
            for item in x:
                look(item)
    for _, op, *rest in recorded.nodes():
        for x in rest[1].values() if op is not None else ():
            look(x)
    return {k for k in used if k >= 0 and numbers[k][0] == "size"}


def add_placeholder(graph, name):
    """Adds a placeholder of exactly this name, also where Python has a builtin of the name, if no other node has it."""
    taken = name in graph._graph_namespace._used_names
    node = graph.create_node("placeholder", name, name=name)
    if node.name != name and not taken:
        node.name = name
        graph._graph_namespace._rename_object(node, name)
    return node


class GraphBuilder:
    """Builds the graph of an exported program.

        recorded    the _C.RecordedGraph; its first inputs are the tensors of `inputs`
        inputs      (name, InputSpec or None, value, name in `recorded` or None) for each placeholder
        sources     a Sources, or None
        sizes       {number of the recording: Size} for sizes of inputs
        hints       {symbol: value in the example inputs}
        bounds      {symbol: (least, greatest or None)}
        facts       Conditions on numbers that depend on elements
        sparse      {name of a value: its FakeTensor} for values of sparse layouts
    """

    def __init__(self, recorded, mode, sources=None, sizes=None, hints=None, bounds=None, facts=(), sparse=None):
        self.recorded, self.mode, self.sources = recorded, mode, sources
        self.graph, self.env, self.vals, self.specs = Graph(), {}, {}, []
        self.types, self.inputs, self.constants = recorded.types(), set(recorded.inputs), {}
        self.sparse = sparse or {}
        self.numbers = recorded.numbers if sizes is not None else []
        self.sized = value_sizes(recorded, sizes or {}, hints, bounds, facts)
        self.exprs = number_expressions(self.numbers, sizes or {}, self.sized)
        self.number_nodes, self.size_of = {}, {}  # index of a number -> fx node or number; Size -> fx node
        self.literals, self.modules, self.trace, self.sites = set(), {}, None, {}
        self.as_called = False  # whether conversions are calls of `to`; else of `_to_copy`, as in decomposed programs
        self.casts = ()  # values that conversions of autocast blocks made, which are no nodes
        self.hints = hints or {}  # symbol -> value in the example inputs

    # --- values ---

    def fake(self, name):
        if name in self.sparse:
            return self.sparse[name]
        if name not in self.vals:
            *kind, grad = self.types[name]
            kind = *kind, grad and name in self.inputs  # results have no history
            self.vals[name] = make_fake(self.mode, kind, self.sized.get(name))
        return self.vals[name]

    def describe(self, node, val):
        node.meta["val"] = val
        if isinstance(val, cresset.Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(val)

    # --- inputs ---

    def placeholder(self, name, spec, value, recorded=None, aliases=()):
        """Adds an input; `value` is its metadata unless the recording knows the tensor."""
        node = add_placeholder(self.graph, name)
        if recorded is not None:
            value = self.fake(recorded)
            self.env[recorded] = node
        self.describe(node, value)
        spec.arg.name = node.name
        self.specs.append(spec)
        return node

    def constant_placeholder(self, name, value, tensor, path):
        """Adds a constant of the recording as an input."""
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name), path)
        self.constants[path] = tensor
        node = self.placeholder(name, spec, None, value)
        return node

    def size_nodes(self, dims):
        """Adds a node for each size that varies; dims: (number, node of the tensor, dim)."""
        taken = {k: e for k, e in enumerate(self.exprs)}
        made = {}
        count = max(1, len(used_sizes(self.recorded)))
        for k, tensor, dim in dims:
            expr = taken[k]
            if expr.is_number:
                continue
            name = "sym_size_int" if not expr.is_symbol else f"sym_size_int_{count}"
            count += expr.is_symbol
            node = self.graph.call_function(cresset.ops.aten.sym_size.int, (tensor, dim), name=name)
            self.describe_number(node, expr)
            made[expr] = node
        self.size_of.update(made)

    def describe_number(self, node, expr):
        node.meta["val"] = symbolic(expr, expr.at(self.hints))

    def number(self, k):
        """The node of a number, or the number."""
        if k not in self.number_nodes:
            self.number_nodes[k] = self._number(k)
        return self.number_nodes[k]

    def _number(self, k):
        expr, (how, *of) = self.exprs[k], self.numbers[k]
        if expr is not None and expr.is_number:
            return expr.value
        if how == "const":
            return of[0]
        if expr in self.size_of:
            return self.size_of[expr]
        if how == "size":
            node = self.graph.call_function(cresset.ops.aten.sym_size.int, (self.env[of[0]], of[1]), name="sym_size_int")
            if expr is not None:
                self.describe_number(node, expr)
            else:
                node.meta["val"] = int(self.types[of[0]][1][of[1]])
            return node
        operands = tuple(map(self.number, of))
        if not any(hasattr(x, "meta") for x in operands):
            return _ARITHMETIC[how](*operands)
        node = self.graph.call_function(_ARITHMETIC[how], operands, name=how)
        if expr is not None:
            self.describe_number(node, expr)
        else:
            node.meta["val"] = _ARITHMETIC[how](*(x.meta["val"] if hasattr(x, "meta") else x for x in node.args))
        return node

    def expression(self, e):
        """The node of an expression of symbols that have nodes, or the number."""
        if e.is_number:
            return e.value
        if e in self.size_of:
            return self.size_of[e]
        out = None
        for atoms, c in e.terms.items():
            term = None
            for atom in atoms:
                one = self.size_of[Size.symbol(atom)] if isinstance(atom, str) else self._applied(*atom)
                term = one if term is None else self._computed("mul", term, one)
            term = c if term is None else term if c == 1 else self._computed("mul", c, term)
            out = term if out is None else self._computed("add", out, term)
        return out

    def _applied(self, function, operands):
        return self._computed(function, *map(self.expression, operands))

    def _computed(self, how, *operands):
        node = self.graph.call_function(_ARITHMETIC[how], operands, name=how)
        node.meta["val"] = _ARITHMETIC[how](*(x.meta["val"] if hasattr(x, "meta") else x for x in operands))
        return node

    # --- calls ---

    def value(self, x):
        if type(x) is tuple:
            return self.env[x[0]]
        if self.numbers and type(x) in (int, float):
            k = cresset._C._symbol_of(x)
            return x if k < 0 else self.number(k)
        return [self.value(item) for item in x] if isinstance(x, list) else x

    def call(self, names, op, overload, arguments, source):
        if self.trace is not None and self.trace.values.sites:
            from ._unbacked import OPERATOR, add_values
            if op == OPERATOR:
                return add_values(self, self.trace.values.sites[arguments["site"]], names, arguments, source)
        if arguments.get("site") is not None:
            from ._control import OPERATOR
            if op == OPERATOR:
                sites = self.sites if self.trace is None else self.trace.sites
                return sites[arguments["site"]].add(self, names, arguments, source, self.trace)
        if names and names[0] in self.casts and self.sources.in_autocast(source):
            self.env[names[0]] = self.value(arguments["self"])
            return
        target = overload_of(op, overload, arguments)
        if op == "to_dtype":
            target, arguments = cresset.ops.aten._to_copy.default, {**_USUAL_COPY, **arguments}
        if self.as_called and target is cresset.ops.aten._to_copy.default and self.sources.short_name(source) != "_to_copy":
            target, arguments = self.conversion(target, arguments, source)
        first = target._schema.arguments[0] if target._schema.arguments else None
        if first is not None and first.type == "Tensor" and type(arguments[first.name]) in (bool, int, float, complex):
            if op == "sub" and arguments["alpha"] == 1:  # 1 - x
                target = cresset.ops.aten.rsub.Scalar
                arguments = {"self": arguments["other"], "other": arguments["self"], "alpha": 1}
            else:
                arguments = {**arguments, first.name: self.number_tensor(arguments[first.name])}
        if target._schema.arguments[-1:] and target._schema.arguments[-1].name in ("cudnn_enable", "cudnn_enabled"):
            arguments = {**arguments, target._schema.arguments[-1].name: False}  # as in torch's graphs; it has no effect
        args, kwargs = split_arguments(target._schema, arguments)
        kwargs = {**_factory_options(target, kwargs, arguments), **kwargs}
        node = self.graph.call_function(target, tuple(map(self.value, args)), {k: self.value(x) for k, x in kwargs.items()},
                                        name=_base_name(target))
        if source and self.sources is not None:
            node.meta.update(self.sources.meta(source))
        self.results(node, names, target)
        return node

    def conversion(self, target, arguments, source):
        """The call of `to` that makes a tensor of another dtype, with an assertion before it, as torch has it."""
        dtype, device, val = arguments["dtype"], arguments["device"], self.fake(arguments["self"][0])
        if dtype in (None, val.dtype) or val.layout != cresset.strided or arguments["layout"] is not None or arguments["pin_memory"]:
            return target, arguments
        self.assert_type(arguments["self"], source)
        made = {"self": arguments["self"], "dtype": dtype, "non_blocking": arguments["non_blocking"], "copy": False,
                "memory_format": arguments["memory_format"]}
        if device is None:
            return cresset.ops.aten.to.dtype, made
        device = cresset.device("cpu") if device.type == "cpu" else device
        return cresset.ops.aten.to.device, {**made, "device": device}

    def assert_type(self, x, source):
        """Adds an assertion of the type of a tensor, as torch has it before each conversion."""
        val = self.fake(x[0])
        node = self.graph.call_function(cresset.ops.aten._assert_tensor_metadata.default, (self.value(x),),
                                        {"dtype": val.dtype, "device": val.device, "layout": val.layout},
                                        name="_assert_tensor_metadata_default")
        if source and self.sources is not None:
            node.meta.update(self.sources.meta(source))
        node.meta["val"] = None

    def number_tensor(self, x):
        """The value of a tensor of one number, for an operator whose first argument is a tensor in graphs."""
        dtype = {bool: cresset.bool, int: cresset.int64, complex: cresset.complex64}.get(type(x), cresset.get_default_dtype())
        name = f"$number{len(self.vals)}"
        options = {"dtype": dtype, "device": cresset.device("cpu"), "pin_memory": False}
        self.env[name] = self.graph.call_function(cresset.ops.aten.scalar_tensor.default, (self.value(x),), options,
                                                  name="scalar_tensor")
        self.types[name] = (dtype, cresset.Size([]), cresset.Size([]), cresset.device("cpu"), False)
        self.describe(self.env[name], self.fake(name))
        return (name,)

    def results(self, node, names, target):
        returns = target._schema.returns
        if len(names) == 1 and not (returns and returns[0].type.startswith("List")):
            self.env[names[0]] = node
            self.describe(node, self.fake(names[0]))
            return
        self.items(node, names, len(returns) != 1)

    def items(self, node, names, is_tuple):
        """Adds the items of a call with several results."""
        vals = [self.fake(name) for name in names]
        node.meta["val"] = tuple(vals) if is_tuple else vals
        for k, name in enumerate(names):
            item = self.env[name] = self.graph.call_function(operator.getitem, (node, k))
            item.meta.update(kept_meta(node))
            self.describe(item, self.fake(name))

    def nodes(self):
        """Adds the recorded calls."""
        calls = [x for x in self.recorded.nodes() if x[1] is not None]
        for (names, op, *rest), following in zip(calls, [*calls[1:], None]):
            fresh = op == "clone" and following is not None and following[1] == "lift_fresh" and \
                following[3]["self"] == (names[0],)
            if fresh:  # a literal: torch.tensor(...)
                self.literal(names[0], following[0][0], rest[1]["self"], rest[2])
            elif op != "lift_fresh" or rest[1]["self"] not in self.literals:
                self.call(names, op, *rest)

    def literal(self, copy, name, constant, source):
        """Adds the calls by which a program makes a tensor of a literal."""
        aten, self.literals = cresset.ops.aten, {*self.literals, (copy,)}
        for target in (aten.lift_fresh_copy.default, aten.detach_.default):
            before = self.env[constant[0]] if target is aten.lift_fresh_copy.default else self.env[name]
            node = self.env[name] = self.env[copy] = self.graph.call_function(target, (before,), name=_base_name(target))
            if source and self.sources is not None:
                node.meta.update(self.sources.meta(source))
            self.describe(node, self.fake(name))

    # --- outputs ---

    def output(self, leaves, values, single=False):
        """Ends the graph.  leaves: the results; values: the recorded names of those that are tensors, in order.  single: the
        graph returns its result, not a tuple of results."""
        values, args, specs = iter(values), [], []
        for x in leaves:
            node = self.env[next(values)] if isinstance(x, cresset.Tensor) else \
                self.number(x) if isinstance(x, NumberOutput) else self.condition(x) if isinstance(x, ConditionOutput) else x
            args.append(node)
            named = hasattr(node, "meta")
            arg = ConstantArgument("", node) if not named else \
                TensorArgument(node.name) if isinstance(x, cresset.Tensor) else _number_argument(node)
            specs.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
        self.graph.output(args[0] if single else tuple(args))
        return specs


    def condition(self, x):
        from ._unbacked import condition_node
        return condition_node(self, x.condition)


def _number_argument(node):
    val = node.meta.get("val")
    return (SymBoolArgument if isinstance(val, bool) else SymFloatArgument if isinstance(val, float) else SymIntArgument)(node.name)


class NumberOutput(int):
    """A result that is a number of the recording, by its index."""


class ConditionOutput:
    """A result that is a condition on numbers."""

    def __init__(self, condition):
        self.condition = condition


_USUAL_COPY = {"layout": None, "device": None, "pin_memory": None, "non_blocking": False, "memory_format": None}


def _joined(texts):
    """Items of a list that was split at commas, also those in parentheses."""
    out = []
    for text in texts:
        if out and out[-1].count("(") > out[-1].count(")"):
            out[-1] += ", " + text
        else:
            out.append(text)
    return out


def _base_name(target):
    return _snake_case(target.overloadpacket.__name__).strip("_") if target.overloadpacket.__name__.startswith("__") else \
        _snake_case(target.overloadpacket.__name__)


def _factory_options(target, kwargs, arguments):
    """The options that torch states in calls that make tensors: pin_memory, and the device where no tensor gives it."""
    known = {a.name for a in target._schema.arguments}
    if not {"pin_memory", "layout"} <= known or "non_blocking" in known:
        return {}
    out = {key: kwargs[key] for key in ("dtype", "layout") if key in kwargs}
    if not any("Tensor" in a.type for a in target._schema.arguments):
        out["device"] = arguments.get("device") or cresset.get_default_device()
    elif "device" in kwargs:
        out["device"] = kwargs["device"]
    return {**out, "pin_memory": bool(arguments.get("pin_memory"))}
