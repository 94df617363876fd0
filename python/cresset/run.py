"""Runs programs that say `import torch`: `python -m cresset run`.

The package's name is then torch (_root.py).  Processes that the program starts find torch by
sys.path and PYTHONPATH, as they would find an installed one.
"""
import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

from . import _root

USAGE = """usage: python -m cresset run SCRIPT [ARGS...]         runs a program that imports torch
       python -m cresset run -m MODULE [ARGS...]      runs a module
       python -m cresset install-torch [--target DIR] makes an environment's torch this package
       python -m cresset cache [--clear]              tells, or empties, the folder of compiled kernels
       python -m cresset crc ...                      explains operators and runs passes of the compiler
       python -m cresset env                          lists the environment variables
       python -m cresset --help                       this, and the variables
"""


def _variables():
    """Returns a text about environment variables and the topics of CR_LOG."""
    from . import _C
    variables, topics = _C._environment_help()
    own = [line for line in variables.splitlines() if line.startswith("CR_") and "(tests)" not in line]
    return "environment variables:\n" + "".join(f"  {line}\n" for line in own) + \
        "\ntopics of CR_LOG:\n" + "".join(f"  {line}\n" for line in topics.splitlines())


def cache(arguments):
    """Prints the folder, the number and the size of compiled kernels; with --clear they are removed."""
    from . import _C
    if arguments not in ([], ["--clear"]):
        sys.stderr.write(USAGE)
        return 2
    files, size = _C._cache_measure(bool(arguments))
    what = "removed from" if arguments else "in"
    print(f"{files} {'file' if files == 1 else 'files'} of compiled kernels, {size / 1e6:.1f} MB, {what} {_C._cache_folder()}")
    return 0


def put_on_path():
    """Makes this process and those that it starts find torch, and this package."""
    folders = [_root.AS_TORCH, os.path.dirname(_root.HERE)]
    sys.path[1:1] = [folders[0]]
    sys.path += [folder for folder in folders[1:] if folder not in sys.path]
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*folders, *(path for path in inherited if path and path not in folders)])


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
    put_on_path()
    sys.argv = [script, *arguments]
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


def run_module(name, arguments):
    """Runs a module as `python -m name arguments...` does, with cresset as torch.

    Returns the exit status.  SystemExit passes through.
    """
    import runpy
    put_on_path()
    sys.argv = [name, *arguments]
    sys.path[0] = os.getcwd()
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit:
        raise
    except BaseException as error:
        _report(error)
        if isinstance(error, KeyboardInterrupt):
            _end_by_interrupt()
        return 1
    return 0


def main(arguments):
    """The command line.  Returns the exit status."""
    command, rest = arguments[:1], arguments[1:]
    if command == ["run"] and rest[:1] == ["-m"] and rest[1:]:
        return run_module(rest[1], rest[2:])
    if command == ["run"] and rest and rest != ["-m"]:
        return run_script(rest[0], rest[1:])
    if command == ["install-torch"]:
        from .install import main as install
        return install(rest)
    if command == ["cache"]:
        return cache(rest)
    if command == ["crc"]:
        return _crc(rest)
    if command == ["env"] and not rest:
        print(_variables(), end="")
        return 0
    if command not in (["-h"], ["--help"]):
        sys.stderr.write(USAGE)
        return 2
    print(f"{USAGE}\n{_variables()}", end="")
    return 0


def _crc(arguments):
    from . import _C
    sys.stdout.flush()
    return _C._crc(*arguments)


def cresset_command():
    """The command `cresset` of an installed package: the same as python -m cresset."""
    return main(sys.argv[1:])


def crc_command():
    """The command `crc` of an installed package."""
    return _crc(sys.argv[1:])
