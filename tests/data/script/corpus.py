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
