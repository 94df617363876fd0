"""Calls that torch made, with its results, replayed: tests/data/samples (see record_samples.py).

A call is (function, args, kwargs, results, gradients, only dtypes and sizes are certain).  In it, lists are tagged:
    ["T", dtype, size, stride, base64 of the elements, requires_grad]      a tensor
    ["L" or "U", [items]]  ["D", {...}]  ["S", start, stop, step]          list, tuple, dict, slice
    ["dtype", name]  ["device", name]  ["ellipsis"]  ["C", real, imaginary]"""
import base64
import importlib
import json
import lzma
import os

import numpy

import cresset as torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "samples")
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-9, "complex128": 1e-9, "bfloat16": 2e-2, "float16": 2e-3}


def read(name):
    with lzma.open(os.path.join(FOLDER, name), "rt") as file:
        return json.load(file)


def elements(data, dtype):
    """A flat array of recorded elements; bfloat16 as the int16 of its bits."""
    return numpy.frombuffer(base64.b64decode(data), dtype="int16" if dtype == "bfloat16" else dtype)


def build_tensor(dtype, size, stride, data, requires_grad, leaves):
    flat = torch.from_numpy(elements(data, dtype).copy())
    flat = flat.view(torch.bfloat16) if dtype == "bfloat16" else flat
    made = torch.as_strided(flat, size, stride) if flat.numel() else torch.empty(size, dtype=getattr(torch, dtype))
    if requires_grad:
        made = made.detach().requires_grad_(True)
        leaves.append(made)
    return made


def build(x, leaves):
    """The value that x describes; tensors that require a gradient are appended to `leaves`."""
    if not isinstance(x, list):
        return x
    tag, rest = x[0], x[1:]
    if tag == "T":
        return build_tensor(*rest, leaves)
    if tag in "LU":
        return (list if tag == "L" else tuple)(build(v, leaves) for v in rest[0])
    if tag == "D":
        return {k: build(v, leaves) for k, v in rest[0].items()}
    if tag == "S":
        return slice(*[build(v, leaves) for v in rest])
    if tag == "C":
        return complex(*rest)
    if tag == "ellipsis":
        return ...
    return torch.device(rest[0]) if tag == "device" else getattr(torch, rest[0])


def function(path):
    """"torch.nn.functional.relu"; "torch.Tensor.real.__get__" reads an attribute."""
    names = path.split(".")[1:]
    if names[-1] == "__get__":
        return lambda x: getattr(x, names[-2])
    at = torch
    for i, name in enumerate(names):
        if not hasattr(at, name):
            importlib.import_module(".".join(["cresset", *names[:i + 1]]))
        at = getattr(at, name)
    return at


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for v in (x.values() if isinstance(x, dict) else x) for t in tensors(v)] if isinstance(x, (list, tuple, dict)) else []


def weights(t):
    """The cotangent that the recording used for a result."""
    return torch.from_numpy(((numpy.arange(t.numel()) % 7 + 1) / 7).reshape(tuple(t.shape))).to(t.dtype)


def compare_tensor(want, got, certain, where):
    _, dtype, size, stride, data, _ = want
    assert isinstance(got, torch.Tensor) and str(got.dtype)[6:] == dtype and list(got.shape) == size, where
    if not certain or not got.numel():
        return
    plain = got.detach().resolve_conj().resolve_neg()
    flat = elements(data, dtype)
    if dtype == "bfloat16":
        plain, flat = plain.float(), (flat.astype("uint16").astype("uint32") << 16).view("float32")
    expected = numpy.lib.stride_tricks.as_strided(flat, size, [s * flat.itemsize for s in stride])
    tolerance = TOLERANCE.get(dtype, 0)
    numpy.testing.assert_allclose(plain.contiguous().numpy(), expected, rtol=tolerance, atol=tolerance, err_msg=where)


def compare(want, got, certain, where):
    tag = want[0] if isinstance(want, list) else None
    if tag == "T":
        compare_tensor(want, got, certain, where)
    elif tag in ("L", "U"):
        got = list(got)
        assert len(got) == len(want[1]), where
        for i, (w, g) in enumerate(zip(want[1], got)):
            compare(w, g, certain, f"{where}[{i}]")
    elif tag == "dtype":
        assert str(got)[6:] == want[1], where
    elif certain:
        numpy.testing.assert_allclose(got, build(want, []), rtol=1e-5, err_msg=where) \
            if isinstance(got, (int, float, complex)) else compare_plain(got, build(want, []), where)


def compare_plain(got, want, where):
    assert got == want, where


def compare_gradients(want, leaves, out, where):
    roots = [t for t in tensors(out) if t.requires_grad]
    got = torch.autograd.grad(roots, leaves, [weights(t) for t in roots], allow_unused=True)
    for i, (w, g, x) in enumerate(zip(want[1], got, leaves)):
        if w is not None:
            compare(w, torch.zeros_like(x) if g is None else g, True, f"{where}: gradient {i}")


def replay(call):
    """Makes a recorded call and compares everything that came of it."""
    path, args, kwargs, want, gradients, uncertain = call
    leaves = []
    out = function(path)(*build(args, leaves), **build(kwargs, leaves))
    compare(want, out, not uncertain, path)
    if gradients is not None:
        compare_gradients(gradients, leaves, out, path)
