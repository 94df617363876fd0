"""torch.ops.higher_order: operators that take graphs."""
from .. import _C

__all__ = ["HigherOrderOperator", "find"]


class HigherOrderOperator:
    """An operator that takes graphs; a target in exported graphs."""

    guarded_by_identity = True

    def __init__(self, name, function, lists=0):
        self.lists = lists  # how many lists follow the graphs; others of its arguments are tuples
        self.__name__ = self.__qualname__ = self._name = name
        self.__module__ = "torch.ops.higher_order"
        self.namespace, self._function = "higher_order", function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def name(self):
        return self._name

    def __str__(self):
        return self._name

    __repr__ = __str__

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return find, (self._name,)


def _cond(pred, true_graph, false_graph, operands):
    return tuple((true_graph if _C._truth(pred) else false_graph)(*operands))


def _while_loop(cond_graph, body_graph, carried, additional):
    carried = tuple(carried)
    while _C._truth(cond_graph(*carried, *additional)):
        carried = tuple(body_graph(*carried, *additional))
    return carried


def _length(operator, xs):
    """The size along the first dim, which all tensors have."""
    if any(x.size(0) != xs[0].size(0) or not x.size(0) for x in xs):
        raise RuntimeError(f"torch.ops.higher_order.{operator}: the tensors must have one size along the first dim, which is not 0, but "
                           f"their sizes are {[x.shape for x in xs]}")
    return xs[0].size(0)


def _scan(graph, init, xs, additional):
    from .. import stack
    carry, rows = list(init), []
    for i in range(_length("scan", xs)):
        out = graph(*carry, *(x.select(0, i) for x in xs), *additional)
        carry = list(out[:len(init)])
        rows.append(out[len(init):])
    return (*carry, *map(stack, zip(*rows)))


def _associative_scan(graph, xs, additional):
    from .associative_scan import associative_scan
    return tuple(associative_scan(lambda a, b: list(graph(*a, *b, *additional)), list(xs), 0, combine_mode="generic"))


def associative_scan_by_rows(graph, xs, additional):
    """The same with a call of the graph for each pair of rows, for recordings, which have no batches of vmap."""
    from .. import stack
    from .associative_scan import associative_scan

    def combine(a, b):
        return [*map(stack, zip(*(graph(*(x.select(0, i) for x in (*a, *b)), *additional) for i in range(len(a[0])))))]
    return tuple(associative_scan(combine, list(xs), 0))


def _map(graph, mapped, operands):
    from .. import stack
    rows = [graph(*(x.select(0, i) for x in mapped), *operands) for i in range(_length("map_impl", mapped))]
    return tuple(map(stack, zip(*rows)))


def _wrap_with_set_grad_enabled(enabled, graph, *operands):
    from .. import set_grad_enabled
    with set_grad_enabled(enabled):
        return tuple(graph(*operands))


def _wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, *operands):
    from ..amp import autocast
    with autocast(device_type, dtype, enabled, cache_enabled):
        return tuple(graph(*operands))


def _call_delegate(lowered, *operands):
    return lowered(*operands)


_OPERATORS = {name: HigherOrderOperator(name, *rest) for name, *rest in (
    ("cond", _cond), ("while_loop", _while_loop), ("scan", _scan, 2), ("associative_scan", _associative_scan, 1),
    ("map_impl", _map, 2), ("wrap_with_set_grad_enabled", _wrap_with_set_grad_enabled),
    ("wrap_with_autocast", _wrap_with_autocast), ("executorch_call_delegate", _call_delegate))}


def find(name):
    """The operator of this name, or None."""
    return _OPERATORS.get(name)
