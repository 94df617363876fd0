"""Finds the operation whose gradient is NaN or whose backward fails."""
import warnings

from .. import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


def _set(enabled, check_nan):
    for name, place, given in ("enabled", 1, enabled), ("check_nan", 2, check_nan):
        if type(given) is not bool:
            raise TypeError(f"set_anomaly_enabled(): argument '{name}' (position {place}) must be bool, not "
                            f"{type(given).__name__}")
    _C._set_anomaly_enabled(enabled, check_nan)


class set_detect_anomaly:
    """Sets anomaly detection at once; as a context manager, restores it at the end."""

    def __init__(self, mode, check_nan=True):
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _set(mode, check_nan)

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        _C._set_anomaly_enabled(*self.before)


class detect_anomaly:
    """Inside, an error of backward includes the traceback of the recorded operation."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime "
                      "and should only be enabled for debugging.", stacklevel=2)

    def __enter__(self):
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _set(True, self.check_nan)

    def __exit__(self, *exc):
        _C._set_anomaly_enabled(*self.before)
