"""torch._logging: names of torch's logs and artifacts select the topics of CR_LOG, whose lines go to standard error."""
import functools
import logging
import os

__all__ = ["LazyString", "getArtifactLogger", "set_logs", "warning_once"]

# Parts of torch whose log has a level, and the topics that tell the same here.
_LOGS = {"dynamo": ("graph", "capture", "recompile"), "aot": ("aot",), "inductor": ("fusion", "code", "cache", "jit"),
         "distributed": ("comm", "dist"), "c10d": ("comm",), "ddp": ("dist",), "dynamic": ("recompile",),
         "autograd": (), "export": (), "fsdp": (), "dtensor": (), "onnx": ()}
# Artifacts, which are on or off.
_ARTIFACTS = {"graph": ("graph",), "graph_code": ("graph",), "graph_code_verbose": ("graph",), "graph_sizes": ("graph",), "graph_breaks": ("graph", "capture"),
              "bytecode": ("capture",), "trace_source": ("capture",), "trace_call": ("capture",), "trace_bytecode": ("capture",),
              "guards": ("recompile",), "recompiles": ("recompile",), "recompiles_verbose": ("recompile",),
              "aot_graphs": ("aot",), "aot_joint_graph": ("aot",), "aot_graphs_effects": ("aot",), "ddp_graphs": ("dist",),
              "output_code": ("code",), "kernel_code": ("code",), "fusion": ("fusion",), "schedule": ("fusion",),
              "post_grad_graphs": ("fusion",), "pre_grad_graphs": ("graph",), "ir_pre_fusion": ("fusion",),
              "ir_post_fusion": ("fusion",), "perf_hints": ("autotune",), "benchmarking": ("autotune",),
              "autotuning": ("autotune",), "not_implemented": ("backend",), "cudagraph_static_inputs": (), "cudagraphs": (),
              "graph_region_expansion": (), "inductor_metrics": (), "onnx_diagnostics": (), "overlap": (), "side_effects": (),
              "sym_node": (), "incremental": (), "caching": ("cache",), "compiled_autograd": (), "compiled_autograd_verbose": (),
              "hierarchical_compile": (), "compute_dependencies": ()}
_ours = None  # the value of CR_LOG that set_logs gave


def _level(name, level):
    """Returns a topic's level for one of the module `logging`; 0: off."""
    if not isinstance(level, int) or isinstance(level, bool):
        raise ValueError(f"Unrecognized log level for log {name}: {level}, valid level values are: "
                         "50,40,30,20,10,0")
    return 3 if level <= logging.DEBUG else 2 if level <= logging.INFO else 0


def _of_module(name):
    """Returns the log that a module of torch writes to, or None."""
    part = name.partition(".")[2].partition(".")[0].lstrip("_")
    return {"functorch": "aot"}.get(part, part if part in _LOGS else None)


def set_logs(*, all=None, modules=None, **given):
    """Selects what is logged; a call without arguments selects nothing.

        all        a level of `logging` for all logs
        modules    {name: level}: of torch's modules, or of others that use `logging`
        NAME       of a log: a level (dynamo=logging.DEBUG); of an artifact: True (graph_code=True, recompiles=True)

    CR_LOG in the environment has precedence. Names without a topic of CR_LOG select nothing.

    Example::

        >>> torch._logging.set_logs(recompiles=True, inductor=logging.DEBUG)
        >>> os.environ["CR_LOG"]
        'recompile:1,fusion:3,code:3,cache:3,jit:3'
        >>> torch._logging.set_logs()
    """
    global _ours
    if os.environ.get("CR_LOG", "") not in ("", _ours):
        import warnings
        warnings.warn("Using CR_LOG environment variable for log settings, ignoring call to set_logs", stacklevel=2)
        return
    topics = {}
    chosen = {name: all for name in _LOGS} if all is not None else {}
    for name, level in (modules or {}).items():
        logging.getLogger(name).setLevel(level)
        chosen.update({_of_module(name): level} if _of_module(name) else {})
    for name, value in {**chosen, **given}.items():
        if name not in _LOGS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
        if name in _ARTIFACTS and not isinstance(value, bool):
            raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
        level = int(value) if name in _ARTIFACTS else _level(name, value) if value is not None else 0
        for topic in (_ARTIFACTS | _LOGS)[name]:
            topics[topic] = max(level, topics.get(topic, 0))
    _ours = ",".join(f"{topic}:{level}" for topic, level in topics.items() if level)
    os.environ["CR_LOG"] = _ours


def getArtifactLogger(module_qname, artifact_name):
    """Returns the logger of an artifact of a module."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name: {repr(artifact_name)} not registered,please call register_artifact("
                         f"{repr(artifact_name)}) in torch._logging.registrations.")
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


@functools.cache
def warning_once(logger, *args, **kwargs):
    """Calls logger.warning the first time it is called with these arguments."""
    logger.warning(*args, **kwargs)


class LazyString:
    """The text of a call, which is made when it is formatted."""

    def __init__(self, func, *args, **kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self):
        return self.func(*self.args, **self.kwargs)
