"""torch's functorch package: compilation to forward and backward graphs."""
from . import compile
