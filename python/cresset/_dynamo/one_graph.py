"""Which values a function of one graph (`fullgraph=True`) may read in the middle of a call.

torch puts `item()`, conversions, arrays and sizes that depend on values into its graph, as long as the program does not
branch on them.  Here they make calls run, with eager's values.  The syntax tree of the source says which programs torch
refuses: a value is followed through arithmetic, comparisons, conversions and local variables that are assigned once.
Elsewhere (in containers, attributes and variables that are assigned again) it is accepted.
"""
import ast
import linecache
from functools import lru_cache

_NUMBERS = frozenset(f.__name__ for f in (abs, bool, float, int, max, min, pow, round))  # of a number they give one
_TEXTS = frozenset(("print", "repr", "str"))  # torch refuses these
_LOOPS = frozenset(("range",))  # torch does not unroll these
_TRUTHS = frozenset(("bool", "max", "min"))  # calls that read truth values, which torch puts into its graph
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def holds(part, place):
    """Whether one graph can have a value.  part: what it has of such values (py/bind/reads.def), place: of the read."""
    if part in ("size", "held"):
        return True
    if part is None or place is None:
        return False
    tree = _tree("".join(linecache.getlines(place.code.co_filename)))
    node = tree and tree.find(place)
    if node is None:
        return part == "value"
    if part == "truth":
        test, call = tree.is_test(node), isinstance(node, ast.Call)
        if isinstance(node, ast.Assert):  # the jump after a test may have the place of the statement
            return True
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            return True  # items of a container are compared
        if test is not None:
            return not test
        if not call or getattr(node.func, "id", "") not in _TRUTHS:
            return False
        if node.func.id != "bool":
            return True  # the call gives a tensor
    elif tree.reads_argument(node):
        return True  # a number of which torch makes a guard
    return not tree.steers(node, set())


@lru_cache(maxsize=16)
def _tree(text):
    try:
        return _Tree(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _same_places(targets, values, value):
    """The targets in `a, b = c, d` that get one of the values."""
    lists = [t.elts for t in targets if isinstance(t, (ast.Tuple, ast.List)) and len(t.elts) == len(values.elts)]
    at = values.elts.index(value)
    return [elts[at] for elts in lists if not any(isinstance(x, ast.Starred) for x in (*elts, *values.elts))]


class _Tree:
    """A file's syntax tree, in which nodes know their parents."""

    def __init__(self, module):
        self.parents, self.at = {}, {}
        for node in ast.walk(module):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, (ast.expr, ast.Assert)):
                self.at.setdefault((node.lineno, node.end_lineno, node.col_offset, node.end_col_offset), node)

    def find(self, place):
        """The expression or assertion of an instruction, or None."""
        positions = list(place.code.co_positions())
        return self.at.get(positions[place.at]) if place.at < len(positions) else None

    def function(self, node):
        while node is not None and not isinstance(node, _FUNCTIONS):
            node = self.parents.get(node)
        return node

    def is_test(self, node):
        """Whether a node decides what runs next; None: it does not."""
        parent = self.parents.get(node)
        if isinstance(parent, (ast.If, ast.While, ast.IfExp)) and parent.test is node:
            return True
        if isinstance(parent, ast.Assert) and parent.test is node:
            return False
        return True if isinstance(parent, ast.comprehension) and node in parent.ifs else None

    def steers(self, node, met):
        """Whether the program branches on the value of an expression, counts to it, or writes it as a text."""
        if node in met:
            return False
        met.add(node)
        test, parent = self.is_test(node), self.parents.get(node)
        if test is not None:
            return test
        if isinstance(parent, ast.BoolOp) and parent.values[-1] is not node:
            return True
        if isinstance(parent, ast.Call) and node is not parent.func:
            name = getattr(parent.func, "id", "")
            if name in _TEXTS or name in _LOOPS:
                return True
            owner = getattr(parent.func, "value", None)
            return (name in _NUMBERS or getattr(owner, "id", "") == "math") and self.steers(parent, met)
        if isinstance(parent, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops):
            return False
        if isinstance(parent, ast.Subscript) and parent.value is not node:
            return False
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod) and isinstance(parent.left, ast.Constant) and \
                isinstance(parent.left.value, str):
            return True
        if isinstance(parent, (ast.BinOp, ast.BoolOp, ast.Compare, ast.FormattedValue, ast.IfExp, ast.JoinedStr, ast.NamedExpr,
                               ast.Subscript, ast.UnaryOp)):
            return self.steers(parent, met) or isinstance(parent, ast.NamedExpr) and self.names_steer([parent.target], met)
        if isinstance(parent, ast.Assign):
            return self.names_steer(parent.targets, met)
        if isinstance(parent, ast.Tuple) and isinstance(self.parents.get(parent), ast.Assign):
            return self.names_steer(_same_places(self.parents[parent].targets, parent, node), met)
        return isinstance(parent, (ast.AnnAssign, ast.For)) and self.names_steer([parent.target], met)

    def names_steer(self, targets, met):
        names = [x for target in targets for x in ([*target.elts] if isinstance(target, ast.Tuple) else [target])]
        return any(isinstance(x, ast.Name) and self.bindings(x) == 1 and self.uses_steer(x, met) for x in names)

    def uses_steer(self, name, met):
        return any(isinstance(x, ast.Name) and x.id == name.id and isinstance(x.ctx, ast.Load) and self.steers(x, met)
                   for x in ast.walk(self.function(name) or name))

    def bindings(self, name):
        """How often a function binds a name."""
        function = self.function(name)
        nodes = [] if function is None else ast.walk(function)
        return sum(isinstance(x, ast.Name) and x.id == name.id and not isinstance(x.ctx, ast.Load) or
                   isinstance(x, ast.arg) and x.arg == name.id for x in nodes)

    def reads_argument(self, node):
        """Whether a node reads a number from an argument of the function itself: `n.item()`, `int(n)`."""
        if not isinstance(node, ast.Call):
            return False
        x = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else None
        function = self.function(node)
        return isinstance(x, ast.Name) and function is not None and self.bindings(x) == 1 and \
            any(arg.arg == x.id for arg in ast.walk(function.args) if isinstance(arg, ast.arg))
