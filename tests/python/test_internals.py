"""Functions and types of the extension called by hand, with arguments that they are not meant for.

Whatever the arguments, a call returns or raises: the process does not end, and no call returns with an
exception set (SystemError).  Calls run in children, a batch in each; `python test_internals.py SEED CALLS`
runs more of them and prints the batch and the call that ended a process.
"""
import faulthandler
import os
import random
import resource
import signal
import subprocess
import sys

import pytest

BATCH = 250
# Calls that wait for a signal or a thread, end the process, or put other code in place of the library's.
LEFT_OUT = {"_jit_wait", "_load_backend", "_set_dispatch_caller", "_set_override_handler", "_set_warn_always",
            "_script_load", "_quicken_module", "_push_on_torch_dispatch_stack", "_push_function_mode", "_profile_start",
            "_profile_enter"}


def members(torch):
    """Returns the callables by name: functions of the module, methods and constructors of its types."""
    found = {}
    for name in dir(torch._C):
        x = getattr(torch._C, name)
        if isinstance(x, type):
            found[name] = x
            found.update({f"{name}.{k}": getattr(x, k) for k in dir(x) if callable(getattr(x, k, None))
                          and k not in ("__new__", "__init__", "__class__", "mro") and type(getattr(x, k)) is not type})
        elif callable(x) and name not in LEFT_OUT:
            found[name] = x
    return dict(sorted(found.items()))


class Shrinks(list):
    """A list whose items change it when they are read as numbers."""

    class Item:
        def __init__(self, owner):
            self.owner = owner

        def __index__(self):
            del self.owner[1:]
            return 2
        __int__ = __index__

        def __float__(self):
            return float(self.__index__())

    def __init__(self, n):
        super().__init__([2] * n)
        self[0] = self.Item(self)


def values(torch, draw):
    """Returns an object of a random kind."""
    class Sub(torch.Tensor):
        pass
    kinds = [
        lambda: None, lambda: True, lambda: draw.choice([0, 1, -1, 3, 2**31, 2**63, -2**63, 2**70]),
        lambda: draw.choice([1.5, float("nan"), 1e300]), lambda: 1j,
        lambda: draw.choice(["", "cpu", "cuda:9", "float32", "add", "x" * 300, "\0"]), lambda: b"abc", lambda: object(),
        lambda: draw.choice([int, object, Sub, torch.Tensor, torch.Size]), lambda: len,
        lambda: (lambda *a, **k: a[0] if a else None), lambda: torch.float32, lambda: torch.device("meta"),
        lambda: torch.strided, lambda: torch.Size([2, 3]), lambda: slice(None), lambda: ...,
        lambda: torch.ones(draw.choice([0, 1, 3])), lambda: torch.ones(2, 3, requires_grad=True),
        lambda: torch.ones(2, 2, device="meta"),
        # on the CPU also after a call that made another device the default
        lambda: torch.eye(2, device="cpu").to_sparse(), lambda: torch.eye(2, device="cpu").to_sparse_csr(),
        lambda: torch.ones(2).as_subclass(Sub), lambda: torch.nn.Parameter(torch.ones(2)), lambda: torch.zeros((), dtype=torch.int64),
        lambda: torch.ones(3, dtype=torch.complex64).conj(), lambda: torch.ones(2).untyped_storage(),
        lambda: torch.Generator(), lambda: (torch.ones(1, requires_grad=True) * 2).grad_fn, lambda: Shrinks(5), lambda: {},
        lambda: {"a": 1}, lambda: [values(torch, draw) for _ in range(draw.randrange(3))],
        lambda: tuple(values(torch, draw) for _ in range(draw.randrange(4))), lambda: [2, 3], lambda: (1,),
        lambda: torch.nn.Linear(1, 1), lambda: torch.autograd.Function, lambda: range(3), lambda: bytearray(8)]
    return draw.choice(kinds)()


def run_batch(torch, seed, say):
    """Calls BATCH members with random arguments."""
    draw, found = random.Random(seed), members(torch)
    names = list(found)
    for k in range(BATCH):
        name = draw.choice(names)
        args = [values(torch, draw) for _ in range(draw.choice([0, 1, 1, 2, 2, 3, 4, 6]))]
        if "." in name and draw.random() < 0.8:  # a self of the type
            made = [v for v in (values(torch, draw) for _ in range(60)) if isinstance(v, found[name.split(".")[0]])]
            args[:1] = made[:1]
        names_of = draw.choice([{}, {}, {}, {"dim": values(torch, draw)}, {"device": values(torch, draw)},
                                {"dtype": values(torch, draw)}, {"out": values(torch, draw)}])
        say(f"{k} {name} {[type(a).__name__ for a in args]} {list(names_of)}")
        try:
            found[name](*args, **names_of)
        except SystemError as e:
            if "exit" not in name:
                raise AssertionError(f"{name}: {e}") from e
        except (Exception, GeneratorExit, KeyboardInterrupt, SystemExit):
            pass


def run_child(seed, report):
    import warnings

    import cresset as torch
    warnings.simplefilter("ignore")
    faulthandler.enable()
    signal.alarm(60)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, resource.RLIM_INFINITY))
    torch.set_num_threads(1)
    with open(report, "w") as file:
        def say(text):
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
        run_batch(torch, seed, say)


def ends_early(seed, report):
    """Runs a batch in a process; returns the call at which it ended, None if it ran through."""
    done = subprocess.run([sys.executable, __file__, "--child", str(seed), str(report)], capture_output=True, text=True)
    if done.returncode:
        said = open(report).read() if os.path.exists(report) else ""
        return f"batch {seed}, call {said}: status {done.returncode}\n{done.stderr[-1500:]}"
    return None


@pytest.mark.parametrize("seed", range(4))
def test_calls_by_hand_return_or_raise(seed, tmp_path):
    assert ends_early(seed, tmp_path / "call") is None


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        run_child(int(sys.argv[2]), sys.argv[3])
    else:
        first, calls = int(sys.argv[1]), int(sys.argv[2])
        for batch in range(first, first + calls // BATCH):
            ended = ends_early(batch, f"/tmp/internals_{os.getpid()}")
            if ended:
                print(ended, flush=True)


@pytest.mark.parametrize("name", ["_enter_dispatch_mode", "_push_function_mode"])
def test_modes_have_handlers(name):
    import cresset as torch
    for mode in len, object(), int, torch.nn.Linear:
        with pytest.raises(TypeError, match="expected a mode, whose class has __torch"):
            getattr(torch._C, name)(mode)
    assert torch.ones(2).sum() == 2
