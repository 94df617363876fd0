"""Hooks, data loading and other helpers."""
import copyreg
import weakref

from .. import torch


def __getattr__(name):
    if name in ("benchmark", "data", "checkpoint", "dlpack", "flop_counter", "hooks", "_pytree",
                "backend_registration", "module_tracker", "weak", "deterministic", "backcompat", "file_baton", "tensorboard",
                "collect_env", "model_zoo", "cpp_backtrace", "cpp_extension"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    if name in ("load_backend", "rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"):
        from . import backend_registration
        return getattr(backend_registration, name)
    if name in ("throughput_benchmark", "ThroughputBenchmark"):
        from importlib import import_module
        module = import_module(f"{__name__}.throughput_benchmark")
        return module if name == "throughput_benchmark" else module.ThroughputBenchmark
    from .._absent_names import missing
    raise missing(__name__, name)


def swap_tensors(t1, t2):
    """Exchanges two tensors: class, attributes, elements, gradient.  References to one then see the other."""
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = [name for cls in type(t1).__mro__ for name in getattr(cls, "__slots__", ())]
    if slots != [name for cls in type(t2).__mro__ for name in getattr(cls, "__slots__", ())]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    t1._swap_tensor(t2)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    for tensor, state in ((t1, second), (t2, first)):
        tensor.__dict__.clear()
        tensor.__dict__.update(state)
    for name in slots:
        one, two = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, two)
        setattr(t2, name, one)


def set_module(obj, mod):
    """Sets the module that an object's repr names."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def get_cpp_backtrace(frames_to_skip=0, maximum_number_of_frames=64):
    """The calls of C functions that lead here, as text."""
    import ctypes
    libc = ctypes.CDLL(None)
    addresses = (ctypes.c_void_p * (frames_to_skip + maximum_number_of_frames))()
    count = libc.backtrace(addresses, len(addresses))
    libc.backtrace_symbols.restype = ctypes.POINTER(ctypes.c_char_p)
    names = libc.backtrace_symbols(addresses, count)
    lines = [names[i].decode(errors="replace") for i in range(frames_to_skip, count)]
    free = libc.free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    free(names)
    return "".join(f"frame #{i}: {line}\n" for i, line in enumerate(lines))
