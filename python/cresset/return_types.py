"""The named tuples that operators with several results return."""
from . import _C


def _all_names():
    return sorted({record["name"] for record in _C._records()
                   if _C._return_type(record["name"]) is not None})


def _all_return_types():
    return [_C._return_type(name) for name in _all_names()]


def __getattr__(name):
    value = _all_return_types() if name == "all_return_types" else _C._return_type(name)
    if value is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), "all_return_types", *_all_names()})
