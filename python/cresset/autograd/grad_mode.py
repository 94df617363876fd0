"""Context managers that switch recording; the types are in C."""
import functools
import inspect

from .._C import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode"]


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
                      "You should only decorate functions or methods.", FutureWarning,
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
