"""Calls between ranks as operators: values, derivatives, recorded programs, refusals."""
import os

import pytest

import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("mpi", "gloo") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_functional.py")


def passes(name, size, backend):
    result = ranks.run(HERE, name, size, backend)
    assert not result.late and result.codes == [0] * size, result


@pytest.mark.parametrize("size, backend", [(3, BACKENDS[0]), (2, BACKENDS[-1])])
@pytest.mark.parametrize("name", ["values_and_derivatives", "calls_in_compiled_functions", "groups_waits_and_errors"])
def test_operators(name, size, backend):
    passes(name, size, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["every_call_every_way", "calls_that_no_graph_has", "calls_that_other_ranks_make_otherwise",
                                  "calls_whose_results_nobody_reads", "results_that_are_read_behind_waits",
                                  "errors_in_compiled_functions"])
def test_ways(name, backend):
    passes(name, 2, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_failed_calls(backend):
    passes("calls_of_failed_functions", 3, backend)
