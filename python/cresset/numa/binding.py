"""How the processes that a launcher starts are bound to the processors of a node of memory."""
import enum
import os
from dataclasses import dataclass

__all__ = ["AffinityMode", "NumaOptions", "maybe_wrap_command_args_with_numa_binding"]

NODES = "/sys/devices/system/node"


class AffinityMode(str, enum.Enum):
    """The processors of one process."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """The processors of each process, and whether a failure is an error."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False


def _numbers(text):
    """The numbers of "0-3,8"."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def node_processors():
    """The processors of each node of memory."""
    with open(os.path.join(NODES, "online")) as file:
        nodes = list(_numbers(file.read()))
    found = []
    for node in nodes:
        with open(os.path.join(NODES, f"node{node}", "cpulist")) as file:
            found.append(sorted(_numbers(file.read())))
    return [processors for processors in found if processors]


def _chosen(mode, index):
    """The processors of the process with this index on its host."""
    nodes = node_processors()
    if mode in (AffinityMode.NODE, AffinityMode.SOCKET):
        return nodes[index % len(nodes)]
    raise NotImplementedError(f"AffinityMode.{mode.name} is not part of Cresset yet")


def maybe_wrap_command_args_with_numa_binding(command_args, *, gpu_index, numa_options):
    """A command that runs on the processors of the options; the same command without options."""
    if numa_options is None:
        return tuple(command_args)
    try:
        processors = _chosen(numa_options.affinity_mode, gpu_index)
        return ("taskset", "--cpu-list", ",".join(map(str, processors)), *command_args)
    except OSError:
        if numa_options.should_fall_back_if_binding_fails:
            return tuple(command_args)
        raise
