"""Recorded samples of torch's operators with inconsistent arguments: every call gives a result or
an error.

A child process makes the calls, so that a call that ends the process can be named.  Sanitizers
find invalid reads (`python tests/shared/test_mutated_samples.py SEED` with their library).
"""
import importlib.util
import lzma
import os
import random
import subprocess
import sys
import warnings

FOLDER = os.path.join(os.environ["SHARED"], "conformance")
# errors that a call may raise; any other error is a failure
ERRORS = RuntimeError, ValueError, TypeError, IndexError, AssertionError, OverflowError, ZeroDivisionError, MemoryError
INTS, FLOATS = (-7, -1, 0, 1, 2, 3, 9, 100), (0.0, -1.0, 2.5, float("nan"), float("inf"))


def changed_tensor(torch, rng, t):
    """Returns a tensor with another dtype, rank, size or range."""
    t = t.detach()
    how = rng.choice(("dtype", "dtype", "dtype", "drop", "add", "cut", "zero", "grow", "negative", "big"))
    if how == "dtype":
        return t.to(rng.choice((torch.int32, torch.int64, torch.uint8, torch.bool, torch.float16, torch.float32, torch.float64,
                                torch.complex64)))
    if how == "add":
        return t.unsqueeze(0)
    if how == "negative":
        return -t - 1
    if how == "big":
        return t * 100 + 50
    if not t.dim():
        return t
    d = rng.randrange(t.dim())
    if how == "drop":
        return t.select(d, 0) if t.shape[d] else t
    if how == "grow":
        return torch.cat([t, t], d)
    return t.narrow(d, 0, 0 if how == "zero" else max(0, t.shape[d] - 1)).clone()


def changed_plain(rng, x):
    """Returns other numbers or lists of numbers."""
    if type(x) is int:
        return rng.choice(INTS) if rng.random() < 0.3 else x
    if type(x) is float:
        return rng.choice(FLOATS) if rng.random() < 0.3 else x
    if type(x) in (list, tuple) and x and all(type(y) in (int, float) for y in x):
        some = [changed_plain(rng, y) for y in x]
        return type(x)(some[:-1] if rng.random() < 0.1 else some + [1] if rng.random() < 0.1 else some)
    return x


def replayer(torch, rng):
    spec = importlib.util.spec_from_file_location("check_opinfo", os.path.join(FOLDER, "check_opinfo.py"))
    module = sys.modules["check_opinfo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Mutated(module.Replay):
        target = met = 0  # index of the tensor to change, and tensors so far

        def build(self, x, grads):
            t = super().build(x, grads)
            if isinstance(t, torch.Tensor):
                self.met += 1
                if self.met == self.target:
                    try:
                        t = changed_tensor(torch, rng, t)
                    except RuntimeError:
                        pass  # not possible with this dtype
            return t
    vectors = sorted(f for f in os.listdir(FOLDER) if f.endswith(".pkl.xz"))[-1]
    with lzma.open(os.path.join(FOLDER, vectors)) as f:
        return Mutated("cresset"), module.Plain(f).load()["ops"]


def run(seed, note):
    """Makes the calls; `note` receives the current one."""
    import cresset as torch
    rng, calls = random.Random(seed), 0
    replay, ops = replayer(torch, rng)
    warnings.simplefilter("ignore")
    for key, entry in sorted(ops.items()):
        rows = [row for group, rows in entry.items() if group != "errors" for row in rows]
        for row in rng.sample(rows, min(len(rows), 4)):
            try:
                function = replay.function(row[0])
            except (ImportError, AttributeError):
                continue  # this package lacks the name; check_opinfo.py counts these
            for _ in range(6):
                replay.met, replay.target = 0, 1 + rng.randrange(3)
                args, kwargs = replay.build(row[1], []), replay.build(row[2], [])
                args = [changed_plain(rng, x) for x in args]
                kwargs = {name: changed_plain(rng, x) for name, x in kwargs.items()}
                shown = [(tuple(x.shape), str(x.dtype)) if isinstance(x, torch.Tensor) else x for x in args]
                note.seek(0)
                note.write(f"{key}: {shown} {kwargs}"[:2000].ljust(2000))
                note.flush()
                calls += 1
                try:
                    function(*args, **kwargs)
                except ERRORS:
                    pass
    return calls


def test_inconsistent_calls_give_errors(tmp_path):
    note = str(tmp_path / "call")
    done = subprocess.run([sys.executable, __file__, "1", note], capture_output=True, text=True)
    with open(note) as f:
        assert done.returncode == 0, f"{f.read().strip()}\n{done.stderr[-2000:]}"
    assert int(done.stdout.split()[-1]) > 10000


if __name__ == "__main__":
    with open(sys.argv[2] if len(sys.argv) > 2 else os.devnull, "w") as out:
        print(run(int(sys.argv[1]), out), flush=True)
    os._exit(0)
