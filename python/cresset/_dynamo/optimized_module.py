"""Compiled modules."""
from ..nn import Module


class OptimizedModule(Module):
    """A module whose calls are compiled; all attributes are those of `_orig_mod`."""

    _opt_mod_attributes = {"_orig_mod", "dynamo_ctx", "_compiled_forward", "training"}

    def __init__(self, mod, how):
        super().__init__()
        self._modules["_orig_mod"] = mod
        object.__setattr__(self, "_how", how)
        around = getattr(type(mod), "_compile", None)  # of a class whose calls do more than a graph can hold
        call, compiled = around(mod, how) if around is not None else (None, None)
        compiled = how.function(mod) if compiled is None else compiled
        object.__setattr__(self, "_compiled_forward", compiled)
        object.__setattr__(self, "forward", compiled if call is None else call)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def aot_compile(self, example_inputs):
        """Compiles the module for the arguments (args, kwargs); the result can be saved to a file."""
        return self._compiled_forward.aot_compile(example_inputs)

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
