"""Warnings about old rules, which this library never had; the switches store what programs set."""


class Warning:
    """A warning that can be switched on."""

    def __init__(self):
        self.enabled = False

    def set_enabled(self, value):
        """Stores the switch."""
        self.enabled = value

    def get_enabled(self):
        """The stored switch."""
        return self.enabled


broadcast_warning = Warning()
keepdim_warning = Warning()
