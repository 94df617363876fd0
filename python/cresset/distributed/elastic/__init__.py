"""Runs of several processes that are watched and restarted."""
