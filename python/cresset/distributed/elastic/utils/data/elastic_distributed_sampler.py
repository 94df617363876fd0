"""ElasticDistributedSampler, by its own module."""
from . import ElasticDistributedSampler  # noqa: F401

__all__ = ["ElasticDistributedSampler"]
