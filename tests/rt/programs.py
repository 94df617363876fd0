"""Writes files of the runtime, one for each small model of tests/python/test_rt.py: programs.py FOLDER"""
import os
import sys

import cresset as torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
from cresset.export import export, to_rt  # noqa: E402
from test_c_file import MODELS, TRAINED, Loss, Memory  # noqa: E402
from test_rt import ABSENT, Kinds, UNTRAINED  # noqa: E402

MOST_BYTES = 60000


def programs():
    """Names and files."""
    torch.manual_seed(0)
    for name, (make, arguments, _) in MODELS.items():
        if name not in ABSENT:
            yield name, to_rt(export(make().eval(), arguments()))
    for name, (make, example) in TRAINED.items():
        if name not in UNTRAINED:
            yield f"training of {name}", to_rt(export(Loss(make()), (example(), torch.randint(0, 3, (5,)))), training=True)
    yield "states", to_rt(export(Memory().eval(), (torch.randn(1, 3), torch.tensor([2]))))
    yield "kinds", to_rt(export(Kinds(), (torch.zeros(2, 4, dtype=torch.int64), torch.zeros(2, 4))))


if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, data in programs():
        if len(data) <= MOST_BYTES:
            with open(os.path.join(folder, name.replace(" ", "_") + ".rt"), "wb") as file:
                file.write(data)
