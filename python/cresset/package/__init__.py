"""Importers of packaged code, and whether an object comes from a package.

Archives of packages are not in this build, so that every module comes from Python's own importer.
"""
import importlib
from abc import ABC, abstractmethod

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter", "is_from_package",
           "sys_importer"]


class ObjNotFoundError(Exception):
    """An importer does not find an object by its name."""


class ObjMismatchError(Exception):
    """An importer finds another object under an object's name."""


class Importer(ABC):
    """Finds modules by name, and names of objects."""

    @abstractmethod
    def import_module(self, module_name):
        """Returns a module."""

    def whichmodule(self, obj, name):
        """Returns the name of the module that has the object under `name`."""
        module = getattr(obj, "__module__", None)
        return module if module is not None else "__main__"

    def get_name(self, obj, name=None):
        """Returns (module, name) under which the importer finds this object."""
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        module_name = self.whichmodule(obj, name)
        try:
            found = self.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is obj:
            return module_name, name
        raise ObjMismatchError(f"The object provided has the name '{module_name}.{name}', but another object is "
                               "found there")


class _SysImporter(Importer):
    """Python's own importer."""

    def import_module(self, module_name):
        return importlib.import_module(module_name)


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Asks several importers, one after the other."""

    def __init__(self, *args):
        self._importers = list(args)

    def import_module(self, module_name):
        last = None
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(f"{importer} is not a Importer. All importers in OrderedImporter must inherit from "
                                "Importer.")
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
        raise last if last is not None else ModuleNotFoundError(module_name)


def is_from_package(obj):
    """Returns whether an object comes from a package: its module's name begins with <torch_package_."""
    name = getattr(obj, "__name__", None) if type(obj).__name__ == "module" else type(obj).__module__
    return bool(name) and name.startswith("<torch_package_")


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
