"""Functions over graphs and derivatives."""
