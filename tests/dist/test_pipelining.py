"""Pipelines: schedules as lists that are checked; in several processes the losses of one process, cut models, refusals."""
import os
from collections import Counter

import pytest

import cresset.distributed as dist
import ranks
from cresset import tensor
from cresset.distributed.pipelining._actions import (Kind, check, fifo_order, interleaved_order, one_f_one_b_order, stage_ranks, v_order)
from cresset.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks

BACKENDS = [b for b in ("gloo", "mpi") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_pipelining.py")


def passes(name, size, **env):
    result = ranks.run(HERE, name, size, BACKENDS[0], **env)
    assert not result.late and result.codes == [0] * size, result


@pytest.mark.skipif("not BACKENDS")
@pytest.mark.parametrize("names", ["1F1B ZBVZeroBubble"] + [pytest.param(names, marks=pytest.mark.full) for names in (
    "GPipe 1F1B LoopedBFS", "Interleaved1F1B InterleavedZeroBubble", "ZBVZeroBubble DualPipeV")])
def test_every_schedule_has_the_losses_of_one_process(names):
    passes("schedules", 4, RANKS_SCHEDULES=names)


@pytest.mark.skipif("not BACKENDS")
@ranks.forms()
def test_stages_that_are_data_parallel(short):
    passes("with_data_parallel", 4, RANKS_SHORT=short)


@pytest.mark.skipif("not BACKENDS")
@pytest.mark.parametrize("name", ["cut", "lists", "late_weights"])
def test_two_stages(name, tmp_path):
    passes(name, 2, RANKS_FOLDER=str(tmp_path))


def _most_kept(actions):
    """The most forwards whose backward, both halves of it, is still to come."""
    kept = most = 0
    for a in actions:
        kept += {Kind.FORWARD: 1, Kind.FULL_BACKWARD: -1, Kind.BACKWARD_WEIGHT: -1}.get(a.computation_type, 0)
        most = max(most, kept)
    return most


def test_lists_have_no_cycle_and_keep_few_parts():
    for size in range(1, 7):
        for count in range(1, 14):
            orders = [fifo_order(size, local, count) for local in (1, 2, 3)] + [v_order(size, count, halves) for halves in (False, True)]
            if count >= size:
                orders.append(one_f_one_b_order(size, count))
                assert all(_most_kept(own) <= size - r for r, own in orders[-1].items())
            if count % max(1, count // size) == 0:
                orders += [interleaved_order(size, local, count, halves) for local in (1, 2, 3) for halves in (False, True)]
            for order in orders:
                stages = 1 + max(a.stage_index for own in order.values() for a in own)
                where = check(order, size, stages, count)
                assert where == stage_ranks(size, stages, "v" if any(where[s] != s % size for s in where) else "loop")
                kinds = Counter(a.computation_type for own in order.values() for a in own)
                assert kinds[Kind.FORWARD] == stages * count
            assert all(_most_kept(own) <= 2 * size for halves in (False, True) for own in v_order(size, count, halves).values())


def test_known_lists():
    text = {r: " ".join(map(str, own)) for r, own in one_f_one_b_order(2, 3).items()}
    assert text == {0: "0F0 0F1 0B0 0F2 0B1 0B2", 1: "1F0 1B0 1F1 1B1 1F2 1B2"}
    text = {r: " ".join(map(str, own)) for r, own in interleaved_order(2, 2, 2).items()}
    assert text == {0: "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1", 1: "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"}


def test_parts_of_a_batch():
    x, y = tensor([[1, 2], [3, 4], [5, 6]]), tensor([[1, 2, 3, 4]])
    args, kwargs = split_args_kwargs_into_chunks((x, 7), {"y": y}, 2, None, {"y": TensorChunkSpec(1)})
    assert [(a[0].tolist(), a[1]) for a in args] == [([[1, 2], [3, 4]], 7), ([[5, 6]], 7)]
    assert [k["y"].tolist() for k in kwargs] == [[[1, 2]], [[3, 4]]]
    assert merge_chunks([a[0] for a in args], None).tolist() == x.tolist()
    assert merge_chunks([k["y"] for k in kwargs], TensorChunkSpec(1)).tolist() == y.tolist()
    with pytest.raises(AssertionError, match="Tensor size 3 is smaller than num_chunks"):
        split_args_kwargs_into_chunks((x,), None, 4)
    with pytest.raises(ValueError, match="Unsupported chunk spec"):
        split_args_kwargs_into_chunks((3,), None, 2, (TensorChunkSpec(0),))


def test_lists_are_checked_under_the_names_of_torch():
    from cresset.distributed.pipelining.schedules import _Action, _ComputationType, _validate_schedule
    order = {0: [_Action(0, _ComputationType.FORWARD, 0), None, _Action.from_str("0B0")],
             1: [None, _Action.from_str("1F0"), _Action(1, _ComputationType.FULL_BACKWARD, 0)]}
    assert _validate_schedule(order, pp_group_size=2, num_stages=2, num_microbatches=1) == {0: 0, 1: 1}
    with pytest.raises(AssertionError, match="incorrect number of ranks - expected 3, actual 2"):
        _validate_schedule(order, 3, 3, 1)
