"""Writes which workers were late."""
import logging

__all__ = ["log_debug_info_for_expired_timers"]


def log_debug_info_for_expired_timers(run_id, expired_timers):
    """Logs the scopes of late workers, by process."""
    if expired_timers:
        logging.getLogger(__name__).info("late workers of the run %s: %s", run_id, expired_timers)
