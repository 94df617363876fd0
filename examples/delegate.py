"""Parts of an exported program as machine code of the system's C compiler: python -m cresset run examples/delegate.py

The backend takes linear layers and activations.  A part becomes a C file (to_c), which is compiled to a shared object; its
bytes are what the program keeps.  The other operators run as before.
"""
import ctypes
import json
import os
import subprocess
import tempfile

import torch
from torch import nn
from torch.export import Backend, export, to_backend, to_c

aten = torch.ops.aten


class Machine(Backend):
    name = "machine"
    operators = {aten.linear.default, aten.addmm.default, aten.permute.default, aten.t.default, aten.relu.default, aten.gelu.default}

    def __init__(self):
        self.loaded = {}

    def is_node_supported(self, submodules, node):
        return node.target in self.operators

    def preprocess(self, program):
        text = to_c(program, name="part")
        results = [n.meta["val"] for n in program.graph.output_node().args[0]]
        sizes = json.dumps([list(x.shape) for x in results]).encode()
        with tempfile.TemporaryDirectory() as folder:
            source, made = os.path.join(folder, "part.c"), os.path.join(folder, "part.so")
            with open(source, "w") as file:
                file.write(text)
            subprocess.run(["cc", "-std=c99", "-O2", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", made, "-lm"], check=True)
            with open(made, "rb") as file:
                return len(sizes).to_bytes(8, "little") + sizes + file.read()

    def load(self, data):
        n = int.from_bytes(data[:8], "little")
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(data[8 + n:])
            file.flush()
            part = ctypes.CDLL(file.name)
        part.part_work_bytes.restype = ctypes.c_size_t
        return part, json.loads(data[8:8 + n])

    def execute(self, data, *args):
        if data not in self.loaded:
            self.loaded[data] = self.load(data)
        part, sizes = self.loaded[data]
        args, out = [x.detach().contiguous() for x in args], [torch.empty(s) for s in sizes]
        work = torch.empty(part.part_work_bytes() + 16, dtype=torch.uint8)
        aligned = work.data_ptr() + -work.data_ptr() % 16
        if part.part_run(*(ctypes.c_void_p(x.data_ptr()) for x in (*args, *out)), ctypes.c_void_p(aligned)):
            raise IndexError("an index is out of range")
        return out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.last = nn.Linear(16, 64), nn.Linear(64, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = torch.cumsum(self.down(torch.relu(self.up(x))), 0)  # the backend has no cumsum
        return self.last(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 16)
    program = export(net, (x,)).run_decompositions({})
    lowered = to_backend(program, Machine())
    parts = [m for m in lowered.graph_module.modules() if isinstance(m, torch.export.LoweredBackendModule)]
    for part in parts:
        print(f"{part.backend_id}: {len(part.original_module.graph.find_nodes(op='call_function', target=aten.linear.default))} linear layers, "
              f"{len(part.processed_bytes)} bytes")
    with torch.no_grad():
        print("largest difference:", (lowered.module()(x) - net(x)).abs().max().item())
