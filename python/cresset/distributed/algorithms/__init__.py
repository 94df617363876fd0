"""Algorithms over groups: uneven inputs, communication hooks."""
