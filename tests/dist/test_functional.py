"""Calls between ranks as operators: values, derivatives, recorded programs, refusals."""
import os
import pickle

import pytest

import cresset
import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("mpi", "gloo") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_functional.py")


def passes(name, size, backend):
    result = ranks.run(HERE, name, size, backend)
    assert not result.late and result.codes == [0] * size, result


@pytest.mark.parametrize("size, backend", [(3, BACKENDS[0]), (2, BACKENDS[-1])])
@pytest.mark.parametrize("name", ["values_and_derivatives", "calls_in_compiled_functions", "groups_waits_and_errors",
                                  "operators_of_groups", "operators_of_given_tensors"])
def test_operators(name, size, backend):
    passes(name, size, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["every_call_every_way", "calls_that_no_graph_has", "calls_that_other_ranks_make_otherwise",
                                  "calls_whose_results_nobody_reads", "results_that_are_read_behind_waits",
                                  "errors_in_compiled_functions", "calls_that_modes_see"])
def test_ways(name, backend):
    passes(name, 2, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_failed_calls(backend):
    passes("calls_of_failed_functions", 3, backend)


def test_operators_of_groups_have_torchs_schemas():
    with open(os.path.join(os.path.dirname(HERE), "c10d_schemas.txt"), encoding="utf-8") as file:  # recorded with torch 2.13
        want = file.read().splitlines()
    names = [line.split("(")[0].removeprefix("c10d::") for line in want]
    found = [getattr(cresset.ops.c10d, name) for name in names]
    assert [str(packet.default._schema) for packet in found] == want and len(want) == 21
    assert set(names) <= set(dir(cresset.ops.c10d)) and all(pickle.loads(pickle.dumps(packet)) is packet for packet in found)
    types = [argument.type for argument in cresset.ops.c10d.reduce_scatter_.default._schema.arguments]
    assert types == ["List[Tensor]", "List[List[Tensor]]", "__torch__.torch.classes.c10d.ProcessGroup",
                     "__torch__.torch.classes.c10d.ReduceOp", "bool", "int"]
    with pytest.raises(AttributeError, match="'c10d' object has no attribute 'nothing'"):
        cresset.ops.c10d.nothing


def test_names_of_groups_are_looked_up_by_calls():
    import cresset.distributed._functional_collectives as functional
    x = cresset.rand(2, 3, device="meta")
    made = functional.all_reduce(x, "sum", "no group")
    assert made.device.type == "meta" and made.shape == (2, 3)
    for call in (lambda: functional.all_reduce(cresset.rand(2), "sum", "no group"),
                 lambda: functional.all_gather_tensor(cresset.rand(2), 0, "no group")):
        with pytest.raises(RuntimeError, match="Could not resolve the process group registered under the name no group"):
            call()
