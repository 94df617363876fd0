"""Context managers that switch recording; the types are in C."""
import functools
import inspect

from .._C import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled",
           "enforce_grad_layout_policy"]


class _Switch:
    """Stores a value at once and, as a context manager, the earlier one at the end."""

    value = True

    def __init__(self, mode):
        self.prev, type(self).value = type(self).value, bool(mode)

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        type(self).value = self.prev

    def clone(self):
        """A switch to the same value."""
        return type(self)(type(self).value)


class set_multithreading_enabled(_Switch):
    """Whether backward may use a thread for each device.  It uses the caller's; the value is stored."""


class enforce_grad_layout_policy(_Switch):
    """Whether accumulated gradients get the parameter's strides.  They do; the value is stored."""

    def __init__(self, enable=True):
        super().__init__(enable)


def _decorate_generator(switch, function):
    """Decorates a generator: the mode is set while the generator runs, not in its caller."""
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        generator = function(*args, **kwargs)
        try:
            with switch.clone():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with switch.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    with switch.clone():
                        response = generator.throw(error)
                else:
                    with switch.clone():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value
    return wrapper


def _decorate(switch, function):
    """Decorates a function: each call runs inside a new `switch`."""
    if inspect.isclass(function):
        import warnings
        warnings.warn("Decorating classes is deprecated and will be disabled in future versions. "
                      "You should only decorate functions or methods. To preserve the current behavior "
                      "of class decoration, you can directly decorate the `__init__` method and "
                      "nothing else.", FutureWarning,
                      stacklevel=3)
        function.__init__ = _decorate(switch, function.__init__)
        return function
    if inspect.isgeneratorfunction(function):
        return _decorate_generator(switch, function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with switch.clone():
            return function(*args, **kwargs)
    return wrapper
