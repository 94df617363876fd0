"""Recording of operators below Python functions, and symbolic sizes."""


def __getattr__(name):
    if name in ("proxy_tensor", "symbolic_shapes"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
