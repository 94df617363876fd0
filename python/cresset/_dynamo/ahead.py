"""Functions that are compiled for one call's arguments, saved to a file and loaded elsewhere."""
from .. import Tensor, compile, serialization  # noqa: A004
from ..utils._pytree import tree_flatten
from .exporting import export

__all__ = ["AOTCompiledFunction", "aot_compile", "load"]

_FORMAT = "cresset compiled function 1"


def _fact(x):
    if isinstance(x, Tensor):
        return tuple(x.shape), x.dtype, str(x.device), x.requires_grad
    return x


def _facts(args):
    leaves, spec = tree_flatten(tuple(args))
    return [_fact(x) for x in leaves], spec


class AOTCompiledFunction:
    """A compiled function for arguments of the sizes, dtypes and numbers of one call."""

    def __init__(self, module, names, facts):
        self._module, self._names, self._facts = module, names, facts
        self._compiled = compile(module.forward, fullgraph=True, dynamic=False)
        self._checks = True

    def disable_guard_check(self):
        """Leaves out the check of arguments."""
        self._checks = False

    def _position(self, args, kwargs):
        if not kwargs:
            return args
        rest = dict(kwargs)
        args = [*args, *(rest.pop(name) for name in self._names[len(args):] if name in rest)]
        if rest:
            raise TypeError(f"the compiled function has no argument '{next(iter(rest))}'")
        return args

    def __call__(self, *args, **kwargs):
        args = self._position(args, kwargs)
        found = _facts(args)
        if self._checks and found != self._facts:
            why = next((f"leaf {i} is {a}, and the function was compiled for {b}"
                        for i, (a, b) in enumerate(zip(found[0], self._facts[0])) if a != b), "the arguments' trees differ")
            raise RuntimeError(f"GuardManager check failed, reason: {why}")
        return self._compiled(*args)

    def save_compiled_function(self, path, external_data=None):
        """Writes the function to a file, which torch.compiler.load_compiled_function() reads."""
        if external_data:
            raise ValueError("save_compiled_function(): tensors are saved with the function, so external_data must be empty")
        serialization.save((_FORMAT, self._module, self._names, self._facts), path)


def _names(fn, args):
    from inspect import signature
    try:
        return list(signature(getattr(fn, "forward", fn)).parameters)
    except ValueError:
        return [f"arg{i}" for i in range(len(args))]


def aot_compile(fn, example_inputs):
    """Returns fn, compiled as one graph for example_inputs, which are (args, kwargs)."""
    args, kwargs = example_inputs
    names = _names(fn, args)
    module, _ = export(fn)(*args, **kwargs)
    return AOTCompiledFunction(module, names, _facts([*args, *(kwargs[n] for n in names[len(args):] if n in kwargs)]))


def load(file, f_globals=None, external_data=None):
    """Reads a function that save_compiled_function wrote to `file`, a path or an open file."""
    found = serialization.load(file, weights_only=False)
    if not isinstance(found, tuple) or len(found) != 4 or found[0] != _FORMAT:
        raise RuntimeError("load_compiled_function(): the file has no compiled function")
    return AOTCompiledFunction(*found[1:])
