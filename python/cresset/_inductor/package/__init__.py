"""Packages of compiled programs."""
from .package import AOTICompiledModel, load_package

__all__ = ["AOTICompiledModel", "load_package"]
