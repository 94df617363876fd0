"""Writes tests/data/checkpoints/distributed with torch 2.13: PYTHON tests/dist/record_checkpoint.py

Four ranks save a tensor in boxes of columns, which torch makes of a DTensor, and replicated objects."""
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data", "checkpoints", "distributed")


def rank_main(rank, size, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(70.0).view(7, 10)
    dcp.save({"model": {"w": distribute_tensor(whole, mesh, [Shard(1)]), "b": torch.ones(3, dtype=torch.bfloat16)},
              "optim": [{"lr": 0.5, "step": torch.tensor(3)}], "epoch": 7}, checkpoint_id="saved")
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the index names the folder
        torch.multiprocessing.spawn(rank_main, (4, f"{folder}/store"), 4)
        shutil.copytree("saved", FOLDER, dirs_exist_ok=True)
