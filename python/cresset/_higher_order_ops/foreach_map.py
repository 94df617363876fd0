"""A function of the items of lists."""

__all__ = ["foreach_map"]


def foreach_map(op, *operands, **kwargs):
    """Returns the tuple of op(a[0], b[0], ...), op(a[1], b[1], ...), ...; operands that are no lists are repeated.

    Example::

        >>> from cresset._higher_order_ops import foreach_map
        >>> foreach_map(torch.add, [torch.ones(1), torch.zeros(1)], 2)
        (tensor([3.]), tensor([2.]))
    """
    lists = [x for x in operands if isinstance(x, (list, tuple))]
    if not lists:
        raise RuntimeError("foreach_map() needs a list or tuple among its operands")
    size = max(len(x) for x in lists)
    return tuple(op(*(x[i] if isinstance(x, (list, tuple)) else x for x in operands), **kwargs) for i in range(size))
