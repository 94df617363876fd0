"""Runs scripts of checkouts.txt in copies of their folders, on small data made here."""
import gzip
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy

ROOT = Path(os.environ.get("CHECKOUTS") or Path(sys.prefix) / "checkouts")


def write_mnist(folder, train=256, test=96):
    """Files in MNIST's format: a bar whose row depends on the digit, with noise."""
    random = numpy.random.RandomState(0)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        labels = (numpy.arange(count) % 10).astype(numpy.uint8)
        images = random.randint(0, 80, (count, 28, 28)).astype(numpy.uint8)
        for image, label in zip(images, labels):
            image[4 + 2 * label:7 + 2 * label, 4:24] += 150
        for name, header, values in ((f"{part}-images-idx3-ubyte", (2051, count, 28, 28), images),
                                     (f"{part}-labels-idx1-ubyte", (2049, count), labels)):
            data = struct.pack(f">{len(header)}i", *header) + values.tobytes()
            (raw / name).write_bytes(data)
            (raw / f"{name}.gz").write_bytes(gzip.compress(data))


def text(words, seed=0):
    """Lines of random words; each word has three possible successors."""
    random = numpy.random.RandomState(seed)
    follow = random.randint(0, 40, (40, 3))
    line, out, word = [], [], 0
    for _ in range(words):
        word = follow[word, random.randint(3)]
        line.append(f"w{word}")
        if len(line) == 12:
            out.append(" ".join(line))
            line = []
    return "\n".join(out) + "\n"


@contextmanager
def copied(checkout, part=""):
    """Yields a copy of a checkout's folder, in an otherwise empty folder."""
    source = ROOT / checkout / part
    if not source.is_dir():
        raise FileNotFoundError(f"{source}: git did not fetch it (checkouts.txt)")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / (part or checkout)
        shutil.copytree(source, target)
        yield target


def run(folder, script, *arguments, **environment):
    """Runs a script in the folder and returns what it prints."""
    done = subprocess.run([sys.executable, script, *map(str, arguments)], cwd=folder, text=True,
                          env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    print(done.stdout, file=sys.stderr)
    if done.returncode:
        raise RuntimeError(f"{script}: {done.stdout.strip().splitlines()[-1:]}")
    return done.stdout


def numbers(output, pattern):
    """The numbers that the pattern's group matches."""
    found = [float(x) for x in re.findall(pattern, output)]
    if not found:
        raise RuntimeError(f"no {pattern} in: {output[-300:]}")
    return found
