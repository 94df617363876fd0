"""DTensor, tensor and sequence parallelism in several processes: values, derivatives, placements, refusals, losses."""
import os

import pytest

import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("gloo", "mpi") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_tensor.py")


def passes(name, size, backend=None, short=""):
    result = ranks.run(HERE, name, size, backend or BACKENDS[0], RANKS_SHORT=short)
    assert not result.late and result.codes == [0] * size, result


@pytest.mark.parametrize("size, backend", [(2, b) for b in BACKENDS] + [(3, BACKENDS[0])] if BACKENDS else [])
def test_redistributions(size, backend):
    passes("placements_of", size, backend)


@ranks.forms()
def test_meshes_of_two_dimensions(short):
    passes("two_dims", 4, short=short)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.full)])
def test_compiled_modules(size):
    passes("compiled", size)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.full)])
def test_divided_tables(size):
    passes("divided_tables", size)


def test_lookups_on_meshes_of_two_dimensions():
    passes("lookups_on_two_dims", 4)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.full)])
def test_derivatives(size):
    passes("gradients", size)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.full), 4])
@ranks.forms()
def test_clipped_gradients(size, short):
    passes("clipped_gradients", size, short=short)


@pytest.mark.parametrize("name", ["values", "refusals", "prepared_inputs", "small_dims", "written_views", "own_gradients", "loss_in_parts",
                                  "experimental", "lookups", "products_of_parts", "own_strategies", "parts_of_placements",
                                  "filled_from_whole_tensors"])
def test_interface(name):
    passes(name, 2)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.full)])
def test_parts_of_the_sequence(size):
    passes("contexts", size)


def test_layers_over_parts_of_the_sequence():
    passes("context_layers", 2)


@pytest.mark.parametrize("name", ["tensor_parallel", "sequence_parallel"])
@pytest.mark.parametrize("size, backend", [(2, b) for b in BACKENDS] +
                         [pytest.param(4, b, marks=pytest.mark.full) for b in BACKENDS[:1]])
@ranks.forms()
def test_losses_equal_those_of_one_process(name, size, backend, short):
    passes(name, size, backend, short)
