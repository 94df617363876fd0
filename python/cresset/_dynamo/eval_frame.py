"""compile() for functions and modules, and switching it off."""
import functools
import inspect

from .. import _C
from ..nn import Module
from . import config
from .backends import lookup_backend
from .capture import compile_function


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is `_orig_mod`'s."""

    _opt_mod_attributes = {"_orig_mod", "dynamo_ctx", "_compiled_forward", "training"}

    def __init__(self, mod, how):
        super().__init__()
        self._modules["_orig_mod"] = mod
        object.__setattr__(self, "_how", how)
        object.__setattr__(self, "_compiled_forward", how.function(mod))
        object.__setattr__(self, "forward", self._compiled_forward)

    def __call__(self, *args, **kwargs):
        return self._compiled_forward(*args, **kwargs)

    def __reduce__(self):
        return OptimizedModule, (self._orig_mod, self._how)

    def __getattr__(self, name):
        mod = self.__dict__["_modules"]["_orig_mod"]
        return mod if name == "_orig_mod" else getattr(mod, name)

    def __setattr__(self, name, value):
        if name in ("forward",):
            return object.__setattr__(self, name, value)
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    @property
    def training(self):
        return self.__dict__["_modules"]["_orig_mod"].training

    @training.setter
    def training(self, value):
        modules = self.__dict__.get("_modules")
        if modules and "_orig_mod" in modules:
            modules["_orig_mod"].training = value

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self):
        return len(self._orig_mod)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __iter__(self):
        return iter(self._orig_mod)

    def __contains__(self, item):
        return item in self._orig_mod


class How:
    """compile() with its options: callable on functions and modules, and a decorator."""

    def __init__(self, backend="inductor", nopython=False, dynamic=None, disable=False):
        self.backend_name, self.backend = backend, lookup_backend(backend)
        self.nopython, self.dynamic, self.disable = nopython, dynamic, disable

    def set_options(self, mode, options):
        """Options are settings of programs; other backends get them as keywords."""
        self.options = {**(options or {}), **({"mode": mode} if mode else {})}
        if self.backend is not None and self.options:
            self.backend = functools.partial(self.backend, **self.options)

    def __call__(self, fn):
        if isinstance(fn, Module):
            return OptimizedModule(fn, self)
        if isinstance(fn, type):
            raise RuntimeError(f"torch._dynamo.optimize(...) is used to compile the class {fn.__name__}; "
                               "compile its instances")
        return self.function(fn)

    def function(self, fn):
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        fn = getattr(fn, "_torchdynamo_orig_callable", fn)
        if self.disable or getattr(fn, "_torchdynamo_disable", False) or config.disable:
            return fn
        compiled = compile_function(fn, self.backend, self.backend_name, self.nopython, self.dynamic)
        if isinstance(fn, functools.partial) or not hasattr(fn, "__name__"):
            compiled.__name__ = getattr(fn, "__name__", type(fn).__name__)
        else:
            functools.update_wrapper(compiled, fn)
        compiled._torchdynamo_orig_callable = fn
        compiled._torchdynamo_inline = fn
        try:
            compiled.__signature__ = inspect.signature(fn)
        except (TypeError, ValueError):
            pass
        return compiled

    def __reduce__(self):
        return How, (self.backend_name, self.nopython, self.dynamic, self.disable)


def optimize(backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None, disable=False,
             dynamic=None, **unused):
    """The compiler as a decorator; compile() is its usual face."""
    return How(backend, nopython, dynamic, disable)


def optimize_assert(backend, **options):
    return optimize(backend, nopython=True, **options)


class _Plain:
    """Compiled functions of the thread are their functions meanwhile; also a decorator."""

    def __enter__(self):
        _C._compiled_off(1)

    def __exit__(self, *error):
        _C._compiled_off(-1)

    def __call__(self, fn):
        return disable(fn)


def disable(fn=None, recursive=True, *, reason=None):
    """`fn` runs eagerly, and so does what it calls; where a compiled function calls it, that runs eagerly, too."""
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    fn = getattr(fn, "_torchdynamo_orig_callable", fn)

    @functools.wraps(fn)
    def plain(*args, **kwargs):
        _C._refuse_recording(f"{getattr(fn, '__qualname__', fn)} is disabled"
                             f"{': ' + reason if reason else ''}")
        with _Plain():
            return fn(*args, **kwargs)
    plain._torchdynamo_disable = True
    plain._torchdynamo_orig_callable = fn
    return plain
