"""torch.ops.higher_order: operators that take graphs."""

__all__ = ["HigherOrderOperator", "find"]


class HigherOrderOperator:
    """An operator that takes graphs; a target in exported graphs."""

    guarded_by_identity = True

    def __init__(self, name, function):
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
    return tuple((true_graph if pred else false_graph)(*operands))


def _map(graph, mapped, operands):
    from .. import stack
    rows = [graph(*(x.select(0, i) for x in mapped), *operands) for i in range(len(mapped[0]))]
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


_OPERATORS = {name: HigherOrderOperator(name, function) for name, function in (
    ("cond", _cond), ("map_impl", _map), ("wrap_with_set_grad_enabled", _wrap_with_set_grad_enabled),
    ("wrap_with_autocast", _wrap_with_autocast),
    ("executorch_call_delegate", _call_delegate))}


def find(name):
    """The operator of this name, or None."""
    return _OPERATORS.get(name)
