"""Integer expressions over symbols: sizes of an exported program.

An Expr is a polynomial over atoms with integer coefficients.  An atom is a symbol's name, or (function, operands) with
Exprs as operands.  Equal polynomials are equal Exprs.  Texts have sympy's form, also those in files.
"""
import ast
import math

FUNCTIONS = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max,
             "div": lambda a, b: a / b}
_FILE_NAMES = {"floordiv": "FloorDiv", "mod": "Mod", "min": "Min", "max": "Max", "div": "IntTrueDiv"}
_READ_NAMES = {**{v: k for k, v in _FILE_NAMES.items()}, "PythonMod": "mod", "CleanDiv": "floordiv"}


def _atom_key(atom):
    return (0, atom) if isinstance(atom, str) else (1, _atom_text(atom, str))


class Expr:
    """A polynomial: {tuple of atoms in order: coefficient}."""

    __slots__ = ("terms", "_hash")

    def __init__(self, terms):
        self.terms = {m: c for m, c in terms.items() if c}
        self._hash = hash(frozenset(self.terms.items()))

    # --- making ---

    @staticmethod
    def of(x):
        return x if isinstance(x, Expr) else Expr({(): int(x)})

    @staticmethod
    def symbol(name):
        return Expr({(name,): 1})

    @staticmethod
    def apply(function, a, b):
        """floordiv, mod, min, max or div of two expressions."""
        a, b = Expr.of(a), Expr.of(b)
        if a.is_number and b.is_number and function != "div":
            return Expr.of(FUNCTIONS[function](a.value, b.value))
        if function == "floordiv":
            return _quotient(a, b)
        if function == "mod" and b.is_number and b.value and all(c % b.value == 0 for c in a.terms.values()):
            return Expr.of(0)
        if function in ("min", "max") and a == b:
            return a
        return Expr({((function, (a, b)),): 1})

    def __add__(self, other):
        terms = dict(self.terms)
        for m, c in Expr.of(other).terms.items():
            terms[m] = terms.get(m, 0) + c
        return Expr(terms)

    def __mul__(self, other):
        terms = {}
        for m, c in self.terms.items():
            for n, d in Expr.of(other).terms.items():
                key = tuple(sorted(m + n, key=_atom_key))
                terms[key] = terms.get(key, 0) + c * d
        return Expr(terms)

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + Expr.of(other) * -1

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, n):
        out = Expr.of(1)
        for _ in range(Expr.of(n).value):
            out = out * self
        return out

    # --- reading ---

    def __eq__(self, other):
        return isinstance(other, (Expr, int)) and self.terms == Expr.of(other).terms

    def __hash__(self):
        return self._hash

    @property
    def is_number(self):
        return all(m == () for m in self.terms)

    @property
    def is_symbol(self):
        return len(self.terms) == 1 and next(iter(self.terms.items()))[1] == 1 and self.name is not None

    @property
    def name(self):
        """The name of an expression that is one symbol, else None."""
        (m, _), = self.terms.items() if len(self.terms) == 1 else [((), 0)]
        return m[0] if len(m) == 1 and isinstance(m[0], str) else None

    @property
    def value(self):
        if not self.is_number:
            raise TypeError(f"{self} is no number")
        return self.terms.get((), 0)

    @property
    def free_symbols(self):
        """The names of its symbols, in the order of the text."""
        out = {}
        for m in self._ordered():
            for atom in m:
                for name in [atom] if isinstance(atom, str) else [n for e in atom[1] for n in e.free_symbols]:
                    out[name] = None
        return list(out)

    def at(self, values):
        """The number for {name: number}."""
        return sum(c * math.prod(_atom_at(atom, values) for atom in m) for m, c in self.terms.items())

    def subs(self, values):
        """The expression with {name: expression} put in."""
        out = Expr.of(0)
        for m, c in self.terms.items():
            term = Expr.of(c)
            for atom in m:
                if isinstance(atom, str):
                    term = term * values.get(atom, Expr.symbol(atom))
                else:
                    term = term * Expr.apply(atom[0], *(e.subs(values) for e in atom[1]))
            out = out + term
        return out

    # --- text ---

    def _ordered(self):
        return sorted(self.terms, key=lambda m: (-len(m), [_atom_key(a) for a in m]))

    def text(self, name=str, python=False):
        """The text; name(symbol) gives that of a symbol.  python: a // b and a % b, as conditions have them."""
        out = ""
        for m in self._ordered():
            c, factors = self.terms[m], _powers(m, name, python)
            one = "*".join(factors if abs(c) == 1 and factors else [str(abs(c)), *factors])
            out += (" - " if c < 0 else " + ") + one if out else ("-" if c < 0 else "") + one
        return out or "0"

    def __str__(self):
        return self.text()

    __repr__ = __str__

    def file_text(self):
        """The text that files have: Add(Symbol('s77', positive=True, integer=True), Integer(1))."""
        items = [_term_file_text(m, self.terms[m]) for m in reversed(self._ordered())]
        return items[0] if len(items) == 1 else f"Add({', '.join(items)})" if items else "Integer(0)"


def _quotient(a, b):
    if b == 1:
        return a
    if b.is_number and all(c % b.value == 0 for c in a.terms.values()):
        return Expr({m: c // b.value for m, c in a.terms.items()})
    if len(b.terms) == 1 and not b.is_number:  # a common factor
        (n, d), = b.terms.items()
        exact = {}
        for m, c in a.terms.items():
            rest = list(m)
            if c % d or any(atom not in rest or rest.remove(atom) for atom in n):
                break
            exact[tuple(rest)] = c // d
        else:
            return Expr(exact)
    return Expr({(("floordiv", (a, b)),): 1})


def _atom_at(atom, values):
    return values[atom] if isinstance(atom, str) else FUNCTIONS[atom[0]](*(e.at(values) for e in atom[1]))


def _enclosed(e, name, python):
    text = e.text(name, python)
    simple = len(e.terms) == 1 and next(iter(e.terms.values())) == 1 and len(next(iter(e.terms))) == 1 or e.is_number
    return text if simple else f"({text})"


def _atom_text(atom, name, python=False):
    if isinstance(atom, str):
        return name(atom)
    function, (a, b) = atom
    if function == "floordiv" or function == "mod" and python:
        sign = "//" if not python else " // " if function == "floordiv" else " % "
        return f"({_enclosed(a, name, python)}{sign}{_enclosed(b, name, python)})"
    if function == "mod":
        return f"(Mod({a.text(name)}, {b.text(name)}))"
    return f"{_FILE_NAMES[function]}({a.text(name, python)}, {b.text(name, python)})"


def _powers(m, name, python=False):
    return [_atom_text(a, name, python) + (f"**{m.count(a)}" if m.count(a) > 1 else "") for a in dict.fromkeys(m)]


def _atom_file_text(atom):
    if isinstance(atom, str) and atom.startswith("zuf"):
        return f"Symbol('{atom}')"
    if isinstance(atom, str):
        return f"Symbol('{atom}', positive=True, integer=True)" if atom[0] != "u" else f"Symbol('{atom}', integer=True)"
    return f"{_FILE_NAMES[atom[0]]}({', '.join(e.file_text() for e in atom[1])})"


def _term_file_text(m, c):
    factors = [f"Integer({c})"] if c != 1 or not m else []
    for a in dict.fromkeys(m):
        text = _atom_file_text(a)
        factors.append(f"Pow({text}, Integer({m.count(a)}))" if m.count(a) > 1 else text)
    return factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})"


# --- from text ---

_OPERATORS = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
              ast.FloorDiv: lambda a, b: Expr.apply("floordiv", a, b), ast.Mod: lambda a, b: Expr.apply("mod", a, b),
              ast.Pow: lambda a, b: a ** b, ast.Div: lambda a, b: Expr.apply("div", a, b)}


def _call(tree, refuse):
    name, args = tree.func.id, tree.args
    if name == "Symbol" and args and isinstance(args[0], ast.Constant):
        return Expr.symbol(str(args[0].value))
    if name in ("Integer", "TruncToInt", "ToFloat") and len(args) == 1:
        return _read(args[0], refuse)
    items = [_read(x, refuse) for x in args]
    if name == "Add" and items:
        return sum(items[1:], items[0])
    if name == "Mul" and items:
        return math.prod(items[1:], start=items[0])
    if name == "Pow" and len(items) == 2 and items[1].is_number and 0 <= items[1].value <= 64:
        return items[0] ** items[1]
    name = _READ_NAMES.get(name) or (name.lower() if name in ("min", "max") else None)
    if name and len(items) >= 2:
        out = items[0]
        for x in items[1:]:
            out = Expr.apply(name, out, x)
        return out
    return refuse()


def _read(tree, refuse):
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return Expr.of(tree.value)
    if isinstance(tree, ast.Name):
        return Expr.symbol(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_read(tree.operand, refuse)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        a, b = _read(tree.left, refuse), _read(tree.right, refuse)
        if isinstance(tree.op, (ast.FloorDiv, ast.Mod)) and b == 0 or \
           isinstance(tree.op, ast.Pow) and not (b.is_number and 0 <= b.value <= 64):
            return refuse()
        return _OPERATORS[type(tree.op)](a, b)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return _call(tree, refuse)
    return refuse()


def parse(text):
    """The Expr of a text of this module or of a file; ValueError for other texts."""
    def refuse():
        raise ValueError(f"not an expression over sizes: {text[:200]!r}")
    if len(text) > 10000:
        refuse()
    try:
        return _read(ast.parse(text, mode="eval").body, refuse)
    except (SyntaxError, RecursionError, ArithmeticError, MemoryError):
        refuse()
