"""Functions that tests of fully_shard run in every rank (ranks.py)."""
import copy
import os

import cresset as torch
import cresset.distributed as dist
import cresset.distributed.checkpoint as dcp
from cresset import nn
from cresset.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from cresset.distributed.device_mesh import init_device_mesh
from cresset.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from cresset.distributed.tensor import DTensor, Replicate, Shard
from cresset.utils.checkpoint import checkpoint


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


class Net(nn.Module):
    """Layers whose first dims 2 and 4 do not divide; a tied weight and a frozen one."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(13, 8)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 18), nn.GELU(), nn.Linear(18, 8)) for _ in range(3))
        self.layers[1][1].bias.requires_grad_(False)
        self.head = nn.Linear(8, 13, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def batch(k):
    torch.manual_seed(k)
    ids = torch.randint(0, 13, (8, 6))
    return ids, torch.randint(0, 13, (8, 6))


def steps(model, part=lambda x: x, micro=1, before=lambda last: None, count=20, mean=lambda x: x):
    """Returns the losses of 20 steps; the gradients of a step come in `micro` parts of the batch."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
    for k in range(count):
        optimizer.zero_grad()
        total = 0.0
        for n, (x, y) in enumerate(zip(*(part(t).chunk(micro) for t in batch(k)))):
            before(n == micro - 1)
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / micro
            loss.backward()
            total += mean(loss.detach()).item()
        optimizer.step()
        losses.append(total)
    return losses


def mine(rank, size):
    return lambda x: x.chunk(size)[rank]


def average(x):
    x = x.clone()
    dist.all_reduce(x)
    return x / dist.get_world_size()


def made():
    torch.manual_seed(0)
    return Net()


def sharded(mesh=None, **options):
    model = made()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def close(got, want, digits=1e-4):
    assert len(got) == len(want) and max(abs(a - b) for a, b in zip(got, want)) < digits, (got, want)


def equal_to_one_process(rank, size):
    """Losses, gradients and parameters, with every policy of whole parameters."""
    want = steps(made())
    for policy in (None, True, False):
        model = sharded(reshard_after_forward=policy)
        names = [n for n, _ in made().named_parameters()]
        assert [n for n, _ in model.named_parameters()] == names and type(model).__name__ == "FSDPNet" and isinstance(model, FSDPModule)
        assert all(isinstance(p, DTensor) and p.placements == (Shard(0),) for p in model.parameters())
        close(steps(model, mine(rank, size), mean=average), want)
        assert model.tokens.weight is model.head.weight and model.layers[1][1].bias.grad is None
        assert model.layers[0][1].weight.grad.placements == (Shard(0),)


def accumulated(rank, size):
    """Gradients of several parts are added over the ranks once."""
    want = steps(made(), micro=2, count=5)

    def part(x):
        return torch.cat([y.chunk(size)[rank] for y in x.chunk(2)])
    model = sharded()
    close(steps(model, part, 2, model.set_requires_gradient_sync, 5, average), want)


def two_dims(rank, size):
    """Parts within each pair of ranks, repeated over the pairs."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = sharded(mesh)
    assert model.head.weight.placements == (Replicate(), Shard(0))
    close(steps(model, mine(rank, size), mean=average), steps(made()))
    model = fully_shard(Choice(), mesh=mesh)
    raises(RuntimeError, "the ranks have gradients of different parameters", lambda: model(torch.ones(4), rank == 3).sum().backward())
    model(torch.ones(4) * rank, True).sum().backward()
    assert model.b.grad is None and torch.equal(model.a.grad.full_tensor(), torch.full((4,), 1.5))


def mixed_precision(rank, size):
    """Parameters of bfloat16 in the modules, gradients added in float32."""
    lower = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    model, seen = made(), []
    for layer in model.layers:
        fully_shard(layer, mp_policy=MixedPrecisionPolicy(**lower))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(**lower, output_dtype=torch.float32))
    model.layers[0][1].register_forward_pre_hook(lambda m, args: seen.append((m.weight.dtype, args[0].dtype)))
    got = steps(model, mine(rank, size), mean=average)
    assert set(seen) == {(torch.bfloat16, torch.bfloat16)} and all(p.dtype == torch.float32 for p in model.parameters())
    want = steps(made())
    assert max(abs(a - b) for a, b in zip(got, want)) < 0.1 and got[-1] < got[0]


def memory(rank, size):
    """After forward the bytes of whole parameters are free, and there again for backward."""
    model, wholes = sharded(reshard_after_forward=True), []
    model.layers[2][1].register_forward_hook(lambda m, args, out: wholes.append(m.weight))
    x, y = batch(0)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    assert wholes[0].untyped_storage().nbytes() == 0 and isinstance(model.layers[2][1].weight, DTensor)
    loss.backward()
    model.unshard()
    assert isinstance(model.tokens.weight, nn.Parameter) and not isinstance(model.tokens.weight, DTensor)
    assert model.tokens.weight.shape == (13, 8)
    model.reshard()
    assert isinstance(model.tokens.weight, DTensor)
    with torch.no_grad():
        out = model(x)
    torch.testing.assert_close(out, made()(x).detach(), rtol=1e-5, atol=1e-5)


class Block(nn.Module):
    """Two layers; forward computes them again in backward where `inside` says so."""

    def __init__(self, inside):
        super().__init__()
        self.first, self.second, self.inside = nn.Linear(6, 10), nn.Linear(10, 6), inside

    def layers(self, x):
        return self.second(torch.tanh(self.first(x)))

    def forward(self, x):
        return self.layers(x) if self.inside is None else checkpoint(self.layers, x, use_reentrant=self.inside)


class Blocks(nn.Module):
    """Blocks and a head; `around` computes whole blocks again, `both` two of them as one function."""

    def __init__(self, inside=None, around=None, both=None):
        super().__init__()
        torch.manual_seed(3)
        self.blocks, self.head = nn.ModuleList(Block(inside) for _ in range(2)), nn.Linear(6, 3)
        self.around, self.both = around, both

    def forward(self, x):
        if self.both is not None:
            return self.head(checkpoint(lambda y: self.blocks[1](self.blocks[0](y)), x, use_reentrant=self.both))
        for block in self.blocks:
            x = block(x) if self.around is None else checkpoint(block, x, use_reentrant=self.around)
        return self.head(x)


def recomputed(rank, size):
    """Gradients of parts of forward that run again in backward equal those of one process."""
    torch.manual_seed(1)
    inputs = torch.randn(4, 6)
    plain = Blocks()
    plain(inputs).pow(2).sum().backward()
    want = {n: p.grad / size for n, p in plain.named_parameters()}

    def agrees(model):
        x = inputs.chunk(size)[rank].clone().requires_grad_()
        for k in (1, 2):
            model(x).pow(2).sum().backward()
            for n, p in model.named_parameters():
                name = n.replace("_checkpoint_wrapped_module.", "")
                assert isinstance(p, DTensor) and p.grad is not None, n
                torch.testing.assert_close(p.grad.full_tensor(), want[name] * k, rtol=1e-5, atol=1e-5)
    for reshard in (None, True, False):
        for reentrant in (False, True):
            for option in ("inside", "around", "both"):
                model = Blocks(**{option: reentrant})
                for block in model.blocks:
                    fully_shard(block, reshard_after_forward=reshard)
                agrees(fully_shard(model, reshard_after_forward=reshard))
        model = Blocks()
        for block in model.blocks:
            block.first = checkpoint_wrapper(block.first)
            fully_shard(block, reshard_after_forward=reshard)
        agrees(fully_shard(model, reshard_after_forward=reshard))
        agrees(fully_shard(Blocks(inside=True), reshard_after_forward=reshard))  # one call for all


def changed_weights(rank, size):
    """Weights that change between forward and backward: autograd's error; a changed bias is not needed."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    fully_shard(model[0])
    fully_shard(model)
    for change in (lambda p: p.mul_(100), lambda p: p.to_local().mul_(2)):
        x = torch.ones(2, 3, requires_grad=True)
        y = model(x)
        with torch.no_grad():
            change(model[0].weight)
        raises(RuntimeError, "one of the variables needed for gradient computation has been modified by an inplace operation: "
               "[torch.FloatTensor [3, 3]] is at version 1; expected version 0 instead.", lambda: y.sum().backward())
        assert x.grad is None
    y = model(x)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    with torch.no_grad():
        model[0].bias.zero_()
    y.sum().backward()
    weights = [p.detach().full_tensor() for p in (model[1].weight, model[0].weight)]
    torch.testing.assert_close(x.grad, (torch.ones(2, 2) @ weights[0]) @ weights[1])


class Choice(nn.Module):
    """Two parameters of one size; forward uses one of them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

    def forward(self, x, first):
        assert isinstance(self.a, nn.Parameter) and [n for n, _ in self.named_parameters()] == ["a", "b"]
        return x * (self.a if first else self.b)


def without_gradient(rank, size):
    """Parameters that have no gradient get None, and optimizers leave them alone; the ranks must agree."""
    model = fully_shard(Choice())
    optimizer = torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5)
    model(torch.ones(4), True).sum().backward()
    optimizer.step()
    assert model.b.grad is None and len(optimizer.state) == 1
    assert torch.equal(model.b.full_tensor(), torch.ones(4)) and not torch.equal(model.a.full_tensor(), torch.ones(4))
    optimizer.zero_grad()
    before = model.a.full_tensor()
    model.set_requires_gradient_sync(False)
    model(torch.ones(4) * (rank + 1), False).sum().backward()
    assert model.a.grad is None and model.b.grad is None
    optimizer.step()
    assert torch.equal(model.a.full_tensor(), before) and torch.equal(model.b.full_tensor(), torch.ones(4))
    model.set_requires_gradient_sync(True)
    model(torch.ones(4), True).sum().backward()
    mean = sum(range(1, size + 1)) / size
    assert torch.equal(model.a.grad.full_tensor(), torch.ones(4)) and torch.equal(model.b.grad.full_tensor(), torch.full((4,), mean))
    raises(RuntimeError, "the ranks have gradients of different parameters", lambda: model(torch.ones(4), rank == 0).sum().backward())
    model(torch.ones(4), True)
    assert isinstance(model.a, DTensor)
    with torch.no_grad():
        model.unshard()
    optimizer.zero_grad()
    model(torch.ones(4), True).sum().backward()
    assert torch.equal(model.a.grad.full_tensor(), torch.ones(4))


def clipped(rank, size):
    """Gradients of DTensors beside plain ones are refused before one is changed."""
    model, plain = fully_shard(nn.Linear(4, 4)), nn.Parameter(torch.ones(2))
    (model(torch.ones(1, 4)).sum() + plain.sum()).backward()
    for params in ([*model.parameters(), plain], [plain, *model.parameters()]):
        raises(RuntimeError, "got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
               "distributed operators!", lambda: nn.utils.clip_grad_norm_(params, 0.1))
        raises(RuntimeError, "got mixed torch.Tensor and DTensor",
               lambda: nn.utils.clip_grads_with_norm_(params, 0.1, torch.tensor(4.0)))
        assert torch.equal(model.weight.grad.full_tensor(), torch.ones(4, 4)) and torch.equal(plain.grad, torch.ones(2))


def checkpoints(rank, size):
    """A state dict of DTensors, saved by these ranks and read into whole tensors; clipped gradients; options."""
    model, path = sharded(offload_policy=CPUOffloadPolicy()), os.environ["RANKS_FOLDER"]
    steps(model, mine(rank, size), count=2)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    assert (norm.full_tensor() if isinstance(norm, DTensor) else norm).item() > 0.01
    state = model.state_dict()
    assert all(isinstance(v, DTensor) for v in state.values())
    whole = {k: v.full_tensor() for k, v in state.items()}
    dcp.save({"model": state}, checkpoint_id=path)
    plain = {k: torch.zeros(v.shape) for k, v in whole.items()}
    dcp.load({"model": plain}, checkpoint_id=path)
    assert all(torch.equal(plain[k], whole[k]) for k in whole)
    other = sharded()
    state = other.state_dict()
    dcp.load({"model": state}, checkpoint_id=path)
    other.load_state_dict(state)
    assert all(torch.equal(v.full_tensor(), whole[k]) for k, v in other.state_dict().items())


def interface(rank, size):
    """Refusals in torch's words, methods, placements of a function."""
    raises(ValueError, "fully_shard does not support containers that do not implement forward: ModuleList",
           lambda: fully_shard(nn.ModuleList([nn.Linear(2, 2)])))
    raises(ValueError, "fully_shard expects a 1D or 2D DeviceMesh but got",
           lambda: fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (1, 1, size))))
    raises(AssertionError, "Please init the 2D mesh for HSDP with mesh_dim_names specified",
           lambda: fully_shard(nn.Linear(2, 2), mesh=init_device_mesh("cpu", (1, size))))
    model = sharded()
    raises(AssertionError, "FSDP does not support deepcopy. Please use state dict for serialization.", lambda: copy.deepcopy(model))
    raises(AssertionError, "can only be applied to a module once", lambda: fully_shard(model))
    raises(ValueError, "reshard_after_forward should be a bool, got <class 'int'>", lambda: model.set_reshard_after_forward(3))
    raises(ValueError, "does not have a method nothing", lambda: register_fsdp_forward_method(model, "nothing"))
    raises(AssertionError, "FSDPModule should not be instantiated directly", FSDPModule)
    raises(ValueError, "fully_shard doesn't support scalar parameters.",
           lambda: fully_shard(nn.ParameterList([nn.Parameter(torch.tensor(1.0))])))
    net = fully_shard(nn.Linear(4, 6), shard_placement_fn=lambda p: Shard(1) if p.dim() == 2 else None)
    assert net.weight.placements == (Shard(1),) and net.bias.placements == (Shard(0),)
    out = net(torch.ones(2, 4))
    out.sum().backward()
    torch.testing.assert_close(net.weight.grad.full_tensor(), torch.full((6, 4), 2.0))
    net.double()
    assert net(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float64
    net.twice = lambda x: nn.functional.linear(x, net.weight) * 2
    register_fsdp_forward_method(net, "twice")
    assert net.twice(torch.ones(1, 4, dtype=torch.float64)).shape == (1, 6)
    assert type(net)(2, 3).weight.shape == (3, 2)
