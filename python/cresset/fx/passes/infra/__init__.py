"""Passes as objects, running several of them, and choosing what a backend takes."""
