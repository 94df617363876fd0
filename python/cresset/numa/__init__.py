"""Binding of processes to the nodes of memory (NUMA)."""
