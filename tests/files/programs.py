"""Writes small files for fuzzers: programs.py FOLDER; exported programs NAME.pt2, and compiled models NAME.aot."""
import os
import sys

import cresset as torch
from cresset import nn
from cresset.export import Dim, export, save


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x - 1, (x,))


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))

    def forward(self, x):
        self.count += 1
        return x[:, :3] * self.count[0], {"kept": x.nonzero()}


MODELS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), lambda: (torch.randn(2, 4),)),
    "picture": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), lambda: (torch.randn(2, 1, 6, 6),)),
    "words": (lambda: nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4)), lambda: (torch.tensor([[1, 2, 6], [0, 0, 3]]),)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), lambda: (torch.randn(2, 3, 4),)),
}
PROGRAMS = {"branch": (Branch, lambda: (torch.randn(3),)), "counts": (Counts, lambda: (torch.randn(2, 4),))}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    for name, (make, arguments) in {**MODELS, **PROGRAMS}.items():
        args = arguments()
        for varies in ((), ((0,) if name in MODELS else ())):
            sizes = ({d: Dim("n", min=2, max=8) for d in varies},)
            program = export(make().eval(), args, dynamic_shapes=sizes if varies else None)
            path = os.path.join(folder, name + ("_varying" if varies else ""))
            save(program, path + ".pt2")
            for libraries in (False, True) if name in MODELS else ():
                settings = {"aot_inductor.isa": "base", "aot_inductor.libraries": libraries}
                os.replace(torch._inductor.aoti_compile_and_package(program, package_path=path + ".model.pt2", inductor_configs=settings),
                           path + ("_library" if libraries else "") + ".aot")


if __name__ == "__main__":
    main(sys.argv[1])
