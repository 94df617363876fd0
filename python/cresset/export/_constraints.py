"""Which sizes of an exported program may vary: symbols, bounds and conditions.

Each size that may vary has a symbol.  Symbols are equal to one another or to a number where a Dim says so, where the
program asked (a guard of the recording), or where the operators take no other sizes: the recording's rules are run at
other sizes (`_C.RecordedGraph.takes`).
"""
import hashlib

from .._dynamo.exc import ConstraintViolationError, UserError
from .._size_expr import Size
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from . import _control
from ._graph import dependent_values, number_expressions, takes, value_sizes
from .dynamic_shapes import Dim
from .exported_program import ValueRange

_TESTS = {("==", True): "==", ("==", False): "!=", ("<", True): "<", ("<", False): ">=", ("<=", True): "<=",
          ("<=", False): ">"}
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_SPECIALIZED = ("  - You marked {0} as dynamic but your code specialized it to be a constant ({1}). If you're using mark_dynamic, "
                "either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or "
                "Dim.AUTO.")
_MORE = 'For more information, run with TORCH_LOGS="+dynamic".'


def symbol_name(source, taken):
    """The symbol of a size: torch's number of its source."""
    n = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
    while f"s{n}" in taken:
        n += 1
    return f"s{n}"


FILE_TESTS = {"==": "Equality", "!=": "Unequality", "<": "StrictLessThan", "<=": "LessThan", ">": "StrictGreaterThan", ">=": "GreaterThan"}


class Condition:
    """left TEST right: a condition on sizes that a program's call has."""

    def __init__(self, left, test, right):
        if left.is_number and not right.is_number:
            left, test, right = right, _SWAPPED[test], left
        self.left, self.test, self.right = left, test, right

    def text(self, name=str):
        def side(e):
            text = e.text(name, python=True)
            return text if e.is_number or e.is_symbol else text if text.startswith("(") and len(e.terms) == 1 else f"({text})"
        return f"{side(self.left)} {self.test} {side(self.right)}"

    def __str__(self):
        """The words of assertions."""
        left, right = (e.text()[1:-1] if e.text().startswith("(") and len(e.terms) == 1 else e.text() for e in (self.left, self.right))
        return {"==": f"Eq({left}, {right})", "!=": f"Ne({left}, {right})"}.get(self.test, f"{left} {self.test} {right}")

    def file_text(self):
        """The text that files have: LessThan(Symbol('u0', integer=True), Integer(6))."""
        return f"{FILE_TESTS[self.test]}({self.left.file_text()}, {self.right.file_text()})"

    def holds(self, values):
        a, b = self.left.at(values), self.right.at(values)
        return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[self.test]

    def subs(self, values):
        return Condition(self.left.subs(values), self.test, self.right.subs(values))


class Constraints:
    """The sizes of a recording that may vary.

        dims     the DimSpecs, of which those with a number vary
        values   the numbers that depend on elements (_unbacked.Values)
        sizes()  {number: Size}
    """

    def __init__(self, recorded, dims, leaves, values):
        self.recorded, self.all_dims, self.leaves, self.values = recorded, dims, leaves, values
        self.dims = [d for d in dims if d.varies]
        self.equal = {}       # symbol -> Size that replaces it
        self.loose = set()    # symbols that vary together, but without a relation that gives one of them
        self.related = {}     # those of them that operators need and that are no equality of two symbols
        self.lower, self.upper = {}, {}
        self.conditions = []  # what the program asked
        self.found = []       # equalities that operators need: Conditions between symbols of the dims

    # --- symbols ---

    def _number_dims(self):
        names = self.recorded.inputs
        at = {(of[0], of[1]): k for k, (how, *of) in enumerate(self.recorded.numbers) if how == "size"}
        for d in self.dims:
            d.number = at[names[d.leaf.place], d.dim]
            d.symbol = symbol_name(d.source, self.hint_of)
            self.hint_of[d.symbol] = d.hint
            low, high = d.bounds
            self.lower[d.symbol], self.upper[d.symbol] = max(low, 2) if d.is_hint else low, high

    def value(self, symbol):
        """The Size that stands for a symbol."""
        e = Size.symbol(symbol)
        while True:
            new = e.subs(self.equal)
            if new == e:
                return e
            e = new

    def expr(self, d):
        return self.value(d.symbol)

    def put(self, e):
        return e.subs({s: self.value(s) for s in e.free_symbols})

    def join(self, a, b):
        """Makes two Sizes equal, of which one is a symbol; false if neither is."""
        a, b = self.put(a), self.put(b)
        if a == b:
            return True
        if not a.is_symbol:
            a, b = b, a
        if not a.is_symbol or a.name in b.free_symbols:
            return False
        self.equal[a.name] = b
        if b.is_symbol:
            self.lower[b.name] = max(self.lower[b.name], self.lower[a.name])
            highs = [h for h in (self.upper[a.name], self.upper[b.name]) if h is not None]
            self.upper[b.name] = min(highs) if highs else None
        return True

    # --- what Dims say ---

    def _use_dims(self):
        first = {}
        for d in self.all_dims:
            low, high = d.bounds
            if d.hint < low or high is not None and d.hint > high:
                raise ConstraintViolationError(f"{d.hint} not in range [{max(low, 2)}, {'int_oo' if high is None else high}]")
            if d.is_hint:
                continue
            other = first.setdefault(d.spec.__name__, d)
            if other.hint != d.hint:
                raise UserError(f"{d.source} = {d.hint} is not equal to {other.source} = {other.hint}")
            if other is not d and d.number is not None and other.number is not None:
                self.join(Size.symbol(other.symbol), Size.symbol(d.symbol))
        for d in self.dims:
            if isinstance(d.spec, Dim) and d.spec.root is not None:
                self._use_derived(d)

    def _use_derived(self, d):
        spec = d.spec
        root = next((o for o in self.dims if o.spec is spec.root or getattr(o.spec, "__name__", None) == spec.root.__name__), None)
        value, rest = divmod(d.hint - spec.offset, spec.scale)
        if rest:
            raise UserError(f"Expected shape[{d.dim}] = {d.hint} of input Tensor to be of the form {spec.__name__}, where "
                            f"{spec.root.__name__} is an integer")
        if root is not None and root.hint != value:
            raise UserError(f"Expected input {d.source} to be equal to {spec.__name__}, where {spec.root.__name__} = {root.hint}, but got "
                            f"{d.hint}")
        if root is None:
            name = symbol_name(spec.root.__name__, self.hint_of)
            name = self.roots.setdefault(spec.root.__name__, name)
            self.hint_of[name], self.lower[name] = value, max(spec.root.min, 2)
            self.upper[name] = None if Dim("_").max == spec.root.max else spec.root.max
        else:
            name = root.symbol
        self.equal[d.symbol] = self.value(name) * spec.scale + spec.offset

    # --- what the program asked ---

    def _value_sizes(self):
        """value_sizes() of the recording.  Symbols with which its calls change, and not only their sizes, become numbers."""
        free = list(self._free())
        for varying in [free, *([s] for s in free if len(free) > 1)]:
            fixed = {s: Size.of(self.hint_of[s]) for s in free if s not in varying}
            try:
                sized = value_sizes(self.recorded, {k: e.subs(fixed) for k, e in self.sizes().items()}, self.hint_of, self.bounds(),
                                    self.values.facts)
                if varying == free:
                    return sized
            except ValueError:
                if len(varying) == 1:
                    self._fix(varying[0])
        try:
            return value_sizes(self.recorded, self.sizes(), self.hint_of, self.bounds(), self.values.facts)
        except ValueError:
            for s in self._free():
                self._fix(s)
            return {}

    def _fix(self, s):
        self.found.append(Condition(Size.symbol(s), "==", Size.of(self.hint_of[s])))
        self.equal[s] = Size.of(self.hint_of[s])

    def _check_counts(self):
        """Refuses calls that give as many tensors as an element says, and, in branches, as a size that varies says."""
        elements = self.values.symbols.keys()
        sized = self._value_sizes() if elements or self.values.trace.sites else {}
        if elements:
            self._refuse_counts(self.recorded, self.sizes(), sized, lambda e: elements & {*e.free_symbols}, self.values.is_element)
            self._refuse_small_counts()
        self._check_branches(self.recorded, sized)

    def _refuse_small_counts(self):
        """The same for sizes that are another expression where a number is smaller than in the example: y[:2]."""
        known = {**{d.number: Size.symbol(d.symbol) for d in self.dims}, **self._value_numbers()}
        hints = {**self.hint_of, **{s.name: s.hint for s in self.values.symbols.values()}}
        ints = [s for s in self.values.symbols.values() if s.kind is int]
        for some in [*([s] for s in ints), ints]:
            for less in range(1, max([s.hint for s in some], default=0)):
                values = {**hints, **{s.name: s.hint - less for s in some}}
                if any(s.lower is not None and values[s.name] < s.lower or values[s.name] < 0 for s in some) or \
                        not all(f.holds(values) for f in self.values.facts):
                    continue
                try:
                    self.recorded.takes({k: e.at(values) for k, e in known.items()})
                except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
                    if "returns another number of tensors" in str(error):
                        raise GuardOnDataDependentSymNode(self.values.refusal(f"number of results of {str(error).split()[0]}")) from error

    def _check_branches(self, recorded, sized):
        for _, op, *rest in recorded.nodes():
            site = self.values.trace.sites.get(rest[1]["site"]) if op == _control.OPERATOR else None
            if site is not None:
                at = site.sizes([sized.get(name) for name, in rest[1]["operands"]])
                for function in site.functions:
                    self._check_branch(function, {name: at[id(x)] for x, name in zip(function.tensors, function.recorded.inputs)})

    def _check_branch(self, branch, operands):
        """operands: {input of the branch: its sizes outside}."""
        recorded, values = branch.recorded, self.values
        known = values.numbers(branch.recorder)
        for k, (how, *of) in enumerate(recorded.numbers):
            if how == "size" and operands.get(of[0]):
                known[k] = operands[of[0]][of[1]]
        try:
            sized = value_sizes(recorded, known, {**self.hint_of, **values.all_hints()}, self.bounds(), values.facts)
        except ValueError:
            sized = {}
        self._refuse_counts(recorded, known, sized, lambda e: not e.is_number, lambda numbers, k: numbers[k][0] != "const")
        self._check_branches(recorded, sized)

    def _refuse_counts(self, recorded, known, sized, varies, is_source):
        """Refuses calls whose number of results has an expression that varies, or an unknown one that depends on a source."""
        exprs = number_expressions(recorded.numbers, known, sized)
        for op, _, tensor, dim, symbols in recorded.counts():
            sizes = sized.get(tensor)
            of = [sizes[dim] if sizes and dim >= 0 else None, *(exprs[k] for k in symbols)]
            if any(e is not None and varies(e) for e in of) or \
                    None in of[1:] or of[0] is None and tensor in dependent_values(recorded, is_source):
                raise GuardOnDataDependentSymNode(self.values.refusal(f"number of results of {op}"))

    def _use_guards(self):
        known = {**{d.number: Size.symbol(d.symbol) for d in self.dims}, **self._value_numbers()}
        sized = self._value_sizes()
        exprs = number_expressions(self.recorded.numbers, known, sized)
        for test, a, b, holds in self.recorded.guards:
            if None in (exprs[a], exprs[b]) and (self.values.is_element(self.recorded.numbers, a) or
                                                 self.values.is_element(self.recorded.numbers, b)):
                raise GuardOnDataDependentSymNode(self.values.refusal("expr"))
            if exprs[a] is None or exprs[b] is None or exprs[a].is_number and exprs[b].is_number:
                continue
            condition = Condition(exprs[a], _TESTS[test, holds], exprs[b])
            if self.values.symbols.keys() & {*condition.left.free_symbols, *condition.right.free_symbols}:
                self.values.check_guard(condition)
                continue
            if condition.test == "==" and self.join(condition.left, condition.right):
                self._note(condition)
            elif not self._implied(condition):
                self._bound(condition)
                self._note(condition)

    def _note(self, condition):
        if condition.text() not in [c.text() for c in self.conditions]:
            self.conditions.append(condition)

    def _range(self, e):
        """The least and greatest value of an expression of one symbol with a positive factor, or None."""
        e = self.put(e)
        if e.is_number:
            return e.value, e.value
        terms = {m: c for m, c in e.terms.items() if m != ()}
        if len(terms) != 1 or len(e.free_symbols) != 1:
            return None
        (m, c), = terms.items()
        if c <= 0 or len(m) != 1 or not isinstance(m[0], str):
            return None
        low, high = self.lower[m[0]], self.upper[m[0]]
        offset = e.terms.get((), 0)
        return c * low + offset, None if high is None else c * high + offset

    def _implied(self, condition):
        difference = self.put(condition.left - condition.right)
        if difference.is_number:
            return True
        found = self._range(difference)
        if found is None:
            return False
        low, high = found
        return {"!=": low > 0 or high is not None and high < 0, ">": low > 0, ">=": low >= 0,
                "<": high is not None and high < 0, "<=": high is not None and high <= 0, "==": low == high == 0}[condition.test]

    def _bound(self, condition):
        """Narrows the bounds of the symbol of `symbol TEST number`."""
        e = self.put(condition.left - condition.right)
        if len(e.free_symbols) != 1:
            return
        (m, c), = [(m, c) for m, c in e.terms.items() if m != ()] if len(e.terms) <= 2 else [((), 0)]
        if len(m) != 1 or not isinstance(m[0], str) or not c or condition.test in ("==", "!="):
            return
        n, s, test = -e.terms.get((), 0), m[0], condition.test if c > 0 else _SWAPPED[condition.test]
        n = n if c > 0 else -n
        if test in (">", ">="):
            least = n // abs(c) + 1 if test == ">" else -(-n // abs(c))
            self.lower[s] = max(self.lower[s], least)
        else:
            most = -(-n // abs(c)) - 1 if test == "<" else n // abs(c)
            self.upper[s] = most if self.upper[s] is None else min(self.upper[s], most)

    # --- what the operators take ---

    def _takes(self, changed):
        """Whether the program runs when symbols have the values `changed` and others those of the example."""
        values = {**self.hint_of, **changed}
        sizes = {d.number: self.expr(d).at(values) for d in self.dims}
        return takes(self.recorded, sizes)

    def _free(self):
        """The symbols that are not replaced, with their first dim."""
        out = {}
        for d in self.dims:
            for s in self.expr(d).free_symbols:
                out.setdefault(s, d)
        return out

    def _others(self, s):
        """Other values for a symbol within its bounds, near ones first."""
        hint, low, high = self.hint_of[s], self.lower[s], self.upper[s]
        tried = [hint + 1, hint + 2, hint - 1, hint + 3, hint + 4, 2 * hint, hint + 6, 3 * hint, hint + 12, hint + 16, hint + 32,
                 hint // 2, 4 * hint, 5 * hint, 6 * hint]
        return [n for n in dict.fromkeys(tried) if n != hint and n >= max(low, 2) and (high is None or n <= high)]

    def _probe(self):
        """Finds the symbols that must be equal, or numbers."""
        stuck = [s for s in self._free() if not self._varies(s)]
        for s in list(stuck):
            if s in self.equal or s not in stuck:
                continue
            partner = next((t for t in stuck if t != s and t not in self.equal and self.hint_of[t] == self.hint_of[s] and
                            any(self._takes({s: n, t: n}) for n in self._others(s))), None)
            group = [partner] if partner is not None else self._group(s, stuck)
            for t in group:
                self._pair(s, t)
            if group:
                stuck = [x for x in stuck if x != s and x not in group]
        for s in sorted(stuck, key=self.hint_of.__getitem__, reverse=True):
            if s not in self.equal and s not in self.loose and not self._varies(s) and not self._relate(s):
                self._fix(s)

    def _varies(self, s):
        """Whether the program runs at other values of s.  One smaller value, at which a broadcast of one element takes it, is
        not enough if larger ones are tried."""
        hint, others = self.hint_of[s], self._others(s)
        smaller = 0
        for n in others:
            if self._takes({s: n}):
                smaller += n < hint
                if n > hint or smaller > 1:
                    return True
        return smaller > 0 and max(others) < hint

    def _slope(self, s, t):
        """By how much t changes with s, if the program runs when they change together; None if it does not."""
        hints = [self.hint_of[x] for x in self._free()]
        for k in dict.fromkeys([1, 2, 3, 4, *hints, *range(5, 9)]):
            pairs = [(n, self.hint_of[t] + k * (n - self.hint_of[s])) for n in self._others(s)]
            pairs = [p for p in pairs if self._is_within(t, p[1])]
            if pairs and all(self._takes({s: n, t: m}) for n, m in pairs[:3]):
                return k
        return None

    def _is_within(self, s, n):
        return n >= max(self.lower[s], 2) and (self.upper[s] is None or n <= self.upper[s])

    def _relate(self, s):
        """Finds a relation of s to symbols that are not larger: s = t + 1, s = 2 * t, s = t * u, s = t + u.  False if there is
        none."""
        hint = self.hint_of[s]
        slopes = {t: k for t in self._free() if t != s and self.hint_of[t] <= hint for k in [self._slope(t, s)] if k is not None}
        if not slopes:
            return False
        if len(slopes) == 1:
            (t, k), = slopes.items()
            if k > 1 and self._has_range(s, t, k):
                self.loose |= {s, t}
                return True
            return self._set_relation(s, Size.symbol(t) * k + (hint - k * self.hint_of[t]))
        total = Size.of(hint - sum(k * self.hint_of[t] for t, k in slopes.items()))
        for t, k in slopes.items():
            total = total + Size.symbol(t) * k
        product = Size.of(1)
        for t in slopes:
            product = product * Size.symbol(t)
        for e in (product, total):
            values = {t: self._others(t)[0] for t in slopes if self._others(t)}
            if e.at(self.hint_of) == hint and self._takes({**values, s: e.at({**self.hint_of, **values})}):
                return self._set_relation(s, e)
        return False

    def _has_range(self, s, t, k):
        """Whether other values of s than that of the relation go with a value of t: y[::2] + x takes 2*n and 2*n - 1.  Both vary
        then, and the operators check each call."""
        n = next(iter(self._others(t)))
        value = self.hint_of[s] + k * (n - self.hint_of[t])
        return any(self._is_within(s, m) and self._takes({t: n, s: m}) for m in (value - 1, value + 1))

    def _set_relation(self, s, e):
        self.equal[s] = self.related[s] = e
        return True

    def _group(self, s, stuck):
        """All symbols of the value of s, if the program runs when they change together."""
        group = [t for t in stuck if t != s and t not in self.equal and self.hint_of[t] == self.hint_of[s]]
        if group and any(self._takes({x: n for x in [s, *group]}) for n in self._others(s)):
            return group
        return []

    def _pair(self, s, t):
        a, b = Size.symbol(s), Size.symbol(t)
        order = [d.symbol for d in self.dims]
        if self.value(s).is_symbol and self.value(t).is_symbol and order.index(self.value(s).name) > order.index(self.value(t).name):
            a, b = b, a
        if self.put(a) != self.put(b):
            self.found.append(Condition(a, "==", b))
            self.join(a, b)

    def _bounds(self):
        """Raises the least values of symbols to those that the operators take."""
        for s in self._free():
            low = max(self.lower[s], 2)
            if self._may_be(s, low) or not self._may_be(s, self.hint_of[s] + 1):
                continue
            least = next((n for n in range(low + 1, min(self.hint_of[s], low + 256)) if self._may_be(s, n)), self.hint_of[s])
            condition = Condition(Size.symbol(s), ">=", Size.of(least))
            self._bound(condition)
            self._note(condition)

    def _may_be(self, s, n):
        """Whether the program runs where s is n, with any values of the symbols that conditions compare with s."""
        plain = [c for c in map(self._plain, self.conditions) if s in (symbols := {*c.left.free_symbols, *c.right.free_symbols}) and
                 len(symbols) > 1]
        others = sorted({t for c in plain for t in (*c.left.free_symbols, *c.right.free_symbols)} - {s})
        if not others:
            return self._takes({s: n})
        least = {t: max(self.lower[t], 2) for t in others}
        most = {t: self.hint_of[t] * 64 if self.upper[t] is None else self.upper[t] for t in others}
        return any(all(c.holds({**self.hint_of, **values}) for c in plain) and self._takes(values)
                   for values in ({**found, s: n} for found in ({}, least, most)))

    def _divisors(self):
        """Conditions s % n == 0 that the operators need."""
        for s in self._free():
            hint = self.hint_of[s]
            takes = [n for n in self._others(s) if self._may_be(s, n)]
            if hint + 1 in takes or hint + 2 in takes and hint - 1 in takes or not takes:
                continue
            n = next((n for n in range(2, hint + 1) if hint % n == 0 and
                      all((m % n == 0) == (m in takes) for m in self._others(s))), None)
            if n is not None:
                condition = Condition(Size.apply("mod", Size.symbol(s), n), "==", Size.of(0))
                if condition.text() not in [self._plain(c).text() for c in self.conditions]:
                    self.conditions.append(condition)

    def _count_symbols(self):
        """The sets of symbols that numbers of results may follow."""
        counts, free = self.recorded.counts(), {*self._free()}
        if not counts or not free:
            return []
        sized, out = self._value_sizes(), []
        exprs = number_expressions(self.recorded.numbers, self.sizes(), sized)
        for _, _, tensor, dim, symbols in counts:
            sizes = sized.get(tensor)
            of = [sizes[dim] if sizes and dim >= 0 else None, *(exprs[k] for k in symbols)]
            out.append(free if None in of else {s for e in of for s in self.put(e).free_symbols} & free)
        return [x for x in out if x]

    def _gives_another_count(self, s, n):
        """Whether a call gives another number of tensors than in the example, where s is n and the conditions hold."""
        values = {**self.hint_of, s: n}
        if not all(self._plain(c).holds(values) for c in self.conditions):
            return False
        try:
            self.recorded.takes({d.number: self.expr(d).at(values) for d in self.dims})
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
            return "returns another number of tensors" in str(error)
        return False

    def _count_bounds(self):
        """Narrows sizes to those that give as many tensors as in the example."""
        groups = self._count_symbols()
        for s in dict.fromkeys(s for group in groups for s in sorted(group)):
            hint, low, high = self.hint_of[s], max(self.lower[s], 2), self.upper[s]
            above = [n for n in [*range(hint + 1, hint + 33), *(hint * k for k in (*range(2, 9), 16, 64))] if high is None or n <= high]
            below = list(range(hint - 1, max(low, hint - 256) - 1, -1))
            most, least = (next((n for n in tried if self._gives_another_count(s, n)), None) for tried in (sorted(above), below))
            if most is None and least is None:
                continue
            if any(s in group and len(group) > 1 for group in groups):
                self._fix(s)
                continue
            good = hint
            while most is not None and most - good > 1:
                middle = (good + most) // 2
                good, most = (good, middle) if self._gives_another_count(s, middle) else (middle, most)
            for test, n in ((">=", None if least is None else least + 1), ("<=", None if most is None else most - 1)):
                if n is not None:
                    condition = Condition(Size.symbol(s), test, Size.of(n))
                    self._bound(condition)
                    self._note(condition)

    def _plain(self, condition):
        return condition.subs({s: self.value(s) for s in [*condition.left.free_symbols, *condition.right.free_symbols]})

    # --- results ---

    def solve(self):
        """Finds symbols and conditions; raises where a size that must vary cannot."""
        self.hint_of, self.roots = {}, {}
        self._number_dims()
        self._use_dims()
        self._check_small()
        self._add_values()
        self._check_counts()
        if not self.dims:
            self._use_guards()
            return
        self._probe()
        self._use_guards()
        self._divisors()
        self._bounds()
        self._count_bounds()
        from ._violations import check
        check(self)

    def _check_small(self):
        small = [d for d in self.all_dims if not d.varies and d.wanted]
        hints = [d for d in small if d.is_hint]
        if hints:
            lines = [f"- Received user-specified dim hint Dim.DYNAMIC(min={d.spec.min}, max={d.spec.max}), but export 0/1 specialized "
                     f"due to hint of {d.hint} for dimension inputs{d.leaf.source.removeprefix('L')}.shape[{d.dim}]." for d in hints]
            raise ValueError("Found the following conflicts between user-specified ranges and inferred ranges from model tracing:\n"
                             + "\n".join(lines))
        if small:
            names = ", ".join(dict.fromkeys(d.name for d in small))
            lines = [_SPECIALIZED.format(d.name, d.hint) for d in {d.name: d for d in small}.values()]
            fixes = [f"  {name} = {d.hint}" for name, d in {d.name: d for d in small}.items()]
            raise UserError(f"Constraints violated ({names})! {_MORE}\n" + "\n".join(lines) + "\nSuggested fixes:\n" +
                            "\n".join(fixes))

    def _value_numbers(self):
        return self.values.numbers(self.values.trace.recorder)

    def _add_values(self):
        """Adds the symbols that depend on elements, and equalities with sizes that the program states."""
        for s in self.values.symbols.values():
            self.hint_of[s.name] = s.hint
            self.lower[s.name], self.upper[s.name] = s.lower, s.upper

    def sizes(self):
        """{number of the recording: Size} for sizes of inputs, and numbers that depend on elements."""
        return {**{d.number: self.expr(d) for d in self.dims}, **self._value_numbers()}

    def hints(self):
        return dict(self.hint_of)

    def bounds(self):
        return {s: (self.lower[s] or 0, self.upper[s]) for s in self.hint_of}

    def ranges(self):
        """{expression: ValueRange} for the sizes that vary."""
        out = {}
        for d in self.dims:
            e = self.expr(d)
            if e.is_number:
                continue
            if not e.is_symbol and e not in out:
                known = d.symbol in self.related and d.is_hint
                out[e] = ValueRange(e.at(self.lower), self._most(e)) if known else ValueRange(d.bounds[0], d.bounds[1])
            for s in e.free_symbols:
                if s not in self.roots.values():
                    out.setdefault(Size.symbol(s), ValueRange(self.lower[s], self.upper[s]))
        out.update((Size.symbol(s), ValueRange(self.lower[s], self.upper[s])) for s in self.roots.values())
        out.update({s.expr: ValueRange(s.lower, s.upper) for s in self.values.symbols.values()})
        return out

    def _most(self, e):
        highs = {s: self.upper[s] for s in e.free_symbols}
        return None if None in highs.values() else e.at(highs)

    def guards(self):
        """The conditions as texts over sizes of arguments, which module() checks."""
        source = {d.symbol: d.source for d in self.dims}
        source.update({name: root for root, name in self.roots.items()})
        out = [c.text(lambda s: source.get(s, s)) for c in [*self.found, *self.conditions]]
        return list(dict.fromkeys(out))
