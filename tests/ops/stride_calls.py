"""Calls of entries with tensors of several layouts, and the strides of torch's results (tests/data/samples/strides.json.xz).

To record them:
    python tests/ops/stride_calls.py draw CALLS      with this package: writes the arguments to the file CALLS
    python tests/ops/stride_calls.py record CALLS    with torch: calls its operators, each in a process, and writes the results"""
import json
import lzma
import os
import pickle
import sys
import warnings

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "samples", "strides.json.xz")
SHAPES = ((3, 4), (2, 3, 1, 2))
LAYOUTS = ("transposed", "reversed", "channels_last", "channels_last_odd", "sliced", "expanded", "odd")


def dense(size, order):
    """Strides without gaps; the dim order[0] moves fastest."""
    stride, step = [0] * len(size), 1
    for d in order:
        stride[d] = step
        step *= max(size[d], 1)
    return stride


def strides(size, layout):
    """Strides of the layout; None where sizes have none.  In an odd one, dims of size 1 have the stride 3."""
    n = len(size)
    orders = {"transposed": [max(n - 2, 0), *[n - 1] * (n > 1), *range(n - 3, -1, -1)], "reversed": list(range(n))}
    order = orders.get(layout, [1, *range(n - 1, 1, -1), 0] if layout.startswith("channels_last") else list(range(n - 1, -1, -1)))
    if layout.startswith("channels_last") and n not in (4, 5) or layout.endswith("odd") and 1 not in size or not n:
        return None
    found = dense(size, order)
    if layout == "sliced":
        return [2 * s for s in found]
    if layout == "expanded":
        return [0, *found[1:]]
    return [3 if layout.endswith("odd") and size[d] == 1 else s for d, s in enumerate(found)]


def laid_out(torch, x, layout):
    """The elements of x in this layout."""
    if isinstance(x, (list, tuple)):
        return [laid_out(torch, v, layout) for v in x]
    stride = strides(list(x.shape), layout) if isinstance(x, torch.Tensor) and x.layout == torch.strided else None
    if stride is None or not x.numel():
        return x
    flat = torch.zeros(1 + sum((s - 1) * k for s, k in zip(x.shape, stride)), dtype=x.dtype)
    made = flat.as_strided(x.shape, stride)
    (made[:1] if layout == "expanded" else made).copy_(x[:1] if layout == "expanded" else x)
    return made


def described(torch, result):
    """Sizes and strides of each tensor of a result."""
    if isinstance(result, (list, tuple)):
        return [d for r in result for d in described(torch, r)]
    if not isinstance(result, torch.Tensor) or result.layout != torch.strided:
        return []
    return [[list(result.shape), list(result.stride())]]


def drawn(entries=None):
    """(entry, key of the call, args, kwargs)"""
    import cresset as torch
    from table import ENTRIES, Draw, leaves
    for entry in entries or ENTRIES:
        if not entry.can_be_drawn() or not entry.tensor_params or "random" in entry.words:
            continue
        for n, case in enumerate(entry.cases()):
            default = any(p["type"] in ("Tensor", "Tensor[]") and p["name"] + " =" not in case and not p["has_default"]
                          and not p["optional"] for p in entry.params)
            for shape in SHAPES if default else SHAPES[:1]:
                for layout in LAYOUTS:
                    try:
                        draw = Draw(entry, case, "float32", shape=shape)
                    except (RuntimeError, ValueError, IndexError):
                        continue
                    given = {k: laid_out(torch, v, layout) if any(True for _ in leaves(v)) else v for k, v in draw.values.items()}
                    if any(strides(list(x.shape), layout) for v in draw.values.values() for x in leaves(v)):
                        yield entry, f"{n} {'x'.join(map(str, shape))} {layout}", *draw.call_arguments(given)


# --- recording ---
def packed(torch, x):
    if isinstance(x, torch.Tensor):
        n = 1 + sum((s - 1) * k for s, k in zip(x.shape, x.stride())) if x.numel() else 0
        flat = x.as_strided((n,), (1,))
        elements = flat.double().tolist() if flat.is_floating_point() else flat.tolist()
        return "tensor", str(x.dtype).rpartition(".")[2], elements, tuple(x.shape), x.stride()
    if isinstance(x, (list, tuple)):
        return "list", [packed(torch, v) for v in x]
    name = str(x).rpartition(".")
    return ("named", name[2]) if name[0] in ("torch", "cresset") else ("plain", x)


def unpacked(torch, x):
    if x[0] == "tensor":
        return torch.tensor(x[2], dtype=getattr(torch, x[1])).as_strided(x[3], x[4])
    return [unpacked(torch, v) for v in x[1]] if x[0] == "list" else getattr(torch, x[1]) if x[0] == "named" else x[1]


def draw_calls(file):
    import cresset as torch
    calls = {}
    for entry, key, args, kwargs in drawn():
        try:
            given = pickle.dumps(([packed(torch, a) for a in args], {k: packed(torch, v) for k, v in kwargs.items()}))
        except (RuntimeError, TypeError, AttributeError, pickle.PicklingError):
            continue
        calls.setdefault(entry.key, []).append((entry.name, key, given))
    with open(file, "wb") as out:
        pickle.dump(calls, out)


def record_entry(torch, calls):
    found = {}
    for name, key, given in calls:
        args, kwargs = pickle.loads(given)
        try:
            call = getattr(torch.ops.aten, name)
            result = call(*[unpacked(torch, a) for a in args], **{k: unpacked(torch, v) for k, v in kwargs.items()})
        except (RuntimeError, TypeError, IndexError, NotImplementedError):
            continue
        found[key] = described(torch, result)
    return found


def record_calls(file):
    import torch
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with open(file, "rb") as source:
        calls = pickle.load(source)
    found = {}
    for entry, of in calls.items():
        if not hasattr(torch.ops.aten, of[0][0]):
            continue
        reader, writer = os.pipe()
        child = os.fork()  # some of torch's operators end the process
        if not child:
            try:
                os.write(writer, json.dumps(record_entry(torch, of)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as made:
            text = made.read()
        os.waitpid(child, 0)
        if text and json.loads(text):
            found[entry] = json.loads(text)
    with lzma.open(FILE, "wt", preset=9) as out:
        json.dump(found, out, separators=(",", ":"))


if __name__ == "__main__":
    {"draw": draw_calls, "record": record_calls}[sys.argv[1]](sys.argv[2])
