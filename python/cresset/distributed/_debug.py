"""The debug level of distributed runs (TORCH_DISTRIBUTED_DEBUG)."""
import enum
import os


class DebugLevel(enum.IntEnum):
    """How much is checked and told.  Calls of Gloo and MPI are compared between ranks at every level, those of NCCL with DETAIL,
    by groups that are made later: each call then waits for all ranks.  With DETAIL, calls of Gloo's groups are compared before
    they start, so a group stays usable after calls that differ."""
    OFF, INFO, DETAIL = range(3)


_level = DebugLevel.OFF


def get_debug_level():
    """Returns the level."""
    return _level


def set_debug_level(level):
    """Sets the level."""
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env():
    """Sets the level from the environment."""
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if text not in DebugLevel.__members__:
        raise ValueError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, not {text}")
    set_debug_level(DebugLevel[text])
