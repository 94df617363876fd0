"""Schedules: they divide a batch into parts, run a rank's list of actions (_actions.py), and join outputs and losses."""
import csv

import cresset

from ..fsdp import FSDPModule
from ._actions import (Action, Kind, check, fifo_order, interleaved_order, one_f_one_b_order, stage_ranks, table_of, v_order)
from ._lowering import add_reduce_grad, add_send_recv, add_unshard_reshard, check_messages, computations, merge_halves, simulate
from ._mail import Mail
from .microbatch import TensorChunkSpec, _split_tensor, merge_chunks, split_args_kwargs_into_chunks
from .stage import PipelineStage

__all__ = ["PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
           "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "get_schedule_class"]


class _PipelineSchedule:
    """The parts of a batch, and one rank's actions on them."""

    _style = "loop"  # of the places of stages

    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None,
                 scale_grads=True):
        self._stages, self._n_microbatches, self._loss_fn, self.scale_grads = stages, n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec, self._output_merge_spec = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        first = stages[0]
        self._num_stages, self.pp_group_size, self.rank = first.num_stages, first.group_size, first.group_rank
        self.stage_index_to_group_rank = stage_ranks(self.pp_group_size, self._num_stages, self._style)
        for stage in stages:
            stage.stage_index_to_group_rank = self.stage_index_to_group_rank
        self._has_backward = loss_fn is not None
        self.pipeline_order, self._whole_order, self._mail = {}, None, None
        order = self._order()
        if order is not None:
            self._prepare_schedule_with_comms(order)

    def _order(self):
        """Returns the lists of all ranks, or None if the program gives them."""
        return None

    def __str__(self):
        return table_of(self.pipeline_order)

    # --- lists ---
    def _prepare_schedule_with_comms(self, actions, format="compute_only"):
        """Takes the lists of all ranks, and checks them: computations alone, or ("compute_comms") all actions (_lowering.py)."""
        if format not in ("compute_only", "compute_comms"):
            raise NotImplementedError(f"{format=} is not implemented")
        for r, row in actions.items() if format == "compute_only" else ():
            for k, a in enumerate(row):
                if isinstance(a, Action) and not a.is_compute_op:
                    raise ValueError(f"Expected compute-only schedule but found communication action '{a}' at rank {r}, position {k}. "
                                     "Communication actions (e.g. SEND_F, RECV_F, etc.) should not be present when "
                                     "format='compute_only'.")
        order = actions if format == "compute_only" else {r: computations(row) for r, row in actions.items()}
        where = check(order, self.pp_group_size, self._num_stages, self._n_microbatches)
        if format == "compute_comms":
            check_messages(actions, where, self._num_stages)
        self._check_own(where)
        self.pipeline_order, self.stage_index_to_group_rank = order, where
        self._whole_order, self._mail = actions if format == "compute_comms" else None, None

    def _check_own(self, where):
        """Raises for lists that have this rank's stages elsewhere; a program's own classes of stages know their places themselves."""
        if not all(isinstance(stage, PipelineStage) for stage in self._stages):
            return
        own = {stage.stage_index for stage in self._stages}
        for s, r in where.items():
            if (r == self.rank) != (s in own):
                raise ValueError(f"the schedule has stage {s} at rank {r}, but rank {self.rank} has the stages {sorted(own)}")

    @property
    def pipeline_order_with_comms(self):
        """The lists with all actions: those that the program gave, or those that follow from the computations."""
        if self._whole_order is None and self.pipeline_order:
            added = {r: add_reduce_grad(add_unshard_reshard(row), self._n_microbatches) for r, row in self.pipeline_order.items()}
            return add_send_recv(added, self.stage_index_to_group_rank.__getitem__, self._num_stages)
        return self._whole_order or {}

    def _load_csv(self, filename, format="compute_only"):
        """Reads the lists of a file: a line for each rank."""
        with open(filename, newline="") as file:
            order = {r: [Action.from_str(text) for text in row] for r, row in enumerate(csv.reader(file))}
        self._prepare_schedule_with_comms(order, format)

    def _dump_csv(self, filename, format="compute_only"):
        """Writes them."""
        if format not in ("compute_only", "compute_comms"):
            raise NotImplementedError(f"{format=} is not implemented")
        order = self.pipeline_order if format == "compute_only" else self.pipeline_order_with_comms
        with open(filename, "w", newline="") as file:
            csv.writer(file).writerows(["" if a is None else str(a) for a in order[r]] for r in sorted(order))

    # --- steps ---
    def step(self, *args, target=None, losses=None, return_outputs=True, loss_kwargs=None, **kwargs):
        """Runs a batch, which is divided into parts: forward, and backward if there is a loss.  The rank of the first stage gives the
        inputs, that of the last stage the target; it returns the outputs, and `losses` gets the loss of each part."""
        if self._has_backward and not cresset.is_grad_enabled():
            raise RuntimeError("step() requires gradients to be enabled for backward computation; it should not be used under "
                               "torch.no_grad() context. Please call eval() instead.")
        count = self._n_microbatches
        arg_parts, kwarg_parts = split_args_kwargs_into_chunks(args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec)
        targets = list(_split_tensor(target, TensorChunkSpec(0), count)) if target is not None else None
        self._step_microbatches(arg_parts, kwarg_parts, targets, losses, return_outputs, loss_kwargs=loss_kwargs)
        last = next((stage for stage in self._stages if stage.is_last), None)
        if last is None or not return_outputs:
            return None
        return merge_chunks([last.output_chunks[m] for m in range(count)], self._output_merge_spec)

    def eval(self, *args, target=None, losses=None, **kwargs):
        """Runs a batch forward alone."""
        before, self._has_backward = self._has_backward, False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before

    def _check_inputs(self, arg_mbs, kwarg_mbs, target_mbs, losses):
        for parts, name in ((arg_mbs, "arg_mbs"), (kwarg_mbs, "kwarg_mbs"), (target_mbs, "target_mbs")):
            if parts is not None and not isinstance(parts, list):
                raise TypeError(f"{name} must be a list but got a {type(parts)}")
            if parts is not None and len(parts) != self._n_microbatches:
                raise ValueError(f"Expecting {self._n_microbatches} {name} but got {len(parts)}")
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        return arg_mbs or [()] * self._n_microbatches, kwarg_mbs or [{}] * self._n_microbatches

    def _step_microbatches(self, arg_mbs=None, kwarg_mbs=None, target_mbs=None, losses=None, return_outputs=True, loss_kwargs=None):
        if not self.pipeline_order:
            raise AssertionError("Must call _prepare_schedule_with_comms() before calling _step_microbatches()")
        if self._mail is None:
            first = self._stages[0]
            self._mail = Mail(first.group, first.device, self.pipeline_order, self.stage_index_to_group_rank, self.rank)
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        stages, mail = {stage.stage_index: stage for stage in self._stages}, self._mail
        for stage in self._stages:
            stage.clear_runtime_states()
            stage.has_backward = self._has_backward
        mail.begin(self._has_backward)
        found, actions, reduced = {}, [a for a in (self._whole_order or self.pipeline_order)[self.rank] if a is not None], set()
        final = {a.stage_index: k for k, a in enumerate(actions) if a.computation_type in (Kind.FULL_BACKWARD, Kind.BACKWARD_WEIGHT)}
        for k, action in enumerate(actions):
            stage, m = stages[action.stage_index], action.microbatch_index
            if not action.is_compute_op:
                self._beside(stage, action.computation_type, reduced)
            elif action.computation_type is Kind.FORWARD:
                self._forward(stage, m, arg_mbs[m], kwarg_mbs[m])
                if stage.is_last and self._loss_fn is not None and target_mbs is not None:
                    found[m] = self._loss_fn(stage.output_chunks[m], target_mbs[m], **(loss_kwargs or {}))
                if stage.is_last and not return_outputs and not self._has_backward:
                    del stage.output_chunks[m]
            elif self._has_backward:
                self._backward(stage, action, found.get(m), final[stage.stage_index] == k)
        mail.end()
        for stage in self._stages if self._has_backward else ():
            if stage not in reduced:
                stage.reduce_grads()
            stage.scale_grads(self._n_microbatches if self.scale_grads else 1)
        if losses is not None and any(stage.is_last for stage in self._stages):
            if len(found) != self._n_microbatches:
                raise RuntimeError(f"Expecting {self._n_microbatches} losses but got {len(found)}")
            losses[:] = [found[m] for m in range(self._n_microbatches)]

    def _beside(self, stage, kind, reduced):
        """Does an action that computes nothing.  Messages go when the tensors are there: their places in the list were checked."""
        if kind in (Kind.UNSHARD, Kind.RESHARD):
            for module in stage.submod.modules():
                if isinstance(module, FSDPModule):
                    module.unshard() if kind is Kind.UNSHARD else module.reshard()
        elif kind is Kind.REDUCE_GRAD and self._has_backward:  # fully_shard has reduced them in the last backward
            stage.reduce_grads()
            reduced.add(stage)

    def _forward(self, stage, m, args, kwargs):
        args = args if stage.is_first else self._mail.take(True, stage.stage_index, m)
        with cresset.set_grad_enabled(self._has_backward and cresset.is_grad_enabled()):
            outputs = stage.forward_one_chunk(m, args, kwargs)
        if not stage.is_last:
            self._mail.send(True, stage.stage_index + 1, m, outputs)

    def _backward(self, stage, action, loss, last):
        m, kind = action.microbatch_index, action.computation_type
        if kind is Kind.BACKWARD_WEIGHT:
            stage.backward_weight_one_chunk(m, last)
            return
        if stage.is_last and loss is None:
            raise RuntimeError(f"Loss for microbatch {m} is not available: the rank of the last stage gives no target")
        grads = () if stage.is_last else self._mail.take(False, stage.stage_index, m)
        if kind is Kind.FULL_BACKWARD:
            made = stage.backward_one_chunk(m, loss, grads, last)
        else:
            made = stage.backward_input_one_chunk(m, loss, grads)
        if not stage.is_first:
            self._mail.send(False, stage.stage_index - 1, m, made)


class PipelineScheduleSingle(_PipelineSchedule):
    """One stage a rank."""

    def __init__(self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None,
                 scale_grads=True):
        self._stage = stage
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)


class PipelineScheduleMulti(_PipelineSchedule):
    """Several stages a rank.  A program may give lists of its own by _prepare_schedule_with_comms() or _load_csv()."""

    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None,
                 use_full_backward=None, scale_grads=True, backward_requires_autograd=True, defer_pp_recv=False):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)


_PipelineScheduleRuntime = PipelineScheduleMulti


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards."""

    def _order(self):
        return fifo_order(self.pp_group_size, 1, self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """A forward and a backward in turn: a stage keeps as many parts as stages follow it, at most."""

    def _order(self):
        if self._n_microbatches < self._num_stages:
            raise ValueError(f"Number of microbatches ({self._n_microbatches}) must be greater than or equal to the number of stages "
                             f"({self._num_stages}).")
        return one_f_one_b_order(self.pp_group_size, self._n_microbatches)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All parts go through a rank's first stage, then through its second one; backward in reverse."""

    def _order(self):
        return fifo_order(self.pp_group_size, len(self._stages), self._n_microbatches)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages a rank: early parts first."""

    def _order(self):
        return interleaved_order(self.pp_group_size, len(self._stages), self._n_microbatches)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """The same with halves of backwards: gradients of parameters are computed where a rank would wait."""

    def _order(self):
        return interleaved_order(self.pp_group_size, len(self._stages), self._n_microbatches, True)


class _ScheduleV(PipelineScheduleMulti):
    _style, _name, _halves = "v", "", False

    def _order(self):
        if len(self._stages) != 2:
            raise ValueError(f"{self._name} requires exactly 2 stages per rank, but got {len(self._stages)}.")
        return v_order(self.pp_group_size, self._n_microbatches, self._halves)


class ScheduleZBVZeroBubble(_ScheduleV):
    """Two stages a rank, to and fro, with halves of backwards."""

    _name, _halves = "ZBV", True


class ScheduleDualPipeV(_ScheduleV):
    """Two stages a rank, to and fro; forwards and backwards of the two in turn."""

    _name = "DualPipeV"

    def _order(self):
        if self._n_microbatches < self._num_stages:
            raise ValueError(f"DualPipeV requires at least as many microbatches as stages, but got {self._n_microbatches} microbatches and "
                             f"{self._num_stages} stages.")
        return super()._order()


# --- torch's names ---

_Action, _ComputationType = Action, Kind
F = FORWARD = Kind.FORWARD
I = BACKWARD_INPUT = Kind.BACKWARD_INPUT  # noqa: E741
W = BACKWARD_WEIGHT = Kind.BACKWARD_WEIGHT
B = FULL_BACKWARD = Kind.FULL_BACKWARD
UNSHARD, RESHARD, REDUCE_GRAD = Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD
SEND_F, RECV_F, SEND_B, RECV_B = Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B
_add_unshard_reshard, _add_reduce_grad, _merge_bw = add_unshard_reshard, add_reduce_grad, merge_halves
_add_send_recv, _simulate_comms_compute = add_send_recv, simulate


def _validate_schedule(actions, pp_group_size, num_stages, num_microbatches):
    """Checks the lists of all ranks; returns {stage: rank}."""
    return check(actions, pp_group_size, num_stages, num_microbatches)


def _format_pipeline_order(pipeline_order, error_step_number=None):
    """Returns the lists as a text of columns."""
    return table_of(pipeline_order, error_step_number)


def get_schedule_class(schedule_name):
    """Returns the class of a name, in upper or lower case."""
    known = {"1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe, "LoopedBFS": ScheduleLoopedBFS,
             "InterleavedZeroBubble": ScheduleInterleavedZeroBubble, "PipelineScheduleSingle": PipelineScheduleSingle,
             "PipelineScheduleMulti": PipelineScheduleMulti, "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV}
    for name, kind in known.items():
        if name.lower() == schedule_name.lower():
            return kind
    raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(known)}")
