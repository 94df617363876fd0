"""Pipelines: schedules as lists that are checked; in several processes the losses of one process, cut models, refusals."""
import os
from collections import Counter

import pytest

import cresset as torch
import cresset.distributed as dist
import ranks
from cresset import tensor
from cresset import nn
from cresset.distributed import pipelining
from cresset.distributed.pipelining import schedules
from cresset.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight
from cresset.distributed.pipelining._actions import (Action, Kind, check, fifo_order, interleaved_order, one_f_one_b_order, stage_ranks, v_order)
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


def _actions(text):
    return [Action.from_str(word) if word != "-" else None for word in text.split()]


def _text(actions):
    return " ".join("-" if a is None else str(a) for a in actions)


def test_actions_have_texts():
    for text in "1F0 2I1 0W3 10B12 1UNSHARD 3RESHARD 2SEND_B2 1RECV_F1 0RECV_B0 4SEND_F9 2REDUCE_GRAD".split():
        assert str(Action.from_str(text)) == text
    assert Action.from_str("1UNSHARD") == (1, schedules.UNSHARD, None) and Action.from_str("  ") is None
    for text in ("1", "F0", "1X0", "1SEND0", "-1F0"):
        with pytest.raises(RuntimeError, match="Invalid action string"):
            Action.from_str(text)


def test_lists_get_what_is_around_computation():
    assert _text(schedules._add_unshard_reshard(_actions("0F0 1F0 - 2F0 0F1"), 2)) == \
        "0UNSHARD 1UNSHARD 0F0 0RESHARD 2UNSHARD 1F0 1RESHARD 0UNSHARD 2F0 2RESHARD 0F1 0RESHARD"
    assert _text(schedules._add_reduce_grad(_actions("0F0 0F1 0B0 - 0I1 0W1"), 2)) == "0F0 0F1 0B0 0I1 0W1 0REDUCE_GRAD"
    assert _text(schedules._merge_bw(_actions("0I0 - 0W0 0I1 1W0 0W1"))) == "0B0 0I1 1W0 0W1"
    made = schedules._add_send_recv({0: _actions("0F0 - 0B0 0B1"), 1: _actions("- 1F0 1I0 1W0 1B1")}, lambda s: s, 2)
    assert {r: _text(a) for r, a in made.items()} == {0: "0F0 0SEND_F0 0RECV_B0 0B0 0RECV_B1 0B1",
                                                     1: "1RECV_F0 1F0 1I0 1SEND_B0 1W0 1B1 1SEND_B1"}
    ran = schedules._simulate_comms_compute(made, lambda s: s, 2)
    assert {r: _text(a) for r, a in ran.items()} == {0: "0F0 0SEND_F0 - - 0RECV_B0 0B0 - 0RECV_B1 0B1",
                                                    1: "- 1RECV_F0 1F0 1I0 1SEND_B0 1W0 1B1 1SEND_B1"}
    own = schedules._add_send_recv({0: _actions("0F0 1F0 1B0 0B0")}, lambda s: 0, 2)
    assert _text(own[0]) == "0F0 1F0 1B0 0B0"
    with pytest.raises(AssertionError, match=r"Malformed compute schedule, can't schedule sends/recvs(.|\n)*rank=1 next action= 1F0"):
        schedules._add_send_recv({0: _actions("0B0"), 1: _actions("1F0")}, lambda s: s, 2)
    with pytest.raises(ValueError, match="Schedule is not progressing"):
        schedules._simulate_comms_compute({0: _actions("0F0"), 1: _actions("1F0")}, lambda s: s, 2)
    assert schedules._format_pipeline_order({0: _actions("0F0 0F1"), 1: _actions("- 1F0")}, 1) == \
        "        Rank 0 Rank 1\nStep 0: 0F0          \nStep 1: 0F1    1F0    <-- ERROR HERE\n"


def test_backward_of_a_stage_in_halves():
    torch.manual_seed(0)
    stage, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), torch.randn(5, 4, requires_grad=True)
    g = torch.randn(5, 2)
    whole = torch.autograd.grad(stage(x), [x, *stage.parameters()], g)
    made, groups = stage_backward_input([stage(x)], [g], [x, 3], stage.parameters())
    assert made[1] is None and all(p.grad is None for p in stage.parameters())
    torch.testing.assert_close([made[0], x.grad, *stage_backward_weight(stage.parameters(), groups)], [whole[0], *whole])
    x.grad, made = None, None
    for p in stage.parameters():
        p.grad = None
    made = stage_backward((stage(x), None), (g, None), [x])
    torch.testing.assert_close([made[0], *(p.grad for p in stage.parameters())], [*whole])
    with pytest.raises(AssertionError, match="len"):
        stage_backward((stage(x), stage(x)), (g,), [x])


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, scale=torch.full((4,), 3.0), dtype=torch.float32, most=float("inf")):
        return self.second((self.first(x) * scale).to(dtype).clamp(max=most))


def test_defaults_that_are_tensors_are_constants_of_the_stages():
    model, x, scale = Scaled(), torch.randn(2, 4), torch.randn(4)
    for args, kwargs in (((x,), {}), ((x, scale), {}), ((x,), {"scale": scale})):
        pipe = pipelining.pipeline(model, args, kwargs, split_spec={"second": pipelining.SplitPoint.BEGINNING})
        assert pipe.num_stages == 2 and torch.equal(pipe(*args, **kwargs)[0], model(*args, **kwargs))
