"""Hooks, data loading and other helpers."""


def __getattr__(name):
    if name in ("data", "checkpoint", "dlpack", "flop_counter", "hooks", "_pytree",
                "backend_registration"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    if name in ("load_backend", "rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"):
        from . import backend_registration
        return getattr(backend_registration, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
