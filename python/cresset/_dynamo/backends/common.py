"""Helpers for backends."""


class AotAutograd:
    """A backend that gives the forward and the backward graph to compilers of graphs."""

    def __init__(self, **kwargs):
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    def __call__(self, gm, example_inputs, **kwargs):
        from ..capture import counters
        from ... import _C
        from ..._functorch.aot_autograd import WritesHistory, aot_function
        if any(getattr(node.target, "namespace", "").startswith(("_c10d", "c10d")) for node in gm.graph.nodes):
            return gm.forward  # recording makes the calls, and other ranks may not record
        counters["aot_autograd"]["total"] += 1
        try:
            made = aot_function(gm.forward, **self.kwargs)
        except Exception:
            counters["aot_autograd"]["not_ok"] += 1
            raise
        counters["aot_autograd"]["ok"] += 1

        def run(*inputs):
            if _C._saved_hooks_active():  # the program's hooks get what the program's operators save
                return gm.forward(*inputs)
            try:
                return made(*inputs)
            except WritesHistory as why:
                _C._log("aot", 1, f"the graph runs as it was recorded: {why}")
                return gm.forward(*inputs)
        return run


def aot_autograd(**kwargs):
    """aot_autograd(fw_compiler=..., bw_compiler=...) returns a backend of compile()."""
    return AotAutograd(**kwargs)


def fake_tensor_unsupported(fn):
    """Returns `fn`: example inputs are the tensors of the recorded call."""
    return fn


def device_from_inputs(example_inputs):
    """Returns the device of the first example input that has one."""
    return next(x.device for x in example_inputs if hasattr(x, "device"))


def dtype_from_inputs(example_inputs):
    """Returns the dtype of the first example input that has one."""
    return next(x.dtype for x in example_inputs if hasattr(x, "dtype"))
