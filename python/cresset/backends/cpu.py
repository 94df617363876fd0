"""The processor."""
