"""Streams and events of XPU devices."""
from . import Event, Stream
