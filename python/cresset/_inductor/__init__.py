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


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
