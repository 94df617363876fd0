"""Functions of graphs and derivatives."""
