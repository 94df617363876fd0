"""Modules in other processes (remote_module)."""
