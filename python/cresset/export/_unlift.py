"""ExportedProgram.module(): a module whose parameters and buffers are attributes, with the exported module's arguments."""
import re
import types

import cresset

from .. import nn
from ..fx import Graph, GraphModule
from ..fx.graph import _PyTreeCodeGen, _PyTreeInfo
from .exported_program import in_order
from .graph_signature import ConstantArgument, InputKind, OutputKind


class GuardsFn(nn.Module):
    """Checks the sizes and numbers of a call's arguments."""

    _is_impure = True

    def __init__(self, checks=()):
        super().__init__()
        self.__dict__["_checks"] = tuple(checks)

    def forward(self, *args):
        for text, holds in self._checks:
            if not holds(args):
                raise AssertionError(f"Guard failed: {text}")


def _size_check(text, place, dim, test):
    return text, lambda args: test(args[place].size()[dim])


def _expr_values(args, places):
    return {s: args[place].size()[dim] for s, (place, dim) in places.items()}


class _Checks:
    """The conditions of a program on its arguments, with their texts."""

    def __init__(self, program):
        self.program, self.out = program, []
        self.places, self.texts = {}, {}  # symbol -> where it is, and how a text names it
        self.later = []                   # equal() of sizes of which a symbol had no place yet

    def sizes(self, place, name, fake):
        for dim, size in enumerate(fake.shape):
            text = f"{name}.size()[{dim}]"
            if not hasattr(size, "node"):
                self.out.append(_size_check(f"{text} == {size}", place, dim, size.__eq__))
                continue
            expr = size.node.expr
            if expr.is_symbol and expr.name not in self.places:
                self.places[expr.name], self.texts[expr.name] = (place, dim), text
                self.bounds(place, dim, text, expr)
            else:
                self.equal(place, dim, text, expr)

    def bounds(self, place, dim, text, expr):
        bounds = self.program.range_constraints.get(expr)
        if bounds is not None and (bounds.lower or 0) > 2:
            self.out.append(_size_check(f"{text} >= {bounds.lower}", place, dim, bounds.lower.__le__))
        if bounds is not None and bounds.upper is not None:
            self.out.append(_size_check(f"{text} <= {bounds.upper}", place, dim, bounds.upper.__ge__))

    def equal(self, place, dim, text, expr):
        """A size that is an expression over others: equal to it, or of the form scale * symbol + offset."""
        new = [s for s in expr.free_symbols if s not in self.places]
        if not new:
            places = {s: self.places[s] for s in expr.free_symbols}
            self.out.append((f"{text} == {expr.text(self.texts.__getitem__)}",
                             lambda args: args[place].size()[dim] == expr.at(_expr_values(args, places))))
            return
        self.later.append((place, dim, text, expr))
        scale = expr.terms.get((new[0],), 0)
        offset = expr.terms.get((), 0)
        if len(new) == 1 and len(expr.terms) <= 2 and scale > 1:
            self.out.append(_size_check(f"{text} % {scale} == {offset % scale}", place, dim,
                                        lambda n: (n - offset) % scale == 0))

    def number(self, place, name, value):
        if value is None:
            self.out.append((f"{name} is None", lambda args: args[place] is None))
        elif isinstance(value, (bool, int, float, str)):
            self.out.append((f"{name} == {value!r}", lambda args: args[place] == value))


def guards_of(program, names):
    """The checks of a program; names: the texts of its arguments' leaves."""
    checks = _Checks(program)
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    user = [(n, s) for n, s in zip(nodes, program.graph_signature.input_specs) if s.kind == InputKind.USER_INPUT]
    for place, ((node, spec), name) in enumerate(zip(user, names)):
        if isinstance(spec.arg, ConstantArgument):
            checks.number(place, name, spec.arg.value)
        elif isinstance(node.meta.get("val"), cresset.Tensor):
            checks.sizes(place, name, node.meta["val"])
    for later in [x for x in checks.later if checks.places.keys() >= {*x[-1].free_symbols}]:
        checks.equal(*later)
    _add_conditions(checks, program, dict(zip(names, range(len(names)))))
    return checks.out


def _of_star(name):
    """The text of an argument of *args: guards have args[0], the module's function args_0."""
    return re.sub(r"^(\w+)\[(\d+)\]", r"\1_\2", name)


def _add_conditions(checks, program, places):
    """Adds the conditions that are no equalities of two sizes, which the sizes have already."""
    from ._guard_text import read_guard
    for text in program._guards_code:
        found = read_guard(text)
        if found is None:
            continue
        symbols, condition = found
        names = {name: name if name in places else _of_star(name) for name, _ in symbols.values()}
        at = {s: (places[names[name]], dim) for s, (name, dim) in symbols.items() if names[name] in places}
        if condition.test == "==" and condition.left.is_symbol and (condition.right.is_symbol or condition.right.is_number):
            continue
        if len(at) == len(symbols):
            def holds(args, at=at, condition=condition):
                try:
                    return condition.holds(_expr_values(args, at))
                except ZeroDivisionError:
                    return False
            text = text.replace("L['", "").replace("']", "")
            for name, own in names.items():
                text = text.replace(f"{name}.size", f"{own}.size")
            checks.out.append((text, holds))


def leaf_texts(spec, names):
    """The text of each leaf of (args, kwargs): x, y[0], d['q']."""
    def walk(s, text):
        if s.is_leaf():
            return [text]
        keys = [repr(k) for k in s.context] if s.type is dict else map(str, range(s.num_children))
        return [t for key, child in zip(keys, s.children()) for t in walk(child, f"{text}[{key}]")]
    children = [*spec.child(0).children(), *spec.child(1).children()] if spec.num_children == 2 else spec.children()
    return [text for name, child in zip(names, children) for text in walk(child, name)]


# --- the module ---

def _place(root, path, name):
    for part in path:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root._modules[part]
    return root, name


def attach(root, path, value, persistent=True):
    """Sets a parameter, buffer or constant at its path below `root`."""
    *modules, name = path.split(".")
    owner, name = _place(root, modules, name)
    if isinstance(value, nn.Parameter):
        owner.register_parameter(name, value)
    elif isinstance(value, cresset.Tensor):
        owner.register_buffer(name, value, persistent=persistent)
    else:
        setattr(owner, name, value)


def _attributes(program, root):
    """Sets the program's state below `root`; {placeholder's name: path}."""
    paths = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            continue
        unsaved = spec.kind != InputKind.PARAMETER and spec.persistent is not True
        value = program.constants.get(spec.target) if unsaved else program.state_dict[spec.target]
        attach(root, spec.target, value if value is not None else program.state_dict.get(spec.target), not unsaved)
        paths[spec.arg.name] = spec.target
    return paths


def _plain_name(name):
    return name.partition("_")[2]


class _Unlift:
    """Copies the graph: state becomes attributes, and new contents of buffers and inputs are copied there at the end."""

    def __init__(self, program, root, check_guards):
        self.program, self.root, self.graph, self.at = program, root, Graph(), {}
        self.signature = program.module_call_graph[0].signature
        self.check_guards = check_guards

    def names(self):
        """The names of the arguments of the module's function."""
        given = self.signature.forward_arg_names
        spec = self.signature.in_spec
        count = spec.child(0).num_children + spec.child(1).num_children
        return list(given) if given else [f"arg{i}" for i in range(count)]

    def build(self):
        paths, user = _attributes(self.program, self.root), []
        nodes = list(self.program.graph.nodes)
        names = self.graph._graph_namespace._used_names
        names.update(n.name for n in nodes if n.op == "placeholder" and n.name not in paths)  # arguments keep their names
        for node in (n for n in nodes if n.op == "placeholder"):
            if node.name in paths:
                new = self.graph.create_node("get_attr", paths[node.name], name=_plain_name(node.name))
            else:
                names.discard(node.name)
                new = self.graph.create_node("placeholder", node.name, name=node.name)
                user.append(new)
            new.meta.update(node.meta)
            self.at[node] = new
        if self.check_guards:
            self.add_guards(user)
        for node in nodes:
            if node.op == "get_attr":
                setattr(self.root, node.target, getattr(self.program.graph_module, node.target))
            if node.op not in ("placeholder", "output"):
                self.at[node] = self.graph.node_copy(node, lambda n: self.at[n])
        self.output(nodes[-1])
        info = _PyTreeInfo(self.names(), self.signature.in_spec, self.signature.out_spec)
        self.graph.set_codegen(_PyTreeCodeGen(info))
        return GraphModule(self.root, self.graph)

    def add_guards(self, user):
        checks = guards_of(self.program, leaf_texts(self.signature.in_spec, self.names()))
        if not user:
            return
        self.root.add_module("_guards_fn", GuardsFn(checks))
        node = self.graph.create_node("call_module", "_guards_fn", tuple(user), {}, name="_guards_fn")
        node.meta["val"] = None

    def output(self, node):
        """Adds the copies and the user's results."""
        results, kept = list(node.args[0]), []
        by_target = {s.target: s.arg.name for s in self.program.graph_signature.input_specs}
        inputs = {n.name: n for n in self.at if n.op == "placeholder"}
        for value, spec in zip(results, self.program.graph_signature.output_specs):
            new = self.at.get(value, value) if hasattr(value, "meta") else value
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                name = by_target.get(spec.target, spec.target) if spec.kind != OutputKind.USER_INPUT_MUTATION else spec.target
                self.graph.call_function(cresset.ops.aten.copy_.default, (self.at[inputs[name]], new), name="copy__default")
            else:
                kept.append(new)
        self.graph.output(tuple(kept))


def _check_arguments(program):
    """A hook that refuses arguments of another structure, in torch's words."""
    spec = program.call_spec.in_spec
    return lambda module, args, kwargs: in_order(spec, args, kwargs)


def _no_mode(self, mode=True):
    raise NotImplementedError("Calling train() is not supported yet.")


def _no_eval(self, mode=True):
    raise NotImplementedError("Calling eval() is not supported yet.")


def unlifted(program, check_guards=True):
    """The module of a program."""
    module = _Unlift(program, nn.Module(), check_guards).build()
    module.register_forward_pre_hook(_check_arguments(program), with_kwargs=True)
    module.meta.update(program.graph_module.meta)
    module.train, module.eval = types.MethodType(_no_mode, module), types.MethodType(_no_eval, module)
    module.range_constraints, module.validate_inputs = program.range_constraints, check_guards
    return module
