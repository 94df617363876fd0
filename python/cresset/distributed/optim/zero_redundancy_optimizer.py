"""An optimizer whose states are divided among the ranks (ZeRO, stage 1)."""
import copy

import cresset

from ...optim import Optimizer
from .. import distributed_c10d as dist

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Each rank updates its share of the parameters and sends them to the others."""

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
                 overlap_with_ddp=False, **defaults):
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not implemented")
        params = list(params)
        super().__init__(params, defaults)
        self.process_group = dist._group_or_default_group(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._optimizer_class = optimizer_class
        self._owner, self._loads = {}, [0] * self.world_size
        self._deal(p for g in self.param_groups for p in g["params"])
        self.optim = optimizer_class([self._share(group) for group in self.param_groups], **defaults)
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            for name, value in mine.items():
                group.setdefault(name, value)

    def _deal(self, parameters):
        """Gives the largest parameters first, each to the rank with the fewest elements."""
        for p in sorted(parameters, key=lambda p: -p.numel()):
            self._owner[p] = min(range(self.world_size), key=self._loads.__getitem__)
            self._loads[self._owner[p]] += p.numel()

    def _share(self, group):
        """Returns this rank's part of a group; a group of an optimizer has parameters."""
        own = [p for p in group["params"] if self._owner[p] == self.rank] or [cresset.zeros(1)]
        return {**group, "params": own}

    def add_param_group(self, param_group):
        """Adds a group, whose parameters are dealt to the ranks as well."""
        super().add_param_group(param_group)
        if hasattr(self, "optim"):
            group = self.param_groups[-1]
            self._deal(group["params"])
            self.optim.add_param_group(self._share(group))
            for name, value in self.optim.param_groups[-1].items():
                group.setdefault(name, value)

    def step(self, closure=None, **kwargs):
        """Updates this rank's share, and takes the others' from them."""
        for mine, group in zip(self.optim.param_groups, self.param_groups):
            mine.update({k: v for k, v in group.items() if k != "params"})
        loss = self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        with cresset.no_grad(), dist._coalescing_manager(self.process_group):
            for group in self.param_groups:
                for p in group["params"]:
                    dist.broadcast(p.data, group=self.process_group, group_src=self._owner[p])
        return loss

    def consolidate_state_dict(self, to=0):
        """Collects all states at a rank, which state_dict then returns."""
        found = [None] * self.world_size
        numbers = {p: i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        own = {numbers[p]: s for p, s in self.optim.state.items() if p in numbers}
        dist.all_gather_object(found, own, self.process_group)
        self._whole = {k: v for part in found for k, v in part.items()} if self.rank == to else None

    def state_dict(self):
        """Returns the whole state, after consolidate_state_dict."""
        if getattr(self, "_whole", None) is None:
            raise RuntimeError(f"Optimizer state has not been consolidated on this rank. Please call "
                               f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global state.")
        numbers, groups = iter(range(10 ** 9)), []
        for group in self.param_groups:
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": [next(numbers) for _ in group["params"]]})
        return {"state": dict(sorted(self._whole.items())), "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Loads this rank's share of a whole state."""
        params = [p for g in self.param_groups for p in g["params"]]
        for i, state in state_dict["state"].items():
            if self._owner[params[i]] == self.rank:
                self.optim.state[params[i]] = copy.deepcopy(state)
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({k: v for k, v in saved.items() if k != "params"})
