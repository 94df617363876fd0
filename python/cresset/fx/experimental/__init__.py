"""Recording that looks below Python functions."""
