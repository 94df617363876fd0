"""Texts of sizes of an exported program: integer expressions over symbols, which are C's (sym/sym.h).

Texts have sympy's form, also those in files.
"""
import ast
import math

from ._C import _SizeExpression

FUNCTIONS = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max,
             "div": lambda a, b: a / b}
_FILE_NAMES = {"floordiv": "FloorDiv", "mod": "Mod", "min": "Min", "max": "Max", "div": "IntTrueDiv"}
_READ_NAMES = {**{v: k for k, v in _FILE_NAMES.items()}, "PythonMod": "mod", "CleanDiv": "floordiv"}


def _atom_key(atom):
    return (0, atom) if isinstance(atom, str) else (1, _atom_text(atom, str))


class Size(_SizeExpression):
    """A polynomial over atoms with integer coefficients; `terms` has it as {tuple of atoms: coefficient}.  An atom is a
    symbol's name, or (function, operands) with Sizes as operands.  Equal polynomials are equal Sizes."""

    __slots__ = ()

    def __reduce__(self):
        return parse, (self.text(),)

    @property
    def terms(self):
        """The terms, each with its atoms in the order of the text."""
        return {tuple(sorted(m, key=_atom_key)): c for m, c in super().terms.items()}

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
        out = Size.of(0)
        for m, c in self.terms.items():
            term = Size.of(c)
            for atom in m:
                if isinstance(atom, str):
                    term = term * values.get(atom, Size.symbol(atom))
                else:
                    term = term * Size.apply(atom[0], *(e.subs(values) for e in atom[1]))
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


def _atom_at(atom, values):
    return values[atom] if isinstance(atom, str) else FUNCTIONS[atom[0]](*(e.at(values) for e in atom[1]))


def _enclosed(e, name, python):
    text = e.text(name, python)
    simple = len(e.terms) == 1 and next(iter(e.terms.values())) == 1 and len(next(iter(e.terms))) == 1 or e.is_number
    return text if simple else f"({text})"


def _operands(atom):
    """The operands of a function, those of min and max in the order of texts."""
    return sorted(atom[1], key=lambda e: (not e.is_number, e.text())) if atom[0] in ("min", "max") else atom[1]


def _atom_text(atom, name, python=False):
    if isinstance(atom, str):
        return name(atom)
    function, (a, b) = atom[0], _operands(atom)
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
    return f"{_FILE_NAMES[atom[0]]}({', '.join(e.file_text() for e in _operands(atom))})"


def _term_file_text(m, c):
    factors = [f"Integer({c})"] if c != 1 or not m else []
    for a in dict.fromkeys(m):
        text = _atom_file_text(a)
        factors.append(f"Pow({text}, Integer({m.count(a)}))" if m.count(a) > 1 else text)
    return factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})"


# --- from text ---

_OPERATORS = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
              ast.FloorDiv: lambda a, b: Size.apply("floordiv", a, b), ast.Mod: lambda a, b: Size.apply("mod", a, b),
              ast.Pow: lambda a, b: a ** b, ast.Div: lambda a, b: Size.apply("div", a, b)}


def _call(tree, refuse):
    name, args = tree.func.id, tree.args
    if name == "Symbol" and args and isinstance(args[0], ast.Constant):
        return Size.symbol(str(args[0].value))
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
            out = Size.apply(name, out, x)
        return out
    return refuse()


def _read(tree, refuse):
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return Size.of(tree.value)
    if isinstance(tree, ast.Name):
        return Size.symbol(tree.id)
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
    """The Size of a text of this module or of a file; ValueError for other texts."""
    def refuse():
        raise ValueError(f"not an expression over sizes: {text[:200]!r}")
    if len(text) > 10000:
        refuse()
    try:
        return _read(ast.parse(text, mode="eval").body, refuse)
    except (SyntaxError, RecursionError, ArithmeticError, MemoryError):
        refuse()
