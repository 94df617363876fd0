"""Hooks, data loading and other helpers."""


def __getattr__(name):
    if name in ("data", "checkpoint", "dlpack", "hooks", "_pytree"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
