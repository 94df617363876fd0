"""Small scripted programs, and what torch makes of them: tests/data/script/corpus.json.xz.

    python tests/data/script/corpus.py tests/data/script/corpus.json.xz

needs torch 2.13.  For each program the file has the results of its calls, the code, the graph with
its values renumbered, or the text of the error.
"""
import importlib.util
import json
import lzma
import os
import re
import sys
import tempfile
import warnings

# Expressions: parameters, the expression, arguments of calls.
EXPRESSIONS = [
    *[("x: int, y: int", f"x {op} y", ["7, 2", "-7, 2"]) for op in
      ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=")],
    *[("x: float, y: float", f"x {op} y", ["7.5, 2.0", "-7.5, 2.0"]) for op in
      ("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=")],
    *[("x: int, y: float", f"x {op} y", ["7, 2.5"]) for op in ("+", "-", "*", "/", "//", "%", "<", ">=", "==")],
    *[("x: float, y: int", f"x {op} y", ["7.5, 2"]) for op in ("+", "-", "*", "/", "//", "%", "<", ">=", "==")],
    *[("s: str", f"s.{call}", ["'aB c1'", "''"]) for call in
      ("upper()", "lower()", "capitalize()", "title()", "strip()", "isdigit()", "isalpha()", "isspace()", "isalnum()",
       "islower()", "isupper()", "split(' ')", "replace('a', 'b')", "find('c')", "startswith('a')", "endswith('1')",
       "count('a')", "zfill(8)", "ljust(8)", "rjust(8)", "center(9)", "rfind('B')", "splitlines()", "lstrip('a')",
       "rstrip('1')", "join(['x', 'y'])")],
    ("s: str", "s[0]", ["'abc'"]), ("s: str", "s[-1]", ["'abc'"]), ("s: str", "s[1:]", ["'abc'"]),
    ("s: str", "s + 'z'", ["'abc'"]), ("s: str", "s * 2", ["'abc'"]), ("s: str", "len(s)", ["'abc'"]),
    ("s: str", "'b' in s", ["'abc'", "'xyz'"]), ("s: str", "f'{s}!'", ["'abc'"]),
    ("s: str, n: int", "'{} {}'.format(s, n)", ["'abc', 3"]), ("s: str", "int(s)", ["'12'"]),
    ("s: str", "float(s)", ["'1.5'"]), ("n: int", "str(n)", ["5"]), ("n: int", "float(n)", ["5"]),
    ("x: float", "int(x)", ["5.7"]), ("x: float", "round(x)", ["2.5"]), ("n: int", "bool(n)", ["0", "3"]),
    ("n: int", "abs(n)", ["-3"]), ("n: int", "-n", ["3"]), ("n: int", "~n", ["3"]), ("n: int", "not n == 2", ["2"]),
    ("n: int", "hex(n)", ["255"]), ("n: int", "bin(n)", ["5"]), ("n: int", "oct(n)", ["9"]), ("n: int", "chr(n)", ["65"]),
    ("s: str", "ord(s)", ["'A'"]), ("n: int, m: int", "max(n, m)", ["3, 4"]), ("n: int, m: int", "min(n, m)", ["3, 4"]),
    ("n: int", "n if n > 2 else -n", ["1", "5"]), ("n: int", "n > 1 and n < 5", ["0", "3", "9"]),
    ("n: int", "n < 1 or n > 5", ["0", "3", "9"]), ("n: int", "1 < n < 5", ["0", "3"]),
    *[("x: float", f"math.{f}(x)", ["0.5"]) for f in
      ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "fabs", "log10", "log1p", "expm1", "asin",
       "acos", "atan", "sinh", "cosh", "erf", "erfc", "degrees", "radians", "isnan", "isinf", "isfinite")],
    ("x: float", "math.pi * x", ["2.0"]), ("n: int, m: int", "math.gcd(n, m)", ["12, 18"]),
    *[("l: List[int]", e, ["[3, 1, 2]"]) for e in
      ("l[0]", "l[-1]", "l[1:]", "l[:2]", "l[::2]", "len(l)", "sum(l)", "max(l)", "min(l)", "sorted(l)", "l + [4]", "l * 2",
       "2 in l", "l == [3, 1, 2]", "l.index(1)", "l.count(3)", "l.copy()", "[i * 2 for i in l]", "list(l)", "l != [1]",
       "[i for i in range(3)]", "all([i > 0 for i in l])", "any([i > 2 for i in l])")],
    *[("d: Dict[str, int]", e, ["{'a': 1, 'b': 2}"]) for e in
      ("d['a']", "len(d)", "'a' in d", "d.keys()", "d.values()", "d.items()", "d.get('z', 5)", "d.get('a')", "d.copy()")],
    *[("t: Tuple[int, str, float]", e, ["(1, 'a', 2.5)"]) for e in ("t[0]", "t[-1]", "t[1:]", "len(t)", "t")],
    *[("x", e, ["torch.arange(6.0).view(2, 3)"]) for e in
      ("x + 1", "1 + x", "x - 2.5", "2 - x", "x * x", "x / 2", "2 / x", "x // 2", "x % 2", "x ** 2", "2 ** x", "-x", "x @ x.t()",
       "x == 2", "x != 2", "x < 2", "x > x", "~(x > 2)", "(x > 1) & (x < 4)", "(x < 1) | (x > 4)", "x[0]", "x[-1]", "x[0, 1]",
       "x[:, 1]", "x[:, 1:]", "x[..., 0]", "x[None]", "x[0:1, ::2]", "x[x > 2]", "x.sum()", "x.sum(0)", "x.sum(dim=1)",
       "x.sum(dim=1, keepdim=True)", "x.mean()", "x.mean(1)", "x.max()", "x.max(1)", "x.argmax(1)", "x.t()", "x.view(-1)",
       "x.view(3, 2)", "x.reshape([6])", "x.permute(1, 0)", "x.transpose(0, 1)", "x.unsqueeze(0)", "x.size()", "x.size(0)",
       "x.shape", "x.shape[1]", "x.dim()", "x.numel()", "x.dtype", "x.device", "x.is_cuda", "x.requires_grad", "len(x)",
       "x.to(torch.int64)", "x.long()", "x.double()", "x.float()", "x.clone()", "x.detach()", "x.exp()", "x.abs().sqrt()",
       "x.clamp(1, 3)", "x.clamp(min=1)", "x.tolist() if False else x", "torch.relu(x)", "torch.sigmoid(x)", "torch.tanh(x)",
       "torch.cat([x, x])", "torch.cat([x, x], 1)", "torch.stack([x, x], dim=0)", "torch.zeros(2, 3)", "torch.ones([2])",
       "torch.zeros_like(x)", "torch.full([2], 1.5)", "torch.arange(3)", "torch.where(x > 2, x, -x)", "torch.matmul(x, x.t())",
       "torch.softmax(x, 1)", "F.softmax(x, dim=-1)", "F.relu(x)", "F.gelu(x)", "x.softmax(1)", "torch.max(x)",
       "torch.max(x, 1)[0]", "x.flatten()", "x.chunk(3, 1)", "x.split(1)", "x.unbind(0)", "torch.sum(x, [0, 1])", "x.std()",
       "x.item() if False else 1", "float(x.sum())", "int(x.sum())", "bool(x.sum() > 3)", "x.new_zeros([2])", "x.expand(4, 2, 3)",
       "x.repeat(2, 1)", "torch.tensor([1, 2])", "torch.tensor(2.5)", "x.type_as(x)", "torch.linspace(0, 1, 3)", "x.cumsum(1)",
       "x.masked_fill(x > 2, 0.0)", "x.index_select(0, torch.tensor([1]))", "F.linear(x, x)", "x.norm()", "x.var(1)",
       "x.topk(2)", "x.sort(1, True)", "torch.einsum('ij,kj->ik', [x, x])", "F.dropout(x, 0.0, False)", "x.add(x, alpha=2)")],
    ("x: Optional[int]", "x is None", ["None", "3"]), ("x: Optional[int]", "x if x is not None else 0", ["None", "3"]),
    ("x: Optional[int]", "0 if x is None else x + 1", ["None", "3"]),
    ("x: Optional[int], y: Optional[int]", "x + y if x is not None and y is not None else 0", ["1, 2", "None, 2"]),
    ("x: Union[int, str]", "isinstance(x, int)", ["1", "'a'"]), ("x: Any", "isinstance(x, str)", ["1", "'a'"]),
    ("x: complex", "x * 2", ["(1+2j)"]), ("b: bool", "not b", ["True"]), ("x: int", "(x, x + 1)", ["1"]),
    ("x: int", "[x, 2]", ["1"]), ("x: int", "{'a': x}", ["1"]), ("x: int", "1 + 2 * 3 + x", ["1"]), ("x: int", "-1 + x", ["1"]),
]

# Whole functions and modules: source, arguments of calls.
PROGRAMS = [
    ("""
def f(x, n: int):
    for i in range(n):
        x = x + i
    return x
""", ["torch.ones(2), 3"]),
    ("""
def f(n: int):
    total = 0
    for i in range(1, n, 2):
        if i == 5:
            continue
        if i > 9:
            break
        total += i
    return total
""", ["20", "4"]),
    ("""
def f(n: int):
    while n > 0:
        n -= 3
        if n == 4:
            return n
    return -1
""", ["10", "9"]),
    ("""
def f(n: int):
    while True:
        n += 1
        if n > 10:
            break
    return n
""", ["3"]),
    ("""
def f(x: Optional[int]) -> int:
    if x is None:
        return 0
    return x + 1
""", ["None", "2"]),
    ("""
def f(x, y: Optional[torch.Tensor] = None):
    if y is None:
        y = x
    return x + y
""", ["torch.ones(2)", "torch.ones(2), torch.zeros(2)"]),
    ("""
def f(n: int):
    if n > 3:
        a = 1
        b = 'x'
    elif n > 1:
        a = 2
        b = 'y'
    else:
        a = 3
        b = 'z'
    return a, b
""", ["1", "2", "5"]),
    ("""
def f(n: int):
    if n > 3:
        raise ValueError('too large: {}'.format(n))
    return n
""", ["1", "5"]),
    ("""
def f(n: int):
    assert n > 3, 'too small'
    return n
""", ["1", "5"]),
    ("""
def f(l: List[int]):
    l.append(4)
    l.extend([5, 6])
    l.insert(0, 9)
    x = l.pop()
    l.reverse()
    del l[0]
    l[0] = 7
    l.sort()
    return l, x
""", ["[1, 2]"]),
    ("""
def f(d: Dict[str, int]):
    d['c'] = 3
    total = 0
    for k in d.keys():
        total += d[k]
    for k, v in d.items():
        total += v + len(k)
    return total, d.pop('c'), d
""", ["{'a': 1}"]),
    ("""
def f(l: List[str], m: List[int]):
    out: List[str] = []
    for i, (s, n) in enumerate(zip(l, m)):
        out.append(s * n + str(i))
    return out
""", ["['a', 'b'], [2, 3]"]),
    ("""
def f(x):
    y = torch.zeros([2])
    y[0] = x
    y += 1
    z = y * 2
    z[1] -= 3
    return z
""", ["torch.tensor(5.0)"]),
    ("""
def f(x, flag: bool):
    a, b = x, x + 1
    if flag:
        a, b = b, a
    return a - b
""", ["torch.ones(2), True", "torch.ones(2), False"]),
    ("""
def helper(x, k: int = 2):
    return x * k


def f(x):
    return helper(x) + helper(x, 3) + helper(x, k=4)
""", ["torch.ones(2)"]),
    ("""
LIMIT = 3


def f(n: int):
    return n + LIMIT
""", ["1"]),
    ("""
class Pair(NamedTuple):
    a: int
    b: torch.Tensor


def f(n: int):
    p = Pair(n, torch.ones([2]))
    return p.a + 1, p.b, p[0]
""", ["1"]),
    ("""
class Color(Enum):
    RED = 1
    BLUE = 2


def f(n: int):
    c = Color.RED if n > 1 else Color.BLUE
    return c == Color.RED, c.value, c.name
""", ["1", "2"]),
    ("""
def f(x: Union[int, str]):
    if isinstance(x, int):
        return x + 1
    else:
        return len(x)
""", ["1", "'abc'"]),
    ("""
def f(x: int | None):
    return x is None
""", ["1", "None"]),
    ("""
def f(x):
    with torch.no_grad():
        y = x * 2
    return y
""", ["torch.ones(2)"]),
    ("""
def f(x):
    a = [x, x + 1]
    b, c = a
    d = [t * 2 for t in a]
    return b + c + d[0]
""", ["torch.ones(2)"]),
    ("""
def f(n: int):
    x = 0
    for i in range(n):
        for j in range(i):
            if j == 2:
                break
            x += j
        if x > 5:
            return x
    return -x
""", ["3", "9"]),
    ("""
def f(n: int) -> str:
    if n > 2:
        return 'big'
    elif n > 1:
        return 'mid'
    return 'small'
""", ["1", "2", "3"]),
    ("""
def f(x):
    print('hello', x.size(0))
    return x
""", ["torch.ones(2)"]),
    ("""
def f(xs: List[torch.Tensor]):
    total = torch.zeros([1])
    for x in xs:
        total = total + x.sum()
    return total
""", ["[torch.ones(2), torch.ones(3)]"]),
    ("""
def f(x, ys: Tuple[int, int]):
    a, b = ys
    return x.view(a, b)
""", ["torch.ones(6), (2, 3)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
        self.n = 3
        self.names = ['a', 'b']

    def forward(self, x):
        for name in self.names:
            x = x + len(name)
        return x * self.w + self.n
""", ["torch.ones(2)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 3)
        self.b = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))

    def forward(self, x):
        return self.b(torch.relu(self.a(x))).shape
""", ["torch.ones(1, 2)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Identity(), nn.Identity()])

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        return self.layers[0](x)
""", ["torch.ones(2)"]),
    ("""
class M(nn.Module):
    scale: Optional[float]
    count: Final[int]

    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.count = 4
        self.register_buffer('total', torch.zeros(1))

    @torch.jit.export
    def other(self, n: int):
        return n + self.count

    def forward(self, x):
        s = self.scale
        if s is not None:
            x = x * s
        self.total += x.sum()
        return x, self.other(1), self.total
""", ["torch.ones(2)", "torch.ones(3)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x: int):
        self.calls += x
        if self.training:
            return self.calls
        return -self.calls
""", ["1", "2"]),
    ("""
class Inner(nn.Module):
    def forward(self, x, k: int = 1):
        if k > 1:
            return x * k
        return x


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + self.inner(x, 3) + self.inner(x, k=2)
""", ["torch.ones(2)"]),
    # containers
    ("def f(l: List[int]):\n    if l:\n        return 1\n    return 0\n", ["[1]", "[]"]),
    ("def f(d: Dict[str, int]):\n    return bool(d)\n", ["{'a': 1}", "{}"]),
    ("def f(s: str):\n    return s if s else 'none'\n", ["'a'", "''"]),
    ("def f():\n    return dict(foo=1, bar=2)\n", [""]),
    ("def f():\n    return dict([('a', 1)], b=3)\n", [""]),
    ("def f(d: Dict[str, int]):\n    return dict(d)\n", ["{'a': 1}"]),
    ("def f(n: int):\n    return {i: i * 2 for i in range(n)}\n", ["3"]),
    ("def f(l: List[str]):\n    return dict({s: len(s) for s in l})\n", ["['a', 'bc']"]),
    ("def f(a: List[int], b: List[int]):\n    return min(a, b), max(a)\n", ["[1, 2], [1, 3]"]),
    ("def f(l: List[bool]):\n    return min(l)\n", ["[True, False]"]),
    ("def f(x):\n    l: List[List[float]] = x.tolist()\n    return l\n", ["torch.arange(4.0).view(2, 2)"]),
    ("def f(d: Dict[str, int]):\n    return d.popitem()\n", ["{'a': 1, 'b': 2}"]),
    ("def f():\n    return list(range(5)), list('abc'), list((1, 2))\n", [""]),
    ("def f(l: List[int]):\n    part = slice(1, 3)\n    return l[part]\n", ["[1, 2, 3, 4]"]),
    ("def f(t: Tuple[int, str, float, int]):\n    return t[::2], t[::-1], t[1:3], t[-3:]\n", ["(1, 'a', 2.5, 4)"]),
    ("def f(t: Tuple[int, int, int]):\n    a, *b = t\n    return a, b\n", ["(1, 2, 3)"]),
    ("def f(l: List[int]):\n    a, *b = l\n    return a\n", []),
    ("def f(x):\n    return x[:, [0, 1]]\n", ["torch.arange(6).view(2, 3)"]),
    ("def f(l: List[int]):\n    l[0:2] = [5, 6]\n    return l\n", []),
    ("def f(x):\n    return x[..., [0]]\n", []),
    ("def f(x, y: int):\n    x[0, 1:] = y\n    return x\n", ["torch.arange(6).view(2, 3), 9"]),
    ("def f(x):\n    x[x > 2] = 0.5\n    return x\n", ["torch.arange(4.0)"]),
    ("def f(x):\n    x[x > 2] += 1\n    x[0] *= 3\n    return x\n", ["torch.arange(1.0, 5.0)"]),
    ("def f(x):\n    assert x.sum() > 0\n    return x\n", ["torch.ones(2)", "-torch.ones(2)"]),
    ("def f(d: Dict[str, int], k: str):\n    return d[k]\n", ["{'a': 1}, 'a'", "{'a': 1}, 'z'"]),
    ("def f(d: Dict[str, int], k: str):\n    del d[k]\n    return d\n", ["{'a': 1}, 'a'", "{'a': 1}, 'z'"]),
    ("def f(l: List[int]):\n    return l.index(9)\n", ["[1, 9]", "[1]"]),
    ("def f(l: List[Tuple[int, str]]):\n    l.sort()\n    return l\n", ["[(2, 'b'), (2, 'a'), (1, 'z')]"]),
    ("def f(x):\n    v, i = x.max(1)\n    m = x.max(1)\n    return m.values, m.indices, v\n", ["torch.arange(6.0).view(2, 3)"]),
    ("def f(l: List[int]):\n    return [1, None, 2], len(l)\n", ["[1]"]),
    ("def f(x: Union[int, str, List[int]]):\n    if isinstance(x, (int, str)):\n        return str(x)\n    return str(len(x))\n",
     ["1", "'a'", "[1, 2]"]),
    ("def f(n: int):\n    x: Union[int, str] = n\n    if n > 2:\n        x = 'big'\n    return x\n", ["1", "3"]),
    ("def f(n: int):\n    x: Optional[int] = None\n    if n > 2:\n        x = n\n    if x is None:\n        return -1\n"
     "    return x\n", ["1", "3"]),
    ("def f(x: Any):\n    if isinstance(x, int):\n        return x + 1\n    return 0\n", ["1", "'a'"]),
    # classes
    ("""
class Account:
    def __init__(self, owner: str, balance: int = 10):
        self.owner = owner
        self.balance = balance
        self.history: List[int] = []

    def add(self, n: int):
        self.balance += n
        self.history.append(n)
        return self.balance


def f(name: str):
    a = Account(name)
    b = Account(name, balance=2)
    return a.add(5) + b.add(1), a.owner, a.history
""", ["'x'"]),
    ("""
class Vector:
    def __init__(self, x: float, y: float):
        self.x = x
        self.y = y

    def __add__(self, other: 'Vector') -> 'Vector':
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k: float) -> 'Vector':
        return Vector(self.x * k, self.y * k)

    def __neg__(self) -> 'Vector':
        return Vector(-self.x, -self.y)

    def __eq__(self, other: 'Vector') -> bool:
        return self.x == other.x and self.y == other.y

    def __getitem__(self, i: int) -> float:
        return self.x if i == 0 else self.y

    def __len__(self) -> int:
        return 2


def f(k: float):
    v = (Vector(1.0, 2.0) + Vector(k, k)) * 2.0
    w = -v
    return v[0], w[1], v == w, len(v)
""", ["3.0"]),
    ("""
class Box:
    def __init__(self, n: int):
        self.n = n

    @property
    def double(self) -> int:
        return self.n * 2

    @double.setter
    def double(self, v: int):
        self.n = v // 2

    @staticmethod
    def make(n: int) -> 'Box':
        return Box(n)


def f(n: int):
    b = Box.make(n)
    b.double = 10
    return b.double, b.n
""", ["3"]),
    ("""
class Node:
    def __init__(self, x):
        self.x = x

    def twice(self):
        return self.x * 2


def g(n: Node):
    return n.twice()


def f(x):
    return g(Node(x + 1))
""", ["torch.ones(2)"]),
    ("class A:\n    def __init__(self, x: int):\n        self.x = x\n\n\ndef f(a: A):\n    return a.y\n", []),
    ("class A:\n    def __init__(self, x: int):\n        self.x = x\n\n    def g(self):\n        self.y = 1\n\n\n"
     "def f(n: int):\n    return A(n).x\n", []),
    ("class A:\n    def __init__(self, x: int):\n        if x > 1:\n            self.x = x\n\n\n"
     "def f(n: int):\n    return A(n).x\n", []),
    ("class A:\n    def __init__(self, x: int):\n        self.x = x\n        self.x = 'a'\n\n\n"
     "def f(n: int):\n    return A(n).x\n", []),
    ("""
@dataclass
class Point:
    x: int
    y: int = 7


def f(n: int):
    p, q = Point(n), Point(n, 8)
    return p.x + q.y, p == q
""", ["1"]),
    # modules
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 3

    @property
    def double(self) -> int:
        return self.n * 2

    def forward(self, x):
        return x * self.double
""", ["torch.ones(2)"]),
    ("""
class Inner(nn.Module):
    def forward(self, x):
        return x + 1


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

        def before(self, input: Tuple[torch.Tensor]) -> torch.Tensor:
            return input[0] * 2

        def after(self, input: Tuple[torch.Tensor], result: torch.Tensor) -> torch.Tensor:
            return result - input[0]
        self.inner.register_forward_pre_hook(before)
        self.inner.register_forward_hook(after)

    def forward(self, x):
        return self.inner(x)
""", ["torch.ones(2)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({'a': nn.Identity(), 'b': nn.ReLU()})

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x) + len(name)
        return self.layers['b'](x)
""", ["torch.ones(2)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.color = Color.BLUE

    def forward(self, x):
        if self.color == Color.RED:
            return x
        return x + self.color.value


class Color(Enum):
    RED = 1
    BLUE = 2
""", ["torch.ones(2)"]),
    ("""
class Pair(NamedTuple):
    a: int
    b: str = 'x'


def f(n: int):
    p = Pair(a=n)
    q = Pair(n, 'y')
    return p, q.b
""", ["1"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 3)

    def forward(self, x):
        out, (h, c) = self.lstm(x)
        return out.shape, h.shape
""", ["torch.ones(4, 1, 2)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(2, 3)

    def forward(self, x):
        h = torch.zeros(1, 3)
        for i in range(x.size(0)):
            h = self.gru(x[i], h)
        return h.shape
""", ["torch.ones(4, 1, 2)"]),
    # errors
    ("def f(x):\n    return y\n", []),
    ("def f(x: int):\n    return x + 'a'\n", []),
    ("def f(x):\n    return torch.relu(x, 3)\n", []),
    ("def f(x):\n    return x.no_such_method()\n", []),
    ("def f(x: int) -> str:\n    return x\n", []),
    ("def f(n: int):\n    if n > 1:\n        return 1\n    return 'a'\n", []),
    ("def f(n: int):\n    if n > 1:\n        a = 1\n    return a\n", []),
    ("def f(n: int) -> int:\n    if n > 1:\n        return 1\n", []),
    ("def f(n: int):\n    n = 'a'\n    return n\n", []),
    ("def f(x: Optional[int]):\n    return x + 1\n", []),
    ("def f(n: int):\n    for i in n:\n        pass\n    return n\n", []),
    ("def f(n: int):\n    a, b = n\n    return a\n", []),
    ("def f(n: int):\n    return [1, 'a']\n", []),
    ("def f(n: int):\n    n.x = 3\n    return n\n", []),
    ("def f(t: Tuple[int, str], n: int):\n    return t[n]\n", []),
    ("def f(t: Tuple[int, str]):\n    return t[5]\n", []),
    ('def f(x:int)->str:\n    return abs(x)\n', []),
    ('def f(x:int)->str:\n    return max(x, 3)\n', []),
    ('def f(x:int)->str:\n    return (x + 1)\n', []),
    ('def f(x:int)->str:\n    return [x, 1]\n', []),
    ("def f(x:int)->str:\n    return {'a': x}\n", []),
    ('def f(x:int)->str:\n    return (x, 1)\n', []),
    ('def f(x)->str:\n    return x.sum()\n', []),
    ('def f(x)->str:\n    return x.shape\n', []),
    ('def f(x)->str:\n    return x.sum(dim=1)\n', []),
    ('def f(x)->str:\n    return x[0]\n', []),
    ('def f(x)->str:\n    return x[0:1]\n', []),
    ('def f(x)->str:\n    return x[0:1, 2]\n', []),
    ('def f(x)->str:\n    return -x\n', []),
    ('def f(x: int)->str:\n    return 1 if x > 2 else 2\n', []),
    ('def f(x: int)->str:\n    return not x\n', []),
    ('def f(x: int)->str:\n    return 1.5\n', []),
    ('def f(x: int)->str:\n    return x == 1 and x == 2\n', []),
    ('def f(x: int)->str:\n    return [i for i in range(x)]\n', []),
    ('def f(x: int)->str:\n    return float(x) + abs(x)\n', []),
    ('def f(x: int)->str:\n    return None\n', []),
    ("def f(x: int)->int:\n    return f'{x}'\n", []),
    ('def f(x: int)->str:\n    return True\n', []),
    ('def f(x: List[int])->str:\n    return x[-1]\n', []),
    ('def f(x)->str:\n    return x[:, None]\n', []),
    ('def f(x)->str:\n    return torch.cat([x, x], dim=0)\n', []),
    ('def f(x: int):\n    y: str = x\n    return y\n', []),
    ('def f(x: int):\n    y = x.foo\n', []),
    ("def f(x: int):\n    for i in range(3):\n        x = 'a'\n    return x\n", []),
    ('def f(x: int):\n    return foo(x)\n', []),
    ('def f(x: int):\n    return torch.nosuch(x)\n', []),
    ("def f(x: int):\n    while x:\n        x += 'a'\n    return x\n", []),
    ('def f(x: int):\n    print(x, y)\n', []),
    ('def f(x: int):\n    return x[0]\n', []),
    ("def f(x: int):\n    if x > 1:\n        y = 1\n    else:\n        y = 'a'\n    return y\n", []),
    ('def f(x: int):\n    a, b, c = (x, x)\n    return a\n', []),
    ('def f(x: int):\n    raise NotImplementedError\n', []),
    ('def f(x: List[int]):\n    return x.foo()\n', []),
    ('def f(x: int):\n    assert x, 3\n    return x\n', []),
    ('def f(x: Dict[str,int]):\n    return x[0]\n', []),
    ('def f(x: Optional[List[int]]):\n    return len(x)\n', []),
    ('def f(x: int):\n    global y\n    return x\n', []),
    ('def f(x: int):\n    try:\n        return x\n    except Exception:\n        return 2\n', []),
    ('def f(x: int):\n    f = lambda y: y\n    return f(x)\n', []),
    ('def f(x: int):\n    import math\n    return x\n', []),
    ('def f(x: int):\n    class A: pass\n    return x\n', []),
    ('def f(x: int, *args):\n    return x\n', []),
    ('def f(x: int, **kw):\n    return x\n', []),
    ('def f(x: int):\n    return [a for a in range(x) if a > 1]\n', []),
    ('def f(x: int):\n    yield x\n', []),
    ('def f(x: int):\n    return (a for a in range(x))\n', []),
    ('def f(x: int):\n    return {1, 2}\n', []),
    ('def f(x: int):\n    y = x = 3\n    return y\n', []),
    ('def f(x: int):\n    return (y := x)\n', []),
    ('def f(x: int):\n    return f"{x:3d}"\n', []),
    ('def f(x: int):\n    del x\n    return 1\n', []),
    ('def f(x: int):\n    return len(x)\n', []),
    ('def f(x: int):\n    return torch.add(x, [1])\n', []),
    ("def f(x: 'Foo'):\n    return x\n", []),
    ('def f(x: int) -> Tuple[int, str]:\n    return x, x\n', []),
    ("""
class P(NamedTuple):
    x: torch.Tensor
    y: int = 3
    z: Optional[str] = None
    w: float = 2.0

def f(x):
    a, b = P(x), P(x, 4, w=5.0)
    return a, a.y + b.y, b.w, a.z is None
""", ["torch.ones(1)"]),
    ("""
def f(a: int, s: str, t: Tuple[int, str]):
    return "%d %s %%" % (a, s), "%s-%s" % t, "%d" % a, "%s" % [1.5, 2.0], "{} {}".format(1, 2, 3), "{0} {:.3f}".format(1, 2)
""", ["3, 'b', (1, 'c')"]),
    ("""
def f(x, b: float, i: int):
    return str(x), str(b), str([b, 1.0]), str({"a": b}), str((1, "a", None)), "{}".format(True), str(1j * 2), str(x.device)
""", ["torch.tensor([1.0, 2.5]), 0.1, 1", "torch.arange(24.).reshape(2, 3, 4), 1e20, 1", "torch.tensor(3), -0.0, 1",
      "torch.tensor([[1e5, 2e5 + 0.5], [1, 2]]), 1e-7, 1", "torch.tensor([100000.0, 200000.5]), float('inf'), 1",
      "torch.tensor([[0.001, 0.002]]), 12345678.0, 1", "torch.arange(60).reshape(2, 30), 3.0, 1", "torch.zeros(2, 0), 3.5, 1",
      "torch.tensor([float('nan'), float('inf'), -2.5]), float('nan'), 1", "torch.tensor(True), 1e16, 1",
      "torch.tensor([1e-10, 1e20], dtype=torch.float64), 1 / 3, 1", "torch.tensor([1 + 2j]), 1.0, 1",
      "torch.tensor(-1.5e-7), 1.0, 1", "torch.tensor([123456789, 1]), 1.0, 1",
      "torch.arange(8.).reshape(2, 2, 2) * 1e6 + 0.5, 1.0, 1", "torch.ones(2, 2, dtype=torch.bfloat16), 1.0, 1",
      "torch.arange(16.).reshape(2, 2, 2, 2), 1.0, 1", "torch.arange(120.).reshape(1, 2, 60) * 100.5, 1.0, 1"]),
    ("""
def f(x, i, l: List[int]):
    x[i] += 1
    x[0] *= 3
    x[1:3] -= 1
    x[i, i] += i
    l[0] += 2
    return x, l
""", ["torch.ones(3, 3), torch.tensor([0, 2]), [1]", "torch.ones(3), torch.tensor([0, 2]), [1]"]),
    ("""
def f(x):
    n = None
    return x[..., n, 0], x[..., 0, n, n], x[1:2,], x[None, :, 0], x[..., 1:, None], x[..., None, 1], x[..., None, 0:2, None], x[None, ..., None], x[1][0]
""", ["torch.ones(3, 3)"]),
    ("""
def f(x):
    l = [1, 2, 3]
    l[1:] = [2]
    return l
""", []),
    ("""
def f(x):
    def inner(y):
        return y + 1
    return inner(x)
""", []),
    ("""
def f(x, *, scale: float):
    return x * scale
""", ["torch.ones(1), scale=2.0", "torch.ones(1), 2.0"]),
    ("""
def f(x: int):
    if x > 3:
        raise ValueError("a", x, 1.0)
    if x > 2:
        raise ValueError("a", "b")
    assert x > 1, f"x is {x}"
    return x
""", ["4", "3", "2", "1"]),
    ("""
def f(s: str):
    return int(s), float(s)
""", ["'5'", "'x'"]),
    ("""
def f(n: int):
    x: Optional[int] = None
    y: Optional[int] = None
    if n > 2:
        x = n
        y = n
    else:
        y = 3
    return x, y
""", ["3", "1"]),
    ("""
def f(n: int):
    x: Optional[int] = None
    for i in range(n):
        x = i
    return x
""", ["2"]),
    ("""
def f(n: int):
    x: Union[int, str] = n
    for i in range(n):
        if i > 2:
            x = 'a'
    return x
""", ["2", "5"]),
    ("""
def f(n: int):
    x: List[Optional[int]] = [n]
    y: Optional[List[int]] = [n]
    if n > 2:
        y = None
    return x, y
""", ["1", "3"]),
    ("""
def f(x):
    x[0, x[0] > 0] = 1
    x[[0, 1], 1:] = 2.0
    x[x > 2] -= 3
    x[0, [1, 2]] *= 2
    return x[None, [1, 0], 1:]
""", ["torch.arange(6.0).view(2, 3) - 1"]),
    ("""
def f(x, y):
    a, b = x.max(1)
    c, d = y.topk(2)
    (e, g), h = x.max(0), 3
    return a, d, e, h
""", ["torch.arange(6.0).view(2, 3), torch.arange(4.0)"]),
    ("""
def f(x: Optional[torch.Tensor], n: int):
    if x is None:
        x = torch.zeros(2)
    if n > 1:
        x = x + 1
    return x
""", ["None, 1", "torch.ones(2), 3"]),
    ("""
def f(n: int):
    x: Optional[int] = 3
    while n > 2:
        x = None
        n -= 1
    return x
""", ["3"]),
    ("""
def f(n: int, m: Optional[int]):
    x: Optional[int] = m
    if n > 2:
        x = m
    else:
        x = None
    y: Optional[int] = m
    if n > 3:
        y = None
    if n > 4:
        y = 5
    return x, y
""", ["1, None", "5, 7"]),
    ("""
def f(n: int):
    y: Optional[Dict[str, int]] = {'a': n}
    z: Optional[List[int]] = [i for i in range(n)]
    w: Union[List[int], int] = [n]
    if n > 2:
        y = None
        z = None
        w = 1
    return y, z, w
""", ["1", "3"]),
    ("""
def f(n: int) -> Optional[List[int]]:
    return [n]
""", ["1"]),
    ("""
def g(x: Optional[List[int]]):
    return x
def f(n: int):
    return g([n])
""", ["1"]),
    ("""
def f(n: int):
    x: Optional[int] = n
    if n > 2:
        a = n
    else:
        a = None
    return a
""", ["1"]),
    ("""
def f(n: int):
    a = n if n > 2 else None
    b = None if n > 2 else n
    return a, b
""", ["1", "3"]),
    ("""
def f(n: int):
    if n > 2:
        a = None
    else:
        a = n
    return a
""", ["1", "3"]),
    ("""
def f(x: int):
    return f'{x}'.foo()
""", []),
    ("""
def f(x: int):
    a = [b for b in range(x) if b > 1]
    return a
""", []),
    ("""
def f(x: Optional[List[int]], y: int, z: Optional[str]):
    return len(x), len(y), len(z)
""", ["[1, 2], 3, 'abc'"]),
    ("""
def f(x: float, y: Optional[torch.Tensor]):
    return len(x), len(y)
""", ["1.5, None"]),
    ("""
def f(x: List[int], y: Tuple[int, int], z: Dict[str, int]):
    x[y]
    return x['a'], z[1]
""", []),
    ("""
def f(x: 'Foo'):
    return x
""", []),
    ("""
def f(x):
    y: Foo = x
    return y
""", []),
    ("""
def f(x):
    return x.foo, x.bar()
""", []),
    ("""
def f(x: torch.Tensor):
    return (x + 1).bar()
""", []),
    ("""
def f(x):
    return x + 'a'
""", []),
    ("""
def f(x):
    if x.sum() > 2:
        y = x
    else:
        y = 'a'
    return y.foo()
""", []),
    ("""
def f(x):
    return foo(x, y=2)
""", []),
    ("""
def f(x: int):
    y = x.z
    x.z = 3
    return y
""", []),
    ("""
def f(n: int, m: Optional[int], k: Optional[int]):
    if n > 2:
        x = m
    else:
        x = k
    return x
""", ["1, 2, None", "3, 4, 5"]),
    ("""
def f(n: int, m: Union[int, str], k: Union[int, str]):
    if n > 2:
        x = m
    else:
        x = k
    return x
""", ["1, 2, 'a'"]),
    ("""
def f(n: int, m: Union[int, str], k: Any):
    x: Any = k
    if n > 2:
        x = m
    return x
""", ["1, 2, 'a'", "3, 'b', 2.5"]),
    ("""
def g(x):
    return x.foo()
def f(x):
    return g(x) + 1
""", []),
    ("""
def h(x):
    return bar(x)
def g(x):
    y = h(x) + 1
    return y
def f(x):
    return g(x) + 1
""", []),
    ("""
class S(nn.Module):
    def forward(self, x):
        return x.foo
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.s = S()
    def forward(self, x):
        return self.s(x)
""", []),
    ("""
class M(nn.Module):
    def h(self, x):
        return x.foo
    def forward(self, x):
        return self.h(x)
""", []),
    ("""
class M(nn.Module):
    def h(self, x):
        return g(x)
    def forward(self, x):
        return self.h(x)
def g(x):
    return x.foo
""", []),
    ("""
class A:
    def __init__(self, x: int):
        self.x = x.foo
def f(n: int):
    return A(n).x
""", []),
    ("""
class M(nn.Module):
    def forward(self, x):
        return F.relu(x, 3, 4)
""", []),
    ("""
def g(x: int) -> str:
    return x
def f(x: int):
    y = g(x)
    return y
""", []),
    ("""
def g(x: int):
    return x
def f(x):
    return g('a')
""", []),
    ("""
def f(l: List[int], d: Dict[str, float], x: List[torch.Tensor]):
    l[0] += 2
    l[-1] *= 3
    d['a'] -= 0.5
    d['a'] /= 2
    x[0] += 1
    return l, d, x
""", ["[1, 2], {'a': 1.5}, [torch.ones(2)]"]),
    ("""
def f(l: List[int], n: int):
    l[n - 1] += n
    l[l[0]] -= 1
    return l
""", ["[1, 2, 3], 2"]),
    ("""
def f(x, y):
    x[0] += y
    x[..., 1] -= y[0]
    x[y > 1, 0] *= 2
    x[0, 0] /= 4
    return x
""", ["torch.ones(2, 2), torch.tensor([1.0, 3.0])"]),
    ("""
def f(t: Tuple[int, int]):
    t[0] += 1
    return t
""", []),
    ("""
def f(d: Dict[int, str]):
    a, b = d.popitem()
    return a, b, d
""", ["{1: 'a', 2: 'b'}"]),
    ("""
class Pair(NamedTuple):
    a: int
    b: Optional[str] = None
    c: float = 2.5
def f(n: int):
    p = Pair(n)
    return p.b is None, p.c, Pair(n, 'x').b, Pair(n, c=1.5).c
""", ["1"]),
    ("def f(s: str):\n    return int(s)\n", ["'12a'", "'99999999999999999999'", "' 7'"]),
    ("def f(s: str):\n    return float(s)\n", ["'1.5x'", "'1e999'", "' 2.5'"]),
    ("def f(x: float):\n    return str(x), str([x])\n",
     ["1e17", "123456789012345678.0", "9e18", "1e19", "-1e18", "-3.0", "0.0", "-9.9e15"]),
    ("""
class Color(Enum):
    RED = 1
    GREEN = 2
chosen = Color.GREEN
def f(x: Color, y: Color = Color.RED):
    return chosen, chosen == x, chosen.value, chosen.name, y.name, x.value + y.value
""", ["0"]),
    ("""
class Color(Enum):
    RED = 'r'
    GREEN = 'g'
def f(name: str):
    table: Dict[str, Color] = {'a': Color.RED}
    table['b'] = Color.GREEN
    found = Color.RED
    for key in table.keys():
        if key == name:
            found = table[key]
    return found.value, len(table), found == Color.GREEN
""", ["'a'", "'b'", "'c'"]),
    ("""
class Level(Enum):
    LOW = 1
    HIGH = 5
def f(n: int):
    names: List[str] = []
    for level in Level:
        if level.value > n:
            names.append(level.name)
    return names
""", ["0", "3", "9"]),
    ("""
class Scaled:
    def __init__(self, a: int):
        self.a: int = a
    @classmethod
    def create(cls, a: int) -> 'Scaled':
        return cls(a * 2)
    @classmethod
    def combine(cls, a: int, b: int = 3) -> int:
        return a * b
    @staticmethod
    def half(a: int) -> int:
        return a // 2
def f(a: int):
    x = Scaled(a)
    return x.create(a + 1).a + x.combine(2) - Scaled.half(a)
""", ["1", "10"]),
    ("""
class Counted(nn.ModuleList):
    def __len__(self):
        return 7
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = Counted([nn.ReLU()])
        self.plain = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        self.named = nn.ModuleDict({'a': nn.ReLU(), 'b': nn.Tanh()})
        self.empty = nn.ModuleDict()
    def forward(self, x, key: str):
        return len(self.own), len(self.plain), len(self.named), 'a' in self.named, key in self.named, key in self.empty
""", ["torch.ones(1), 'b'", "torch.ones(1), 'z'"]),
    ("""
@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass
class Other(nn.Module):
    def forward(self, x: int) -> int:
        return x
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.named = nn.ModuleDict({'other': Other()})
    def forward(self, x, key: str):
        layer: Layer = self.named[key]
        return layer.forward(x)
""", []),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.rest = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(2))
    def forward(self, x):
        names: List[str] = []
        for name, module in self.named_modules():
            names.append(name)
        n = 0
        for module in self.modules():
            n += 1
        total = 0.0
        for name, buffer in self.rest[1].named_buffers():
            total += float(buffer.sum())
        return names, n, total
""", ["torch.ones(1, 2)"]),
    ("""
class M(nn.ModuleDict):
    def __init__(self):
        super().__init__({'a': nn.ReLU(), 'b': nn.Tanh()})
    def forward(self, x):
        for name, layer in self.items():
            x = layer(x) + len(name)
        return self['a'](x) - self['b'](x)
""", ["torch.ones(1)"]),
    ("""
class Base:
    def __init__(self, n: int):
        self.n = n
    def twice(self) -> int:
        return self.n * 2
@torch.jit.script
class Other:
    def __init__(self, n: int):
        self.n = n
    def twice(self) -> int:
        return self.n * 3
    def __lt__(self, other: 'Other') -> bool:
        return self.n < other.n
    def __len__(self) -> int:
        return self.n
    def __contains__(self, x: int) -> bool:
        return x < self.n
    def __getitem__(self, i: int) -> int:
        return self.n + i
    def __setitem__(self, i: int, v: int):
        self.n = i + v
def f(n: int):
    a, b = Other(n), Other(n + 1)
    a[1] = 5
    return a < b, len(a), 3 in b, b[2], a.twice(), Base(n).twice()
""", ["1", "9"]),
    ("""
class Node:
    def __init__(self, value: int, label: Optional[str]):
        self.value = value
        self.label = label
        self.seen: List[int] = []
    @property
    def double(self) -> int:
        return self.value * 2
    @double.setter
    def double(self, v: int):
        self.value = v // 2
    def visit(self, i: int) -> 'Node':
        self.seen.append(i)
        return self
def f(n: int):
    node = Node(n, None)
    node.double = node.double + 6
    node.visit(1).visit(2)
    label = node.label
    if label is None:
        node.label = 'set'
    else:
        node.label = label + '!'
    return node.value, node.double, node.seen, node.label
""", ["1"]),
    ("""
class Stack:
    def __init__(self):
        self.items: List[Tuple[int, str]] = []
    def push(self, n: int, s: str) -> None:
        self.items.append((n, s))
    def pop(self) -> Tuple[int, str]:
        if len(self.items) == 0:
            raise ValueError('pop from an empty stack')
        return self.items.pop()
def f(n: int):
    s = Stack()
    for i in range(n):
        s.push(i, str(i) * 2)
    a, b = s.pop()
    return a, b, len(s.items)
""", ["3", "0"]),
    ("""
class Point(NamedTuple):
    x: int
    y: Optional[float]
    tags: List[str]
def f(n: int, y: Optional[float]):
    p = Point(n, y, ['a'])
    p.tags.append('b')
    q = Point(p.x + 1, None, p.tags)
    a, b, c = q
    z = p.y
    return p.tags, a, b is None, z if z is not None else -1.0, len(p), p[0] + q[0]
""", ["1, 2.5", "1, None"]),
    ("""
def f(words: List[str]):
    groups: Dict[int, List[str]] = {}
    for word in words:
        n = len(word)
        if n not in groups:
            groups[n] = []
        groups[n].append(word)
    keys = sorted(groups.keys())
    return groups, keys, [len(groups[k]) for k in keys]
""", ["['a', 'bb', 'c', 'dd', 'eee']", "[]"]),
    ("""
def f(n: int):
    table = {'a': {'x': 1}, 'b': {'w': 0}}
    table['b']['y'] = n
    inner = table['a']
    inner['z'] = n + 1
    total = 0
    for name, part in table.items():
        for key, value in part.items():
            total += value
    del table['a']['x']
    return table, total, table.get('c') is None, table['a'].pop('z'), list(table['a'].keys())
""", ["5"]),
    ("""
def f(l: List[int]):
    a = l
    b = l[:]
    a.append(10)
    b.extend([1, 2])
    a[0] = -1
    l.reverse()
    b.insert(1, 99)
    b.remove(1)
    last = b.pop()
    first = b.pop(0)
    return a, b, l, last, first, a is l, b == l, l.index(10), l.count(-1)
""", ["[5, 6]", "[1, 1, 1]"]),
    ("""
def f(l: List[int], n: int):
    return l[::2], l[::-1] if False else l[1:-1], l[n:], l[:n], l[-n:], l[1:100:3], l[5:2]
""", ["[0, 1, 2, 3, 4, 5, 6], 2", "[], 1"]),
    ("""
def f(l: List[Tuple[int, str]]):
    l.sort()
    names = [name for _, name in l]
    numbers = [number * 2 for number, _ in l]
    return names, numbers, max(numbers), min(numbers), sum(numbers)
""", ["[(2, 'b'), (1, 'z'), (2, 'a')]"]),
    ("""
def f(l: List[float], m: List[str]):
    l.sort(reverse=True)
    out: List[str] = []
    for i, (x, s) in enumerate(zip(l, m)):
        out.append(f'{i}:{s}={x}')
    for i, s in enumerate(m, 5):
        out.append(str(i) + s)
    for s in reversed(m) if False else m:
        out.append(s)
    return out, sorted(l)
""", ["[1.5, 0.25, 3.0], ['a', 'b']"]),
    ("""
def f(n: int):
    grid = [[0 for j in range(n)] for i in range(n)]
    for i in range(n):
        for j in range(i, n):
            grid[i][j] = i * j
    flat: List[int] = []
    for row in grid:
        flat += row
    return grid, flat, [sum(row) for row in grid]
""", ["3", "0"]),
    ("""
def f(d: Dict[str, List[float]]):
    best = ''
    most = -1.0
    for name, values in d.items():
        for v in values:
            if v > most:
                best, most = name, v
    d.update({'new': [most]})
    d.setdefault('other', []).append(1.0)
    return best, most, d
""", ["{'a': [1.0, 5.0], 'b': [2.0]}", "{'a': [0.5]}"]),
    ("""
def f(s: str):
    parts = s.split(',')
    trimmed = [p.strip() for p in parts]
    joined = '|'.join(trimmed)
    return joined, s.partition(','), s.rpartition(','), s.find('b', 2), s.rfind('a'), s.swapcase(), s.expandtabs(2)
""", ["'a, b,aB'", "''"]),
    ("""
def f(a: int, b: float, s: str, t: bool):
    return ('{} {} {}'.format(a, b, s), f'{a}-{b}-{s}-{t}', '%d %f %s %g' % (a, b, s, b), 'x' + str(a) + str(b) + str(t),
            '{}{{}}'.format(a))
""", ["3, 2.5, 'z', True", "-1, 1e20, '', False"]),
    ("""
def f(s: str):
    n = 0
    out = ''
    for c in s:
        if c.isdigit():
            n = n * 10 + int(c)
        elif c in 'aeiou':
            out += c.upper()
        elif c == ' ':
            continue
        else:
            out = c + out
    return n, out, s[::2], s[-3:], s[1:3] * 2, s < 'm', s == s.lower()
""", ["'ab 1c2 e'", "'xyz'"]),
    ("""
def f(s: str, n: int):
    return s.center(n, '*'), s.ljust(n, '.'), s.rjust(n, '-'), s.zfill(n), s.title(), s.isidentifier(), s.isprintable(), s.replace('a', 'o', 1)
""", ["'banana', 10", "'ab cd', 3"]),
    ("""
def f(n: int):
    i = 0
    found = -1
    while True:
        i += 1
        if i % 7 == 0:
            found = i
            break
        if i > n:
            break
        j = 0
        while j < i:
            j += 2
            if j == 6:
                continue
            found += 1
    return i, found
""", ["3", "20"]),
    ("""
def f(l: List[List[int]], x: int):
    for i, row in enumerate(l):
        for j, y in enumerate(row):
            if y == x:
                return i, j
            if y < 0:
                break
        if len(row) == 0:
            return -2, i
    return -1, -1
""", ["[[1, 2], [3, 4]], 4", "[[1], []], 9", "[[-1, 5], [5]], 5"]),
    ("""
def f(x: int) -> Tuple[str, Optional[int]]:
    if x < 0:
        return 'negative', None
    elif x == 0:
        return 'zero', 0
    y = x
    while y > 10:
        y = y // 2
        if y == 13:
            raise RuntimeError(f'unlucky {x}')
    return 'positive', y
""", ["-1", "0", "5", "99", "26", "52"]),
    ("""
def f(x: Optional[int], y: Optional[int]):
    if x is not None and y is not None:
        return x + y
    if x is None and y is None:
        return 0
    if x is None:
        assert y is not None
        return y
    return x
""", ["1, 2", "None, None", "None, 3", "4, None"]),
    ("""
def f(t: Tuple[Optional[int], Optional[str]]):
    a, b = t
    n = a if a is not None else -1
    s = b if b is not None else 'none'
    if t[0] is None:
        n -= 1
    return n, s, (a, b), t[1] is None
""", ["(1, None)", "(None, 'x')"]),
    ("""
def f(x, n: int):
    y = torch.zeros_like(x)
    for i in range(n):
        if i % 2 == 0:
            z = x + i
        else:
            z = x - i
        y += z
        if bool((y > 10).any()):
            return y, i
    else_value = y.sum()
    return else_value, n
""", ["torch.ones(3), 3", "torch.ones(3) * 9, 4"]),
    ("""
def f(x: Union[int, str, List[int]]):
    if isinstance(x, int):
        return x * 2
    elif isinstance(x, str):
        return len(x)
    else:
        assert isinstance(x, List[int])
        return sum(x)
""", ["3", "'abc'", "[1, 2]"]),
    ("""
def f(x: Any):
    if isinstance(x, (int, float)):
        return 'number'
    if isinstance(x, str):
        return 'text ' + x
    if torch.jit.isinstance(x, List[int]):
        return 'list ' + str(len(x))
    if isinstance(x, torch.Tensor):
        return 'tensor ' + str(x.dim())
    return 'other'
""", ["1", "'a'", "[1]", "torch.ones(2, 2)", "None", "(1, 2)"]),
    ("""
def f(n: int):
    try_value = 0
    if n > 0:
        a = 1
        if n > 5:
            b = a + n
        else:
            b = -n
    else:
        a, b = 7, 8
    c = a if n % 2 else b
    assert n != 4, f'four is {n}'
    return a, b, c, not (a < b) or a == 1, a < b < c
""", ["3", "9", "-2", "4"]),
    ("""
class Problem(Exception):
    def __init__(self, text: str):
        super().__init__(text)
def f(n: int):
    if n == 0:
        raise Problem('nothing to do')
    if n == 1:
        raise ValueError('bad', n)
    if n == 2:
        raise IndexError
    if n == 3:
        raise NotImplementedError('later')
    return n
""", ["0", "1", "2", "3", "4"]),
    ("""
class M(nn.Module):
    scale: Final[float]
    names: Final[List[str]]
    __constants__ = ['depth']
    def __init__(self):
        super().__init__()
        self.scale = 2.5
        self.names = ['a', 'b']
        self.depth = 3
        self.count = 0
        self.history: List[int] = []
        self.table: Dict[str, int] = {'k': 1}
        self.maybe: Optional[int] = None
    def forward(self, x):
        self.count += 1
        self.history.append(self.count * self.depth)
        self.table[self.names[0]] = self.count
        m = self.maybe
        if m is None:
            self.maybe = 5
        else:
            self.maybe = m + 1
        return x * self.scale, self.history, self.table, self.maybe
""", ["torch.ones(1)", "torch.ones(1)"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        nn.init.ones_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
    @property
    def size(self) -> int:
        return self.linear.weight.size(0)
    @torch.jit.ignore
    def shown(self, x: int) -> str:
        return 'seen ' + str(x)
    @torch.jit.unused
    def never(self, x):
        return [y for y in x if y]
    @torch.jit.export
    def helper(self, x, times: int = 2):
        for _ in range(times):
            x = self.linear(x)
        return x
    def forward(self, x):
        return self.helper(x, 2), self.helper(x, times=1), self.size, self.shown(self.size)
""", ["torch.ones(1, 2)"]),
    ("""
def doubled(self, inputs: Tuple[torch.Tensor]) -> Tuple[torch.Tensor]:
    return (inputs[0] * 2,)
def shifted(self, inputs: Tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output + 1
class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.inner.register_forward_pre_hook(doubled)
        self.inner.register_forward_hook(shifted)
    def forward(self, x):
        return self.inner(x)
""", ["torch.ones(2)"]),
    ("""
@torch.jit.interface
class Shape(nn.Module):
    def area(self, x: torch.Tensor) -> torch.Tensor:
        pass
class Square(nn.Module):
    def area(self, x: torch.Tensor) -> torch.Tensor:
        return x * x
class M(nn.Module):
    shape: Shape
    def __init__(self):
        super().__init__()
        self.shape = Square()
    def use(self, s: Shape, x):
        return s.area(x)
    def forward(self, x):
        return self.shape.area(x) + self.use(self.shape, x)
""", ["torch.ones(2) * 3"]),
    ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2, bias=i % 2 == 0) for i in range(3)])
        for p in self.parameters():
            nn.init.constant_(p, 0.5)
        self.acts = nn.ModuleDict({'relu': nn.ReLU(), 'tanh': nn.Tanh()})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(1) * i) for i in range(2)])
        self.more = nn.ParameterList([nn.Parameter(torch.ones(1) * i) for i in range(3)])
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 1:
                x = self.acts['relu'](x)
        for layer, w in zip(self.layers, self.more):
            x = layer(x) * w
        for name, act in self.acts.items():
            x = act(x)
        return x, len(self.layers), [k for k in self.acts.keys()]
""", ["torch.ones(1, 2)"]),
    ("""
class Inner(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.n = n
    @torch.jit.export
    def extra(self, x: int) -> int:
        return x + self.n
    def forward(self, x: int) -> int:
        return x * self.n
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Inner(2)
        self.b = Inner(3)
    def forward(self, x: int):
        self.a.n = 10
        return self.a(x), self.b(x), self.a.extra(x), hasattr(self, 'a'), hasattr(self.a, 'm'), getattr(self.b, 'n')
""", ["4"]),
    ("""
def helper(x, scale: float = 2.0, shift: int = 1):
    return x * scale + shift
def f(x):
    return helper(x), helper(x, 3.0), helper(x, shift=5), helper(x=x, scale=0.5, shift=0)
""", ["torch.ones(2)"]),
    ("""
def apply(fn_name: str, x: float) -> float:
    if fn_name == 'sin':
        return math.sin(x)
    return math.pow(x, 2.0) + math.floor(x) + math.fmod(x, 2.0)
def f(x: float):
    return apply('sin', x), apply('other', x), math.inf > x, math.isnan(x - x), divmod(7, 2), round(x, 1), int(x), pow(2, 3)
""", ["1.25", "-2.75"]),
    ("""
def outer(x: List[torch.Tensor]) -> Tuple[torch.Tensor, int]:
    total = torch.zeros(1)
    for t in x:
        total = total + t.sum()
    return total, len(x)
def f(x):
    parts = x.split(2)
    total, n = outer(list(parts))
    first, *rest = parts
    return total, n, first, len(rest)
""", ["torch.arange(5.0)"]),
    ("""
def f(x, idx: List[int], mask: Optional[torch.Tensor] = None):
    y = x[idx]
    if mask is not None:
        y = y.masked_fill(mask, 0.0)
    y[0] = 5
    y[:, 1] += 2
    y[..., -1] *= 3
    return y, x[:, None, 1:].shape, x[-1, ::2], x.unsqueeze(0)[0, 0]
""", ["torch.arange(6.0).view(3, 2), [2, 0]"]),
    ("""
def f(x, y: int):
    with torch.no_grad():
        z = x * y
        if y > 2:
            return z, z.requires_grad
    w = x + y
    return w, w.requires_grad
""", ["torch.ones(1), 1", "torch.ones(1), 3"]),
    ("""
def f(d: Dict[int, float], keys: List[int]):
    out = {k: d[k] * 2 for k in keys}
    pairs = [(k, v) for k, v in d.items()]
    return out, pairs, dict(d), len(d), list(d.values()), {str(k): k for k in keys}
""", ["{1: 0.5, 2: 1.5}, [2, 1]", "{}, []"]),
    ("""
@torch.jit._overload
def pick(x: int) -> int:
    ...
@torch.jit._overload
def pick(x: str) -> str:
    ...
def pick(x):
    return x + x
def f(n: int, s: str):
    return pick(n), pick(s)
""", ["2, 'ab'"]),
    ("""
def f(x, a: int, b: float, c: complex):
    return a + b, b * c, a ** 2, a ** -1, a / 2, a // 2, -a % 5, a & 6 | 1, a << 2, ~a, abs(-b), c.real, c.imag, a == b, bool(a)
""", ["torch.ones(1), 3, 2.5, 1 + 2j"]),
    ("""
def f(a: bool, b: bool, n: int):
    return a and n > 1 or b, not a, a == b, a != b, a & b, a | b, a ^ b, int(a) + n, float(b), str(a), n if a else -n
""", ["True, False, 2", "False, True, 0"]),
    ("""
def f(x):
    a = x
    a += 1
    b = x.view(-1)
    b[0] = 100
    c = a.clone()
    c.mul_(2)
    l = [x, x]
    l[0].add_(1)
    return a is x, x, c, l[1], l[0] is l[1]
""", ["torch.zeros(2)"]),
    ("""
def f(x: int, y):
    a = [[x], [1, 2]]
    b: Dict[str, Optional[torch.Tensor]] = {'k': None}
    b['m'] = y
    return a, b
""", []),
    ("""
def f(x: int, y):
    a = [[x], [1, 2]]
    b: Dict[str, Optional[torch.Tensor]] = {'k': None}
    b['m'] = y
    t = b['m']
    assert t is not None
    c: Optional[List[int]] = [x] if x > 1 else None
    return a, t + 1, c is None, b['k'] is None
""", ["1, torch.ones(1)", "2, torch.ones(1)"]),
    ("""
def f(n: int) -> int:
    total = 0
    for i in range(n, 0, -2):
        for j in [1, 2, 3]:
            if j == 2:
                continue
            if i == 4:
                break
            total += i * j
        else_taken = total
    return total
""", ["9", "4"]),
    ("""
def f(x):
    n, m = x.shape
    a = x.size()
    s = 0
    for d in a:
        s += d
    y = x.reshape(m, -1) if n > 1 else x
    k, v = y.max(dim=1)
    return s, k, v, x.numel(), list(x.shape), a[0] * a[-1], torch.jit.annotate(List[int], x[0].long().tolist())
""", ["torch.arange(6.0).view(2, 3)", "torch.ones(1, 2)"]),
    ("def f(x: int):\n    y = x.bit_length()\n    return y\n", []),
    ("def f(x: Any):\n    return x.t\n", []),
    ("def f(l: List[int]):\n    return l.find(1)\n", []),
    ("def f(s: str):\n    return s.append('a')\n", []),
    ("def f(x: Optional[torch.Tensor]):\n    return x.sum()\n", []),
    ("def f(d: Dict[str, int]):\n    return d.has_key('a')\n", []),
    ("def f(x: int):\n    if x > 1:\n        y = 1\n    return y\n", []),
    ("def f(x: int) -> str:\n    for i in range(x):\n        return i\n    return 'a'\n", []),
    ("def f(x: int):\n    for i in [2, 3], 4:\n        x += i\n    return x\n", []),
    ("def f(x: int):\n    l = [1, 'a']\n    return l\n", []),
    ("def f(t: Tuple[int, str], i: int):\n    return t[i]\n", []),
    ("def f(t: Tuple[int, str]):\n    return t[2]\n", []),
    ("def f(x: int):\n    a, b, c = (x, x)\n    return a\n", []),
    ("def f(x):\n    del x.foo\n    return x\n", []),
    ("def f(x: int):\n    with x:\n        return x\n", []),
    ("def f(x: int):\n    x.y = 3\n    return x\n", []),
    ("def g(x: int, y: str) -> int:\n    return x\ndef f(x: int):\n    return g(x, x)\n", []),
    ("def g(x: int, y: str) -> int:\n    return x\ndef f(x: int):\n    return g(x, z=x)\n", []),
    ("def f(x: int):\n    return [i for i in x]\n", []),
    ("def f(x: int):\n    while 'a':\n        x += 1\n    return x\n", []),
    ("def f(x: Dict[str, int]):\n    return {**x}\n", []),
    ("def f(x: int):\n    return lambda y: x\n", []),
    ("def f(x: int):\n    try:\n        return x\n    except ValueError:\n        return 0\n", []),
    ("def f(*args):\n    return args[0]\n", []),
    ("def f(x: List[torch.jit.Future]):\n    return x\n", []),
    ("class K:\n    def __init__(self):\n        self.a = 1\n    def g(self):\n        self.b = 2\ndef f(x: int):\n    return K().a\n", []),
    ("class K:\n    def __init__(self):\n        self.a = 1\ndef f(x: int):\n    return K().b\n", []),
    ("class A:\n    def __init__(self):\n        self.a = 1\nclass B(A):\n    def g(self):\n        return self.a\ndef f(x: int):\n    return B().g()\n", []),
    ("class M(nn.Module):\n    def forward(self, x):\n        return self.missing(x)\n", []),
    ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.layers = nn.ModuleList([nn.ReLU()])\n    def forward(self, x, i: int):\n        return self.layers[i](x)\n", []),
    ("layer = torch.jit.script(nn.ReLU())\ndef f(x):\n    return layer(x)\n", []),
    ("def f(x: int):\n    return undefined_name + x\n", []),
    ("def f(x: int):\n    return torch.no_such_function(x)\n", []),
    ("def f(x: int):\n    print('a', x, sep='')\n    return x\n", []),
    ("def f(x: Union[int, str]):\n    d = {x: 1}\n    return d\n", []),
    ("def f(x: Union[int, str]):\n    return {i: 1 for i in [x]}\n", []),
]

HEAD = """import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import nn


"""


def cases():
    """(name, source, arguments of calls)."""
    for i, (params, expression, calls) in enumerate(EXPRESSIONS):
        yield f"expression{i}", f"def f({params}):\n    return {expression}\n", calls
    for i, (source, calls) in enumerate(PROGRAMS):
        yield f"program{i}", source.strip("\n") + "\n", calls


def renumbered(graph):
    """The graph with values numbered in order and without places."""
    names = {}
    text = re.sub(r" # \S+:\d+:\d+", "", graph)
    return re.sub(r"%[A-Za-z_0-9.]+", lambda m: names.setdefault(m.group(), f"%{len(names)}"), text)


def plain(x, torch):
    """A result as JSON: tensors with their dtype, tuples and dicts marked."""
    if isinstance(x, torch.Tensor):
        return ["tensor", str(x.dtype).rpartition(".")[2], list(x.shape),
                [round(v, 4) if isinstance(v, float) else v for v in x.detach().flatten().tolist()]]
    if isinstance(x, tuple):
        return ["tuple", *[plain(v, torch) for v in x]]
    if isinstance(x, list):
        return ["list", *[plain(v, torch) for v in x]]
    if isinstance(x, dict):
        return ["dict", *[[plain(k, torch), plain(v, torch)] for k, v in x.items()]]
    if isinstance(x, float):
        return ["float", repr(round(x, 9))]
    return x if isinstance(x, (bool, int, str, type(None))) else str(x)


def error_text(e, path):
    """The part of an error that does not depend on the machine."""
    return re.sub(r"0x[0-9a-f]+", "0x", str(e).replace(path, "FILE")).strip()


def outcome(name, source, calls, torch, folder):
    """What scripting and calling the program gives."""
    path = os.path.join(folder, f"corpus_{name}.py")
    with open(path, "w") as file:
        file.write(HEAD + source)
    spec = importlib.util.spec_from_file_location(f"corpus_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where torch looks for the source of classes
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    try:
        made = torch.jit.script(module.M() if hasattr(module, "M") else module.f)
    except Exception as e:
        return {"error": error_text(e, path)}
    results = []
    for arguments in calls:
        try:
            results.append(plain(eval(f"made({arguments})", {"torch": torch, "made": made}), torch))
        except Exception as e:
            results.append(["error", str(e).strip().rpartition("\n")[2]])
    return {"code": made.code, "graph": renumbered(str(made.graph)), "inlined": renumbered(str(made.inlined_graph)),
            "results": results}


def main(target):
    import torch
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        recorded = {name: outcome(name, source, calls, torch, folder) for name, source, calls in cases()}
    with lzma.open(target, "wt", preset=9) as file:
        json.dump(recorded, file, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1])
