"""This package's programs, as a backend that other backends call."""


def inductor(gm, example_inputs, **kwargs):
    from ..._inductor import options_of
    from ..capture import compile_function
    settings = options_of(kwargs.get("mode"), kwargs.get("options") or {})
    return compile_function(gm.forward, None, "inductor", False, None, settings)
