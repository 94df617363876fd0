"""An optimizer whose states are divided among the ranks (ZeRO, stage 1)."""
import copy
import io
import logging

import cresset

from ...optim import Optimizer
from .. import distributed_c10d as dist
from ..algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]

logger = logging.getLogger(__name__)


def _broadcast_object(obj, src_rank, group=None, device="cpu"):
    """Sends an object of a rank to all; its tensors come to this device."""
    size, data = cresset.zeros(1, dtype=cresset.int64, device=device), None
    if dist.get_rank() == src_rank:
        file = io.BytesIO()
        cresset.save(obj, file)
        data = cresset.frombuffer(bytearray(file.getvalue()), dtype=cresset.uint8).to(device)
        size.fill_(data.numel())
    dist.broadcast(size, src=src_rank, group=group)
    if data is None:
        data = cresset.empty(int(size), dtype=cresset.uint8, device=device)
    dist.broadcast(data, src=src_rank, group=group)
    return obj if dist.get_rank() == src_rank else cresset.load(io.BytesIO(bytes(data.cpu().numpy())), map_location=device,
                                                                 weights_only=False)


def _checked(params):
    """Returns parameters, or groups of them, as a list; and all parameters."""
    if isinstance(params, cresset.Tensor):
        raise TypeError(f"`params` argument should be an iterable of Tensors, but got {cresset.typename(params)}")
    try:
        listed = list(params)
    except TypeError:
        raise TypeError(f"`params` argument should be an iterable of Tensors or dicts, but got {cresset.typename(params)}") from None
    if not listed:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if all(isinstance(p, dict) for p in listed):
        if any("params" not in group for group in listed):
            raise ValueError("Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in the "
                             "group")
        for group in listed:
            group["params"] = [group["params"]] if isinstance(group["params"], cresset.Tensor) else list(group["params"])
        every = [p for group in listed for p in group["params"]]
    elif all(isinstance(p, cresset.Tensor) for p in listed):
        every = list(listed)
    else:
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    kind = every[0].type() if every else ""
    for p in every:
        if p.is_sparse:
            raise ValueError(f"ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got {p.type()}")
        if p.type() != kind:
            raise ValueError("ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got both "
                             f"{kind} and {p.type()}")
    return listed, every


def _on_device(value, device):
    """Returns a copy of a state on a device; numbers in tensors without dims stay on the host."""
    if isinstance(value, cresset.Tensor):
        return value.detach().to(device if value.dim() else "cpu", copy=True)
    if isinstance(value, dict):
        return {key: _on_device(part, device) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_on_device(part, device) for part in value)
    return copy.deepcopy(value)


class _Hook(JoinHook):
    """What a rank without inputs does while others step."""

    def __init__(self, zero):
        self._zero = zero

    def main_hook(self):
        self._zero.step()


class _Overlap:
    """Steps during backward: a communication hook of DistributedDataParallel steps each bucket's parameters.

    The buckets are known when they have been made anew; the backward after that collects them (`buckets`), and steps begin
    with the next one (`ready`).
    """

    def __init__(self):
        self.divide_buckets, self.collecting, self.ready, self.buckets = False, False, False, []


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Each rank updates its share of the parameters and sends them to the others.

    With parameters_as_bucket_view the parameters of a rank's share are views of one tensor, which is sent as a whole.  With
    overlap_with_ddp the steps are those of hook_with_zero_step (algorithms.ddp_comm_hooks.ddp_zero_hook) alone.
    """

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
                 overlap_with_ddp=False, **defaults):
        params, self._all_params = _checked(params)
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self.process_group = dist._group_or_default_group(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.global_rank = dist.get_global_rank(self.process_group, self.rank)
        self.parameters_as_bucket_view, self._overlap_with_ddp = parameters_as_bucket_view, overlap_with_ddp
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._owner, self._loads, self._overlap = {}, [0] * self.world_size, _Overlap()
        if overlap_with_ddp:
            self._owner = dict.fromkeys(self._all_params)
            return
        self._deal(self._all_params)
        self._make_local_optimizer()

    def _make_local_optimizer(self):
        self.optim = self._optim_constructor([self._share(group) for group in self.param_groups], **self._optim_defaults)
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            for name, value in mine.items():
                group.setdefault(name, value)
        self._make_buckets()

    def _deal(self, parameters):
        """Gives the largest parameters first, each to the rank with the fewest elements."""
        for p in sorted(parameters, key=lambda p: -p.numel()):
            self._owner[p] = min(range(self.world_size), key=self._loads.__getitem__)
            self._loads[self._owner[p]] += p.numel()

    def _share(self, group):
        """Returns this rank's part of a group."""
        return {**group, "params": [p for p in group["params"] if self._owner[p] == self.rank]}

    def _make_buckets(self):
        """Makes the tensors that are sent after a step: each rank's parameters, or the tensors of which they are views."""
        self._sent = [[p for p in self._all_params if self._owner[p] == rank] for rank in range(self.world_size)]
        if not self.parameters_as_bucket_view:
            return
        for rank, parameters in enumerate(self._sent):
            by_device = {}
            for p in parameters:
                by_device.setdefault(p.device, []).append(p)
            self._sent[rank] = []
            for some in by_device.values():
                bucket = cresset.cat([p.detach().reshape(-1) for p in some])
                for p, part in zip(some, bucket.split([p.numel() for p in some])):
                    p.data = part.view(p.shape)
                self._sent[rank].append(bucket)

    def _check_ready(self):
        if self._overlap_with_ddp and not self._overlap.ready:
            raise RuntimeError("This method should not be called until this ZeroRedundancyOptimizer instance has been fully "
                               "initialized")

    def add_param_group(self, param_group):
        """Adds a group, whose parameters are dealt to the ranks as well."""
        if not hasattr(self, "_owner"):
            return super().add_param_group(param_group)
        if self._overlap_with_ddp:
            raise RuntimeError("ZeroRedundancyOptimizer with `overlap_with_ddp=True` only supports a single parameter group")
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self._all_params += group["params"]
        self._deal(group["params"])
        self.optim.add_param_group(self._share(group))
        for name, value in self.optim.param_groups[-1].items():
            group.setdefault(name, value)
        self._make_buckets()

    def _options_to_local(self):
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            mine.update({k: v for k, v in group.items() if k != "params"})

    def step(self, closure=None, **kwargs):
        """Updates this rank's share, and takes the others' from them."""
        if self._overlap_with_ddp:
            logger.warning("`step()` should not be included in the training loop when `overlap_with_ddp=True`")
            return None
        Join.notify_join_context(self)
        self._options_to_local()
        loss = self.optim.step(closure=closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            group.update({k: v for k, v in mine.items() if k != "params"})
        with cresset.no_grad(), dist._coalescing_manager(self.process_group):
            for rank, tensors in enumerate(self._sent):
                for tensor in tensors:
                    dist.broadcast(tensor.detach(), group=self.process_group, group_src=rank)
        return loss

    # --- steps during backward ---
    def _see_bucket(self, bucket, rebuilt):
        """Is told of each bucket of a backward.  Returns whether the bucket's parameters are updated."""
        now = self._overlap
        if not rebuilt or now.ready:
            return now.ready
        if bucket.index() == 0 and now.buckets:
            self._divide_buckets(now)
        else:
            now.buckets.append(list(bucket.parameters()))
        return now.ready

    def _divide_buckets(self, now):
        if now.divide_buckets:
            self._deal(p for parameters in now.buckets for p in parameters)
        else:
            for i, parameters in enumerate(now.buckets):
                self._owner.update(dict.fromkeys(parameters, i % self.world_size))
        now.ready = True
        self._make_local_optimizer()

    def _step_bucket(self, bucket):
        """Updates this rank's parameters of a bucket by its gradients.  Starts the copies to the other ranks; returns works."""
        parameters = bucket.parameters()
        kept = {p: p.grad for p in self._all_params}
        for p in kept:
            p.grad = None
        for p, grad in zip(parameters, bucket.gradients()):
            if self._owner[p] == self.rank:
                p.grad = grad.detach()
        self._options_to_local()
        self.optim.step()
        for p, grad in kept.items():
            p.grad = grad
        with cresset.no_grad():
            return [dist.broadcast(p.detach(), group=self.process_group, group_src=self._owner[p], async_op=True)
                    for p in parameters]

    # --- uneven inputs ---
    def join_hook(self, **kwargs):
        """Returns the hook of ranks without inputs: they step as well."""
        return _Hook(self)

    @property
    def join_device(self):
        """The device of the ranks' notices."""
        return self._all_params[0].device

    @property
    def join_process_group(self):
        """The group of the ranks' notices."""
        return self.process_group

    # --- states ---
    def consolidate_state_dict(self, to=0):
        """Collects all states at a rank of the group, which state_dict then returns."""
        self._check_ready()
        found = [None] * self.world_size
        numbers = {p: i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        own = {numbers[p]: s for p, s in self.optim.state.items() if p in numbers}
        dist.all_gather_object(found, own, self.process_group)
        self._whole = {k: v for part in found for k, v in part.items()} if self.rank == to else None

    def state_dict(self):
        """Returns the whole state, after consolidate_state_dict."""
        self._check_ready()
        if getattr(self, "_whole", None) is None:
            raise RuntimeError(f"Optimizer state has not been consolidated on this rank. Please call "
                               f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global state.")
        numbers, groups = iter(range(10 ** 9)), []
        for group in self.param_groups:
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": [next(numbers) for _ in group["params"]]})
        return {"state": dict(sorted(self._whole.items())), "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Loads this rank's share of a whole state."""
        self._check_ready()
        super().load_state_dict(state_dict)

    def _set_state(self, state_dict):
        saved = copy.deepcopy(state_dict["param_groups"])
        self._check_groups(saved)
        params = dict(pair for group, old in zip(self.param_groups, saved) for pair in zip(old["params"], group["params"]))
        own = {params[i]: _on_device(state, params[i].device) for i, state in state_dict["state"].items()
               if self._owner[params[i]] == self.rank}
        self.optim.state.update(own)
        for group, old in zip(self.param_groups, saved):
            group.update({k: v for k, v in old.items() if k != "params"})
        self._options_to_local()
