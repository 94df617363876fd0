"""Streams and events of CUDA devices."""
from . import Event, ExternalStream, Stream
