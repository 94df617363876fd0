"""torch's functorch.experimental."""
from . import control_flow
