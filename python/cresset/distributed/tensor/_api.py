"""DTensor: a tensor whose parts are in several processes."""
import copy
import inspect
import warnings

import cresset

from ... import _C
from ...autograd import Function
from ...nn.parameter import Parameter
from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh, _mesh_resources
from ._dispatch import _synchronize, dispatch
from ._redistribute import redistribute_local
from ._dtensor_spec import DTensorSpec, TensorMeta, checked, row_major, strides_of_whole
from ._collective_utils import pad_tensor
from ._utils import compute_local_shape_and_global_offset
from .placement_types import Partial, Replicate, dim_of, steps

__all__ = ["DTensor", "distribute_tensor", "distribute_module", "ones", "empty", "full", "rand", "randn", "zeros"]


def _without_partial(placements):
    """Returns placements in which a cotangent of such a tensor is: partial tensors have whole cotangents."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


class _ToLocal(Function):
    """The local part; its cotangent is a part of the DTensor's."""

    @staticmethod
    def forward(ctx, x, grad_placements):
        ctx.spec, ctx.grad_placements = x._spec, grad_placements
        return x._local_tensor.view_as(x._local_tensor)

    @staticmethod
    def backward(ctx, grad):
        placements = ctx.grad_placements or _without_partial(ctx.spec.placements)
        return DTensor(grad, ctx.spec.placed(placements)), None


class _FromLocal(Function):
    """A DTensor of a local part; the part's cotangent is a part of the DTensor's."""

    @staticmethod
    def forward(ctx, local, spec, grad_placements):
        ctx.placements = grad_placements or _without_partial(spec.placements)
        return DTensor(local.detach(), spec)

    @staticmethod
    def backward(ctx, grad):
        if grad.placements != ctx.placements:
            grad = grad.redistribute(placements=ctx.placements)
        return grad.to_local(), None, None


class Redistribute(Function):
    """Other placements, in a dtype; the cotangent goes back to the old ones, and is sent in a dtype of its own."""

    @staticmethod
    def forward(ctx, x, device_mesh, placements, async_op=False, dtype=None, backward_dtype=None):
        ctx.placements, ctx.dtype, ctx.backward_dtype = _without_partial(x.placements), x.dtype, backward_dtype
        return _moved(x, placements, dtype)

    @staticmethod
    def backward(ctx, grad):
        moved = Redistribute.apply(grad, None, ctx.placements, False, ctx.backward_dtype or ctx.dtype, None)
        return moved.to(ctx.dtype), None, None, None, None, None


def _moved(x, placements, dtype=None):
    spec, local = x._spec.placed(placements), x._local_tensor
    if dtype is not None and dtype != local.dtype:
        local, meta = local.to(dtype), spec.tensor_meta
        spec = DTensorSpec(spec.mesh, spec.placements, TensorMeta(meta.shape, meta.stride, dtype))
    local = redistribute_local(local, x.shape, x.device_mesh, x.placements, placements)
    return DTensor(local.view_as(local) if local is x._local_tensor else local, spec.of_part(local))


class DTensor(_C.Tensor):
    """A tensor that is divided or repeated over the ranks of a mesh."""

    __torch_function__ = _C._disabled_torch_function_impl
    _copied_from = None  # of a view whose base had to be redistributed: the base's DTensorSpec

    @staticmethod
    def __new__(cls, local_tensor, spec, *, requires_grad=False):
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn("To construct DTensor from torch.Tensor, it's recommended to use local_tensor.detach() and make requires_grad "
                          "consistent.", stacklevel=2)
        made = _C.Tensor._make_wrapper_subclass(cls, spec.shape, strides=spec.tensor_meta.stride, dtype=local_tensor.dtype,
                                                device=local_tensor.device)
        made._local_tensor, made._spec = local_tensor.detach() if local_tensor.requires_grad else local_tensor, spec
        if requires_grad:
            made.requires_grad_()
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(DTensor, func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    def __tensor_flatten__(self):
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors, flatten_spec, outer_size=None, outer_stride=None):
        spec, requires_grad = flatten_spec
        return DTensor(inner_tensors["_local_tensor"], spec, requires_grad=requires_grad)

    def __reduce_ex__(self, proto):
        return _rebuild, (self._local_tensor, self._spec, self.requires_grad, isinstance(self, Parameter))

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.")
        if id(self) not in memo:
            made = DTensor(copy.deepcopy(self._local_tensor, memo), self._spec, requires_grad=False)
            made = Parameter(made, self.requires_grad) if isinstance(self, Parameter) else made.requires_grad_(self.requires_grad)
            memo[id(self)] = made
            if self.grad is not None:
                made.grad = copy.deepcopy(self.grad, memo)
            for name, value in self.__dict__.items():
                if name not in made.__dict__:
                    made.__dict__[name] = copy.deepcopy(value, memo)
        return memo[id(self)]

    @property
    def device_mesh(self):
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self):
        """The placements, one for each dimension of the mesh."""
        return self._spec.placements

    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None, grad_placements=None):
        """Returns a DTensor of the parts that the ranks give; parts have equal sizes unless shape and stride are given."""
        if not isinstance(local_tensor, cresset.Tensor) or isinstance(local_tensor, DTensor):
            raise RuntimeError(f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)} value.")
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        placements = checked(placements, mesh)
        if (shape is None) != (stride is None):
            raise RuntimeError(f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time.")
        ndim = local_tensor.dim() if shape is None else len(shape)
        for i, p in enumerate(placements):
            if dim_of(p) is not None and not -ndim <= p.dim < ndim:
                raise RuntimeError(f"Sharding dim {p.dim} greater than tensor ndim {ndim} for placement number {i}")
        placements = checked(placements, mesh, ndim)
        if len(placements) != mesh.ndim:
            raise ValueError("`placements` must have the same length as `device_mesh.ndim`! "
                             f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}.")
        if run_check and shape is None:
            local_tensor = _checked_parts(local_tensor, mesh, placements)
        sizes = list(local_tensor.shape if shape is None else shape)
        for i, p in enumerate(placements if shape is None else ()):
            if dim_of(p) is not None:
                sizes[p.dim] *= mesh.size(i)
        strides = strides_of_whole(local_tensor, mesh, placements) if stride is None else tuple(stride)
        spec = DTensorSpec(mesh, placements, TensorMeta(cresset.Size(sizes), strides, local_tensor.dtype))
        grads = checked(grad_placements, mesh, ndim) if grad_placements is not None else None
        if mesh.get_coordinate() is None:  # this rank has no part
            local_tensor = local_tensor.new_empty(0, requires_grad=local_tensor.requires_grad)
        return _FromLocal.apply(local_tensor, spec, grads)

    def to_local(self, *, grad_placements=None):
        """Returns this rank's part."""
        if not cresset.is_grad_enabled() or not self.requires_grad:
            return self._local_tensor
        grads = checked(grad_placements, self.device_mesh, self.dim()) if grad_placements is not None else None
        return _ToLocal.apply(self, grads)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None):
        """Returns the tensor with other placements.

        Parts are sent as forward_dtype, which the result has; cotangents as backward_dtype, and have the tensor's dtype after
        that.  The result is complete on return, also with async_op."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placements = checked(placements, self.device_mesh, self.dim())
        if len(placements) != self.device_mesh.ndim:
            raise ValueError("`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
                             f"{len(placements)}, and device_mesh.ndim: {self.device_mesh.ndim}.")
        for old, new in zip(self.placements, placements):
            if new.is_partial() and old != new:
                raise RuntimeError(f"Can not redistribute from {old} to {new}, redistributing to Partial is for internal use only!")
        return Redistribute.apply(self, device_mesh, placements, async_op, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements=None):
        """Returns the whole tensor."""
        whole = tuple(Replicate() for _ in self.placements)
        return self.redistribute(placements=whole).to_local(grad_placements=grad_placements)

    def _whole(self):
        """Returns the whole tensor, below autograd."""
        return redistribute_local(self._local_tensor, self.shape, self.device_mesh, self.placements,
                                  tuple(Replicate() for _ in self.placements))

    def tolist(self):
        return self.full_tensor().tolist()

    # --- checkpoints (checkpoint/planner_helpers.py) ---
    def _chunk(self):
        from ..checkpoint.metadata import ChunkStorageMetadata
        if any(isinstance(p, Partial) for p in self.placements):
            raise ValueError("Any checkpointing related operations are not supported for DTensor with partial placements!")
        sizes, offsets = compute_local_shape_and_global_offset(self.shape, self.device_mesh, self.placements)
        return ChunkStorageMetadata(cresset.Size(offsets), cresset.Size(sizes))

    def __create_write_items__(self, fqn, object):
        from ..checkpoint.metadata import TensorProperties
        from ..checkpoint.planner_helpers import _write_item_for_shard
        chunk = self._chunk()
        if self.device_mesh.get_coordinate() is None or (0 in chunk.sizes and self.numel()):
            return []
        return [_write_item_for_shard(fqn, chunk, self.size(), TensorProperties.create_from_tensor(self._local_tensor))]

    def __create_chunk_list__(self):
        chunk = self._chunk()
        return [] if 0 in chunk.sizes and self.numel() else [chunk]

    def __get_tensor_shard__(self, index):
        self._chunk()
        return self._local_tensor


def _rebuild(local, spec, requires_grad, is_param):
    made = DTensor(local, spec)
    return Parameter(made, requires_grad) if is_param else made.requires_grad_(requires_grad)


def _checked_parts(local, mesh, placements):
    """Checks that parts have one size, stride and dtype; repeated parts become those of the first rank."""
    facts = (tuple(local.shape), local.stride(), str(local.dtype), local.requires_grad)
    for i, p in enumerate(placements):
        group = mesh.get_group(i)
        found = [None] * mesh.size(i)
        dist.all_gather_object(found, facts, group)
        if any(f != facts for f in found):
            raise ValueError(f"Inconsistent tensor metadata (including shape and stride) across ranks. They are {found}.")
        if isinstance(p, Replicate):
            local = local.contiguous().clone()
            dist.broadcast(local, group=group, group_src=0)
    return local


def _scattered(x, mesh, i, placement, source):
    """Returns this rank's part of the tensor of the first rank along a dimension of the mesh."""
    ranks, rank, dim = mesh.size(i), mesh.get_coordinate()[i], placement.dim
    if source is None or ranks == 1:
        return placement._chunks(x, dim, ranks)[rank].contiguous()
    group = mesh.get_group(i)
    lengths = [placement._length(x.shape[dim], ranks, r) for r in range(ranks)]
    parts, length = None, max(lengths)
    mine = x.movedim(dim, 0).new_empty((length, *x.movedim(dim, 0).shape[1:]))
    if dist.get_rank(group) == source:
        parts = [pad_tensor(part.movedim(dim, 0), 0, length - part.shape[dim]).contiguous() for part in placement._chunks(x, dim, ranks)]
    dist.scatter(mine, parts, group=group, group_src=source)
    return mine[:lengths[rank]].movedim(0, dim).contiguous()


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Divides or repeats the tensor of the first rank over a mesh."""
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = checked(placements, mesh)
    if len(placements) != mesh.ndim:
        raise ValueError("`placements` must have the same length as `device_mesh.ndim`! "
                         f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}.")
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}.")
        if tensor.placements != placements:
            raise ValueError(f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {placements}. "
                             "do you want to call `redistribute` instead?")
        return tensor
    placements = checked(placements, mesh, tensor.dim())
    for i, p in enumerate(placements):
        if dim_of(p) is None and not isinstance(p, Replicate):
            raise RuntimeError(f"Trying to distribute tensor with unsupported placements {p} on device mesh dimension {i}!")
    local = tensor.detach()
    for i, p in steps(placements, mesh):
        local = _scattered(local, mesh, i, p, src_data_rank) if mesh.get_coordinate() else local
    for i, p in enumerate(placements):
        if isinstance(p, Replicate):
            if src_data_rank is not None and mesh.size(i) > 1 and mesh.get_coordinate() and local.device.type != "meta":
                local = local.contiguous().clone()
                dist.broadcast(local, group=mesh.get_group(i), group_src=src_data_rank)
    if local.data_ptr() == tensor.data_ptr():
        local = local.clone()
    spec = DTensorSpec(mesh, placements, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _shard_tensor(full_tensor, placements, device_mesh=None):
    """Returns a DTensor of a tensor that every rank has; nothing is sent."""
    return distribute_tensor(full_tensor, device_mesh, placements, src_data_rank=None)


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Makes the parameters of a module DTensors, and gives its forward hooks that convert inputs and outputs."""
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module should only be called once on a module, but it has already been called on this module!")
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    whole = [Replicate()] * mesh.ndim

    def replicate(m):
        for name, param in m._parameters.items():
            if param is not None and not isinstance(param, DTensor):
                m.register_parameter(name, Parameter(distribute_tensor(param.data, mesh, whole), param.requires_grad))
        for name, buffer in m._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                m._buffers[name] = distribute_tensor(buffer, mesh, whole)

    for name, sub in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, sub, mesh)
        replicate(sub)
    if input_fn is not None:
        _add_input_hook(module, mesh, input_fn)
    if output_fn is not None:
        _add_output_hook(module, mesh, output_fn)
    module._distribute_module_applied = True
    return module


def _add_input_hook(module, mesh, input_fn):
    count = len(inspect.signature(input_fn).parameters)
    if count == 2:
        warnings.warn("Deprecating input_fn that takes two arguments (inputs, device_mesh), please use input_fn that takes in "
                      "(module, inputs, device_mesh) instead!", FutureWarning, stacklevel=3)
        module.register_forward_pre_hook(lambda _, inputs: input_fn(inputs, mesh))
    elif count == 3:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    else:
        raise ValueError(f"input_fn should take in 3 arguments, but got {count} arguments!")


def _add_output_hook(module, mesh, output_fn):
    count = len(inspect.signature(output_fn).parameters)
    if count == 2:
        warnings.warn("Deprecating output_fn that takes two arguments (outputs, device_mesh), please use output_fn that takes in "
                      "(module, outputs, device_mesh) instead!", FutureWarning, stacklevel=3)
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(outputs, mesh))
    elif count == 3:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    else:
        raise ValueError(f"output_fn should take in 3 arguments, but got {count} arguments!")


# --- factories ---

def _made(make, size, device_mesh, placements, requires_grad, random=False, **options):
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    placements = checked(placements, mesh, len(size))
    if len(placements) != mesh.ndim:
        raise AssertionError("mesh dimension does not match the length of placements")
    if options.pop("layout", None) not in (None, cresset.strided):
        raise AssertionError("layout value not supported!")
    options.setdefault("device", mesh.device_type)
    if random:  # the numbers of one process
        _synchronize(mesh)
        whole = make(size, **options)
        local = redistribute_local(whole, size, mesh, tuple(Replicate() for _ in placements), placements)
    else:
        local = make(compute_local_shape_and_global_offset(size, mesh, placements, skip_offset=True)[0], **options)
    spec = DTensorSpec(mesh, placements, TensorMeta(cresset.Size(size), row_major(size), local.dtype))
    return DTensor(local, spec, requires_grad=requires_grad)


def ones(*size, dtype=None, layout=None, requires_grad=False, device_mesh=None, placements=None):
    """Returns a DTensor of ones."""
    return _made(cresset.ones, size, device_mesh, placements, requires_grad, dtype=dtype, layout=layout)


def empty(*size, dtype=None, layout=None, requires_grad=False, device_mesh=None, placements=None):
    """Returns a DTensor whose elements are not set."""
    return _made(cresset.empty, size, device_mesh, placements, requires_grad, dtype=dtype, layout=layout)


def full(size, fill_value, *, dtype=None, layout=None, requires_grad=False, device_mesh=None, placements=None):
    """Returns a DTensor of one number."""
    return _made(lambda n, **o: cresset.full(n, fill_value, **o), (size,), device_mesh, placements, requires_grad, dtype=dtype,
                 layout=layout)


def rand(*size, requires_grad=False, dtype=None, layout=None, device_mesh=None, placements=None):
    """Returns a DTensor of uniform random numbers."""
    return _made(cresset.rand, size, device_mesh, placements, requires_grad, True, dtype=dtype, layout=layout)


def randn(*size, requires_grad=False, dtype=None, layout=None, device_mesh=None, placements=None):
    """Returns a DTensor of normal random numbers."""
    return _made(cresset.randn, size, device_mesh, placements, requires_grad, True, dtype=dtype, layout=layout)


def zeros(*size, requires_grad=False, dtype=None, layout=None, device_mesh=None, placements=None):
    """Returns a DTensor of zeros."""
    return _made(cresset.zeros, size, device_mesh, placements, requires_grad, dtype=dtype, layout=layout)
