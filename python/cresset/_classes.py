"""torch.classes: the classes that every program has, by namespace and name."""
import types

RANGE = "__torch__.torch.classes.profiler._RecordFunction"  # of a profile: what record_function opens

_PREFIX = "__torch__.torch.classes."


class ScriptClass:
    """A class of programs, which annotations name.  Python cannot make its objects."""

    def __init__(self, qualified):
        self._qualified = qualified

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"method '__init__' of class '{self._qualified}' is not defined: programs make its objects")


class _Namespace(types.ModuleType):
    def __getattr__(self, name):
        qualified = f"{self.__name__.replace('torch.classes', _PREFIX[:-1])}.{name}"
        if qualified != RANGE:
            raise RuntimeError(f"Tried to instantiate class '{qualified.removeprefix(_PREFIX)}', but it does not exist! Ensure "
                               "that it is registered via torch::class_")
        made = self.__dict__[name] = ScriptClass(qualified)
        return made


class _Classes(types.ModuleType):
    __file__ = "_classes.py"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module 'torch.classes' has no attribute '{name}'")
        made = self.__dict__[name] = _Namespace(f"torch.classes.{name}")
        return made

    @property
    def loaded_libraries(self):
        from . import ops
        return ops.loaded_libraries

    def load_library(self, path):
        """Loads a shared object, which may register operators."""
        from . import ops
        ops.load_library(path)


classes = _Classes("torch.classes")
