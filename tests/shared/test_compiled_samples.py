"""Recorded samples of torch's operators, each called three times in a compiled function, with
eager's bits.

The second call has other elements than the first, which was recorded, so that the recording
must not contain elements.  "training" computes the gradient inside the function, where entries
are recorded as their parts.
"""
import importlib.util
import lzma
import os
import sys
import warnings

import numpy as np
import pytest

import cresset as torch

FOLDER = os.path.join(os.environ["SHARED"], "conformance")
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


def replayer():
    spec = importlib.util.spec_from_file_location("check_opinfo", os.path.join(FOLDER, "check_opinfo.py"))
    module = sys.modules["check_opinfo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Varied(module.Replay):
        variant = 0

        def build(self, x, grads):
            if self.variant and isinstance(x, tuple) and x and x[0] == "T" and x[1] != "bfloat16":
                a = np.frombuffer(x[5], dtype=module.NUMPY[x[1]])
                a = (a * (1 - 0.125 * self.variant)).astype(a.dtype) if a.dtype.kind in "fc" else a[::-1].copy()
                x = (*x[:5], a.tobytes(), x[6])
            return super().build(x, grads)
    vectors = sorted(f for f in os.listdir(FOLDER) if f.endswith(".pkl.xz"))[-1]
    with lzma.open(os.path.join(FOLDER, vectors)) as f:
        return Varied("cresset"), module.Plain(f).load()["ops"]


def bits(x):
    """Returns dtypes, sizes and elements of all tensors in x; all NaNs are equal."""
    if isinstance(x, (list, tuple)):
        return [bits(y) for y in x]
    if not isinstance(x, torch.Tensor):
        return repr(x)
    plain = x.detach().resolve_conj().resolve_neg().contiguous()
    a = (plain.view(torch.int16) if x.dtype == torch.bfloat16 else plain).numpy().reshape(-1)
    a = a.view(a.real.dtype)
    return x.dtype, tuple(x.shape), x.requires_grad, np.where(np.isnan(a), np.nan, a).tobytes()


def call(replay, f, row, variant, differentiate):
    replay.variant, leaves = variant, []
    torch.manual_seed(5)
    args, kwargs = replay.build(row[1], leaves), replay.build(row[2], leaves)
    out = f(args, kwargs, leaves)
    found = bits([out, args])
    roots = [o for o in replay.leaves(out) if o.requires_grad] if differentiate else []
    if roots and leaves:
        found.append(bits(torch.autograd.grad(roots, leaves, [replay.weights(o) for o in roots], allow_unused=True)))
    return found


def plain(replay, function):
    return lambda args, kwargs, leaves: function(*args, **kwargs)


def training(replay, function):
    def step(args, kwargs, leaves):
        outs = [o for o in replay.leaves(function(*args, **kwargs)) if o.requires_grad]
        return torch.autograd.grad(outs, leaves, [torch.ones_like(o) for o in outs], allow_unused=True)
    return step


@pytest.mark.parametrize("made_of", [plain, training])
def test_compiled_samples_have_eagers_bits(made_of, monkeypatch):
    monkeypatch.setenv("CR_CC", "false")  # tiles only: other tests check native code
    replay, ops = replayer()
    differing, count = [], 0
    for key, entry in ops.items():
        rows = [(group.startswith("grad"), row) for group, rows in entry.items() if group != "errors" for row in rows]
        for differentiated, row in rows:
            if key in UNDEFINED or made_of is training and not differentiated:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    f = made_of(replay, replay.function(row[0]))
                    want = [call(replay, f, row, variant, differentiated) for variant in (0, 1, 2)]
                except Exception:
                    continue  # missing, or eager mode rejects the elements
                compiled = torch.compile(f)
                got = [call(replay, compiled, row, variant, differentiated) for variant in (0, 1, 2)]
            count += 1
            if got != want:
                differing.append(f"{key}: {row[0]} {row[2]}")
    assert not differing
    assert count > 4000
