"""nanoGPT, unmodified: characters prepared, a small model trained, resumed and sampled."""
import re

import checkout
from program import program

SMALL = ["--device=cpu", "--eval_iters=2", "--log_interval=1", "--block_size=32", "--batch_size=4",
         "--n_layer=2", "--n_head=2", "--n_embd=32", "--dropout=0.0", "--max_iters=12",
         "--lr_decay_iters=12", "--eval_interval=6", "--gradient_accumulation_steps=2",
         "--dtype=float32", "--always_save_checkpoint=True"]


def train(*more):
    with checkout.copied("nanoGPT") as folder:
        (folder / "data/shakespeare_char/input.txt").write_text(checkout.text(4000))
        checkout.run(folder, "data/shakespeare_char/prepare.py")
        arguments = ["config/train_shakespeare_char.py", *SMALL, *more]
        output = checkout.run(folder, "train.py", *arguments)
        resumed = checkout.run(folder, "train.py", *arguments, "--init_from=resume",
                               "--max_iters=16")
        drawn = checkout.run(folder, "sample.py", "--device=cpu", "--dtype=float32",
                             "--out_dir=out-shakespeare-char", "--num_samples=1",
                             "--max_new_tokens=30", *[m for m in more if "compile" in m])
    return {"losses": checkout.numbers(output, r"iter \d+: loss (\d+\.\d+)"),
            "evaluated": checkout.numbers(output, r"val loss (\d+\.\d+)"),
            "resumed": checkout.numbers(resumed, r"iter \d+: loss (\d+\.\d+)"),
            "drawn": len(re.split("---", drawn)[0]) > 30}


program("eager", 5e-3)(lambda: train("--compile=False"))
program("compiled", 5e-3)(lambda: train("--compile=True"))
