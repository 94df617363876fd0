"""torch's functorch package: compilers that receive forward and backward graphs."""
from . import compile
