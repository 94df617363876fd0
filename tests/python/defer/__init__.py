"""Tests of deferred calls."""
