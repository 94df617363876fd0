"""Agents: processes that start and watch the workers of a host."""
