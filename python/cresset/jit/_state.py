"""What TorchScript knows of the program's classes and functions."""
from . import _frontend


def _jit_clear_class_registry():
    """Forgets the functions and classes that were compiled: the next one of a name gets the name as it is."""
    _frontend.clear()


def _clear_class_state():
    """Forgets which classes were compiled: the next use of one compiles it anew."""
    _frontend._classes.clear()
    _frontend._complete.clear()


def _get_python_class(qualified_name):
    """The class of the program that has this name in TorchScript, or None."""
    return next((cls for cls, name in _frontend._classes.items() if name == qualified_name), None)
