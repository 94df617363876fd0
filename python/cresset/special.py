"""Special functions: the entries, and further names of entries, that begin with special_."""
from . import _C

_PREFIX = "special_"
__all__ = sorted(n[len(_PREFIX):] for n in dir(_C.ops) if n.startswith(_PREFIX) and not n.endswith("_"))
for _name in __all__:
    globals()[_name] = getattr(_C.ops, _PREFIX + _name)
