"""Kills a process in the middle of saves: checkpoint_kills.py FOLDER [KILLS] [SEED].  Prints the numbers of each outcome.

A child saves state after state into one folder and is killed after a random time.  Whatever it was doing, the folder then
has all of one state."""
import os
import random
import signal
import sys
import time
import warnings

import cresset as torch
import cresset.distributed.checkpoint as dcp


def state(n):
    return {"a": torch.full((3000,), float(n)), "b": {"c": torch.full((7, 9), n, dtype=torch.int64)}, "n": n}


def save_on(folder, n):
    while True:
        dcp.save(state(n), checkpoint_id=folder)
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
    n, torn, started, left = 0, 0, 0, 0
    for _ in range(kills):
        child = os.fork()
        if not child:
            save_on(folder, n + 1)
        time.sleep(chance.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        left += len(os.listdir(folder)) > 2
        try:
            after = loaded_number(folder)
            started += after > n
            n = after
        except BaseException as error:
            print(error)
            torn += 1
    print(f"{kills} kills: {torn} torn, {started} after a whole save, {left} with files of an unfinished one")
    sys.exit(torn > 0)


if __name__ == "__main__":
    main()
