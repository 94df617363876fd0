"""Styles: how the parameters of a module are placed on a mesh of one dimension, and its inputs and outputs."""
from abc import ABC, abstractmethod

from types import MethodType

import cresset

from .... import nn
from ....autograd import Function
from ....nn import functional as F
from ....utils._python_dispatch import is_in_torch_dispatch_mode
from ..._functional_collectives import all_reduce
from .._api import DTensor, distribute_module, distribute_tensor
from ..placement_types import Replicate, Shard

__all__ = ["ParallelStyle", "RowwiseParallel", "SequenceParallel", "ColwiseParallel", "PrepareModuleInput", "PrepareModuleInputOutput",
           "PrepareModuleOutput"]


def _placed(x, mesh, layouts, desired):
    """Returns a DTensor of a tensor in `layouts`, redistributed to `desired`."""
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, layouts, run_check=False)
    return x.redistribute(placements=desired) if tuple(x.placements) != tuple(desired) else x


def _output(x, layouts, use_local):
    """Returns an output in `layouts`, or this rank's part of it."""
    x = x.redistribute(placements=layouts) if tuple(x.placements) != tuple(layouts) else x
    return x.to_local() if use_local else x


class _Repeated(Function):
    """A tensor that all ranks have; its cotangent is the sum of those of the ranks."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return _Summed.apply(grad, ctx.group), None


class _Summed(Function):
    """The sum of all ranks' tensors, whose cotangents are that of the sum."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return all_reduce(x, "sum", group)

    @staticmethod
    def backward(ctx, grad):
        return _Repeated.apply(grad, ctx.group), None


def _part(param):
    """Returns this rank's part of a parameter."""
    return param.to_local() if cresset.is_grad_enabled() and param.requires_grad else param._local_tensor


class ParallelStyle(ABC):
    """The base class; _apply(module, mesh) changes a module."""

    src_data_rank = 0

    @abstractmethod
    def _apply(self, module, device_mesh):
        ...

    def _place(self, module, name, mesh, placements):
        param = module._parameters.get(name)
        if param is not None:
            made = distribute_tensor(param.detach(), mesh, placements, src_data_rank=self.src_data_rank)
            module.register_parameter(name, nn.Parameter(made, param.requires_grad))


class _Products(ParallelStyle):
    """Linear and Embedding, whose weights are divided."""

    desired = None

    def __init__(self, input_layouts, output_layouts, use_local_output):
        self.input_layouts, self.output_layouts = (input_layouts,), (output_layouts,)
        self.use_local_output = use_local_output

    def _dims(self, module):
        """Returns the placements of weight and bias."""
        raise NotImplementedError

    def _desired(self, module):
        raise NotImplementedError

    def _partition(self, name, module, mesh):
        weight, bias = self._dims(module)
        self._place(module, "weight", mesh, weight)
        self._place(module, "bias", mesh, bias)

    def _inputs(self, module, inputs, mesh):
        if self._on_parts(module, inputs[0]):
            return inputs
        return self._to_dtensor(module, inputs, mesh)

    def _to_dtensor(self, module, inputs, mesh):
        return (_placed(inputs[0], mesh, self.input_layouts, self._desired(module)), *inputs[1:])

    def _outputs(self, module, outputs, mesh):
        return _output(outputs, self.output_layouts, self.use_local_output) if isinstance(outputs, DTensor) else outputs

    # layouts with which a Linear multiplies the parts of tensors, without DTensors
    plain_layouts = None

    def _on_parts(self, module, x):
        """Whether a Linear is called on a tensor that is this rank's part, returns a part, and no mode watches calls of DTensors."""
        return ("_on_parts" in module.__dict__ and type(x) is cresset.Tensor and isinstance(module.weight, DTensor) and
                module.weight._spec.placements == tuple(self._dims(module)[0]) and not is_in_torch_dispatch_mode())

    def _divides(self, module, mesh):
        """Whether the ranks have equal parts of a Linear's weight."""
        return isinstance(module, nn.Linear) and not any(module.weight.shape[p.dim] % mesh.size() for p in self._dims(module)[0])

    def _product(self, x, weight, bias, group):
        """Returns this rank's part of the product."""
        raise NotImplementedError

    def _apply(self, module, device_mesh):
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        plain = self.plain_layouts == (*self.input_layouts, *self.output_layouts) and self.use_local_output
        if plain and self._divides(module, device_mesh) and type(module).forward is nn.Linear.forward and "forward" not in module.__dict__ and \
                device_mesh.ndim == 1 and device_mesh.get_coordinate() is not None:
            group = device_mesh.get_group()

            def forward(linear, x):
                if isinstance(x, DTensor):
                    return nn.Linear.forward(linear, x)
                bias = linear.bias
                return self._product(x, _part(linear.weight), None if bias is None else _part(bias), group)
            module.__dict__["_on_parts"], module.__dict__["forward"] = True, MethodType(forward, module)
        return distribute_module(module, device_mesh, self._partition, self._inputs, self._outputs)

    def __repr__(self):
        return (f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
                f"use_local_output={self.use_local_output})")


class ColwiseParallel(_Products):
    """The columns of a product are divided: each rank computes a part of the output's last dim."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)
        self.desired_input_layouts = (Replicate(),)

    plain_layouts = Replicate(), Shard(-1)

    def _product(self, x, weight, bias, group):
        repeated = _Repeated.apply(x, group) if cresset.is_grad_enabled() and x.requires_grad else x
        return F.linear(repeated, weight, bias)

    def _dims(self, module):
        return ([Shard(0)], [Shard(0)]) if isinstance(module, nn.Linear) else ([Shard(1)], [Shard(1)])

    def _desired(self, module):
        return self.desired_input_layouts

    def _outputs(self, module, outputs, mesh):
        if not isinstance(outputs, DTensor):
            return outputs
        layouts = [Shard(p.dim + outputs.dim()) if isinstance(p, Shard) and p.dim < 0 else p for p in self.output_layouts]
        return _output(outputs, layouts, self.use_local_output)


class RowwiseParallel(_Products):
    """The rows of a product are divided: each rank computes a term of the output's sum."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _dims(self, module):
        return ([Shard(1)], [Replicate()]) if isinstance(module, nn.Linear) else ([Shard(0)], [Replicate()])

    plain_layouts = Shard(-1), Replicate()

    def _product(self, x, weight, bias, group):
        made = F.linear(x, weight)
        made = _Summed.apply(made, group) if made.requires_grad else all_reduce(made, "sum", group)
        return made if bias is None else made + bias

    def _to_dtensor(self, module, inputs, mesh):
        x = inputs[0]
        layouts = [Shard(p.dim + x.dim()) if isinstance(p, Shard) and p.dim < 0 else p for p in self.input_layouts]
        desired = (Shard(x.dim() - 1),) if isinstance(module, nn.Linear) else (Replicate(),)
        return (_placed(x, mesh, layouts, desired), *inputs[1:])


class SequenceParallel(ParallelStyle):
    """A module without products (norms, dropout) computes on a part of the sequence; its parameters are repeated."""

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _replicate(self, name, module, mesh):
        for p in list(module._parameters):
            param = module._parameters[p]
            if param is not None and not isinstance(param, DTensor):
                # every rank has made the same parameters
                made = DTensor.from_local(param.detach(), mesh, [Replicate()], run_check=False)
                module.register_parameter(p, nn.Parameter(made, param.requires_grad))

    def _inputs(self, module, inputs, mesh):
        x = inputs[0]
        if not isinstance(x, cresset.Tensor):
            raise ValueError(f"expecting input of {module} to be a torch.Tensor or DTensor, but got {x}")
        return (_placed(x, mesh, self.sequence_sharding, self.sequence_sharding), *inputs[1:])

    def _outputs(self, module, outputs, mesh):
        return outputs.to_local() if self.use_local_output else outputs

    def _apply(self, module, device_mesh):
        return distribute_module(module, device_mesh, self._replicate, self._inputs, self._outputs)

    def __repr__(self):
        return f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, use_local_output={self.use_local_output})"


def _several(x):
    return x if isinstance(x, tuple) or x is None else (x,)


class PrepareModuleInput(ParallelStyle):
    """Converts the inputs of a module to DTensors, and redistributes them."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None, desired_input_kwarg_layouts=None,
                 use_local_output=False):
        self.input_layouts, self.desired_input_layouts = _several(input_layouts), _several(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts, self.desired_input_kwarg_layouts = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _prepare(self, x, mesh, layout, desired):
        if layout is None:
            return x
        if not isinstance(x, cresset.Tensor):
            raise AssertionError("expecting input to be a torch.Tensor!")
        made = _placed(x, mesh, (layout,), (desired,) if desired is not None else (layout,))
        return made.to_local() if self.use_local_output else made

    def _prepare_input_fn(self, inputs, device_mesh):
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        return tuple(self._prepare(x, device_mesh, a, b)
                     for x, a, b in zip(inputs, self.input_layouts, self.desired_input_layouts))

    def _prepare_input_kwarg_fn(self, inputs, kwarg_inputs, device_mesh):
        made = {name: self._prepare(x, device_mesh, self.input_kwarg_layouts.get(name), self.desired_input_kwarg_layouts.get(name))
                for name, x in kwarg_inputs.items()}
        return self._prepare_input_fn(inputs, device_mesh), made

    def _apply(self, module, device_mesh):
        if self.with_kwargs:
            module.register_forward_pre_hook(lambda _, inputs, kwargs: self._prepare_input_kwarg_fn(inputs, kwargs, device_mesh),
                                             with_kwargs=True)
        else:
            module.register_forward_pre_hook(lambda _, inputs: self._prepare_input_fn(inputs, device_mesh))
        return module

    def __repr__(self):
        return (f"PrepareModuleInput(input_layouts={self.input_layouts}, desired_input_layouts={self.desired_input_layouts}, "
                f"input_kwarg_layouts={self.input_kwarg_layouts}, desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
                f"use_local_output={self.use_local_output})")


class PrepareModuleOutput(ParallelStyle):
    """Converts the outputs of a module to DTensors, and redistributes them."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self.output_layouts, self.desired_output_layouts = _several(output_layouts), _several(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _prepare_out_fn(self, outputs, device_mesh):
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(several) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        made = tuple(x if a is None else _output(_placed(x, device_mesh, (a,), (b,)), (b,), self.use_local_output)
                     for x, a, b in zip(several, self.output_layouts, self.desired_output_layouts))
        return made if isinstance(outputs, tuple) else made[0]

    def _apply(self, module, device_mesh):
        module.register_forward_hook(lambda _, inputs, outputs: self._prepare_out_fn(outputs, device_mesh))
        return module

    def __repr__(self):
        return (f"PrepareModuleOutput(output_layouts={self.output_layouts}, desired_output_layouts={self.desired_output_layouts}, "
                f"use_local_output={self.use_local_output})")


class PrepareModuleInputOutput(ParallelStyle):
    """Both of them."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None, desired_input_kwarg_layouts=None,
                 use_local_input=False, output_layouts, desired_output_layouts, use_local_output=True):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts, input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input)
        self.prepare_module_output = PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
                                                         use_local_output=use_local_output)

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self):
        return (f"PrepareModuleInputOutput(prepare_module_input={self.prepare_module_input}, "
                f"prepare_module_output={self.prepare_module_output})")
