"""Makes modules without initializing their parameters."""


def skip_init(module_cls, *args, **kwargs):
    """Makes a module whose parameters are uninitialized memory on the given device."""
    import inspect
    from ..modules.module import Module
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
