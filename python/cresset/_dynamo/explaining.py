"""explain(): reports how compile() records a function."""
from .capture import compile_function
from .reasons import guards


class GraphCompileReason:
    """Why a function is not one graph, and the line of its program that keeps it from being one."""

    def __init__(self, reason, user_stack, graph_break=True):
        self.reason, self.user_stack, self.graph_break = reason, user_stack, graph_break

    def __repr__(self):
        return f"GraphCompileReason(reason={self.reason!r}, user_stack={self.user_stack!r}, graph_break={self.graph_break})"


class ExplainOutput:
    """A report: graphs, operators, reasons why there is no graph, guards."""

    def __init__(self, graphs, break_reasons, ops_per_graph, out_guards):
        self.graphs, self.graph_count = graphs, max(len(graphs), len(break_reasons) + 1)
        self.break_reasons, self.graph_break_count = break_reasons, len(break_reasons)
        self.ops_per_graph, self.op_count = ops_per_graph, sum(map(len, ops_per_graph))
        self.out_guards = out_guards
        self.compile_times = None

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
                 f"Op Count: {self.op_count}", "Break Reasons:"]
        for i, reason in enumerate(self.break_reasons):
            lines += [f"  Break Reason {i + 1}:", f"    Reason: {reason.reason}", "    User Stack:",
                      *(f"      {frame}" for frame in reason.user_stack)]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph):
            lines += [f"  Ops {i + 1}:", *(f"    {op}" for op in ops)]
        if self.out_guards is not None:
            lines.append("Out Guards:")
            for i, guard in enumerate(self.out_guards):
                lines += [f"  Guard {i + 1}:", f"    {guard}"]
        return "\n".join(lines) + "\n"

    __repr__ = __str__


def _flush_reason(calls, why, place):
    text = f"{calls} calls run, because a value is needed: {why}"
    return GraphCompileReason(text if place is None else f"{text}\n    at {place}", [] if place is None else [place.frame])


def _reasons(compiler):
    if compiler.refusal is None:
        return []
    if compiler.place is None:
        return [GraphCompileReason(compiler.refusal, [])]
    return [GraphCompileReason(f"{compiler.refusal}\n    at {compiler.place}", [compiler.place.frame])]


def report(compiled):
    """Returns what compile() made of a function or module so far, as text: recordings with their
    guards, recompilations with the guard that failed and both values, why it runs eagerly, and times."""
    function = getattr(compiled, "_compiled_forward", compiled)
    compiler = getattr(function, "_compiler", None)
    if compiler is None:
        raise TypeError(f"report() takes a compiled function or module, not {type(compiled).__name__}")
    lines = [f"{compiler.name}: {_count(compiler.records, 'recording')}, "
             f"{_count(compiler.recompilations, 'recompilation')}, {compiler.seconds * 1e3:.1f} ms"]
    for i, (walk, entry) in enumerate(compiler.records):
        lines.append(f"  recording {i + 1}: operators {walk.operators}, calls {entry.calls}")
        lines += [f"    guard {text}" for text in guards(walk)]
    lines += [f"  recompiled because {why}" for why in compiler.recompilations]
    deferred, broken, *_ = function._measured()
    lines.append(f"  {_count(range(deferred), 'deferred call')}, {broken} of them with a flush inside")
    lines += [f"  deferred because {reason.reason}" for reason in _reasons(compiler)]
    lines += [f"  flush of {calls} calls for {why}, at {place}" for calls, why, place in compiler.flushes.values()]
    return "\n".join(lines) + "\n"


def _count(items, name):
    return f"{len(items)} {name}{'s' * (len(items) != 1)}"


def explain(f, *extra_args, **extra_kwargs):
    """explain(f)(*args) returns the ExplainOutput of this call of f: what makes deferred calls run in the middle of
    it, and the graph of a recording where one is possible.  It calls f two or three times."""
    def inner(*args, **kwargs):
        import warnings
        graphs = []

        def keep(module, example_inputs):
            graphs.append(module)
            return module.forward
        target = getattr(getattr(f, "_compiled_forward", f), "_torchdynamo_orig_callable", f)
        deferred = compile_function(target, None, "inductor", False, False)
        deferred._deferred(*args, **kwargs)
        compiled = compile_function(target, keep, "explain", False, False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):  # the first call may make state that later calls read
                compiled(*args, **kwargs)
                if graphs or compiled._off:
                    break
        compiler = compiled._compiler
        ops = [[node.target for node in module.graph.nodes if node.op == "call_function"] for module in graphs]
        texts = [text for walk, _ in compiler.records for text in guards(walk)]
        flushes = deferred._compiler.flushes  # a graph holds calls that need elements
        breaks = [_flush_reason(*flush) for (_, _, by_call), flush in flushes.items() if not by_call]
        return ExplainOutput(graphs, breaks, ops, texts)
    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
