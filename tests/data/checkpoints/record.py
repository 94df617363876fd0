"""Writes the checkpoints of this folder, their contents, and load()'s errors for damaged files.

Run it with torch: PYTHON tests/data/checkpoints/record.py
"""
import json
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
import checkpoint_cases as cases  # noqa: E402


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def main():
    contents = {}
    for name, (make, arguments) in cases.FILES.items():
        torch.save(make(torch), os.path.join(HERE, name), **arguments)
        contents[name] = cases.describe(
            torch, torch.load(os.path.join(HERE, name), weights_only=name in ("objects.pt", "old.pt")))
    # Most adjacent cases have the same outcome.  The file has each text once, and runs of
    # (number of a text, cases).
    texts, runs = {}, []
    for _, data, arguments in cases.hostile(read("small.pt"), read("small_old.pt")):
        said = texts.setdefault(cases.outcome(torch, data, arguments), len(texts))
        if runs and runs[-1][0] == said:
            runs[-1][1] += 1
        else:
            runs.append([said, 1])
    recorded = {"version": torch.__version__, "contents": contents, "texts": list(texts), "runs": runs}
    with open(os.path.join(HERE, "recorded.json"), "w") as file:
        for start, key in zip("{,,,", recorded):
            file.write(f"{start}{json.dumps(key)}:{json.dumps(recorded[key])}\n")
        file.write("}\n")


main()
