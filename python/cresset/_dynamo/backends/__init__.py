"""Backends of compile(), in torch's modules."""
