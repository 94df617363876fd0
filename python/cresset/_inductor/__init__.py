"""Modes and options of compile(): their names and their effect on programs."""
from . import config

_MODES = {
    "default": {},
    "lite": {"fallback_by_default": True},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def list_mode_options(mode=None, dynamic=None):
    """Returns the options that a mode of compile() sets; without a mode, those of all modes by
    name."""
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode])


def list_options():
    """Returns the names that compile(options=...) accepts."""
    return config.names()


def options_of(mode, options):
    """Checks mode and options of compile() and returns the settings that they change, by name."""
    if mode is not None:
        return list_mode_options(mode)
    known, changes = config.names(), {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {known}")
        if type(value) is not type(config.get(name)) and config.get(name) is not None:
            raise RuntimeError(f"Unexpected type of attr {key}, got {type(value).__name__} should be "
                               f"{type(config.get(name)).__name__}")
        changes[name] = value
    return changes


def compile(gm, example_inputs, options=None):
    """Compiles a GraphModule to programs."""
    from .._dynamo.capture import compile_function
    return compile_function(gm.forward, None, "inductor", False, None, options_of(None, options or {}))


def aoti_compile_and_package(exported_program, _deprecated_unused_args=None, _deprecated_unused_kwargs=None, *, package_path=None,
                             inductor_configs=None):
    """Compiles an exported program and writes it as a package, a .pt2 file that aoti_load_package() and the C functions of
    cresset_aot.h load.

        package_path      a path that ends in .pt2, or an open binary file; None: a file in the folder for temporary files
        inductor_configs  settings of config, as {"aot_inductor.isa": "avx2"}

    The package needs neither Python nor this library's operators: its code was compiled by the system's C compiler.  A size
    that varies may be one symbol.  Returns the path.

    Example::

        >>> program = torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),))
        >>> path = torch._inductor.aoti_compile_and_package(program)
        >>> torch._inductor.aoti_load_package(path)(torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """
    from ._aoti import compile_and_package
    return compile_and_package(exported_program, package_path, dict(inductor_configs or {}))


def aoti_load_package(path, run_single_threaded=False, device_index=-1):
    """Loads a package of aoti_compile_and_package(): a callable with the arguments and results of the exported module.  The
    file is checked as a whole before its code is loaded.

        run_single_threaded  calls use the calling thread only
        device_index         -1: the only device is the processor
    """
    from .package import load_package
    return load_package(path, "model", run_single_threaded, 1, device_index)


def aot_compile(gm, args, kwargs=None, *, options=None):
    """Compiles a GraphModule, or a module, for arguments of these sizes.  Returns the path of a package, which
    aoti_load_package() loads.  options: as inductor_configs of aoti_compile_and_package()."""
    from ..export import export
    options = dict(options or {})
    path = options.pop("aot_inductor.output_path", None)
    return aoti_compile_and_package(export(gm, tuple(args), kwargs), package_path=path, inductor_configs=options)


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
