"""A module whose forward is generated from a graph."""
import contextlib
import copy
import itertools
import linecache
import sys
import traceback
import warnings
from pathlib import Path

import cresset
from ..nn import Module, Parameter
from ..nn.modules.module import _addindent
from .graph import Graph, _PyTreeCodeGen, _custom_builtins

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in `meta`: attributes that copies keep

__all__ = ["reduce_graph_module", "GraphModule"]


# Source text for tracebacks and inspect.

class _Sources:
    """The texts of generated functions by artificial file names; a loader for linecache."""

    def __init__(self):
        self.texts = {}
        self.numbers = itertools.count()

    def add(self, src, namespace, co_fields):
        name = f"<eval_with_key>.{next(self.numbers)}"
        if co_fields:
            name += (f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in "
                     f"{co_fields['co_name']}")
        self.texts[name] = src
        linecache.lazycache(name, {**namespace, "__file__": name, "__name__": name,
                                   "__loader__": self})
        return name

    def get_source(self, name):
        return self.texts.get(name)


_sources = _Sources()


def _exec_with_source(src, namespace, co_fields=None):
    name = _sources.add(src, namespace, co_fields)
    exec(compile(src, name, "exec", dont_inherit=True), namespace)


def _forward_from_src(src, namespace, co_fields=None):
    namespace = dict(namespace)
    _exec_with_source(src, namespace, co_fields)
    return namespace["forward"]


# Pickling stores the text and the module's dict; unpickling traces the graph from the text.

def _global_name(name, obj):
    """Returns the import statement for a global of generated code."""
    module, attribute = getattr(obj, "__module__", None), getattr(obj, "__qualname__", name)
    if module is None or "<locals>" in attribute:
        import pickle
        raise pickle.PicklingError(f"{obj!r} cannot be imported")
    return module, attribute


def _format_import_statement(name, obj):
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    module, attribute = _global_name(name, obj)
    outer, _, attribute = attribute.rpartition(".")
    if outer:
        return f"from {module} import {outer} as {name}_; {name} = {name}_.{attribute}"
    return f"from {module} import {attribute} as {name}"


def _format_import_block(namespace):
    return "\n".join(sorted({_format_import_statement(*item) for item in namespace.items()}))


def _exec_imports(import_block):
    """Returns the names that an import block defines; `torch` means this package there, too."""
    namespace = {name: custom.obj for name, custom in _custom_builtins.items()}
    theirs = {custom.import_str for custom in _custom_builtins.values()}
    lines = [line for line in import_block.splitlines() if line not in theirs]
    exec("\n".join(lines), namespace)
    return namespace


def reduce_graph_module(body, import_block):
    """Makes a GraphModule from a pickle."""
    src = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(src, _exec_imports(import_block)), body)


class _CodeOnlyModule(Module):
    """A module with the dict of another module.  Tracing takes `forward` from its class."""

    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def _deserialize_graph_module(forward, body):
    from ._symbolic_trace import Tracer
    tracer_cls = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_cls):
        """Treats all submodules as leaves, because the traced graph did."""

        def is_leaf_module(self, _, __):
            return True

    class Root(_CodeOnlyModule):
        pass
    Root.forward = forward
    root = Root(body)
    graph = KeepModules().trace(root, **(body.get("_tracer_extras") or {}))
    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.meta["stack_trace"] = traces[node.name]
    graph._tracer_cls = tracer_cls
    made = GraphModule(root, graph, class_name=body.get("_graphmodule_cls_name", "GraphModule"))
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


# --- copying the attributes that the graph refers to ---

def _set_member(module, name, value, persistent=True):
    if isinstance(value, cresset.Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value, persistent)
    else:
        setattr(module, name, value)


def _copy_attr(source, target, path):
    """Copies the attribute at `path` from `source` to `target`; makes missing modules on the
    way."""
    *prefix, field = path.split(".")
    for item in prefix:
        from_here, to_here = getattr(source, item), getattr(target, item, None)
        if from_here is to_here:
            return  # it was copied with its module
        if to_here is None:
            to_here = Module()
            setattr(target, item, to_here)
        source, target = from_here, to_here
    _set_member(target, field, getattr(source, field), field not in getattr(source, "_non_persistent_buffers_set", ()))


def _assign_attr(value, target, path):
    """Sets the attribute of `target` at `path`."""
    *prefix, field = path.split(".")
    for item in prefix:
        below = getattr(target, item, None)
        if below is None:
            below = Module()
            setattr(target, item, below)
        target = below
    _set_member(target, field, value)


def _get_attr(module, path):
    """Returns the attribute of `module` at `path`."""
    for item in path.split("."):
        module = getattr(module, item)
    return module


# Calls.

def _generate_error_message(frame):
    """Returns the traceback and the lines of the generated function around the failed one."""
    at = frame.lineno
    lines = linecache.getlines(frame.filename)
    return "\n".join([
        traceback.format_exc(),
        f"Call using an FX-traced Module, line {at} of the traced Module's generated forward "
        "function:",
        "".join(lines[at - 2:at]), "~" * len(frame.line) + "~~~ <--- HERE",
        "\n".join(lines[at:at + 2])])


class _WrappedCall:
    """Calls a GraphModule.  An error in generated code is printed with this code."""

    def __init__(self, cls, cls_call):
        self.cls = cls
        self.cls_call = cls_call

    _generate_error_message = staticmethod(_generate_error_message)

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as error:
            innermost = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))[-1]
            if "eval_with_key" not in innermost.filename:
                raise error
            print(_generate_error_message(innermost), file=sys.stderr)
            raise error.with_traceback(None)


def _call_wrapped(self, *args, **kwargs):
    return self._wrapped_call(self, *args, **kwargs)


def _print_readable(module, name, print_output, options):
    """Returns the class text of a GraphModule and of its children that are GraphModules."""
    src = module.graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    text = _addindent(f"class {name}(torch.nn.Module):\n{src}", 4)
    options = {key: value for key, value in options.items() if key != "expanded_def"}
    below = [_print_readable(child, child_name, False, options)
             for child_name, child in module.named_children() if isinstance(child, GraphModule)]
    text += _addindent("\n".join(["", *below]), 4)
    if print_output:
        print(text)
    return text


class GraphModule(Module):
    """A module whose `forward` is the code of a graph.

    `root` is a module, or a dict from names to values, with the attributes that get_attr and
    call_module nodes name.  After changing the graph, assign `graph` or call recompile().
    """

    def __new__(cls, *args, **kwargs):
        # Every instance has a separate class, whose forward can be replaced.
        cls = next(c for c in cls.__mro__ if c.__qualname__.split(".")[-1] != "GraphModuleImpl")

        class GraphModuleImpl(cls):
            pass
        return super().__new__(GraphModuleImpl)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        paths = [(str(n), n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self._take_module(root, paths)
        elif isinstance(root, dict):
            self._take_dict(root, paths)
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.graph = graph
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = {}
        if graph._tracer_extras:
            self._tracer_extras = graph._tracer_extras
        self.meta = {}
        self._replace_hooks = []
        self._create_node_hooks = []
        self._erase_node_hooks = []
        self._deepcopy_hooks = []

    def _take_module(self, root, paths):
        if hasattr(root, "training"):
            self.training = root.training
        if isinstance(root, _CodeOnlyModule):
            for name in [*dict(root.named_children()), *dict(root.named_buffers()),
                         *dict(root.named_parameters())]:
                _copy_attr(root, self, name)
        for _, path in paths:
            _copy_attr(root, self, path)

    def _take_dict(self, root, paths):
        for node, path in paths:
            if path not in root:
                raise RuntimeError(f"Node {node} referenced target {path} but that target was not "
                                   "provided in ``root``!")
        # Modules first, because attributes below them are set afterwards.
        for _, path in sorted(paths, key=lambda item: item[1].count(".")):
            _assign_attr(root[path], self, path)

    # The graph and its code.

    @property
    def graph(self):
        """The graph; assigning another graph recompiles."""
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The text of the forward function."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self):
        """Makes `forward` from the current graph.  Returns the code."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        python_code = self._graph.python_code(root_module="self")
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        self._prologue_start = python_code._prologue_start
        cls = type(self)
        cls.forward = _forward_from_src(self._code, python_code.globals, self._graph._co_fields)
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        cls.__call__ = _call_wrapped
        return python_code

    def print_readable(self, print_output=True, include_stride=False, include_device=False,
                       colored=False, *, fast_sympy_print=False, expanded_def=False,
                       additional_meta=None):
        """Prints the code as a class, with comments, and returns it."""
        return _print_readable(self, self._get_name(), print_output, {
            "include_stride": include_stride, "include_device": include_device,
            "colored": colored, "expanded_def": expanded_def,
            "additional_meta": additional_meta})

    def __str__(self):
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, note])

    def to_folder(self, folder, module_name="FxModule"):
        """Writes the module as a Python package: its code, its state and its submodules."""
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        cresset.save(self.state_dict(), folder / "state_dict.pt")
        imports = "\n".join(custom.import_str for custom in _custom_builtins.values())
        members, pickled = [], []
        for name, child in self.named_children():
            text = repr(child)
            if not self._has_constructor_text(child):
                file = folder / f"{name}.pt"
                cresset.save(child, file)
                pickled.append(name)
                note = " ".join(text.splitlines())
                members.append((name, f"torch.load(r'{file}', weights_only=False)", f" # {note}"))
            else:
                members.append((name, text, ""))
        lines = [f"setattr(self, '{name}', {text}){note}" for name, text, note in members]
        lines += [f"self.register_buffer('{name}', {self._empty_like(value)})"
                  for name, value in self._buffers.items() if value is not None]
        lines += [f"setattr(self, '{name}', torch.nn.Parameter({self._empty_like(value)}))"
                  for name, value in self._parameters.items() if value is not None]
        lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
        body = "\n".join(f"        {line}" for line in lines)
        (folder / "module.py").write_text(
            f"\nimport torch\n{imports}\n\nfrom torch.nn import *\n"
            f"class {module_name}(torch.nn.Module):\n    def __init__(self):\n"
            f"        super().__init__()\n{body}\n{_addindent(self.code, 4)}\n")
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn("Was not able to save the following children modules as reprs -saved as "
                          f"pickled files instead: {pickled}")

    @staticmethod
    def _empty_like(tensor):
        return f"torch.empty({list(tensor.shape)}, dtype={tensor.dtype})"

    @staticmethod
    def _has_constructor_text(module):
        """Returns whether the module's text is a constructor call."""
        nn = cresset.nn
        return type(module) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d,
                                nn.BatchNorm2d, nn.BatchNorm3d)

    # Submodules.

    def add_submodule(self, target, m):
        """Adds a module at a dotted name.  Returns False when the name is in use otherwise."""
        *prefix, field = target.split(".")
        at = self
        for item in prefix:
            below = getattr(at, item, None)
            if below is None:
                below = Module()
                setattr(at, item, below)
            if not hasattr(at, item):
                return False
            at = below
            if not isinstance(at, Module):
                return False
        at.add_module(field, m)
        return True

    def delete_submodule(self, target):
        """Removes the module at a dotted name.  Returns False when there is none."""
        *prefix, field = target.split(".")
        at = self
        for item in prefix:
            if not hasattr(at, item):
                return False
            at = getattr(at, item)
            if not isinstance(at, Module):
                return False
        if not hasattr(at, field) or not isinstance(getattr(at, field), Module):
            return False
        delattr(at, field)
        return True

    def _used_paths(self):
        """Returns the dotted names of the modules that the graph needs."""
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            yield from itertools.accumulate(node.target.split("."), "{}.{}".format)
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    for name, _ in self.get_submodule(node.target).named_modules():
                        yield f"{node.target}.{name}" if name else node.target

    def delete_all_unused_submodules(self):
        """Removes modules that no node calls or reads."""
        used = set(self._used_paths())
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # Copies.

    def __reduce__(self):
        body = self.__dict__.copy()
        import_block = _format_import_block(self.recompile().globals)
        del body["_graph"]
        return reduce_graph_module, (body, import_block)

    def _deepcopy_init(self):
        return GraphModule.__init__

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        copied = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(made, copied, copied.__dict__["_graph"])
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks", "_replace_hooks", "_create_node_hooks",
                     "_erase_node_hooks", "_deepcopy_hooks"):
            if name in self.__dict__:
                setattr(made, name, copied.__dict__[name])
        made.meta = copied.__dict__.get("meta", {})
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        for hook in made._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self):
        made = GraphModule(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    # Hooks of passes that observe changes of the graph.

    @contextlib.contextmanager
    def _set_replace_hook(self, f):
        """Inside, f(old=, new=, user=) is called before an input of a user is replaced."""
        if not callable(f):
            raise AssertionError("Replace hook must be a callable.")
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f):
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f):
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f):
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f):
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f):
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f):
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f):
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f):
        self._deepcopy_hooks.remove(f)
