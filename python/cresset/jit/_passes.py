"""torch._C's names of passes.  A pass changes the graph that it gets, also as the function shows it later; calls of the
function run as before."""

_NAMES = {"_jit_pass_inline": "inline", "_jit_pass_cse": "common", "_jit_pass_dce": "dead", "_jit_pass_constant_propagation": "fold",
          "_jit_pass_constant_pooling": "pool", "_jit_pass_peephole": "peephole", "_jit_pass_peephole_list_idioms": "peephole",
          "_jit_pass_constant_loop_unrolling": "unroll", "_jit_pass_remove_mutation": "lists", "_jit_pass_remove_dropout": "dropouts",
          "_jit_pass_fold_frozen_conv_bn": "norms", "_jit_pass_fold_frozen_linear_bn": "norms",
          "_jit_pass_fold_frozen_conv_add_or_sub": "terms", "_jit_pass_fold_frozen_conv_mul_or_div": "terms"}


def _pass(name):
    def run(graph, *options, **named_options):
        graph._run(_NAMES[name])
    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Runs the pass `{_NAMES[name]}` of src/script/passes.def on a graph; options of torch's pass change nothing."
    return run


globals().update((name, _pass(name)) for name in _NAMES)


def _jit_pass_canonicalize(graph, keep_unique_names=True):
    """The graph with its values numbered in order, as graphs always are."""
    return graph.copy()


def _jit_pass_lint(graph):
    """Raises if the graph is not one."""
    graph.copy().block()
