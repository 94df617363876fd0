"""torch._C's name for freezing."""


def _freeze_module(module, preservedAttrs=(), freezeInterfaces=True, preserveParameters=False):
    """Returns a program's module in which attributes that nothing changes are constants.

    Parameters and buffers stay with preserveParameters, and in a module that trains.
    """
    from . import _frontend
    with _frontend.attempt():
        return module.freeze(bool(preserveParameters), *preservedAttrs)
