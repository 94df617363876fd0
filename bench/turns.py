"""Processes whose calls take turns, so that other work on the machine slows all of them."""
import json
import subprocess
import sys


class Turn:
    """A process that prints a line when it is ready, and the times of so many calls, as JSON, for each number that it reads."""

    def __init__(self, command, folder=None):
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first, self.times = self.process.stdout.readline().strip(), []
        if not self.first:
            raise RuntimeError(f"{command[0]} ended early")

    def calls(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        self.times += json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def serve(first, timed):
    """The process: `timed` makes a call and returns its time, or times."""
    print(first, flush=True)
    for line in sys.stdin:
        print(json.dumps([timed() for _ in range(int(line))]), flush=True)
