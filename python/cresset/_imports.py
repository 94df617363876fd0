"""Modules of the package are imported as a whole: handlers of signals wait until an import has ended.

Most modules are imported when they are first used.  A handler that ran in the middle, and used the package, would find
modules of which only a part has been executed; an interrupt would leave such modules behind.
"""
import _signal  # the module signal takes longer to import
import sys
from _frozen_importlib_external import PathFinder, SourceFileLoader


def _runs_handlers():
    """Returns whether this is the main thread of the main interpreter: others run no handlers and may set none."""
    try:
        _signal.signal(_signal.SIGINT, None)
    except ValueError:
        return False
    except TypeError:  # None is no handler
        return True


class _Waiting:
    """While the outermost of the nested blocks runs in the main thread, signals are noted; then they are raised."""

    depth, before, arrived = 0, {}, []

    @classmethod
    def note(cls, number, frame):
        if number not in cls.arrived:
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
        except BaseException:  # of a handler that has not been replaced yet
            cls.__exit__()
            raise

    @classmethod
    def finish(cls):
        """Gives signals their handlers back and raises those that arrived, also where handlers raise meanwhile."""
        try:
            while cls.before:
                number, handler = next(iter(cls.before.items()))
                if _signal.getsignal(number) == cls.note:  # else the module has set another one
                    _signal.signal(number, handler)
                cls.before.pop(number, None)
            while cls.arrived:
                _signal.raise_signal(cls.arrived.pop(0))
        finally:
            if cls.before or cls.arrived:
                cls.finish()

    @classmethod
    def __exit__(cls, *error):
        cls.depth -= 1
        if not cls.depth:
            cls.finish()


class _WholeSource(SourceFileLoader):
    def exec_module(self, module):
        if not _runs_handlers():
            return super().exec_module(module)
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
