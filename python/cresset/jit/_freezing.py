"""torch._C's name for freezing."""


def _freeze_module(module, preservedAttrs=(), freezeInterfaces=True, preserveParameters=False):
    """Returns a program's module in which attributes that nothing changes are constants."""
    from . import _frontend
    if preserveParameters:
        raise NotImplementedError("parameters of a module that is frozen are constants; preserveParameters is not implemented")
    with _frontend.attempt():
        return module.freeze(*preservedAttrs)
