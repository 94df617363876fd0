"""Kills a process in the middle of saves: checkpoint_kills.py FOLDER [KILLS] [SEED].  Prints the numbers of each outcome.

A child saves state after state into one folder and is killed at a random operation on files: before it, after it, or in
the middle of a write.  The folder then has all of one state."""
import os
import random
import signal
import sys
import warnings
from contextlib import contextmanager

import cresset as torch
import cresset.distributed.checkpoint as dcp
from cresset.distributed.checkpoint.filesystem import FileSystem

OPERATIONS = 60  # some saves


class Half:
    """A file that may get a part of a write."""

    def __init__(self, stream, files):
        self.stream, self.files = stream, files

    def write(self, b):
        if self.files.left == 1:
            self.stream.write(memoryview(b)[:self.files.chance.randrange(len(b) + 1)])
            self.stream.flush()
        self.files.count()
        return self.stream.write(b)

    def __getattr__(self, name):
        return getattr(self.stream, name)


class Files(FileSystem):
    """Ends the process at its n-th operation."""

    def __init__(self, left, chance):
        self.left, self.chance = left, chance

    def count(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def create_stream(self, path, mode):
        self.count()
        with super().create_stream(path, mode) as stream:
            yield Half(stream, self) if "w" in mode else stream
        self.count()

    def rename(self, path, new_path):
        self.count()
        super().rename(path, new_path)
        self.count()

    def rm_file(self, path):
        self.count()
        super().rm_file(path)


def state(n):
    return {"a": torch.full((3000,), float(n)), "b": {"c": torch.full((7, 9), n, dtype=torch.int64)}, "n": n}


def save_on(folder, n, files):
    while True:
        writer = dcp.FileSystemWriter(folder)
        writer.fs = files
        dcp.save(state(n), storage_writer=writer)
        n += 1


def loaded_number(folder):
    found = state(-1)
    dcp.load(found, checkpoint_id=folder)
    numbers = {found["n"], *found["a"].unique().tolist(), *found["b"]["c"].unique().tolist()}
    assert len(numbers) == 1, numbers
    return int(numbers.pop())


def main():
    folder, kills, seed = sys.argv[1], int((sys.argv[2:3] or ["200"])[0]), int((sys.argv[3:4] or ["1"])[0])
    warnings.simplefilter("ignore")
    chance = random.Random(seed)
    dcp.save(state(0), checkpoint_id=folder)
    n, torn, advanced, left = 0, 0, 0, 0
    for _ in range(kills):
        at = chance.randrange(1, OPERATIONS)
        child = os.fork()
        if not child:
            save_on(folder, n + 1, Files(at, random.Random(at)))
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the child ended by itself: status {status}"
        left += len(os.listdir(folder)) > 2
        try:
            after = loaded_number(folder)
            advanced += after > n
            n = after
        except BaseException as error:
            print(error)
            torn += 1
    print(f"{kills} kills: {torn} torn, {advanced} after a whole save, {left} with files of an unfinished one")
    sys.exit(torn > 0)


if __name__ == "__main__":
    main()
