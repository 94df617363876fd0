"""A stage: the layers of a model that one rank has, and what it keeps of each part of a batch between forward and backward."""
from contextlib import nullcontext

import cresset

from ... import autograd, nn
from .. import distributed_c10d as dist
from ..fsdp import FSDPModule

__all__ = ["PipelineStage", "build_stage"]


def _several(x):
    return None if x is None else tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _facts(x):
    return tuple(x.shape), x.dtype


class _PipelineStageBase:
    """The base of classes of stages; a class of a program may place its stages itself."""


class PipelineStage(_PipelineStageBase):
    """Layers, and their place in the pipeline.  Inputs and outputs of a stage that other stages send or get are tensors, one or a
    tuple; with `input_args` and `output_args` their sizes and dtypes are checked."""

    def __init__(self, submodule, stage_index, num_stages, device, input_args=None, output_args=None, output_grads=None,
                 input_grads=None, group=None, dw_builder=None):
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group, self.dw_builder = cresset.device(device), group, dw_builder
        self.group_rank, self.group_size = dist.get_rank(group), dist.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        self.stage_index_to_group_rank = {s: s % self.group_size for s in range(num_stages)}
        self.input_args, self.output_args = _several(input_args), _several(output_args)
        self.has_backward = False
        self.clear_runtime_states()

    @property
    def is_first(self):
        """Whether the program gives the inputs."""
        return self.stage_index == 0

    @property
    def is_last(self):
        """Whether the outputs are those of the model."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self):
        """Forgets the parts of a batch."""
        self.output_chunks = {}  # {part: what forward returned}
        self.kept = {}  # {part: (inputs, outputs)} until backward
        self.late = {}  # {part: what the second half of a backward needs}

    # --- forward ---
    def _checked(self, tensors, expected, name):
        if any(not isinstance(x, cresset.Tensor) for x in tensors):
            raise TypeError(f"stage {self.stage_index}: {name} must be a tensor or a tuple of tensors, got "
                            f"{[type(x).__name__ for x in tensors]}")
        if expected is not None and list(map(_facts, tensors)) != list(map(_facts, expected)):
            raise ValueError(f"stage {self.stage_index}: {name} have sizes and dtypes {list(map(_facts, tensors))}, expected "
                             f"{list(map(_facts, expected))}")
        return tensors

    def forward_one_chunk(self, chunk, args, kwargs=None, last=True):
        """Computes a part.  `args` are the program's at the first stage, and else tensors that another stage has sent."""
        inputs = args if self.is_first else self._checked(args, self.input_args, "inputs")
        with self._synchronized(last):
            made = self.submod(*inputs, **(kwargs or {}))
        outputs = self._checked(_several(made), self.output_args, "outputs") if not self.is_last else _several(made)
        if self.is_last:
            self.output_chunks[chunk] = made
        if self.has_backward:
            self.kept[chunk] = tuple(inputs), outputs
        return outputs

    def _synchronized(self, last):
        """Gradients are reduced over other dimensions of the ranks once a step: in its last backward, or after it (reduce_grads)."""
        if isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last)
        return self.submod.no_sync() if isinstance(self.submod, nn.parallel.DistributedDataParallel) else nullcontext()

    # --- backward ---
    def _roots(self, outputs, loss, grads):
        """Returns the tensors from which backward starts, and their gradients."""
        if self.is_last:
            return [loss], [None]
        pairs = [(x, g) for x, g in zip((x for x in outputs if x.requires_grad), grads)]
        return [x for x, _ in pairs], [g for _, g in pairs]

    def _wanted(self, inputs):
        return [] if self.is_first else [x for x in inputs if x.requires_grad]

    def backward_one_chunk(self, chunk, loss=None, grads=(), last=True):
        """Computes the gradients of parameters and inputs.  Returns those of the inputs."""
        inputs, outputs = self.kept.pop(chunk)
        roots, grads = self._roots(outputs, loss, grads)
        with self._synchronized(last):
            if roots:
                autograd.backward(roots, grads)
        if self.dw_builder is not None:  # the module leaves out its parameters until the runner is called
            self.dw_builder()()
        return self._gradients(inputs)

    def _gradients(self, inputs):
        return [x.grad if x.grad is not None else cresset.zeros_like(x) for x in self._wanted(inputs)]

    def backward_input_one_chunk(self, chunk, loss=None, grads=()):
        """Computes the gradients of the inputs alone, and returns them."""
        inputs, outputs = self.kept.pop(chunk)
        roots, grads = self._roots(outputs, loss, grads)
        if self.dw_builder is not None:  # the module leaves out its parameters until the runner is called
            autograd.backward(roots, grads)
            self.late[chunk] = self.dw_builder()
            return self._gradients(inputs)
        wanted = self._wanted(inputs)
        found = autograd.grad(roots, wanted, grads, retain_graph=True, allow_unused=True) if wanted and roots else []
        self.late[chunk] = roots, grads
        return [g if g is not None else cresset.zeros_like(x) for x, g in zip(wanted, found)]

    def backward_weight_one_chunk(self, chunk, last=True):
        """Computes the gradients of the parameters, after those of the inputs."""
        late = self.late.pop(chunk)
        if callable(late):
            late()
            return
        params = [p for p in self.submod.parameters() if p.requires_grad]
        with self._synchronized(last):
            if params and late[0]:
                autograd.backward(*late, inputs=params)

    def reduce_grads(self):
        """Averages the gradients of a DistributedDataParallel over its group."""
        if not isinstance(self.submod, nn.parallel.DistributedDataParallel):
            return
        kinds, group = {}, self.submod.process_group
        for p in self.submod.parameters():
            if p.grad is not None:
                kinds.setdefault(p.grad.dtype, []).append(p.grad)
        for grads in kinds.values():
            flat = cresset.cat([g.flatten() for g in grads])
            dist.all_reduce(flat, group=group)
            flat /= dist.get_world_size(group)
            for g, mean in zip(grads, flat.split([g.numel() for g in grads])):
                g.copy_(mean.view(g.shape))

    def scale_grads(self, grad_scale_factor):
        """Divides the gradients of the parameters."""
        if grad_scale_factor != 1:
            for p in self.submod.parameters():
                if p.grad is not None:
                    p.grad.div_(grad_scale_factor)


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """Returns the stage of a module that pipeline() has cut out."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)
