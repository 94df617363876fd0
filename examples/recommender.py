"""A small recommender whose embedding tables are divided over ranks, in three ways.

python -m cresset.distributed.run --nproc-per-node 2 examples/recommender.py

A row of data has a bag of numbers for each of six features, three measurements, and whether the visitor clicked.  Each rank reads
a part of every batch.  The tables are divided

- by rows: a rank looks up the numbers of its rows, and the ranks add up what they found;
- by columns: a rank has some columns of all rows, and the ranks exchange them for rows of the batch;
- by table: a rank has whole tables, pools the whole batch with them, and the ranks exchange the same way.

Layers above the tables are data parallel.  The losses are those of one process: run it without the launcher to compare.
"""
import argparse
import os

import cresset as torch
import cresset.distributed as dist
from cresset import nn
from cresset.distributed.device_mesh import init_device_mesh
from cresset.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

FEATURES = {"user": (512, "row"), "item": (768, "row"), "words": (256, "column"), "site": (64, "column"), "hour": (24, "table"),
            "device": (8, "table")}
WIDTH, MEASUREMENTS, BAG = 16, 3, 4


def batch(step, rows):
    """Returns numbers in bags, measurements and labels: clicks depend on hidden tastes for numbers."""
    draw = torch.Generator().manual_seed(100 + step)
    bags = {name: torch.randint(0, count, (rows, BAG), generator=draw) for name, (count, _) in FEATURES.items()}
    dense = torch.randn(rows, MEASUREMENTS, generator=draw)
    taste = sum(((at * 37 % 11) - 5).sum(1) for at in bags.values()).float() / 20 + dense[:, 0]
    return bags, dense, (taste > 0).float()


class Recommender(nn.Module):
    """Bags of embeddings, their products in pairs, and layers above."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.EmbeddingBag(count, WIDTH, mode="mean") for name, (count, _) in FEATURES.items()})
        self.below = nn.Sequential(nn.Linear(MEASUREMENTS, WIDTH), nn.ReLU())
        pairs = (len(FEATURES) + 1) * len(FEATURES) // 2
        self.above = nn.Sequential(nn.Linear(pairs + WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))

    def pooled(self, bags):
        """Returns (rows, features, width) of the tables."""
        return torch.stack([table(bags[name]) for name, table in self.tables.items()], 1)

    def forward(self, bags, dense):
        low = self.below(dense)
        both = torch.cat([low.unsqueeze(1), self.pooled(bags)], 1)
        one, two = torch.triu_indices(both.shape[1], both.shape[1], 1)
        pairs = (both @ both.transpose(1, 2))[:, one, two]
        return self.above(torch.cat([low, pairs], 1)).squeeze(1)


class Divided(Recommender):
    """The same with divided tables."""

    def __init__(self, mesh):
        super().__init__()
        self.mesh, self.owner = mesh, {}
        for name, (_, how) in FEATURES.items():
            table = self.tables[name]
            if how == "table":
                self.owner[name] = len(self.owner) % mesh.size()
            else:
                placed = distribute_tensor(table.weight.data, mesh, [Shard(0 if how == "row" else 1)])
                table.weight = nn.Parameter(placed)

    def _by_rows_or_columns(self, name, bags):
        """Returns the rows of this rank, from the numbers of all."""
        numbers = DTensor.from_local(bags.flatten(), self.mesh, [Replicate()])
        starts = DTensor.from_local(torch.arange(0, bags.numel(), BAG), self.mesh, [Replicate()])
        found = nn.functional.embedding_bag(numbers, self.tables[name].weight, starts, mode="mean")
        return found.redistribute(placements=[Shard(0)]).to_local()

    def _by_tables(self, bags):
        """Returns the rows of this rank by name: a rank pools the whole batch with its tables and gives each rank its rows."""
        ranks, rank, rows = self.mesh.size(), self.mesh.get_local_rank(), len(next(iter(bags.values())))
        names = [[name for name, owner in self.owner.items() if owner == r] for r in range(ranks)]
        mine = [self.tables[name](bags[name]).view(ranks, rows // ranks, WIDTH) for name in names[rank]]
        sent = torch.stack(mine, 1).flatten() if mine else torch.zeros(0, requires_grad=True)
        counts = [len(own) * rows // ranks * WIDTH for own in names]
        got = dist.nn.functional.all_to_all_single(sent.new_empty(sum(counts)), sent, counts, [counts[rank]] * ranks)
        found = got.view(len(self.owner), rows // ranks, WIDTH)
        return dict(zip((name for own in names for name in own), found))

    def pooled(self, bags):
        whole = self._by_tables(bags)
        return torch.stack([whole[name] if name in whole else self._by_rows_or_columns(name, bags[name]) for name in self.tables], 1)


def train(steps=20, rows=64, lr=0.5, divided=True, log=True):
    """Returns the losses, and the tables at the end."""
    torch.manual_seed(0)
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if divided and dist.is_initialized() else (1, 0)
    net = Divided(init_device_mesh("cpu", (ranks,))) if ranks > 1 else Recommender()
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=lr), []
    own = slice(rank * rows // ranks, (rank + 1) * rows // ranks)
    for step in range(steps):
        bags, dense, clicked = batch(step, rows)
        loss = nn.functional.binary_cross_entropy_with_logits(net(bags, dense[own]), clicked[own], reduction="sum") / rows
        optimizer.zero_grad()
        loss.backward()
        whole = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(whole)
            for p in [*net.below.parameters(), *net.above.parameters()]:
                dist.all_reduce(p.grad)
        optimizer.step()
        losses.append(whole.item())
        if log and rank == 0 and step % 5 == 4:
            print(f"step {step + 1}: loss {losses[-1]:.4f}")
    tables = {}
    for name, table in net.tables.items():
        weight = table.weight.detach()
        if isinstance(weight, DTensor):
            weight = weight.full_tensor()
        elif ranks > 1:
            dist.broadcast(weight, net.owner[name])
        tables[name] = weight
    return losses, tables


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group()
    train(steps)
