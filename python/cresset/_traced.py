"""What functions of this package tell torch.jit.trace."""
import cresset

from . import _C


class _Call:
    """A function under the name of a TorchScript operator."""

    def __init__(self, name, function, recorder):
        self.__name__, self.function, self.recorder = name, function, recorder

    def __call__(self, *args):
        with self.recorder.without_warnings():
            return self.function(*args)


def one_call(name, function, *args):
    """Calls a function, which a trace records as one call of the TorchScript operator aten::`name`."""
    recorder = cresset.jit._get_tracing_state()
    if recorder is not None:
        result = _C._ask_mode(_Call(name, function, recorder), (), args, {})
        if result is not NotImplemented:
            return result
    return function(*args)


def whole_number(tensor):
    """int(tensor), which a trace follows."""
    recorder = cresset.jit._get_tracing_state()
    return int(tensor) if recorder is None else recorder.whole_number(tensor)
