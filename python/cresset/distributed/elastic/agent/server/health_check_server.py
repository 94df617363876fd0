"""A server that tells whether an agent lives: a class for programs to derive, as torch's does nothing either."""
import logging

__all__ = ["HealthCheckServer", "create_healthcheck_server"]

logger = logging.getLogger(__name__)


class HealthCheckServer:
    """alive_callback() returns the seconds since the epoch at which the agent was last seen."""

    def __init__(self, alive_callback, port, timeout):
        self._alive_callback, self._port, self._timeout = alive_callback, port, timeout

    def start(self):
        """Starts the server; this class has none."""
        logger.warning("No health check server started")

    def stop(self):
        """Stops the server."""
        logger.info("Stopping noop health check server.")


def create_healthcheck_server(alive_callback, port, timeout):
    """Returns a server."""
    return HealthCheckServer(alive_callback, port, timeout)
