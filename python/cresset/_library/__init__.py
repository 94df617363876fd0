"""Operators that programs define: schemas, kernels, derivatives."""
