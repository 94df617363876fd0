"""unflatten(): the modules of an exported program, each with the part of the graph that its calls made."""
import abc
import contextlib
import operator

import cresset

from .. import nn
from ..fx import Graph
from ..fx._pytree import tree_flatten_spec
from ..fx.graph import _PyTreeCodeGen, _PyTreeInfo
from ..fx.graph_module import _forward_from_src
from ..fx.proxy import Proxy
from ..utils._pytree import tree_flatten, tree_unflatten
from ._unlift import attach, guards_of, leaf_texts
from .exported_program import ExportedProgram
from .graph_signature import ConstantArgument, InputKind, OutputKind

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter(abc.ABC):
    """Changes the leaves of arguments that have another structure than the program's."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        """The leaves for target_spec, from input_args, the list of leaves of input_spec."""


@contextlib.contextmanager
def _disable_interpreter():
    """Has no effect: the modules run compiled code, and no interpreter."""
    yield


class InterpreterModule(nn.Module):
    """A module of an unflattened program, which runs its `graph`.

    `forward` is compiled from the graph at the first call after finalize(), so a program may change the graph before.
    """

    _run_with_interpreter = False

    def __init__(self, graph, ty=None):
        super().__init__()
        self.__dict__.update(graph=graph, _type_name=ty, _run=None)
        graph.owning_module = self

    def type_name(self):
        """The name of the class that the exported module had, or None."""
        return self._type_name

    def finalize(self):
        """Compiles the graph."""
        codegen = self.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self.__dict__.update(_in_spec=codegen.pytree_info.in_spec, _out_spec=codegen.pytree_info.out_spec)
        code = self.graph.python_code("self")
        self.__dict__["_run"] = _forward_from_src(code.src, code.globals)

    def forward(self, *args, **kwargs):
        if self._run is None:
            self.finalize()
        return self._run(self, *args, **kwargs)

    def __getstate__(self):
        return {**self.__dict__, "_run": None}

    def __deepcopy__(self, memo):
        import copy
        graph = Graph()
        graph.output(graph.graph_copy(self.graph, {}))
        graph.set_codegen(self.graph._codegen)
        new = InterpreterModule(graph, self._type_name)
        memo[id(self)] = new
        new.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in ("graph", "_run", "_type_name")})
        return new

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The text of the graph's function; prints it unless print_output is False."""
        text = self.graph.python_code("self", verbose=True).src
        if print_output:
            print(text)
        return text


class InterpreterModuleDispatcher(nn.Module):
    """A module whose calls have different graphs: each call runs the next one, and after the last the first again."""

    def __init__(self, attrs, call_modules):
        super().__init__()
        for name in attrs:
            setattr(self, name, getattr(call_modules[0], name))
        self.__dict__.update(_call_modules=list(call_modules), _num_calls=0)

    def call_modules(self):
        """The modules of the calls, in order."""
        return self._call_modules

    def forward(self, *args, **kwargs):
        module = self._call_modules[self._num_calls]
        self.__dict__["_num_calls"] = (self._num_calls + 1) % len(self._call_modules)
        return module(*args, **kwargs)

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The texts of all calls."""
        texts = [m.print_readable(print_output, include_stride, include_device, colored) for m in self._call_modules]
        return "\n".join(texts)


class _Call:
    """One call of a module: the nodes of its own and the calls inside of it, in order."""

    def __init__(self, parent=None, path="", key=None, cls=None):
        self.parent, self.path, self.key, self.cls = parent, path, key, cls
        self.items, self.inputs, self.outputs = [], [], []
        self.signature, self.target = None, None
        self.depth = 0 if parent is None else parent.depth + 1

    def chain(self, ancestor):
        """This call and those around it, up to a call inside of `ancestor`."""
        call, out = self, []
        while call is not ancestor:
            out.append(call)
            call = call.parent
        return out


def _writes_first(target):
    """Whether an operator writes its first argument and returns it."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.arguments or len(schema.returns) != 1:
        return False
    first, result = schema.arguments[0].alias_info, schema.returns[0].alias_info
    return first is not None and first.is_write and result is not None and result.is_write


def _meeting(a, b):
    """The innermost call that contains both."""
    while a is not b:
        if a.depth >= b.depth:
            a = a.parent
        else:
            b = b.parent
    return a


def _below(path, name):
    return not path or name.startswith(path + ".")


class _Tree:
    """The calls of a program, and the values that cross their borders."""

    def __init__(self, program):
        self.program, self.root, self.home = program, _Call(), {}
        self.state = {}   # placeholder -> its paths
        self.signatures = {e.fqn: e.signature for e in program.module_call_graph if e.signature is not None and e.fqn}
        self.by_name = {n.name: n for n in program.graph.nodes}
        specs = program.graph_signature.input_specs
        holders = [n for n in program.graph.nodes if n.op == "placeholder"]
        self.users = [n for n, s in zip(holders, specs) if s.kind == InputKind.USER_INPUT]
        self._aliases(holders, specs)
        for node in self.users:
            self.home[node] = self.root
        self._place()
        self._route()

    def value(self, spec):
        """The tensor of an input of the state."""
        for table in (self.program.state_dict, self.program.constants):
            if spec.target in table:
                return table[spec.target]
        raise KeyError(spec.target)

    def _aliases(self, holders, specs):
        paths = {}
        for table in (self.program.state_dict, self.program.constants):
            for name, x in table.items():
                paths.setdefault(id(x), []).append(name)
        for node, spec in zip(holders, specs):
            if spec.kind != InputKind.USER_INPUT:
                same = paths[id(self.value(spec))]
                self.state[node] = [spec.target, *(p for p in same if p != spec.target)]

    # --- which call a node belongs to ---

    def _stack(self, node):
        """(key, path, class) of the calls around a node, those inside of one another by their paths."""
        out, at = [], ""
        for key, (path, cls) in (node.meta.get("nn_module_stack") or {}).items():
            path = path.partition("@")[0]
            if path and _below(at, path) and path != at:
                out.append((key, path, cls))
                at = path
        return out

    def _place(self):
        open_calls = [self.root]
        for node in self.program.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.meta.get("nn_module_stack") or node.op == "get_attr":
                self._open(open_calls, [] if node.op == "get_attr" else self._stack(node))
            open_calls[-1].items.append(node)
            self.home[node] = open_calls[-1]

    def _open(self, open_calls, stack):
        same = 0
        while same < len(stack) and same + 1 < len(open_calls) and open_calls[same + 1].key == stack[same][0]:
            same += 1
        del open_calls[same + 1:]
        for key, path, cls in stack[same:]:
            call = _Call(open_calls[-1], path, key, cls)
            number = key.partition("@")[2]
            call.signature = self.signatures.get(f"{path}@{number}" if number else path)
            open_calls[-1].items.append(call)
            open_calls.append(call)

    # --- values that cross borders ---

    def _owner(self, call, node):
        """The innermost call around `call` below whose module a tensor of the state is, and its path there."""
        while True:
            path = next((p for p in self.state[node] if _below(call.path, p)), None)
            if path is not None:
                return call, path[len(call.path) + 1:] if call.path else path
            call = call.parent

    def whole(self, node):
        """The tensor of the state that a result of an in-place call is, else the node."""
        first = node
        while first.op == "call_function" and _writes_first(first.target) and hasattr(first.args[0], "op"):
            first = first.args[0]
        return first if first in self.state else node

    def _use(self, call, node):
        node = self.whole(node)
        if node in self.state:
            home, _ = self._owner(call, node)
        else:
            home = self.home[node]
        meeting = _meeting(home, call)
        for inner in home.chain(meeting):
            if node not in inner.outputs:
                inner.outputs.append(node)
        for inner in call.chain(meeting):
            if node not in inner.inputs:
                inner.inputs.append(node)

    def _route(self):
        def walk(call):
            for item in call.items:
                if isinstance(item, _Call):
                    walk(item)
                    for arg in (item.signature.inputs if item.signature else ()):
                        node = self.by_name.get(getattr(arg, "name", None))
                        if node is not None:
                            self._use(item.parent, node)
                else:
                    for node in item.all_input_nodes:
                        self._use(call, node)
        walk(self.root)
        for node in self.program.graph.output_node().all_input_nodes:
            self._use(self.root, node)


class _Emitter:
    """Makes the modules of a tree of calls."""

    def __init__(self, tree, root):
        self.tree, self.root = tree, root
        self.made = {}      # path -> [(key of the graph, module)]
        self.targets = set()

    def emit(self, call, module=None):
        """The graph of a call."""
        graph, at = Graph(), {}
        call.graph, call.at = graph, at
        self._placeholders(call)
        for item in call.items:
            if isinstance(item, _Call):
                self._call(call, item)
            else:
                at[item] = graph.node_copy(item, lambda n: self._get(call, n))
                if item.op == "get_attr":
                    setattr(self.root, item.target, getattr(self.tree.program.graph_module, item.target))
        return graph

    def _get(self, call, node):
        """The value of a node of the program in the graph of a call."""
        node = self.tree.whole(node)
        if node in call.at:
            return call.at[node]
        if node not in self.tree.state:  # a size that a call with a kept signature computes anew
            return self._size_again(call, node)
        owner, path = self.tree._owner(call, node)
        assert owner is call
        new = call.graph.create_node("get_attr", path, name=path.replace(".", "_"))
        new.meta.update(node.meta)
        call.at[node] = new
        return new

    def _placeholders(self, call):
        if call.parent is None:
            nodes = self.tree.users
        elif call.signature is not None:
            nodes = self._signature_inputs(call)
        else:
            nodes = call.inputs
        for node in nodes:
            new = call.graph.create_node("placeholder", getattr(node, "name", "constant"), name=getattr(node, "name", "constant"))
            if hasattr(node, "meta"):
                new.meta.update(node.meta)
                call.at.setdefault(node, new)

    def _signature_inputs(self, call):
        """The nodes that a kept signature names; None for a constant or for a value that the graph no longer has."""
        nodes = [self.tree.by_name.get(a.name) if not isinstance(a, ConstantArgument) else None for a in call.signature.inputs]
        missing = [n.name for n in call.inputs if n not in nodes and not self._size(call, n, nodes)]
        if missing:
            raise RuntimeError(f"torch.export.unflatten: a call of {call.path} uses {', '.join(missing)}, which its kept signature "
                               "does not have as an argument.  Export without preserve_module_call_signature of it")
        return nodes

    def _size(self, call, node, known):
        """Whether a call can compute a number that it does not get: a size of one of its arguments, or a number of such."""
        if node in known or not hasattr(node.meta.get("val"), "node"):
            return node in known
        return self._sized_argument(node, known) is not None or \
            bool(node.all_input_nodes) and all(self._size(call, n, known) for n in node.all_input_nodes)

    def _sized_argument(self, node, known):
        """(argument, dim) whose size a number is."""
        expr = node.meta["val"].node.expr
        return next(((arg, dim) for arg in known if arg is not None and isinstance(arg.meta.get("val"), cresset.Tensor)
                     for dim, size in enumerate(arg.meta["val"].shape) if hasattr(size, "node") and size.node.expr == expr), None)

    def _size_again(self, call, node):
        found = self._sized_argument(node, [n for n in call.at if n not in self.tree.state])
        if found is not None:
            new = call.graph.call_function(cresset.ops.aten.sym_size.int, (call.at[found[0]], found[1]))
        else:
            new = call.graph.node_copy(node, lambda n: self._get(call, n))
        new.meta["val"] = node.meta["val"]
        call.at[node] = new
        return new

    def _call(self, outer, call):
        """Adds a call to the graph around it."""
        graph = self.emit(call)
        if call.signature is None:
            self._plain_output(call)
            args, kwargs = tuple(self._get(outer, n) for n in call.inputs), {}
        else:
            self._structured_output(call)
            args, kwargs = self._structured_arguments(outer, call)
        graph.lint()
        target = self._module(outer, call)
        node = outer.graph.create_node("call_module", target, args, kwargs, name=target.replace(".", "_").replace("@", "_"))
        node.meta["val"] = _described(call)
        self._results(outer, call, node)

    def _results(self, outer, call, node):
        if call.signature is not None:
            leaves = call.signature.outputs
            named = [self.tree.by_name.get(getattr(a, "name", None)) for a in leaves]
            missing = [n.name for n in call.outputs if n not in named and not hasattr(n.meta.get("val"), "node")]
            if missing:
                raise RuntimeError(f"torch.export.unflatten: {', '.join(missing)} of a call of {call.path} is used outside of it, and is "
                                   "no result of its kept signature")
            if call.signature.out_spec.is_leaf():
                if named[0] in call.outputs:
                    outer.at[named[0]] = node
                return
            spec, values = self._constant(outer, call.signature.out_spec), [n.meta.get("val") if n is not None else None for n in named]
            node = outer.graph.call_function(tree_flatten_spec, (node, spec))
            node.meta["val"] = values
        else:
            named = call.outputs
            if len(named) == 1:
                outer.at[named[0]] = node
                return
        for k, value in enumerate(named):
            if value in call.outputs:
                outer.at[value] = outer.graph.call_function(operator.getitem, (node, k), name=value.name)
                outer.at[value].meta.update(value.meta)

    def _plain_output(self, call):
        values = tuple(self._get(call, n) for n in call.outputs)
        call.graph.output(values[0] if len(values) == 1 else values)

    def _structured_output(self, call):
        signature = call.signature
        values = []
        for a in signature.outputs:
            node = None if isinstance(a, ConstantArgument) else self.tree.by_name.get(a.name)
            values.append(a.value if isinstance(a, ConstantArgument) else None if node is None else self._get(call, node))
        call.graph.output(tuple(values))
        call.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(_argument_names(signature), signature.in_spec, signature.out_spec)))

    def _constant(self, outer, value):
        """The node of a structure that the module around the call keeps."""
        module = outer.module_attributes = getattr(outer, "module_attributes", {})
        name = f"_spec_{len(module)}"
        module[name] = value
        node = outer.graph.create_node("get_attr", name, name=name)
        node.meta["val"] = value
        return node

    def _structured_arguments(self, outer, call):
        values = []
        for a in call.signature.inputs:
            node = None if isinstance(a, ConstantArgument) else self.tree.by_name.get(a.name)
            values.append(a.value if isinstance(a, ConstantArgument) else None if node is None else self._get(outer, node))
        values, out = iter(values), []
        for part in call.signature.in_spec.children():  # args, kwargs
            out.append([self._structured(outer, [next(values) for _ in range(spec.num_leaves)], spec) for spec in part.children()])
        return tuple(out[0]), dict(zip(call.signature.in_spec.child(1).context, out[1]))

    def _structured(self, outer, leaves, spec):
        if _builtin(spec):
            return tree_unflatten(leaves, spec)
        return outer.graph.call_function(tree_unflatten, (leaves, self._constant(outer, spec)))

    # --- modules ---

    def _module(self, outer, call):
        """The path, from the module of the call outside, of a module with the graph of `call`."""
        relative = call.path[len(outer.path) + 1:] if outer.path else call.path
        key = _graph_key(call.graph), repr(sorted(getattr(call, "module_attributes", {}).items(), key=str))
        made = self.made.setdefault(call.path, [])
        for k, (known, _) in enumerate(made):
            if known == key and call.signature is None:
                return relative if k == 0 else f"{relative}@{k}"
        module = InterpreterModule(call.graph, call.cls)
        for name, value in getattr(call, "module_attributes", {}).items():
            module.__dict__[name] = value
        made.append((key, module))
        return relative if len(made) == 1 or call.signature is not None else f"{relative}@{len(made) - 1}"


def _argument_names(signature):
    """The names of the arguments of a signature, with numbers for positions that it has no names for."""
    args, kwargs = signature.in_spec.children()
    names = signature.forward_arg_names
    return list(names) if names is not None else [f"arg_{k}" for k in range(args.num_children)] + list(kwargs.context)


_FIXED = ". If you meant for this dimension to be dynamic, please re-export and specify dynamic_shapes (e.g. with Dim.DYNAMIC)"


def _argument_texts(spec):
    """The text of each leaf of (args, kwargs) in messages: *args[0]['a'], 'k'."""
    def walk(s, text):
        if s.is_leaf():
            return [text]
        keys = [repr(k) for k in s.context] if s.type is dict else map(str, range(s.num_children))
        return [t for key, child in zip(keys, s.children()) for t in walk(child, f"{text}[{key}]")]
    args, kwargs = spec.children()
    return [t for i, s in enumerate(args.children()) for t in walk(s, f"*args[{i}]")] + \
        [t for key, s in zip(kwargs.context, kwargs.children()) for t in walk(s, repr(key))]


def _check_argument(text, arg, spec, node, ranges):
    """Raises unless an argument may be given where the example had node.meta["val"], or spec.arg.value."""
    if isinstance(spec.arg, ConstantArgument):
        if type(arg) is not type(spec.arg.value) or arg != spec.arg.value:
            raise RuntimeError(f"Expected input at {text} to be equal to {spec.arg.value}, but got {arg}")
        return
    if not isinstance(node.meta.get("val"), cresset.Tensor):
        return
    if not isinstance(arg, cresset.Tensor):
        raise RuntimeError(f"Expected input at {text} to be a tensor, but got {type(arg)}")
    sizes = node.meta["val"].shape
    if len(sizes) != arg.dim():
        raise RuntimeError(f"Unexpected number of dimensions in input at {text}.shape (expected {sizes}, got {arg.shape})")
    for dim, (size, found) in enumerate(zip(sizes, arg.shape)):
        where = f"Expected input at {text}.shape[{dim}] to be"
        if not hasattr(size, "node"):
            if found != size:
                raise RuntimeError(f"{where} equal to {size}, but got {found}{_FIXED}")
            continue
        bounds = ranges.get(size.node.expr) if size.node.expr.is_symbol else None
        if bounds is not None and (bounds.lower or 0) > 2 and found < bounds.lower:
            raise RuntimeError(f"{where} >= {bounds.lower}, but got {found}")
        if bounds is not None and bounds.upper is not None and found > bounds.upper:
            raise RuntimeError(f"{where} <= {bounds.upper}, but got {found}")


def _builtin(spec):
    return spec.is_leaf() or spec.type in (tuple, list, dict) and all(map(_builtin, spec.children()))


def _described(call):
    """The metadata of what a call returns."""
    if call.signature is not None:
        leaves = [x.meta.get("val") if hasattr(x, "meta") else x for x in call.graph.output_node().args[0]]
        return tree_unflatten(leaves, call.signature.out_spec)
    values = tuple(n.meta.get("val") for n in call.outputs)
    return values[0] if len(values) == 1 else values


def _graph_key(graph):
    """A text that graphs which compute the same in the same order have in common."""
    number = {n: f"%{k}" for k, n in enumerate(graph.nodes)}

    def text(x):
        if x in number if hasattr(x, "op") else False:
            return number[x]
        if isinstance(x, (tuple, list)):
            return f"{type(x).__name__}({', '.join(map(text, x))})"
        if isinstance(x, dict):
            return f"{{{', '.join(f'{k}: {text(v)}' for k, v in x.items())}}}"
        return repr(x)
    return "\n".join(f"{n.op} {n.target if n.op != 'placeholder' else ''} {text(n.args)} {text(n.kwargs)}" for n in graph.nodes)


def _kept_state(program):
    """(path, tensor, whether state_dict() has it) of the program's state: copies, and one for each tensor with several names."""
    copies = {}

    def copied(x):
        if id(x) not in copies:
            new = x.detach().clone() if isinstance(x, cresset.Tensor) else x
            copies[id(x)] = nn.Parameter(new, x.requires_grad) if isinstance(x, nn.Parameter) else new
        return copies[id(x)]
    for name, x in program.state_dict.items():
        yield name, copied(x), True
    for name, x in program.constants.items():
        if name not in program.state_dict:
            yield name, copied(x), False


def _put(root, path, module):
    """Puts a module at its path; what is there gives it its state and its modules."""
    *outer, name = path.split(".")
    for part in outer:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root._modules[part]
    old = root._modules.get(name)
    if old is not None:
        module._parameters.update(old._parameters)
        module._buffers.update(old._buffers)
        module._non_persistent_buffers_set.update(old._non_persistent_buffers_set)
        module._modules.update(old._modules)
        module.__dict__.update({k: v for k, v in old.__dict__.items() if k not in module.__dict__})
    root._modules[name] = module


class UnflattenedModule(nn.Module):
    """A module with the modules of the exported one, whose calls run the parts of its graph.

        export_module       the ExportedProgram
        flat_args_adapter   a FlatArgsAdapter for arguments of another structure, or None
    """

    _run_with_interpreter = False

    def __init__(self, export_module, flat_args_adapter=None):
        super().__init__()
        program = export_module
        for path, x, saved in _kept_state(program):
            attach(self, path, x, saved)
        self.__dict__.update(graph_signature=program.graph_signature, module_call_graph=list(program.module_call_graph),
                             range_constraints=program.range_constraints, flat_args_adapter=flat_args_adapter,
                             meta=dict(program.graph_module.meta), check_input_constraints=True, _run=None)
        self._build(program)
        signature = program.module_call_graph[0].signature
        names = _argument_names(signature)
        self.__dict__["_checks"] = guards_of(program, leaf_texts(signature.in_spec, names))
        holders = (n for n in program.graph.nodes if n.op == "placeholder")
        user = [(s, n) for n, s in zip(holders, program.graph_signature.input_specs) if s.kind == InputKind.USER_INPUT]
        self.__dict__["_arguments"] = [(text, *pair) for text, pair in zip(_argument_texts(signature.in_spec), user)]

    def _build(self, program):
        tree = _Tree(program)
        emitter = _Emitter(tree, self)
        graph = emitter.emit(tree.root)
        for name, value in getattr(tree.root, "module_attributes", {}).items():
            self.__dict__[name] = value
        self._outputs(program, emitter, tree.root)
        self.__dict__["graph"] = graph
        graph.owning_module = self
        for path, made in sorted(emitter.made.items(), key=lambda item: -item[0].count(".")):  # inner modules first
            self._place(path, [module for _, module in made], path in tree.signatures)
        self._share(emitter.made)
        self._sort(program)

    def _sort(self, program):
        """Gives modules the order of the exported module's."""
        order = {e.fqn: k for k, e in enumerate(program.module_call_graph)}
        for path, module in list(self.named_modules()):
            if isinstance(module, (UnflattenedModule, InterpreterModule)) or type(module) is nn.Module:
                children = list(module._modules.items())
                children.sort(key=lambda item: order.get(f"{path}.{item[0]}" if path else item[0], len(order)))
                module._modules.clear()
                module._modules.update(children)

    def _place(self, path, modules, kept):
        _put(self, path, modules[0])
        for k, module in enumerate(modules[1:], 1):
            for table in ("_parameters", "_buffers", "_modules"):
                getattr(module, table).update(getattr(modules[0], table))
            if not kept:
                _put(self, f"{path}@{k}", module)
        if kept and len(modules) > 1:
            names = [*modules[0]._parameters, *modules[0]._buffers, *modules[0]._modules]
            _put(self, path, InterpreterModuleDispatcher(names, modules))

    def _share(self, made):
        """Makes one module of those with the same state and the same graphs."""
        found = {}
        for path in made:
            module = self.get_submodule(path)
            state = tuple((name, id(x)) for name, x in [*module.named_parameters(), *module.named_buffers()])
            key = state, tuple(text for text, _ in made[path])
            if not state or isinstance(module, InterpreterModuleDispatcher):
                continue
            if key in found:
                outer, _, name = path.rpartition(".")
                self.get_submodule(outer)._modules[name] = found[key]
            else:
                found[key] = module

    def _outputs(self, program, emitter, root):
        """Adds the copies of new contents and the results."""
        kept = []
        targets = {s.target: n for n, s in zip((n for n in program.graph.nodes if n.op == "placeholder"),
                                               program.graph_signature.input_specs)}
        for value, spec in zip(program.graph.output_node().args[0], program.graph_signature.output_specs):
            new = emitter._get(root, value) if hasattr(value, "meta") else value
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                self._copy(root, emitter._get(root, targets[spec.target]), new)
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                self._copy(root, emitter._get(root, emitter.tree.by_name[spec.target]), new)
            else:
                kept.append(new)
        root.graph.output(tuple(kept))

    @staticmethod
    def _copy(root, old, new):
        root.graph.call_function(cresset.ops.aten.copy_.default, (old, new)).meta["val"] = old.meta.get("val")

    def process_forward_inputs(self, *args, **kwargs):
        """The leaves of a call's arguments, in the order of the program's inputs."""
        signature = self.module_call_graph[0].signature
        wanted = signature.in_spec.child(1).context
        if set(kwargs) != set(wanted):
            raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {list(wanted)}")
        leaves, spec = tree_flatten((args, {name: kwargs[name] for name in wanted}))
        if any(isinstance(x, Proxy) for x in leaves):  # symbolic_trace() follows the call
            return leaves
        if spec != signature.in_spec:
            if self.flat_args_adapter is None:
                raise TypeError("There is no flat args adapter specified. Are you sure you are calling this with the right arguments? ")
            leaves = self.flat_args_adapter.adapt(target_spec=signature.in_spec, input_spec=spec, input_args=leaves)
            if len(leaves) != signature.in_spec.num_leaves:
                raise TypeError(f"Flat args adaption failed, number of args mismatch Adatped: {len(leaves)} \n"
                                f"Exported module: {signature.in_spec.num_leaves}")
        if self.check_input_constraints:
            for leaf, (text, spec, node) in zip(leaves, self._arguments):
                _check_argument(text, leaf, spec, node, self.range_constraints)
            for text, holds in self._checks:
                if not holds(leaves):
                    raise RuntimeError(f"Guard failed: {text}")
        return leaves

    def finalize(self):
        """Compiles the graph."""
        code = self.graph.python_code("self")
        self.__dict__["_run"] = _forward_from_src(code.src, code.globals)

    def forward(self, *args, **kwargs):
        leaves = self.process_forward_inputs(*args, **kwargs)
        if self._run is None:
            self.finalize()
        return tree_unflatten(list(self._run(self, *leaves)), self.module_call_graph[0].signature.out_spec)

    def __getstate__(self):
        return {**self.__dict__, "_run": None}

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The text of the graph's function; prints it unless print_output is False."""
        text = self.graph.python_code("self", verbose=True).src
        if print_output:
            print(text)
        return text


def unflatten(module, flat_args_adapter=None):
    """A module with the modules of the exported one, which can be read, replaced and changed one by one.

        module              an ExportedProgram
        flat_args_adapter   a FlatArgsAdapter for arguments of another structure than the program's

    A module of which the program kept the signature (preserve_module_call_signature) takes and returns what the original
    one did; others take and return the tensors that cross their border.

    Raises RuntimeError where a module with a kept signature uses or makes a tensor that is not in it.

    Example::

        >>> program = torch.export.export(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), (torch.zeros(4, 2),))
        >>> torch.export.unflatten(program)
        UnflattenedModule(
          (0): InterpreterModule()
          (1): InterpreterModule()
        )
    """
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten() takes an ExportedProgram, not {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)
