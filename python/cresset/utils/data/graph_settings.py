"""Settings of all stages of a graph: order, seeds, shares."""
import warnings

from ... import _C
from .datapipes.iter.sharding import SHARDING_PRIORITIES
from .graph import traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
           "get_all_graph_pipes"]


def get_all_graph_pipes(graph):
    """Returns all stages of a graph of traverse_dps, each once."""
    found = {}

    def collect(level):
        for key, (pipe, below) in level.items():
            if key not in found:
                found[key] = pipe
                collect(below)
    collect(graph)
    return list(found.values())


def _is_sharding(pipe):
    return callable(getattr(type(pipe), "apply_sharding", None)) or "apply_sharding" in vars(pipe)


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Sets the share of every sharding stage; one of them may read another only at other levels."""
    def visit(graph, before):
        for pipe, below in graph.values():
            here = before
            if _is_sharding(pipe):
                if before is not None:
                    raise RuntimeError("Sharding twice on a single pipeline is likely unintended and will cause data "
                                       f"loss. Sharding already applied to {before} while trying to apply to {pipe}")
                pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
                here = pipe
            visit(below, here)
    visit(traverse_dps(datapipe), None)
    return datapipe


def _shufflers(datapipe):
    return [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if callable(getattr(
        type(pipe), "set_shuffle", None))]


def apply_shuffle_settings(datapipe, shuffle=None):
    """Switches the change of order of all shuffling stages; adds one when there is none."""
    if shuffle is None:
        return datapipe
    shufflers = _shufflers(datapipe)
    if not shufflers and shuffle:
        warnings.warn("`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. "
                      "Be aware that the default buffer size might not be sufficient for your task.", stacklevel=2)
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe, rng):
    """Seeds all stages with set_seed from a generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if callable(getattr(type(pipe), "set_seed", None)):
            pipe.set_seed(int(_C.empty((), dtype=_C.int64).random_(generator=rng).item()))
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    warnings.warn("`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases.\nPlease "
                  "use `apply_random_seed` instead.", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)
