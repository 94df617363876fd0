"""Tensors in several processes, of which each has some boxes."""
