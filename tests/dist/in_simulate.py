"""What each rank does in test_simulate.py."""
import os

from cresset.distributed.simulation import calibrate


def calibrated(rank, size):
    text = calibrate(os.environ["FILE"])
    assert text.startswith("machine measured\nflops ") and size == 2
