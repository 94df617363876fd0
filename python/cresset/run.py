"""Runs programs that say `import torch`.

`torch` and every `torch.x.y` become aliases of cresset's modules.  They are the same module
objects, so a class has one identity under both names.
"""
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType

_NAMES = {"torch": "cresset", "functorch": "cresset.functorch"}

USAGE = "usage: python -m cresset run SCRIPT [ARGS...]\n"


class _Alias:
    """Loads a module by adding another name to it."""

    def __init__(self, target):
        self.target = target

    def create_module(self, spec):
        from importlib import import_module
        module = import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec  # the import system has replaced it by the alias's


class _Finder:
    """Finds `torch.x.y` at `cresset.x.y`."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        root, dot, rest = fullname.partition(".")
        if root not in _NAMES:
            return None
        name = _NAMES[root] + dot + rest
        spec = find_spec(name)
        if spec is None:
            return None
        return ModuleSpec(fullname, _Alias(name), origin=spec.origin,
                          is_package=spec.submodule_search_locations is not None)


def install():
    """Makes `import torch` mean cresset from now on.  Further calls do nothing."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def _restore(text):
    install()
    return text


class _Argument(str):
    """The script's name in sys.argv.

    A process that multiprocessing spawns unpickles sys.argv before it imports the script;
    unpickling this class installs the alias there.
    """

    def __reduce__(self):
        return _restore, (str(self),)


def _make_main(path):
    """Makes a new __main__, as Python does for a script."""
    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    main.__builtins__ = sys.modules["builtins"]
    main.__annotations__ = {}
    main.__cached__ = None
    return main


def _report(error):
    """Prints an uncaught exception without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.excepthook(type(error), error, trace)


def _end_by_interrupt():
    """Ends the process by SIGINT, as Python does, so that a shell's loop also ends."""
    import signal
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def run_script(script, arguments):
    """Runs `script` as `python script arguments...` does, with cresset as torch.

    Returns the exit status.  SystemExit passes through.
    """
    path = os.path.abspath(script)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] "
              f"{error.strerror}", file=sys.stderr)
        return 2
    install()
    sys.argv = [_Argument(script), *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    main = sys.modules["__main__"] = _make_main(path)
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        _report(error)
        if isinstance(error, KeyboardInterrupt):
            _end_by_interrupt()
        return 1
    return 0


def main(arguments):
    """The command line: `run SCRIPT [ARGS...]`.  Returns the exit status."""
    if len(arguments) >= 2 and arguments[0] == "run":
        return run_script(arguments[1], arguments[2:])
    wants_help = arguments[:1] in (["-h"], ["--help"])
    (sys.stdout if wants_help else sys.stderr).write(USAGE)
    return 0 if wants_help else 2
