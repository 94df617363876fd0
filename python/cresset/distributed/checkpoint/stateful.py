"""Objects that have a state of their own: modules, optimizers, and a program's classes."""
from typing import Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object whose state is saved instead of itself."""

    def state_dict(self):
        """Returns the state."""

    def load_state_dict(self, state_dict):
        """Takes a state."""
