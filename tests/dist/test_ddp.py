"""DistributedDataParallel: losses of one process, arguments, hooks, refusals, faults."""
import os
import signal

import pytest

import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("mpi", "gloo") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_ddp.py")


def passes(name, size, backend, killed=(), **env):
    result = ranks.run(HERE, name, size, backend, **env)
    assert not result.late and result.codes == [-signal.SIGKILL if r in killed else 0 for r in range(size)], result


@pytest.mark.parametrize("size, backend", [(4 if b == "mpi" else 2, b) for b in BACKENDS])
def test_losses_equal_those_of_one_process(size, backend):
    passes("equal_to_one_process", size, backend)


def test_arguments_and_methods():
    passes("arguments_and_methods", 2, BACKENDS[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_dies_in_backward_is_named(backend):
    passes("a_rank_dies_in_backward", 3, backend, killed=[1])


@pytest.mark.parametrize("count, sizes", [(8, (1, 2, 4)), (12, (1, 3))])
def test_the_number_of_ranks_does_not_change_bits(tmp_path, count, sizes):
    for size in sizes:
        passes("deterministic_ranks", size, BACKENDS[0], PARTS=str(count), BITS=str(tmp_path / "bits"))
    bits = [(tmp_path / f"bits.{size}").read_bytes() for size in sizes]
    assert len(bits[0]) > 20000 and all(b == bits[0] for b in bits)
