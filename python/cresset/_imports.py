"""Modules of the package are imported as a whole: handlers of signals wait until an import has ended.

Most modules are imported when they are first used.  A handler that ran in the middle, and used the package, would find
modules of which only a part has been executed; an interrupt would leave such modules behind.
"""
import _signal  # the module signal takes longer to import
import sys
from _frozen_importlib_external import PathFinder, SourceFileLoader


class _Waiting:
    """While the outermost of the nested blocks runs in the main thread, signals are noted; then they are raised."""

    depth, before, arrived = 0, {}, []

    @classmethod
    def note(cls, number, frame):
        cls.arrived.append(number)

    @classmethod
    def __enter__(cls):
        cls.depth += 1
        if cls.depth > 1:
            return
        try:
            for number in _signal.valid_signals():
                handler = _signal.getsignal(number)
                if callable(handler) and handler != cls.note:
                    cls.before[number] = handler
                    _signal.signal(number, cls.note)
        except ValueError:  # another thread, or another interpreter, which runs no handlers
            cls.before.clear()

    @classmethod
    def restore(cls):
        """Gives signals their handlers back; what a handler raises meanwhile is returned."""
        raised = None
        while cls.before:
            try:
                number, handler = cls.before.popitem()
                if _signal.getsignal(number) == cls.note:  # else the module has set another one
                    _signal.signal(number, handler)
            except BaseException as error:
                raised = error
        return raised

    @classmethod
    def __exit__(cls, *error):
        cls.depth -= 1
        if cls.depth:
            return
        raised, arrived = cls.restore(), dict.fromkeys(cls.arrived)
        cls.arrived.clear()
        for number in arrived:
            _signal.raise_signal(number)
        if raised is not None:
            raise raised


class _WholeSource(SourceFileLoader):
    def exec_module(self, module):
        with _Waiting():
            super().exec_module(module)


class _Finder:
    """Finds modules below the package, whose source then runs as a whole."""

    prefix = None

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if not fullname.startswith(cls.prefix):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader.__class__ = _WholeSource
        return spec


def run_whole(package):
    """Modules of the package that are imported from now on run as a whole."""
    _Finder.prefix = package + "."
    sys.meta_path.insert(0, _Finder)
