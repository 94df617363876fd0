"""safetensors: files written and read by its own extension."""
import os
import tempfile

import torch
from program import program
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model


@program("files")
def files():
    tensors = {f"x{i}": torch.arange(6).reshape(2, 3).to(dtype) for i, dtype in enumerate(
        (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
         torch.int16, torch.int8, torch.uint8, torch.bool))}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        save_file(tensors, path, {"note": "text"})
        again = load_file(path)
        with safe_open(path, "pt") as file:
            metadata, part = file.metadata(), file.get_slice("x1")[:, 1:]
            size = os.path.getsize(path)
    same = [torch.equal(tensors[k], again[k]) and tensors[k].dtype == again[k].dtype for k in tensors]
    return {"same": same, "note": metadata["note"], "part": part.tolist(), "bytes": size,
            "memory": sorted(load(save(tensors)))}


@program("models")
def models():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    net[1].weight = net[0].weight
    other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    other[1].weight = other[0].weight
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        save_model(net, path)
        missing, unexpected = load_model(other, path)
    x = torch.ones(1, 3)
    return {"same": torch.equal(net(x), other(x)), "missing": sorted(missing),
            "unexpected": sorted(unexpected), "output": net(x).flatten().tolist()}
