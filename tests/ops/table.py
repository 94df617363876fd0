"""Test cases from the operator table.

Every entry with a `ref` or a derivative is drawn from its schema: tensors of shape (3, 4), numbers
and lists at their defaults.  The clause `sample` narrows that; its cases are separated by `|`, their
settings by `;`:
    NAME LOW HIGH     the range of a tensor's values
    NAME = EXPR       the argument itself; t(3, 4) is a random tensor of the tested dtype, i(n, 3, 4)
                      random indices below n, b(3, 4) random truth values, ones/zeros as named
    none: WHY         the entry is not drawn; tests/fuzz/calls_fuzz.c alone draws the cases after it
"""
import math

import numpy

import cresset as torch
from cresset import _C

FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTS = ("uint8", "int8", "int16", "int32", "int64")


class Entry:
    def __init__(self, record):
        self.__dict__.update(record)
        self.key = self.name + ("." + self.overload if self.overload else "")

    def __repr__(self):
        return self.key

    def call(self, args, kwargs, **more):
        return getattr(_C.ops, self.name)(*args, **kwargs, **more)

    @property
    def tensor_params(self):
        return [p for p in self.params if p["type"] in ("Tensor", "Tensor[]")]

    def cases(self):
        return [c.strip() for c in self.sample.split("|")] if self.sample else [""]

    def can_be_drawn(self):
        return not self.sample.startswith("none")

    def has_other_order(self, dtype):
        """The host adds in another order than the composition, of results of this dtype."""
        return "other_order" in self.words and (not self.kernel_dtypes or dtype in self.kernel_dtypes)


ENTRIES = [Entry(r) for r in _C._records()]
BY_KEY = {e.key: e for e in ENTRIES}


class Draw:
    """Draws the arguments of one case: NumPy arrays (in `arrays`, by parameter) and call arguments."""

    def __init__(self, entry, case, dtype, seed=0, shape=(3, 4), requires_grad=False):
        self.entry, self.dtype, self.shape, self.requires_grad = entry, dtype, shape, requires_grad
        self.random = numpy.random.default_rng(seed)
        self.ranges, self.given = {}, {}
        for setting in filter(None, (s.strip() for s in case.split(";"))):
            if "=" in setting:
                name, _, text = setting.partition("=")
                self.given[name.strip()] = text.strip()
            else:
                name, low, high = setting.split()
                self.ranges[name] = (float(low), float(high))
        self.values = {}
        for p in entry.params:
            self.values[p["name"]] = self.draw(p)

    def array(self, name, shape):
        low, high = self.ranges.get(name, (-2.0, 2.0))
        if self.dtype == "bool":
            return self.random.random(shape) < 0.5
        if self.dtype in INTS:
            low, high = math.ceil(low), math.floor(high)
            if self.dtype == "uint8":
                low = max(low, 0)
            if name in self.ranges and low > 0 or low == high == 0:
                low, high = 1, max(high, 3)
            return self.random.integers(low, high + 1, shape).astype(self.dtype)
        x = self.random.uniform(low, high, shape)
        if self.dtype in COMPLEX:
            return (x + 1j * self.random.uniform(low, high, shape)).astype(self.dtype)
        return x.astype(self.dtype if self.dtype in FLOATS else "float32")

    def tensor(self, array):
        t = torch.from_numpy(numpy.array(array, order="C"))
        if self.dtype in HALVES and t.dtype == torch.float32:
            t = t.to(getattr(torch, self.dtype))
        if self.requires_grad and (t.is_floating_point() or t.is_complex()):
            t.requires_grad_(True)
        return t

    def draw(self, p):
        name = p["name"]
        if name in self.given:
            words = {"t": lambda *s: self.tensor(self.array(name, s)),
                     "i": lambda n, *s: torch.from_numpy(numpy.asarray(self.random.integers(0, n, s))),
                     "b": lambda *s: torch.from_numpy(numpy.asarray(self.random.random(s) < 0.5)),
                     "ones": torch.ones, "zeros": torch.zeros, "inf": math.inf, "nan": math.nan, "numpy": numpy, "torch": torch}
            for d in INTS + FLOATS + HALVES + COMPLEX + ("bool",):
                words[d] = getattr(torch, d)
            return eval(self.given[name], words)
        if p["optional"] and not p["has_default"]:
            return None
        if p["type"] == "Tensor" and not p["has_default"]:
            if p["mask"]:
                return torch.from_numpy(self.random.random(self.shape) < 0.5)
            return self.tensor(self.array(name, self.shape))
        if p["type"] == "Tensor[]" and not p["has_default"]:
            return [self.tensor(self.array(name, self.shape)) for _ in range(2)]
        if p["has_default"]:
            return p["default"]
        if p["type"] == "int":
            return 0 if name.startswith("dim") else 1
        if p["type"] in ("Scalar", "float"):
            return 2 if self.dtype in INTS else 0.75
        if p["type"] == "bool":
            return False
        if p["type"] == "int[]":
            return [0] if name.startswith("dim") else list(self.shape)
        if p["optional"]:
            return None
        raise ValueError(f"{self.entry.key}: no way to draw {p['type']} {name}; say so in `sample`")

    def call_arguments(self, values=None):
        values = self.values if values is None else values
        args, kwargs = [], {}
        for p in self.entry.params:
            v = values[p["name"]]
            if not p["keyword_only"]:
                args.append(v)
            elif not (p["has_default"] and v is p["default"]):
                kwargs[p["name"]] = v
        return args, kwargs

    def run(self, values=None, **more):
        args, kwargs = self.call_arguments(values)
        return self.entry.call(args, kwargs, **more)

    def names(self):
        """Names of a `ref` expression: arrays (half types as float32, integers as int64) and plain values."""
        def plain(v):
            if isinstance(v, torch.Tensor):
                v = v.detach()
                if v.dtype in (torch.float16, torch.bfloat16):
                    return v.float().numpy()
                return v.numpy().astype(numpy.int64) if str(v.dtype)[6:] in INTS else v.numpy()
            if isinstance(v, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in v):
                return [plain(x) for x in v]
            return v
        return {k: plain(v) for k, v in self.values.items()}


def leaves(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from leaves(v)


def as_array(t):
    t = t.detach().resolve_conj().resolve_neg()
    return (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t).numpy()


def reference(entry, draw):
    from scipy import special

    names = draw.names()
    for k in ("dim", "dims", "axis"):
        if isinstance(names.get(k), list):
            names[k] = tuple(names[k]) or None
    return eval(entry.ref, {"numpy": numpy, "special": special, "math": math, **names})
