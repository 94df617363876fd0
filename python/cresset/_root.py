"""The package's root name, decided once: `torch`, or `cresset` beside a real torch.

Python finds the package under either name.  `torch/__init__.py` (the folder _as_torch, or what
`python -m cresset install-torch` wrote) sets its `__path__` to this folder and executes this
package's `__init__` as torch's.  `import cresset` takes the name torch itself if that file is what
`import torch` would find.  Modules are then found below the root by Python alone; the other
name's modules are aliases: the same objects.
"""
import sys
from _frozen_importlib_external import ExtensionFileLoader  # importing importlib.machinery loads more
from os.path import abspath, dirname, join

ModuleSpec = type(__spec__)  # importing importlib.machinery would take longer than this file
NAME = "cresset"  # or "torch"
HERE = dirname(abspath(__file__))
AS_TORCH = join(HERE, "_as_torch")  # a folder for sys.path, in which torch is this package


class _Alias:
    """Loads a module by giving a module of the root another name."""

    def __init__(self, target):
        self.target = target

    def create_module(self, spec):
        from importlib import import_module
        module = import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec  # the import system has replaced it by the alias's

    def get_code(self, fullname):
        """For `python -m`."""
        from importlib.util import find_spec
        return find_spec(self.target).loader.get_code(self.target)


class _AliasSpec(ModuleSpec):
    """An alias has its module's parent: functions of the module that run while it is named import relatively."""

    @property
    def parent(self):
        target = self.loader.target
        return target.rpartition(".")[0] if self.submodule_search_locations is None else target


class _Finder:
    """Finds `alias.x.y` at `target.x.y`."""

    aliases = {}

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        alias, dot, rest = fullname.partition(".")
        if alias not in cls.aliases or rest == "__main__":
            return None
        from importlib.util import find_spec
        name = cls.aliases[alias] + dot + rest
        spec = find_spec(name)
        if spec is None:
            return None
        return _AliasSpec(fullname, _Alias(name), origin=spec.origin,
                          is_package=spec.submodule_search_locations is not None)


def add_alias(alias, target):
    """Makes `import alias.x` mean `import target.x` from now on."""
    sys.modules[alias] = sys.modules[target]
    _Finder.aliases[alias] = target
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def is_as_torch(folder, name="torch"):
    """Whether a package of that name is the one of the folder _as_torch, which begins so."""
    mark = f'"""Cresset as {name}.'.encode()
    try:
        with open(join(folder, "__init__.py"), "rb") as file:
            return file.read(len(mark)) == mark
    except OSError:
        return False


def _is_torch_ours():
    """Whether `import torch` would find this package."""
    found = (finder.find_spec("torch", None) for finder in sys.meta_path
             if hasattr(finder, "find_spec"))
    spec = next(filter(None, found), None)
    return spec is not None and spec.origin is not None and is_as_torch(dirname(spec.origin))


def _is_run():
    """Whether this is `python -m cresset run`, which makes programs find torch here.

    Python imports the package of `-m` while sys.argv[0] is still "-m"; the words after the
    module's name follow it in sys.argv as they do in sys.orig_argv.
    """
    return (sys.argv[:2] == ["-m", "run"] and
            sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "cresset")


def _rename(module):
    """Gives the name torch to the package while it is being imported as cresset."""
    here = sys.modules.pop(__name__)
    spec = ModuleSpec("torch", module.__loader__, origin=module.__file__, is_package=True)
    spec.submodule_search_locations = module.__path__
    spec.has_location = True
    module.__name__ = module.__package__ = "torch"
    module.__spec__ = spec
    here.__name__, here.__package__ = "torch._root", "torch"
    here.__spec__.name = "torch._root"
    sys.modules["torch"], sys.modules["torch._root"] = module, here
    module._root = here


_create_module = ExtensionFileLoader.create_module


def _create_or_explain(loader, spec):
    """Loads an extension.  If it fails and is linked to torch's C++ library, the error says so."""
    try:
        return _create_module(loader, spec)
    except ImportError:
        from ._ops import refuse_torch_library
        try:
            refuse_torch_library(loader.path)
        except OSError:  # the file cannot be read
            pass
        raise


def settle(name):
    """Decides the root's name.  The first thing that the package's `__init__` does."""
    global NAME
    if name == "cresset":
        if "torch" in sys.modules or not (_is_run() or _is_torch_ours()):
            return
        _rename(sys.modules[name])
    NAME = "torch"
    add_alias("cresset", "torch")
    ExtensionFileLoader.create_module = _create_or_explain
