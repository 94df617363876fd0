"""Where Python code finds the operators of the table.

`ops.<name>` is the table's entry of that (ATen) name, callable with ATen's arguments.
"""
from . import _C

ops = _C.ops


def bind(namespace, names):
    """Puts the operators `names` into `namespace`; one the table lacks stays undefined."""
    for name in names.split():
        function = getattr(ops, name, None)
        if function is not None:
            namespace[name] = function
