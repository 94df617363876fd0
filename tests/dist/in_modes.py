"""What each rank does in test_modes.py: functions of (rank, size)."""
import contextlib

import cresset as torch
import cresset.distributed as dist
from cresset.distributed.fsdp import fully_shard, FullyShardedDataParallel
from cresset.distributed.tensor.debug import CommDebugMode
from cresset.distributed.tensor.parallel import ColwiseParallel, parallelize_module, RowwiseParallel
from cresset.nn.parallel import DistributedDataParallel
from cresset.utils._python_dispatch import TorchDispatchMode
from cresset.utils.checkpoint import checkpoint


class Seen(TorchDispatchMode):
    """Keeps the names of calls between ranks."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in ("c10d", "_c10d_functional"):
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


class Repeating(torch.nn.Module):
    """A module whose first layers backward computes again."""

    def __init__(self, layers, reentrant):
        super().__init__()
        self.layers, self.reentrant = layers, reentrant

    def forward(self, x):
        return self.layers[2](checkpoint(lambda y: self.layers[1](self.layers[0](y)), x, use_reentrant=self.reentrant))


def sharded(layers, mesh, reshard=True):
    for k in (0, 2):
        fully_shard(layers[k], mesh=mesh, reshard_after_forward=reshard)
    fully_shard(layers, mesh=mesh)
    return layers


def divided(layers, mesh):
    return parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


# name: (the module of layers and a mesh, whether all ranks have the same input)
MODULES = {
    "plain, checkpointed": (lambda n, mesh: Repeating(n, True), True),
    "data-parallel": (lambda n, mesh: DistributedDataParallel(n), False),
    "data-parallel, views": (lambda n, mesh: DistributedDataParallel(n, gradient_as_bucket_view=True), False),
    "data-parallel, checkpointed": (lambda n, mesh: DistributedDataParallel(Repeating(n, False)), False),
    "sharded": (sharded, False),
    "sharded, kept after forward": (lambda n, mesh: sharded(n, mesh, False), False),
    "sharded, checkpointed": (lambda n, mesh: Repeating(sharded(n, mesh), False), False),
    "sharded, checkpointed by reentry": (lambda n, mesh: Repeating(sharded(n, mesh), True), False),
    "wrapper": (lambda n, mesh: FullyShardedDataParallel(n, use_orig_params=True), False),
    "tensor-parallel": (divided, True),
    "tensor-parallel, checkpointed": (lambda n, mesh: Repeating(divided(n, mesh), False), True),
}


def steps(make, same, mesh, mode):
    """The last loss and the parameters of two steps of training inside of a mode."""
    torch.manual_seed(0)
    module = make(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)), mesh)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    for step in range(2):
        x = (torch.arange(8.0).view(2, 4) * (1 if same else dist.get_rank() + 1) + step).requires_grad_()
        with mode:
            loss = module(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in module.parameters()]
    return [loss.tolist(), *[p.tolist() for p in whole]]


def training_in_modes(rank, n):
    """Training computes in a mode what it computes without one; FSDP's calls are seen as torch's."""
    mesh = dist.init_device_mesh("cpu", (n,))
    for name, (make, same) in MODULES.items():
        want = steps(make, same, mesh, contextlib.nullcontext())
        for mode in (Seen(), CommDebugMode()):
            assert steps(make, same, mesh, mode) == want, (name, mode)
    seen = Seen()
    steps(sharded, False, mesh, seen)
    once = ["_allgather_base_"] * 4 + ["_reduce_scatter_base_"] * 2  # recorded with torch 2.13
    assert sorted(seen.names) == sorted(once * 2), seen.names
