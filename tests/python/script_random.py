"""Random TorchScript modules, and random calls of them, for comparisons of the ways to run them.

    python tests/python/script_random.py [--first SEED] [--count N] [--show]

A case is a source text with a module, its parts and functions, and a list of things that a program does with it: calls with
tensors of other geometry, identity and memory, changes of attributes, modes, copies, threads, writes to results.  All is made
from one seed.  `observe` runs a case and returns what a program can see; it must not depend on the way to run.
"""
import argparse
import contextlib
import copy
import ctypes
import gc
import hashlib
import io
import linecache
import os
import random
import re
import sys
import tempfile
import threading
import warnings

LIBC = ctypes.CDLL(None)

HEADER = '''import warnings
from typing import Dict, List, Optional, Tuple, NamedTuple
import {root} as torch
from {root} import Tensor, nn
import {root}.nn.functional as F


class Box(object):
    def __init__(self, x: Tensor, n: int):
        self.x = x
        self.n = n

    def add(self, y: Tensor) -> Tensor:
        self.n += 1
        self.x = self.x + y
        return self.x * self.n


class Two(NamedTuple):
    first: Tensor
    n: int

'''


class Text:
    """Makes a body of statements whose values have known types."""

    def __init__(self, r, members, functions, calm=False):
        self.r, self.members, self.functions, self.calm = r, members, functions, calm
        self.lines, self.names, self.depth, self.count = [], {}, 1, 0
        self.wild = r.random() < 0.25 and not calm  # effects, elements and errors are frequent
        self.plain = calm or not self.wild and r.random() < 0.7  # none

    def pick(self, *choices):
        return self.r.choice(choices)

    def put(self, line):
        self.lines.append("    " * (self.depth + self.members) + line)

    def new(self, kind, text):
        self.count += 1
        name = f"v{self.count}"
        self.put(f"{name} = {text}")
        self.names.setdefault(kind, []).append(name)
        return name

    def var(self, kind):
        return self.r.choice(self.names[kind])

    def has(self, kind):
        return bool(self.names.get(kind))

    # --- expressions ---

    def number(self):
        options = [str(self.r.randint(-2, 4)), "0.5", "2.0"]
        if self.has("i"):
            options += [self.var("i")] * 2
        if self.members:
            options += ["self.k", "self.n"]
        x = self.var("T")
        options += [f"{x}.size(0)", f"{x}.dim()", f"{x}.numel()", f"len({x})"]
        return self.r.choice(options)

    def integer(self):
        x = self.var("T")
        options = ["1", "2", "3", f"{x}.size(-1)", f"{x}.dim()"] + (self.names.get("i") or [])[-2:] + ["self.n"] * self.members
        if self.wild:
            options += [f"int({x}.sum())", f"{x}.nonzero().size(0)", f"len({self.var('L')})" if self.has("L") else "4"]
        return self.r.choice(options)

    def view(self, x):
        return x + self.pick(".t()", "[0]", "[:, 1:]", "[..., 0]", ".view(-1)", ".transpose(0, 1)", ".unsqueeze(0)", ".detach()", ".contiguous()", ".flatten()",
                             ".narrow(0, 0, 1)", ".permute(1, 0)", ".chunk(3)[0]", ".split(1)[1]", ".unbind(0)[0]", ".expand(3, 3)", ".reshape(3, 3)", "[1:]",
                             ".select(1, 0)", ".squeeze()", ".diagonal()", ".view_as(" + self.var("T") + ")", ".to(torch.float32)", ".expand_as(" + self.var("T") + ")", ".T",
                             ".as_strided([3], [1])", ".movedim(0, 1)", ".real", ".data" if self.wild else "[:]", ".swapaxes(0, 1)", ".unfold(0, 2, 1)", "[None]")

    def tensor(self, deep=2):
        x = self.var("T")
        if deep == 0 or self.r.random() < 0.1:
            return x
        y, n = self.tensor(deep - 1), self.number()
        options = [f"{x} {self.pick('+', '-', '*')} {y}", f"{x} + {n}", f"{x} * {n}", f"torch.{self.pick('tanh', 'relu', 'sigmoid', 'exp', 'abs', 'neg', 'sin')}({y})",
                   self.view(x), self.view(x), f"F.{self.pick('gelu', 'relu', 'silu')}({y})", f"{y}.sum()", f"{y}.sum(0)", f"{y}.mean(-1, keepdim=True)", f"torch.cat([{x}, {x}])",
                   f"torch.softmax({x}, -1)", f"torch.where({x} > 0, {x}, {y})", f"{y}.clone()", f"torch.zeros_like({x}) + {n}", f"torch.ones(3, 3) * {n}", f"torch.full_like({x}, {n})",
                   f"torch.arange({x}.size(0))", f"{y}.to({self.var('T')}.dtype)", f"torch.stack([{x}, {x}]).sum(0)", f"{x}.max()", f"{x}.max(-1)[0]", f"{x}.max(0)[1]", f"{x}.cumsum(0)",
                   f"{x}.clamp(-1, 1)", f"{x}.pow(2)", f"{x} @ {x}", f"F.linear({x}, {x})", f"torch.tril({x})", f"{x}.masked_fill({x} > 0, 0.5)", f"{x}.type_as({self.var('T')})",
                   f"torch.zeros({x}.size(0), 3, dtype={x}.dtype)", f"{x}.new_zeros({x}.size(0))", f"F.layer_norm({x}, [{x}.size(-1)])", f"{x}.index_select(0, torch.tensor([0, 0]))", f"{x}.flip(0)",
                   f"{x}.new_empty([3]).fill_({n})", f"torch.empty_like({x}).copy_({y})", f"{x}[torch.tensor([0, 1])]", f"torch.sort({x})[0]", f"{x}.topk(1)[0]"]
        if self.members:
            options += ["self.a", "self.b", "self.a", "self.p", "self.q"] * 2 + [f"self.one({x})", f"self.two({x})", f"self.one({y}) + self.two({x})", f"F.linear({x}, self.p)", f"F.linear({x}, self.p, self.a[0])",
                        f"self.a * {x}", f"{x} + self.b", f"self.a.t() + {x}", f"{x} * self.k", f"self.deep.inner({x})", f"torch.addmm(self.a, {x}, self.p)", f"{x} * self.n"]
            if not self.plain:
                options += [f"self.bn({x})", f"self.pair[0] + {x}", f"self.parts[0] * {x}", f"self.named['a'] + {x}", f"self.box.x + {x}", f"{x} * self.pair[1]"]
        options += [f"{f}({x}, {y})" for f in self.functions] * 2
        if self.has("L"):
            options += [f"{self.var('L')}[0]", f"{self.var('L')}[-1] + {x}", f"torch.stack({self.var('L')}).sum(0)", f"torch.cat({self.var('L')})"]
        if self.has("P"):
            options += [f"{self.var('P')}[0]", f"{self.var('P')}[0] * {self.var('P')}[1]"]
        if self.has("D"):
            options += [f"{self.var('D')}['a']"]
        if self.wild:
            options += [f"{x} * float({x}.sum())", f"{x}[{x} > 0]", f"torch.rand(3)", f"torch.rand_like({x}) + {x}", f"F.dropout({x}, 0.5)", f"torch.tensor({x}.size())", f"torch.bernoulli({x}.sigmoid())",
                        f"torch.unique({x})", f"{x} * {x}.item()", f"torch.tensor([float({x}.mean())])", f"torch.randn(3, 3)", f"torch.nonzero({x})", f"torch.full([3], {x}.max().item())"]
            if self.members:
                options += [f"self.drop({x})"] * 2 + [f"self.box.add({x})"]
        return self.r.choice(options)

    def truth(self):
        x = self.var("T")
        options = [f"{x}.size(0) > 2", f"{x}.dim() == 2", f"{x}.is_contiguous()", f"{x}.dtype == torch.float32", f"{self.number()} > 1", f"{x}.shape == {self.var('T')}.shape", f"{x}.numel() > 3"]
        if self.calm:
            return self.r.choice(options + ["self.training", "self.on", "self.n > 2", "self.one.k > 0.0"] * bool(self.members))
        options += [f"{x} is {self.var('T')}", f"{x}.requires_grad", "torch.is_grad_enabled()", f"{x}.is_floating_point()", f"{x}.is_leaf", f"{x}.is_complex()", f"{x}.stride(0) == 1", f"{x}.storage_offset() == 0",
                    f"{x}.is_inference()"]
        if self.members:
            options += ["self.training", "self.on", "self.s == 'a'", f"{x} is self.a", "self.a is self.b", "self.n > 2", "self.maybe is None", "self.one.k > 0.0", "len(self.items) > 2", "self.p.requires_grad"]
        if self.wild:
            options += [f"bool({x}.sum() > 0)", f"{x}.any()", f"torch.equal({x}, {self.var('T')})", f"torch.allclose({x}, {self.var('T')})"]
        return self.r.choice(options)

    # --- statements ---

    def change(self):
        """A write in place."""
        own = [n for n in self.names["T"] if n.startswith("v")]
        x = self.r.choice(own or self.names["T"]) if not self.wild else self.var("T")
        y, n = self.tensor(1), self.number()
        options = [f"{x}.add_({n})", f"{x}.mul_({y})", f"{x}[0] = {n}", f"{x}[:, 1] += 1", f"{x}.zero_()", f"{x}.copy_({y})", f"F.relu_({x})", f"{x} += {y}", f"{x} *= 2", f"{x}.fill_({n})", f"{x}.t().add_({n})", f"{x}.view(-1)[0] = {n}",
                   f"{x}.clamp_(-1, 1)", f"{x}.masked_fill_({x} > 0, 1.0)", f"{x}.lerp_({y}, 0.5)", f"torch.add({x}, 1, out={x})", f"{x}.detach().mul_(2)", f"{x}[1:].sub_(1)", f"{x}.index_add_(0, torch.tensor([0]), {x}[:1])", f"{x}.data.add_(1)"]
        if self.wild:
            options += [f"{x}.t_()", f"{x}.unsqueeze_(0)", f"{x}.resize_(2, 2).zero_()", f"{x}.squeeze_()", f"{x}.transpose_(0, 1)", f"{x}.detach_()", f"{x}.requires_grad_()", f"{x}.uniform_()", f"{x}.set_({y})", f"{x}.normal_()"]
            if self.members:
                options += ["self.a.add_(1)", "self.b.mul_(2)", f"self.a[0] = {n}", "self.p.detach().add_(1)", "self.one.w.add_(1)", "self.parts[0].add_(1)", "self.named['a'].mul_(2)", f"self.box.x.add_(1)", f"self.q.copy_({y})", "self.pair[0].add_(1)"] * 2
            if self.has("L"):
                options += [f"{self.var('L')}[0].add_(1)"] * 3
        self.put(self.r.choice(options))

    def effect(self):
        x, n = self.var("T"), self.number()
        options = [f"print('seen', {n})", f"print({x}.dim(), {x}.size(0))", f"assert {self.truth()}, 'asserted'", "warnings.warn('careful')", f"raise ValueError('no ' + str({self.integer()}))" if self.r.random() < 0.2 else "pass",
                   f"torch.manual_seed({self.r.randint(0, 9)})" if self.r.random() < 0.3 else "pass"]
        if self.members:
            options += ["self.n += 1", "self.k = self.k * 2", f"self.a = {self.tensor(1)}", f"self.b = self.a", f"self.items.append({self.integer()})", f"self.parts[0] = {self.tensor(1)}", f"self.named['b'] = {self.tensor(1)}", "self.on = not self.on",
                        f"self.maybe = {self.tensor(1)}", "self.maybe = None", f"self.box = Box({x}, 1)", "self.box.n += 1", "self.one.k += 1.0", f"self.pair = ({x}, 3)", "self.s = self.s + 'b'"]
        self.put(self.r.choice(options))

    def inside(self, head, least=1):
        self.put(head)
        self.depth += 1
        known = {k: list(v) for k, v in self.names.items()}
        for _ in range(self.r.randint(least, 2)):
            self.statement(False)
        own = [n for n in known["T"] if n.startswith("v")]
        if own:
            self.put(f"{self.r.choice(own)} = {self.tensor(1)}")
        self.names = known
        self.depth -= 1

    def statement(self, top=True):
        p = self.r.random()
        if p < 0.3:
            self.new("T", self.tensor())
        elif p < 0.48:
            self.change() if not self.plain else self.new("T", self.tensor(3))
        elif p < 0.5 + 0.06 * self.wild and not self.plain:
            self.effect()
        elif p < (0.59 if self.plain else 0.64):
            self.new("L", f"[{self.tensor(1)}, {self.var('T')}]")
            if self.r.random() < 0.6:
                self.put(f"{self.var('L')}.append({self.tensor(1)})")
        elif p < 0.68:
            self.new("P", f"({self.tensor(1)}, {self.integer()})")
        elif p < 0.71:
            self.new("D", "{'a': " + self.tensor(1) + ", 'b': " + self.var("T") + "}")
        elif p < 0.75:
            self.new("i", self.integer() + " + 1")
        elif self.depth > 2:
            self.new("T", self.tensor(1))
        elif p < 0.83:
            self.inside(f"if {self.truth()}:")
            if self.r.random() < 0.5:
                self.inside("else:")
        elif p < 0.9:
            self.inside(f"for i{self.depth} in range({self.r.choice([self.integer(), '2', '3'])}):" if not self.members or self.r.random() < 0.7 else f"for i{self.depth} in self.items:")
        elif p < 0.93:
            self.inside(self.pick("with torch.no_grad():", "with torch.no_grad():", "with torch.enable_grad():"))
        elif p < 0.95 and self.members and not self.plain:
            x = self.new("O", "self.maybe")
            self.put(f"if {x} is not None:")
            self.put(f"    {self.new_name()} = {x} * 2")
        elif p < 0.97 and not self.plain:
            b = self.new("B", f"Box({self.var('T')}, {self.integer()})")
            self.new("T", f"{b}.add({self.var('T')})")
        elif p < 0.985 and self.functions and not self.plain:
            self.new("F", f"torch.jit.fork({self.r.choice(self.functions)}, {self.var('T')}, {self.var('T')})")
            self.new("T", f"torch.jit.wait({self.var('F')})")
        else:
            self.new("T", f"Two({self.var('T')}, 2).first + 1")

    def new_name(self):
        self.count += 1
        return f"v{self.count}"

    def result(self):
        """The result and its type."""
        t, kind = self.tensor(1), self.r.random() * (0.75 if self.plain else 1)
        if kind < 0.45:
            return t, "Tensor"
        if kind < 0.55:
            return self.var("T"), "Tensor"
        if kind < 0.65:
            return f"({t}, {self.var('T')})", "Tuple[Tensor, Tensor]"
        if kind < 0.75:
            return (self.var("L") if self.has("L") and self.r.random() < 0.7 else f"[{t}, {self.var('T')}]"), "List[Tensor]"
        if kind < 0.8:
            return f"{{'x': {t}, 'y': {self.var('T')}}}", "Dict[str, Tensor]"
        if kind < 0.84:
            return f"({t}, {self.integer()})", "Tuple[Tensor, int]"
        if kind < 0.88:
            return self.integer(), "int"
        if kind < 0.91:
            return f"({t}, ({self.var('T')}, [{self.var('T')}]))", "Tuple[Tensor, Tuple[Tensor, List[Tensor]]]"
        if kind < 0.94:
            return (f"{t} if {self.truth()} else None"), "Optional[Tensor]"
        if kind < 0.96 and self.has("B"):
            return f"{self.var('B')}.x", "Tensor"
        if kind < 0.98:
            return f"Two({t}, {self.integer()})", "Two"
        return "None", "None"


PARAMETERS = [("n", "int", "i"), ("o", "Optional[Tensor]", "O"), ("l", "List[Tensor]", "L"), ("w", "Tuple[Tensor, int]", "P"), ("d", "Dict[str, Tensor]", "D"), ("k", "float", "f"), ("e", "bool", "e"), ("m", "List[int]", "li"), ("z", "str", "z")]


def function_text(r, name, head, members, functions, parameters, least, most, calm):
    t = Text(r, members, functions, calm)
    t.names = {"T": ["x", "y"]}
    for p, _, kind in parameters:
        t.names.setdefault({"O": "O", "f": "f"}.get(kind, kind), []).append(p)
    if t.has("O"):
        t.put("if o is None:")
        t.put("    o = x" if r.random() < 0.5 else "    o = y + 1")
        t.names["T"].append("o")
    for _ in range(r.randint(least, most)):
        t.statement()
    text, kind = t.result()
    t.put(f"return {text}")
    return head + f" -> {kind}:\n" + "\n".join(t.lines) + "\n", kind


def is_calm(seed):
    """Whether the case has no effects, writes and elements: half of all, and most of them use programs."""
    return seed % 2 == 1


def source_of(seed):
    """The text of a case, and the names of the parameters of its module."""
    r, calm = random.Random(seed), is_calm(seed)
    text = HEADER
    functions = []
    for k in range(r.randint(0, 2)):
        t = Text(r, 0, list(functions), calm)
        t.names = {"T": ["x", "y"]}
        for _ in range(r.randint(1, 4)):
            t.statement()
        t.put(f"return {t.tensor(1)}")
        text += f"\n\ndef g{k}(x: Tensor, y: Tensor) -> Tensor:\n" + "\n".join(t.lines) + "\n"
        functions.append(f"g{k}")
    for name, base in (("Part", "x * self.k + self.w"), ("Other", "F.linear(x, self.w)"), ("Third", "self.w.mul_(1.5) + x"), ("Fourth", "torch.tanh(x) * self.w")):
        text += f"\n\nclass {name}(nn.Module):\n    k: float\n\n    def __init__(self):\n        super().__init__()\n        self.k = 2.0\n        self.register_buffer('w', torch.linspace(0, 1, 9).reshape(3, 3))\n\n    def forward(self, x: Tensor) -> Tensor:\n"
        if name == "Third" and r.random() < 0.7:
            base = "x - self.w"
        text += "        if self.training:\n            x = x + 1\n" * (r.random() < 0.3) + f"        return {base}\n"
    text += "\n\n@torch.jit.interface\nclass Shape(nn.Module):\n    def forward(self, x: Tensor) -> Tensor:\n        pass\n\n\nclass Deep(nn.Module):\n    inner: Shape\n\n    def __init__(self):\n        super().__init__()\n        self.inner = Part()\n\n    def forward(self, x: Tensor) -> Tensor:\n        return self.inner.forward(x)\n"
    parameters = r.sample([p for p in PARAMETERS if not calm or p[0] in "noke"], r.choice([0, 0, 0, 0, 0, 1, 1, 2, 3]))
    parts = [r.choice(["Part", "Other", "Fourth"] + ["Third"] * (not calm)) for _ in range(2)]
    text += f'''

class M(nn.Module):
    k: float
    n: int
    s: str
    on: bool
    pair: Tuple[Tensor, int]
    maybe: Optional[Tensor]
    items: List[int]
    parts: List[Tensor]
    named: Dict[str, Tensor]
    box: Box

    def __init__(self):
        super().__init__()
        self.k, self.n, self.s, self.on, self.maybe, self.items = 1.5, 2, "a", True, None, [1, 2]
        self.register_buffer("a", torch.linspace(-1, 2, 9).reshape(3, 3))
        self.register_buffer("b", torch.linspace(2, -1, 9).reshape(3, 3))
        self.p = nn.Parameter(torch.linspace(-2, 2, 9).reshape(3, 3), requires_grad={r.random() < 0.2})
        self.q = torch.ones(3, 3)
        self.pair, self.parts, self.named = (torch.ones(3), 4), [torch.ones(3, 3)], {{"a": torch.ones(3, 3) * 2}}
        self.one, self.two, self.deep = {parts[0]}(), {parts[1]}(), Deep()
        self.bn, self.drop, self.box = nn.BatchNorm1d(3), nn.Dropout(0.5), Box(torch.ones(3), 1)
'''
    head = "\n    def forward(self, x: Tensor, y: Tensor" + "".join(f", {p}: {t}" for p, t, _ in parameters) + ")"
    body, _ = function_text(r, "forward", head, 1, functions, parameters, 1, 7, calm)
    body = body.replace("self.deep.inner(", "self.deep.inner.forward(")
    text = text.replace("self.deep.inner(", "self.deep.inner.forward(")
    return text + body, [p for p, _, _ in parameters], functions


# --- running ---


@contextlib.contextmanager
def printed():
    """Keeps what is written to file descriptor 1; gives a function that returns it."""
    text = []
    sys.stdout.flush()
    was = os.dup(1)
    with tempfile.TemporaryFile() as f:
        os.dup2(f.fileno(), 1)
        try:
            yield lambda: "".join(text)
        finally:
            sys.stdout.flush()
            LIBC.fflush(None)
            os.dup2(was, 1)
            os.close(was)
            f.seek(0)
            text.append(f.read().decode())


class Case:
    """One run of a case with one library."""

    def __init__(self, torch, seed, mode):
        self.torch, self.seed, self.mode = torch, seed, mode
        self.text, self.parameters, self.functions = source_of(seed)
        self.root = torch.__name__
        self.seen, self.results, self.copies, self.most = [], [], [], 0

    def module(self):
        text = self.text.replace("{root}", self.root)
        name = f"<case {self.seed}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space = {"__name__": f"case_{self.seed}"}
        made = sys.modules.setdefault(f"case_{self.seed}", type(sys)(f"case_{self.seed}"))
        made.__dict__.update(space, __file__=name)
        exec(compile(text, name, "exec"), made.__dict__)
        self.space = made.__dict__
        self.torch.jit.script(self.space["Box"])
        return self.torch.jit.script(self.space["M"]())

    # --- values ---

    def pool(self):
        torch = self.torch
        base = torch.linspace(-2, 2, 18).reshape(3, 6)
        with torch.inference_mode():
            inner = torch.linspace(-1, 1, 9).reshape(3, 3)

        class Sub(torch.Tensor):
            pass

        leaf = torch.linspace(0, 3, 9).reshape(3, 3).requires_grad_()
        pool = {"c": torch.linspace(-1, 1, 9).reshape(3, 3), "d": torch.linspace(3, -2, 9).reshape(3, 3), "t": torch.linspace(-1, 3, 9).reshape(3, 3).t(), "s": base[:, :3], "u": base[:, 3:], "s2": base[:, :3], "e": torch.ones(1, 3).expand(3, 3),
                "leaf": leaf, "node": leaf * 2, "view of leaf": leaf[:], "f64": torch.linspace(-1, 1, 9, dtype=torch.float64).reshape(3, 3), "i64": torch.arange(9).reshape(3, 3), "bool": torch.arange(9).reshape(3, 3) % 2 == 0,
                "small": torch.linspace(-1, 1, 6).reshape(2, 3), "one": torch.ones(1, 3), "none": torch.ones(0, 3), "deep": torch.linspace(-1, 1, 27).reshape(3, 3, 3), "zero dim": torch.tensor(2.0), "row": torch.ones(3), "inner": inner,
                "sub": torch.ones(3, 3).as_subclass(Sub), "parameter": torch.nn.Parameter(torch.ones(3, 3)), "frozen": torch.nn.Parameter(torch.ones(3, 3), requires_grad=False), "c64": torch.ones(3, 3, dtype=torch.complex64) * (1 + 2j),
                "conj": (torch.ones(3, 3, dtype=torch.complex64) * (1 + 2j)).conj(), "f16": torch.ones(3, 3, dtype=torch.float16), "wide": torch.linspace(-1, 1, 12).reshape(3, 4), "nan": torch.full((3, 3), float("nan"))}
        try:
            import numpy
            self.array = numpy.linspace(0, 1, 9, dtype="float32").reshape(3, 3)
            pool["numpy"] = torch.from_numpy(self.array)
        except ImportError:
            self.array = None
        return pool

    def bits(self, v):
        torch = self.torch
        if isinstance(v, torch.Tensor):
            try:
                d = v.detach()
                d = d.resolve_conj().resolve_neg()
                data = d.contiguous().reshape(-1)
                data = [repr(x) for x in data.tolist()]
                data = data if len(data) <= 9 else hashlib.md5(repr(data).encode()).hexdigest()
            except Exception as e:
                data = type(e).__name__
            return (type(v).__name__, str(v.dtype), tuple(v.shape), v.stride(), v.storage_offset(), v.requires_grad, v.is_leaf, self.maker(v), v.is_inference(), v.is_conj(), v._is_view(), None if v.is_inference() else v._version, data)
        if isinstance(v, (list, tuple)):
            return [type(v).__name__.split(".")[-1]] + [self.bits(i) for i in v]
        if isinstance(v, dict):
            return {k: self.bits(i) for k, i in v.items()}
        if isinstance(v, (int, float, str, bool, type(None))):
            return repr(v)
        return type(v).__name__

    def maker(self, t):
        try:
            return type(t.grad_fn).__name__
        except RuntimeError as e:  # of a view under no_grad whose base was written
            return self.clean(str(e))

    def tensors(self, v):
        if isinstance(v, self.torch.Tensor):
            return [v]
        if isinstance(v, dict):
            v = list(v.values())
        return [t for i in v for t in self.tensors(i)] if isinstance(v, (list, tuple)) else []

    def attributes(self, m):
        all = {}
        for place, o, names in (("", m, ("k", "n", "s", "on", "pair", "maybe", "items", "parts", "named", "a", "b", "p", "q", "training")), ("one.", getattr(m, "one", None), ("k", "w", "training")), ("two.", getattr(m, "two", None), ("k", "w")), ("bn.", getattr(m, "bn", None), ("running_mean", "num_batches_tracked"))):
            for n in names:
                try:
                    all[place + n] = getattr(o, n)
                except Exception as e:
                    all[place + n] = type(e).__name__
        try:
            all["box.x"], all["box.n"] = m.box.x, m.box.n
        except Exception as e:
            all["box.x"] = type(e).__name__
        return all

    def relations(self, found, known):
        def address(t):
            try:
                return t.untyped_storage().data_ptr()
            except Exception:
                return None
        out = []
        for i, t in enumerate(found):
            others = [(n, k) for n, k in known] + [(f"result {j}", u) for j, u in enumerate(found[:i])]
            out.append([(n, t is k, t.storage_offset() == k.storage_offset()) for n, k in others if t is k or (address(t) and address(t) == address(k))])
        return out

    # --- actions ---

    def arguments(self, r, pool):
        usual = ["c", "d", "c", "d", "t", "s", "u"]
        odd = list(pool)
        def one():
            if self.m is not None and r.random() < 0.05:
                return getattr(self.m, r.choice("abpq"), pool["c"])
            if r.random() < 0.03:
                a = getattr(self.m, "a", pool["c"])  # a frozen module may lack it
                return r.choice([a.t(), a[:], a.detach()])
            if r.random() < 0.03:
                with self.torch.no_grad():
                    return r.choice([pool["leaf"][:], pool["node"].view(-1), pool["parameter"].t(), pool["frozen"][1:]])
            if r.random() < 0.02:
                return pool["c"].double() if r.random() < 0.5 else pool["c"].bfloat16()
            if self.results and r.random() < 0.05:
                return r.choice(self.results)
            return pool[r.choice(usual if r.random() < 0.8 else odd)]
        x = one()
        y = x if r.random() < 0.15 else one()
        more = {"n": lambda: r.choice([1, 2, 2, 3]), "o": lambda: r.choice([None, one()]), "l": lambda: [one(), one()], "w": lambda: (one(), 2), "d": lambda: {"a": one(), "b": one()}, "k": lambda: r.choice([0.5, 0.5, 2.0, -0.0]), "e": lambda: r.random() < 0.5,
                "m": lambda: [1, r.randint(1, 3)], "z": lambda: r.choice(["a", "b"])}
        return [x, y] + [more[p]() for p in self.parameters]

    @contextlib.contextmanager
    def default_dtype(self):
        torch = self.torch
        was = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(was)

    @contextlib.contextmanager
    def deterministic(self):
        self.torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            self.torch.use_deterministic_algorithms(False)

    @contextlib.contextmanager
    def threads(self):
        was = self.torch.get_num_threads()
        self.torch.set_num_threads(1)
        try:
            yield
        finally:
            self.torch.set_num_threads(was)

    @contextlib.contextmanager
    def dispatched(self):
        from importlib import import_module
        base = import_module(self.root + ".utils._python_dispatch").TorchDispatchMode
        names = []

        class Mode(base):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                names.append(str(func))
                return func(*args, **(kwargs or {}))
        with Mode():
            yield
        self.seen.append(("dispatched", names))

    @contextlib.contextmanager
    def saved(self):
        kept = []
        with self.torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
            yield
        self.seen.append(("saved", kept))

    @contextlib.contextmanager
    def flushed(self):
        self.torch.set_flush_denormal(True)
        try:
            yield
        finally:
            self.torch.set_flush_denormal(False)

    @contextlib.contextmanager
    def profiled(self):
        with self.torch.autograd.profiler.profile() as p:
            yield
        self.seen.append(("profiled", sorted({e.name for e in p.function_events})))

    @contextlib.contextmanager
    def overridden(self):
        from importlib import import_module
        names = []

        class Mode(import_module(self.root + ".overrides").TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                names.append(getattr(func, "__name__", str(func)))
                return func(*args, **(kwargs or {}))
        with Mode():
            yield
        self.seen.append(("overridden", names))

    def context(self, r):
        torch = self.torch
        if r.random() < (0.88 if is_calm(self.seed) else 0.72):
            return torch.no_grad() if self.usual_no_grad else contextlib.nullcontext()
        return r.choice([contextlib.nullcontext, torch.no_grad, torch.enable_grad, torch.inference_mode, lambda: torch.autocast("cpu", dtype=torch.bfloat16), self.default_dtype, self.deterministic, self.threads, self.dispatched, self.saved,
                         lambda: torch.jit.optimized_execution(False), lambda: torch.jit.optimized_execution(True), lambda: torch.autograd.set_detect_anomaly(True), lambda: torch.autograd.forward_ad.dual_level(), self.flushed, self.profiled, self.overridden,
                         lambda: torch.autocast("cpu", dtype=torch.bfloat16, enabled=False)])()

    def change(self, r, pool):
        torch, m = self.torch, self.m
        ones = lambda *size: torch.ones(*size) * r.randint(1, 5)
        def copied():
            self.m = copy.deepcopy(m)
        def saved():
            data = io.BytesIO()
            torch.jit.save(m, data)
            data.seek(0)
            self.m = torch.jit.load(data)
        def grads():
            for t in self.results:
                if t.requires_grad and t.is_floating_point():
                    t.sum().backward(retain_graph=True)
        def hooked():
            h = m.register_forward_hook(lambda m, i, o: o)
            self.copies.append(h)
        def unhook():
            if self.copies:
                self.copies.pop().remove()
        def raising():
            def stop(m, args):
                raise KeyError("hook")
            self.copies.append(m.register_forward_pre_hook(stop))
        def replacing():
            self.copies.append(m.register_forward_pre_hook(lambda m, args: (args[0] + 1,) + args[1:]))
        def other():
            self.other = copy.deepcopy(m)
        def denormal():
            pool["c"].fill_(1e-40)
        def array():
            if self.array is not None:
                self.array += 1
        def numbers():
            m.a.numpy()[0] += 1
        actions = [lambda: setattr(m, "k", r.choice([1.5, 3.0, -0.0])), lambda: setattr(m, "n", r.randint(0, 4)), lambda: setattr(m, "s", r.choice("ab")), lambda: setattr(m, "on", r.random() < 0.5), lambda: setattr(m, "maybe", r.choice([None, ones(3)])),
                   lambda: setattr(m, "items", [r.randint(1, 2) for _ in range(r.randint(0, 3))]), lambda: setattr(m, "a", ones(3, 3)), lambda: setattr(m, "a", ones(3)), lambda: setattr(m, "b", m.a), lambda: setattr(m, "a", pool["c"]), lambda: setattr(m, "b", m.a[:]),
                   lambda: setattr(m, "b", m.a.t()), lambda: m.a.mul_(2), lambda: m.a.data.add_(1), lambda: setattr(m.a, "data", ones(3, 3)), lambda: m.train(), lambda: m.eval(), lambda: setattr(m, "two", m.one), lambda: setattr(m, "q", r.choice([m.a, m.p.data, ones(3, 3)])),
                   lambda: setattr(m.one, "w", ones(3, 3)), lambda: setattr(m.one, "k", 5.0), lambda: setattr(m.deep, "inner", torch.jit.script(self.space[r.choice(["Part", "Other", "Fourth"])]())), lambda: m.p.requires_grad_(r.random() < 0.5), lambda: m.a.requires_grad_(r.random() < 0.5),
                   lambda: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}, strict=False), lambda: setattr(m, "p", torch.nn.Parameter(ones(3, 3), requires_grad=False)), lambda: setattr(m, "pair", (ones(3), 2)), lambda: setattr(m, "pair", (m.a, 2)), lambda: setattr(m, "parts", [ones(3, 3), m.a]),
                   lambda: setattr(m, "named", {"a": ones(3)}), lambda: pool["c"].add_(1), lambda: pool["c"].resize_(3, 3).zero_(), lambda: pool.__setitem__("c", ones(3, 3)), lambda: pool.__setitem__("d", pool["c"]), lambda: pool["d"].t_(), lambda: m.double(), lambda: m.float(), copied, saved, grads, hooked, unhook, array, numbers, gc.collect,
                   lambda: [t.add_(1) for t in self.results if not t.requires_grad], lambda: self.results.clear(), lambda: m.a.resize_(3, 3).zero_(), lambda: m.a.set_(ones(3, 3)), lambda: m.drop.train(), lambda: setattr(m.two, "w", m.one.w), lambda: setattr(pool["c"], "requires_grad", r.random() < 0.3), lambda: pool["leaf"].grad is not None and pool["leaf"].grad.zero_(),
                   lambda: pool["c"].register_hook(lambda g: g * 2) if pool["c"].requires_grad else None, lambda: setattr(pool["c"], "data", ones(3, 3)), lambda: pool["c"].detach_(), lambda: setattr(m, "box", self.m.box), lambda: torch.manual_seed(3), lambda: setattr(m, "a", pool["s"]), lambda: setattr(m, "b", pool["u"]), raising, unhook, replacing, unhook, other, other, denormal, lambda: m.bfloat16(), lambda: m.float(), lambda: m.a.grad is None and m.zero_grad(),
                   lambda: setattr(m.two, "w", m.one.w[:]), lambda: m.one.train(), lambda: m.one.w.mul_(2)]
        i = r.randrange(len(actions))
        self.seen.append(("change", i))
        with torch.no_grad():
            actions[i]()

    def at_once(self, f, args):
        """Three threads call at once; their results, and errors."""
        torch, out = self.torch, [None] * 3
        inference, grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

        def work(i):
            try:
                with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                    out[i] = [f(*args) for _ in range(4)]
            except Exception as e:
                out[i] = [type(e).__name__, self.clean(str(e))]
        all = [threading.Thread(target=work, args=(i,)) for i in range(len(out))]
        for t in all:
            t.start()
        for t in all:
            t.join()
        return out

    def copy_meanwhile(self, f, args):
        """Copies and saves the module while another thread calls it; the results of the copy and of the calls."""
        torch, out = self.torch, []
        worker = threading.Thread(target=lambda: out.append(self.at_once(f, args)))
        worker.start()
        copies = [copy.deepcopy(self.m) for _ in range(3)]
        data = io.BytesIO()
        torch.jit.save(self.m, data)
        worker.join()
        data.seek(0)
        copies.append(torch.jit.load(data))
        return out + [c(*args) if f is self.m else None for c in copies]

    def call(self, f, args, way):
        torch = self.torch
        if way == "thread":
            out = []
            inference, grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

            def work():
                try:
                    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                        out.append(f(*args))
                except BaseException as e:
                    out.append(e)
            t = threading.Thread(target=work)
            t.start()
            t.join()
            if isinstance(out[0], BaseException):
                raise out[0]
            return out[0]
        if way == "threads":
            return self.at_once(f, args)
        if way == "copied":
            return self.copy_meanwhile(f, args)
        if way == "dual":
            ad = torch.autograd.forward_ad
            with contextlib.nullcontext() if ad._current_level >= 0 else ad.dual_level():
                made = self.tensors(f(ad.make_dual(args[0], torch.ones_like(args[0])), *args[1:]))
                return [tuple(p) for p in map(ad.unpack_dual, made)]
        if way == "functional":
            return torch.func.functionalize(f)(*args)
        if way == "part":
            return self.m.one(args[0]), self.m.deep(args[1])
        if way == "other":
            other = getattr(self, "other", None) or self.m
            return f(*args), other(*args), f(*args), other(*args)
        if way == "vmap":
            return torch.vmap(f, in_dims=tuple(0 if i < 1 else None for i in range(len(args))))(*args)
        if way == "grad":
            return torch.func.grad(lambda x: self.tensors(f(x, *args[1:]))[0].sum())(args[0])
        if way == "jvp":
            return torch.func.jvp(lambda x: f(x, *args[1:]), (args[0],), (torch.ones_like(args[0]),))
        if way == "trace":
            return torch.jit.trace(f, tuple(args), check_trace=False)(*args)
        if way == "twice":
            return f(*args), f(*args)
        return f(*args)

    def step(self, r, pool):
        torch = self.torch
        p = r.random()
        if p < 0.3 or self.last is None:
            self.last = self.arguments(r, pool)
        if p > (0.88 if is_calm(self.seed) else 0.8):
            try:
                self.change(r, pool)
            except Exception as e:
                self.seen.append(("change fails", type(e).__name__, self.clean(str(e))))
        args = self.last
        ways = ["thread", "vmap", "grad", "jvp", "twice", "trace", "dual", "functional", "part", "other"] + ["threads", "copied"] * is_calm(self.seed)
        way = r.choice(ways) if r.random() < 0.12 else ""
        f = self.m
        if self.functions and r.random() < 0.15:
            f, args = self.scripted, args[:2]
        known = [(f"argument {i}.{j}", t) for i, a in enumerate(args) for j, t in enumerate(self.tensors(a))]
        known += [(k, t) for k, v in self.attributes(self.m).items() for t in self.tensors(v)]
        with warnings.catch_warnings(record=True) as warned, printed() as out:
            warnings.simplefilter("always")
            try:
                with self.context(r):
                    made = self.call(f, args, way)
                found = self.tensors(made)
                self.seen.append(("result", self.bits(made), self.relations(found, known)))
                for t in found:
                    if r.random() < 0.3:
                        self.results.append(t)
                del self.results[:-3]
            except Exception as e:
                self.seen.append(("error", type(e).__name__, self.clean(str(e))))
        self.seen.append(("printed", out(), sorted(self.clean(str(w.message)) for w in warned)))
        self.seen.append(("arguments", [self.bits(a) for a in args]))
        self.seen.append(("attributes", {k: self.bits(v) for k, v in self.attributes(self.m).items()}))
        self.most = max(self.most, self.used())
        self.seen.append(("state", int(torch.get_rng_state().to(torch.int64).mul(torch.arange(torch.get_rng_state().numel()) % 1009 + 1).sum()), torch.is_grad_enabled(), str(torch.get_default_dtype())))

    def clean(self, text):
        text = re.sub(r"\.?___torch_mangle_\d+", "", text)
        return re.sub(r"0x[0-9a-f]+", "address", text).replace(self.root, "torch")

    def run(self, calls=20):
        torch = self.torch
        torch.manual_seed(1)
        r = random.Random(self.seed + 1)
        self.usual_no_grad = r.random() < 0.8 or is_calm(self.seed)
        self.m, self.last = None, None
        self.set_mode(0)
        torch._C._jit_clear_class_registry()
        torch.jit._state._clear_class_state()
        try:
            self.m = self.module()
            if self.functions:
                self.scripted = torch.jit.script(self.space[self.functions[-1]])
        except Exception as e:
            return [("not compiled", type(e).__name__, self.clean(str(e)))]
        if r.random() < 0.7:
            self.m.eval()
        pool = self.pool()
        if r.random() < 0.1:
            try:
                self.m = torch.jit.freeze(self.m.eval())
            except Exception as e:
                self.seen.append(("not frozen", type(e).__name__, self.clean(str(e))))
        modes = random.Random(self.seed + 2)
        torch.manual_seed(2)
        for _ in range(calls):
            self.set_mode(self.mode if self.mode >= 0 else modes.choice([0, 1, 2, 2]))
            self.step(r, pool)
        self.seen.append(("random", torch.rand(1).item()))
        self.set_mode(0)
        return self.seen

    def set_mode(self, mode):
        if hasattr(self.torch._C, "_script_programs"):
            self.torch._C._script_programs(mode)

    def used(self):
        try:
            return self.m._c._programs("forward").count("is used")
        except Exception:
            return 0


def observe(torch, seed, mode, calls=20):
    """What a program sees in a case's calls, and how many programs its forward method used at once."""
    case = Case(torch, seed, mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = case.run(calls)
    return seen, case.most


def difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return i, x, y
    return None if len(a) == len(b) else (min(len(a), len(b)), None, None)


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--show", action="store_true")
    p.add_argument("--calls", type=int, default=20)
    a = p.parse_args()
    import cresset as torch
    compiled = used = errors = results = differ = 0
    why = {}
    for seed in range(a.first, a.first + a.count):
        if a.show:
            print(source_of(seed)[0])
        want, _ = observe(torch, seed, 0, a.calls)
        if want[0][0] == "not compiled":
            key = want[0][2].strip().splitlines()[0][:90]
            why[key] = why.get(key, 0) + 1
            if a.show:
                print(want)
            continue
        compiled += 1
        errors += sum(s[0] == "error" for s in want)
        results += sum(s[0] == "result" for s in want)
        for mode in (2, -1):
            got, n = observe(torch, seed, mode, a.calls)
            used += n > 0 and mode == 2
            d = difference(want, got)
            if d:
                differ += 1
                print(f"seed {seed} mode {mode} differs at {d[0]}:\n  steps    {d[1]}\n  programs {d[2]}", flush=True)
                break
    print(f"{a.count} cases, {compiled} compiled, {used} use programs, {results} results, {errors} errors, {differ} differ")
    for k, n in sorted(why.items(), key=lambda x: -x[1])[:12]:
        print(n, k)


if __name__ == "__main__":
    main()
