"""Backends that count and keep graphs, for tests of compiled programs."""
import random

from .. import empty, manual_seed, rand, randint
from .backends.debugging import aot_eager
from .backends.registry import lookup_backend


def _calls(gm):
    return sum("call" in node.op for node in gm.graph.nodes)


class CompileCounter:
    """The backend "eager" with the numbers of graphs and of their calls."""

    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += _calls(gm)
        return gm.forward

    def clear(self):
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """Another backend with these numbers and with the graphs."""

    def __init__(self, backend):
        self.backend = backend
        self.clear()

    def __call__(self, gm, example_inputs):
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self):
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """The backend "eager", with the graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


class AotEagerAndRecordGraphs:
    """The backend "aot_eager", with the graphs of the function, of forward and of backward."""

    def __init__(self):
        self.graphs, self.fw_graphs, self.bw_graphs = [], [], []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)

        def keep(graphs):
            def compiler(gm, example_inputs):
                graphs.append(gm)
                return gm.forward
            return compiler
        return aot_eager(gm, example_inputs, fw_compiler=keep(self.fw_graphs), bw_compiler=keep(self.bw_graphs))


def strip_comment(code):
    """Returns code without comments."""
    import re
    return re.sub(r"(?m)^ *#.*\n?", "", str(code))


def remove_trailing_space(code):
    return "\n".join(line.rstrip() for line in code.split("\n"))


def normalize_gm(gm_str):
    """Returns the text of a graph without comments and trailing space."""
    return remove_trailing_space(strip_comment(gm_str))


def reset_rng_state(use_xla=False):
    """Seeds the generators of torch and of Python."""
    manual_seed(1337)
    random.seed(1337)


def rand_strided(size, stride, dtype=None, device="cpu", extra_size=0):
    """Returns random numbers with these sizes and strides."""
    from .. import float32
    dtype = float32 if dtype is None else dtype
    needed = sum((n - 1) * s for n, s in zip(size, stride)) + 1 + extra_size if all(size) else extra_size
    if dtype.is_floating_point or dtype.is_complex:
        data = rand(needed, dtype=dtype, device=device)
    else:
        data = randint(0, 2, (needed,), device=device).to(dtype)
    return data.as_strided(size, stride) if needed else empty(size, dtype=dtype, device=device).as_strided(size, stride)
