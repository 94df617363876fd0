"""Averages of parameters over the ranks, now and then."""
