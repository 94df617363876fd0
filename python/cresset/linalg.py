"""Linear algebra: the entries whose names begin with linalg_."""
from . import _C
from ._C import _LinAlgError as LinAlgError

_PREFIX = "linalg_"
__all__ = ["LinAlgError"] + [n[len(_PREFIX):] for n in dir(_C.ops)
                             if n.startswith(_PREFIX) and not n.endswith("_")]
for _name in __all__[1:]:
    globals()[_name] = getattr(_C.ops, _PREFIX + _name)


def __getattr__(name):
    from ._absent_names import missing
    raise missing(__name__, name)
