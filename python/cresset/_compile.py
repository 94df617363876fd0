"""compile()."""


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None,
            disable=False, recompile_limit=None, isolate_recompiles=False):
    """A function or module that runs as fused programs.

    The first call runs eagerly and is recorded; later calls for which all that the function read is
    as it was run the recording.  A decorator when `model` is None.

    fullgraph  an error where the function cannot be one graph; otherwise it then runs eagerly
    dynamic    True: sizes are symbols from the first call on; False: never; None: once they change
    backend    "inductor" (this package's programs; the default), "eager", "aot_eager", or a callable of a
               GraphModule and example inputs
    mode       "default"; "reduce-overhead" (the same on CPUs); "max-autotune": schedules are measured;
               "lite": every operator stays a call
    options    settings of the backend by name (torch._inductor.list_options()); {"fast": True} lets
               results differ from eager's by rounding
    name       what logs and errors call it
    disable    returns `model` as it is
    recompile_limit     how often it is recorded; None: torch._dynamo.config.recompile_limit
    isolate_recompiles  every call of compile() has recordings of its own anyway """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        def decorate(model):
            if model is None:
                raise RuntimeError("Model can't be None")
            return compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                           name=name, disable=disable, recompile_limit=recompile_limit)
        return decorate
    from ._dynamo.eval_frame import How
    how = How(backend, fullgraph, dynamic, disable, name, recompile_limit)
    if options is not None or mode is not None:
        how.set_options(mode, options)
    return how(model)
