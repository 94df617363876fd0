"""Where recorded calls come from: the lines of the program and the modules they are in."""
import linecache
import sys

import cresset

from .. import Tensor
from .._subclasses.fake_tensor import FakeTensor
from .._utils import torch_name
from ..nn.modules import module as module_file
from ._grad_mode import BLOCKS, MODE, AutocastBlock
from ..overrides import TorchFunctionMode
from ..utils._pytree import tree_leaves

_HOME = __file__.removesuffix("export/_sources.py")
_AUTOGRAD = _HOME + "autograd/"
_LAYERS = _HOME + "nn/modules/"


def _is_shown(path):
    """Whether stack traces have a file's functions called forward: the program's and those of layers."""
    return not path.startswith(_HOME) or path.startswith(_LAYERS) and not path.endswith("/module.py")


def _class_name(module):
    cls = type(module)
    return f"{torch_name(cls.__module__)}.{cls.__qualname__}"


def _function_name(function):
    kind = type(function).__name__
    return f"{kind}.{getattr(function, '__name__', kind)}"


def _tensor_of_symbols(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """torch.tensor() of numbers of which some are symbols."""
    if dtype is None:
        kinds = {type(x) if type(x) is not cresset._C.Symbol else x.__class__ for x in tree_leaves(data)}
        dtype = cresset.get_default_dtype() if float in kinds else cresset.int64

    def made(x):
        if isinstance(x, (list, tuple)):
            return cresset.stack([made(item) for item in x])
        return cresset.scalar_tensor(x, dtype=dtype, device=device)
    return made(data).requires_grad_() if requires_grad else made(data)


def kept_meta(node):
    """What the nodes that replace `node` keep of its metadata."""
    return {key: node.meta[key] for key in ("nn_module_stack", "stack_trace", "torch_fn", "custom", MODE, BLOCKS) if key in node.meta}


def _node_at(frame):
    """The node of a graph module at whose line the frame of its generated function is, if export described it."""
    module = frame.f_locals.get("self")
    lines, line = getattr(module, "_lineno_map", None), frame.f_lineno - getattr(module, "_prologue_start", 0)
    index = lines.get(line) if lines else None
    node = None if index is None else next((n for i, n in enumerate(module.graph.nodes) if i == index), None)
    return node if node is not None and "nn_module_stack" in node.meta else None


class Source:
    """The origin of the calls that one function of torch made."""

    __slots__ = ("frames", "modules", "function", "node", "grad", "blocks")

    def __init__(self, frames, modules, function, node=None, grad=None, blocks=()):
        self.frames, self.modules, self.function = frames, modules, function
        self.blocks = blocks  # the autocast blocks that are open
        self.grad = grad  # the grad mode of the call; None in the forward of an autograd.Function, and in a backward
        self.node = node  # the node of an exported graph whose call runs again, or None

    def stack_trace(self):
        return "\n".join(f'  File "{path}", line {line}, in {name}\n    {linecache.getline(path, line).strip()}'
                         for path, line, name in self.frames if linecache.getline(path, line)).lstrip()

    def line(self):
        """(path, line, function) of the program's last frame, else of the last one of a layer."""
        own = [frame for frame in self.frames if not frame[0].startswith(_HOME)]
        return (own or self.frames or [("?", 0, "?")])[-1]


class Sources(TorchFunctionMode):
    """Inside, notes each call of a function of torch, and tells the recorder its number."""

    def __init__(self, root, recorder):
        self.recorder, self.notes, self.calls = recorder, [], {}
        self.paths = {}   # id of a module -> its paths, those with the fewest parts first
        for name, m in sorted(root.named_modules(remove_duplicate=False), key=lambda item: item[0].count(".") + bool(item[0])):
            self.paths.setdefault(id(m), []).append(name)
        self.stack, self.top = [], None
        self.replaces = None  # a function that may make the results of a call, or NotImplemented
        self.grad = cresset.is_grad_enabled()
        self.blocks = ()  # the autocast blocks that are open, the outermost first
        self.counts = {}  # path -> how often it was called
        self.with_grad, self.without_grad = False, None  # of values that need gradients: whether a call ran that makes
        #                                                  others; the Source of the first that grad mode kept from it

    def __enter__(self):
        self.top = sys._getframe(1)
        self.watcher = cresset._C._watch_autocast(self._autocast)
        self.handles = [module_file.register_module_forward_pre_hook(self._enter),
                        module_file.register_module_forward_hook(self._leave, always_call=True)]
        return super().__enter__()

    def __exit__(self, *error):
        cresset._C._watch_autocast(self.watcher)
        for handle in self.handles:
            handle.remove()
        self.top = None
        return super().__exit__(*error)

    def _autocast(self, context):
        self.blocks = self.blocks[:-1] if context is None else (*self.blocks, AutocastBlock(context))

    def _enter(self, module, args):
        path = self._path(module)
        if path is None:
            self.stack.append(None)
            return
        number = self.counts[path] = self.counts.get(path, -1) + 1
        self.stack.append((path, _class_name(module), f"{path}@{number}" if number else path))

    def _path(self, module):
        """The path of a module that is called now.  Of a module with several, that below the module around the call: of
        two that are there, the one that the call around has not used."""
        paths = self.paths.get(id(module))
        if paths is None or len(paths) == 1:
            return paths and paths[0]
        outer = next((entry[0] for entry in reversed(self.stack) if entry is not None), "")
        near = [p for p in paths if not outer or p.startswith(outer + ".")] or paths
        near = [p for p in near if p.count(".") == near[0].count(".")]
        used = self.counts.get(outer, 0)
        return next((p for p in near if self.counts.get(p, -1) < used), near[-1])

    def _leave(self, module, args, out):
        if self.stack:
            self.stack.pop()

    def _frames(self):
        """The frames of the call, outermost first, and the node of the innermost graph module that makes it, or None."""
        frame, out, node = sys._getframe(2), [], None
        while frame is not None and frame is not self.top:
            path = frame.f_code.co_filename
            if frame.f_code.co_name == "forward" and _is_shown(path):
                out.append((path, frame.f_lineno, frame.f_code.co_name))
                if node is None and path.startswith("<eval_with_key>"):
                    node = _node_at(frame)
            frame = frame.f_back
        return out[::-1], node

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is cresset.ops.aten.sym_size.int:  # of a program that is exported again
            return args[0].shape[args[1]]
        name = _function_name(func)
        short = name.partition(".")[2]
        self.calls[short] = self.calls.get(short, 0) + 1
        modules = {f"L__self__{key}": (path, cls) for path, cls, key in filter(None, self.stack)}
        self.recorder.at(str(len(self.notes)))
        frames, node = self._frames()
        grad = cresset.is_grad_enabled()
        if grad is not self.grad and self._in_function():
            grad = None
        self.notes.append(Source(frames, modules, (f"{short}_{self.calls[short]}", name), node, grad, self.blocks))
        if func is cresset.tensor and any(type(x) is cresset._C.Symbol for x in tree_leaves(args)):
            func = _tensor_of_symbols
        elif func is cresset.is_nonzero and args and isinstance(args[0], FakeTensor):
            func = bool
        out = NotImplemented if self.replaces is None else self.replaces(func, args, kwargs or {})
        out = func(*args, **(kwargs or {})) if out is NotImplemented else out
        self._note_grad(short, args, kwargs, out)
        return out

    def _note_grad(self, short, args, kwargs, out):
        """Notes whether the grad mode decided if the result of a call has gradients."""
        if short in ("detach", "detach_", "__get__") or not any(
                isinstance(x, Tensor) and x.dtype.is_floating_point for x in tree_leaves(out)) or not any(
                isinstance(x, Tensor) and x.requires_grad for x in tree_leaves((args, kwargs))):
            return
        if cresset.is_grad_enabled():
            self.with_grad = True
        elif self.without_grad is None and not self._in_function():
            self.without_grad = self.notes[-1]

    def _in_function(self):
        """Whether the forward of an autograd.Function or a backward runs, whose calls have no gradients of their own."""
        frame = sys._getframe(2)
        while frame is not None and frame is not self.top:
            path = frame.f_code.co_filename
            if path.startswith(_AUTOGRAD) and not path.endswith("/grad_mode.py"):
                return True
            frame = frame.f_back
        return False

    def short_name(self, text):
        """The name of the function that a call of the program called."""
        return self.notes[int(text)].function[1].partition(".")[2] if text else None

    def in_autocast(self, text):
        """Whether a call of the program was in an autocast block, by the text that the recorder kept."""
        return bool(text) and bool(self.notes[int(text)].blocks)

    def meta(self, text):
        """The metadata of a node by the text that the recorder kept."""
        source = self.notes[int(text)]
        out = {"nn_module_stack": source.modules, "stack_trace": source.stack_trace(), "torch_fn": source.function,
               MODE: self.grad if source.grad is None else source.grad, BLOCKS: source.blocks}
        return out if source.node is None else {**out, **kept_meta(source.node)}
