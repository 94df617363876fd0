"""pipeline(): cuts a traced model where pipe_split() was called, or before and after submodules that a dict names."""
import copy
from dataclasses import dataclass
from enum import Enum

import cresset

from ... import fx, nn
from ...utils._pytree import tree_map
from .stage import build_stage

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "pipe_split", "pipeline", "split_into_equal_size"]

_tracers = []  # of the traces that run


class SplitPoint(Enum):
    """A stage begins before a submodule, or after it."""

    BEGINNING = 1
    END = 2


def pipe_split():
    """Ends a stage of a model that pipeline() traces, and does nothing elsewhere."""
    if _tracers:
        _tracers[-1].create_node("call_function", pipe_split, (), {})


class _Tracer(fx.Tracer):
    """Records the ends of stages."""

    def __init__(self, spec):
        super().__init__()
        self.spec, self.met = spec, set()

    def trace(self, root, concrete_args=None):
        _tracers.append(self)
        try:
            return super().trace(root, concrete_args)
        finally:
            _tracers.pop()

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        self.met.add(path)
        if self.spec.get(path) is SplitPoint.BEGINNING:
            pipe_split()
        made = super().call_module(m, forward, args, kwargs)
        if self.spec.get(path) is SplitPoint.END:
            pipe_split()
        return made


@dataclass
class PipeInfo:
    """What a pipeline has."""

    graph: fx.Graph
    num_stages: int
    has_loss_and_backward: bool = False


def _is_split(node):
    return node.op == "call_function" and node.target is pipe_split


def _stages_of(graph):
    """Returns the stage of each node, and their number.  A parameter is read where it is used first."""
    stage, found = 0, {}
    for node in graph.nodes:
        if _is_split(node):
            stage += 1
        else:
            found[node] = stage
    for node in graph.nodes:
        if node.op == "get_attr" and node.users:
            found[node] = min(found[user] for user in node.users)
    return found, stage + 1


def _check_shared(module, graph, stages):
    """Refuses a parameter that two stages have: each would train a copy of its own."""
    owner, names = {}, {p: name for name, p in module.named_parameters()}
    modules = dict(module.named_modules())
    for node, stage in stages.items():
        if node.op == "call_module":
            used = list(modules[node.target].parameters())
            places = [stage]
        elif node.op == "get_attr":
            value = module
            for part in node.target.split("."):
                value = getattr(value, part)
            used, places = [value] if isinstance(value, nn.Parameter) else [], [stages[user] for user in node.users]
        else:
            continue
        for p in used:
            for s in places:
                if owner.setdefault(p, s) != s:
                    raise ValueError(f"the parameter {names.get(p, node.target)} is used by the stages {owner[p]} and {s}; a parameter "
                                     "must be in one stage")


def _stage_graph(graph, stages, number, count):
    """Returns the graph of a stage: it takes the values that it and later stages need, and gives those that later stages need."""
    def crossing(k):
        """The values that are made before stage k and used from there on."""
        return [n for n in graph.nodes if n in stages and n.op != "output" and (stages[n] < k or n.op == "placeholder" and k > 0)
                and any(stages.get(user, 0) >= k for user in n.users)]
    made, copies = fx.Graph(), {}
    inputs = [n for n in graph.nodes if n.op == "placeholder"] if number == 0 else crossing(number)
    for n in inputs:
        copies[n] = made.node_copy(n) if number == 0 else made.placeholder(n.name)
    for n in graph.nodes:
        if n in stages and stages[n] == number and n.op not in ("placeholder", "output"):
            copies[n] = made.node_copy(n, lambda x: copies[x])
    if number == count - 1:
        output = next(n for n in graph.nodes if n.op == "output")
        made.output(fx.map_arg(output.args[0], lambda x: copies[x]))
    else:
        made.output(tuple(copies[n] for n in crossing(number + 1)))
    return made


class Pipe(nn.Module):
    """A model that is cut into stages, each a module whose parameters have the model's names."""

    def __init__(self, module, graph):
        super().__init__()
        stages, count = _stages_of(graph)
        _check_shared(module, graph, stages)
        self.num_stages, self.has_loss_and_backward, self._graph = count, False, graph
        self.split_gm = nn.Module()
        for k in range(count):
            made = fx.GraphModule(module, _stage_graph(graph, stages, k, count), class_name=f"Stage{k}")
            made.train(module.training)
            self.split_gm.add_module(f"submod_{k}", made)

    def forward(self, *args, **kwargs):
        values = self.get_stage_module(0)(*args, **kwargs)
        for k in range(1, self.num_stages):
            values = self.get_stage_module(k)(*(values if isinstance(values, tuple) else (values,)))
        return values if isinstance(values, tuple) else (values,)

    def get_stage_module(self, stage_idx):
        """Returns the module of a stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"submod_{stage_idx}")

    def info(self):
        """Returns the number of stages, and the graph."""
        return PipeInfo(self._graph, self.num_stages, self.has_loss_and_backward)

    def build_stage(self, stage_index, device, group=None):
        """Returns a PipelineStage of a stage's module."""
        return build_stage(self.get_stage_module(stage_index).to(device), stage_index, self.info(), device, group)


def split_into_equal_size(nstages):
    """Returns a policy for pipeline(): stages with about as many parameters each."""
    def policy(traced):
        modules = dict(traced.named_modules())
        weights = {n: sum(p.numel() for p in modules[n.target].parameters()) if n.op == "call_module" else 0 for n in traced.graph.nodes}
        total, sum_, ends = sum(weights.values()), 0, 1
        for node in list(traced.graph.nodes):
            if node.op != "call_module":
                continue
            if ends < nstages and sum_ and sum_ + weights[node] / 2 >= total * ends / nstages:
                with traced.graph.inserting_before(node):
                    traced.graph.call_function(pipe_split)
                ends += 1
            sum_ += weights[node]
        return traced
    return policy


def _check_sent(pipe, args, kwargs):
    """Refuses stages that would send what is no tensor.  Copies of the stages run: the model's buffers stay as they are."""
    values, kwargs = tree_map(lambda x: x.clone() if isinstance(x, cresset.Tensor) else x, (tuple(args), kwargs or {}))
    with cresset.no_grad():
        for k in range(pipe.num_stages - 1):
            values = copy.deepcopy(pipe.get_stage_module(k))(*values, **(kwargs if k == 0 else {}))
            wrong = [type(x).__name__ for x in values if not isinstance(x, cresset.Tensor)]
            if wrong:
                raise TypeError(f"stage {k} would send {', '.join(wrong)} to stage {k + 1}; stages send tensors")


def _fix_defaults(graph, args, kwargs):
    """A default that is a tensor is a constant of the stages, unless the call gives the argument: source text has no name for it."""
    for k, node in enumerate([n for n in graph.nodes if n.op == "placeholder"]):
        if not node.args or not isinstance(node.args[0], fx.Node):
            continue
        default, node.args = node.args[0], ()
        if k >= len(args) and node.target not in (kwargs or {}):
            node.replace_all_uses_with(default)
            graph.erase_node(node)
        elif not default.users:
            graph.erase_node(default)


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Cuts a model: where it calls pipe_split(), at the submodules of `split_spec` {name: SplitPoint}, or by a function of the traced
    model that adds calls of pipe_split.  The arguments are those of one part of a batch: copies of the stages run with them once.  Neither
    the model nor the generators of random numbers change."""
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    spec = dict(split_spec or {})
    with cresset.random.fork_rng():
        tracer = _Tracer(spec)
        graph = tracer.trace(module)
        _fix_defaults(graph, mb_args, mb_kwargs)
        missing = [name for name in spec if name not in tracer.met]
        if missing:
            raise ValueError(f"split_spec names {missing}, which the model does not call")
        if split_policy is not None:
            graph = split_policy(fx.GraphModule(module, graph)).graph
        made = Pipe(module, graph)
        _check_sent(made, mb_args, mb_kwargs)
    return made
