"""fully_shard in several processes: losses of one process, policies, memory, checkpoints, refusals."""
import os

import pytest

import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("gloo", "mpi") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_fsdp.py")


def passes(name, size, backend=None, **env):
    result = ranks.run(HERE, name, size, backend or BACKENDS[0], **env)
    assert not result.late and result.codes == [0] * size, result


@pytest.mark.parametrize("size, backend", [(2, b) for b in BACKENDS] + [(4, BACKENDS[0])] if BACKENDS else [])
def test_losses_equal_those_of_one_process(size, backend):
    passes("equal_to_one_process", size, backend)


def test_a_mesh_of_two_dimensions():
    passes("two_dims", 4)


@pytest.mark.parametrize("name", ["accumulated", "mixed_precision", "memory", "interface", "recomputed", "changed_weights",
                                  "without_gradient", "clipped"])
def test_behaviour(name):
    passes(name, 2)


def test_checkpoints(tmp_path):
    passes("checkpoints", 2, RANKS_FOLDER=str(tmp_path))
