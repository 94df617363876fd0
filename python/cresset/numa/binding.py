"""How the processes that a launcher starts are bound to processors, which are near the process's GPU or, without GPUs, of its turn's node
of memory."""
import enum
import logging
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from .. import cuda

__all__ = ["AffinityMode", "NumaOptions", "maybe_wrap_command_args_with_numa_binding"]

SYSTEM = "/sys"
logger = logging.getLogger(__name__)


class AffinityMode(str, enum.Enum):
    """The processors of one process: all of a node, all of a socket, a share of the node's cores, or cores with one cache."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """The processors of each process, and whether a failure is an error."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False


def _read(*path):
    with open(os.path.join(SYSTEM, *path)) as file:
        return file.read().strip()


def _numbers(text):
    """The numbers of "0-3,8"."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _of_processor(processor, *path):
    return _read("devices/system/cpu", f"cpu{processor}", *path)


def _nodes():
    """{node of memory: its processors on which this process may run}, without nodes that have none."""
    may = os.sched_getaffinity(0)
    found = {node: may.intersection(_numbers(_read("devices/system/node", f"node{node}", "cpulist")))
             for node in _numbers(_read("devices/system/node/online"))}
    return {node: processors for node, processors in found.items() if processors}


def _node_of_gpu(index, nodes):
    from ..cuda import get_device_properties
    gpu = get_device_properties(index)
    address = f"{gpu.pci_domain_id:04x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}.0"
    node = int(_read("bus/pci/devices", address, "numa_node"))
    return node if node in nodes else min(nodes)  # -1: the host has one node, or does not say


def _places(nodes, count):
    """The node of each process 0 to count - 1."""
    from .. import cuda
    gpus = cuda.device_count() if cuda.is_available() else 0
    return [_node_of_gpu(i, nodes) if i < gpus else sorted(nodes)[i % len(nodes)] for i in range(count)]


def _grouped(processors, key):
    """Lists of processors with one key, in the order of their least ones."""
    groups = {}
    for processor in sorted(processors):
        groups.setdefault(key(processor), []).append(processor)
    return list(groups.values())


def _core(processor):
    return _of_processor(processor, "topology/thread_siblings_list")


def _socket(processor):
    return _of_processor(processor, "topology/physical_package_id")


def _largest_cache(processor):
    folder = f"devices/system/cpu/cpu{processor}/cache"
    caches = [name for name in os.listdir(os.path.join(SYSTEM, folder)) if name.startswith("index")]
    level, name = max((int(_read(folder, name, "level")), name) for name in caches)
    return level, _read(folder, name, "shared_cpu_list")


def _share(processors, turn, of):
    """The processors of the turn-th of `of` processes: whole cores, of which the first processes have one more."""
    cores = _grouped(processors, _core)
    if len(cores) < of:
        raise RuntimeError(f"There are only {len(cores)} physical cores for {of} processes of one node")
    first, more = turn * (len(cores) // of) + min(turn, len(cores) % of), turn < len(cores) % of
    return [p for core in cores[first:first + len(cores) // of + more] for p in core]


def processors_of(mode, index, count):
    """The processors of process `index` of the `count` that a launcher starts on this host."""
    nodes = _nodes()
    places = _places(nodes, max(count, index + 1))
    mode, node = AffinityMode(mode), places[index]
    turn, of = places[:index].count(node), places.count(node)
    if mode is AffinityMode.NODE:
        return sorted(nodes[node])
    if mode is AffinityMode.EXCLUSIVE:
        return _share(nodes[node], turn, of)
    if mode is AffinityMode.CORE_COMPLEX:
        caches = sorted(_grouped(nodes[node], _largest_cache), key=len, reverse=True)
        return caches[turn % len(caches)]
    socket = _socket(min(nodes[node]))
    return sorted(p for processors in nodes.values() for p in processors if _socket(p) == socket)


def _chosen(options, index, count):
    """processors_of; None where there are no options, or after a failure that is no error."""
    if options is None:
        return None
    try:
        return processors_of(options.affinity_mode, index, count)
    except Exception:
        if not options.should_fall_back_if_binding_fails:
            raise
        logger.warning("process %d is not bound to processors", index, exc_info=True)
        return None


def _moved(options, index, threads, processors):
    """Binds threads, but those that have ended.  Returns False after a failure that is no error."""
    try:
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, processors)
        return True
    except OSError:
        if not options.should_fall_back_if_binding_fails:
            raise
        logger.warning("process %d is not bound to processors", index, exc_info=True)
        return False


@contextmanager
def bound(options, index, count):
    """The calling thread, and processes that it starts, run on the processors of a process that a launcher starts."""
    processors = _chosen(options, index, count)
    before = os.sched_getaffinity(0) if processors else None
    if not processors or not _moved(options, index, [0], processors):
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def bind(options, index, count):
    """This process's threads, and those that they start, run on these processors from now on."""
    processors = _chosen(options, index, count)
    if processors:
        _moved(options, index, map(int, os.listdir("/proc/self/task")), processors)


def maybe_wrap_command_args_with_numa_binding(command_args, *, gpu_index, numa_options):
    """A command that runs on the processors of the options; the same command without options."""
    processors = _chosen(numa_options, gpu_index, max(gpu_index + 1, cuda.device_count()))
    if not processors:
        return tuple(command_args)
    return ("taskset", "--cpu-list", ",".join(map(str, processors)), *command_args)
