"""The base classes of stages, and how stages become methods of all others."""
import copy
from functools import partial

from ..dataset import Dataset, IterableDataset

__all__ = ["DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe", "functional_datapipe",
           "guaranteed_datapipes_determinism", "non_deterministic"]


class _Functional:
    """Finds registered stages as methods: pipe.map(f) is Mapper(pipe, f)."""

    def __getattr__(self, name):
        if name in type(self).functions:
            return partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    @classmethod
    def register_function(cls, function_name, function):
        """Makes a function a method of all pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False):
        """Makes a stage a method of all pipes of this kind."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __getstate__(self):
        return dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __repr__(self):
        return type(self).__qualname__

    __str__ = __repr__

    def __dir__(self):
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Functional, IterableDataset):
    """A stage whose samples come one after another; subclasses define __iter__."""

    functions = {}

    def reset(self):
        """Called before a new iteration by stages with state."""


class MapDataPipe(_Functional, Dataset):
    """A stage whose samples have keys; subclasses define __getitem__."""

    functions = {}


class DFIterDataPipe(IterDataPipe):
    """A stage of data frames."""

    def _is_dfpipe(self):
        return True


class DataChunk(list):
    """A batch."""

    def __init__(self, items):
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent=""):
        """Returns the items in brackets."""
        return indent + "[" + ", ".join(map(str, iter(self))) + "]"

    def raw_iterator(self):
        yield from self.items


class functional_datapipe:
    """Decorates a stage, which becomes a method of all stages of its kind."""

    def __init__(self, name, enable_df_api_tracing=False):
        self.name = name

    def __call__(self, cls):
        if not isinstance(cls, type) or not issubclass(cls, (IterDataPipe, MapDataPipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        kind = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        kind.register_datapipe_as_function(self.name, cls)
        return cls


_determinism = False


class guaranteed_datapipes_determinism:
    """Refuses stages without a fixed order inside."""

    def __init__(self):
        global _determinism
        self.prev, _determinism = _determinism, True

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Decorates a stage without a fixed order, or gets a function that tells for its arguments."""

    def __init__(self, arg):
        self.cls = arg if isinstance(arg, type) else None
        self.tells = None if self.cls else arg

    def __call__(self, *args, **kwargs):
        if self.cls is None:
            return self._decorated(args[0])
        self._refuse(self.cls)
        return self.cls(*args, **kwargs)

    @staticmethod
    def _refuse(cls):
        if _determinism:
            raise TypeError(f"{cls.__name__} is non-deterministic, but you set 'guaranteed_datapipes_determinism'. You "
                            "can turn off determinism for this DataPipe if that is acceptable for your application")

    def _decorated(self, cls):
        tells, original = self.tells, cls.__init__

        def __init__(self, *args, **kwargs):
            if tells(*args, **kwargs):
                non_deterministic._refuse(cls)
            original(self, *args, **kwargs)
        cls.__init__ = __init__
        return cls


def copied(x, deep):
    """Returns a deep copy, or the object itself when it cannot be copied."""
    try:
        return copy.deepcopy(x) if deep else x
    except TypeError:
        import warnings
        warnings.warn("The input iterable can not be deepcopied, please be aware of in-place modification would "
                      "affect source data.", stacklevel=3)
        return x


def check_function(function):
    """Refuses what cannot be called, and warns of functions that pickle does not find by name."""
    import warnings
    if not callable(function):
        raise TypeError(f"A callable function is expected, but {type(function)} is provided.")
    inner = function.func if isinstance(function, partial) else function
    name, qualname = getattr(inner, "__name__", ""), getattr(inner, "__qualname__", "")
    what = "Lambda" if name == "<lambda>" else "Local" if "<locals>" in qualname else None
    if what:
        warnings.warn(f"{what} function is not supported by pickle, please use regular python function or "
                      "functools.partial instead.", stacklevel=3)
