"""Trains a network on several processes, each with its part of the data.

    torchrun --nproc-per-node 2 examples/c/ddp.py
"""
from datetime import timedelta

import cresset as torch
import cresset.distributed as dist
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.nn.parallel import DistributedDataParallel


def train(rank, size):
    torch.manual_seed(rank)  # rank 0's weights count
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    ddp = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = (torch.arange(256) / 256).view(64, 4)
    y = (x * 6).sin().sum(1, keepdim=True)
    x, y = x[rank::size], y[rank::size]  # every size-th row
    for step in range(1, 101):
        optimizer.zero_grad()
        loss = F.mse_loss(ddp(x), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if rank == 0 and step % 20 == 0:
            print(f"step {step:3d}  loss {mean.item():.4f}")


if __name__ == "__main__":
    dist.init_process_group(timeout=timedelta(seconds=60))
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks")
    train(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
