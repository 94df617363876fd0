"""Reads mutated exported programs: pt2_fuzz.py [--seconds N] COUNT SEED FILE...; COUNT of them, or as many as N seconds allow.

A mutation changes values of an archive's JSON, bytes of one of its records, or bytes of the archive.  Each file must be refused
with an error of the format or of the archive, or give a program whose module and text can be made.
"""
import copy
import io
import json
import pickle
import random
import sys
import time
import warnings
import zipfile

import cresset as torch
from cresset.export import load

REFUSALS = (RuntimeError, ValueError, NotImplementedError, pickle.UnpicklingError)
EDGES = (None, True, False, 0, 1, -1, 2 ** 31, 2 ** 63 - 1, 2 ** 64, -2 ** 63, 0.5, "", "x", "s0", "()", "u0 + s0", "Mod(s0, 0)",
         "torch.ops.aten.add.Tensor", "torch.ops.aten.view.default", "_operator.mul", "../x", "a.b", [], {}, [0], {"as_int": 3})


def places(x, found):
    """Each (container, key) of a document."""
    for key in (list(x) if isinstance(x, dict) else range(len(x))):
        found.append((x, key))
        if isinstance(x[key], (dict, list)):
            places(x[key], found)
    return found


def change_document(draw, text):
    document = json.loads(text)
    for _ in range(draw.randint(1, 3)):
        all_places = places(document, [])
        if not all_places:
            break
        container, key = draw.choice(all_places)
        how = draw.randrange(6)
        if how == 0:
            container[key] = copy.deepcopy(draw.choice(EDGES))
        elif how == 1:
            other, at = draw.choice(all_places)
            container[key] = json.loads(json.dumps(other[at]))
        elif how == 2:
            del container[key]
        elif how == 3 and isinstance(container[key], int):
            container[key] += draw.randint(-3, 3)
        elif how == 4 and isinstance(container, list):
            container.insert(key, json.loads(json.dumps(container[key])))
        elif how == 5 and isinstance(container[key], str) and container[key]:
            at = draw.randrange(len(container[key]))
            container[key] = container[key][:at] + draw.choice("0( )-*.,sxu/\"\\") + container[key][at + draw.randint(0, 1):]
    return json.dumps(document).encode()


def change_bytes(draw, data):
    data = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        if not data:
            break
        at, n = draw.randrange(len(data)), draw.randrange(16)
        how = draw.randrange(4)
        if how == 0:
            data[at] = draw.randrange(256)
        elif how == 1:
            del data[at:at + n]
        elif how == 2:
            data[at:at] = data[at:at + n]
        else:
            data[at:at + 8] = draw.choice((0, 1, 2 ** 32 - 1, 2 ** 63)).to_bytes(8, "little")
    return bytes(data)


def mutated(draw, archive, records):
    if draw.randrange(4) == 0:
        return change_bytes(draw, archive)
    names = list(records)
    name = draw.choice([n for n in names if n.endswith(".json")]) if draw.randrange(4) else draw.choice(names)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for k, data in records.items():
            if k == name:
                data = change_document(draw, data) if k.endswith(".json") and draw.randrange(8) else change_bytes(draw, data)
            made.writestr(zipfile.ZipInfo(k), data)
    return out.getvalue()


def main(count, seed, paths, seconds):
    draw, end = random.Random(seed), time.monotonic() + seconds
    warnings.simplefilter("ignore")
    files = []
    for path in paths:
        with open(path, "rb") as file:
            archive = file.read()
        with zipfile.ZipFile(io.BytesIO(archive)) as z:
            files.append((archive, {n: z.read(n) for n in z.namelist()}))
    accepted = tried = 0
    for k in range(count):
        if time.monotonic() > end:
            break
        tried += 1
        data = mutated(draw, *draw.choice(files))
        try:
            program = load(io.BytesIO(data))
        except REFUSALS:
            continue
        except BaseException:
            print(f"file {k} of seed {seed}", flush=True)
            raise
        accepted += 1
        str(program)
        try:
            program.module()
        except REFUSALS:
            pass
    print(f"{tried} files, {accepted} accepted")
    return 0 if accepted else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    limit = sys.argv.index("--seconds") if "--seconds" in sys.argv else 0
    seconds = float(sys.argv.pop(limit + 1)) if limit else float("inf")
    if limit:
        sys.argv.pop(limit)
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:], seconds))
