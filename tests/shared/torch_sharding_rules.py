"""Counts the operators for which torch has sharding rules, written by hand.

    SHARED=../shared PYTHON tests/shared/torch_sharding_rules.py

PYTHON has torch 2.13.  A recorded operator counts where all operators that one of its samples calls have a rule, whatever the rule
does: test_sharded_samples.py counts samples that run without gathering a split tensor.  Operators without a rule that torch would
decompose at a call count as without.
"""
import importlib.util
import lzma
import os
import sys
import warnings

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

SAMPLES = 40  # of an operator and dtype, as in test_sharded_samples.py
FOLDER = os.path.join(os.environ["SHARED"], "conformance")


class Called(TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func)
        return func(*args, **(kwargs or {}))


def ruled():
    """Returns the overloads that have a rule."""
    dispatcher = DTensor._op_dispatcher
    rules = dispatcher.sharding_propagator
    return {*rules.op_to_rules, *rules.op_strategy_funcs, *rules.op_single_dim_strategy_funcs, *dispatcher._custom_op_handlers}


def replayer():
    spec = importlib.util.spec_from_file_location("check_opinfo", os.path.join(FOLDER, "check_opinfo.py"))
    module = sys.modules["check_opinfo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vectors = sorted(f for f in os.listdir(FOLDER) if f.endswith(".pkl.xz"))[-1]
    with lzma.open(os.path.join(FOLDER, vectors)) as f:
        return module.Replay("torch"), module.Plain(f).load()["ops"]


def called(replay, row):
    """Returns the operators that a sample calls; none if it is an error."""
    seen = Called()
    try:
        function, args, kwargs = replay.function(row[0]), replay.build(row[1], []), replay.build(row[2], [])
        with seen:
            function(*args, **kwargs)
    except Exception:  # a sample of an error
        return set()
    return seen.names


def main():
    warnings.simplefilter("ignore")
    rules, (replay, ops) = ruled(), replayer()
    print(len(rules), "overloads of", len({x.overloadpacket for x in rules}), "operators have rules")
    without = []
    for key, entry in ops.items():
        rows = [row for group in ("float32", "int64") for row in entry.get(group, ())[:SAMPLES]]
        if not any(names and names <= rules for names in (called(replay, row) for row in rows)):
            without.append(key)
    print(len(ops) - len(without), "of", len(ops), "recorded operators call operators with rules alone; not:", *sorted(without))


if __name__ == "__main__":
    main()
