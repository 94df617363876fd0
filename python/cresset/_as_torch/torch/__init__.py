"""Cresset as torch.  A folder that holds this one, on sys.path, makes `import torch` find it."""
import sys as _sys

_HOME = __file__.rpartition("_as_torch")[0].rstrip("/\\")


def _execute(scope):
    """Executes the package's __init__ as torch's, in `scope`."""
    from importlib.machinery import PathFinder, SourceFileLoader
    from os.path import exists, join
    found = PathFinder.find_spec("cresset")
    scope["__path__"] = found.submodule_search_locations if found else [_HOME]
    scope["__file__"] = join(scope["__path__"][0], "__init__.py")
    if not exists(scope["__file__"]):
        raise ImportError(f"cresset, which this torch leads to, is not in {_HOME} nor in sys.path",
                          name="cresset")
    scope["__spec__"].submodule_search_locations = scope["__path__"]
    exec(SourceFileLoader("torch", scope["__file__"]).get_code("torch"), scope)


if _sys.modules.get("cresset") in (None, _sys.modules[__name__]):
    _execute(globals())
else:  # cresset is imported under its own name: torch is another name of the same modules
    _sys.modules["cresset"]._root.add_alias("torch", "cresset")
